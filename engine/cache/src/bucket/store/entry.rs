//! An entry of the bucket cache's index: the location of a block's record, and the checksum of the record's head.

use std::sync::Arc;

use crate::Block;
use crate::bucket::record::KeptHead;

/// The location of a record on the devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) at: u64,
    pub(super) length: u32,
    /// Length of the record's head, in bytes.
    pub(super) head: u32,
    /// Checksum of the record's head.
    pub(super) sum: u32,
    /// Whether the slot is known only from an index that an earlier process saved, and no read has confirmed it yet.
    /// That process may have overwritten the slot afterwards, so a wrong record does not prove that the device is
    /// faulty.
    pub(super) is_unverified: bool,
}

/// Slots are equal if they hold the same record, whether or not a read has confirmed it.
impl PartialEq for Slot {
    fn eq(&self, other: &Slot) -> bool {
        let all = |slot: &Slot| (slot.at, slot.length, slot.head, slot.sum);
        all(self) == all(other)
    }
}

/// A block in the index.
#[derive(Debug)]
pub(super) enum Entry {
    Waiting(Arc<Block>),
    /// The block is on a device. The second field is the head of its record, if it is kept in memory.
    Written(Slot, Option<KeptHead>),
}

impl Entry {
    pub(super) fn waits_as(&self, block: &Arc<Block>) -> bool {
        matches!(self, Entry::Waiting(waiting) if Arc::ptr_eq(waiting, block))
    }

    /// Returns the location of the record, if the block is written.
    pub(super) fn slot(&self) -> Option<Slot> {
        match self {
            Entry::Waiting(_) => None,
            Entry::Written(slot, _) => Some(*slot),
        }
    }

    /// Returns the length of the record, or of a block that is not yet written, in bytes.
    pub(super) fn length(&self) -> u32 {
        match self {
            Entry::Waiting(block) => block.disk_length,
            Entry::Written(slot, _) => slot.length,
        }
    }

    /// Returns the size of the kept head, in bytes; 0 if none is kept.
    pub(super) fn head_bytes(&self) -> u64 {
        match self {
            Entry::Written(_, Some(head)) => head.weight(),
            Entry::Written(_, None) | Entry::Waiting(_) => 0,
        }
    }
}
