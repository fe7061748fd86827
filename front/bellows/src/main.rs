//! The `bellows` binary: wiring only.

mod args;
mod failure;
mod greeting;
mod place;
mod settings;
mod start;
mod status;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks through these two")]
fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Start(options) => {
            // A log whose reader has gone away is no reason to panic: what could not be said is lost.
            tracing_subscriber::fmt()
                .with_writer(std::io::stderr)
                .with_ansi(false)
                .log_internal_errors(false)
                .init();
            start::run(&options, |greeting| {
                // `println!` would panic when whoever started the server has heard enough.
                if let Err(error) = writeln!(std::io::stdout().lock(), "{greeting}") {
                    tracing::warn!(%error, "the greeting is not heard");
                }
            })
        }
        Command::Bench(args) => {
            bench::run(&args, &mut |line| eprintln!("{line}"), &mut |line| println!("{line}"))
                .map_err(Failure::new)
        }
        Command::Keys => {
            println!("{}", conf::Conf::new().table());
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bellows: {failure}");
            ExitCode::FAILURE
        }
    }
}
