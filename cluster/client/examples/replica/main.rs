//! Judges a read replica: it writes to the primary, reads from the replica, and checks that each answer is allowed.
//!
//! It reads one command a line on its input, and answers each with one line:
//!
//! ```text
//! run PRIMARY REPLICA SECONDS   good FIGURES | bad: WHY   writers and an administrator work on the primary, readers on the
//!                                                         replica; afterwards both have the same rows
//! lag PRIMARY REPLICA SECONDS   good P50 P99 MAX | bad: WHY   the ms until the replica shows a write that the primary has
//!                                                         acknowledged
//! ```
//!
//! Each row has a number, in both of its families, that grows with each write; every tenth write deletes the row. So
//! the content shows which write a reader saw. It must be a whole write that was requested, and must not be older than
//! a write that a reader saw before.

mod judge;
mod markers;

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Cluster, Delete, Error, Get, Options, Put, Registry, Scan};
use env::{Runtime, WallTime, World};
use proto::{FamilyDescriptor, TableDescriptor, TableName};
use tokio::sync::watch;

use judge::{Judge, ROWS, row_name};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TABLE: &str = "replicated";
const WRITERS: u64 = 4;
const READERS: u64 = 2;
/// Size of a value without its number, in bytes.
const PADDING: usize = 200;
/// Time after the last write within which the replica must have all writes.
const EQUAL_WITHIN: Duration = Duration::from_secs(10);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed] = &arguments[..] else { return Err("usage: replica SEED".into()) };
    let seed: u64 = seed.parse()?;
    let judge = Arc::new(Judge::new(World::real()));
    let runtime = Runtime::start("replica", 2)?;
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let [what @ ("run" | "lag"), primary, replica, seconds] = words[..] else {
            return Err(format!("line {number} is not understood: {line:?}").into());
        };
        let seconds = Duration::from_secs(seconds.parse()?);
        let (primary, replica, seed) = (connect(primary), connect(replica), seed.wrapping_add(number as u64));
        let answer = runtime.handle().block_on(async {
            match what {
                "run" => run(&judge, primary, replica, seconds, seed).await,
                _ => lag(primary, replica, seconds, seed).await,
            }
        });
        let answer = match answer {
            Ok(figures) => format!("good {figures}"),
            Err(why) => format!("bad: {why}"),
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

async fn lag(primary: Cluster, replica: Cluster, time: Duration, seed: u64) -> Result<String, Failure> {
    let lags = markers::lags(&primary, &replica, time, &random(seed, 300)).await?;
    let at =
        |share: f64| lags.get((lags.len() as f64 * share) as usize).copied().unwrap_or_default().as_millis();
    Ok(format!("{} {} {}", at(0.5), at(0.99), lags.last().copied().unwrap_or_default().as_millis()))
}

async fn run(
    judge: &Arc<Judge>,
    primary: Cluster,
    replica: Cluster,
    time: Duration,
    seed: u64,
) -> Result<String, Failure> {
    let table: TableName = TABLE.parse()?;
    if !primary.admin().table_exists(&table).await? {
        let mut made = TableDescriptor::new(table.clone());
        for family in ["f", "g"] {
            made.set_family(FamilyDescriptor::new(family)?);
        }
        primary.admin().create_table(&made, &[Bytes::from_static(b"row-0200")]).await?;
    }
    until("the replica has the table", || async {
        replica.admin().table_exists(&table).await.unwrap_or(false)
    })
    .await?;
    refuses(&replica).await?;
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Vec::new();
    let handle = env::Handle::current();
    for writer in 0..WRITERS {
        let (judge, table, stopped) = (Arc::clone(judge), primary.table(TABLE)?, stopped.clone());
        let random = random(seed, writer);
        tasks.push(handle.spawn(async move { write(&judge, &table, writer, &random, &stopped).await }));
    }
    for reader in 0..READERS {
        let (judge, cluster, stopped) = (Arc::clone(judge), replica.clone(), stopped.clone());
        let random = random(seed, 100 + reader);
        tasks.push(handle.spawn(async move { read(&judge, &cluster, &random, &stopped).await }));
    }
    let (cluster, other, admin_stopped) = (primary.clone(), replica.clone(), stopped.clone());
    let random = random(seed, 200);
    tasks.push(handle.spawn(async move { administrate(&cluster, &other, &random, &admin_stopped).await }));
    env::sleep(time).await;
    let _all_see_it = stop.send(true);
    for task in tasks {
        task.await.map_err(|failure| failure.to_string())??;
    }
    let rows = compare(judge, &primary, &replica).await?;
    Ok(format!("{rows} rows; {}", judge.figures()))
}

async fn write(
    judge: &Judge,
    table: &client::Table,
    writer: u64,
    random: &World,
    stopped: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    while !*stopped.borrow() {
        // Each writer has rows of its own.
        let row = (random.random() % (ROWS / WRITERS)) * WRITERS + writer;
        let number = judge.begin(row);
        let name = row_name(row);
        if Judge::deletes(number) {
            table.delete(Delete::row(name)).await?;
        } else {
            let value = format!("{number} {}", "x".repeat(PADDING));
            table.put(Put::row(name).set("f", "q", value.clone()).set("g", "q", value)).await?;
        }
        judge.acknowledged(row, number);
    }
    Ok(())
}

async fn read(
    judge: &Judge,
    cluster: &Cluster,
    random: &World,
    stopped: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    let table = &cluster.table(TABLE)?;
    while !*stopped.borrow() {
        if random.random().is_multiple_of(20) {
            let (asked, before) = (judge.now(), judge.all_seen());
            let mut found = table.scan(Scan::new().caching(50)).collect().await?.into_iter().peekable();
            for row in 0..ROWS {
                let here = found.next_if(|found| found.key() == row_name(row).as_bytes());
                judge.scanned(row, here.as_ref(), asked, before[row as usize])?;
            }
            if let Some(strange) = found.next() {
                return Err(
                    format!("a scan has a row that nobody wrote: {}", strange.key().escape_ascii()).into()
                );
            }
            continue;
        }
        let row = random.random() % ROWS;
        if random.random().is_multiple_of(50) {
            let acknowledged = judge.last_acknowledged(row);
            refresh(cluster, table, &row_name(row), random).await?;
            judge.refreshed();
            // From here on a reader that sees older content is an error.
            judge.must_have(row, acknowledged);
        }
        let (asked, before) = (judge.now(), judge.seen(row));
        let found = table.get(Get::row(row_name(row))).await?;
        judge.got(row, Some(&found).filter(|found| !found.is_empty()), asked, before)?;
    }
    Ok(())
}

/// Asks the replica for everything that the primary has acknowledged: by HBase 3's call, or by the endpoint that
/// clients of HBase 2 use.
async fn refresh(cluster: &Cluster, table: &client::Table, row: &str, random: &World) -> Result<(), Failure> {
    match random.random().is_multiple_of(2) {
        true => cluster.admin().refresh_hfiles().await?,
        false => {
            let row = row.to_owned();
            table.call_endpoint(row, "hbase.pb.RefreshHFilesService", "refreshHFiles", Bytes::new()).await?;
        }
    }
    Ok(())
}

/// Flushes, compacts and splits the table. Also creates and drops other tables, which must appear on and disappear from
/// the replica.
async fn administrate(
    primary: &Cluster,
    replica: &Cluster,
    random: &World,
    stopped: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    let (admin, other) = (primary.admin(), replica.admin());
    let table: TableName = TABLE.parse()?;
    while !*stopped.borrow() {
        env::sleep(Duration::from_millis(200 + random.random() % 600)).await;
        match random.random() % 8 {
            0..=3 => admin.flush(&table).await?,
            4 | 5 => admin.compact(&table, random.random().is_multiple_of(2)).await?,
            6 => {
                let regions = admin.regions(&table).await?;
                let region = &regions[random.random() as usize % regions.len()].region;
                // A region that still has references to its parent's files cannot be split, and neither can one with
                // few rows.
                if regions.len() < 8
                    && let Err(error) = admin.split_region(region, None).await
                {
                    tracing::debug!(%error, "not split");
                }
            }
            _ => {
                let name: TableName = format!("side-{}", random.random() % 1000).parse()?;
                let mut made = TableDescriptor::new(name.clone());
                made.set_family(FamilyDescriptor::new("f")?);
                admin.create_table(&made, &[]).await?;
                primary.table(&name.to_string())?.put(Put::row("r").set("f", "q", "v")).await?;
                let is_told = random.random().is_multiple_of(2);
                let has_row = || async {
                    let Ok(table) = replica.table(&name.to_string()) else { return false };
                    table.get(Get::row("r")).await.is_ok_and(|row| row.value("f", "q") == Some(b"v"))
                };
                if is_told {
                    other.refresh_meta().await?;
                    if !has_row().await {
                        return Err(
                            format!("after refresh_meta {name} and its row are not on the replica").into()
                        );
                    }
                } else {
                    until("a new table and its row are on the replica", has_row).await?;
                }
                if is_told {
                    made.set_family(FamilyDescriptor::new("f")?.with("VERSIONS", 8));
                    admin.modify_table(&made).await?;
                    other.refresh_meta().await?;
                    let shown = other.describe_table(&name).await?;
                    let versions =
                        shown.as_ref().and_then(|table| table.family(b"f")?.attributes().text("VERSIONS"));
                    if versions != Some("8") {
                        return Err(format!(
                            "after refresh_meta {name} has {versions:?} VERSIONS on the replica"
                        )
                        .into());
                    }
                }
                admin.disable_table(&name).await?;
                admin.delete_table(&name).await?;
                let is_gone = || async { other.table_exists(&name).await.is_ok_and(|there| !there) };
                if is_told {
                    other.refresh_meta().await?;
                    if !is_gone().await {
                        return Err(format!(
                            "after refresh_meta {name}, which was dropped, is on the replica"
                        )
                        .into());
                    }
                } else {
                    until("a dropped table is gone from the replica", is_gone).await?;
                }
            }
        }
    }
    Ok(())
}

/// Checks that the replica refuses every change at once, with an exception that clients do not retry.
async fn refuses(replica: &Cluster) -> Result<(), Failure> {
    let table = replica.table(TABLE)?;
    let meta = replica.table("hbase:meta")?;
    let put = || Put::row(row_name(0)).set("f", "q", "0 of the replica");
    let name: TableName = TABLE.parse()?;
    let outcomes = [
        ("a put", table.put(put()).await),
        ("a batch", table.put_all([put(), put()]).await),
        ("a delete", table.delete(Delete::row(row_name(0))).await),
        ("a put to hbase:meta", meta.put(Put::row("x").set("info", "server", "nowhere:1")).await),
        ("a flush", replica.admin().flush(&name).await),
        ("a drop", replica.admin().disable_table(&name).await),
    ];
    for (what, outcome) in outcomes {
        match outcome {
            Err(error) if is_read_only(&error) => {}
            other => {
                return Err(format!("{what} on the replica: {other:?}, expected that it is refused").into());
            }
        }
    }
    Ok(())
}

fn is_read_only(error: &Error) -> bool {
    match error {
        Error::Remote(exception) => exception.do_not_retry && exception.message.contains("Read-Only Mode"),
        Error::Batch { failed, .. } => failed.iter().all(|(_, error)| is_read_only(error)),
        Error::GivenUp { last, tries: 1, .. } => is_read_only(last),
        _ => false,
    }
}

/// Waits until both servers have the same rows. They must be the expected rows.
async fn compare(judge: &Judge, primary: &Cluster, replica: &Cluster) -> Result<usize, Failure> {
    let scan = |cluster: &Cluster| {
        let table = cluster.table(TABLE);
        async move {
            let rows = table?.scan(Scan::new()).collect().await?;
            let cell = |cell: &client::OwnedCell| format!("{cell:?}");
            Ok::<_, Error>(rows.iter().flat_map(|row| row.cells().iter().map(cell)).collect::<Vec<_>>())
        }
    };
    let wanted = scan(primary).await?;
    let world = World::real();
    let began = world.moment();
    let mut found = scan(replica).await?;
    while found != wanted {
        if world.moment().since(began) > EQUAL_WITHIN {
            let missing = wanted.iter().find(|cell| !found.contains(cell));
            let strange = found.iter().find(|cell| !wanted.contains(cell));
            return Err(format!(
                "{EQUAL_WITHIN:?} after the last write the replica has {} cells of {}; it lacks {missing:?} and has {strange:?}",
                found.len(),
                wanted.len()
            )
            .into());
        }
        env::sleep(Duration::from_millis(50)).await;
        found = scan(replica).await?;
    }
    judge.equal_after(world.moment().since(began));
    Ok(wanted.len() / 2)
}

/// Waits until `is_so` returns true, at most 20 s. The error names the condition `what`.
async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) -> Result<(), Failure> {
    let world = World::real();
    let began = world.moment();
    while !is_so().await {
        if world.moment().since(began) > Duration::from_secs(20) {
            return Err(format!("{what}: not within 20 s").into());
        }
        env::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
