//! The MOB files that a snapshot needs. As in HBase, the manifest lists them as files of a region that no server opens,
//! [`layout::mob_region`]. `ExportSnapshot` copies only what a manifest lists.
//!
//! HBase lists the table's folder in `mobdir/`. Here the store files say which MOB files they need, so files that only
//! another snapshot needs are not listed. MOB files of another table, which a clone needs until its next major compaction,
//! are not listed either: HBase 2.6 does not recognize a link to a MOB file (`HFileLink.isHFileLink` rejects the part of the
//! name after `_`), and an export of a manifest with one would fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::{Cache, Caching};
use proto::pb::snapshot_region_manifest::{FamilyFiles, StoreFile as ManifestFile};
use proto::{RegionInfo, TableDescriptor, TableName, pb};
use storage::Files;

use super::{manifest, size_of};
use crate::found_store::MissingMobFile;
use crate::janitor::snapshots::place_of;
use crate::mob_format::names::MobFileRefs;
use crate::open_files::OpenFiles;
use crate::region::Region;
use crate::store_file::{FileOpener, Listed, Reference, StoreFile, StorePlace};
use crate::{Error, Result};

/// The MOB files that a region's part of a snapshot needs.
#[derive(Debug, Default)]
pub struct SnapshotMobFiles {
    /// The MOB files, as files of the table's region of MOB files; `None` if there are none.
    pub manifest: Option<pb::SnapshotRegionManifest>,
    /// The MOB files that do not exist, which the manifest leaves out.
    pub missing: Vec<MissingMobFile>,
}

impl Region {
    /// Returns the MOB files of the region's table to which the files in `source` refer. Opens the files of `source` whose family has MOB values,
    /// or had them.
    ///
    /// The caller must have recorded durably that a snapshot of the table is being taken.
    pub fn mob_files_of(
        files: &Arc<dyn Files>,
        source: &pb::SnapshotRegionManifest,
        table: &TableDescriptor,
    ) -> Result<SnapshotMobFiles> {
        let info = RegionInfo::try_from(&source.region_info).map_err(|error| {
            corrupt("snapshot of a region".to_owned(), "the description of a region", error.to_string())
        })?;
        let (mut families, mut missing) = (Vec::new(), Vec::new());
        for family in &source.family_files {
            let here = place_of(info.table(), info.encoded_name(), &family.family_name);
            let options = table.families().iter().find(|known| *known.name() == family.family_name);
            let options = options.and_then(|family| family.options().ok());
            // A family without MOB values now may have had them.
            let own = here.mob_place(&here.table).mob_folder();
            if !options.is_some_and(|options| options.is_mob) && files.list(&own)?.is_empty() {
                continue;
            }
            let store_files = mob_files_of_store(&**files, &here, &family.store_files, &mut missing)?;
            if !store_files.is_empty() {
                families.push(FamilyFiles { family_name: family.family_name.clone(), store_files });
            }
        }
        let region = layout::mob_region_info(info.table());
        let manifest = (!families.is_empty()).then(|| manifest(&region, families));
        Ok(SnapshotMobFiles { manifest, missing })
    }
}

/// Returns the MOB files to which these files of the store `here` refer, and adds those that do not exist to `missing`.
fn mob_files_of_store(
    files: &dyn Files,
    here: &StorePlace,
    store_files: &[ManifestFile],
    missing: &mut Vec<MissingMobFile>,
) -> Result<Vec<ManifestFile>> {
    let (cache, open_files) = (Arc::new(Cache::with_bytes(0)), Arc::<OpenFiles>::default());
    let caching = Caching::default();
    let opener = FileOpener { files, cache: &cache, caching: &caching, open_files: &open_files };
    let folder = here.folder();
    // The size of each, by name; `None` if there is no such file.
    let mut found: BTreeMap<String, Option<u64>> = BTreeMap::new();
    for file in store_files {
        let reference = file.reference.as_ref().map(Reference::try_from).transpose();
        let reference =
            reference.map_err(|error| corrupt(folder.to_string(), "a reference in a manifest", error))?;
        let listed = Listed { name: file.name.clone(), size: file.file_size.unwrap_or(0), reference };
        let file = StoreFile::open(&opener, &folder, listed)?;
        let Some(refs) = MobFileRefs::of_file(&file.reader)? else {
            // The file does not say what it needs, as those of HBase before 2.5. All of the table may be needed.
            let all = files.list(&here.mob_place(&here.table).mob_folder())?;
            for entry in all.into_iter().filter(|entry| !entry.name.last().contains('=')) {
                found.entry(entry.name.last().to_owned()).or_insert(Some(entry.size));
            }
            continue;
        };
        for (table, name) in refs.iter() {
            let table: TableName = table.parse().map_err(|_| {
                corrupt(folder.join(&file.listed.name).to_string(), "the name of a table", table.to_owned())
            })?;
            if table != here.table || found.contains_key(name) {
                continue;
            }
            let places = here.mob_places_of(&table, name);
            let size = size_of(files, &places)?;
            if size.is_none() {
                let [mob_file, _] = places;
                missing.push(MissingMobFile { store_file: folder.join(&file.listed.name), mob_file });
            }
            found.insert(name.to_owned(), size);
        }
    }
    let present = found.into_iter().filter_map(|(name, size)| Some((name, size?)));
    Ok(present.map(|(name, size)| ManifestFile { name, file_size: Some(size), reference: None }).collect())
}

fn corrupt(file: String, expected: &str, found: String) -> Error {
    Error::Corrupt { file, what: "MOB files of a snapshot", expected: expected.to_owned(), found }
}
