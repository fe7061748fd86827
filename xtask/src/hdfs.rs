//! Runs the tests of files in HDFS, and a server whose files are there, against a real HDFS: one NameNode and three
//! DataNodes, whose jars come from Maven Central.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::java::{self, succeed};
use crate::random::seed_from_the_clock;
use crate::server::{Server, binary, fresh_folder, no_panic};
use crate::talk::Talk;
use crate::{NOT_RUN, Outcome, crash, programs, run, s3, web};

/// Number of DataNodes.
const DATANODES: usize = 3;
/// Number of DataNodes that have each block.
const REPLICATION: usize = 2;
/// Maximum time until the NameNode knows its DataNodes.
const START_MAX: Duration = Duration::from_secs(120);
/// Number of rounds of load and `kill -9` on a server whose files are in HDFS.
const ROUNDS: u32 = 3;
/// Number of servers that hang and are replaced.
const TAKEOVERS: u32 = 3;
/// Maximum time of a put and a get while DataNodes fail. On a machine that does nothing else it is 0.7 s.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Maximum time after which the NameNode of the tests has certainly declared a killed DataNode dead.
const DECLARED_DEAD_MAX: Duration = Duration::from_secs(40);

/// A running HDFS, which ends when the value is dropped.
pub(crate) struct Hdfs {
    processes: Vec<Child>,
    pub(crate) url: String,
    /// The address of the NameNode's web pages.
    pages: String,
}

impl Hdfs {
    /// Starts an empty HDFS on free ports.
    pub(crate) fn start() -> Result<Hdfs, String> {
        for program in ["java", "mvn"] {
            if Command::new(program).arg("-version").output().is_err() {
                return Err(format!("{NOT_RUN}a JDK and Maven bring HDFS, and {program} is not installed"));
            }
        }
        let folder = fresh_folder("hdfs")?;
        let folder =
            std::path::absolute(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let jars = java::class_path("hdfs")?;
        let ports = free_ports(2 + 3 * DATANODES)?;
        let (rpc, pages) = (ports[0], ports[1]);
        let conf = |name: &str, node: &[u16]| configure(&folder, name, (rpc, pages), node);
        let class_path = |conf: &Path| format!("{}:{jars}", conf.display());
        let namenode = "org.apache.hadoop.hdfs.server.namenode.NameNode";
        let own = conf("namenode", &ports[2..5])?;
        let mut format = java(&class_path(&own), namenode);
        format.args(["-format", "-force", "-nonInteractive"]).stdout(Stdio::null()).stderr(Stdio::null());
        succeed("the formatting of HDFS", format)?;
        let mut hdfs = Hdfs {
            processes: Vec::new(),
            url: format!("hdfs://127.0.0.1:{rpc}"),
            pages: format!("127.0.0.1:{pages}"),
        };
        hdfs.run(&folder, "namenode", java(&class_path(&own), namenode))?;
        for (number, node) in ports[2..].chunks(3).enumerate() {
            let name = format!("datanode-{number}");
            let own = conf(&name, node)?;
            let class = "org.apache.hadoop.hdfs.server.datanode.DataNode";
            hdfs.run(&folder, &name, java(&class_path(&own), class))?;
        }
        let began = Instant::now();
        let state = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState";
        let ready = format!("\"NumLiveDataNodes\" : {DATANODES},");
        while !web::page(&hdfs.pages, state).is_ok_and(|page| page.contains(&ready)) {
            if began.elapsed() > START_MAX {
                return Err(format!("HDFS does not start, see {}", folder.display()));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(hdfs)
    }

    /// Returns what the NameNode says about a folder: the number of folders and files below it, and their size.
    pub(crate) fn summary(&self, folder: &str) -> Result<String, String> {
        web::page(&self.pages, &format!("/webhdfs/v1{folder}?op=GETCONTENTSUMMARY"))
    }

    /// Sends a signal to a DataNode; the first has the number 1.
    fn signal(&self, datanode: usize, signal: &str) -> Outcome {
        run("kill", &[signal, &self.processes[datanode].id().to_string()])
    }

    fn run(&mut self, folder: &Path, name: &str, mut command: Command) -> Outcome {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let again = output.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(again).stderr(output);
        self.processes.push(command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?);
        Ok(())
    }
}

impl Drop for Hdfs {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // The process may have ended by itself, and then killing it fails.
            let _ended = (process.kill(), process.wait());
        }
    }
}

fn java(class_path: &str, class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-XX:+UseSerialGC", "-cp", class_path, class]);
    command
}

/// Returns ports that are free now; all are held until all are known, so that they differ.
fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let failed = |error: std::io::Error| format!("no port is free: {error}");
    let held: Result<Vec<TcpListener>, String> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").map_err(failed)).collect();
    held?.iter().map(|held| held.local_addr().map(|address| address.port()).map_err(failed)).collect()
}

/// Writes the settings of one process. Returns the folder that has them.
fn configure(folder: &Path, name: &str, namenode: (u16, u16), node: &[u16]) -> Result<PathBuf, String> {
    let conf = folder.join(format!("{name}.conf"));
    let data = folder.join(name).display().to_string();
    let at = |port: u16| format!("127.0.0.1:{port}");
    let settings = [
        ("fs.defaultFS", format!("hdfs://{}", at(namenode.0))),
        ("hadoop.tmp.dir", data.clone()),
        ("dfs.replication", REPLICATION.to_string()),
        ("dfs.permissions.enabled", "false".to_owned()),
        ("dfs.namenode.rpc-bind-host", "127.0.0.1".to_owned()),
        ("dfs.namenode.http-address", at(namenode.1)),
        ("dfs.namenode.http-bind-host", "127.0.0.1".to_owned()),
        ("dfs.namenode.name.dir", format!("{data}/name")),
        ("dfs.datanode.data.dir", format!("{data}/data")),
        ("dfs.datanode.address", at(node[0])),
        ("dfs.datanode.ipc.address", at(node[1])),
        ("dfs.datanode.http.address", at(node[2])),
        ("dfs.datanode.hostname", "127.0.0.1".to_owned()),
        // A DataNode recovers the lease, and learns of the order with its next heartbeat. So heartbeats are frequent.
        ("dfs.heartbeat.interval", "1".to_owned()),
        // The NameNode takes a DataNode for dead after 14 s instead of ten minutes: twice this, and ten heartbeats.
        ("dfs.namenode.heartbeat.recheck-interval", "2000".to_owned()),
        // The DataNode that recovers a lease connects to the other ones, of which one is dead.
        ("ipc.client.connect.max.retries", "1".to_owned()),
        ("dfs.namenode.safemode.extension", "0".to_owned()),
        ("dfs.datanode.du.reserved", "0".to_owned()),
    ];
    let mut text = "<configuration>\n".to_owned();
    for (key, value) in settings {
        text.push_str(&format!("<property><name>{key}</name><value>{value}</value></property>\n"));
    }
    text.push_str("</configuration>\n");
    let write = || {
        // Hadoop expects the folders of its web pages on the class path, although the jars do not have them.
        for pages in ["hdfs", "datanode", "static"] {
            std::fs::create_dir_all(conf.join("webapps").join(pages))?;
        }
        std::fs::write(conf.join("core-site.xml"), &text)?;
        std::fs::write(conf.join("hdfs-site.xml"), &text)
    };
    write().map_err(|error| format!("{}: {error}", conf.display()))?;
    Ok(conf)
}

/// Runs the tests of `base/hdfs`, then servers whose files are in HDFS.
pub(crate) fn suite() -> Outcome {
    let hdfs = Hdfs::start()?;
    let mut tests = Command::new("cargo");
    tests
        // Built with the features of the whole workspace, so that cargo need not build the libraries again.
        .args(["test", "--quiet", "--workspace", "--test", "namenode"])
        .env("BELLOWS_HDFS_URL", &hdfs.url);
    succeed("the tests of files in HDFS", tests)?;
    let place = |name: &str| PathBuf::from(format!("{}/{name}", hdfs.url));
    crash::run_at(ROUNDS, place("crash"), &[])?;
    s3::takeovers(TAKEOVERS, seed_from_the_clock(), &binary(), &place("takeover"), &[])?;
    another_log_place(&place("moved"))?;
    datanode_failures(&hdfs, &place("failures"))
}

/// Starts a server with its log in another place, beside the server that has it in HDFS, and after that one was killed. HDFS
/// does not show what is in the log. Both starts must be refused, and change nothing.
fn another_log_place(data: &Path) -> Outcome {
    programs::build_example("pulse")?;
    let folder = fresh_folder("hdfs-log-place")?;
    let failed = |why: String| format!("{why}\n  the servers' logs are in {}", folder.display());
    let log = |name: &str| folder.join(name);
    let elsewhere = std::path::absolute(log("elsewhere")).map_err(|error| error.to_string())?;
    let elsewhere = format!("hbase.wal.dir={}", elsewhere.display());
    let refused = |when: &str| {
        let said = log(&format!("{when}.log"));
        if Server::start_with_log(data, &said, &["-D", &elsewhere]).is_ok() {
            return Err(failed(format!("{when}: a start with the log in another place succeeds")));
        }
        let said = std::fs::read_to_string(&said).map_err(|error| error.to_string())?;
        match said.contains("and may be needed") && said.contains("stop that server in order") {
            true => Ok(()),
            false => Err(failed(format!("{when}: the refusal does not say why, or what to do"))),
        }
    };
    let server = Server::start_with_log(data, &log("first.log"), &[]).map_err(failed)?;
    let mut pulse = Talk::with("pulse", &server.rpc)?;
    let mut alive = |what: &str| match pulse.ask(what)? {
        answer if answer.starts_with("alive") => Ok(()),
        answer => Err(failed(format!("{what}: {answer}"))),
    };
    alive("beat")?;
    refused("beside")?;
    alive("beat")?;
    server.kill()?;
    refused("after-a-kill")?;
    let server = Server::start_with_log(data, &log("next.log"), &[]).map_err(failed)?;
    alive(&format!("check {}", server.rpc))?;
    server.stop()?;
    let moved = Server::start_with_log(data, &log("moved.log"), &["-D", &elsewhere]).map_err(failed)?;
    alive(&format!("check {}", moved.rpc))?;
    moved.stop()?;
    say!("a log in HDFS that may be needed: two starts with another hbase.wal.dir were refused");
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

/// Kills a DataNode and pauses another one while a client puts. Each put must be acknowledged in time, also those while
/// one DataNode is left, and must exist after the server was killed and started again.
fn datanode_failures(hdfs: &Hdfs, data: &Path) -> Outcome {
    programs::build_example("pulse")?;
    let folder = fresh_folder("datanodes")?;
    let failed = |why: String| format!("{why}\n  the servers' logs are in {}", folder.display());
    let (first, next) = (folder.join("first.log"), folder.join("next.log"));
    let server = Server::start_with_log(data, &first, &[]).map_err(failed)?;
    let mut pulse = Talk::with("pulse", &server.rpc)?;
    let (mut longest, mut beats) = (Duration::ZERO, 0);
    let mut beat = |seconds: u64, when: &str| -> Outcome {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(seconds) {
            let answer = pulse.ask("beat")?;
            let micros = answer.strip_prefix("alive ").and_then(|micros| micros.parse().ok());
            let micros = micros.ok_or_else(|| failed(format!("{when}: {answer}")))?;
            longest = longest.max(Duration::from_micros(micros));
            beats += 1;
            if longest > PAUSE_MAX {
                return Err(failed(format!("{when}: a put and a get took {longest:?}")));
            }
        }
        Ok(())
    };
    // The first beat creates the table.
    beat(2, "with all DataNodes")?;
    hdfs.signal(1, "-KILL")?;
    beat(6, "with a dead DataNode")?;
    hdfs.signal(2, "-STOP")?;
    let paused = beat(10, "with a dead and a paused DataNode");
    hdfs.signal(2, "-CONT")?;
    paused?;
    beat(2, "after the pause")?;
    server.kill()?;
    let (server, starts) = start_with_a_dead_datanode(data, &next).map_err(failed)?;
    let answer = pulse.ask(&format!("check {}", server.rpc))?;
    if !answer.starts_with("alive") {
        return Err(failed(format!("after a kill: {answer}")));
    }
    server.stop()?;
    no_panic(&first)?;
    let log = std::fs::read_to_string(&first).map_err(|error| error.to_string())?;
    let parts = log.matches("the log goes on in another file").count();
    if parts == 0 {
        return Err(failed("no DataNode of the log's file failed: nothing was tested".to_owned()));
    }
    say!(
        "one of three DataNodes was killed and another one paused: {beats} puts, all there after a kill of the server; the \
         longest took {longest:.1?}; the log went on in another file {parts} times; the next start succeeded at attempt {starts}"
    );
    std::fs::remove_dir_all(folder).map_err(|error| error.to_string())
}

/// Starts the server, as often as a supervisor would: a start writes small files, and one that the NameNode assigns to the
/// killed DataNode ends it, until the NameNode declares that DataNode dead. Returns the server and the number of attempts.
fn start_with_a_dead_datanode(data: &Path, log: &Path) -> Result<(Server, usize), String> {
    let began = Instant::now();
    let mut starts = 1;
    loop {
        match Server::start_with_log(data, log, &[]) {
            Ok(server) => return Ok((server, starts)),
            Err(error) if began.elapsed() > DECLARED_DEAD_MAX => return Err(error),
            Err(_) => starts += 1,
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}
