//! `bellows doctor`: looks at the machine with the settings of a server, before it starts or while it runs.
//!
//! Every check reads facts and then judges them with a function that depends on these facts only. A check that finds
//! something says what was found and what to do. No file of a server is changed: the check of the disk writes one file
//! of its own and deletes it, and the check of an object store sends the requests of a server's start.

mod machine;
mod network;
mod place;

use std::fmt;

use env::{Runtime, World};
use serde_json::{Value, json};

use crate::args::Doctor;
use crate::failure::Failure;
use crate::settings::Settings;

/// The result of a check, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// The check found nothing wrong.
    Good,
    /// The check could not read the facts that it needs, or has no meaning on this machine.
    Unknown,
    /// A server would run, but will have trouble sooner or later.
    Warning,
    /// A server would not start, or would lose acknowledged writes.
    Bad,
}

impl State {
    /// Returns the name of the state in the output, including JSON.
    fn name(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Unknown => "unknown",
            State::Warning => "warning",
            State::Bad => "failed",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The name of the check, such as `disk space`.
    pub(crate) check: &'static str,
    pub(crate) state: State,
    /// The facts that were found.
    pub(crate) found: String,
    /// What to do about it; empty when there is nothing to do.
    pub(crate) remedy: String,
}

impl Finding {
    fn new(
        check: &'static str,
        state: State,
        found: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> Finding {
        Finding { check, state, found: found.to_string(), remedy: remedy.to_string() }
    }

    fn good(check: &'static str, found: impl fmt::Display) -> Finding {
        Finding::new(check, State::Good, found, "")
    }

    fn unknown(check: &'static str, found: impl fmt::Display) -> Finding {
        Finding::new(check, State::Unknown, found, "")
    }

    fn warning(check: &'static str, found: impl fmt::Display, remedy: impl fmt::Display) -> Finding {
        Finding::new(check, State::Warning, found, remedy)
    }

    fn bad(check: &'static str, found: impl fmt::Display, remedy: impl fmt::Display) -> Finding {
        Finding::new(check, State::Bad, found, remedy)
    }
}

/// The results of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report(Vec<Finding>);

impl Report {
    /// Whether no check failed. Warnings do not count.
    pub(crate) fn is_well(&self) -> bool {
        self.0.iter().all(|finding| finding.state != State::Bad)
    }

    /// Returns the report for programs. Names of checks and states stay the same from version to version.
    pub(crate) fn to_json(&self) -> Value {
        let checks: Vec<Value> = self
            .0
            .iter()
            .map(|finding| {
                json!({
                    "check": finding.check,
                    "state": finding.state.name(),
                    "found": finding.found,
                    "remedy": finding.remedy,
                })
            })
            .collect();
        json!({ "well": self.is_well(), "checks": checks })
    }

    fn count(&self, state: State) -> usize {
        self.0.iter().filter(|finding| finding.state == state).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.0 {
            writeln!(f, "{:8} {:15} {}", finding.state.name(), finding.check, finding.found)?;
            if !finding.remedy.is_empty() {
                writeln!(f, "{:24} → {}", "", finding.remedy)?;
            }
        }
        let (bad, warnings) = (self.count(State::Bad), self.count(State::Warning));
        match (bad, warnings) {
            (0, 0) => writeln!(f, "\nall is well"),
            (0, warnings) => writeln!(f, "\nit will run; {warnings} to look at"),
            (bad, warnings) => writeln!(f, "\n{bad} to mend, {warnings} to look at"),
        }
    }
}

/// Makes all checks. Fails only if it cannot begin.
pub(crate) fn examine(options: &Doctor) -> Result<Report, Failure> {
    let world = World::real();
    // A server raises its limit of open files when it starts. The check does the same, to see the limit that a server
    // gets.
    let _stays = env::raise_open_files();
    let settings = match Settings::gather(&options.start) {
        Ok(settings) => settings,
        Err(failure) => {
            let remedy = "correct it; bellows keys lists the keys, bellows start --help the options";
            return Ok(Report(vec![Finding::bad("configuration", failure, remedy)]));
        }
    };
    let runtime = Runtime::start("doctor", 1)
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    let running = network::running(&runtime, settings.web);
    let mut findings = vec![configuration(&settings)];
    findings.extend(place::examine(&world, &settings, running.is_some()));
    findings.extend(machine::examine(&settings));
    findings.extend(network::examine(&runtime, &settings, running.as_ref()));
    Ok(Report(findings))
}

fn configuration(settings: &Settings) -> Finding {
    let unknown: Vec<&str> = settings.conf.unknown().collect();
    if unknown.is_empty() {
        return Finding::good("configuration", "every key that is set has a meaning");
    }
    Finding::warning(
        "configuration",
        format!("without a meaning here: {}", unknown.join(", ")),
        "look for a mistake in the name; keys of HBase that have no meaning here do no harm. bellows keys lists those that act",
    )
}

/// Formats a number of bytes for people.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KB", "MB", "GB", "TB"];
    let mut unit = 0;
    let mut value = count as f64;
    while value >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(states: &[State]) -> Report {
        let finding = |state: &State| Finding::new("disk space", *state, "found", "");
        Report(states.iter().map(finding).collect())
    }

    #[test]
    fn only_a_failed_check_ends_badly() {
        use State::{Bad, Good, Unknown, Warning};
        assert!(of(&[Good, Unknown, Warning]).is_well());
        assert!(!of(&[Good, Bad]).is_well());
        assert!(of(&[Good]).to_string().ends_with("\nall is well\n"));
        assert!(of(&[Warning, Warning]).to_string().ends_with("\nit will run; 2 to look at\n"));
        assert!(of(&[Warning, Bad]).to_string().ends_with("\n1 to mend, 1 to look at\n"));
    }

    #[test]
    fn a_remedy_follows_its_check_in_text_and_is_part_of_it_in_json() {
        let report = Report(vec![Finding::bad("names", "no address", "add it to /etc/hosts")]);
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "failed   names           no address");
        assert_eq!(lines[1].trim_start(), "→ add it to /etc/hosts");
        let json = report.to_json();
        assert_eq!(json["well"], false);
        assert_eq!(
            json["checks"][0],
            json!({"check": "names", "state": "failed", "found": "no address", "remedy": "add it to /etc/hosts"})
        );
    }

    #[test]
    fn invalid_settings_are_the_only_finding() {
        let mut options = Doctor::default();
        options.start.define = vec![("hbase.regionserver.port".to_owned(), "many".to_owned())];
        let report = examine(&options).expect("it begins");
        assert!(!report.is_well() && report.0.len() == 1, "{report}");
        assert!(report.0[0].found.contains("hbase.regionserver.port"), "{report}");
    }

    #[test]
    fn bytes_have_three_digits() {
        let texts = [0, 1_023, 1_536, 200 << 20, 3 << 40].map(bytes);
        assert_eq!(texts, ["0 bytes", "1023 bytes", "1.5 KB", "200 MB", "3.0 TB"]);
    }
}
