//! The rows of hbase:meta: in which columns a region and the state of a table are stored, and how they are parsed.
//!
//! ```text
//! row <region name>   info:regioninfo         PBUF RegionInfo
//!                     info:state              OPEN, OPENING, CLOSED, …
//!                     info:sn                 host,port,startcode of the server it is being opened on, or is open on
//!                     info:server             host:port of the server it is open on
//!                     info:serverstartcode    8 bytes, big-endian
//!                     info:seqnumDuringOpen   8 bytes, big-endian
//!                     info:splitA, splitB     PBUF RegionInfo; of a split parent, the regions that took its rows
//!                     info:merge0000, …       PBUF RegionInfo; of a merged region, the regions whose rows it took
//! row <table name>    table:state             TableState, without magic
//! ```
//!
//! A replica other than 0 has its columns in the same row, with the suffix `_%04X`, and no regioninfo.

use bytes::Bytes;
use cell::string_binary;
use prost::Message;

use crate::descriptor::{FamilyDescriptor, TableDescriptor};
use crate::pb;
use crate::region_info::RegionInfo;
use crate::{Error, ServerName, TableName};

/// The column family of `hbase:meta` that describes regions.
pub const INFO: &[u8] = b"info";
/// The column family of `hbase:meta` that holds table states.
pub const TABLE: &[u8] = b"table";
/// The column that holds the region's descriptor.
pub const REGION_INFO: &[u8] = b"regioninfo";
/// The column that holds the state of a region (in the family `info`) or of a table (in `table`).
pub const STATE: &[u8] = b"state";
/// The column that names the server to which the region is assigned.
pub const TARGET: &[u8] = b"sn";
/// The column with the address of the server that has the region open.
pub const SERVER: &[u8] = b"server";
/// The column with the start code of the server that has the region open.
pub const START_CODE: &[u8] = b"serverstartcode";
/// The column with the sequence id at which the region was opened.
pub const OPEN_SEQUENCE: &[u8] = b"seqnumDuringOpen";

/// The columns with the two daughters of a split parent.
pub const DAUGHTERS: [&[u8]; 2] = [b"splitA", b"splitB"];
/// The prefix of the columns that hold a merged region's parents. Four digits follow.
pub const MERGE_PREFIX: &[u8] = b"merge";

pub use pb::region_state::State as RegionState;
pub use pb::table_state::State as TableState;

/// A row of a catalog table: the newest version of each column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogRow {
    /// The key of the row.
    pub key: Bytes,
    /// The columns of the row, in order.
    pub columns: Vec<Column>,
}

/// A column of a catalog row, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The family.
    pub family: Bytes,
    /// The qualifier.
    pub qualifier: Bytes,
    /// The value.
    pub value: Bytes,
}

impl Column {
    fn info(qualifier: &'static [u8], value: impl Into<Bytes>) -> Self {
        Self {
            family: Bytes::from_static(INFO),
            qualifier: Bytes::from_static(qualifier),
            value: value.into(),
        }
    }

    /// Returns the column for the parent with this index in a merged region's row.
    fn merged(index: usize, parent: &RegionInfo) -> Self {
        let family = Bytes::from_static(INFO);
        Self { family, qualifier: merge_qualifier(index), value: parent.to_pbuf() }
    }
}

/// Returns the qualifier of the parent with this index in a merged region's row.
pub fn merge_qualifier(index: usize) -> Bytes {
    format!("merge{index:04}").into()
}

/// A region's row in hbase:meta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionRow {
    /// The region.
    pub region: RegionInfo,
    /// The region's state; a row without a state counts as OFFLINE.
    pub state: RegionState,
    /// The server on which the region is open or is being opened.
    pub target: Option<ServerName>,
    /// The server on which the region is open.
    pub server: Option<ServerName>,
    /// The sequence id at which the region was opened.
    pub open_sequence: Option<u64>,
    /// The two regions that took the rows of a split parent; `None` for other regions.
    pub daughters: Option<Box<[RegionInfo; 2]>>,
    /// The regions whose rows a merged region took, until their files are deleted.
    pub merged_from: Vec<RegionInfo>,
}

impl RegionRow {
    /// Creates the row of a region in this state, on no server.
    pub fn new(region: RegionInfo, state: RegionState) -> Self {
        Self {
            region,
            state,
            target: None,
            server: None,
            open_sequence: None,
            daughters: None,
            merged_from: Vec::new(),
        }
    }

    /// Creates the row of a region that is open on `server` since `open_sequence`.
    pub fn open(region: RegionInfo, server: ServerName, open_sequence: u64) -> Self {
        Self {
            target: Some(server.clone()),
            server: Some(server),
            open_sequence: Some(open_sequence),
            ..Self::new(region, RegionState::Open)
        }
    }

    /// Returns the row key.
    pub fn key(&self) -> Bytes {
        self.region.meta_row()
    }

    /// Returns the columns to write. A field without a value has no column, so the table keeps the value that it has.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns =
            vec![Column::info(REGION_INFO, self.region.to_pbuf()), region_state_column(self.state)];
        if let Some(target) = &self.target {
            columns.push(Column::info(TARGET, target.to_string()));
        }
        if let Some(server) = &self.server {
            columns.push(Column::info(SERVER, server.address()));
            columns.push(Column::info(START_CODE, server.start_code.to_be_bytes().to_vec()));
        }
        if let Some(sequence) = self.open_sequence {
            columns.push(Column::info(OPEN_SEQUENCE, sequence.to_be_bytes().to_vec()));
        }
        for (qualifier, daughter) in
            DAUGHTERS.into_iter().zip(self.daughters.iter().flat_map(|both| both.iter()))
        {
            columns.push(Column::info(qualifier, daughter.to_pbuf()));
        }
        columns
            .extend(self.merged_from.iter().enumerate().map(|(index, parent)| Column::merged(index, parent)));
        columns
    }

    /// Parses the columns of replica 0 in a row. A column with an empty value counts as absent. Returns `None` if the
    /// row has no `info:regioninfo` and is therefore not a region's row. Fails if a value is malformed.
    pub fn decode<'a>(
        columns: impl IntoIterator<Item = (&'a [u8], &'a [u8], Bytes)>,
    ) -> Result<Option<Self>, Error> {
        let (mut region, mut state, mut target) = (None, RegionState::Offline, None);
        let (mut address, mut start_code, mut open_sequence) = (None, None, None);
        let (mut daughters, mut merged_from) = ([None, None], Vec::new());
        for (family, qualifier, value) in columns {
            // HBase clears a column by writing an empty value.
            if family != INFO || value.is_empty() {
                continue;
            }
            match qualifier {
                REGION_INFO => region = Some(RegionInfo::from_pbuf(&value)?),
                STATE => {
                    let word = text(&value, "info:state")?;
                    state = RegionState::from_str_name(word).ok_or_else(|| {
                        Error::malformed("info:state", format!("{word:?}, expected a region's state"))
                    })?;
                }
                TARGET => target = Some(text(&value, "info:sn")?.parse()?),
                SERVER => address = Some(text(&value, "info:server")?.to_owned()),
                START_CODE => start_code = Some(number(&value, "info:serverstartcode")?),
                OPEN_SEQUENCE => open_sequence = Some(number(&value, "info:seqnumDuringOpen")?),
                b"splitA" => daughters[0] = Some(RegionInfo::from_pbuf(&value)?),
                b"splitB" => daughters[1] = Some(RegionInfo::from_pbuf(&value)?),
                _ if qualifier.starts_with(MERGE_PREFIX) => merged_from.push(RegionInfo::from_pbuf(&value)?),
                _ => {}
            }
        }
        let Some(region) = region else { return Ok(None) };
        let server = match (address, start_code) {
            (Some(address), Some(code)) => Some(ServerName::from_address(&address, code)?),
            _ => None,
        };
        let daughters = match daughters {
            [Some(first), Some(second)] => Some(Box::new([first, second])),
            _ => None,
        };
        Ok(Some(Self { region, state, target, server, open_sequence, daughters, merged_from }))
    }
}

/// Returns the column that holds the state of a region.
pub fn region_state_column(state: RegionState) -> Column {
    Column::info(STATE, state.as_str_name())
}

/// Returns the column table:state, in the row with the table's name.
pub fn table_state_column(state: TableState) -> Column {
    Column {
        family: Bytes::from_static(TABLE),
        qualifier: Bytes::from_static(STATE),
        value: pb::TableState { state: state.into() }.encode_to_vec().into(),
    }
}

/// Parses the value of table:state. Fails if it is malformed or an unknown state.
pub fn decode_table_state(value: &[u8]) -> Result<TableState, Error> {
    let message =
        pb::TableState::decode(value).map_err(|cause| Error::Decode { what: "table:state", cause })?;
    TableState::try_from(message.state)
        .map_err(|_| Error::malformed("table:state", format!("{}, expected 0 to 3", message.state)))
}

/// Returns the schema of hbase:meta, as HBase creates it.
pub fn meta_descriptor() -> TableDescriptor {
    let family = |name: &'static str| {
        FamilyDescriptor::new(name)
            .expect("a lawful name")
            .with("VERSIONS", 3)
            .with("IN_MEMORY", true)
            .with("BLOCKSIZE", 8192)
            .with("REPLICATION_SCOPE", 0)
            .with("DATA_BLOCK_ENCODING", "ROW_INDEX_V1")
            .with("BLOOMFILTER", "ROWCOL")
    };
    let mut meta = TableDescriptor::new(TableName::meta());
    meta.attributes_mut().set("IS_META".into(), "true".into());
    meta.attributes_mut().set(
        "coprocessor$1".into(),
        "|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint|536870911|".into(),
    );
    meta.set_family(family("info"));
    meta.set_family(family("table"));
    meta.set_family(family("rep_barrier").with("VERSIONS", i32::MAX).with("BLOCKSIZE", 65536));
    meta
}

/// The column family of hbase:namespace.
pub const NAMESPACE_FAMILY: &[u8] = b"info";
/// The column that holds a namespace's descriptor, in the row with the namespace's name.
pub const NAMESPACE_QUALIFIER: &[u8] = b"d";

/// Returns the schema of hbase:namespace, as HBase creates it.
pub fn namespaces_descriptor() -> TableDescriptor {
    let mut table = TableDescriptor::new(TableName::namespaces());
    table.set_family(
        FamilyDescriptor::new("info")
            .expect("a lawful name")
            .with("VERSIONS", 10)
            .with("IN_MEMORY", true)
            .with("BLOCKSIZE", 8192)
            .with("REPLICATION_SCOPE", 0),
    );
    table
}

fn text<'a>(value: &'a Bytes, what: &'static str) -> Result<&'a str, Error> {
    std::str::from_utf8(value)
        .map_err(|_| Error::malformed(what, format!("{}, expected text", string_binary(value))))
}

fn number(value: &Bytes, what: &'static str) -> Result<u64, Error> {
    let bytes = <[u8; 8]>::try_from(&**value)
        .map_err(|_| Error::malformed(what, format!("{} bytes, expected 8", value.len())))?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::sanity;
    use crate::region_info::RegionId;

    fn decode(columns: &[Column]) -> Result<Option<RegionRow>, Error> {
        RegionRow::decode(columns.iter().map(|c| (&*c.family, &*c.qualifier, c.value.clone())))
    }

    fn row() -> RegionRow {
        let region = RegionInfo::new("t".parse().unwrap(), "a".into(), "".into(), RegionId(5)).unwrap();
        RegionRow::open(region, "h,1,2".parse().unwrap(), 77)
    }

    #[test]
    fn a_region_comes_back_from_its_columns() {
        assert_eq!(decode(&row().columns()).unwrap(), Some(row()));
        let closed = RegionRow::new(row().region, RegionState::Closed);
        assert_eq!(decode(&closed.columns()).unwrap(), Some(closed));
    }

    #[test]
    fn parents_and_daughters_come_back_and_have_hbases_columns() {
        let region = |start: &'static str, end: &'static str, id| {
            RegionInfo::new("t".parse().unwrap(), start.into(), end.into(), RegionId(id)).unwrap()
        };
        let parent = region("a", "z", 5).with_marks(true, true);
        let daughters = Some(Box::new([region("a", "m", 6), region("m", "z", 6)]));
        let split = RegionRow { daughters, ..RegionRow::new(parent, RegionState::Split) };
        assert_eq!(decode(&split.columns()).unwrap(), Some(split.clone()));
        let merged_from = vec![region("a", "m", 6), region("m", "z", 6)];
        let merged = RegionRow { merged_from, ..RegionRow::new(region("a", "z", 7), RegionState::Closed) };
        assert_eq!(decode(&merged.columns()).unwrap(), Some(merged.clone()));
        let names = |row: &RegionRow| {
            let all = row.columns().into_iter().map(|c| String::from_utf8(c.qualifier.to_vec()).unwrap());
            all.collect::<Vec<_>>()
        };
        assert_eq!(names(&split), ["regioninfo", "state", "splitA", "splitB"]);
        assert_eq!(names(&merged), ["regioninfo", "state", "merge0000", "merge0001"]);
    }

    #[test]
    fn the_columns_are_hbases() {
        let columns = row().columns();
        let value = |q: &[u8]| columns.iter().find(|c| *c.qualifier == *q).unwrap().value.clone();
        assert_eq!(value(b"state"), "OPEN");
        assert_eq!(value(b"sn"), "h,1,2");
        assert_eq!(value(b"server"), "h:1");
        assert_eq!(&value(b"serverstartcode")[..], [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(&value(b"seqnumDuringOpen")[..], [0, 0, 0, 0, 0, 0, 0, 77]);
        assert!(columns.iter().all(|c| *c.family == *b"info"));
        assert_eq!(&table_state_column(TableState::Enabled).value[..], [8, 0]);
    }

    #[test]
    fn a_row_without_a_region_is_none_and_a_damaged_one_an_error() {
        assert_eq!(decode(&[table_state_column(TableState::Disabled)]).unwrap(), None);
        let mut columns = row().columns();
        columns[1].value = "AJAR".into();
        assert!(decode(&columns).unwrap_err().to_string().contains("AJAR"));
        let mut columns = row().columns();
        columns[4].value = "123".into();
        assert!(decode(&columns).is_err());
        assert!(decode_table_state(&[8, 9]).is_err());
        assert_eq!(decode_table_state(&[8, 1]).unwrap(), TableState::Disabled);
    }

    #[test]
    fn the_catalogs_own_schemas_are_sane() {
        for table in [meta_descriptor(), namespaces_descriptor()] {
            sanity::check(&table, &sanity::Limits::default()).unwrap();
        }
        assert_eq!(meta_descriptor().families().len(), 3);
    }
}
