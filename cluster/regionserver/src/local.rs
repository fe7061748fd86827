//! What the master asks of the region server that lives in its own process.
//!
//! All calls block; the master makes them from threads that may wait.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp, block};
use master::regions::{Edit, OpenSequence, Row, Stamp};
use proto::catalog::Column;
use proto::{EncodedName, RegionInfo, ServerName, TableDescriptor, pb};
use region::{CellSink, Durability, Limits, Mutation, MutationKind, ReadMode, Region, Scan};
use rpc::Exception;

use crate::RegionServer;

/// The regions of one server, as its master sees them.
#[derive(Clone, Debug)]
pub struct LocalRegions {
    server: Arc<RegionServer>,
}

impl LocalRegions {
    /// The regions of `server`.
    pub fn new(server: Arc<RegionServer>) -> LocalRegions {
        LocalRegions { server }
    }

    fn find(&self, region: &EncodedName) -> Result<Arc<Region>, Exception> {
        self.server.regions().by_encoded_name(region).ok_or_else(|| {
            Exception::not_serving_region(format!("{region} is not online on {}", self.server.name()))
        })
    }

    fn told<T>(&self, outcome: Result<T, region::Error>) -> Result<T, Exception> {
        outcome.map_err(|error| self.server.exception(&error))
    }
}

impl master::regions::Regions for LocalRegions {
    fn server(&self) -> ServerName {
        self.server.name().clone()
    }

    fn open(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<OpenSequence, Exception> {
        let region = self.told(self.server.open_region(region.clone(), table.clone()))?;
        Ok(OpenSequence(region.open_sequence().0))
    }

    fn close(&self, region: &EncodedName) -> Result<(), Exception> {
        self.told(self.server.close_region(region, None)).map(drop)
    }

    fn truncate(&self, region: &RegionInfo, table: &Arc<TableDescriptor>) -> Result<(), Exception> {
        self.told(self.server.truncate_region(region.clone(), table.clone()))
    }

    fn discard(&self, region: &EncodedName) {
        self.server.foundation().log.forget_region(region.as_str().as_bytes());
    }

    fn keep_only(&self, known: &BTreeSet<EncodedName>) {
        let foundation = self.server.foundation();
        let Some(recovered) = &foundation.recovered else { return };
        for name in recovered.regions() {
            let known =
                EncodedName::parse(&String::from_utf8_lossy(&name)).is_ok_and(|name| known.contains(&name));
            if !known {
                foundation.log.forget_region(&name);
                recovered.taken(&name);
            }
        }
    }

    fn is_open(&self, region: &EncodedName) -> bool {
        self.server.regions().by_encoded_name(region).is_some()
    }

    fn flush(&self, region: &EncodedName, families: &[Bytes]) -> Result<(), Exception> {
        self.told(self.server.flush_families(&self.find(region)?, families)).map(drop)
    }

    fn last_major_compaction(&self, region: &EncodedName) -> Result<i64, Exception> {
        Ok(self.find(region)?.load().last_major_compaction.map_or(0, |time| time.0))
    }

    fn load(&self) -> pb::ServerLoad {
        self.server.server_load()
    }

    fn rows(&self, region: &EncodedName) -> Result<Vec<Row>, Exception> {
        let mut rows = Rows::default();
        self.told(self.find(region)?.scanner(Scan::default()).and_then(|mut scanner| {
            while scanner.next_row(&Limits::NONE, &mut rows, ReadMode::Any)?.more {}
            Ok(())
        }))?;
        Ok(rows.0)
    }

    fn newest(&self, region: &EncodedName) -> Result<Stamp, Exception> {
        let mut newest = Newest::default();
        let everything = Scan { raw: true, max_versions: u32::MAX, ..Scan::default() };
        self.told(self.find(region)?.scanner(everything).and_then(|mut scanner| {
            while scanner.next_row(&Limits::NONE, &mut newest, ReadMode::Any)?.more {}
            Ok(())
        }))?;
        Ok(Stamp(u64::try_from(newest.0).unwrap_or(0)))
    }

    fn stop(&self) {
        self.server.stop();
    }

    fn write(&self, region: &EncodedName, stamp: Stamp, edits: Vec<Edit>) -> Result<(), Exception> {
        let region = self.find(region)?;
        let mutations: Vec<_> =
            edits.iter().map(|edit| mutation(region.table(), stamp, edit)).collect::<Result<_, _>>()?;
        let applied = self.told(region.apply(&mutations, ReadMode::Any))?;
        self.server.written(&region);
        // All are waited for before one that failed is told: which of them are done is then certain.
        let durable = self.told(applied.pending.wait_blocking());
        self.told(applied.outcomes.into_iter().collect::<Result<Vec<()>, _>>())?;
        durable
    }
}

/// Gathers cells into rows.
#[derive(Default)]
struct Rows(Vec<Row>);

impl CellSink for Rows {
    fn cell(&mut self, cell: Cell<'_>) {
        let part = Bytes::copy_from_slice;
        let column = Column {
            family: part(cell.family()),
            qualifier: part(cell.qualifier()),
            value: part(cell.value()),
        };
        match self.0.last_mut() {
            Some(row) if row.key == cell.row() => row.columns.push(column),
            _ => self.0.push(Row { key: part(cell.row()), columns: vec![column] }),
        }
    }
}

/// The newest timestamp that was seen.
#[derive(Default)]
struct Newest(i64);

impl CellSink for Newest {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0 = self.0.max(cell.timestamp().0);
    }
}

fn mutation(table: &TableDescriptor, stamp: Stamp, edit: &Edit) -> Result<Mutation, Exception> {
    let mut cells = Vec::new();
    let mut cell = |row: &[u8], family: &[u8], qualifier: &[u8], cell_type, value: &[u8]| {
        let timestamp = Timestamp(i64::try_from(stamp.0).unwrap_or(i64::MAX));
        let parts = CellParts { row, family, qualifier, timestamp, cell_type, value, tags: b"" };
        let bytes = parts.to_vec().map_err(|error| Exception::do_not_retry(error.to_string()))?;
        block::write_with_tags(&mut cells, Cell::trusted(&bytes, SequenceId::ZERO));
        Ok::<(), Exception>(())
    };
    let (kind, row) = match edit {
        Edit::Put(row) => {
            for column in &row.columns {
                cell(&row.key, &column.family, &column.qualifier, CellType::Put, &column.value)?;
            }
            (MutationKind::Put, row.key.clone())
        }
        Edit::Delete(row) => {
            for family in table.families() {
                cell(row, family.name(), b"", CellType::DeleteFamily, b"")?;
            }
            (MutationKind::Delete, row.clone())
        }
    };
    Ok(Mutation {
        kind,
        row,
        cells: CellBlock::parse(cells.into()).map_err(|error| Exception::do_not_retry(error.to_string()))?,
        durability: Durability::Sync,
        time_range: None,
        return_results: false,
        nonce: None,
    })
}
