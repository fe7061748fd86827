//! The `bellows` binary, which only connects the crates.

mod adopt;
mod allocator;
mod args;
mod azure;
mod bucket;
mod bundle;
mod check;
mod dashboard;
mod data_dir;
mod doctor;
mod estimate;
mod failure;
mod foreign;
mod fsck;
mod greeting;
mod hand_back;
mod log_place;
mod logging;
mod output;
mod page;
mod promote;
mod replica;
mod root;
mod settings;
mod spans;
mod start;
mod top;
mod znodes;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use failure::Failure;

const ASKED_NOTHING: clap::error::ErrorKind =
    clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Help and the version are printed whole; errors are one line.
        Err(asked) if asked.exit_code() == 0 || asked.kind() == ASKED_NOTHING => asked.exit(),
        Err(error) => {
            let command = args::command_in(std::env::args_os());
            output::write_error(&format!("bellows: {}", Failure::of_command_line(&command, &error)));
            return ExitCode::from(2);
        }
    };
    match run(args.command) {
        Ok(code) => code,
        Err(failure) => {
            output::write_error(&format!("bellows: {failure}"));
            ExitCode::from(failure.status())
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    let done = match command {
        Command::Start(options) => {
            let ring = web::LogRing::new(env::World::real());
            let level = logging::start(&ring);
            let end = start::run(&options, ring, level, |greeting| {
                if let Err(error) = output::say(&greeting.to_string()) {
                    tracing::warn!(%error, "cannot print the greeting; the server runs");
                }
            })?;
            match end {
                start::End::Stopped => Ok(()),
                start::End::Promoted(options) => Err(promote::start_again(&options)),
            }
        }
        Command::Bench(args) => match bench::run(&args, &mut output::write_error, &mut output::say) {
            Err(bench::Error::Output(error)) => output::ignoring_closed_pipe(Err(error)),
            outcome => outcome.map_err(Failure::new),
        },
        Command::Memstore(options) => dashboard::watch(&options, "/memstores", output::write),
        Command::Cache(options) => dashboard::watch(&options, "/cache", output::write),
        Command::Doctor(options) => {
            let report = doctor::examine(&options)?;
            let text = if options.json { format!("{:#}\n", report.to_json()) } else { report.to_string() };
            output::ignoring_closed_pipe(output::write(&text))?;
            return Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Top(options) => top::run(&options, output::write),
        Command::Debug(args::Debug::Bundle(options)) => bundle::write(&options, output::say),
        Command::Promote(options) => promote::run(&options, output::say),
        Command::Adopt(options) => adopt::run(&options, output::write),
        Command::Fsck(options) => {
            let is_well = fsck::run(&options, output::write)?;
            return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::HandBack(options) => hand_back::run(&options, output::write),
        Command::Keys => output::ignoring_closed_pipe(output::write(&conf::Conf::new().table().to_string())),
    };
    done.map(|()| ExitCode::SUCCESS)
}
