//! The settings of a run, apart from its workloads.

use std::time::Duration;

use client::{Durability, Registry};
use proto::TableName;

use crate::report::grouped;
use crate::rows::{Layout, Rows};
use crate::{Keys, Workload};

/// The settings of a run, apart from its workloads.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the cluster is found.
    pub registry: Registry,
    /// Process id of the server; `None` if its cost is not measured.
    pub pid: Option<u32>,
    /// Number of callers, each with one operation at a time.
    pub threads: usize,
    /// Number of connections that the callers share.
    pub connections: usize,
    /// Number of threads of the generator.
    pub generator_threads: usize,
    /// Number of operations that begin in a second; `None` for the closed loop.
    pub rate: Option<f64>,
    /// Number of rows in a table.
    pub rows: u64,
    /// Size of a value in PerformanceEvaluation's table, in bytes.
    pub value_size: usize,
    /// Size of a key in PerformanceEvaluation's table, in bytes.
    pub key_size: usize,
    /// Block size in bytes of a table created by this run.
    pub block_size: Option<u32>,
    /// Number of fields of a row in YCSB's table.
    pub fields: usize,
    /// Size of a field in YCSB's table, in bytes.
    pub field_size: usize,
    /// Distribution of the rows; `None` for that of the workload.
    pub keys: Option<Keys>,
    /// Number of rows in a batch.
    pub batch: usize,
    /// Number of rows that a filtered scan reads; at most `rows`.
    pub range: u64,
    /// Number of rows per scan call; `None` for the client's default.
    pub caching: Option<u32>,
    /// Measured time of a workload, without the warm-up.
    pub measured: Duration,
    /// Number of operations after which a workload ends early; `None` for no such limit.
    pub operations: Option<u64>,
    /// Warm-up before the measured time.
    pub warm_up: Duration,
    /// Maximum wait for an idle server before a workload.
    pub settle: Duration,
    /// Durability of the writes.
    pub durability: Durability,
    /// The name of PerformanceEvaluation's table.
    pub table: TableName,
    /// The name of YCSB's table.
    pub ycsb_table: TableName,
    /// Number of regions of a table created by this run.
    pub regions: u64,
    /// Memstore flush size in bytes of a table created by this run.
    pub flush_size: Option<u64>,
    /// Whether the loaded rows are flushed to files.
    pub flush: bool,
    /// Whether tables are flushed and compacted before the workloads.
    pub compact: bool,
    /// Whether major compactions of the table run during a workload.
    pub major_compactions: bool,
    /// Whether the server's system calls are counted.
    pub count_calls: bool,
    /// Whether the processors are watched for stalls.
    pub calm: bool,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Plan {
    /// Returns the name of a workload's results: the workload's name, and the settings that make the results
    /// incomparable with others.
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
        if self.major_compactions {
            name += " during major compactions";
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
