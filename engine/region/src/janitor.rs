//! The janitor deletes store files that no list names any more, and only those that no holder needs. Other code deletes
//! only new files that no list has named yet, or files of which the archive has a copy.
//!
//! A store that drops a file, or a search that finds an unlisted file, passes it to the janitor as a candidate.
//!
//! 1. The janitor [condemns](OpenFiles::condemn) the file. A file in use by this process is kept; a condemned file
//!    cannot be pinned.
//! 2. It asks every [`FileHolder`]. Each reads its state from storage: what a region has in memory proves nothing.
//!    Holders find file lists and back references by listing folders, so a listing must have what was written before
//!    it, as local disks and S3 promise.
//! 3. It deletes files that no holder needs and that were not opened meanwhile. If one holder cannot answer, the janitor
//!    deletes nothing.
//!
//! Where other processes may read, as in an object store, each file is kept for a [grace](Janitor::keeping), which
//! begins when its store has stopped listing it. Within that time a read replica learns from the log which files have
//! replaced it.
//!
//! [MOB files](mob) are kept as long as an existing store file or the manifest of a snapshot names them. Where other
//! processes reach the storage, [more rules](shared_mob) apply.
//!
//! A file that a list has dropped is never listed again, so a deletion that comes late does no harm. The files of a
//! dropped table are deleted in the same way; if they still have a holder, they first move to the archive, where HBase
//! looks for them.

pub(crate) mod archive;
mod grace;
mod holders;
mod mob;
mod shared_mob;
pub(crate) mod snapshots;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cache::Cache;
use env::World;
use env::sync::{Mutex, RwLock};
use storage::{Capability, FileName, Files};

use crate::Result;
use crate::open_files::{CondemnedFile, OpenFiles};
use crate::store_file::name::ARCHIVE;
use crate::store_file::{StoreFileName, StorePlace};

pub use shared_mob::CatalogRegions;

use grace::Grace;
use holders::{BackReferences, FileLists};
use snapshots::Snapshots;

/// A holder: something that may need a file that its store no longer lists.
pub trait FileHolder: Send + Sync {
    /// For each of `files` that this holder needs, sets the entry of `held` to true. Leaves the other entries
    /// unchanged.
    ///
    /// An error means that the holder cannot decide; then no file is deleted.
    fn mark_held(&self, files: &[FileName], held: &mut [bool]) -> Result<()>;
}

/// Deletes store files that have no holder. It works on the files below one root directory.
pub struct Janitor {
    files: Arc<dyn Files>,
    open_files: Arc<OpenFiles>,
    /// The cache that may have blocks of the files.
    cache: Option<Arc<Cache>>,
    /// The log that this process must own when it deletes files.
    log: Option<Arc<wal::Log>>,
    holders: Vec<Arc<dyn FileHolder>>,
    snapshots: Snapshots,
    /// How long an unlisted file is kept; `None` if a file without a holder is deleted at once.
    grace: Option<Grace>,
    /// The MOB files that store files name; see [`mob`].
    mob_files: Mutex<mob::KnownFiles>,
    /// Locked shared while store files are deleted, and exclusively while [`mob`] reads which MOB files the store files
    /// name.
    deleting: RwLock<()>,
    /// Files of dropped folders that are deleted when their last reader has ended, on storage where a deleted file
    /// cannot be read.
    left_for_readers: Mutex<BTreeSet<FileName>>,
}

impl Janitor {
    /// Creates a janitor with these holders: the files in use, the file lists of the same table, links, and snapshots.
    /// [`Janitor::asking`] adds others.
    pub fn new(files: Arc<dyn Files>, open_files: Arc<OpenFiles>) -> Janitor {
        let holders: Vec<Arc<dyn FileHolder>> = vec![Arc::new(BackReferences(files.clone()))];
        let snapshots = Snapshots::new(files.clone());
        Janitor {
            files,
            open_files,
            cache: None,
            log: None,
            holders,
            snapshots,
            grace: None,
            mob_files: Mutex::default(),
            deleting: RwLock::default(),
            left_for_readers: Mutex::default(),
        }
    }

    /// Makes the janitor keep each file for `grace` after the file was first offered for deletion. Has no effect on
    /// storage that only [one process](Capability::OneProcess) can open, because there are no other readers.
    #[must_use]
    pub fn keeping(mut self, world: World, grace: Duration) -> Janitor {
        let is_shared = !self.files.capabilities().has(Capability::OneProcess);
        self.grace = (is_shared && !grace.is_zero()).then(|| Grace::new(world, grace));
        self
    }

    /// Makes the janitor evict the blocks of each file that it deletes from `cache`. Otherwise those of dropped tables and
    /// of regions that were split would stay until the cache is full.
    #[must_use]
    pub fn evicting(mut self, cache: Arc<Cache>) -> Janitor {
        self.cache = Some(cache);
        self
    }

    /// Makes the janitor delete files only while this process owns `log`. A process that was stopped, and goes on after
    /// another has taken over its files, could otherwise delete what the other has written and not yet listed.
    #[must_use]
    pub fn owning(mut self, log: Arc<wal::Log>) -> Janitor {
        self.log = Some(log);
        self
    }

    /// Makes the janitor ask `holder` too.
    #[must_use]
    pub fn asking(mut self, holder: Arc<dyn FileHolder>) -> Janitor {
        self.holders.push(holder);
        self
    }

    /// Deletes the `candidates` that have no holder and whose grace is over, and returns them. A file that this process
    /// uses is kept. May read much from storage; reads nothing while the grace of every candidate lasts. After an error
    /// some of the candidates may have been deleted. Fails, and deletes nothing, if another process has taken over the
    /// [log](Janitor::owning).
    pub fn collect(&self, candidates: &[FileName]) -> Result<Vec<FileName>> {
        let _deleting = self.deleting.read();
        // A file that is being written is in use. It is not condemned, and its grace does not begin.
        let condemned: Vec<CondemnedFile<'_>> = candidates
            .iter()
            .filter_map(|name| self.open_files.condemn(name))
            .filter(|file| self.is_grace_over(file.name()))
            .collect();
        let names: Vec<FileName> = condemned.iter().map(|file| file.name().clone()).collect();
        let mut held = vec![false; names.len()];
        self.ask(&names, &mut held)?;
        // The candidates were found first. So if this process is stopped after the check, it deletes only files that are older
        // than those of its successor, by lists that the successor has found, too.
        if held.contains(&false) {
            self.log.iter().try_for_each(|log| log.check_owner())?;
        }
        let mut gone = Vec::new();
        for ((name, held), file) in names.iter().zip(held).zip(condemned) {
            if held {
                self.forget_grace(name);
            } else if file.begin_deletion() {
                self.delete(name)?;
                env::sometimes(match (self.grace.is_some(), is_archived(name)) {
                    (false, false) => "janitor: an unlisted file was deleted",
                    (false, true) => "janitor: a file of the archive was deleted",
                    (true, false) => "janitor: an unlisted file was deleted after its grace",
                    (true, true) => "janitor: a file of the archive was deleted after its grace",
                });
                gone.push(name.clone());
            }
        }
        Ok(gone)
    }

    /// Whether the grace of a file or folder that nobody needs any more is over, so that it may be deleted now.
    fn is_grace_over(&self, name: &FileName) -> bool {
        self.grace.as_ref().is_none_or(|grace| grace.is_over(name))
    }

    /// Forgets the graces of files that nobody has offered for deletion for a day. Called at the end of a search for
    /// unneeded files, which offers all of them again: between two searches there may be more than a day.
    pub fn forget_old_graces(&self) {
        self.grace.iter().for_each(Grace::tidy);
    }

    fn forget_grace(&self, name: &FileName) {
        self.grace.iter().for_each(|grace| grace.forget(name));
    }

    /// Whether anything else needs files of the closed region in `folder`: a daughter with references to them, a link,
    /// a reader, or a holder that was [added](Janitor::asking). Snapshots do not count, since they find the files in
    /// the archive. Reads all lists of the table. While the grace of the folder lasts, this returns `true` although
    /// nothing needs the files, because a replica may still read them.
    pub fn is_needed_elsewhere(&self, folder: &FileName) -> Result<bool> {
        let names: Vec<FileName> = self.files.list(folder)?.into_iter().map(|entry| entry.name).collect();
        let names: Vec<FileName> = names.into_iter().filter(|name| store_of(name).is_some()).collect();
        let condemned: Vec<_> = names.iter().filter_map(|name| self.open_files.condemn(name)).collect();
        if condemned.len() < names.len() {
            return Ok(true);
        }
        let mut held = vec![false; names.len()];
        self.ask_except(Some(folder), &names, &mut held)?;
        if held.contains(&true) {
            return Ok(true);
        }
        // Without files the folder was dropped by an earlier call, and nothing has to be kept.
        let is_needed = !names.is_empty() && !self.is_grace_over(folder);
        if !is_needed && !names.is_empty() {
            env::sometimes(match self.grace {
                None => "janitor: nothing needed the files of a region",
                Some(_) => "janitor: nothing needed the files of a region after its grace",
            });
        }
        Ok(is_needed)
    }

    /// Asks every holder which of `names` it needs, and sets their entries of `held` to true.
    ///
    /// A holder can pass a file on while the others are asked: a clone links the files of a snapshot, which is then
    /// deleted, and a snapshot names the files of a clone, which is then dropped. So links are asked before the
    /// snapshots, and again after them.
    fn ask(&self, names: &[FileName], held: &mut [bool]) -> Result<()> {
        self.ask_except(None, names, held)?;
        if names.is_empty() || env::planted(21) {
            return Ok(());
        }
        self.snapshots.mark_held(names, held)?;
        if held.iter().all(|held| *held) {
            return Ok(());
        }
        self.holders.iter().try_for_each(|holder| holder.mark_held(names, held))
    }

    /// Asks every holder except snapshots which of `names` it needs, and sets their entries of `held` to true. The
    /// lists of the region in the folder `except` are not asked.
    fn ask_except(&self, except: Option<&FileName>, names: &[FileName], held: &mut [bool]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        FileLists { files: &*self.files, except }.mark_held(names, held)?;
        self.holders.iter().try_for_each(|holder| holder.mark_held(names, held))
    }

    /// Deletes a file without a holder, and the back reference of a link.
    fn delete(&self, name: &FileName) -> Result<()> {
        self.files.delete(name)?;
        if let Some(cache) = &self.cache {
            cache.remove_file(name.as_str());
        }
        self.forget_grace(name);
        let place = name.parent().as_ref().and_then(StorePlace::of_folder);
        if let (Some(here), Ok(parsed)) = (place, StoreFileName::parse(name.last()))
            && parsed.link.is_some()
        {
            let back = parsed.origin(&here).back_references(&parsed.file).join(&here.as_back_reference());
            self.files.delete(&back)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Janitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Janitor").field("holders", &self.holders.len()).finish_non_exhaustive()
    }
}

/// Whether a file of a store is in the archive.
fn is_archived(name: &FileName) -> bool {
    store_of(name).is_some_and(|store| name.parent() != Some(store.folder()))
}

/// Returns the store of a file under the root or the archive; `None` for any other file.
fn store_of(name: &FileName) -> Option<StorePlace> {
    let folder = name.parent()?;
    let within = folder.as_str().split('/').collect::<Vec<_>>();
    // The archive repeats the root: [root/]archive/data/ns/table/region/family.
    let [before @ .., top, data, namespace, table, region, family] = &within[..] else {
        return StorePlace::of_folder(&folder);
    };
    if *top != ARCHIVE {
        return StorePlace::of_folder(&folder);
    }
    let parts = before.iter().chain([data, namespace, table, region, family]).copied().collect::<Vec<_>>();
    StorePlace::of_folder(&FileName::new(parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_archive_belongs_to_the_store_that_made_it() {
        let store = |name: &str| store_of(&FileName::new(name)).map(|store| store.folder().to_string());
        let folder = Some("data/ns/t/r/f".to_owned());
        assert_eq!(store("data/ns/t/r/f/abc"), folder);
        assert_eq!(store("archive/data/ns/t/r/f/abc"), folder);
        assert_eq!(store("root/archive/data/ns/t/r/f/abc"), Some("root/data/ns/t/r/f".to_owned()));
        assert!(is_archived(&FileName::new("root/archive/data/ns/t/r/f/abc")));
        assert!(!is_archived(&FileName::new("root/data/ns/t/r/f/abc")));
        for other in ["data/ns/t/r/.regioninfo", "data/ns/t/r/f/.filelist/f1.1", "archive/x", "hbase.id"] {
            assert_eq!(store(other), None, "{other}");
        }
    }
}
