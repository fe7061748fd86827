//! Does what an operator and a client do before, on and after a full disk, for the project's own tests.
//!
//! ```text
//! full_disk HOST:PORT fill TABLE       creates TABLE, puts rows of 100 KB until one is refused, prints the number of those that were not
//! full_disk HOST:PORT verify TABLE N   checks that the first N rows are there
//! full_disk HOST:PORT write TABLE      creates TABLE if necessary, and puts a row until the server accepts it, at most 60 s
//! full_disk HOST:PORT refused TABLE    checks that a put is refused
//! full_disk HOST:PORT disable|enable|drop|truncate TABLE
//! ```

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use client::{Cluster, Get, Options, Put, Registry};
use env::{Runtime, World};
use proto::{FamilyDescriptor, TableDescriptor, TableName};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Number of attempts of `write`, with a second between them.
const ATTEMPTS: usize = 60;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, act, table, rest @ ..] = &arguments[..] else {
        return Err("usage: full_disk HOST:PORT ACT TABLE [ROWS]".into());
    };
    let rows = rest.first().map(|rows| rows.parse()).transpose()?.unwrap_or(0);
    let runtime = Runtime::start("full-disk", 1)?;
    let world = World::real();
    let options = Options { retries: 0, ..Options::new(Registry::rpc([server.clone()])) };
    let cluster = Cluster::connect(world.clone(), options);
    let (sender, receiver) = std::sync::mpsc::channel();
    let (act, table) = (act.clone(), table.parse::<TableName>()?);
    runtime.spawn(async move {
        // The receiver waits below, so the send succeeds.
        let _sent = sender.send(run(&world, &cluster, &act, &table, rows).await);
    });
    receiver.recv()?
}

async fn run(
    world: &World,
    cluster: &Cluster,
    act: &str,
    name: &TableName,
    rows: u32,
) -> Result<(), Failure> {
    let admin = cluster.admin();
    match act {
        "fill" => {
            let mut table = TableDescriptor::new(name.clone());
            table.set_family(FamilyDescriptor::new("f")?);
            admin.create_table(&table, &[Bytes::from_static(b"5")]).await?;
            let mut row = 0;
            let refusal = loop {
                match put(world, cluster, name, row).await {
                    Ok(()) => row += 1,
                    Err(error) => break error.to_string(),
                }
            };
            writeln!(std::io::stdout(), "{row}")?;
            match refusal.contains("no space is left") || refusal.contains("Over memstore limit") {
                true => Ok(()),
                false => Err(format!("the put was refused, and not for the full disk: {refusal}").into()),
            }
        }
        "verify" => {
            let table = cluster.table(&name.to_string())?;
            for row in 0..rows {
                let found = table.get(Get::row(row_of(row))).await?;
                if found.value("f", "n") != Some(row.to_string().as_bytes()) {
                    return Err(format!("row {row} of {rows} was acknowledged and is {found:?}").into());
                }
            }
            Ok(())
        }
        "write" => {
            if !admin.table_exists(name).await? {
                let mut table = TableDescriptor::new(name.clone());
                table.set_family(FamilyDescriptor::new("f")?);
                admin.create_table(&table, &[]).await?;
            }
            let mut refusal = None;
            for _ in 0..ATTEMPTS {
                match put(world, cluster, name, 0).await {
                    Ok(()) => return Ok(()),
                    Err(error) => refusal = Some(error),
                }
                env::sleep(Duration::from_secs(1)).await;
            }
            refusal.map_or(Ok(()), Err)
        }
        "refused" => match put(world, cluster, name, 0).await {
            Ok(()) => Err("a put was accepted on the full disk".into()),
            Err(_) => Ok(()),
        },
        "disable" => Ok(admin.disable_table(name).await?),
        "enable" => Ok(admin.enable_table(name).await?),
        "drop" => Ok(admin.delete_table(name).await?),
        "truncate" => Ok(admin.truncate_table(name, true).await?),
        _ => Err(format!("there is no act {act}").into()),
    }
}

/// Returns the key of row `row`. Consecutive rows are in both regions.
fn row_of(row: u32) -> String {
    format!("{}-{row}", row % 10)
}

async fn put(world: &World, cluster: &Cluster, table: &TableName, row: u32) -> Result<(), Failure> {
    // Numbers at random, so that no compression makes the value smaller.
    let value: Vec<u8> = (0..12_800).flat_map(|_| world.random().to_be_bytes()).collect();
    let put = Put::row(row_of(row)).set("f", "n", row.to_string()).set("f", "v", value);
    Ok(cluster.table(&table.to_string())?.put(put).await?)
}
