//! Writes and reads large MOB values with many clients at a time, and prints the server's memory.
//!
//! ```text
//! cargo run -p bench --example large_values -- HOST:PORT PID [CLIENTS] [MEGABYTES] [ROUNDS]
//! ```
//!
//! HOST:PORT is the server's, PID its process. Each client has a connection and a row of its own; in each round it puts
//! a value and reads it back. The default is 16 clients, 100 MB and 2 rounds. The last line is the largest resident
//! memory above that before the first put, in MB. Ends with status 1 if that is more than 400 MB.

#![expect(clippy::print_stdout, reason = "a program prints what it found")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bench::Usage;
use bytes::Bytes;
use client::{Cluster, Get, Options, Put, Registry};
use env::{Priority, Runtime, World};
use proto::{FamilyDescriptor, TableDescriptor};

const TABLE: &str = "large_values";
/// Maximum growth of the server's resident memory, in MB.
const GROWTH_MAX: u64 = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (server, pid) = (arguments.first().expect("HOST:PORT").clone(), number(1, 0) as u32);
    let (clients, size, rounds) = (number(2, 16), number(3, 100) << 20, number(4, 2));
    let runtime = Runtime::start("large-values", 1).expect("a thread");
    let _entered = runtime.handle().enter();
    runtime.handle().block_on(run(server, pid, clients, size, rounds))
}

fn resident(pid: u32) -> u64 {
    Usage::of(pid).expect("the process is there").resident
}

async fn run(server: String, pid: u32, clients: usize, size: usize, rounds: usize) -> ExitCode {
    let world = World::real();
    let connect = || {
        let mut options = Options::new(Registry::rpc([server.clone()]));
        options.call_max = Duration::from_secs(600);
        Cluster::connect(world.clone(), options)
    };
    let cluster = connect();
    let family =
        FamilyDescriptor::new("f").expect("a name").with("IS_MOB", true).with("MOB_THRESHOLD", 102_400);
    let mut table = TableDescriptor::new(TABLE.parse().expect("a name"));
    table.set_family(family);
    if !cluster.admin().table_exists(table.name()).await.expect("the server answers") {
        cluster.admin().create_table(&table, &[]).await.expect("created");
    }
    let idle = resident(pid);
    println!("idle: {} MB", idle >> 20);
    let (peak, ended) = (Arc::new(AtomicU64::new(idle)), Arc::new(AtomicBool::new(false)));
    let watch = {
        let (peak, ended) = (Arc::clone(&peak), Arc::clone(&ended));
        env::spawn_thread("watch", Priority::Foreground, move || {
            while !ended.load(Ordering::Relaxed) {
                peak.fetch_max(resident(pid), Ordering::Relaxed);
                World::real().pause(Duration::from_millis(5));
            }
        })
        .expect("a thread")
    };
    let began = world.moment();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let table = connect().table(TABLE).expect("a name");
            env::spawn(async move {
                for round in 0..rounds {
                    let row = format!("row-{client:02}");
                    let value = Bytes::from(vec![(client * 31 + round) as u8; size]);
                    let put = Put::row(row.clone()).set("f", "q", value.clone());
                    table.put(put).await.expect("written");
                    let read = table.get(Get::row(row)).await.expect("read");
                    assert!(read.value("f", "q") == Some(&value[..]), "client {client}, round {round}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the client succeeds");
    }
    ended.store(true, Ordering::Relaxed);
    watch.join().expect("it watched");
    let megabytes = (clients * rounds * size) as u64 >> 20;
    println!("{megabytes} MB written and read in {:?}", world.moment().since(began));
    let peak = peak.load(Ordering::Relaxed);
    let growth = (peak - idle) >> 20;
    println!("peak: {} MB, above idle: {growth} MB", peak >> 20);
    if growth > GROWTH_MAX {
        println!("SHORT: the memory grew by {growth} MB, at most {GROWTH_MAX} MB are allowed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
