//! The machine's name, and what the system shows about this process.

/// Returns the machine's host name, by which other machines in its network probably know it; `None` if it has none, or
/// one that is not UTF-8.
pub fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    // Linux reports "(none)" for a machine without a name.
    (!name.is_empty() && name != "(none)").then_some(name)
}

/// A thread of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// The system's id of the thread.
    pub id: u64,
    /// The thread's name, cut to 15 bytes.
    pub name: String,
    /// `RUNNABLE`, `WAITING`, or `BLOCKED` while it waits for a device.
    pub state: &'static str,
    /// CPU time that the thread has used, in ms.
    pub cpu_ms: u64,
}

/// Returns the threads of this process, sorted by id; none where the system does not show them.
pub fn threads() -> Vec<ThreadState> {
    let folder = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut threads: Vec<ThreadState> = folder
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            // The line begins with `7 (a name) S`. The name may contain brackets and spaces, so it ends at the last
            // bracket.
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let (head, rest) = stat.rsplit_once(')')?;
            let (_, name) = head.split_once('(')?;
            let mut fields = rest.split_whitespace();
            let state = match fields.next()? {
                "R" => "RUNNABLE",
                "D" => "BLOCKED",
                _ => "WAITING",
            };
            // User and system time are the 12th and 13th field after the name, in ticks of 10 ms.
            let ticks: u64 = fields.skip(10).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
            Some(ThreadState { id, name: name.to_owned(), state, cpu_ms: ticks * 10 })
        })
        .collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn every_thread_is_shown_by_its_name() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::Builder::new()
            .name("a (thread)".to_owned())
            .spawn(move || receiver.recv())
            .expect("a thread");
        // A thread sets its name when it begins to run, so the test waits for that.
        let found = (0..1_000).any(|_| {
            std::thread::yield_now();
            threads().iter().any(|thread| thread.name == "a (thread)" && thread.state != "BLOCKED")
        });
        assert!(found, "{:?}", threads());
        drop(sender);
        let _ended = waiting.join();
    }

    #[test]
    fn the_name_is_the_one_that_the_system_shows() {
        let shown = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux shows it");
        let shown = Some(shown.trim()).filter(|name| !name.is_empty() && *name != "(none)");
        assert_eq!(host_name().as_deref(), shown);
    }
}
