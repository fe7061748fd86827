//! Reads the cost of a process from `/proc`.
//!
//! On a shared machine CPU time is the reliable figure, because waiting for a core does not count. Its resolution is 10
//! ms, so over ten seconds it is exact to a thousandth of a core.

use std::path::Path;

use crate::{Error, Result};

/// Length of a clock tick in `/proc/<pid>/stat`, in µs: there are 100 a second on every Linux that user programs see.
const TICK_US: u64 = 10_000;

/// What a process has used since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user and system mode, in microseconds.
    pub cpu_us: u64,
    /// CPU time in system mode, in µs.
    pub system_us: u64,
    /// Resident memory in bytes; a page mapped several times counts once if the system reports that.
    pub resident: u64,
    /// Number of bytes written to disk; `None` if the system does not permit reading it.
    pub disk_written: Option<u64>,
    /// Number of system calls that read or wrote; `None` if the system does not permit reading it. Receiving from a
    /// socket may not count.
    pub io_calls: Option<u64>,
}

impl Usage {
    /// Reads the figures of a process.
    pub fn of(pid: u32) -> Result<Usage> {
        let text = |name: &str| {
            storage::read_text(Path::new(&format!("/proc/{pid}/{name}")))
                .map_err(|error| Error::Process { pid, reason: error.to_string() })
        };
        let strange = |what: &str| Error::Process { pid, reason: format!("its {what} has another form") };
        let stat = text("stat")?;
        let (user, system) = cpu(&stat).ok_or_else(|| strange("stat"))?;
        let status = text("status")?;
        let size = |name| kilobytes(&status, name).ok_or_else(|| strange("status"));
        // VmRSS counts a page once for each mapping, and ZGC maps its heap three times. So the other figure is
        // preferred.
        let resident = text("smaps_rollup").ok().and_then(|rollup| kilobytes(&rollup, "Pss:"));
        let resident = resident.map_or_else(|| size("VmRSS:"), Ok)?;
        // This file cannot be read if the process belongs to another user.
        let io = text("io").ok();
        let counted = |name| io.as_deref().and_then(|io| number(io, name));
        Ok(Usage {
            cpu_us: (user + system) * TICK_US,
            system_us: system * TICK_US,
            resident,
            disk_written: counted("write_bytes:"),
            io_calls: counted("syscr:").zip(counted("syscw:")).map(|(reads, writes)| reads + writes),
        })
    }
}

/// Returns user and system ticks. The program's name, in brackets, may contain any character.
fn cpu(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// What a process used between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time, in microseconds.
    pub cpu_us: u64,
    /// CPU time in the system, a part of `cpu_us`, in microseconds.
    pub system_us: u64,
    /// Resident memory at the end, in bytes.
    pub resident: u64,
    /// Number of bytes written to the disk; `None` if a reading lacks it.
    pub disk_written: Option<u64>,
    /// Number of system calls that read or wrote; `None` if a reading lacks it.
    pub io_calls: Option<u64>,
}

impl Cost {
    /// Returns the difference of two readings.
    pub fn between(before: Usage, after: Usage) -> Cost {
        let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        Cost {
            cpu_us: after.cpu_us.saturating_sub(before.cpu_us),
            system_us: after.system_us.saturating_sub(before.system_us),
            resident: after.resident,
            disk_written: less(after.disk_written, before.disk_written),
            io_calls: less(after.io_calls, before.io_calls),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_be_called_what_it_likes() {
        let stat = "42 (a) R b) S 1 1 1 0 -1 4194304 10 0 0 0 123 45 0 0 20 0 7 0 99 1 2 3";
        assert_eq!(cpu(stat), Some((123, 45)));
    }

    #[test]
    fn this_process_has_used_something() {
        let usage = Usage::of(std::process::id()).expect("it is ours");
        assert!(usage.resident > 0);
        assert!(usage.io_calls.is_some_and(|calls| calls > 0));
        let error = Usage::of(u32::MAX).expect_err("there is none").to_string();
        assert!(error.contains("--pid"), "{error}");
    }
}
