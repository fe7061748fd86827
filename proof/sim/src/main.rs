//! `sim --seeds FROM..TO`, `sim --seed N [--transcript]`, `sim --planted N --seeds FROM..TO`, `sim --list-planted`,
//! `sim --list-states`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for people")]
#![cfg_attr(
    not(debug_assertions),
    expect(dead_code, unused_imports, reason = "release builds have no simulation")
)]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The allocator of the server. It is faster than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: sim [--seeds FROM..TO | --seed N [--transcript [--steps]]] [--planted N] [--once] [--fault KIND]… \
     [--workload NAME]… [--only] [--preset NAME]…";

/// The parsed command line.
struct Asked {
    from: u64,
    to: u64,
    planted: u32,
    transcript: bool,
    /// Whether the transcript also has the scheduler's steps.
    steps: bool,
    /// Whether each seed runs once instead of twice.
    once: bool,
    /// Kinds of faults that every seed has in addition.
    faults: Vec<String>,
    /// Workloads that every seed has in addition.
    workloads: Vec<String>,
    /// Whether no seed has other workloads and faults than these.
    only: bool,
    /// Groups of settings that do not follow from the seed.
    presets: Vec<String>,
}

fn parse(words: &[String]) -> Option<Asked> {
    let mut asked = Asked {
        from: 0,
        to: 200,
        planted: 0,
        transcript: false,
        steps: false,
        once: false,
        faults: Vec::new(),
        workloads: Vec::new(),
        only: false,
        presets: Vec::new(),
    };
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
            "--fault" => asked.faults.push(words.next()?.clone()),
            "--workload" => asked.workloads.push(words.next()?.clone()),
            "--only" => asked.only = true,
            "--preset" => asked.presets.push(words.next()?.clone()),
            "--once" => asked.once = true,
            _ => return None,
        }
    }
    // With `--only` and without a named workload the run would test nothing.
    let has_work = !asked.only || !asked.workloads.is_empty();
    (asked.from < asked.to && has_work).then_some(asked)
}

/// Returns the CPU time that all threads of this process have used.
fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
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
        for bug in sim::planted::PLANTED {
            println!("{}\t{}\t{}\t{}", bug.number, bug.hunt, bug.seeds_max, bug.what);
        }
        return ExitCode::SUCCESS;
    }
    if words == ["--list-states"] {
        for (state, seeds) in sim::states::STATES {
            println!("{seeds}\t{state}");
        }
        return ExitCode::SUCCESS;
    }
    let Some(asked) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut faults = Vec::new();
    for word in &asked.faults {
        let Some(kind) = sim::faults::Kind::of_name(word) else {
            eprintln!("{word} is no kind of fault; there are {:?}", sim::faults::Kind::ALL);
            return ExitCode::from(2);
        };
        faults.push(kind);
    }
    let mut presets = Vec::new();
    for word in &asked.presets {
        let Some(preset) = sim::preset::Preset::of_name(word) else {
            eprintln!("{word} is no preset; there are {:?}", sim::preset::Preset::ALL);
            return ExitCode::from(2);
        };
        presets.push(preset);
    }
    if let Some(word) = asked.workloads.iter().find(|word| !sim::workload::NAMES.contains(&word.as_str())) {
        eprintln!("{word} is no workload; there are {:?}", sim::workload::NAMES);
        return ExitCode::from(2);
    }
    let options = sim::Options {
        planted: asked.planted,
        faults,
        workloads: asked.workloads.clone(),
        only: asked.only,
        presets,
    };
    if let Some(words) = options.contradiction() {
        eprintln!("{words}");
        return ExitCode::from(2);
    }
    // A region reserves memory of which it uses a small part. Clearing it would take a tenth of the time.
    env::forgo_huge_pages();
    // Of each seed only the first run counts, because the second one repeats it.
    let (mut simulated, mut rested) = (Duration::ZERO, Duration::ZERO);
    let (mut cpu_time, mut steps) = (Duration::ZERO, 0);
    let mut counts: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for seed in asked.from..asked.to {
        let began = process_cpu_time();
        let report = sim::run(seed, &options, asked.transcript.then_some(asked.steps));
        cpu_time += process_cpu_time() - began;
        simulated += report.simulated;
        rested += report.rested;
        steps += report.steps;
        for (what, count) in report.transcript.counts() {
            let entry = counts.entry(what).or_default();
            entry.0 += count;
            entry.1 += 1;
        }
        let mut failures = report.failures;
        if !asked.once && failures.is_empty() {
            let again = sim::run(seed, &options, None);
            if again.transcript.digest() != report.transcript.digest() {
                failures.push("a second run of the seed went another way".to_owned());
            }
        }
        if !failures.is_empty() {
            println!("seed {seed} fails:");
            failures.iter().for_each(|words| println!("  {words}"));
            println!("  to see it: cargo xtask sim --seed {seed} --transcript{options}");
            if asked.planted > 0 {
                println!("planted {} found after {} seeds", asked.planted, seed - asked.from + 1);
            }
            return ExitCode::FAILURE;
        }
    }
    println!(
        "{} seeds clean, {:.4} h simulated, {:.4} h of it at rest, in {:.2} s of CPU time ({:.0} simulated seconds for each), \
         {steps} steps",
        asked.to - asked.from,
        simulated.as_secs_f64() / 3600.0,
        rested.as_secs_f64() / 3600.0,
        cpu_time.as_secs_f64(),
        simulated.as_secs_f64() / cpu_time.as_secs_f64(),
    );
    for (what, (count, seeds)) in counts {
        println!("  {count:>9} in {seeds:>5} seeds  {what}");
    }
    ExitCode::SUCCESS
}
