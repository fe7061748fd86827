//! Runs asynchbase against Bellows: a Java client with its own ZooKeeper client, region lookup and messages.
//!
//! It cannot create tables, so the stock client creates the table of its suite.

use super::{compile, java, succeed};
use crate::Outcome;
use crate::server::Server;

const TABLE: &str = "asynchbase";

fn run_suite(bootstrap: &str, quorum: &str, words: &[&str]) -> Outcome {
    let client = compile("client")?;
    let cluster = [("proof.bootstrap", bootstrap), ("proof.log", "ERROR")];
    succeed("the making of a table", java(&client, &cluster, &["Tables", TABLE, "f=5,g=1", "h", "p"]))?;
    let suite = compile("asynchbase")?;
    let cluster = [
        ("proof.quorum", quorum),
        ("proof.table", TABLE),
        // Some tests expect exceptions, so the client's log of them is off.
        ("org.slf4j.simpleLogger.defaultLogLevel", "off"),
    ];
    let words: Vec<&str> = ["Teller", "AsynchbaseTest"].into_iter().chain(words.iter().copied()).collect();
    succeed("the asynchbase suite", java(&suite, &cluster, &words))
}

/// Runs the whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("asynchbase", &[])?;
    run_suite(&server.rpc, &server.registry, &[])?;
    server.stop()
}

/// Runs the suite against a running cluster: `BOOTSTRAP QUORUM [TEXT]`, addresses as `host:port`.
pub(crate) fn against(bootstrap: &str, quorum: &str, words: &[&str]) -> Outcome {
    run_suite(bootstrap, quorum, words)
}
