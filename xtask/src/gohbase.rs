//! Sends gohbase's requests byte by byte and checks what gohbase requires of replies, with a Python script without packages.

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
