//! A load generator: `bellows bench`.
//!
//! It speaks to any server that HBase's client speaks to, over the project's own client, so the same tool with the same
//! cost drives Bellows and Apache HBase. What it measures is said three times over: what the callers saw (throughput and
//! latency), what the server paid for it (CPU time, memory and disk, from `/proc` of the server's process), and what the
//! generator itself paid, so that a generator that was the bottleneck is seen.
//!
//! How a run goes:
//!
//! 1. [`Plan`] says what to do: servers, workloads, how many callers over how many connections, sizes, durations.
//! 2. The table is made and filled if it is not there already ([`prepare`]).
//! 3. For each [`Workload`] every caller works as fast as answers come (or at a [target rate](Plan::rate)) through the
//!    warm-up and the measured time. Recording begins after the warm-up. Everything read is compared with what was
//!    written: rows that are not right are counted apart.
//! 4. A [`Report`] per workload is the result.
//!
//! What this crate does not know: how a server works, and which of the two it talks to.

mod args;
mod chance;
mod drive;
mod error;
mod prepare;
mod process;
mod recorder;
mod report;
mod rows;
mod worker;
mod workload;

pub use args::Args;
pub use drive::Plan;
pub use error::Error;
pub use prepare::prepare;
pub use process::{Cost, Usage};
pub use recorder::{Recorded, Slot};
pub use report::{Report, table};
pub use workload::Workload;

/// The result of what this crate does.
pub type Result<T> = std::result::Result<T, Error>;

/// Runs everything that `args` ask for; `say` is given each line of progress and `out` each line of the result.
pub fn run(args: &Args, say: &mut dyn FnMut(&str), out: &mut dyn FnMut(&str)) -> Result<()> {
    if args.list {
        for workload in Workload::all() {
            out(&format!("{:18} {}", workload.to_string(), workload.meaning()));
        }
        return Ok(());
    }
    let plan = args.plan()?;
    let bench = drive::Bench::start(plan)?;
    bench.prepare(say)?;
    let mut reports = Vec::new();
    for workload in args.workloads() {
        reports.push(bench.drive(workload, say)?);
    }
    out(&table(&reports));
    let failed: u64 = reports.iter().map(|report| report.recorded.failed() + report.recorded.wrong()).sum();
    if failed > 0 { Err(Error::Failed { count: failed }) } else { Ok(()) }
}
