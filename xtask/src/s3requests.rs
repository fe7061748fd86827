//! Counts the requests of flushes, a compaction and an opening at a proxy in front of a real S3 server, and compares
//! the server's own counts with those of the proxy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::crash::{LogPlace, store_options};
use crate::s3::{self, Store};
use crate::s3faults::proxy::{Proxy, Recorded};
use crate::s3faults::request::RequestKind;
use crate::server::{Server, binary, build, fresh_folder};
use crate::{Outcome, web};

/// The server sends nothing more if it has sent nothing for this time. Records of the log that nobody waits for are sent
/// after a second.
const CALM: Duration = Duration::from_secs(2);

/// With these settings only what an administrator asks for sends requests to the store, and none of them twice. Without
/// the last one the many objects of the log make regions flush.
const QUIET: [&str; 4] = [
    "hbase.server.thread.wakefrequency=3600000",
    "hbase.hstore.compaction.min=10",
    "bellows.s3.hedge.percent=0",
    "bellows.wal.store.parts.max=0",
];

/// Numbers of requests by what they want, such as `PUT list`.
type Counts = BTreeMap<String, u64>;

/// Runs the test with the log in the store, with the log on a disk, and with the log in a bucket of its own.
pub(crate) fn suite() -> Outcome {
    build()?;
    let folder = fresh_folder("s3requests")?;
    let store = Store::start_in(&folder.join("store"))?;
    let counted = [LogPlace::Store, LogPlace::Disk].map(|log| {
        count(&store, log).map_err(|why| format!("log on {log:?}: {why}; see {}", folder.display()))
    });
    counted.into_iter().collect::<Outcome>()?;
    for (index, data) in [folder.join("files"), PathBuf::from("s3://bellows/files")].iter().enumerate() {
        count_log(&store, data, index).map_err(|why| {
            format!("{} with a log elsewhere: {why}; see {}", data.display(), folder.display())
        })?;
    }
    drop(store);
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

fn count(store: &Store, log: LogPlace) -> Outcome {
    let folder = fresh_folder(&format!("s3requests-{log:?}"))?;
    let proxy = Proxy::recording(&store.endpoint).map_err(|error| format!("no proxy: {error}"))?;
    let wal_dir = match log {
        LogPlace::Store => String::new(),
        LogPlace::Disk => folder.join("wal").display().to_string(),
    };
    let mut options = store_options(&proxy.endpoint, &wal_dir);
    QUIET.iter().for_each(|quiet| options.extend(["-D".to_owned(), (*quiet).to_owned()]));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let data = PathBuf::from(format!("s3://bellows/requests-{log:?}"));
    let start = || Server::start_with_log(&data, &folder.join("log"), &options);
    let server = start()?;
    // Requests for the log come only if the log is in the store.
    let with_markers = |wanted: &[&'static str]| match log {
        LogPlace::Store => [wanted, &["PUT log"]].concat(),
        LogPlace::Disk => wanted.to_vec(),
    };
    let mut total = Counts::new();
    let mut of = |what: &str, act: &dyn Fn() -> Outcome| -> Result<Counts, String> {
        add(&mut total, &proxy.recorded(CALM));
        act()?;
        let requests = proxy.recorded(CALM);
        add(&mut total, &requests);
        let counts = by_object(&requests);
        say!("log on {log:?}, {what}: {}", shown(&counts));
        Ok(counts)
    };

    insert(&server, "small", 200)?;
    let small = with_markers(&["PUT file", "PUT list"]);
    expect("a small flush", &of("a small flush", &|| web::act(&server.web, "small", "flush"))?, &small)?;
    let nothing = of("a flush of nothing", &|| web::act(&server.web, "small", "flush"))?;
    expect("a flush of nothing", &nothing, &[])?;

    insert(&server, "small", 200)?;
    let compact = || web::act(&server.web, "small", "major_compact");
    // It reads no file, because the flushes have cached their blocks.
    expect("a compaction", &of("a compaction", &compact)?, &small)?;

    // The bytes of the inserted rows are 25 MB: two parts.
    insert(&server, "large", 25_000)?;
    let large = with_markers(&[
        "MULTIPART-BEGIN file",
        "PART file",
        "PART file",
        "MULTIPART-COMPLETE file",
        "PUT list",
    ]);
    expect("a large flush", &of("a large flush", &|| web::act(&server.web, "large", "flush"))?, &large)?;

    add(&mut total, &proxy.recorded(CALM));
    let counted = requests(&server)?;
    let seen = seen_in(&total);
    server.stop()?;
    drop(proxy.recorded(CALM));
    let server = start()?;
    let opening: Vec<Recorded> =
        proxy.recorded(CALM).into_iter().filter(|request| request.key.contains("/default/small/")).collect();
    let opening = by_object(&opening);
    say!("log on {log:?}, an opening: {}", shown(&opening));
    // The files are the output of the compaction and that of the flush at the end of the first server. The other objects are the
    // region's `.regioninfo` and its note of a bulk load; the table's descriptors, of which there is a listing; and its schema.
    let wanted = ["LIST list", "GET list", "PUT list", "GET file", "GET file"];
    let of_region_and_table = ["GET other", "GET other", "LIST other", "GET other"];
    let wanted = [&wanted[..], &of_region_and_table].concat();
    expect("the opening of a store of two files", &opening, &wanted)?;
    expect_all_counted(counted, seen)?;
    server.stop()?;
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

/// Compares the counts of a server whose log is in a place of its own in the store, and whose files are in `data`.
fn count_log(store: &Store, data: &Path, index: usize) -> Outcome {
    let folder = fresh_folder(&format!("s3requests-log-{index}"))?;
    let proxy = Proxy::recording(&store.endpoint).map_err(|error| format!("no proxy: {error}"))?;
    let mut options = store_options(&proxy.endpoint, &format!("s3://bellows/log-{index}"));
    QUIET.iter().for_each(|quiet| options.extend(["-D".to_owned(), (*quiet).to_owned()]));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = Server::start_with_log(data, &folder.join("log"), &options)?;
    insert(&server, "small", 200)?;
    let mut total = Counts::new();
    add(&mut total, &proxy.recorded(CALM));
    let counted = requests(&server)?;
    expect_all_counted(counted, seen_in(&total))?;
    let page = web::page(&server.web, "/metrics")?;
    let of_log = r#"bellows_store_account_requests_total{account="(log)",kind="put"} "#;
    let puts = page.lines().find_map(|line| line.strip_prefix(of_log)?.parse::<f64>().ok());
    if puts.is_none_or(|puts| puts < 1.0) {
        return Err(format!("/metrics has {puts:?} PUT requests of the log"));
    }
    server.stop()?;
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

fn seen_in(total: &Counts) -> [u64; 5] {
    ["PUT", "GET", "LIST", "DELETE", "MULTIPART"].map(|kind| total.get(kind).copied().unwrap_or(0))
}

fn expect_all_counted(counted: [u64; 5], seen: [u64; 5]) -> Outcome {
    if counted == seen {
        return Ok(());
    }
    Err(format!(
        "the server counted {counted:?} PUT, GET, LIST, DELETE and multipart requests, the proxy {seen:?}"
    ))
}

/// Creates the table if necessary, and inserts rows that are not flushed. The first call also flushes some rows.
fn insert(server: &Server, table: &str, rows: u64) -> Outcome {
    let rows = rows.to_string();
    s3::insert(&binary(), server, table, &["--rows", "200", "--operations", &rows, "--seconds", "60"])
}

/// Adds the numbers of requests by the kinds that the server counts.
fn add(total: &mut Counts, requests: &[Recorded]) {
    for request in requests {
        let kind = match request.kind {
            RequestKind::Put => "PUT",
            RequestKind::Get | RequestKind::Head => "GET",
            RequestKind::Delete | RequestKind::BulkDelete => "DELETE",
            RequestKind::Begin | RequestKind::Part | RequestKind::Complete | RequestKind::Abort => {
                "MULTIPART"
            }
            RequestKind::List => "LIST",
            RequestKind::Other => continue,
        };
        *total.entry(kind.to_owned()).or_default() += 1;
    }
}

/// Counts requests by their kind and the object that they want. Leaves out the listings of snapshots, which the page of
/// a table shows.
fn by_object(requests: &[Recorded]) -> Counts {
    let mut counts = Counts::new();
    for Recorded { kind, key, .. } in requests {
        let object = match key.as_str() {
            key if key.contains("/.hbase-snapshot") => continue,
            key if key.contains("/.filelist") => "list",
            key if key.contains("/WALs/") => "log",
            key if key.ends_with("/bellows/procedures") => "record",
            key if is_store_file(key) => "file",
            _ => "other",
        };
        *counts.entry(format!("{} {object}", kind.name())).or_default() += 1;
    }
    counts
}

/// Returns whether the key ends with `/REGION/FAMILY/FILE`, where names of files are hexadecimal digits.
fn is_store_file(key: &str) -> bool {
    key.contains("/data/default/")
        && key
            .rsplit('/')
            .next()
            .is_some_and(|name| name.len() == 32 && name.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn expect(what: &str, found: &Counts, wanted: &[&str]) -> Outcome {
    let mut counts = Counts::new();
    wanted.iter().for_each(|request| *counts.entry((*request).to_owned()).or_default() += 1);
    if *found == counts {
        return Ok(());
    }
    Err(format!("requests of {what}: {}, expected {}", shown(found), shown(&counts)))
}

fn shown(counts: &Counts) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// Returns the numbers of PUT, GET, LIST, DELETE and multipart requests that the server has counted.
fn requests(server: &Server) -> Result<[u64; 5], String> {
    let page = web::page(&server.web, "/metrics")?;
    let of_kind = |kind: &str| {
        let begin = format!("bellows_store_requests_total{{kind=\"{kind}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&begin));
        line.and_then(|count| count.parse().ok())
            .ok_or_else(|| format!("/metrics has no requests of kind {kind}"))
    };
    Ok([of_kind("put")?, of_kind("get")?, of_kind("list")?, of_kind("delete")?, of_kind("multipart")?])
}
