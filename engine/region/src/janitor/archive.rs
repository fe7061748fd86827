//! The archive keeps files of deleted tables and regions that still have a holder. Its folder `archive/` has the same
//! subfolders as the root. HBase looks there for the target of a link or a snapshot.

use std::collections::BTreeSet;

use storage::{Capability, FileName, Files, Kind};

use super::mob::is_mob_place;
use super::{Janitor, store_of};
use crate::open_files::CondemnedFile;
use crate::store_file::StorePlace;
use crate::store_file::name::{ARCHIVE, target_of};
use crate::{Result, tracker};

impl Janitor {
    /// Deletes the folder of a table, region or family that is no longer in the catalog and whose regions are closed.
    /// Files that have a holder or a reader are moved to the archive. On storage where a deleted file cannot be read, a
    /// file with a reader is copied, and the original stays until its last reader has ended. After a failure or a crash
    /// the call can be repeated.
    ///
    /// The deletion of a family is durable when this returns, because a later family of that name must not find its
    /// lists. A loss of power may bring back files of tables and regions; that does no harm, because no later region
    /// has their names.
    ///
    /// Fails, and deletes nothing, if another process has taken over the [log](Janitor::owning).
    pub fn drop_folder(&self, folder: &FileName) -> Result<()> {
        let names: Vec<FileName> = self.files.list(folder)?.into_iter().map(|entry| entry.name).collect();
        // The files are listed first. So if this process is stopped after the check, it deletes only files that are older
        // than those of its successor.
        self.log.iter().try_for_each(|log| log.check_owner())?;
        let is_list = |name: &&FileName| name.parent().as_ref().is_some_and(tracker::is_list_folder);
        let (lists, files): (Vec<_>, Vec<_>) = names.iter().partition(is_list);
        // The lists of the dropped stores are deleted first. Otherwise they would count as holders of the files.
        for list in &lists {
            self.files.delete(list)?;
        }
        let (stored, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|name| store_of(name).is_some());
        self.drop_files(&stored.into_iter().cloned().collect::<Vec<_>>())?;
        for name in others {
            self.files.delete(name)?;
        }
        self.forget_grace(folder);
        if StorePlace::of_folder(folder).is_some() {
            let folders: BTreeSet<FileName> = names.iter().filter_map(FileName::parent).collect();
            folders.iter().try_for_each(|folder| make_deletions_durable(&*self.files, folder))?;
        }
        Ok(())
    }

    /// Moves each of `names` that has a holder or a reader to the archive, and deletes the others.
    fn drop_files(&self, names: &[FileName]) -> Result<()> {
        let _deleting = self.deleting.read();
        let condemned: Vec<Option<CondemnedFile<'_>>> =
            names.iter().map(|name| self.open_files.condemn(name)).collect();
        let mut held: Vec<bool> = condemned.iter().map(Option::is_none).collect();
        self.ask(names, &mut held)?;
        for ((name, held), condemned) in names.iter().zip(held).zip(condemned) {
            let is_unused = || condemned.as_ref().is_some_and(CondemnedFile::begin_deletion);
            if !held && is_unused() {
                self.delete(name)?;
                continue;
            }
            copy_to_archive(&*self.files, name)?;
            // A region that was opened meanwhile may have opened the original.
            if is_unused() || self.files.capabilities().has(Capability::ReadAfterDelete) {
                self.files.delete(name)?;
            } else {
                self.left_for_readers.lock().insert(name.clone());
            }
        }
        Ok(())
    }

    /// Deletes store files of the archive that no longer have a holder, and back references without a target. Returns
    /// the number of deleted files. MOB files of the archive are left to
    /// [`clean_mob_files`](Janitor::clean_mob_files), because holders of store files do not know them.
    pub fn clean_archive(&self, root: &FileName) -> Result<usize> {
        let archive = root.join(ARCHIVE);
        let names = self.files.list(&archive)?.into_iter().map(|entry| entry.name);
        let (back, files): (Vec<FileName>, Vec<FileName>) = names.partition(|name| target_of(name).is_some());
        let is_store_file = |name: &FileName| store_of(name).is_some_and(|store| !is_mob_place(&store));
        let files: Vec<FileName> = files.into_iter().filter(is_store_file).collect();
        let gone = self.collect(&files)?;
        self.delete_files_without_readers()?;
        // A back reference is kept as long as the file that it stands for exists.
        for back in &back {
            if !self.is_needed(back)? {
                self.files.delete(back)?;
            }
        }
        Ok(gone.len())
    }

    /// Whether the target of a back reference exists.
    fn is_needed(&self, back: &FileName) -> Result<bool> {
        let Some((store, file)) = target_of(back) else { return Ok(true) };
        for place in store.places_of(&file) {
            match self.files.open(&place) {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Deletes each original that [`drop_files`](Janitor::drop_files) left in place for its readers, once its last reader
    /// has ended. All of them are in the archive, too.
    fn delete_files_without_readers(&self) -> Result<()> {
        let names: Vec<FileName> = self.left_for_readers.lock().iter().cloned().collect();
        for name in names {
            let condemned = self.open_files.condemn(&name);
            if condemned.as_ref().is_some_and(CondemnedFile::begin_deletion) {
                self.files.delete(&name)?;
                self.left_for_readers.lock().remove(&name);
            }
        }
        Ok(())
    }
}

/// Copies a file of a store to its place in the archive; does nothing for other files, or if the file no longer exists.
/// In storage that only one process reaches, an earlier copy does not count while the original exists, because a crash
/// may have left it incomplete or not durable.
///
/// In other storage a server that was replaced may run this beside its successor, which deletes the original when it has
/// its copy. So a copy with the same bytes is kept there: it may be the only one.
pub(crate) fn copy_to_archive(files: &dyn Files, name: &FileName) -> Result<()> {
    let Some(store) = store_of(name) else { return Ok(()) };
    let to = store.archive().join(name.last());
    let from = match files.open(name) {
        Ok(from) => from,
        // The file is gone, so an earlier attempt has copied it and deleted the original.
        Err(error) if error.kind() == Kind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if files.capabilities().has(Capability::OneProcess) {
        files.delete(&to)?;
    }
    match storage::copy_unless_there(&*from, files, &to) {
        Ok(_) => Ok(()),
        // Somebody has deleted the original meanwhile: a janitor that found no holder for it, or an earlier attempt that
        // has its copy.
        Err(error) if error.kind() == Kind::NotFound && is_gone(files, name)? => {
            env::sometimes("region: a file was deleted while it was copied to the archive");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn is_gone(files: &dyn Files, name: &FileName) -> Result<bool> {
    match files.open(name) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == Kind::NotFound => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Makes the deletions of files in a folder durable, by syncing the folder.
pub(crate) fn make_deletions_durable(files: &dyn Files, folder: &FileName) -> Result<()> {
    let marker = folder.join(".emptied");
    storage::make_deletions_durable(files, &marker)?;
    Ok(files.delete(&marker)?)
}
