//! The record of a block in a slot of a device. It contains everything that a reader needs, so that nothing is
//! recomputed.
//!
//! ```text
//! head    magic "BKB5" · tag of the file 8B · offset in the file 8B · kind 1B · flags 1B · shared 2B · disk length 4B
//!         · previous 8B · length 4B · cells 4B · heads 4B · sum of all bytes 4B · cell offsets 4B each · heads 4B each
//!         · row starts 4B for 32 cells · sum of each 512 bytes 4B
//! bytes
//! ```
//!
//! The `heads` of 4 bytes each are [`Block::heads`], bytes of the cells' rows; they have nothing to do with the head of
//! the record. Flags: 1 has a previous block, 2 is compressed. Integers are little endian, checksums are CRC32C. The
//! checksum of the record's head is kept in memory with the record's location, and the head contains the checksums of
//! the bytes. So a read returns exactly the block that was last written there, or is a miss. The tag is a hash of the
//! file's name.
//!
//! A block that is read as a whole refers to the record's memory; nothing is copied out of it. A reader that needs a
//! few cells gets a [`Part`]: the head, which locates the cells, and the 512 or 1,024 bytes that contain them. For a
//! block of 16 KB this loads and verifies an eighth of the record. A verified head may be [kept](KeptHead) in memory,
//! so that the next reader loads only the bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::buffer::Buffer;
use crate::{Block, BlockKind, Words, row_start_words};

/// The magic of a record's head. It changes with the record format; the saved index contains it too.
pub(crate) const MAGIC: &[u8; 4] = b"BKB5";
pub(super) const HEADER_LENGTH: usize = 52;
const HAS_PREVIOUS: u8 = 1;
const IS_PACKED: u8 = 2;
/// Number of bytes covered by one checksum.
const CHUNK: usize = 512;
/// Size of a cache line of the processor, in bytes.
const LINE: usize = 64;

/// Identifies a block and its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The hash of the file's name.
    pub(crate) tag: u64,
    /// The block's offset in the file.
    pub(crate) offset: u64,
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Returns the length in bytes of a block's record, and of the record's head.
pub(super) fn lengths_of(block: &Block) -> (usize, usize) {
    let head = head_length(block.bytes.len(), block.offsets.len(), block.heads.len());
    (head + block.bytes.len(), head)
}

/// Returns the offset in the record at which the block's bytes begin.
fn head_length(length: usize, cells: usize, heads: usize) -> usize {
    HEADER_LENGTH + 4 * (cells + heads + row_start_words(cells) + length.div_ceil(CHUNK))
}

/// Encodes the record; returns it with the checksum of its head.
pub(super) fn write(mark: Mark, block: &Block) -> (Vec<u8>, u32) {
    let (length, head_length) = lengths_of(block);
    let mut record = Vec::with_capacity(length);
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
    record.extend_from_slice(&checksum(&block.bytes).to_le_bytes());
    for number in block.offsets.iter().chain(block.heads.iter()).chain(block.row_starts.iter()) {
        record.extend_from_slice(&number.to_le_bytes());
    }
    for chunk in block.bytes.chunks(CHUNK) {
        record.extend_from_slice(&checksum(chunk).to_le_bytes());
    }
    debug_assert_eq!(record.len(), head_length, "the head has the announced length");
    let sum = checksum(&record);
    record.extend_from_slice(&block.bytes);
    (record, sum)
}

/// A parsed head of a record, with the offsets of its arrays.
#[derive(Debug)]
struct Head {
    kind: BlockKind,
    flags: u8,
    shared: u16,
    disk_length: u32,
    previous: u64,
    /// Length of the block's bytes.
    length: usize,
    sum: u32,
    offsets: Range<usize>,
    heads: Range<usize>,
    row_starts: Range<usize>,
    sums: Range<usize>,
}

impl Head {
    /// Parses a head if its checksum matches and it belongs to the requested block.
    fn parse(head: &[u8], sum: u32, mark: Mark) -> Option<Head> {
        if head.len() < HEADER_LENGTH || checksum(head) != sum || &head[..4] != MAGIC {
            return None;
        }
        Head::of_sound(head, mark)
    }

    /// Parses a head that has been verified. Returns `None` if it belongs to another block.
    fn of_sound(head: &[u8], mark: Mark) -> Option<Head> {
        let mut fields = &head[4..HEADER_LENGTH];
        let found = Mark { tag: fields.get_u64_le(), offset: fields.get_u64_le() };
        let kind = *BlockKind::ALL.get(usize::from(fields.get_u8()))?;
        let flags = fields.get_u8();
        let (shared, disk_length, previous) = (fields.get_u16_le(), fields.get_u32_le(), fields.get_u64_le());
        let [length, cells, heads] =
            [fields.get_u32_le(), fields.get_u32_le(), fields.get_u32_le()].map(|n| n as usize);
        let offsets = HEADER_LENGTH..HEADER_LENGTH + 4 * cells;
        let heads_at = offsets.end..offsets.end + 4 * heads;
        let row_starts = heads_at.end..heads_at.end + 4 * row_start_words(cells);
        let is_whole = found == mark && head.len() == head_length(length, cells, heads);
        is_whole.then(|| Head {
            kind,
            flags,
            shared,
            disk_length,
            previous,
            length,
            sum: fields.get_u32_le(),
            offsets,
            sums: row_starts.end..head.len(),
            heads: heads_at,
            row_starts,
        })
    }
}

/// Returns the block in a record, if the checksums match and it is the requested block.
pub(super) fn read(record: &Bytes, head_length: usize, sum: u32, mark: Mark) -> Option<Block> {
    let (head_bytes, bytes) = record.split_at_checked(head_length)?;
    let head = Head::parse(head_bytes, sum, mark)?;
    if bytes.len() != head.length || checksum(bytes) != head.sum {
        return None;
    }
    Some(Block {
        kind: head.kind,
        offsets: Words::within(record.slice(head.offsets)),
        heads: Words::within(record.slice(head.heads)),
        row_starts: Words::within(record.slice(head.row_starts)),
        bytes: record.slice(head_length..),
        shared: head.shared,
        disk_length: head.disk_length,
        previous: (head.flags & HAS_PREVIOUS != 0).then_some(head.previous),
        packed: head.flags & IS_PACKED != 0,
    })
}

/// The verified head of a record that is kept in memory.
#[derive(Clone, Debug)]
pub(super) struct KeptHead(Arc<[u8]>);

impl KeptHead {
    /// Returns the memory used, in bytes.
    pub(super) fn weight(&self) -> u64 {
        self.0.len() as u64
    }

    /// Prefetches all cache lines of the head. Otherwise a search would wait for them one after the other.
    fn fetch(&self) {
        std::hint::black_box(self.0.iter().step_by(LINE).fold(0, |sum, byte| sum ^ byte));
    }
}

/// Where a part has the record's head.
#[derive(Debug)]
enum HeadPlace {
    /// The head is at the start of the part's buffer.
    Buffer,
    Memory(KeptHead),
}

/// Some cells of a block, copied from a device for one reader.
///
/// A part has the offsets of all cells of the block and [bytes of their rows](Part::heads), but only the bytes of [some
/// cells](Part::here).
#[derive(Debug)]
pub struct Part {
    buffer: Buffer,
    head: Head,
    place: HeadPlace,
    here: Range<usize>,
    /// Offset in the block of the bytes that are present.
    from: usize,
    /// Range of the buffer that contains the bytes that are present.
    bytes: Range<usize>,
}

impl Part {
    /// Creates a part without bytes from a buffer that begins with the record's head, if its checksum matches and it
    /// belongs to the requested block.
    pub(super) fn of_head(buffer: Buffer, head_length: usize, sum: u32, mark: Mark) -> Option<Part> {
        let head = Head::parse(buffer.as_ref().get(..head_length)?, sum, mark)?;
        Part::new(buffer, head, HeadPlace::Buffer)
    }

    /// Creates a part with a head kept in memory; `None` if the head belongs to another block. `buffer` is as long as
    /// the record.
    pub(super) fn of_kept(buffer: Buffer, kept: KeptHead, mark: Mark) -> Option<Part> {
        kept.fetch();
        let head = Head::of_sound(&kept.0, mark)?;
        Part::new(buffer, head, HeadPlace::Memory(kept))
    }

    fn new(buffer: Buffer, head: Head, place: HeadPlace) -> Option<Part> {
        let is_whole = buffer.as_ref().len() == head.sums.end + head.length;
        is_whole.then(|| Part { buffer, head, place, here: 0..0, from: 0, bytes: 0..0 })
    }

    /// Returns the head for keeping it in memory; `None` if it is kept already.
    pub(super) fn head_to_keep(&self) -> Option<KeptHead> {
        matches!(self.place, HeadPlace::Buffer).then(|| KeptHead(self.head_bytes().into()))
    }

    #[inline]
    fn head_bytes(&self) -> &[u8] {
        match &self.place {
            HeadPlace::Buffer => &self.buffer.as_ref()[..self.head.sums.end],
            HeadPlace::Memory(kept) => &kept.0,
        }
    }

    /// Whether the head has offsets of cells, so that cells can be found.
    pub(super) fn has_cells(&self) -> bool {
        self.head.kind == BlockKind::Data && self.head.flags & IS_PACKED == 0 && !self.head.offsets.is_empty()
    }

    /// Reserves room in the buffer for the bytes of these cells. Returns the offset of the bytes in the record, and the
    /// room.
    pub(super) fn room_for(&mut self, cells: Range<usize>) -> (usize, &mut [u8]) {
        let offsets = self.offsets();
        let start = cells.start.min(offsets.len());
        let end = cells.end.clamp(start, offsets.len());
        let place = |index: usize| {
            let offset = offsets.get(index).map(|offset| u32::from_le_bytes(*offset) as usize);
            offset.map_or(self.head.length, |offset| offset.min(self.head.length))
        };
        let from = place(start) / CHUNK * CHUNK;
        let until = place(end).next_multiple_of(CHUNK).clamp(from, self.head.length);
        let head_length = self.head.sums.end;
        // A head at the start of the buffer stays there.
        let room = if matches!(self.place, HeadPlace::Buffer) { head_length } else { 0 };
        (self.here, self.from, self.bytes) = (start..end, from, room..room + (until - from));
        (head_length + from, &mut self.buffer.bytes_mut()[self.bytes.clone()])
    }

    /// Whether the bytes read into the [room](Part::room_for) match their checksums.
    pub(super) fn is_sound(&self) -> bool {
        let bytes = self.bytes();
        if bytes.len() == self.head.length {
            return checksum(bytes) == self.head.sum;
        }
        let sums = &self.head_bytes()[self.head.sums.clone()].as_chunks::<4>().0[self.from / CHUNK..];
        bytes.chunks(CHUNK).zip(sums).all(|(chunk, sum)| checksum(chunk) == u32::from_le_bytes(*sum))
    }

    /// Returns the offset of each cell in the block, in bytes, little endian.
    #[inline]
    pub fn offsets(&self) -> &[[u8; 4]] {
        self.head_bytes()[self.head.offsets.clone()].as_chunks().0
    }

    /// Returns four bytes of each cell's row for searching, little endian: [`Block::heads`]. Empty if the block has
    /// none.
    #[inline]
    pub fn heads(&self) -> &[[u8; 4]] {
        self.head_bytes()[self.head.heads.clone()].as_chunks().0
    }

    /// Returns the number of leading bytes that all rows share: [`Block::shared`].
    pub fn shared(&self) -> u16 {
        self.head.shared
    }

    /// Returns the indices of the block's cells whose bytes are present.
    #[inline]
    pub fn here(&self) -> Range<usize> {
        self.here.clone()
    }

    /// Returns the bytes that are present: the cells, and the bytes around them up to the next multiples of 512.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[self.bytes.clone()]
    }

    /// Returns the offset in the block of the bytes that are present.
    #[inline]
    pub fn from(&self) -> usize {
        self.from
    }

    /// Returns the length of the block, in bytes.
    pub fn block_length(&self) -> usize {
        self.head.length
    }

    /// Returns the length of the block on disk: [`Block::disk_length`].
    pub fn disk_length(&self) -> u32 {
        self.head.disk_length
    }

    /// Returns the weight that the cache would count for the block.
    pub(crate) fn block_weight(&self) -> usize {
        crate::weight_of(self.head.length, self.offsets().len(), self.heads().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { tag: 1 << 60, offset: 1 << 40 };

    /// Returns a block of this length with cells of 70 bytes, each in a row of its own.
    fn block(length: u32, packed: bool) -> Block {
        Block {
            kind: BlockKind::Data,
            bytes: (0..length).map(|at| (at * 7 + at / 256) as u8).collect::<Vec<u8>>().into(),
            offsets: (0..length).step_by(70).collect(),
            heads: [9, 8].into(),
            shared: 5,
            row_starts: starts_of((0..length).step_by(70).len()),
            disk_length: 77,
            previous: Some(0),
            packed,
        }
    }

    /// Returns as many numbers as the row starts of this many cells need.
    fn starts_of(cells: usize) -> Words {
        (0..row_start_words(cells) as u32).map(|word| word * 0x101 + 1).collect()
    }

    fn read_all(record: Vec<u8>, head: usize, sum: u32, mark: Mark) -> Option<Block> {
        read(&Bytes::from(record), head, sum, mark)
    }

    /// Returns the part of a record that contains these cells.
    fn part(record: &[u8], head: usize, sum: u32, mark: Mark, cells: Range<usize>) -> Option<Part> {
        let mut buffer = Buffer::of(record.len());
        buffer.bytes_mut().fill(0xee);
        buffer.bytes_mut()[..head].copy_from_slice(&record[..head]);
        let mut part = Part::of_head(buffer, head, sum, mark)?;
        let (at, room) = part.room_for(cells);
        room.copy_from_slice(&record[at..at + room.len()]);
        part.is_sound().then_some(part)
    }

    #[test]
    fn a_record_round_trips_and_other_bytes_are_refused() {
        let block = block(201, true);
        let (record, sum) = write(MARK, &block);
        let (length, head) = lengths_of(&block);
        assert_eq!(record.len(), length);
        let found = read_all(record.clone(), head, sum, MARK).expect("the same");
        assert_eq!(format!("{found:?}"), format!("{block:?}"));
        assert!(read_all(record.clone(), head, sum, Mark { tag: 1, ..MARK }).is_none(), "another file's");
        assert!(read_all(record.clone(), head, sum, Mark { offset: 1, ..MARK }).is_none(), "another block");
        for bit in 0..record.len() * 8 {
            let mut bad = record.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read_all(bad, head, sum, MARK).is_none(), "bit {bit}");
        }
        // Changes each byte of the lengths. A record with invalid lengths is refused even if its checksum is right.
        for at in HEADER_LENGTH - 16..HEADER_LENGTH - 4 {
            let mut bad = record.clone();
            bad[at] ^= 0x41;
            let sum = checksum(&bad[..head]);
            assert!(read_all(bad.clone(), head, sum, MARK).is_none(), "byte {at}");
            assert!(part(&bad, head, sum, MARK, 0..1).is_none(), "byte {at}");
        }
        for length in 0..record.len() {
            let cut = record[..length].to_vec();
            let head = head.min(length);
            let sum = checksum(&cut[..head]);
            assert!(read_all(cut, head, sum, MARK).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn a_part_has_the_requested_cells_of_the_block() {
        let whole = block(5_000, false);
        let (record, sum) = write(MARK, &whole);
        let (_, head) = lengths_of(&whole);
        let cells = whole.offsets.len();
        for from in 0..=cells {
            for until in from..=cells + 1 {
                let part = part(&record, head, sum, MARK, from..until).expect("sound");
                assert!(part.has_cells() && part.here() == (from..until.min(cells)));
                assert_eq!((part.shared(), part.block_length()), (5, 5_000));
                let numbers =
                    |words: &[[u8; 4]]| words.iter().map(|w| u32::from_le_bytes(*w)).collect::<Vec<_>>();
                assert_eq!(numbers(part.offsets()), whole.offsets.to_vec());
                assert_eq!(numbers(part.heads()), whole.heads.to_vec());
                let bytes = part.bytes();
                assert_eq!(bytes, &whole.bytes[part.from()..part.from() + bytes.len()]);
                let place = |cell: usize| whole.offsets.get(cell).map_or(5_000, |at| *at as usize);
                let wanted = place(from)..place(until);
                assert!(part.from() <= wanted.start && wanted.end <= part.from() + bytes.len());
                assert!(bytes.len() <= wanted.len() + 2 * CHUNK, "no more than the chunks of it");
            }
        }
    }

    #[test]
    fn each_byte_of_a_part_is_checked_also_at_the_bounds_of_checksums() {
        let lengths = [1, 69, 511, 512, 513, 1_023, 1_024, 1_025, 1_536];
        for (length, cell) in
            lengths.into_iter().flat_map(|length| [1, 70, 511, 512, 513].map(|cell| (length, cell)))
        {
            let starts: Words = (0..length).step_by(cell).collect();
            let row_starts = starts_of(starts.len());
            let whole = Block { offsets: starts, heads: [].into(), row_starts, ..block(length, false) };
            let (record, sum) = write(MARK, &whole);
            let (all, head) = lengths_of(&whole);
            assert_eq!((record.len(), all - head), (all, length as usize));
            let found = read_all(record.clone(), head, sum, MARK).expect("the same");
            assert_eq!(format!("{found:?}"), format!("{whole:?}"));
            let cells = whole.offsets.len();
            for from in [0, 1, cells / 2, cells.saturating_sub(1), cells] {
                for until in [from, from + 1, from + 2, cells + 1] {
                    let what = format!("{from}..{until} of {length} by {cell}");
                    let sound = part(&record, head, sum, MARK, from..until).expect(&what);
                    let bytes = sound.from()..sound.from() + sound.bytes().len();
                    assert_eq!(sound.bytes(), &whole.bytes[bytes.clone()], "{what}");
                    let place = |cell: usize| whole.offsets.get(cell).map_or(length, |at| *at) as usize;
                    let wanted = place(from.min(cells))..place(until.min(cells).max(from.min(cells)));
                    assert!(bytes.start <= wanted.start && wanted.end <= bytes.end, "{what}");
                    for at in [bytes.start, bytes.start + bytes.len() / 2, bytes.end.saturating_sub(1)] {
                        let mut bad = record.clone();
                        bad[head + at.min(length as usize - 1)] ^= 0x10;
                        let is_met = bytes.contains(&at);
                        assert_eq!(
                            part(&bad, head, sum, MARK, from..until).is_none(),
                            is_met,
                            "{what}, byte {at}"
                        );
                    }
                }
            }
        }
        let none = Block { offsets: [].into(), heads: [].into(), row_starts: [].into(), ..block(0, false) };
        let (record, sum) = write(MARK, &none);
        let found = read_all(record.clone(), record.len(), sum, MARK).expect("the same");
        assert_eq!(format!("{found:?}"), format!("{none:?}"));
        assert!(!part(&record, record.len(), sum, MARK, 0..1).expect("sound").has_cells());
    }

    #[test]
    fn a_bit_that_flips_in_what_is_copied_is_found_and_another_does_no_harm() {
        let whole = block(5_000, false);
        let (record, sum) = write(MARK, &whole);
        let (_, head) = lengths_of(&whole);
        for cells in [0..1, 30..33, 71..72] {
            let sound = part(&record, head, sum, MARK, cells.clone()).expect("sound");
            let copied = head + sound.from()..head + sound.from() + sound.bytes().len();
            assert!(copied.len() < 3_000);
            for bit in (0..record.len() * 8).step_by(5) {
                let mut bad = record.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let found = part(&bad, head, sum, MARK, cells.clone());
                let is_met = bit / 8 < head || copied.contains(&(bit / 8));
                assert_eq!(found.is_none(), is_met, "bit {bit}");
                if let Some(found) = found {
                    assert_eq!(found.bytes(), sound.bytes());
                }
            }
        }
        let (packed, sum) = write(MARK, &block(5_000, true));
        assert!(!part(&packed, head, sum, MARK, 0..1).expect("sound").has_cells());
        assert!(part(&packed, head, sum, Mark { tag: 1, ..MARK }, 0..1).is_none(), "another file's");
    }
}
