//! Checks whether a server is alive, as a client sees it. For each line of input the program makes a new connection, a
//! put and a get. It can also write rows that other programs read.
//!
//! ```text
//! pulse HOST:PORT        beat        →  alive MICROSECONDS | dead: WHY
//!                        fill COUNT  →  region NAME | dead: WHY       writes COUNT rows of 1 MB into one region
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
        let line = line?;
        let began = world.moment();
        let options = Options { retries: 0, ..Options::new(Registry::rpc([server.clone()])) };
        let cluster = Cluster::connect(world.clone(), options);
        let (sender, receiver) = std::sync::mpsc::channel();
        let rows = line.strip_prefix("fill ").map(str::parse).transpose()?;
        runtime.spawn(async move {
            let outcome = match rows {
                Some(rows) => fill(&cluster, rows).await,
                None => beat(&cluster, number).await.map(|()| String::new()),
            };
            // The receiver waits below, so the send succeeds.
            let _sent = sender.send(outcome);
        });
        let answer = match receiver.recv()? {
            Ok(region) if rows.is_some() => format!("region {region}"),
            Ok(_) => format!("alive {}", world.moment().since(began).as_micros()),
            Err(why) => format!("dead: {why}").replace('\n', " "),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

async fn fill(cluster: &Cluster, rows: u32) -> Result<String, Failure> {
    let table = cluster.table(TABLE)?;
    let value = Bytes::from(vec![0x5a; 1 << 20]);
    for row in 0..rows {
        table.put(Put::row(format!("large-{row:03}")).set("f", "q", value.clone())).await?;
    }
    let regions = cluster.locations(&TABLE.parse()?).await?;
    let [only] = &regions[..] else { return Err(format!("{} regions", regions.len()).into()) };
    Ok(only.region.name().escape_ascii().to_string())
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
