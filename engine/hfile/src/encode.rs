//! The encodings that omit the bytes that a cell shares with the previous cell: PREFIX, DIFF and FAST_DIFF.
//!
//! Files contain encoded blocks, the cache does not: a block is decoded once, when it is read, so that cells can be
//! searched in place. The functions here convert an encoded block to a plain one, and back.
//!
//! ```text
//! block      id 2B · size of the plain block 4B · cell, cell, …
//! PREFIX     cint key length - common · cint value length · cint common · rest of key · value
//! DIFF       (first cell: family length 1B · family) · flags · [cint key length] · [cint value length] · cint common
//!            · rest of row and qualifier · timestamp, or its distance from the last, 1 to 8 bytes from the lowest up
//!            · [type] · value
//! FAST_DIFF  first cell: 0 · cint key length · cint value length · 0 · key · value
//!            others: flags · [cint key length] · [cint value length] · cint common · rest of row and qualifier
//!            · rest of timestamp · [type] · [value]
//! each then  [cint length of tags · tags] · [vlong sequence id]
//! ```
//!
//! Parts in brackets are omitted when the flags say that they are the same as in the previous cell. `common` counts
//! bytes of the key. With DIFF and FAST_DIFF it does not include the timestamp, and the family, of which a file has
//! only one, is not repeated. A cint has seven bits a byte, the lowest first. Source: HBase 2.6
//! `PrefixKeyDeltaEncoder`, `DiffKeyDeltaEncoder`, `FastDiffDeltaEncoder`, `BufferedDataBlockEncoder`,
//! `TagCompressionContext`.

use std::ops::Range;

use cell::Key;

use crate::format::{Encoding, read_vlong};

/// Which parts follow a cell's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) has_tags: bool,
    pub(crate) has_mvcc: bool,
    /// Whether encoded blocks contain tags as numbers of a dictionary.
    pub(crate) tags_by_number: bool,
}

/// Length of the timestamp and the type, which end every key, in bytes.
const TAIL: usize = 9;

mod diff {
    pub(super) const SAME_KEY_LENGTH: u8 = 1;
    pub(super) const SAME_VALUE_LENGTH: u8 = 2;
    pub(super) const SAME_TYPE: u8 = 4;
    pub(super) const IS_DISTANCE: u8 = 8;
    pub(super) const TIME_LENGTH_SHIFT: u8 = 4;
    pub(super) const IS_NEGATIVE: u8 = 128;
}

mod fast {
    pub(super) const SAME_TIME_BYTES: u8 = 7;
    pub(super) const SAME_KEY_LENGTH: u8 = 8;
    pub(super) const SAME_VALUE_LENGTH: u8 = 16;
    pub(super) const SAME_TYPE: u8 = 32;
    pub(super) const SAME_VALUE: u8 = 64;
}

/// Decodes an encoded block, without its id, to a plain one. Returns `None` for malformed input. Does not check that
/// the result consists of valid cells.
pub(crate) fn decode(encoding: Encoding, layout: Layout, block: &[u8]) -> Option<Vec<u8>> {
    let mut input = Input(block);
    let size = u32::from_be_bytes(input.array()?) as usize;
    let mut out = Vec::with_capacity(size.min(block.len().saturating_mul(8)));
    let mut last = Last::default();
    let mut dictionary = Dictionary::default();
    while !input.0.is_empty() {
        let value = match encoding {
            Encoding::Prefix => prefix_key(&mut input, &mut last),
            Encoding::Diff => diff_key(&mut input, &mut last),
            Encoding::FastDiff => fast_diff_key(&mut input, &mut last),
            Encoding::None | Encoding::RowIndexV1 => None,
        }?;
        let length = match value {
            Value::Here(length) => length,
            Value::AsBefore => last.value.len(),
        };
        if out.len().checked_add(8 + last.key.len())?.checked_add(length)? > size {
            return None;
        }
        out.extend_from_slice(&(last.key.len() as u32).to_be_bytes());
        out.extend_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&last.key);
        let at = out.len();
        match value {
            Value::Here(length) => out.extend_from_slice(input.take(length)?),
            Value::AsBefore => out.extend_from_within(last.value.clone()),
        }
        last.value = at..out.len();
        if layout.has_tags {
            let length = u16::try_from(input.cint()?).ok()?;
            out.extend_from_slice(&length.to_be_bytes());
            if layout.tags_by_number {
                dictionary.expand(&mut input, usize::from(length), &mut out)?;
            } else {
                out.extend_from_slice(input.take(usize::from(length))?);
            }
        }
        if layout.has_mvcc {
            let (_, length) = read_vlong(input.0)?;
            out.extend_from_slice(input.take(length)?);
        }
    }
    (out.len() == size).then_some(out)
}

/// The parts of the previous cell that are needed to decode the next one.
#[derive(Default)]
struct Last {
    key: Vec<u8>,
    /// Range of the previous cell's value in the decoded bytes.
    value: Range<usize>,
    family: Vec<u8>,
    any: bool,
}

enum Value {
    /// The value has this many bytes, which come next in the input.
    Here(usize),
    AsBefore,
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn cint(&mut self) -> Option<usize> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok().filter(|&number| number <= i32::MAX as usize);
            }
        }
        None
    }
}

fn prefix_key(input: &mut Input<'_>, last: &mut Last) -> Option<Value> {
    let (rest, value, common) = (input.cint()?, input.cint()?, input.cint()?);
    if common > last.key.len() {
        return None;
    }
    last.key.truncate(common);
    last.key.extend_from_slice(input.take(rest)?);
    Some(Value::Here(value))
}

fn diff_key(input: &mut Input<'_>, last: &mut Last) -> Option<Value> {
    if !last.any {
        let length = input.byte()?;
        last.family = input.take(usize::from(length))?.to_vec();
    }
    let flags = input.byte()?;
    let has = |flag: u8| flags & flag != 0;
    let before = last.tail();
    let key = if has(diff::SAME_KEY_LENGTH) { last.key.len() } else { input.cint()? };
    let value = if has(diff::SAME_VALUE_LENGTH) { last.value.len() } else { input.cint()? };
    let common = input.cint()?;
    last.front(input, key, common)?;
    let count = usize::from(flags >> diff::TIME_LENGTH_SHIFT & 7) + 1;
    let bytes = input.take(count)?;
    let number = bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte)) as i64;
    let number = if has(diff::IS_NEGATIVE) { number.wrapping_neg() } else { number };
    let (before_time, before_type) = match before {
        Some((time, kind)) => (time, Some(kind)),
        None => (0, None),
    };
    let time = if has(diff::IS_DISTANCE) { before_time.wrapping_sub(number) } else { number };
    let kind = if has(diff::SAME_TYPE) { before_type? } else { input.byte()? };
    last.finish(time.to_be_bytes(), kind);
    Some(Value::Here(value))
}

fn fast_diff_key(input: &mut Input<'_>, last: &mut Last) -> Option<Value> {
    let flags = input.byte()?;
    let has = |flag: u8| flags & flag != 0;
    let Some((time, kind)) = last.tail() else {
        let (key, value, _) = (input.cint()?, input.cint()?, input.cint()?);
        let key = input.take(key)?;
        last.family = Key::parse(key).ok()?.family().to_vec();
        last.key = key.to_vec();
        last.any = true;
        return Some(Value::Here(value));
    };
    let key = if has(fast::SAME_KEY_LENGTH) { last.key.len() } else { input.cint()? };
    let value = if has(fast::SAME_VALUE_LENGTH) { last.value.len() } else { input.cint()? };
    let common = input.cint()?;
    last.front(input, key, common)?;
    let mut bytes = time.to_be_bytes();
    let same = usize::from(flags & fast::SAME_TIME_BYTES);
    bytes[same..].copy_from_slice(input.take(8 - same)?);
    let kind = if has(fast::SAME_TYPE) { kind } else { input.byte()? };
    last.finish(bytes, kind);
    Some(if has(fast::SAME_VALUE) { Value::AsBefore } else { Value::Here(value) })
}

impl Last {
    /// Returns the timestamp and the type of the previous cell; `None` before the first cell.
    fn tail(&self) -> Option<(i64, u8)> {
        let (rest, kind) = self.key.split_last_chunk::<1>()?;
        let (_, time) = rest.split_last_chunk::<8>()?;
        self.any.then_some((i64::from_be_bytes(*time), kind[0]))
    }

    /// Replaces the key, up to its timestamp, by the key of the next cell, which has `length` bytes. `None` if the
    /// input is malformed.
    fn front(&mut self, input: &mut Input<'_>, length: usize, common: usize) -> Option<()> {
        let end = length.checked_sub(TAIL)?;
        let before = if self.any { self.key.len().checked_sub(TAIL)? } else { 0 };
        if common > before.min(end) {
            return None;
        }
        self.key.truncate(common);
        while self.key.len() < 2 {
            self.key.push(input.byte()?);
        }
        let row_end = 2 + usize::from(u16::from_be_bytes([self.key[0], self.key[1]]));
        if common < row_end {
            self.key.extend_from_slice(input.take(row_end.checked_sub(self.key.len())?)?);
            self.key.push(self.family.len() as u8);
            self.key.extend_from_slice(&self.family);
        }
        self.key.extend_from_slice(input.take(end.checked_sub(self.key.len())?)?);
        Some(())
    }

    fn finish(&mut self, time: [u8; 8], kind: u8) {
        self.key.extend_from_slice(&time);
        self.key.push(kind);
        self.any = true;
    }
}

/// The tag dictionary of a block. A new tag replaces the least recently used one.
#[derive(Default)]
struct Dictionary {
    tags: Vec<Vec<u8>>,
    /// Indices of the tags, the most recently used first.
    order: Vec<usize>,
}

impl Dictionary {
    const ENTRIES_MAX: usize = 127;
    /// The byte that precedes a tag that is not in the dictionary, in place of an index.
    const NEW: u8 = 0xff;

    /// Decodes tags of `length` bytes in all. In the result each tag has its length before it. `None` if the input is
    /// malformed.
    fn expand(&mut self, input: &mut Input<'_>, length: usize, out: &mut Vec<u8>) -> Option<()> {
        let end = out.len() + length;
        while out.len() < end {
            let number = match input.byte()? {
                Self::NEW => {
                    // A protobuf varint, which equals a cint for lengths below 2³¹.
                    let length = input.cint()?;
                    self.add(input.take(length)?.to_vec())
                }
                high => usize::from(u16::from_be_bytes([high, input.byte()?])),
            };
            let at = self.order.iter().position(|&known| known == number)?;
            self.order[..=at].rotate_right(1);
            let tag = &self.tags[number];
            out.extend_from_slice(&u16::try_from(tag.len()).ok()?.to_be_bytes());
            out.extend_from_slice(tag);
        }
        (out.len() == end).then_some(())
    }

    fn add(&mut self, tag: Vec<u8>) -> usize {
        if self.tags.len() == Self::ENTRIES_MAX {
            let oldest = *self.order.last().expect("it is full");
            self.tags[oldest] = tag;
            return oldest;
        }
        self.tags.push(tag);
        self.order.push(self.tags.len() - 1);
        self.tags.len() - 1
    }
}

/// Encodes a plain block, whose cells begin at `starts`, and writes the encoding's id before it. Tags are written
/// unchanged.
pub(crate) fn encode(encoding: Encoding, layout: Layout, plain: &[u8], starts: &[u32], out: &mut Vec<u8>) {
    assert!(!layout.tags_by_number, "dictionaries of tags are read, not written");
    out.extend_from_slice(&encoding.id().expect("an encoding with an id").to_be_bytes());
    out.extend_from_slice(&(plain.len() as u32).to_be_bytes());
    let ends = starts.iter().skip(1).map(|&end| end as usize).chain([plain.len()]);
    let mut last: Option<Plain<'_>> = None;
    for (&start, end) in starts.iter().zip(ends) {
        let cell = Plain::read(&plain[start as usize..end]);
        match encoding {
            Encoding::Prefix => cell.write_prefix(last, out),
            Encoding::Diff => cell.write_diff(last, out),
            Encoding::FastDiff => cell.write_fast_diff(last, out),
            Encoding::None | Encoding::RowIndexV1 => unreachable!("plain cells are not encoded"),
        }
        let mut rest = cell.rest;
        if layout.has_tags {
            let (length, tags) = rest.split_first_chunk::<2>().expect("the length of tags");
            let length = usize::from(u16::from_be_bytes(*length));
            write_cint(out, length);
            out.extend_from_slice(&tags[..length]);
            rest = &tags[length..];
        }
        out.extend_from_slice(rest);
        last = Some(cell);
    }
}

fn write_cint(out: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A cell of a plain block.
#[derive(Clone, Copy)]
struct Plain<'a> {
    key: Key<'a>,
    value: &'a [u8],
    /// The tags and the sequence id of the cell.
    rest: &'a [u8],
}

impl<'a> Plain<'a> {
    fn read(bytes: &'a [u8]) -> Plain<'a> {
        let length =
            |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        let (key, rest) = bytes[8..].split_at(length(0));
        let (value, rest) = rest.split_at(length(4));
        Plain { key: Key::trusted(key), value, rest }
    }

    fn front(&self) -> &'a [u8] {
        let key = self.key.bytes();
        &key[..key.len() - TAIL]
    }

    fn write_prefix(&self, last: Option<Plain<'_>>, out: &mut Vec<u8>) {
        let key = self.key.bytes();
        let common = last.map_or(0, |last| {
            let front = shared(self.front(), last.front());
            // Timestamps are compared only when everything before them is equal.
            let same = front == self.front().len() && front == last.front().len();
            if same { shared(key, last.key.bytes()) } else { front }
        });
        write_cint(out, key.len() - common);
        write_cint(out, self.value.len());
        write_cint(out, common);
        out.extend_from_slice(&key[common..]);
        out.extend_from_slice(self.value);
    }

    fn write_diff(&self, last: Option<Plain<'_>>, out: &mut Vec<u8>) {
        let time = self.key.timestamp().0;
        let mut flags = 0;
        let mut number = time;
        if let Some(last) = last {
            let distance = last.key.timestamp().0.wrapping_sub(time);
            if byte_count(distance) < byte_count(time) {
                flags |= diff::IS_DISTANCE;
                number = distance;
            }
            for (same, flag) in [
                (self.key.bytes().len() == last.key.bytes().len(), diff::SAME_KEY_LENGTH),
                (self.value.len() == last.value.len(), diff::SAME_VALUE_LENGTH),
                (self.key.type_code() == last.key.type_code(), diff::SAME_TYPE),
            ] {
                flags |= if same { flag } else { 0 };
            }
        } else {
            out.push(self.key.family().len() as u8);
            out.extend_from_slice(self.key.family());
        }
        let count = byte_count(number);
        flags |= (count as u8 - 1) << diff::TIME_LENGTH_SHIFT;
        flags |= if number < 0 { diff::IS_NEGATIVE } else { 0 };
        out.push(flags);
        if flags & diff::SAME_KEY_LENGTH == 0 {
            write_cint(out, self.key.bytes().len());
        }
        if flags & diff::SAME_VALUE_LENGTH == 0 {
            write_cint(out, self.value.len());
        }
        self.write_front(last, out);
        out.extend_from_slice(&number.unsigned_abs().to_le_bytes()[..count]);
        if flags & diff::SAME_TYPE == 0 {
            out.push(self.key.type_code());
        }
        out.extend_from_slice(self.value);
    }

    fn write_fast_diff(&self, last: Option<Plain<'_>>, out: &mut Vec<u8>) {
        let key = self.key.bytes();
        let Some(last) = last else {
            out.push(0);
            write_cint(out, key.len());
            write_cint(out, self.value.len());
            write_cint(out, 0);
            out.extend_from_slice(key);
            out.extend_from_slice(self.value);
            return;
        };
        let time = self.key.timestamp().0.to_be_bytes();
        let same_time = shared(&time[..7], &last.key.timestamp().0.to_be_bytes()[..7]);
        let mut flags = same_time as u8;
        for (same, flag) in [
            (key.len() == last.key.bytes().len(), fast::SAME_KEY_LENGTH),
            (self.value.len() == last.value.len(), fast::SAME_VALUE_LENGTH),
            (self.key.type_code() == last.key.type_code(), fast::SAME_TYPE),
            (self.value == last.value, fast::SAME_VALUE),
        ] {
            flags |= if same { flag } else { 0 };
        }
        out.push(flags);
        if flags & fast::SAME_KEY_LENGTH == 0 {
            write_cint(out, key.len());
        }
        if flags & fast::SAME_VALUE_LENGTH == 0 {
            write_cint(out, self.value.len());
        }
        self.write_front(Some(last), out);
        out.extend_from_slice(&time[same_time..]);
        if flags & fast::SAME_TYPE == 0 {
            out.push(self.key.type_code());
        }
        if flags & fast::SAME_VALUE == 0 {
            out.extend_from_slice(self.value);
        }
    }

    /// Writes the number of bytes of row and qualifier that equal the previous cell's, and then the other bytes.
    fn write_front(&self, last: Option<Plain<'_>>, out: &mut Vec<u8>) {
        let front = self.front();
        let common = last.map_or(0, |last| shared(front, last.front()));
        write_cint(out, common);
        let row_end = 2 + self.key.row().len();
        if common < row_end {
            out.extend_from_slice(&front[common..row_end]);
            out.extend_from_slice(self.key.qualifier());
        } else {
            out.extend_from_slice(&front[common..]);
        }
    }
}

fn shared(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// Returns the number of bytes that the magnitude of a number needs, at least one.
fn byte_count(number: i64) -> usize {
    (8 - number.unsigned_abs().leading_zeros() as usize / 8).max(1)
}

#[cfg(test)]
mod tests {
    use cell::{Cell, CellParts, CellType, SequenceId, Timestamp};

    use super::*;
    use crate::format::write_vlong;

    const ENCODINGS: [Encoding; 3] = [Encoding::Prefix, Encoding::Diff, Encoding::FastDiff];

    fn layouts() -> impl Iterator<Item = Layout> {
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .map(|(has_tags, has_mvcc)| Layout { has_tags, has_mvcc, tags_by_number: false })
    }

    /// Returns a plain block of random cells, of which some share much of their keys and some little.
    fn plain(layout: Layout, seed: u64) -> (Vec<u8>, Vec<u32>) {
        let world = env::World::simulated(seed, env::WallTime(0));
        let pick = |count: u64| world.random() % count;
        let (mut block, mut starts) = (Vec::new(), Vec::new());
        let times = [i64::MAX, 1_700_000_000_000, 1_700_000_000_001, 0, 1, -5, i64::MIN + 1, i64::MIN];
        for _ in 0..1 + pick(60) {
            let row = vec![b'r'; 1 + pick(3) as usize * pick(200) as usize];
            let qualifier = vec![b'a' + pick(2) as u8; pick(4) as usize];
            let tags = if layout.has_tags && pick(2) == 0 { &[0u8, 3, 9, 1, 2][..] } else { b"" };
            let parts = CellParts {
                row: &row,
                family: b"fam",
                qualifier: &qualifier,
                timestamp: Timestamp(times[pick(8) as usize]),
                cell_type: [CellType::Put, CellType::Delete, CellType::DeleteFamily][pick(3) as usize],
                value: &vec![b'v'; [0, 1, 1, 300][pick(4) as usize]],
                tags,
            };
            starts.push(block.len() as u32);
            let bytes = parts.to_vec().expect("within limits");
            block.extend_from_slice(Cell::trusted(&bytes, SequenceId::ZERO).bytes_without_tags());
            if layout.has_tags {
                block.extend_from_slice(&(tags.len() as u16).to_be_bytes());
                block.extend_from_slice(tags);
            }
            if layout.has_mvcc {
                write_vlong(&mut block, pick(1 << 40) as i64);
            }
        }
        (block, starts)
    }

    #[test]
    fn encoded_blocks_decode_to_the_same_cells() {
        for layout in layouts() {
            for seed in 0..200 {
                let (plain, starts) = plain(layout, seed);
                for encoding in ENCODINGS {
                    let mut block = Vec::new();
                    encode(encoding, layout, &plain, &starts, &mut block);
                    let found = decode(encoding, layout, &block[2..]);
                    assert_eq!(found.as_ref(), Some(&plain), "{encoding:?} {layout:?} seed {seed}");
                }
            }
        }
    }

    #[test]
    fn broken_blocks_are_refused_or_read_and_nothing_worse() {
        for layout in layouts().chain([Layout { has_tags: true, has_mvcc: true, tags_by_number: true }]) {
            let written = Layout { tags_by_number: false, ..layout };
            let (plain, starts) = plain(written, 7);
            for encoding in ENCODINGS {
                let mut block = Vec::new();
                encode(encoding, written, &plain, &starts, &mut block);
                for cut in 2..block.len() {
                    assert_eq!(decode(encoding, layout, &block[2..cut]), None, "{encoding:?} cut at {cut}");
                }
                for at in 2..block.len() {
                    for bit in [1, 16, 128] {
                        let mut turned = block.clone();
                        turned[at] ^= bit;
                        let _whatever = decode(encoding, layout, &turned[2..]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_full_dictionary_gives_up_the_tag_that_was_longest_unused() {
        let mut dictionary = Dictionary::default();
        let mut out = Vec::new();
        for number in 0..127u8 {
            dictionary.expand(&mut Input(&[Dictionary::NEW, 2, 7, number]), 4, &mut out).expect("whole");
        }
        // Decodes the oldest tag once more. So the next new tag replaces the second one.
        dictionary.expand(&mut Input(&[0, 0]), 4, &mut out).expect("known");
        dictionary.expand(&mut Input(&[Dictionary::NEW, 2, 8, 8]), 4, &mut out).expect("whole");
        out.clear();
        dictionary.expand(&mut Input(&[0, 1, 0, 0]), 8, &mut out).expect("known");
        assert_eq!(out, [0, 2, 8, 8, 0, 2, 7, 0]);
        assert_eq!(dictionary.expand(&mut Input(&[0, 127]), 4, &mut out), None, "there are 127");
    }
}
