//! Reads ranges of a finished file.

use std::sync::Arc;

use bytes::Bytes;
use env::sync::Mutex;
use hdfs_native::file;
use storage::{AwaitedRead, Error, FileName, FileReader, Kind, Outcome, Result};

use crate::Hdfs;
use crate::failure::of_hdfs;

/// A file that is open for reading, with the places of its blocks.
#[derive(Clone)]
pub(crate) struct Reader {
    hdfs: Hdfs,
    name: FileName,
    size: u64,
    /// The places of the file's blocks. If no DataNode of a block answers, they are asked for again, because the
    /// NameNode may have ordered copies of the block elsewhere.
    located: Arc<Mutex<Arc<file::FileReader>>>,
}

impl Reader {
    pub(crate) async fn open(hdfs: Hdfs, name: FileName) -> Result<Reader> {
        let found = hdfs.0.client.read(&hdfs.path(&name)).await;
        let found = found.map_err(|error| of_hdfs(&error, Outcome::DidNotHappen, &name, "open"))?;
        let size = found.file_length() as u64;
        Ok(Reader { hdfs, name, size, located: Arc::new(Mutex::new(Arc::new(found))) })
    }

    fn too_short(&self, offset: u64, length: usize) -> Error {
        Error::new(Kind::TooShort, Outcome::DidNotHappen, &self.name, "read")
            .because(format!("{length} bytes at offset {offset} expected, the file has {}", self.size))
    }

    async fn range(&self, offset: u64, length: usize) -> Result<Bytes> {
        if offset.checked_add(length as u64).is_none_or(|end| end > self.size) {
            return Err(self.too_short(offset, length));
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        let _permit = self.hdfs.0.reads.acquire().await.expect("the semaphore is never closed");
        let located = Arc::clone(&self.located.lock());
        let limit = self.hdfs.0.options.call_max;
        let read = async |file: &file::FileReader| {
            env::timeout(limit, file.read_range(offset as usize, length)).await
        };
        if let Some(Ok(bytes)) = read(&located).await
            && bytes.len() == length
        {
            return Ok(bytes);
        }
        let failed = |error: &_| of_hdfs(error, Outcome::DidNotHappen, &self.name, "read");
        let found = self.hdfs.0.client.read(&self.hdfs.path(&self.name)).await;
        let found = Arc::new(found.map_err(|error| failed(&error))?);
        if found.file_length() as u64 != self.size {
            return Err(Error::new(Kind::NotFound, Outcome::DidNotHappen, &self.name, "read")
                .because("another file has this name now"));
        }
        *self.located.lock() = Arc::clone(&found);
        match read(&found).await {
            Some(Ok(bytes)) if bytes.len() == length => Ok(bytes),
            Some(Ok(_)) => Err(self.too_short(offset, length)),
            Some(Err(error)) => Err(failed(&error)),
            None => Err(Error::new(Kind::Failed, Outcome::DidNotHappen, &self.name, "read")
                .because(format!("no DataNode answered within {limit:?}"))),
        }
    }
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (reader, length) = (self.clone(), buffer.len());
        // Two attempts are made, each with the limit of a call.
        let (done, result) = std::sync::mpsc::sync_channel(1);
        drop(self.hdfs.0.runtime.spawn(async move {
            // The receiver is in this call, so the send succeeds.
            let _received = done.send(reader.range(offset, length).await);
        }));
        let bytes = result.recv().expect("the runtime runs as long as the folder is open")?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_awaited(&self, offset: u64, length: usize) -> Option<AwaitedRead> {
        let reader = self.clone();
        Some(Box::pin(async move {
            let (hdfs, name) = (reader.hdfs.clone(), reader.name.clone());
            let read = hdfs.0.runtime.spawn(async move { reader.range(offset, length).await });
            read.await.unwrap_or_else(|error| {
                Err(Error::new(Kind::Failed, Outcome::DidNotHappen, &name, "read").because(error.to_string()))
            })
        }))
    }
}
