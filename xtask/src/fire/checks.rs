//! The checks of `cargo xtask fire` besides those of the clients, and what it counts for its report.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::Outcome;
use crate::web;

/// Fails if the server at this web address has found an inconsistency in its last check of itself.
pub(crate) fn of_itself(web: &str) -> Outcome {
    is_clean(&web::page(web, "/api/check")?)
}

fn is_clean(report: &str) -> Outcome {
    match report.contains("\"inconsistencies\":[]") && report.contains("\"failed_regions\":[]") {
        true => Ok(()),
        false => Err(format!("the server finds contradictions in its catalog: {report}")),
    }
}

/// Checks the files of a server that does not run, by `bellows fsck` with these options. Returns what it printed. Fails
/// if it found an inconsistency.
pub(crate) fn fsck(binary: &Path, data: &Path, options: &[String]) -> Result<String, String> {
    let output = Command::new(binary)
        .arg("fsck")
        .arg(data)
        .args(options)
        .output()
        .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(words);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("bellows fsck ended with {}: {words}{errors}", output.status))
}

/// Returns the size of a file in bytes.
pub(crate) fn size_of(file: &Path) -> Result<u64, String> {
    std::fs::metadata(file).map(|is| is.len()).map_err(|error| format!("{}: {error}", file.display()))
}

/// Fails unless the message with which the server ended names a file that it could not read or write. The message is in
/// the part of the log that begins at the byte `from`.
pub(crate) fn names_a_file(log: &Path, from: u64) -> Outcome {
    let message = last_message(log, from)?;
    match file_of(&message) {
        Some(_) => Ok(()),
        None => Err(format!("the message with which the server ended names no file: {message}")),
    }
}

/// Fails unless the last message of the server after the first `from` bytes of its log says that the disk is full.
pub(crate) fn names_a_full_disk(log: &Path, from: u64) -> Outcome {
    let message = last_message(log, from)?;
    let is_said = message.contains("is full") && message.contains("free some space");
    if is_said { Ok(()) } else { Err(format!("the server does not say that the disk is full: {message}")) }
}

/// Returns the last message of a server that has ended, after the first `from` bytes of its log.
fn last_message(log: &Path, from: u64) -> Result<String, String> {
    let bytes = std::fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let words = String::from_utf8_lossy(bytes.get(from as usize..).unwrap_or_default()).into_owned();
    let message = words.lines().rfind(|line| line.starts_with("bellows: ")).map(str::to_owned);
    message.ok_or_else(|| format!("the server ended without a message, see {}", log.display()))
}

/// Returns the file of a message such as `bellows: /data: cannot sync wal/5.wal: Input/output error`.
fn file_of(message: &str) -> Option<&str> {
    message.split("cannot ").skip(1).find_map(|words| {
        let (what, _why) = words.split_once(": ")?;
        what.split(' ').next_back().filter(|name| name.contains(['/', '.']))
    })
}

/// Fails if the counts of the clients, `KIND=COUNT,…`, have no split or no merge.
pub(crate) fn has_splits_and_merges(counts: &str) -> Outcome {
    let count = |kind: &str| {
        let counts = counts.split(',').filter_map(|part| part.split_once('='));
        counts.filter(|(name, _)| *name == kind).find_map(|(_, count)| count.parse::<u64>().ok()).unwrap_or(0)
    };
    for kind in ["split", "merge"] {
        if count(kind) == 0 {
            return Err(format!("the run proves too little: no {kind} succeeded"));
        }
    }
    Ok(())
}

/// Counts of kills, by what they interrupted.
#[derive(Debug, Default)]
pub(crate) struct Kills {
    all: u64,
    /// Kills while an administrator waited for an operation.
    during_operations: u64,
    /// Kills that left a change of a table which the next start had to finish.
    unfinished: u64,
    by_operation: BTreeMap<String, u64>,
}

impl Kills {
    /// Counts a kill. `under_way` has the operations, separated by commas, and `found` what `bellows fsck` said.
    pub(crate) fn count(&mut self, under_way: &str, found: &str) {
        self.all += 1;
        let operations = under_way.split(',').filter(|operation| !operation.is_empty());
        for operation in operations.clone() {
            *self.by_operation.entry(operation.to_owned()).or_default() += 1;
        }
        self.during_operations += u64::from(operations.count() > 0);
        self.unfinished += u64::from(found.contains("is not finished"));
    }

    pub(crate) fn line(&self) -> String {
        let by: Vec<String> =
            self.by_operation.iter().map(|(what, count)| format!("{what} {count}")).collect();
        format!(
            "{} kills, {} of them during an operation of an administrator ({}); {} left a change that the next start finished",
            self.all,
            self.during_operations,
            by.join(", "),
            self.unfinished
        )
    }
}

/// How busy the machine is, with everything that runs on it.
pub(crate) struct MachineLoad {
    began: Instant,
    waited_us: Option<u64>,
}

impl MachineLoad {
    pub(crate) fn begin() -> MachineLoad {
        MachineLoad { began: Instant::now(), waited_us: waited_us() }
    }

    pub(crate) fn line(&self) -> String {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(3).collect();
        let waited = self.waited_us.zip(waited_us()).map(|(before, now)| now - before);
        let part = waited.map(|us| us as f64 / self.began.elapsed().as_micros() as f64 * 100.0);
        let part = part.map_or("an unknown part".to_owned(), |part| format!("{part:.0} %"));
        format!(
            "the machine has {} processors and a load of {}; some task waited for a processor {part} of the time",
            std::thread::available_parallelism().map_or(0, usize::from),
            load.join(" ")
        )
    }
}

/// Returns the time for which some task of the machine waited for a processor, in µs since its start; `None` if the
/// system does not report it.
fn waited_us() -> Option<u64> {
    total_of(&std::fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn total_of(pressure: &str) -> Option<u64> {
    pressure.lines().find(|line| line.starts_with("some "))?.split_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_is_a_failure() {
        assert!(is_clean("{\"ended\":17,\"failed_regions\":[],\"inconsistencies\":[]}").is_ok());
        assert!(is_clean("{\"ended\":17,\"inconsistencies\":[\"a hole\"]}").is_err());
        let failed = "{\"ended\":17,\"failed_regions\":[\"t\"],\"inconsistencies\":[]}";
        assert!(is_clean(failed).is_err(), "rows are out of reach");
        assert!(is_clean("{\"ended\":null,\"inconsistencies\":null}").is_err(), "no check was made");
    }

    #[test]
    fn the_message_of_an_end_must_name_a_file() {
        let log = std::env::temp_dir().join(format!("fire-message-{}", std::process::id()));
        let named = "bellows: /data: cannot sync wal/5.wal: Input/output error (os error 5)\n";
        let old = format!("INFO ready\n{named}");
        let check = |new: &str| {
            std::fs::write(&log, format!("{old}{new}")).unwrap();
            names_a_file(&log, old.len() as u64)
        };
        assert_eq!(check(&format!("INFO ready\n{named}")), Ok(()));
        let region =
            "bellows: /data: region t,,1.ab: cannot write t/ab/f/c0: Input/output error (os error 5)\n";
        assert_eq!(check(region), Ok(()));
        for unnamed in ["Input/output error (os error 5)", "cannot continue: Input/output error (os error 5)"]
        {
            let why = check(&format!("bellows: /data: {unnamed}\n")).unwrap_err();
            assert!(why.contains("names no file"), "{why}");
        }
        let why = check("INFO ready\n").unwrap_err();
        assert!(why.contains("without a message"), "the message of an earlier end does not count: {why}");
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_run_without_splits_or_merges_fails() {
        assert_eq!(has_splits_and_merges("merge=1,refused to an administrator=2,split=3"), Ok(()));
        assert!(has_splits_and_merges("merge=1").unwrap_err().contains("no split"));
        assert!(has_splits_and_merges("merge=0,split=3").unwrap_err().contains("no merge"));
    }

    #[test]
    fn kills_are_counted_by_what_they_interrupted() {
        let mut kills = Kills::default();
        kills.count("split,clone", "note: a change of table t is not finished; the next start finishes it");
        kills.count("", "no inconsistency");
        kills.count("split", "no inconsistency");
        let line = kills.line();
        assert_eq!(
            line,
            "3 kills, 2 of them during an operation of an administrator (clone 1, split 2); \
             1 left a change that the next start finished"
        );
    }

    #[test]
    fn the_pressure_of_a_machine_is_read() {
        let pressure = "some avg10=1.53 avg60=1.87 avg300=1.73 total=1088168\nfull avg10=0.00 total=0\n";
        assert_eq!(total_of(pressure), Some(1_088_168));
        assert_eq!(total_of(""), None);
    }
}
