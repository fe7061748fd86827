//! The one act by which a store's files change: a new list is written, then readers get a new view.
//!
//! 1. The new files are whole and at their final places; nothing names them.
//! 2. The list is replaced: some files are named no more, some are. From here on that is so for whoever opens the store.
//! 3. The view is replaced: readers that begin now see the new files.
//! 4. What is named no more is noted for the janitor. Readers that began before go on reading it.
//!
//! When 2 fails the new files are left to the janitor, too. When it may have happened nothing is left to it until a
//! later list has ended the [doubt](crate::Error::InDoubt).

use std::sync::Arc;

use storage::FileName;

use crate::region::Region;
use crate::store::{Store, View};
use crate::store_file::StoreFile;
use crate::tracker::Listed;
use crate::{Error, Result};

/// Which files go and which come, and what else changes of the view with that.
pub(crate) struct Commit<'a> {
    /// Files of the view.
    pub(crate) remove: &'a [Arc<StoreFile>],
    /// New files, which take the place of those that go, or come last.
    pub(crate) add: Vec<Arc<StoreFile>>,
    /// Makes the new view of the old one, but for its files.
    pub(crate) view: &'a dyn Fn(&View) -> View,
    /// Whether it is still done when the region closes.
    pub(crate) while_closing: bool,
}

impl Region {
    /// Changes which files a store has. Durable when this returns.
    ///
    /// Fails with [`Error::NotServing`] when the region closes: whoever opens it next may have read the list already.
    pub(crate) fn commit(&self, store: &Store, commit: Commit<'_>) -> Result<()> {
        self.check_owner()?;
        let Commit { remove, add, view, while_closing } = commit;
        let mut tracker = store.tracker.lock();
        let refused = || add.iter().for_each(|file| store.give_up(file));
        if !while_closing && self.write.lock().closing {
            refused();
            return Err(Error::NotServing(self.info.name().escape_ascii().to_string()));
        }
        let is_removed = |file: &Arc<StoreFile>| remove.iter().any(|removed| Arc::ptr_eq(removed, file));
        let old = store.view.load().files.clone();
        let place = old.iter().position(is_removed);
        let mut files: Vec<Arc<StoreFile>> = old.iter().filter(|file| !is_removed(file)).cloned().collect();
        if old.len() - files.len() != remove.len() {
            refused();
            return Err(Error::Broken(format!("{} has no longer the files that are replaced", store.folder)));
        }
        // Those that were added since the removed ones were chosen came last, and still do.
        let place = place.unwrap_or(files.len());
        files.splice(place..place, add.iter().cloned());
        let named = match remove.is_empty() {
            true if env::planted(3) => place,
            false if env::planted(8) => place + add.len(),
            _ => files.len(),
        };
        let list: Vec<Listed> = files[..named].iter().map(|file| file.listed.clone()).collect();
        if env::planted(19) {
            for file in remove {
                self.files.delete(&store.folder.join(&file.listed.name))?;
            }
        }
        tracker.replace(&list).inspect_err(|_| refused())?;
        store.change_view(|old| View { files: files.clone(), ..view(old) });
        drop(tracker);
        remove.iter().for_each(|file| file.forget_blocks());
        store.leave_to_janitor(remove);
        Ok(())
    }
}

impl Store {
    /// Leaves a new file that nothing will name to the janitor.
    pub(crate) fn give_up(&self, file: &Arc<StoreFile>) {
        file.forget_blocks();
        self.leave_to_janitor(std::slice::from_ref(file));
    }

    /// Notes files for the janitor, who asks everybody before it deletes one.
    fn leave_to_janitor(&self, files: &[Arc<StoreFile>]) {
        let places = files.iter().map(|file| self.folder.join(&file.listed.name));
        self.unlisted.lock().extend(places);
    }

    /// The files that the list has ceased to name, for the janitor to look at. None while the list is in doubt.
    pub(crate) fn unlisted(&self) -> Vec<FileName> {
        let tracker = self.tracker.lock();
        if tracker.is_in_doubt() { Vec::new() } else { self.unlisted.lock().clone() }
    }

    /// These files are gone.
    pub(crate) fn forget_unlisted(&self, gone: &[FileName]) {
        self.unlisted.lock().retain(|name| !gone.contains(name));
    }
}
