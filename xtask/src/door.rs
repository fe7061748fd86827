//! `cargo xtask door`: a table goes from Apache HBase to Bellows and back.
//!
//! HBase writes rows into 20 regions with a family for each encoding, and takes a snapshot after the first half. It is
//! stopped in order, or killed while its logs have the second half. Bellows adopts the root, checks every cell,
//! rewrites, deletes, changes store file trackers, splits, clones the snapshot, and is stopped.
//!
//! Once the root is on the disk. Then it is handed back, and HBase, without its ZooKeeper's data, checks every cell
//! again. Once it is in HDFS, with the logs in another folder if HBase is killed. There it is not handed back; Bellows
//! checks every cell again after a second start.
//!
//! HBase's site names no store file tracker when it is stopped, and FILE when it is killed; `--tracker` names one for
//! both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Outcome;
use crate::hbase::HBase;
use crate::hdfs::Hdfs;
use crate::java;
use crate::server::{Server, binary, build, fresh_folder, log_of};

pub(crate) const USAGE: &str = "\
       cargo xtask door [--rows N] [--tracker NAME] [--on disk|hdfs] [--bellows BINARY]   (20,000 rows, on both, and a debug
                                                                       build, unless said otherwise; JDK and Maven)";

/// Key of the store file tracker of new tables.
const TRACKER: &str = "hbase.store.file-tracker.impl";

/// Settings of HBase for logs with dictionaries and with compressed values.
const COMPRESSED: [(&str, &str); 2] = [
    ("hbase.regionserver.wal.enablecompression", "true"),
    ("hbase.regionserver.wal.value.compression", "true"),
];

/// Where the root is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Medium {
    Disk,
    Hdfs,
}

/// What the options of the command say.
struct Options<'a> {
    rows: u32,
    tracker: Option<&'a str>,
    media: Vec<Medium>,
    /// The Bellows to run; `None` for a debug build that is made now.
    binary: Option<PathBuf>,
}

impl<'a> Options<'a> {
    fn parse(words: &[&'a str]) -> Result<Options<'a>, String> {
        let mut options =
            Options { rows: 20_000, tracker: None, media: vec![Medium::Disk, Medium::Hdfs], binary: None };
        for option in words.chunks(2) {
            match *option {
                ["--rows", count] => {
                    options.rows = count.parse().map_err(|_| format!("--rows {count}: no number"))?
                }
                ["--tracker", name] => options.tracker = Some(name),
                ["--bellows", path] => options.binary = Some(PathBuf::from(path)),
                ["--on", "disk"] => options.media = vec![Medium::Disk],
                ["--on", "hdfs"] => options.media = vec![Medium::Hdfs],
                _ => return Err(format!("usage:\n{USAGE}")),
            }
        }
        Ok(options)
    }

    /// Returns the settings of an HBase that is to be stopped or killed.
    fn site(&self, is_killed: bool) -> Vec<(&'a str, &'a str)> {
        let mut site = if is_killed { COMPRESSED.to_vec() } else { Vec::new() };
        site.extend(self.tracker.or(is_killed.then_some("FILE")).map(|name| (TRACKER, name)));
        site
    }
}

/// The Java program that writes and checks the rows, and the server that takes them over.
struct Door {
    class_path: String,
    rows: String,
    /// The Bellows that takes the rows over.
    binary: PathBuf,
}

impl Door {
    fn act(&self, act: &str, at: &str) -> Outcome {
        let command = java::java(&self.class_path, &[("proof.log", "OFF")], &["Door", act, at, &self.rows]);
        let what = format!("Door {act}");
        timed(&what, || java::succeed(&what, command))
    }

    /// Runs a command of Bellows on a root folder.
    fn bellows(&self, words: &[&str], root: &Path) -> Outcome {
        let mut command = Command::new(&self.binary);
        command.args(words).arg(root);
        let what = format!("bellows {}", words.join(" "));
        timed(&what, || java::succeed(&what, command))
    }

    /// Starts Bellows with the root folder `root`.
    fn start(&self, root: &Path, log: &Path, more: &[&str]) -> Result<Server, String> {
        timed("Bellows starts", || Server::start_binary(&self.binary, root, log, more))
    }
}

/// Runs `cargo xtask door` with these options.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let options = Options::parse(words)?;
    let binary = match &options.binary {
        Some(given) => given.clone(),
        None => {
            build()?;
            binary()
        }
    };
    let door = Door { class_path: java::compile("compat")?, rows: options.rows.to_string(), binary };
    for medium in &options.media {
        for is_killed in [false, true] {
            let place = if *medium == Medium::Disk { "on the disk" } else { "in HDFS" };
            say!("HBase {place}, {}", if is_killed { "killed" } else { "stopped in order" });
            let site = options.site(is_killed);
            match medium {
                Medium::Disk => on_disk(&door, &site, is_killed)?,
                Medium::Hdfs => in_hdfs(&door, &site, is_killed)?,
            }
        }
    }
    Ok(())
}

/// Starts HBase in `folder`, lets it write the rows, and ends it.
fn write(door: &Door, folder: PathBuf, site: &[(&str, &str)], is_killed: bool) -> Outcome {
    let hbase = timed("HBase starts", || HBase::start_in(folder, site))?;
    door.act("write", &hbase.rpc)?;
    if is_killed { hbase.kill() } else { timed("HBase stops", || hbase.stop()) }
}

fn on_disk(door: &Door, site: &[(&str, &str)], is_killed: bool) -> Outcome {
    let folder = fresh_folder("door")?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let root = folder.join("root");
    write(door, folder.clone(), site, is_killed)?;
    door.bellows(if is_killed { &["adopt", "--killed"] } else { &["adopt"] }, &root)?;
    let server = door.start(&root, &log_of(&root), &[])?;
    door.act("check", &server.rpc)?;
    door.act("change", &server.rpc)?;
    door.act("check-changed", &server.rpc)?;
    timed("Bellows stops", || server.stop())?;
    door.bellows(&["hand-back"], &root)?;
    let zookeeper = folder.join("zookeeper");
    std::fs::remove_dir_all(&zookeeper).map_err(|error| format!("{}: {error}", zookeeper.display()))?;
    let hbase = timed("HBase starts", || HBase::start_in(folder, &[]))?;
    door.act("check-changed", &hbase.rpc)?;
    hbase.remove()
}

fn in_hdfs(door: &Door, site: &[(&str, &str)], is_killed: bool) -> Outcome {
    let hdfs = timed("HDFS starts", Hdfs::start)?;
    let folder = fresh_folder("door")?;
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    let (root, log) = (format!("{}/hbase", hdfs.url), format!("{}/log", hdfs.url));
    let mut site = site.to_vec();
    // The log's writer for HDFS, as in HBase's default.
    site.extend([("hbase.rootdir", &root[..]), ("hbase.wal.provider", "asyncfs"), ("dfs.replication", "2")]);
    let definition = format!("hbase.wal.dir={log}");
    let mut options = Vec::new();
    if is_killed {
        site.push(("hbase.wal.dir", &log));
        options.extend(["-D", &definition]);
    }
    write(door, folder.clone(), &site, is_killed)?;
    let root = PathBuf::from(root);
    let mut adopt = vec!["adopt"];
    adopt.extend(is_killed.then_some("--killed"));
    adopt.extend(&options);
    let before = hdfs.summary("/")?;
    door.bellows(&[&adopt[..], &["--dry-run"]].concat(), &root)?;
    let after = hdfs.summary("/")?;
    if before != after {
        return Err(format!("a dry run has changed HDFS: {before} before, and {after} after"));
    }
    door.bellows(&adopt, &root)?;
    let start = || door.start(&root, &folder.join("server.log"), &options);
    let server = start()?;
    door.act("check", &server.rpc)?;
    door.act("change", &server.rpc)?;
    timed("Bellows stops", || server.stop())?;
    let server = start()?;
    door.act("check-changed", &server.rpc)?;
    server.stop()?;
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Carries out a step, prints how long it took, and returns its result.
fn timed<T>(step: &str, act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let began = Instant::now();
    let outcome = act();
    say!("{step}: {:.1} s", began.elapsed().as_secs_f64());
    outcome
}
