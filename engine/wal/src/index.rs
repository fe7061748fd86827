//! The index of a log file: which batches have records of which region.
//!
//! An index record covers a *section* of the file: the batches from the previous index record, or from the file's
//! header, up to and including its own batch. One is written every [`index_every`](crate::Options::index_every) bytes,
//! and one with the record that ends the file. Each has the offset of the previous one, so a reader goes from the end
//! to the front and reads nothing else.
//!
//! ```text
//! index record   sequence: offset of the batch with the previous index record, 0 for none; cells:
//! cells          whole 8B · from 8B · regions 4B · region, region, … · nonce 8B, or nothing
//! region         name length 2B · name · oldest 8B · newest 8B · spans (varint) · span, span, …
//! span           gap since the end of the previous span, or since `from` (varint) · length (varint)
//! ```
//!
//! `whole` is the number of the newest file that is known to be durable to its end, 0 for none. `from` is the offset at
//! which the section begins. `oldest` and `newest` are the sequence ids of the region's edits in the section, 0 when it
//! has only markers. A span is a run of whole batches, so that a reader can check their checksums. Spans of a region
//! that are close together are joined, and then include batches of other regions. `nonce` is the time of the newest
//! record with a nonce, in this section or an earlier one; it is absent if there is none.

use cell::SequenceId;
use env::{HashMap, WallTime};

use crate::format::{Kind, Record};

/// Maximum number of bytes between two spans of a region that are joined. Reading them costs less than another system
/// call.
const GAP_MAX: u64 = 4 << 10;

/// The sequence ids of a region's edits, from the oldest to the newest. Both are 0 when there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// The smallest sequence id.
    pub oldest: SequenceId,
    /// The largest sequence id.
    pub newest: SequenceId,
}

impl Sequences {
    /// Returns the sequence ids of one record. A marker has none, so the result is empty for it.
    pub(crate) fn of(record: &Record<'_>) -> Sequences {
        match record.kind {
            Kind::Edit => Sequences { oldest: record.sequence, newest: record.sequence },
            _ => Sequences::default(),
        }
    }

    pub(crate) fn include(&mut self, other: Sequences) {
        if other == Sequences::default() {
            return;
        }
        self.newest = self.newest.max(other.newest);
        if self.oldest == SequenceId::ZERO || other.oldest < self.oldest {
            self.oldest = other.oldest;
        }
    }
}

/// A run of bytes of a file, made of whole batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSpan {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl FileSpan {
    pub(crate) fn end(self) -> u64 {
        self.offset + self.length
    }
}

/// The records of one region in a file, or in a section of it: their sequence ids and spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegionExtent {
    pub(crate) sequences: Sequences,
    pub(crate) spans: Vec<FileSpan>,
}

impl RegionExtent {
    /// Adds the batch `span`, which comes after the known spans and has records of the region.
    pub(crate) fn add(&mut self, sequences: Sequences, span: FileSpan) {
        self.sequences.include(sequences);
        match self.spans.last_mut() {
            Some(last) if span.offset - last.end() <= GAP_MAX => last.length = span.end() - last.offset,
            _ => self.spans.push(span),
        }
    }

    fn append(&mut self, later: RegionExtent) {
        self.sequences.include(later.sequences);
        later.spans.into_iter().for_each(|span| self.add(Sequences::default(), span));
    }
}

/// The content of an index record: the extents of all regions in one section.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionIndex {
    /// The number of the newest file that is known to be durable to its end.
    pub(crate) whole_to: Option<u64>,
    /// The offset at which the section begins.
    pub(crate) from: u64,
    pub(crate) regions: HashMap<Box<[u8]>, RegionExtent>,
    /// When the newest record with a nonce was made, in this section or an earlier one.
    pub(crate) newest_nonce: Option<WallTime>,
}

impl SectionIndex {
    /// Encodes the cells of a section's index record.
    pub(crate) fn encode<'r>(
        whole_to: Option<u64>,
        from: u64,
        regions: impl Iterator<Item = (&'r [u8], &'r RegionExtent)>,
        newest_nonce: Option<WallTime>,
    ) -> Vec<u8> {
        // Sorted by name, so that logs with the same records have the same bytes.
        let mut regions: Vec<_> = regions.filter(|(_, extent)| !extent.spans.is_empty()).collect();
        regions.sort_unstable_by_key(|(name, _)| *name);
        let mut out = Vec::with_capacity(20 + regions.len() * 64);
        out.extend_from_slice(&whole_to.unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&from.to_be_bytes());
        out.extend_from_slice(&(regions.len() as u32).to_be_bytes());
        for (name, extent) in regions {
            out.extend_from_slice(&(name.len() as u16).to_be_bytes());
            out.extend_from_slice(name);
            out.extend_from_slice(&extent.sequences.oldest.0.to_be_bytes());
            out.extend_from_slice(&extent.sequences.newest.0.to_be_bytes());
            put_varint(&mut out, extent.spans.len() as u64);
            let mut end = from;
            for span in &extent.spans {
                put_varint(&mut out, span.offset - end);
                put_varint(&mut out, span.length);
                end = span.end();
            }
        }
        out.extend(newest_nonce.iter().flat_map(|time| time.0.to_be_bytes()));
        out
    }

    /// Decodes the cells of an index record in the batch at `offset`. Returns `None` for any other bytes.
    pub(crate) fn decode(cells: &[u8], offset: u64) -> Option<SectionIndex> {
        let mut rest = Input(cells);
        let whole_to = Some(rest.word()?).filter(|number| *number != 0);
        let from = rest.word()?;
        let count = u32::from_be_bytes(rest.array()?);
        let mut regions = HashMap::default();
        for _ in 0..count {
            let length = u16::from_be_bytes(rest.array()?);
            let name: Box<[u8]> = rest.bytes(usize::from(length))?.into();
            let sequences = Sequences { oldest: SequenceId(rest.word()?), newest: SequenceId(rest.word()?) };
            let mut extent = RegionExtent { sequences, spans: Vec::new() };
            let (spans, mut end) = (rest.varint()?, from);
            for _ in 0..spans {
                let at = end.checked_add(rest.varint()?)?;
                let span = FileSpan { offset: at, length: rest.varint()? };
                end = at.checked_add(span.length).filter(|end| *end <= offset)?;
                extent.spans.push(span);
            }
            regions.insert(name, extent);
        }
        let newest_nonce = match rest.0 {
            [] => None,
            _ => Some(WallTime(i64::from_be_bytes(rest.array()?))),
        };
        let is_whole = rest.0.is_empty() && regions.len() == count as usize;
        is_whole.then_some(SectionIndex { whole_to, from, regions, newest_nonce })
    }

    /// Adds the content of the next section's index.
    pub(crate) fn append(&mut self, later: SectionIndex) {
        self.whole_to = self.whole_to.max(later.whole_to);
        self.newest_nonce = self.newest_nonce.max(later.newest_nonce);
        for (region, extent) in later.regions {
            self.regions.entry(region).or_default().append(extent);
        }
    }
}

/// Creates the record with an index. `previous` is the offset of the batch with the previous index.
pub(crate) fn index_record(previous: Option<u64>, cells: &[u8]) -> Record<'_> {
    Record {
        kind: Kind::Index,
        region: b"",
        table: b"",
        sequence: SequenceId(previous.unwrap_or(0)),
        time: WallTime(0),
        nonce: None,
        cells,
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array::<1>()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(oldest: u64, newest: u64, spans: &[(u64, u64)]) -> RegionExtent {
        let spans = spans.iter().map(|&(offset, length)| FileSpan { offset, length }).collect();
        RegionExtent {
            sequences: Sequences { oldest: SequenceId(oldest), newest: SequenceId(newest) },
            spans,
        }
    }

    #[test]
    fn an_index_is_read_as_written_and_every_truncation_is_detected() {
        let regions =
            [(&b"b"[..], extent(3, 900, &[(32, 100), (9_000, 70_000)])), (b"a", extent(0, 0, &[(132, 1)]))];
        let encode = |nonce| {
            SectionIndex::encode(Some(7), 32, regions.iter().map(|(name, extent)| (*name, extent)), nonce)
        };
        let cells = encode(None);
        let read = SectionIndex::decode(&cells, 100_000).expect("whole");
        assert_eq!((read.whole_to, read.from, read.regions.len()), (Some(7), 32, 2));
        for (name, extent) in &regions {
            assert_eq!(&read.regions[*name], extent);
        }
        assert_eq!(read.newest_nonce, None);
        let with_nonce = encode(Some(WallTime(8)));
        let read = SectionIndex::decode(&with_nonce, 100_000).expect("whole");
        assert_eq!((read.newest_nonce, read.regions.len()), (Some(WallTime(8)), 2));
        for cut in cells.len() + 1..with_nonce.len() {
            assert_eq!(SectionIndex::decode(&with_nonce[..cut], 100_000), None, "cut at {cut}");
        }
        for cut in 0..cells.len() {
            assert_eq!(SectionIndex::decode(&cells[..cut], 100_000), None, "cut at {cut}");
        }
        assert_eq!(SectionIndex::decode(&cells, 79_000 - 1), None, "a span beyond the index itself");
    }

    #[test]
    fn spans_that_lie_close_together_are_one() {
        let mut extent = RegionExtent::default();
        let sequences = |n| Sequences { oldest: SequenceId(n), newest: SequenceId(n) };
        extent.add(sequences(5), FileSpan { offset: 100, length: 50 });
        extent.add(Sequences::default(), FileSpan { offset: 150 + GAP_MAX, length: 10 });
        extent.add(sequences(9), FileSpan { offset: 161 + 2 * GAP_MAX, length: 10 });
        assert_eq!(extent.sequences, Sequences { oldest: SequenceId(5), newest: SequenceId(9) });
        assert_eq!(extent.spans.len(), 2);
        assert_eq!(extent.spans[0], FileSpan { offset: 100, length: 60 + GAP_MAX });
    }
}
