//! Runs the recipes of `recipes/` and compares what they print with what they printed on Apache HBase.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::hbase::HBase;
use crate::server::Server;
use crate::{Outcome, programs};

pub(crate) const USAGE: &str = "       cargo xtask recipes --against HOST:PORT | --record   (against a master or region server, Bellows or HBase;
                  --record starts Apache HBase and keeps what the recipes print there)";

/// Runs all recipes against a server of its own.
pub(crate) fn suite() -> Outcome {
    let server = Server::start("recipes", &[])?;
    against(&server.rpc)?;
    server.stop()
}

/// Runs `cargo xtask recipes` with these options.
pub(crate) fn run_with(options: &[&str]) -> Outcome {
    match options {
        ["--against", address] => against(address),
        ["--record"] => record(),
        _ => Err(format!("usage:\n{USAGE}")),
    }
}

fn expected(name: &str) -> PathBuf {
    PathBuf::from(format!("recipes/expected/{name}.txt"))
}

fn against(address: &str) -> Outcome {
    let printed = printed(address)?;
    let kept =
        std::fs::read_dir("recipes/expected").map_err(|error| format!("recipes/expected: {error}"))?.count();
    if printed.len() != kept {
        return Err(format!("{} recipes ran, and recipes/expected has {kept}", printed.len()));
    }
    for (name, lines) in printed {
        let path = expected(&name);
        let kept = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for (number, (line, kept)) in lines.lines().zip(kept.lines()).enumerate() {
            if line != kept {
                let place = format!("{}:{}", path.display(), number + 1);
                return Err(format!("{place}: Apache HBase printed {kept:?}, this cluster {line:?}"));
            }
        }
        if lines.lines().count() != kept.lines().count() {
            return Err(format!("{}: a recipe printed {lines:?}", path.display()));
        }
    }
    Ok(())
}

fn record() -> Outcome {
    let hbase = HBase::start(&[])?;
    for (name, lines) in printed(&hbase.rpc)? {
        let path = expected(&name);
        std::fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    hbase.remove()
}

/// Returns the output of each recipe, without lines that may differ.
fn printed(address: &str) -> Result<BTreeMap<String, String>, String> {
    let mut command = Command::new(programs::build("recipes")?);
    let output = command
        .arg(address)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    crate::print(&text);
    if !output.status.success() {
        return Err(format!("the recipes ended with {}", output.status));
    }
    let mut all = BTreeMap::new();
    for recipe in text.split("== ").skip(1) {
        let (name, lines) = recipe.split_once('\n').unwrap_or((recipe, ""));
        let lines: String =
            lines.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
        all.insert(name.to_owned(), lines);
    }
    Ok(all)
}
