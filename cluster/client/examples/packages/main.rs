//! Stores Debian's package index in a table. Each package is a row, each field a column, and each version of the
//! package a version of the cells.
//!
//! ```text
//! cargo run --release -p client --example packages -- load            apt's own lists, of this machine
//! cargo run --release -p client --example packages -- get bash        one row, by its key
//! cargo run --release -p client --example packages -- prefix libboost rows whose key begins with a prefix
//! cargo run --release -p client --example packages -- find Section games    rows by the newest value of a column
//! cargo run --release -p client --example packages -- verify          the whole table against the lists
//! cargo run --release -p client --example packages -- drop            deletes the table
//! ```
//!
//! `--server HOST:PORT` in front names a server (HBase or Bellows) other than 127.0.0.1:16000. `load` and `verify` take
//! lists as arguments: files in the format of a Packages file, plain or compressed by LZ4 (as apt keeps them in
//! containers).
//!
//! The versions of a package are numbered from 1 in Debian's order of versions. This number is the timestamp of the
//! cells, so a plain Get returns the newest version.

mod source;
mod verify;
mod version;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use bytes::Bytes;
use client::{Cluster, Comparison, Filter, Get, Options, Put, Registry, Row, Scan, Table};
use env::{Runtime, World};
use proto::{FamilyDescriptor, TableDescriptor, TableName};

use source::Index;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "usage: packages [--server HOST:PORT] load [LIST…] | get NAME | prefix TEXT | find FIELD VALUE | \
                     verify [LIST…] | drop";
const SERVER: &str = "127.0.0.1:16000";
const TABLE: &str = "packages";
const FAMILY: &str = "f";

/// Number of rows in one request, so that the whole source is not in memory twice.
const ROWS_AT_ONCE: usize = 500;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut server = SERVER.to_owned();
    if let ["--server", named, ..] = words[..] {
        server = named.to_owned();
        words.drain(..2);
    }
    let command = Command::parse(&words).ok_or(USAGE)?;
    let world = World::real();
    let options = Options::new(Registry::rpc(server.split(',')));
    let cluster = Cluster::connect(world.clone(), options);
    let runtime = Runtime::start("packages", 2)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        // The receiver waits below, so the send succeeds.
        let _sent = sender.send(run(&world, &cluster, command).await);
    });
    receiver.recv()?
}

/// The commands of the program.
enum Command {
    Load(Vec<PathBuf>),
    Get(String),
    Prefix(String),
    Find(String, String),
    Verify(Vec<PathBuf>),
    Drop,
}

impl Command {
    fn parse(words: &[&str]) -> Option<Command> {
        let paths = |lists: &[&str]| lists.iter().map(PathBuf::from).collect();
        Some(match *words {
            ["load", ref lists @ ..] => Command::Load(paths(lists)),
            ["get", name] => Command::Get(name.to_owned()),
            ["prefix", text] => Command::Prefix(text.to_owned()),
            ["find", field, value] => Command::Find(field.to_owned(), value.to_owned()),
            ["verify", ref lists @ ..] => Command::Verify(paths(lists)),
            ["drop"] => Command::Drop,
            _ => return None,
        })
    }
}

async fn run(world: &World, cluster: &Cluster, command: Command) -> Result<(), Failure> {
    let table = cluster.table(TABLE)?;
    let began = world.moment();
    let seconds = || world.moment().since(began).as_secs_f64();
    match command {
        Command::Load(lists) => {
            let index = read(&lists)?;
            create(cluster, &table).await?;
            load(&table, &index).await?;
            say(&format!("loaded into the table {TABLE} in {:.1} s", seconds()))
        }
        Command::Get(name) => {
            let row = table.get(Get::row(name.clone()).versions(u32::MAX)).await?;
            if row.is_empty() {
                return Err(format!("there is no package {name}").into());
            }
            show(&row)
        }
        Command::Prefix(text) => list(&table, Scan::new().prefix(text)).await,
        Command::Find(field, value) => {
            let filter = Filter::column_value(FAMILY, field, Comparison::Equal, value);
            list(&table, Scan::new().filter(filter)).await
        }
        Command::Verify(lists) => {
            let index = read(&lists)?;
            for line in verify::verify(&table, &index).await? {
                say(&line)?;
            }
            say(&format!("the table {TABLE} is what the lists say, looked at in {:.1} s", seconds()))
        }
        Command::Drop => {
            cluster.admin().disable_table(table.name()).await?;
            cluster.admin().delete_table(table.name()).await?;
            say(&format!("the table {TABLE} is gone"))
        }
    }
}

fn say(line: &str) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn read(lists: &[PathBuf]) -> Result<Index, Failure> {
    let lists = if lists.is_empty() { source::lists_of_apt()? } else { lists.to_vec() };
    let mut index = Index::default();
    for list in &lists {
        let added = index.add(list)?;
        say(&format!("{}: {added} versions of packages", list.display()))?;
    }
    if index.packages.is_empty() {
        return Err("the lists name no package: run apt-get update as root, or name a list".into());
    }
    say(&format!(
        "{} packages, {} versions, {} fields",
        index.packages.len(),
        index.versions(),
        index.fields()
    ))?;
    Ok(index)
}

async fn create(cluster: &Cluster, table: &Table) -> Result<(), Failure> {
    let name: TableName = table.name().clone();
    if cluster.admin().table_exists(&name).await? {
        return Err(
            format!("the table {TABLE} is there already; remove it first with the command drop").into()
        );
    }
    let mut descriptor = TableDescriptor::new(name);
    let family = FamilyDescriptor::new(FAMILY)?.with("VERSIONS", i32::MAX).with("COMPRESSION", "LZ4");
    descriptor.set_family(family);
    // The keys at which the table is split into regions of about as many packages each.
    let splits: Vec<Bytes> = ["golang", "libm", "p"].into_iter().map(Bytes::from).collect();
    cluster.admin().create_table(&descriptor, &splits).await?;
    Ok(())
}

async fn load(table: &Table, index: &Index) -> Result<(), Failure> {
    let mut puts = Vec::with_capacity(ROWS_AT_ONCE);
    for (name, versions) in &index.packages {
        for (stanza, timestamp) in versions.iter().zip(1..) {
            let mut put = Put::row(name.clone());
            for (field, value) in &stanza.fields {
                put = put.set_at(FAMILY, field.clone(), timestamp, value.clone());
            }
            puts.push(put);
        }
        if puts.len() >= ROWS_AT_ONCE {
            table.put_all(puts.drain(..)).await?;
        }
    }
    table.put_all(puts).await?;
    Ok(())
}

/// Prints the newest version in the format of a package list, and the numbers of the older versions.
fn show(row: &Row) -> Result<(), Failure> {
    let newest = row.cells().iter().map(client::OwnedCell::timestamp).max();
    let mut fields = BTreeMap::new();
    for cell in row.cells().iter().filter(|cell| Some(cell.timestamp()) == newest) {
        fields.insert(cell.qualifier(), cell.value());
    }
    for (field, value) in fields {
        say(&format!("{}: {}", text(field), text(value)))?;
    }
    let older: Vec<_> = row.versions(FAMILY, "Version").skip(1).map(|cell| text(cell.value())).collect();
    if older.is_empty() { Ok(()) } else { say(&format!("(older versions: {})", older.join(", "))) }
}

async fn list(table: &Table, scan: Scan) -> Result<(), Failure> {
    let mut rows = table.scan(scan);
    let mut count = 0u64;
    while let Some(row) = rows.next().await? {
        let value = |field: &str| row.value(FAMILY, field).map(text).unwrap_or_default();
        let description = value("Description");
        let summary = description.lines().next().unwrap_or_default();
        say(&format!("{} {} - {summary}", text(row.key()), value("Version")))?;
        count += 1;
    }
    say(&format!("{count} packages"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
