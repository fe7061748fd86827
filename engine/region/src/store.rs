//! A store: what a region has of one family, in memory and in files.
//!
//! Readers load one [`View`]; writes, flushes and compactions make new ones. The active segment takes writes for as long
//! as it is in the view; the snapshot is what a flush is writing out.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use cache::Caching;
use cell::{Comparator, SequenceId};
use env::sync::Mutex;
use hfile::{BloomType, Compression, Encoding, ReadOptions, WriterOptions};
use memstore::Segment;
use proto::{FamilyDescriptor, FamilyOptions, RegionInfo};
use smallvec::SmallVec;
use storage::FileName;

use crate::dropped_markers::DroppedMarkers;
use crate::heap::{Heap, Source, Sources};
use crate::matcher::ScanInfo;
use crate::memory::{Accordion, LevelChoice};
use crate::store_file::StoreFile;
use crate::tracker::Tracker;
use crate::{Error, RegionOptions, Result, Scan, TimeRange};

/// In one of more files no row is prefetched.
const PREFETCH_FILES_MAX: usize = 2;
/// So many rows are mostly told together.
const TOGETHER: usize = 16;
type Rows<'a> = SmallVec<[&'a [u8]; TOGETHER]>;

/// Everything a reader may need of a store, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Segment>,
    /// What takes no more writes and waits for the flush: newest first.
    pub(crate) pipeline: Vec<Arc<Segment>>,
    /// What is being written out: newest first, more than one when an earlier flush has failed.
    pub(crate) snapshot: Vec<Arc<Segment>>,
    /// Oldest first.
    pub(crate) files: Vec<Arc<StoreFile>>,
    /// Up to where it was decided what nobody needs: a reader that begins earlier may miss something.
    pub(crate) horizon: SequenceId,
    /// What the sealed segments reach to.
    pub(crate) sealed: Sealed,
    /// The markers that the pipeline had and that went, and those of the snapshot.
    pub(crate) dropped_markers: DroppedMarkers,
    pub(crate) dropped_of_snapshot: DroppedMarkers,
}

/// How far the segments reach that take no more writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed {
    /// No put that has come since is older than this, in ms since 1970, but for those that were noted as late.
    pub(crate) below: i64,
    /// The last write in them.
    pub(crate) through: SequenceId,
}

impl Default for Sealed {
    fn default() -> Sealed {
        Sealed { below: i64::MIN, through: SequenceId::ZERO }
    }
}

impl View {
    /// What is in memory, newest first.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        std::iter::once(&self.active).chain(&self.pipeline).chain(&self.snapshot)
    }

    /// Bytes in memory, pipeline and snapshot included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let cells: u64 = self.segments().map(|segment| segment.bytes()).sum();
        cells + self.dropped_markers.size() + self.dropped_of_snapshot.size()
    }
}

/// One family of a region.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) family: Bytes,
    pub(crate) options: FamilyOptions,
    pub(crate) scan_info: ScanInfo,
    pub(crate) comparator: Comparator,
    pub(crate) folder: FileName,
    pub(crate) view: ArcSwap<View>,
    pub(crate) accordion: Accordion,
    /// The file list. Whoever holds it may change which files there are.
    pub(crate) tracker: Mutex<Tracker>,
    /// Files that the list has ceased to name and that the janitor has not deleted yet.
    pub(crate) unlisted: Mutex<Vec<FileName>>,
    /// One compaction of a store at a time.
    pub(crate) compacting: Mutex<()>,
    /// The region's limits as far as they are about stores, with what the family overrides.
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
        let options = family.options().map_err(|error| Error::BadRequest(error.to_string()))?;
        let active = Arc::new(Segment::new(comparator, &region.memory));
        let (pipeline, snapshot) = (Vec::new(), Vec::new());
        // What flushes and compactions of an earlier opening dropped is not known.
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
        };
        let tuning = region.families.get(family.name()).unwrap_or(region).clone();
        Ok(Store {
            family: family.name().clone(),
            scan_info: ScanInfo::of(&options),
            options,
            comparator,
            folder,
            view: ArcSwap::from_pointee(view),
            accordion: Accordion::new(asked, share, &tuning),
            tracker: Mutex::new(tracker),
            unlisted: Mutex::default(),
            compacting: Mutex::default(),
            tuning: ArcSwap::from_pointee(tuning),
        })
    }

    /// What a family of a table wants of the cache.
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

    /// How a new file of this store is written.
    pub(crate) fn writer_options(&self, compression: &str, with_tags: bool, now: i64) -> WriterOptions {
        WriterOptions {
            block_size: self.options.block_bytes as usize,
            // A codec or encoding that is not had here is kept in the schema and not used for new files.
            compression: Compression::of_name(compression).unwrap_or_default(),
            encoding: Encoding::of_name(self.options.data_block_encoding.as_str()).unwrap_or_default(),
            bloom: BloomType::of_name(self.options.bloom.as_str(), self.options.bloom_prefix)
                .unwrap_or(BloomType::None),
            comparator: self.comparator,
            with_tags,
            created: now,
        }
    }

    /// Bytes in memory, the snapshot included.
    pub(crate) fn memstore_bytes(&self) -> u64 {
        self.view.load().memory_bytes()
    }

    /// The sources in `view` that a scan of `range` may have to look at.
    pub(crate) fn heap(
        &self,
        view: &View,
        scan: &Scan,
        range: TimeRange,
        read_point: SequenceId,
        options: ReadOptions,
    ) -> Result<Heap> {
        let mut sources = Sources::new();
        for segment in view.segments().filter(|segment| !segment.is_empty()) {
            sources.push(Source::Memory(memstore::Cursor::new(Arc::clone(segment))));
        }
        // Only a file that ends before the range is of no use: a marker after it masks what lies in it.
        let may_help = |file: &StoreFile| !file.reader.span().is_some_and(|span| range.is_after(span.newest));
        // Whether it has a single row is asked when that row is sought.
        let is_range = !scan.is_one_row() && !scan.reversed;
        for file in view.files.iter().rev().filter(|file| may_help(file)) {
            if !scan.is_one_row() && !self.has_rows_of(file, scan) {
                continue;
            }
            if !is_range || file.reader.may_contain_rows(&scan.start, &scan.stop, options)? {
                sources.push(Source::File(file.cursor(options)));
            }
        }
        Ok(Heap::new(self.comparator, read_point, sources))
    }

    /// Is told of rows that are read soon: each is looked for in memory, the newest first, and where that has nothing of it in files,
    /// as a get of columns does; who wants more of a row than memory has waits for the rest. In one of many files nobody looks
    /// beforehand: what is asked of memory in vain costs as much as what is not.
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

    /// Whether rows of a scan can lie in a file, by its first and last key.
    fn has_rows_of(&self, file: &StoreFile, scan: &Scan) -> bool {
        let (least, most) = if scan.reversed { (&scan.stop, &scan.start) } else { (&scan.start, &scan.stop) };
        file.may_have_rows(least, most, self.comparator)
    }
}
