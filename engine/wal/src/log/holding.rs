//! Named holders of the log's files.

use super::Shared;
use crate::reader::LogPosition;
use crate::{Error, Result};

impl Shared {
    /// Records that the log is durable up to `offset` of file `number`.
    pub(super) fn is_durable_to(&self, number: u64, offset: u64) {
        let mut durable = self.durable_at.lock();
        *durable = (*durable).max(LogPosition { file: number, offset });
    }

    /// Creates the holder `name` if it does not exist. The new holder needs every existing file.
    pub(super) fn begin_holder(&self, name: &str) -> Result<()> {
        let mut objects = self.holders.lock();
        if objects.has(name) {
            return Ok(());
        }
        let lowest = {
            let mut back = self.back();
            let lowest = back.live.keys().next().copied().unwrap_or(back.number);
            // Registered before the object is written, so that from now on no file is removed.
            back.held_from.insert(name.into(), lowest);
            lowest
        };
        objects.put(&self.files, &self.folder, name, lowest).inspect_err(|_| {
            self.back().held_from.remove(name);
        })
    }

    /// Releases the files before `lowest` for a holder.
    pub(crate) fn advance_holder(&self, name: &str, lowest: u64) -> Result<()> {
        {
            let mut objects = self.holders.lock();
            let known = self.back().held_from.get(name).copied();
            match known {
                Some(known) if lowest > known => {}
                Some(_) => return Ok(()),
                None => return Err(Error::Storage(format!("the log has no holder named {name}"))),
            }
            objects.put(&self.files, &self.folder, name, lowest)?;
            let mut back = self.back();
            back.held_from.insert(name.into(), lowest);
            back.find_unneeded(&self.world);
        }
        self.remove_unneeded();
        Ok(())
    }

    /// Removes a holder.
    pub(crate) fn release_holder(&self, name: &str) -> Result<()> {
        {
            let mut objects = self.holders.lock();
            if !objects.has(name) {
                return Ok(());
            }
            objects.remove(&self.files, &self.folder, name)?;
            let mut back = self.back();
            back.held_from.remove(name);
            back.find_unneeded(&self.world);
        }
        self.remove_unneeded();
        Ok(())
    }
}
