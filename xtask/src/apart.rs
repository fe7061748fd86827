//! A server and its generator apart, as if each had a machine of its own.
//!
//! Beside each other they wait for each other's turns. And a machine has chores: a thread of the system that looks which
//! memory is in use (DAMON's `kdamond`) was seen to take a processor for 3 to 6 ms at a time, several times in a tenth of a
//! second. So each has processors that the other does not use, by `taskset`, and the server goes before what the machine
//! does besides: by `chrt`, as the generator does by itself, where its threads do one thing; by `renice` where they compact
//! beside those that answer, for who goes before all others by `chrt` does not make way for its own either. The programs are
//! in Debian's util-linux and bsdutils.

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
        let may = Command::new("chrt").args(["-f", "1", "taskset", "-c", "0", "true"]).status();
        if !may.is_ok_and(|status| status.success()) {
            return Err("`chrt -f 1` and `taskset` cannot be used: install util-linux, and be root or have the right to go \
                        before other threads (CAP_SYS_NICE)"
                .to_owned());
        }
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Apart::of(list.unwrap_or_default())
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

    /// Moves the threads of a server that runs, and those that they will start, to its processors and before other threads.
    pub(crate) fn settle(&self, id: u32) -> Outcome {
        let tasks = format!("/proc/{id}/task");
        let threads = std::fs::read_dir(&tasks).map_err(|error| format!("{tasks}: {error}"))?;
        for thread in threads.flatten() {
            let thread = thread.file_name().to_string_lossy().into_owned();
            for (program, words) in
                [("taskset", ["-c", "-p", &self.server, &thread]), ("renice", ["-n", FIRST, "-p", &thread])]
            {
                let done =
                    Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
                let is_done = done.map_err(|error| format!("{program}: {error}"))?.success();
                // A thread that has ended meanwhile needs no place.
                if !is_done && Path::new(&tasks).join(&thread).exists() {
                    return Err(format!("{program} could not move thread {thread} of server {id}"));
                }
            }
        }
        Ok(())
    }

    /// A command on the generator's processors.
    pub(crate) fn generator(&self, command: &Command) -> Command {
        let mut apart = Command::new("taskset");
        apart.args(["-c", &self.generator]).arg(command.get_program()).args(command.get_args());
        apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_half() {
        let of = |list: &str| Apart::of(list).map(|apart| (apart.server, apart.generator));
        assert_eq!(of("\t0-1\n"), Ok(("0".into(), "1".into())));
        assert_eq!(of("0,2-3,7,9"), Ok(("0,2".into(), "3,7,9".into())));
        assert!(of("3").is_err_and(|error| error.contains("two processors")));
        assert!(of("").is_err_and(|error| error.contains("not understood")));
    }
}
