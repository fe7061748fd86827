//! Flush: memory becomes files.
//!
//! 1. Under the write lock every store's active segment and pipeline become its snapshot, and a new segment takes their
//!    place: a swap of pointers. From here on new writes go elsewhere.
//! 2. The writes in the snapshots are made durable in the log and complete: a file holds nothing that a reader may not
//!    see, and nothing that the log has not.
//! 3. Each store's snapshot streams into a file at its final name.
//! 4. The store's list is replaced; from then on the file exists. The view drops the snapshot.
//! 5. The log is told what it need not keep.
//!
//! When 2, 3 or 4 fails, the snapshot stays and is flushed, together with what came since, by the next flush.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cell::{KeyBuf, SequenceId};
use hfile::{Reader, StoreFileInfo, Writer};
use memstore::Pool;
use storage::FileName;

use crate::heap::{Heap, Source};
use crate::mvcc::Awaits;
use crate::open::remove_unnamed;
use crate::region::Region;
use crate::rewrite::{Rewrite, RewriteKind};
use crate::store::{Sealed, Store, StoreFile, View};
use crate::swept::Swept;
use crate::tracker::Listed;
use crate::{Error, Result};

/// Why a region is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// Somebody asked for it.
    Requested,
    /// Its memory is full, or it takes too much of the server's.
    MemstoreSize,
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
}

impl Region {
    /// Writes memory out. Other flushes of the region wait; reads and writes go on.
    pub fn flush(&self, _reason: FlushReason) -> Result<Flushed> {
        self.check_serving()?;
        self.flush_stores(&[])
    }

    /// Writes the memory of some families out; of all when none is named.
    pub fn flush_families(&self, families: &[Bytes]) -> Result<Flushed> {
        self.check_serving()?;
        for family in families {
            self.store(family)?;
        }
        self.flush_stores(families)
    }

    pub(crate) fn flush_stores(&self, families: &[Bytes]) -> Result<Flushed> {
        let _alone = self.flushing.lock();
        let chosen =
            || self.stores.iter().filter(|store| families.is_empty() || families.contains(&store.family));
        let (sequence, ticket) = {
            let state = self.write.lock();
            for store in chosen() {
                store.begin_flush(&self.options.memory, self.sealed(state.last_sequence));
            }
            if families.is_empty() {
                self.oldest_edit.store(0, Ordering::Relaxed);
            }
            (state.last_sequence, state.last_ticket)
        };
        if let Some(ticket) = ticket {
            let level = if self.options.sync_to_disk { wal::Level::Disk } else { wal::Level::Os };
            self.log.sync_blocking(ticket, level).map_err(|error| {
                if error.passes() { Error::from(error) } else { self.abort(error.to_string()) }
            })?;
            self.mvcc.complete_through(sequence, Awaits::Log(wal::Level::Disk));
        }
        let mut flushed = Flushed { sequence, ..Flushed::default() };
        for store in chosen() {
            if let Some(file) = self.flush_store(store, sequence)? {
                flushed.files += 1;
                flushed.bytes += file.listed.size;
                flushed.cells += file.reader.entries();
                self.account.flushed(file.listed.size);
            }
        }
        // What other families have in memory is still needed; each family's files say how far it is in them.
        if families.is_empty() {
            self.log.flushed(self.info.encoded_name().as_str().as_bytes(), sequence);
        }
        Ok(flushed)
    }

    fn flush_store(&self, store: &Store, sequence: SequenceId) -> Result<Option<Arc<StoreFile>>> {
        let (snapshot, swept) = {
            let view = store.view.load();
            (view.snapshot.clone(), view.swept_snapshot.clone())
        };
        if snapshot.is_empty() {
            return Ok(None);
        }
        let sources = snapshot.into_iter().map(|segment| Source::Memory(memstore::Cursor::new(segment)));
        let heap = Heap::new(store.comparator, SequenceId::MAX, sources.collect());
        let rewrite = Rewrite::new(store.keeping, RewriteKind::Some, self.world.now().0);
        let codec = store.options.compression.as_str();
        let info = StoreFileInfo { max_sequence: sequence, major: false, more: swept.fact() };
        let file = self.write_file(store, heap, rewrite, codec, info, &mut |_| {})?;
        // What cannot be read back is told to whoever asks for it.
        let _read = file.reader.warm(file.reader.cached().kept_of_flush(), true);
        let mut tracker = store.tracker.lock();
        let mut files = store.view.load().files.clone();
        files.push(Arc::clone(&file));
        let list: Vec<Listed> = files.iter().map(|file| file.listed.clone()).collect();
        tracker.replace(&list)?;
        store.change_view(|view| View {
            snapshot: Vec::new(),
            swept_snapshot: Swept::default(),
            files: files.clone(),
            horizon: view.horizon.max(sequence),
            ..view.clone()
        });
        Ok(Some(file))
    }

    /// Streams `heap` through `rewrite` into a new file, and opens it. Where nothing is left to write the file has no
    /// cells, but it still says up to which sequence id the store is in files: without it the log's records of what
    /// was deleted would count again after a crash, and sequence ids would begin anew.
    pub(crate) fn write_file(
        &self,
        store: &Store,
        mut heap: Heap,
        mut rewrite: Rewrite,
        codec: &str,
        info: StoreFileInfo,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Arc<StoreFile>> {
        let name = format!("{:016x}{:016x}", self.world.random(), self.world.random());
        let path = store.folder.join(&name);
        let mut writer = self.begin_file(store, &path, codec)?;
        let copied = (|| -> Result<()> {
            heap.seek(KeyBuf::first_on_row(b"").position())?;
            let mut read = 0u64;
            while let Some(cell) = heap.peek() {
                if rewrite.keeps(cell) {
                    writer.append(cell)?;
                }
                heap.advance()?;
                read += 1;
                if read.is_multiple_of(1024) {
                    progress(1024);
                }
            }
            progress(read % 1024);
            Ok(())
        })();
        if let Err(error) = copied {
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
        let file = self.files.open(&path)?;
        let caching = Store::caching(&self.info, &store.options);
        let reader = Reader::open(file, path, Arc::clone(&self.cache), caching)?;
        Ok(Arc::new(StoreFile::new(Listed { name, size: written.size }, reader)))
    }

    fn begin_file(&self, store: &Store, path: &FileName, codec: &str) -> Result<Writer> {
        let file = self.files.create(path)?;
        Ok(Writer::create(file, path.clone(), store.writer_options(codec, true, self.world.now().0)))
    }

    /// Removes files that no list names: those that a failed flush or compaction, or a failed deletion, has left. A store
    /// that is being flushed or compacted is left for another time, as its new file has no name yet. Says how many went.
    pub fn remove_unnamed_files(&self) -> Result<usize> {
        self.check_serving()?;
        let Some(_no_flush) = self.flushing.try_lock() else { return Ok(0) };
        let mut removed = 0;
        for store in &self.stores {
            let Some(_no_compaction) = store.compacting.try_lock() else { continue };
            let _list = store.tracker.lock();
            if self.write.lock().closing {
                return Ok(removed);
            }
            removed += remove_unnamed(&*self.files, &store.folder, &store.view.load().files)?;
        }
        Ok(removed)
    }

    /// Flushes and refuses everything from then on. Closing twice succeeds.
    pub fn close(&self) -> Result<Flushed> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(Flushed::default());
        }
        if let Some(cause) = self.aborted.get().cloned() {
            self.closed.store(true, Ordering::Release);
            return Err(Error::Aborted(cause));
        }
        self.write.lock().closing = true;
        // A compaction that was about to replace files has done so when its lock is free; later ones see the mark.
        for store in &self.stores {
            drop(store.tracker.lock());
        }
        let flushed = self.flush_stores(&[]);
        match &flushed {
            Ok(_) => {
                self.closed.store(true, Ordering::Release);
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
            swept: Swept::default(),
            swept_snapshot: Swept::merged([&view.swept, &view.swept_snapshot]),
            ..view.clone()
        });
        self.accordion.flushed();
    }

    /// Puts a new view in the place of the old one, whoever else does so at the same time.
    pub(crate) fn change_view(&self, change: impl Fn(&View) -> View) {
        self.view.rcu(|view| change(view));
    }
}
