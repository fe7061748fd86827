//! Tests the web pages in a real browser: `proof/browser` drives Chromium through Playwright.
//!
//! This is no part of `cargo xtask test`, because it needs a browser and some minutes. Pictures of every page are in
//! `target/browser`.

use std::path::Path;
use std::process::Command;

use crate::java::succeed;
use crate::programs::target;
use crate::{Outcome, programs, run};

pub(crate) const USAGE: &str = "       cargo xtask browser [NAME...]   (the web pages in Chromium: pages, script, unscripted, and planted faults)";

const VENV: &str = "target/browser/venv";
const REQUIREMENTS: &str = "proof/browser/requirements.txt";

/// Runs the suite, or the named parts of it.
pub(crate) fn suite(names: &[&str]) -> Outcome {
    let bellows = programs::build("bellows")?;
    let mut suite = Command::new(python()?);
    suite.args(["-B", "proof/browser/suite.py"]).arg(bellows).arg(target().join("browser")).args(names);
    succeed("the browser suite", suite)
}

/// Returns the path of a Python that has Playwright. Installs it first, unless it is installed and newer than the list
/// of requirements. The browser is the one that the system has.
fn python() -> Result<String, String> {
    let python = format!("{VENV}/bin/python");
    let mark = format!("{VENV}/installed");
    let changed = |path: &str| Path::new(path).metadata().and_then(|about| about.modified()).ok();
    if changed(&mark) <= changed(REQUIREMENTS) {
        run("python3", &["-m", "venv", "--clear", VENV])
            .map_err(|why| format!("Python 3.9 or newer with its venv module is needed: {why}"))?;
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(&python, &[&quiet[..], &["--requirement", REQUIREMENTS]].concat())?;
        std::fs::write(&mark, "").map_err(|error| format!("{mark}: {error}"))?;
    }
    Ok(python)
}
