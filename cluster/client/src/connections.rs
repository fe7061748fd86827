//! Connections by server and service, opened on first use and reopened after a failure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use env::sync::Mutex;
use env::{HashMap, Moment, World};
use proto::ServerName;
use rpc::client::Connection;

use crate::{Error, Options, Result};

/// After a server was unreachable, calls to it fail at once for this time, without another attempt to connect. HBase's
/// key is `hbase.ipc.client.failed.servers.expiry`.
const FAILED: Duration = Duration::from_secs(2);

/// An open connection, and the time of the last failed attempt to connect.
#[derive(Default)]
struct Line {
    connection: Option<Connection>,
    failed: Option<(Moment, rpc::client::Error)>,
}

type Lines = HashMap<(SocketAddr, &'static str), Arc<tokio::sync::Mutex<Line>>>;

pub(crate) struct Connections {
    world: World,
    options: rpc::client::Options,
    call_max: Duration,
    lines: Mutex<Lines>,
    addresses: Mutex<HashMap<ServerName, SocketAddr>>,
}

impl Connections {
    pub(crate) fn new(world: World, options: &Options) -> Connections {
        let user = rpc::User { effective: Some(options.user.clone()), real: None };
        Connections {
            world,
            options: rpc::client::Options { user, ..options.connection.clone() },
            call_max: options.call_max,
            lines: Mutex::default(),
            addresses: Mutex::default(),
        }
    }

    pub(crate) fn call_max(&self) -> Duration {
        self.call_max
    }

    pub(crate) fn random(&self) -> u64 {
        self.world.random()
    }

    /// Returns the connection to a service of a server.
    pub(crate) async fn of_server(&self, server: &ServerName, service: &'static str) -> Result<Connection> {
        let known = self.addresses.lock().get(server).copied();
        let address = match known {
            Some(address) => address,
            None => {
                let address = resolve(&server.address()).await?;
                let mut addresses = self.addresses.lock();
                // If a server was started again, only the newest process at its address is kept.
                addresses.retain(|known, _| (&known.host, known.port) != (&server.host, server.port));
                addresses.insert(server.clone(), address);
                address
            }
        };
        self.of_address(address, service).await
    }

    pub(crate) async fn of_address(&self, address: SocketAddr, service: &'static str) -> Result<Connection> {
        let line = Arc::clone(self.lines.lock().entry((address, service)).or_default());
        // Callers that come while a connection is being opened wait for it instead of opening another one.
        let mut line = line.lock().await;
        if let Some(connection) = &line.connection
            && !connection.is_closed()
        {
            return Ok(connection.clone());
        }
        let now = self.world.moment();
        if let Some((when, error)) = &line.failed
            && now.since(*when) < FAILED
        {
            return Err(error.clone().into());
        }
        match Connection::open(address, service, &self.options).await {
            Ok(connection) => {
                *line = Line { connection: Some(connection.clone()), failed: None };
                Ok(connection)
            }
            Err(error) => {
                *line = Line { connection: None, failed: Some((self.world.moment(), error.clone())) };
                Err(error.into())
            }
        }
    }
}

/// Resolves `host:port` to the first address that the name has. Fails with [`Error::Registry`] if it has none.
pub(crate) async fn resolve(server: &str) -> Result<SocketAddr> {
    if let Ok(address) = server.parse() {
        return Ok(address);
    }
    let unknown = |reason: String| Error::Registry(format!("{server}: {reason}"));
    let found = env::resolve(server).await.map_err(|error| unknown(error.to_string()))?;
    found.into_iter().next().ok_or_else(|| unknown("the name has no address".to_owned()))
}
