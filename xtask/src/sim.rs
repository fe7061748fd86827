//! Runs the simulation in `proof/sim`: `cargo xtask sim`.
//!
//! A killed simulated machine leaks its memory. So a process runs [`BATCH`] seeds, and a new process runs the next ones.
//! As many processes run at a time as the machine has processors.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::{Outcome, programs};

/// The usage of the command.
pub(crate) const USAGE: &str = "       cargo xtask sim [--seeds FROM..TO [--once]] | --seed N [--transcript [--steps]] [--planted N] [--fault KIND]… [--workload NAME]…
                    [--only] [--preset NAME]…
                  | planted [--hunts N] [--seeds N] [--only N,N,…]   (each mistake that the code has for this is found, from several first seeds)";

/// Number of seeds in one process.
const BATCH: u64 = 10;
/// Number of seeds in `cargo xtask test`.
const SEEDS: u64 = 200;
/// Minimum of the simulated time in a second of CPU time, in seconds, over at least [`SEEDS`] seeds. The time in which the
/// server rests without a client does not count, because it costs almost nothing. A debug build on an idle computer of 2026
/// reaches 33. A busy or slower one needs more CPU time for the same work.
const SPEED_MIN: f64 = 10.0;
/// Number of seeds between the first seeds of two hunts for a planted bug, and the maximum number of seeds of a hunt.
const HUNT_STRIDE: u64 = 1_000;
/// Number of hunts for each planted bug, each with other seeds.
const HUNTS: u64 = 5;

/// Runs the part of `cargo xtask test`.
pub(crate) fn suite() -> Outcome {
    run(&[])
}

/// Runs `cargo xtask sim` with these arguments.
pub(crate) fn run(words: &[&str]) -> Outcome {
    if let ["--seeds", range, "--once"] = words {
        let (from, to) = ends(range)?;
        return seeds(&programs::build_in_profile("sim", "proof")?, from, to, &["--once"]);
    }
    let program = programs::build("sim")?;
    match words {
        [] => seeds(&program, 0, SEEDS, &[]),
        ["--seeds", range] => {
            let (from, to) = ends(range)?;
            seeds(&program, from, to, &[])
        }
        ["planted", options @ ..] => {
            let (mut hunts, mut seeds, mut only) = (HUNTS, None, Vec::new());
            for option in options.chunks(2) {
                match option {
                    ["--hunts", count] => hunts = number(count)?,
                    ["--seeds", count] => seeds = Some(number(count)?.min(HUNT_STRIDE)),
                    ["--only", numbers] => only = numbers.split(',').collect(),
                    words => return Err(format!("{} is no option of planted", words.join(" "))),
                }
            }
            planted(&program, hunts, seeds, &only)
        }
        words => crate::run(&program.display().to_string(), words),
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

/// Returns the first seed of a range such as `0..200`, and the one after its last.
fn ends(range: &str) -> Result<(u64, u64), String> {
    let ends = range.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    ends.ok_or_else(|| format!("{range} is no range of seeds such as 0..200"))
}

fn simulate(program: &Path, words: &[&str]) -> Result<Output, String> {
    let output = Command::new(program).args(words).output();
    output.map_err(|error| format!("cannot start {}: {error}", program.display()))
}

/// Calls `act` with 0, 1, 2 … below `count`, in as many threads as there are processors, until one call fails.
fn side_by_side(count: u64, act: impl Fn(u64) -> Outcome + Sync) -> Outcome {
    let (next, failure) = (AtomicU64::new(0), Mutex::new(None));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || failure.lock().expect("no panic").is_some() {
                        return;
                    }
                    if let Err(words) = act(index) {
                        failure.lock().expect("no panic").get_or_insert(words);
                    }
                }
            });
        }
    });
    failure.into_inner().expect("no panic").map_or(Ok(()), Err)
}

/// The sums over the reports of all processes so far. Of each seed they have the first run only.
#[derive(Default)]
struct Sums {
    /// Simulated time in hours.
    hours: f64,
    /// The part of it in which the server rested without a client.
    rest_hours: f64,
    /// CPU time in seconds.
    cpu_seconds: f64,
    /// For each counted event the number of occurrences, and the number of seeds with one.
    counts: BTreeMap<String, (u64, u64)>,
}

impl Sums {
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((_, after)) = line.split_once(" clean, ") {
                let mut words = after.split(' ').filter_map(|word| word.parse::<f64>().ok());
                self.hours += words.next().unwrap_or(0.0);
                self.rest_hours += words.next().unwrap_or(0.0);
                self.cpu_seconds += words.next().unwrap_or(0.0);
            } else if let Some((count, after)) = line.trim().split_once(" in ")
                && let Some((seeds, what)) = after.split_once(" seeds  ")
            {
                let sum = self.counts.entry(what.to_owned()).or_default();
                sum.0 += count.trim().parse::<u64>().unwrap_or(0);
                sum.1 += seeds.trim().parse::<u64>().unwrap_or(0);
            }
        }
    }
}

/// Runs these seeds with these further options.
fn seeds(program: &Path, from: u64, to: u64, options: &[&str]) -> Outcome {
    let began = Instant::now();
    let sums = Mutex::new(Sums::default());
    side_by_side((to - from).div_ceil(BATCH), |batch| {
        let first = from + batch * BATCH;
        let range = format!("{first}..{}", (first + BATCH).min(to));
        let output = simulate(program, &[&["--seeds", &range], options].concat())?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} of seeds {range}\n{text}{errors}", output.status));
        }
        sums.lock().expect("no panic").add(&text);
        Ok(())
    })?;
    let Sums { hours, rest_hours, cpu_seconds, counts } = sums.into_inner().expect("no panic");
    let in_a_second = |hours: f64| hours * 3600.0 / cpu_seconds.max(0.001);
    let speed = in_a_second(hours - rest_hours);
    say!(
        "{} seeds clean in {} s, each run {}: {hours:.2} h simulated by the first runs, {rest_hours:.2} h of it at rest; {:.0} s in a \
         second of CPU time, {speed:.0} s without the rest",
        to - from,
        began.elapsed().as_secs(),
        if options.contains(&"--once") { "once" } else { "twice" },
        in_a_second(hours),
    );
    for (what, (count, seeds)) in &counts {
        say!("  {count:>9} in {seeds:>5} seeds  {what}");
    }
    if to - from >= SEEDS && speed < SPEED_MIN {
        return Err(format!(
            "{speed:.0} s without the rest were simulated in a second of CPU time, {SPEED_MIN} are expected"
        ));
    }
    let list = simulate(program, &["--list-states"])?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let missed = unreached(&list, to - from, |state| counts.contains_key(state));
    if missed.is_empty() { Ok(()) } else { Err(format!("never reached: {}", missed.join(", "))) }
}

/// Returns the states that a run of `seeds` seeds must reach and did not. Each line of `list` has the number of seeds of
/// which at least one reaches the state, a tab, and the state.
fn unreached(list: &str, seeds: u64, is_reached: impl Fn(&str) -> bool) -> Vec<&str> {
    let states = list.lines().filter_map(|line| line.split_once('\t'));
    let due = states.filter(|(within, _)| within.parse::<u64>().is_ok_and(|within| within <= seeds));
    due.map(|(_, state)| state).filter(|state| !is_reached(state)).collect()
}

/// Hunts for each planted bug several times, each time from another first seed, in `seeds` seeds at most, or in as many
/// as the bug says.
fn planted(program: &Path, hunts: u64, seeds: Option<u64>, only: &[&str]) -> Outcome {
    let list = simulate(program, &["--list-planted"])?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let bugs: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(|bug| bug.len() == 4 && (only.is_empty() || only.contains(&bug[0])))
        .collect();
    let found = Mutex::new(vec![Vec::new(); bugs.len()]);
    let seeds_max = |bug: &[&str]| seeds.map_or_else(|| number(bug[2]), Ok);
    side_by_side(bugs.len() as u64 * hunts, |index| {
        let (bug, hunt) = ((index / hunts) as usize, index % hunts);
        let after = hunted(program, bugs[bug][0], bugs[bug][1], hunt * HUNT_STRIDE, seeds_max(&bugs[bug])?)?;
        found.lock().expect("no panic")[bug].push(after.unwrap_or(u64::MAX));
        Ok(())
    })?;
    let mut missed = Vec::new();
    for (bug, mut after) in bugs.into_iter().zip(found.into_inner().expect("no panic")) {
        let seeds_max = seeds_max(&bug)?;
        let (number, what) = (bug[0], format!("{} [{}]", bug[3], bug[1]));
        after.sort_unstable();
        let all = after.iter().filter(|seeds| **seeds < u64::MAX).count();
        match after[after.len() / 2] {
            u64::MAX => {
                say!("{number:>3} found in {all} of {hunts} hunts of {seeds_max} seeds: NOT ENOUGH  {what}");
                missed.push(number.to_owned());
            }
            median => {
                say!(
                    "{number:>3} found in {all} of {hunts} hunts, after {median} seeds in the median  {what}"
                );
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {}", missed.join(", "))) }
}

/// Returns the number of seeds from `first` on until a planted bug is found, with the arguments `with`; `None` if
/// `seeds_max` seeds do not find it. A seed that also fails without the bug does not count.
fn hunted(program: &Path, bug: &str, with: &str, first: u64, seeds_max: u64) -> Result<Option<u64>, String> {
    let with: Vec<&str> = with.split_whitespace().collect();
    for at in 0..seeds_max {
        let seed = (first + at).to_string();
        if simulate(program, &[&["--planted", bug, "--once", "--seed", &seed], &with[..]].concat())?
            .status
            .success()
        {
            continue;
        }
        if simulate(program, &[&["--once", "--seed", &seed], &with[..]].concat())?.status.success() {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_the_reports_of_processes() {
        let mut sums = Sums::default();
        let report = "10 seeds clean, 0.1500 h simulated, 0.0500 h of it at rest, in 9.50 s of CPU time (57 simulated seconds \
                      for each), 77 steps\n\
                      \x20         3 in     2 seeds  fault: pause\n";
        sums.add(report);
        sums.add(report);
        assert_eq!((sums.hours, sums.rest_hours, sums.cpu_seconds), (0.3, 0.1, 19.0));
        assert_eq!(sums.counts["fault: pause"], (6, 4));
    }

    #[test]
    fn states_are_due_after_their_number_of_seeds() {
        let list = "200\ta common one\n200\tanother\n5000\ta rare one\n";
        let is_reached = |state: &str| state == "another";
        assert_eq!(unreached(list, 199, is_reached), [""; 0]);
        assert_eq!(unreached(list, 200, is_reached), ["a common one"]);
        assert_eq!(unreached(list, 5_000, is_reached), ["a common one", "a rare one"]);
    }
}
