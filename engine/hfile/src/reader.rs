//! An open file: the parts loaded when it was opened, and access to its blocks.

mod blocks;
mod cells;
mod end;
mod filters;
mod ready;

use std::sync::Arc;

use bytes::Bytes;
use cache::{Cache, Caching};
use cell::{Cell, Comparator, Key, SequenceId, Timestamp};
use prost::Message;
use proto::pb;
use storage::{FileName, FileReader};

use crate::awaited::Fetches;
use crate::bloom::{BloomType, Filter};
use crate::compress::Compression;
use crate::cursor::{Cursor, ReadOptions};
use crate::facts::Sizes;
use crate::format::{BlockType, Encoding, TRAILER_LENGTH};
use crate::index::{Entries, MIDDLE_LENGTH, Ordered};
use crate::info::{FileInfo, TimeSpan, name};
use crate::worth::Worth;
use crate::{Error, Result};
use end::KnownEnd;

/// Maximum number of index levels. A file that claims more is refused: each level has at least twice as many blocks as the
/// one above.
const INDEX_LEVELS_MAX: u32 = 64;
/// Maximum size in bytes of the section that is loaded when a file is opened. A file that claims more is refused.
const LOAD_ON_OPEN_MAX: u64 = 1 << 30;

/// An HFile, opened once for all its readers.
pub struct Reader {
    pub(crate) file: Arc<dyn FileReader>,
    name: FileName,
    pub(crate) cached: cache::File,
    fetches: Fetches,
    compression: Compression,
    encoding: Encoding,
    comparator: Comparator,
    has_tags: bool,
    has_mvcc: bool,
    may_have_tags: bool,
    newest_write: Option<SequenceId>,
    /// The sequence id of all cells; `None` if each cell has its own.
    common_sequence: Option<SequenceId>,
    /// Whether the file was bulk-loaded. Its writer may have had another order, so the order of its cells is checked.
    pub(crate) is_loaded: bool,
    tags_by_number: bool,
    /// Whether the file states that it has no family delete marker.
    deletes_no_family: bool,
    span: Option<TimeSpan>,
    pub(crate) data_end: u64,
    first_data: u64,
    last_data: u64,
    levels: u32,
    root: Entries,
    entries: u64,
    info: FileInfo,
    /// The key of the last cell, if the file info has a complete one; every search for a row needs it.
    last_key: Option<Bytes>,
    bloom: Option<(BloomType, Filter)>,
    /// Decides, for each search of a row, whether to check the Bloom filter before it.
    pub(crate) worth: Worth,
    delete_bloom: Option<Filter>,
    pub(crate) sizes: Sizes,
}

impl Reader {
    /// Opens `file`. Its blocks are cached in `cache`, according to the family's settings `caching`. Fails with
    /// [`Error::Unsupported`] for an encrypted file, and for an unknown codec, encoding or order of cells.
    pub fn open(
        file: Arc<dyn FileReader>,
        name: FileName,
        cache: Arc<Cache>,
        caching: Caching,
    ) -> Result<Reader> {
        let size = file.size();
        let corrupt = |offset, what, expected: String, found: String| {
            Error::corrupt(&name, offset, what, expected, found)
        };
        if size < TRAILER_LENGTH as u64 {
            return Err(corrupt(0, "file size", format!("at least {TRAILER_LENGTH}"), size.to_string()));
        }
        let trailer_at = size - TRAILER_LENGTH as u64;
        let mut trailer = vec![0; TRAILER_LENGTH];
        file.read_at(trailer_at, &mut trailer)?;
        let version = u32::from_be_bytes([trailer[4092], trailer[4093], trailer[4094], trailer[4095]]);
        if version & 0xff_ffff != 3 {
            return Err(corrupt(
                size - 4,
                "major version",
                "3".to_owned(),
                (version & 0xff_ffff).to_string(),
            ));
        }
        if &trailer[..8] != b"TRABLK\"$" {
            return Err(corrupt(
                trailer_at,
                "trailer magic",
                "TRABLK\"$".to_owned(),
                trailer[..8].escape_ascii().to_string(),
            ));
        }
        let trailer = pb::FileTrailerProto::decode_length_delimited(&trailer[8..4092])
            .map_err(|error| corrupt(trailer_at + 8, "trailer", "a message".to_owned(), error.to_string()))?;
        if trailer.encryption_key.is_some() {
            return Err(Error::Unsupported { file: name, what: "encryption".to_owned() });
        }
        let code = trailer.compression_codec.unwrap_or(2);
        let compression = Compression::of_code(code).ok_or_else(|| Error::Unsupported {
            file: name.clone(),
            what: format!("compression codec {code}"),
        })?;
        let class = trailer.comparator_class_name.clone().unwrap_or_default();
        let comparator = comparator_of(&class)
            .ok_or_else(|| Error::Unsupported { file: name.clone(), what: format!("comparator {class}") })?;
        let load_at = trailer.load_on_open_data_offset.unwrap_or(0);
        if load_at >= trailer_at || trailer_at - load_at > LOAD_ON_OPEN_MAX {
            return Err(corrupt(
                trailer_at,
                "load-on-open offset",
                format!("below {trailer_at}"),
                load_at.to_string(),
            ));
        }
        let levels = trailer.num_data_index_levels.unwrap_or(1);
        if levels > INDEX_LEVELS_MAX {
            let expected = format!("at most {INDEX_LEVELS_MAX}");
            return Err(corrupt(trailer_at, "number of index levels", expected, levels.to_string()));
        }
        let mut reader = Reader {
            file,
            cached: cache.open_file(name.as_str(), size, caching),
            fetches: Fetches::default(),
            compression,
            encoding: Encoding::None,
            comparator,
            has_tags: false,
            has_mvcc: false,
            may_have_tags: true,
            newest_write: None,
            common_sequence: None,
            is_loaded: false,
            tags_by_number: false,
            deletes_no_family: false,
            span: None,
            data_end: load_at,
            first_data: trailer.first_data_block_offset.unwrap_or(u64::MAX),
            last_data: trailer.last_data_block_offset.unwrap_or(u64::MAX),
            levels,
            root: Entries::default(),
            entries: trailer.entry_count.unwrap_or(0),
            info: FileInfo::new(),
            last_key: None,
            bloom: None,
            worth: Worth::new(),
            delete_bloom: None,
            sizes: Sizes {
                uncompressed: trailer.total_uncompressed_bytes.unwrap_or(0),
                index: trailer.uncompressed_data_index_size.unwrap_or(0),
                ..Sizes::default()
            },
            name,
        };
        reader.load(load_at, trailer_at, &trailer)?;
        Ok(reader)
    }

    /// As [`open`](Reader::open), for a file that this process has just written: reads nothing, because `end` is
    /// [`Written::end`](crate::Written::end).
    pub fn open_written(
        file: Arc<dyn FileReader>,
        end: Bytes,
        name: FileName,
        cache: Arc<Cache>,
        caching: Caching,
    ) -> Result<Reader> {
        let reader = Reader::open(Arc::new(KnownEnd::new(Arc::clone(&file), end)), name, cache, caching)?;
        Ok(Reader { file, ..reader })
    }

    /// Reads the parts of the file that stay in memory: the root index, the file info and the metadata of the Bloom
    /// filters.
    fn load(&mut self, from: u64, end: u64, trailer: &pb::FileTrailerProto) -> Result<()> {
        let (mut at, mut roots) = (from, 0);
        let (mut general, mut deletes) = (None, None);
        while at < end {
            let raw = self.read_raw(at, None, end)?;
            let bytes = self.unpack(at, &raw)?;
            match raw.header.kind {
                BlockType::RootIndex => {
                    if roots == 0 {
                        let count = trailer.data_index_count.unwrap_or(0);
                        let (root, rest) = Entries::parse_root(&bytes, count).ok_or_else(|| {
                            self.corrupt(at, "root index", format!("{count} entries"), "fewer")
                        })?;
                        let is_whole = rest.is_empty() || self.levels > 1 && rest.len() == MIDDLE_LENGTH;
                        if !is_whole {
                            return Err(self.corrupt(at, "root index", format!("{count} entries"), "more"));
                        }
                        self.root = root;
                        self.sizes.root_index = bytes.len() as u64;
                    }
                    roots += 1;
                }
                BlockType::FileInfo => {
                    self.info = self.parse_info(at, &bytes)?;
                    let last = self.info.get(name::LAST_KEY.as_bytes());
                    self.last_key = last.filter(|key| Key::parse(key).is_ok()).cloned();
                }
                BlockType::GeneralBloomMeta => general = Some((at, bytes)),
                BlockType::DeleteFamilyBloomMeta => deletes = Some((at, bytes)),
                kind => {
                    return Err(self.corrupt(
                        at,
                        "block kind",
                        "one that is loaded on open",
                        format!("{kind:?}"),
                    ));
                }
            }
            at += u64::from(raw.disk_length);
        }
        if self.info.is_empty() {
            return Err(self.corrupt(from, "file info", "a block of it", "none"));
        }
        if roots == 0 {
            return Err(self.corrupt(from, "root index", "a block of it", "none"));
        }
        self.check_trailer(end)?;
        for index in 0..self.root.len() {
            let key = self.root.at(index).key;
            Key::parse(key).map_err(|error| self.corrupt(from, "root index key", "a key", error))?;
        }
        self.root.make_heads(self.comparator);
        if let Some(encoding) = self.text(name::ENCODING) {
            self.encoding = Encoding::of_name(&encoding).ok_or_else(|| Error::Unsupported {
                file: self.name.clone(),
                what: format!("data block encoding {encoding}"),
            })?;
        }
        self.has_tags = self.info.contains_key(name::TAGS_LENGTH_MAX.as_bytes());
        let compressed = self
            .info
            .get(name::TAGS_COMPRESSED.as_bytes())
            .is_some_and(|flag| flag.first().is_some_and(|byte| *byte != 0));
        // HBase's encoder for ROW_INDEX_V1 does not encode tags, whatever the file info says.
        self.tags_by_number = compressed && self.encoding != Encoding::RowIndexV1;
        self.may_have_tags = self.has_tags && self.number(name::TAGS_LENGTH_MAX) != Some(0);
        self.has_mvcc = self.number(name::KEY_VALUE_VERSION) == Some(1);
        self.newest_write = match self.has_mvcc {
            true => self.number(name::MVCC_MAX).map(SequenceId),
            false => Some(SequenceId::ZERO),
        };
        self.common_sequence = (!self.has_mvcc).then_some(SequenceId::ZERO);
        // An invalid length counts as missing.
        let prefix = self.number(name::BLOOM_PREFIX).and_then(|length| u16::try_from(length).ok());
        let kind = self.text(name::BLOOM_TYPE).and_then(|kind| BloomType::of_name(&kind, prefix));
        let kind = kind.unwrap_or(BloomType::None);
        self.deletes_no_family = self.number(name::DELETE_FAMILIES) == Some(0);
        self.span = self.parse_span();
        if let (Some((at, meta)), true) = (general, kind != BloomType::None) {
            let filter = Filter::parse(&meta, kind == BloomType::RowColumn);
            let filter =
                filter.map_err(|what| self.corrupt(at, what, "a whole bloom meta", "other bytes"))?;
            self.bloom = filter.map(|filter| (kind, filter));
        }
        if let Some((at, meta)) = deletes {
            self.delete_bloom = Filter::parse(&meta, false)
                .map_err(|what| self.corrupt(at, what, "a whole bloom meta", "other bytes"))?;
        }
        self.sizes.bloom = self.filters().map(|filter| filter.bytes).sum();
        Ok(())
    }

    /// Compares the trailer with the root index. The trailer has no checksum, so a flipped bit in it could otherwise
    /// hide blocks. If the index has several levels, the last block is compared only when a cursor reaches it.
    fn check_trailer(&self, at: u64) -> Result<()> {
        let Some(last) = self.root.len().checked_sub(1) else {
            return match self.entries {
                0 => Ok(()),
                cells => Err(self.corrupt(at, "number of cells", "0, as the index is empty", cells)),
            };
        };
        let (first, last) = match self.levels {
            0 | 1 => (self.root.at(0).offset, self.root.at(last).offset),
            // Data blocks come first in a file, and each comes before the index blocks that name it.
            _ => (0, self.last_data.min(self.root.at(last).offset)),
        };
        if self.first_data != first {
            return Err(self.corrupt(at, "first data block", first, self.first_data));
        }
        if self.last_data != last {
            return Err(self.corrupt(at, "last data block", last, self.last_data));
        }
        Ok(())
    }

    fn parse_info(&self, at: u64, bytes: &[u8]) -> Result<FileInfo> {
        let body = bytes
            .strip_prefix(b"PBUF")
            .ok_or_else(|| self.corrupt(at, "file info magic", "PBUF", "other bytes"))?;
        let info = pb::FileInfoProto::decode_length_delimited(body)
            .map_err(|error| self.corrupt(at, "file info", "a message", error))?;
        Ok(info.map_entry.into_iter().map(|pair| (pair.first, pair.second)).collect())
    }

    pub(crate) fn corrupt(
        &self,
        offset: u64,
        what: &'static str,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Error {
        Error::corrupt(&self.name, offset, what, expected, found)
    }

    /// Fails if the file was bulk-loaded and `next` sorts before `last`, the cell before it. The block of `next` is at
    /// `offset`. A reader of such a file could return to cells that it has read, again and again.
    pub(crate) fn check_order(&self, offset: u64, last: Option<Cell<'_>>, next: Cell<'_>) -> Result<()> {
        match last {
            Some(last) if self.is_loaded && self.comparator.compare(next.into(), last.into()).is_lt() => {
                Err(self.corrupt(
                    offset,
                    "order of cells",
                    format!("{last:?} or a later cell"),
                    format!("{next:?}"),
                ))
            }
            _ => Ok(()),
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        self.info.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        let value = self.info.get(name.as_bytes())?;
        (value.len() <= 8).then(|| value.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Creates a cursor without a position.
    pub fn cursor(self: &Arc<Self>, options: ReadOptions) -> Cursor {
        Cursor::new(Arc::clone(self), options)
    }

    /// Returns the name under which the file was opened.
    pub fn name(&self) -> &FileName {
        &self.name
    }

    /// Returns the size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Returns the number of cells in the file.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the order of the file's cells.
    pub fn comparator(&self) -> Comparator {
        self.comparator
    }

    /// Returns the codec of the file's blocks.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the type of the file's Bloom filter; [`BloomType::None`] also for a filter that is not supported and so
    /// ignored.
    pub fn bloom(&self) -> BloomType {
        self.bloom.as_ref().map_or(BloomType::None, |(kind, _)| *kind)
    }

    /// Returns the file info: the properties of the file by name.
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// Returns the sequence id up to which every write of the store is in this file or an older one; `None` if the file
    /// does not record it, as a file that was written for a bulk load.
    pub fn max_sequence(&self) -> Option<SequenceId> {
        self.number(name::SEQUENCE_MAX).map(SequenceId)
    }

    /// Whether a job outside a region server wrote the file, to be bulk-loaded.
    pub fn is_for_bulk_load(&self) -> bool {
        self.info.contains_key(name::BULK_LOAD_TIME.as_bytes())
    }

    /// Makes every cell have the sequence id of the file's bulk load, in place of the one that the file states. Cells out of
    /// order are then an error.
    #[must_use]
    pub fn with_common_sequence(mut self, sequence: SequenceId) -> Reader {
        self.is_loaded = true;
        (self.common_sequence, self.newest_write) = (Some(sequence), Some(sequence));
        self
    }

    /// Returns the newest sequence id of a cell; `None` if the file does not record it. If it is greater than
    /// [`Reader::max_sequence`], the file may lack some writes between these two ids.
    pub fn newest_sequence(&self) -> Option<SequenceId> {
        // A file whose cells have no ids of their own may still state one.
        self.common_sequence.or_else(|| self.number(name::MVCC_MAX).map(SequenceId))
    }

    /// Whether a major compaction wrote the file.
    pub fn is_major(&self) -> bool {
        self.info.get(name::MAJOR.as_bytes()).is_some_and(|flag| flag.first().is_some_and(|byte| *byte != 0))
    }

    /// Returns when the file was written, in ms since 1970; `None` if not recorded.
    pub fn created(&self) -> Option<i64> {
        self.number(name::CREATED).map(|number| number as i64)
    }

    /// Returns the oldest timestamp of a put; [`Timestamp::LATEST`] if there is none or it is not recorded.
    pub fn earliest_put(&self) -> Timestamp {
        self.number(name::EARLIEST_PUT).map_or(Timestamp::LATEST, |number| Timestamp(number as i64))
    }

    /// Returns the oldest and newest timestamp of the file's cells; `None` if not recorded.
    pub fn span(&self) -> Option<TimeSpan> {
        self.span
    }

    fn parse_span(&self) -> Option<TimeSpan> {
        let range = self.info.get(name::TIME_RANGE.as_bytes())?;
        let (oldest, newest) = range.split_at_checked(8)?;
        let number = |bytes: &[u8]| bytes.try_into().ok().map(|word| Timestamp(i64::from_be_bytes(word)));
        Some(TimeSpan { oldest: number(oldest)?, newest: number(newest)? })
    }

    /// Returns a key at or before the first cell; `None` for a file without cells.
    pub fn first_key(&self) -> Option<Key<'_>> {
        let first = (!self.root.is_empty()).then(|| self.root.at(0));
        first.and_then(|entry| Key::parse(entry.key).ok())
    }

    /// Returns the key of the last cell; `None` for a file without cells, and if the file does not record a valid key.
    pub fn last_key(&self) -> Option<Key<'_>> {
        self.last_key.as_deref().map(Key::trusted)
    }

    /// Returns the file's Bloom filters, of which it has at most two.
    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.bloom.iter().map(|(_, filter)| filter).chain(&self.delete_bloom)
    }

    /// Returns the root index, and the number of index levels.
    pub(crate) fn root_index(&self) -> (&Entries, u32) {
        (&self.root, self.levels)
    }

    /// Returns the offset of the first data block; `None` for a file without cells.
    pub(crate) fn first_data(&self) -> Option<u64> {
        (self.first_data != u64::MAX && !self.root.is_empty()).then_some(self.first_data)
    }

    /// Returns the offset of the last data block.
    pub(crate) fn last_data(&self) -> u64 {
        self.last_data
    }

    /// Returns the file's handle in the block cache.
    pub fn cached(&self) -> &cache::File {
        &self.cached
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.name)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

/// Returns the order of a file's cells by the Java class that its trailer names. Older versions of HBase wrote other
/// class names. `None` for an unknown class.
fn comparator_of(class: &str) -> Option<Comparator> {
    match class.rsplit(['.', '$']).next().unwrap_or_default() {
        ""
        | "CellComparatorImpl"
        | "InnerStoreCellComparator"
        | "KVComparator"
        | "KeyComparator"
        | "RawBytesComparator"
        | "ByteArrayRawComparator" => Some(Comparator::Table),
        "MetaCellComparator" | "MetaComparator" | "MetaKeyComparator" => Some(Comparator::Meta),
        _ => None,
    }
}
