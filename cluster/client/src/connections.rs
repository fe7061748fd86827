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
    /// The addresses of each server's host, the one that was last reached first.
    addresses: Mutex<HashMap<ServerName, Vec<SocketAddr>>>,
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
        let known = self.addresses.lock().get(server).cloned();
        let mut addresses = match known {
            Some(addresses) => addresses,
            None => {
                let found = resolve(&server.address()).await?;
                let mut addresses = self.addresses.lock();
                // If a server was started again, only the newest process at its address is kept.
                addresses.retain(|known, _| (&known.host, known.port) != (&server.host, server.port));
                addresses.insert(server.clone(), found.clone());
                found
            }
        };
        let (reached, connection) = self.of_any(&addresses, service).await?;
        if reached > 0 {
            // Later calls do not try the addresses before it again, which may each cost the time limit for connecting.
            addresses[..=reached].rotate_right(1);
            self.addresses.lock().insert(server.clone(), addresses);
        }
        Ok(connection)
    }

    /// Returns the connection to the first of `addresses` that can be reached, and its index. A name may have addresses at
    /// which the server does not listen: on many machines `localhost` is `::1` first. Fails with the error of the last
    /// address.
    pub(crate) async fn of_any(
        &self,
        addresses: &[SocketAddr],
        service: &'static str,
    ) -> Result<(usize, Connection)> {
        let mut failed = Error::Registry("the name has no address".to_owned());
        for (index, address) in addresses.iter().enumerate() {
            match self.of_address(*address, service).await {
                Ok(connection) => return Ok((index, connection)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn of_address(&self, address: SocketAddr, service: &'static str) -> Result<Connection> {
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

/// Returns the addresses of `host:port`, in the system's order. Fails with [`Error::Registry`] if it has none.
pub(crate) async fn resolve(server: &str) -> Result<Vec<SocketAddr>> {
    if let Ok(address) = server.parse() {
        return Ok(vec![address]);
    }
    let unknown = |reason: String| Error::Registry(format!("{server}: {reason}"));
    let found = env::resolve(server).await.map_err(|error| unknown(error.to_string()))?;
    if found.is_empty() { Err(unknown("the name has no address".to_owned())) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use env::Runtime;

    use super::*;
    use crate::Registry;

    #[test]
    fn a_server_is_found_at_any_address_of_its_name() {
        let runtime = Runtime::start("test", 1).expect("a thread");
        runtime.handle().block_on(async {
            let listen = || env::listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
            let address = |listener: &env::Listener| listener.local_addr().expect("bound");
            let (server, gone) = (listen(), listen());
            let (open, closed) = (address(&server), address(&gone));
            drop(gone);
            let options = Options::new(Registry::rpc(["unused:1"]));
            let connections = Connections::new(World::real(), &options);
            let name = ServerName { host: "two.example".to_owned(), port: open.port(), start_code: 1 };
            connections.addresses.lock().insert(name.clone(), vec![closed, open]);
            connections.of_server(&name, "ClientService").await.expect("the second address is tried");
            assert_eq!(connections.addresses.lock()[&name], [open, closed], "and is the first from now on");
            let error = connections.of_any(&[closed], "ClientService").await.expect_err("nobody listens");
            assert!(error.to_string().contains(&closed.to_string()), "{error}");
        });
    }
}
