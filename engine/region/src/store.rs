//! A store: one family of a region, in memory and in files.
//!
//! A reader loads one [`View`]; writes, flushes and compactions create new views. The active segment of the current
//! view takes writes. The segments of the snapshot are being flushed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use bytes::Bytes;
use cache::Caching;
use cell::{Comparator, SequenceId};
use env::sync::Mutex;
use hfile::{BloomType, Compression, Encoding, ReadOptions, TimeSpan, WriterOptions};
use memstore::Segment;
use proto::{FamilyDescriptor, FamilyOptions, RegionInfo};
use smallvec::SmallVec;
use storage::FileName;

use crate::accordion::{Accordion, LevelChoice};
use crate::dropped_markers::DroppedMarkers;
use crate::heap::{Heap, Source, Sources};
use crate::matcher::ScanInfo;
use crate::store_file::StoreFile;
use crate::stripes::Stripes;
use crate::tracker::Tracker;
use crate::view::{Sealed, View};
use crate::{CompactionPolicy, Error, RegionOptions, Result, Scan, TimeRange};

/// Maximum number of files of a store whose rows are prefetched.
const PREFETCH_FILES_MAX: usize = 2;
/// Number of rows for which a prefetch has room on the stack.
const TOGETHER: usize = 16;
type Rows<'a> = SmallVec<[&'a [u8]; TOGETHER]>;

/// One family of a region.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) family: Bytes,
    pub(crate) comparator: Comparator,
    pub(crate) folder: FileName,
    pub(crate) view: ArcSwap<View>,
    pub(crate) accordion: Accordion,
    /// The file list. Its lock guards changes of the set of files.
    pub(crate) tracker: Mutex<Tracker>,
    /// Files that are no longer in the list and not yet deleted by the janitor.
    pub(crate) unlisted: Mutex<Vec<FileName>>,
    /// Locked by the running compaction.
    pub(crate) compacting: Mutex<()>,
    /// Whether the family is about to be deleted, and so takes no puts.
    pub(crate) refuses_puts: AtomicBool,
    /// The region's options with the family's own settings.
    pub(crate) tuning: ArcSwap<RegionOptions>,
}

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}

impl Store {
    pub(crate) fn new(
        family: &FamilyDescriptor,
        comparator: Comparator,
        folder: FileName,
        files: Vec<Arc<StoreFile>>,
        tracker: Tracker,
        region: &RegionOptions,
        (asked, share): (LevelChoice, u64),
    ) -> Result<Store> {
        let options = family.options().map_err(Error::Schema)?;
        let active = Arc::new(Segment::new(comparator, &region.memory));
        let (pipeline, snapshot) = (Vec::new(), Vec::new());
        // Which versions were dropped before the region was opened is unknown. So the horizon is the newest write in
        // files.
        let horizon = files.iter().map(|file| file.newest_sequence()).max().unwrap_or_default();
        let view = View {
            active,
            pipeline,
            snapshot,
            files,
            horizon,
            sealed: Sealed::default(),
            dropped_markers: DroppedMarkers::default(),
            dropped_of_snapshot: DroppedMarkers::default(),
            keeps_markers: false,
            scan_info: ScanInfo::of(&options),
            options: Arc::new(options),
        };
        let tuning = Store::tuning_of(region, family.name(), comparator);
        Ok(Store {
            family: family.name().clone(),
            comparator,
            folder,
            view: ArcSwap::from_pointee(view),
            accordion: Accordion::new(asked, share, &tuning),
            tracker: Mutex::new(tracker),
            unlisted: Mutex::default(),
            compacting: Mutex::default(),
            refuses_puts: AtomicBool::new(false),
            tuning: ArcSwap::from_pointee(tuning),
        })
    }

    /// Returns the options of one family: the overrides in `region`, if there are any for it.
    pub(crate) fn tuning_of(region: &RegionOptions, family: &Bytes, comparator: Comparator) -> RegionOptions {
        let mut tuning = region.families.get(family).unwrap_or(region).clone();
        // Stripes need rows in byte order. The rows of hbase:meta have another order.
        if comparator != Comparator::Table && tuning.compaction_policy == CompactionPolicy::Stripe {
            tuning.compaction_policy = CompactionPolicy::Exploring;
        }
        tuning
    }

    /// Records that the log was replayed. If memory got cells from it, markers that mask some of them may be in files.
    pub(crate) fn replayed(&self) {
        self.view.rcu(|view| {
            let has_cells = view.segments().any(|segment| !segment.is_empty());
            let keeps_markers = view.keeps_markers || (has_cells && !view.files.is_empty());
            View { keeps_markers, ..View::clone(view) }
        });
    }

    /// Whether the store keeps its files in stripes. As in HBase, a family with IS_MOB never does.
    pub(crate) fn has_stripes(&self) -> bool {
        self.tuning.load().compaction_policy == CompactionPolicy::Stripe && !self.view.load().options.is_mob
    }

    /// Returns the stripes of `files`, all files of the store; `None` if it keeps no stripes.
    pub(crate) fn stripes(&self, files: &[Arc<StoreFile>]) -> Option<Stripes> {
        self.has_stripes().then(|| Stripes::of(files.iter().map(|file| file.stripe.as_ref())))
    }

    /// Returns the family's current retention rules. A reader takes them from its own view.
    pub(crate) fn scan_info(&self) -> ScanInfo {
        self.view.load().scan_info
    }

    /// Returns how new files are written now.
    pub(crate) fn options(&self) -> Arc<FamilyOptions> {
        Arc::clone(&self.view.load().options)
    }

    /// Returns the cache settings of a family.
    pub(crate) fn caching(info: &RegionInfo, options: &FamilyOptions) -> Caching {
        Caching {
            table: info.table().to_string().into(),
            data_on_read: options.block_cache,
            in_memory: options.in_memory,
            data_on_write: options.cache_data_on_write,
            index_on_write: options.cache_indexes_on_write,
            blooms_on_write: options.cache_blooms_on_write,
            evict_on_close: options.evict_blocks_on_close,
            prefetch_on_open: options.prefetch_blocks_on_open,
        }
    }

    /// Returns the options for writing a new file of this store.
    pub(crate) fn writer_options(&self, compression: &str, with_tags: bool, now: i64) -> WriterOptions {
        let options = self.options();
        WriterOptions {
            block_size: options.block_bytes as usize,
            // If the schema names a codec or an encoding that is not supported, new files are written without it.
            compression: Compression::of_name(compression).unwrap_or_default(),
            encoding: Encoding::of_name(options.data_block_encoding.as_str()).unwrap_or_default(),
            bloom: BloomType::of_name(options.bloom.as_str(), options.bloom_prefix)
                .unwrap_or(BloomType::None),
            comparator: self.comparator,
            with_tags,
            created: now,
        }
    }

    /// Returns the number of bytes in memory, including the snapshot.
    pub(crate) fn memstore_bytes(&self) -> u64 {
        self.view.load().memory_bytes()
    }

    /// Returns a heap over the sources in `view` that a scan of `range` at `now`, in ms, may have to read.
    pub(crate) fn heap(
        &self,
        view: &View,
        scan: &Scan,
        (range, now): (TimeRange, i64),
        read_point: SequenceId,
        options: ReadOptions,
    ) -> Result<Heap> {
        let mut sources = Sources::new();
        // Clients notice that sources with expired cells only are left out: in HBase such a cell does not make a result
        // partial, while an expired cell of another source does.
        let oldest = if scan.raw { None } else { view.scan_info.oldest_unexpired(now) };
        let has_expired = |segment: &Segment| {
            oldest.is_some_and(|oldest| segment.timestamps().is_some_and(|(_, newest)| newest < oldest))
        };
        for segment in view.segments().filter(|segment| !segment.is_empty() && !has_expired(segment)) {
            sources.push(Source::Memory(memstore::Cursor::new(Arc::clone(segment))));
        }
        // A newer file can matter even if all its timestamps are after the range, because it may have markers that mask
        // cells of the range.
        let may_help = |file: &StoreFile| {
            file.reader.span().is_none_or(|TimeSpan { newest, .. }| {
                !range.is_after(newest) && oldest.is_none_or(|oldest| newest >= oldest)
            })
        };
        // For a single row the Bloom filter is checked later, when the heap seeks the row.
        let is_range = !scan.is_one_row() && !scan.reversed;
        let is_visible = |file: &StoreFile| file.visible_from <= read_point;
        for file in view.files.iter().rev().filter(|file| is_visible(file) && may_help(file)) {
            if !scan.is_one_row() && !self.has_rows_of(file, scan) {
                continue;
            }
            if !is_range || file.reader.may_contain_rows(&scan.start, &scan.stop, options)? {
                sources.push(Source::File(file.cursor(options)));
            }
        }
        Ok(Heap::new(self.comparator, read_point, sources))
    }

    /// Prefetches into the CPU's caches the memory of rows that are read soon. Each row is looked up in the segments,
    /// newest first, and in the files only if no segment has it. Further sources of a row are not prefetched. Nothing
    /// is prefetched from files if there are many: useless prefetches cost as much as useful ones save.
    pub(crate) fn prefetch_rows(&self, rows: &[&[u8]]) {
        let view = self.view.load();
        let mut rows: Rows<'_> = rows.into();
        for segment in view.segments().filter(|segment| !segment.is_empty()) {
            let mut is_here: SmallVec<[bool; TOGETHER]> = SmallVec::from_elem(false, rows.len());
            segment.prefetch_rows(&rows, |index| is_here[index] = true);
            let mut is_here = is_here.into_iter();
            rows.retain(|_| !is_here.next().unwrap_or(false));
        }
        if view.files.len() <= PREFETCH_FILES_MAX && rows.len() > 1 {
            for file in &view.files {
                file.reader.prefetch_rows(&rows);
            }
        }
    }

    /// Whether a file may have rows of the scan, by its first and last key.
    fn has_rows_of(&self, file: &StoreFile, scan: &Scan) -> bool {
        let (least, most) = if scan.reversed { (&scan.stop, &scan.start) } else { (&scan.start, &scan.stop) };
        file.may_have_rows(least, most, self.comparator)
    }
}
