//! Compares commits of store files by a list with commits by rename, in an object store.
//!
//! HBase's tracker DEFAULT writes a store file under a temporary name and renames it, and in an object store a rename is a copy
//! and a deletion. Bellows writes the file under its final name and replaces the store's list. This program runs the same
//! loads with both commits, in turn, and prints for each the time with renames divided by that with lists:
//!
//! ```text
//! rename ENDPOINT BUCKET PREFIX ACCESS_KEY SECRET_KEY LOG_FOLDER
//! flushes list 2.713 rename 3.951 ratio 1.456 least 1.390 greatest 1.502
//! ```
//!
//! The times are medians in seconds; the last two figures are the least and the greatest ratio of a round. `cargo xtask
//! s3latency --only rename` starts a store and a proxy, runs this program, and judges the figures.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program that prints")]

mod load;
mod renaming;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use load::{Load, Loaded};
use renaming::Place;
use storage::{Files, Local, Memory};

/// The allocator that the server uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of rounds in which both commits are measured in turn.
const ROUNDS: usize = 5;
/// Number of rows of a load that is limited by flushes: ten flushes of 16 MB.
const FLUSHED_ROWS: u64 = 150_000;
/// Number of rows of each of the four files that are compacted, together 64 MB.
const COMPACTED_ROWS: u64 = 15_000;
const COMPACTED_FILES: u64 = 4;
/// Number of rows of a whole load, as in the comparison with HBase.
const WHOLE_ROWS: u64 = 200_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, bucket, prefix, access_key, secret_key, log_folder] = &words[..] else {
        return Err("usage: rename ENDPOINT BUCKET PREFIX ACCESS_KEY SECRET_KEY LOG_FOLDER".to_owned());
    };
    // It fails if there is a provider already, and then that is used.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let place = Place {
        endpoint: endpoint.clone(),
        bucket: bucket.clone(),
        access_key: access_key.clone(),
        secret_key: secret_key.clone(),
    };
    let bench = Bench { place, prefix: prefix.clone(), log_folder: PathBuf::from(log_folder) };
    bench.compare("flushes", |files, _| {
        Loaded::open(files, Arc::new(Memory::new()))?.load(Load::Flushes, FLUSHED_ROWS)
    })?;
    bench.compare("compaction", |files, _| {
        let mut region = Loaded::open(files, Arc::new(Memory::new()))?;
        (0..COMPACTED_FILES).try_for_each(|_| region.load(Load::Flushes, COMPACTED_ROWS).map(drop))?;
        let (took, replaced) = region.compact()?;
        if replaced as u64 != COMPACTED_FILES {
            return Err(format!("{replaced} files were compacted, expected {COMPACTED_FILES}"));
        }
        Ok(took)
    })?;
    bench.compare("load", |files, log| Loaded::open(files, log)?.load(Load::Whole, WHOLE_ROWS))
}

struct Bench {
    place: Place,
    prefix: String,
    log_folder: PathBuf,
}

impl Bench {
    /// Runs `load`, which gets the files and a place for a log, with both commits in turn.
    fn compare(
        &self,
        what: &str,
        load: impl Fn(Arc<dyn Files>, Arc<dyn Files>) -> Result<Duration, String>,
    ) -> Result<(), String> {
        let (mut by_list, mut by_rename, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let mut took = [0.0; 2];
            // The second of two runs may find a busier or a quieter store, so that each is the second every other time.
            for renames in [round % 2 == 0, round % 2 == 1] {
                let run = format!("{what}-{round}-{}", if renames { "rename" } else { "list" });
                let prefix = format!("{}/{run}", self.prefix);
                let files: Arc<dyn Files> = match renames {
                    true => Arc::new(self.place.renamed_files(&prefix).map_err(|error| error.to_string())?),
                    false => Arc::new(self.place.files(&prefix).map_err(|error| error.to_string())?),
                };
                let log = Local::open(self.log_folder.join(&run)).map_err(|error| error.to_string())?;
                let seconds =
                    load(files, Arc::new(log)).map_err(|why| format!("{run}: {why}"))?.as_secs_f64();
                took[usize::from(renames)] = seconds;
            }
            by_list.push(took[0]);
            by_rename.push(took[1]);
            ratios.push(took[1] / took[0]);
        }
        let (list, rename) = (median(&mut by_list), median(&mut by_rename));
        ratios.sort_by(f64::total_cmp);
        println!(
            "{what} list {list:.3} rename {rename:.3} ratio {:.3} least {:.3} greatest {:.3}",
            rename / list,
            ratios[0],
            ratios[ROUNDS - 1]
        );
        Ok(())
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
