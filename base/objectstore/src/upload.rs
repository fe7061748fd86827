//! Writes files: by one conditional PUT, or by a multipart upload.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use env::{Task, World};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt};
use storage::{Error, FileName, FileWriter, Kind, Outcome, Result};
use tokio::sync::Mutex;

use crate::connector::for_file;
use crate::{Bucket, PART_BYTES, TAIL_BYTES, of_store};

/// Number of parts that are sent at once. If the writer has a further part, it first waits for the oldest of them.
const PARTS_AT_ONCE: usize = 4;

type Multipart = Arc<Mutex<Box<dyn MultipartUpload>>>;

/// A file that is being written.
pub(crate) struct Upload {
    bucket: Bucket,
    name: FileName,
    path: Path,
    size: u64,
    /// Written bytes that are not yet in a part.
    rest: BytesMut,
    /// The last bytes that were written. They identify the object after a lost reply.
    tail: BytesMut,
    multipart: Option<Multipart>,
    sending: VecDeque<Task<object_store::Result<()>>>,
}

impl Upload {
    pub(crate) fn new(bucket: Bucket, name: FileName, path: Path) -> Upload {
        Upload {
            bucket,
            name,
            path,
            size: 0,
            rest: BytesMut::new(),
            tail: BytesMut::new(),
            multipart: None,
            sending: VecDeque::new(),
        }
    }

    fn failed(&self, error: &object_store::Error, act: &'static str) -> Error {
        // An upload is not repeated here. But if the keys were rotated, the caller's next attempt has the new ones.
        let changes = self.bucket.key_changes();
        let _has_read_them_again = self.bucket.has_new_keys(changes, error);
        of_store(error, Outcome::MayHaveHappened, &self.name, act)
    }

    fn note_tail(&mut self, bytes: &[u8]) {
        let limit = TAIL_BYTES as usize;
        let bytes = &bytes[bytes.len().saturating_sub(limit)..];
        let surplus = (self.tail.len() + bytes.len()).saturating_sub(limit);
        let _dropped = self.tail.split_to(surplus.min(self.tail.len()));
        self.tail.extend_from_slice(bytes);
    }

    /// Sends `part`, and begins the multipart upload first if necessary.
    fn send(&mut self, part: Bytes) -> Result<()> {
        let multipart = match &self.multipart {
            Some(multipart) => Arc::clone(multipart),
            None => {
                let (bucket, path) = (self.bucket.clone(), self.path.clone());
                let begun = self
                    .bucket
                    .wait(&self.name, async move { bucket.shared.store.put_multipart(&path).await });
                let begun = Arc::new(Mutex::new(begun.map_err(|error| self.failed(&error, "write"))?));
                self.multipart = Some(Arc::clone(&begun));
                begun
            }
        };
        if self.sending.len() >= PARTS_AT_ONCE {
            self.wait_for_part()?;
        }
        // The library numbers the parts in the order of these calls, so the calls are made here and not in the tasks.
        #[expect(clippy::async_yields_async, reason = "the part is sent while the next one is written")]
        let sent = self.bucket.wait(&self.name, async move { multipart.lock().await.put_part(part.into()) });
        self.sending.push_back(self.bucket.shared.runtime.spawn(for_file(&self.name, sent)));
        Ok(())
    }

    fn wait_for_part(&mut self) -> Result<()> {
        let Some(part) = self.sending.pop_front() else { return Ok(()) };
        match self.bucket.wait(&self.name, part) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.failed(&error, "write")),
            Err(error) => Err(Error::new(Kind::Failed, Outcome::MayHaveHappened, &self.name, "write")
                .because(error.to_string())),
        }
    }

    /// Completes the upload, which makes one object of its parts. A lost reply is resolved by comparing the object's
    /// size and last bytes.
    fn complete(&mut self, multipart: Multipart) -> Result<()> {
        let rest = self.rest.split().freeze();
        if !rest.is_empty() {
            self.send(rest)?;
        }
        while !self.sending.is_empty() {
            self.wait_for_part()?;
        }
        let completed = self.bucket.wait(&self.name, async move { multipart.lock().await.complete().await });
        let Err(error) = completed else { return Ok(()) };
        let (bucket, name, path) = (self.bucket.clone(), self.name.clone(), self.path.clone());
        let found = self.bucket.wait(&self.name, async move { bucket.tail(&name, &path, "finish").await });
        match found {
            Ok((tail, size)) if size == self.size && tail == self.tail => Ok(()),
            _ => Err(self.failed(&error, "finish")),
        }
    }
}

impl FileWriter for Upload {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.size += bytes.len() as u64;
        self.note_tail(bytes);
        while self.rest.len() + bytes.len() > PART_BYTES {
            let (front, back) = bytes.split_at(PART_BYTES - self.rest.len());
            self.rest.extend_from_slice(front);
            let part = self.rest.split().freeze();
            self.send(part)?;
            bytes = back;
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }

    /// Finishes the file. A multipart upload has no condition, so a file that is longer than one part needs a name that
    /// no other process writes.
    fn finish(mut self: Box<Self>) -> Result<u64> {
        let tail = self.tail.clone().freeze();
        if let Some(multipart) = self.multipart.clone() {
            self.complete(multipart)?;
            self.bucket.note_finished(&self.name, tail, self.size);
            return Ok(self.size);
        }
        let (bucket, name, path) = (self.bucket.clone(), self.name.clone(), self.path.clone());
        let content = self.rest.split().freeze();
        let nonce = World::real().random();
        let put = self
            .bucket
            .wait(&self.name, async move { bucket.create_object(&name, &path, content, nonce).await });
        match put {
            Ok(_) => {
                self.bucket.note_finished(&self.name, tail, self.size);
                Ok(self.size)
            }
            Err(error) if error.kind() == Kind::Conflict => {
                Err(Error::new(Kind::Exists, error.outcome(), &self.name, "finish"))
            }
            Err(error) => Err(error),
        }
    }

    fn abandon(mut self: Box<Self>) {
        self.sending.clear();
        if let Some(multipart) = self.multipart.take() {
            // If parts remain, the bucket's rule for unfinished uploads deletes them.
            let _left = self.bucket.wait(&self.name, async move { multipart.lock().await.abort().await });
        }
    }
}
