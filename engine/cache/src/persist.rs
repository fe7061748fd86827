//! The bucket cache's index, saved so that the next process finds its blocks.
//!
//! Snapshots alternate between the two halves of a device and have a checksum, so a process that dies while it writes
//! leaves the previous snapshot. A snapshot may be out of date: if a slot was given to another block later, its check
//! fails when it is read, and blocks written since are not found. A snapshot for another record format is ignored, and
//! the cache begins empty.
//!
//! ```text
//! half     magic "BKI3" · sum of what follows 4B · generation 8B · length of the rest 8B · magic of the records 4B · files
//!          · blocks
//! files    count 4B · each: id 8B · size 8B · length of the name 2B · name
//! blocks   count 4B · each: id of its file 8B · offset 8B · place 8B · length 4B · length of its head 4B · sum of its head 4B
//!          · in memory 1B
//! ```

use std::sync::Arc;

use bytes::{Buf, BufMut};
use env::HashMap;
use env::sync::Mutex;
use storage::Device;

use crate::bucket::{BlockLocation, RECORD_MAGIC, checksum};

const MAGIC: &[u8; 4] = b"BKI3";
const HEADER_LENGTH: usize = 24;
/// Size of a block's entry in a snapshot, in bytes.
const BLOCK_LENGTH: usize = 37;
/// Bytes of index reserved for each slot of the smallest size, including file names.
const BYTES_PER_SLOT: u64 = 128;

/// A file in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedFile {
    pub(crate) id: u64,
    pub(crate) size: u64,
    pub(crate) name: Box<str>,
}

/// The contents of a snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) files: Vec<SavedFile>,
    pub(crate) blocks: Vec<BlockLocation>,
}

/// The place where snapshots are saved.
pub struct Persistence {
    device: Arc<dyn Device>,
    /// The generation of the last snapshot, and the snapshot's checksum if this process saved it.
    last: Mutex<(u64, Option<u32>)>,
}

impl std::fmt::Debug for Persistence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Persistence").field("place", &self.device.place()).finish_non_exhaustive()
    }
}

impl Persistence {
    /// Saves snapshots on `device`.
    pub fn on(device: Arc<dyn Device>) -> Persistence {
        Persistence { device, last: Mutex::default() }
    }

    /// Returns the size in bytes that a device needs for the snapshots of a bucket cache of `bucket_bytes` with these
    /// slot sizes.
    pub fn bytes_for(bucket_bytes: u64, slot_sizes: &[u32]) -> u64 {
        let smallest = u64::from(slot_sizes.iter().copied().min().unwrap_or(u32::MAX)).max(1);
        2 * (4096 + bucket_bytes / smallest * BYTES_PER_SLOT)
    }

    fn half(&self) -> u64 {
        self.device.size() / 2
    }

    /// Loads the newest intact snapshot; returns an empty one when there is none.
    pub(crate) fn load(&self) -> Snapshot {
        let mut newest: Option<(u64, Snapshot)> = None;
        for half in 0..2 {
            if let Some((generation, snapshot)) = self.load_half(half * self.half())
                && newest.as_ref().is_none_or(|(than, _)| generation > *than)
            {
                newest = Some((generation, snapshot));
            }
        }
        let (generation, snapshot) = newest.unwrap_or_default();
        *self.last.lock() = (generation, None);
        snapshot
    }

    fn load_half(&self, at: u64) -> Option<(u64, Snapshot)> {
        let mut header = [0; HEADER_LENGTH];
        // If the device cannot be read, the cache starts empty.
        self.device.read_at(at, &mut header).ok()?;
        let length = u64::from_le_bytes(header[16..24].try_into().ok()?);
        if &header[..4] != MAGIC || length > self.half() - HEADER_LENGTH as u64 {
            return None;
        }
        let mut bytes = vec![0; 16 + length as usize];
        self.device.read_at(at + 8, &mut bytes).ok()?;
        if checksum(&bytes) != u32::from_le_bytes(header[4..8].try_into().ok()?) {
            return None;
        }
        let generation = u64::from_le_bytes(header[8..16].try_into().ok()?);
        Some((generation, parse(&bytes[16..])?))
    }

    /// Saves a snapshot, unless it equals the last one.
    pub(crate) fn save(&self, snapshot: &Snapshot) -> storage::Result<()> {
        let mut last = self.last.lock();
        let mut body = Vec::new();
        write(snapshot, self.half() as usize - HEADER_LENGTH, &mut body);
        let body_sum = checksum(&body);
        if last.1 == Some(body_sum) {
            return Ok(());
        }
        let next = last.0 + 1;
        let mut bytes = Vec::with_capacity(HEADER_LENGTH + body.len());
        bytes.put_slice(MAGIC);
        bytes.put_u32_le(0);
        bytes.put_u64_le(next);
        bytes.put_u64_le(body.len() as u64);
        bytes.put_slice(&body);
        let sum = checksum(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        self.device.write_at(next % 2 * self.half(), &bytes)?;
        *last = (next, Some(body_sum));
        Ok(())
    }
}

/// Encodes as much of a snapshot as fits into `room` bytes.
fn write(snapshot: &Snapshot, room: usize, out: &mut Vec<u8>) {
    let mut left = room.saturating_sub(12);
    let mut known: HashMap<_, _> = HashMap::default();
    let mut files = Vec::new();
    for file in &snapshot.files {
        let length = 18 + file.name.len();
        let Ok(name_length) = u16::try_from(file.name.len()) else { continue };
        if length > left {
            break;
        }
        left -= length;
        files.put_u64_le(file.id);
        files.put_u64_le(file.size);
        files.put_u16_le(name_length);
        files.put_slice(file.name.as_bytes());
        known.insert(file.id, ());
    }
    out.put_slice(RECORD_MAGIC);
    out.put_u32_le(known.len() as u32);
    out.put_slice(&files);
    let blocks: Vec<&BlockLocation> = snapshot
        .blocks
        .iter()
        .filter(|block| known.contains_key(&block.file))
        .take(left / BLOCK_LENGTH)
        .collect();
    out.put_u32_le(blocks.len() as u32);
    for block in blocks {
        out.put_u64_le(block.file);
        out.put_u64_le(block.offset);
        out.put_u64_le(block.at);
        out.put_u32_le(block.length);
        out.put_u32_le(block.head);
        out.put_u32_le(block.sum);
        out.put_u8(u8::from(block.in_memory));
    }
}

fn parse(mut bytes: &[u8]) -> Option<Snapshot> {
    // Records of another format are refused here. Otherwise they would count as cached until each is read and refused.
    bytes = bytes.strip_prefix(RECORD_MAGIC)?;
    let mut snapshot = Snapshot::default();
    for _ in 0..bytes.try_get_u32_le().ok()? {
        let (id, size) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
        let length = usize::from(bytes.try_get_u16_le().ok()?);
        let (name, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        snapshot.files.push(SavedFile { id, size, name: std::str::from_utf8(name).ok()?.into() });
    }
    for _ in 0..bytes.try_get_u32_le().ok()? {
        snapshot.blocks.push(BlockLocation {
            file: bytes.try_get_u64_le().ok()?,
            offset: bytes.try_get_u64_le().ok()?,
            at: bytes.try_get_u64_le().ok()?,
            length: bytes.try_get_u32_le().ok()?,
            head: bytes.try_get_u32_le().ok()?,
            sum: bytes.try_get_u32_le().ok()?,
            in_memory: bytes.try_get_u8().ok()? != 0,
        });
    }
    bytes.is_empty().then_some(snapshot)
}
