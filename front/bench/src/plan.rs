//! What a run does, apart from its workloads.

use std::time::Duration;

use client::{Durability, Registry};
use proto::TableName;

use crate::report::grouped;
use crate::rows::{Layout, Rows};
use crate::{Keys, Workload};

/// What a run does, apart from its workloads.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the cluster is looked up.
    pub registry: Registry,
    /// The server's process.
    pub pid: Option<u32>,
    /// Callers, each with one operation under way.
    pub threads: usize,
    /// Connections they share.
    pub connections: usize,
    /// Threads of the generator.
    pub generator_threads: usize,
    /// Operations that begin in a second; `None`: as many as are answered.
    pub rate: Option<f64>,
    /// Rows of a table.
    pub rows: u64,
    /// Bytes of a value of PerformanceEvaluation's table.
    pub value_size: usize,
    /// Bytes of a key of it.
    pub key_size: usize,
    /// Bytes of a block, of a table that is made here.
    pub block_size: Option<u32>,
    /// Fields of a row of YCSB's table.
    pub fields: usize,
    /// Bytes of one of them.
    pub field_size: usize,
    /// How rows are chosen; `None`: as the workload does.
    pub keys: Option<Keys>,
    /// Rows of a batch.
    pub batch: usize,
    /// Rows that a filtered scan looks at; at most `rows`.
    pub range: u64,
    /// Rows of one call of a scan.
    pub caching: Option<u32>,
    /// Measured time.
    pub measured: Duration,
    /// Operations after which a workload ends before its time.
    pub operations: Option<u64>,
    /// Time before it.
    pub warm_up: Duration,
    /// How long it is waited at most for the server to be idle before a workload.
    pub settle: Duration,
    /// What writes ask for.
    pub durability: Durability,
    /// PerformanceEvaluation's table.
    pub table: TableName,
    /// YCSB's table.
    pub ycsb_table: TableName,
    /// Regions of a table when it is made here.
    pub regions: u64,
    /// Bytes of a memstore from which on it is flushed, of a table that is made here.
    pub flush_size: Option<u64>,
    /// Whether the rows are flushed to files after they were loaded.
    pub flush: bool,
    /// Whether tables are flushed and compacted before anything is driven.
    pub compact: bool,
    /// Whether the server's system calls are counted.
    pub count_calls: bool,
    /// Whether the processors are watched.
    pub calm: bool,
    /// Where chance begins.
    pub seed: u64,
}

impl Plan {
    /// What results of a workload are called: its name, and what of the plan makes them another thing.
    pub(crate) fn name(&self, workload: Workload) -> String {
        let mut name = workload.to_string();
        match self.durability {
            Durability::UseDefault => {}
            Durability::SkipWal => name += " skip",
            Durability::AsyncWal => name += " async",
            Durability::SyncWal => name += " sync",
            Durability::FsyncWal => name += " fsync",
        }
        if let Some(keys) = self.keys {
            name += &format!(" {keys}");
        }
        let scans = matches!(workload, Workload::Scan | Workload::ScanRange(_));
        if let Some(rows) = self.caching.filter(|_| scans) {
            name += &format!(" by {rows}");
        }
        if let Some(rate) = self.rate {
            name += &format!(" at {}/s", grouped(rate.round() as u64));
        }
        name
    }

    pub(crate) fn table(&self, layout: Layout) -> &TableName {
        match layout {
            Layout::Evaluation => &self.table,
            Layout::Ycsb => &self.ycsb_table,
        }
    }

    pub(crate) fn rows(&self, layout: Layout) -> Rows {
        match layout {
            Layout::Evaluation => {
                Rows::new(layout, self.rows, 1, self.value_size).with_key_size(self.key_size)
            }
            Layout::Ycsb => Rows::new(layout, self.rows, self.fields, self.field_size),
        }
    }
}
