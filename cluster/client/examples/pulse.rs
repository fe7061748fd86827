//! Checks whether a server is alive, as a client sees it. For each line of input the program makes a new connection, a
//! put and a get. It can also write rows that other programs read.
//!
//! ```text
//! pulse HOST:PORT        beat        →  alive MICROSECONDS | dead: WHY
//!                        fill COUNT  →  region NAME | dead: WHY       writes COUNT rows of 1 MB into one region
//!                        check HOST:PORT  →  alive MICROSECONDS | dead: WHY
//!                                             compares the rows on a server with those that were put
//! ```

use std::collections::BTreeMap;
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
    // The last number that was put in each row.
    let mut put = BTreeMap::new();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let began = world.moment();
        let checked = line.strip_prefix("check ").map(str::to_owned);
        let server = checked.as_ref().unwrap_or(server);
        let options = Options { retries: 0, ..Options::new(Registry::rpc([server.clone()])) };
        let cluster = Cluster::connect(world.clone(), options);
        let (sender, receiver) = std::sync::mpsc::channel();
        let rows = line.strip_prefix("fill ").map(str::parse).transpose()?;
        let (expected, is_beat) = (put.clone(), rows.is_none() && checked.is_none());
        runtime.spawn(async move {
            let outcome = match rows {
                Some(rows) => fill(&cluster, rows).await,
                None if checked.is_some() => check(&cluster, expected).await.map(|()| String::new()),
                None => beat(&cluster, number).await.map(|()| String::new()),
            };
            // The receiver waits below, so the send succeeds.
            let _sent = sender.send(outcome);
        });
        let answer = match receiver.recv()? {
            Ok(region) if rows.is_some() => format!("region {region}"),
            Ok(_) => {
                if is_beat {
                    put.insert(row_of(number), number.to_string());
                }
                format!("alive {}", world.moment().since(began).as_micros())
            }
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

/// Compares each row with the value that was put last.
async fn check(cluster: &Cluster, expected: BTreeMap<String, String>) -> Result<(), Failure> {
    let table = cluster.table(TABLE)?;
    for (row, value) in expected {
        let found = table.get(Get::row(row.clone())).await?;
        if found.value("f", "q") != Some(value.as_bytes()) {
            return Err(format!("{row} was put as {value} and is {found:?}").into());
        }
    }
    Ok(())
}

fn row_of(number: usize) -> String {
    format!("row-{}", number % 100)
}

async fn beat(cluster: &Cluster, number: usize) -> Result<(), Failure> {
    let name: TableName = TABLE.parse()?;
    if number == 0 {
        let mut table = TableDescriptor::new(name.clone());
        table.set_family(FamilyDescriptor::new("f")?);
        cluster.admin().create_table(&table, &[]).await?;
    }
    let table = cluster.table(TABLE)?;
    let (row, value) = (row_of(number), Bytes::from(number.to_string()));
    table.put(Put::row(row.clone()).set("f", "q", value.clone())).await?;
    let found = table.get(Get::row(row.clone())).await?;
    if found.value("f", "q") == Some(&value[..]) {
        return Ok(());
    }
    Err(format!("{row} was put as {number} and is {found:?}").into())
}
