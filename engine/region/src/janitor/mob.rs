//! Deletes MOB files that no store file names. This file has the rule for storage that only one process reaches;
//! [`shared_mob`](super::shared_mob) has the one for object stores and HDFS.
//!
//! A MOB file is needed as long as a store file that names it in `MOB_FILE_REFS` exists anywhere: in a region of its
//! table, in a clone, or in the archive. So whatever keeps a store file (a list, a reference, a link, a snapshot, a
//! reader) also keeps its MOB files. A snapshot of HBase names MOB files in its manifest, which keeps them, too. A flush
//! or compaction pins the MOB file that it writes until a list names the store file.
//!
//! Most MOB files are in `mobdir/`. HBase moves those of a dropped table to the archive, and `ExportSnapshot` copies them
//! there. Clones read them there, so they are kept by the same rule.
//!
//! 1. All MOB files are candidates. Those in use by this process are left out.
//! 2. While the janitor deletes no store file, it lists the store files of the same families, and reads what they name.
//!    A store file never changes, so each is read once.
//! 3. If a store file with tags does not say which MOB files it needs, like those of HBase before 2.5, all MOB files of
//!    its table and family stay until a compaction has written it again. HBase does the same. If HBase made the table as
//!    a clone, the table's folder in `mobdir/` has links to MOB files of other tables. Then those of the same family in
//!    these tables stay, too.
//! 4. The others are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cache::{Cache, Caching};
use hfile::Reader;
use storage::{Capability, FileName, Kind};

use super::shared_mob::CatalogRegions;
use super::{FileHolder, Janitor, store_of};
use crate::Result;
use crate::mob_format::names::MobFileRefs;
use crate::open_files::CondemnedFile;
use crate::store_file::name::{ARCHIVE, MOB};
use crate::store_file::{StoreFileName, StorePlace};

/// The MOB files that each store file names.
pub(super) type KnownFiles = BTreeMap<FileName, Arc<NamedMobFiles>>;

/// Which MOB files a store file needs.
#[derive(Debug)]
pub(super) enum NamedMobFiles {
    /// The store file needs these MOB files.
    These(MobFileRefs),
    /// The store file does not say which MOB files it needs.
    Unknown,
    /// The store file could not be read now: it is being written, or the disk returned wrong bytes. It may need any MOB
    /// file.
    Unreadable,
}

/// A MOB file that is deleted if nothing needs it.
pub(super) struct MobCandidate {
    pub(super) name: FileName,
    /// The name under which a manifest of HBase lists the file: `[root/]data/ns/table/region/family/name`.
    pub(super) in_manifests: FileName,
    pub(super) place: StorePlace,
}

/// That a table's family has links to MOB files of another table.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MobLink {
    by: TableFamily,
    /// The name of the other table.
    target: String,
}

/// A table and a family.
type TableFamily = (String, String);

impl Janitor {
    /// Deletes the MOB files below `root` that no store file names, and returns their number. Reads each store file
    /// once, if there are MOB files of a family with the same name. Where other processes reach the storage, asks
    /// `catalog` for the regions, and [keeps](Janitor::keeping) each MOB file for the grace.
    pub fn clean_mob_files(&self, root: &FileName, catalog: &dyn CatalogRegions) -> Result<usize> {
        let can = self.files.capabilities();
        let is_local = can.has(Capability::OneProcess) && can.has(Capability::ListsAll);
        if !is_local && !env::planted(32) {
            return self.clean_shared_mob_files(root, catalog);
        }
        let (candidates, links) = self.mob_candidates(root)?;
        let condemned = candidates.iter().filter_map(|candidate| {
            let file = self.open_files.condemn(&candidate.name)?;
            Some((file, candidate))
        });
        let condemned: Vec<(CondemnedFile<'_>, &MobCandidate)> = condemned.collect();
        if condemned.is_empty() {
            return Ok(0);
        }
        let with_mob_files: BTreeSet<TableFamily> =
            candidates.iter().map(|candidate| table_family(&candidate.place)).collect();
        let (named, mut unknown) = self.named_mob_files(root, &with_mob_files)?;
        for MobLink { by, target } in links {
            if unknown.contains(&by) {
                unknown.insert((target, by.1));
            }
        }
        let is_named = |table: &str, file: &str| named.iter().any(|named| named.contains(table, file));
        let mut held: Vec<bool> = condemned
            .iter()
            .map(|(file, MobCandidate { place, .. })| {
                unknown.contains(&table_family(place)) || is_named(place.table.as_str(), file.name().last())
            })
            .collect();
        if held.contains(&false) {
            let in_manifests: Vec<FileName> =
                condemned.iter().map(|(_, candidate)| candidate.in_manifests.clone()).collect();
            self.snapshots.mark_held(&in_manifests, &mut held)?;
        }
        let mut gone = 0;
        for ((file, _), held) in condemned.into_iter().zip(held) {
            if !held && file.begin_deletion() {
                self.files.delete(file.name())?;
                env::sometimes("janitor: a MOB file was deleted");
                gone += 1;
            }
        }
        Ok(gone)
    }

    /// Returns all MOB files with bytes of their own, those in the archive included, and the links to MOB files.
    pub(super) fn mob_candidates(&self, root: &FileName) -> Result<(Vec<MobCandidate>, BTreeSet<MobLink>)> {
        let (mut candidates, mut links) = (Vec::new(), BTreeSet::new());
        for top in [MOB, ARCHIVE].map(|top| root.join(top)) {
            for entry in self.files.list(&top.join("data"))? {
                let Some(in_manifests) = entry.name.below(&top).map(|rest| root.join(rest)) else { continue };
                let Some(place) = mob_place(&in_manifests) else { continue };
                // A name with `=` is a link to a MOB file, which HBase makes for a clone.
                if !entry.name.last().contains('=') {
                    candidates.push(MobCandidate { name: entry.name, in_manifests, place });
                } else if let Ok(StoreFileName { link: Some(link), .. }) =
                    StoreFileName::parse(entry.name.last())
                {
                    links.insert(MobLink { by: table_family(&place), target: link.table.to_string() });
                }
            }
        }
        Ok((candidates, links))
    }

    /// Returns which MOB files the existing store files need. Also returns the families of tables that have a store
    /// file without this information.
    fn named_mob_files(
        &self,
        root: &FileName,
        with_mob_files: &BTreeSet<TableFamily>,
    ) -> Result<(Vec<MobFileRefs>, BTreeSet<TableFamily>)> {
        // No store file is deleted while this lock is held. A compaction copies references from an old file to a new
        // one, and the two may be in folders that are listed one after the other. Without the lock, this function could
        // miss both files.
        let _no_deletion = self.deleting.write();
        let families: BTreeSet<&str> = with_mob_files.iter().map(|(_, family)| &family[..]).collect();
        let mut stored = BTreeMap::new();
        for top in [root.clone(), root.join(ARCHIVE)] {
            for entry in self.files.list(&top.join("data"))? {
                let store = store_of(&entry.name).filter(|store| families.contains(&store.family[..]));
                let store = store.filter(|store| !is_mob_place(store));
                // Links and references are skipped, because the files to which they point are listed, too.
                let is_own = StoreFileName::parse(entry.name.last()).is_ok_and(|name| name.is_own());
                if let Some(store) = store.filter(|_| is_own) {
                    stored.insert(entry.name, store);
                }
            }
        }
        let mut known = self.mob_files.lock();
        known.retain(|name, _| stored.contains_key(name));
        let (mut named, mut unknown) = (Vec::new(), BTreeSet::new());
        for (name, store) in &stored {
            let of_file = match known.get(name) {
                Some(of_file) => Arc::clone(of_file),
                None => {
                    let Some(of_file) = self.read_named(name, store)? else { continue };
                    let of_file = Arc::new(of_file);
                    if !matches!(*of_file, NamedMobFiles::Unreadable) {
                        known.insert(name.clone(), Arc::clone(&of_file));
                    }
                    of_file
                }
            };
            match &*of_file {
                NamedMobFiles::These(refs) if refs.is_empty() => {}
                NamedMobFiles::These(refs) => named.push(refs.clone()),
                NamedMobFiles::Unknown | NamedMobFiles::Unreadable => _ = unknown.insert(table_family(store)),
            }
        }
        Ok((named, unknown))
    }

    /// Returns which MOB files one store file needs. Returns `None` for a file that does not count: it no longer
    /// exists, or it is incomplete and has no holder.
    pub(super) fn read_named(&self, name: &FileName, store: &StorePlace) -> Result<Option<NamedMobFiles>> {
        let file = match self.files.open(name) {
            Ok(file) => file,
            Err(error) if error.kind() == Kind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let cache = Arc::new(Cache::with_bytes(0));
        let reader = match Reader::open(file, name.clone(), cache, Caching::default()) {
            Ok(reader) => reader,
            Err(hfile::Error::Storage(error)) => return Err(error.into()),
            Err(error) => {
                if env::planted(33) {
                    return Ok(None);
                }
                // A file in use may be incomplete because it is being written. Or it is whole, and this read returned
                // wrong bytes.
                if self.open_files.is_in_use(name) {
                    return Ok(Some(NamedMobFiles::Unreadable));
                }
                // Nobody uses the file. If its store lists it, it is damaged. If not, an interrupted write or copy has
                // left it, and the MOB files that it names need not stay.
                return if self.counts(name, store)? { Err(error.into()) } else { Ok(None) };
            }
        };
        Ok(Some(MobFileRefs::of_file(&reader)?.map_or(NamedMobFiles::Unknown, NamedMobFiles::These)))
    }

    /// Whether a store file counts: a holder needs it, or it is in the archive and no longer at its original place.
    fn counts(&self, name: &FileName, store: &StorePlace) -> Result<bool> {
        let made = store.folder().join(name.last());
        if *name == made {
            let mut held = [false];
            self.ask(std::slice::from_ref(name), &mut held)?;
            return Ok(held[0]);
        }
        match self.files.open(&made) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == Kind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the store of a MOB file by its name in manifests; `None` for any other file.
fn mob_place(in_manifests: &FileName) -> Option<StorePlace> {
    StorePlace::of_folder(&in_manifests.parent()?).filter(is_mob_place)
}

/// Whether the files of this store are MOB files. hbase:meta, which has a single region, has none.
pub(super) fn is_mob_place(store: &StorePlace) -> bool {
    !store.table.is_meta() && store.region == layout::mob_region(&store.table).as_str()
}

fn table_family(place: &StorePlace) -> TableFamily {
    (place.table.to_string(), place.family.clone())
}
