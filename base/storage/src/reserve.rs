//! The reserve of a disk: a file whose blocks the storage gives up when the disk is full.
//!
//! An operator makes room by dropping tables, and that needs a few writes: of hbase:meta, of the master's small objects, of
//! the log. On a full disk they take the room of the reserve. The file then stays with a length of 0, so that a later process
//! knows that the room is spent, too. While it is, writes of other kinds must leave half of it; see
//! [`Files::keep_reserve`](crate::Files::keep_reserve). So small flushes take place, after which the log needs fewer files,
//! and a large one fails without harm.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use env::sync::Mutex;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use crate::{Error, FileName, Files, Kind, Outcome, Result};

/// The name of the reserve's file, in the root folder of a storage.
pub const RESERVE: &str = "bellows.reserve";

/// Maximum size of the reserve in bytes. The largest write that it must hold is a batch of the log that waits for room: its
/// buffer, of at most 16 MB unless a single record is larger. The other half is for what frees room: small objects, and
/// records of hbase:meta, of some kilobytes for each region that is closed and dropped.
const SIZE_MAX: u64 = 32 << 20;

/// The reserve has at most the disk's size divided by this number.
const PART_OF_DISK: u64 = 20;

/// Size of the writes that fill the file where the system cannot allocate blocks, in bytes.
const PIECE: usize = 1 << 20;

/// Whether a storage has its reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveState {
    /// It has none, because it cannot be short of room, nobody asked for one, or there was never room for it.
    None,
    /// The room is reserved.
    Kept,
    /// The room was given up, because the disk was full, and is not reserved again.
    Spent,
}

const NONE: u8 = 0;
const KEPT: u8 = 1;
const SPENT: u8 = 2;

/// The reserve in a folder of this machine.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    state: AtomicU8,
    /// Held while the file is changed.
    changing: Mutex<()>,
}

impl Reserve {
    /// Finds the state in which an earlier process has left the reserve of `root`.
    pub(crate) fn find(root: &Path) -> Reserve {
        let path = root.join(RESERVE);
        let state = match fs::metadata(&path) {
            Ok(found) if found.len() > 0 => KEPT,
            Ok(_) => SPENT,
            Err(_) => NONE,
        };
        Reserve { path, state: AtomicU8::new(state), changing: Mutex::new(()) }
    }

    /// Whether a file that is not for freeing room may grow by `bytes`.
    pub(crate) fn admits(&self, bytes: usize) -> bool {
        if self.state() != ReserveState::Spent {
            return true;
        }
        // If the disk cannot be asked, the write may fail for want of room.
        self.disk().is_ok_and(|(size, free)| free >= size / 2 + bytes as u64)
    }

    /// Returns the size that the reserve has or would have, and what is free on the disk, in bytes.
    fn disk(&self) -> io::Result<(u64, u64)> {
        let disk = statvfs(self.path.parent().unwrap_or(Path::new(".")))?;
        let size = disk.f_blocks.saturating_mul(disk.f_frsize) / PART_OF_DISK;
        Ok((size.clamp(1, SIZE_MAX), disk.f_bavail.saturating_mul(disk.f_frsize)))
    }

    pub(crate) fn state(&self) -> ReserveState {
        match self.state.load(Ordering::Acquire) {
            KEPT => ReserveState::Kept,
            SPENT => ReserveState::Spent,
            _ => ReserveState::None,
        }
    }

    /// Gives up the room. Returns whether there was any.
    pub(crate) fn spend(&self) -> bool {
        let _alone = self.changing.lock();
        if self.state() != ReserveState::Kept {
            return false;
        }
        // The file system frees the blocks for others only after this change of the file is durable.
        let emptied = OpenOptions::new().write(true).open(&self.path).and_then(|file| {
            file.set_len(0)?;
            file.sync_all()
        });
        if let Err(error) = emptied {
            tracing::warn!(file = %self.path.display(), %error, "the reserve of the full disk cannot be given up");
            return false;
        }
        self.state.store(SPENT, Ordering::Release);
        tracing::error!(file = %self.path.display(),
            "the disk is full: its reserve is used for what frees room, and clients' writes are refused; delete snapshots, or \
             disable and drop tables, or free some space otherwise; no restart is needed");
        true
    }

    /// Reserves the room, if that is not done and the disk has room for twice the size. Returns the state after that.
    pub(crate) fn keep(&self) -> io::Result<ReserveState> {
        if self.state() == ReserveState::Kept {
            return Ok(ReserveState::Kept);
        }
        let _alone = self.changing.lock();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let (size, free) = self.disk()?;
        if free < 2 * size {
            return Ok(self.state());
        }
        let is_new = self.state() == ReserveState::None;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        if let Err(error) = allocate(&file, size) {
            // Incomplete room must not be taken for the reserve.
            let _left = if is_new { fs::remove_file(&self.path) } else { file.set_len(0) };
            return if is_full(&error) { Ok(self.state()) } else { Err(error) };
        }
        File::open(folder)?.sync_all()?;
        self.state.store(KEPT, Ordering::Release);
        if !is_new {
            tracing::info!(file = %self.path.display(), bytes = size, "the disk has room again, and its reserve is complete");
        }
        Ok(ReserveState::Kept)
    }
}

/// Whether an error says that no room is left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the error of a write that may not use the reserve, while that is spent.
pub(crate) fn is_spent(name: &FileName) -> Error {
    Error::new(Kind::Full, Outcome::DidNotHappen, name, "write")
        .because("no space left: the disk was full, and half of its reserve is left for what frees space")
}

/// Calls `act`. If that finds the disk full, gives up the reserve of `files` and calls it once more.
pub fn with_reserve<T>(files: &dyn Files, mut act: impl FnMut() -> Result<T>) -> Result<T> {
    match act() {
        Err(error) if error.kind() == Kind::Full && files.spend_reserve() => act(),
        outcome => outcome,
    }
}

/// Gives the empty file `size` bytes of the disk, durably.
fn allocate(file: &File, size: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) => {}
        // This file system has no call for that.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            let piece = vec![0; PIECE];
            let mut at = 0;
            while at < size {
                let length = PIECE.min((size - at) as usize);
                file.write_all_at(&piece[..length], at)?;
                at += length as u64;
            }
        }
        Err(error) => return Err(error.into()),
    }
    file.sync_all()
}
