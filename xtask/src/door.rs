//! `cargo xtask door`: a table goes from Apache HBase to Bellows and back.
//!
//! HBase writes rows into 20 regions with a family for each encoding, and takes a snapshot after the first half. It is
//! stopped in order, or killed while its logs have the second half. Bellows adopts the root, checks every cell,
//! rewrites, deletes, changes store file trackers, splits, clones the snapshot, and is stopped. The root is handed
//! back, and HBase, without its ZooKeeper's data, checks every cell again.
//!
//! HBase's site names no store file tracker when it is stopped, and FILE when it is killed; `--tracker` names one for
//! both.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Outcome;
use crate::hbase::HBase;
use crate::java;
use crate::server::{Server, binary, build, fresh_folder};

pub(crate) const USAGE: &str = "\
       cargo xtask door [--rows N] [--tracker NAME]   (20,000 rows unless said otherwise; JDK and Maven)";

/// Key of the store file tracker of new tables.
const TRACKER: &str = "hbase.store.file-tracker.impl";

/// Settings of HBase for logs with dictionaries and with compressed values.
const COMPRESSED: [(&str, &str); 2] = [
    ("hbase.regionserver.wal.enablecompression", "true"),
    ("hbase.regionserver.wal.value.compression", "true"),
];

/// Runs `cargo xtask door` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let (mut rows, mut tracker) = (20_000, None);
    for option in options.chunks(2) {
        match *option {
            ["--rows", count] => {
                rows = count.parse::<u32>().map_err(|_| format!("--rows {count}: no number"))?
            }
            ["--tracker", name] => tracker = Some(name),
            _ => return Err(format!("usage:\n{USAGE}")),
        }
    }
    build()?;
    let class_path = java::compile("compat")?;
    let door = |act: &str, at: &str| {
        let rows = rows.to_string();
        let command = java::java(&class_path, &[("proof.log", "OFF")], &["Door", act, at, &rows]);
        timed(&format!("Door {act}"), || java::succeed(&format!("Door {act}"), command))
    };
    for was_killed in [false, true] {
        say!("HBase {}", if was_killed { "killed" } else { "stopped in order" });
        let folder = fresh_folder("door")?;
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        let root = folder.join("root");
        let mut site = if was_killed { COMPRESSED.to_vec() } else { Vec::new() };
        site.extend(tracker.or(was_killed.then_some("FILE")).map(|name| (TRACKER, name)));
        let hbase = timed("HBase starts", || HBase::start_in(folder.clone(), &site))?;
        door("write", &hbase.rpc)?;
        if was_killed {
            hbase.kill()?
        } else {
            timed("HBase stops", || hbase.stop())?
        }
        bellows(if was_killed { &["adopt", "--killed"] } else { &["adopt"] }, &root)?;
        let server = timed("Bellows starts", || Server::start_in(&root, &[]))?;
        door("check", &server.rpc)?;
        door("change", &server.rpc)?;
        door("check-changed", &server.rpc)?;
        timed("Bellows stops", || server.stop())?;
        bellows(&["hand-back"], &root)?;
        let zookeeper = folder.join("zookeeper");
        std::fs::remove_dir_all(&zookeeper).map_err(|error| format!("{}: {error}", zookeeper.display()))?;
        let hbase = timed("HBase starts", || HBase::start_in(folder, &[]))?;
        door("check-changed", &hbase.rpc)?;
        hbase.remove()?;
    }
    Ok(())
}

/// Runs a command of the built server on a root folder.
fn bellows(words: &[&str], root: &Path) -> Outcome {
    let program: PathBuf = binary();
    let mut command = Command::new(&program);
    command.args(words).arg(root);
    let what = format!("bellows {}", words.join(" "));
    timed(&what, || java::succeed(&what, command))
}

/// Carries out a step, prints how long it took, and returns its result.
fn timed<T>(step: &str, act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let began = Instant::now();
    let outcome = act();
    say!("{step}: {:.1} s", began.elapsed().as_secs_f64());
    outcome
}
