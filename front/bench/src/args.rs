//! The command line of `bellows bench`.

use std::time::Duration;

use client::{Durability, Registry};

use crate::{Error, Plan, Result, Workload};

/// Drives a server with a load and says what came of it and what it cost.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to do, one after the other; `--list` names all. Default: every workload of PerformanceEvaluation.
    #[arg(value_name = "WORKLOAD")]
    pub workload: Vec<Workload>,

    /// Lists the workloads.
    #[arg(long)]
    pub list: bool,

    /// Servers to ask where the cluster is, `host:port,…`.
    #[arg(long, value_name = "SERVERS", default_value = "127.0.0.1:16020")]
    pub at: String,

    /// Asks these ZooKeeper servers instead, `host:port,…`.
    #[arg(long, value_name = "SERVERS")]
    pub zookeeper: Option<String>,

    /// Process whose CPU time, memory and disk writes are measured: the server's.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Callers at the same time; each has one operation under way.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub threads: usize,

    /// Connections that the callers share.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub connections: usize,

    /// Operating system threads of the generator itself.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub generator_threads: usize,

    /// Rows of the table.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    pub rows: u64,

    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value_t = 1000)]
    pub value_size: usize,

    /// Rows of a batch: of multi-get and batch-write.
    #[arg(long, value_name = "ROWS", default_value_t = 100)]
    pub batch: usize,

    /// Rows that a filtered scan looks at.
    #[arg(long, value_name = "ROWS", default_value_t = 10_000)]
    pub range: u64,

    /// Rows that a scan asks for with one call. Default: 2 MB of them.
    #[arg(long, value_name = "ROWS")]
    pub caching: Option<u32>,

    /// Measured time of each workload, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,

    /// Time before that in which nothing is recorded, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub warm_up: f64,

    /// What a write asks for: default, skip, async, sync or fsync.
    #[arg(long, value_name = "HOW", default_value = "default", value_parser = durability)]
    pub durability: Durability,

    /// The table.
    #[arg(long, value_name = "NAME", default_value = "TestTable")]
    pub table: String,

    /// Regions that the table is cut into when it is made.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub regions: u64,

    /// Leaves the loaded rows in the memstore instead of flushing them.
    #[arg(long)]
    pub no_flush: bool,

    /// Where chance begins: the same seed asks for the same rows.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
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
    pub fn workloads(&self) -> Vec<Workload> {
        if self.workload.is_empty() { Workload::evaluation() } else { self.workload.clone() }
    }

    /// What is to be done, checked.
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
        positive("batch", self.batch as u64)?;
        positive("range", self.range)?;
        positive("regions", self.regions)?;
        if self.connections > self.threads {
            return Err(Error::Options(format!(
                "--connections {} is more than --threads {}: some would carry nothing",
                self.connections, self.threads
            )));
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
            rows: self.rows,
            value_size: self.value_size,
            batch: self.batch,
            range: self.range.min(self.rows),
            caching: self.caching,
            measured: seconds("seconds", self.seconds)?,
            warm_up: seconds("warm-up", self.warm_up)?,
            durability: self.durability,
            table: self.table.parse().map_err(client::Error::from)?,
            regions: self.regions,
            flush: !self.no_flush,
            seed: self.seed,
        })
    }
}
