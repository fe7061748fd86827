//! Compaction: writes several files of a store as one, or as one for each window of time or for each range of rows.
//!
//! 1. Files whose cells have all expired leave the store's list, if the configuration allows it
//!    (`hbase.store.delete.expired.storefile`). The newest file stays.
//! 2. The store's [policy](crate::compaction_policy) selects files.
//! 3. The files are merged into new ones, without cells that no reader can see.
//! 4. The store's list is replaced ([`Region::commit`]); readers that began earlier keep the old files.
//!
//! One compaction of a store runs at a time. It reports its progress to a [`CompactionMonitor`], which may slow it down
//! or end it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cell::{SequenceId, Timestamp, string_binary};
use hfile::{ReadOptions, ReadType, StoreFileInfo};

use crate::commit::Commit;
use crate::compaction_matcher::{CompactionMatcher, CompactionScope};
use crate::compaction_policy::stripe::{files_left, pressure, select_of_stripes};
use crate::compaction_policy::{
    FileFacts, Selection, SelectionRequest, expired_files, select, throttle_point,
};
use crate::dropped_markers::DroppedMarkers;
use crate::heap::{Heap, Source};
use crate::mob::output::MobPlan;
use crate::new_file::{BlocksToCache, NewFilePlan};
use crate::options::Access;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::StoreFile;
use crate::stripes::StripeRange;
use crate::view::View;
use crate::{Error, FlushReason, Result};

/// Maximum number of bytes that a compaction may still have to write when its region is about to close, so that it
/// completes: 10 MiB. By default HBase looks for a closing region after each 10 MB
/// (`hbase.hstore.close.check.interval`).
const LEFT_MAX: u64 = 10 << 20;

/// A client's request for compactions.
#[derive(Clone, Debug, Default)]
pub struct CompactionRequest {
    /// Whether a major compaction is requested, which takes all files of a store. It has no effect on a store with
    /// stripes.
    pub major: bool,
    /// The families to compact; empty for all.
    pub families: Vec<Bytes>,
}

/// A compaction of one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCompaction {
    /// The family of the store.
    pub family: Bytes,
    /// Whether a major compaction is requested, which takes all files of the store. It has no effect on a store with
    /// stripes.
    pub major: bool,
    /// Whether a client requested the compaction.
    pub is_user: bool,
    /// Whether the settings for off-peak hours apply (`hbase.hstore.compaction.ratio.offpeak`).
    pub off_peak: bool,
}

/// What a compaction of a store would do if it began now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Number of files that the compaction takes.
    pub files: usize,
    /// Size of the files that the compaction takes, in bytes.
    pub bytes: u64,
    /// Whether the compaction is a major one.
    pub major: bool,
    /// Whether the compaction is above the throttle point (`hbase.regionserver.thread.compaction.throttle`).
    pub is_large: bool,
    /// Number of files that the store may still get before flushes of the region are delayed; negative if it already
    /// has more.
    pub files_left: i64,
}

/// Watches a running compaction. Its methods are called by the thread that compacts.
pub trait CompactionMonitor: Sync {
    /// Called before the first cell is read, with the number of cells and bytes of the input files.
    fn begin(&self, _cells: u64, _bytes: u64) {}

    /// Called with the number of cells read and bytes written since the last call. May block to slow the compaction
    /// down. Returning `Break` ends the compaction without a change.
    fn advance(&self, _cells: u64, _bytes: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A monitor that watches nothing: the compaction is neither slowed down nor ended.
impl CompactionMonitor for () {}

/// Why a store's files are rewritten.
#[derive(Clone, Copy, Debug)]
enum Rewrite<'a> {
    /// A compaction: files are merged, and cells that no reader needs are dropped.
    Compaction(&'a StoreCompaction),
    /// A truncation: all rows are removed, and the result is one file without cells.
    Truncation,
}

impl Region {
    /// Whether a store has references, which are halves of another region's files. Such a region can be neither split
    /// nor merged before it is compacted.
    pub fn has_references(&self) -> bool {
        self.stores.iter().any(|store| store.view.load().files.iter().any(|file| file.is_half()))
    }

    /// Whether some store has files that its policy would compact without a request.
    pub fn needs_compaction(&self) -> bool {
        self.stores.iter().any(|store| self.plan_of(store, &StoreCompaction::of_system(store)).is_some())
    }

    /// Returns how close a store's number of files is to the limit at which flushes wait, for the store with the most
    /// files. 0 while no store has more files than a compaction needs, 1 at `hbase.hstore.blockingStoreFiles`, and more
    /// above. A store with stripes counts as at most 1, or as 2 if it has more files than that.
    pub fn compaction_pressure(&self) -> f64 {
        let pressure = |store: &Store| {
            let (tuning, files) = (store.tuning.load(), store.view.load().files.clone());
            if let Some(stripes) = store.stripes(&files) {
                return pressure(&stripes, files.len(), &tuning);
            }
            let files = files.len();
            let above = files.saturating_sub(tuning.compaction_files_min);
            let room = tuning.blocking_files.saturating_sub(tuning.compaction_files_min).max(1);
            above as f64 / room as f64
        };
        self.stores.iter().map(pressure).fold(0.0, f64::max)
    }

    /// Returns the effect that a compaction of a store would have now; `None` if there is nothing to compact, if the
    /// region has no such family, or if it was opened for reading.
    pub fn plan_compaction(&self, request: &StoreCompaction) -> Option<CompactionPlan> {
        self.plan_of(self.store(&request.family).ok()?, request)
    }

    fn plan_of(&self, store: &Store, request: &StoreCompaction) -> Option<CompactionPlan> {
        if self.access == Access::Reader {
            return None;
        }
        let (all, tuning) = (store.view.load().files.clone(), store.tuning.load());
        let expired = store.expired(&all, self.world.now().0);
        let stays = |file: &&Arc<StoreFile>| !expired.iter().any(|other| Arc::ptr_eq(file, other));
        let files: Vec<Arc<StoreFile>> = all.iter().filter(stays).cloned().collect();
        let selection = self.select(store, &files, request);
        let major = request.major && !store.has_stripes();
        let is_pointless = selection.is_empty() && expired.is_empty();
        // A major compaction flushes retained rows first, and so has a file to compact.
        if is_pointless && !(major && store.view.load().keeps_markers) {
            return None;
        }
        let bytes = selection.files.iter().map(|index| files[*index].size()).sum();
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let files_left = match store.stripes(&all) {
            Some(stripes) => files_left(&stripes, all.len(), tuning.blocking_files),
            None => count(tuning.blocking_files).saturating_sub(count(all.len())),
        };
        Some(CompactionPlan {
            files: selection.files.len(),
            bytes,
            major: selection.major || major,
            is_large: bytes > throttle_point(&tuning, self.flush_size),
            files_left,
        })
    }

    /// Carries out a client's request: compacts the requested stores, one after the other. Returns the number of files
    /// that were replaced or deleted. If one of the families does not exist, nothing is compacted.
    pub fn compact(&self, request: &CompactionRequest) -> Result<usize> {
        self.check_serving()?;
        for family in &request.families {
            self.store(family)?;
        }
        let is_asked =
            |store: &&Store| request.families.is_empty() || request.families.contains(&store.family);
        let mut taken = 0;
        for store in self.stores.iter().filter(is_asked) {
            let request =
                StoreCompaction { is_user: true, major: request.major, ..StoreCompaction::of_system(store) };
            taken += self.compact_store(store, &request, &())?;
        }
        Ok(taken)
    }

    /// Waits until running compactions end. To be called shortly before the region closes. From this call on no
    /// compaction begins, unless the closing fails and the region stays open. One that still has more than [`LEFT_MAX`]
    /// bytes to write fails with [`Error::NotServing`]; smaller ones complete.
    ///
    /// Closing alone ends every compaction. A region that is closed and opened again every second would never complete
    /// one, and the number of its files would grow without limit.
    pub fn end_compactions(&self) {
        self.lifecycle.closes_soon.store(true, Ordering::Release);
        for store in &self.stores {
            drop(store.compacting.lock());
        }
    }

    /// Returns whether compactions have been [ended](Region::end_compactions), because the region closes soon; `false`
    /// again after the closing has failed.
    pub fn closes_soon(&self) -> bool {
        self.lifecycle.closes_soon.load(Ordering::Acquire)
    }

    /// Compacts one store. Returns the number of files that were replaced or deleted, which may be 0. If `monitor` ends
    /// the compaction, it fails with [`Error::Interrupted`] and changes nothing.
    pub fn compact_family(
        &self,
        request: &StoreCompaction,
        monitor: &dyn CompactionMonitor,
    ) -> Result<usize> {
        self.check_serving()?;
        self.compact_store(self.store(&request.family)?, request, monitor)
    }

    pub(crate) fn compact_store(
        &self,
        store: &Store,
        request: &StoreCompaction,
        monitor: &dyn CompactionMonitor,
    ) -> Result<usize> {
        let is_major = || {
            !store.has_stripes()
                && (request.major || self.select(store, &store.view.load().files, request).major)
        };
        // Rows that are in memory and in the log are flushed first if the compaction had to keep its markers because of
        // them. Retained rows would also reach a file soon after the major compaction, and the store would be due for
        // another one.
        if store.view.load().keeps_markers && is_major() {
            self.flush_stores(std::slice::from_ref(&store.family), FlushReason::Requested)?;
        }
        self.rewrite_store(store, Rewrite::Compaction(request), monitor)
    }

    /// Selects the files that a compaction takes from `files`, which are all files of the store.
    fn select(&self, store: &Store, files: &[Arc<StoreFile>], request: &StoreCompaction) -> Selection {
        let facts: Vec<FileFacts> = files.iter().map(|file| file.facts()).collect();
        let request = SelectionRequest {
            now: self.world.now().0,
            is_user: request.is_user,
            major: request.major,
            off_peak: request.off_peak,
            flush_size: self.flush_size,
            ttl: store.scan_info().ttl.filter(|_| store.scan_info().min_versions == 0),
            jitter: store.chance_of_files(),
        };
        match store.stripes(files) {
            Some(stripes) => select_of_stripes(&facts, &stripes, &store.tuning.load(), &request),
            None => select(&facts, &store.tuning.load(), &request),
        }
    }

    /// Removes every row from memory and files. Each store gets one file without cells. That file records up to which sequence
    /// id the region's writes are in files, so that no log record is replayed, whether or not memory had it. Nothing may write to
    /// the region meanwhile: concurrent writes may survive.
    pub fn truncate(&self) -> Result<()> {
        self.check_serving()?;
        self.flush_stores(&[], FlushReason::Requested)?;
        self.stores.iter().try_for_each(|store| self.rewrite_store(store, Rewrite::Truncation, &()).map(drop))
    }

    /// Writes new files in place of some of the store's files. Returns the number of files replaced.
    fn rewrite_store(
        &self,
        store: &Store,
        purpose: Rewrite<'_>,
        monitor: &dyn CompactionMonitor,
    ) -> Result<usize> {
        let _alone = store.compacting.lock();
        let overtaken = || Error::NotServing(string_binary(self.info.name()).to_string());
        if self.closes_soon() {
            return Err(overtaken());
        }
        let expired = match purpose {
            Rewrite::Compaction(_) => self.drop_expired(store)?,
            Rewrite::Truncation => 0,
        };
        // One view has both: a flush changes the files and whether their markers may go in one step.
        let (files, may_purge) = {
            let view = store.view.load();
            (view.files.clone(), !view.keeps_markers)
        };
        // Selects now, from the files of this moment. A flush may add a file meanwhile, but only the selected files are
        // replaced.
        let selection = match purpose {
            Rewrite::Compaction(request) => self.select(store, &files, request),
            Rewrite::Truncation => Selection { files: (0..files.len()).collect(), ..Selection::default() },
        };
        if selection.is_empty() && matches!(purpose, Rewrite::Compaction(_)) {
            return Ok(expired);
        }
        let takes_all = selection.files.len() == files.len();
        let of_stripes = matches!(purpose, Rewrite::Compaction(_)) && store.has_stripes();
        let all = (!of_stripes && takes_all && may_purge) || env::planted(7);
        let is_user = matches!(purpose, Rewrite::Compaction(request) if request.is_user);
        let chosen: Vec<Arc<StoreFile>> =
            selection.files.iter().map(|index| Arc::clone(&files[*index])).collect();
        // A row may lose its markers only if the keys of the other files show that none of them has the row. The range
        // of the stripe that a file states is not trusted for this.
        let has_all_of = |rows: &&StripeRange| {
            let is_left = |file: &Arc<StoreFile>| !chosen.iter().any(|other| Arc::ptr_eq(file, other));
            !files.iter().any(|file| is_left(file) && file.may_have_rows_of(rows))
        };
        let purged_rows = selection.purges.as_ref().filter(|_| may_purge).filter(has_all_of);
        let cells: u64 = chosen.iter().map(|file| file.entries()).sum();
        let bytes = chosen.iter().map(|file| file.size()).sum();
        self.counters.compacting_cells.fetch_add(cells, Ordering::Relaxed);
        monitor.begin(cells, bytes);
        let options = ReadOptions { cache_blocks: false, memory_only: false, read_type: ReadType::Stream };
        let keeps_rows = matches!(purpose, Rewrite::Compaction(_)) || env::planted(11);
        let read: &[Arc<StoreFile>] = if keeps_rows { &chosen } else { &[] };
        let sources = read.iter().rev().map(|file| Source::File(file.cursor(options))).collect();
        let mut heap = Heap::new(store.comparator, SequenceId::MAX, sources);
        if chosen.iter().any(|file| file.reader.cached().stays_warm()) {
            heap.watch_cache();
        }
        let scope_of_all = CompactionScope::All {
            purge_deletes_after: store.tuning.load().purge_deletes_after,
            earliest_put: chosen
                .iter()
                .map(|file| file.reader.earliest_put())
                .min()
                .unwrap_or(Timestamp::LATEST),
        };
        let (scan_info, now) = (store.scan_info(), self.world.now().0);
        let rewrite = match purged_rows {
            _ if all => CompactionMatcher::new(scan_info, scope_of_all, now),
            Some(rows) => CompactionMatcher::within(scan_info, rows.clone(), scope_of_all, now),
            None => CompactionMatcher::new(scan_info, CompactionScope::Some, now),
        };
        let options = store.options();
        let codec = if all { options.compression_major } else { options.compression_minor };
        let newest = match purpose {
            Rewrite::Compaction(_) => chosen.iter().map(|file| file.max_sequence()).max().unwrap_or_default(),
            Rewrite::Truncation => self.write.lock().last_sequence,
        };
        let dropped_markers = DroppedMarkers::merged(chosen.iter().map(|file| &file.dropped_markers));
        // Markers that memory has dropped are treated like markers in files: a major compaction keeps only those that
        // it must keep for `purge_deletes_after`.
        let purges_all = all || (takes_all && purged_rows == Some(&StripeRange::ALL));
        let dropped_markers = match store.tuning.load().purge_deletes_after {
            _ if !purges_all => dropped_markers,
            ..=0 => DroppedMarkers::default(),
            purge_deletes_after => {
                dropped_markers.since(now.saturating_sub(purge_deletes_after).saturating_sub(1))
            }
        };
        let info = StoreFileInfo { max_sequence: newest, major: all, more: dropped_markers.fact() };
        let has_references = chosen.iter().any(|file| file.has_mob_references);
        let newest_cell = chosen.iter().filter_map(|file| file.reader.span()).map(|span| span.newest).max();
        let tuning = store.tuning.load();
        let mob = (options.is_mob || has_references).then(|| MobPlan {
            threshold: options.is_mob.then_some(options.mob_threshold),
            // As in HBase, a MOB family's values are rewritten only by a major compaction that a client or the master's
            // MOB chore has requested. If the family is no longer a MOB family, every major compaction moves the values
            // back into store files.
            rewrites: all && selection.major && (is_user || !options.is_mob),
            file_bytes_max: tuning.mob_optimized.then_some(tuning.mob_file_bytes_max),
            newest: newest_cell.unwrap_or(Timestamp::OLDEST),
        });
        let plan = NewFilePlan {
            codec: codec.as_str(),
            info,
            layout: &selection.output,
            kept_stripes: selection.purges.as_ref(),
            mob,
            blocks_to_cache: BlocksToCache::OfCompaction { bytes },
        };
        let (mut compacted, mut left) = (0, bytes);
        let made = self.write_files(store, heap, rewrite, &plan, &mut |cells, written| {
            compacted += cells;
            left = left.saturating_sub(written);
            self.counters.compacted_cells.fetch_add(cells, Ordering::Relaxed);
            // Does not wait for the write lock. If another thread has it, the next report checks again, and so does the
            // commit.
            let closes = self.write.try_lock().is_some_and(|state| state.closing);
            if closes || (self.closes_soon() && left > LEFT_MAX) {
                return Err(overtaken());
            }
            match monitor.advance(cells, written) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Interrupted(store.folder.to_string())),
            }
        });
        let made = match made {
            // Unfinished files are left where they are: when the region is opened again, files that its list does not
            // name are deleted.
            Err(_) if self.write.lock().closing => return Err(overtaken()),
            Err(error) => {
                // The compaction will be repeated and will count its cells again, so this attempt is subtracted.
                self.counters.compacting_cells.fetch_sub(cells, Ordering::Relaxed);
                self.counters.compacted_cells.fetch_sub(compacted, Ordering::Relaxed);
                return Err(error);
            }
            Ok(made) => made,
        };
        let new: Vec<Arc<StoreFile>> = made.iter().map(|new| Arc::clone(&new.file)).collect();
        made.iter().for_each(|made| self.account.compacted(made.file.listed.size));
        // A reader that may not see a bulk-loaded file must not see its cells in the new file either.
        let horizon = chosen.iter().map(|file| file.visible_from).fold(newest, SequenceId::max);
        let commit = Commit {
            remove: &chosen,
            add: new.clone(),
            are_oldest: false,
            view: &|view| View { horizon: view.horizon.max(horizon), ..view.clone() },
            while_closing: false,
            marker: Some((wal::Kind::Compaction, self.write.lock().last_sequence)),
        };
        {
            let give_up = |_: &Error| new.iter().for_each(|file| store.give_up(file));
            let _no_load = self.without_load().inspect_err(give_up)?;
            self.commit(store, commit)?;
        }
        // The compacted files have left the cache, so blocks of the new files find free space there that found none when they
        // were written. Not done while the region closes.
        if !self.write.lock().closing {
            for made in &made {
                // A read error is ignored here; the next reader of the block reports it.
                let _read = made.file.reader.warm_blocks(&made.warm);
            }
        }
        Ok(expired + chosen.len())
    }

    /// Removes files whose cells have all expired from the store's list. Returns their number.
    fn drop_expired(&self, store: &Store) -> Result<usize> {
        let files = store.view.load().files.clone();
        let expired = store.expired(&files, self.world.now().0);
        if expired.is_empty() {
            return Ok(0);
        }
        let commit = Commit {
            remove: &expired,
            add: Vec::new(),
            are_oldest: false,
            view: &View::clone,
            while_closing: false,
            marker: Some((wal::Kind::Compaction, self.write.lock().last_sequence)),
        };
        {
            let _no_load = self.without_load()?;
            self.commit(store, commit)?;
        }
        Ok(expired.len())
    }
}

impl StoreCompaction {
    /// Returns a compaction of a store that no client requested.
    fn of_system(store: &Store) -> StoreCompaction {
        StoreCompaction { family: store.family.clone(), major: false, is_user: false, off_peak: false }
    }
}

impl Store {
    /// Returns those of `files`, which are all files of the store, that are deleted as a whole because all of their
    /// cells have expired.
    fn expired(&self, files: &[Arc<StoreFile>], now: i64) -> Vec<Arc<StoreFile>> {
        // Most families keep their cells for ever, so this check comes first.
        let scan_info = self.scan_info();
        if scan_info.ttl.is_none() {
            return Vec::new();
        }
        let facts: Vec<FileFacts> = files.iter().map(|file| file.facts()).collect();
        let stripes = self.stripes(files);
        let expired = expired_files(&facts, stripes.as_ref(), &self.tuning.load(), &scan_info, now);
        expired.into_iter().map(|index| Arc::clone(&files[index])).collect()
    }

    /// Returns a pseudo-random number from 0 to 1 that depends only on the names of the store's files.
    fn chance_of_files(&self) -> f64 {
        let mut state = 0xcbf2_9ce4_8422_2325_u64;
        for file in &self.view.load().files {
            for byte in file.listed.name.bytes() {
                state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}
