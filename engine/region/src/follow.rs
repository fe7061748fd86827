//! Follows a region that another process owns and writes, so that this process can read it.
//!
//! The owner's log has in one order all edits that are logged, and a marker for each change of a store's file list. A
//! follower
//!
//! 1. reads the file lists and the log up to a position ([`RegionFollower::open`]);
//! 2. applies every later record, in order ([`RegionFollower::apply`]): it inserts the cells of an edit into memory; at
//!    a marker it adds and removes files, and drops the cells that the new files have from memory;
//! 3. makes what was applied visible to readers ([`RegionFollower::show`]).
//!
//! It writes nothing and deletes nothing.
//!
//! **Lists and log.** The lists are read later than the log, so they may be ahead of it. Each list and each marker has
//! a timestamp ([`wal::ListState`]), which grows with every change, regardless of the owner. The follower skips a
//! marker whose change its list has already. It applies later markers, and the resulting file names must have the
//! digest in the marker. An owner that opens the region writes a marker with all files that it has found; the follower
//! applies the difference in the same way. Three things make the follower [outdated](FollowOutcome::Outdated): a digest
//! that differs, a marker without a timestamp, and a file that was compacted away and deleted before the follower
//! opened it. An outdated follower still serves the data that it has, until a new one is opened in its place.
//!
//! **What readers see.** The files of a new follower may have writes that it has not yet read in the log, and it cannot
//! tell which cells these are. So its user must not serve the region before the follower has applied everything that
//! the log had when the lists were read. From then on readers see a prefix of the owner's writes, row by row.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cell::SequenceId;
use memstore::Segment;
use storage::Kind as StorageKind;
use wal::{Kind, LogPosition, LogReader, Marker, Record, StoreChange};

use crate::open::{CoveredStore, CoveredWrites};
use crate::opening::Opening;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{FileOpener, Listed, StoreFile};
use crate::view::View;
use crate::{Error, Result};

/// A region that follows its owner's log; see the module documentation.
pub struct RegionFollower {
    region: Arc<Region>,
    opening: Opening,
    covered: CoveredWrites,
    /// The last sequence id that is in memory or in files.
    applied: SequenceId,
    is_outdated: bool,
}

/// The result of applying a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowOutcome {
    /// The record was applied, or changes nothing.
    Applied,
    /// The follower cannot continue, and a new one must be opened in its place.
    Outdated,
}

impl RegionFollower {
    /// Opens the region with the content of its files and the records of `log` before `until`. `log` must have been
    /// read before this call.
    ///
    /// Fails with [`Error::Storage`] of kind [`NotFound`](StorageKind::NotFound) when a store file was compacted away
    /// meanwhile, and with [`wal::Error::Gone`] when a log file was deleted. The caller should then read the log again
    /// and repeat the call.
    pub fn open(opening: Opening, log: &Arc<LogReader>, until: LogPosition) -> Result<RegionFollower> {
        let opening = Opening { recovered: None, ..opening };
        let with_log = Opening { recovered: Some(Arc::clone(log)), ..opening.clone() };
        let region = Region::open_to_follow(with_log, until)?;
        let (covered, applied) = (CoveredWrites::of(&region), region.read_point());
        Ok(RegionFollower { region, opening, covered, applied, is_outdated: false })
    }

    /// Returns the region, which is open for reading.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Returns the inputs with which the follower was opened, for opening another one.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Makes the follower outdated: it ignores all further records.
    pub fn give_up(&mut self) {
        self.is_outdated = true;
    }

    /// Whether another follower must be opened in its place.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Applies the next record of the region. [`show`](RegionFollower::show) makes it visible to readers.
    ///
    /// An outdated follower ignores the record. An error means damage or a failure of storage; the call may be
    /// repeated.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<FollowOutcome> {
        if self.is_outdated {
            return Ok(FollowOutcome::Outdated);
        }
        let fits = match record.kind {
            Kind::Edit => {
                self.apply_edit(record)?;
                true
            }
            Kind::FlushCommit | Kind::Compaction | Kind::BulkLoad | Kind::RegionOpen => {
                match Marker::decode(record) {
                    Some(marker) => self.apply_marker(&marker)?,
                    None => false,
                }
            }
            _ => true,
        };
        self.is_outdated = !fits;
        Ok(if fits { FollowOutcome::Applied } else { FollowOutcome::Outdated })
    }

    /// Makes everything that was applied visible to readers.
    pub fn show(&self) {
        self.region.mvcc.follow(self.applied);
    }

    fn apply_edit(&mut self, record: &Record<'_>) -> Result<()> {
        let region = Arc::clone(&self.region);
        let mut state = region.write.lock();
        let before = region.memstore_bytes();
        if region.insert_logged(record, &mut self.covered)? && before == 0 {
            region.memstore.oldest_edit.store(record.time.0, Ordering::Relaxed);
        }
        state.last_sequence = state.last_sequence.max(record.sequence);
        self.applied = self.applied.max(record.sequence);
        Ok(())
    }

    /// Applies a marker. Returns `false` if it does not fit this follower's files.
    fn apply_marker(&mut self, marker: &Marker) -> Result<bool> {
        for change in &marker.stores {
            let Ok(index) = self.region.store_index(&change.family) else { return Ok(false) };
            let fits = match marker.kind {
                Kind::RegionOpen => self.meet_owner(index, change)?,
                _ => self.change_files(index, change)?,
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(marker.kind != Kind::RegionOpen || marker.stores.len() == self.region.stores.len())
    }

    /// Makes the store's files equal to those that the owner had when it opened the region. Returns `false` if that is
    /// not possible.
    fn meet_owner(&mut self, index: usize, change: &StoreChange) -> Result<bool> {
        let files = self.region.stores[index].view.load().files.clone();
        // The owner's store has no list, so it has no files.
        if change.list.is_none() {
            return Ok(change.added.is_empty() && files.is_empty());
        }
        let is_here = |name: &str| files.iter().any(|file| *file.listed.name == *name);
        let stays = |name: &str| change.added.iter().any(|other| **other == *name);
        let removed = files.iter().map(|file| &*file.listed.name).filter(|name| !stays(name));
        let difference = StoreChange {
            family: change.family.clone(),
            added: change.added.iter().filter(|name| !is_here(name)).cloned().collect(),
            removed: removed.map(Box::from).collect(),
            list: change.list,
        };
        self.change_files(index, &difference)
    }

    /// Adds and removes the files of a change; does nothing if the follower's list is not older than the change.
    /// Returns `false` if the change has no list state, if the resulting list would differ from the owner's, or if a
    /// new file no longer exists.
    fn change_files(&mut self, index: usize, change: &StoreChange) -> Result<bool> {
        let region = Arc::clone(&self.region);
        let store = &region.stores[index];
        let Some(theirs) = change.list else { return Ok(false) };
        let old = store.view.load().files.clone();
        let own = store.tracker.lock().state(&old);
        if own.is_some_and(|own| own.timestamp >= theirs.timestamp) {
            return Ok(true);
        }
        let is_removed =
            |file: &&Arc<StoreFile>| change.removed.iter().any(|name| **name == *file.listed.name);
        let mut files: Vec<Arc<StoreFile>> = old.iter().filter(|file| !is_removed(file)).cloned().collect();
        let names =
            files.iter().map(|file| &*file.listed.name).chain(change.added.iter().map(|name| &**name));
        if wal::ListState::digest(names) != theirs.digest {
            return Ok(false);
        }
        for name in &change.added {
            match self.open_file(store, name) {
                Ok(file) => files.push(Arc::new(file)),
                Err(Error::Storage(error)) if error.kind() == StorageKind::NotFound && env::planted(44) => {}
                Err(Error::Storage(error)) if error.kind() == StorageKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        files.sort_by_key(|file| file.max_sequence());
        let newest = files.iter().map(|file| file.newest_sequence()).max().unwrap_or_default();
        // A new file has all writes up to its sequence id, including writes that were not logged.
        self.applied = self.applied.max(newest);
        self.show();
        self.replace_view(index, files, newest)?;
        store.tracker.lock().follow(theirs);
        old.iter().filter(is_removed).for_each(|file| file.forget_blocks());
        Ok(true)
    }

    /// Gives readers the new files of a store, and drops the cells that these files have from memory.
    fn replace_view(&mut self, index: usize, files: Vec<Arc<StoreFile>>, newest: SequenceId) -> Result<()> {
        let region = Arc::clone(&self.region);
        let (store, pool) = (&region.stores[index], &region.options.memory);
        let mut covered = CoveredStore::of(&files);
        let _no_write = region.write.lock();
        let view = store.view.load_full();
        let with_files = View { files, horizon: view.horizon.max(newest), ..View::clone(&view) };
        if covered.flushed() <= self.covered.flushed(index)
            || view.segments().all(|segment| segment.is_empty())
        {
            store.view.store(Arc::new(with_files));
            self.covered.replace(index, covered);
            return Ok(());
        }
        let segments: Vec<Arc<Segment>> = view.segments().cloned().collect();
        let (mut active, mut pipeline) = (Arc::new(view.active.successor(pool)), Vec::new());
        let mut failure = None;
        // The owner may have dropped a delete marker from memory while a cell that it masks is still in this memory.
        // The new files then list the dropped marker, so it is inserted here.
        let may_mask = with_files.files.iter().any(|file| !file.dropped_markers.is_empty());
        let mut stayed: Vec<(SequenceId, Vec<u8>)> = Vec::new();
        let mut keep = |cell: cell::Cell<'_>| match covered.has(cell) {
            Ok(true) => {}
            Ok(false) => {
                if may_mask {
                    let mut block = Vec::new();
                    cell::block::write_with_tags(&mut block, cell);
                    stayed.push((cell.sequence(), block));
                }
                while !active.insert([cell.bytes()], cell.sequence()) {
                    let next = Arc::new(active.successor(pool));
                    pipeline.insert(0, std::mem::replace(&mut active, next));
                }
            }
            Err(error) => failure = Some(error),
        };
        if self.applied > covered_through(&with_files.files) && !env::planted(45) {
            Segment::visit(&segments, |cell, _| keep(cell));
        }
        if let Some(error) = failure {
            // The old active segment is sealed, and later writes go to a new one.
            let active = Arc::new(active.successor(pool));
            let snapshot = Vec::new();
            store.view.store(Arc::new(View { active, pipeline: segments, snapshot, ..View::clone(&view) }));
            return Err(error);
        }
        store.view.store(Arc::new(View { active, pipeline, snapshot: Vec::new(), ..with_files }));
        for (sequence, block) in &stayed {
            region.restore_markers(block, *sequence);
        }
        self.covered.replace(index, covered);
        if region.memstore_bytes() == 0 {
            region.memstore.oldest_edit.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn open_file(&self, store: &Store, name: &str) -> Result<StoreFile> {
        let opener = FileOpener {
            files: &*self.region.files,
            cache: &self.region.cache,
            caching: &Store::caching(&self.region.info, &store.options()),
            open_files: &self.region.options.open_files,
        };
        // Flushes, compactions and bulk loads create files of the store itself. So the name is neither a link nor a
        // reference.
        let size = self.region.files.open(&store.folder.join(name))?.size();
        StoreFile::open(&opener, &store.folder, Listed { name: name.to_owned(), size, reference: None })
    }
}

/// Returns the sequence id up to which `files` together have all writes. They may have single later ones, too.
fn covered_through(files: &[Arc<StoreFile>]) -> SequenceId {
    files.iter().map(|file| file.max_sequence()).max().unwrap_or_default()
}

impl std::fmt::Debug for RegionFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionFollower")
            .field("region", &self.region)
            .field("applied", &self.applied)
            .field("is_outdated", &self.is_outdated)
            .finish_non_exhaustive()
    }
}
