//! The file info: properties by name, and the types of those that a store uses.

use std::collections::BTreeMap;

use bytes::Bytes;
use cell::{SequenceId, Timestamp};

/// The properties of a file, by name.
pub type FileInfo = BTreeMap<Bytes, Bytes>;

/// HBase's property names (`HFileInfo`, `HStoreFile`, `BloomFilterFactory`).
pub(crate) mod name {
    pub(crate) const LAST_KEY: &str = "hfile.LASTKEY";
    pub(crate) const AVERAGE_KEY_LENGTH: &str = "hfile.AVG_KEY_LEN";
    pub(crate) const AVERAGE_VALUE_LENGTH: &str = "hfile.AVG_VALUE_LEN";
    pub(crate) const CREATED: &str = "hfile.CREATE_TIME_TS";
    pub(crate) const TAGS_LENGTH_MAX: &str = "hfile.MAX_TAGS_LEN";
    pub(crate) const TAGS_COMPRESSED: &str = "hfile.TAGS_COMPRESSED";
    pub(crate) const BIGGEST_KEY: &str = "hfile.KEY_OF_BIGGEST_CELL";
    pub(crate) const BIGGEST_LENGTH: &str = "hfile.LEN_OF_BIGGEST_CELL";
    pub(crate) const KEY_VALUE_VERSION: &str = "KEY_VALUE_VERSION";
    pub(crate) const MVCC_MAX: &str = "MAX_MEMSTORE_TS_KEY";
    pub(crate) const ENCODING: &str = "DATA_BLOCK_ENCODING";
    pub(crate) const SEQUENCE_MAX: &str = "MAX_SEQ_ID_KEY";
    pub(crate) const MAJOR: &str = "MAJOR_COMPACTION_KEY";
    pub(crate) const TIME_RANGE: &str = "TIMERANGE";
    pub(crate) const EARLIEST_PUT: &str = "EARLIEST_PUT_TS";
    pub(crate) const BLOOM_TYPE: &str = "BLOOM_FILTER_TYPE";
    pub(crate) const BLOOM_PREFIX: &str = "BLOOM_FILTER_PARAM";
    pub(crate) const BLOOM_LAST_KEY: &str = "LAST_BLOOM_KEY";
    pub(crate) const DELETE_FAMILIES: &str = "DELETE_FAMILY_COUNT";
    pub(crate) const BULK_LOAD_TIME: &str = "BULKLOAD_TIMESTAMP";
    pub(crate) const COMPACTED: &str = "COMPACTION_EVENT_KEY";
}

/// The oldest and the newest timestamp of a file's cells, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// The oldest timestamp of a cell.
    pub oldest: Timestamp,
    /// The newest timestamp of a cell.
    pub newest: Timestamp,
}

/// Properties that the writer of a store file sets at the end.
#[derive(Clone, Debug, Default)]
pub struct StoreFileInfo {
    /// The sequence id up to which every write of the store is in this file or an older one, inclusive.
    pub max_sequence: SequenceId,
    /// Whether a major compaction wrote the file.
    pub major: bool,
    /// Properties that HBase does not have.
    pub more: Vec<(&'static str, Bytes)>,
}
