//! Whether a server is alive, as a client of it would say: for each line of input a new connection, a put and a get.
//!
//! ```text
//! pulse HOST:PORT        <any line>  →  alive MICROSECONDS | dead: WHY
//! ```

use std::io::{BufRead, Write};

use bytes::Bytes;
use client::{Cluster, Get, Options, Put, Registry};
use env::{Runtime, World};
use proto::{FamilyDescriptor, TableDescriptor, TableName};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TABLE: &str = "pulse";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server] = &arguments[..] else { return Err("usage: pulse HOST:PORT".into()) };
    let runtime = Runtime::start("pulse", 1)?;
    let world = World::real();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        line?;
        let began = world.moment();
        let options = Options { retries: 0, ..Options::new(Registry::rpc([server.clone()])) };
        let cluster = Cluster::connect(world.clone(), options);
        let (sender, receiver) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            // The receiver waits below.
            let _sent = sender.send(beat(&cluster, number).await);
        });
        let answer = match receiver.recv()? {
            Ok(()) => format!("alive {}", world.moment().since(began).as_micros()),
            Err(why) => format!("dead: {why}").replace('\n', " "),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

async fn beat(cluster: &Cluster, number: usize) -> Result<(), Failure> {
    let name: TableName = TABLE.parse()?;
    if number == 0 {
        let mut table = TableDescriptor::new(name.clone());
        table.set_family(FamilyDescriptor::new("f")?);
        cluster.admin().create_table(&table, &[]).await?;
    }
    let table = cluster.table(TABLE)?;
    let (row, value) = (format!("row-{}", number % 100), Bytes::from(number.to_string()));
    table.put(Put::row(row.clone()).set("f", "q", value.clone())).await?;
    let found = table.get(Get::row(row.clone())).await?;
    if found.value("f", "q") == Some(&value[..]) {
        return Ok(());
    }
    Err(format!("{row} was put as {number} and is {found:?}").into())
}
