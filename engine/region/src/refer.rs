//! New regions that share another region's files: daughters of a split, merged regions, clones.
//!
//! No data is copied. For each file of the old region, the store of the new region gets a small file that names it, in
//! HBase's format and place; and it gets a file list:
//!
//! 1. The old region pins the file, so that the janitor keeps it.
//! 2. For a link, the old region writes a back reference beside the target's place in the archive.
//! 3. It writes the reference or link file in the new store's folder.
//! 4. It writes the new store's list, which names that file. From then on the new file counts.
//!
//! A table whose files may be shared is dropped by [`Janitor::drop_folder`](crate::Janitor::drop_folder).
//!
//! After a crash each step can be repeated from the beginning.

use std::sync::Arc;

use bytes::Bytes;
use proto::{EncodedName, RegionInfo, TableName};
use storage::{FileName, FileWriter, Files, Kind};

use crate::open_files::PinnedFile;
use crate::options::Access;
use crate::region::Region;
use crate::side_by_side::side_by_side;
use crate::store::Store;
use crate::store_file::{Half, Reference, StoreFile, StoreFileName, StorePlace};
use crate::tracker::{Listed, Tracker};
use crate::{Error, HeirRefusal, Result};

/// Maximum number of files that are written at the same time.
const WRITERS_MAX: usize = 8;

/// The part of another region's files that a new region shares.
#[derive(Clone, Debug)]
pub enum InheritedFiles {
    /// The rows of each file on one side of a row, for a daughter of a split or a merged region.
    Half(Reference),
    /// Whole files, for a clone, also of another table.
    Links,
}

impl Region {
    /// Writes the folder of a new region with the content of this region's files. Memory is not shared, so the region
    /// must have been flushed and closed to writes. May be repeated until the new region has been opened.
    ///
    /// `folder` is the new region's, `data/<namespace>/<table>/<encoded name>`.
    pub fn write_heir(&self, folder: &FileName, inherits: &InheritedFiles) -> Result<()> {
        self.check_owner()?;
        for store in &self.stores {
            let heir = Region::store_folder(folder, &store.family);
            let files = store.view.load().files.clone();
            let _pins: Vec<PinnedFile> = files.iter().map(|file| self.pin(file)).collect::<Result<_>>()?;
            let list = side_by_side("references", WRITERS_MAX, &files, |file| match inherits {
                InheritedFiles::Half(reference) => self.write_reference(file, &heir, reference),
                InheritedFiles::Links => self.write_link(store, file, &heir),
            })?;
            let (mut tracker, _) =
                Tracker::open(self.files.clone(), &heir, self.world.clone(), Access::Owner)?;
            tracker.write_for(&self.log)?;
            tracker.replace(&list)?;
        }
        Ok(())
    }

    /// Writes the folder of the new region `child` with the rows that it takes over from `parents`. These are one
    /// region, of which the child takes the rows on one side of a split row, or several regions, of which it takes all
    /// rows. All are regions of one table, and the parents are closed. May be repeated until the child has been opened.
    ///
    /// A file without rows of the child is left out, unless it lists dropped markers or is the newest of its store. The newest one is kept for
    /// its sequence id: because of it the child opens at a sequence id no smaller than its parent's. Clients expect
    /// this of a newer location.
    pub fn write_child(child: &RegionInfo, folder: &FileName, parents: &[Arc<Region>]) -> Result<()> {
        let Some(first) = parents.first() else {
            return Err(HeirRefusal::NoParent { child: Box::new(child.clone()) }.into());
        };
        for store in &first.stores {
            let heir = Region::store_folder(folder, &store.family);
            let (mut pins, mut shared) = (Vec::new(), Vec::new());
            for parent in if env::planted(24) { &parents[..1] } else { parents } {
                if parent.memstore_bytes() > 0 {
                    let [parent, child] = [&parent.info, child].map(|info| Box::new(info.clone()));
                    return Err(HeirRefusal::UnflushedWrites { parent, child }.into());
                }
                let share = share_of(child, &parent.info)?;
                let files = parent.store(&store.family)?.view.load().files.clone();
                let newest = files.iter().map(|file| file.max_sequence()).max();
                for file in &files {
                    if Some(file.max_sequence()) != newest && !parent.may_share(file, &share) {
                        continue;
                    }
                    pins.push(parent.pin(file)?);
                    shared.push((parent, Arc::clone(file), share.clone()));
                }
            }
            let list = side_by_side("references", WRITERS_MAX, &shared, |(parent, file, share)| {
                parent.write_reference(file, &heir, share)
            })?;
            let (mut tracker, _) =
                Tracker::open(first.files.clone(), &heir, first.world.clone(), Access::Owner)?;
            tracker.write_for(&first.log)?;
            tracker.replace(&list)?;
        }
        Ok(())
    }

    /// Whether `file` may have rows of `share`, or lists dropped markers of such rows. The list has no rows, only digests.
    fn may_share(&self, file: &StoreFile, share: &Reference) -> bool {
        if !file.dropped_markers.is_empty() {
            return true;
        }
        match (file.reader.first_key(), file.reader.last_key()) {
            (Some(first), Some(last)) => share.may_have(first.row(), last.row(), self.comparator),
            _ => false,
        }
    }

    /// Pins a file, so that the janitor does not delete it.
    fn pin(&self, file: &StoreFile) -> Result<PinnedFile> {
        self.options.open_files.pin(file.reader.name()).ok_or_else(|| {
            Error::Broken(format!(
                "store file {} is both listed and condemned by the janitor",
                file.reader.name()
            ))
        })
    }

    fn write_reference(&self, file: &StoreFile, heir: &FileName, reference: &Reference) -> Result<Listed> {
        if file.is_half() {
            let (file, region) = (file.listed.name.clone(), self.info.encoded_name().clone());
            return Err(HeirRefusal::HalfFile { file, region }.into());
        }
        let parent: &EncodedName = self.info.encoded_name();
        let name = StoreFileName::reference(&file.name, parent).to_string();
        write_anew(&*self.files, &heir.join(&name), &reference.to_file())?;
        Ok(Listed { name, size: file.reader.size(), reference: Some(reference.clone()) })
    }

    fn write_link(&self, store: &Store, file: &StoreFile, heir: &FileName) -> Result<Listed> {
        write_link(&*self.files, &place_of(&store.folder)?, &file.name, &file.listed, heir)
    }
}

/// Returns the store in this folder.
fn place_of(folder: &FileName) -> Result<StorePlace> {
    StorePlace::of_folder(folder).ok_or_else(|| no_place_of_link(folder, folder.to_string()))
}

fn no_place_of_link(folder: &FileName, found: String) -> Error {
    Error::Corrupt {
        file: folder.to_string(),
        what: "folder of a link",
        expected: "data/<namespace>/<table>/<region>/<family>".to_owned(),
        found,
    }
}

/// Writes a link to the file `listed` of the store `here`, whose parsed name is `name`, in the folder of the store
/// `heir`.
pub(crate) fn write_link(
    files: &dyn Files,
    here: &StorePlace,
    name: &StoreFileName,
    listed: &Listed,
    heir: &FileName,
) -> Result<Listed> {
    let there = place_of(heir)?;
    // If `name` is a reference, the link is a reference to the same half.
    let name = StoreFileName::link(here, name)
        .map_err(|error| no_place_of_link(&here.folder(), error.to_string()))?;
    let target = name.origin(&there);
    let back = target.back_references(&name.file).join(&there.as_back_reference());
    if !env::planted(23) {
        write_anew(files, &back, b"")?;
    }
    let content = listed.reference.as_ref().map(Reference::to_file).unwrap_or_default();
    let name = name.to_string();
    write_anew(files, &heir.join(&name), &content)?;
    Ok(Listed { name, size: listed.size, reference: listed.reference.clone() })
}

/// Writes a link to the MOB file `file` of `table`, for the table with the store `folder`: HBase keeps a MOB file while a
/// table has a link to it among its own MOB files.
pub(crate) fn write_mob_link(
    files: &dyn Files,
    folder: &FileName,
    table: &TableName,
    file: &str,
) -> Result<()> {
    let here = place_of(folder)?;
    let (own, origin) = (here.mob_place(&here.table), here.mob_place(table));
    let name = StoreFileName { link: None, file: file.to_owned(), parent: None };
    let name = StoreFileName::link(&origin, &name)
        .map_err(|error| no_place_of_link(&origin.folder(), error.to_string()))?;
    write_anew(files, &origin.back_references(file).join(&own.as_back_reference()), b"")?;
    write_anew(files, &own.mob_folder().join(&name.to_string()), b"")
}

/// Returns the half of the files of `parent` that `child` takes over. In a merge, this is the top half from the
/// parent's first row on, which has all rows of the parent, as in HBase.
fn share_of(child: &RegionInfo, parent: &RegionInfo) -> Result<Reference> {
    let ends_before =
        !child.end_key().is_empty() && (parent.end_key().is_empty() || child.end_key() < parent.end_key());
    let begins_behind = child.start_key() > parent.start_key();
    let (half, row) = match (begins_behind, ends_before) {
        _ if !child.overlaps(parent) => (None, Bytes::new()),
        (false, false) => (Some(Half::Top), parent.start_key().clone()),
        (true, false) => (Some(Half::Top), child.start_key().clone()),
        (false, true) => (Some(Half::Bottom), child.end_key().clone()),
        (true, true) => (None, Bytes::new()),
    };
    let half = half.ok_or_else(|| {
        let [child, parent] = [child, parent].map(|info| Box::new(info.clone()));
        HeirRefusal::NotOneSide { child, parent }
    })?;
    Ok(Reference { half, split_row: row })
}

/// Writes a small file, in place of what an earlier attempt has written. Durable when this returns.
fn write_anew(files: &dyn Files, name: &FileName, content: &[u8]) -> Result<()> {
    let writer = match files.create(name) {
        // What a crash has left here may be incomplete, or not durable.
        Err(error) if error.kind() == Kind::Exists => {
            files.delete(name)?;
            files.create(name)?
        }
        created => created?,
    };
    match write_whole(writer, content) {
        // Storage that notices the earlier file only now has finished it as a whole. Equal content stays: a deletion whose
        // request arrives twice would delete the new file, too.
        Err(error) if error.kind() == Kind::Exists && !env::planted(39) => {
            if has_content(files, name, content)? {
                return Ok(());
            }
            files.delete(name)?;
            Ok(write_whole(files.create(name)?, content)?)
        }
        written => Ok(written?),
    }
}

fn write_whole(mut writer: Box<dyn FileWriter>, content: &[u8]) -> storage::Result<()> {
    if let Err(error) = writer.write(content) {
        writer.abandon();
        return Err(error);
    }
    writer.finish().map(drop)
}

/// Whether the small file `name` has exactly these bytes. Fails if there is no such file.
fn has_content(files: &dyn Files, name: &FileName, content: &[u8]) -> storage::Result<bool> {
    match files.read(name, content.len()) {
        Ok(found) => Ok(found == content),
        Err(error) if error.kind() == Kind::TooLarge => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use storage::{Capabilities, Memory};

    use super::*;

    #[test]
    fn a_file_of_an_earlier_attempt_is_replaced() {
        let name = FileName::new("data/link");
        for files in [Memory::default(), Memory::with(Capabilities::NONE)] {
            for content in ["", "", "top", "top", "bottom", ""] {
                write_anew(&files, &name, content.as_bytes()).expect("written");
                assert_eq!(files.read(&name, 100).expect("there"), content.as_bytes());
            }
        }
    }

    #[test]
    fn a_store_keeps_a_file_with_the_same_content() {
        let name = FileName::new("data/link");
        let files = Memory::with(Capabilities::NONE);
        write_anew(&files, &name, b"top").expect("written");
        let first = files.load(&name, 100).expect("there").version;
        write_anew(&files, &name, b"top").expect("written again");
        assert_eq!(files.load(&name, 100).expect("there").version, first);
    }
}
