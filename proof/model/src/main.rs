//! The long forms of what the tests do in short: see the crate's documentation.

use clap::{Parser, Subcommand};
use model::chance::Chance;
use model::stream::{self, Source};
use model::subject::Compared;
use model::{shrink, subject};

/// Proofs of the data model that take longer than a test.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Streams of acts on a region and on the plain list of cells, side by side.
    Streams {
        /// How many acts altogether.
        #[arg(long, default_value_t = 10_000_000)]
        operations: u64,
        /// The seed of the first stream; each further one has the next.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Acts of one stream.
        #[arg(long, default_value_t = 400)]
        length: usize,
        /// Threads that do streams side by side.
        #[arg(long, default_value_t = 2)]
        threads: u64,
    },
}

#[expect(clippy::print_stdout, reason = "a tool that reports to whoever started it")]
fn main() -> std::process::ExitCode {
    match Arguments::parse().what {
        What::Streams { operations, seed, length, threads } => {
            let world = env::World::real();
            let began = world.moment();
            let run = |thread: u64| {
                let mut compared = Compared::default();
                let mut seed = seed + thread;
                while compared.acts < operations / threads {
                    let mut chance = Chance(seed);
                    let setup = stream::setup(&mut chance);
                    let mut source = Source::new(chance.word(), &setup);
                    let acts: Vec<_> = (0..length).map(|_| source.draw()).collect();
                    match subject::run(&setup, &acts) {
                        Ok(more) => compared.add(more),
                        Err(difference) => return Err((seed, shrink::shorter(&setup, &acts, difference))),
                    }
                    seed += threads;
                }
                Ok((compared, seed))
            };
            let outcomes: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            let mut compared = Compared::default();
            let mut last = seed;
            for outcome in outcomes {
                match outcome {
                    Ok((more, seed)) => {
                        compared.add(more);
                        last = last.max(seed);
                    }
                    Err((seed, found)) => {
                        println!("seed {seed}: {}", found.as_test());
                        return std::process::ExitCode::FAILURE;
                    }
                }
            }
            let took = world.moment().since(began).as_secs_f64();
            println!(
                "seeds {seed} to {last}: {compared:?}, no difference, {took:.0} s, {:.0} acts/s",
                compared.acts as f64 / took
            );
            std::process::ExitCode::SUCCESS
        }
    }
}
