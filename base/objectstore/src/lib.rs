//! Files in an object store: in S3 or a store with the same interface, or in Azure Blob storage ([`service`]).
//!
//! [`Bucket`] implements [`storage::Files`] with none of the optional capabilities: a file appears, whole, when it is
//! finished, and a reader of a deleted file fails.
//!
//! - A file of at most [`PUT_MAX`] is one conditional PUT. A longer one is a multipart upload, whose parts are sent
//!   while the file is written ([`upload`]).
//! - Opening a file in S3 is one GET of its last [`TAIL_BYTES`], whose reply also has the file's size. Reads within these
//!   bytes need no further request. Opening a file that this process has just finished needs no request at all.
//! - A swap is a PUT with If-Match or If-None-Match; the version is the entity tag. If a reply is lost, the same bytes
//!   are sent again. If the store refuses a PUT, the object is read and compared ([`swap`]).
//! - Reads can be awaited; at most [`Options::reads_max`] run at once. A read that is answered much later than others is
//!   sent a second time ([`hedge`]).
//! - A request that fails and may succeed later is repeated for at most [`Options::settle_time`], by the monotonic clock.
//!   A request without a reply is given up after a third of that time ([`connector`]), and is sent again like one that
//!   failed ([`repeat`]).
//! - Keys are those of the configuration, or of the first source that has any. For S3 that is the environment, a profile
//!   ([`profile`]), a web identity, the metadata of the container, that of the instance; for Azure see [`azure`].
//!
//! Requests run on a runtime of the bucket's own, so that blocking calls can be made from any thread.

mod azure;
mod client;
mod clock;
mod connector;
mod folders;
mod hedge;
mod keys;
mod lasting_keys;
mod meter;
mod probe;
mod profile;
mod repeat;
mod s3;
mod service;
mod swap;
mod upload;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use env::sync::Mutex;
use env::{Moment, Runtime, World};
use futures::StreamExt;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt, RetryConfig};
use storage::{
    AwaitedRead, Capabilities, EarlyRead, Entry, Error, FileName, FileReader, FileWriter, Files, Kind,
    Object, Outcome, Result, Settled, Version,
};
use tokio::sync::Semaphore;

pub use azure::{Azure, AzureSecret, PUBLIC_DOMAIN};
pub use hedge::Hedging;
pub use keys::NO_KEYS;
pub use meter::{AccountOf, Meter, OTHERS, Prices, RequestCounts};
pub use s3::S3;
pub use service::Service;

use client::{Client, Clients};
use clock::StoreClock;
use connector::{Connector, for_file};
use folders::remove_folders;
use hedge::Hedge;
use keys::RemoteKeys;
use profile::ProfileKeys;
use swap::Repeat;
use upload::Upload;

/// Size of a part of a multipart upload, in bytes.
pub const PART_BYTES: usize = 16 << 20;

/// Size of the largest file that is one PUT, in bytes. It leaves room beside [`PART_BYTES`] because a multipart upload takes
/// three rounds of requests, and a flush of 16 MB of cells is a file of 17 MB.
pub const PUT_MAX: usize = PART_BYTES + PART_BYTES / 4;

/// Maximum number of files of one deletion that is repeated as a whole: as many as S3 deletes in one request.
const DELETED_AT_ONCE: usize = 1_000;

/// Number of objects of a page of a listing: the most that S3 returns. Azure's default is five times as large, and with it
/// a reply that breaks would cost more.
const LISTED_AT_ONCE: usize = 1_000;

/// Number of threads of the bucket's runtime. With one thread, all reads would wait while that thread signs a part of
/// an upload.
const THREADS: usize = 2;

/// Number of bytes at the end of a file that are read when it is opened: an HFile's trailer and, mostly, its index root
/// and Bloom filter metadata.
pub const TAIL_BYTES: u64 = 64 << 10;

/// Where a bucket is, and its limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the bucket.
    pub bucket: String,
    /// The folder in the bucket below which all files are; may be empty.
    pub prefix: String,
    /// The URL of the store, for stores other than those of the service's provider.
    pub endpoint: Option<String>,
    /// The service that has the bucket.
    pub service: Service,
    /// Maximum number of concurrent reads.
    pub reads_max: usize,
    /// When a read is sent a second time.
    pub hedging: Hedging,
    /// How long a call repeats requests that fail or have no reply, including the time of these requests. A write whose
    /// outcome is still unknown then fails as one that may have happened.
    pub settle_time: Duration,
    /// The function that returns the account to which the requests for a file are counted.
    pub account_of: AccountOf,
    /// What the provider charges.
    pub prices: Prices,
    /// The meter of another bucket, which then counts the requests of both. `None`: the bucket has a meter of its own.
    pub meter: Option<Arc<Meter>>,
}

impl Options {
    /// Returns the options of a bucket in S3, with everything else from the environment.
    pub fn new(bucket: impl Into<String>, prefix: impl Into<String>) -> Options {
        Options {
            bucket: bucket.into(),
            prefix: prefix.into(),
            endpoint: None,
            service: Service::S3(S3::default()),
            reads_max: 64,
            hedging: Hedging::OFF,
            settle_time: Duration::from_secs(30),
            account_of: |_| OTHERS.to_owned(),
            prices: Prices::NONE,
            meter: None,
        }
    }

    /// Returns how the client that repeats requests by itself does so.
    fn retry(&self) -> RetryConfig {
        RetryConfig { retry_timeout: self.settle_time, ..RetryConfig::default() }
    }

    /// Returns the same for the client that repeats nothing.
    fn no_retry() -> RetryConfig {
        RetryConfig { max_retries: 0, ..RetryConfig::default() }
    }
}

/// Files below one prefix of one bucket. Clones share the clients, the limit of reads and the counts of requests.
#[derive(Clone)]
pub struct Bucket {
    shared: Arc<Shared>,
    /// When the calls on this clone send their last request. `None`: [`Options::settle_time`] after each call begins.
    deadline: Option<Moment>,
}

struct Shared {
    /// The client for multipart uploads. It repeats failed requests by itself.
    store: Arc<dyn Client>,
    /// The client for all other requests. It repeats nothing, so every failure reaches the caller.
    once: Arc<dyn Client>,
    options: Options,
    /// The keys, if they are those of a profile.
    profile_keys: Option<Arc<ProfileKeys>>,
    /// The keys, if another service gives them.
    remote_keys: Option<RemoteKeys>,
    meter: Arc<Meter>,
    reads: Semaphore,
    runtime: Runtime,
    /// What is known of the store's clock.
    clock: Arc<StoreClock>,
    /// The clock of all deadlines.
    world: World,
    /// The last bytes of files that this process has just finished. The process that writes a file usually opens it
    /// next.
    finished: Mutex<VecDeque<FinishedFile>>,
}

struct FinishedFile {
    name: FileName,
    tail: Bytes,
    size: u64,
}

/// Maximum number of ends of finished files that are kept, each of at most [`TAIL_BYTES`].
const FINISHED_MAX: usize = 32;

impl Bucket {
    /// Creates the client of a bucket. The first request connects to the store, not this call. Fails if the keys are
    /// those of a profile that cannot be used, or if the settings of the service are incomplete.
    pub fn new(options: Options) -> Result<Bucket> {
        Bucket::with_environment(options, |name| std::env::var(name).ok())
    }

    /// Like [`new`](Bucket::new), with these variables in place of those of the process, as far as they decide which keys
    /// are used.
    fn with_environment(options: Options, variable: impl Fn(&str) -> Option<String>) -> Result<Bucket> {
        let failed = |error: String| {
            Error::new(Kind::Failed, Outcome::DidNotHappen, &FileName::root(), "open").because(error)
        };
        // If a provider is installed already, the call fails, which does no harm.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let own = || Arc::new(Meter::new(options.account_of, options.prices));
        let meter = options.meter.clone().unwrap_or_else(own);
        let clock = Arc::<StoreClock>::default();
        let hedge = Hedge::new(options.hedging);
        let connector = Connector::new(hedge, Arc::clone(&meter), Arc::clone(&clock), options.settle_time);
        let clients = match &options.service {
            Service::S3(s3) => s3.clients(&options, &connector, variable),
            Service::Azure(azure) => azure.clients(&options, &connector, variable),
        };
        let Clients { store, once, profile_keys, remote_keys } = clients.map_err(failed)?;
        let runtime = Runtime::start("objectstore", THREADS).map_err(|error| failed(error.to_string()))?;
        let reads = Semaphore::new(options.reads_max);
        let finished = Mutex::default();
        let world = World::real();
        let shared = Shared {
            store,
            once,
            options,
            profile_keys,
            remote_keys,
            meter,
            reads,
            runtime,
            clock,
            world,
            finished,
        };
        let shared = Arc::new(shared);
        Ok(Bucket { shared, deadline: None })
    }

    /// Returns the bucket for calls that send their last request at `deadline`.
    fn ending_at(&self, deadline: Moment) -> Bucket {
        Bucket { shared: Arc::clone(&self.shared), deadline: Some(deadline) }
    }

    /// Returns the bucket without the deadline of [`Files::under_one_deadline`], for objects that outlive it.
    fn without_deadline(&self) -> Bucket {
        Bucket { shared: Arc::clone(&self.shared), deadline: None }
    }

    /// Returns how often the keys of the bucket have changed, for [`has_new_keys`](Bucket::has_new_keys).
    fn key_changes(&self) -> u64 {
        self.shared.profile_keys.as_ref().map_or(0, |keys| keys.changes())
    }

    /// Returns whether the store may have refused a request because of its keys, and the keys have changed since
    /// [`key_changes`](Bucket::key_changes) returned `changes`. The same request may succeed then.
    fn has_new_keys(&self, changes: u64, error: &object_store::Error) -> bool {
        let keys = self.shared.profile_keys.as_ref().filter(|_| profile::may_concern_keys(error));
        keys.is_some_and(|keys| keys.have_changed_since(changes))
    }

    /// Keeps the last bytes of a file that was just finished, so that opening it needs no request.
    fn note_finished(&self, name: &FileName, tail: Bytes, size: u64) {
        let mut finished = self.shared.finished.lock();
        finished.truncate(FINISHED_MAX - 1);
        finished.push_front(FinishedFile { name: name.clone(), tail, size });
    }

    /// Returns the end and the size of a file that this process has just finished; `None` for any other file.
    fn just_finished(&self, name: &FileName) -> Option<(Bytes, u64)> {
        let finished = self.shared.finished.lock();
        finished.iter().find(|file| file.name == *name).map(|file| (file.tail.clone(), file.size))
    }

    /// Returns the counts of requests so far.
    pub fn requests(&self) -> &RequestCounts {
        self.shared.meter.total()
    }

    /// Returns the meter that counts the requests.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.shared.meter
    }

    /// Runs `work` on the bucket's runtime and waits for it. Its requests are counted to the account of the file `name`.
    fn wait<T: Send + 'static>(&self, name: &FileName, work: impl Future<Output = T> + Send + 'static) -> T {
        self.begin(name, work)()
    }

    /// Runs `work` on the bucket's runtime. The returned function waits for it. The requests of `work` are counted to the
    /// account of the file `name`.
    fn begin<F>(&self, name: &FileName, work: F) -> impl FnOnce() -> F::Output + Send + Sync + use<F>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let (done, result) = mpsc::sync_channel(1);
        let work = for_file(name, work);
        drop(self.shared.runtime.spawn(async move {
            // The send fails if the caller no longer waits.
            let _received = done.send(work.await);
        }));
        let (bucket, result) = (self.clone(), Mutex::new(result));
        move || {
            let received = result.lock().recv();
            let _runs_until_then = bucket;
            received.expect("the bucket's runtime runs as long as the bucket")
        }
    }

    fn path(&self, name: &FileName, act: &'static str) -> Result<Path> {
        let prefix = self.shared.options.prefix.trim_matches('/');
        let whole = match (prefix.is_empty(), name.as_str()) {
            (true, name) => name.to_owned(),
            (false, "") => prefix.to_owned(),
            (false, name) => format!("{prefix}/{name}"),
        };
        Path::parse(whole).map_err(|error| {
            Error::new(Kind::Failed, Outcome::DidNotHappen, name, act).because(error.to_string())
        })
    }

    /// Returns the object at `path` whole, and the random number of the writer of its file if it has one; fails if it is
    /// longer than `bytes_max`. Sends no request after `deadline`.
    async fn get(
        &self,
        name: &FileName,
        path: &Path,
        bytes_max: usize,
        deadline: Moment,
    ) -> Result<(Object, Option<String>)> {
        let get = || async {
            let found = self.shared.once.get(path).await?;
            let (meta, attributes) = (found.meta.clone(), found.attributes.clone());
            let content = if meta.size > bytes_max as u64 { None } else { Some(found.bytes().await?) };
            Ok((meta, attributes, content))
        };
        let found = self.repeated(deadline, get).await;
        let (meta, attributes, content) =
            found.map_err(|error| of_store(&error, Outcome::DidNotHappen, name, "read"))?;
        let Some(content) = content else {
            return Err(Error::new(Kind::TooLarge, Outcome::DidNotHappen, name, "read")
                .because(format!("{} bytes, at most {bytes_max} expected", meta.size)));
        };
        let version = version_of(meta.e_tag, name)?;
        let nonce = attributes.get(&self.shared.options.service.nonce()).map(|nonce| nonce.to_string());
        Ok((Object { content: content.to_vec(), version }, nonce))
    }

    /// Returns the last bytes of the object and its size.
    async fn tail(&self, name: &FileName, path: &Path, act: &'static str) -> Result<(Bytes, u64)> {
        let failed = |error| of_store(&error, Outcome::DidNotHappen, name, act);
        let deadline = self.deadline();
        let get = |range: GetRange| {
            move || {
                let range = range.clone();
                async move {
                    let options = GetOptions { range: Some(range), ..GetOptions::default() };
                    let found = self.shared.once.get_opts(path, options).await?;
                    let (size, range) = (found.meta.size, found.range.clone());
                    Ok((found.bytes().await?, size, range.end))
                }
            }
        };
        let opening = get(self.shared.options.service.opening_range());
        let error = match self.repeated(deadline, opening).await {
            Ok((found, size, end)) if end == size => return Ok((found, size)),
            Ok((_, size, _)) => {
                let last = get(GetRange::Bounded(size.saturating_sub(TAIL_BYTES)..size));
                return match self.repeated(deadline, last).await {
                    Ok((found, ..)) => Ok((found, size)),
                    Err(error) => Err(failed(error)),
                };
            }
            Err(error) => error,
        };
        if repeat::is_transient(&error) || matches!(error, object_store::Error::NotFound { .. }) {
            return Err(failed(error));
        }
        // The store refuses a range of an empty object.
        let head = || self.shared.once.head(path);
        let size = self.repeated(deadline, head).await.map_err(failed)?.size;
        if size > 0 {
            return Err(Error::new(Kind::Failed, Outcome::DidNotHappen, name, act)
                .because(format!("the store returned no range of an object of {size} bytes")));
        }
        Ok((Bytes::new(), 0))
    }

    /// Returns the names and sizes of the objects below `path`, by one request for each [`LISTED_AT_ONCE`] of them. Each of these
    /// requests is repeated by itself.
    async fn list_below(&self, path: &Path) -> object_store::Result<Vec<ObjectMeta>> {
        let prefix = Some(format!("{path}/")).filter(|prefix| prefix != "/");
        let (mut objects, mut page_token) = (Vec::new(), None);
        loop {
            let list = || {
                let page = PaginatedListOptions {
                    page_token: page_token.clone(),
                    max_keys: Some(LISTED_AT_ONCE),
                    ..PaginatedListOptions::default()
                };
                self.shared.once.list_paginated(prefix.as_deref(), page)
            };
            let page = self.repeated(self.deadline(), list).await?;
            objects.extend(page.result.objects);
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(objects);
            }
        }
    }
}

/// Returns the version that corresponds to the store's entity tag; fails without a tag.
fn version_of(tag: Option<String>, name: &FileName) -> Result<Version> {
    tag.map(|tag| Version::new(tag.into_bytes())).ok_or_else(|| {
        Error::new(Kind::Failed, Outcome::MayHaveHappened, name, "read")
            .because("the store returned no entity tag; it cannot hold this data")
    })
}

/// Returns the code of the store's answer, such as `NoSuchKey`; `None` if the answer has none, as that of a HEAD request.
fn code(answer: &str) -> Option<&str> {
    let (_, code) = answer.split_once("<Code>")?;
    code.split_once("</Code>").map(|(code, _)| code)
}

/// Whether the store says that the object is absent. A status 404 with any other code is about the bucket or the access
/// key. One without a code [is not the store's](is_of_intermediary).
fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
        && match code(&error.to_string()) {
            None => !is_of_intermediary(error),
            Some(code) => matches!(code, "NoSuchKey" | "NoSuchVersion" | "BlobNotFound"),
        }
}

/// Whether this is a status 404 that the store has not sent. A proxy answers so, with any text or none, while it has no
/// route to the store. That says nothing about the object, and the same request may succeed later.
///
/// Only two answers of a store have no code: that to a HEAD request, and that to one deletion of several in a request to
/// Azure, which is no reply of its own.
fn is_of_intermediary(error: &object_store::Error) -> bool {
    let words = error.to_string();
    matches!(error, object_store::Error::NotFound { .. })
        && code(&words).is_none()
        && words.contains(repeat::STATUS)
        && !words.contains("performing HEAD")
}

/// Classifies an error of the store.
fn of_store(source: &object_store::Error, outcome: Outcome, name: &FileName, act: &'static str) -> Error {
    use object_store::Error as Store;
    let (kind, outcome) = match source {
        _ if is_absent(source) => (Kind::NotFound, Outcome::DidNotHappen),
        Store::AlreadyExists { .. } => (Kind::Exists, outcome),
        Store::Precondition { .. } => (Kind::Conflict, outcome),
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            (Kind::ReadOnly, Outcome::DidNotHappen)
        }
        _ => (Kind::Failed, outcome),
    };
    let remedy = match source {
        // The library lists no page with such a key, so it cannot be left out.
        Store::InvalidPath { .. } => {
            "; bellows writes no such key: delete this object, or move it out of the folder, for instance with aws s3api delete-object"
        }
        _ => "",
    };
    Error::new(kind, outcome, name, act).because(format!("{}{remedy}", with_causes(source)))
}

/// Returns the message of an error with those of its causes that it does not contain. The library's message of a
/// connection that failed lacks the cause, such as a refused connection or a failed TLS handshake.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(this) = cause {
        let words = this.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = this.source();
    }
    text
}

impl Files for Bucket {
    fn capabilities(&self) -> Capabilities {
        Capabilities::NONE
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        let path = self.path(name, "create")?;
        Ok(Box::new(Upload::new(self.without_deadline(), name.clone(), path)))
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "open")?);
        let at = path.clone();
        let (tail, size) = match self.just_finished(name) {
            Some(known) => known,
            None => self.wait(name, async move { bucket.tail(&file, &at, "open").await })?,
        };
        Ok(Arc::new(Reader { bucket: self.without_deadline(), name: name.clone(), path, size, tail }))
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let (bucket, at, path) = (self.clone(), folder.clone(), self.path(folder, "list")?);
        let skipped = match self.path(&FileName::root(), "list")?.as_ref() {
            "" => 0,
            prefix => prefix.len() + 1,
        };
        self.wait(folder, async move {
            let found = bucket.list_below(&path).await;
            let found = found.map_err(|error| of_store(&error, Outcome::DidNotHappen, &at, "list"))?;
            // The prefix itself is no file, so its name is too short.
            let entry = |meta: ObjectMeta| {
                let name = FileName::new(meta.location.as_ref().get(skipped..)?);
                Some(Entry { name, size: meta.size })
            };
            let mut entries: Vec<Entry> = found.into_iter().filter_map(entry).collect();
            entries.sort_by(|left, right| left.name.cmp(&right.name));
            remove_folders(&mut entries, &at);
            Ok(entries)
        })
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.shared.finished.lock().retain(|file| file.name != *name);
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "delete")?);
        self.wait(name, async move {
            let delete = || bucket.shared.once.delete(&path);
            match bucket.repeated(bucket.deadline(), delete).await {
                Ok(()) => Ok(()),
                Err(error) if is_absent(&error) => Ok(()),
                Err(error) => Err(of_store(&error, Outcome::MayHaveHappened, &file, "delete")),
            }
        })
    }

    /// Takes one request for each thousand files.
    fn delete_all(&self, names: &[FileName]) -> Result<()> {
        let Some(first) = names.first().cloned() else { return Ok(()) };
        self.shared.finished.lock().retain(|file| !names.contains(&file.name));
        let paths: Vec<_> = names.iter().map(|name| self.path(name, "delete")).collect::<Result<_>>()?;
        let (bucket, counted) = (self.clone(), first.clone());
        self.wait(&counted, async move {
            for paths in paths.chunks(DELETED_AT_ONCE) {
                let delete = || async {
                    let paths: Vec<_> = paths.iter().cloned().map(Ok).collect();
                    let paths = futures::stream::iter(paths).boxed();
                    let mut deleted = bucket.shared.once.delete_stream(paths);
                    while let Some(outcome) = deleted.next().await {
                        match outcome {
                            Ok(_) => {}
                            Err(error) if is_absent(&error) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(())
                };
                let deleted = bucket.repeated(bucket.deadline(), delete).await;
                deleted.map_err(|error| of_store(&error, Outcome::MayHaveHappened, &first, "delete"))?;
            }
            Ok(())
        })
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "read")?);
        self.wait(name, async move {
            let found = bucket.get(&file, &path, bytes_max, bucket.deadline()).await;
            found.map(|(object, _)| object)
        })
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "swap")?);
        let (expected, new) = (expected.cloned(), Bytes::copy_from_slice(new));
        self.wait(name, async move {
            bucket.swap_object(&file, &path, expected.as_ref(), new, false, Repeat::UntilSettled).await
        })
    }

    /// Sends the bytes of the swap again. If the first request has not taken effect, the second one does, so the first
    /// can no longer change anything when it arrives late.
    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "settle")?);
        let (expected, new) = (expected.cloned(), Bytes::copy_from_slice(new));
        self.wait(name, async move {
            let repeat = Repeat::UntilSettled;
            match bucket.swap_object(&file, &path, expected.as_ref(), new, true, repeat).await {
                Ok(version) => Ok(Settled::Happened(version)),
                Err(error) if error.kind() == Kind::Conflict => Ok(Settled::Replaced),
                Err(error) => Err(error),
            }
        })
    }

    fn under_one_deadline(&self) -> Option<Arc<dyn Files>> {
        self.deadline.is_none().then(|| Arc::new(self.ending_at(self.deadline())) as _)
    }

    fn place(&self) -> String {
        let Options { service, bucket, prefix, .. } = &self.shared.options;
        service.url(bucket, prefix)
    }
}

#[derive(Clone)]
struct Reader {
    bucket: Bucket,
    name: FileName,
    path: Path,
    size: u64,
    /// The file's last bytes.
    tail: Bytes,
}

impl Reader {
    async fn range(&self, offset: u64, length: usize) -> Result<Bytes> {
        let end = offset.saturating_add(length as u64);
        if end > self.size {
            return Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, &self.name, "read")
                .because(format!("{length} bytes at offset {offset} expected, the file has {}", self.size)));
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        let _permit = self.bucket.shared.reads.acquire().await.expect("the semaphore is never closed");
        let get = || self.bucket.shared.once.get_range(&self.path, offset..end);
        let bytes = self.bucket.repeated(self.bucket.deadline(), get).await;
        let bytes = bytes.map_err(|error| of_store(&error, Outcome::DidNotHappen, &self.name, "read"))?;
        if bytes.len() != length {
            return Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, &self.name, "read").because(
                format!("{length} bytes at offset {offset} expected, the store returned {}", bytes.len()),
            ));
        }
        Ok(bytes)
    }
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let tail_from = self.size - self.tail.len() as u64;
        let in_tail = offset.checked_sub(tail_from).and_then(|from| {
            let from = usize::try_from(from).ok()?;
            self.tail.get(from..from.checked_add(buffer.len())?)
        });
        if let Some(bytes) = in_tail
            && !buffer.is_empty()
        {
            buffer.copy_from_slice(bytes);
            return Ok(());
        }
        let (reader, length) = (self.clone(), buffer.len());
        let bytes = self.bucket.wait(&self.name, async move { reader.range(offset, length).await })?;
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_awaited(&self, offset: u64, length: usize) -> Option<AwaitedRead> {
        let reader = self.clone();
        Some(Box::pin(async move {
            let (bucket, name) = (reader.bucket.clone(), reader.name.clone());
            let read = bucket
                .shared
                .runtime
                .spawn(for_file(&name, async move { reader.range(offset, length).await }));
            read.await.unwrap_or_else(|error| {
                Err(Error::new(Kind::Failed, Outcome::DidNotHappen, &name, "read").because(error.to_string()))
            })
        }))
    }

    fn read_early(&self, offset: u64, length: usize) -> Option<EarlyRead> {
        let reader = self.clone();
        let result = self.bucket.begin(&self.name, async move { reader.range(offset, length).await });
        Some(Box::new(result))
    }
}
