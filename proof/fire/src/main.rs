//! The clients of `cargo xtask fire`, and the judge that checks each answer that they get.
//!
//! The process reads one command per line, and answers each with one line. The table has the command, the answer, and
//! what the process does or what the answer means. An answer that begins with `bad: ` is a complaint of the judge: an
//! acknowledged write is lost, or a read was wrong.
//!
//! ```text
//! start               started      creates the table unless it exists; all clients work from now on
//! probe               answered     a get of the table is answered; asked every few milliseconds until it is
//! close | open        closed | opened   writers begin nothing | work again
//! verify              good ROWS    every key and counter was read and is as it must be
//! breaking            breaking     the disk is about to lose power: answers are ignored from now on
//! down                down         every write to the disk fails: none that begins now may be acknowledged
//! whole               whole        the server was killed and the disk works again: answers count again
//! may-fail | calm     noted        operations may fail from now on | must succeed again
//! disturbed | settled  noted       administrators may fail and no time counts | they must succeed again
//! begin OPERATION     begun US     an administrator has begun this; it usually takes so long. Or: not begun
//! under-way           OPERATION,…  what the administrators have begun and not ended
//! self-check          checked      the master has checked itself; its page /api/check has the result
//! end                 ended        the administrators have ended, and nothing is left of their work
//! counts              KIND=COUNT,…  number of operations of each kind
//! availability        LINE; …      how long keys were unavailable while nothing was done to the server
//! failures            LINE; …      failures of administrators that were allowed, by their messages
//! ```
//!
//! Arguments are the seed, the file of the expected state, the addresses of the server, `host:port,host:port`, and,
//! optionally, the number of writers.

mod activity;
mod admin;
mod availability;
mod clients;
mod content;
mod expected;
mod shared;
mod tally;

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::{Cluster, Get, Options, Registry};
use env::{Runtime, WallTime, World};

use activity::AdminOperation;
use clients::{READERS, TABLE, WRITERS};
use expected::Expected;
use shared::Shared;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Number of keys.
const KEYS: usize = 3_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, file, servers, more @ ..] = &arguments[..] else {
        return Err("usage: fire SEED FILE SERVERS [WRITERS]".into());
    };
    let seed: u64 = seed.parse()?;
    let writers: usize = more.first().map_or(Ok(WRITERS), |writers| writers.parse())?;
    let expected = Expected::open(Path::new(file), seed, KEYS, clients::counters(writers))?;
    let shared = Arc::new(Shared::new(expected));
    let runtime = Runtime::start("fire", 2)?;
    // Keeps the tasks of clients.
    let mut tasks = Vec::new();
    let mut administrators = Vec::new();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let answer = match &line[..] {
            "start" => {
                let cluster = clients::connect(servers);
                runtime.handle().block_on(clients::create_table(&cluster))?;
                let random = |task: u64| {
                    World::simulated(seed ^ task.wrapping_mul(0x9e37_79b9_7f4a_7c15), WallTime(0))
                };
                tasks.extend(begin(&runtime, &shared, &cluster, writers, random)?);
                administrators = admin::begin(&runtime, &shared, servers, random);
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
                line.clone()
            }
            "down" => {
                shared.expected.set_down();
                line.clone()
            }
            "may-fail" | "calm" => {
                shared.may_fail.set(line == "may-fail");
                "noted".to_owned()
            }
            "disturbed" | "settled" => {
                shared.disturbed.set(line == "disturbed");
                "noted".to_owned()
            }
            "under-way" => {
                let kinds = shared.activity.under_way().into_iter().map(|(kind, _)| kind);
                kinds.collect::<Vec<_>>().join(",")
            }
            "self-check" => {
                let cluster = clients::connect(servers);
                match runtime.handle().block_on(cluster.admin().run_self_check()) {
                    Ok(()) => "checked".to_owned(),
                    Err(error) => format!("bad: the server does not check itself: {error}"),
                }
            }
            "end" => {
                shared.is_ending.send_replace(true);
                let cluster = clients::connect(servers);
                let ending = async {
                    for task in std::mem::take(&mut administrators) {
                        if let Err(error) = task.await {
                            shared.expected.complain(format!("an administrator ended: {error}"));
                        }
                    }
                    admin::clean_up(&cluster).await
                };
                match runtime.handle().block_on(ending) {
                    Ok(()) => "ended".to_owned(),
                    Err(error) => format!("bad: the work of the administrators cannot be undone: {error}"),
                }
            }
            "counts" => shared.tally.line(),
            "availability" => shared.availability.lines().join("; "),
            "failures" => shared.activity.failures().join("; "),
            _ => match line.strip_prefix("begin ").and_then(AdminOperation::parse) {
                Some(operation) => match runtime.handle().block_on(shared.activity.want(operation)) {
                    Some(usual) => format!("begun {}", usual.as_micros()),
                    None => "not begun".to_owned(),
                },
                None => return Err(format!("line {number} is not understood: {line:?}").into()),
            },
        };
        let answer = match shared.expected.complaint() {
            // These two answers are also given after a complaint, because they explain it.
            _ if line == "availability" || line == "failures" => answer,
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

/// Starts all clients except the administrators.
fn begin(
    runtime: &Runtime,
    shared: &Arc<Shared>,
    cluster: &Cluster,
    writers: usize,
    random: impl Fn(u64) -> World,
) -> Result<Vec<env::Task<()>>, Failure> {
    let table = cluster.table(TABLE)?;
    let mut tasks = Vec::new();
    for number in 0..writers {
        let random = random(1_000 + number as u64);
        tasks.push(runtime.spawn(clients::write(Arc::clone(shared), table.clone(), number, writers, random)));
    }
    for number in 0..READERS {
        let random = random(100 + number as u64);
        tasks.push(runtime.spawn(clients::read(Arc::clone(shared), table.clone(), random)));
    }
    let (measured, world) = (Arc::clone(shared), shared.world.clone());
    tasks.push(runtime.spawn(async move { measured.availability.lag(&world).await }));
    Ok(tasks)
}

/// Waits until a get of the table is answered. Each attempt uses a new client, because a client that has failed pauses
/// before its next attempt, and the pause would be measured, too.
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
