//! A program that listens on a port of its own, such as the server of an object store.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time from the start of a program until it listens.
const START_MAX: Duration = Duration::from_secs(60);

/// A running program, which is killed when the value is dropped.
pub(crate) struct Listening {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Listening {
    /// Starts the program `name` by the command that `make` returns for a free address, and waits until it listens there.
    /// What it prints is thrown away.
    pub(crate) fn start(name: &str, make: impl FnOnce(SocketAddr) -> Command) -> Result<Listening, String> {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = port.map_err(|error| format!("no port is free: {error}"))?;
        let mut command = make(address);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("cannot start {name}: {error}"))?;
        let listening = Listening { child, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if began.elapsed() > START_MAX {
                return Err(format!("{name} did not listen on {address} within {START_MAX:?}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(listening)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The process may have ended by itself, and then killing it fails.
        let _ended = (self.child.kill(), self.child.wait());
    }
}
