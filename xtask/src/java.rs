//! Runs the stock Java client against Bellows; also has helpers for all parts that run Java.
//!
//! Maven computes the class paths of `proof/java/*` (a file for each in `target/java/`). It runs again only if a
//! `pom.xml` is newer or a jar is missing. One `javac` compiles the sources of each module. The suite runs in one
//! process for every way of connecting, because a JVM starts slowly. `cargo xtask java` runs the same suite against
//! another cluster, such as Apache HBase.

pub(crate) mod asynchbase;
pub(crate) mod client1;
pub(crate) mod client3;
mod gateway;
pub(crate) mod happybase;
pub(crate) mod hfile;
pub(crate) mod rest;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::server::Server;
use crate::{Outcome, run};

/// The modules of `proof/java/pom.xml`.
const MODULES: [&str; 10] =
    ["client", "client1", "client3", "asynchbase", "gateway", "tools", "ycsb", "compat", "shell", "hdfs"];

/// The ways in which the suite connects: the registry, and the encoding of cells on the wire.
const WAYS: &str = "rpc,rpc-protobuf,rpc-tags,rpc-gzip,zk,zk-protobuf,zk-tags,zk-gzip";

/// The logging configuration of the programs: warnings only.
pub(crate) const CONF: &str = "proof/hbase/conf";

/// Returns the time of a file's last change; `None` if it does not exist.
fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|about| about.modified()).ok()
}

/// Returns the jars of a module, as `java -cp` takes them.
pub(crate) fn class_path(module: &str) -> Result<String, String> {
    let file = |module: &str| PathBuf::from(format!("target/java/{module}.class-path"));
    let poms = MODULES.map(|module| PathBuf::from(format!("proof/java/{module}/pom.xml")));
    let newest =
        poms.iter().map(PathBuf::as_path).chain([Path::new("proof/java/pom.xml")]).filter_map(changed).max();
    let whole = MODULES.iter().all(|module| {
        changed(&file(module)) > newest
            && std::fs::read_to_string(file(module))
                .is_ok_and(|text| text.trim().split(':').all(|jar| Path::new(jar).exists()))
    });
    if !whole {
        for (program, what) in [("javac", "a JDK 17 or newer"), ("mvn", "Maven 3.8 or newer")] {
            if Command::new(program).arg("-version").output().is_err() {
                return Err(format!("{what} is needed: {program} was not found on the path"));
            }
        }
        run("mvn", &["-q", "-B", "-f", "proof/java/pom.xml", "dependency:build-classpath"])?;
        // Maven leaves a file alone whose content would not change, and then it would run each time.
        for path in MODULES.map(file) {
            std::fs::File::options()
                .append(true)
                .open(&path)
                .and_then(|file| file.set_modified(SystemTime::now()))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    let path = file(module);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Compiles a module's sources. Returns the class path of its programs, with their configuration.
pub(crate) fn compile(module: &str) -> Result<String, String> {
    let jars = class_path(module)?;
    // The tests for HBase 2's client are also compiled against HBase 3's client.
    let sources = if module == client3::MODULE { "client" } else { module };
    let folder = PathBuf::from(format!("proof/java/{sources}/src"));
    let failed = |error| format!("{}: {error}", folder.display());
    let mut words: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        words.push(entry.map_err(failed)?.path().display().to_string());
    }
    if jars.contains("/junit/") {
        words.push("proof/java/junit/Teller.java".to_owned());
    }
    words.sort();
    let classes = format!("target/java/{module}");
    if Path::new(&classes).exists() {
        std::fs::remove_dir_all(&classes).map_err(|error| format!("{classes}: {error}"))?;
    }
    let mut arguments =
        vec!["--release", "17", "-Xlint:all,-processing,-classfile,-path,-serial,-options", "-Werror"];
    arguments.extend(["-proc:none", "-cp", &jars, "-d", &classes]);
    arguments.extend(words.iter().map(String::as_str));
    run("javac", &arguments).map_err(|_| format!("{} does not compile", folder.display()))?;
    Ok(format!("{CONF}:{classes}:{jars}"))
}

/// Returns the command that runs a Java program of this project, with the flags of HBase's start scripts.
pub(crate) fn java(class_path: &str, properties: &[(&str, &str)], words: &[&str]) -> Command {
    let mut command = Command::new("java");
    // The programs run for a short time, in which Java's second compiler would not pay off.
    command.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]);
    command.arg("-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true");
    for open in
        ["java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/jdk.internal.misc"]
    {
        command.arg(format!("--add-opens={open}=ALL-UNNAMED"));
    }
    command.args(properties.iter().map(|(name, value)| format!("-D{name}={value}")));
    command.args(["-cp", class_path]).args(words);
    command
}

/// Runs a command to its end; `what` names it in the error.
pub(crate) fn succeed(what: &str, mut command: Command) -> Outcome {
    let status = command.status().map_err(|error| format!("cannot start {what}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} ended with {status}")) }
}

/// Runs the Java suite with the client of `module`.
fn run_suite(module: &str, bootstrap: &str, quorum: &str, words: &[&str]) -> Outcome {
    let class_path = compile(module)?;
    // Many tests expect exceptions, so the client's log of them is off.
    let cluster = [("proof.bootstrap", bootstrap), ("proof.quorum", quorum), ("proof.log", "OFF")];
    let words: Vec<&str> = ["Suite"].into_iter().chain(words.iter().copied()).collect();
    succeed("the Java suite", java(&class_path, &cluster, &words))
}

/// Runs the whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("java", &[])?;
    run_suite("client", &server.rpc, &server.registry, &[WAYS])?;
    server.stop()
}

/// Scans with the asynchronous client across many region boundaries while all cores are busy, and fails if a scan is
/// lost: `[COUNT] [--unaided] [--client3]`. With `--unaided` the server does not prevent the loss, and the client loses
/// some scans. With `--client3` the client is HBase 3's.
pub(crate) fn boundaries(options: &[&str]) -> Outcome {
    let (mut boundaries, mut settings, mut module) = ("10000", vec![], "client");
    for option in options {
        match *option {
            "--unaided" => settings = vec!["-D", "bellows.scanner.edge.heartbeat.below=0"],
            "--client3" => module = client3::MODULE,
            number if number.parse::<u32>().is_ok() => boundaries = number,
            other => {
                return Err(format!(
                    "expected a number of boundaries, --unaided or --client3, found {other}"
                ));
            }
        }
    }
    let server = Server::start("boundaries", &settings)?;
    let class_path = compile(module)?;
    let cluster = [("proof.bootstrap", &*server.rpc), ("proof.log", "OFF")];
    let crossed = succeed("the scans", java(&class_path, &cluster, &["BoundaryTest", boundaries]));
    server.stop()?;
    crossed
}

/// Runs the suite against a running cluster: `BOOTSTRAP QUORUM [WAYS [TEXT]]`, addresses as `host:port`.
pub(crate) fn against(bootstrap: &str, quorum: &str, words: &[&str]) -> Outcome {
    run_suite("client", bootstrap, quorum, if words.is_empty() { &[WAYS] } else { words })
}
