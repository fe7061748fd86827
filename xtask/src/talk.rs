//! Runs a program that answers each line of input with one line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::programs::target;

/// Maximum time of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// A running program that answers lines; it ends when the value is dropped.
pub(crate) struct Talk {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Talk {
    /// Starts a built example of the client.
    pub(crate) fn with(example: &str, argument: &str) -> Result<Talk, String> {
        let program = target().join("debug/examples").join(example);
        Talk::start(&program, &[argument])
    }

    /// Starts a program.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Talk, String> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Talk { child, input, answers })
    }

    /// Sends a line and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String, String> {
        writeln!(self.input, "{line}").map_err(|error| format!("the client is gone: {error}"))?;
        self.answers.recv_timeout(ANSWER_MAX).map_err(|error| format!("{line:?} is not answered: {error}"))
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // The program ends by itself when its input ends. It is killed, so that nobody waits for it.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
