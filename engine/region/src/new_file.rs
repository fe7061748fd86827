//! Writing store files, for flushes and compactions.
//!
//! A file is written at its final place under a random name, and pinned, so that the janitor keeps it until the store's
//! list names it. A file is written even if it has no cells, because it records up to which sequence id all writes are
//! in files. Otherwise a crash would replay log records of deleted cells, and sequence ids would begin again. A stripe
//! whose last file would disappear gets a file without cells, because a stripe is known by its files.
//!
//! The writer caches blocks while it writes, so that none is read back from storage ([`BlocksToCache`]). They are evicted if
//! the file is given up.

use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, KeyBuf};
use hfile::{CacheOnWrite, StoreFileInfo, Writer};
use storage::FileName;

use crate::compaction_matcher::CompactionMatcher;
use crate::compaction_policy::OutputLayout;
use crate::heap::Heap;
use crate::mob::output::{FinishedMobFile, MobOutput, MobPlan};
use crate::mob_format::names::{MOB_FILE_REFS, MobFileRefs};
use crate::open_files::PinnedFile;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{FileOpener, Listed, StoreFile};
use crate::stripes::StripeRange;
use crate::{Error, Result};

/// Number of cells after which progress is reported.
const REPORT_CELLS: u64 = 1024;
/// Number of bytes written after which progress is reported.
const REPORT_BYTES: u64 = 256 << 10;

/// A new store file that is complete and that no list names yet.
pub(crate) struct NewFile {
    pub(crate) file: Arc<StoreFile>,
    /// Offset and length of the blocks to be cached again, because enough of their cells were read from cached blocks:
    /// see [`hfile::Written::warm`].
    pub(crate) warm: Vec<(u64, u32)>,
    /// Keeps the janitor from deleting the file until the list names it.
    pub(crate) _pin: PinnedFile,
    /// Keeps the janitor from deleting the MOB files to which the file refers, until the list names the file.
    pub(crate) _mob_files: Arc<[FinishedMobFile]>,
}

/// A file that is being written.
struct UnfinishedFile {
    name: String,
    path: FileName,
    pin: PinnedFile,
    writer: Writer,
    mob_refs: MobFileRefs,
}

/// Which blocks of new files are cached while they are written, besides those that the settings of family and server
/// name.
#[derive(Clone, Copy)]
pub(crate) enum BlocksToCache {
    /// The file is written by a flush. With `into_room`, all of its blocks are cached for which there is free space.
    OfFlush { into_room: bool },
    /// The file is written by a compaction of `bytes` bytes. Blocks that replace cached ones are cached.
    OfCompaction { bytes: u64 },
}

/// How new files are written.
pub(crate) struct NewFilePlan<'a> {
    /// HBase's name of the compression codec.
    pub(crate) codec: &'a str,
    /// The properties that are written into each file.
    pub(crate) info: StoreFileInfo,
    /// How the cells are spread over files.
    pub(crate) layout: &'a OutputLayout,
    /// The rows whose stripes get a file even without cells, because all of their files are replaced.
    pub(crate) kept_stripes: Option<&'a StripeRange>,
    /// Where large values are written; `None` if the store has no MOB files.
    pub(crate) mob: Option<MobPlan>,
    pub(crate) blocks_to_cache: BlocksToCache,
}

/// The files that one flush or compaction writes. Each is begun with its first cell.
struct OutputFiles<'a> {
    region: &'a Region,
    store: &'a Store,
    plan: &'a NewFilePlan<'a>,
    files: Vec<Option<UnfinishedFile>>,
    mob: Option<MobOutput<'a>>,
    stripe: OutputStripe,
}

/// The stripe that is being written.
#[derive(Default)]
struct OutputStripe {
    index: usize,
    /// Where each stripe begins, if a stripe is split.
    starts: Vec<Bytes>,
    /// Number of cells read since the stripe began, if a stripe is split.
    cells: u64,
    /// The row at which the stripe became large enough. The row after it begins the next stripe.
    last_row: Option<Bytes>,
}

impl OutputFiles<'_> {
    /// Returns the index of the file for a cell. Cells must be passed in order.
    fn index_of(&mut self, cell: Cell<'_>) -> usize {
        let stripe = &mut self.stripe;
        match self.plan.layout {
            OutputLayout::One => {}
            OutputLayout::Windows(boundaries) => {
                let timestamp = cell.key().timestamp().0;
                return boundaries.partition_point(|begin| *begin <= timestamp).saturating_sub(1);
            }
            OutputLayout::Stripes(ranges) => {
                while stripe.index + 1 < ranges.len() && !ranges[stripe.index].ends_after(cell.row()) {
                    stripe.index += 1;
                }
            }
            OutputLayout::Split { range, count_max, cells } => {
                if stripe.starts.is_empty() {
                    stripe.starts.push(range.start.clone());
                }
                if stripe.last_row.as_ref().is_some_and(|row| *row != cell.row()) {
                    stripe.starts.push(Bytes::copy_from_slice(cell.row()));
                    (stripe.index, stripe.cells, stripe.last_row) = (stripe.index + 1, 1, None);
                    self.files.push(None);
                }
                if stripe.last_row.is_none() && stripe.index + 1 < *count_max && stripe.cells >= *cells {
                    stripe.last_row = Some(Bytes::copy_from_slice(cell.row()));
                }
            }
        }
        stripe.index
    }

    /// Returns the stripe of the file with this index; `None` for a file that belongs to none.
    fn stripe_of(&self, index: usize) -> Option<StripeRange> {
        match self.plan.layout {
            OutputLayout::One | OutputLayout::Windows(_) => None,
            OutputLayout::Stripes(ranges) => Some(ranges[index].clone()),
            OutputLayout::Split { range, .. } => {
                let start_of = |index: usize| self.stripe.starts.get(index).cloned();
                let start = start_of(index).unwrap_or_else(|| range.start.clone());
                let end = start_of(index + 1).unwrap_or_else(|| range.end.clone());
                Some(StripeRange { start, end })
            }
        }
    }

    /// Appends a cell to its file, and marks it there as warm if `is_warm`. Returns the number of bytes written.
    fn append(&mut self, cell: Cell<'_>, is_warm: bool) -> Result<u64> {
        let index = self.index_of(cell);
        self.begin(index)?;
        let file = self.files[index].as_mut().expect("it was just begun");
        let (cell, mob_bytes) = match &mut self.mob {
            None => (cell, 0),
            Some(mob) => mob.place(cell, &mut file.mob_refs)?,
        };
        file.writer.append(cell)?;
        if is_warm {
            file.writer.mark_warm();
        }
        Ok(cell.bytes().len() as u64 + mob_bytes)
    }

    fn begin(&mut self, index: usize) -> Result<()> {
        let slot = &mut self.files[index];
        if slot.is_none() {
            *slot = Some(self.region.begin_file(self.store, self.plan.codec, self.plan.blocks_to_cache)?);
        }
        Ok(())
    }

    /// Ends all files and opens them, in their order. At least one is written. The MOB files are durable before them.
    fn finish(mut self) -> Result<Vec<NewFile>> {
        if let (OutputLayout::Stripes(ranges), Some(kept)) = (self.plan.layout, self.plan.kept_stripes) {
            for index in (0..ranges.len()).filter(|index| kept.contains(&ranges[*index])) {
                self.begin(index)?;
            }
        }
        if self.files.iter().all(Option::is_none) {
            let newest = self.files.len() - 1;
            self.begin(newest)?;
        }
        let mob_files: Arc<[FinishedMobFile]> = match self.mob.take().map(MobOutput::finish).transpose() {
            Ok(files) => files.unwrap_or_default().into(),
            Err(error) => {
                self.abandon();
                return Err(error);
            }
        };
        let mut done: Vec<NewFile> = Vec::new();
        let stripes: Vec<_> = (0..self.files.len()).map(|index| self.stripe_of(index)).collect();
        let files = std::mem::take(&mut self.files).into_iter().zip(stripes);
        let mut unfinished = files.filter_map(|(file, stripe)| Some((file?, stripe)));
        while let Some((file, stripe)) = unfinished.next() {
            let mut info = self.plan.info.clone();
            info.more.extend(stripe.iter().flat_map(StripeRange::facts));
            if self.plan.mob.is_some() {
                // The property is written even if the list is empty: HBase deletes no MOB file of a family while a
                // store file lacks the property.
                info.more.push((MOB_FILE_REFS, file.mob_refs.to_value()));
            }
            match self.region.finish_file(self.store, file, info) {
                Ok(file) => done.push(NewFile { _mob_files: Arc::clone(&mob_files), ..file }),
                Err(error) => {
                    unfinished.for_each(|(file, _)| file.writer.abandon());
                    done.iter().for_each(|made| self.store.give_up(&made.file));
                    return Err(error);
                }
            }
        }
        Ok(done)
    }

    fn abandon(self) {
        self.mob.into_iter().for_each(MobOutput::abandon);
        self.files.into_iter().flatten().for_each(|file| file.writer.abandon());
    }
}

impl Region {
    /// Streams `heap` through `rewrite` into new files, for a flush, and opens them. A region that is being
    /// closed does not wait for the write budget of flushes.
    pub(crate) fn write_flush(
        &self,
        store: &Store,
        heap: Heap,
        rewrite: CompactionMatcher,
        plan: &NewFilePlan<'_>,
    ) -> Result<Vec<NewFile>> {
        self.write_files(store, heap, rewrite, plan, &mut |_, bytes| {
            let closes = || self.write.try_lock().is_some_and(|state| state.closing);
            self.options.flush_budget.spend(bytes, &self.world, closes);
            Ok(())
        })
    }

    /// Writes the cells of `heap` that `rewrite` keeps to new files, and opens these. `progress` gets the number of
    /// cells read and of bytes written since its last call. If it returns an error, the work ends and the new files are
    /// deleted.
    pub(crate) fn write_files(
        &self,
        store: &Store,
        mut heap: Heap,
        mut rewrite: CompactionMatcher,
        plan: &NewFilePlan<'_>,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Vec<NewFile>> {
        let count = match plan.layout {
            OutputLayout::One | OutputLayout::Split { .. } => 1,
            OutputLayout::Windows(boundaries) => boundaries.len().max(1),
            OutputLayout::Stripes(ranges) => ranges.len(),
        };
        let files = (0..count).map(|_| None).collect();
        let mob = plan.mob.map(|mob| MobOutput::new(self, store, mob, plan.codec, plan.info.clone()));
        let mut outputs =
            OutputFiles { region: self, store, plan, files, mob, stripe: OutputStripe::default() };
        let mut stream = || -> Result<()> {
            heap.seek(KeyBuf::first_on_row(b"").position())?;
            let (mut read, mut bytes) = (0u64, 0u64);
            while let Some(cell) = heap.peek() {
                outputs.stripe.cells += 1;
                if rewrite.keeps(cell) {
                    heap.fetch_ahead();
                    bytes += outputs.append(cell, heap.was_in_cache())?;
                }
                heap.advance()?;
                read += 1;
                if read >= REPORT_CELLS || bytes >= REPORT_BYTES {
                    progress(std::mem::take(&mut read), std::mem::take(&mut bytes))?;
                }
            }
            progress(read, bytes)
        };
        match stream() {
            Ok(()) => outputs.finish(),
            Err(error) => {
                outputs.abandon();
                Err(error)
            }
        }
    }

    /// Creates a file from what `write` writes, and opens it.
    pub(crate) fn write_file_by(
        &self,
        store: &Store,
        codec: &str,
        info: StoreFileInfo,
        blocks_to_cache: BlocksToCache,
        write: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<NewFile> {
        let mut file = self.begin_file(store, codec, blocks_to_cache)?;
        if let Err(error) = write(&mut file.writer) {
            file.writer.abandon();
            return Err(error);
        }
        self.finish_file(store, file, info)
    }

    fn begin_file(
        &self,
        store: &Store,
        codec: &str,
        blocks_to_cache: BlocksToCache,
    ) -> Result<UnfinishedFile> {
        let name = format!("{:016x}{:016x}", self.world.random(), self.world.random());
        let path = store.folder.join(&name);
        self.check_owner()?;
        let pin = self.options.open_files.pin(&path);
        let pin = pin.ok_or_else(|| {
            Error::Broken(format!("the janitor has condemned {path}, the random name of a new store file"))
        })?;
        let file = self.files.create(&path)?;
        let options = store.writer_options(codec, true, self.world.now().0);
        let cached = self.cache.open_file(path.as_str(), 0, Store::caching(&self.info, &store.options()));
        let (wanted, into_room) = match blocks_to_cache {
            BlocksToCache::OfFlush { into_room } => (cached.kept_of_flush(), into_room),
            BlocksToCache::OfCompaction { bytes } => (cached.kept_of_compaction(bytes), false),
        };
        let cache = CacheOnWrite::new(cached, wanted, into_room);
        let writer = Writer::create(file, path.clone(), options).with_cache(cache);
        Ok(UnfinishedFile { name, path, pin, writer, mob_refs: MobFileRefs::default() })
    }

    fn finish_file(&self, store: &Store, file: UnfinishedFile, info: StoreFileInfo) -> Result<NewFile> {
        let UnfinishedFile { name, path, pin, writer, mob_refs: _ } = file;
        let written = match writer.finish(info) {
            Ok(written) => written,
            Err(error) => {
                // If the file cannot be deleted now, it is deleted when the region is opened again, because no list
                // names it.
                let _left = self.files.delete(&path);
                return Err(error.into());
            }
        };
        let opener = FileOpener {
            files: &*self.files,
            cache: &self.cache,
            caching: &Store::caching(&self.info, &store.options()),
            open_files: &self.options.open_files,
        };
        let listed = Listed { name, size: written.size, reference: None };
        let file = StoreFile::open_written(&opener, &store.folder, listed, written.end);
        let file = file.inspect_err(|_| {
            self.cache.remove_file(path.as_str());
        });
        let file = Arc::new(file?);
        Ok(NewFile { file, warm: written.warm, _pin: pin, _mob_files: Arc::default() })
    }
}
