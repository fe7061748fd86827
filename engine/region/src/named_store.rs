//! The files of a store that a record outside of its folder names, as `hbase:storefile` of Amazon EMR does.
//!
//! Such a record is kept apart from the files, so it may be older than the folder. Two findings show that: a named file
//! does not exist, or an unnamed file has later writes than all named ones. Otherwise the unnamed files are what failed
//! flushes and compactions have left, or what a compaction has replaced, and they are no part of the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use cell::SequenceId;
use proto::{FamilyDescriptor, RegionInfo};
use storage::{FileName, Files, Kind};

use crate::found_store::{Finder, FoundBy, FoundStore};
use crate::store_file::Listed;
use crate::{Error, Result};

/// The files of one store, found by names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedStore {
    /// The named files that exist.
    pub store: FoundStore,
    /// The named files that do not exist.
    pub missing: Vec<FileName>,
    /// Store files in the folder that are not named.
    pub unnamed: Vec<UnnamedFile>,
}

/// A store file that is in the folder of its store and that is not named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedFile {
    /// The file.
    pub file: FileName,
    /// The sequence id up to which the file has the store's writes, if the named files have only earlier ones.
    pub newer: Option<SequenceId>,
}

impl From<FoundStore> for NamedStore {
    fn from(store: FoundStore) -> NamedStore {
        NamedStore { store, ..NamedStore::default() }
    }
}

impl NamedStore {
    /// Finds the files `names` of `family` in the region with the folder `region`, and opens each of them. Writes
    /// nothing.
    ///
    /// Fails when a named file is damaged or has a feature that this project does not support. Unnamed files may be
    /// damaged. As HBase does, passes over a named file that is empty.
    pub fn find(
        files: &Arc<dyn Files>,
        region: &FileName,
        info: &RegionInfo,
        family: &FamilyDescriptor,
        names: &BTreeSet<String>,
    ) -> Result<NamedStore> {
        let finder = Finder::of_store(files, region, info, family)?;
        let mut store = FoundStore::default();
        let in_folder = finder.in_folder(&mut store.ignored)?;
        let (named, others): (Vec<Listed>, Vec<Listed>) =
            in_folder.into_iter().partition(|listed| names.contains(&listed.name));
        let existing: BTreeSet<&str> = named
            .iter()
            .map(|listed| &*listed.name)
            .chain(store.ignored.iter().map(FileName::last))
            .collect();
        let missing = names.iter().filter(|name| !existing.contains(&***name));
        let missing = missing.map(|name| finder.folder.join(name)).collect();
        store.take(&finder, named, FoundBy::Folder)?;
        let unnamed = others.into_iter().map(|listed| look_at(&finder, listed, store.max_sequence));
        let unnamed = unnamed.collect::<Result<_>>()?;
        Ok(NamedStore { store, missing, unnamed })
    }
}

/// Looks at an unnamed file of a store whose named files have all writes up to `known`.
fn look_at(finder: &Finder<'_>, listed: Listed, known: SequenceId) -> Result<UnnamedFile> {
    let file = finder.folder.join(&listed.name);
    let newest = match finder.open(listed) {
        Ok(opened) => Some(opened.max_sequence()),
        // The file was never finished, or is a reference to a file that has gone: no read has ever returned its rows.
        Err(Error::Corrupt { .. } | Error::File(_)) => None,
        Err(Error::Storage(error)) if error.kind() == Kind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(UnnamedFile { file, newer: newest.filter(|newest| *newest > known) })
}
