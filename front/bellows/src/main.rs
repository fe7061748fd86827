//! The `bellows` binary: wiring only.

mod args;
mod failure;
mod greeting;
mod place;
mod settings;
mod start;
mod status;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks through these two")]
fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Start(options) => {
            tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
            start::run(&options, |greeting| println!("{greeting}"))
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
