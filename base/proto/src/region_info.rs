//! A region: the rows of a table from a start key to an end key, in one of its replicas.
//!
//! ```text
//! region name    <table>,<start key>,<region id>[_<replica, %04X>].<encoded name>.
//! encoded name   MD5, in hex, of everything before `.<encoded name>.`; names the region's directory
//! ```
//!
//! hbase:meta has a single region with an older form of name: `hbase:meta,,1` without a suffix. Its encoded name is
//! 1588230740.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use cell::{ROW_LENGTH_MAX, string_binary};
use md5::{Digest, Md5};

use crate::{Error, TableName, pb, pbuf};

/// The encoded name of hbase:meta's region.
pub const META_ENCODED_NAME: &str = "1588230740";

/// Creation time of a region, in ms since 1970. Of two regions over the same keys the one with the greater id is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u64);

/// The number of a replica of a region; only replica 0 accepts writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ReplicaId(pub u16);

/// The encoded name of a region, unique in a cluster. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EncodedName(Arc<str>);

impl EncodedName {
    /// Returns the encoded name of the region with this full name. Fails if the name does not end with `.<encoded
    /// name>.` and is not that of hbase:meta's region. Whether the MD5 is right is not checked.
    pub fn of_region_name(name: &[u8]) -> Result<Self, Error> {
        if name == b"hbase:meta,,1" {
            return Ok(Self(META_ENCODED_NAME.into()));
        }
        if let [b'.', hex @ .., b'.'] = name.get(name.len().wrapping_sub(34)..).unwrap_or_default()
            && hex.len() == 32
            && hex.iter().all(u8::is_ascii_hexdigit)
        {
            return Ok(Self(std::str::from_utf8(hex).expect("hex digits are text").into()));
        }
        Err(Error::malformed(
            "region name",
            format!("{}, expected .<encoded name>. at its end", string_binary(name)),
        ))
    }

    /// Parses an encoded name, for instance a directory's name. Fails for any other text.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text == META_ENCODED_NAME || text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(Self(text.into()));
        }
        Err(Error::malformed("encoded region name", format!("{text:?}, expected 32 hex digits")))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EncodedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EncodedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of a region, and the range of its rows.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RegionInfo {
    table: TableName,
    start_key: Bytes,
    end_key: Bytes,
    id: RegionId,
    replica: ReplicaId,
    offline: bool,
    split: bool,
    name: Bytes,
    encoded: EncodedName,
}

impl RegionInfo {
    /// Creates the region of `table` from `start_key` (inclusive; empty: the first) to `end_key` (exclusive; empty: the
    /// last). Fails if `start_key` is not less than `end_key`, for a region of hbase:meta other than
    /// [`meta`](RegionInfo::meta), and if the region's name is too long for a row of hbase:meta.
    pub fn new(table: TableName, start_key: Bytes, end_key: Bytes, id: RegionId) -> Result<Self, Error> {
        let region = Self::replica_of(table, start_key, end_key, id, ReplicaId(0))?;
        if region.name.len() > ROW_LENGTH_MAX {
            return Err(Error::IllegalArgument(format!(
                "the name of a region of table {} would have {} bytes, expected at most {ROW_LENGTH_MAX}, because it is a \
                 row of hbase:meta; choose a start key shorter than {} bytes",
                region.table,
                region.name.len(),
                region.start_key.len()
            )));
        }
        Ok(region)
    }

    /// Returns the region of hbase:meta.
    pub fn meta() -> Self {
        Self {
            table: TableName::meta(),
            start_key: Bytes::new(),
            end_key: Bytes::new(),
            id: RegionId(1),
            replica: ReplicaId(0),
            offline: false,
            split: false,
            name: Bytes::from_static(b"hbase:meta,,1"),
            encoded: EncodedName(META_ENCODED_NAME.into()),
        }
    }

    fn replica_of(
        table: TableName,
        start_key: Bytes,
        end_key: Bytes,
        id: RegionId,
        replica: ReplicaId,
    ) -> Result<Self, Error> {
        if !end_key.is_empty() && start_key >= end_key {
            return Err(Error::malformed(
                "region",
                format!(
                    "of {table}: start key {} is not below end key {}",
                    string_binary(&start_key),
                    string_binary(&end_key)
                ),
            ));
        }
        if table.is_meta() {
            let meta = Self::meta();
            return if start_key.is_empty() && end_key.is_empty() && (id, replica) == (meta.id, meta.replica) {
                Ok(meta)
            } else {
                Err(Error::malformed(
                    "region",
                    "of hbase:meta: expected hbase:meta,,1, which is its only one",
                ))
            };
        }
        let (name, encoded) = name_of(&table, &start_key, id, replica);
        Ok(Self { table, start_key, end_key, id, replica, offline: false, split: false, name, encoded })
    }

    /// Returns the region with the flags `offline` and `split`. HBase sets both for a split parent, whose rows its
    /// daughters serve.
    pub fn with_marks(mut self, offline: bool, split: bool) -> Self {
        (self.offline, self.split) = (offline, split);
        self
    }

    /// Returns the region's table.
    pub fn table(&self) -> &TableName {
        &self.table
    }

    /// Returns the region's first row, or empty for the table's start.
    pub fn start_key(&self) -> &Bytes {
        &self.start_key
    }

    /// Returns the row after the region's last one, or empty for the table's end.
    pub fn end_key(&self) -> &Bytes {
        &self.end_key
    }

    /// Returns the region's creation time.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// Returns the number of the replica.
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Whether the region is permanently offline, replaced by its daughters.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Whether the region has been split.
    pub fn is_split(&self) -> bool {
        self.split
    }

    /// Returns the full name. For replica 0 this is also the key of the region's row in hbase:meta.
    pub fn name(&self) -> &Bytes {
        &self.name
    }

    /// Returns the key of the region's row in hbase:meta, which is the full name of replica 0.
    pub fn meta_row(&self) -> Bytes {
        if self.replica.0 == 0 {
            return self.name.clone();
        }
        name_of(&self.table, &self.start_key, self.id, ReplicaId(0)).0
    }

    /// Returns the encoded name.
    pub fn encoded_name(&self) -> &EncodedName {
        &self.encoded
    }

    /// Whether this is hbase:meta's region.
    pub fn is_meta(&self) -> bool {
        self.table.is_meta()
    }

    /// Whether `row` is in this region's range.
    ///
    /// An empty start or end key is not compared. The pointer of an empty slice may be invalid, and glibc's `memcmp`
    /// (2.36, AVX-512) reads there with a masked load, which costs 80 ns for unmapped memory.
    #[inline]
    pub fn contains_row(&self, row: &[u8]) -> bool {
        (self.start_key.is_empty() || row >= &*self.start_key)
            && (self.end_key.is_empty() || row < &*self.end_key)
    }

    /// Whether `other` is of the same table and its range has a row in common with this region's.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.table == other.table
            && (self.end_key.is_empty() || other.start_key < self.end_key)
            && (other.end_key.is_empty() || self.start_key < other.end_key)
    }

    /// Encodes the value of the column info:regioninfo.
    pub fn to_pbuf(&self) -> Bytes {
        pbuf::encode(&pb::RegionInfo::from(self))
    }

    /// Parses the value of the column info:regioninfo.
    pub fn from_pbuf(bytes: &Bytes) -> Result<Self, Error> {
        Self::try_from(&pbuf::decode::<pb::RegionInfo>("region info", bytes)?)
    }

    /// Encodes the content of a `.regioninfo` file.
    pub fn to_file(&self) -> Bytes {
        pbuf::encode_delimited(&pb::RegionInfo::from(self))
    }

    /// Parses the content of a `.regioninfo` file.
    pub fn from_file(bytes: &Bytes) -> Result<Self, Error> {
        Self::try_from(&pbuf::decode_delimited::<pb::RegionInfo>(".regioninfo", bytes)?)
    }
}

impl fmt::Display for RegionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", string_binary(&self.name))
    }
}

impl fmt::Debug for RegionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionInfo({self}, to {})", string_binary(&self.end_key))
    }
}

impl TryFrom<&pb::RegionInfo> for RegionInfo {
    type Error = Error;

    fn try_from(info: &pb::RegionInfo) -> Result<Self, Error> {
        let replica = u16::try_from(info.replica_id()).map_err(|_| {
            Error::malformed("region", format!("replica {}, expected 0 to 65535", info.replica_id()))
        })?;
        let region = Self::replica_of(
            TableName::try_from(&info.table_name)?,
            info.start_key.clone().unwrap_or_default(),
            info.end_key.clone().unwrap_or_default(),
            RegionId(info.region_id),
            ReplicaId(replica),
        )?;
        Ok(region.with_marks(info.offline(), info.split()))
    }
}

impl From<&RegionInfo> for pb::RegionInfo {
    fn from(info: &RegionInfo) -> Self {
        Self {
            region_id: info.id.0,
            table_name: (&info.table).into(),
            start_key: Some(info.start_key.clone()),
            end_key: Some(info.end_key.clone()),
            offline: Some(info.offline),
            split: Some(info.split),
            replica_id: Some(info.replica.0.into()),
        }
    }
}

/// Returns the regions of a new table that is pre-split at `split_keys`, given in any order. Errors have HBase's
/// messages.
pub fn regions_between(
    table: &TableName,
    split_keys: &[Bytes],
    id: RegionId,
) -> Result<Vec<RegionInfo>, Error> {
    let mut keys = split_keys.to_vec();
    keys.sort();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::IllegalArgument(format!(
            "All split keys must be unique, found duplicate: {}",
            string_binary(&pair[0])
        )));
    }
    if keys.first().is_some_and(Bytes::is_empty) {
        return Err(Error::IllegalArgument("Empty split key must not be passed in the split keys.".into()));
    }
    let starts = std::iter::once(Bytes::new()).chain(keys.iter().cloned());
    let ends = keys.iter().cloned().chain(std::iter::once(Bytes::new()));
    starts.zip(ends).map(|(start, end)| RegionInfo::new(table.clone(), start, end, id)).collect()
}

fn name_of(table: &TableName, start_key: &[u8], id: RegionId, replica: ReplicaId) -> (Bytes, EncodedName) {
    let mut name = Vec::with_capacity(table.as_bytes().len() + start_key.len() + 64);
    name.extend_from_slice(table.as_bytes());
    name.push(b',');
    name.extend_from_slice(start_key);
    name.push(b',');
    name.extend_from_slice(id.0.to_string().as_bytes());
    if replica.0 > 0 {
        name.extend_from_slice(format!("_{:04X}", replica.0).as_bytes());
    }
    let hex: String = Md5::digest(&name).iter().map(|byte| format!("{byte:02x}")).collect();
    name.push(b'.');
    name.extend_from_slice(hex.as_bytes());
    name.push(b'.');
    (name.into(), EncodedName(hex.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &'static str, end: &'static str) -> RegionInfo {
        RegionInfo::new("t".parse().unwrap(), start.into(), end.into(), RegionId(1_700_000_000_000)).unwrap()
    }

    #[test]
    fn names_are_made_as_hbase_makes_them() {
        // The example in HBase's own documentation of region names.
        let info = RegionInfo::new(
            "TestTable".parse().unwrap(),
            "0094429456".into(),
            Bytes::new(),
            RegionId(1_289_497_600_452),
        )
        .unwrap();
        assert_eq!(info.to_string(), "TestTable,0094429456,1289497600452.527db22f95c8a9e0116f0cc13c680396.");
        assert_eq!(info.encoded_name().as_str(), "527db22f95c8a9e0116f0cc13c680396");
        assert_eq!(EncodedName::of_region_name(info.name()).unwrap(), *info.encoded_name());
        assert_eq!(RegionInfo::meta().encoded_name().as_str(), "1588230740");
        assert_eq!(EncodedName::of_region_name(b"hbase:meta,,1").unwrap().as_str(), "1588230740");
        assert!(EncodedName::of_region_name(b"t,,1").is_err());
        assert!(EncodedName::of_region_name(b"").is_err());
    }

    #[test]
    fn a_region_whose_name_is_no_row_of_meta_is_refused() {
        let named = |length: usize| {
            let start = Bytes::from(vec![b'k'; length]);
            RegionInfo::new("t".parse().unwrap(), start, Bytes::new(), RegionId(1_700_000_000_000))
        };
        let others = region("k", "").name().len() - 1;
        assert_eq!(named(ROW_LENGTH_MAX - others).unwrap().name().len(), ROW_LENGTH_MAX);
        let refusal = named(ROW_LENGTH_MAX - others + 1).unwrap_err().to_string();
        assert!(refusal.contains("would have 32768 bytes, expected at most 32767"), "{refusal}");
    }

    #[test]
    fn stored_forms_come_back() {
        for info in [region("", "m"), region("m", "").with_marks(true, true), RegionInfo::meta()] {
            assert_eq!(RegionInfo::from_pbuf(&info.to_pbuf()).unwrap(), info);
            assert_eq!(RegionInfo::from_file(&info.to_file()).unwrap(), info);
        }
    }

    #[test]
    fn a_replica_shares_the_row_of_its_primary() {
        let mut message = pb::RegionInfo::from(&region("a", "b"));
        message.replica_id = Some(1);
        let replica = RegionInfo::try_from(&message).unwrap();
        assert!(replica.to_string().contains("_0001."));
        assert_ne!(replica.encoded_name(), region("a", "b").encoded_name());
        assert_eq!(replica.meta_row(), region("a", "b").name());
    }

    #[test]
    fn rows_belong_from_start_up_to_end() {
        let info = region("b", "d");
        assert!(info.contains_row(b"b") && info.contains_row(b"c\xff"));
        assert!(!info.contains_row(b"a\xff") && !info.contains_row(b"d"));
        assert!(region("", "").contains_row(b""));
        assert!(
            info.overlaps(&region("c", ""))
                && !info.overlaps(&region("d", ""))
                && !info.overlaps(&region("", "b"))
        );
    }

    #[test]
    fn impossible_regions_are_refused() {
        let table: TableName = "t".parse().unwrap();
        assert!(RegionInfo::new(table, "b".into(), "a".into(), RegionId(1)).is_err());
        assert!(RegionInfo::new(TableName::meta(), "b".into(), "".into(), RegionId(1)).is_err());
    }

    #[test]
    fn split_keys_cut_the_table_without_a_gap() {
        let table: TableName = "t".parse().unwrap();
        let regions = regions_between(&table, &["m".into(), "c".into()], RegionId(7)).unwrap();
        let keys: Vec<_> = regions.iter().map(|r| (&**r.start_key(), &**r.end_key())).collect();
        assert_eq!(keys, [(&b""[..], &b"c"[..]), (b"c", b"m"), (b"m", b"")]);
        assert_eq!(regions_between(&table, &[], RegionId(7)).unwrap().len(), 1);
        let twice = regions_between(&table, &["c".into(), "c".into()], RegionId(7)).unwrap_err();
        assert_eq!(twice.to_string(), "All split keys must be unique, found duplicate: c");
        assert!(regions_between(&table, &["".into()], RegionId(7)).is_err());
    }
}
