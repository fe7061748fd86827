//! Controls the client of a crash test (`cluster/client/examples/crash`) by commands, one per line.

use crate::programs;
use crate::talk::Talk;

/// The running client.
pub(crate) struct Workload(Talk);

impl Workload {
    /// Builds the client.
    pub(crate) fn build() -> Result<(), String> {
        programs::build_example("crash").map(drop)
    }

    /// Starts the built client.
    pub(crate) fn start(seed: u64) -> Result<Workload, String> {
        Talk::with("crash", &seed.to_string()).map(Workload)
    }

    /// Starts the load on the server.
    pub(crate) fn load(&mut self, server: &str) -> Result<(), String> {
        self.0.ask(&format!("load {server}")).map(drop)
    }

    /// Announces that the server is about to be killed. From then on operations may fail.
    pub(crate) fn dying(&mut self) -> Result<(), String> {
        self.may_fail("dying")
    }

    /// Announces that the server's disk is about to fail. From then on operations may be refused.
    pub(crate) fn breaking(&mut self) -> Result<(), String> {
        self.may_fail("breaking")
    }

    fn may_fail(&mut self, how: &str) -> Result<(), String> {
        match self.0.ask(how)?.as_str() {
            "alive" => Ok(()),
            why => Err(why.to_owned()),
        }
    }

    /// Announces that the server was killed. Returns the number of operations acknowledged since the beginning.
    pub(crate) fn dead(&mut self) -> Result<u64, String> {
        let answer = self.0.ask("dead")?;
        let number = answer.strip_prefix("dead ").and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("an answer that is none: {answer:?}"))
    }

    /// Checks that everything acknowledged exists. Returns the number of rows.
    pub(crate) fn verify(&mut self, server: &str) -> Result<u64, String> {
        let answer = self.0.ask(&format!("verify {server}"))?;
        match answer.strip_prefix("good ").and_then(|number| number.parse().ok()) {
            Some(rows) => Ok(rows),
            None => Err(answer),
        }
    }

    /// Deletes the snapshot `daily` of a table, and takes it again.
    pub(crate) fn take_daily(&mut self, server: &str, table: &str) -> Result<(), String> {
        self.daily(&format!("daily {server} {table}"))
    }

    /// Sends the deletion of the snapshot `daily` to the server on which it was taken last, without awaiting it.
    pub(crate) fn send_deletion_of_daily(&mut self) -> Result<(), String> {
        self.0.ask("delete-daily").map(drop)
    }

    /// Checks that the snapshot `daily` is there.
    pub(crate) fn has_daily(&mut self, server: &str) -> Result<(), String> {
        self.daily(&format!("has-daily {server}"))
    }

    fn daily(&mut self, command: &str) -> Result<(), String> {
        match self.0.ask(command)?.as_str() {
            "daily" => Ok(()),
            why => Err(why.to_owned()),
        }
    }

    /// Returns the number of acknowledged operations, by kind.
    pub(crate) fn summary(&mut self) -> Result<String, String> {
        self.0.ask("summary")
    }
}
