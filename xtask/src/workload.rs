//! The client of a crash test (`cluster/client/examples/crash`), which is told line by line what to do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::run;

/// No answer takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// The running client, ended when this is dropped.
pub(crate) struct Workload {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Workload {
    /// Builds the client.
    pub(crate) fn build() -> Result<(), String> {
        run("cargo", &["build", "--quiet", "-p", "client", "--example", "crash"])
    }

    /// Starts the built client.
    pub(crate) fn start(seed: u64) -> Result<Workload, String> {
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
        let program = format!("{target}/debug/examples/crash");
        let mut child = Command::new(&program)
            .arg(seed.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
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
        Ok(Workload { child, input, answers })
    }

    fn ask(&mut self, line: &str) -> Result<String, String> {
        writeln!(self.input, "{line}").map_err(|error| format!("the client is gone: {error}"))?;
        self.answers.recv_timeout(ANSWER_MAX).map_err(|error| format!("{line:?} is not answered: {error}"))
    }

    /// Begins to load the server.
    pub(crate) fn load(&mut self, server: &str) -> Result<(), String> {
        self.ask(&format!("load {server}")).map(drop)
    }

    /// The server is about to be killed: only from now on may an operation fail.
    pub(crate) fn dying(&mut self) -> Result<(), String> {
        self.may_fail("dying")
    }

    /// The server's disk is about to fail: from now on it may refuse.
    pub(crate) fn breaking(&mut self) -> Result<(), String> {
        self.may_fail("breaking")
    }

    fn may_fail(&mut self, how: &str) -> Result<(), String> {
        match self.ask(how)?.as_str() {
            "alive" => Ok(()),
            why => Err(why.to_owned()),
        }
    }

    /// The server is dead. Gives how much was acknowledged since the beginning.
    pub(crate) fn dead(&mut self) -> Result<u64, String> {
        let answer = self.ask("dead")?;
        let number = answer.strip_prefix("dead ").and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("an answer that is none: {answer:?}"))
    }

    /// Looks whether everything is there. Gives the number of rows.
    pub(crate) fn verify(&mut self, server: &str) -> Result<u64, String> {
        let answer = self.ask(&format!("verify {server}"))?;
        match answer.strip_prefix("good ").and_then(|number| number.parse().ok()) {
            Some(rows) => Ok(rows),
            None => Err(answer),
        }
    }

    /// What was acknowledged, by kind.
    pub(crate) fn summary(&mut self) -> Result<String, String> {
        self.ask("summary")
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // It ends by itself when its input does; it is not waited for.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
