//! Builds the binary that is shipped, and checks its size, its symbols, and that it runs.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, server};

/// Maximum size of the shipped binary in bytes.
const SIZE_MAX: u64 = 36_000_000;

/// Runs `cargo xtask release`.
pub(crate) fn run() -> Outcome {
    let binary = server::release(None)?;
    let size = std::fs::metadata(&binary).map_err(|error| format!("{}: {error}", binary.display()))?.len();
    if size > SIZE_MAX {
        return Err(format!("{} has {size} bytes, expected at most {SIZE_MAX}", binary.display()));
    }
    let sections = read("readelf", &["--sections", "--wide"], &binary)?;
    if sections.contains(".debug_") {
        return Err(format!("{} has debug information; the profile is to strip it", binary.display()));
    }
    if !sections.contains(".symtab") {
        return Err(format!("{} has no function names; backtraces need them", binary.display()));
    }
    let version = Command::new(&binary).arg("--version").output();
    let version = version.map_err(|error| format!("{}: {error}", binary.display()))?;
    say!("{} {size} bytes: {}", binary.display(), String::from_utf8_lossy(&version.stdout).trim());
    if version.status.success() { Ok(()) } else { Err(format!("--version ended with {}", version.status)) }
}

fn read(program: &str, arguments: &[&str], file: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .arg(file)
        .output()
        .map_err(|error| format!("cannot start {program} (package binutils): {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {} ended with {}", file.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
