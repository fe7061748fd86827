//! Checks of the machine: memory, limits and the clock.

use std::path::Path;
use std::time::Duration;

use env::{ClockState, Limits};
use storage::MachineMemory;

use super::{Finding, bytes};
use crate::bucket::Engine;
use crate::settings::Settings;

/// Minimum memory with which a server is useful, in bytes.
const MEMORY_MIN: u64 = 1 << 30;
/// Maximum fraction of the memory for memstores and caches together; the rest is for requests, compactions and the
/// system.
const MEMORY_SHARE: f64 = 0.8;
/// Number of open files below which a server fails under load: each store file, log file and connection is one.
const FILES_LEAST: u64 = 1_024;
/// Number of open files that is enough for thousands of regions and clients.
const FILES_ENOUGH: u64 = 32_768;
/// Number of threads that is enough for a server at its busiest.
const PROCESSES_ENOUGH: u64 = 2_048;
/// Maximum error of the clock that is accepted. HBase's master refuses servers beyond 30 s; timestamps of writes should
/// be far closer.
const CLOCK_ERROR_MAX: Duration = Duration::from_secs(1);

pub(super) fn examine(settings: &Settings) -> Vec<Finding> {
    let read = |path: &str| storage::read_text(Path::new(path)).ok();
    let cache = settings.cache.bytes_max as u64;
    let offheap = settings.bucket.as_ref().filter(|bucket| bucket.engine == Engine::Offheap);
    let planned = settings.memstore_bytes + cache + offheap.map_or(0, |bucket| bucket.bytes);
    let memory = Memory {
        of: MachineMemory::read(),
        swap_used: read("/proc/meminfo").and_then(|text| swap_used(&text)),
        planned,
    };
    let limits = env::limits();
    let container_processes = read("/sys/fs/cgroup/pids.max").and_then(|text| text.trim().parse().ok());
    vec![
        judge_memory(&memory),
        judge_files(limits),
        judge_processes(limits, container_processes),
        judge_clock(env::clock_state()),
    ]
}

/// The memory of the machine, and the memory that a server with these settings takes, in bytes.
#[derive(Clone, Debug, Default)]
struct Memory {
    of: MachineMemory,
    swap_used: Option<u64>,
    planned: u64,
}

/// Returns the number of bytes of swap in use, from the text of `/proc/meminfo`.
fn swap_used(text: &str) -> Option<u64> {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    Some(of("SwapTotal:")?.saturating_sub(of("SwapFree:")?) << 10)
}

fn judge_memory(memory: &Memory) -> Finding {
    const CHECK: &str = "memory";
    let (Some(machine), Some(usable)) = (memory.of.machine, memory.of.usable()) else {
        return Finding::unknown(CHECK, "the system does not tell how much memory it has");
    };
    let place = match &memory.of.limit {
        Some((_, file)) => format!("this container's {} ({})", bytes(usable), file.display()),
        None => format!("this machine's {}", bytes(usable)),
    };
    let found = format!("memstores and caches take up to {} of {place}", bytes(memory.planned));
    if memory.planned as f64 > usable as f64 * MEMORY_SHARE {
        let remedy = "lower hbase.regionserver.global.memstore.size and hfile.block.cache.size, which are shares of half of this \
                      memory, or hbase.bucketcache.size; or raise the limit of the container: else the system kills the \
                      server under load";
        return Finding::bad(CHECK, found, remedy);
    }
    if usable < MEMORY_MIN {
        let remedy = "give it 1 GB or more: small memstores make small files, and these many compactions";
        return Finding::warning(CHECK, found, remedy);
    }
    if let Some(swap) = memory.swap_used.filter(|swap| *swap > machine / 20) {
        let remedy = "end what takes the memory, or turn swap off (swapoff -a): a memstore that was swapped out makes requests wait";
        return Finding::warning(CHECK, format!("{found}; {} are swapped out", bytes(swap)), remedy);
    }
    Finding::good(CHECK, found)
}

fn judge_files(limits: Limits) -> Finding {
    const CHECK: &str = "open files";
    let remedy = "raise the hard limit: LimitNOFILE=500000 in the systemd unit, nofile in /etc/security/limits.conf, or --ulimit \
                  nofile=500000 of the container";
    match limits.open_files {
        None => Finding::good(CHECK, "no limit"),
        Some(files) if files < FILES_LEAST => Finding::bad(CHECK, format!("at most {files}"), remedy),
        Some(files) if files < FILES_ENOUGH => {
            Finding::warning(CHECK, format!("at most {files}, expected {FILES_ENOUGH}"), remedy)
        }
        Some(files) => Finding::good(CHECK, format!("at most {files}")),
    }
}

fn judge_processes(limits: Limits, container: Option<u64>) -> Finding {
    const CHECK: &str = "threads";
    match [limits.processes, container].into_iter().flatten().min() {
        None => Finding::good(CHECK, "no limit"),
        Some(count) if count < PROCESSES_ENOUGH => Finding::warning(
            CHECK,
            format!("at most {count} threads of this user, expected {PROCESSES_ENOUGH}"),
            "raise the limit: TasksMax=infinity in the systemd unit, nproc in /etc/security/limits.conf, or --pids-limit of the \
             container",
        ),
        Some(count) => Finding::good(CHECK, format!("at most {count}")),
    }
}

fn judge_clock(state: std::io::Result<ClockState>) -> Finding {
    const CHECK: &str = "clock";
    let state = match state {
        Ok(state) => state,
        Err(error) => return Finding::unknown(CHECK, format!("the system does not tell ({error})")),
    };
    let remedy = "run chrony or systemd-timesyncd (timedatectl set-ntp true): the clock gives writes their timestamps, and an older \
                  timestamp hides a write behind an earlier one";
    if !state.is_synchronized {
        return Finding::warning(
            CHECK,
            "no time source keeps this machine's clock, as far as the system knows",
            remedy,
        );
    }
    let error = format!("kept by a time source, wrong by at most {} ms", state.error_max.as_millis());
    if state.error_max > CLOCK_ERROR_MAX {
        return Finding::warning(CHECK, error, remedy);
    }
    Finding::good(CHECK, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State::{Bad, Good, Unknown, Warning};

    #[test]
    fn memory_is_that_of_the_container_if_it_has_less() {
        let judge = |machine: u64, container: Option<u64>, swap: u64, planned: u64| {
            let limit = container.map(|limit| (limit << 20, "/sys/fs/cgroup/memory.max".into()));
            let memory = Memory {
                of: MachineMemory { machine: Some(machine << 20), limit },
                swap_used: Some(swap << 20),
                planned: planned << 20,
            };
            judge_memory(&memory)
        };
        assert_eq!(judge(8_192, None, 0, 4_096).state, Good);
        let small = judge(8_192, Some(4_096), 0, 4_096);
        assert!(small.state == Bad && small.found.contains("this container's 4.0 GB"), "{small:?}");
        assert_eq!(judge(512, None, 0, 200).state, Warning);
        assert_eq!(judge(8_192, None, 1_024, 4_096).state, Warning, "swapped out");
        assert_eq!(judge_memory(&Memory::default()).state, Unknown);
        let text = "MemTotal:  100 kB\nSwapTotal:  2048 kB\nSwapFree: 1024 kB\n";
        assert_eq!((swap_used(text), swap_used("MemTotal: 1 kB")), (Some(1 << 20), None));
    }

    #[test]
    fn limits_that_a_server_would_reach_have_a_remedy() {
        let files = |open_files| judge_files(Limits { open_files, processes: None });
        assert_eq!([None, Some(500_000)].map(|count| files(count).state), [Good, Good]);
        assert_eq!([Some(4_096), Some(256)].map(|count| files(count).state), [Warning, Bad]);
        assert!(files(Some(256)).remedy.contains("LimitNOFILE"));
        let threads =
            |processes, container| judge_processes(Limits { open_files: None, processes }, container);
        assert_eq!((threads(None, None).state, threads(Some(60_000), None).state), (Good, Good));
        assert_eq!(threads(Some(60_000), Some(100)).state, Warning, "the container's limit is less");
        assert!(threads(Some(100), None).remedy.contains("TasksMax"));
    }

    #[test]
    fn a_clock_that_is_not_synchronized_is_reported() {
        let clock = |is_synchronized, ms| {
            judge_clock(Ok(ClockState { is_synchronized, error_max: Duration::from_millis(ms) })).state
        };
        assert_eq!((clock(true, 30), clock(true, 5_000), clock(false, 0)), (Good, Warning, Warning));
        assert_eq!(judge_clock(Err(std::io::ErrorKind::Unsupported.into())).state, Unknown);
    }
}
