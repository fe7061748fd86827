//! Bloom filters. A filter says whether a row, a column of a row, or a row with a given prefix may be in the file.
//!
//! A filter consists of chunks. A chunk is a bit array over the keys that were added while it was the open one, and is
//! written between data blocks. The meta block is read when the file is opened, and locates the chunk for a key:
//!
//! ```text
//! version 4B (3) · bytes of all chunks 8B · hash count 4B · hash type 4B · keys 8B · keys that would fit 8B
//! · chunks 4B · vint length and class name of the comparator (empty for rows) · one index entry a chunk
//! ```
//!
//! Bit `i` of a key is `|h1 + i·h2| mod bits` in 32-bit arithmetic, where `h1` is the hash of the key, and `h2` is its
//! hash with `h1` as the seed. The hash is Hadoop's Murmur. Source: HBase 2.6 `BloomFilterUtil`, `CompoundBloomFilter`.

use cell::{Cell, Comparator, KeyBuf};

use crate::format::write_vlong;
use crate::index::{Entries, Entry, Ordered};

/// Which part of a cell's key a file's Bloom filter contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BloomType {
    /// The file has no filter.
    None,
    /// The filter contains rows.
    #[default]
    Row,
    /// The filter contains rows with qualifiers.
    RowColumn,
    /// The filter contains prefixes of rows, of this length in bytes (`RowPrefixBloomFilter.prefix_length`), and
    /// shorter rows as a whole.
    RowPrefix(u16),
}

impl BloomType {
    /// Returns HBase's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            BloomType::None => "NONE",
            BloomType::Row => "ROW",
            BloomType::RowColumn => "ROWCOL",
            BloomType::RowPrefix(_) => "ROWPREFIX_FIXED_LENGTH",
        }
    }

    /// Returns the type with this name; `prefix` is the prefix length, if the type needs one. `None` for an unsupported
    /// type or a missing length: such a filter is ignored.
    pub fn of_name(name: &str, prefix: Option<u16>) -> Option<BloomType> {
        let prefixes = prefix.filter(|length| *length > 0).map(BloomType::RowPrefix);
        let all = [Some(BloomType::None), Some(BloomType::Row), Some(BloomType::RowColumn), prefixes];
        all.into_iter().flatten().find(|kind| kind.name() == name)
    }

    /// Returns the key of `row` in a filter of rows or prefixes; `None` for a filter of columns, and without a filter.
    pub(crate) fn key_of_row(self, row: &[u8]) -> Option<&[u8]> {
        match self {
            BloomType::Row => Some(row),
            BloomType::RowPrefix(length) => Some(&row[..row.len().min(length.into())]),
            BloomType::None | BloomType::RowColumn => None,
        }
    }
}

const VERSION: u32 = 3;
const HASH_COUNT: u32 = 7;
const HASH_MURMUR: u32 = 1;
/// Maximum number of keys in one chunk: 128 KB of bits at an error rate of 1 %.
const CHUNK_KEYS_MAX: usize = 109_000;
const COLUMN_COMPARATOR: &str = "org.apache.hadoop.hbase.CellComparatorImpl";

/// Computes Hadoop's Murmur hash of `key`.
pub(crate) fn murmur(key: &[u8], seed: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = seed ^ key.len() as u32;
    let (words, tail) = key.split_at(key.len() & !3);
    for word in words.chunks_exact(4) {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    if !tail.is_empty() {
        for (index, &byte) in tail.iter().enumerate().rev() {
            // Java's bytes are signed, and the sign affects the hash.
            hash ^= (i32::from(byte as i8) << (8 * index)) as u32;
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

fn bits(first: u32, second: u32, count: u32, chunk_bytes: usize) -> impl Iterator<Item = usize> {
    let bits = (chunk_bytes * 8) as i32;
    let mut at = first as i32;
    (0..count).map(move |_| {
        let bit = (at % bits).unsigned_abs() as usize;
        at = at.wrapping_add(second as i32);
        bit
    })
}

/// A full chunk of a Bloom filter, to be written as a block.
pub(crate) struct Chunk {
    pub(crate) first_key: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

/// Collects keys in order and builds chunks.
pub(crate) struct Builder {
    kind: BloomType,
    hashes: Vec<(u32, u32)>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    any: bool,
    pub(crate) full: Vec<Chunk>,
    entries: Vec<(u64, u32, Vec<u8>)>,
    keys: u64,
    bytes: u64,
}

impl Builder {
    pub(crate) fn new(kind: BloomType) -> Builder {
        Builder {
            kind,
            hashes: Vec::new(),
            first_key: Vec::new(),
            last_key: Vec::new(),
            any: false,
            full: Vec::new(),
            entries: Vec::new(),
            keys: 0,
            bytes: 0,
        }
    }

    /// Adds the key of `cell`, unless it equals the previous one.
    pub(crate) fn add(&mut self, cell: Cell<'_>) {
        match self.kind {
            BloomType::None => {}
            BloomType::RowColumn => {
                let key = column_key(cell.row(), cell.qualifier());
                self.add_key(key.key().bytes());
            }
            kind => self.add_key(kind.key_of_row(cell.row()).expect("the others know rows")),
        }
    }

    fn add_key(&mut self, key: &[u8]) {
        if self.any && self.last_key == key {
            return;
        }
        self.any = true;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        if self.hashes.is_empty() {
            self.first_key = key.to_vec();
        }
        let first = murmur(key, 0);
        self.hashes.push((first, murmur(key, first)));
        if self.hashes.len() >= CHUNK_KEYS_MAX {
            self.close_chunk();
        }
    }

    /// Ends the current chunk: builds its bit array from the keys that were added since the previous chunk.
    pub(crate) fn close_chunk(&mut self) {
        if self.hashes.is_empty() {
            return;
        }
        // 9.6 bits a key and seven hashes: 1 % false positives.
        let mut bytes = vec![0u8; (self.hashes.len() * 96).div_ceil(80).max(8)];
        for &(first, second) in &self.hashes {
            for bit in bits(first, second, HASH_COUNT, bytes.len()) {
                bytes[bit / 8] |= 1 << (bit % 8);
            }
        }
        self.keys += self.hashes.len() as u64;
        self.bytes += bytes.len() as u64;
        self.hashes.clear();
        self.full.push(Chunk { first_key: std::mem::take(&mut self.first_key), bytes });
    }

    /// Records where a chunk was written.
    pub(crate) fn written(&mut self, offset: u64, disk_length: u32, first_key: Vec<u8>) {
        self.entries.push((offset, disk_length, first_key));
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    /// Encodes the meta block; returns `None` when no key was added.
    pub(crate) fn meta(&self) -> Option<Vec<u8>> {
        if self.entries.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.bytes.to_be_bytes());
        out.extend_from_slice(&HASH_COUNT.to_be_bytes());
        out.extend_from_slice(&HASH_MURMUR.to_be_bytes());
        out.extend_from_slice(&self.keys.to_be_bytes());
        out.extend_from_slice(&self.keys.to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        let comparator = if self.kind == BloomType::RowColumn { COLUMN_COMPARATOR } else { "" };
        write_vlong(&mut out, comparator.len() as i64);
        out.extend_from_slice(comparator.as_bytes());
        for (offset, length, key) in &self.entries {
            Entry { offset: *offset, disk_length: *length, key }.write_root(&mut out);
        }
        Some(out)
    }
}

/// Returns the key of a column in a filter of rows with qualifiers.
pub(crate) fn column_key(row: &[u8], qualifier: &[u8]) -> KeyBuf {
    KeyBuf::first_on_column(row, b"", qualifier)
}

/// The filter of an open file: the locations of its chunks.
#[derive(Debug)]
pub(crate) struct Filter {
    hash_count: u32,
    columns: bool,
    /// Size of all chunks of the filter, in bytes.
    pub(crate) bytes: u64,
    pub(crate) entries: Entries,
}

impl Filter {
    /// Parses a meta block. Returns `Ok(None)` for a filter with an unsupported hash, which is ignored; `Err` says what
    /// is wrong.
    pub(crate) fn parse(bytes: &[u8], columns: bool) -> Result<Option<Filter>, &'static str> {
        let word = |at: usize| -> Result<u32, &'static str> {
            let word = bytes.get(at..at + 4).ok_or("bloom meta ends early")?;
            Ok(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        };
        if word(0)? != VERSION {
            return Ok(None);
        }
        let (hash_count, hash, chunks) = (word(12)?, word(16)?, word(36)?);
        let rest = bytes.get(40..).ok_or("bloom meta ends early")?;
        let (name, used) = crate::format::read_vlong(rest).ok_or("bloom comparator name")?;
        let name = usize::try_from(name).map_err(|_| "bloom comparator name")?;
        let rest = rest.get(used..).and_then(|rest| rest.get(name..)).ok_or("bloom comparator name")?;
        let (entries, _) = Entries::parse_root(rest, chunks).ok_or("bloom chunk index")?;
        if hash != HASH_MURMUR || hash_count == 0 || hash_count > 64 {
            return Ok(None);
        }
        let total = (u64::from(word(4)?) << 32) | u64::from(word(8)?);
        Ok(Some(Filter { hash_count, columns, bytes: total, entries }))
    }

    /// Returns the offset and the length on disk of the chunk that may contain `key`; `None` when the key sorts before
    /// the first chunk.
    pub(crate) fn chunk_of(&self, key: &[u8]) -> Option<(u64, u32)> {
        let after = self.entries.partition(0..self.entries.len(), |entry| {
            if self.columns && cell::Key::parse(entry.key).is_ok() {
                Comparator::Table.compare_keys(cell::Key::trusted(entry.key), cell::Key::trusted(key)).is_le()
            } else {
                entry.key <= key
            }
        });
        let entry = self.entries.at(after.checked_sub(1)?);
        Some((entry.offset, entry.disk_length))
    }

    /// Whether the chunk may contain `key`.
    pub(crate) fn may_hold(&self, chunk: &[u8], key: &[u8]) -> bool {
        if chunk.is_empty() || chunk.len() > (i32::MAX / 8) as usize {
            return true;
        }
        let first = murmur(key, 0);
        bits(first, murmur(key, first), self.hash_count, chunk.len())
            .all(|bit| chunk[bit / 8] & (1 << (bit % 8)) != 0)
    }
}
