//! The files of a store that another program wrote, before any file list of this project names them.
//!
//! HBase's DEFAULT tracker has no list: the files that lie in a store's folder are the store's files. It ignores empty
//! files and other names. It also ignores files that a compaction has replaced and that were not yet moved to the
//! archive, as after a kill; the file that replaced them names them (`COMPACTION_EVENT_KEY`). Reading both the old and
//! the new files would bring back cells that the compaction has dropped. Source: HBase 2.6 `StoreFileInfo`,
//! `StoreEngine.openStoreFiles`.
//!
//! HBase's FILE tracker keeps the same list as this project.
//!
//! [`FoundStore::make_folder_exact`] prepares the way back to HBase: it removes from a store's folder the files that
//! the store's list does not name.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use cache::{Cache, Caching};
use cell::SequenceId;
use env::World;
use proto::descriptor::FamilyOptions;
use proto::{FamilyDescriptor, RegionInfo, TableName, pb, pbuf};
use storage::{FileName, Files, Kind};

use crate::janitor::archive;
use crate::mob_format::names::{MOB_FILE_REFS, MobFileRefs};
use crate::open_files::OpenFiles;
use crate::options::Access;
use crate::refer::write_mob_link;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::name::ARCHIVE;
use crate::store_file::{FileOpener, Listed, StoreFile, StoreFileName, StorePlace};
use crate::tracker::Tracker;
use crate::{Error, Result};

/// The property in which a file that a compaction wrote names the files that it replaces.
const COMPACTED: &[u8] = b"COMPACTION_EVENT_KEY";

/// Where the set of a store's files is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// In the store's folder (HBase's DEFAULT tracker).
    Folder,
    /// In the store's list (HBase's FILE tracker, and this project).
    List,
}

/// The files of one store, each of which was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundStore {
    listed: Vec<Listed>,
    /// Files that a compaction has replaced and that were not yet archived. Empty with [`FoundBy::List`].
    pub replaced: Vec<FileName>,
    /// Other files in the folder, which HBase ignores. Names that begin with `.` or `_` are left out. Empty with
    /// [`FoundBy::List`].
    pub ignored: Vec<FileName>,
    /// Number of bytes of the files.
    pub bytes: u64,
    /// Number of links and references, whose bytes are in the files of other stores.
    pub shared: usize,
    /// The MOB files that the store's files name and that do not exist, each once.
    pub missing_mob_files: Vec<MissingMobFile>,
    /// The MOB files of other tables that the store's files name, as in a clone: the table, and the file's name.
    mob_files_of_others: BTreeSet<(TableName, String)>,
    /// Number of files that may refer to MOB files and do not name them, as HBase before 2.5 wrote them.
    pub without_mob_list: usize,
    /// The sequence id up to which the files have all writes of the store.
    pub(crate) max_sequence: SequenceId,
}

/// A MOB file that a store file names and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingMobFile {
    /// The store file, as the store lists it.
    pub store_file: FileName,
    /// The first place where a reader looks for the MOB file.
    pub mob_file: FileName,
}

impl fmt::Display for MissingMobFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingMobFile { store_file, mob_file } = self;
        write!(f, "{store_file} needs the MOB file {mob_file}, which is missing there and in {ARCHIVE}")
    }
}

/// Finds and opens the files of one store.
pub(crate) struct Finder<'a> {
    files: &'a Arc<dyn Files>,
    pub(crate) folder: FileName,
    options: FamilyOptions,
    caching: Caching,
    cache: Arc<Cache>,
    open_files: Arc<OpenFiles>,
}

impl<'a> Finder<'a> {
    /// Prepares to open the files of `family` in the region `info`, whose folder is `region`.
    pub(crate) fn of_store(
        files: &'a Arc<dyn Files>,
        region: &FileName,
        info: &RegionInfo,
        family: &FamilyDescriptor,
    ) -> Result<Finder<'a>> {
        let options = family.options().map_err(Error::Schema)?;
        Ok(Finder {
            files,
            folder: Region::store_folder(region, family.name()),
            caching: Store::caching(info, &options),
            options,
            cache: Arc::new(Cache::with_bytes(0)),
            open_files: Arc::default(),
        })
    }

    /// Returns the files in the store's folder that HBase's DEFAULT tracker takes; adds the files that it ignores to
    /// `ignored`.
    pub(crate) fn in_folder(&self, ignored: &mut Vec<FileName>) -> Result<Vec<Listed>> {
        named_by_folder(&**self.files, &self.folder, ignored)
    }

    /// Opens a file.
    pub(crate) fn open(&self, listed: Listed) -> Result<StoreFile> {
        let opener = FileOpener {
            files: &**self.files,
            cache: &self.cache,
            caching: &self.caching,
            open_files: &self.open_files,
        };
        StoreFile::open(&opener, &self.folder, listed)
    }
}

impl FoundStore {
    /// Finds the files of `family` in the region with the folder `region`, and opens each of them. Writes nothing.
    ///
    /// Fails when a file is damaged or missing, or has a feature that this project does not support. A missing MOB file
    /// is no failure. MOB files are not read.
    pub fn find(
        files: &Arc<dyn Files>,
        region: &FileName,
        info: &RegionInfo,
        family: &FamilyDescriptor,
        by: FoundBy,
        world: &World,
    ) -> Result<FoundStore> {
        let finder = Finder::of_store(files, region, info, family)?;
        let mut found = FoundStore::default();
        let named = match by {
            FoundBy::Folder => finder.in_folder(&mut found.ignored)?,
            FoundBy::List => {
                Tracker::open(Arc::clone(files), &finder.folder, world.clone(), Access::Reader)?.1
            }
        };
        found.take(&finder, named, by)?;
        Ok(found)
    }

    /// Opens the files `named`, and adds them. With [`FoundBy::Folder`] passes over those that a compaction has replaced.
    pub(crate) fn take(&mut self, finder: &Finder<'_>, named: Vec<Listed>, by: FoundBy) -> Result<()> {
        let (mut gone, mut mob_files) = (BTreeSet::new(), Vec::new());
        for listed in named {
            let file = finder.open(listed)?;
            gone.extend(replaced_by(&file)?);
            self.bytes += file.size();
            self.shared += usize::from(!file.name.is_own());
            self.max_sequence = self.max_sequence.max(file.max_sequence());
            mob_files.push((file.listed.name.clone(), MobFileRefs::of_file(&file.reader)?));
            self.listed.push(Listed { size: file.reader.size(), ..file.listed });
        }
        if by == FoundBy::Folder {
            let is_gone = |listed: &mut Listed| gone.contains(&listed.name);
            let replaced = self.listed.extract_if(.., is_gone).collect::<Vec<_>>();
            self.bytes -= replaced.iter().map(|listed| listed.size).sum::<u64>();
            self.replaced = replaced.iter().map(|listed| finder.folder.join(&listed.name)).collect();
            mob_files.retain(|(name, _)| !gone.contains(name));
        }
        let mut checked = BTreeSet::new();
        for (name, refs) in mob_files {
            match refs {
                Some(refs) => {
                    self.check_mob_files(&**finder.files, &finder.folder, &name, &refs, &mut checked)?;
                }
                None => self.without_mob_list += usize::from(finder.options.is_mob),
            }
        }
        Ok(())
    }

    /// Looks for the MOB files that the store file `name` names. `checked` has those that earlier files have named.
    fn check_mob_files(
        &mut self,
        files: &dyn Files,
        folder: &FileName,
        name: &str,
        refs: &MobFileRefs,
        checked: &mut BTreeSet<FileName>,
    ) -> Result<()> {
        for (table, file) in refs.iter() {
            let place = StorePlace::of_folder(folder).zip(table.parse::<TableName>().ok());
            if let Some((here, table)) = &place
                && here.table != *table
            {
                self.mob_files_of_others.insert((table.clone(), file.to_owned()));
            }
            let places = place.map(|(here, table)| here.mob_places_of(&table, file)).ok_or_else(|| {
                Error::Corrupt {
                    file: folder.join(name).to_string(),
                    what: MOB_FILE_REFS,
                    expected: "the name of a table".to_owned(),
                    found: format!("{table:?}"),
                }
            })?;
            if !checked.insert(places[0].clone()) {
                continue;
            }
            if !exists(files, &places[0])? && !exists(files, &places[1])? {
                let [mob_file, _] = places;
                self.missing_mob_files.push(MissingMobFile { store_file: folder.join(name), mob_file });
            }
        }
        Ok(())
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.listed.len()
    }

    /// Whether the store has no files.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Writes the store's list to `files`, and replaces an existing one. Durable when this returns.
    pub fn write_list(
        &self,
        files: &Arc<dyn Files>,
        region: &FileName,
        family: &FamilyDescriptor,
        world: &World,
    ) -> Result<()> {
        let folder = Region::store_folder(region, family.name());
        let (mut tracker, before) = Tracker::open(Arc::clone(files), &folder, world.clone(), Access::Owner)?;
        if before != self.listed {
            tracker.replace(&self.listed)?;
        }
        tracker.remove_stale().map(drop)
    }
}

impl FoundStore {
    /// Writes a link and a back reference for each MOB file of another table that the store's files name, as HBase does
    /// when it clones a snapshot. Without them HBase's cleaners delete the file when the other table no longer names it.
    /// Returns the number of links. They are durable when this returns. The call may be repeated.
    pub fn link_mob_files(
        &self,
        files: &Arc<dyn Files>,
        region: &FileName,
        family: &FamilyDescriptor,
    ) -> Result<usize> {
        let folder = Region::store_folder(region, family.name());
        for (table, file) in &self.mob_files_of_others {
            write_mob_link(&**files, &folder, table, file)?;
        }
        Ok(self.mob_files_of_others.len())
    }

    /// Moves files that the store's list does not name to the archive, so that HBase's DEFAULT tracker finds exactly
    /// the files of the list. In the archive HBase finds the files that links and snapshots need. Returns the number of
    /// moved files. The moves are durable when this returns. The call may be repeated.
    ///
    /// Fails if the DEFAULT tracker would not find a file of the list.
    pub fn make_folder_exact(
        &self,
        files: &Arc<dyn Files>,
        region: &FileName,
        family: &FamilyDescriptor,
    ) -> Result<usize> {
        let folder = Region::store_folder(region, family.name());
        let named = named_by_folder(&**files, &folder, &mut Vec::new())?;
        let listed: BTreeSet<&str> = self.listed.iter().map(|listed| &*listed.name).collect();
        let found: BTreeSet<&str> = named.iter().map(|named| &*named.name).collect();
        if let Some(unseen) = listed.difference(&found).next() {
            return Err(Error::Corrupt {
                file: folder.join(unseen).to_string(),
                what: "file of a store with the tracker DEFAULT",
                expected: "a file that HBase finds by listing the folder".to_owned(),
                found: "another name, or an empty file".to_owned(),
            });
        }
        let others: Vec<FileName> = found.difference(&listed).map(|name| folder.join(name)).collect();
        for name in &others {
            archive::copy_to_archive(&**files, name)?;
            files.delete(name)?;
        }
        if !others.is_empty() {
            archive::make_deletions_durable(&**files, &folder)?;
        }
        Ok(others.len())
    }
}

fn exists(files: &dyn Files, name: &FileName) -> Result<bool> {
    match files.open(name) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the files in a store's folder that HBase's DEFAULT tracker takes; adds the files that it ignores to
/// `ignored`.
fn named_by_folder(files: &dyn Files, folder: &FileName, ignored: &mut Vec<FileName>) -> Result<Vec<Listed>> {
    let mut named = Vec::new();
    for entry in files.list(folder)? {
        let name = entry.name.below(folder).unwrap_or_default();
        // Skips names in subfolders, and names that HBase ignores because they begin with a dot or an underscore.
        if name.contains('/') || name.starts_with(['.', '_']) {
            continue;
        }
        match StoreFileName::parse(name) {
            Ok(parsed) if is_of_hbase(&parsed) && (entry.size > 0 || parsed.link.is_some()) => {
                named.push(Listed { name: name.to_owned(), size: entry.size, reference: None });
            }
            _ => ignored.push(entry.name),
        }
    }
    Ok(named)
}

/// Whether HBase's trackers accept a file with this name: hexadecimal digits, and for a bulk-loaded file its sequence
/// id.
fn is_of_hbase(name: &StoreFileName) -> bool {
    let (digits, rest) = name.file.split_at(
        name.file.find(|letter: char| !matches!(letter, '0'..='9' | 'a'..='f')).unwrap_or(name.file.len()),
    );
    // The name of a MOB file ends with the name of its region. Such a name is accepted only as the target of a link.
    !digits.is_empty() && (rest.is_empty() || name.loaded_as().is_some() || name.link.is_some())
}

/// Returns the names of the files that a compaction has replaced by `file`.
fn replaced_by(file: &StoreFile) -> Result<Vec<String>> {
    let Some(value) = file.reader.info().get(COMPACTED) else { return Ok(Vec::new()) };
    let event = pbuf::decode::<pb::CompactionEventTracker>("COMPACTION_EVENT_KEY", value);
    let event = event.map_err(|error| Error::Corrupt {
        file: file.reader.name().to_string(),
        what: "COMPACTION_EVENT_KEY",
        expected: "the names of files".to_owned(),
        found: error.to_string(),
    })?;
    Ok(event.compacted_store_file.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}
