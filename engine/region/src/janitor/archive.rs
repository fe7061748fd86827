//! The archive: `archive/` repeats the folders of the root, and has the files that somebody still holds of tables and
//! regions that are gone. HBase looks there for what a link or a snapshot names.

use storage::{FileName, Kind};

use super::{Janitor, store_of};
use crate::store_file::name::{ARCHIVE, target_of};
use crate::{Result, tracker};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

impl Janitor {
    /// Removes the folder of a table or region that is gone from the catalog, and whose regions are closed. Files that somebody
    /// holds move to the archive; all others are deleted. May be repeated from its beginning after a failure or a crash.
    pub fn drop_folder(&self, folder: &FileName) -> Result<()> {
        let entries = self.files.list(folder)?.into_iter().map(|entry| entry.name);
        let is_list = |name: &FileName| name.parent().as_ref().is_some_and(tracker::is_list_folder);
        let (lists, files): (Vec<_>, Vec<_>) = entries.partition(is_list);
        // The lists go first: what they name is named no more.
        for list in &lists {
            self.files.delete(list)?;
        }
        let (stored, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|name| store_of(name).is_some());
        let held = self.held(&stored)?;
        for (name, is_held) in stored.iter().zip(held) {
            if is_held {
                self.archive(name)?;
            } else {
                self.delete(name)?;
            }
        }
        for name in &others {
            self.files.delete(name)?;
        }
        Ok(())
    }

    /// Deletes the files of the archive that nobody holds any more, and the back references that lead nowhere. Returns how
    /// many files went.
    pub fn clean_archive(&self, root: &FileName) -> Result<usize> {
        let archive = root.join(ARCHIVE);
        let names = self.files.list(&archive)?.into_iter().map(|entry| entry.name);
        let (back, files): (Vec<FileName>, Vec<FileName>) = names.partition(|name| target_of(name).is_some());
        let files: Vec<FileName> = files.into_iter().filter(|name| store_of(name).is_some()).collect();
        let gone = self.collect(&files)?;
        // A back reference is of use for as long as what it stands beside exists.
        for back in &back {
            if !self.is_needed(back)? {
                self.files.delete(back)?;
            }
        }
        Ok(gone.len())
    }

    /// Whether the file that a back reference stands for is there.
    fn is_needed(&self, back: &FileName) -> Result<bool> {
        let Some((store, file)) = target_of(back) else { return Ok(true) };
        for place in store.places_of(&file) {
            match self.files.open(&place) {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Copies a file to its place in the archive, and deletes it. While the file is here the copy there does not count: a
    /// crash may have torn it.
    fn archive(&self, name: &FileName) -> Result<()> {
        let Some(store) = store_of(name) else { return Ok(()) };
        let to = store.archive().join(name.last());
        let from = match self.files.open(name) {
            Ok(from) => from,
            // An earlier attempt has done it.
            Err(error) if error.kind() == Kind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.files.delete(&to)?;
        let mut writer = self.files.create(&to)?;
        let (size, mut at) = (from.size(), 0);
        let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(size).unwrap_or(COPY_BYTES))];
        while at < size {
            let part =
                &mut buffer[..usize::try_from(size - at).map_or(COPY_BYTES, |left| left.min(COPY_BYTES))];
            if let Err(error) = from.read_at(at, part).and_then(|()| writer.write(part)) {
                writer.abandon();
                return Err(error.into());
            }
            at += part.len() as u64;
        }
        writer.finish()?;
        self.files.delete(name)?;
        Ok(())
    }
}
