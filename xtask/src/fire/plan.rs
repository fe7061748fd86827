//! The faults of a run and their times, which follow from the seed alone.

use std::time::Duration;

use crate::random::Random;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The server is killed with SIGKILL, and killed again in the given number of the following starts.
    Kill { again: u64 },
    /// The server is killed with SIGKILL during an operation of an administrator: after this part of the time that such
    /// an operation usually takes.
    KillDuring { operation: &'static str, part: f64 },
    /// The file system stops without a warning, then the server is killed. With `shortly_after_kill` this happens
    /// soon after the server was killed and has recovered.
    PowerLoss { shortly_after_kill: bool },
    /// The server is suspended with SIGSTOP, and continued with SIGCONT after this many milliseconds.
    Pause { ms: u64 },
    /// The server is stopped with SIGTERM, and started again.
    Stop,
    /// Another program fills the file system, and frees it after this many milliseconds.
    /// The server may be killed meanwhile, and then starts on the full disk.
    Full { ms: u64, kills: bool },
    /// For this many milliseconds the server's calls of one kind fail with EIO.
    DiskErrors { of: DiskCall, ms: u64 },
    /// No fault: everything is read and judged, and the server checks itself.
    Check,
}

/// The operations of administrators that change tables, by the names that `proof/fire` gives them.
const OPERATIONS: [&str; 18] = [
    "flush",
    "major-compaction",
    "split",
    "merge",
    "alter-family",
    "alter-table",
    "add-family",
    "delete-family",
    "snapshot",
    "snapshot-of-files",
    "clone",
    "restore",
    "delete-snapshot",
    "create",
    "disable",
    "enable",
    "truncate",
    "delete",
];

/// What the server asks of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiskCall {
    Read,
    Write,
    Sync,
}

impl DiskCall {
    const ALL: [DiskCall; 3] = [DiskCall::Read, DiskCall::Write, DiskCall::Sync];

    /// The system calls, separated by commas. Files are read and written at offsets, so no socket is among them.
    pub(crate) fn system_calls(self) -> &'static str {
        match self {
            DiskCall::Read => "pread64,preadv,preadv2",
            DiskCall::Write => "pwrite64,pwritev,pwritev2",
            DiskCall::Sync => "fsync,fdatasync,sync_file_range",
        }
    }
}

/// Number of faults in an hour, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) kills: u64,
    pub(crate) kills_during_operations: u64,
    pub(crate) power_losses: u64,
    pub(crate) pauses: u64,
    pub(crate) stops: u64,
    pub(crate) full_disks: u64,
    pub(crate) disk_errors: u64,
    pub(crate) checks: u64,
}

impl Default for Rates {
    /// Returns more faults than RocksDB's crash test has.
    fn default() -> Rates {
        Rates {
            kills: 100,
            kills_during_operations: 40,
            power_losses: 60,
            pauses: 40,
            stops: 20,
            full_disks: 20,
            disk_errors: 20,
            checks: 0,
        }
    }
}

impl Rates {
    /// Returns no faults, and a check each minute.
    pub(crate) fn calm() -> Rates {
        Rates {
            kills: 0,
            kills_during_operations: 0,
            power_losses: 0,
            pauses: 0,
            stops: 0,
            full_disks: 0,
            disk_errors: 0,
            checks: 60,
        }
    }
}

/// A fault and its time since the beginning of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// Returns the faults of this many minutes, sorted by time. Each kind occurs in proportion, even in a short run.
pub(crate) fn plan(seed: u64, minutes: f64, rates: &Rates) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut faults = Vec::new();
    let mut some = |per_hour: u64, one: &mut dyn FnMut(&mut Random) -> Fault| {
        let count = (per_hour as f64 * minutes / 60.0).ceil() as u64;
        faults.extend((0..count).map(|_| one(&mut random)));
    };
    some(rates.kills, &mut |random| Fault::Kill { again: random.below(6).saturating_sub(3) });
    // Each operation comes in its turn, so that all of them are interrupted equally often.
    let mut turn = seed as usize % OPERATIONS.len();
    some(rates.kills_during_operations, &mut |random| {
        turn += 1;
        let part = random.below(1_300) as f64 / 1_000.0;
        Fault::KillDuring { operation: OPERATIONS[turn % OPERATIONS.len()], part }
    });
    some(rates.power_losses, &mut |random| Fault::PowerLoss { shortly_after_kill: random.below(3) == 0 });
    some(rates.pauses, &mut |random| Fault::Pause { ms: 300 + random.below(5_000) });
    some(rates.stops, &mut |_| Fault::Stop);
    some(rates.full_disks, &mut |random| Fault::Full {
        ms: 500 + random.below(4_000),
        kills: random.below(3) == 0,
    });
    // Each kind of call comes in its turn, so that three times of disk errors have all kinds.
    let mut turn = seed as usize % DiskCall::ALL.len();
    some(rates.disk_errors, &mut |random| {
        turn += 1;
        Fault::DiskErrors { of: DiskCall::ALL[turn % DiskCall::ALL.len()], ms: 200 + random.below(2_000) }
    });
    some(rates.checks, &mut |_| Fault::Check);
    for index in (1..faults.len()).rev() {
        faults.swap(index, random.below(index as u64 + 1) as usize);
    }
    // The time is divided into as many intervals as there are faults of this kind. Each fault happens at a random time
    // of its interval.
    let interval_ms = minutes * 60_000.0 / faults.len().max(1) as f64;
    let mut steps = Vec::new();
    for (index, fault) in faults.into_iter().enumerate() {
        let at_ms = interval_ms * (index as f64 + random.below(1_000) as f64 / 1_000.0);
        steps.push(Step { at: Duration::from_millis(at_ms as u64), fault });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_plan() {
        let rates = Rates::default();
        assert_eq!(plan(7, 10.0, &rates), plan(7, 10.0, &rates));
        assert_ne!(plan(7, 10.0, &rates), plan(8, 10.0, &rates));
    }

    #[test]
    fn an_hour_has_every_fault_as_often_as_it_should() {
        let rates = Rates::default();
        let steps = plan(7, 60.0, &rates);
        let count = |of: fn(&Fault) -> bool| steps.iter().filter(|step| of(&step.fault)).count() as u64;
        assert_eq!(count(|fault| matches!(fault, Fault::Kill { .. })), rates.kills);
        let during = rates.kills_during_operations;
        assert_eq!(count(|fault| matches!(fault, Fault::KillDuring { .. })), during);
        for operation in OPERATIONS {
            let is_struck = |step: &Step| matches!(step.fault, Fault::KillDuring { operation: struck, .. } if struck == operation);
            assert!(steps.iter().any(is_struck), "{operation}");
        }
        assert_eq!(count(|fault| matches!(fault, Fault::PowerLoss { .. })), rates.power_losses);
        assert_eq!(count(|fault| matches!(fault, Fault::Pause { .. })), rates.pauses);
        assert_eq!(count(|fault| matches!(fault, Fault::Stop)), rates.stops);
        assert_eq!(count(|fault| matches!(fault, Fault::Full { .. })), rates.full_disks);
        assert_eq!(count(|fault| matches!(fault, Fault::DiskErrors { .. })), rates.disk_errors);
        for of in DiskCall::ALL {
            let is_struck =
                |step: &Step| matches!(step.fault, Fault::DiskErrors { of: struck, .. } if struck == of);
            let struck = steps.iter().filter(|step| is_struck(step)).count() as u64;
            assert!(struck >= rates.disk_errors / 3, "{of:?}");
        }
        assert!(steps.is_sorted_by_key(|step| step.at));
        assert!(steps.last().is_some_and(|last| last.at <= Duration::from_secs(3_600)));
        assert!(steps.iter().any(|step| matches!(step.fault, Fault::Kill { again: 2 })));
    }

    #[test]
    fn a_calm_hour_has_checks_alone() {
        let steps = plan(7, 60.0, &Rates::calm());
        assert_eq!(steps.len(), 60);
        assert!(steps.iter().all(|step| step.fault == Fault::Check));
    }
}
