//! Counts all system calls of a process, by the `perf` program where it is installed and allowed.
//!
//! `/proc/<pid>/io` counts only calls that read or write files and pipes, not those on sockets and threads.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{Error, Result};

/// A count that is under way.
#[derive(Debug)]
pub(crate) struct Tally(Child);

impl Tally {
    /// Starts counting for the time `during`.
    pub(crate) fn start(pid: u32, during: Duration) -> Result<Tally> {
        Command::new("perf")
            .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &pid.to_string()])
            .args(["--", "sleep", &during.as_secs_f64().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map(Tally)
            .map_err(|error| Error::Calls(error.to_string()))
    }

    /// Waits until the time is over, and returns the count. Fails if `perf` reported none.
    pub(crate) fn finish(self) -> Result<u64> {
        let output = self.0.wait_with_output().map_err(|error| Error::Calls(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stderr);
        counted(&text).ok_or_else(|| Error::Calls(text.trim().replace('\n', " ")))
    }
}

/// Returns the count: the first field of the line with the event. `None` if there is no such line, or no number in it.
fn counted(text: &str) -> Option<u64> {
    text.lines().find(|line| line.contains("raw_syscalls:sys_enter"))?.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_the_first_field() {
        assert_eq!(counted("12345,,raw_syscalls:sys_enter,1000,100.00,,\n"), Some(12_345));
        assert_eq!(counted("<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n"), None);
        assert_eq!(counted("No permission to enable raw_syscalls event.\n"), None);
    }
}
