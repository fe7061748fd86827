//! Runs the comparisons of this crate for longer than a test can: streams of operations, readers that look for torn
//! rows, and histories of concurrent clients.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use model::concurrent::{self, Load, Recorded};
use model::in_process::{InProcess, LEVELS};
use model::live::Live;
use model::random::Random;
use model::stream::{self, Source};
use model::subject::Compared;
use model::{shrink, subject};

/// The command line: proofs of the data model that take longer than a test.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Compares a region with the model on streams of operations.
    Streams {
        /// Total number of operations.
        #[arg(long, default_value_t = 10_000_000)]
        operations: u64,
        /// Seed of the first stream; each further stream uses the next number.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of operations in a stream.
        #[arg(long, default_value_t = 400)]
        length: usize,
        /// Number of threads that run streams.
        #[arg(long, default_value_t = 2)]
        threads: u64,
    },
    /// Writes and reads rows of thirty columns, while memory and files are rewritten, at every level of in-memory
    /// compaction. No row may be torn.
    Acid {
        #[command(flatten)]
        load: LoadArguments,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Records histories of rows across crashes. Some order of operations must explain each.
    Linear {
        #[command(flatten)]
        load: LoadArguments,
        #[command(flatten)]
        server: ServerArguments,
        /// Number of rounds, each on fresh rows.
        #[arg(long, default_value_t = 20)]
        rounds: u64,
    },
}

#[derive(Args)]
struct LoadArguments {
    /// Number of operations of each client in each round.
    #[arg(long, default_value_t = 2_000)]
    operations: u64,
    /// Number of concurrent clients.
    #[arg(long, default_value_t = 4)]
    clients: u64,
    /// Seed of the operations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl LoadArguments {
    fn load(&self) -> Load {
        Load { seed: self.seed, clients: self.clients, operations: self.operations }
    }
}

/// The server to test. If none is given, a region in this process is tested.
#[derive(Args)]
struct ServerArguments {
    /// The `bellows` binary to start.
    #[arg(long, requires = "folder")]
    server: Option<PathBuf>,
    /// The data directory of this server.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The first port of this server; its other services use the next three.
    #[arg(long, default_value_t = 17_020)]
    port: u16,
}

impl ServerArguments {
    fn start(&self) -> Result<Option<Live>, String> {
        let (Some(server), Some(folder)) = (&self.server, &self.folder) else { return Ok(None) };
        Live::start(server, folder, self.port).map(Some)
    }
}

#[expect(clippy::print_stdout, reason = "a tool that reports to whoever started it")]
fn acid(load: &LoadArguments, server: &ServerArguments) -> Result<(), String> {
    if let Some(mut live) = server.start()? {
        for level in Live::levels() {
            live.set_level(level)?;
            let (clients, _, disturber) = live.parts();
            let seen = concurrent::acid(&clients, load.load(), &mut || disturber.disturb());
            println!("{level}: {:?}, none torn", seen.map_err(|torn| torn.to_string())?);
        }
        return Ok(());
    }
    for level in LEVELS {
        let region = InProcess::new(level);
        let seen = concurrent::acid(&region, load.load(), &mut || region.disturb());
        println!("{level:?}: {:?}, none torn", seen.map_err(|torn| torn.to_string())?);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a tool that reports to whoever started it")]
fn linear(load: &LoadArguments, server: &ServerArguments, rounds: u64) -> Result<(), String> {
    let world = env::World::real();
    let mut all = Recorded::default();
    let mut deaths = 0;
    let mut live = server.start()?;
    let region = InProcess::new(LEVELS[3]);
    for round in 0..rounds {
        let recorded = match &mut live {
            Some(live) => {
                let (clients, mut killer, disturber) = live.parts();
                let (mut failure, mut turn) = (None, 0);
                let recorded = concurrent::record(&clients, load.load(), round, &mut || {
                    turn += 1;
                    disturber.disturb();
                    // One crash in each round, at a random moment.
                    if failure.is_none() && turn == 1 + world.random() % 4 {
                        deaths += 1;
                        failure = killer.kill().err();
                    }
                });
                match failure {
                    Some(failure) => return Err(failure),
                    None => recorded,
                }
            }
            None => {
                let mut turn = 0;
                concurrent::record(&region, load.load(), round, &mut || {
                    turn += 1;
                    if turn % 16 == 8 {
                        deaths += 1;
                        region.die(turn % 32 == 8);
                    }
                    region.disturb();
                })
            }
        };
        let recorded = recorded.map_err(|refused| format!("round {round}: {refused}"))?;
        (all.answered, all.open) = (all.answered + recorded.answered, all.open + recorded.open);
    }
    println!("{rounds} rounds, {deaths} deaths: {all:?}, every history explained");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a tool that reports to whoever started it")]
fn main() -> ExitCode {
    let told = |outcome: Result<(), String>| match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    };
    match Arguments::parse().what {
        What::Acid { load, server } => told(acid(&load, &server)),
        What::Linear { load, server, rounds } => told(linear(&load, &server, rounds)),
        What::Streams { operations, seed, length, threads } => {
            let world = env::World::real();
            let began = world.moment();
            let run = |thread: u64| {
                let mut compared = Compared::default();
                let mut seed = seed + thread;
                while compared.acts < operations / threads {
                    let mut random = Random(seed);
                    let setup = stream::setup(&mut random);
                    let mut source = Source::new(random.word(), &setup);
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
                        return ExitCode::FAILURE;
                    }
                }
            }
            let took = world.moment().since(began).as_secs_f64();
            println!(
                "seeds {seed} to {last}: {compared:?}, no difference, {took:.0} s, {:.0} acts/s",
                compared.acts as f64 / took
            );
            ExitCode::SUCCESS
        }
    }
}
