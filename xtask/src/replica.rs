//! Tests a read replica beside a server whose files are in an S3 store, and its promotion.

pub(crate) mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::java::succeed;
use crate::random::seed_from_the_clock;
use crate::server::{Server, binary, fresh_folder, no_panic};
use crate::talk::Talk;
use crate::{Outcome, crash, programs, web};

/// Duration in seconds of each round of load: one before and one after the primary is replaced.
const SECONDS: u64 = 15;
/// Duration in seconds for which the lag is measured, and its maximum p99 in ms. A replica polls every 100 ms; the limit is for
/// a machine with other work.
const LAG_SECONDS: u64 = 5;
const LAG_P99_MS: f64 = 2_000.0;
/// Maximum time for which a server that was replaced may still run.
pub(crate) const END_MAX: Duration = Duration::from_secs(20);
/// Maximum time from the command until another server accepts writes. On a quiet machine it takes 3 to 5 s, mostly to
/// read the log; the limit is for a machine with other work.
const PROMOTED_WITHIN: Duration = Duration::from_secs(30);

/// Tests that a replica follows its primary, which is loaded, flushed, compacted and split while tables are created and
/// dropped. Then the primary hangs, another server takes over the bucket, and the replica must follow the new primary.
pub(crate) fn follows(endpoint: &str) -> Outcome {
    programs::build_example("replica")?;
    let folder = fresh_folder("replica")?;
    let data = PathBuf::from(format!("s3://bellows/replica-{}", std::process::id()));
    let options = crash::store_options(endpoint, "");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let of_replica: Vec<&str> = options.iter().copied().chain(["--read-replica"]).collect();
    let log = |name: &str| folder.join(format!("{name}.log"));
    let seed = seed_from_the_clock();
    let failed = |why: String| format!("seed {seed}: {why}\n  the servers' logs are in {}", folder.display());
    let too_early = Server::start_with_log(&data, &log("too-early"), &of_replica).map(drop);
    let said = std::fs::read_to_string(log("too-early")).unwrap_or_default();
    if too_early.is_ok() || !said.contains("start the primary there first") {
        return Err(failed("a replica of nothing must say that there is no primary".to_owned()));
    }
    let primary = Server::start_with_log(&data, &log("primary"), &options)?;
    let replica = Server::start_with_log(&data, &log("replica"), &of_replica)?;
    let mut judge = Talk::with("replica", &seed.to_string())?;
    let mut judged = |primary: &Server| {
        let answer = judge.ask(&format!("run {} {} {SECONDS}", primary.rpc, replica.rpc))?;
        answer.strip_prefix("good ").map(str::to_owned).ok_or(answer)
    };
    let first = judged(&primary).map_err(failed)?;
    let mut judged_lag = Talk::with("replica", &seed.to_string())?;
    let lag = lag(&mut judged_lag, &primary, &replica, LAG_SECONDS).map_err(failed)?;
    if lag.p99_ms > LAG_P99_MS {
        return Err(failed(format!("the replica showed writes {} ms late at p99", lag.p99_ms)));
    }
    primary.pause().map_err(failed)?;
    let began = Instant::now();
    let next = Server::start_with_log(&data, &log("next"), &options).map_err(failed)?;
    let promoted = began.elapsed();
    primary.resume_and_end(END_MAX).map_err(failed)?;
    if promoted > PROMOTED_WITHIN {
        return Err(failed(format!(
            "another server took {promoted:?} until it served, more than {PROMOTED_WITHIN:?}"
        )));
    }
    let second = judged(&next).map_err(failed)?;
    let page = web::page(&replica.web, "/metrics")?;
    let told = page.lines().find_map(|line| line.strip_prefix("bellows_replica_lag_seconds "));
    let told: f64 = told.and_then(|lag| lag.parse().ok()).ok_or("/metrics of a replica has no lag")?;
    if told > 5.0 {
        return Err(failed(format!("the replica says that it is {told} s behind an idle primary")));
    }
    let beans = web::page(&replica.web, "/jmx?qry=Hadoop:service=HBase,name=RegionServer,sub=ReadReplica")?;
    if !beans.contains("\"lagMillis\"") {
        return Err(failed(format!("/jmx of a replica has no lag: {beans}")));
    }
    let began = Instant::now();
    promote(&binary(), &replica).map_err(failed)?;
    let by_command = began.elapsed();
    if by_command > PROMOTED_WITHIN {
        return Err(failed(format!("bellows promote took {by_command:?}, more than {PROMOTED_WITHIN:?}")));
    }
    next.resume_and_end(END_MAX).map_err(failed)?;
    let mut load = Command::new(binary());
    load.args(["bench", "insert", "--at", &replica.rpc, "--rows", "200", "--operations", "100"])
        .args(["--warm-up", "0", "--seconds", "20", "--table", "after"])
        .stdout(Stdio::null());
    succeed("bellows bench on the promoted replica", load).map_err(failed)?;
    replica.stop()?;
    ["primary", "replica", "next"].iter().try_for_each(|name| no_panic(&log(name))).map_err(failed)?;
    say!("a replica: {first}; a write is seen after {} ms at p50, {} ms at p99", lag.p50_ms, lag.p99_ms);
    say!("bellows promote took {} ms; the primary before has ended by itself", by_command.as_millis());
    say!("another server took the bucket in {} ms; the replica under it: {second}", promoted.as_millis());
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// How long a replica needs to show a write.
pub(crate) struct Lag {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// Asks a running example `replica` for the lag, which it measures for this number of seconds.
pub(crate) fn lag(judge: &mut Talk, primary: &Server, replica: &Server, seconds: u64) -> Result<Lag, String> {
    let answer = judge.ask(&format!("lag {} {} {seconds}", primary.rpc, replica.rpc))?;
    let figures = answer.strip_prefix("good ").unwrap_or_default();
    let figures: Vec<f64> = figures.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let [p50_ms, p99_ms, max_ms] = figures[..] else { return Err(answer) };
    Ok(Lag { p50_ms, p99_ms, max_ms })
}

/// Makes the replica the primary by `bellows promote`, and tests that a second call reports that it already is. The
/// server keeps its address.
pub(crate) fn promote(bellows: &Path, replica: &Server) -> Result<(), String> {
    let promote = || Command::new(bellows).args(["promote", "--at", &replica.rpc]).output();
    let words = |output: std::io::Result<std::process::Output>| {
        let output = output.map_err(|error| format!("cannot start bellows promote: {error}"))?;
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(said) } else { Err(format!("bellows promote failed: {said}")) }
    };
    words(promote())?;
    let again = words(promote())?;
    if !again.contains("is the primary already") {
        return Err(format!("bellows promote of a primary must say that it is one: {again}"));
    }
    Ok(())
}
