//! Writes a growing file.

use super::part::{self, Part, PartKind};
use super::{Put, Segmented};
use crate::{Capability, Error, FileName, FileWriter, Kind, Outcome, Result};

/// Maximum number of bytes that wait for a sync. If more are waiting, they are written as a part at once. This limits
/// the memory of a writer and the size of objects.
const WAITING_MAX: usize = 16 << 20;

/// The only writer of a growing file.
pub(super) struct Writer {
    files: Segmented,
    name: FileName,
    nonce: u64,
    /// The number of the next part.
    next: u32,
    /// Number of bytes of the file in written parts.
    durable: u64,
    /// Bytes that wait for the next part.
    waiting: Vec<u8>,
    /// The failure after which the writer refuses every call, because nobody knows which parts are stored.
    failure: Option<Error>,
}

impl Writer {
    pub(super) fn create(files: Segmented, name: FileName) -> Result<Writer> {
        let nonce = files.world.random();
        let mut writer =
            Writer { files, name, nonce, next: 0, durable: 0, waiting: Vec::new(), failure: None };
        match writer.put(PartKind::Data) {
            Err(error) if error.kind() == Kind::Sealed => {
                Err(Error::new(Kind::Exists, Outcome::DidNotHappen, &writer.name, "create"))
            }
            created => created.map(|()| writer),
        }
    }

    /// Writes the waiting bytes as the next part.
    fn put(&mut self, kind: PartKind) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let part = Part {
            kind,
            number: self.next,
            nonce: self.nonce,
            offset: self.durable,
            payload: &self.waiting[..],
        };
        let name = part::name(&self.name, self.next);
        let put = match self.files.put(&name, &part.to_bytes()) {
            Ok(Put::Written) => Ok(()),
            Ok(Put::Taken(_)) => Err(Error::new(Kind::Sealed, Outcome::DidNotHappen, &self.name, "sync")),
            Err(error) => Err(error),
        };
        put.inspect_err(|error| self.failure = Some(error.clone()))?;
        self.next += 1;
        self.durable += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    /// Keeps the bytes for the next sync; writes a part at once if more than [`WAITING_MAX`] bytes wait.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if !self.waiting.is_empty() && self.waiting.len() + bytes.len() > WAITING_MAX {
            self.put(PartKind::Data)?;
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, _size: u64) -> Result<()> {
        Err(Error::unsupported(&self.name, "cut", Capability::Cut))
    }

    /// Writes the waiting bytes as a part. Takes one request, or none if no bytes wait.
    fn sync(&mut self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.waiting.is_empty() => Ok(()),
            None => self.put(PartKind::Data),
        }
    }

    fn size(&self) -> u64 {
        self.durable + self.waiting.len() as u64
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.put(PartKind::End)?;
        Ok(self.durable)
    }

    fn abandon(self: Box<Self>) {
        for number in 0..self.next {
            // Without its first part, the remaining parts are not a file.
            let _left = self.files.base.delete(&part::name(&self.name, number));
        }
    }
}
