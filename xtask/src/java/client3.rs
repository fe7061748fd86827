//! Runs the client of HBase 3 against Bellows, with the tests of HBase 2's client.
//!
//! This client's blocking calls, scans included, are built on asynchronous calls. So the answers of a fast server reach
//! it in other states than HBase 2's client.

use super::run_suite;
use crate::Outcome;
use crate::server::Server;

/// The folder in `proof/java` with the class path of this client.
pub(super) const MODULE: &str = "client3";

/// The ways in which the suite connects. This client cannot send a batch without cell blocks.
const WAYS: &str = "rpc,rpc-tags,rpc-gzip,zk,zk-tags,zk-gzip";

/// Runs the whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("client3", &[])?;
    run_suite(MODULE, &server.rpc, &server.registry, &[WAYS])?;
    server.stop()
}

/// Runs the suite against a running cluster: `BOOTSTRAP QUORUM [WAYS [TEXT]]`, addresses as `host:port`.
pub(crate) fn against(bootstrap: &str, quorum: &str, words: &[&str]) -> Outcome {
    let words = if words.is_empty() { &[WAYS] } else { words };
    run_suite(MODULE, bootstrap, quorum, words)
}
