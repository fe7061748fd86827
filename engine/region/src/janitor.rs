//! The janitor: it alone deletes store files, and only those that nobody holds.
//!
//! Whoever gives a file up, or finds one that no list names, nominates it. Then
//!
//! 1. The janitor [condemns](OpenFiles::condemn) the file. A file that somebody of this process has in hand is left alone;
//!    a condemned one is pinned by nobody.
//! 2. It asks every [`FileHolder`]. Each reads what it needs anew: what a region has in memory decides nothing, and no
//!    holder concludes anything from what a listing lacks.
//! 3. It deletes what nobody holds. If one holder cannot tell, it deletes nothing.
//!
//! A file that nothing names is never named again, so a step that comes late does no harm. Files of a table that is
//! dropped go the same way; those that somebody holds move to the archive, where HBase looks for them too.

mod archive;
mod holders;

use std::sync::Arc;

use storage::{FileName, Files};

use crate::Result;
use crate::open_files::{CondemnedFile, OpenFiles};
use crate::store_file::name::ARCHIVE;
use crate::store_file::{StoreFileName, StorePlace};

use holders::{BackReferences, FileLists};

/// Somebody who may need a file that its store has given up.
pub trait FileHolder: Send + Sync {
    /// Sets `held` for each of `files` that it needs, and leaves the others as they are.
    ///
    /// An error means that it cannot tell; then no file is deleted.
    fn mark_held(&self, files: &[FileName], held: &mut [bool]) -> Result<()>;
}

/// Deletes the store files of a root directory that nobody holds.
pub struct Janitor {
    files: Arc<dyn Files>,
    open_files: Arc<OpenFiles>,
    holders: Vec<Arc<dyn FileHolder>>,
}

impl Janitor {
    /// A janitor that asks whoever has files in hand, the file lists of the same table, and links. Other holders are
    /// [added](Janitor::asking).
    pub fn new(files: Arc<dyn Files>, open_files: Arc<OpenFiles>) -> Janitor {
        let holders: Vec<Arc<dyn FileHolder>> =
            vec![Arc::new(FileLists(files.clone())), Arc::new(BackReferences(files.clone()))];
        Janitor { files, open_files, holders }
    }

    /// The same janitor, who asks `holder`, too.
    #[must_use]
    pub fn asking(mut self, holder: Arc<dyn FileHolder>) -> Janitor {
        self.holders.push(holder);
        self
    }

    /// Deletes those of `candidates` that nobody holds, and returns them. May touch the disk a great deal.
    pub fn collect(&self, candidates: &[FileName]) -> Result<Vec<FileName>> {
        let condemned: Vec<CondemnedFile<'_>> =
            candidates.iter().filter_map(|name| self.open_files.condemn(name)).collect();
        let names: Vec<FileName> = condemned.iter().map(|file| file.name().clone()).collect();
        let held = self.held(&names)?;
        let mut gone = Vec::new();
        for (name, _) in names.into_iter().zip(held).filter(|(_, held)| !held) {
            self.delete(&name)?;
            gone.push(name);
        }
        Ok(gone)
    }

    fn held(&self, names: &[FileName]) -> Result<Vec<bool>> {
        let mut held = vec![false; names.len()];
        if !names.is_empty() {
            for holder in &self.holders {
                holder.mark_held(names, &mut held)?;
            }
        }
        Ok(held)
    }

    /// Deletes a file that nobody holds, with the back reference of a link.
    fn delete(&self, name: &FileName) -> Result<()> {
        self.files.delete(name)?;
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

/// The store that a file in the folders of the root or of the archive belongs to; `None` for any other file.
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
        for other in ["data/ns/t/r/.regioninfo", "data/ns/t/r/f/.filelist/f1.1", "archive/x", "hbase.id"] {
            assert_eq!(store(other), None, "{other}");
        }
    }
}
