//! A read-only ZooKeeper server for HBase clients.
//!
//! An HBase 2 client with default settings asks ZooKeeper for the master and the location of hbase:meta. Bellows runs
//! without ZooKeeper, so this crate implements the part of its protocol that readers use. It serves a small [`Tree`] of
//! paths and data that the rest of the process keeps current. Reads, watches, sessions and four-letter words work.
//! Writes are refused with the error that ZooKeeper gives for a read-only node.
//!
//! [`client`] is a small reader for this server and for a real ZooKeeper.
//!
//! This crate does not know what the data mean. It only adds the bytes that HBase puts around them ([`payload`]).

pub mod client;
mod jute;
pub mod payload;
pub mod server;
mod session;
mod tree;

pub use server::{Bound, Options, Server, Snapshot};
pub use tree::{Stat, Tree, is_path};

/// Parses `frame` both as the connect request of a new connection and as a request, and returns the answer; `None` if
/// the connection would be closed. For test suites that exercise the protocol without a socket.
pub fn answer(tree: &Tree, frame: &[u8]) -> Option<Vec<u8>> {
    let hello = session::Connect::read(frame).ok();
    let remote = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    let mut out = hello.map_or_else(Vec::new, |_| session::Connect::reply(1, 1, &[0; 16]));
    let answered =
        session::Session::new(remote, server::Options::default().watches_max).answer(tree, frame, &mut out);
    (answered.is_ok() || !out.is_empty()).then_some(out)
}
