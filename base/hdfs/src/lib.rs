//! The files of one folder in HDFS, as [`storage::Files`].
//!
//! | call | in HDFS |
//! |---|---|
//! | `create`, `write`, `sync`, `finish` | one file under its final name; `hsync`, then a look whether the folder is still owned; `close` |
//! | `seal` | `recoverLease`, until the NameNode has closed the file: its writer can neither sync nor close it any more |
//! | `swap` | a second file, made durable, and a rename over the first; see [`owner`] for what makes it exclusive |
//! | `delete` | a rename into the owner's folder, which only the owner can do, and a deletion there |
//!
//! This crate cannot read the last block of a file that is being written: synced bytes can be read only after the file
//! was sealed or finished. HDFS cannot cut a file, nor read one that was deleted.
//!
//! **Limits.** A sync waits [`Options::sync_max`] at most, because the HDFS library waits forever for some DataNodes
//! that have failed. Every other call waits [`Options::call_max`] at most; a read makes two attempts, each with that
//! limit. After a call of a writer has failed or exceeded its limit, the writer writes no more.
//!
//! **Log files.** [`Continued`] is used for all files of a server: a log file whose DataNodes fail goes on in another file
//! of HDFS ([`continued`]).
//!
//! The HDFS library opens its own sockets and reads its own clock, not through `env`. So simulations use a model of
//! HDFS instead (`proof/sim`), with the same capabilities as this crate.

mod continued;
mod failure;
mod owner;
mod read;
mod silence;
mod swap;
mod write;

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use env::sync::Mutex;
use env::{HashMap, Runtime};
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use storage::{
    Capabilities, Capability, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Object, Outcome,
    Result, Settled, Version,
};
use tokio::sync::Semaphore;

pub use continued::{Continued, PartFiles, PartLimits};

use failure::{is_missing, of_hdfs};
use owner::Ownership;
use read::Reader;
use write::Writer;

/// The first pause between two checks of a file whose lease is being recovered; it doubles up to
/// [`RECOVERY_PAUSE_MAX`].
const RECOVERY_PAUSE: Duration = Duration::from_millis(50);
const RECOVERY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a probe tries another connection after the first, a second apart; each NameNode of a name service counts.
const PROBE_ATTEMPTS: u32 = 8;

/// How to reach the folder.
#[derive(Clone, Debug)]
pub struct Options {
    /// `hdfs://HOST:PORT` of the NameNode, or `hdfs://NAME` of a name service.
    pub url: String,
    /// The folder's path from the root of the file system, without a slash at its end.
    pub folder: String,
    /// The name of the process that opens the folder, for people.
    pub owner: String,
    /// Hadoop's settings, which override those of `core-site.xml` and `hdfs-site.xml` in `HADOOP_CONF_DIR`.
    pub settings: Vec<(String, String)>,
    /// Number of DataNodes that have each block; `None`: the NameNode decides.
    pub replication: Option<u32>,
    /// Maximum number of concurrent reads.
    pub reads_max: usize,
    /// Maximum time that the DataNodes may take for a sync, or for bytes that are sent to them. More bytes may take
    /// longer, by an eighth of a second for each MB. A value above `call_max` counts as `call_max`.
    pub sync_max: Duration,
    /// Maximum time that any other call may take.
    pub call_max: Duration,
}

impl Options {
    /// Returns the options for a folder, with the usual value for everything else.
    pub fn new(url: impl Into<String>, folder: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            folder: folder.into(),
            owner: String::new(),
            settings: Vec::new(),
            replication: None,
            reads_max: 64,
            sync_max: Duration::from_secs(10),
            call_max: Duration::from_secs(90),
        }
    }
}

/// The files of one folder in HDFS. Clones share the connection and the ownership.
#[derive(Clone)]
pub struct Hdfs(Arc<Shared>);

struct Shared {
    client: Client,
    options: Options,
    /// The ownership of the folder; empty until the folder is [taken](Hdfs::take).
    ownership: OnceLock<Ownership>,
    reads: Semaphore,
    /// The files that this process writes.
    writers: Mutex<HashMap<FileName, Arc<Seal>>>,
    /// The second files of swaps that may still take place, by object. A swap holds the lock while it reads, compares
    /// and replaces.
    swapping: Mutex<HashMap<FileName, String>>,
    /// The last field, so that the clients that run on it are dropped first.
    runtime: Runtime,
}

/// Whether this process has sealed the file. Locked while a writer sends bytes of the file.
type Seal = Mutex<bool>;

impl Hdfs {
    /// Opens the folder without becoming its owner. Its files can be read, but swaps, syncs and deletions fail until
    /// the folder is [taken](Hdfs::take). The first call connects to HDFS, not this one.
    pub fn open(options: Options) -> Result<Hdfs> {
        let (runtime, client) = connect(&options)?;
        Ok(Hdfs(Arc::new(Shared {
            client,
            reads: Semaphore::new(options.reads_max),
            options,
            ownership: OnceLock::new(),
            writers: Mutex::default(),
            swapping: Mutex::default(),
            runtime,
        })))
    }

    /// Takes the folder from its present owner, and creates it if missing. When this returns, no swap or deletion of
    /// the previous owner takes effect any more, and none of its syncs succeeds.
    ///
    /// Fails with [`Kind::InUse`] if another process takes the folder at the same time and succeeds.
    pub fn take(&self) -> Result<()> {
        let Options { folder, owner, .. } = self.0.options.clone();
        let client = self.0.client.clone();
        let act = "take";
        let taken =
            self.wait(&FileName::root(), act, async move { owner::take(&client, &folder, &owner).await })??;
        // If this process took the folder before, it keeps that ownership.
        let _first = self.0.ownership.set(taken);
        Ok(())
    }

    /// Fails if this process never took the folder, and names the refused action.
    fn own(&self, name: &FileName, act: &'static str) -> Result<&Ownership> {
        self.0.ownership.get().ok_or_else(|| {
            Error::new(Kind::ReadOnly, Outcome::DidNotHappen, name, act).because("the folder was not taken")
        })
    }

    /// Checks whether a NameNode can be reached and answers about the folder, which need not exist. Changes nothing. Fails
    /// after about [`PROBE_ATTEMPTS`] seconds if every NameNode refuses connections; for one that accepts them this waits as
    /// long as every call does.
    pub fn probe(options: &Options) -> Result<()> {
        let second = "1000".to_owned();
        let attempts = [
            ("dfs.client.failover.max.attempts", PROBE_ATTEMPTS.to_string()),
            ("dfs.client.failover.sleep.base.millis", second.clone()),
            ("dfs.client.failover.sleep.max.millis", second),
        ];
        let mut impatient = options.clone();
        impatient.settings.extend(attempts.map(|(key, value)| (key.to_owned(), value)));
        let (runtime, client) = connect(&impatient)?;
        let (path, url) = (path_in(&options.folder, &FileName::root()), options.url.clone());
        let asked = wait(&runtime, options, &FileName::root(), "reach", async move {
            match client.get_file_info(&path).await {
                // The library does not say which address it has tried.
                Err(HdfsError::IOError(error)) => {
                    let (error, looked) = (error.to_string(), silence::look(&url).await);
                    Reached::Nobody(if looked.contains(&error) {
                        looked
                    } else {
                        format!("{error}; {looked}")
                    })
                }
                Err(error) if !is_missing(&error) => Reached::Refusal(error),
                _ => Reached::NameNode,
            }
        })?;
        let error = |why: String| {
            Error::new(Kind::Failed, Outcome::DidNotHappen, &FileName::root(), "reach").because(why)
        };
        match asked {
            Reached::NameNode => Ok(()),
            Reached::Nobody(why) => Err(error(why)),
            // A name service whose NameNodes are all on standby has one that is becoming active.
            Reached::Refusal(HdfsError::RPCError(..) | HdfsError::FatalRPCError(..)) => {
                Hdfs::open(options.clone())?.look_at_folder()
            }
            Reached::Refusal(refusal) => {
                Err(of_hdfs(&refusal, Outcome::DidNotHappen, &FileName::root(), "reach"))
            }
        }
    }

    /// Fails unless the NameNode answers about the folder, which need not exist.
    fn look_at_folder(&self) -> Result<()> {
        let (client, path) = (self.0.client.clone(), path_in(&self.0.options.folder, &FileName::root()));
        self.wait(&FileName::root(), "reach", async move {
            match client.get_file_info(&path).await {
                Err(error) if !is_missing(&error) => {
                    Err(of_hdfs(&error, Outcome::DidNotHappen, &FileName::root(), "reach"))
                }
                _ => Ok(()),
            }
        })?
    }

    fn path(&self, name: &FileName) -> String {
        path_in(&self.0.options.folder, name)
    }

    fn write_options(&self) -> WriteOptions {
        WriteOptions { replication: self.0.options.replication, ..WriteOptions::default() }
    }

    /// Runs `work` on the folder's runtime and waits for it, for at most the time that a call may take. When that time
    /// is over, `work` may have happened.
    fn wait<T: Send + 'static>(
        &self,
        name: &FileName,
        act: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        wait(&self.0.runtime, &self.0.options, name, act, work)
    }

    /// Returns the error for a process that no longer owns the folder.
    async fn fenced(&self, name: &FileName, act: &'static str) -> Error {
        let by = owner::newest(&self.0.client, &self.0.options.folder).await;
        Error::new(Kind::InUse, Outcome::DidNotHappen, name, act)
            .because(format!("{} was taken over by {by}", self.place()))
    }

    /// Whether the folder is still this process's own.
    async fn is_owned(&self) -> hdfs_native::Result<bool> {
        let Some(own) = self.0.ownership.get() else { return Ok(false) };
        match self.0.client.get_file_info(own.folder()).await {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the folder of `name`, and the folders above it, as far as they are empty.
    async fn prune(&self, name: &FileName) {
        let mut folder = name.parent();
        while let Some(empty) = folder.filter(|folder| *folder != FileName::root()) {
            // If the folder is not empty or already removed, there is nothing to prune.
            if !self.0.client.delete(&self.path(&empty), false).await.unwrap_or(false) {
                break;
            }
            folder = empty.parent();
        }
    }

    async fn remove(&self, name: &FileName) -> Result<()> {
        let (path, aside) = (self.path(name), self.own(name, "delete")?.next_name());
        let failed = |error: &HdfsError| of_hdfs(error, Outcome::MayHaveHappened, name, "delete");
        match self.0.client.rename(&path, &aside, false).await {
            Ok(()) => {}
            // The file or the owner's folder is missing.
            Err(error) if is_missing(&error) => {
                return if self.is_owned().await.map_err(|error| failed(&error))? {
                    Ok(())
                } else {
                    Err(self.fenced(name, "delete").await)
                };
            }
            Err(error) => return Err(failed(&error)),
        }
        // If the file stays there, the next process that takes the folder removes it.
        let _left = self.0.client.delete(&aside, false).await;
        self.prune(name).await;
        Ok(())
    }
}

/// Whom a probe has reached.
enum Reached {
    /// A NameNode, which answers about the folder.
    NameNode,
    /// A NameNode, which refuses the request.
    Refusal(HdfsError),
    /// Nobody, for this reason.
    Nobody(String),
}

/// Creates the runtime and the client. Nothing is connected yet: the first call does that.
fn connect(options: &Options) -> Result<(Runtime, Client)> {
    let failed = |error: String| {
        Error::new(Kind::Failed, Outcome::DidNotHappen, &FileName::root(), "open").because(error)
    };
    let runtime = Runtime::start("hdfs", 2).map_err(|error| failed(error.to_string()))?;
    let client = {
        let _inside = runtime.handle().enter();
        ClientBuilder::new().with_url(&options.url).with_config(options.settings.clone()).build()
    };
    let client = client.map_err(|error| failed(error.to_string()))?;
    Ok((runtime, client))
}

/// Returns the path of `name` in HDFS.
fn path_in(folder: &str, name: &FileName) -> String {
    match name.as_str() {
        "" if folder.is_empty() => "/".to_owned(),
        "" => folder.to_owned(),
        name => format!("{folder}/{name}"),
    }
}

/// Runs `work` on the runtime and waits for it, for at most [`Options::call_max`]. If it takes long, logs what is known of
/// the NameNode.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    options: &Options,
    name: &FileName,
    act: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let (done, result) = mpsc::sync_channel(1);
    let (limit, url) = (options.call_max, options.url.clone());
    drop(runtime.spawn(async move {
        // The receiver is in this call, so the send succeeds.
        let _received = done.send(silence::limited(limit, &url, act, work).await);
    }));
    let result = result.recv().expect("the runtime runs as long as the folder is open");
    result.map_err(|cause| {
        Error::new(Kind::Failed, Outcome::MayHaveHappened, name, act)
            .because(format!("HDFS did not answer within {limit:?}: {cause}"))
    })
}

impl PartFiles for Hdfs {
    fn create_first(&self, name: &FileName, limit: Duration) -> Result<Box<dyn FileWriter>> {
        Ok(Box::new(Writer::create(self.clone(), name.clone(), limit)?))
    }

    fn begin_part(
        &self,
        part: &FileName,
        earlier: &FileName,
        bytes: &[u8],
        limit: Duration,
    ) -> Result<Box<dyn FileWriter>> {
        Ok(Box::new(Writer::begin_part(self.clone(), part, earlier, bytes, limit)?))
    }
}

impl Files for Hdfs {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE.with(Capability::SyncPrefix).with(Capability::ListsAll)
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        Ok(Box::new(Writer::create(self.clone(), name.clone(), self.0.options.sync_max)?))
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let (hdfs, file) = (self.clone(), name.clone());
        Ok(Arc::new(self.wait(name, "open", async move { Reader::open(hdfs, file).await })??))
    }

    /// Does nothing for a file that was sealed or finished. The bytes that were synced are on the disks of the
    /// DataNodes. Any other bytes of the file are in the memory of several DataNodes.
    fn sync(&self, name: &FileName) -> Result<()> {
        let (client, path, file) = (self.0.client.clone(), self.path(name), name.clone());
        self.wait(name, "sync", async move {
            client
                .get_file_info(&path)
                .await
                .map(drop)
                .map_err(|error| of_hdfs(&error, Outcome::MayHaveHappened, &file, "sync"))
        })?
    }

    /// First stops a writer in this process. A writer of a previous owner stops, too, because it checks its ownership
    /// with each sync. If a writer is interrupted in the middle of a sync, a DataNode may be left with a block that
    /// cannot be recovered.
    fn seal(&self, name: &FileName) -> Result<()> {
        let seal = self.0.writers.lock().get(name).cloned();
        if let Some(seal) = seal {
            // The lock is free only after the bytes that are being sent have been sent.
            *seal.lock() = true;
        }
        let (client, path, file) = (self.0.client.clone(), self.path(name), name.clone());
        let sealed = self.wait(name, "seal", async move {
            let mut pause = RECOVERY_PAUSE;
            loop {
                match client.recover_lease(&path).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    Err(error) if failure::is_being_recovered(&error) => {}
                    Err(error) => return Err(of_hdfs(&error, Outcome::MayHaveHappened, &file, "seal")),
                }
                env::sleep(pause).await;
                pause = (pause * 2).min(RECOVERY_PAUSE_MAX);
            }
        });
        sealed.unwrap_or_else(|late| {
            let limit = self.0.options.call_max;
            Err(late.because(format!(
                "its lease is not recovered after {limit:?}: no DataNode could end the file's last block, see \"recover Block\" in their \
                 logs; where one replica is left a restart of its DataNode helps"
            )))
        })
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let (hdfs, at) = (self.clone(), folder.clone());
        let mut entries = self.wait(folder, "list", async move {
            let (mut entries, mut folders) = (Vec::new(), vec![at.clone()]);
            while let Some(folder) = folders.pop() {
                let listed = match hdfs.0.client.list_status(&hdfs.path(&folder), false).await {
                    Ok(listed) => listed,
                    // A folder that vanishes during a listing is empty.
                    Err(error) if is_missing(&error) => continue,
                    Err(error) => return Err(of_hdfs(&error, Outcome::DidNotHappen, &at, "list")),
                };
                for found in listed {
                    let last = found.path.rsplit('/').next().unwrap_or_default();
                    // HDFS lists a file as itself, which is not a listing of a folder.
                    if last.is_empty() || !found.isdir && found.path == hdfs.path(&folder) {
                        continue;
                    }
                    let name = folder.join(last);
                    if name.as_str() == owner::FOLDER {
                        continue;
                    }
                    if found.isdir {
                        folders.push(name);
                    } else {
                        entries.push(Entry { name, size: found.length as u64 });
                    }
                }
            }
            Ok(entries)
        })??;
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        let (hdfs, file) = (self.clone(), name.clone());
        self.wait(name, "delete", async move { hdfs.remove(&file).await })?
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let (hdfs, file) = (self.clone(), name.clone());
        let content = self.wait(name, "read", async move { hdfs.content(&file, bytes_max).await })??;
        let version = Version::new(content.as_slice());
        Ok(Object { content, version })
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        self.swap_object(name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.settle_object(name, expected, new)
    }

    fn is_taken_over(&self) -> Result<bool> {
        let hdfs = self.clone();
        let owned =
            self.wait(&FileName::root(), "look for the owner of", async move { hdfs.is_owned().await })?;
        let is_owned = owned.map_err(|error| {
            of_hdfs(&error, Outcome::DidNotHappen, &FileName::root(), "look for the owner of")
        })?;
        Ok(self.0.ownership.get().is_some() && !is_owned)
    }

    fn place(&self) -> String {
        format!("{}{}", self.0.options.url, self.0.options.folder)
    }
}
