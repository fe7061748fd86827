//! Attributes as the engine reads them: typed, checked, with HBase's defaults.

use std::str::FromStr;

use super::{Attributes, FamilyDescriptor, TableDescriptor};
use crate::Error;

/// A TTL that never ends, as the attribute spells it.
pub const TTL_FOREVER_SECONDS: i32 = i32::MAX;

/// One of a closed set of words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident = $default:ident; $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// The word of the attribute.
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
    /// Whether cells that a delete marker masks stay readable in the past.
    KeepDeletedCells = False;
    /// Masked cells go.
    #[default]
    False = "FALSE",
    /// Masked cells stay as long as versions allow.
    True = "TRUE",
    /// Masked cells stay until their TTL ends.
    Ttl = "TTL",
}
words! {
    /// How blocks are compressed.
    Compression = None;
    /// Not at all.
    #[default]
    None = "NONE",
    /// Gzip.
    Gz = "GZ",
    /// LZO; no codec here.
    Lzo = "LZO",
    /// Snappy.
    Snappy = "SNAPPY",
    /// LZ4.
    Lz4 = "LZ4",
    /// Zstandard.
    Zstd = "ZSTD",
    /// Bzip2; no codec here.
    Bzip2 = "BZIP2",
    /// LZMA; no codec here.
    Lzma = "LZMA",
    /// Brotli; no codec here.
    Brotli = "BROTLI",
}
words! {
    /// How keys are laid out within a data block.
    DataBlockEncoding = None;
    /// One after the other.
    #[default]
    None = "NONE",
    /// Without the prefix shared with the key before.
    Prefix = "PREFIX",
    /// As differences.
    Diff = "DIFF",
    /// As differences, cheaper to decode.
    FastDiff = "FAST_DIFF",
    /// One after the other, with an index of the rows behind.
    RowIndexV1 = "ROW_INDEX_V1",
}
words! {
    /// What a bloom filter holds.
    BloomType = Row;
    /// There is none.
    None = "NONE",
    /// Rows.
    #[default]
    Row = "ROW",
    /// Rows with qualifiers.
    RowCol = "ROWCOL",
    /// Row prefixes of one length.
    RowPrefixFixedLength = "ROWPREFIX_FIXED_LENGTH",
}
words! {
    /// What is done with cells while they are in memory.
    InMemoryCompaction = None;
    /// Nothing.
    #[default]
    None = "NONE",
    /// Indexes are flattened and merged.
    Basic = "BASIC",
    /// Redundant cells go as well.
    Eager = "EAGER",
    /// Whichever pays.
    Adaptive = "ADAPTIVE",
}
words! {
    /// What a write waits for.
    Durability = UseDefault;
    /// What the table says; of a table, SYNC_WAL.
    #[default]
    UseDefault = "USE_DEFAULT",
    /// Nothing: not in the log at all.
    SkipWal = "SKIP_WAL",
    /// Its place in the log; the sync comes soon.
    AsyncWal = "ASYNC_WAL",
    /// The log's sync.
    SyncWal = "SYNC_WAL",
    /// The log's sync, onto the disk.
    FsyncWal = "FSYNC_WAL",
}

/// What a family's attributes say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyOptions {
    /// VERSIONS: how many versions of a cell are kept. 1.
    pub versions_max: u32,
    /// MIN_VERSIONS: how many are kept although their TTL has ended. 0.
    pub versions_min: u32,
    /// TTL in seconds; [`TTL_FOREVER_SECONDS`] never ends, which is the default.
    pub ttl_seconds: i32,
    /// KEEP_DELETED_CELLS. FALSE.
    pub keep_deleted_cells: KeepDeletedCells,
    /// BLOCKSIZE in bytes, before compression. 65536.
    pub block_bytes: u32,
    /// BLOCKCACHE: whether data blocks are cached when read. true.
    pub block_cache: bool,
    /// IN_MEMORY: whether they are favoured there. false.
    pub in_memory: bool,
    /// IN_MEMORY_COMPACTION; unset leaves the choice to the configuration.
    pub in_memory_compaction: Option<InMemoryCompaction>,
    /// COMPRESSION of flushed files. NONE.
    pub compression: Compression,
    /// COMPRESSION_COMPACT_MINOR, else COMPRESSION_COMPACT, else COMPRESSION.
    pub compression_minor: Compression,
    /// COMPRESSION_COMPACT_MAJOR, else COMPRESSION_COMPACT, else COMPRESSION.
    pub compression_major: Compression,
    /// DATA_BLOCK_ENCODING. NONE.
    pub data_block_encoding: DataBlockEncoding,
    /// BLOOMFILTER. ROW.
    pub bloom: BloomType,
    /// `RowPrefixBloomFilter.prefix_length`, as an attribute or in the configuration: bytes of a row that a filter of
    /// prefixes knows.
    pub bloom_prefix: Option<u16>,
    /// REPLICATION_SCOPE. 0.
    pub replication_scope: i32,
    /// CACHE_DATA_ON_WRITE. false.
    pub cache_data_on_write: bool,
    /// CACHE_INDEX_ON_WRITE. false.
    pub cache_indexes_on_write: bool,
    /// CACHE_BLOOMS_ON_WRITE. false.
    pub cache_blooms_on_write: bool,
    /// EVICT_BLOCKS_ON_CLOSE. false.
    pub evict_blocks_on_close: bool,
    /// PREFETCH_BLOCKS_ON_OPEN. false.
    pub prefetch_blocks_on_open: bool,
    /// COMPRESS_TAGS, where an encoding can. true.
    pub compress_tags: bool,
    /// NEW_VERSION_BEHAVIOR: deletes mask by sequence id. false.
    pub new_version_behavior: bool,
    /// DFS_REPLICATION; 0 is the file system's own. 0.
    pub dfs_replication: i32,
}

/// What a table's attributes say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// MAX_FILESIZE in bytes; unset leaves it to `hbase.hregion.max.filesize`.
    pub max_file_bytes: Option<u64>,
    /// MEMSTORE_FLUSHSIZE in bytes; unset leaves it to `hbase.hregion.memstore.flush.size`.
    pub flush_bytes: Option<u64>,
    /// READONLY. false.
    pub read_only: bool,
    /// COMPACTION_ENABLED. true.
    pub compaction_enabled: bool,
    /// SPLIT_ENABLED. true.
    pub split_enabled: bool,
    /// MERGE_ENABLED. true.
    pub merge_enabled: bool,
    /// DURABILITY. USE_DEFAULT.
    pub durability: Durability,
    /// REGION_REPLICATION. 1.
    pub region_replication: i32,
    /// PRIORITY. 0.
    pub priority: i32,
}

/// The key of the length of a filter's prefixes.
pub(super) const BLOOM_PREFIX: &str = "RowPrefixBloomFilter.prefix_length";

impl FamilyOptions {
    pub(super) fn read(family: &FamilyDescriptor) -> Result<Self, Error> {
        let read =
            Reader { owner: format!("family {}", family.name().escape_ascii()), of: family.attributes() };
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
        })
    }

    /// The TTL in ms, or none if it never ends.
    pub fn ttl_ms(&self) -> Option<u64> {
        (self.ttl_seconds != TTL_FOREVER_SECONDS).then(|| u64::try_from(self.ttl_seconds).unwrap_or(0) * 1000)
    }
}

impl TableOptions {
    pub(super) fn read(table: &TableDescriptor) -> Result<Self, Error> {
        let read = Reader { owner: format!("table {}", table.name()), of: table.attributes() };
        // HBase takes a negative size for one that is not set.
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

    /// As Java's `Boolean.parseBoolean`: every word but "true" is false.
    fn flag(&self, key: &str, default: bool) -> Result<bool, Error> {
        Ok(self.text(key, "true or false")?.map_or(default, |word| word.eq_ignore_ascii_case("true")))
    }

    fn wrong(&self, key: &str, expected: &'static str) -> Error {
        let value = self.of.value(key.as_bytes()).map(|v| v.escape_ascii().to_string()).unwrap_or_default();
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
