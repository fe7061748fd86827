//! A block as it lies in a slot of a device: with all that makes it ready to be read, so that nothing is worked out again.
//!
//! ```text
//! magic "BKB2" · tag of the file 8B · offset in the file 8B · kind 1B · flags 1B · shared 2B · disk length 4B
//! · previous 8B · length 4B · cells 4B · heads 4B · bytes · zeros up to a multiple of 4B · cell offsets 4B each
//! · heads 4B each
//! ```
//!
//! Flags: 1 has a previous, 2 is packed. Integers are little endian. The checksum over all of it (CRC32C) is kept in memory, beside the place: what a device
//! gives back is the block that was written there last, or it is not used. The tag is a hash of the file's name. A block
//! that is read is the record itself: nothing is copied out of it.

use bytes::{Buf, Bytes};

use crate::{Block, BlockKind, Words};

const MAGIC: &[u8; 4] = b"BKB2";
pub(super) const HEADER_LENGTH: usize = 48;
const HAS_PREVIOUS: u8 = 1;
const IS_PACKED: u8 = 2;

/// Which block of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The hash of the file's name.
    pub(crate) tag: u64,
    /// Where in it.
    pub(crate) offset: u64,
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

pub(super) fn length_of(block: &Block) -> usize {
    numbers_at(block.bytes.len()) + 4 * (block.offsets.len() + block.heads.len())
}

/// Where the numbers begin behind so many bytes.
fn numbers_at(length: usize) -> usize {
    HEADER_LENGTH + length.next_multiple_of(4)
}

pub(super) fn write(mark: Mark, block: &Block) -> Vec<u8> {
    let mut record = Vec::with_capacity(length_of(block));
    record.extend_from_slice(MAGIC);
    record.extend_from_slice(&mark.tag.to_le_bytes());
    record.extend_from_slice(&mark.offset.to_le_bytes());
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    let flags = flag(block.previous.is_some(), HAS_PREVIOUS) | flag(block.packed, IS_PACKED);
    record.extend_from_slice(&[block.kind as u8, flags]);
    record.extend_from_slice(&block.shared.to_le_bytes());
    record.extend_from_slice(&block.disk_length.to_le_bytes());
    record.extend_from_slice(&block.previous.unwrap_or(0).to_le_bytes());
    for length in [block.bytes.len(), block.offsets.len(), block.heads.len()] {
        record.extend_from_slice(&(length as u32).to_le_bytes());
    }
    record.extend_from_slice(&block.bytes);
    record.resize(numbers_at(block.bytes.len()), 0);
    for number in block.offsets.iter().chain(block.heads.iter()) {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record
}

/// The block in a record that is what was written, if it is the one that is wanted.
pub(super) fn read(record: &Bytes, sum: u32, mark: Mark) -> Option<Block> {
    if checksum(record) != sum || record.len() < HEADER_LENGTH || &record[..4] != MAGIC {
        return None;
    }
    let mut head = &record[4..HEADER_LENGTH];
    let found = Mark { tag: head.get_u64_le(), offset: head.get_u64_le() };
    let kind = *BlockKind::ALL.get(usize::from(head.get_u8()))?;
    let flags = head.get_u8();
    let (shared, disk_length, previous) = (head.get_u16_le(), head.get_u32_le(), head.get_u64_le());
    let [length, cells, heads] =
        [head.get_u32_le(), head.get_u32_le(), head.get_u32_le()].map(|n| n as usize);
    let numbers = numbers_at(length);
    let heads_at = numbers + 4 * cells;
    if found != mark || record.len() != heads_at + 4 * heads {
        return None;
    }
    Some(Block {
        kind,
        offsets: Words::within(record.slice(numbers..heads_at)),
        heads: Words::within(record.slice(heads_at..)),
        bytes: record.slice(HEADER_LENGTH..HEADER_LENGTH + length),
        shared,
        disk_length,
        previous: (flags & HAS_PREVIOUS != 0).then_some(previous),
        packed: flags & IS_PACKED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let block = Block {
            kind: BlockKind::Data,
            bytes: (0..201).collect::<Vec<u8>>().into(),
            offsets: [0, 70, 140].into(),
            heads: [9, 8].into(),
            shared: 5,
            disk_length: 77,
            previous: Some(0),
            packed: true,
        };
        let mark = Mark { tag: 1 << 60, offset: 1 << 40 };
        let record = write(mark, &block);
        assert_eq!(record.len(), length_of(&block));
        let sum = checksum(&record);
        let read = |record: Vec<u8>, sum, mark| read(&Bytes::from(record), sum, mark);
        let found = read(record.clone(), sum, mark).expect("the same");
        assert_eq!(format!("{found:?}"), format!("{block:?}"));
        assert!(read(record.clone(), sum, Mark { tag: 1, ..mark }).is_none(), "another file's");
        assert!(read(record.clone(), sum, Mark { offset: 1, ..mark }).is_none(), "another block");
        for bit in 0..record.len() * 8 {
            let mut bad = record.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(bad, sum, mark).is_none(), "bit {bit}");
        }
        // Lengths are not believed, whatever the sum says.
        for at in HEADER_LENGTH - 12..HEADER_LENGTH {
            let mut bad = record.clone();
            bad[at] ^= 0x41;
            let sum = checksum(&bad);
            assert!(read(bad, sum, mark).is_none(), "byte {at}");
        }
        for length in 0..record.len() {
            let cut = record[..length].to_vec();
            let sum = checksum(&cut);
            assert!(read(cut, sum, mark).is_none(), "{length} bytes");
        }
    }
}
