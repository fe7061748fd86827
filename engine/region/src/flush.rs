//! Flush: memory becomes files.
//!
//! 1. Under the write lock every store's active segment and pipeline become its snapshot, and a new segment takes their
//!    place: a swap of pointers. From here on new writes go elsewhere.
//! 2. The writes in the snapshots are made durable in the log and complete: a file holds nothing that a reader may not
//!    see, and nothing that the log has not.
//! 3. Each store's snapshot streams into a file at its final name. For the sake of memory alone, what was rewritten may stay:
//!    it is copied into a segment of its own meanwhile (see [`retained`](crate::retained_rows)).
//! 4. The store's list is replaced; from then on the file exists. The view drops the snapshot, and has what stayed.
//! 5. The log is told what it need not keep.
//!
//! When 2, 3 or 4 fails, the snapshot stays and is flushed, together with what came since, by the next flush.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cache::Kinds;
use cell::{KeyBuf, SequenceId};
use hfile::{StoreFileInfo, Writer};
use memstore::{Cleaning, Pool, Segment};
use storage::FileName;
use wal::Kind;

use crate::commit::Commit;
use crate::compaction_matcher::{CompactionMatcher, CompactionScope};
use crate::dropped_markers::DroppedMarkers;
use crate::heap::{Heap, Source};
use crate::markers::change;
use crate::memory::MemoryAct;
use crate::mvcc::Awaits;
use crate::open_files::PinnedFile;
use crate::region::Region;
use crate::retained_rows::Allowance;
use crate::store::{Sealed, Store, View};
use crate::store_file::{FileOpener, StoreFile};
use crate::tracker::Listed;
use crate::{Error, Result};

/// Why a region is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// Somebody asked for it.
    Requested,
    /// Its memory is full, or it takes too much of the server's: the one reason for which something may stay in memory.
    MemstoreSize,
    /// The server refuses writes until it has memory.
    MemoryShort,
    /// Its edits are old, or hold back the log.
    Periodic,
    /// It closes.
    Closing,
}

/// What a flush did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Files it made.
    pub files: usize,
    /// Bytes of those.
    pub bytes: u64,
    /// Cells in them.
    pub cells: u64,
    /// Everything up to and with this one is in files now.
    pub sequence: SequenceId,
    /// Bytes that have stayed in memory, of cells after it.
    pub stayed: u64,
}

/// What a flush of a store did.
struct StoreFlushed {
    file: Option<Arc<StoreFile>>,
    /// Everything up to and with this one is in files.
    through: SequenceId,
    /// Bytes that have stayed in memory.
    stayed: u64,
}

/// A new file.
pub(crate) struct NewFile {
    pub(crate) file: Arc<StoreFile>,
    /// The blocks of cells that lay in the cache, and what is needed to find them: see [`hfile::Written::warm`].
    pub(crate) warm: Vec<(u64, u32)>,
    /// Keeps the janitor from it until a list names it.
    pub(crate) pin: PinnedFile,
}

impl Region {
    /// Writes memory out. Other flushes of the region wait; reads and writes go on.
    pub fn flush(&self, reason: FlushReason) -> Result<Flushed> {
        self.check_serving()?;
        self.flush_stores(&[], reason)
    }

    /// Writes the memory of some families out; of all when none is named.
    pub fn flush_families(&self, families: &[Bytes]) -> Result<Flushed> {
        self.check_serving()?;
        for family in families {
            self.store(family)?;
        }
        self.flush_stores(families, FlushReason::Requested)
    }

    pub(crate) fn flush_stores(&self, families: &[Bytes], reason: FlushReason) -> Result<Flushed> {
        self.check_owner()?;
        let _alone = self.flushing.lock();
        let began = self.world.now();
        let chosen =
            || self.stores.iter().filter(|store| families.is_empty() || families.contains(&store.family));
        let (sequence, ticket, unlogged, level) = {
            let state = self.write.lock();
            for store in chosen() {
                store.begin_flush(&self.options.memory, self.sealed(state.last_sequence));
            }
            if families.is_empty() {
                self.memstore.oldest_edit.store(0, Ordering::Relaxed);
            }
            (state.last_sequence, state.last_ticket, state.last_unlogged, self.level_awaited(&state))
        };
        if let Some(ticket) = ticket {
            self.log.sync_blocking(ticket, level).map_err(|error| {
                if error.passes() { Error::from(error) } else { self.abort(error.to_string()) }
            })?;
            self.mvcc.complete_through(sequence, Awaits::Log(level));
        }
        let mut flushed = Flushed { sequence, ..Flushed::default() };
        let to_flush = || chosen().filter(|store| !store.view.load().snapshot.is_empty());
        let stores: Vec<_> = to_flush().map(|store| change(store, &[], &[])).collect();
        if !stores.is_empty() {
            self.mark(Kind::FlushStart, sequence, stores);
        }
        for store in chosen() {
            let done = self.flush_store(store, sequence, self.allowance(store, reason, unlogged));
            // The stores before this one are committed.
            let done = done.inspect_err(|_| {
                self.mark(
                    Kind::FlushAbort,
                    sequence,
                    to_flush().map(|store| change(store, &[], &[])).collect(),
                );
            })?;
            if let Some(file) = done.file {
                self.mark(Kind::FlushCommit, done.through, vec![change(store, &[Arc::clone(&file)], &[])]);
                flushed.files += 1;
                flushed.bytes += file.size();
                flushed.cells += file.reader.entries();
                self.account.flushed(file.size());
            }
            if !env::planted(17) {
                flushed.sequence = flushed.sequence.min(done.through);
            }
            flushed.stayed += done.stayed;
        }
        if env::planted(18) {
            let written = self.write.lock().last_sequence;
            self.log.flushed(self.info.encoded_name().as_str().as_bytes(), written);
        }
        if families.is_empty() {
            let before = self.memstore.flushed_at.swap(began.0, Ordering::Relaxed);
            if flushed.stayed > 0 {
                // What stayed was written after the flush before this one.
                self.memstore.oldest_edit.store(before, Ordering::Relaxed);
            }
            // What other families have in memory is still needed; each family's files say how far it is in them.
            self.log.flushed(self.info.encoded_name().as_str().as_bytes(), flushed.sequence);
        }
        Ok(flushed)
    }

    /// How much of a store's snapshot may stay in memory.
    fn allowance(&self, store: &Store, reason: FlushReason, unlogged: SequenceId) -> Option<Allowance> {
        let tuning = store.tuning.load();
        let part = tuning.flush_keeps.clamp(0.0, 1.0);
        let may_stay = reason == FlushReason::MemstoreSize
            && part > 0.0
            && store.accordion.is_adaptive()
            && store.scan_info.max_versions == 1
            && !store.scan_info.new_versions;
        if !may_stay {
            return None;
        }
        let of =
            |store: &Store| store.view.load().snapshot.iter().map(|segment| segment.bytes()).sum::<u64>();
        let (bytes, all) = (of(store), self.stores.iter().map(of).sum::<u64>());
        // What came in excess of what the region may hold goes.
        let fits = (self.flush_limit(0.0) as f64 / all.max(1) as f64).min(1.0);
        Some(Allowance {
            bytes: (bytes as f64 * fits * part) as u64,
            gain_min: tuning.flush_keeps_gain_min,
            floor: unlogged,
        })
    }

    fn flush_store(
        &self,
        store: &Store,
        sequence: SequenceId,
        allowance: Option<Allowance>,
    ) -> Result<StoreFlushed> {
        let (snapshot, dropped_markers) = {
            let view = store.view.load();
            (view.snapshot.clone(), view.dropped_of_snapshot.clone())
        };
        if snapshot.is_empty() {
            return Ok(StoreFlushed { file: None, through: sequence, stayed: 0 });
        }
        let (began, now) = (self.world.moment(), self.world.now());
        let rewrite = || CompactionMatcher::new(store.scan_info, CompactionScope::Some, now.0);
        let split = allowance
            .filter(|_| Segment::fit_one(&snapshot))
            .and_then(|allowance| store.accordion.split(&snapshot, sequence, allowance, rewrite()));
        let through = split.as_ref().map_or(sequence, |split| split.through);
        let codec = store.options.compression.as_str();
        let info = StoreFileInfo { max_sequence: through, major: false, more: dropped_markers.fact() };
        let mut retained = None;
        let made = match &split {
            Some(split) => self.write_file_by(store, codec, info, |writer| {
                let (mut fate, mut written) = (split.fates(), Ok(()));
                retained = Segment::compacted(&snapshot, &self.options.memory, Cleaning::ALL, |cell| {
                    let (goes, stays) = fate(cell);
                    if goes && written.is_ok() {
                        written = writer.append(cell);
                    }
                    stays
                });
                Ok(written?)
            })?,
            None => {
                let memory =
                    |segment: &Arc<Segment>| Source::Memory(memstore::Cursor::new(Arc::clone(segment)));
                let heap =
                    Heap::new(store.comparator, SequenceId::MAX, snapshot.iter().map(memory).collect());
                self.write_file(store, heap, rewrite(), codec, info, &mut |_| {})?
            }
        };
        let file = made.file;
        let cached = file.reader.cached();
        // What cannot be read back is told to whoever asks for it.
        let _read = file.reader.warm(cached.kept_of_flush(), true);
        // What is read of the file before will soon be read of this one, too; not here if the region closes.
        let closes = self.write.lock().closing;
        if !closes && store.view.load().files.last().is_some_and(|file| file.reader.cached().is_being_read())
        {
            let _read = file.reader.warm(Kinds::ALL, false);
        }
        let retained = retained.map(|retained| Arc::new(retained.segment));
        let stayed = split.as_ref().map_or(0, |split| split.bytes);
        if env::planted(16) {
            store.change_view(|view| View { snapshot: Vec::new(), ..view.clone() });
        }
        let commit = Commit {
            remove: &[],
            add: vec![Arc::clone(&file)],
            view: &|view| View {
                // It is older than what was sealed since.
                pipeline: view.pipeline.iter().chain(&retained).cloned().collect(),
                snapshot: Vec::new(),
                dropped_of_snapshot: DroppedMarkers::default(),
                horizon: view.horizon.max(sequence),
                ..view.clone()
            },
            while_closing: true,
        };
        self.commit(store, commit)?;
        drop(made.pin);
        let kept = retained.zip(split).map(|(retained, split)| {
            self.event(MemoryAct::Kept, &snapshot, &retained, Some(split.expected), began, true)
        });
        store.accordion.flush_done(sequence, stayed, kept);
        Ok(StoreFlushed { file: Some(file), through, stayed })
    }

    /// Streams `heap` through `rewrite` into a new file, and opens it. Where nothing is left to write the file has no
    /// cells, but it still says up to which sequence id the store is in files: without it the log's records of what
    /// was deleted would count again after a crash, and sequence ids would begin anew.
    pub(crate) fn write_file(
        &self,
        store: &Store,
        mut heap: Heap,
        mut rewrite: CompactionMatcher,
        codec: &str,
        info: StoreFileInfo,
        progress: &mut dyn FnMut(u64),
    ) -> Result<NewFile> {
        self.write_file_by(store, codec, info, |writer| {
            heap.seek(KeyBuf::first_on_row(b"").position())?;
            let mut read = 0u64;
            while let Some(cell) = heap.peek() {
                if rewrite.keeps(cell) {
                    heap.fetch_ahead();
                    writer.append(cell)?;
                    if heap.lay_in_cache() {
                        writer.mark_warm();
                    }
                }
                heap.advance()?;
                read += 1;
                if read.is_multiple_of(1024) {
                    progress(1024);
                }
            }
            progress(read % 1024);
            Ok(())
        })
    }

    /// Makes a file of what `write` writes, and opens it.
    fn write_file_by(
        &self,
        store: &Store,
        codec: &str,
        info: StoreFileInfo,
        write: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<NewFile> {
        let name = format!("{:016x}{:016x}", self.world.random(), self.world.random());
        let path = store.folder.join(&name);
        self.check_owner()?;
        let pin = self.options.open_files.pin(&path);
        let pin = pin.ok_or_else(|| Error::Broken(format!("the new name {path} is taken")))?;
        let mut writer = self.begin_file(store, &path, codec)?;
        if let Err(error) = write(&mut writer) {
            writer.abandon();
            return Err(error);
        }
        let written = match writer.finish(info) {
            Ok(written) => written,
            Err(error) => {
                // Nothing names it: if it cannot be removed now it is when the region is opened.
                let _left = self.files.delete(&path);
                return Err(error.into());
            }
        };
        let opener = FileOpener {
            files: &*self.files,
            cache: &self.cache,
            caching: &Store::caching(&self.info, &store.options),
            open_files: &self.options.open_files,
        };
        let listed = Listed { name, size: written.size, reference: None };
        let file = Arc::new(StoreFile::open(&opener, &store.folder, listed)?);
        Ok(NewFile { file, warm: written.warm, pin })
    }

    fn begin_file(&self, store: &Store, path: &FileName, codec: &str) -> Result<Writer> {
        let file = self.files.create(path)?;
        Ok(Writer::create(file, path.clone(), store.writer_options(codec, true, self.world.now().0)))
    }

    /// Flushes and refuses everything from then on. Closing twice succeeds.
    pub fn close(&self) -> Result<Flushed> {
        if self.lifecycle.closed.load(Ordering::Acquire) {
            return Ok(Flushed::default());
        }
        if let Some(cause) = self.lifecycle.aborted.get().cloned() {
            self.lifecycle.closed.store(true, Ordering::Release);
            return Err(Error::Aborted(cause));
        }
        self.write.lock().closing = true;
        if self.check_owner().is_err() {
            self.lifecycle.closed.store(true, Ordering::Release);
            return Ok(Flushed::default());
        }
        // A compaction that was about to replace files has done so when its lock is free; later ones see the mark.
        for store in &self.stores {
            drop(store.tracker.lock());
        }
        let flushed = self.flush_stores(&[], FlushReason::Closing);
        match &flushed {
            Ok(_) => {
                self.lifecycle.closed.store(true, Ordering::Release);
                self.mark(Kind::RegionClose, self.write.lock().last_sequence, self.all_files());
                let files = |store: &Store| store.view.load().files.clone();
                self.stores.iter().flat_map(files).for_each(|file| file.reader.cached().close());
            }
            // What could not be flushed stays in the log; the region serves on, so that it can be tried again.
            Err(_) => self.write.lock().closing = false,
        }
        flushed
    }
}

impl Store {
    /// Makes the active segment and the pipeline part of the snapshot, before what an earlier flush has left.
    fn begin_flush(&self, memory: &Arc<Pool>, sealed: Sealed) {
        let view = self.view.load_full();
        if view.active.is_empty() && view.pipeline.is_empty() {
            return;
        }
        let active = Arc::new(view.active.successor(memory));
        self.change_view(|view| View {
            active: Arc::clone(&active),
            pipeline: Vec::new(),
            snapshot: view.segments().cloned().collect(),
            sealed,
            dropped_markers: DroppedMarkers::default(),
            dropped_of_snapshot: DroppedMarkers::merged([&view.dropped_markers, &view.dropped_of_snapshot]),
            ..view.clone()
        });
        self.accordion.flushed();
    }

    /// Puts a new view in the place of the old one, whoever else does so at the same time.
    pub(crate) fn change_view(&self, change: impl Fn(&View) -> View) {
        self.view.rcu(|view| change(view));
    }
}
