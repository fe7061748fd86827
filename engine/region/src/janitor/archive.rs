//! The archive: `archive/` repeats the folders of the root. It keeps files of deleted tables and regions that still
//! have a holder. HBase looks there for the target of a link or a snapshot.

use storage::{FileName, Kind};

use super::{Janitor, store_of};
use crate::store_file::name::{ARCHIVE, target_of};
use crate::{Result, tracker};

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

impl Janitor {
    /// Deletes the folder of a table or region that is no longer in the catalog and whose regions are closed. Files
    /// with a holder move to the archive. After a failure or a crash it may be repeated from the beginning.
    pub fn drop_folder(&self, folder: &FileName) -> Result<()> {
        let entries = self.files.list(folder)?.into_iter().map(|entry| entry.name);
        let is_list = |name: &FileName| name.parent().as_ref().is_some_and(tracker::is_list_folder);
        let (lists, files): (Vec<_>, Vec<_>) = entries.partition(is_list);
        // Delete the lists first: then they hold no files.
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

    /// Deletes files of the archive that have no holder any more, and back references without a target. Returns the
    /// number of deleted files.
    pub fn clean_archive(&self, root: &FileName) -> Result<usize> {
        let archive = root.join(ARCHIVE);
        let names = self.files.list(&archive)?.into_iter().map(|entry| entry.name);
        let (back, files): (Vec<FileName>, Vec<FileName>) = names.partition(|name| target_of(name).is_some());
        let files: Vec<FileName> = files.into_iter().filter(|name| store_of(name).is_some()).collect();
        let gone = self.collect(&files)?;
        // A back reference is needed while its target exists.
        for back in &back {
            if !self.is_needed(back)? {
                self.files.delete(back)?;
            }
        }
        Ok(gone.len())
    }

    /// Whether the target of a back reference exists.
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

    /// Copies a file to its place in the archive, then deletes it. While the original exists, the copy does not count,
    /// because a crash may have cut it off.
    fn archive(&self, name: &FileName) -> Result<()> {
        let Some(store) = store_of(name) else { return Ok(()) };
        let to = store.archive().join(name.last());
        let from = match self.files.open(name) {
            Ok(from) => from,
            // An earlier attempt has moved it.
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
