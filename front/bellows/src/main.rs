//! The `bellows` binary: wiring only.

mod allocator;
mod args;
mod bucket;
mod cache_picture;
mod failure;
mod greeting;
mod memstore;
mod picture;
mod place;
mod sense;
mod settings;
mod start;
mod status;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

const ASKED_NOTHING: clap::error::ErrorKind =
    clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks through these two")]
fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // What was asked for, or everything that could have been, goes over many lines.
        Err(asked) if asked.exit_code() == 0 || asked.kind() == ASKED_NOTHING => asked.exit(),
        Err(error) => {
            eprintln!("bellows: {}", Failure::of_command_line(&error));
            return ExitCode::from(2);
        }
    };
    let outcome = match args.command {
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
        Command::Memstore(options) => {
            picture::watch(&options, "/memstores", |text| write!(std::io::stdout().lock(), "{text}").is_ok())
        }
        Command::Cache(options) => {
            picture::watch(&options, "/cache", |text| write!(std::io::stdout().lock(), "{text}").is_ok())
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
