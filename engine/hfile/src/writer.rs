//! Writes an HFile from front to back.
//!
//! 1. Cells are appended to the open data block. When the block has the configured size it is compressed, checksummed
//!    and written. It is added to the open index leaf under a short key that separates it from the previous block.
//! 2. Between two data blocks the writer writes index leaves and bloom filter chunks that have become full.
//! 3. At the end it writes middle index blocks if needed, then the part that readers load when they open the file, and
//!    the trailer.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use cache::BlockKind;
use cell::{Cell, CellType, Comparator, KeyBuf, SequenceId, Timestamp};
use prost::Message;
use proto::pb;
use storage::{FileName, FileWriter, Kind, Outcome};

use crate::bloom::{BloomType, Builder};
use crate::cached_block::{self, CellPlaces, Neighbours};
use crate::compress::Compression;
use crate::encode::{self, Layout};
use crate::format::{
    BYTES_PER_CHECKSUM, BlockHeader, BlockType, CHECKSUM_CRC32C, Encoding, HEADER_LENGTH, TRAILER_LENGTH,
    VERSION, checksum, write_vlong,
};
use crate::index::{BLOCK_SIZE_MAX, Entries, Entry, Ordered};
use crate::info::{FileInfo, StoreFileInfo, TimeSpan, name};
use crate::on_write::{CacheOnWrite, data_block};
use crate::{Error, Result};

/// Size of an uncompressed block in bytes above which the block is written without being copied into a buffer.
const APART_MIN: usize = 1 << 20;

/// Settings of a new file.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Total size of a block's cells at which the block is closed, in bytes.
    pub block_size: usize,
    /// Compression of blocks.
    pub compression: Compression,
    /// Encoding of cells in data blocks.
    pub encoding: Encoding,
    /// Type of the Bloom filter.
    pub bloom: BloomType,
    /// The order of the cells.
    pub comparator: Comparator,
    /// Whether cells keep their tags. A file without tags records that and is smaller.
    pub with_tags: bool,
    /// Creation time for the file info, in milliseconds since 1970.
    pub created: i64,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            block_size: 64 << 10,
            compression: Compression::None,
            encoding: Encoding::None,
            bloom: BloomType::Row,
            comparator: Comparator::Table,
            with_tags: true,
            created: 0,
        }
    }
}

/// The result of writing an HFile.
#[derive(Clone, Debug)]
pub struct Written {
    /// Size of the file on disk, in bytes.
    pub size: u64,
    /// Number of cells in the file.
    pub entries: u64,
    /// The oldest and the newest timestamp of the file's cells; `None` for a file without cells.
    pub span: Option<TimeSpan>,
    /// Offset and length of the data blocks in which enough cells were [marked](Writer::mark_warm), and of the index
    /// and Bloom filter blocks, in file order. Empty if there are no such data blocks.
    pub warm: Vec<(u64, u32)>,
    /// The end of the file, which a reader needs when it [opens the file](crate::Reader::open_written).
    pub end: Bytes,
}

/// Writes one HFile.
pub struct Writer {
    file: Box<dyn FileWriter>,
    name: FileName,
    options: WriterOptions,
    /// The open block, uncompressed.
    block: Vec<u8>,
    /// Offset of each cell in the open block.
    cell_starts: Vec<u32>,
    /// Offset of each row in the open block.
    row_starts: Vec<u32>,
    encoded: Vec<u8>,
    block_first: KeyBuf,
    last: KeyBuf,
    any: bool,
    packed: Vec<u8>,
    previous: [Option<u64>; 11],
    leaf: Entries,
    root: Entries,
    /// Offset, size and number of entries of each written leaf.
    leaves: Vec<(u64, u32, usize)>,
    data_blocks: u64,
    first_data: Option<u64>,
    last_data: Option<u64>,
    bloom: Builder,
    delete_bloom: Builder,
    deletes: u64,
    entries: u64,
    key_bytes: u64,
    value_bytes: u64,
    unpacked_bytes: u64,
    index_bytes: u64,
    tags_max: usize,
    mvcc_max: SequenceId,
    biggest: (usize, KeyBuf),
    span: Option<TimeSpan>,
    earliest_put: Timestamp,
    /// Number of marked cells in the open block.
    warm_cells: usize,
    /// Whether any block had enough marked cells.
    any_is_warm: bool,
    warm: Vec<(u64, u32)>,
    cache: Option<CacheOnWrite>,
    /// The bytes written since the part that readers load when they open the file; `None` before.
    end: Option<BytesMut>,
}

impl Writer {
    /// Creates a writer to `file`; `name` is the file's name in errors.
    pub fn create(file: Box<dyn FileWriter>, name: FileName, options: WriterOptions) -> Writer {
        Writer {
            file,
            name,
            block: Vec::with_capacity(options.block_size + (options.block_size >> 3)),
            cell_starts: Vec::new(),
            row_starts: Vec::new(),
            encoded: Vec::new(),
            block_first: KeyBuf::default(),
            last: KeyBuf::default(),
            any: false,
            packed: Vec::new(),
            previous: [None; 11],
            leaf: Entries::default(),
            root: Entries::default(),
            leaves: Vec::new(),
            data_blocks: 0,
            first_data: None,
            last_data: None,
            bloom: Builder::new(options.bloom),
            delete_bloom: Builder::new(BloomType::Row),
            deletes: 0,
            entries: 0,
            key_bytes: 0,
            value_bytes: 0,
            unpacked_bytes: 0,
            index_bytes: 0,
            tags_max: 0,
            mvcc_max: SequenceId::ZERO,
            biggest: (0, KeyBuf::default()),
            span: None,
            earliest_put: Timestamp::LATEST,
            warm_cells: 0,
            any_is_warm: false,
            warm: Vec::new(),
            cache: None,
            end: None,
            options,
        }
    }

    /// Caches blocks while they are written.
    #[must_use]
    pub fn with_cache(self, cache: CacheOnWrite) -> Writer {
        Writer { cache: Some(cache), ..self }
    }

    /// Returns the number of bytes written so far, including those of the open block before compression.
    pub fn size(&self) -> u64 {
        self.file.size() + self.block.len() as u64
    }

    /// Returns the number of cells appended so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Appends a cell. Fails with [`Error::OutOfOrder`] if it sorts before the previous one.
    pub fn append(&mut self, cell: Cell<'_>) -> Result<()> {
        let new_row = !self.any || self.last.key().row() != cell.row();
        if self.any && self.options.comparator.compare(cell.into(), self.last.position()).is_lt() {
            return Err(Error::OutOfOrder { last: format!("{:?}", self.last), next: format!("{cell:?}") });
        }
        if self.block.len() >= self.options.block_size {
            self.close_block()?;
            self.write_ready()?;
        }
        if self.cell_starts.is_empty() {
            self.begin_block(cell);
        }
        if new_row || self.cell_starts.is_empty() {
            self.row_starts.push(self.block.len() as u32);
        }
        self.cell_starts.push(self.block.len() as u32);
        let tags = cell.tags().bytes();
        self.block.extend_from_slice(cell.bytes_without_tags());
        if self.options.with_tags {
            self.block.extend_from_slice(&(tags.len() as u16).to_be_bytes());
            self.block.extend_from_slice(tags);
            self.tags_max = self.tags_max.max(tags.len());
        }
        write_vlong(&mut self.block, cell.sequence().0 as i64);
        self.count(cell);
        self.bloom.add(cell);
        self.last.copy_from(cell);
        self.any = true;
        Ok(())
    }

    /// Marks the last appended cell, so that its block may be cached after the file was written. A block is in
    /// [`Written::warm`] if at least half of its cells are marked. So the cached blocks have at most twice the bytes of
    /// the marked cells.
    #[inline]
    pub fn mark_warm(&mut self) {
        self.warm_cells += 1;
    }

    fn count(&mut self, cell: Cell<'_>) {
        let (key, value) = (cell.key(), cell.value().len());
        self.entries += 1;
        self.key_bytes += key.bytes().len() as u64;
        self.value_bytes += value as u64;
        self.mvcc_max = self.mvcc_max.max(cell.sequence());
        let length = key.bytes().len() + value;
        if length > self.biggest.0 {
            self.biggest.0 = length;
            self.biggest.1.copy_from(cell);
        }
        let timestamp = key.timestamp();
        self.span = Some(match self.span {
            None => TimeSpan { oldest: timestamp, newest: timestamp },
            Some(span) => TimeSpan { oldest: span.oldest.min(timestamp), newest: span.newest.max(timestamp) },
        });
        match key.cell_type() {
            Some(CellType::Put) => self.earliest_put = self.earliest_put.min(timestamp),
            Some(kind) if kind.is_family_delete() => {
                self.deletes += 1;
                self.delete_bloom.add(cell);
            }
            _ => {}
        }
    }

    /// Records the key for the index entry of the block that begins with `cell`.
    fn begin_block(&mut self, cell: Cell<'_>) {
        let separator = if self.any && self.options.comparator == Comparator::Table {
            shortest_row_between(self.last.key().row(), cell.row())
        } else {
            None
        };
        match separator {
            Some(row) => self.block_first = KeyBuf::first_on_row(&row),
            None => self.block_first.copy_from(cell),
        }
    }

    fn close_block(&mut self) -> Result<()> {
        if self.cell_starts.is_empty() {
            return Ok(());
        }
        let (kind, block) = match self.options.encoding {
            Encoding::None => (BlockType::Data, std::mem::take(&mut self.block)),
            encoding => {
                self.encode_block(encoding);
                (BlockType::EncodedData, std::mem::take(&mut self.encoded))
            }
        };
        let written = self.write_block(kind, &block);
        // The next block reuses the buffer.
        match kind {
            BlockType::Data => self.block = block,
            _ => self.encoded = block,
        }
        let (offset, disk_length) = written?;
        if self.is_warm() {
            self.any_is_warm = true;
            self.warm.push((offset, disk_length));
        }
        self.warm_cells = 0;
        self.block.clear();
        self.encoded.clear();
        self.cell_starts.clear();
        self.row_starts.clear();
        self.data_blocks += 1;
        self.first_data.get_or_insert(offset);
        self.last_data = Some(offset);
        let key = std::mem::take(&mut self.block_first);
        self.leaf.push(Entry { offset, disk_length, key: key.key().bytes() });
        self.block_first = key;
        Ok(())
    }

    /// Whether enough cells of the open block are marked.
    fn is_warm(&self) -> bool {
        2 * self.warm_cells >= self.cell_starts.len()
    }

    fn encode_block(&mut self, encoding: Encoding) {
        let out = &mut self.encoded;
        if encoding != Encoding::RowIndexV1 {
            let layout = Layout { has_tags: self.options.with_tags, has_mvcc: true, tags_by_number: false };
            return encode::encode(encoding, layout, &self.block, &self.cell_starts, out);
        }
        out.put_u16(encoding.id().expect("an encoding with an id"));
        out.extend_from_slice(&self.block);
        out.put_u32(self.row_starts.len() as u32);
        for &start in &self.row_starts {
            out.put_u32(start);
        }
        out.put_u32(self.block.len() as u32);
    }

    /// Writes full index leaves and bloom filter chunks.
    fn write_ready(&mut self) -> Result<()> {
        if self.leaf.size() >= BLOCK_SIZE_MAX {
            self.write_leaf()?;
        }
        self.write_chunks()
    }

    fn write_leaf(&mut self) -> Result<()> {
        let leaf = std::mem::take(&mut self.leaf);
        let mut bytes = Vec::with_capacity(leaf.size());
        leaf.write_leaf(&mut bytes);
        self.index_bytes += bytes.len() as u64;
        let (offset, disk_length) = self.write_block(BlockType::LeafIndex, &bytes)?;
        self.root.push(Entry { offset, disk_length, key: leaf.at(0).key });
        self.leaves.push((offset, disk_length, leaf.len()));
        Ok(())
    }

    fn write_chunks(&mut self) -> Result<()> {
        for deletes in [false, true] {
            let builder = if deletes { &mut self.delete_bloom } else { &mut self.bloom };
            for chunk in std::mem::take(&mut builder.full) {
                let (offset, disk_length) = self.write_block(BlockType::BloomChunk, &chunk.bytes)?;
                let builder = if deletes { &mut self.delete_bloom } else { &mut self.bloom };
                builder.written(offset, disk_length, chunk.first_key);
            }
        }
        Ok(())
    }

    /// Compresses, checksums and writes one block. Returns its offset, and its size on disk with the header.
    fn write_block(&mut self, kind: BlockType, payload: &[u8]) -> Result<(u64, u32)> {
        self.packed.clear();
        self.packed.resize(HEADER_LENGTH, 0);
        let failed = |name: &FileName, error: &io::Error| {
            Error::Storage(storage::Error::from_io(error, Outcome::MayHaveHappened, name, "pack"))
        };
        // A large uncompressed block is written in two parts. Joining them would need a second copy in memory.
        let keeps_packed = self.keeps_packed();
        let is_apart =
            self.options.compression == Compression::None && payload.len() > APART_MIN && !keeps_packed;
        if !is_apart {
            self.options
                .compression
                .pack(payload, &mut self.packed)
                .map_err(|error| failed(&self.name, &error))?;
        }
        let apart: &[u8] = if is_apart { payload } else { &[] };
        let data_size = self.packed.len() + apart.len();
        let sums = 4 * data_size.div_ceil(BYTES_PER_CHECKSUM as usize);
        let size = u32::try_from(data_size + sums).ok().filter(|_| payload.len() <= i32::MAX as usize);
        let Some(disk_length) = size.filter(|size| *size <= i32::MAX as u32) else {
            return Err(Error::Storage(
                storage::Error::new(Kind::TooLarge, Outcome::DidNotHappen, &self.name, "write")
                    .because(format!("a block of {} bytes is beyond the format", payload.len())),
            ));
        };
        let offset = self.file.size();
        let slot = &mut self.previous[kind as usize];
        let header = BlockHeader {
            kind,
            disk_size: disk_length - HEADER_LENGTH as u32,
            unpacked_size: payload.len() as u32,
            previous: slot.map_or(-1, |previous| previous as i64),
            checksum: CHECKSUM_CRC32C,
            bytes_per_checksum: BYTES_PER_CHECKSUM,
            data_size: data_size as u32,
        };
        *slot = Some(offset);
        header.write(&mut self.packed[..HEADER_LENGTH]);
        if is_apart {
            let (first, rest) = apart.split_at(BYTES_PER_CHECKSUM as usize - HEADER_LENGTH);
            let first = [&self.packed, first].concat();
            self.file.write(&self.packed)?;
            self.file.write(apart)?;
            if let Some(end) = &mut self.end {
                end.extend_from_slice(&self.packed);
                end.extend_from_slice(apart);
            }
            self.packed.clear();
            for chunk in std::iter::once(&first[..]).chain(rest.chunks(BYTES_PER_CHECKSUM as usize)) {
                self.packed.extend_from_slice(&checksum(CHECKSUM_CRC32C, chunk).to_be_bytes());
            }
        } else {
            for at in (0..data_size).step_by(BYTES_PER_CHECKSUM as usize) {
                let end = (at + BYTES_PER_CHECKSUM as usize).min(data_size);
                let sum = checksum(CHECKSUM_CRC32C, &self.packed[at..end]);
                self.packed.extend_from_slice(&sum.to_be_bytes());
            }
        }
        self.file.write(&self.packed)?;
        if let Some(end) = &mut self.end {
            end.extend_from_slice(&self.packed);
        }
        if matches!(kind, BlockType::LeafIndex | BlockType::IntermediateIndex | BlockType::BloomChunk) {
            self.warm.push((offset, disk_length));
        }
        self.unpacked_bytes += (HEADER_LENGTH + payload.len()) as u64;
        self.cache_block(offset, payload, &header);
        Ok((offset, disk_length))
    }

    /// Whether the cache keeps data blocks of this file as they are in the file.
    fn keeps_packed(&self) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|cache| cache.keeps_packed(self.options.compression, self.options.encoding))
    }

    /// Passes the block that was just written to the cache, if it is one that the cache keeps.
    fn cache_block(&self, at: u64, payload: &[u8], header: &BlockHeader) {
        let Some(cache) = &self.cache else { return };
        let neighbours = Neighbours {
            disk_length: header.disk_length() as u32,
            previous: u64::try_from(header.previous).ok(),
        };
        let comparator = self.options.comparator;
        let other = |kind| {
            cache.offer(at, kind, payload.len(), self.any_is_warm, || {
                let bytes = Bytes::copy_from_slice(payload);
                cached_block::ready(kind, bytes, CellPlaces::default(), neighbours, comparator)
            });
        };
        let cells = match header.kind {
            BlockType::Data => payload,
            // The encoded cells are in `payload`.
            BlockType::EncodedData => &self.block,
            BlockType::LeafIndex | BlockType::IntermediateIndex => return other(BlockKind::Index),
            BlockType::BloomChunk => return other(BlockKind::Bloom),
            _ => return,
        };
        cache.offer(at, BlockKind::Data, cells.len(), self.is_warm(), || {
            if self.keeps_packed() {
                let packed = &self.packed[..header.data_size as usize];
                return cached_block::packed(Bytes::copy_from_slice(packed), neighbours);
            }
            data_block(cells, &self.cell_starts, &self.row_starts, neighbours, comparator)
        });
    }

    /// Writes the part that readers load when they open the file, and the trailer. The file is durable when this
    /// succeeds. After an error the caller deletes what was written.
    pub fn finish(mut self, store: StoreFileInfo) -> Result<Written> {
        self.close_block()?;
        self.bloom.close_chunk();
        self.delete_bloom.close_chunk();
        self.write_chunks()?;
        let levels = self.finish_index()?;
        let load_on_open = self.file.size();
        self.end = Some(BytesMut::new());

        let mut root = Vec::new();
        for entry in self.root.iter() {
            entry.write_root(&mut root);
        }
        if levels > 1 {
            self.write_middle(&mut root);
        }
        self.index_bytes += root.len() as u64;
        let root_entries = self.root.len() as u32;
        self.write_block(BlockType::RootIndex, &root)?;
        self.write_block(BlockType::RootIndex, &[])?;
        let file_info_offset = self.file.size();
        let info = self.file_info(store);
        self.write_block(BlockType::FileInfo, &info)?;
        if let Some(meta) = self.bloom.meta() {
            self.write_block(BlockType::GeneralBloomMeta, &meta)?;
        }
        if let Some(meta) = self.delete_bloom.meta() {
            self.write_block(BlockType::DeleteFamilyBloomMeta, &meta)?;
        }
        let trailer = pb::FileTrailerProto {
            file_info_offset: Some(file_info_offset),
            load_on_open_data_offset: Some(load_on_open),
            uncompressed_data_index_size: Some(self.index_bytes),
            total_uncompressed_bytes: Some(self.unpacked_bytes + TRAILER_LENGTH as u64),
            data_index_count: Some(root_entries),
            meta_index_count: Some(0),
            entry_count: Some(self.entries),
            num_data_index_levels: Some(levels),
            first_data_block_offset: Some(self.first_data.unwrap_or(u64::MAX)),
            last_data_block_offset: Some(self.last_data.unwrap_or(u64::MAX)),
            comparator_class_name: Some(comparator_class(self.options.comparator).to_owned()),
            compression_codec: Some(self.options.compression.code()),
            encryption_key: None,
        };
        let mut bytes = b"TRABLK\"$".to_vec();
        bytes.extend_from_slice(&trailer.encode_length_delimited_to_vec());
        bytes.resize(TRAILER_LENGTH - 4, 0);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        self.file.write(&bytes)?;
        let mut end = self.end.take().unwrap_or_default();
        end.extend_from_slice(&bytes);
        let (entries, span) = (self.entries, self.span);
        let warm = if self.any_is_warm { self.warm } else { Vec::new() };
        let size = self.file.finish()?;
        if let Some(cache) = self.cache {
            cache.finish(size);
        }
        Ok(Written { size, entries, span, warm, end: end.freeze() })
    }

    /// Stops writing, and deletes the file.
    pub fn abandon(self) {
        self.file.abandon();
    }

    /// Finishes the index: leaves the root's entries in `self.root`, and returns the number of index levels.
    fn finish_index(&mut self) -> Result<u32> {
        if self.leaves.is_empty() {
            // A single leaf becomes the root. In such a file readers derive the middle key from the root.
            self.root = std::mem::take(&mut self.leaf);
            return Ok(1);
        }
        if !self.leaf.is_empty() {
            self.write_leaf()?;
        }
        let mut levels = 2;
        while self.root.size() > BLOCK_SIZE_MAX && self.root.len() > 16 {
            let below = std::mem::take(&mut self.root);
            let mut chunk = Entries::default();
            for index in 0..below.len() {
                chunk.push(below.at(index));
                if chunk.size() >= BLOCK_SIZE_MAX || index + 1 == below.len() {
                    let mut bytes = Vec::with_capacity(chunk.size());
                    chunk.write_leaf(&mut bytes);
                    self.index_bytes += bytes.len() as u64;
                    let (offset, disk_length) = self.write_block(BlockType::IntermediateIndex, &bytes)?;
                    self.root.push(Entry { offset, disk_length, key: chunk.at(0).key });
                    chunk.clear();
                }
            }
            levels += 1;
        }
        Ok(levels)
    }

    /// Writes the position of the middle entry of all leaves.
    fn write_middle(&self, root: &mut Vec<u8>) {
        let total: usize = self.leaves.iter().map(|(.., entries)| entries).sum();
        let mut middle = (total.saturating_sub(1)) / 2;
        for &(offset, disk_length, entries) in &self.leaves {
            if middle < entries {
                root.put_u64(offset);
                root.put_u32(disk_length);
                root.put_u32(middle as u32);
                return;
            }
            middle -= entries;
        }
    }

    fn file_info(&self, store: StoreFileInfo) -> Vec<u8> {
        let mut info = FileInfo::new();
        let mut set = |name: &'static str, value: Vec<u8>| {
            info.insert(Bytes::from_static(name.as_bytes()), Bytes::from(value));
        };
        let average =
            |total: u64| (total.checked_div(self.entries).unwrap_or(0) as u32).to_be_bytes().to_vec();
        if self.any {
            set(name::LAST_KEY, self.last.key().bytes().to_vec());
            set(name::BIGGEST_KEY, self.biggest.1.key().bytes().to_vec());
            set(name::BIGGEST_LENGTH, (self.biggest.0 as u64).to_be_bytes().to_vec());
        }
        set(name::AVERAGE_KEY_LENGTH, average(self.key_bytes));
        set(name::AVERAGE_VALUE_LENGTH, average(self.value_bytes));
        set(name::CREATED, self.options.created.to_be_bytes().to_vec());
        if self.options.with_tags {
            set(name::TAGS_LENGTH_MAX, (self.tags_max as u32).to_be_bytes().to_vec());
            set(name::TAGS_COMPRESSED, vec![0]);
        }
        set(name::KEY_VALUE_VERSION, 1u32.to_be_bytes().to_vec());
        set(name::MVCC_MAX, self.mvcc_max.0.to_be_bytes().to_vec());
        if self.options.encoding != Encoding::None {
            set(name::ENCODING, self.options.encoding.name().as_bytes().to_vec());
        }
        set(name::SEQUENCE_MAX, store.max_sequence.0.to_be_bytes().to_vec());
        set(name::MAJOR, vec![if store.major { 0xff } else { 0 }]);
        let span = self.span.unwrap_or(TimeSpan { oldest: Timestamp::LATEST, newest: Timestamp(-1) });
        let mut range = span.oldest.0.to_be_bytes().to_vec();
        range.extend_from_slice(&span.newest.0.to_be_bytes());
        set(name::TIME_RANGE, range);
        set(name::EARLIEST_PUT, self.earliest_put.0.to_be_bytes().to_vec());
        for (name, fact) in store.more {
            set(name, fact.into());
        }
        set(name::DELETE_FAMILIES, self.deletes.to_be_bytes().to_vec());
        set(name::COMPACTED, pbuf(&pb::CompactionEventTracker::default(), true));
        if self.bloom.keys() > 0 {
            set(name::BLOOM_TYPE, self.options.bloom.name().as_bytes().to_vec());
            if let BloomType::RowPrefix(length) = self.options.bloom {
                set(name::BLOOM_PREFIX, u32::from(length).to_be_bytes().to_vec());
            }
            set(name::BLOOM_LAST_KEY, self.bloom.last_key().to_vec());
        }
        let map_entry =
            info.into_iter().map(|(first, second)| pb::BytesBytesPair { first, second }).collect();
        pbuf(&pb::FileInfoProto { map_entry }, false)
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("name", &self.name)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

/// Encodes a message after HBase's magic: without its length if `bare`, else with its length before it.
fn pbuf(message: &impl Message, bare: bool) -> Vec<u8> {
    let mut bytes = BytesMut::from(&b"PBUF"[..]);
    if bare {
        bytes.extend_from_slice(&message.encode_to_vec());
    } else {
        bytes.extend_from_slice(&message.encode_length_delimited_to_vec());
    }
    bytes.to_vec()
}

/// Returns the class name that HBase's readers instantiate to compare keys. It is the old name of the class, as HBase
/// writes it.
fn comparator_class(comparator: Comparator) -> &'static str {
    match comparator {
        Comparator::Table => "org.apache.hadoop.hbase.KeyValue$KVComparator",
        Comparator::Meta => "org.apache.hadoop.hbase.KeyValue$MetaComparator",
    }
}

/// Returns the shortest row that is after `last` and not after `next`; `None` when the two are equal or no such row is
/// shorter than `next`.
fn shortest_row_between(last: &[u8], next: &[u8]) -> Option<Vec<u8>> {
    let common = last.iter().zip(next).take_while(|(left, right)| left == right).count();
    if common >= next.len() || last == next {
        return None;
    }
    // `next[..=common]` is after `last` (it differs there, or `last` ends there) and a prefix of `next`.
    (common + 1 < next.len()).then(|| next[..=common].to_vec())
}
