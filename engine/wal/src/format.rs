//! The format of a log file. All integers are big endian; `docs/formats/wal.md` describes every byte.
//!
//! ```text
//! header    magic 8B "BELLOWAL" · version 4B · epoch 8B · number 8B · crc32c 4B of the 28 bytes before
//! batch     length 4B (of the payload) · synced 8B · crc32c 4B · payload
//! payload   record, record, …
//! record    length 4B (of what follows) · kind 1B · sequence 8B · time 8B · nonce group 8B · nonce 8B
//!           · region length 2B · region · table length 2B · table · cells (the rest)
//! cells     length 4B · cell in KeyValue layout, with tags …
//! ```
//!
//! One write to the file is one batch. The checksum of a batch covers the file's number, the batch's offset, `length`,
//! `synced` and the payload. So a batch that is copied to another place has a wrong checksum there, except in 1 of 2³²
//! cases. `synced` is the offset up to which the file was known to be durable when the batch was written. It
//! distinguishes two cases: a torn tail, if no later batch says that the bytes were durable; and a damaged middle, if
//! one does.
//!
//! **The end of a file.** The last batch has an [`Index`](Kind::Index) record and an [`End`](Kind::End) record. When
//! the log is closed, everything before that batch is synced first, and its `synced` is its own offset. When the log is
//! rolled, the file is synced only after the next file was begun. Then the next file gets a [`Whole`](Kind::Whole)
//! record with the number of the file that is now durable to its end. Nothing in the next file is acknowledged as
//! durable before that record is durable too. A file may be without an end although the next file of the same epoch has
//! batches. Such a file
//!
//! * is damaged, if a `Whole` record in any later file of the epoch names it or a file after it;
//! * otherwise it lost its tail when the power failed during the roll. Then the records of the next file do not count
//!   either, so that the records have no gap.
//!
//! In version 1 a file was begun only after the previous file was complete and durable, so such a file is always
//! damaged.
//!
//! Damage of the last batch of an unfinished file cannot be distinguished from a torn tail.
//!
//! **The index** says in which batches each region has records; see [`index`](crate::index). It is trusted when the
//! file is known to be durable to its end: by a `Whole` record in a later file, or by the `synced` of its own last
//! batch. Files of versions before 4 have no index.
//!
//! **In the space of an older file** (versions 3 and 5). A file may begin in the space of one that nobody needs any
//! more. Its pages and blocks exist already, and allocating them is most of the cost of a write. Before the older file
//! is renamed it gets a header with the number 0, which says that nothing in it is needed. After the renaming it gets
//! the new file's header. Bytes of the older file after the last batch were written for another number, so no checksum
//! matches there. Zeros follow the last batch that was written, and the rest is cut off when the file is finished. In
//! such a file a sector that was not written has old bytes, where another file would have zeros. So two things are
//! unknown: how much was torn after the last whole batch, and whether a bad sector was damaged or never written.
//! Therefore a whole batch after a bad one proves damage only if its `synced` says that the bad one was durable.

use cell::SequenceId;
use env::WallTime;

use crate::sums::{combined, crc32c};

/// The first bytes of every log file.
pub(crate) const MAGIC: &[u8; 8] = b"BELLOWAL";
/// The format version of a new file in new space.
pub(crate) const VERSION: u32 = 4;
/// The format version of a new file in the space of an older one. Files with a greater version are refused.
pub(crate) const VERSION_OVER: u32 = 5;
/// The format version of files in the space of an older one that were written before files had an index.
const VERSION_OVER_BEFORE_INDEX: u32 = 3;
/// The file number in the header of a file that is no longer needed.
pub(crate) const NO_NUMBER: u64 = 0;
/// Length of a file's header in bytes, after which the first batch follows.
pub(crate) const HEADER_LENGTH: usize = 32;
/// Length of a batch's header in bytes, after which its payload follows.
pub(crate) const BATCH_HEADER_LENGTH: usize = 16;
/// Size in bytes of a record without its names and cells, including its length field.
const RECORD_FIXED: usize = 4 + 1 + 8 + 8 + 8 + 8 + 2 + 2;

/// Number of bytes of a record up to and including its kind.
pub(crate) const RECORD_BEGIN: usize = 4 + 1;
/// Size in bytes of a record without names and cells, such as the one that ends a file.
pub(crate) const BARE_RECORD_LENGTH: usize = RECORD_FIXED;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Cells that were written, atomically.
    Edit = 1,
    /// The region was opened. The record's sequence id is the region's first new one.
    RegionOpen = 2,
    /// The file whose number is in the sequence field is durable to its end.
    Whole = 3,
    /// The index of a section of the file, which ends with this record's batch.
    Index = 4,
    /// The region was closed cleanly. The record's sequence id is the region's last one.
    RegionClose = 5,
    /// A flush began, which covers all writes up to and including the sequence id.
    FlushStart = 6,
    /// A flush was committed: all writes of the marker's stores up to and including the sequence id are in files.
    FlushCommit = 7,
    /// A flush failed; its cells stay in memory.
    FlushAbort = 8,
    /// A compaction has replaced files.
    Compaction = 9,
    /// Files were bulk-loaded; the record's sequence id is that of their cells.
    BulkLoad = 10,
    /// The end of a complete file; its last record.
    End = 255,
}

impl Kind {
    /// Every kind of record.
    pub const ALL: [Kind; 11] = [
        Kind::Edit,
        Kind::RegionOpen,
        Kind::Whole,
        Kind::Index,
        Kind::RegionClose,
        Kind::FlushStart,
        Kind::FlushCommit,
        Kind::FlushAbort,
        Kind::Compaction,
        Kind::BulkLoad,
        Kind::End,
    ];

    fn of_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Whether the record is an event of a region other than a write: see [`Marker`](crate::Marker).
    pub fn is_marker(self) -> bool {
        !matches!(self, Kind::Edit | Kind::Whole | Kind::Index | Kind::End)
    }
}

/// A record: one event of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The kind of event that the record describes.
    pub kind: Kind,
    /// The region's encoded name.
    pub region: &'a [u8],
    /// The table's name, for readers of the log without the catalog.
    pub table: &'a [u8],
    /// The sequence id of the write in its region.
    pub sequence: SequenceId,
    /// When the write was made.
    pub time: WallTime,
    /// The nonce group and the nonce of the client, if it gave any. A nonce of 0 is read back as none.
    pub nonce: Option<(u64, u64)>,
    /// Cells as in a cell block with tags: repeated `length 4B · cell`.
    pub cells: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns the size of the record in the log, in bytes.
    pub fn size(&self) -> usize {
        RECORD_FIXED + self.region.len() + self.table.len() + self.cells.len()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let short = |bytes: &[u8]| u16::try_from(bytes.len()).expect("names are short").to_be_bytes();
        let (group, nonce) = self.nonce.unwrap_or((0, 0));
        out.extend_from_slice(&((self.size() - 4) as u32).to_be_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.sequence.0.to_be_bytes());
        out.extend_from_slice(&self.time.0.to_be_bytes());
        out.extend_from_slice(&group.to_be_bytes());
        out.extend_from_slice(&nonce.to_be_bytes());
        out.extend_from_slice(&short(self.region));
        out.extend_from_slice(self.region);
        out.extend_from_slice(&short(self.table));
        out.extend_from_slice(self.table);
        out.extend_from_slice(self.cells);
    }

    /// Whether `bytes`, the first bytes of a payload of `length` bytes, can be the beginning of a record. This is a
    /// cheap check, made before the whole payload is read. It may return `true` for other bytes.
    pub(crate) fn may_begin_with(bytes: &[u8; RECORD_BEGIN], length: u32) -> bool {
        let (of_record, kind) = (u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), bytes[4]);
        of_record as usize >= RECORD_FIXED - 4
            && of_record <= length.saturating_sub(4)
            && Kind::of_code(kind).is_some()
    }

    /// Decodes the first record in `bytes`. Returns it with the bytes after it; `None` if `bytes` do not begin with a
    /// whole record.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Record<'a>, &'a [u8])> {
        let (length, rest) = take::<4>(bytes)?;
        let (body, rest) = rest.split_at_checked(u32::from_be_bytes(length) as usize)?;
        let (&kind, mut body) = body.split_first()?;
        let kind = Kind::of_code(kind)?;
        let mut next = || -> Option<u64> {
            let (word, rest) = take::<8>(body)?;
            body = rest;
            Some(u64::from_be_bytes(word))
        };
        let sequence = SequenceId(next()?);
        let time = WallTime(next()? as i64);
        let (group, nonce) = (next()?, next()?);
        let (region, body) = name(body)?;
        let (table, cells) = name(body)?;
        let nonce = (nonce != 0).then_some((group, nonce));
        Some((Record { kind, region, table, sequence, time, nonce, cells }, rest))
    }
}

fn take<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    bytes.split_first_chunk::<N>().map(|(first, rest)| (*first, rest))
}

fn name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = take::<2>(bytes)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(length)))
}

/// The header of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.number.to_be_bytes());
        let sum = crc32c(&[&bytes[..28]]);
        bytes[28..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Whether the file is in the space of an older one.
    pub(crate) fn is_over(self) -> bool {
        matches!(self.version, VERSION_OVER | VERSION_OVER_BEFORE_INDEX)
    }

    /// Whether the file is a spare, so that nothing in it is needed.
    pub(crate) fn is_void(self) -> bool {
        self.is_over() && self.number == NO_NUMBER
    }

    /// Whether a complete file of this version has an index.
    pub(crate) fn has_index(self) -> bool {
        self.version >= VERSION
    }

    /// Decodes a header; `None` if it is incomplete, or if its magic or checksum is wrong.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Header> {
        let (magic, rest) = take::<8>(bytes)?;
        let (version, rest) = take::<4>(rest)?;
        let (epoch, rest) = take::<8>(rest)?;
        let (number, rest) = take::<8>(rest)?;
        let (sum, _) = take::<4>(rest)?;
        let whole = &magic == MAGIC && u32::from_be_bytes(sum) == crc32c(&[&bytes[..28]]);
        whole.then_some(Header {
            version: u32::from_be_bytes(version),
            epoch: u64::from_be_bytes(epoch),
            number: u64::from_be_bytes(number),
        })
    }
}

/// The header of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchHeader {
    pub(crate) length: u32,
    pub(crate) synced: u64,
    pub(crate) sum: u32,
}

impl BatchHeader {
    /// Creates the header of `payload`, written at `offset` of file `number`.
    pub(crate) fn of(number: u64, offset: u64, synced: u64, payload: &[u8]) -> BatchHeader {
        let length = u32::try_from(payload.len()).expect("the buffer's limit is below 4 GB");
        BatchHeader { length, synced, sum: batch_sum(number, offset, length, synced, payload) }
    }

    pub(crate) fn to_bytes(self) -> [u8; BATCH_HEADER_LENGTH] {
        let mut bytes = [0; BATCH_HEADER_LENGTH];
        bytes[..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.synced.to_be_bytes());
        bytes[12..].copy_from_slice(&self.sum.to_be_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: [u8; BATCH_HEADER_LENGTH]) -> BatchHeader {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let synced = (u64::from(word(4)) << 32) | u64::from(word(8));
        BatchHeader { length: word(0), synced, sum: word(12) }
    }

    /// Whether this header was written for `payload` at `offset` of file `number`.
    pub(crate) fn fits(self, number: u64, offset: u64, payload: &[u8]) -> bool {
        payload.len() == self.length as usize
            && (env::planted(27) || self.sum == batch_sum(number, offset, self.length, self.synced, payload))
    }

    /// Whether this header was written at `offset` of file `number` for a payload whose checksum is `payload`.
    pub(crate) fn fits_sum(self, number: u64, offset: u64, payload: u32) -> bool {
        let before = batch_sum(number, offset, self.length, self.synced, &[]);
        env::planted(27) || self.sum == combined(before, payload, self.length)
    }
}

fn batch_sum(number: u64, offset: u64, length: u32, synced: u64, payload: &[u8]) -> u32 {
    crc32c(&[
        &number.to_be_bytes(),
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
        &synced.to_be_bytes(),
        payload,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_written_and_every_truncation_is_detected() {
        let record = Record {
            kind: Kind::Edit,
            region: b"0123",
            table: b"ns:t",
            sequence: SequenceId(77),
            time: WallTime(-5),
            nonce: Some((1, 2)),
            cells: b"cells",
        };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        assert_eq!(bytes.len(), record.size());
        bytes.extend_from_slice(b"rest");
        assert_eq!(Record::read(&bytes), Some((record, &b"rest"[..])));
        for cut in 0..record.size() {
            assert!(Record::read(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        bytes[4] = 99;
        assert!(Record::read(&bytes).is_none(), "an unknown kind");
    }

    #[test]
    fn a_batch_fits_only_where_it_was_written() {
        let header = BatchHeader::of(3, 32, 32, b"payload");
        let header = BatchHeader::parse(header.to_bytes());
        assert!(header.fits(3, 32, b"payload"));
        assert!(
            !header.fits(4, 32, b"payload")
                && !header.fits(3, 33, b"payload")
                && !header.fits(3, 32, b"paYload")
        );
    }
}
