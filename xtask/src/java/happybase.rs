//! happybase through HBase's own Thrift server, which stands before Bellows as an ordinary client of it.
//!
//! The Python packages live in `target/python/venv`, each at the version that `proof/python/requirements.txt` says; they
//! are installed again when that file is newer.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::{changed, class_path, java, succeed};
use crate::server::{Server, fresh_folder};
use crate::{Outcome, run};

const VENV: &str = "target/python/venv";
const REQUIREMENTS: &str = "proof/python/requirements.txt";

/// How long the Thrift server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// The Python that has the packages.
fn python() -> Result<String, String> {
    let python = format!("{VENV}/bin/python");
    // Written last, so that what was begun and not finished is begun anew.
    let mark = format!("{VENV}/installed");
    if changed(Path::new(&mark)) <= changed(Path::new(REQUIREMENTS)) {
        run("python3", &["-m", "venv", "--clear", VENV])
            .map_err(|why| format!("Python 3.9 or newer with its venv module is needed: {why}"))?;
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(&python, &[&quiet[..], &["--requirement", REQUIREMENTS]].concat())?;
        std::fs::write(&mark, "").map_err(|error| format!("{mark}: {error}"))?;
    }
    Ok(python)
}

/// A folder with the Thrift server's configuration; it takes none from its command line.
fn conf(quorum: &str) -> Result<String, String> {
    let (host, port) = quorum.rsplit_once(':').ok_or_else(|| format!("{quorum} is not host:port"))?;
    let folder = fresh_folder("thrift")?.display().to_string();
    let property = |name: &str, value: &str| {
        format!("<property><name>hbase.zookeeper.{name}</name><value>{value}</value></property>")
    };
    let [quorum, port] = [property("quorum", host), property("property.clientPort", port)];
    let site = format!("{folder}/hbase-site.xml");
    std::fs::write(&site, format!("<configuration>{quorum}{port}</configuration>\n"))
        .map_err(|error| format!("{site}: {error}"))?;
    Ok(folder)
}

/// HBase's Thrift server, ended when this is dropped.
struct Gateway {
    child: Child,
    port: u16,
}

impl Gateway {
    fn start(quorum: &str) -> Result<Gateway, String> {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        let class_path = format!("{}:{}:{}", conf(quorum)?, super::CONF, class_path("gateway")?);
        let mut command = java(
            &class_path,
            // Refusals are what some tests ask for.
            &[("proof.log", "ERROR")],
            &[
                "org.apache.hadoop.hbase.thrift.ThriftServer",
                "--bind",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--infoport",
                "-1",
                "start",
            ],
        );
        let child = command.spawn().map_err(|error| format!("cannot start the Thrift server: {error}"))?;
        let mut gateway = Gateway { child, port };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = gateway.child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("the Thrift server ended with {status}"));
            }
            if Instant::now() > end {
                return Err(format!("the Thrift server does not listen after {} s", PATIENCE.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(gateway)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn run_suite(quorum: &str, words: &[&str]) -> Outcome {
    let python = python()?;
    let gateway = Gateway::start(quorum)?;
    let mut suite = Command::new(python);
    suite.arg("proof/python/happybase_suite.py").arg(gateway.port.to_string()).args(words);
    succeed("the happybase suite", suite)
}

/// The whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("happybase", &[])?;
    run_suite(&server.registry, &[])?;
    server.stop()
}

/// The suite against a cluster that runs already: `QUORUM [WORDS]`, the words being unittest's.
pub(crate) fn against(quorum: &str, words: &[&str]) -> Outcome {
    run_suite(quorum, words)
}
