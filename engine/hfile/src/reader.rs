//! An open file: the parts loaded when it was opened, and access to its blocks.

mod filters;
mod ready;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cache::{Block, BlockKind, Cache, Caching, Cells, Part};
use cell::{Cell, Comparator, Key, Position, SequenceId, Timestamp};
use prost::Message;
use proto::pb;
use storage::{FileName, FileReader};

use crate::ahead::{Ahead, ReadType};
use crate::awaited::{Fetches, Lookup, UNKNOWN_LENGTH};
use crate::bloom::{BloomType, Filter};
use crate::compress::Compression;
use crate::cursor::{Cursor, ReadOptions};
use crate::facts::{Sizes, note_data};
use crate::format::{BlockHeader, BlockType, Encoding, HEADER_LENGTH, TRAILER_LENGTH, read_vlong};
use crate::held::BlockAccess;
use crate::index::{Entries, Leaf, Ordered};
use crate::info::{FileInfo, TimeSpan, name};
use crate::worth::Worth;
use crate::{Error, Result};

/// Largest size of the load-on-open section in bytes; a file that claims more is refused.
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
    /// The sequence id of every cell; `None` if each cell has its own.
    common_sequence: Option<SequenceId>,
    tags_by_number: bool,
    /// Whether the file states that no marker in it deletes a family.
    deletes_no_family: bool,
    span: Option<TimeSpan>,
    pub(crate) data_end: u64,
    first_data: u64,
    last_data: u64,
    levels: u32,
    root: Entries,
    entries: u64,
    info: FileInfo,
    /// The last key, if the file info has a complete one; every search for a row needs it.
    last_key: Option<Bytes>,
    bloom: Option<(BloomType, Filter)>,
    /// Whether to check the filter before searching rows.
    pub(crate) worth: Worth,
    delete_bloom: Option<Filter>,
    pub(crate) sizes: Sizes,
}

/// A verified block as in the file, perhaps compressed.
pub(crate) struct Raw {
    header: BlockHeader,
    /// The bytes from its header up to its checksums.
    packed: Bytes,
    disk_length: u32,
}

impl Reader {
    /// Opens `file`. Its blocks go through `cache`, by its family's `caching` settings.
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
        let comparator = if class.contains("MetaCellComparator") || class.contains("MetaComparator") {
            Comparator::Meta
        } else {
            Comparator::Table
        };
        let load_at = trailer.load_on_open_data_offset.unwrap_or(0);
        if load_at >= trailer_at || trailer_at - load_at > LOAD_ON_OPEN_MAX {
            return Err(corrupt(
                trailer_at,
                "load-on-open offset",
                format!("below {trailer_at}"),
                load_at.to_string(),
            ));
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
            tags_by_number: false,
            deletes_no_family: false,
            span: None,
            data_end: load_at,
            first_data: trailer.first_data_block_offset.unwrap_or(u64::MAX),
            last_data: trailer.last_data_block_offset.unwrap_or(u64::MAX),
            levels: trailer.num_data_index_levels.unwrap_or(1),
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

    /// Reads the root index, the file info and the bloom filters' metadata.
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
                        let (root, _) = Entries::parse_root(&bytes, count).ok_or_else(|| {
                            self.corrupt(at, "root index", format!("{count} entries"), "fewer")
                        })?;
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
        self.tags_by_number = compressed;
        if compressed && self.encoding == Encoding::RowIndexV1 {
            return Err(Error::Unsupported { file: self.name.clone(), what: "compressed tags".to_owned() });
        }
        self.may_have_tags = self.has_tags && self.number(name::TAGS_LENGTH_MAX) != Some(0);
        self.has_mvcc = self.number(name::KEY_VALUE_VERSION) == Some(1);
        self.newest_write = match self.has_mvcc {
            true => self.number(name::MVCC_MAX).map(SequenceId),
            false => Some(SequenceId::ZERO),
        };
        self.common_sequence = (!self.has_mvcc).then_some(SequenceId::ZERO);
        // A length that no row can have means no prefix.
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
        let filters = self.bloom.iter().map(|(_, filter)| filter).chain(&self.delete_bloom);
        self.sizes.bloom = filters.map(|filter| filter.bytes).sum();
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

    fn text(&self, name: &str) -> Option<String> {
        self.info.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        let value = self.info.get(name.as_bytes())?;
        (value.len() <= 8).then(|| value.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Reads and verifies the block at `at`, which must end at or before `end`.
    fn read_raw(&self, at: u64, disk_length: Option<u32>, end: u64) -> Result<Raw> {
        let room = end.saturating_sub(at);
        let mut block = vec![0; HEADER_LENGTH];
        if let Some(length) = disk_length {
            if (length as usize) < HEADER_LENGTH || u64::from(length) > room {
                return Err(self.corrupt(at, "block size in the index", format!("at most {room}"), length));
            }
            block.resize(length as usize, 0);
        } else if room < HEADER_LENGTH as u64 {
            return Err(self.corrupt(at, "room for a block", HEADER_LENGTH, room));
        }
        self.file.read_at(at, &mut block)?;
        let header = self.header_of(at, &block)?;
        let length = header.disk_length();
        match disk_length {
            Some(expected) if u64::from(expected) != length => {
                return Err(self.corrupt(at, "block size", expected, length));
            }
            None if length > room => {
                return Err(self.corrupt(at, "block size", format!("at most {room}"), length));
            }
            None => {
                block.resize(length as usize, 0);
                self.file.read_at(at + HEADER_LENGTH as u64, &mut block[HEADER_LENGTH..])?;
            }
            Some(_) => {}
        }
        self.verify(at, &header, &block)?;
        let packed = Bytes::from(block).slice(..header.data_size as usize);
        Ok(Raw { header, packed, disk_length: length as u32 })
    }

    /// The header at the start of `bytes`, which have at least its length.
    fn header_of(&self, at: u64, bytes: &[u8]) -> Result<BlockHeader> {
        let header = bytes.first_chunk::<HEADER_LENGTH>().expect("at least a header was read");
        BlockHeader::parse(header).map_err(|(what, expected, found)| self.corrupt(at, what, expected, found))
    }

    fn verify(&self, at: u64, header: &BlockHeader, block: &[u8]) -> Result<()> {
        header.verify(block).map_err(|(chunk, expected, found)| {
            self.corrupt(
                at + chunk as u64,
                "block checksum",
                format!("{expected:08x}"),
                format!("{found:08x}"),
            )
        })
    }

    /// The block at `at`, from bytes read ahead, or read together with the bytes after it.
    fn read_raw_ahead(&self, at: u64, read_type: ReadType, ahead: &mut Option<Box<Ahead>>) -> Result<Raw> {
        let ahead = ahead.get_or_insert_with(Box::default);
        let mut found = self.raw_within(at, ahead.at(at))?;
        if found.is_none()
            && let Some(window) =
                ahead.window(at, read_type, self.cached.cache().options().read_ahead_bytes_max)
        {
            let length = (window as u64).min(self.data_end.saturating_sub(at));
            // A failure to read beyond the block does not concern this caller.
            match self.file.read_at(at, ahead.refill(at, length as usize)) {
                Ok(()) => found = self.raw_within(at, ahead.at(at))?,
                Err(_) => ahead.forget(),
            }
        }
        let raw = match found {
            Some(raw) => raw,
            None => self.read_raw(at, None, self.data_end)?,
        };
        ahead.note(at..at + u64::from(raw.disk_length));
        Ok(raw)
    }

    /// The verified block at the start of `bytes`; `None` if it is not completely there.
    fn raw_within(&self, at: u64, bytes: Option<&[u8]>) -> Result<Option<Raw>> {
        let Some(bytes) = bytes.filter(|bytes| bytes.len() >= HEADER_LENGTH) else { return Ok(None) };
        let header = self.header_of(at, bytes)?;
        let length = header.disk_length();
        let Some(block) = usize::try_from(length).ok().and_then(|length| bytes.get(..length)) else {
            return Ok(None);
        };
        self.verify(at, &header, block)?;
        let packed = Bytes::copy_from_slice(&block[..header.data_size as usize]);
        Ok(Some(Raw { header, packed, disk_length: length as u32 }))
    }

    /// The decompressed content of a block, after its header.
    fn unpack(&self, at: u64, raw: &Raw) -> Result<Bytes> {
        let payload = raw.packed.slice(HEADER_LENGTH..);
        let size = raw.header.unpacked_size as usize;
        if self.compression == Compression::None && payload.len() == size {
            return Ok(payload);
        }
        let bytes = self
            .compression
            .unpack(&payload, size)
            .map_err(|error| self.corrupt(at, "packed block", format!("{size} bytes"), error))?;
        Ok(bytes.into())
    }

    /// The block at `at`: a kept one, or from the cache or the file.
    pub(crate) fn block(
        &self,
        at: u64,
        disk_length: Option<u32>,
        expected: BlockKind,
        way: BlockAccess<'_>,
    ) -> Result<Arc<Block>> {
        let block = match way.held {
            None => self.look(at, disk_length, expected, way.options)?,
            Some(held) => held.block(at, || self.look(at, disk_length, expected, way.options))?,
        };
        if block.kind != expected {
            return Err(self.corrupt(at, "block kind", format!("{expected:?}"), format!("{:?}", block.kind)));
        }
        if expected == BlockKind::Data {
            note_data(block.bytes.len());
        }
        Ok(block)
    }

    /// The cells of the data block at `at` that `pick` chooses, for a reader of few cells. Returns a part of the block
    /// if it is on a device of the cache and a reader of many rows has not looked at it before; else the block.
    pub(crate) fn cells(
        &self,
        at: u64,
        disk_length: Option<u32>,
        way: BlockAccess<'_>,
        pick: impl FnOnce(&Part) -> Range<usize>,
    ) -> Result<Cells> {
        if !self.keeps_packed()
            && way.held.is_none_or(|held| held.is_first(at))
            && let Some(cells) = self.cached.part(at, way.options.cache_blocks, pick)
        {
            let length = match &cells {
                Cells::Part(part) => part.block_length(),
                Cells::Whole(block) if block.kind == BlockKind::Data && !block.packed => block.bytes.len(),
                Cells::Whole(_) => {
                    return self.block(at, disk_length, BlockKind::Data, way).map(Cells::Whole);
                }
            };
            note_data(length);
            return Ok(cells);
        }
        self.block(at, disk_length, BlockKind::Data, way).map(Cells::Whole)
    }

    /// Looks up the block at `at`, of any kind; the lookup is counted for kind `expected`.
    fn look(
        &self,
        at: u64,
        disk_length: Option<u32>,
        expected: BlockKind,
        options: ReadOptions,
    ) -> Result<Arc<Block>> {
        let read = || self.read_raw(at, disk_length, self.data_end);
        let found = self.cached.block(at, expected, options.ask(), || self.to_be_kept(at, read()?))?;
        self.unpacked(
            at,
            match found {
                Some(block) => block,
                None => self.arrived(at, expected, options, || {
                    disk_length.map_or(UNKNOWN_LENGTH, |length| length as usize)
                })?,
            },
        )
    }

    /// The block at `at`, not in the cache, from the bytes of an awaited read.
    ///
    /// If there are none, fails with the error that the caller can await. `length` returns the number of bytes to read
    /// then.
    #[cold]
    fn arrived(
        &self,
        at: u64,
        expected: BlockKind,
        options: ReadOptions,
        length: impl FnOnce() -> usize,
    ) -> Result<Arc<Block>> {
        let wanted = match self.fetches.lookup(at) {
            Lookup::Pending(missing) => return Err(Error::Missing(missing)),
            Lookup::Unknown => length(),
            Lookup::Arrived(bytes) => {
                if let Some(raw) = self.raw_within(at, Some(&bytes))? {
                    let block = self.to_be_kept(at, raw)?;
                    return Ok(self.cached.bring(at, expected, options.ask(), block));
                }
                let is_header_there = bytes.len() >= HEADER_LENGTH;
                if is_header_there { self.header_of(at, &bytes)?.disk_length() as usize } else { length() }
            }
        };
        let room = self.data_end.saturating_sub(at);
        if room < HEADER_LENGTH as u64 {
            return Err(self.corrupt(at, "room for a block", HEADER_LENGTH, room));
        }
        // A damaged header may claim any length: read what is in the file, and find that it is not the block.
        let wanted = wanted.max(HEADER_LENGTH).min(usize::try_from(room).unwrap_or(usize::MAX));
        if let Lookup::Arrived(bytes) = self.fetches.lookup(at)
            && bytes.len() >= wanted
        {
            return Err(self.corrupt(at, "block size", format!("at most {room}"), "more"));
        }
        Err(match self.file.read_awaited(at, wanted) {
            Some(read) => Error::Missing(self.fetches.begin(&self.name, at, wanted, read)),
            None => Error::NotCached,
        })
    }

    /// The block in the form for readers, even if the cache keeps it compressed.
    fn unpacked(&self, at: u64, block: Arc<Block>) -> Result<Arc<Block>> {
        if !block.packed {
            return Ok(block);
        }
        let raw = Raw {
            header: self.header_of(at, &block.bytes)?,
            packed: block.bytes.clone(),
            disk_length: block.disk_length,
        };
        self.decode(at, &raw).map(Arc::new)
    }

    /// The block at `at`, read from the file, in the form in which the cache keeps it.
    pub(crate) fn read_block(&self, at: u64, disk_length: Option<u32>) -> Result<Block> {
        self.to_be_kept(at, self.read_raw(at, disk_length, self.data_end)?)
    }

    /// The end of the cell at `place`, and the start of the next one.
    #[inline]
    fn cell_end(&self, bytes: &[u8], place: usize) -> Option<(usize, usize)> {
        let end = self.end_before_number(bytes, place)?;
        let rest = bytes.get(end..)?;
        let next = if self.has_mvcc { end + read_vlong(rest)?.1 } else { end };
        Some((end, next))
    }

    /// The end of the cell at `place`, without its sequence id; it may be beyond the block.
    #[inline]
    fn end_before_number(&self, bytes: &[u8], place: usize) -> Option<usize> {
        let word = |at: usize| -> Option<usize> {
            bytes.get(at..)?.first_chunk::<4>().map(|word| u32::from_be_bytes(*word) as usize)
        };
        let mut end = place.checked_add(8)?.checked_add(word(place)?)?.checked_add(word(place + 4)?)?;
        if self.has_tags {
            let tags = u16::from_be_bytes(*bytes.get(end..)?.first_chunk::<2>()?);
            end += 2 + usize::from(tags);
        }
        Some(end)
    }

    /// The range of the cell at `place` of a validated block, and its sequence id.
    #[inline]
    pub(crate) fn place_of_cell(&self, bytes: &[u8], place: usize) -> (Range<usize>, SequenceId) {
        let end = self.end_before_number(bytes, place).expect("the block was checked");
        let sequence = self.common_sequence.unwrap_or_else(|| {
            SequenceId(read_vlong(&bytes[end..]).map_or(0, |(number, _)| u64::try_from(number).unwrap_or(0)))
        });
        (place..end, sequence)
    }

    /// Whether a cell of the file may have a tag.
    #[inline]
    pub(crate) fn may_have_tags(&self) -> bool {
        self.may_have_tags
    }

    /// The newest sequence id of a cell; `None` if the file does not record it.
    #[inline]
    pub fn newest_write(&self) -> Option<SequenceId> {
        self.newest_write
    }

    /// The cell at `place` of a validated block, without sequence id, in a file without tags.
    #[inline]
    pub(crate) fn untagged_at(bytes: &[u8], place: usize) -> Cell<'_> {
        let word = |at: usize| -> usize {
            bytes[at..].first_chunk::<4>().map_or(0, |word| u32::from_be_bytes(*word) as usize)
        };
        Cell::trusted(&bytes[place..place + 8 + word(place) + word(place + 4)], SequenceId::ZERO)
    }

    /// Returns the size that HBase counts in size limits for a cell of this file, in bytes.
    ///
    /// HBase wraps the bytes of a block in an object of 38 bytes. With an encoding that shares bytes of keys (PREFIX,
    /// DIFF, FAST_DIFF) it makes an object of 120 bytes and adds row, family, qualifier, value and tags, but not the 20
    /// bytes of lengths, timestamp and type. In neither case it counts a length of tags where no tag is.
    #[inline]
    pub fn heap_size(&self, cell: Cell<'_>) -> usize {
        let length = cell.bytes().len();
        if !self.has_tags {
            return self.object_bytes() + length;
        }
        let has_length = !cell.tags().is_empty() && !self.encoding.shares_key_bytes();
        self.object_bytes() + length - if has_length { 0 } else { size_of::<u16>() }
    }

    /// The heap size of the cell at `place` of a validated block, in a file without tags.
    #[inline]
    pub(crate) fn untagged_heap_size(&self, bytes: &[u8], place: usize) -> usize {
        self.object_bytes() + Reader::untagged_at(bytes, place).bytes().len()
    }

    /// What HBase counts for a cell of this file beside its bytes.
    #[inline]
    fn object_bytes(&self) -> usize {
        if self.encoding.shares_key_bytes() { 100 } else { 38 }
    }

    /// The cell at `place` of a validated block.
    #[inline]
    pub(crate) fn cell_at<'a>(&self, bytes: &'a [u8], place: usize) -> Cell<'a> {
        let (cell, sequence) = self.place_of_cell(bytes, place);
        Cell::trusted(&bytes[cell], sequence)
    }

    pub(crate) fn root(&self) -> &Entries {
        &self.root
    }

    pub(crate) fn levels(&self) -> u32 {
        self.levels
    }

    /// Offset and length of the data block that would contain `position`, or of the first block if it is before all.
    pub(crate) fn find_block(
        &self,
        position: Position<'_>,
        way: BlockAccess<'_>,
    ) -> Result<Option<(u64, u32)>> {
        if self.root.is_empty() {
            return Ok(None);
        }
        let mut place = self.pick(&self.root, position);
        for _ in 1..self.levels {
            let block = self.block(place.0, Some(place.1), BlockKind::Index, way)?;
            let leaf = Leaf::checked(&block.bytes).expect("the block was checked");
            place = self.pick(&leaf, position);
        }
        Ok(Some(place))
    }

    /// Offset and length of the block, by this index level, that would contain `position`, or of the first block if it
    /// is before all.
    fn pick(&self, entries: &impl Ordered, position: Position<'_>) -> (u64, u32) {
        // An index key is at or before the block's first cell, so equal keys also count as before.
        let after = entries.partition(entries.of_row(position.key.row()), |entry| {
            self.comparator.compare_keys(Key::trusted(entry.key), position.key).is_le()
        });
        // Cells with the same key and newer sequence ids may end the block before.
        let mut index = after.saturating_sub(1);
        while index > 0
            && self.comparator.compare_keys(Key::trusted(entries.at(index).key), position.key).is_eq()
        {
            index -= 1;
        }
        let entry = entries.at(index);
        (entry.offset, entry.disk_length)
    }

    /// The first cells of the data block right after the one at `at`, whose length in the file is `disk_length`. `None`
    /// unless a part of it is available, or all of it is in memory.
    pub(crate) fn part_after(&self, at: u64, disk_length: u32, way: BlockAccess<'_>) -> Option<(u64, Cells)> {
        let next = at + u64::from(disk_length);
        if next > self.last_data || !way.held.is_none_or(|held| held.is_first(next)) {
            return None;
        }
        let cells = self.cached.part(next, way.options.cache_blocks, |_| 0..2)?;
        match &cells {
            Cells::Part(part) => note_data(part.block_length()),
            Cells::Whole(block) if block.kind == BlockKind::Data && !block.packed => {
                note_data(block.bytes.len())
            }
            // An unprepared block is looked up again by the caller, which handles it.
            Cells::Whole(_) => return None,
        }
        Some((next, cells))
    }

    /// The data block after the one at `at`, whose length in the file is `disk_length`; `None` after the last. `ahead`
    /// holds bytes read ahead for a caller that continues.
    pub(crate) fn block_after(
        &self,
        at: u64,
        disk_length: u32,
        options: ReadOptions,
        ahead: &mut Option<Box<Ahead>>,
    ) -> Result<Option<(u64, Arc<Block>)>> {
        if at >= self.last_data {
            return Ok(None);
        }
        let mut next = at + u64::from(disk_length);
        while next <= self.last_data {
            // Index leaves and bloom chunks lie between data blocks; the cache knows them, else they are read.
            let read = || self.to_be_kept(next, self.read_raw_ahead(next, options.read_type, ahead)?);
            let found = self.cached.block(next, BlockKind::Data, options.ask(), read)?;
            let block = match found {
                Some(block) => block,
                None => self.arrived_ahead(next, options, ahead)?,
            };
            let block = self.unpacked(next, block)?;
            if block.kind == BlockKind::Data {
                note_data(block.bytes.len());
                return Ok(Some((next, block)));
            }
            next += u64::from(block.disk_length);
        }
        Err(self.corrupt(at, "last data block", self.last_data, "none there"))
    }

    /// Like [`arrived`](Reader::arrived), for a cursor that reads ahead.
    #[cold]
    fn arrived_ahead(
        &self,
        at: u64,
        options: ReadOptions,
        ahead: &mut Option<Box<Ahead>>,
    ) -> Result<Arc<Block>> {
        let ahead = ahead.get_or_insert_with(Box::default);
        let window_max = self.cached.cache().options().read_ahead_bytes_max;
        let window = || ahead.window_awaited(at, options.read_type, window_max).max(UNKNOWN_LENGTH);
        let block = self.arrived(at, BlockKind::Data, options, window)?;
        ahead.note(at..at + u64::from(block.disk_length));
        Ok(block)
    }

    /// Prefetches cell offsets and the first `bytes` bytes of the data block after the one at `at`, whose length in the
    /// file is `disk_length`, if it is in memory. Does not count as a use of the block.
    pub(crate) fn fetch_block_after(&self, at: u64, disk_length: u32, bytes: usize) -> Option<Arc<Block>> {
        let next = at + u64::from(disk_length);
        if next > self.last_data {
            return None;
        }
        let block = self.cached.peek(BlockKind::Data, std::iter::once(next)).pop()??;
        cell::fetch_line(block.offsets.as_ptr().cast());
        cell::fetch_line(block.row_starts.as_ptr().cast());
        // Reading the first cell's offset would wait; the first cell is near the block's start.
        cell::fetch_whole(block.bytes.get(..bytes).unwrap_or_default());
        Some(block)
    }

    /// A cursor without a position.
    pub fn cursor(self: &Arc<Self>, options: ReadOptions) -> Cursor {
        Cursor::new(Arc::clone(self), options)
    }

    /// The name under which it was opened.
    pub fn name(&self) -> &FileName {
        &self.name
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Number of cells.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The order of the cells.
    pub fn comparator(&self) -> Comparator {
        self.comparator
    }

    /// The codec of its blocks.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The kind of its bloom filter.
    pub fn bloom(&self) -> BloomType {
        self.bloom.as_ref().map_or(BloomType::None, |(kind, _)| *kind)
    }

    /// The file info: properties by name.
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// Sequence id up to which every write of the store is in this file or an older one; `None` for a bulk-loaded file.
    pub fn max_sequence(&self) -> Option<SequenceId> {
        self.number(name::SEQUENCE_MAX).map(SequenceId)
    }

    /// Whether a job outside a region server wrote the file, to be bulk-loaded.
    pub fn is_for_bulk_load(&self) -> bool {
        self.info.contains_key(name::BULK_LOAD_TIME.as_bytes())
    }

    /// Gives every cell the sequence id under which the file was bulk-loaded, in place of what the file says.
    #[must_use]
    pub fn with_common_sequence(mut self, sequence: SequenceId) -> Reader {
        (self.common_sequence, self.newest_write) = (Some(sequence), Some(sequence));
        self
    }

    /// The newest sequence id of a cell. It may be greater than [`Reader::max_sequence`]; then not all writes between
    /// are in the file.
    pub fn newest_sequence(&self) -> Option<SequenceId> {
        self.common_sequence.filter(|_| self.has_mvcc).or_else(|| self.number(name::MVCC_MAX).map(SequenceId))
    }

    /// Whether a major compaction wrote it.
    pub fn is_major(&self) -> bool {
        self.info.get(name::MAJOR.as_bytes()).is_some_and(|flag| flag.first().is_some_and(|byte| *byte != 0))
    }

    /// When it was written, in ms since 1970.
    pub fn created(&self) -> Option<i64> {
        self.number(name::CREATED).map(|number| number as i64)
    }

    /// The oldest timestamp of a put; [`Timestamp::LATEST`] if there is none or it is not recorded.
    pub fn earliest_put(&self) -> Timestamp {
        self.number(name::EARLIEST_PUT).map_or(Timestamp::LATEST, |number| Timestamp(number as i64))
    }

    /// The oldest and newest timestamp of its cells; `None` if not recorded.
    pub fn span(&self) -> Option<TimeSpan> {
        self.span
    }

    fn parse_span(&self) -> Option<TimeSpan> {
        let range = self.info.get(name::TIME_RANGE.as_bytes())?;
        let (oldest, newest) = range.split_at_checked(8)?;
        let number = |bytes: &[u8]| bytes.try_into().ok().map(|word| Timestamp(i64::from_be_bytes(word)));
        Some(TimeSpan { oldest: number(oldest)?, newest: number(newest)? })
    }

    /// A key at or before the first cell; `None` for a file without cells.
    pub fn first_key(&self) -> Option<Key<'_>> {
        let first = (!self.root.is_empty()).then(|| self.root.at(0));
        first.and_then(|entry| Key::parse(entry.key).ok())
    }

    /// The key of the last cell; `None` for a file without cells.
    pub fn last_key(&self) -> Option<Key<'_>> {
        self.last_key.as_deref().map(Key::trusted)
    }

    /// The root index, and the number of index levels.
    pub(crate) fn root_index(&self) -> (&Entries, u32) {
        (&self.root, self.levels)
    }

    /// Offset of the first data block; `None` for a file without cells.
    pub(crate) fn first_data(&self) -> Option<u64> {
        (self.first_data != u64::MAX && !self.root.is_empty()).then_some(self.first_data)
    }

    /// Offset of the last data block.
    pub(crate) fn last_data(&self) -> u64 {
        self.last_data
    }

    /// The cache's state of the file.
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
