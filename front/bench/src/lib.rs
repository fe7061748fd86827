//! A load generator: `bellows bench`.
//!
//! It works with any server of HBase's client protocol, through the project's own client, so the same tool at the same
//! cost drives Bellows and Apache HBase. It reports what callers saw (throughput, latency), what the server paid (CPU
//! time, memory, disk, from `/proc`), and what the generator paid, which reveals a generator that is the bottleneck.
//!
//! A run:
//!
//! 1. [`Plan`] defines servers, workloads, callers, connections, sizes and durations.
//! 2. Missing tables are created and filled.
//! 3. For each [`Workload`] every caller works as fast as responses come, or at a [rate](Plan::rate), through the
//!    warm-up and the measured time. Recording begins after the warm-up. Everything read is compared with what was
//!    written; wrong rows are counted.
//! 4. A [`Report`] per workload is printed as a table or JSON, or drawn.
//!
//! Results of several servers can be [compared](Args::beside) afterwards, from their JSON.
//!
//! This crate does not know how a server works, or which server it drives.

mod args;
mod beside;
mod calls;
mod calm;
mod chart;
mod drive;
mod error;
mod first;
mod keys;
mod limits;
mod mix;
mod outcome;
mod pace;
mod pictures;
mod plan;
mod prepare;
mod process;
mod random;
mod recorder;
mod report;
mod rows;
mod watch;
mod worker;
mod workload;

pub use args::Args;
pub use calm::Calm;
pub use error::Error;
pub use first::First;
pub use keys::Keys;
pub use limits::Limit;
pub use plan::Plan;
pub use process::{Cost, Usage};
pub use recorder::{Recorded, Slot};
pub use report::{Report, table};
pub use watch::{Event, Mark};
pub use workload::{Workload, Ycsb};

use std::time::Duration;

use outcome::Outcomes;

/// Time for which each limit of the machine is measured, in seconds.
const LIMIT_SECONDS: f64 = 0.7;

/// The result of a function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Runs everything that `args` ask for. Passes lines of progress to `say` and lines of results to `out`. If a result
/// cannot be written, the run ends with [`Error::Output`]. If operations failed or read wrong rows, the run continues,
/// and returns [`Error::Failed`] at the end.
pub fn run(
    args: &Args,
    say: &mut dyn FnMut(&str),
    out: &mut dyn FnMut(&str) -> std::io::Result<()>,
) -> Result<()> {
    let out = &mut |line: &str| out(line).map_err(Error::Output);
    if args.list {
        for workload in Workload::all() {
            out(&format!("{:18} {}", workload.to_string(), workload.meaning()))?;
        }
        return Ok(());
    }
    let mut outcomes = Outcomes::default();
    if !args.beside.is_empty() {
        for file in &args.beside {
            outcomes.add_file(file)?;
        }
        out(&beside::beside(&outcomes))?;
        return draw(args, &outcomes, say);
    }
    if let Some(folder) = &args.limits {
        let limits = limits::limits(&args.plan()?, folder, Duration::from_secs_f64(LIMIT_SECONDS))?;
        if args.json {
            limits.iter().try_for_each(|limit| out(&limit.line()))?;
        } else {
            outcomes.limits = limits;
            out(&beside::beside(&outcomes))?;
        }
        return Ok(());
    }
    let bench = drive::Bench::start(args.plan()?)?;
    if let Some(after) = &args.until_first {
        let first = bench.first()?;
        if args.json {
            out(&outcome::first_line(&args.label, after, first))?;
        } else {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            out(&format!(
                "first read after {:.1} ms, first write after {:.1} ms",
                ms(first.read),
                ms(first.write)
            ))?;
        }
        return Ok(());
    }
    let workloads = args.workloads()?;
    bench.prepare(&workloads, say)?;
    let mut reports = Vec::new();
    for workload in workloads {
        let report = bench.drive(workload, say)?;
        let line = outcome::line(&args.label, &report);
        if args.json {
            out(&line)?;
        }
        if args.pictures.is_some() {
            outcomes.add(&line).expect("what was written can be read");
        }
        reports.push(report);
    }
    if !args.json {
        out(&table(&reports))?;
    }
    draw(args, &outcomes, say)?;
    let failed: u64 = reports.iter().map(|report| report.recorded.failed() + report.recorded.wrong).sum();
    if failed > 0 { Err(Error::Failed { count: failed }) } else { Ok(()) }
}

fn draw(args: &Args, outcomes: &Outcomes, say: &mut dyn FnMut(&str)) -> Result<()> {
    if let Some(folder) = &args.pictures {
        for file in pictures::draw(outcomes, folder)? {
            say(&format!("drawn: {}", file.display()));
        }
    }
    Ok(())
}
