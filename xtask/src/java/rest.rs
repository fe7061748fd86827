//! Runs Python over HTTP through HBase's own REST server, which uses Bellows as an ordinary client.

use std::process::Command;

use super::gateway::{Gateway, Kind};
use super::succeed;
use crate::Outcome;
use crate::server::Server;

fn run_suite(quorum: &str, words: &[&str]) -> Outcome {
    let gateway = Gateway::start(Kind::Rest, quorum)?;
    let mut suite = Command::new("python3");
    suite.arg("proof/python/rest_suite.py").arg(gateway.port.to_string()).args(words);
    succeed("the REST suite", suite)
}

/// Runs the whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("rest", &[])?;
    run_suite(&server.registry, &[])?;
    server.stop()
}

/// Runs the suite against a running cluster: `QUORUM [WORDS]`; the words are unittest's.
pub(crate) fn against(quorum: &str, words: &[&str]) -> Outcome {
    run_suite(quorum, words)
}
