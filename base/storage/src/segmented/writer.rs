//! Writes a growing file.

use std::sync::Arc;

use super::flight::{self, Flight};
use super::part::{self, Part, PartKind};
use super::{Put, Segmented};
use crate::{Capability, Error, FileName, FileWriter, Kind, Outcome, Result, SyncDone};

/// Maximum number of bytes that wait for a sync. More bytes are sent as a part at once, which bounds the memory and the
/// size of objects.
const WAITING_MAX: usize = 4 << 20;

/// The only writer of a growing file.
pub(super) struct Writer {
    files: Segmented,
    name: FileName,
    nonce: u64,
    /// The number of the next part.
    next: u32,
    /// Number of bytes of the file in parts that were sent.
    sent: u64,
    /// Bytes that wait for the next part.
    waiting: Vec<u8>,
    /// The parts on their way. After a failure of one the writer refuses every call, because nobody knows which parts
    /// are stored.
    flight: Arc<Flight>,
}

impl Writer {
    /// Creates the file with an empty first part. A sealed or existing file has one.
    pub(super) fn create(files: Segmented, name: FileName) -> Result<Writer> {
        files.spend();
        let nonce = files.world.random();
        let first = Part { kind: PartKind::Data, number: 0, nonce, offset: 0, payload: &[] as &[u8] };
        match files.put(&part::name(&name, 0), &first.to_bytes(), &|| true)? {
            Put::Written => {}
            Put::Taken(_) => {
                return Err(Error::new(Kind::Exists, Outcome::DidNotHappen, &name, "create"));
            }
        }
        let flight = Flight::new(files.clone(), name.clone());
        Ok(Writer { files, name, nonce, next: 1, sent: 0, waiting: Vec::new(), flight })
    }

    /// Sends the waiting bytes as the next part.
    fn send(&mut self, kind: PartKind) -> Result<()> {
        let part = Part {
            kind,
            number: self.next,
            nonce: self.nonce,
            offset: self.sent,
            payload: &self.waiting[..],
        };
        // The request is counted before the part is sent, so that the next sync takes it into account.
        self.files.spend();
        self.flight.send(self.next, part.to_bytes())?;
        self.next += 1;
        self.sent += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn send_waiting(&mut self) -> Result<()> {
        match self.flight.failure() {
            Some(failure) => Err(failure),
            None if self.waiting.is_empty() => Ok(()),
            None => self.send(PartKind::Data),
        }
    }
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    /// Keeps the bytes for the next sync; sends a part at once if more than [`WAITING_MAX`] bytes wait.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(failure) = self.flight.failure() {
            return Err(failure);
        }
        if !self.waiting.is_empty() && self.waiting.len() + bytes.len() > WAITING_MAX {
            self.send(PartKind::Data)?;
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, _size: u64) -> Result<()> {
        Err(Error::unsupported(&self.name, "cut", Capability::Cut))
    }

    /// Writes the waiting bytes as a part, and waits for all parts. Takes one request, or none if no bytes wait.
    fn sync(&mut self) -> Result<()> {
        self.send_waiting()?;
        self.flight.wait()
    }

    fn syncs_at_once(&self) -> usize {
        flight::AT_ONCE
    }

    fn sync_later(&mut self, done: SyncDone) {
        match self.send_waiting() {
            Ok(()) => self.flight.when_durable(done),
            Err(error) => done(Err(error)),
        }
    }

    fn size(&self) -> u64 {
        self.sent + self.waiting.len() as u64
    }

    fn parts(&self) -> usize {
        self.next as usize
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        if let Some(failure) = self.flight.failure() {
            return Err(failure);
        }
        // The end may be stored before an earlier part. That does no harm, because readers stop at the first missing
        // part.
        self.send(PartKind::End)?;
        self.flight.wait()?;
        Ok(self.sent)
    }

    fn abandon(self: Box<Self>) {
        // Waits for the parts that are under way. One that is stored later than the deletion below has no first part,
        // so it is collected later.
        let _decided = self.flight.wait();
        for number in 0..self.next {
            // Without its first part a file does not exist. So the other parts need not be deleted now.
            let _left = self.files.base.delete(&part::name(&self.name, number));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.flight.leave();
    }
}
