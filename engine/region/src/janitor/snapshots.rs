//! Snapshots as holders of files.
//!
//! Every file that a manifest names is kept, wherever the file is, and whether or not the snapshot is complete. While a
//! snapshot is being taken, all files of its table are kept, because the manifest is not written yet. The same holds for a
//! snapshot whose manifest is missing: it is damaged, or HBase took it in an older format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use env::sync::Mutex;
use prost::Message;
use proto::{EncodedName, RegionInfo, TableName, pb};
use storage::{FileName, Files, Kind};

use super::{FileHolder, store_of};
use crate::store_file::{StoreFileName, StorePlace};
use crate::{Error, Result};

/// Maximum size of a `.snapshotinfo` that is read, in bytes.
const INFO_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a manifest in bytes, enough for several million files. A larger manifest is an error.
const MANIFEST_BYTES_MAX: usize = 512 << 20;

/// A holder: all snapshots of the root directory.
pub(super) struct Snapshots {
    files: Arc<dyn Files>,
    /// The manifests that were read. While a manifest has no `.snapshotinfo` beside it, it is read anew each time.
    known: Mutex<BTreeMap<FileName, KnownManifest>>,
}

/// The content of a `.snapshotinfo`, and the files that the manifest beside it names. A manifest that replaces another one has
/// another `.snapshotinfo`: the master writes a number into it that it uses once.
type KnownManifest = (Vec<u8>, Arc<BTreeSet<FileName>>);

impl Snapshots {
    pub(super) fn new(files: Arc<dyn Files>) -> Snapshots {
        Snapshots { files, known: Mutex::default() }
    }

    /// Returns the original places of the files that all manifests name; `None` if a snapshot has no manifest, or has not
    /// yet, because it is being taken.
    pub(super) fn files_of_all(&self) -> Result<Option<BTreeSet<FileName>>> {
        let objects = layout::snapshot_objects(&*self.files)?;
        if !objects.running.is_empty() || !objects.without_manifest.is_empty() {
            return Ok(None);
        }
        let mut all = BTreeSet::new();
        for manifest in &objects.manifests {
            all.extend(self.named_by(manifest)?.iter().cloned());
        }
        Ok(Some(all))
    }

    /// Returns the content of an object; `None` if it is gone, or was replaced by a tombstone.
    fn read(&self, name: &FileName, bytes_max: usize) -> Result<Option<Vec<u8>>> {
        match self.files.read(name, bytes_max) {
            Ok(content) => Ok(Some(content).filter(|content| !layout::is_tombstone(content.len() as u64))),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the table that a `.snapshotinfo` names; `None` if the object is gone.
    fn table_of(&self, info: &FileName) -> Result<Option<TableName>> {
        let Some(content) = self.read(info, INFO_BYTES_MAX)? else { return Ok(None) };
        let corrupt = |found: String| corrupt(info, "description of a snapshot", found);
        let snapshot =
            pb::SnapshotDescription::decode(&content[..]).map_err(|error| corrupt(error.to_string()))?;
        snapshot.table().parse().map(Some).map_err(|error: proto::Error| corrupt(error.to_string()))
    }

    /// Returns the files that a manifest names, each by its original place.
    fn named_by(&self, manifest: &FileName) -> Result<Arc<BTreeSet<FileName>>> {
        let info = manifest.parent().map(|folder| folder.join(".snapshotinfo"));
        let info = info.map(|info| self.read(&info, INFO_BYTES_MAX)).transpose()?.flatten();
        if let (Some(info), Some((known, named))) = (&info, self.known.lock().get(manifest))
            && info == known
        {
            return Ok(Arc::clone(named));
        }
        let named = match self.read(manifest, MANIFEST_BYTES_MAX)? {
            Some(content) => Arc::new(files_of(manifest, &content)?),
            None => Arc::default(),
        };
        if let Some(info) = info {
            self.known.lock().insert(manifest.clone(), (info, Arc::clone(&named)));
        }
        Ok(named)
    }
}

impl FileHolder for Snapshots {
    fn mark_held(&self, files: &[FileName], held: &mut [bool]) -> Result<()> {
        let (objects, tables) = loop {
            let objects = layout::snapshot_objects(&*self.files)?;
            let without_manifest = objects.running.iter().chain(&objects.without_manifest);
            let tables = without_manifest.map(|info| self.table_of(info));
            // A snapshot that was being taken when the list was made, and is not any more, may be complete, with a manifest
            // that the list lacks.
            if let Some(tables) = tables.collect::<Result<Option<BTreeSet<TableName>>>>()? {
                break (objects, tables);
            }
            env::sometimes("janitor: a snapshot ended while the janitor asked for it");
        };
        self.known.lock().retain(|manifest, _| objects.manifests.contains(manifest));
        let named = objects.manifests.iter().map(|manifest| self.named_by(manifest));
        let named = named.collect::<Result<Vec<_>>>()?;
        for (name, held) in files.iter().zip(held).filter(|(_, held)| !**held) {
            let Some(store) = store_of(name) else { continue };
            let made = store.folder().join(name.last());
            *held = tables.contains(&store.table) || named.iter().any(|named| named.contains(&made));
        }
        Ok(())
    }
}

/// Returns the original places of the files in a manifest.
fn files_of(name: &FileName, content: &[u8]) -> Result<BTreeSet<FileName>> {
    let corrupt = |found: String| corrupt(name, "manifest of a snapshot", found);
    let manifest = pb::SnapshotDataManifest::decode(content).map_err(|error| corrupt(error.to_string()))?;
    let mut named = BTreeSet::new();
    for region in manifest.region_manifests {
        let info = RegionInfo::try_from(&region.region_info).map_err(|error| corrupt(error.to_string()))?;
        for family in region.family_files {
            let here = place_of(info.table(), info.encoded_name(), &family.family_name);
            for file in family.store_files {
                let parsed = StoreFileName::parse(&file.name).map_err(|error| corrupt(error.to_string()))?;
                named.insert(parsed.origin(&here).folder().join(&parsed.file));
            }
        }
    }
    Ok(named)
}

/// Returns the store of a family.
pub(crate) fn place_of(table: &TableName, region: &EncodedName, family: &[u8]) -> StorePlace {
    let folder = layout::region(table, region).join(&String::from_utf8_lossy(family));
    StorePlace::of_folder(&folder).expect("a family's folder is a store's")
}

fn corrupt(file: &FileName, what: &'static str, found: String) -> Error {
    Error::Corrupt { file: file.to_string(), what, expected: "a message of HBase".to_owned(), found }
}
