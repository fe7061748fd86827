//! Writes files: by one conditional PUT, or by a multipart upload.
//!
//! A store bills the parts of an unfinished upload until it is aborted. So an upload that was not completed is aborted
//! when its writer is dropped, whatever the reason. Only a process that dies leaves parts.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use env::{Task, World};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt};
use storage::{Error, FileName, FileWriter, Kind, Outcome, Result};
use tokio::sync::Mutex;

use crate::connector::for_file;
use crate::{Bucket, PART_BYTES, PUT_MAX, TAIL_BYTES, of_store};

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

    /// Returns the number of bytes above which a part is sent. Before the first part the file may still be one PUT.
    fn rest_max(&self) -> usize {
        if self.multipart.is_some() { PART_BYTES } else { PUT_MAX }
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

    /// Returns a future that aborts the multipart upload; `None` if there is none that was not completed. If a completion had
    /// no reply and took effect, the abort fails, and the file stays.
    fn abort(&mut self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let multipart = self.multipart.take()?;
        let sending = std::mem::take(&mut self.sending);
        Some(async move {
            sending.iter().for_each(Task::abort);
            // The store would keep a part that it gets after the abort.
            for part in sending {
                let _ended = part.await;
            }
            // If parts remain, the bucket's rule for unfinished uploads deletes them.
            let _left = multipart.lock().await.abort().await;
        })
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
        let Err(error) = completed else {
            self.multipart = None;
            return Ok(());
        };
        let (bucket, name, path) = (self.bucket.clone(), self.name.clone(), self.path.clone());
        let found = self.bucket.wait(&self.name, async move { bucket.tail(&name, &path, "finish").await });
        match found {
            Ok((tail, size)) if size == self.size && tail == self.tail => {
                self.multipart = None;
                Ok(())
            }
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
        while self.rest.len() + bytes.len() > self.rest_max() {
            let missing = PART_BYTES.saturating_sub(self.rest.len()).min(bytes.len());
            let (front, back) = bytes.split_at(missing);
            self.rest.extend_from_slice(front);
            let part = self.rest.split_to(PART_BYTES).freeze();
            self.send(part)?;
            bytes = back;
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }

    /// Finishes the file. A multipart upload has no condition, so a file that is longer than one PUT needs a name that
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
        if let Some(abort) = self.abort() {
            self.bucket.wait(&self.name, abort);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(abort) = self.abort() {
            drop(self.bucket.shared.runtime.spawn(for_file(&self.name, abort)));
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a store that completes no upload")]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use storage::Files;

    use super::*;
    use crate::{Options, S3, Service};

    /// Starts a store that begins uploads, takes parts, and refuses to complete an upload. Returns a bucket in it. Each
    /// abort of an upload is sent to the receiver.
    fn store() -> (Bucket, Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let bucket = Bucket::new(Options {
            endpoint: Some(format!("http://{}", listener.local_addr().expect("bound"))),
            service: Service::S3(S3 {
                region: Some("us-east-1".to_owned()),
                keys: Some(("a".to_owned(), "b".to_owned())),
                path_style: true,
                ..S3::default()
            }),
            ..Options::new("bucket", "")
        });
        let (aborted, aborts) = channel();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, aborted) = (client.expect("accepted"), aborted.clone());
                std::thread::spawn(move || serve(client, &aborted));
            }
        });
        (bucket.expect("a client"), aborts)
    }

    fn serve(mut client: TcpStream, aborted: &Sender<()>) {
        let (mut request, mut part) = (Vec::new(), vec![0; 1 << 20]);
        while let Ok(count @ 1..) = client.read(&mut part) {
            request.extend_from_slice(&part[..count]);
            let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if request.len() < end + 4 + length.map_or(0, |length| length.parse().expect("a number")) {
                continue;
            }
            request.clear();
            let (status, body) = match head.split(' ').next().expect("a method") {
                "post" if head.contains("uploadid=") => {
                    ("400 Bad Request", "<Error><Code>InvalidPart</Code></Error>")
                }
                "post" => (
                    "200 OK",
                    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
                ),
                "put" => ("200 OK", ""),
                "delete" if head.contains("uploadid=u") => {
                    let _test_may_have_ended = aborted.send(());
                    ("204 No Content", "")
                }
                _ => ("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>"),
            };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nETag: \"e\"\r\nContent-Length: {length}\r\n\r\n{body}");
            let _client_may_be_gone = client.write_all(answer.as_bytes());
        }
    }

    #[test]
    fn an_upload_that_is_not_completed_is_aborted_once() {
        let (bucket, aborts) = store();
        let begun = || {
            let mut writer = bucket.create(&FileName::new("file")).expect("new");
            writer.write(&vec![7; PUT_MAX + 1]).expect("a part is sent");
            writer
        };
        let once = |how: &str| {
            aborts.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|error| panic!("{how}: {error}"));
        };
        begun().finish().expect_err("the completion is refused");
        once("a failed completion");
        drop(begun());
        once("a writer that was dropped after an error");
        begun().abandon();
        assert_eq!(aborts.try_iter().count(), 1, "abandoning a file waits for the abort");
        let mut small = bucket.create(&FileName::new("small")).expect("new");
        small.write(b"content").expect("kept");
        drop(small);
        assert_eq!(aborts.try_iter().count(), 0, "there was no upload");
    }
}
