//! The two halves of a crash test: one writes rows and says which were acknowledged, the other looks whether they are
//! there.
//!
//! ```text
//! crash write HOST:PORT FIRST       puts rows FIRST, FIRST+1, … one call each; prints each number once acknowledged
//! crash verify HOST:PORT COUNT      rows 0 to COUNT-1 are there, each with its own content
//! ```

use std::io::Write;

use bytes::Bytes;
use client::{Cluster, Options, Put, Registry, Scan};
use env::{Runtime, World};
use proto::{FamilyDescriptor, TableDescriptor};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const TABLE: &str = "crash";

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [act, server, number] = &arguments[..] else {
        return Err("usage: crash write|verify HOST:PORT NUMBER".into());
    };
    let (act, number) = (act.clone(), number.parse::<u64>()?);
    let cluster = Cluster::connect(World::real(), Options::new(Registry::rpc(server.split(','))));
    let runtime = Runtime::start("crash", 2)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let outcome =
            if act == "write" { write(&cluster, number).await } else { verify(&cluster, number).await };
        // The receiver waits below.
        let _sent = sender.send(outcome);
    });
    receiver.recv()?
}

fn row(number: u64) -> Bytes {
    format!("row-{number:012}").into()
}

/// Large enough that memstores fill and are flushed while the test runs.
fn value(number: u64) -> Bytes {
    format!("{number}-").repeat(40).into()
}

async fn write(cluster: &Cluster, first: u64) -> Outcome {
    let name = TABLE.parse()?;
    if !cluster.admin().table_exists(&name).await? {
        let mut table = TableDescriptor::new(name);
        table.set_family(FamilyDescriptor::new("f")?);
        cluster.admin().create_table(&table, &[row(500), row(2_000)]).await?;
    }
    let table = cluster.table(TABLE)?;
    for number in first.. {
        table.put(Put::row(row(number)).set("f", "q", value(number))).await?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{number}")?;
        out.flush()?;
    }
    Ok(())
}

async fn verify(cluster: &Cluster, count: u64) -> Outcome {
    let table = match cluster.admin().table_exists(&TABLE.parse()?).await? {
        true => cluster.table(TABLE)?,
        false if count == 0 => return Ok(()),
        false => return Err("the table is gone".into()),
    };
    let mut scanner = table.scan(Scan::new());
    let mut next = 0;
    while let Some(found) = scanner.next().await? {
        if found.key() != &row(next)[..] {
            return Err(format!("row {next} is missing, {found:?} came in its place").into());
        }
        if found.value("f", "q") != Some(&value(next)[..]) {
            return Err(format!("row {next} has other content: {found:?}").into());
        }
        next += 1;
    }
    if next < count {
        return Err(format!("{count} rows were acknowledged, {next} are there").into());
    }
    Ok(())
}
