//! The read-only ZooKeeper answerer for clients.
//!
//! A default-configured HBase 2 client asks ZooKeeper where the master and hbase:meta are. In standalone mode there is no
//! ZooKeeper; this crate speaks its protocol well enough that nobody who reads can tell. It serves a small [`Tree`] of
//! paths and bytes that the rest of the process keeps up to date. Reads, watches, sessions and the four-letter words work;
//! whoever tries to write is told that he may not, as a ZooKeeper tells it of a node that is readable only.
//!
//! There is also a tiny [`client`], which reads from this answerer and from a real ZooKeeper alike.
//!
//! What this crate does not know: what the bytes mean. It only wraps them as HBase does ([`payload`]).

pub mod client;
mod jute;
pub mod payload;
pub mod server;
mod session;
mod tree;

pub use server::{Bound, Options, Server, Snapshot};
pub use tree::{Stat, Tree, is_path};

/// What the answerer says to one frame of a client that has just connected, read both as its hello and as its request;
/// `None` when it hangs up. For suites that look at the protocol without a socket.
pub fn answer(tree: &Tree, frame: &[u8]) -> Option<Vec<u8>> {
    let hello = session::Connect::read(frame).ok();
    let remote = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    let mut out = hello.map_or_else(Vec::new, |_| session::Connect::reply(1, 1, &[0; 16]));
    let answered =
        session::Session::new(remote, server::Options::default().watches_max).answer(tree, frame, &mut out);
    (answered.is_ok() || !out.is_empty()).then_some(out)
}
