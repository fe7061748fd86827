//! Operations on a row: reads, writes, and conditional writes.

use bytes::Bytes;
use cell::{CellParts, CellType, Timestamp};
use proto::pb;

use crate::filter::{Comparison, Filter, binary};
use crate::{Error, Result};

/// What the server must have done with a write before it acknowledges it.
pub use proto::pb::mutation_proto::Durability;

/// The timestamp that stands for the server's current time (HBase's `LATEST_TIMESTAMP`).
const LATEST: i64 = i64::MAX;

/// A range of timestamps, from `from` until before `to`, in ms since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first timestamp of the range.
    pub from: i64,
    /// The first timestamp after the range.
    pub to: i64,
}

impl TimeRange {
    /// The range of all timestamps.
    pub const ALL: TimeRange = TimeRange { from: 0, to: i64::MAX };

    pub(crate) fn to_message(self) -> pb::TimeRange {
        pb::TimeRange { from: Some(self.from as u64), to: Some(self.to as u64) }
    }
}

/// The families and columns of a read; an empty selection means all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns(Vec<pb::Column>);

impl Columns {
    pub(crate) fn add_family(&mut self, family: Bytes) {
        self.0.retain(|column| column.family != family);
        self.0.push(pb::Column { family, qualifier: Vec::new() });
    }

    pub(crate) fn add(&mut self, family: Bytes, qualifier: Bytes) {
        match self.0.iter_mut().find(|column| column.family == family) {
            // An empty qualifier stands for the whole family, which was selected above.
            Some(column) if column.qualifier.is_empty() => {}
            Some(column) => column.qualifier.push(qualifier),
            None => self.0.push(pb::Column { family, qualifier: vec![qualifier] }),
        }
    }

    pub(crate) fn to_message(&self) -> Vec<pb::Column> {
        self.0.clone()
    }
}

/// Reads one row.
#[derive(Clone, Debug)]
pub struct Get {
    pub(crate) row: Bytes,
    columns: Columns,
    time_range: TimeRange,
    versions: u32,
    filter: Option<Filter>,
    cache_blocks: bool,
    existence_only: bool,
}

impl Get {
    /// Creates a read of the newest version of every column of `row`.
    pub fn row(row: impl Into<Bytes>) -> Get {
        Get {
            row: row.into(),
            columns: Columns::default(),
            time_range: TimeRange::ALL,
            versions: 1,
            filter: None,
            cache_blocks: true,
            existence_only: false,
        }
    }

    /// Adds a family to the families and columns that the read returns.
    pub fn family(mut self, family: impl Into<Bytes>) -> Get {
        self.columns.add_family(family.into());
        self
    }

    /// Adds a column to the families and columns that the read returns.
    pub fn column(mut self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>) -> Get {
        self.columns.add(family.into(), qualifier.into());
        self
    }

    /// Sets the maximum number of versions of each column. 0 counts as 1, and more than `i32::MAX` as `i32::MAX`.
    pub fn versions(self, versions: u32) -> Get {
        Get { versions: versions.clamp(1, i32::MAX as u32), ..self }
    }

    /// Restricts the read to versions in this time range.
    pub fn time_range(self, time_range: TimeRange) -> Get {
        Get { time_range, ..self }
    }

    /// Sets the filter of the read.
    pub fn filter(self, filter: Filter) -> Get {
        Get { filter: Some(filter), ..self }
    }

    /// Sets whether the server caches the blocks that this read loads. Default true.
    pub fn cache_blocks(self, cache_blocks: bool) -> Get {
        Get { cache_blocks, ..self }
    }

    pub(crate) fn existence_only(self) -> Get {
        Get { existence_only: true, ..self }
    }

    pub(crate) fn to_message(&self) -> pb::Get {
        pb::Get {
            row: self.row.clone(),
            column: self.columns.to_message(),
            filter: self.filter.as_ref().map(|filter| filter.0.clone()),
            time_range: Some(self.time_range.to_message()),
            max_versions: Some(self.versions),
            cache_blocks: Some(self.cache_blocks),
            existence_only: self.existence_only.then_some(true),
            ..pb::Get::default()
        }
    }
}

#[derive(Clone, Debug)]
struct Edit {
    family: Bytes,
    qualifier: Bytes,
    value: Bytes,
    timestamp: i64,
    kind: CellType,
}

use pb::mutation_proto::MutationType;

/// A change of one row: a [`Put`], [`Delete`], [`Increment`] or [`Append`].
#[derive(Clone, Debug)]
pub struct Mutation {
    pub(crate) kind: MutationType,
    pub(crate) row: Bytes,
    edits: Vec<Edit>,
    timestamp: i64,
    durability: Durability,
    attributes: Vec<pb::NameBytesPair>,
    time_range: Option<TimeRange>,
}

impl Mutation {
    fn new(kind: MutationType, row: Bytes) -> Mutation {
        Mutation {
            kind,
            row,
            edits: Vec::new(),
            timestamp: LATEST,
            durability: Durability::UseDefault,
            attributes: Vec::new(),
            time_range: None,
        }
    }

    fn edit(&mut self, family: Bytes, qualifier: Bytes, value: Bytes, timestamp: i64, kind: CellType) {
        self.edits.push(Edit { family, qualifier, value, timestamp, kind });
    }

    fn attribute(&mut self, name: &str, value: Vec<u8>) {
        self.attributes.retain(|attribute| attribute.name != name);
        self.attributes.push(pb::NameBytesPair { name: name.to_owned(), value: Some(value.into()) });
    }

    /// Whether the change must not be applied twice, so that it needs a nonce.
    pub(crate) fn needs_nonce(&self) -> bool {
        matches!(self.kind, MutationType::Increment | MutationType::Append)
    }

    /// The approximate size of the cells, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.edits
            .iter()
            .map(|edit| self.row.len() + edit.family.len() + edit.qualifier.len() + edit.value.len() + 32)
            .sum()
    }

    fn header(&self, nonce: Option<u64>) -> pb::MutationProto {
        pb::MutationProto {
            row: Some(self.row.clone()),
            mutate_type: Some(self.kind as i32),
            timestamp: (self.timestamp != LATEST).then_some(self.timestamp as u64),
            attribute: self.attributes.clone(),
            durability: Some(self.durability as i32),
            time_range: self.time_range.map(TimeRange::to_message),
            nonce,
            ..pb::MutationProto::default()
        }
    }

    /// Encodes the message with its cells inside.
    pub(crate) fn to_message(&self, nonce: Option<u64>) -> pb::MutationProto {
        use pb::mutation_proto::{ColumnValue, DeleteType, column_value::QualifierValue};
        let mut columns: Vec<ColumnValue> = Vec::new();
        for edit in &self.edits {
            let value = QualifierValue {
                qualifier: Some(edit.qualifier.clone()),
                value: Some(edit.value.clone()),
                timestamp: Some(edit.timestamp as u64),
                delete_type: match edit.kind {
                    CellType::Delete => Some(DeleteType::DeleteOneVersion as i32),
                    CellType::DeleteColumn => Some(DeleteType::DeleteMultipleVersions as i32),
                    CellType::DeleteFamily => Some(DeleteType::DeleteFamily as i32),
                    CellType::DeleteFamilyVersion => Some(DeleteType::DeleteFamilyVersion as i32),
                    _ => None,
                },
                tags: None,
            };
            match columns.iter_mut().find(|column| column.family == edit.family) {
                Some(column) => column.qualifier_value.push(value),
                None => {
                    columns.push(ColumnValue { family: edit.family.clone(), qualifier_value: vec![value] })
                }
            }
        }
        pb::MutationProto { column_value: columns, ..self.header(nonce) }
    }

    /// Encodes the message without its cells, and appends the cells to a cell block.
    pub(crate) fn to_message_with_cells(
        &self,
        nonce: Option<u64>,
        block: &mut Vec<u8>,
    ) -> Result<pb::MutationProto> {
        for edit in &self.edits {
            let parts = CellParts {
                row: &self.row,
                family: &edit.family,
                qualifier: &edit.qualifier,
                timestamp: Timestamp(edit.timestamp),
                cell_type: edit.kind,
                value: &edit.value,
                tags: &[],
            };
            let at = block.len();
            block.extend_from_slice(&[0; 4]);
            parts.write(block).map_err(|error| Error::Invalid(error.to_string()))?;
            let length = (block.len() - at - 4) as u32;
            block[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(pb::MutationProto { associated_cell_count: Some(self.edits.len() as i32), ..self.header(nonce) })
    }

    pub(crate) fn check(&self) -> Result<()> {
        let row = self.row.escape_ascii();
        if self.row.is_empty() {
            return Err(Error::Invalid("a row's key cannot be empty".to_owned()));
        }
        if self.row.len() > cell::ROW_LENGTH_MAX {
            let (length, most) = (self.row.len(), cell::ROW_LENGTH_MAX);
            return Err(Error::Invalid(format!("row key of {length} bytes, more than {most}")));
        }
        if self.edits.is_empty() && self.kind != MutationType::Delete {
            return Err(Error::Invalid(format!("no column is named for row {row}")));
        }
        if let Some(edit) = self.edits.iter().find(|edit| edit.family.len() > cell::FAMILY_LENGTH_MAX) {
            return Err(Error::Invalid(format!("family of {} bytes in row {row}", edit.family.len())));
        }
        Ok(())
    }
}

macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug)]
            pub struct $name(pub(crate) Mutation);

            impl $name {
                /// Creates a change of this row without any cell.
                pub fn row(row: impl Into<Bytes>) -> $name {
                    $name(Mutation::new(MutationType::$name, row.into()))
                }

                /// Sets the durability before acknowledgement. Default: the table's.
                pub fn durability(mut self, durability: Durability) -> $name {
                    self.0.durability = durability;
                    self
                }

                /// Adds an attribute that is sent with the operation.
                pub fn attribute(mut self, name: &str, value: impl Into<Vec<u8>>) -> $name {
                    self.0.attribute(name, value.into());
                    self
                }
            }

            impl From<$name> for Mutation {
                fn from(mutation: $name) -> Mutation {
                    mutation.0
                }
            }
        )*
    };
}

mutations! {
    /// Writes cells.
    Put;
    /// Deletes cells by writing delete markers. Without a family it deletes the whole row.
    Delete;
    /// Adds to eight-byte counters.
    Increment;
    /// Appends to values.
    Append;
}

impl Put {
    /// Sets a column at the server's current time.
    pub fn set(self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Put {
        self.set_at(family, qualifier, LATEST, value)
    }

    /// Sets a column at a timestamp, in ms since 1970.
    pub fn set_at(
        mut self,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        timestamp: i64,
        value: impl Into<Bytes>,
    ) -> Put {
        self.0.edit(family.into(), qualifier.into(), value.into(), timestamp, CellType::Put);
        self
    }

    /// Sets the time to live of the cells, in ms.
    pub fn ttl(self, ttl_ms: i64) -> Put {
        self.attribute("_ttl", ttl_ms.to_be_bytes())
    }
}

impl Delete {
    /// Restricts the deletion of the whole row to versions up to and including this timestamp, in ms since 1970.
    pub fn up_to(mut self, timestamp: i64) -> Delete {
        self.0.timestamp = timestamp;
        self
    }

    /// Deletes all columns of a family.
    pub fn family(self, family: impl Into<Bytes>) -> Delete {
        self.family_up_to(family, LATEST)
    }

    /// Deletes the versions of a family up to and including `timestamp`, in ms since 1970.
    pub fn family_up_to(mut self, family: impl Into<Bytes>, timestamp: i64) -> Delete {
        self.0.edit(family.into(), Bytes::new(), Bytes::new(), timestamp, CellType::DeleteFamily);
        self
    }

    /// Deletes the versions of a family with exactly this timestamp.
    pub fn family_at(mut self, family: impl Into<Bytes>, timestamp: i64) -> Delete {
        self.0.edit(family.into(), Bytes::new(), Bytes::new(), timestamp, CellType::DeleteFamilyVersion);
        self
    }

    /// Deletes all versions of a column.
    pub fn column(self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>) -> Delete {
        self.column_up_to(family, qualifier, LATEST)
    }

    /// Deletes the versions of a column up to and including `timestamp`, in ms since 1970.
    pub fn column_up_to(
        mut self,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        timestamp: i64,
    ) -> Delete {
        self.0.edit(family.into(), qualifier.into(), Bytes::new(), timestamp, CellType::DeleteColumn);
        self
    }

    /// Deletes the newest version of a column.
    pub fn newest(self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>) -> Delete {
        self.version(family, qualifier, LATEST)
    }

    /// Deletes the version of a column with exactly this timestamp.
    pub fn version(
        mut self,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        timestamp: i64,
    ) -> Delete {
        self.0.edit(family.into(), qualifier.into(), Bytes::new(), timestamp, CellType::Delete);
        self
    }
}

impl Increment {
    /// Adds `amount`, which may be negative, to a column.
    pub fn add(mut self, family: impl Into<Bytes>, qualifier: impl Into<Bytes>, amount: i64) -> Increment {
        let value = Bytes::copy_from_slice(&amount.to_be_bytes());
        self.0.edit(family.into(), qualifier.into(), value, LATEST, CellType::Put);
        self
    }

    /// Sets whether the answer contains the new values. Default true.
    pub fn return_results(self, wanted: bool) -> Increment {
        self.attribute("_rr_", [if wanted { 0xff } else { 0 }])
    }

    /// Restricts the versions that count as the old value.
    pub fn time_range(mut self, time_range: TimeRange) -> Increment {
        self.0.time_range = Some(time_range);
        self
    }
}

impl Append {
    /// Appends to a column.
    pub fn add(
        mut self,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Append {
        self.0.edit(family.into(), qualifier.into(), value.into(), LATEST, CellType::Put);
        self
    }

    /// Sets whether the answer contains the new values. Default true.
    pub fn return_results(self, wanted: bool) -> Append {
        self.attribute("_rr_", [if wanted { 0xff } else { 0 }])
    }
}

/// Several changes of one row that are applied atomically.
#[derive(Clone, Debug)]
pub struct RowMutations {
    pub(crate) row: Bytes,
    pub(crate) mutations: Vec<Mutation>,
}

impl RowMutations {
    /// Creates an empty set of changes.
    pub fn row(row: impl Into<Bytes>) -> RowMutations {
        RowMutations { row: row.into(), mutations: Vec::new() }
    }

    /// Adds a change.
    pub fn with(mut self, mutation: impl Into<Mutation>) -> RowMutations {
        self.mutations.push(mutation.into());
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.mutations.is_empty() {
            return Err(Error::Invalid(format!("no change is named for row {}", self.row.escape_ascii())));
        }
        for mutation in &self.mutations {
            mutation.check()?;
            if mutation.row != self.row {
                return Err(Error::Invalid(format!(
                    "changes of rows {} and {} cannot be one",
                    self.row.escape_ascii(),
                    mutation.row.escape_ascii()
                )));
            }
        }
        Ok(())
    }
}

/// Changes that are applied atomically if a condition holds.
#[derive(Clone, Debug)]
pub struct CheckAndMutate {
    pub(crate) row: Bytes,
    family: Bytes,
    qualifier: Bytes,
    compare: Option<(Comparison, Bytes)>,
    filter: Option<Filter>,
    time_range: TimeRange,
    pub(crate) mutations: Vec<Mutation>,
}

impl CheckAndMutate {
    /// Creates a condition on a column of `row`. Without a further call it requires that the column has no value.
    pub fn column(
        row: impl Into<Bytes>,
        family: impl Into<Bytes>,
        qualifier: impl Into<Bytes>,
    ) -> CheckAndMutate {
        CheckAndMutate {
            row: row.into(),
            family: family.into(),
            qualifier: qualifier.into(),
            compare: Some((Comparison::Equal, Bytes::new())),
            filter: None,
            time_range: TimeRange::ALL,
            mutations: Vec::new(),
        }
    }

    /// Creates the condition that a read of `row` with this filter returns a cell.
    pub fn matching(row: impl Into<Bytes>, filter: Filter) -> CheckAndMutate {
        CheckAndMutate {
            compare: None,
            filter: Some(filter),
            ..CheckAndMutate::column(row, Bytes::new(), Bytes::new())
        }
    }

    /// Requires that the column has this value.
    pub fn equals(self, value: impl Into<Bytes>) -> CheckAndMutate {
        self.compares(Comparison::Equal, value)
    }

    /// Requires that the comparison `value op current` is true. HBase compares in this order here, and in the opposite
    /// order in filters.
    pub fn compares(self, op: Comparison, value: impl Into<Bytes>) -> CheckAndMutate {
        CheckAndMutate { compare: Some((op, value.into())), ..self }
    }

    /// Restricts the versions that the condition examines.
    pub fn time_range(self, time_range: TimeRange) -> CheckAndMutate {
        CheckAndMutate { time_range, ..self }
    }

    /// Adds a change that is applied if the condition holds.
    pub fn then(mut self, mutation: impl Into<Mutation>) -> CheckAndMutate {
        self.mutations.push(mutation.into());
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        RowMutations { row: self.row.clone(), mutations: self.mutations.clone() }.check()
    }

    pub(crate) fn condition(&self) -> pb::Condition {
        let compared = self.compare.as_ref();
        pb::Condition {
            row: self.row.clone(),
            family: compared.map(|_| self.family.clone()),
            qualifier: compared.map(|_| self.qualifier.clone()),
            compare_type: compared.map(|(op, _)| *op as i32),
            comparator: compared.map(|(_, value)| binary(value.clone())),
            time_range: Some(self.time_range.to_message()),
            filter: self.filter.as_ref().map(|filter| filter.0.clone()),
            query_metrics_enabled: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_what_a_server_in_java_takes() {
        let asked = |versions| Get::row("r").versions(versions).to_message().max_versions;
        assert_eq!(asked(0), Some(1));
        assert_eq!(asked(3), Some(3));
        assert_eq!(asked(u32::MAX), Some(i32::MAX as u32));
    }
}
