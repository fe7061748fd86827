//! Snapshots of a region: the list of its files at one moment, and new regions that are clones of such a list. No data
//! is copied: the janitor keeps the files that a snapshot names ([`crate::janitor`]), and a clone has links to them.

mod mob_files;

use std::sync::Arc;

use env::World;
use proto::{RegionInfo, TableDescriptor, pb};
use storage::{FileName, Files, Kind};

use crate::janitor::snapshots::place_of;
use crate::options::Access;
use crate::refer::write_link;
use crate::region::Region;
use crate::store_file::{Reference, StoreFileName};
use crate::tracker::{Listed, Tracker};
use crate::{Error, FlushReason, Result};

pub use mob_files::SnapshotMobFiles;

/// The layout version of a region in a manifest, as HBase writes it.
const VERSION: i32 = 0;

impl Region {
    /// Returns the files of this region at one moment. If `flush`, these files have every write that was acknowledged
    /// before the call.
    ///
    /// Before the call, the caller must have recorded durably that a snapshot of the table is being taken, so that the
    /// janitor keeps the files.
    pub fn snapshot(&self, flush: bool) -> Result<pb::SnapshotRegionManifest> {
        self.check_owner()?;
        self.check_serving()?;
        if flush {
            self.flush_stores(&[], FlushReason::Requested)?;
        }
        // No flush can run while this lock is held. So a write to several families is either in files or in memory as a
        // whole.
        let _alone = self.flushing.lock();
        let families = self.stores.iter().map(|store| {
            let files = store.view.load().files.clone();
            family_files(&store.family, files.iter().map(|file| &file.listed))
        });
        Ok(manifest(&self.info, families.collect()))
    }

    /// Returns the files of a closed region, as its lists in `folder`, the region's folder, name them. The caller keeps
    /// the region closed.
    pub fn snapshot_of_closed(
        files: &Arc<dyn Files>,
        world: &World,
        folder: &FileName,
        info: &RegionInfo,
        table: &TableDescriptor,
    ) -> Result<pb::SnapshotRegionManifest> {
        let mut families = Vec::new();
        for family in table.families() {
            let store = Region::store_folder(folder, family.name());
            let (_, listed) = Tracker::open(Arc::clone(files), &store, world.clone(), Access::Reader)?;
            families.push(family_files(family.name(), listed.iter()));
        }
        Ok(manifest(info, families))
    }

    /// Writes the folder of a new region, of any table, with links to the files that a snapshot names for the region
    /// `source`. May be repeated until the new region has been opened. The snapshot must not be deleted meanwhile.
    ///
    /// `folder` is the folder of the new region, and `log` the log of the server that will open it. Fails with
    /// [`Error::Corrupt`] when a file of the snapshot is missing, and if a later owner of the log has opened the region.
    pub fn write_clone(
        files: &Arc<dyn Files>,
        log: &wal::Log,
        world: &World,
        folder: &FileName,
        source: &pb::SnapshotRegionManifest,
    ) -> Result<()> {
        let corrupt = |found: String| Error::Corrupt {
            file: folder.to_string(),
            what: "snapshot of a region",
            expected: "whole files and their names".to_owned(),
            found,
        };
        let info = RegionInfo::try_from(&source.region_info).map_err(|error| corrupt(error.to_string()))?;
        for family in &source.family_files {
            let here = place_of(info.table(), info.encoded_name(), &family.family_name);
            let heir = Region::store_folder(folder, &family.family_name);
            let mut list = Vec::new();
            for file in &family.store_files {
                let name = StoreFileName::parse(&file.name).map_err(|error| corrupt(error.to_string()))?;
                let reference =
                    file.reference.as_ref().map(Reference::try_from).transpose().map_err(corrupt)?;
                let places = name.origin(&here).places_of(&name.file);
                let size = size_of(&**files, &places)?.ok_or_else(|| missing(&places))?;
                if file.file_size.is_some_and(|expected| expected != size) {
                    return Err(corrupt(format!("file {} of region {info} with {size} bytes", file.name)));
                }
                let listed = Listed { name: file.name.clone(), size, reference };
                list.push(write_link(&**files, &here, &name, &listed, &heir)?);
            }
            let (mut tracker, _) = Tracker::open(Arc::clone(files), &heir, world.clone(), Access::Owner)?;
            tracker.write_for(log)?;
            tracker.replace(&list)?;
        }
        Ok(())
    }
}

/// Returns the size in bytes of the first of these files that exists; `None` if none does.
fn size_of(files: &dyn Files, places: &[FileName]) -> Result<Option<u64>> {
    for place in places {
        match files.open(place) {
            Ok(file) => return Ok(Some(file.size())),
            Err(error) if error.kind() == Kind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn missing(places: &[FileName]) -> Error {
    let places: Vec<String> = places.iter().map(ToString::to_string).collect();
    Error::Corrupt {
        file: places.join(" or "),
        what: "file of a snapshot",
        expected: "at one of these places".to_owned(),
        found: "at none".to_owned(),
    }
}

fn manifest(
    info: &RegionInfo,
    family_files: Vec<pb::snapshot_region_manifest::FamilyFiles>,
) -> pb::SnapshotRegionManifest {
    pb::SnapshotRegionManifest { version: Some(VERSION), region_info: info.into(), family_files }
}

fn family_files<'a>(
    family: &bytes::Bytes,
    files: impl Iterator<Item = &'a Listed>,
) -> pb::snapshot_region_manifest::FamilyFiles {
    let file = |listed: &Listed| pb::snapshot_region_manifest::StoreFile {
        name: listed.name.clone(),
        reference: listed.reference.as_ref().map(pb::Reference::from),
        file_size: Some(listed.size),
    };
    pb::snapshot_region_manifest::FamilyFiles {
        family_name: family.clone(),
        store_files: files.map(file).collect(),
    }
}
