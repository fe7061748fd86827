//! The only operation that changes a store's files: it writes a new list, then gives readers a new view.
//!
//! 1. The new files are complete and at their final places; no list names them.
//! 2. The list is replaced. From here on, the store finds the new files and not the removed ones when it is opened.
//! 3. The view is replaced: new readers use the new files. A marker in the log tells followers.
//! 4. The removed files are left to the janitor. Earlier readers continue to read them.
//!
//! If step 2 fails, the new files are left to the janitor. But if the new list may have been written, no file is left
//! to the janitor until a later list has ended the [doubt](crate::Error::InDoubt).

use std::sync::Arc;

use cell::{SequenceId, string_binary};
use storage::FileName;
use wal::{Kind, StoreChange};

use crate::markers::change;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{Listed, StoreFile};
use crate::view::View;
use crate::{Error, Result};

/// A change of a store's files: the files to remove and to add, and the other changes of the view.
pub(crate) struct Commit<'a> {
    /// The files of the current view to remove.
    pub(crate) remove: &'a [Arc<StoreFile>],
    /// The new files. They take the place of the newest removed one, or come last.
    pub(crate) add: Vec<Arc<StoreFile>>,
    /// Whether the new files are older than all others, if none is removed.
    pub(crate) are_oldest: bool,
    /// Makes the new view from the old one; the commit itself sets the view's files.
    pub(crate) view: &'a dyn Fn(&View) -> View,
    /// Whether the commit is also made while the region closes.
    pub(crate) while_closing: bool,
    /// Kind and sequence id of the marker that this commit appends to the log, from which followers learn of the new
    /// list. `None` if the caller appends the marker.
    pub(crate) marker: Option<(Kind, SequenceId)>,
}

impl Region {
    /// Changes a store's files. Durable when this returns. The markers are in the log in the order of the lists.
    ///
    /// Fails with [`Error::NotServing`] if the region is closing and `while_closing` is `false`, because its next owner
    /// may have read the list already. Fails with [`Error::Broken`] if the store no longer lists a file to be removed.
    /// Fails with [`Error::Aborted`] after an abort, because the next opening, which completes unfinished changes, must
    /// find the lists unchanged. Fails with [`Error::Fenced`], and aborts the region, if another server has taken the list.
    pub(crate) fn commit(&self, store: &Store, commit: Commit<'_>) -> Result<StoreChange> {
        let Commit { remove, add, are_oldest, view, while_closing, marker } = commit;
        self.check_owner().inspect_err(|_| add.iter().for_each(|file| file.forget_blocks()))?;
        let mut tracker = store.tracker.lock();
        let refused = || add.iter().for_each(|file| store.give_up(file));
        self.check_not_aborted().inspect_err(|_| refused())?;
        if !while_closing && self.write.lock().closing {
            refused();
            return Err(Error::NotServing(string_binary(self.info.name()).to_string()));
        }
        let is_removed = |file: &Arc<StoreFile>| remove.iter().any(|removed| Arc::ptr_eq(removed, file));
        let old = store.view.load().files.clone();
        // The new files take the place of the newest file that they replace, because they have its sequence id.
        let place = old.iter().rposition(is_removed).map(|last| last + 1 - remove.len());
        let mut files: Vec<Arc<StoreFile>> = old.iter().filter(|file| !is_removed(file)).cloned().collect();
        if old.len() - files.len() != remove.len() {
            refused();
            return Err(Error::Broken(format!(
                "store {} no longer has the files to be replaced",
                store.folder
            )));
        }
        // Files that flushes have added during a compaction stay last.
        let place = place.unwrap_or(if are_oldest { 0 } else { files.len() });
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
        tracker.replace(&list).inspect_err(|_| refused()).map_err(|error| self.abort_if_fenced(error))?;
        store.change_view(|old| View { files: files.clone(), ..view(old) });
        let change = StoreChange { list: tracker.state(&files), ..change(store, &add, remove) };
        if let Some((kind, sequence)) = marker {
            let _nobody_waits = self.mark(kind, sequence, vec![change.clone()]);
        }
        drop(tracker);
        remove.iter().for_each(|file| file.forget_blocks());
        store.leave_to_janitor(remove);
        Ok(change)
    }
}

impl Store {
    /// Passes a new file that no list will name to the janitor, which deletes it.
    pub(crate) fn give_up(&self, file: &Arc<StoreFile>) {
        file.forget_blocks();
        self.leave_to_janitor(std::slice::from_ref(file));
    }

    /// Records files that the store no longer lists. The janitor deletes one only if no holder needs it.
    fn leave_to_janitor(&self, files: &[Arc<StoreFile>]) {
        let places = files.iter().map(|file| self.folder.join(&file.listed.name));
        self.unlisted.lock().extend(places);
    }

    /// Returns the files that the list no longer names, for the janitor; none while the list is in doubt.
    pub(crate) fn unlisted(&self) -> Vec<FileName> {
        let tracker = self.tracker.lock();
        if tracker.is_in_doubt() { Vec::new() } else { self.unlisted.lock().clone() }
    }

    /// Forgets files that the janitor has deleted.
    pub(crate) fn forget_unlisted(&self, gone: &[FileName]) {
        self.unlisted.lock().retain(|name| !gone.contains(name));
    }
}
