//! A file in memory: what was written, what is durable of it, and what a loss of power leaves.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use env::sync::Mutex;

/// A file; bytes from offset `durable` on may be lost with the power.
#[derive(Clone)]
pub(super) struct File {
    pub(super) bytes: Arc<Mutex<Vec<u8>>>,
    pub(super) durable: usize,
    /// Whether a sync has failed and the system has dropped the bytes that were not durable. Later syncs report success
    /// and make none of them durable, nor any after them.
    pub(super) lost: bool,
    pub(super) named: bool,
    /// Whether the writer is sealed, even if the name is deleted; shared with the writer.
    pub(super) sealed: Arc<AtomicBool>,
    /// The bytes of the old file, for a file in reused space. After offset `durable` the disk still has them.
    pub(super) under: Vec<u8>,
}

impl File {
    /// Creates a file whose bytes are all durable.
    pub(super) fn durable(bytes: Vec<u8>) -> File {
        File {
            durable: bytes.len(),
            lost: false,
            bytes: Arc::new(Mutex::new(bytes)),
            named: true,
            sealed: Arc::default(),
            under: Vec::new(),
        }
    }

    /// See [`Memory::lose_unsynced`](super::Memory::lose_unsynced).
    pub(super) fn lose(&mut self) {
        self.lost = self.durable < self.bytes.lock().len();
    }

    /// Replaces bytes that a failed sync has lost by those on the disk, which may have any part of them.
    pub(super) fn forget(&mut self) {
        if !std::mem::take(&mut self.lost) {
            return;
        }
        let mut bytes = self.bytes.lock();
        let mut next = numbers((bytes.len() * SECTOR + self.durable) as u64);
        if let Some(kept) = tear(&mut bytes, self.durable, &self.under, &mut next) {
            bytes.truncate(kept);
        }
        self.durable = bytes.len();
        self.under.clear();
    }

    /// Makes all bytes durable.
    pub(super) fn sync(&mut self) {
        if self.lost {
            return;
        }
        let bytes = self.bytes.lock();
        self.durable = bytes.len();
        self.under.clear();
    }

    /// Makes the bytes up to `size` durable, and with them the zeros that follow.
    pub(super) fn sync_to(&mut self, size: usize) {
        if self.lost {
            return;
        }
        let bytes = self.bytes.lock();
        let same = self.under.len().min(bytes.len());
        if size < same {
            let to = (crate::zeros_to(size as u64) as usize).min(same);
            self.under[self.durable.min(to)..to].copy_from_slice(&bytes[self.durable.min(to)..to]);
        }
        self.durable = size;
    }
}

/// Size of a sector, which a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// Returns numbers that are random enough to choose where a write is torn: the upper bits of a linear congruential generator.
pub(super) fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut random = seed;
    move || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        random >> 33
    }
}

/// Applies a loss of power to the bytes after `durable`: a sector that was not written has the bytes of `under`, and
/// zeros where `under` has none. Returns the length at which the file is cut, if it is.
pub(super) fn tear(
    bytes: &mut [u8],
    durable: usize,
    under: &[u8],
    next: &mut impl FnMut() -> u64,
) -> Option<usize> {
    let was_not_written = |bytes: &mut [u8], from: usize, to: usize| {
        let known = to.min(under.len()).max(from);
        if from < known {
            bytes[from..known].copy_from_slice(&under[from..known]);
        }
        bytes[known..to].fill(0);
    };
    let tail = bytes.len() - durable;
    if tail == 0 {
        return None;
    }
    let mut within = |length: usize| next() as usize % (length + 1);
    let how = within(2);
    let anywhere = durable + within(tail);
    let from = (anywhere / SECTOR * SECTOR).max(durable);
    let length = bytes.len();
    match how {
        0 if under.is_empty() => return Some(anywhere),
        0 | 1 => was_not_written(bytes, from, length),
        _ => {
            let to = (from + within(length - from)).next_multiple_of(SECTOR).min(length);
            was_not_written(bytes, from, to);
        }
    }
    None
}
