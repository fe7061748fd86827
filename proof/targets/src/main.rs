//! Runs every fuzz target for some seconds on mutated inputs, which a seed decides.
//!
//! ```text
//! targets SECONDS SEED              runs all targets, for SECONDS together
//! targets SECONDS SEED TARGET       runs one target
//! targets again TARGET HEX|FILE     runs one target on one input
//! targets seeds FOLDER              writes the valid inputs, in one folder for each target
//! ```
//!
//! An input is a mutated valid one: bytes are changed, removed, inserted, exchanged with those of another input, or
//! replaced by boundary values. The same seed gives the same mutations; the number of inputs depends on the machine. A
//! target that panics, takes too long or uses too much memory ends the run, and the input is printed.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people: it writes an input to a file and says so"
)]

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Duration;

use env::{WallTime, World};
use targets::{TARGETS, hex, seeds, target, unhex};

/// Time limit of an input.
const INPUT_MAX: Duration = Duration::from_secs(5);
/// Limit of the resident memory of the whole run, in KB.
const RESIDENT_MAX: u64 = 1 << 20;
/// Size in bytes above which an input is written to a file instead of printed.
const PRINTED_MAX: usize = 2_000;
/// Boundary values that mutations insert.
const NUMBERS: [u64; 9] =
    [0, 1, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff_ffff_ffff_ffff];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["again", name, input] => again(name, input),
        ["seeds", folder] => write_seeds(folder),
        [seconds, seed, ref only @ ..] if only.len() < 2 => match (seconds.parse(), seed.parse()) {
            (Ok(seconds), Ok(seed)) => all(Duration::from_secs(seconds), seed, only.first().copied()),
            _ => Err("seconds and seed are numbers".to_owned()),
        },
        _ => {
            Err("usage: targets SECONDS SEED [TARGET] | targets again TARGET HEX|FILE | targets seeds FOLDER"
                .to_owned())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn again(name: &str, input: &str) -> Result<(), String> {
    let target = target(name).ok_or_else(|| format!("no target is called {name}"))?;
    let bytes = match unhex(input) {
        Some(bytes) => bytes,
        None => std::fs::read(input).map_err(|error| format!("{input}: {error}"))?,
    };
    target(&bytes);
    println!("{name}: {} bytes do no harm", bytes.len());
    Ok(())
}

fn write_seeds(folder: &str) -> Result<(), String> {
    for (name, _) in TARGETS {
        let folder = format!("{folder}/{name}");
        std::fs::create_dir_all(&folder).map_err(|error| format!("{folder}: {error}"))?;
        for (number, seed) in seeds(name).iter().enumerate() {
            let file = format!("{folder}/good-{number}");
            std::fs::write(&file, seed).map_err(|error| format!("{file}: {error}"))?;
        }
    }
    Ok(())
}

fn all(time: Duration, seed: u64, only: Option<&str>) -> Result<(), String> {
    let chosen: Vec<_> = TARGETS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    if chosen.is_empty() {
        return Err(format!("no target is called {}", only.unwrap_or_default()));
    }
    println!("seed {seed}");
    let world = World::real();
    for (name, target) in &chosen {
        let began = world.moment();
        let random = World::simulated(seed, WallTime(0));
        let seeds = seeds(name);
        let (mut count, mut longest) = (0u64, Duration::ZERO);
        while world.moment().since(began) < time / chosen.len() as u32 {
            let input = bend(&seeds, &random);
            let started = world.moment();
            let ended = catch_unwind(|| target(&input));
            let took = world.moment().since(started);
            longest = longest.max(took);
            count += 1;
            if ended.is_err() {
                return Err(told(name, &input, "panicked"));
            }
            if took > INPUT_MAX {
                return Err(told(name, &input, &format!("took {took:?}")));
            }
        }
        let resident = resident_max()?;
        println!("{name:14} {count:8} inputs, the longest took {:4} ms", longest.as_millis());
        if resident > RESIDENT_MAX {
            return Err(format!(
                "{name}: {} MB were resident, {} are allowed",
                resident >> 10,
                RESIDENT_MAX >> 10
            ));
        }
    }
    println!("{} MB were resident at most", resident_max()? >> 10);
    Ok(())
}

/// Returns the maximum resident memory of this process, in KB.
fn resident_max() -> Result<u64, String> {
    let file = "/proc/self/status";
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let line = text.lines().find(|line| line.starts_with("VmHWM"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.ok_or_else(|| format!("{file} does not say VmHWM"))
}

fn told(name: &str, input: &[u8], what: &str) -> String {
    let shown = hex(input);
    let (shown, again) = if input.len() <= PRINTED_MAX {
        (format!("the input is {shown}"), shown)
    } else {
        let file = std::env::temp_dir().join(format!("{name}-{}.input", std::process::id()));
        match std::fs::write(&file, input) {
            Ok(()) => (format!("the input is {}", file.display()), file.display().to_string()),
            Err(error) => (format!("{}: {error}; the input is {shown}", file.display()), shown),
        }
    };
    format!("{name} {what}; {shown}\nagain: cargo run -p targets -- again {name} {again}")
}

/// Returns a valid input with some mutations.
fn bend(seeds: &[Vec<u8>], random: &World) -> Vec<u8> {
    let below = |limit: usize| (random.random() % limit.max(1) as u64) as usize;
    let mut input = seeds[below(seeds.len())].clone();
    for _ in 0..=below(1 << below(5)) {
        let at = below(input.len() + 1);
        match below(8) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = random.random() as u8;
                }
            }
            2 | 3 => {
                let number = NUMBERS[below(NUMBERS.len())].to_be_bytes();
                let width = [1, 2, 4, 8][below(4)];
                let room = input.len().saturating_sub(at).min(width);
                input[at..at + room].copy_from_slice(&number[8 - width..][..room]);
            }
            4 => {
                let to = (at + below(64)).min(input.len());
                input.drain(at..to);
            }
            5 => {
                let bytes: Vec<u8> = (0..below(32)).map(|_| random.random() as u8).collect();
                input.splice(at..at, bytes).for_each(drop);
            }
            6 => {
                let other = &seeds[below(seeds.len())];
                let from = below(other.len() + 1);
                let to = (from + below(256)).min(other.len());
                let until = (at + to - from).min(input.len());
                input.splice(at..until, other[from..to].iter().copied()).for_each(drop);
            }
            _ if below(4) == 0 => input.truncate(at),
            _ => {}
        }
    }
    input
}
