//! Runs happybase through HBase's own Thrift server, which uses Bellows as an ordinary client.
//!
//! The Python packages are in `target/python/venv`, with the versions of `proof/python/requirements.txt`. They are
//! installed again if that file is newer.

use std::path::Path;
use std::process::Command;

use super::gateway::{Gateway, Kind};
use super::{changed, succeed};
use crate::server::Server;
use crate::{Outcome, run};

const VENV: &str = "target/python/venv";
const REQUIREMENTS: &str = "proof/python/requirements.txt";

/// Returns the Python that has the packages.
fn python() -> Result<String, String> {
    let python = format!("{VENV}/bin/python");
    // This file is written last. If it is missing, the installation was interrupted and is repeated.
    let mark = format!("{VENV}/installed");
    if changed(Path::new(&mark)) <= changed(Path::new(REQUIREMENTS)) {
        run("python3", &["-m", "venv", "--clear", VENV])
            .map_err(|why| format!("Python 3.9 or newer with its venv module is needed: {why}"))?;
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(&python, &[&quiet[..], &["--requirement", REQUIREMENTS]].concat())?;
        std::fs::write(&mark, "").map_err(|error| format!("{mark}: {error}"))?;
    }
    Ok(python)
}

fn run_suite(quorum: &str, words: &[&str]) -> Outcome {
    let python = python()?;
    let gateway = Gateway::start(Kind::Thrift, quorum)?;
    let mut suite = Command::new(python);
    suite.arg("proof/python/happybase_suite.py").arg(gateway.port.to_string()).args(words);
    succeed("the happybase suite", suite)
}

/// Runs the whole suite against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("happybase", &[])?;
    run_suite(&server.registry, &[])?;
    server.stop()
}

/// Runs the suite against a running cluster: `QUORUM [WORDS]`; the words are unittest's.
pub(crate) fn against(quorum: &str, words: &[&str]) -> Outcome {
    run_suite(quorum, words)
}
