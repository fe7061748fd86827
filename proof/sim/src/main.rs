//! `sim --seeds FROM..TO`, `sim --seed N [--transcript]`, `sim --planted N --seeds FROM..TO`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for people")]
#![cfg_attr(
    not(debug_assertions),
    expect(dead_code, unused_imports, reason = "release builds have no simulation")
)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str =
    "usage: sim [--seeds FROM..TO | --seed N [--transcript [--steps]]] [--planted N] [--once]";

/// What is to be run.
struct Asked {
    from: u64,
    to: u64,
    planted: u32,
    transcript: bool,
    /// The transcript has the scheduler's steps, too.
    steps: bool,
    /// Each seed once, not twice.
    once: bool,
}

fn parse(words: &[String]) -> Option<Asked> {
    let mut asked = Asked { from: 0, to: 200, planted: 0, transcript: false, steps: false, once: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => {
                let (from, to) = words.next()?.split_once("..")?;
                (asked.from, asked.to) = (from.parse().ok()?, to.parse().ok()?);
            }
            "--seed" => {
                asked.from = words.next()?.parse().ok()?;
                asked.to = asked.from + 1;
            }
            "--planted" => asked.planted = words.next()?.parse().ok()?,
            "--transcript" => asked.transcript = true,
            "--steps" => (asked.transcript, asked.steps) = (true, true),
            "--once" => asked.once = true,
            _ => return None,
        }
    }
    (asked.from < asked.to).then_some(asked)
}

#[cfg(not(debug_assertions))]
fn main() -> ExitCode {
    eprintln!("a simulation needs a build with debug assertions: cargo xtask sim");
    ExitCode::FAILURE
}

#[cfg(debug_assertions)]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--list-planted"] {
        sim::planted::PLANTED.iter().for_each(|(number, what)| println!("{number} {what}"));
        return ExitCode::SUCCESS;
    }
    let Some(asked) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let world = env::World::real();
    let began = world.moment();
    let (mut simulated, mut steps) = (Duration::ZERO, 0);
    let mut counts: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for seed in asked.from..asked.to {
        let report = sim::run(seed, asked.planted, asked.transcript.then_some(asked.steps));
        simulated += report.simulated;
        steps += report.steps;
        for (what, count) in report.transcript.counts() {
            let entry = counts.entry(what).or_default();
            entry.0 += count;
            entry.1 += 1;
        }
        let mut failures = report.failures;
        if !asked.once && failures.is_empty() {
            let again = sim::run(seed, asked.planted, None);
            simulated += again.simulated;
            if again.transcript.digest() != report.transcript.digest() {
                failures.push("a second run of the seed went another way".to_owned());
            }
        }
        if !failures.is_empty() {
            println!("seed {seed} fails:");
            failures.iter().for_each(|words| println!("  {words}"));
            let planted =
                if asked.planted > 0 { format!(" --planted {}", asked.planted) } else { String::new() };
            println!("  to see it: cargo xtask sim --seed {seed} --transcript{planted}");
            if asked.planted > 0 {
                println!("planted {} found after {} seeds", asked.planted, seed - asked.from + 1);
            }
            return ExitCode::FAILURE;
        }
    }
    let took = world.moment().since(began);
    println!(
        "{} seeds clean, {:.2} h simulated in {:.1} s ({:.0} simulated seconds a second), {steps} steps",
        asked.to - asked.from,
        simulated.as_secs_f64() / 3600.0,
        took.as_secs_f64(),
        simulated.as_secs_f64() / took.as_secs_f64(),
    );
    for (what, (count, seeds)) in counts {
        println!("  {count:>9} in {seeds:>5} seeds  {what}");
    }
    ExitCode::SUCCESS
}
