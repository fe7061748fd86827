//! New regions that share another region's files: daughters of a split, merged regions, clones.
//!
//! No data is copied. For each file of the region the new store gets a small file that names it, in HBase's format and
//! place, and a file list:
//!
//! 1. The region pins the target, so that the janitor keeps it.
//! 2. For a link, it writes a back reference beside the target's place in the archive.
//! 3. It writes the reference or link file in the new store's folder.
//! 4. The new store's list names that file; from then on it exists.
//!
//! A table whose files may be shared is dropped by [`Janitor::drop_folder`](crate::Janitor::drop_folder).
//!
//! After a crash each step can be repeated from the beginning.

use proto::EncodedName;
use storage::{FileName, Files, Kind};

use crate::open::Access;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{Reference, StoreFile, StoreFileName, StorePlace};
use crate::tracker::{Listed, Tracker};
use crate::{Error, Result};

/// What a new region shares of another region's files.
#[derive(Clone, Debug)]
pub enum Inherits {
    /// The rows of each file on one side of a row, for a daughter of a split or a merged region.
    Half(Reference),
    /// Whole files, for a clone, also of another table.
    Links,
}

impl Region {
    /// Writes the folder of a new region with the content of this region's files. Memory is not shared, so the region
    /// must be flushed and closed to writes before. May be repeated until the new region has been opened.
    ///
    /// `folder` is the new region's, `data/<namespace>/<table>/<encoded name>`.
    pub fn write_heir(&self, folder: &FileName, inherits: &Inherits) -> Result<()> {
        self.check_owner()?;
        for store in &self.stores {
            let heir = Region::store_folder(folder, &store.family);
            let mut pins = Vec::new();
            let mut list = Vec::new();
            for file in &store.view.load().files {
                let pin = self.options.open_files.pin(file.reader.name());
                pins.push(pin.ok_or_else(|| {
                    Error::Broken(format!(
                        "store file {} is both listed and condemned by the janitor",
                        file.reader.name()
                    ))
                })?);
                list.push(match inherits {
                    Inherits::Half(reference) => self.write_reference(file, &heir, reference)?,
                    Inherits::Links => self.write_link(store, file, &heir)?,
                });
            }
            let (mut tracker, _) =
                Tracker::open(self.files.clone(), &heir, self.world.clone(), Access::Owner)?;
            tracker.replace(&list)?;
        }
        Ok(())
    }

    fn write_reference(&self, file: &StoreFile, heir: &FileName, reference: &Reference) -> Result<Listed> {
        if file.is_half() {
            return Err(Error::BadRequest(format!(
                "file {} of region {} is half of another; compact the region before it is split or merged",
                file.listed.name,
                self.info.encoded_name()
            )));
        }
        let parent: &EncodedName = self.info.encoded_name();
        let name = StoreFileName::reference(&file.name, parent).to_string();
        write_anew(&*self.files, &heir.join(&name), &reference.to_file())?;
        Ok(Listed { name, size: file.reader.size(), reference: Some(reference.clone()) })
    }

    fn write_link(&self, store: &Store, file: &StoreFile, heir: &FileName) -> Result<Listed> {
        let place = |folder: &FileName| {
            StorePlace::of_folder(folder).ok_or_else(|| Error::Corrupt {
                file: folder.to_string(),
                what: "folder of a link",
                expected: "data/<namespace>/<table>/<region>/<family>".to_owned(),
                found: folder.to_string(),
            })
        };
        let (here, there) = (place(&store.folder)?, place(heir)?);
        // A reference stays the same half of the file that it is linked to.
        let name = StoreFileName::link(&here, &file.name)?;
        let target = name.origin(&there);
        let back = target.back_references(&name.file).join(&there.as_back_reference());
        write_anew(&*self.files, &back, b"")?;
        let content = file.listed.reference.as_ref().map(Reference::to_file).unwrap_or_default();
        let name = name.to_string();
        write_anew(&*self.files, &heir.join(&name), &content)?;
        Ok(Listed { name, size: file.reader.size(), reference: file.listed.reference.clone() })
    }
}

/// Writes a small file, replacing the result of an earlier attempt. Durable when this returns.
fn write_anew(files: &dyn Files, name: &FileName, content: &[u8]) -> Result<()> {
    let mut writer = match files.create(name) {
        Err(error) if error.kind() == Kind::Exists => {
            files.delete(name)?;
            files.create(name)?
        }
        created => created?,
    };
    match writer.write(content) {
        Ok(()) => {
            writer.finish()?;
            Ok(())
        }
        Err(error) => {
            writer.abandon();
            Err(error.into())
        }
    }
}
