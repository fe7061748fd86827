//! Tries every operation of the client on a running cluster, HBase or Bellows, and checks the results.
//!
//! ```text
//! cargo run -p client --example check -- rpc 127.0.0.1:16000
//! cargo run -p client --example check -- zookeeper 127.0.0.1:2181
//! cargo run -p client --example check -- rpc 127.0.0.1:16000 gzip      cell blocks compressed: gzip, snappy, lz4
//! ```
//!
//! It creates a namespace `client_check` with tables of its own and removes them again. The exit status is 0 when every
//! check passes; otherwise the first failure is printed.

use std::error::Error as StdError;
use std::io::Write;

use bytes::Bytes;
use client::{
    Action, Append, CheckAndMutate, Cluster, Comparison, Delete, Durability, Error, Filter, Get, Increment,
    Options, Put, Registry, RowMutations, Scan, Table, TimeRange,
};
use env::{Runtime, World};
use proto::catalog::TableState;
use proto::{FamilyDescriptor, TableDescriptor, TableName};
use rpc::{Compressor, class};

type Checked = Result<(), Box<dyn StdError + Send + Sync>>;

const NAMESPACE: &str = "client_check";

macro_rules! check {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!("{}:{}: {}", file!(), line!(), format_args!($($what)+)).into());
        }
    };
}

fn main() -> Checked {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    const USAGE: &str = "usage: check rpc|zookeeper HOST:PORT,... [gzip|snappy|lz4]";
    let (registry, rest) = match &arguments[..] {
        [kind, servers, rest @ ..] if kind == "rpc" => (Registry::rpc(servers.split(',')), rest),
        [kind, servers, rest @ ..] if kind == "zookeeper" => (Registry::zookeeper(servers.split(',')), rest),
        _ => return Err(USAGE.into()),
    };
    let mut options = Options::new(registry);
    options.connection.compressor = match rest {
        [] => Compressor::None,
        [name] if name == "gzip" => Compressor::Gzip,
        [name] if name == "snappy" => Compressor::Snappy,
        [name] if name == "lz4" => Compressor::Lz4,
        _ => return Err(USAGE.into()),
    };
    let cluster = Cluster::connect(World::real(), options);
    let runtime = Runtime::start("check", 2)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        // The receiver waits below, so the send succeeds.
        let _sent = sender.send(all(&cluster).await);
    });
    receiver.recv()??;
    say("all is as it should be");
    Ok(())
}

fn say(line: &str) {
    // If standard output is closed, nobody reads the line.
    let _closed = writeln!(std::io::stdout(), "{line}");
}

async fn all(cluster: &Cluster) -> Checked {
    say(&format!("cluster {}", cluster.id().await?));
    clean(cluster).await?;
    tables(cluster).await?;
    let table = cluster.table(&format!("{NAMESPACE}:rows"))?;
    rows(&table).await?;
    deletes(&table).await?;
    counters(&table).await?;
    conditions(&table).await?;
    errors(cluster, &table).await?;
    batches(cluster, &table).await?;
    scans(cluster, &table).await?;
    alterations(cluster).await?;
    clean(cluster).await
}

fn name(qualifier: &str) -> Result<TableName, proto::Error> {
    TableName::new(NAMESPACE, qualifier)
}

async fn clean(cluster: &Cluster) -> Checked {
    let admin = cluster.admin();
    for qualifier in ["rows", "split", "altered"] {
        let table = name(qualifier)?;
        match admin.table_state(&table).await? {
            None => continue,
            Some(TableState::Enabled) => admin.disable_table(&table).await?,
            Some(_) => {}
        }
        admin.delete_table(&table).await?;
        check!(!admin.table_exists(&table).await?, "{table} is gone");
    }
    if admin.namespaces().await?.iter().any(|namespace| namespace == NAMESPACE) {
        admin.delete_namespace(NAMESPACE).await?;
    }
    Ok(())
}

async fn tables(cluster: &Cluster) -> Checked {
    let admin = cluster.admin();
    admin.create_namespace(NAMESPACE, &[("owner", "check")]).await?;
    check!(admin.namespaces().await?.iter().any(|one| one == NAMESPACE), "the namespace is listed");
    let rows = name("rows")?;
    let mut descriptor = TableDescriptor::new(rows.clone());
    descriptor.set_family(FamilyDescriptor::new("f")?.with("VERSIONS", 3));
    descriptor.set_family(FamilyDescriptor::new("g")?);
    check!(admin.describe_table(&rows).await?.is_none(), "nothing is there yet");
    admin.create_table(&descriptor, &[]).await?;
    let again = admin.create_table(&descriptor, &[]).await.expect_err("it exists");
    check!(again.class() == Some(class::TABLE_EXISTS), "a second creation fails with {again}");
    check!(admin.table_state(&rows).await? == Some(TableState::Enabled), "it is enabled");
    check!(admin.tables().await?.contains(&rows), "it is listed");
    let described = admin.describe_table(&rows).await?.ok_or("it is described")?;
    check!(described.families().len() == 2, "its families are kept: {described:?}");

    let mut descriptor = TableDescriptor::new(name("split")?);
    descriptor.set_family(FamilyDescriptor::new("f")?);
    let keys: Vec<Bytes> = ["d", "h", "p"].into_iter().map(Bytes::from).collect();
    admin.create_table(&descriptor, &keys).await?;
    let regions = admin.regions(&name("split")?).await?;
    check!(regions.len() == 4, "three keys make four regions: {regions:?}");
    check!(regions[1].region.start_key() == "d" && regions[1].region.end_key() == "h", "cut where asked");
    let status = admin.cluster_status().await?;
    check!(!status.live_servers.is_empty() && status.master.is_some(), "servers live");
    say("tables are made, listed and described");
    Ok(())
}

async fn rows(table: &Table) -> Checked {
    check!(table.get(Get::row("nobody")).await?.is_empty(), "a row that is not there is empty");
    check!(!table.exists(Get::row("nobody")).await?, "and does not exist");
    for (timestamp, value) in [(10, "ten"), (20, "twenty"), (30, "thirty")] {
        table.put(Put::row("a").set_at("f", "q", timestamp, value)).await?;
    }
    table.put(Put::row("a").set("g", "other", "here").durability(Durability::FsyncWal)).await?;
    let row = table.get(Get::row("a")).await?;
    check!(row.key() == b"a" && row.cells().len() == 2, "two columns: {row:?}");
    check!(row.value("f", "q") == Some(b"thirty"), "the newest: {row:?}");
    check!(row.value("g", "other") == Some(b"here"), "the other family: {row:?}");
    let row = table.get(Get::row("a").column("f", "q").versions(5)).await?;
    let versions: Vec<_> = row.versions("f", "q").map(client::OwnedCell::timestamp).collect();
    check!(versions == [30, 20, 10], "all versions, the newest first: {row:?}");
    let row = table.get(Get::row("a").family("f").time_range(TimeRange { from: 10, to: 30 })).await?;
    check!(row.value("f", "q") == Some(b"twenty"), "of a time: {row:?}");
    let row = table.get(Get::row("a").filter(Filter::qualifier(Comparison::Equal, "other"))).await?;
    check!(row.cells().len() == 1 && row.value("g", "other").is_some(), "filtered: {row:?}");
    check!(table.exists(Get::row("a").column("f", "q")).await?, "it exists");
    check!(!table.exists(Get::row("a").column("f", "no")).await?, "a column that is not there does not");
    let large = vec![7u8; 1 << 20];
    table.put(Put::row("large").set("f", "q", large.clone())).await?;
    check!(table.get(Get::row("large")).await?.value("f", "q") == Some(&large[..]), "a megabyte comes back");
    say("rows are written and read");
    Ok(())
}

async fn deletes(table: &Table) -> Checked {
    let fill = async || {
        let mut put = Put::row("d").set_at("g", "x", 5, "gx");
        for timestamp in [1, 2, 3] {
            put = put.set_at("f", "x", timestamp, format!("x{timestamp}")).set_at("f", "y", timestamp, "y");
        }
        table.put(put).await
    };
    let all = async || table.get(Get::row("d").versions(9)).await;
    fill().await?;
    check!(all().await?.cells().len() == 7, "seven cells");
    table.delete(Delete::row("d").version("f", "x", 2)).await?;
    let versions: Vec<_> = all().await?.versions("f", "x").map(client::OwnedCell::timestamp).collect();
    check!(versions == [3, 1], "one version is hidden: {versions:?}");
    table.delete(Delete::row("d").newest("f", "x")).await?;
    check!(all().await?.versions("f", "x").count() == 1, "and the newest");
    table.delete(Delete::row("d").column_up_to("f", "y", 2)).await?;
    check!(all().await?.versions("f", "y").count() == 1, "a column up to a time");
    table.delete(Delete::row("d").column("f", "y")).await?;
    check!(all().await?.versions("f", "y").count() == 0, "a column");
    table.delete(Delete::row("d").family("g")).await?;
    check!(all().await?.value("g", "x").is_none(), "a family");
    table.delete(Delete::row("d")).await?;
    check!(all().await?.is_empty(), "the row");
    let raw: usize = table
        .scan(Scan::new().from("d").through("d").raw().versions(9))
        .collect()
        .await?
        .iter()
        .map(|row| row.cells().len())
        .sum();
    check!(raw > 7, "a raw scan shows what hides, too: {raw}");
    say("deletes hide what they should");
    Ok(())
}

async fn counters(table: &Table) -> Checked {
    let row = table.increment(Increment::row("n").add("f", "c", 5).add("f", "d", -1)).await?;
    check!(row.number("f", "c") == Some(5) && row.number("f", "d") == Some(-1), "counted from zero: {row:?}");
    let row = table.increment(Increment::row("n").add("f", "c", 2)).await?;
    check!(row.number("f", "c") == Some(7), "and on: {row:?}");
    let row = table.increment(Increment::row("n").add("f", "c", 1).return_results(false)).await?;
    check!(row.is_empty(), "silently: {row:?}");
    check!(table.get(Get::row("n")).await?.number("f", "c") == Some(8), "but it counts");
    table.put(Put::row("n").set("f", "text", "ab")).await?;
    let row = table.append(Append::row("n").add("f", "text", "cd").add("f", "new", "x")).await?;
    check!(
        row.value("f", "text") == Some(b"abcd") && row.value("f", "new") == Some(b"x"),
        "appended: {row:?}"
    );
    let wrong = table.increment(Increment::row("n").add("f", "text", 1)).await.expect_err("not a number");
    check!(wrong.class() == Some(class::DO_NOT_RETRY_IO), "text does not count: {wrong}");
    say("counters count and values grow");
    Ok(())
}

async fn conditions(table: &Table) -> Checked {
    let absent = CheckAndMutate::column("k", "f", "lock").then(Put::row("k").set("f", "lock", "me"));
    check!(table.check_and_mutate(absent.clone()).await?.0, "it was free");
    check!(!table.check_and_mutate(absent).await?.0, "now it is not");
    let mine = CheckAndMutate::column("k", "f", "lock").equals("me");
    let (held, _) = table
        .check_and_mutate(
            mine.clone().then(Put::row("k").set("f", "a", "1")).then(Delete::row("k").column("f", "lock")),
        )
        .await?;
    check!(held, "two changes under one condition");
    let row = table.get(Get::row("k")).await?;
    check!(row.value("f", "a") == Some(b"1") && row.value("f", "lock").is_none(), "both happened: {row:?}");
    check!(!table.check_and_mutate(mine.then(Delete::row("k"))).await?.0, "the lock is gone");
    // In HBase's order, the given value is compared with the stored one.
    let greater = CheckAndMutate::column("k", "f", "a").compares(Comparison::Greater, "2");
    check!(
        table.check_and_mutate(greater.then(Put::row("k").set("f", "a", "2"))).await?.0,
        "2 is greater than 1"
    );
    let filter = Filter::column_value("f", "a", Comparison::Equal, "2");
    let matching = CheckAndMutate::matching("k", filter).then(Increment::row("k").add("f", "n", 3));
    let (held, row) = table.check_and_mutate(matching).await?;
    check!(
        held && row.number("f", "n") == Some(3),
        "a condition by filter, and what the change gives: {row:?}"
    );
    table
        .mutate_row(
            RowMutations::row("k")
                .with(Put::row("k").set("f", "b", "1"))
                .with(Delete::row("k").column("f", "a")),
        )
        .await?;
    let row = table.get(Get::row("k")).await?;
    check!(row.value("f", "b").is_some() && row.value("f", "a").is_none(), "changed at once: {row:?}");
    say("conditions hold and fail as they should");
    Ok(())
}

async fn errors(cluster: &Cluster, table: &Table) -> Checked {
    let family = table.put(Put::row("e").set("nofamily", "q", "v")).await.expect_err("no such family");
    check!(family.class() == Some(class::NO_SUCH_COLUMN_FAMILY), "{family}");
    let missing = cluster.table(&format!("{NAMESPACE}:missing"))?;
    let missing = missing.get(Get::row("r")).await.expect_err("no such table");
    check!(matches!(missing, Error::TableNotFound(_)), "{missing}");
    let empty = table.put(Put::row("")).await.expect_err("no key");
    check!(matches!(empty, Error::Invalid(_)), "{empty}");
    let enabled = cluster.admin().delete_table(&name("rows")?).await.expect_err("not disabled");
    check!(enabled.class() == Some(class::TABLE_NOT_DISABLED), "{enabled}");
    say("errors have their classes");
    Ok(())
}

async fn batches(cluster: &Cluster, rows: &Table) -> Checked {
    let table = cluster.table(&format!("{NAMESPACE}:split"))?;
    let key = |index: u32| format!("{}{index:05}", char::from(b'a' + (index % 26) as u8));
    table
        .put_all((0..5_000u32).map(|index| Put::row(key(index)).set("f", "n", index.to_be_bytes().to_vec())))
        .await?;
    let found = table.get_all((0..5_000u32).rev().map(|index| Get::row(key(index)))).await?;
    for (row, index) in found.iter().zip((0..5_000u32).rev()) {
        check!(row.value("f", "n") == Some(&index.to_be_bytes()[..]), "row {index} is {row:?}");
    }
    check!(found.len() == 5_000, "every row");
    let mixed: Vec<Action> = vec![
        Put::row("mixed").set("f", "q", "1").into(),
        Get::row("no such row").into(),
        Increment::row("mixed2").add("f", "c", 4).into(),
        Put::row("mixed").set("nofamily", "q", "1").into(),
        Action::RowMutations(RowMutations::row("mixed3").with(Put::row("mixed3").set("f", "q", "3"))),
        Action::CheckAndMutate(
            CheckAndMutate::column("mixed4", "f", "q").equals("x").then(Delete::row("mixed4")),
        ),
        Append::row("mixed5").add("f", "q", "tail").into(),
        Delete::row("mixed6").column("f", "q").into(),
    ];
    let outcomes = rows.batch(mixed).await;
    let failed: Vec<usize> =
        outcomes.iter().enumerate().filter(|(_, one)| one.is_err()).map(|(at, _)| at).collect();
    check!(failed == [3], "one alone fails: {outcomes:?}");
    let class = outcomes[3].as_ref().expect_err("it failed").class();
    check!(class == Some(class::NO_SUCH_COLUMN_FAMILY), "for its family: {class:?}");
    let outcome = |index: usize| outcomes[index].as_ref().expect("it succeeded");
    check!(outcome(1).row.is_empty(), "nothing was there");
    check!(outcome(2).row.number("f", "c") == Some(4), "{:?}", outcome(2));
    check!(outcome(4).processed && !outcome(5).processed, "one condition did not hold");
    check!(outcome(6).row.value("f", "q") == Some(b"tail"), "{:?}", outcome(6));
    check!(rows.get(Get::row("mixed3")).await?.value("f", "q") == Some(b"3"), "what stands alone happened");
    table.delete_all((0..10u32).map(|index| Delete::row(key(index)))).await?;
    check!(!table.exists(Get::row(key(3))).await?, "deleted with others");
    say("batches reach every region and report one by one");
    Ok(())
}

async fn scans(cluster: &Cluster, rows: &Table) -> Checked {
    let table = cluster.table(&format!("{NAMESPACE}:split"))?;
    let keys = async |scan: Scan| -> client::Result<Vec<Vec<u8>>> {
        Ok(table.scan(scan).collect().await?.iter().map(|row| row.key().to_vec()).collect())
    };
    let all = keys(Scan::new()).await?;
    check!(all.len() == 4_990, "all regions: {}", all.len());
    check!(all.is_sorted(), "in order");
    let mut backwards = keys(Scan::new().reversed()).await?;
    backwards.reverse();
    check!(backwards == all, "and back: {}", backwards.len());
    check!(keys(Scan::new().caching(7)).await? == all, "few at a time");
    check!(keys(Scan::new().size_max(500)).await? == all, "in small portions");
    check!(keys(Scan::new().limit(1_000)).await? == all[..1_000], "so many");
    let some = keys(Scan::new().from("c").to("i")).await?;
    let expected: Vec<_> = all.iter().filter(|key| (b'c'..b'i').contains(&key[0])).cloned().collect();
    check!(some == expected, "a range over regions: {} of {}", some.len(), expected.len());
    let mut some = keys(Scan::new().reversed().from("i").to("c").limit(100)).await?;
    some.reverse();
    check!(some == expected[expected.len() - 100..], "and back: {}", some.len());
    let prefix = keys(Scan::new().prefix("h")).await?;
    check!(prefix.len() == all.iter().filter(|key| key[0] == b'h').count(), "a prefix: {}", prefix.len());
    let first = &all[1_234];
    check!(keys(Scan::new().after(first.clone()).limit(1)).await? == all[1_235..1_236], "behind a row");
    check!(keys(Scan::new().from(first.clone()).through(first.clone())).await? == [first.clone()], "one row");
    check!(keys(Scan::new().filter(Filter::page(3)).from("q")).await?.len() == 3, "a page of one region");
    check!(keys(Scan::new().filter(Filter::prefix("b0"))).await?.len() == 192, "by filter");
    let value = Filter::column_value("f", "n", Comparison::Less, 100u32.to_be_bytes().to_vec());
    let low = Filter::any([value, Filter::row(Comparison::Equal, "z04991")]);
    check!(keys(Scan::new().filter(low)).await?.len() == 91, "by filters");
    let empty =
        table.scan(Scan::new().filter(Filter::all([Filter::first_key_only(), Filter::key_only()])).limit(5));
    check!(empty.collect().await?.iter().all(|row| row.value("f", "n") == Some(b"")), "keys alone");

    let mut wide = Put::row("wide");
    for index in 0..100u32 {
        wide = wide.set("f", format!("{index:03}"), vec![b'v'; 1_000]);
    }
    rows.put(wide).await?;
    let one = Scan::new().from("wide").through("wide");
    let whole = rows.scan(one.clone().size_max(5_000)).collect().await?;
    check!(whole.len() == 1 && whole[0].cells().len() == 100, "pieces are put together: {}", whole.len());
    let pieces = rows.scan(one.clone().size_max(5_000).allow_partial()).collect().await?;
    let cells: usize = pieces.iter().map(|row| row.cells().len()).sum();
    check!(pieces.len() > 1 && cells == 100, "or not: {} pieces of {cells} cells", pieces.len());
    let batches = rows.scan(one.batch(30)).collect().await?;
    let lengths: Vec<_> = batches.iter().map(|row| row.cells().len()).collect();
    check!(lengths == [30, 30, 30, 10], "or by count: {lengths:?}");
    let mut left = table.scan(Scan::new().caching(2));
    check!(left.next().await?.is_some(), "a scan that is left alone closes itself");
    drop(left);
    say("scans find every row once");
    Ok(())
}

async fn alterations(cluster: &Cluster) -> Checked {
    let admin = cluster.admin();
    let altered = name("altered")?;
    let mut descriptor = TableDescriptor::new(altered.clone());
    descriptor.set_family(FamilyDescriptor::new("f")?);
    admin.create_table(&descriptor, &[Bytes::from("m")]).await?;
    let table = cluster.table(altered.as_str())?;
    table.put_all(["a", "z"].map(|row| Put::row(row).set("f", "q", "v"))).await?;
    admin.flush(&altered).await?;
    admin.compact(&altered, true).await?;
    admin.add_family(&altered, &FamilyDescriptor::new("added")?).await?;
    table.put(Put::row("a").set("added", "q", "v")).await?;
    admin.modify_family(&altered, &FamilyDescriptor::new("f")?.with("VERSIONS", 7)).await?;
    let described = admin.describe_table(&altered).await?.ok_or("it is described")?;
    check!(described.family(b"added").is_some(), "the family is there: {described:?}");
    check!(described.family(b"f").is_some_and(|family| format!("{family:?}").contains('7')), "{described:?}");
    admin.delete_family(&altered, "added").await?;
    let row = table.get(Get::row("a")).await?;
    check!(row.cells().len() == 1, "and gone with its cells: {row:?}");
    admin.disable_table(&altered).await?;
    check!(admin.table_state(&altered).await? == Some(TableState::Disabled), "disabled");
    admin.truncate_table(&altered, true).await?;
    check!(table.scan(Scan::new()).collect().await?.is_empty(), "empty");
    check!(admin.regions(&altered).await?.len() == 2, "still in two regions");
    admin.disable_table(&altered).await?;
    admin.enable_table(&altered).await?;
    table.put(Put::row("again").set("f", "q", "v")).await?;
    check!(table.exists(Get::row("again")).await?, "and in service");
    say("tables are altered, emptied and switched");
    Ok(())
}
