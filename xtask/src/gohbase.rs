//! Sends gohbase's requests byte by byte and checks what gohbase requires of replies, with a Python script without
//! packages.

use std::process::Command;

use crate::Outcome;
use crate::java::succeed;
use crate::server::Server;

/// Runs the whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("gohbase", &[])?;
    against(&server.registry, &[])?;
    server.stop()
}

/// Runs the suite against a cluster that already runs: `QUORUM [WORDS]`; the words are unittest's.
pub(crate) fn against(quorum: &str, words: &[&str]) -> Outcome {
    let mut suite = Command::new("python3");
    suite.args(["-B", "proof/gohbase/gohbase_suite.py", quorum]).args(words);
    succeed("the gohbase suite", suite)
}
