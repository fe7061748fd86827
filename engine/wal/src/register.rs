//! A small object that is replaced as a whole, and whose content names its writer.

use std::sync::Arc;

use storage::{FileName, Files, Kind, Object, Version, swap_confirmed};

use crate::Result;

/// A small object, as this process has last read or written it.
pub(crate) struct Register {
    files: Arc<dyn Files>,
    name: FileName,
    content: Vec<u8>,
    version: Version,
}

impl Register {
    /// Reads the object; `None` when there is none.
    pub(crate) fn open(files: &Arc<dyn Files>, name: FileName, bytes_max: usize) -> Result<Option<Register>> {
        match files.load(&name, bytes_max) {
            Ok(Object { content, version }) => {
                Ok(Some(Register { files: Arc::clone(files), name, content, version }))
            }
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the object, which must not exist.
    pub(crate) fn create(files: &Arc<dyn Files>, name: FileName, content: &[u8]) -> Result<Register> {
        let version = swap_confirmed(&**files, &name, None, content)?;
        Ok(Register { files: Arc::clone(files), name, content: content.to_vec(), version })
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Replaces the content, durably. Fails if another process has replaced it.
    pub(crate) fn replace(&mut self, content: &[u8]) -> Result<()> {
        self.version = swap_confirmed(&*self.files, &self.name, Some(&self.version), content)?;
        self.content = content.to_vec();
        Ok(())
    }

    /// Reads the object again after a replacement with an unknown outcome. Returns `false` if the object is gone.
    pub(crate) fn refresh(&mut self, bytes_max: usize) -> storage::Result<bool> {
        match self.files.load(&self.name, bytes_max) {
            Ok(Object { content, version }) => {
                (self.content, self.version) = (content, version);
                Ok(true)
            }
            Err(error) if error.kind() == Kind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the object's current content, which another process may have replaced; `None` if the object is gone.
    pub(crate) fn look(&self, bytes_max: usize) -> storage::Result<Option<Vec<u8>>> {
        match self.files.read(&self.name, bytes_max) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
