//! `cargo xtask mapreduce`: HBase's tools that run in MapReduce jobs, unmodified, in Hadoop's local runner.
//!
//! ImportTsv writes store files for a table of two regions, and BulkLoadHFilesTool loads them into one of four, so it
//! divides them first. Then the rows are counted, exported, imported, copied and compared by hashes. A snapshot is
//! described, exported into the root of a second server, read there without the server, and cloned there. Finally two of
//! HBase's integration tests run: IntegrationTestBulkLoad, whose chains cross many store files, and
//! IntegrationTestBigLinkedList.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::tools::{Registry, Tools, numbers};

pub(crate) const USAGE: &str = "\
       cargo xtask mapreduce [--rows N] [--chain N]   (20,000 rows and chains of 5,000 unless said otherwise; JDK and
                                                       Maven)";

/// What all classes are in.
const PACKAGE: &str = "org.apache.hadoop.hbase";

/// Lines with these words are no complaint about the server.
const TOLERATED: &[&str] = &[
    // A counter, with its value.
    "IO_ERROR=0",
    // The local runner has no jars to distribute.
    "/libjars",
    // Hadoop has no tokens for a local disk.
    "Unknown FS URI scheme: file",
    // ImportTsv's mark of success is no family.
    "Skipping non-directory file:",
    // A job that closes its connection at once may still get ZooKeeper's event of the opening.
    "Error while calling watcher",
    "RejectedExecutionException",
    // HBase's scanner of snapshots closes its region with this exception if it runs outside a server.
    "Exception while closing region",
    "\"this.chunkCreator\" is null",
    "Caused by: java.lang.NullPointerException",
];

/// A server, with the tools that run against it.
struct Cluster {
    server: Server,
    data: PathBuf,
    tools: Tools,
}

impl Cluster {
    fn start(folder: &Path, name: &str) -> Result<Cluster, String> {
        let data = folder.join(name);
        let server = Server::start_in(&data, &[])?;
        let outputs = folder.join(format!("{name}-tools"));
        std::fs::create_dir_all(&outputs).map_err(|error| format!("{}: {error}", outputs.display()))?;
        let tools = Tools::new("tools", &server, &outputs)?.tolerating(TOLERATED);
        Ok(Cluster { server, data, tools })
    }

    /// Runs a class below HBase's package, and returns its output; `step` names the output's file.
    fn run(&self, step: &str, class: &str, arguments: &[&str]) -> Result<String, String> {
        let main = format!("{PACKAGE}.{class}");
        let ended = self.tools.run(step, Registry::ZooKeeper, &main, arguments)?;
        say!("{step:24} {:6.1} s", ended.seconds);
        Ok(ended.output)
    }

    /// As [`run`](Cluster::run), for a class that has to print `line`, which may have spaces around it.
    fn run_and_say(&self, step: &str, class: &str, arguments: &[&str], line: &str) -> Outcome {
        let output = self.run(step, class, arguments)?;
        match output.lines().any(|said| said.trim() == line) {
            true => Ok(()),
            false => Err(format!("{step} does not say {line:?}")),
        }
    }

    fn must_have(&self, table: &str, expected: (u64, u64)) -> Outcome {
        let counted = self.tools.count(table)?;
        match counted == expected {
            true => Ok(()),
            false => Err(format!("{table} has (rows, cells) {counted:?} instead of {expected:?}")),
        }
    }

    fn stop(self) -> Outcome {
        self.server.stop()?;
        no_panic(&log_of(&self.data))
    }
}

/// Runs the tools. Options: `--rows` of the table, and the length of each chain, `--chain`.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let [rows, chain] = numbers(options, [("--rows", 20_000), ("--chain", 5000)])?;
    build()?;
    let folder = fresh_folder("mapreduce")?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let at = |name: &str| format!("file://{}", folder.join(name).display());
    let temporary = format!("-Dhadoop.tmp.dir={}", folder.join("tmp").display());
    let input = folder.join("rows.tsv");
    std::fs::write(&input, tsv(rows)).map_err(|error| format!("{}: {error}", input.display()))?;
    let first = Cluster::start(&folder, "first")?;

    for (table, regions) in [("narrow", "2"), ("wide", "4"), ("put", "3"), ("imported", "3"), ("copied", "5")]
    {
        first.run(
            &format!("create {table}"),
            "util.RegionSplitter",
            &["-c", regions, "-f", "f", table, "HexStringSplit"],
        )?;
    }
    let columns = "-Dimporttsv.columns=HBASE_ROW_KEY,f:a,f:b";
    let (hfiles, bulk) = (at("hfiles"), format!("-Dimporttsv.bulk.output={}", at("hfiles")));
    let whole = (rows, 2 * rows);
    let input = at("rows.tsv");
    first.run_and_say(
        "ImportTsv to HFiles",
        "mapreduce.ImportTsv",
        &[&temporary, columns, &bulk, "narrow", &input],
        "Bad Lines=0",
    )?;
    first.run("BulkLoadHFilesTool", "tool.BulkLoadHFilesTool", &[&hfiles, "wide"])?;
    if let Some(left) = files_in(&folder.join("hfiles/f"))?.first() {
        return Err(format!("{} is still there after the bulk load", left.display()));
    }
    first.must_have("wide", whole)?;
    first.run_and_say(
        "ImportTsv by puts",
        "mapreduce.ImportTsv",
        &[&temporary, columns, "put", &input],
        "Bad Lines=0",
    )?;
    first.must_have("put", whole)?;

    first.run_and_say(
        "RowCounter",
        "mapreduce.RowCounter",
        &[&temporary, "wide"],
        &format!("ROWS={rows}"),
    )?;
    first.run_and_say(
        "CellCounter",
        "mapreduce.CellCounter",
        &[&temporary, "wide", &at("cells")],
        &format!("CELLS={}", 2 * rows),
    )?;
    first.run("Export", "mapreduce.Export", &[&temporary, "wide", &at("exported")])?;
    first.run("Import", "mapreduce.Import", &[&temporary, "imported", &at("exported")])?;
    first.run("CopyTable", "mapreduce.CopyTable", &[&temporary, "--new.name=copied", "wide"])?;
    first.run("HashTable", "mapreduce.HashTable", &[&temporary, "wide", &at("hashes")])?;
    for table in ["put", "imported", "copied"] {
        first.must_have(table, whole)?;
        let output = first.run(
            &format!("SyncTable {table}"),
            "mapreduce.SyncTable",
            &[&temporary, "--dryrun=true", &at("hashes"), "wide", table],
        )?;
        // ImportTsv's second job has written other timestamps than its first one. So its table has other hashes, and the
        // copies have the same ones.
        let is_equal = output.contains("HASHES_MATCHED=") && !output.contains("HASHES_NOT_MATCHED=");
        let is_copy = table != "put";
        if is_equal != is_copy {
            let found = if is_equal { "no differences" } else { "differences" };
            return Err(format!("SyncTable finds {found} between wide and {table}"));
        }
    }

    let second = Cluster::start(&folder, "second")?;
    let root_of = |name: &str| format!("-Dhbase.rootdir={}", at(name));
    first.run("CreateSnapshot", "snapshot.CreateSnapshot", &["--table", "wide", "--name", "kept"])?;
    let described = first.run(
        "SnapshotInfo",
        "snapshot.SnapshotInfo",
        &[&root_of("first"), "-snapshot", "kept", "-files", "-stats"],
    )?;
    if !described.contains("4 HFiles (0 in archive") {
        return Err("SnapshotInfo does not say that the snapshot has four HFiles".to_owned());
    }
    first.run(
        "ExportSnapshot",
        "snapshot.ExportSnapshot",
        // Bellows writes none of Hadoop's checksum files.
        &[
            &temporary,
            &root_of("first"),
            "-no-checksum-verify",
            "-snapshot",
            "kept",
            "-copy-to",
            &at("second"),
        ],
    )?;
    second.run(
        "create narrow",
        "util.RegionSplitter",
        &["-c", "2", "-f", "f", "narrow", "HexStringSplit"],
    )?;
    second.run(
        "CopyTable of a snapshot",
        "mapreduce.CopyTable",
        &[&temporary, &root_of("second"), "--snapshot", "--new.name=narrow", "kept"],
    )?;
    second.must_have("narrow", whole)?;
    second.tools.run("clone", Registry::Rpc, "Clone", &["kept", "cloned"])?;
    second.must_have("cloned", whole)?;
    second.stop()?;

    let test = "-Dhbase.test.cluster.distributed=true";
    let named = |name: &str, value: u64| format!("-Dhbase.IntegrationTestBulkLoad.{name}={value}");
    let links = format!("{}", 4 * chain);
    first.run(
        "IntegrationTestBulkLoad",
        "mapreduce.IntegrationTestBulkLoad",
        &[
            &temporary,
            test,
            &named("numMaps", 1),
            &named("numImportRounds", 2),
            &named("chainLength", chain),
            &named("replicaCount", 1),
        ],
    )?;
    // Generates a circle for each quarter, and counts the nodes that another node names.
    let width = format!("{chain}");
    first.run_and_say(
        "IntegrationTestBigLinkedList",
        "test.IntegrationTestBigLinkedList",
        &[&temporary, test, "loop", "1", "1", &links, &at("linked"), "1", &width, "4"],
        &format!("REFERENCED={links}"),
    )?;
    first.stop()?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// Returns the lines of ImportTsv's input: keys in no order that spread over all regions, and two columns.
fn tsv(rows: u64) -> String {
    let mut lines = String::new();
    for row in 0..rows {
        // An odd factor makes all keys different.
        let key = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let _infallible = writeln!(lines, "{key:016x}\tvalue of {row}\t{}", row * 7);
    }
    lines
}

/// Returns the files of a folder and of those below, without Hadoop's files of checksums; none if it does not exist.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        match path.is_dir() {
            true => files.append(&mut files_in(&path)?),
            false if path.extension().is_some_and(|extension| extension == "crc") => {}
            false => files.push(path),
        }
    }
    Ok(files)
}
