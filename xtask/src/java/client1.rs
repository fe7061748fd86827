//! Runs the last HBase client of the 1.x line (1.7.2) against Bellows: tables, rows, and changes of schemas.

use super::{compile, java, succeed};
use crate::Outcome;
use crate::server::Server;

/// Runs the whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("client1", &[])?;
    against(&server.registry, &[])?;
    server.stop()
}

/// Runs the suite against a running cluster: `QUORUM [TEXT]`, the address as `host:port`.
pub(crate) fn against(quorum: &str, words: &[&str]) -> Outcome {
    let suite = compile("client1")?;
    // HBase 1 uses log4j 1, which has another configuration. Some tests expect exceptions, so the log of them is off.
    let properties = [("proof.quorum", quorum), ("log4j.configuration", "log4j1.properties")];
    let words: Vec<&str> = ["Teller", "Hbase1Test"].into_iter().chain(words.iter().copied()).collect();
    succeed("the HBase 1 suite", java(&suite, &properties, &words))
}
