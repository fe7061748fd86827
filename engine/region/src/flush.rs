//! Flush: writes memory to files.
//!
//! 1. Under the write lock every store's active segment and pipeline become its snapshot, and a new segment replaces
//!    them. This only swaps pointers; new writes go to the new segment.
//! 2. The flush makes the writes in the snapshots durable in the log, and completes them. So no file has a cell that a
//!    reader may not see yet. The log has every cell of the file, except those of writes that are not logged.
//! 3. Each store's snapshot is written to a file at its final name, or to one file for each stripe of the store. A
//!    flush that only frees memory may retain rewritten rows, which it copies into a segment of their own (see
//!    [`retained_rows`](crate::retained_rows)).
//! 4. The store's file list is replaced; from then on the file counts. The new view has the retained segment in place
//!    of the snapshot.
//! 5. The log is told up to which sequence id the region no longer needs its records.
//!
//! If step 2, 3 or 4 fails, the snapshot stays, and the next flush writes it together with newer cells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cell::{SequenceId, Timestamp};
use env::sync::MutexGuard;
use hfile::StoreFileInfo;
use memstore::{Cleaning, Pool, Segment};
use wal::Kind;

use crate::accordion::MemoryAct;
use crate::commit::Commit;
use crate::compaction_matcher::{CompactionMatcher, CompactionScope};
use crate::compaction_policy::OutputLayout;
use crate::compaction_policy::stripe::layout_of_flush;
use crate::dropped_markers::DroppedMarkers;
use crate::heap::{Heap, Source};
use crate::markers::change;
use crate::mob::output::MobPlan;
use crate::mvcc::Awaits;
use crate::new_file::{BlocksToCache, NewFilePlan};
use crate::region::{Region, WriteState};
use crate::retained_rows::Allowance;
use crate::store::Store;
use crate::store_file::StoreFile;
use crate::view::{Sealed, View};
use crate::{Error, FlushReason, Result};

/// The result of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Number of files written.
    pub files: usize,
    /// Number of bytes written.
    pub bytes: u64,
    /// Number of cells written.
    pub cells: u64,
    /// The sequence id up to which all writes of the flushed stores are in files.
    pub sequence: SequenceId,
    /// Number of bytes retained in memory, of cells after that sequence id.
    pub retained_bytes: u64,
}

/// The result of flushing one store.
struct StoreFlushed {
    /// The new files; more than one only if the store has stripes.
    files: Vec<Arc<StoreFile>>,
    /// The sequence id up to which all writes of the store are in files.
    through: SequenceId,
    /// Number of bytes retained in memory.
    retained_bytes: u64,
}

impl Region {
    /// Writes all memory to files, for the given reason. With [`FlushReason::MemstoreSize`] some rows may be retained
    /// in memory. Other flushes of the region wait; reads and writes continue.
    pub fn flush(&self, reason: FlushReason) -> Result<Flushed> {
        self.check_serving()?;
        self.flush_stores(&[], reason)
    }

    /// Writes the memory of `families` to files; of all families if the list is empty.
    pub fn flush_families(&self, families: &[Bytes]) -> Result<Flushed> {
        self.check_serving()?;
        for family in families {
            self.store(family)?;
        }
        self.flush_stores(families, FlushReason::Requested)
    }

    pub(crate) fn flush_stores(&self, families: &[Bytes], reason: FlushReason) -> Result<Flushed> {
        let alone = self.flushing.lock();
        self.flush_alone(&alone, families, reason, &mut |_| {})
    }

    /// Flushes, while the caller prevents other flushes. Calls `reserve` under the write lock, right after the
    /// snapshots were taken: so no write has a sequence id between the last flushed write and the ids that `reserve`
    /// takes.
    pub(crate) fn flush_alone(
        &self,
        _alone: &MutexGuard<'_, ()>,
        families: &[Bytes],
        reason: FlushReason,
        reserve: &mut dyn FnMut(&mut WriteState),
    ) -> Result<Flushed> {
        self.check_owner()?;
        let began = self.world.now();
        let chosen =
            || self.stores.iter().filter(|store| families.is_empty() || families.contains(&store.family));
        let (sequence, ticket, unlogged, level) = {
            let mut state = self.write.lock();
            for store in chosen() {
                store.begin_flush(&self.options.memory, self.sealed(state.last_sequence));
            }
            if families.is_empty() {
                self.memstore.oldest_edit.store(0, Ordering::Relaxed);
            }
            let level = self.level_awaited(&state);
            let taken = (state.last_sequence, state.last_ticket, state.last_unlogged, level);
            reserve(&mut state);
            taken
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
            let _nobody_waits = self.mark(Kind::FlushStart, sequence, stores);
        }
        for store in chosen() {
            let done = self.flush_store(store, sequence, self.allowance(store, reason, unlogged));
            // If a later store fails, the stores that were flushed before it keep their new files.
            let done = done.inspect_err(|_| {
                let _nobody_waits = self.mark(
                    Kind::FlushAbort,
                    sequence,
                    to_flush().map(|store| change(store, &[], &[])).collect(),
                );
            })?;
            for file in done.files {
                flushed.files += 1;
                flushed.bytes += file.size();
                flushed.cells += file.reader.entries();
                self.account.flushed(file.size());
            }
            if !env::planted(17) {
                flushed.sequence = flushed.sequence.min(done.through);
            }
            flushed.retained_bytes += done.retained_bytes;
        }
        if env::planted(18) {
            let written = self.write.lock().last_sequence;
            self.log.flushed(self.info.encoded_name().as_str().as_bytes(), written);
        }
        if families.is_empty() {
            let before = self.memstore.flushed_at.swap(began.0, Ordering::Relaxed);
            if flushed.retained_bytes > 0 {
                // All retained cells were written after the previous flush, so none is older than that flush.
                self.memstore.oldest_edit.store(before, Ordering::Relaxed);
            }
            // The log must keep the records that any store still has in memory only. So the smallest of the stores'
            // sequence ids counts.
            self.log.flushed(self.info.encoded_name().as_str().as_bytes(), flushed.sequence);
        }
        Ok(flushed)
    }

    /// Returns how much of a store's snapshot may be retained; `None` for nothing.
    fn allowance(&self, store: &Store, reason: FlushReason, unlogged: SequenceId) -> Option<Allowance> {
        let tuning = store.tuning.load();
        let part = tuning.flush_keeps.clamp(0.0, 1.0);
        let may_stay = reason == FlushReason::MemstoreSize
            && part > 0.0
            && store.accordion.is_adaptive()
            && store.scan_info().max_versions == 1
            && !store.scan_info().new_versions
            // In a store with stripes nothing is retained: while rows are retained, no compaction may drop delete
            // markers of a stripe.
            && !store.has_stripes();
        if !may_stay {
            return None;
        }
        let of =
            |store: &Store| store.view.load().snapshot.iter().map(|segment| segment.bytes()).sum::<u64>();
        let (bytes, all) = (of(store), self.stores.iter().map(of).sum::<u64>());
        // If the region's memory is beyond its limit, only a part is retained that fits the limit.
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
        let (snapshot, dropped_markers, keeps_markers) = {
            let view = store.view.load();
            (view.snapshot.clone(), view.dropped_of_snapshot.clone(), view.keeps_markers)
        };
        // If the log may bring back cells whose markers are in files, a file without cells makes the log's records useless.
        if snapshot.is_empty() && !keeps_markers {
            return Ok(StoreFlushed { files: Vec::new(), through: sequence, retained_bytes: 0 });
        }
        let (began, now) = (self.world.moment(), self.world.now());
        let (scan_info, options) = (store.scan_info(), store.options());
        let rewrite = || CompactionMatcher::new(scan_info, CompactionScope::Some, now.0);
        let mob = options.is_mob.then(|| MobPlan {
            threshold: Some(options.mob_threshold),
            rewrites: false,
            file_bytes_max: None,
            newest: snapshot
                .iter()
                .filter_map(|segment| segment.timestamps())
                .map(|(_, newest)| newest)
                .max()
                .unwrap_or(Timestamp::OLDEST),
        });
        // A MOB family, whose values are large, retains nothing in memory.
        let split = allowance
            .filter(|_| mob.is_none() && !snapshot.is_empty() && Segment::fit_one(&snapshot))
            .and_then(|allowance| store.accordion.split(&snapshot, sequence, allowance, rewrite()));
        let through = split.as_ref().map_or(sequence, |split| split.through);
        let codec = options.compression.as_str();
        let info = StoreFileInfo { max_sequence: through, major: false, more: dropped_markers.fact() };
        // If requests are reading the newest file of the store, they will soon read the new files, too. Then the blocks of the
        // new files are cached as far as there is room, unless the region closes.
        let is_newest_read =
            || store.view.load().files.last().is_some_and(|file| file.reader.cached().is_being_read());
        let closes = self.write.lock().closing;
        let blocks_to_cache = BlocksToCache::OfFlush { into_room: !closes && is_newest_read() };
        let mut retained = None;
        let made = match &split {
            Some(split) => vec![self.write_file_by(store, codec, info, blocks_to_cache, |writer| {
                let (mut fate, mut written) = (split.fates(), Ok(()));
                retained = Segment::compacted(&snapshot, &self.options.memory, Cleaning::ALL, |cell| {
                    let (goes, stays) = fate(cell);
                    if goes && written.is_ok() {
                        written = writer.append(cell);
                    }
                    stays
                });
                Ok(written?)
            })?],
            None => {
                let cells = snapshot.iter().map(|segment| segment.cells()).sum();
                let layout = match store.stripes(&store.view.load().files) {
                    Some(stripes) => layout_of_flush(&stripes, &store.tuning.load().stripe, cells),
                    None => OutputLayout::One,
                };
                let layout = &layout;
                let plan = NewFilePlan { codec, info, layout, kept_stripes: None, mob, blocks_to_cache };
                let memory =
                    |segment: &Arc<Segment>| Source::Memory(memstore::Cursor::new(Arc::clone(segment)));
                let heap =
                    Heap::new(store.comparator, SequenceId::MAX, snapshot.iter().map(memory).collect());
                self.write_flush(store, heap, rewrite(), &plan)?
            }
        };
        let files: Vec<Arc<StoreFile>> = made.iter().map(|made| Arc::clone(&made.file)).collect();
        let retained = retained.map(|retained| Arc::new(retained.segment));
        let retained_bytes = split.as_ref().map_or(0, |split| split.bytes);
        // Replay brings back the cells after `through` that the files lack, and not the markers that they have. A flush
        // during replay may write such markers without retaining anything.
        let keeps_markers = split.is_some() || files.iter().any(|file| file.newest_sequence() > through);
        if env::planted(16) {
            store.change_view(|view| View { snapshot: Vec::new(), ..view.clone() });
        }
        let commit = Commit {
            remove: &[],
            add: files.clone(),
            are_oldest: false,
            view: &|view| View {
                // In the pipeline, which is ordered from new to old, the retained segment comes after segments that
                // were sealed since.
                pipeline: view.pipeline.iter().chain(&retained).cloned().collect(),
                snapshot: Vec::new(),
                dropped_of_snapshot: DroppedMarkers::default(),
                keeps_markers,
                horizon: view.horizon.max(sequence),
                ..view.clone()
            },
            while_closing: true,
            marker: Some((Kind::FlushCommit, through)),
        };
        self.commit(store, commit)?;
        drop(made);
        let kept = retained.zip(split).map(|(retained, split)| {
            self.event(MemoryAct::Kept, &snapshot, &retained, Some(split.expected), began, true)
        });
        store.accordion.flush_done(sequence, retained_bytes, kept);
        Ok(StoreFlushed { files, through, retained_bytes })
    }

    /// Flushes the region, and makes it refuse all further requests. Closing a closed region succeeds and does nothing.
    /// If the flush fails, the region stays open.
    ///
    /// An aborted region is closed without a flush, and the result is [`Error::Aborted`]. A region whose store belongs to
    /// another server by now, or that was opened for reading only, is closed without a flush.
    ///
    /// A region that was [closed without a flush](Region::close_unflushed) is flushed now. If that fails, it stays as it is.
    pub fn close(&self) -> Result<Flushed> {
        let is_unflushed = self.lifecycle.unflushed.load(Ordering::Acquire);
        if self.lifecycle.closed.load(Ordering::Acquire) && !is_unflushed {
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
        // Waits until running compactions have replaced their files. Compactions that begin later find `closing` set,
        // and stop.
        for store in &self.stores {
            drop(store.tracker.lock());
        }
        let flushed = self.flush_stores(&[], FlushReason::Closing);
        match &flushed {
            Ok(_) => {
                self.lifecycle.closed.store(true, Ordering::Release);
                self.lifecycle.unflushed.store(false, Ordering::Release);
                // This is a statement of its own, so that the write lock is released before the next line. `all_files`
                // waits for a store's list, whose holder may wait for the write lock.
                let last_sequence = self.write.lock().last_sequence;
                let _nobody_waits = self.mark(Kind::RegionClose, last_sequence, self.all_files());
                let files = |store: &Store| store.view.load().files.clone();
                self.stores.iter().flat_map(files).for_each(|file| file.reader.cached().close());
            }
            Err(_) if is_unflushed => {}
            // The unflushed writes stay in the log. The region serves requests again, so that the caller can try again
            // to close it.
            Err(_) => {
                self.write.lock().closing = false;
                self.lifecycle.closes_soon.store(false, Ordering::Release);
            }
        }
        flushed
    }

    /// Makes the region refuse all further requests, and keeps its memory, because there is no room for a flush. The caller
    /// keeps the region, and [closes](Region::close) it before anything else is done with its folder. The log keeps the
    /// region's records: if the process ends before that, the next opening replays them.
    ///
    /// Returns `false`, and does nothing, if the region is closed, was aborted, or was opened for reading only.
    pub fn close_unflushed(&self) -> bool {
        if self.check_serving().is_err() || self.check_owner().is_err() {
            return false;
        }
        // From now on no write gets a sequence id. Those that have one are in the log's buffer and in memory.
        self.write.lock().closing = true;
        self.lifecycle.unflushed.store(true, Ordering::Release);
        self.lifecycle.closed.store(true, Ordering::Release);
        true
    }
}

impl Store {
    /// Moves the active segment and the pipeline into the snapshot. Segments that a failed flush has left in the
    /// snapshot stay there.
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

    /// Replaces the view by the result of `change`, which is repeated if another thread changes the view at the same
    /// time.
    pub(crate) fn change_view(&self, change: impl Fn(&View) -> View) {
        self.view.rcu(|view| change(view));
    }
}
