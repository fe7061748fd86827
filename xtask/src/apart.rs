//! Keeps a server and its generator from disturbing each other, as if each had its own machine.
//!
//! Otherwise they wait for each other's time slices, and the system's own work (such as DAMON's `kdamond`) can take a
//! processor for 3 to 6 ms several times in 100 ms. So `taskset` gives each its own processors, and the server gets a
//! higher priority than the system's work: by `chrt` where its threads do one thing, as the generator does itself; by
//! `renice` where they also compact, because a real-time thread would not yield to the server's own threads. The
//! programs are in Debian's util-linux and bsdutils.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// The nice level that precedes all ordinary threads.
const FIRST: &str = "-20";

/// Two sets of processors, as `taskset` takes them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Apart {
    server: String,
    generator: String,
}

impl Apart {
    /// Halves the processors that this process may use; the generator gets the larger half.
    pub(crate) fn new() -> Result<Apart, String> {
        let file = Path::new("/proc/self/status");
        let status = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let apart = Apart::of(list.unwrap_or_default())?;
        for before in [&apart.before_server()[..], &["nice", "-n", FIRST, "taskset", "-c", &apart.generator]]
        {
            let may = Command::new(before[0]).args(&before[1..]).arg("true").status();
            if !may.is_ok_and(|status| status.success()) {
                return Err(format!(
                    "`{}` cannot be used: install util-linux, and be root or have the right to go before other threads \
                     (CAP_SYS_NICE)",
                    before.join(" ")
                ));
            }
        }
        Ok(apart)
    }

    fn of(list: &str) -> Result<Apart, String> {
        let wrong = || format!("processors {list:?} are not understood");
        let mut all: Vec<u32> = Vec::new();
        for part in list.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
            all.extend(number(first)?..=number(last)?);
        }
        let (server, generator) = all.split_at(all.len() / 2);
        if server.is_empty() {
            return Err("a server and its generator apart need two processors".to_owned());
        }
        let words = |of: &[u32]| of.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        Ok(Apart { server: words(server), generator: words(generator) })
    }

    /// Returns the words that precede a server's command line: they start it on its processors, with its priority.
    pub(crate) fn before_server(&self) -> [&str; 6] {
        ["taskset", "-c", &self.server, "chrt", "-f", "1"]
    }

    /// Moves the threads of a running server, and those that they start later, to its processors. Raises the priority
    /// of threads that have not lowered it themselves.
    pub(crate) fn settle(&self, id: u32) -> Outcome {
        let tasks = format!("/proc/{id}/task");
        let mut settled = BTreeSet::new();
        // A thread that was not moved yet may start another one. So the list of threads is read again until it has no
        // new one.
        loop {
            let all = std::fs::read_dir(&tasks).map_err(|error| format!("{tasks}: {error}"))?;
            let all: BTreeSet<String> =
                all.flatten().map(|thread| thread.file_name().to_string_lossy().into_owned()).collect();
            let new: Vec<String> = all.difference(&settled).cloned().collect();
            if new.is_empty() {
                return Ok(());
            }
            for thread in new {
                let done = self.settle_thread(&thread, &format!("{tasks}/{thread}/stat"));
                // If the thread has ended, it need not be moved.
                if done.is_err() && Path::new(&tasks).join(&thread).exists() {
                    return done;
                }
                settled.insert(thread);
            }
        }
    }

    fn settle_thread(&self, thread: &str, stat: &str) -> Outcome {
        let quiet = |program: &str, words: [&str; 4]| {
            let status =
                Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
            match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(format!("{program} {}: {status}", words.join(" "))),
                Err(error) => Err(format!("{program}: {error}")),
            }
        };
        quiet("taskset", ["-c", "-p", &self.server, thread])?;
        let text = std::fs::read_to_string(stat).map_err(|error| format!("{stat}: {error}"))?;
        if nice_of(&text) == Some(0) { quiet("renice", ["-n", FIRST, "-p", thread]) } else { Ok(()) }
    }

    /// Returns the command that runs the generator on its processors.
    pub(crate) fn generator(&self, command: &Command) -> Command {
        let mut apart = Command::new("taskset");
        apart.args(["-c", &self.generator]).arg(command.get_program()).args(command.get_args());
        apart
    }
}

/// Returns a thread's nice level: the 19th field of its `stat`. The second field, its name in parentheses, may contain
/// anything.
fn nice_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(16)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nice_value_of_a_process_is_parsed() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 39 19 14 0 100 0";
        assert_eq!((nice_of(stat), nice_of("7 (a")), (Some(19), None));
    }

    #[test]
    fn each_has_a_half() {
        let of = |list: &str| Apart::of(list).map(|apart| (apart.server, apart.generator));
        assert_eq!(of("\t0-1\n"), Ok(("0".into(), "1".into())));
        assert_eq!(of("0,2-3,7,9"), Ok(("0,2".into(), "3,7,9".into())));
        assert!(of("3").is_err_and(|error| error.contains("two processors")));
        assert!(of("").is_err_and(|error| error.contains("not understood")));
    }
}
