//! Builds the programs that the parts of `cargo xtask test` start: the server, the simulation, the client's examples.
//!
//! Cargo compiles a library once for each set of features, and the set depends on the packages of the command. If these
//! programs were built one by one after the unit tests, most of the workspace would be compiled four times. So a run of
//! all parts builds every program in one command, with the features that the unit tests have. A part that runs alone
//! (`--only`) builds only the programs that it starts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Outcome, run};

/// Whether [`build_all`] has built every program in this run.
static ALL_BUILT: AtomicBool = AtomicBool::new(false);

/// Returns the folder for build results of cargo.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Builds all programs of the workspace, except the running `xtask`, and all examples. Cargo gives them the features
/// that the unit tests have, because the command includes examples.
fn build_all() -> Outcome {
    let packages = ["build", "--quiet", "--workspace", "--exclude", "xtask"];
    run("cargo", &[&packages[..], &["--bins", "--examples"]].concat())?;
    ALL_BUILT.store(true, Ordering::Relaxed);
    Ok(())
}

/// Checks, as a part of `cargo xtask test`, that the server builds with its own features alone, because it is shipped
/// with them.
pub(crate) fn check() -> Outcome {
    build_all()?;
    run("cargo", &["check", "--quiet", "--package", "bellows"])
}

/// Builds the program of a package, unless it is built. Returns its path.
pub(crate) fn build(package: &str) -> Result<PathBuf, String> {
    if !ALL_BUILT.load(Ordering::Relaxed) {
        run("cargo", &["build", "--quiet", "--package", package])?;
    }
    Ok(target().join("debug").join(package))
}

/// Builds the program of a package in a profile of its own. Returns its path.
pub(crate) fn build_in_profile(package: &str, profile: &str) -> Result<PathBuf, String> {
    run("cargo", &["build", "--quiet", "--profile", profile, "--package", package])?;
    Ok(target().join(profile).join(package))
}

/// Builds an example of the client, unless it is built. Returns its path.
pub(crate) fn build_example(example: &str) -> Result<PathBuf, String> {
    if !ALL_BUILT.load(Ordering::Relaxed) {
        run("cargo", &["build", "--quiet", "--package", "client", "--example", example])?;
    }
    Ok(target().join("debug/examples").join(example))
}
