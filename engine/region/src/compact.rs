//! Compaction: writes several files of a store as one.
//!
//! The choice of files is a pure function, HBase's exploring policy. It considers all runs of neighbouring files,
//! ordered by age, within the configured minimum and maximum number, in which no file is larger than the others
//! together times a ratio. It takes the run with the most files, and among those the one with the fewest bytes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cell::{SequenceId, Timestamp};
use hfile::{ReadOptions, ReadType, StoreFileInfo};

use crate::commit::Commit;
use crate::compaction_matcher::{CompactionMatcher, CompactionScope};
use crate::dropped_markers::DroppedMarkers;
use crate::flush::NewFile;
use crate::heap::{Heap, Source};
use crate::markers::change;
use crate::options::Access;
use crate::region::Region;
use crate::store::{Store, View};
use crate::store_file::StoreFile;
use crate::{Error, FlushReason, RegionOptions, Result};

/// What a compaction should do.
#[derive(Clone, Debug, Default)]
pub struct CompactionRequest {
    /// Whether all files of a store are compacted, and delete markers dropped.
    pub major: bool,
    /// The families to compact; empty for all.
    pub families: Vec<Bytes>,
}

/// The run of a store's files, oldest first, that a minor compaction takes; empty if none qualifies. `flush_size` is
/// the largest size in bytes of a flushed file.
pub fn select_files(sizes: &[u64], options: &RegionOptions, flush_size: u64) -> Range<usize> {
    let size_min = options.compaction_size_min.unwrap_or(flush_size);
    // No run contains a file above the maximum size, so only files newer than the last such file count.
    let first =
        sizes.iter().rposition(|&size| size > options.compaction_size_max).map_or(0, |index| index + 1);
    let (least, most) = (options.compaction_files_min.max(2), options.compaction_files_max.max(2));
    // With too many files, any run is better than none.
    let stuck = sizes.len() - first >= options.blocking_files;
    let mut best: Option<(Range<usize>, u64)> = None;
    let mut smallest: Option<(Range<usize>, u64)> = None;
    for start in first..sizes.len() {
        for end in start + least..=sizes.len().min(start + most) {
            let run = &sizes[start..end];
            let total: u64 = run.iter().sum();
            if stuck && smallest.as_ref().is_none_or(|(_, bytes)| total < *bytes) {
                smallest = Some((start..end, total));
            }
            let balanced =
                run.iter().all(|&size| size as f64 <= (total - size) as f64 * options.compaction_ratio);
            if total >= size_min && !balanced {
                continue;
            }
            let better = best.as_ref().is_none_or(|(known, bytes)| {
                run.len() > known.len() || (run.len() == known.len() && total < *bytes)
            });
            if better {
                best = Some((start..end, total));
            }
        }
    }
    best.or(smallest).map_or(0..0, |(run, _)| run)
}

/// The purpose of rewriting a store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compaction {
    /// A run of files becomes one.
    Minor,
    /// All files become one, without deleted cells.
    Major,
    /// All rows are removed: the result is one file without cells.
    Truncation,
}

impl Region {
    /// Whether a store has halves of another region's files. Such a region can be neither split nor merged before it is
    /// compacted.
    pub fn has_references(&self) -> bool {
        self.stores.iter().any(|store| store.view.load().files.iter().any(|file| file.is_half()))
    }

    /// Whether some store has files that a minor compaction would take.
    pub fn needs_compaction(&self) -> bool {
        self.access == Access::Owner
            && self.stores.iter().any(|store| !self.select_run(store, &store.view.load().files).is_empty())
    }

    /// The families that are due for a major compaction: the oldest file is older than the period, which varies by a
    /// share derived from the files' names, so that stores written together are not rewritten together. A single file
    /// written by a major compaction is skipped, unless some cell in it may have expired. Source: HBase's
    /// `RatioBasedCompactionPolicy.shouldPerformMajorCompaction`.
    pub fn due_for_major(&self) -> Vec<Bytes> {
        if self.access == Access::Reader {
            return Vec::new();
        }
        let now = self.world.now().0;
        self.stores
            .iter()
            .filter(|store| store.is_due_for_major(now))
            .map(|store| store.family.clone())
            .collect()
    }

    /// Compacts store by store. Returns the number of files that were replaced.
    pub fn compact(&self, request: &CompactionRequest) -> Result<usize> {
        self.check_serving()?;
        let mut taken = 0;
        for family in &request.families {
            self.store(family)?;
        }
        for store in &self.stores {
            if request.families.is_empty() || request.families.contains(&store.family) {
                if request.major && store.accordion.has_retained() {
                    self.flush_stores(std::slice::from_ref(&store.family), FlushReason::Requested)?;
                }
                taken += self.compact_store(store, request.major)?;
            }
        }
        Ok(taken)
    }

    /// The run of `files`, all files of the store, that a minor compaction takes. All of them if some are halves of a
    /// parent's files, which should soon be replaced by the store's own.
    fn select_run(&self, store: &Store, files: &[Arc<StoreFile>]) -> Range<usize> {
        if files.iter().any(|file| file.is_half()) {
            return 0..files.len();
        }
        let sizes: Vec<u64> = files.iter().map(|file| file.size()).collect();
        select_files(&sizes, &store.tuning.load(), self.flush_size)
    }

    /// Removes every row from memory and files. Each store that had files keeps one without cells, which records up to
    /// which sequence id the store is in files, so that no log record is replayed. For regions without writers:
    /// concurrent writes may survive.
    pub fn truncate(&self) -> Result<()> {
        self.check_serving()?;
        self.flush_stores(&[], FlushReason::Requested)?;
        self.stores.iter().try_for_each(|store| self.rewrite_store(store, Compaction::Truncation).map(drop))
    }

    pub(crate) fn compact_store(&self, store: &Store, major: bool) -> Result<usize> {
        self.rewrite_store(store, if major { Compaction::Major } else { Compaction::Minor })
    }

    /// Writes one new file in place of some of the store's files. Returns the number of files replaced.
    fn rewrite_store(&self, store: &Store, compaction: Compaction) -> Result<usize> {
        let _alone = store.compacting.lock();
        let files = store.view.load().files.clone();
        // Only these files: a flush may add another at any moment.
        let run = match compaction {
            Compaction::Minor => self.select_run(store, &files),
            Compaction::Major | Compaction::Truncation => 0..files.len(),
        };
        if run.is_empty() {
            return Ok(0);
        }
        // Retained rows are still in the log: replay would uncover cells whose markers were dropped.
        let all = (run.len() == files.len() && !store.accordion.has_retained()) || env::planted(7);
        let chosen: Vec<Arc<StoreFile>> = files[run].to_vec();
        let cells: u64 = chosen.iter().map(|file| file.entries()).sum();
        self.counters.compacting_cells.fetch_add(cells, Ordering::Relaxed);
        let options = ReadOptions { cache_blocks: false, memory_only: false, read_type: ReadType::Stream };
        let keeps_rows = compaction != Compaction::Truncation || env::planted(11);
        let read: &[Arc<StoreFile>] = if keeps_rows { &chosen } else { &[] };
        let sources = read.iter().rev().map(|file| Source::File(file.cursor(options))).collect();
        let mut heap = Heap::new(store.comparator, SequenceId::MAX, sources);
        if chosen.iter().any(|file| file.reader.cached().stays_warm()) {
            heap.watch_cache();
        }
        let kind = if all {
            CompactionScope::All {
                purge_deletes_after: store.tuning.load().purge_deletes_after,
                earliest_put: chosen
                    .iter()
                    .map(|file| file.reader.earliest_put())
                    .min()
                    .unwrap_or(Timestamp::LATEST),
            }
        } else {
            CompactionScope::Some
        };
        let rewrite = CompactionMatcher::new(store.scan_info, kind, self.world.now().0);
        let codec = if all { store.options.compression_major } else { store.options.compression_minor };
        let newest = chosen.iter().map(|file| file.max_sequence()).max().unwrap_or_default();
        let dropped_markers = DroppedMarkers::merged(chosen.iter().map(|file| &file.dropped_markers));
        // Dropped markers follow the rule for markers in files: a major compaction keeps none that have expired.
        let dropped_markers = match kind {
            CompactionScope::Some => dropped_markers,
            CompactionScope::All { purge_deletes_after: ..=0, .. } => DroppedMarkers::default(),
            CompactionScope::All { purge_deletes_after, .. } => dropped_markers
                .since(self.world.now().0.saturating_sub(purge_deletes_after).saturating_sub(1)),
        };
        let info = StoreFileInfo { max_sequence: newest, major: all, more: dropped_markers.fact() };
        let made = self.write_file(store, heap, rewrite, codec.as_str(), info, &mut |cells| {
            self.counters.compacted_cells.fetch_add(cells, Ordering::Relaxed);
        });
        let overtaken = || Error::NotServing(self.info.name().escape_ascii().to_string());
        let made = match made {
            // The region's next opening deletes files that its list does not name, including unfinished ones.
            Err(_) if self.write.lock().closing => return Err(overtaken()),
            made => made?,
        };
        let NewFile { file: made, warm, pin } = made;
        let bytes = chosen.iter().map(|file| file.size()).sum();
        // A read error is ignored here; the next reader of the block reports it.
        let _read = made.reader.warm(made.reader.cached().kept_of_compaction(bytes), true);
        // Do not replace files that are being read by one that cannot be read.
        if let Err(error) = made.reader.warm_blocks(&warm, false) {
            store.give_up(&made);
            return Err(error.into());
        }
        self.account.compacted(made.listed.size);
        let commit = Commit {
            remove: &chosen,
            add: vec![Arc::clone(&made)],
            are_oldest: false,
            view: &|view| View { horizon: view.horizon.max(newest), ..view.clone() },
            while_closing: false,
        };
        {
            let _no_load = self.listing.read();
            self.commit(store, commit)?;
        }
        drop(pin);
        let last = self.write.lock().last_sequence;
        self.mark(wal::Kind::Compaction, last, vec![change(store, &[Arc::clone(&made)], &chosen)]);
        // The replaced files have freed room in a full cache. Skipped when the region closes.
        if !self.write.lock().closing {
            let _read = made.reader.warm_blocks(&warm, true);
        }
        Ok(chosen.len())
    }
}

impl Store {
    fn is_due_for_major(&self, now: i64) -> bool {
        let (tuning, view) = (self.tuning.load(), self.view.load());
        let period = tuning.major_period.as_millis() as f64;
        let oldest = view.files.iter().filter_map(|file| file.reader.created()).min();
        let (Some(oldest), true) = (oldest, period > 0.0) else { return false };
        let jitter = (period * tuning.major_jitter).round();
        let wait = period - jitter + 2.0 * jitter * self.chance_of_files();
        if ((now - oldest) as f64) < wait {
            return false;
        }
        let [only] = &view.files[..] else { return true };
        let is_out_of_time = |ttl: u64| {
            let age = |oldest: i64| u64::try_from(now.saturating_sub(oldest)).unwrap_or(0);
            only.reader.span().is_some_and(|span| age(span.oldest.0) >= ttl)
        };
        !only.reader.is_major() || self.options.ttl_ms().is_some_and(is_out_of_time)
    }

    /// A number from 0 to 1, derived from the names of the store's files.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[u64], expected: &[u64]) {
        let options = RegionOptions {
            compaction_size_min: Some(10),
            compaction_files_max: 5,
            ..RegionOptions::default()
        };
        let run = select_files(sizes, &options, 1000);
        assert_eq!(&sizes[run], expected, "of {sizes:?}");
    }

    #[test]
    fn the_run_with_the_most_files_and_the_fewest_bytes_is_chosen() {
        check(&[], &[]);
        check(&[1, 1], &[]);
        check(&[1, 1, 1], &[1, 1, 1]);
        check(&[100, 50, 23, 12, 12], &[100, 50, 23, 12, 12]);
        check(&[200, 50, 23, 12, 12], &[50, 23, 12, 12]);
        check(&[1_000, 12, 12, 12, 12], &[12, 12, 12, 12]);
        // The two older files outweigh the rest.
        check(&[1_000, 100, 10], &[]);
        check(&[50, 49, 48, 47, 46, 45, 44], &[48, 47, 46, 45, 44]);
        // Runs below the minimum size qualify whatever the ratio.
        check(&[6, 1, 1], &[6, 1, 1]);
    }

    #[test]
    fn files_up_to_the_flush_size_are_small_by_default() {
        let said = RegionOptions { compaction_size_min: Some(200), ..RegionOptions::default() };
        let sizes = [100, 4, 4, 4];
        assert_eq!(select_files(&sizes, &RegionOptions::default(), 5), 1..4, "the large file is left alone");
        assert_eq!(select_files(&sizes, &RegionOptions::default(), 200), 0..4);
        assert_eq!(select_files(&sizes, &said, 5), 0..4);
    }

    #[test]
    fn files_over_the_limit_are_left_alone() {
        let options = RegionOptions { compaction_size_max: 50, ..RegionOptions::default() };
        assert_eq!(select_files(&[10, 60, 5, 5, 5], &options, 1000), 2..5);
        assert_eq!(select_files(&[10, 10, 60], &options, 1000), 0..0);
    }
}
