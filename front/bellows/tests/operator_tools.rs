//! Tests `bellows doctor`, `top`, `fsck` and `debug bundle` beside a real server, as an operator uses them.

#![expect(clippy::disallowed_methods, reason = "real processes, files and their ports are the point")]

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A server on free ports, with a folder of its own. Dropping it ends the server and removes the folder.
struct Server {
    child: Child,
    folder: PathBuf,
    rpc: String,
    web: String,
}

impl Server {
    fn start(name: &str) -> Server {
        let folder = std::env::temp_dir().join(format!("bellows-tools-{name}-{}", std::process::id()));
        let mut child = Command::new(env!("CARGO_BIN_EXE_bellows"))
            .arg("start")
            .args(["--rpc-port", "0", "--master-port", "0", "--zk-port", "0", "--web-port", "0"])
            .args(["-D", "fs.s3a.secret.key=neverseen", "-D", "fs.s3a.access.key=norme"])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut greeting = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut greeting).expect("a greeting");
        let after = |word: &str| {
            let (_, rest) = greeting.split_once(word).unwrap_or_else(|| panic!("{word} in {greeting:?}"));
            rest.split([',', '/']).next().unwrap_or_default().trim().to_owned()
        };
        Server { rpc: after("region server "), web: after("web http://"), child, folder }
    }

    /// Runs a command with the data directory and ports of this server.
    fn ask(&self, words: &str) -> Output {
        let port = self.web.rsplit(':').next().unwrap_or_default();
        let words = words
            .replace("WEB-PORT", port)
            .replace("WEB", &self.web)
            .replace("RPC", &self.rpc)
            .replace("FOLDER", &self.folder.display().to_string());
        let output =
            Command::new(env!("CARGO_BIN_EXE_bellows")).args(words.split(' ')).output().expect("it starts");
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{words}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    fn json(&self, words: &str) -> Value {
        let output = self.ask(words);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "{words}: {error} in {} {}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _has_ended = self.child.kill();
        let _is_gone = self.child.wait();
        let _nobody_needs_it = std::fs::remove_dir_all(&self.folder);
    }
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn doctor_knows_the_server_that_runs_and_the_folder_that_it_has() {
    let server = Server::start("doctor");
    let report = server.json("doctor --json --data-dir FOLDER/data --web-port WEB-PORT");
    assert!(check(&report, "data directory")["found"].as_str().expect("text").contains("whose server runs"));
    assert_eq!(check(&report, "server")["state"], "ok", "{report}");
    assert!(check(&report, "sync time")["found"].as_str().expect("text").contains("ms"));
    let left = std::fs::read_dir(server.folder.join("data")).expect("there");
    assert!(left.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with("bellows-sync-")));

    // A second server on its ports is refused with the options to change.
    let rpc = server.rpc.rsplit(':').next().expect("a port");
    let other = format!(
        "doctor --json --data-dir FOLDER/new --web-port 0 --zk-port 0 --master-port 0 --rpc-port {rpc}"
    );
    let output = server.ask(&other);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["well"], false);
    assert!(check(&report, "ports")["remedy"].as_str().expect("text").contains("--rpc-port"), "{report}");
    assert!(!server.folder.join("new").exists(), "it changes nothing");
}

#[test]
fn top_shows_what_a_load_does_by_table_region_user_and_client() {
    let server = Server::start("top");
    let load =
        "bench random-write --at RPC --rows 500 --value-size 50 --warm-up 0 --seconds 0.2 --table made";
    assert_eq!(server.ask(load).status.code(), Some(0));
    std::thread::scope(|scope| {
        scope.spawn(|| server.ask(&load.replace("0.2", "8")));
        let find = |mode: &str, field: &str, name: &str| {
            let shown = server.json(&format!("top --json -n 1 -d 1.5 -m {mode} --at RPC"));
            let lines = shown["lines"].as_array().expect("lines").clone();
            let line =
                lines.iter().find(|line| line[field].as_str().is_some_and(|found| found.contains(name)));
            let line = line.unwrap_or_else(|| panic!("{name} in {shown}")).clone();
            assert!(line["#WRITE/S"].as_f64().expect("a number") > 1.0, "{mode}: {line}");
            line
        };
        let table = find("t", "TABLE", "made");
        assert_eq!(table["#REGION"], 1.0);
        find("r", "TABLE", "made");
        find("client", "CLIENT", "127.0.0.1");
        let text = server.ask("top -b -n 1 -d 0.5 -m s --at RPC -i #REQ/S>=0");
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(
            text.contains("RegionServer(s): 1 total, 1 live, 0 dead") && text.contains("#REQ/S"),
            "{text}"
        );
    });
}

#[test]
fn a_bundle_has_the_servers_pages_and_no_secret() {
    let server = Server::start("bundle");
    let load = "bench insert --at RPC --rows 100 --value-size 50 --warm-up 0 --seconds 0.2 --table made";
    assert_eq!(server.ask(load).status.code(), Some(0));
    let bundle = |number: u32| {
        let output = server.ask(&format!(
            "debug bundle --web WEB --data-dir FOLDER/data --web-port WEB-PORT --output FOLDER/{number}.tar.gz"
        ));
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let file = server.folder.join(format!("{number}.tar.gz"));
        let packed = std::fs::read(&file).expect("written");
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text).expect("whole");
        (file, String::from_utf8_lossy(&text).into_owned())
    };
    // The history has its first values after a second or two.
    let has_history = |(_, text): &(PathBuf, String)| text.contains("\"names\":[\"");
    let (file, text) = (0..100).map(bundle).find(has_history).expect("a history");
    assert!(!text.contains("neverseen") && !text.contains("norme"), "secrets stay at home");
    for part in [
        "bellows-debug/doctor.txt",
        "hbase.regionserver.port",
        "bellows-debug/regions/000.json",
        "encodedName",
        "bellows-debug/history-7d.json",
        "bellows-debug/log.json",
        "started",
    ] {
        assert!(text.contains(part), "{part} is missing");
    }
    assert!(!text.contains("bellows-debug/missing.txt"), "every page came");
    // The system's own tar reads it.
    if let Ok(listed) = Command::new("tar").arg("-tzf").arg(&file).output() {
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        assert!(
            String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == "bellows-debug/README.txt")
        );
    }
}

#[test]
fn fsck_refuses_a_folder_in_use_and_checks_it_after_a_kill() {
    let mut server = Server::start("fsck");
    let load =
        "bench random-write --at RPC --rows 500 --value-size 50 --warm-up 0 --seconds 0.2 --table made";
    assert_eq!(server.ask(load).status.code(), Some(0));
    let output = server.ask("fsck FOLDER/data");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && told.contains("hbck_chore_run"), "{told}");
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    let output = server.ask("fsck FOLDER/data");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    // hbase:meta's rows of the new table are in the log alone.
    assert!(output.status.code() == Some(0) && told.contains("3 tables, "), "{told}");
    assert!(told.contains("no inconsistency"), "{told}");
    let table = server.folder.join("data/data/default/made");
    let is_region = |name: &str| name.len() == 32;
    let regions = std::fs::read_dir(&table).expect("there").flatten().map(|entry| entry.path());
    let region = regions
        .into_iter()
        .find(|path| path.file_name().is_some_and(|name| is_region(&name.to_string_lossy())));
    std::fs::remove_file(region.expect("a region").join(".regioninfo")).expect("deleted");
    let output = server.ask("fsck FOLDER/data");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && told.contains("has no folder"), "{told}");
    assert!(told.contains("1 inconsistency"), "{told}");
}

/// Starts a server in `folder`, ends it by the signal `end`, and returns its log.
fn log_of_a_run(folder: &std::path::Path, end: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bellows"))
        .args(["start", "--rpc-port", "0", "--master-port", "0", "--zk-port", "0", "--web-port", "0"])
        .arg("--data-dir")
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut greeting = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut greeting).expect("a greeting");
    let signal = Command::new("kill").args([end, &child.id().to_string()]).status().expect("kill is there");
    assert!(signal.success());
    let mut log = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    child.wait().expect("it ends");
    log
}

#[test]
fn a_start_says_that_it_recovers_only_after_a_run_that_was_killed() {
    let folder = std::env::temp_dir().join(format!("bellows-tools-recovers-{}", std::process::id()));
    let runs = ["-KILL", "-TERM", "-TERM"].map(|end| log_of_a_run(&folder, end));
    std::fs::remove_dir_all(&folder).expect("the test's own");
    let says =
        runs.each_ref().map(|log| log.contains("recovered from the log") || log.contains("recovering"));
    assert_eq!(says, [false, true, false], "{runs:?}");
}
