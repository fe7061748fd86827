//! A server and its generator apart, as if each had a machine of its own.
//!
//! Beside each other they wait for each other's turns. And a machine has chores: a thread of the system that looks which
//! memory is in use (DAMON's `kdamond`) was seen to take a processor for 3 to 6 ms at a time, several times in a tenth of a
//! second. So each has processors that the other does not use, by `taskset`, and the server goes before what the machine
//! does besides: by `chrt`, as the generator does by itself, where its threads do one thing; by `renice` where they compact
//! beside those that answer, for who goes before all others by `chrt` does not make way for its own either. The programs are
//! in Debian's util-linux and bsdutils.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// What `renice` makes of a thread that goes before all that have not asked for it.
const FIRST: &str = "-20";

/// The processors of one and of the other, as `taskset` wants them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Apart {
    server: String,
    generator: String,
}

impl Apart {
    /// The processors that this process may use, one half each; the greater half is the generator's.
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

    /// What a server's command line begins with.
    pub(crate) fn before_server(&self) -> [&str; 6] {
        ["taskset", "-c", &self.server, "chrt", "-f", "1"]
    }

    /// Moves the threads of a server that runs, and those that they will start, to its processors, and before other threads
    /// those that have not stepped back themselves.
    pub(crate) fn settle(&self, id: u32) -> Outcome {
        let tasks = format!("/proc/{id}/task");
        let mut settled = BTreeSet::new();
        // One that is not settled may start another meanwhile.
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
                // A thread that has ended meanwhile needs no place.
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

    /// A command on the generator's processors.
    pub(crate) fn generator(&self, command: &Command) -> Command {
        let mut apart = Command::new("taskset");
        apart.args(["-c", &self.generator]).arg(command.get_program()).args(command.get_args());
        apart
    }
}

/// A thread's nice value, as its `stat` has it: the 19th field. The second, its name in parentheses, may be anything.
fn nice_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(16)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_stepped_back_is_known() {
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
