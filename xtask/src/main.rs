//! The project's own commands, such as `cargo xtask test [--only PART]`.
//!
//! `cargo xtask test` consists of *parts*: each has a name, a claim, and a function that checks the claim. All parts are
//! run and timed, and the summary lists the failures. Servers started by a part listen on free ports of the loopback
//! interface, keep their files in their own folder below `target/`, and are always ended by their process id.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    reason = "these commands are no part of the server: they start processes and look at real files"
)]

/// Prints a line like `println!`; if the reader has gone, as with `head`, ends the command without a panic.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::print(&format_args!("{}\n", format_args!($($words)*)))
    };
}

mod accordion;
mod apart;
mod azure;
mod backed;
mod browser;
mod cachefaults;
mod churn;
mod circles;
mod compare;
mod configuration;
mod crash;
mod diff;
mod docs;
mod door;
mod fire;
mod flame;
mod fulldisk;
mod generator;
mod glossary;
mod gohbase;
mod hbase;
mod hdfs;
mod hostile;
mod image;
mod janusgraph;
mod java;
mod layers;
mod listening;
mod loadtest;
mod mapreduce;
mod packages;
mod pe;
mod powercut;
mod programs;
mod random;
mod readpath;
mod recipes;
mod regex;
mod release;
mod replica;
mod s3;
mod s3faults;
mod s3latency;
mod s3requests;
mod seeded;
mod server;
mod shell;
mod sim;
mod startup;
mod states;
mod talk;
mod tools;
mod web;
mod workload;
mod ycsb;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The result of a part or command; the error is one line.
type Outcome = Result<(), String>;

/// Prefix of an [`Outcome`]'s error when this machine cannot run the part: reported, but not a failure.
const NOT_RUN: &str = "not run: ";

/// A part: its name, its claim, and the function that checks the claim.
type Part = (&'static str, &'static str, fn() -> Outcome);

/// Every part of `cargo xtask test`, in order.
const PARTS: &[Part] = &[
    ("fmt", "the code is formatted", fmt),
    ("clippy", "clippy reports nothing", clippy),
    ("unit", "the unit tests of all crates pass", unit),
    ("programs", "all programs build, and the server builds with its own features alone", programs::check),
    ("descriptors", "protobuf messages equal HBase's, field by field (JDK and Maven)", descriptors),
    ("client", "the Rust client works with a server, over both registries", client),
    (
        "bench",
        "every workload of the load generator reads what it wrote; the time to the first answers is measured",
        bench,
    ),
    (
        "java",
        "the stock Java client works, over every registry, codec and compressor (JDK and Maven)",
        java::suite,
    ),
    ("client1", "the Java client of HBase 1.7.2 works (JDK and Maven)", java::client1::suite),
    (
        "client3",
        "the Java client of HBase 3.0.0-beta-1 passes the same tests (JDK and Maven)",
        java::client3::suite,
    ),
    (
        "asynchbase",
        "asynchbase works, which looks regions up through ZooKeeper (JDK and Maven)",
        java::asynchbase::suite,
    ),
    (
        "happybase",
        "happybase works through HBase's Thrift server (JDK, Maven and Python 3)",
        java::happybase::suite,
    ),
    ("rest", "HBase's REST server works, called from Python (JDK, Maven and Python 3)", java::rest::suite),
    (
        "startup",
        "a start takes at most a second; a start that fails prints one line (JDK and Maven)",
        startup::run,
    ),
    (
        "disks",
        "tables are dropped on a full disk; a start on a full or read-only disk serves or prints one line (root)",
        startup::disks,
    ),
    (
        "s3",
        "storage in a real S3 store keeps its contract, and a server there survives kill -9 (Go)",
        s3::suite,
    ),
    (
        "azure",
        "storage in Azurite, the emulator of Azure, keeps its contract, and a server there survives kill -9 (Node.js)",
        azure::suite,
    ),
    (
        "s3-requests",
        "the requests of a flush, a compaction and an opening on a real S3 server, counted by a proxy (Go)",
        s3requests::suite,
    ),
    (
        "replica",
        "a read replica in a real S3 store shows every acknowledged row, and no other (Go)",
        s3::replica,
    ),
    (
        "replica-tools",
        "HBase's shell and YCSB read from a read replica, which refuses what changes something (Go, JDK and Maven)",
        s3::replica_tools,
    ),
    (
        "hdfs",
        "storage in a real HDFS keeps its contract, and a server there survives kill -9 (JDK and Maven)",
        hdfs::suite,
    ),
    (
        "gohbase",
        "gohbase's requests are answered as it requires, byte by byte, plain and with Snappy (Python 3)",
        gohbase::suite,
    ),
    ("hfile", "HBase's own tool reads the store files of Bellows (JDK and Maven)", java::hfile::suite),
    ("packages", "Debian's package index is loaded, and complete after kill -9", || packages::run(&[])),
    (
        "shell",
        "HBase's shell prints what it prints on Apache HBase, except for listed differences (JDK and Maven)",
        shell::suite,
    ),
    ("recipes", "the seven recipes print what they print on Apache HBase", recipes::suite),
    ("diff", "recorded operations get the answers that Apache HBase gave (JDK and Maven)", diff::replay),
    ("pe", "HBase's PerformanceEvaluation ends without a warning (JDK and Maven)", || pe::run(&[])),
    ("ycsb", "YCSB loads 100,000 records and runs workloads A to F (JDK and Maven)", || ycsb::run(&[])),
    ("loadtest", "HBase's LoadTestTool writes, updates and verifies (JDK and Maven)", || loadtest::run(&[])),
    ("sim", "200 seeds of the simulation run without a failure", sim::suite),
    ("crash", "acknowledged writes survive kill -9, in some rounds", || crash::run(5, None)),
    ("fuzz", "readers of outside bytes survive mutated input, for some seconds", || fuzz(30, None)),
    (
        "cachefaults",
        "no read is wrong or fails while the bucket cache's file is destroyed under load",
        cachefaults::run,
    ),
    ("hostile", "the server survives invalid requests, floods and compression bombs", || hostile::run(None)),
    (
        "powercut",
        "acknowledged writes survive a loss of power, in some rounds (root, e2fsprogs, xfsprogs)",
        || powercut::run(2, None),
    ),
];

const USAGE: &str = "usage: cargo xtask test [--only PART] | --list
       cargo xtask crash [--rounds N] [--seed S]   (50 rounds and a seed from the clock unless said otherwise)
       cargo xtask packages [LIST… | --made-up]   (apt's own lists unless some are named)
       cargo xtask diff [--minutes N] [--seed S] [--workers N] [--options LIST] [--hbase ADDRESS --bellows ADDRESS]
                  | --record SCRIPT... | --compare SCRIPT...   (against Apache HBase, started here unless given)
       cargo xtask regex [--pairs N] [--seed S] | --record | --tables   (patterns and texts against java.util.regex)
       cargo xtask configuration   (writes docs/operations/configuration.md from the declarations)
       cargo xtask release   (builds the binary that is shipped and checks its size and its symbols)
       cargo xtask pe [--rows N] [--threads N]
       cargo xtask ycsb [--records N] [--operations N] [--threads N]
       cargo xtask loadtest [--keys N] [--threads N]
       cargo xtask fuzz [--seconds N] [--seed S]   (300 seconds over all targets; fuzz/README.md has longer ways)
       cargo xtask hostile [--seed S]
       cargo xtask powercut [--rounds N] [--seed S]   (20 rounds on each of ext4 and XFS; needs root and loop devices)
       cargo xtask java BOOTSTRAP QUORUM [WAYS [TEXT]]   (the Java suite against a running cluster, host:port each)
       cargo xtask client1 QUORUM [TEXT]   (the suite of the HBase 1 client, likewise)
       cargo xtask client3 BOOTSTRAP QUORUM [WAYS [TEXT]]   (the Java suite with HBase 3's client, likewise)
       cargo xtask boundaries [COUNT] [--unaided] [--client3]   (asynchronous scans across region boundaries; 10,000
                  unless said)
       cargo xtask asynchbase BOOTSTRAP QUORUM [TEXT]   (the asynchbase suite, likewise)
       cargo xtask happybase|rest|gohbase QUORUM [WORD...]   (the suites in Python, likewise)";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let [command @ ("crash" | "fuzz" | "hostile" | "powercut"), options @ ..] = &words[..] {
        return match (*command, rounds_and_seed(options)) {
            ("crash", Some((rounds, seed))) => report(command, &crash::run(rounds.unwrap_or(50), seed)),
            ("fuzz", Some((seconds, seed))) => report(command, &fuzz(seconds.unwrap_or(300), seed)),
            ("hostile", Some((None, seed))) => report(command, &hostile::run(seed)),
            ("powercut", Some((rounds, seed))) => report(command, &powercut::run(rounds.unwrap_or(20), seed)),
            _ => usage(),
        };
    }
    match words[..] {
        ["test"] => test(None),
        ["test", "--only", part] => test(Some(part)),
        ["test", "--list"] | ["--list"] => {
            for (name, promise, _) in PARTS {
                say!("{name:12} {promise}");
            }
            ExitCode::SUCCESS
        }
        ["sim", ref words @ ..] => report("sim", &sim::run(words)),
        ["packages", ref lists @ ..] => report("packages", &packages::run(lists)),
        ["diff", ref options @ ..] => report("diff", &diff::run(options)),
        ["configuration"] => report("configuration", &configuration::write()),
        ["release"] => report("release", &release::run()),
        ["docs"] => report("docs", &docs::build()),
        ["browser", ref names @ ..] => report("browser", &browser::suite(names)),
        ["shell", ref options @ ..] => report("shell", &shell::run(options)),
        ["recipes", ref options @ ..] => report("recipes", &recipes::run_with(options)),
        ["regex", ref options @ ..] => report("regex", &regex::run_all(options)),
        ["pe", ref options @ ..] => report("pe", &pe::run(options)),
        ["accordion", ref options @ ..] => report("accordion", &accordion::run(options)),
        ["flame", ref options @ ..] => report("flame", &flame::run(options)),
        ["door", ref options @ ..] => report("door", &door::run(options)),
        ["churn", ref options @ ..] => report("churn", &churn::run(options)),
        ["compare", ref options @ ..] => report("compare", &compare::run(options)),
        ["fire", ref options @ ..] => report("fire", &fire::run(options)),
        // `cargo xtask fire` starts this command itself, in namespaces of its own.
        ["fire-inside", ref options @ ..] => report("fire-inside", &fire::run_inside(options)),
        ["readpath", ref options @ ..] => report("readpath", &readpath::run(options)),
        ["s3latency", ref options @ ..] => report("s3latency", &s3latency::run(options)),
        ["s3faults", ref options @ ..] => report("s3faults", &s3faults::run(options)),
        ["ycsb", ref options @ ..] => report("ycsb", &ycsb::run(options)),
        ["janusgraph", ref words @ ..] => report("janusgraph", &janusgraph::suite(words)),
        ["mapreduce", ref options @ ..] => report("mapreduce", &mapreduce::run(options)),
        ["loadtest", ref options @ ..] => report("loadtest", &loadtest::run(options)),
        // `cargo xtask test --only disks` starts this command itself, in namespaces of its own.
        ["disks-probe", folder] => report("disks-probe", &startup::disks_probe(folder.as_ref())),
        ["disks-inside", folder] => report("disks-inside", &startup::disks_inside(folder.as_ref())),
        // `cargo xtask powercut` starts this command itself, in namespaces of its own.
        ["powercut-probe", folder] => report("powercut-probe", &powercut::probe(folder.as_ref())),
        ["powercut-inside", rounds, seed] => match (rounds.parse(), seed.parse()) {
            (Ok(rounds), Ok(seed)) => report("powercut-inside", &powercut::run_inside(rounds, seed)),
            _ => usage(),
        },
        ["java", bootstrap, quorum, ref more @ ..] => report("java", &java::against(bootstrap, quorum, more)),
        ["client1", quorum, ref more @ ..] => report("client1", &java::client1::against(quorum, more)),
        ["client3", bootstrap, quorum, ref more @ ..] => {
            report("client3", &java::client3::against(bootstrap, quorum, more))
        }
        ["boundaries", ref options @ ..] => report("boundaries", &java::boundaries(options)),
        ["asynchbase", bootstrap, quorum, ref more @ ..] => {
            report("asynchbase", &java::asynchbase::against(bootstrap, quorum, more))
        }
        ["gohbase", quorum, ref more @ ..] => report("gohbase", &gohbase::against(quorum, more)),
        ["rest", quorum, ref more @ ..] => report("rest", &java::rest::against(quorum, more)),
        ["happybase", quorum, ref more @ ..] => report("happybase", &java::happybase::against(quorum, more)),
        _ => usage(),
    }
}

/// Parses `--rounds` and `--seed`, in any order; `None` for anything else.
fn rounds_and_seed(options: &[&str]) -> Option<(Option<u32>, Option<u64>)> {
    let (mut rounds, mut seed) = (None, None);
    for pair in options.chunks(2) {
        match pair {
            ["--rounds" | "--seconds", number] => rounds = Some(number.parse().ok()?),
            ["--seed", number] => seed = Some(number.parse().ok()?),
            _ => return None,
        }
    }
    Some((rounds, seed))
}

fn usage() -> ExitCode {
    let others = [
        sim::USAGE,
        compare::USAGE,
        accordion::USAGE,
        readpath::USAGE,
        recipes::USAGE,
        shell::USAGE,
        browser::USAGE,
        janusgraph::USAGE,
        docs::USAGE,
        churn::USAGE,
        door::USAGE,
        mapreduce::USAGE,
        fire::USAGE,
        s3faults::USAGE,
        s3latency::USAGE,
        flame::USAGE,
    ];
    eprintln!("{USAGE}\n{}", others.join("\n"));
    ExitCode::FAILURE
}

fn report(name: &str, outcome: &Outcome) -> ExitCode {
    match outcome {
        Ok(()) => {
            say!("{name}: passed");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{name}: FAILED: {why}");
            ExitCode::FAILURE
        }
    }
}

fn test(only: Option<&str>) -> ExitCode {
    if let Some(only) = only.filter(|only| PARTS.iter().all(|(name, ..)| name != only)) {
        eprintln!("no part is called {only}; cargo xtask test --list names them");
        return ExitCode::FAILURE;
    }
    let mut lines = Vec::new();
    let mut failed = false;
    for (name, promise, part) in PARTS.iter().filter(|(name, ..)| only.is_none_or(|only| only == *name)) {
        say!("== {name}: {promise}");
        let began = Instant::now();
        let outcome = part();
        let seconds = began.elapsed().as_secs();
        let not_run = outcome.as_ref().err().and_then(|why| why.strip_prefix(NOT_RUN));
        failed |= outcome.is_err() && not_run.is_none();
        lines.push(match &outcome {
            Ok(()) => format!("{name:12} passed  {seconds:4} s"),
            Err(_) if not_run.is_some() => format!("{name:12} not run: {}", not_run.unwrap_or_default()),
            Err(why) => format!("{name:12} FAILED  {seconds:4} s  {why}"),
        });
    }
    say!("\n{}", lines.join("\n"));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints a text; ends the process if nobody can read it.
fn print(text: &dyn std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = write!(out, "{text}").and_then(|()| out.flush()) {
        std::process::exit(if error.kind() == std::io::ErrorKind::BrokenPipe { 0 } else { 1 });
    }
}

/// Runs a command to its end.
fn run(program: &str, arguments: &[&str]) -> Outcome {
    let status = Command::new(program)
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} {} ended with {status}", arguments.join(" ")))
    }
}

fn fmt() -> Outcome {
    run("cargo", &["fmt", "--all", "--check"])
}

fn clippy() -> Outcome {
    run("cargo", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Maximum time of the workspace's own tests once they are built. Normally they take a fourth of this time.
const UNIT_TIME_MAX: Duration = Duration::from_secs(20 * 60);

fn unit() -> Outcome {
    run("cargo", &["test", "--quiet", "--workspace", "--no-run"])?;
    run_within(UNIT_TIME_MAX, "cargo", &["test", "--quiet", "--workspace", "--no-fail-fast"])
}

/// Runs a command to its end, or for at most `time`: then the command and the processes it started are killed, so that
/// one test that never ends is a named failure and the other parts still run.
fn run_within(time: Duration, program: &str, arguments: &[&str]) -> Outcome {
    let mut child = Command::new(program)
        .args(arguments)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let began = Instant::now();
    while began.elapsed() < time {
        if let Some(status) =
            child.try_wait().map_err(|error| format!("cannot wait for {program}: {error}"))?
        {
            let what = || format!("{program} {} ended with {status}", arguments.join(" "));
            return if status.success() { Ok(()) } else { Err(what()) };
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // A negative number means the whole group of processes.
    run("kill", &["-KILL", "--", &format!("-{}", child.id())])?;
    let _status = child.wait();
    Err(format!(
        "{program} {} had not ended after {} s and was killed: the last test above that \"has been running\" hangs",
        arguments.join(" "),
        time.as_secs()
    ))
}

fn descriptors() -> Outcome {
    for (program, what) in [("java", "a JDK 17 or newer"), ("mvn", "Maven 3.8 or newer")] {
        if Command::new(program).arg("-version").output().is_err() {
            return Err(format!("{what} is needed: {program} was not found on the path"));
        }
    }
    run("bash", &["proof/java/descriptors/check"])
}

fn bench() -> Outcome {
    let server = server::Server::start("bench", &[])?;
    let program = server::binary().display().to_string();
    let (id, folder) = (server.id().to_string(), server::fresh_folder("bench-results")?);
    let kept = |name: &str| folder.join(name).display().to_string();
    let drive = |more: &[&str]| {
        let mut words =
            vec!["bench", "--at", &server.rpc, "--pid", &id, "--rows", "2000", "--value-size", "100"];
        words.extend(["--seconds", "0.3", "--warm-up", "0.1", "--range", "500", "--flush-size", "1048576"]);
        words.extend(more);
        // The generator fails if an operation failed or a row was wrong.
        run(&program, &words)
    };
    drive(&["--until-first", "start"])?;
    drive(&[
        "--threads",
        "20",
        "--connections",
        "2",
        "--generator-threads",
        "2",
        "--pictures",
        &kept("pictures"),
    ])?;
    drive(&["ycsb", "--rate", "500", "--keys", "hotspot"])?;
    drive(&["ycsb", "--fields", "12", "--ycsb-table", "wide", "--regions", "3"])?;
    drive(&["insert", "queue", "--table", "grown", "--rows", "1", "--range", "1", "--operations", "9000"])?;
    drive(&["--limits", &kept("limits")])?;
    server.stop()?;
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Runs every target of `proof/targets`, for this many seconds together.
fn fuzz(seconds: u32, seed: Option<u64>) -> Outcome {
    let seed = seed.unwrap_or_else(random::seed_from_the_clock).to_string();
    run(&programs::build("targets")?.display().to_string(), &[&seconds.to_string(), &seed])
}

fn client() -> Outcome {
    let server = server::Server::start("client", &[])?;
    let program = programs::build_example("check")?.display().to_string();
    let check = |kind: &str, address: &str| run(&program, &[kind, address]);
    check("rpc", &server.rpc)?;
    check("zookeeper", &server.registry)?;
    server.stop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_end_is_killed_with_what_it_started() {
        let began = Instant::now();
        let why = run_within(Duration::from_millis(300), "sh", &["-c", "sleep 100 & sleep 100"]);
        assert!(why.is_err_and(|why| why.contains("had not ended")), "it is named");
        assert!(began.elapsed() < Duration::from_secs(50), "and not waited for");
        assert_eq!(run_within(Duration::from_secs(50), "true", &[]), Ok(()));
        assert!(run_within(Duration::from_secs(50), "false", &[]).is_err(), "its status counts");
    }
}
