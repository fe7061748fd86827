//! What gohbase sends, byte by byte, and what it insists on in replies; a script in Python, without any package.

use std::process::Command;

use crate::Outcome;
use crate::java::succeed;
use crate::server::Server;

/// The whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("gohbase", &[])?;
    against(&server.registry, &[])?;
    server.stop()
}

/// The suite against a cluster that runs already: `QUORUM [WORDS]`, the words being unittest's.
pub(crate) fn against(quorum: &str, words: &[&str]) -> Outcome {
    let mut suite = Command::new("python3");
    suite.args(["-B", "proof/gohbase/gohbase_suite.py", quorum]).args(words);
    succeed("the gohbase suite", suite)
}
