//! Measures what a call costs when the service does nothing: an echo over loopback. The depth is the number of
//! calls that wait for their answers at the same time.
//!
//! `cargo run --release -p rpc --example echo [param bytes] [seconds per depth]`
//!
//! The client runs on a thread of its own in the same process, so the times are those of both sides together.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Runtime, World};
use rpc::client::{self, Connection, Invocation};
use rpc::{Answer, Call, Options, Reply, Server, Service, Services, Text};

struct Echo;

impl Service for Echo {
    fn call(&self, call: Call) -> Answer {
        Answer::Now(Ok(Reply { message: call.param, cells: call.cells, share: None }))
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let length: usize = arguments.next().unwrap_or_else(|| "100".to_owned()).parse()?;
    let seconds: u64 = arguments.next().unwrap_or_else(|| "2".to_owned()).parse()?;
    let world = World::real();
    let options = Options { threads: 1, ..Options::default() };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let services = Services::new().with("Echo", Arc::new(Echo));
    let server = Server::bind(world.clone(), options, &[address])?.serve(services);
    let address = server.addresses()[0];
    let runtime = Runtime::start("client", 1)?;
    for depth in [1, 16, 128] {
        let world = world.clone();
        let before = server.counters();
        let task = runtime.spawn(async move {
            let connection = Connection::open(address, "Echo", &client::Options::default()).await?;
            let param = Bytes::from(vec![7; length]);
            let invocation = move || Invocation {
                method: Text::from_static("Echo"),
                param: param.clone(),
                ..Invocation::default()
            };
            let (start, limit) = (world.moment(), Duration::from_secs(seconds));
            let mut workers = Vec::new();
            for _ in 0..depth {
                let (connection, invocation, world) = (connection.clone(), invocation.clone(), world.clone());
                workers.push(env::spawn(async move {
                    let mut calls = 0u64;
                    while world.moment().since(start) < limit {
                        connection.call(invocation()).await?;
                        calls += 1;
                    }
                    Ok::<u64, client::Error>(calls)
                }));
            }
            let mut calls = 0;
            for worker in workers {
                calls += worker.await.expect("no panic")?;
            }
            Ok::<_, client::Error>((calls, world.moment().since(start)))
        });
        let (calls, elapsed) = runtime.handle().block_on(task)??;
        let after = server.counters();
        let per_read = (after.calls - before.calls) as f64 / (after.reads - before.reads) as f64;
        let per_write = (after.calls - before.calls) as f64 / (after.writes - before.writes) as f64;
        writeln!(
            std::io::stdout(),
            "depth {depth:>3}: {calls} calls, {:.2} us each, {per_read:.1} per read, {per_write:.1} per write",
            elapsed.as_secs_f64() * 1e6 / calls as f64
        )?;
    }
    Ok(())
}
