//! Compares our regular expressions with Java's, for any number of random patterns and texts.
//!
//! `proof/java/regex/src/Answers.java` generates them and records the results of `java.util.regex`; the test `java` of
//! the crate `javaregex` compares ours. That test always replays `base/javaregex/tests/java.answers`. This command
//! generates new ones, from consecutive seeds.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, run};

const SOURCES: &str = "proof/java/regex/src";
const CLASSES: &str = "target/java/regex";
const ANSWERS: &str = "target/xtask/regex.answers";
const RECORDED: &str = "base/javaregex/tests/java.answers";
const TABLES: &str = "base/javaregex/src/tables.rs";
/// Number of patterns for each seed.
const PATTERNS: u32 = 20_000;
/// Number of texts that each pattern is matched with.
const TEXTS: u32 = 8;
/// Number of patterns for each seed when the recorded answers are made anew.
const PATTERNS_RECORDED: u32 = 2_400;

fn compile() -> Outcome {
    let mut words =
        vec!["--release".to_owned(), "17".to_owned(), "-Xlint:all,-options".to_owned(), "-Werror".to_owned()];
    words.extend(["-d".to_owned(), CLASSES.to_owned()]);
    for entry in std::fs::read_dir(SOURCES).map_err(|error| format!("{SOURCES}: {error}"))? {
        words.push(entry.map_err(|error| format!("{SOURCES}: {error}"))?.path().display().to_string());
    }
    words.sort_by_key(|word| word.ends_with(".java"));
    run("javac", &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Runs a class and returns its output.
fn java(words: &[&str], output: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", output.display());
    if let Some(folder) = output.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut command = Command::new("java");
    for package in ["java.lang", "java.util.regex"] {
        command.arg(format!("--add-opens=java.base/{package}=ALL-UNNAMED"));
    }
    command.args(["-cp", CLASSES]).args(words).stdout(File::create(output).map_err(failed)?);
    let status = command.status().map_err(|error| format!("cannot start java: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("java {} ended with {status}", words.join(" "))) }
}

fn answers(seed: u64, patterns: u32, output: &str) -> Outcome {
    let (seed, patterns, texts) = (seed.to_string(), patterns.to_string(), TEXTS.to_string());
    java(&["Answers", &seed, &patterns, &texts], Path::new(output))
}

/// Runs `cargo xtask regex`, as its usage says.
pub(crate) fn run_all(options: &[&str]) -> Outcome {
    let (mut seed, mut pairs) = (1u64, 1_000_000u64);
    let mut left = options;
    loop {
        left = match left {
            [] => break,
            ["--tables"] => {
                compile()?;
                return java(&["Tables"], Path::new(TABLES));
            }
            ["--record"] => {
                compile()?;
                return answers(seed, PATTERNS_RECORDED, RECORDED);
            }
            [option, value, more @ ..] => {
                let wrong = |_| format!("{option} {value} is not understood");
                match *option {
                    "--seed" => seed = value.parse().map_err(wrong)?,
                    "--pairs" => pairs = value.parse().map_err(wrong)?,
                    _ => return Err(format!("{option} {value} is not understood")),
                }
                more
            }
            [option] => return Err(format!("{option} needs a value")),
        };
    }
    compile()?;
    let path = std::env::current_dir().map_err(|error| error.to_string())?.join(ANSWERS);
    let mut asked = 0;
    while asked < pairs {
        answers(seed, PATTERNS, ANSWERS)?;
        say!("seed {seed}");
        let mut command = Command::new("cargo");
        command.args(["test", "--quiet", "-p", "javaregex", "--test", "java", "--", "--nocapture"]);
        let status = command.env("JAVA_REGEX_ANSWERS", &path).status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("Java's answers differ, see {ANSWERS} (seed {seed})"));
        }
        // A sixth of the patterns is invalid, and is not matched with texts.
        asked += u64::from(PATTERNS) * u64::from(TEXTS) * 5 / 6;
        seed += 1;
    }
    Ok(())
}
