//! Starts HBase's own gateways, which use the server under test as ordinary clients.

use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

use super::{class_path, java};
use crate::server::fresh_folder;

/// Maximum time until a gateway listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// The kind of gateway.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Rest,
    Thrift,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Rest => "rest",
            Kind::Thrift => "thrift",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Kind::Rest => "org.apache.hadoop.hbase.rest.RESTServer",
            Kind::Thrift => "org.apache.hadoop.hbase.thrift.ThriftServer",
        }
    }

    /// Returns the arguments of the gateway. Both gateways listen on all addresses by default: an argument changes that
    /// for the Thrift server, a key for the REST server.
    fn words(self) -> &'static [&'static str] {
        match self {
            Kind::Rest => &[],
            Kind::Thrift => &["--bind", "127.0.0.1"],
        }
    }
}

/// A running gateway, which ends when the value is dropped.
pub(super) struct Gateway {
    child: Child,
    pub(super) port: u16,
}

impl Gateway {
    /// Starts a gateway to the cluster with this quorum, `host:port`, on a free port; returns when it listens.
    pub(super) fn start(kind: Kind, quorum: &str) -> Result<Gateway, String> {
        let name = kind.name();
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        let class_path = format!("{}:{}:{}", conf(kind, quorum)?, super::CONF, class_path("gateway")?);
        let port_text = port.to_string();
        let words =
            [&[kind.class()], kind.words(), &["--port", &port_text, "--infoport", "-1", "start"]].concat();
        // Some tests expect exceptions, so only errors are logged.
        let mut command = java(&class_path, &[("proof.log", "ERROR")], &words);
        let child = command.spawn().map_err(|error| format!("cannot start the {name} server: {error}"))?;
        let mut gateway = Gateway { child, port };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = gateway.child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("the {name} server ended with {status}"));
            }
            if Instant::now() > end {
                return Err(format!("the {name} server does not listen after {} s", PATIENCE.as_secs()));
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

/// Returns a folder with the gateway's configuration, because it accepts none on its command line.
fn conf(kind: Kind, quorum: &str) -> Result<String, String> {
    let (host, port) = quorum.rsplit_once(':').ok_or_else(|| format!("{quorum} is not host:port"))?;
    // The folder with the part's own name belongs to the server, so this one has another name.
    let folder = fresh_folder(&format!("{}-gateway", kind.name()))?.display().to_string();
    let properties = [
        ("hbase.zookeeper.quorum", host),
        ("hbase.zookeeper.property.clientPort", port),
        ("hbase.rest.host", "127.0.0.1"),
    ];
    let properties: String = properties
        .iter()
        .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>"))
        .collect();
    let site = format!("{folder}/hbase-site.xml");
    std::fs::write(&site, format!("<configuration>{properties}</configuration>\n"))
        .map_err(|error| format!("{site}: {error}"))?;
    Ok(folder)
}
