//! Holders that are stored as files: file lists and links.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage::{FileName, Files};

use super::{FileHolder, store_of};
use crate::store_file::{StoreFileName, StorePlace};
use crate::{Error, Result, tracker};

/// A holder: the file lists of all regions of a table. A list needs the store's own files, and the files of other
/// regions to which the store has references.
///
/// All complete lists of a store count, not only the newest: after a power failure an older one may be the valid one.
pub(super) struct FileLists<'a> {
    pub(super) files: &'a dyn Files,
    /// The folder of a region whose own lists do not count.
    pub(super) except: Option<&'a FileName>,
}

impl FileLists<'_> {
    pub(super) fn mark_held(&self, files: &[FileName], held: &mut [bool]) -> Result<()> {
        let stores: Vec<Option<StorePlace>> = files.iter().map(store_of).collect();
        let tables: BTreeSet<FileName> = stores.iter().flatten().map(StorePlace::table_folder).collect();
        let mut named = BTreeSet::new();
        for table in tables {
            let lists = self.files.list(&table)?.into_iter().filter_map(|entry| entry.name.parent());
            let folders: BTreeSet<FileName> = lists.filter(tracker::is_list_folder).collect();
            let own: BTreeSet<FileName> = stores.iter().flatten().map(StorePlace::folder).collect();
            let counts = |store: &FileName| {
                let is_asked = self.except.is_none() || store.parent().as_ref() != self.except;
                is_asked && (own.contains(store) || !env::planted(20))
            };
            for folder in folders.iter().filter_map(FileName::parent).filter(counts) {
                named.extend(named_by(self.files, &folder)?);
            }
        }
        for (name, held) in files.iter().zip(held) {
            *held |= named.contains(name);
        }
        Ok(())
    }
}

/// A holder: links from other stores. Each link has left a back reference beside the place of its target in the
/// archive.
///
/// A back reference alone holds no file: the store that it names must have the link. If the name of a back reference
/// cannot be parsed, the file is held.
pub(super) struct BackReferences(pub(super) Arc<dyn Files>);

impl FileHolder for BackReferences {
    fn mark_held(&self, files: &[FileName], held: &mut [bool]) -> Result<()> {
        for (name, held) in files.iter().zip(held).filter(|(_, held)| !**held) {
            if let Some(store) = store_of(name) {
                *held = self.is_linked(name, &store)?;
            }
        }
        Ok(())
    }
}

impl BackReferences {
    fn is_linked(&self, name: &FileName, store: &StorePlace) -> Result<bool> {
        for back in self.0.list(&store.back_references(name.last()))? {
            // The name of the back reference cannot be parsed, so the file is kept.
            let Some(linking) = store.of_back_reference(back.name.last()) else { return Ok(true) };
            let folder = linking.folder();
            if named_by(&*self.0, &folder)?.contains(name) || self.has_link(&folder, name, &linking)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a link file points to the file. It counts even if no list names it yet.
    fn has_link(&self, folder: &FileName, name: &FileName, linking: &StorePlace) -> Result<bool> {
        let leads_there = |file: &FileName| {
            let parsed = StoreFileName::parse(file.last()).ok().filter(|parsed| parsed.link.is_some());
            parsed.is_some_and(|parsed| parsed.origin(linking).places_of(&parsed.file).contains(name))
        };
        Ok(self.0.list(folder)?.iter().any(|entry| {
            entry.name.below(folder).is_some_and(|rest| !rest.contains('/')) && leads_there(&entry.name)
        }))
    }
}

/// Returns all places of files that complete lists of the store in `folder` need: its own files, its link and reference
/// files, the possible places of their targets, and a parent's link to which a reference points.
pub(super) fn named_by(files: &dyn Files, folder: &FileName) -> Result<BTreeSet<FileName>> {
    let mut named = BTreeSet::new();
    let here = StorePlace::of_folder(folder);
    for listed in tracker::all_listed(files, folder)? {
        let parsed = StoreFileName::parse(&listed.name).map_err(|error| Error::Corrupt {
            file: folder.to_string(),
            what: "name in the file list",
            expected: "the name of a store file".to_owned(),
            found: error.to_string(),
        })?;
        named.insert(folder.join(&listed.name));
        if let Some(here) = &here {
            named.extend(parsed.origin(here).places_of(&parsed.file));
            // If `listed` is half of a file that the parent has as a link, it needs the parent's link: the back
            // reference beside the target names only the parent.
            named.extend(parsed.link_of_parent(here));
        }
    }
    Ok(named)
}
