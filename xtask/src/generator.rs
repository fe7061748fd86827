//! The load generator, `bellows bench`, as a process.

use std::path::Path;
use std::process::Command;

/// Returns the generator's output, if it reports no error.
pub(crate) fn said(generator: &mut Command) -> Result<String, String> {
    let output = generator.output().map_err(|error| format!("the generator cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || !said.contains("\"wrong\":0") || !said.contains("\"failures\":{}") {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{generator:?}: {} {said}", errors.lines().last().unwrap_or_default()));
    }
    Ok(said)
}

/// Returns the command of a generator that loads `table` of the server at `address`.
pub(crate) fn generator(bellows: &Path, address: &str, table: &str, words: &[&str]) -> Command {
    let mut command = Command::new(bellows);
    command.args(["bench", "--at", address, "--table", table]).args(words);
    command
}

/// Returns the median; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    match values.get(upper) {
        Some(middle) if values.len().is_multiple_of(2) => f64::midpoint(values[upper - 1], *middle),
        Some(middle) => *middle,
        None => f64::NAN,
    }
}
