//! The clients and the judge of `cargo xtask fire`.
//!
//! The process reads one command per line, and answers each with one line. An answer that begins with `bad: ` is a
//! complaint of the judge: an acknowledged write is lost, or a read was wrong.
//!
//! ```text
//! start               started      creates the table unless it exists; all clients work from now on
//! probe               answered     a get of the table is answered; asked every few milliseconds until it is
//! close | open        closed | opened   writers begin nothing | work again
//! verify              good ROWS    every key and counter was read and is as it must be
//! breaking            breaking     the disk is about to lose power: answers count for nothing from now on
//! whole               whole        the server was killed and the disk is whole again
//! may-fail | calm     noted        operations may fail from now on | must succeed again
//! counts              KIND=COUNT,…  how often each thing was done
//! ```
//!
//! Arguments are the seed, the file of the expected state, and the addresses of the server, `host:port,host:port`.

mod admin;
mod clients;
mod content;
mod expected;
mod tally;

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::{Cluster, Get, Options, Registry};
use env::{Runtime, WallTime, World};
use tokio::sync::watch;

use clients::{COUNTERS, FailureRule, READERS, Shared, TABLE, WRITERS};
use expected::Expected;
use tally::Tally;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Number of keys.
const KEYS: usize = 3_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, file, servers] = &arguments[..] else { return Err("usage: fire SEED FILE SERVERS".into()) };
    let seed: u64 = seed.parse()?;
    let expected = Expected::open(Path::new(file), seed, KEYS, COUNTERS)?;
    let (gate, _) = watch::channel(true);
    let shared =
        Arc::new(Shared { expected, tally: Tally::default(), failures: FailureRule::default(), gate });
    let runtime = Runtime::start("fire", 2)?;
    // Keeps the tasks.
    let mut tasks = Vec::new();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let answer = match &line[..] {
            "start" => {
                let cluster = clients::connect(servers);
                runtime.handle().block_on(clients::create_table(&cluster))?;
                tasks.extend(begin(&runtime, &shared, &cluster, seed)?);
                "started".to_owned()
            }
            "probe" => runtime.handle().block_on(probe(servers)),
            "close" | "open" => {
                shared.gate.send_replace(line == "open");
                if line == "open" { "opened".to_owned() } else { "closed".to_owned() }
            }
            "verify" => {
                let cluster = clients::connect(servers);
                match runtime.handle().block_on(clients::verify(&shared, &cluster)) {
                    Ok(rows) => format!("good {rows}"),
                    Err(error) => format!("bad: the table cannot be read: {error}"),
                }
            }
            "breaking" | "whole" => {
                shared.expected.set_breaking(line == "breaking");
                line
            }
            "may-fail" | "calm" => {
                shared.failures.set_may_fail(line == "may-fail");
                "noted".to_owned()
            }
            "counts" => shared.tally.line(),
            _ => return Err(format!("line {number} is not understood: {line:?}").into()),
        };
        let answer = match shared.expected.complaint() {
            Some(why) => format!("bad: {why}"),
            None => answer,
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", answer.replace('\n', " "))?;
        out.flush()?;
    }
    drop(tasks);
    Ok(())
}

/// Starts all clients.
fn begin(
    runtime: &Runtime,
    shared: &Arc<Shared>,
    cluster: &Cluster,
    seed: u64,
) -> Result<Vec<env::Task<()>>, Failure> {
    let random = |task: u64| World::simulated(seed ^ task.wrapping_mul(0x9e37_79b9_7f4a_7c15), WallTime(0));
    let table = cluster.table(TABLE)?;
    let mut tasks = Vec::new();
    for number in 0..WRITERS {
        let random = random(1 + number as u64);
        tasks.push(runtime.spawn(clients::write(Arc::clone(shared), table.clone(), number, random)));
    }
    for number in 0..READERS {
        let random = random(100 + number as u64);
        tasks.push(runtime.spawn(clients::read(Arc::clone(shared), table.clone(), random)));
    }
    tasks.push(runtime.spawn(admin::work(Arc::clone(shared), cluster.clone(), random(200))));
    Ok(tasks)
}

/// Waits until a get of the table is answered. Every attempt is a client of its own, so that no pause of a client
/// counts.
async fn probe(servers: &str) -> String {
    let world = World::real();
    let began = world.moment();
    loop {
        let mut options = Options::new(Registry::rpc(servers.split(',')));
        options.retries = 0;
        options.operation_max = Duration::from_secs(5);
        let cluster = Cluster::connect(World::real(), options);
        let asked = match cluster.table(TABLE) {
            Ok(table) => table.get(Get::row("8000")).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(_) => return "answered".to_owned(),
            Err(error) if world.moment().since(began) > Duration::from_secs(60) => {
                return format!("bad: no get was answered within a minute: {error}");
            }
            Err(_) => env::sleep(Duration::from_millis(3)).await,
        }
    }
}
