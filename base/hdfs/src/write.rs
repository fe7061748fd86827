//! Writes a file through a pipeline of DataNodes, and makes it durable with `hsync`.
//!
//! The HDFS library cannot exclude a DataNode when it asks for a new block, and the NameNode takes a DataNode for alive
//! for ten minutes after its last heartbeat. So a part of a log file is begun by several attempts side by side, with
//! fewer and fewer replicas, and the NameNode chooses DataNodes for each. The part is the attempt with the most replicas
//! among those that succeed soon; the others are deleted. If the part has fewer replicas than the file should have, the
//! NameNode copies its block when the part ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hdfs_native::{HdfsError, file};
use storage::{Capability, Error, FileName, FileWriter, Kind, Outcome, Result};
use tokio::sync::mpsc;

use crate::failure::{is_missing, is_sealed, of_hdfs};
use crate::{Hdfs, RECOVERY_PAUSE, RECOVERY_PAUSE_MAX, Seal};

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
    /// Maximum time for the DataNodes to answer a send or a sync, to which [`time_for`] adds time for each byte sent.
    limit: Duration,
    seal: Arc<Seal>,
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
    pub(crate) fn create(hdfs: Hdfs, name: FileName, limit: Duration) -> Result<Writer> {
        let path = hdfs.path(&name);
        let (creator, at, file) = (hdfs.clone(), path.clone(), name.clone());
        let open = hdfs.wait(&name, "create", async move {
            let created = creator.0.client.create(&at, creator.write_options()).await;
            created.map_err(|error| of_hdfs(&error, Outcome::DidNotHappen, &file, "create"))
        })??;
        Ok(Writer::new(hdfs, name, path, open, 0, limit))
    }

    fn new(
        hdfs: Hdfs,
        name: FileName,
        path: String,
        open: file::FileWriter,
        size: u64,
        limit: Duration,
    ) -> Writer {
        let seal = Arc::new(Seal::default());
        hdfs.0.writers.lock().insert(name.clone(), Arc::clone(&seal));
        Writer {
            hdfs,
            name,
            path,
            open: Some(open),
            waiting: BytesMut::new(),
            size,
            limit,
            seal,
            failure: None,
        }
    }

    /// Creates a part of a log file, as [`PartFiles::begin_part`](crate::PartFiles::begin_part) says.
    pub(crate) fn begin_part(
        hdfs: Hdfs,
        part: &FileName,
        earlier: &FileName,
        bytes: &[u8],
        limit: Duration,
    ) -> Result<Writer> {
        hdfs.own(part, "begin")?;
        let (all, name, before) = (hdfs.clone(), part.clone(), hdfs.path(earlier));
        let content = Bytes::copy_from_slice(bytes);
        let begun =
            hdfs.wait(part, "begin", async move { all.begin_aside(&name, &before, content, limit).await });
        let open = begun??;
        Ok(Writer::new(hdfs.clone(), part.clone(), hdfs.path(part), open, bytes.len() as u64, limit))
    }

    /// Sends the waiting bytes as far as `reach` says.
    fn send(&mut self, reach: Reach, act: &'static str) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let seal = Arc::clone(&self.seal);
        let sealed = seal.lock();
        if *sealed {
            return Err(Error::new(Kind::Sealed, Outcome::DidNotHappen, &self.name, act));
        }
        let mut open = self.open.take().expect("a writer without a failure is open");
        let (bytes, path, hdfs) = (self.waiting.split().freeze(), self.path.clone(), self.hdfs.clone());
        let limit = time_for(&bytes, self.limit);
        let sent = self.hdfs.wait(&self.name, act, async move {
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
                    // This writer has failed. If another process has the folder, it has sealed the file.
                    let is_owned = hdfs.is_owned().await.unwrap_or(true);
                    if is_owned {
                        hdfs.recover_later(path);
                    }
                    Err((error, !is_owned))
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

/// How long after the first attempt that succeeds others, with more replicas, may still succeed.
const BETTER_WITHIN: Duration = Duration::from_millis(100);
/// Number of bytes above which fewer attempts are made.
const LARGE: usize = 4 << 20;

/// An attempt to begin a part of a log file.
struct Attempt {
    /// Number of DataNodes that the NameNode was asked for.
    replication: u32,
    path: String,
    open: file::FileWriter,
}

impl Hdfs {
    /// Writes the first bytes of a part of a log file in the owner's folder, and renames the file to its place. So the
    /// part appears only while this process owns the folder.
    async fn begin_aside(
        &self,
        part: &FileName,
        before: &str,
        bytes: Bytes,
        limit: Duration,
    ) -> Result<file::FileWriter> {
        let found = self.0.client.get_file_info(before).await;
        let found = found.map_err(|error| of_hdfs(&error, Outcome::DidNotHappen, part, "begin"))?;
        let wanted = found.replication.unwrap_or(1).max(1);
        let (ended, mut results) = mpsc::unbounded_channel();
        let replications = replications(wanted, bytes.len());
        let mut running = replications.len();
        for replication in replications {
            let (hdfs, part, bytes, ended) = (self.clone(), part.clone(), bytes.clone(), ended.clone());
            drop(self.0.runtime.spawn(async move {
                let attempt = hdfs.attempt(&part, replication, bytes, limit).await;
                if let Err(mpsc::error::SendError(Ok(late))) = ended.send(attempt) {
                    hdfs.discard(late);
                }
            }));
        }
        let (mut best, mut failure) = (None::<Attempt>, None);
        while running > 0 && best.as_ref().is_none_or(|best| best.replication < wanted) {
            let next = match best {
                None => results.recv().await,
                Some(_) => match env::timeout(BETTER_WITHIN, results.recv()).await {
                    Some(next) => next,
                    None => break,
                },
            };
            running -= 1;
            match next.expect("this call has a sender, too") {
                Ok(attempt) if best.as_ref().is_none_or(|best| best.replication < attempt.replication) => {
                    best.replace(attempt).into_iter().for_each(|worse| self.discard(worse));
                }
                Ok(worse) => self.discard(worse),
                Err(error) => failure = Some(error),
            }
        }
        // An attempt that succeeds from now on is discarded by its task.
        results.close();
        while let Ok(late) = results.try_recv() {
            late.into_iter().for_each(|late| self.discard(late));
        }
        let Some(Attempt { replication, path: aside, open }) = best else {
            return Err(failure.expect("each attempt has failed"));
        };
        if let Err(error) = self.0.client.rename(&aside, &self.path(part), false).await {
            if is_missing(&error) && !self.is_owned().await.unwrap_or(true) {
                return Err(self.fenced(part, "begin").await);
            }
            return Err(of_hdfs(&error, Outcome::MayHaveHappened, part, "begin"));
        }
        if replication < wanted {
            tracing::warn!(
                target: "wal", file = %part, replication, wanted,
                "a log file has fewer replicas than it should have until it ends"
            );
            // If this fails, the file keeps fewer replicas than it should have.
            let _set = self.0.client.set_replication(&self.path(part), wanted).await;
        }
        Ok(open)
    }

    /// Creates a file in the owner's folder, with durable content.
    async fn attempt(
        &self,
        part: &FileName,
        replication: u32,
        bytes: Bytes,
        limit: Duration,
    ) -> Result<Attempt> {
        let path = self.own(part, "begin")?.next_name();
        let options = self.write_options().replication(replication).create_parent(false);
        let failed = |error: &HdfsError| of_hdfs(error, Outcome::DidNotHappen, part, "begin");
        let mut open = match self.0.client.create(&path, options).await {
            Ok(open) => open,
            Err(error) if is_missing(&error) && !self.is_owned().await.unwrap_or(true) => {
                return Err(self.fenced(part, "begin").await);
            }
            Err(error) => return Err(failed(&error)),
        };
        let limit = time_for(&bytes, limit);
        let pushed = env::timeout(limit, push(&mut open, bytes, Reach::Durable)).await;
        match pushed.unwrap_or_else(|| Err(no_answer(limit))) {
            Ok(()) => Ok(Attempt { replication, path, open }),
            Err(error) => {
                let failure = failed(&error);
                self.discard(Attempt { replication, path, open });
                Err(failure)
            }
        }
    }

    /// Deletes the file of an attempt that is not used. If that fails, the next owner deletes it.
    fn discard(&self, attempt: Attempt) {
        let hdfs = self.clone();
        drop(self.0.runtime.spawn(async move {
            drop(attempt.open);
            let _left = hdfs.0.client.delete(&attempt.path, false).await;
        }));
    }

    /// Recovers the lease of a file that its writer has left, which ends the file. Does not wait for it.
    fn recover_later(&self, path: String) {
        let (client, limit) = (self.0.client.clone(), self.0.options.call_max);
        drop(self.0.runtime.spawn(env::timeout(limit, async move {
            let mut pause = RECOVERY_PAUSE;
            // Another error means that the file was deleted, or that another process has the folder.
            while client.recover_lease(&path).await.is_ok_and(|is_closed| !is_closed) {
                env::sleep(pause).await;
                pause = (pause * 2).min(RECOVERY_PAUSE_MAX);
            }
        })));
    }
}

/// Returns the number of replicas of each attempt to begin a part that should have `wanted`.
fn replications(wanted: u32, bytes: usize) -> Vec<u32> {
    let each = if bytes > LARGE { 1 } else { 2 };
    let mut replications: Vec<u32> =
        (1..=wanted).rev().take(3).flat_map(|count| std::iter::repeat_n(count, each)).collect();
    // One replica on a DataNode that works is found most often.
    replications.extend(std::iter::repeat_n(1, each));
    replications
}

/// Returns the time that the DataNodes may take for these bytes: the limit, and an eighth of a second for each MB.
fn time_for(bytes: &[u8], limit: Duration) -> Duration {
    limit + Duration::from_millis(bytes.len() as u64 >> 13)
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
        if writers.get(&self.name).is_some_and(|seal| Arc::ptr_eq(seal, &self.seal)) {
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
