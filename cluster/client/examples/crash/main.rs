//! The client of a crash test. It loads a server until the server dies, records what was acknowledged, and afterwards
//! compares this with what the server has.
//!
//! It reads one command a line on its input, and answers each with one line:
//!
//! ```text
//! load HOST:PORT      loading                     writers, readers and an administrator work from now on
//! dying               alive | bad: WHY            the server is about to be killed: operations may fail from now on
//! breaking            alive | bad: WHY            the server's disk is about to fail: it may refuse from now on, too
//! dead                dead ACKNOWLEDGED           the server was killed: changes without an answer may be there
//! verify HOST:PORT    good ROWS | bad: WHY        everything acknowledged is there, nothing that was not requested
//! summary             KIND COUNT, …               how much of each kind was acknowledged
//! daily HOST:PORT T   daily | bad: WHY            the snapshot `daily` of table T is deleted and taken again
//! delete-daily        sent                        its deletion is sent to the server of the last `daily`, and not awaited
//! has-daily HOST:PORT daily | bad: WHY            the snapshot is there
//! ```
//!
//! The client outlives the server, so it keeps the ledger in memory. It rewrites few rows, so a comparison takes the
//! same time in the last round as in the first.

mod admin;
mod daily;
mod ledger;
mod reader;
mod verify;
mod writer;

use std::io::{BufRead, Write};
use std::sync::Arc;

use client::{Cluster, Options, Registry};
use env::{Runtime, WallTime, World};
use tokio::sync::watch;

use ledger::{Fate, Ledger};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Number of concurrent writers.
const WRITERS: u64 = 4;
/// Number of concurrent readers. A row content that a reader has seen must still exist afterwards.
const READERS: u64 = 2;

/// The tasks that load a server until it is killed.
struct Load {
    stop: watch::Sender<bool>,
    tasks: Vec<env::Task<()>>,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed] = &arguments[..] else { return Err("usage: crash SEED".into()) };
    let seed: u64 = seed.parse()?;
    let ledger = Arc::new(Ledger::default());
    let runtime = Runtime::start("crash", 2)?;
    let (mut load, mut last_daily) = (None, None);
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("load", server) => {
                ledger.seal(Fate::Lives);
                load = Some(begin(&runtime, &ledger, server, seed.wrapping_add(number as u64)));
                "loading".to_owned()
            }
            ("dying", _) => still_good(&ledger, Fate::Dies),
            ("breaking", _) => still_good(&ledger, Fate::Breaks),
            ("dead", _) => {
                if let Some(load) = load.take() {
                    end(&runtime, load)?;
                }
                format!("dead {}", ledger.acknowledged())
            }
            ("verify", server) => {
                let cluster = connect(server);
                match runtime.handle().block_on(verify::everything(&cluster, &ledger)) {
                    Ok(rows) => format!("good {rows}"),
                    Err(why) => format!("bad: {why}"),
                }
            }
            ("summary", _) => ledger.summary(),
            ("daily", words) => {
                let (server, table) = words.split_once(' ').ok_or("daily HOST:PORT TABLE")?;
                let cluster = connect(server);
                let taken = runtime.handle().block_on(daily::take(&cluster, table));
                last_daily = Some(cluster);
                taken.map_or_else(
                    |why| format!("bad: the snapshot is not taken: {why}"),
                    |()| "daily".to_owned(),
                )
            }
            ("delete-daily", _) => {
                let cluster = last_daily.take().ok_or("nobody has taken it")?;
                // The call waits in the socket of a suspended server. What becomes of it is seen in the snapshot.
                drop(runtime.spawn(async move { drop(daily::delete(&cluster).await) }));
                "sent".to_owned()
            }
            ("has-daily", server) => match runtime.handle().block_on(daily::is_there(&connect(server))) {
                Ok(true) => "daily".to_owned(),
                Ok(false) => "bad: the snapshot is gone that was taken last".to_owned(),
                Err(why) => format!("bad: the snapshots cannot be listed: {why}"),
            },
            _ => return Err(format!("line {number} is not understood: {line:?}").into()),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", answer.replace('\n', " "))?;
        out.flush()?;
    }
    Ok(())
}

fn connect(server: &str) -> Cluster {
    Cluster::connect(World::real(), Options::new(Registry::rpc(server.split(','))))
}

/// Returns a random number generator for one task, from the seed.
fn random(seed: u64, task: u64) -> World {
    World::simulated(seed ^ task.wrapping_mul(0x9e37_79b9_7f4a_7c15), WallTime(0))
}

fn begin(runtime: &Runtime, ledger: &Arc<Ledger>, server: &str, seed: u64) -> Load {
    let cluster = connect(server);
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Vec::new();
    let mut task = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let mut stopped = stopped.clone();
        tasks.push(runtime.spawn(async move {
            tokio::select! {
                // The sender is kept until the tasks have ended, so this wait ends only when the server is dead.
                _dead = stopped.wait_for(|dead| *dead) => {}
                () = work => {}
            }
        }));
    };
    for writer in 0..WRITERS {
        let work = writer::Writer::new(writer, &cluster, ledger, random(seed, writer));
        task(Box::pin(guard(Arc::clone(ledger), format!("writer {writer}"), work.run())));
    }
    for reader in 0..READERS {
        let work = reader::run(cluster.clone(), Arc::clone(ledger), random(seed, 100 + reader));
        task(Box::pin(guard(Arc::clone(ledger), format!("reader {reader}"), work)));
    }
    let work = admin::run(cluster, Arc::clone(ledger), random(seed, 200));
    task(Box::pin(guard(Arc::clone(ledger), "administrator".to_owned(), work)));
    Load { stop, tasks }
}

/// Runs a task. An error is a complaint unless the server's fate explains it.
async fn guard(ledger: Arc<Ledger>, who: String, work: impl Future<Output = Result<(), client::Error>>) {
    if let Err(error) = work.await
        && !is_fate(ledger.fate(), &error)
    {
        ledger.complain(format!("{who}: {error}"));
    }
}

/// Whether the server's fate explains this error. It does if no attempt got an answer, if the server's disk has failed,
/// or if the server has just noticed that another server has its files.
fn is_fate(fate: Fate, error: &client::Error) -> bool {
    match error {
        _ if fate == Fate::Lives => false,
        client::Error::GivenUp { last, .. } => is_fate(fate, last),
        client::Error::Batch { failed, .. } => failed.iter().all(|(_, error)| is_fate(fate, error)),
        client::Error::Call(_) | client::Error::Registry(_) | client::Error::RegionOffline(_) => true,
        client::Error::Remote(_) | client::Error::Procedure { .. } => {
            let words = error.to_string();
            fate == Fate::Breaks
                || words.contains("was taken over by")
                || words.contains("this server no longer owns the store")
        }
        _ => false,
    }
}

/// Sets the server's fate. Returns the answer to the command: `alive`, or `bad: ` with the first complaint so far.
fn still_good(ledger: &Ledger, fate: Fate) -> String {
    match ledger.seal(fate).first() {
        None => "alive".to_owned(),
        Some(why) => format!("bad: {why}"),
    }
}

fn end(runtime: &Runtime, load: Load) -> Result<(), Failure> {
    load.stop.send_replace(true);
    for task in load.tasks {
        runtime.handle().block_on(task).map_err(|broken| format!("a task broke: {broken}"))?;
    }
    Ok(())
}
