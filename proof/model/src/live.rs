//! Starts and kills a server process, and reaches it with the native client.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use client::{
    Append, CheckAndMutate, Cluster, Delete, Get, Increment, Options, Put, Registry, Row, Scan, Table,
};
use env::{Runtime, World};
use proto::{FamilyDescriptor, TableDescriptor, TableName};

use crate::concurrent::{Target, Unanswered, Values};
use crate::in_process::value_of;
use crate::linear::{Answer, Operation};

const WIDE: [&str; 3] = ["a", "b", "c"];
const COLUMNS: usize = 10;
const LEVELS: [&str; 4] = ["NONE", "BASIC", "EAGER", "ADAPTIVE"];

/// An error of starting or reaching a server.
type Outcome<T> = Result<T, String>;

/// A server, its client and its two tables.
pub struct Live {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Child,
    runtime: Runtime,
    patient: Cluster,
    /// The table for histories. Its client never retries, so an operation happens once or not at all.
    narrow: Table,
    wide: Table,
    turns: AtomicU64,
}

/// The clients of a [`Live`] server, which can be used while the server is killed.
pub struct Clients<'a> {
    runtime: &'a Runtime,
    patient: &'a Cluster,
    narrow: &'a Table,
    wide: &'a Table,
}

fn start(binary: &Path, folder: &Path, port: u16) -> Outcome<Child> {
    let ports = [("--rpc-port", 0), ("--master-port", 1), ("--zk-port", 2), ("--web-port", 3)];
    let mut command = Command::new(binary);
    command.args(["start", "--bind", "127.0.0.1", "--data-dir"]).arg(folder);
    for (name, offset) in ports {
        command.arg(name).arg((port + offset).to_string());
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut first = String::new();
    output.read_line(&mut first).map_err(|error| format!("the server says nothing: {error}"))?;
    if !first.starts_with("ready after") {
        let _gone = child.kill();
        let _reaped = child.wait();
        return Err(format!("the server is not ready: {first:?}"));
    }
    // Keeps the pipe open, so that the server can go on writing to it.
    child.stdout = Some(output.into_inner());
    Ok(child)
}

impl Live {
    /// Starts the server `binary` in `folder` on `port` and the three after it, and makes tables.
    pub fn start(binary: &Path, folder: &Path, port: u16) -> Outcome<Live> {
        let child = start(binary, folder, port)?;
        let runtime = Runtime::start("live", 2).map_err(|error| error.to_string())?;
        let options = Options::new(Registry::rpc([format!("127.0.0.1:{port}")]));
        let patient = Cluster::connect(World::real(), options.clone());
        let once = Cluster::connect(World::real(), Options { retries: 0, ..options });
        let table = |name: &str| once.table(name).map_err(|error| error.to_string());
        let (narrow, wide) = (table("model_narrow")?, table("model_wide")?);
        let live = Live {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            port,
            child,
            runtime,
            patient,
            narrow,
            wide,
            turns: AtomicU64::new(0),
        };
        live.make("model_narrow", &["f"], "BASIC")?;
        live.make("model_wide", &WIDE, "BASIC")?;
        Ok(live)
    }

    fn descriptor(name: &str, families: &[&'static str], level: &str) -> (TableName, TableDescriptor) {
        let name = TableName::new("default", name).expect("a name");
        let mut table = TableDescriptor::new(name.clone());
        for family in families {
            let family = FamilyDescriptor::new(*family)
                .expect("a name")
                .with("NEW_VERSION_BEHAVIOR", *family == "f")
                .with("IN_MEMORY_COMPACTION", level);
            table.set_family(family);
        }
        (name, table)
    }

    fn make(&self, name: &str, families: &[&'static str], level: &str) -> Outcome<()> {
        let (name, table) = Live::descriptor(name, families, level);
        let admin = self.patient.admin();
        wait(&self.runtime, async move {
            if admin.table_exists(&name).await? {
                return admin.modify_table(&table).await;
            }
            admin.create_table(&table, &[]).await
        })
        .map_err(|error| error.to_string())
    }

    /// Changes the level of in-memory compaction.
    pub fn set_level(&self, level: &str) -> Outcome<()> {
        self.make("model_wide", &WIDE, level)
    }

    /// Returns the names of the levels of in-memory compaction.
    pub fn levels() -> [&'static str; 4] {
        LEVELS
    }

    /// Returns the clients, a handle that kills the server, and one that gives it background work.
    pub fn parts(&mut self) -> (Clients<'_>, Killer<'_>, Disturber<'_>) {
        let Live { binary, folder, port, child, runtime, patient, narrow, wide, turns } = self;
        (
            Clients { runtime, patient, narrow, wide },
            Killer { binary, folder, port: *port, child },
            Disturber { runtime, patient, turns },
        )
    }
}

/// Kills the server and starts it again.
pub struct Killer<'a> {
    binary: &'a Path,
    folder: &'a Path,
    port: u16,
    child: &'a mut Child,
}

impl Killer<'_> {
    /// Kills the server as `kill -9` does, and starts it again.
    pub fn kill(&mut self) -> Outcome<()> {
        self.child.kill().map_err(|error| format!("cannot kill the server: {error}"))?;
        self.child.wait().map_err(|error| error.to_string())?;
        *self.child = start(self.binary, self.folder, self.port)?;
        Ok(())
    }
}

/// Asks the server for background work.
pub struct Disturber<'a> {
    runtime: &'a Runtime,
    patient: &'a Cluster,
    turns: &'a AtomicU64,
}

impl Disturber<'_> {
    /// Flushes or compacts both tables, then pauses. Ignores the errors of a dead server.
    pub fn disturb(&self) {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let admin = self.patient.admin();
        let _done = wait(self.runtime, async move {
            for name in ["model_narrow", "model_wide"] {
                let name = TableName::new("default", name).expect("a name");
                match turn % 4 {
                    0 | 2 => admin.flush(&name).await?,
                    1 => admin.compact(&name, false).await?,
                    _ => admin.compact(&name, true).await?,
                }
            }
            env::sleep(Duration::from_millis(20)).await;
            Ok::<(), client::Error>(())
        });
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The process is a child of this one; it may have ended already.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Waits for a task of the runtime, on a thread that does not belong to the runtime.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    task: impl Future<Output = client::Result<T>> + Send + 'static,
) -> client::Result<T> {
    let (sender, receiver) = mpsc::channel();
    runtime.spawn(async move {
        // The receiver waits below.
        let _sent = sender.send(task.await);
    });
    receiver.recv().expect("the runtime finishes its tasks")
}

impl Clients<'_> {
    /// Waits for a task. After a failure it waits until the server answers again, so that a dead server does not use up
    /// a client's operations.
    fn call<T: Send + 'static>(
        &self,
        task: impl Future<Output = client::Result<T>> + Send + 'static,
    ) -> Result<T, Unanswered> {
        wait(self.runtime, task).map_err(|error| {
            let patient = self.patient.clone();
            let _alive =
                wait(
                    self.runtime,
                    async move { patient.table("model_narrow")?.get(Get::row("nobody's")).await },
                );
            match error.happened() {
                rpc::client::Happened::No => Unanswered::DidNotHappen,
                rpc::client::Happened::Maybe => Unanswered::MayHaveHappened,
            }
        })
    }
}

fn values(row: &Row) -> Vec<&[u8]> {
    row.cells().iter().map(|cell| cell.value()).collect()
}

impl Target for Clients<'_> {
    fn act(&self, row: &str, operation: &Operation) -> Result<Answer, Unanswered> {
        let (table, row) = (self.narrow.clone(), row.to_owned());
        let put =
            |value: &Vec<u8>| Put::row(row.clone()).set("f", "x", value.clone()).set("f", "y", value.clone());

        match operation.clone() {
            Operation::Put(value) => {
                let put = put(&value);
                self.call(async move { table.put(put).await.map(|()| Answer::Done) })
            }
            Operation::Delete => {
                let delete = Delete::row(row.clone());
                let delete =
                    if row.starts_with('r') { delete } else { delete.newest("f", "x").newest("f", "y") };
                self.call(async move { table.delete(delete).await.map(|()| Answer::Done) })
            }
            Operation::Get => self.call(async move {
                table.get(Get::row(row)).await.map(|row| Answer::Value(value_of(&values(&row))))
            }),
            Operation::Increment(by) => self.call(async move {
                let increment = Increment::row(row).add("f", "x", by).add("f", "y", by);
                table.increment(increment).await.map(|row| Answer::Value(value_of(&values(&row))))
            }),
            Operation::Append(more) => self.call(async move {
                let append = Append::row(row).add("f", "x", more.clone()).add("f", "y", more);
                table.append(append).await.map(|row| Answer::Value(value_of(&values(&row))))
            }),
            Operation::CheckAndPut(expected, value) => {
                let check = CheckAndMutate::column(row.clone(), "f", "x");
                let check = match expected {
                    Some(expected) => check.equals(expected),
                    None => check,
                };
                let check = check.then(put(&value));
                self.call(async move {
                    table.check_and_mutate(check).await.map(|(passed, _)| Answer::Passed(passed))
                })
            }
        }
    }

    fn write(&self, row: &str, value: &[u8]) -> Result<(), Unanswered> {
        let table = self.wide.clone();
        let mut put = Put::row(row.to_owned());
        for family in WIDE {
            for column in 0..COLUMNS {
                put = put.set(family, format!("q{column}"), value.to_vec());
            }
        }
        self.call(async move { table.put(put).await })
    }

    fn read(&self, row: &str) -> Result<Values, Unanswered> {
        let (table, row) = (self.wide.clone(), row.to_owned());
        let row = self.call(async move { table.get(Get::row(row)).await })?;
        Ok(values(&row).into_iter().map(<[u8]>::to_vec).collect())
    }

    fn scan(&self) -> Result<BTreeMap<Vec<u8>, Values>, Unanswered> {
        let table = self.wide.clone();
        let rows = self.call(async move { table.scan(Scan::new()).collect().await })?;
        let row =
            |row: Row| (row.key().to_vec(), values(&row).into_iter().map(<[u8]>::to_vec).collect::<Values>());
        Ok(rows.into_iter().map(row).collect())
    }

    fn width(&self) -> usize {
        WIDE.len() * COLUMNS
    }
}
