//! The command line of `bellows bench`.

use std::path::PathBuf;
use std::time::Duration;

use client::{Durability, Registry};

use crate::{Error, Keys, Plan, Result, Workload};

/// Runs a load against a server and reports results and costs.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Workloads to run, in order; `--list` names all, `ycsb` means all six of YCSB. Default: every workload of
    /// PerformanceEvaluation.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Vec<String>,

    /// Lists the workloads.
    #[arg(long)]
    pub list: bool,

    /// Servers that know the cluster, `host:port,…`.
    #[arg(long, value_name = "SERVERS", default_value = "127.0.0.1:16020")]
    pub at: String,

    /// Asks these ZooKeeper servers instead, `host:port,…`.
    #[arg(long, value_name = "SERVERS")]
    pub zookeeper: Option<String>,

    /// Process id of the server, to measure its CPU time, memory and disk writes.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Counts all system calls of that process with the perf program.
    #[arg(long, requires = "pid")]
    pub count_calls: bool,

    /// Watches the processors and reports latencies separately for operations that no processor stall could delay, such
    /// as those of virtual machines. Needs the right to a high thread priority; keeps 16 bytes for each operation.
    #[arg(long, requires = "rate")]
    pub calm: bool,

    /// Number of concurrent callers; each runs one operation at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub threads: usize,

    /// Connections shared by the callers: requests on one connection are pipelined.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub connections: usize,

    /// Threads of the generator.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub generator_threads: usize,

    /// Open loop: begins this many operations per second, with latencies from the intended begin. Default: the closed
    /// loop, where a caller begins an operation when its last one has ended.
    #[arg(long, value_name = "OPERATIONS")]
    pub rate: Option<f64>,

    /// Rows in a table.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub rows: u64,

    /// Bytes of a value in PerformanceEvaluation's table, which has one column.
    #[arg(long, value_name = "BYTES", default_value_t = 1000)]
    pub value_size: usize,

    /// Bytes of a key in PerformanceEvaluation's table, 20 to 26.
    #[arg(long, value_name = "BYTES", default_value_t = 26, value_parser = clap::value_parser!(u8).range(20..=26))]
    pub key_size: u8,

    /// Block size in bytes of a table created by this run. Default: the server's.
    #[arg(long, value_name = "BYTES")]
    pub block_size: Option<u32>,

    /// Fields of a row in YCSB's table.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub fields: usize,

    /// Bytes of a field in YCSB's table.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub field_size: usize,

    /// Distribution of the rows: uniform, zipfian, latest or hotspot. Default: uniform, and YCSB's choice for its
    /// workloads.
    #[arg(long, value_name = "HOW")]
    pub keys: Option<Keys>,

    /// Rows in a batch of multi-get and batch-write.
    #[arg(long, value_name = "ROWS", default_value_t = 100)]
    pub batch: usize,

    /// Rows that a filtered scan reads.
    #[arg(long, value_name = "ROWS", default_value_t = 10_000)]
    pub range: u64,

    /// Rows per scan call; PerformanceEvaluation uses 30. Default: 2 MB of rows.
    #[arg(long, value_name = "ROWS")]
    pub caching: Option<u32>,

    /// Measured time of each workload, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,

    /// Number of operations after which a workload ends early.
    #[arg(long, value_name = "COUNT")]
    pub operations: Option<u64>,

    /// Warm-up before the measured time, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub warm_up: f64,

    /// Longest wait before each workload, in seconds, until the process of --pid is idle, so that earlier flushes and
    /// compactions do not count.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub settle: f64,

    /// Durability of writes: default, skip, async, sync or fsync.
    #[arg(long, value_name = "HOW", default_value = "default", value_parser = durability)]
    pub durability: Durability,

    /// PerformanceEvaluation's table.
    #[arg(long, value_name = "NAME", default_value = "TestTable")]
    pub table: String,

    /// YCSB's table.
    #[arg(long, value_name = "NAME", default_value = "usertable")]
    pub ycsb_table: String,

    /// Number of regions of a table created by this run.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub regions: u64,

    /// Memstore flush size in bytes of a table created by this run. Default: the server's.
    #[arg(long, value_name = "BYTES")]
    pub flush_size: Option<u64>,

    /// Leaves the loaded rows in the memstore instead of flushing them.
    #[arg(long)]
    pub no_flush: bool,

    /// Flushes and compacts the tables before the workloads.
    #[arg(long)]
    pub compact: bool,

    /// Requests major compactions of the table during each workload, the next one as soon as the last one has begun.
    #[arg(long)]
    pub major_compactions: bool,

    /// Seed of the random numbers: the same seed reads the same rows.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Prints JSON instead of the table: a line with one object for each workload.
    #[arg(long)]
    pub json: bool,

    /// Name of the server in JSON and pictures.
    #[arg(long, value_name = "NAME", default_value = "server")]
    pub label: String,

    /// Draws pictures of the results into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub pictures: Option<PathBuf>,

    /// Runs no workload, but waits for the first read and the first write that a starting server answers, and reports
    /// both times. The text names the kind of start, for example `start`.
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["workload", "pictures"])]
    pub until_first: Option<String>,

    /// Runs no workload, but measures the machine's limits: echoes over the loopback interface, copies, reads and syncs
    /// of the same sizes, with a file in this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["workload", "pictures", "until_first"])]
    pub limits: Option<PathBuf>,

    /// Runs nothing, but compares results of earlier runs: files with the output of --json. Ratios are those of the
    /// first label to each other label.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["workload", "json", "until_first"])]
    pub beside: Vec<PathBuf>,
}

fn durability(text: &str) -> std::result::Result<Durability, String> {
    match text {
        "default" => Ok(Durability::UseDefault),
        "skip" => Ok(Durability::SkipWal),
        "async" => Ok(Durability::AsyncWal),
        "sync" => Ok(Durability::SyncWal),
        "fsync" => Ok(Durability::FsyncWal),
        _ => Err("one of default, skip, async, sync, fsync".to_owned()),
    }
}

impl Args {
    /// The workloads asked for.
    pub fn workloads(&self) -> Result<Vec<Workload>> {
        if self.workload.is_empty() {
            return Ok(Workload::evaluation());
        }
        let mut workloads = Vec::new();
        for name in &self.workload {
            match name.as_str() {
                "ycsb" => workloads.extend(Workload::ycsb()),
                name => workloads.push(name.parse().map_err(Error::Options)?),
            }
        }
        Ok(workloads)
    }

    /// The plan of the run, after checking the options.
    pub fn plan(&self) -> Result<Plan> {
        let registry = match &self.zookeeper {
            Some(servers) => Registry::zookeeper(servers.split(',')),
            None => Registry::rpc(self.at.split(',')),
        };
        let positive = |name: &str, value: u64| match value {
            0 => Err(Error::Options(format!("--{name} is 0: at least 1 is needed"))),
            _ => Ok(()),
        };
        positive("threads", self.threads as u64)?;
        positive("connections", self.connections as u64)?;
        positive("generator-threads", self.generator_threads as u64)?;
        positive("rows", self.rows)?;
        positive("value-size", self.value_size as u64)?;
        positive("fields", self.fields as u64)?;
        positive("field-size", self.field_size as u64)?;
        positive("batch", self.batch as u64)?;
        positive("range", self.range)?;
        positive("regions", self.regions)?;
        if self.connections > self.threads {
            return Err(Error::Options(format!(
                "--connections {} is more than --threads {}: some would carry nothing",
                self.connections, self.threads
            )));
        }
        if let Some(rate) = self.rate
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(Error::Options(format!("--rate {rate} is no number of operations in a second")));
        }
        let seconds = |name: &str, value: f64| {
            Duration::try_from_secs_f64(value)
                .map_err(|_| Error::Options(format!("--{name} {value} is no number of seconds")))
        };
        Ok(Plan {
            registry,
            pid: self.pid,
            threads: self.threads,
            connections: self.connections,
            generator_threads: self.generator_threads,
            rate: self.rate,
            rows: self.rows,
            value_size: self.value_size,
            key_size: self.key_size.into(),
            block_size: self.block_size,
            fields: self.fields,
            field_size: self.field_size,
            keys: self.keys,
            batch: self.batch,
            range: self.range.min(self.rows),
            caching: self.caching,
            measured: seconds("seconds", self.seconds)?,
            operations: self.operations,
            warm_up: seconds("warm-up", self.warm_up)?,
            settle: seconds("settle", self.settle)?,
            durability: self.durability,
            table: self.table.parse().map_err(client::Error::from)?,
            ycsb_table: self.ycsb_table.parse().map_err(client::Error::from)?,
            regions: self.regions,
            flush_size: self.flush_size,
            flush: !self.no_flush,
            compact: self.compact,
            major_compactions: self.major_compactions,
            count_calls: self.count_calls,
            calm: self.calm,
            seed: self.seed,
        })
    }
}
