//! Runs the tests of object stores, and a server whose files are in one, against a real S3 server: versitygw, built
//! once from its Go module.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::crash::{self, LogPlace};
use crate::java::succeed;
use crate::listening::Listening;
use crate::random::{Random, seed_from_the_clock};
use crate::server::{Server, binary, fresh_folder, no_panic};
use crate::workload::Workload;
use crate::{NOT_RUN, Outcome};

/// The Go module of the S3 server, with its version.
const VERSITYGW: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
/// The folder of the program and its buckets.
const FOLDER: &str = "target/s3";
/// Number of rounds of load and `kill -9` on a server whose files are in the store.
const ROUNDS: u32 = 4;
/// Number of servers that hang and are replaced.
const TAKEOVERS: u32 = 6;
/// Maximum time for which a server that was replaced may still run.
const END_MAX: Duration = Duration::from_secs(20);

/// A running object store, which ends when the value is dropped.
pub(crate) struct Store {
    _server: Listening,
    pub(crate) endpoint: String,
}

impl Store {
    /// Starts the server on a port of its own, with an empty bucket `bellows`. Deletes the buckets of earlier runs.
    fn start() -> Result<Store, String> {
        Store::start_in(&Path::new(FOLDER).join("buckets"))
    }

    /// Starts the server on a port of its own, with an empty bucket `bellows` in the folder `buckets`, which is emptied.
    pub(crate) fn start_in(buckets: &Path) -> Result<Store, String> {
        let folder = std::path::absolute(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))?;
        let program = install(&folder)?;
        let failed = |error: std::io::Error| format!("{}: {error}", buckets.display());
        if buckets.exists() {
            std::fs::remove_dir_all(buckets).map_err(failed)?;
        }
        std::fs::create_dir_all(buckets.join("bellows")).map_err(failed)?;
        let server = Listening::start("versitygw", |address| {
            let mut command = Command::new(&program);
            command
                .args(["--port", &address.to_string(), "--keep-alive", "--quiet", "posix"])
                .arg(buckets)
                .env("ROOT_ACCESS_KEY", "bellows")
                .env("ROOT_SECRET_KEY", "bellowssecret");
            command
        })?;
        Ok(Store { endpoint: format!("http://{}", server.address), _server: server })
    }
}

/// Builds the program unless it exists.
fn install(folder: &Path) -> Result<PathBuf, String> {
    let program = folder.join("versitygw");
    if program.exists() {
        return Ok(program);
    }
    if Command::new("go").arg("version").stdout(Stdio::null()).status().is_err() {
        return Err(format!("{NOT_RUN}Go is not installed, and the S3 server is built with it"));
    }
    let mut build = Command::new("go");
    build.args(["install", VERSITYGW]).env("GOBIN", folder);
    succeed("go install", build)?;
    Ok(program)
}

/// Runs the tests of `base/objectstore`, bulk loads from and into the store, then a server whose files are in the store.
pub(crate) fn suite() -> Outcome {
    let store = Store::start()?;
    let mut tests = Command::new("cargo");
    tests
        // Built with the features of the whole workspace, so that cargo need not build the libraries again.
        .args(["test", "--quiet", "--workspace", "--test", "store"])
        .env("BELLOWS_S3_ENDPOINT", &store.endpoint);
    succeed("the tests of the object store and of bulk loads", tests)?;
    crash::run_on_store(ROUNDS, &store.endpoint, LogPlace::Store)?;
    crash::run_on_store(ROUNDS, &store.endpoint, LogPlace::Disk)?;
    let data = PathBuf::from(format!("s3://bellows/takeover-{}", std::process::id()));
    let options = crash::store_options(&store.endpoint, "");
    takeovers(TAKEOVERS, seed_from_the_clock(), &binary(), &data, &options)
}

/// Runs the part about a read replica alone.
pub(crate) fn replica() -> Outcome {
    crate::server::build()?;
    let store = Store::start()?;
    crate::replica::follows(&store.endpoint)
}

/// Runs HBase's shell and YCSB against a read replica.
pub(crate) fn replica_tools() -> Outcome {
    crate::server::build()?;
    let store = Store::start()?;
    crate::replica::tools::serves(&store.endpoint)
}

/// The table that only the servers have which took over.
const SUCCESSOR: &str = "successor";

/// Tests takeovers: a server hangs under load, a second one takes over its files and accepts writes, and then the first
/// one continues. The first must acknowledge nothing that the second does not have, and end with a message that names the
/// second. While it hangs it gets an order to delete a snapshot, which is deleted and taken again at the second; the first
/// must not delete that. `options` are further arguments of each server.
pub(crate) fn takeovers(rounds: u32, seed: u64, binary: &Path, data: &Path, options: &[String]) -> Outcome {
    let folder = fresh_folder("takeover")?;
    let options: Vec<&str> =
        crash::OPTIONS.iter().copied().chain(options.iter().map(String::as_str)).collect();
    let began = Instant::now();
    let (mut random, mut workload) = (Random::new(seed), Workload::start(seed)?);
    let log = |round: u32| folder.join(format!("{round}.log"));
    let start = |round: u32| Server::start_binary(binary, data, &log(round), &options);
    let mut owner = start(0)?;
    let (mut acknowledged, mut rows, mut served_after) = (0, 0, Vec::new());
    for round in 1..=rounds {
        let failed = |why: String| {
            format!("take-over {round}, seed {seed}: {why}\n  the servers' logs are in {}", folder.display())
        };
        // The first server has no table of its own.
        let has_daily = round > 1;
        workload.load(&owner.rpc).map_err(failed)?;
        std::thread::sleep(Duration::from_millis(100 + random.below(900)));
        if has_daily {
            workload.take_daily(&owner.rpc, SUCCESSOR).map_err(failed)?;
        }
        workload.dying().map_err(failed)?;
        owner.pause().map_err(failed)?;
        if has_daily {
            workload.send_deletion_of_daily().map_err(failed)?;
        }
        let paused = Instant::now();
        let next = start(round).map_err(failed)?;
        served_after.push(paused.elapsed());
        write(binary, &next).map_err(failed)?;
        if has_daily {
            workload.take_daily(&next.rpc, SUCCESSOR).map_err(failed)?;
        }
        owner.resume_and_end(END_MAX).map_err(failed)?;
        acknowledged = workload.dead().map_err(failed)?;
        rows = workload.verify(&next.rpc).map_err(failed)?;
        if has_daily {
            workload.has_daily(&next.rpc).map_err(failed)?;
        }
        let told = std::fs::read_to_string(log(round - 1)).map_err(|error| failed(error.to_string()))?;
        let port = next.rpc.rsplit(':').next().unwrap_or_default();
        if !told.contains(&format!("taken over by localhost:{port}")) {
            return Err(failed(format!("the first server does not say that {} has its files", next.rpc)));
        }
        no_panic(&log(round - 1)).map_err(failed)?;
        owner = next;
    }
    owner.stop()?;
    say!(
        "{rounds} servers hung and went on after another had their files: {acknowledged} changes acknowledged, {rows} rows, all \
         as they must be, in {:.0} s; {}; seed {seed}",
        began.elapsed().as_secs_f64(),
        crash::spread(served_after)
    );
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

/// Writes some rows to a table that no other client has.
fn write(binary: &Path, server: &Server) -> Outcome {
    let words = ["--rows", "50", "--operations", "50", "--threads", "1", "--seconds", "20"];
    insert(binary, server, SUCCESSOR, &[&words[..], &["--no-flush"]].concat())
}

/// Creates `table` if necessary, and inserts rows. `words` are further arguments of `bellows bench insert`.
pub(crate) fn insert(binary: &Path, server: &Server, table: &str, words: &[&str]) -> Outcome {
    let mut load = Command::new(binary);
    load.args(["bench", "insert", "--at", &server.rpc, "--warm-up", "0", "--table", table]);
    load.args(words).stdout(Stdio::null());
    succeed("bellows bench", load)
}
