//! Writes a file through a pipeline of DataNodes, and makes it durable with `hsync`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hdfs_native::{HdfsError, file};
use storage::{Capability, Error, FileName, FileWriter, Kind, Outcome, Result};

use crate::failure::{is_sealed, of_hdfs};
use crate::{Gate, Hdfs};

/// Maximum number of bytes that wait for a sync. If more are waiting, they are sent at once.
const WAITING_MAX: usize = 1 << 20;

/// The only writer of a file.
pub(crate) struct Writer {
    hdfs: Hdfs,
    name: FileName,
    path: String,
    /// The open file; `None` after a failure.
    open: Option<file::FileWriter>,
    /// Bytes that were not yet sent to the DataNodes.
    waiting: BytesMut,
    size: u64,
    gate: Arc<Gate>,
    /// Why the writer refuses further writes: after a failure nobody knows what the DataNodes have.
    failure: Option<Error>,
}

/// How far the written bytes must get.
#[derive(Clone, Copy)]
enum Reach {
    /// To the memory of the DataNodes.
    Sent,
    /// To the disks of the DataNodes.
    Durable,
    /// To the disks of the DataNodes, as the last bytes of the file.
    Ended,
}

impl Writer {
    pub(crate) fn create(hdfs: Hdfs, name: FileName) -> Result<Writer> {
        let path = hdfs.path(&name);
        let (creator, at, file) = (hdfs.clone(), path.clone(), name.clone());
        let open = hdfs.wait(&name, "create", async move {
            let created = creator.0.client.create(&at, creator.write_options()).await;
            created.map_err(|error| of_hdfs(&error, Outcome::DidNotHappen, &file, "create"))
        })??;
        let gate = Arc::new(Gate::default());
        hdfs.0.writers.lock().insert(name.clone(), Arc::clone(&gate));
        let waiting = BytesMut::new();
        Ok(Writer { hdfs, name, path, open: Some(open), waiting, size: 0, gate, failure: None })
    }

    /// Sends the waiting bytes as far as `reach` says.
    fn send(&mut self, reach: Reach, act: &'static str) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let gate = Arc::clone(&self.gate);
        let sealed = gate.lock();
        if *sealed {
            return Err(Error::new(Kind::Sealed, Outcome::DidNotHappen, &self.name, act));
        }
        let mut open = self.open.take().expect("a writer without a failure is open");
        let (bytes, path, hdfs) = (self.waiting.split().freeze(), self.path.clone(), self.hdfs.clone());
        let sent = self.hdfs.wait(&self.name, act, async move {
            let limit = hdfs.0.options.sync_max;
            let pushed = env::timeout(limit, push(&mut open, bytes, reach)).await;
            match pushed.unwrap_or_else(|| Err(no_answer(limit))) {
                Ok(()) if matches!(reach, Reach::Sent) => Ok(open),
                // Only the owner of the folder acknowledges. So a process that takes the folder finds all bytes
                // acknowledged before.
                Ok(()) => match hdfs.is_owned().await {
                    Ok(true) => Ok(open),
                    Ok(false) => {
                        Err((HdfsError::OperationFailed("another process has the folder".to_owned()), true))
                    }
                    Err(error) => Err((error, false)),
                },
                Err(error) if is_sealed(&error) => Err((error, true)),
                Err(error) => {
                    // This writer has failed. If the file is closed already, another process has closed it.
                    let is_closed = hdfs.0.client.recover_lease(&path).await.unwrap_or(false);
                    Err((error, is_closed))
                }
            }
        });
        let failure = match sent {
            Ok(Ok(open)) => {
                self.open = Some(open);
                return Ok(());
            }
            Ok(Err((error, true))) => Error::new(Kind::Sealed, Outcome::MayHaveHappened, &self.name, act)
                .because(of_hdfs(&error, Outcome::DidNotHappen, &self.name, act).to_string()),
            Ok(Err((error, false))) => of_hdfs(&error, Outcome::MayHaveHappened, &self.name, act),
            Err(late) => late,
        };
        self.failure = Some(failure.clone());
        Err(failure)
    }
}

fn no_answer(limit: Duration) -> HdfsError {
    HdfsError::DataTransferError(format!("the DataNodes did not answer within {limit:?}"))
}

async fn push(open: &mut file::FileWriter, bytes: Bytes, reach: Reach) -> std::result::Result<(), HdfsError> {
    if !bytes.is_empty() {
        open.write_bytes(bytes).await?;
    }
    match reach {
        Reach::Sent => Ok(()),
        Reach::Durable => open.hsync().await,
        Reach::Ended => {
            open.hsync().await?;
            open.close().await
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut writers = self.hdfs.0.writers.lock();
        // Another writer may use this name by now.
        if writers.get(&self.name).is_some_and(|gate| Arc::ptr_eq(gate, &self.gate)) {
            writers.remove(&self.name);
        }
    }
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    /// Keeps the bytes for the next sync; sends them at once if more than [`WAITING_MAX`] bytes wait.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.waiting.extend_from_slice(bytes);
        self.size += bytes.len() as u64;
        if self.waiting.len() >= WAITING_MAX { self.send(Reach::Sent, "write") } else { Ok(()) }
    }

    fn cut(&mut self, _size: u64) -> Result<()> {
        Err(Error::unsupported(&self.name, "cut", Capability::Cut))
    }

    fn sync(&mut self) -> Result<()> {
        self.send(Reach::Durable, "sync")
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.send(Reach::Ended, "finish")?;
        Ok(self.size)
    }

    fn abandon(mut self: Box<Self>) {
        drop(self.open.take());
        // If the unfinished file remains, it is garbage: no list names it.
        let _left = storage::Files::delete(&self.hdfs, &self.name);
    }
}
