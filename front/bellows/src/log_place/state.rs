//! Whether the data directory needs its log, in an object of the data directory.
//!
//! The objects that name the log's place do not show that the log is gone: all its files may have been deleted, and a start
//! would begin an empty log. So a start records that the log is *open*, before a client can write, and an orderly stop that
//! it is *closed*: then every write is in store files. A log that is open has at least one file at any time. If it has none,
//! what was not flushed is lost, and everything that opens the log fails. An operator who accepts the loss deletes the object.
//!
//! Each start writes the object, so it also shows a server that another one has taken over its files.

use std::sync::Arc;
use std::time::Duration;

use env::World;
use storage::{FileName, Files, Version};

use super::{NOTE_MAX, read, write};
use crate::failure::Failure;
use crate::root::LOG_FOLDER;

/// The object in the data directory: a line `open` or `closed`, and a line that distinguishes the runs.
pub(crate) const STATE: &str = "bellows.wal.state";

/// What the data directory records about its log.
#[derive(Clone)]
pub(crate) struct LogState {
    /// Whether the log may have writes that are in no store file.
    pub(super) is_open: bool,
    version: Option<Version>,
}

impl LogState {
    /// Reads the record of the data directory in `files`, which errors call `root`. An older version has left none.
    pub(super) fn read(files: &dyn Files, root: &str) -> Result<LogState, Failure> {
        let (content, version) = read(files, root, STATE)?.unzip();
        let state = content.as_deref().and_then(|content| content.lines().next());
        let is_open = match state {
            None | Some("closed") => false,
            Some("open") => true,
            Some(_) => {
                return Err(Failure::new(format!(
                    "{root}/{STATE} is damaged, expected open or closed in its first line: restore it from a copy, or delete it if the \
                     log is complete"
                )));
            }
        };
        Ok(LogState { is_open, version })
    }

    /// Fails if the log is needed and its place, which has files of it if `has_log`, has lost them all. Errors call the data
    /// directory `root` and the log's place `place`.
    pub(super) fn check(&self, root: &str, place: &str, has_log: bool) -> Result<(), Failure> {
        if !self.is_open || has_log {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the write-ahead log of {root} is gone: {place}/{LOG_FOLDER} has no file of it, although the server was not stopped in \
             order; nothing was changed. Put the files back: mount their disk, or restore the deleted objects. Without them, writes that \
             were acknowledged and not flushed are lost: to accept that loss, delete {STATE} in {root}, and start again"
        )))
    }

    /// Records that the log is open, or closed. Fails if another process has recorded something since.
    pub(super) fn set(
        &mut self,
        world: &World,
        files: &dyn Files,
        root: &str,
        is_open: bool,
    ) -> Result<(), Failure> {
        let state = if is_open { "open" } else { "closed" };
        let content = format!("{state}\n{:016x}\n", world.random());
        self.version = Some(write(files, root, STATE, self.version.as_ref(), &content)?);
        self.is_open = is_open;
        Ok(())
    }

    /// Whether the data directory has the record.
    pub(super) fn is_recorded(&self) -> bool {
        self.version.is_some()
    }
}

/// The record of a server that has its log open.
#[derive(Clone)]
pub(crate) struct OpenedLog {
    world: World,
    files: Arc<dyn Files>,
    root: String,
    state: LogState,
}

impl OpenedLog {
    pub(super) fn new(world: &World, files: &Arc<dyn Files>, root: &str, state: LogState) -> OpenedLog {
        OpenedLog { world: world.clone(), files: Arc::clone(files), root: root.to_owned(), state }
    }

    /// Records that the log may have writes that are in no store file. The caller owns the log, which has a file, and does
    /// not serve clients yet.
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        self.state.set(&self.world, &*self.files, &self.root, true)
    }

    /// Whether another server has opened a log of this data directory since, or has taken the data directory over and ended
    /// before that. Takes one request, or two in HDFS. If the record cannot be read, or an operator has deleted it, returns
    /// `false`.
    fn is_replaced(&self) -> bool {
        if self.files.is_taken_over().unwrap_or(false) {
            return true;
        }
        let found = self.files.load(&FileName::new(STATE), NOTE_MAX);
        found.is_ok_and(|found| Some(found.version) != self.state.version)
    }

    /// Waits until another server has opened a log of this data directory, which it checks each `period`, and returns what to
    /// say. The other server's log need not be in the same place, so this one may not notice it in its own log.
    pub(crate) fn replaced(&self, period: Duration) -> impl Future<Output = String> + Send + use<> {
        let opened = self.clone();
        async move {
            loop {
                env::sleep(period).await;
                let looked = opened.clone();
                if env::blocking(move || looked.is_replaced()).await {
                    return format!(
                        "another server has taken over {}, which the log of this one does not show",
                        opened.root
                    );
                }
            }
        }
    }

    /// Records that every write is in store files. If that fails, the next start needs the log, which is still there.
    pub(crate) fn end(mut self) {
        if let Err(error) = self.state.set(&self.world, &*self.files, &self.root, false) {
            tracing::warn!(%error, "cannot record that the log is not needed any more; keep it for the next start");
        }
    }
}
