//! Deletes files that a region no longer lists, through the janitor.

use storage::FileName;

use crate::Result;
use crate::janitor::Janitor;
use crate::region::Region;
use crate::store::Store;

/// The files that a search for unlisted files considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The files that compactions have replaced since the region was opened, and those that failed operations have left
    /// since.
    GivenUp,
    /// The files of `GivenUp`, and all unlisted files in the stores' folders, which a crash or a failed deletion has
    /// left.
    Folders,
}

impl Region {
    /// Lets `janitor` delete the files that the region's lists do not name. Skips a store whose list is in doubt.
    /// Returns the number of deleted files, which with [`Search::Folders`] includes outdated file lists.
    pub fn clean(&self, janitor: &Janitor, search: Search) -> Result<usize> {
        self.check_serving()?;
        self.check_owner()?;
        let mut removed = 0;
        for store in &self.stores {
            let mut candidates = store.unlisted();
            if search == Search::Folders {
                removed += self.remove_stale_lists(store)?;
                candidates.extend(self.unlisted_in_folder(store)?);
                candidates.sort();
                candidates.dedup();
            }
            let gone = janitor.collect(&candidates)?;
            store.forget_unlisted(&gone);
            removed += gone.len();
        }
        Ok(removed)
    }

    /// Whether it is unknown which list of one of the stores counts, because a write of a list has failed and may have
    /// happened.
    pub fn is_in_doubt(&self) -> bool {
        self.stores.iter().any(|store| store.tracker.lock().is_in_doubt())
    }

    /// Whether files of [`Search::GivenUp`] still exist.
    pub fn has_given_up_files(&self) -> bool {
        self.stores.iter().any(|store| !store.unlisted.lock().is_empty())
    }

    fn remove_stale_lists(&self, store: &Store) -> Result<usize> {
        let tracker = store.tracker.lock();
        // While the region closes, its next owner may already write a list, so no list is removed.
        if self.write.lock().closing { Ok(0) } else { tracker.remove_stale() }
    }

    /// Returns the files in the store's folder that its list does not name. A file that is being written is among them;
    /// it is pinned, so the janitor keeps it.
    fn unlisted_in_folder(&self, store: &Store) -> Result<Vec<FileName>> {
        let tracker = store.tracker.lock();
        if tracker.is_in_doubt() {
            return Ok(Vec::new());
        }
        let listed = store.view.load().files.clone();
        let is_unlisted = |name: &FileName| {
            let is_direct = name.below(&store.folder).is_some_and(|rest| !rest.contains('/'));
            is_direct && !listed.iter().any(|file| file.listed.name == name.last())
        };
        let entries = self.files.list(&store.folder)?.into_iter().map(|entry| entry.name);
        Ok(entries.filter(is_unlisted).collect())
    }
}
