//! The attributes of tables and families that the engine uses: typed, validated, with HBase's defaults.

use cell::string_binary;
use std::str::FromStr;

use super::{Attributes, FamilyDescriptor, TableDescriptor};
use crate::Error;

/// The value of the TTL attribute, in seconds, with which cells never expire.
pub const TTL_FOREVER_SECONDS: i32 = i32::MAX;

/// Declares a type whose values are a closed set of words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident = $default:ident; $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Returns the word used in the attribute.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl FromStr for $name {
            type Err = &'static str;

            fn from_str(word: &str) -> Result<Self, &'static str> {
                match word.to_ascii_uppercase().as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(concat!("one of" $(, " ", $word)+)),
                }
            }
        }
    };
}

words! {
    /// Whether deleted cells are kept for reads of an earlier time.
    KeepDeletedCells = False;
    /// Compactions drop deleted cells.
    #[default]
    False = "FALSE",
    /// Compactions keep deleted cells as long as the number of versions permits.
    True = "TRUE",
    /// Compactions keep deleted cells until their TTL expires.
    Ttl = "TTL",
}
words! {
    /// The compression of blocks.
    Compression = None;
    /// No compression.
    #[default]
    None = "NONE",
    /// Gzip.
    Gz = "GZ",
    /// LZO; not supported.
    Lzo = "LZO",
    /// Snappy.
    Snappy = "SNAPPY",
    /// LZ4.
    Lz4 = "LZ4",
    /// Zstandard.
    Zstd = "ZSTD",
    /// Bzip2; not supported.
    Bzip2 = "BZIP2",
    /// LZMA; not supported.
    Lzma = "LZMA",
    /// Brotli; not supported.
    Brotli = "BROTLI",
}
words! {
    /// The encoding of keys in a data block.
    DataBlockEncoding = None;
    /// Each cell has its whole key.
    #[default]
    None = "NONE",
    /// Each cell has its key without the prefix shared with the previous key.
    Prefix = "PREFIX",
    /// Each cell has the differences between its key and the previous key.
    Diff = "DIFF",
    /// As [`Diff`](DataBlockEncoding::Diff), in a form that is faster to decode.
    FastDiff = "FAST_DIFF",
    /// Each cell has its whole key, and an index of the rows follows the cells.
    RowIndexV1 = "ROW_INDEX_V1",
}
words! {
    /// Which part of the key a file's Bloom filter contains.
    BloomType = Row;
    /// No filter.
    None = "NONE",
    /// The filter contains rows.
    #[default]
    Row = "ROW",
    /// The filter contains rows with qualifiers.
    RowCol = "ROWCOL",
    /// The filter contains row prefixes of a fixed length.
    RowPrefixFixedLength = "ROWPREFIX_FIXED_LENGTH",
}
words! {
    /// The level of in-memory compaction.
    InMemoryCompaction = None;
    /// No in-memory compaction.
    #[default]
    None = "NONE",
    /// Stores the index of sealed segments as arrays, and merges the indexes.
    Basic = "BASIC",
    /// As [`Basic`](InMemoryCompaction::Basic), and drops redundant cells.
    Eager = "EAGER",
    /// Chooses between `BASIC` and `EAGER` by the expected benefit.
    Adaptive = "ADAPTIVE",
}
words! {
    /// What a write waits for before it is acknowledged.
    Durability = UseDefault;
    /// Waits as the table's durability says. If the table itself has this value, it means SYNC_WAL.
    #[default]
    UseDefault = "USE_DEFAULT",
    /// Waits for nothing: the write is not logged.
    SkipWal = "SKIP_WAL",
    /// Waits for no write to the log: the log takes the edit, and writes and syncs it soon after.
    AsyncWal = "ASYNC_WAL",
    /// Waits until the log has the edit: on the disk or handed to the operating system, as `hbase.wal.hsync` says.
    SyncWal = "SYNC_WAL",
    /// Waits until the log is synced to the disk.
    FsyncWal = "FSYNC_WAL",
}

/// The options of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyOptions {
    /// VERSIONS: number of versions of a cell that are kept. Default 1.
    pub versions_max: u32,
    /// MIN_VERSIONS: number of versions that are kept although their TTL has expired. Default 0.
    pub versions_min: u32,
    /// TTL in seconds; the default [`TTL_FOREVER_SECONDS`] never expires.
    pub ttl_seconds: i32,
    /// KEEP_DELETED_CELLS: whether deleted cells are kept for reads of an earlier time. Default FALSE.
    pub keep_deleted_cells: KeepDeletedCells,
    /// BLOCKSIZE in bytes, before compression. Default 65536.
    pub block_bytes: u32,
    /// BLOCKCACHE: whether data blocks are cached when they are read. Default true.
    pub block_cache: bool,
    /// IN_MEMORY: whether the block cache prefers to keep the family's blocks. Default false.
    pub in_memory: bool,
    /// IN_MEMORY_COMPACTION; `None` leaves it to the configuration.
    pub in_memory_compaction: Option<InMemoryCompaction>,
    /// COMPRESSION: compression of flushed files. Default NONE.
    pub compression: Compression,
    /// Compression of files that minor compactions write: COMPRESSION_COMPACT_MINOR, or else COMPRESSION_COMPACT, or
    /// else COMPRESSION.
    pub compression_minor: Compression,
    /// Compression of files that major compactions write: COMPRESSION_COMPACT_MAJOR, or else COMPRESSION_COMPACT, or
    /// else COMPRESSION.
    pub compression_major: Compression,
    /// DATA_BLOCK_ENCODING: encoding of keys in data blocks. Default NONE.
    pub data_block_encoding: DataBlockEncoding,
    /// BLOOMFILTER: which part of the key the Bloom filters contain. Default ROW.
    pub bloom: BloomType,
    /// `RowPrefixBloomFilter.prefix_length`: length of the row prefixes in the Bloom filter, in bytes. The family's
    /// configuration overrides the attribute. `None` if neither is set, or if the configuration's value is not a number
    /// up to 65,535; such an attribute is an error.
    pub bloom_prefix: Option<u16>,
    /// REPLICATION_SCOPE: 1 if writes are replicated to other clusters, 0 if not. Default 0.
    pub replication_scope: i32,
    /// CACHE_DATA_ON_WRITE: whether flushes cache the data blocks that they write. Default false.
    pub cache_data_on_write: bool,
    /// CACHE_INDEX_ON_WRITE: whether the index blocks of a new file are cached. Default false.
    pub cache_indexes_on_write: bool,
    /// CACHE_BLOOMS_ON_WRITE: whether the Bloom filter chunks of a new file are cached. Default false.
    pub cache_blooms_on_write: bool,
    /// EVICT_BLOCKS_ON_CLOSE: whether a file's blocks are evicted when the file is closed. Default false.
    pub evict_blocks_on_close: bool,
    /// PREFETCH_BLOCKS_ON_OPEN: whether a file is read into the cache when it is opened. Default false.
    pub prefetch_blocks_on_open: bool,
    /// COMPRESS_TAGS: whether tags are compressed, for encodings that support it. Default true.
    pub compress_tags: bool,
    /// NEW_VERSION_BEHAVIOR: whether a delete marker hides only cells with a smaller sequence id. Default false.
    pub new_version_behavior: bool,
    /// DFS_REPLICATION: number of copies that the file system keeps; 0 means its own default. Default 0.
    pub dfs_replication: i32,
    /// IS_MOB: whether values above the threshold are written to MOB files. Default false.
    pub is_mob: bool,
    /// MOB_THRESHOLD: values with more bytes than this are written to MOB files. Default 102400.
    pub mob_threshold: u64,
}

/// The options of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// MAX_FILESIZE in bytes, the size at which a region is split; `None` leaves it to `hbase.hregion.max.filesize`.
    pub max_file_bytes: Option<u64>,
    /// MEMSTORE_FLUSHSIZE in bytes, the size at which a memstore is flushed; `None` leaves it to
    /// `hbase.hregion.memstore.flush.size`.
    pub flush_bytes: Option<u64>,
    /// READONLY: whether the table refuses writes. Default false.
    pub read_only: bool,
    /// COMPACTION_ENABLED: whether the server compacts the table's regions by itself. Default true.
    pub compaction_enabled: bool,
    /// SPLIT_ENABLED: whether the table's regions are split. Default true.
    pub split_enabled: bool,
    /// MERGE_ENABLED: whether the table's regions are merged. Default true.
    pub merge_enabled: bool,
    /// DURABILITY: what a write waits for before it is acknowledged. Default USE_DEFAULT.
    pub durability: Durability,
    /// REGION_REPLICATION: number of replicas of each region. Default 1.
    pub region_replication: i32,
    /// PRIORITY: regions of tables with a greater priority are opened first in HBase. Default 0.
    pub priority: i32,
}

/// The attribute, or configuration key, with the length of the row prefixes in a Bloom filter.
pub(super) const BLOOM_PREFIX: &str = "RowPrefixBloomFilter.prefix_length";

impl FamilyOptions {
    pub(super) fn read(family: &FamilyDescriptor) -> Result<Self, Error> {
        let read =
            Reader { owner: format!("family {}", string_binary(family.name())), of: family.attributes() };
        let compression: Compression = read.word("COMPRESSION")?.unwrap_or_default();
        let compact: Compression = read.word("COMPRESSION_COMPACT")?.unwrap_or(compression);
        Ok(Self {
            versions_max: read.number("VERSIONS", "a count of at least 1")?.unwrap_or(1),
            versions_min: read.number("MIN_VERSIONS", "a count")?.unwrap_or(0),
            ttl_seconds: read.number("TTL", "seconds")?.unwrap_or(TTL_FOREVER_SECONDS),
            keep_deleted_cells: read.word("KEEP_DELETED_CELLS")?.unwrap_or_default(),
            block_bytes: read.number("BLOCKSIZE", "bytes")?.unwrap_or(65536),
            block_cache: read.flag("BLOCKCACHE", true)?,
            in_memory: read.flag("IN_MEMORY", false)?,
            in_memory_compaction: read.word("IN_MEMORY_COMPACTION")?,
            compression,
            compression_minor: read.word("COMPRESSION_COMPACT_MINOR")?.unwrap_or(compact),
            compression_major: read.word("COMPRESSION_COMPACT_MAJOR")?.unwrap_or(compact),
            data_block_encoding: read.word("DATA_BLOCK_ENCODING")?.unwrap_or_default(),
            bloom: read.word("BLOOMFILTER")?.unwrap_or_default(),
            bloom_prefix: match family.configured(BLOOM_PREFIX) {
                Some(text) => text.parse().ok(),
                None => read.number(BLOOM_PREFIX, "bytes")?,
            },
            replication_scope: read.number("REPLICATION_SCOPE", "0 or 1")?.unwrap_or(0),
            cache_data_on_write: read.flag("CACHE_DATA_ON_WRITE", false)?,
            cache_indexes_on_write: read.flag("CACHE_INDEX_ON_WRITE", false)?,
            cache_blooms_on_write: read.flag("CACHE_BLOOMS_ON_WRITE", false)?,
            evict_blocks_on_close: read.flag("EVICT_BLOCKS_ON_CLOSE", false)?,
            prefetch_blocks_on_open: read.flag("PREFETCH_BLOCKS_ON_OPEN", false)?,
            compress_tags: read.flag("COMPRESS_TAGS", true)?,
            new_version_behavior: read.flag("NEW_VERSION_BEHAVIOR", false)?,
            dfs_replication: read.number("DFS_REPLICATION", "a count")?.unwrap_or(0),
            is_mob: read.flag("IS_MOB", false)?,
            mob_threshold: read.number("MOB_THRESHOLD", "bytes")?.unwrap_or(100 << 10),
        })
    }

    /// Returns the TTL in ms; `None` if cells never expire. A negative TTL counts as 0.
    pub fn ttl_ms(&self) -> Option<u64> {
        (self.ttl_seconds != TTL_FOREVER_SECONDS).then(|| u64::try_from(self.ttl_seconds).unwrap_or(0) * 1000)
    }
}

impl TableOptions {
    pub(super) fn read(table: &TableDescriptor) -> Result<Self, Error> {
        let read = Reader { owner: format!("table {}", table.name()), of: table.attributes() };
        // HBase treats a negative size as unset.
        let size = |key| {
            Ok::<_, Error>(read.number::<i64>(key, "bytes")?.and_then(|bytes| u64::try_from(bytes).ok()))
        };
        Ok(Self {
            max_file_bytes: size("MAX_FILESIZE")?,
            flush_bytes: size("MEMSTORE_FLUSHSIZE")?,
            read_only: read.flag("READONLY", false)?,
            compaction_enabled: read.flag("COMPACTION_ENABLED", true)?,
            split_enabled: read.flag("SPLIT_ENABLED", true)?,
            merge_enabled: read.flag("MERGE_ENABLED", true)?,
            durability: read.word("DURABILITY")?.unwrap_or_default(),
            region_replication: read.number("REGION_REPLICATION", "a count of at least 1")?.unwrap_or(1),
            priority: read.number("PRIORITY", "a number")?.unwrap_or(0),
        })
    }
}

struct Reader<'a> {
    owner: String,
    of: &'a Attributes,
}

impl Reader<'_> {
    fn text(&self, key: &str, expected: &'static str) -> Result<Option<&str>, Error> {
        match self.of.value(key.as_bytes()) {
            None => Ok(None),
            Some(value) => std::str::from_utf8(value).map(Some).map_err(|_| self.wrong(key, expected)),
        }
    }

    fn word<T: FromStr<Err = &'static str>>(&self, key: &str) -> Result<Option<T>, Error> {
        match self.text(key, "a word")? {
            None => Ok(None),
            Some(word) => word.parse().map(Some).map_err(|expected| self.wrong(key, expected)),
        }
    }

    fn number<T: FromStr>(&self, key: &str, expected: &'static str) -> Result<Option<T>, Error> {
        match self.text(key, expected)? {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| self.wrong(key, expected)),
        }
    }

    /// Parses like Java's `Boolean.parseBoolean`: every word but "true" is false.
    fn flag(&self, key: &str, default: bool) -> Result<bool, Error> {
        Ok(self.text(key, "true or false")?.map_or(default, |word| word.eq_ignore_ascii_case("true")))
    }

    fn wrong(&self, key: &str, expected: &'static str) -> Error {
        let value = self.of.value(key.as_bytes()).map(|v| string_binary(v).to_string()).unwrap_or_default();
        Error::Attribute { key: key.into(), owner: self.owner.clone(), value, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableName;

    fn family() -> FamilyDescriptor {
        FamilyDescriptor::new("f").unwrap()
    }

    #[test]
    fn unset_attributes_have_hbases_defaults() {
        let options = family().options().unwrap();
        assert_eq!((options.versions_max, options.versions_min, options.block_bytes), (1, 0, 65536));
        assert_eq!(options.ttl_ms(), None);
        assert!(options.block_cache && options.compress_tags && !options.in_memory);
        assert_eq!((options.bloom, options.compression), (BloomType::Row, Compression::None));
        assert_eq!(options.in_memory_compaction, None);
        let table = TableDescriptor::new("t".parse::<TableName>().unwrap()).options().unwrap();
        assert_eq!((table.max_file_bytes, table.flush_bytes, table.region_replication), (None, None, 1));
        assert!(table.compaction_enabled && table.split_enabled && !table.read_only);
    }

    #[test]
    fn set_attributes_are_read_in_any_case() {
        let options = family()
            .with("TTL", 60)
            .with("BLOOMFILTER", "rowcol")
            .with("BLOCKCACHE", "FALSE")
            .with("KEEP_DELETED_CELLS", "TTL")
            .with("COMPRESSION", "snappy")
            .with("COMPRESSION_COMPACT_MAJOR", "ZSTD")
            .options()
            .unwrap();
        assert_eq!(options.ttl_ms(), Some(60_000));
        assert_eq!((options.bloom, options.block_cache), (BloomType::RowCol, false));
        assert_eq!(options.keep_deleted_cells, KeepDeletedCells::Ttl);
        assert_eq!(
            (options.compression_minor, options.compression_major),
            (Compression::Snappy, Compression::Zstd)
        );
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named() {
        let error = family().with("VERSIONS", "many").options().unwrap_err();
        assert_eq!(error.to_string(), "VERSIONS of family f is many, expected a count of at least 1");
        let error = family().with("COMPRESSION", "ZIP").options().unwrap_err().to_string();
        assert!(error.starts_with("COMPRESSION of family f is ZIP, expected one of NONE GZ"), "{error}");
    }
}
