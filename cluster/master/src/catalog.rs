//! Reads and writes hbase:meta and hbase:namespace.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cell::string_binary;
use contract::{CatalogEdit, CatalogRow};
use prost::Message;
use proto::catalog::{self, Column, RegionRow, RegionState, TableState};
use proto::{EncodedName, RegionInfo, TableName, pb};
use rpc::Exception;

use crate::Error;
use crate::assignments::{Assignments, StampClock};

/// The tables of the catalog, which are read and written through their regions.
#[derive(Debug)]
pub(crate) struct Catalog {
    regions: Arc<Assignments>,
    clock: Arc<StampClock>,
    meta: EncodedName,
    /// Number of writes to hbase:meta that failed.
    failed: AtomicU64,
    /// Number of failed writes that had ended when the last successful write began.
    confirmed: AtomicU64,
}

/// The content of hbase:meta.
#[derive(Debug, Default)]
pub(crate) struct CatalogContent {
    pub(crate) regions: BTreeMap<TableName, Vec<RegionRow>>,
    pub(crate) states: BTreeMap<TableName, TableState>,
    /// Rows that cannot be read, with the reasons. Such rows can exist, because any client may write to hbase:meta.
    pub(crate) unreadable: Vec<Error>,
}

impl CatalogContent {
    /// Decodes the rows of hbase:meta.
    pub(crate) fn of(rows: Vec<CatalogRow>) -> CatalogContent {
        let mut content = CatalogContent::default();
        for row in rows {
            let CatalogContent { regions, states, unreadable } = &mut content;
            let mut told = |cause| {
                let row = string_binary(&row.key).to_string();
                unreadable.push(Error::Catalog { table: "hbase:meta", row, cause: Box::new(cause) });
            };
            let columns = || row.columns.iter().map(|c| (&*c.family, &*c.qualifier, c.value.clone()));
            let region = RegionRow::decode(columns()).unwrap_or_else(|cause| {
                told(cause);
                // Of a row only the region is read. After a start, its server and its state are out of date.
                let who = columns().filter(|(_, qualifier, _)| *qualifier == catalog::REGION_INFO);
                RegionRow::decode(who).ok().flatten()
            });
            if let Some(region) = region {
                regions.entry(region.region.table().clone()).or_default().push(region);
            }
            let state =
                row.columns.iter().find(|c| *c.family == *catalog::TABLE && *c.qualifier == *catalog::STATE);
            // A column with an empty value counts as missing, because HBase clears a column in this way.
            if let Some(column) = state.filter(|column| !column.value.is_empty()) {
                let table = TableName::from_bytes(&row.key);
                match table.and_then(|table| Ok((table, catalog::decode_table_state(&column.value)?))) {
                    Ok((table, state)) => drop(states.insert(table, state)),
                    Err(cause) => told(cause),
                }
            }
        }
        content
    }
}

/// Decodes the rows of hbase:namespace. Rows that cannot be decoded are logged and left out.
pub(crate) fn namespaces_of(rows: Vec<CatalogRow>) -> Vec<pb::NamespaceDescriptor> {
    let mut found = Vec::new();
    for row in rows {
        let is_descriptor = |c: &&Column| {
            *c.family == *catalog::NAMESPACE_FAMILY && *c.qualifier == *catalog::NAMESPACE_QUALIFIER
        };
        if let Some(column) = row.columns.iter().find(is_descriptor) {
            match pb::NamespaceDescriptor::decode(column.value.clone()) {
                Ok(namespace) => found.push(namespace),
                Err(cause) => {
                    let row = string_binary(&row.key);
                    tracing::error!(%row, %cause, "a row of hbase:namespace cannot be read and is left alone");
                }
            }
        }
    }
    found
}

impl Catalog {
    pub(crate) fn new(regions: Arc<Assignments>, clock: Arc<StampClock>) -> Catalog {
        let meta = RegionInfo::meta().encoded_name().clone();
        Catalog { regions, clock, meta, failed: AtomicU64::new(0), confirmed: AtomicU64::new(0) }
    }

    /// Makes all later timestamps greater than every timestamp in `region`. Otherwise, if the clock was set back since
    /// a row was deleted, the delete marker would hide a new row.
    pub(crate) fn stamp_after(&self, region: &EncodedName) -> Result<(), Exception> {
        self.clock.stamp_after(self.regions.newest(region)?);
        Ok(())
    }

    /// Reads hbase:meta.
    pub(crate) fn read(&self) -> Result<CatalogContent, Error> {
        Ok(CatalogContent::of(self.rows(&self.meta, "hbase:meta")?))
    }

    /// Writes rows of regions.
    pub(crate) fn put_regions<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a RegionRow>,
    ) -> Result<(), Exception> {
        let put = |row: &RegionRow| CatalogEdit::Put(CatalogRow { key: row.key(), columns: row.columns() });
        self.write(&self.meta, rows.into_iter().map(put).collect())
    }

    /// Writes rows of regions and removes the rows of `gone`, all together or none.
    pub(crate) fn replace_regions<'a>(
        &self,
        rows: impl IntoIterator<Item = &'a RegionRow>,
        gone: &[RegionInfo],
    ) -> Result<(), Exception> {
        let put = |row: &RegionRow| CatalogEdit::Put(CatalogRow { key: row.key(), columns: row.columns() });
        let delete = |region: &RegionInfo| CatalogEdit::Delete(region.meta_row());
        let edits = rows.into_iter().map(put).chain(gone.iter().map(delete));
        self.write(&self.meta, edits.collect())
    }

    /// Removes the columns that name the parents of a merged region.
    pub(crate) fn forget_merge(&self, row: &RegionRow) -> Result<(), Exception> {
        let family = Bytes::from_static(catalog::INFO);
        let columns =
            (0..row.merged_from.len()).map(|index| (family.clone(), catalog::merge_qualifier(index)));
        self.write(&self.meta, vec![CatalogEdit::DeleteColumns(row.key(), columns.collect())])
    }

    /// Writes the state of a region that has a row, and no other column.
    pub(crate) fn put_region_state(&self, row: &RegionRow, state: RegionState) -> Result<(), Exception> {
        let columns = vec![catalog::region_state_column(state)];
        self.write(&self.meta, vec![CatalogEdit::Put(CatalogRow { key: row.key(), columns })])
    }

    /// Writes a table's state.
    pub(crate) fn put_state(&self, table: &TableName, state: TableState) -> Result<(), Exception> {
        let key = Bytes::copy_from_slice(table.as_bytes());
        self.write(
            &self.meta,
            vec![CatalogEdit::Put(CatalogRow { key, columns: vec![catalog::table_state_column(state)] })],
        )
    }

    /// Makes sure that no earlier write to hbase:meta takes place later, so that [`read`](Catalog::read) shows all that will
    /// ever be there. A write that fails may wait for room on a full disk. The log takes all writes in their order, so the
    /// success of another write proves that no earlier one waits. If none has succeeded since the last failure, deletes the
    /// state of `removed`, a table that the caller is about to remove.
    pub(crate) fn confirm_writes(&self, removed: &TableName) -> Result<(), Exception> {
        if self.confirmed.load(Ordering::SeqCst) == self.failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let state = Bytes::copy_from_slice(removed.as_bytes());
        self.write(&self.meta, vec![CatalogEdit::Delete(state)])
    }

    /// Removes every row of a table: its regions first, its state last.
    pub(crate) fn remove(&self, table: &TableName) -> Result<(), Exception> {
        let content = self.read().map_err(|error| Exception::io(error.to_string()))?;
        let regions = content.regions.get(table).into_iter().flatten();
        let mut edits: Vec<CatalogEdit> = regions.map(|row| CatalogEdit::Delete(row.key())).collect();
        if content.states.contains_key(table) {
            edits.push(CatalogEdit::Delete(Bytes::copy_from_slice(table.as_bytes())));
        }
        if edits.is_empty() { Ok(()) } else { self.write(&self.meta, edits) }
    }

    /// Reads all namespaces from the region of hbase:namespace. Rows that cannot be decoded are logged and left out.
    pub(crate) fn namespaces(&self, region: &EncodedName) -> Result<Vec<pb::NamespaceDescriptor>, Error> {
        Ok(namespaces_of(self.rows(region, "hbase:namespace")?))
    }

    /// Writes a namespace into the region of hbase:namespace.
    pub(crate) fn put_namespace(
        &self,
        region: &EncodedName,
        namespace: &pb::NamespaceDescriptor,
    ) -> Result<(), Exception> {
        let column = Column {
            family: Bytes::from_static(catalog::NAMESPACE_FAMILY),
            qualifier: Bytes::from_static(catalog::NAMESPACE_QUALIFIER),
            value: namespace.encode_to_vec().into(),
        };
        self.write(
            region,
            vec![CatalogEdit::Put(CatalogRow { key: namespace.name.clone(), columns: vec![column] })],
        )
    }

    /// Removes a namespace from the region of hbase:namespace.
    pub(crate) fn remove_namespace(&self, region: &EncodedName, name: &str) -> Result<(), Exception> {
        self.write(region, vec![CatalogEdit::Delete(Bytes::copy_from_slice(name.as_bytes()))])
    }

    fn rows(&self, region: &EncodedName, table: &'static str) -> Result<Vec<CatalogRow>, Error> {
        self.regions
            .rows(region)
            .map_err(|cause| Error::Region { act: format!("reading {table}"), cause: Box::new(cause) })
    }

    fn write(&self, region: &EncodedName, edits: Vec<CatalogEdit>) -> Result<(), Exception> {
        let failed = self.failed.load(Ordering::SeqCst);
        let written = self.regions.write(region, self.clock.next(), edits);
        if *region == self.meta {
            match &written {
                Ok(()) => self.confirmed.fetch_max(failed, Ordering::SeqCst),
                Err(_) => self.failed.fetch_add(1, Ordering::SeqCst),
            };
        }
        written
    }
}
