//! Deletes MOB files in storage that other processes reach, too: an object store or HDFS.
//!
//! The [rule for a local disk](super::mob) does not suffice there. A listing of all store files may lack one. An earlier
//! owner of the storage may still write a store file that names a MOB file, and its pins are unknown here. A replica may
//! still read store files that were replaced. So the janitor deletes a MOB file only if all of this is true, in this order:
//!
//! 1. No store file that this process has open names the MOB file. This covers the regions that are open and the readers
//!    of replaced files, and reads nothing from storage. The first time begins the grace of the MOB file.
//! 2. The grace is over. So a replica has learned which store files have replaced those that named the MOB file.
//! 3. The region that wrote the MOB file is no longer in hbase:meta, or it is open here and none of its lists is in
//!    doubt. Otherwise a list that names the MOB file could still appear: that of an earlier owner, before the region's
//!    list is claimed, or one whose writing was reported as failed.
//! 4. No list of a region in hbase:meta names a store file that needs the MOB file. Links and references are followed.
//!    Each list is found by listing its own folder, as when a region is opened.
//! 5. No snapshot is being taken, and no manifest names the MOB file or a store file that needs it.
//! 6. hbase:meta still has the same regions. So no reference has moved from a place that was read late to one that was
//!    read early, such as from a snapshot that was deleted to its clone.
//! 7. This process still owns the log. So nothing that was read was out of date.
//!
//! If something cannot be read, nothing is deleted. A MOB file that nothing needs is never needed again, so a deletion
//! may come late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proto::{EncodedName, RegionInfo, TableName};
use storage::FileName;

use super::mob::{MobCandidate, NamedMobFiles, is_mob_place};
use super::{Janitor, store_of};
use crate::mob_format::names::{MobFileRefs, region_of_name};
use crate::open_files::CondemnedFile;
use crate::side_by_side::side_by_side;
use crate::store_file::{StoreFileName, StorePlace};
use crate::{Error, Result, tracker};

/// Maximum number of stores, or of store files, that are read at the same time.
const READERS_MAX: usize = 8;

/// The regions of all tables, as the janitor of MOB files asks for them.
pub trait CatalogRegions {
    /// Returns the regions in hbase:meta, including parents of splits and merges whose files may still be needed. Fails
    /// if hbase:meta cannot be read.
    fn regions(&self) -> Result<Vec<RegionInfo>>;

    /// Whether this process has the region open and knows which of its [lists count](crate::Region::is_in_doubt).
    fn is_settled(&self, region: &EncodedName) -> bool;
}

/// A store file that a list or a manifest names.
struct NamedFile {
    /// The places where it can be, the most likely first.
    places: Vec<FileName>,
    /// The store that wrote it.
    store: StorePlace,
}

/// The MOB files that are needed, as far as known.
#[derive(Default)]
struct NeededMobFiles {
    /// The table that wrote each MOB file, and the name of the file.
    files: BTreeSet<(String, String)>,
    /// The families, of any table, with a store file that does not say which MOB files it needs.
    families: BTreeSet<String>,
}

impl NeededMobFiles {
    /// Adds the MOB files that a store file of `family` needs; `None` if it does not say that.
    fn add(&mut self, family: &str, refs: Option<&MobFileRefs>) {
        match refs {
            Some(refs) => {
                self.files.extend(refs.iter().map(|(table, file)| (table.to_owned(), file.to_owned())))
            }
            None => _ = self.families.insert(family.to_owned()),
        }
    }

    fn contains(&self, MobCandidate { name, place, .. }: &MobCandidate) -> bool {
        self.families.contains(&place.family)
            || self.files.contains(&(place.table.to_string(), name.last().to_owned()))
    }
}

impl Janitor {
    /// Deletes the MOB files below `root` that nothing needs and whose grace is over, and returns their number.
    pub(super) fn clean_shared_mob_files(
        &self,
        root: &FileName,
        catalog: &dyn CatalogRegions,
    ) -> Result<usize> {
        let (candidates, _) = self.mob_candidates(root)?;
        // What is condemned is not being written by this process. What this process has written is named by a list
        // by now, or never will be.
        let mut condemned: Vec<(CondemnedFile<'_>, &MobCandidate)> = candidates
            .iter()
            .filter_map(|candidate| Some((self.open_files.condemn(&candidate.name)?, candidate)))
            .collect();
        let open = self.named_by_open_files();
        condemned.retain(|(_, candidate)| self.is_unneeded(candidate, open.contains(candidate)));
        condemned.retain(|(file, _)| self.is_grace_over(file.name()));
        let needed = {
            // No store file is deleted between the reading of its list and its own.
            let _no_deletion = self.deleting.write();
            match self.needed_mob_files(root, catalog, &condemned)? {
                Some(needed) => needed,
                None => return Ok(0),
            }
        };
        let mut gone = 0;
        for ((file, candidate), is_needed) in condemned.into_iter().zip(needed) {
            if self.is_unneeded(candidate, is_needed) && file.begin_deletion() {
                self.files.delete(file.name())?;
                self.forget_grace(file.name());
                env::sometimes("janitor: a MOB file was deleted after its grace");
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// Whether a MOB file is not needed. If it is, its grace begins again when it is not needed any more.
    fn is_unneeded(&self, candidate: &MobCandidate, is_needed: bool) -> bool {
        if is_needed {
            self.forget_grace(&candidate.name);
        }
        !is_needed
    }

    /// Returns the MOB files that the store files need that are open in this process.
    fn named_by_open_files(&self) -> NeededMobFiles {
        let mut needed = NeededMobFiles::default();
        for reader in self.open_files.readers() {
            if let Some(store) = store_of(reader.name()).filter(|store| !is_mob_place(store)) {
                // A property that cannot be parsed does not say which files are needed.
                needed.add(&store.family, MobFileRefs::of_file(&reader).ok().flatten().as_ref());
            }
        }
        needed
    }

    /// Returns for each of `condemned` whether it is needed; `None` if that cannot be decided now, although everything
    /// could be read.
    fn needed_mob_files(
        &self,
        root: &FileName,
        catalog: &dyn CatalogRegions,
        condemned: &[(CondemnedFile<'_>, &MobCandidate)],
    ) -> Result<Option<Vec<bool>>> {
        if condemned.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let candidates = || condemned.iter().map(|(_, candidate)| *candidate);
        let regions = regions_of(catalog)?;
        let mut held: Vec<bool> =
            candidates().map(|candidate| may_still_be_named(candidate, &regions, catalog)).collect();
        let undecided = candidates().zip(&held).filter(|(_, held)| !**held);
        let families: BTreeSet<&str> = undecided.map(|(candidate, _)| &candidate.place.family[..]).collect();
        if families.is_empty() {
            return Ok(Some(held));
        }
        let mut store_files = self.files_of_lists(root, &regions, &families)?;
        // Snapshots are asked after the lists: a snapshot that begins now has only files that the lists have named.
        let Some(mut of_manifests) = self.snapshots.files_of_all()? else { return Ok(None) };
        if env::planted(38) {
            of_manifests.clear();
        }
        for name in &of_manifests {
            let store = store_of(name).filter(|store| !is_mob_place(store));
            if let Some(store) = store.filter(|store| families.contains(&store.family[..])) {
                let places = store.places_of(name.last());
                store_files.insert(name.clone(), NamedFile { places, store });
            }
        }
        let needed = self.named_by_store_files(store_files)?;
        for (held, candidate) in held.iter_mut().zip(candidates()) {
            *held |= needed.contains(candidate) || of_manifests.contains(&candidate.in_manifests);
        }
        if regions_of(catalog)? != regions {
            return Ok(None);
        }
        self.log.iter().try_for_each(|log| log.check_owner())?;
        Ok(Some(held))
    }

    /// Returns the files with cells that the lists of `regions` name in these families, by their original places.
    fn files_of_lists(
        &self,
        root: &FileName,
        regions: &Regions,
        families: &BTreeSet<&str>,
    ) -> Result<BTreeMap<FileName, NamedFile>> {
        let folder =
            |(name, table): (&EncodedName, &TableName)| root.join(layout::region(table, name).as_str());
        let stores: Vec<StorePlace> = regions
            .iter()
            .flat_map(|region| families.iter().map(move |family| folder(region).join(family)))
            .filter_map(|folder| StorePlace::of_folder(&folder))
            .collect();
        let lists = side_by_side("lists for the janitor", READERS_MAX, &stores, |store| {
            Ok::<_, Error>((store.clone(), tracker::all_listed(&*self.files, &store.folder())?))
        })?;
        let mut files = BTreeMap::new();
        for (store, listed) in lists.iter().flat_map(|(store, all)| all.iter().map(move |one| (store, one))) {
            let name = StoreFileName::parse(&listed.name).map_err(|error| Error::Corrupt {
                file: store.folder().to_string(),
                what: "name in the file list",
                expected: "the name of a store file".to_owned(),
                found: error.to_string(),
            })?;
            let store = name.origin(store);
            let places = store.places_of(&name.file);
            files.insert(store.folder().join(&name.file), NamedFile { places, store });
        }
        Ok(files)
    }

    /// Returns the MOB files that these store files need. Each store file is read once, because it never changes.
    fn named_by_store_files(&self, store_files: BTreeMap<FileName, NamedFile>) -> Result<NeededMobFiles> {
        let before = std::mem::take(&mut *self.mob_files.lock());
        let store_files: Vec<_> = store_files.into_iter().collect();
        let named =
            side_by_side("store files for the janitor", READERS_MAX, &store_files, |(name, file)| {
                let known = before.get(name).map(Arc::clone);
                known.map_or_else(|| self.read_named_file(file).map(Arc::new), Ok)
            })?;
        let mut needed = NeededMobFiles::default();
        let mut known = self.mob_files.lock();
        for ((name, NamedFile { store, .. }), named) in store_files.into_iter().zip(named) {
            match &*named {
                NamedMobFiles::These(refs) => needed.add(&store.family, Some(refs)),
                NamedMobFiles::Unknown | NamedMobFiles::Unreadable => needed.add(&store.family, None),
            }
            if !matches!(*named, NamedMobFiles::Unreadable) {
                known.insert(name, named);
            }
        }
        Ok(needed)
    }

    /// Returns which MOB files a store file needs. Fails if it is at none of its places.
    fn read_named_file(&self, NamedFile { places, store }: &NamedFile) -> Result<NamedMobFiles> {
        for place in places {
            if let Some(named) = self.read_named(place, store)? {
                return Ok(named);
            }
        }
        let places: Vec<&str> = places.iter().map(FileName::as_str).collect();
        Err(Error::Corrupt {
            file: places.join(" or "),
            what: "store file that a list or a snapshot names",
            expected: "at one of these places".to_owned(),
            found: "at none".to_owned(),
        })
    }
}

/// The regions in hbase:meta, with their tables.
type Regions = BTreeMap<EncodedName, TableName>;

fn regions_of(catalog: &dyn CatalogRegions) -> Result<Regions> {
    let regions = catalog.regions()?;
    Ok(regions.into_iter().map(|region| (region.encoded_name().clone(), region.table().clone())).collect())
}

/// Whether a list that names the MOB file may still appear although no list names it now: its region is in the catalog,
/// but not open here, or a list of the region is in doubt.
fn may_still_be_named(candidate: &MobCandidate, regions: &Regions, catalog: &dyn CatalogRegions) -> bool {
    region_of_name(candidate.name.last())
        .is_some_and(|region| regions.contains_key(&region) && !catalog.is_settled(&region))
}
