//! The clients: writers, readers and scanners, which work at the same time through every fault.
//!
//! Each key has one writer, so its versions have an order. A writer that gets an error continues with the next version:
//! the failed write may have happened. The client repeats operations for longer than any fault lasts. So an operation
//! may fail only while [`Shared::may_fail`] is set.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Action, CheckAndMutate, Cluster, Get, Increment, Options, Put, Registry, Scan, Table};
use env::World;
use proto::{FamilyDescriptor, TableDescriptor, TableName};

use crate::content::{FAMILIES, key_of, row_of};
use crate::shared::Shared;

/// The name of the table that is written.
pub(crate) const TABLE: &str = "fire";
/// Number of tasks that write, unless the command line has another.
pub(crate) const WRITERS: usize = 6;
/// Number of tasks that read.
pub(crate) const READERS: usize = 3;
/// Number of counters to which all writers add by increments.
const SHARED_COUNTERS: usize = 8;
/// Minimum time of a step of a scan that sent a request. A faster step returned a row that the client already had.
const ANSWER_MIN: Duration = Duration::from_micros(100);
/// Suffix of the rows that an administrator writes to a family that it adds and deletes. The judge ignores these rows.
pub(crate) const SIDE_ROW: &str = "~side";
/// The column of a counter.
pub(crate) const SUM: (&str, &str) = ("f", "sum");

/// Returns the number of all counters. Each writer also has one of its own, to which it adds by a put that checks the
/// value before.
pub(crate) fn counters(writers: usize) -> usize {
    SHARED_COUNTERS + writers
}

/// Connects to the servers `host:port,host:port`. The client repeats an operation for longer than any fault lasts.
pub(crate) fn connect(servers: &str) -> Cluster {
    Cluster::connect(World::real(), options_for(servers))
}

/// Connects like [`connect`], but with a client that repeats an operation for 3 s only. That is a little longer than a
/// client needs to notice that a server which was restarted can be reached again.
pub(crate) fn connect_impatiently(servers: &str) -> Cluster {
    let options = Options { retries: 9, pause: Duration::from_millis(10), ..options_for(servers) };
    Cluster::connect(World::real(), options)
}

fn options_for(servers: &str) -> Options {
    let mut options = Options::new(Registry::rpc(servers.split(',')));
    options.retries = 2_000;
    // The pause is so short that it adds little to the time for which a key is not available.
    options.pause = Duration::from_millis(1);
    options.pause_overloaded = Duration::from_millis(2);
    options.operation_max = Duration::from_secs(100);
    options
}

/// Returns the row of a counter, which sorts after all keys' rows of its region.
pub(crate) fn row_of_counter(counter: usize) -> Bytes {
    match counter.checked_sub(SHARED_COUNTERS) {
        None => format!("{:x}~counter", counter * 2 % 16).into(),
        Some(writer) => format!("{:x}~{writer}~counter", (1 + writer * 2) % 16).into(),
    }
}

/// Creates the table unless it exists.
pub(crate) async fn create_table(cluster: &Cluster) -> Result<(), client::Error> {
    let admin = cluster.admin();
    let name: TableName = TABLE.parse()?;
    if admin.table_exists(&name).await? {
        return Ok(());
    }
    let mut table = TableDescriptor::new(name);
    for (family, compression) in FAMILIES.iter().zip(["NONE", "SNAPPY"]) {
        table.set_family(
            FamilyDescriptor::new(*family)?
                .with("VERSIONS", 2)
                .with("COMPRESSION", compression)
                .with("BLOCKSIZE", 8_192),
        );
    }
    admin.create_table(&table, &[&b"4"[..], b"8", b"c"].map(Bytes::from_static)).await
}

/// Returns a random number below `limit`.
pub(crate) fn below(random: &World, limit: u64) -> u64 {
    random.random() % limit
}

/// Writes keys `number`, `number + writers`, … until the process ends.
pub(crate) async fn write(shared: Arc<Shared>, table: Table, number: usize, writers: usize, random: World) {
    let mut gate = shared.gate.subscribe();
    let keys = shared.expected.keys() / writers;
    loop {
        // The sender lives as long as the process.
        drop(gate.wait_for(|open| *open).await);
        let any = || number + writers * below(&random, keys as u64) as usize;
        match below(&random, 20) {
            0 => {
                let counter = below(&random, SHARED_COUNTERS as u64) as usize;
                add(&shared, &table, counter, 1 + below(&random, 9)).await;
            }
            1 => add_by_check(&shared, &table, SHARED_COUNTERS + number).await,
            2 | 3 => {
                let mut keys: Vec<usize> = (0..2 + below(&random, 30)).map(|_| any()).collect();
                keys.sort_unstable();
                keys.dedup();
                write_keys(&shared, &table, &keys).await;
            }
            _ => write_keys(&shared, &table, &[any()]).await,
        }
        env::sleep(Duration::from_micros(below(&random, 6_000))).await;
    }
}

/// Writes the next version of each of these keys: in one batch, or alone if there is only one.
async fn write_keys(shared: &Shared, table: &Table, keys: &[usize]) {
    let operations: Vec<_> = keys.iter().map(|key| shared.expected.begin_write(*key)).collect();
    let actions: Vec<Action> = keys
        .iter()
        .zip(&operations)
        .map(|(key, (_, version))| shared.expected.content.mutation(*key, *version))
        .collect();
    let start = shared.start();
    let outcomes = table.batch(actions).await;
    shared.measured(start, "a write", &row_of(keys[0]));
    for ((key, (operation, version)), outcome) in keys.iter().zip(operations).zip(outcomes) {
        match outcome {
            Ok(_) => {
                shared.expected.acknowledge(operation, *key, version);
                shared.tally.count("written");
            }
            Err(error) => {
                shared.expected.failed(*key, version);
                shared.failed(start, "a write", &error);
            }
        }
    }
}

async fn add(shared: &Shared, table: &Table, counter: usize, amount: u64) {
    let operation = shared.expected.begin_addition(counter, amount);
    let row = row_of_counter(counter);
    let increment = Increment::row(row.clone()).add(SUM.0, SUM.1, amount as i64);
    let start = shared.start();
    let outcome = table.increment(increment).await;
    shared.measured(start, "an increment", &row);
    match outcome {
        Ok(_) => {
            shared.expected.acknowledge_addition(operation, counter);
            shared.tally.count("added");
        }
        Err(error) => {
            shared.expected.failed_addition(operation, counter);
            shared.failed(start, "an increment", &error);
        }
    }
}

/// Adds 1 to a counter that has no other writer: reads it, and puts the next value if the counter still has the value
/// that was read. The put may be refused only if an earlier attempt of the same call has happened.
async fn add_by_check(shared: &Shared, table: &Table, counter: usize) {
    let row = row_of_counter(counter);
    let start = shared.start();
    let before = match sum_of(shared, table, counter).await {
        Ok(before) => before,
        Err(error) => return shared.failed(start, "a read", &error),
    };
    let operation = shared.expected.begin_addition(counter, 1);
    let check = CheckAndMutate::column(row.clone(), SUM.0, SUM.1);
    let check = if before == 0 { check } else { check.equals(before.to_be_bytes().to_vec()) };
    let put = Put::row(row.clone()).set(SUM.0, SUM.1, (before + 1).to_be_bytes().to_vec());
    let start = shared.start();
    let outcome = table.check_and_mutate(check.then(put)).await;
    shared.measured(start, "a check and put", &row);
    match outcome {
        Ok((true, _)) => {}
        Ok((false, _)) => match sum_of(shared, table, counter).await {
            Ok(after) if after == before + 1 => {}
            Ok(after) => {
                let complaint = format!(
                    "counter {counter} was {before}, a put that checks this was refused, it is {after}"
                );
                return shared.expected.complain(complaint);
            }
            Err(error) => {
                shared.expected.failed_addition(operation, counter);
                return shared.failed(start, "a read", &error);
            }
        },
        Err(error) => {
            shared.expected.failed_addition(operation, counter);
            return shared.failed(start, "a check and put", &error);
        }
    }
    shared.expected.acknowledge_addition(operation, counter);
    shared.tally.count("added-by-check");
}

/// Reads keys, counters and ranges until the process ends.
pub(crate) async fn read(shared: Arc<Shared>, table: Table, random: World) {
    let (keys, counters) = (shared.expected.keys(), shared.expected.counters() as u64);
    loop {
        let start = shared.start();
        let done = match below(&random, 20) {
            0 => read_range(&shared, &table, &random).await,
            1 => read_sum(&shared, &table, below(&random, counters) as usize).await,
            2 => {
                let keys: Vec<usize> = (0..20).map(|_| below(&random, keys as u64) as usize).collect();
                read_keys(&shared, &table, &keys).await
            }
            _ => read_keys(&shared, &table, &[below(&random, keys as u64) as usize]).await,
        };
        if let Err(error) = done {
            shared.failed(start, "a read", &error);
        }
        env::sleep(Duration::from_micros(below(&random, 6_000))).await;
    }
}

async fn read_keys(shared: &Shared, table: &Table, keys: &[usize]) -> Result<(), client::Error> {
    let operations: Vec<_> = keys.iter().map(|key| shared.expected.begin_read(*key)).collect();
    let start = shared.start();
    let rows = table.get_all(keys.iter().map(|key| Get::row(row_of(*key)))).await?;
    shared.measured(start, "a get", &row_of(keys[0]));
    for ((key, (operation, least)), row) in keys.iter().zip(operations).zip(rows) {
        let seen = shared.expected.content.version_of(*key, &row);
        shared.expected.saw(operation, *key, least, seen, "a get");
        shared.tally.count("got");
    }
    Ok(())
}

async fn read_sum(shared: &Shared, table: &Table, counter: usize) -> Result<(), client::Error> {
    sum_of(shared, table, counter).await?;
    Ok(())
}

/// Reads a counter, and judges its value.
async fn sum_of(shared: &Shared, table: &Table, counter: usize) -> Result<u64, client::Error> {
    let (operation, least) = shared.expected.begin_sum(counter);
    let start = shared.start();
    let row = table.get(Get::row(row_of_counter(counter))).await?;
    shared.measured(start, "a get", &row_of_counter(counter));
    let seen = row.number(SUM.0, SUM.1).unwrap_or(0) as u64;
    shared.expected.saw_sum(operation, counter, least, seen);
    shared.tally.count("got");
    Ok(seen)
}

/// Scans a range, sometimes backwards, in small answers.
async fn read_range(shared: &Shared, table: &Table, random: &World) -> Result<(), client::Error> {
    let mut ends = [below(random, 0x1_0000), below(random, 0x1_0000)];
    ends.sort_unstable();
    let [from, to] = ends.map(|end| Bytes::from(format!("{end:04x}")));
    let reversed = below(random, 3) == 0;
    let scan = match reversed {
        false => Scan::new().from(from.clone()).to(to.clone()),
        // A reversed scan includes its start, and no row has this short name.
        true => Scan::new().reversed().from(to.clone()).to(from.clone()),
    };
    let scan = scan.caching(1 + below(random, 100) as u32);
    scan_all(shared, table, scan, &from, &to, reversed).await?;
    Ok(())
}

/// Scans rows between `from` and `to`, and judges each of them and those that are missing. Returns the number of rows.
async fn scan_all(
    shared: &Shared,
    table: &Table,
    scan: Scan,
    from: &[u8],
    to: &[u8],
    reversed: bool,
) -> Result<u64, client::Error> {
    let how = if reversed { "a reversed scan" } else { "a scan" };
    let (operation, least) = shared.expected.begin_scan();
    let mut scanner = table.scan(scan);
    let mut missing: Vec<bool> = (0..least.len())
        .map(|key| {
            let row = row_of(key);
            &row[..] >= from && (to.is_empty() || &row[..] < to)
        })
        .collect();
    let (mut last, mut rows) = (None::<Bytes>, 0);
    loop {
        let start = shared.start();
        let row = scanner.next().await?;
        // A step whose row the client already had is not an operation.
        if shared.world.moment().since(start.moment) > ANSWER_MIN {
            shared.measured(start, how, last.as_deref().unwrap_or(from));
        }
        let Some(row) = row else { break };
        let this = Bytes::copy_from_slice(row.key());
        if let Some(last) = &last
            && (if reversed { this >= *last } else { this <= *last })
        {
            let (last, this) = (last.escape_ascii(), this.escape_ascii());
            shared.expected.complain(format!("{how} returned row {this} after row {last}"));
        }
        if let Some(key) = key_of(&this).filter(|key| missing.get(*key).is_some()) {
            if !std::mem::take(&mut missing[key]) {
                shared.expected.complain(format!("{how} returned key {key} out of its range, or twice"));
            }
            shared.expected.saw(
                operation,
                key,
                least[key],
                shared.expected.content.version_of(key, &row),
                how,
            );
        } else if !this.ends_with(b"~counter") && !this.ends_with(SIDE_ROW.as_bytes()) {
            shared
                .expected
                .complain(format!("{how} returned row {}, which nobody wrote", this.escape_ascii()));
        }
        last = Some(this);
        rows += 1;
    }
    for key in (0..missing.len()).filter(|key| missing[*key]) {
        shared.expected.saw(operation, key, least[key], Ok(None), how);
    }
    shared.tally.count("scanned");
    Ok(rows)
}

/// Judges every key by one scan, every counter, and some keys by gets. Returns the number of rows.
pub(crate) async fn verify(shared: &Shared, cluster: &Cluster) -> Result<u64, client::Error> {
    let table = cluster.table(TABLE)?;
    let rows = scan_all(shared, &table, Scan::new(), b"", b"", false).await?;
    for counter in 0..shared.expected.counters() {
        read_sum(shared, &table, counter).await?;
    }
    let some: Vec<usize> = (0..shared.expected.keys()).step_by(17).collect();
    read_keys(shared, &table, &some).await?;
    Ok(rows)
}
