//! asynchbase against Bellows: a client in Java with a ZooKeeper client, a look-up and messages of its own.
//!
//! It cannot make tables, so the stock client makes the one that its suite uses.

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
        // Refusals are what some tests ask for.
        ("org.slf4j.simpleLogger.defaultLogLevel", "off"),
    ];
    let words: Vec<&str> = ["Teller", "AsynchbaseTest"].into_iter().chain(words.iter().copied()).collect();
    succeed("the asynchbase suite", java(&suite, &cluster, &words))
}

/// The whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("asynchbase", &[])?;
    run_suite(&server.rpc, &server.registry, &[])?;
    server.stop()
}

/// The suite against a cluster that runs already: `BOOTSTRAP QUORUM [TEXT]`, addresses as `host:port`.
pub(crate) fn against(bootstrap: &str, quorum: &str, words: &[&str]) -> Outcome {
    run_suite(bootstrap, quorum, words)
}
