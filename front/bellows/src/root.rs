//! The root: the place of all files, and of the log unless `hbase.wal.dir` names another place. It is a folder of this
//! machine, a part of a bucket in an S3-compatible store or of a container in Azure, or a folder in HDFS.

mod adoption;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use conf::{Conf, keys};
use env::World;
use hdfs::{Continued, Hdfs, PartLimits};
use objectstore::{Bucket, Meter, S3, Service};
use storage::{FileName, Files};

use crate::azure::{self, Container};
use crate::data_dir::{self, is_scheme};
use crate::failure::Failure;

pub(crate) use adoption::HBasePlace;

/// The folder of log files within the place of the log.
pub(crate) const LOG_FOLDER: &str = "WALs";

/// The place of all files, and of the log unless `hbase.wal.dir` names another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// A folder of this machine.
    Folder(PathBuf),
    /// The objects of a bucket whose names begin with a prefix.
    Bucket {
        bucket: BucketName,
        /// The prefix, without slashes at its ends; may be empty.
        prefix: String,
    },
    /// A folder in HDFS.
    Hdfs {
        /// `hdfs://HOST:PORT`, or `hdfs://NAME` of a name service.
        url: String,
        /// The folder's path from the root of HDFS.
        folder: String,
    },
}

/// A bucket, by its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BucketName {
    /// A bucket in an S3-compatible store.
    S3(String),
    /// A container in Azure Blob storage.
    Azure(Container),
}

/// A root that is open.
pub(crate) struct OpenRoot {
    pub(crate) files: Arc<dyn Files>,
    /// Counts the root's requests, if it is in an object store.
    pub(crate) meter: Option<Arc<Meter>>,
    /// How long the check of the store took; `None` for a folder, or if the store was not checked.
    pub(crate) probe: Option<Duration>,
}

impl Root {
    /// Returns the root named by `text`, the value of `option`.
    pub(crate) fn parse(option: &str, text: &str) -> Result<Root, Failure> {
        let scheme = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme));
        if let Some((_, rest)) = scheme.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("hdfs")) {
            return Root::parse_hdfs(option, text, rest);
        }
        let Some((scheme, rest)) = scheme.and_then(|(scheme, rest)| Some((scheme, rest.strip_prefix("//")?)))
        else {
            return Ok(Root::Folder(data_dir::folder(option, text)?));
        };
        let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let Some(bucket) = BucketName::parse(scheme, authority) else {
            return Ok(Root::Folder(data_dir::folder(option, text)?));
        };
        let bucket = bucket.map_err(|expected| Failure::new(format!("{option} is {text:?}, {expected}")))?;
        let prefix = prefix.trim_matches('/');
        if !prefix.is_empty() && prefix.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Failure::new(format!(
                "{option} is {text:?}, expected a folder without empty parts, . and .., as in {scheme}://{authority}/FOLDER/FOLDER"
            )));
        }
        Ok(Root::Bucket { bucket, prefix: prefix.to_owned() })
    }

    /// Returns the root in HDFS named by `text`, whose part after the scheme is `rest`.
    fn parse_hdfs(option: &str, text: &str, rest: &str) -> Result<Root, Failure> {
        let named = rest.strip_prefix("//").and_then(|rest| rest.split_once('/'));
        let named = named.map(|(server, path)| {
            (server, path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>())
        });
        match named {
            Some((server, path))
                if !server.is_empty()
                    && !server.contains('@')
                    && !path.is_empty()
                    && path.iter().all(|part| !matches!(*part, "." | "..")) =>
            {
                Ok(Root::Hdfs { url: format!("hdfs://{server}"), folder: format!("/{}", path.join("/")) })
            }
            _ => Err(Failure::new(format!(
                "{option} is {text:?}, expected hdfs://HOST:PORT/FOLDER, or hdfs://NAME/FOLDER for a name service of hdfs-site.xml \
                 in HADOOP_CONF_DIR; HADOOP_USER_NAME says as whom"
            ))),
        }
    }

    /// Returns the folder of this machine; `None` for any other root.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Root::Folder(folder) => Some(folder),
            Root::Bucket { .. } | Root::Hdfs { .. } => None,
        }
    }

    /// Returns the root with the whole path of a folder, which means the same for a process in another folder.
    pub(crate) fn absolute(self) -> Root {
        match self {
            Root::Folder(folder) => Root::Folder(std::path::absolute(&folder).unwrap_or(folder)),
            root => root,
        }
    }

    /// Whether the root is in `other`, and not the same place. Folders must have their whole paths.
    pub(crate) fn is_below(&self, other: &Root) -> bool {
        match (self, other) {
            (Root::Folder(own), Root::Folder(other)) => own != other && own.starts_with(other),
            (Root::Folder(_), _) | (_, Root::Folder(_)) => false,
            _ => self.to_string().starts_with(&format!("{other}/")),
        }
    }

    /// Whether the root is in an object store.
    pub(crate) fn is_bucket(&self) -> bool {
        matches!(self, Root::Bucket { .. })
    }

    /// Returns what the root is in, for messages.
    pub(crate) fn medium(&self) -> &'static str {
        match self {
            Root::Folder(_) => "a folder of this machine",
            Root::Bucket { .. } => "an object store",
            Root::Hdfs { .. } => "HDFS",
        }
    }

    /// Whether a setting that is not one of this program's keys has a meaning for this root: a key of Hadoop's client,
    /// if the root is in HDFS, or a secret of an account, if it is in Azure.
    pub(crate) fn understands(&self, key: &str) -> bool {
        match self {
            Root::Folder(_) | Root::Bucket { bucket: BucketName::S3(_), .. } => false,
            Root::Bucket { bucket: BucketName::Azure(_), .. } => azure::understands(key),
            Root::Hdfs { .. } => is_hadoops(key),
        }
    }

    /// Opens the root and checks its layout; an empty root gets the current layout. In HDFS this process becomes the owner if
    /// `check` permits it.
    pub(crate) fn open(
        &self,
        conf: &Conf,
        check: impl FnOnce(&dyn Files) -> Result<(), Failure>,
    ) -> Result<OpenRoot, Failure> {
        match self {
            Root::Folder(folder) => {
                return Ok(OpenRoot { files: Arc::new(data_dir::open(folder)?), meter: None, probe: None });
            }
            Root::Hdfs { url, folder } => {
                let files = self.hdfs(conf, url, folder)?;
                // The version is checked before the folder is taken, because taking it ends the server that owns it.
                data_dir::check_before_taking(&files, self)?;
                check(&files)?;
                files.base().take().map_err(|error| self.not_served(&error))?;
                data_dir::check_layout(&files, self)?;
                return Ok(OpenRoot { files: Arc::new(files), meter: None, probe: None });
            }
            Root::Bucket { .. } => {}
        }
        let (world, store) = (World::real(), self.bucket(conf, None)?);
        let began = world.moment();
        // Logged before the probe: if the store does not answer, the probe repeats its requests for some time, and an
        // operator should know why.
        tracing::info!(store = %self, "trying conditional writes, ranges and listings of the store");
        store.probe().map_err(|error| self.unreachable(conf, &error))?;
        let probe = Some(world.moment().since(began));
        if !data_dir::is_of_bellows(&*store, self)? {
            self.check_not_in_another(conf, store.meter())?;
        }
        data_dir::check_layout(&*store, self)?;
        Ok(OpenRoot { meter: Some(Arc::clone(store.meter())), probe, files: store })
    }

    /// Opens another server's root for reading: its store is not checked, and nothing is written.
    pub(crate) fn open_for_reading(&self, conf: &Conf) -> Result<OpenRoot, Failure> {
        if let Root::Folder(folder) = self {
            return Err(Failure::new(format!(
                "a read replica needs storage that two servers share, and the folder {} has one server only; name a bucket, as \
                 --data-dir s3://BUCKET/FOLDER, for both",
                folder.display()
            )));
        }
        self.refuse_hdfs()?;
        let store = self.bucket(conf, None)?;
        store.check_keys().map_err(|error| self.unreachable(conf, &error))?;
        data_dir::check_is_there(&*store, self)?;
        Ok(OpenRoot { meter: Some(Arc::clone(store.meter())), probe: None, files: store })
    }

    /// Opens a bucket for reading that has only the write-ahead log of another server. `meter` counts its requests. Fails
    /// for a root in HDFS.
    pub(crate) fn open_for_reading_log(
        &self,
        conf: &Conf,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Arc<dyn Files>, Failure> {
        self.refuse_hdfs()?;
        Ok(self.bucket(conf, meter)?)
    }

    /// Fails for a root in HDFS, which only its owner can read.
    fn refuse_hdfs(&self) -> Result<(), Failure> {
        if let Root::Hdfs { .. } = self {
            return Err(Failure::new(format!(
                "{self} cannot be read beside its server: HDFS does not show the end of a log that is being written; for a read replica \
                 or bellows fsck the files and the log must be in a bucket"
            )));
        }
        Ok(())
    }

    /// Opens a bucket, or a folder of HDFS, of which single files are read. Nothing is checked or written; the first read
    /// connects to the store. `meter` counts the requests to a bucket.
    pub(crate) fn open_for_single_files(
        &self,
        conf: &Conf,
        meter: Option<&Arc<Meter>>,
    ) -> Result<Arc<dyn Files>, Failure> {
        match self {
            Root::Folder(folder) => Err(Failure::new(format!("{} is no URL of a store", folder.display()))),
            Root::Bucket { .. } => Ok(self.bucket(conf, meter)?),
            Root::Hdfs { url, folder } => {
                let opened = Hdfs::open(hdfs_options(conf, url, folder)?);
                Ok(Arc::new(opened.map_err(|error| self.not_served(&error))?))
            }
        }
    }

    /// Opens the root for the log alone. `meter` counts the requests to a bucket, if there is one; otherwise the bucket gets
    /// a meter of its own. In HDFS this process becomes the owner if `check` permits it.
    pub(crate) fn open_for_log(
        &self,
        conf: &Conf,
        meter: Option<&Arc<Meter>>,
        check: impl FnOnce(&dyn Files) -> Result<(), Failure>,
    ) -> Result<OpenRoot, Failure> {
        let folder = match self {
            Root::Folder(folder) => folder,
            Root::Bucket { .. } => {
                let (world, store) = (World::real(), self.bucket(conf, meter)?);
                let began = world.moment();
                store.probe().map_err(|error| self.unreachable(conf, &error))?;
                let probe = Some(world.moment().since(began));
                return Ok(OpenRoot { meter: Some(Arc::clone(store.meter())), probe, files: store });
            }
            Root::Hdfs { url, folder } => {
                let files = self.hdfs(conf, url, folder)?;
                // Taking the folder ends the server that owns it.
                check(&files)?;
                files.base().take().map_err(|error| self.not_served(&error))?;
                return Ok(OpenRoot { files: Arc::new(files), meter: None, probe: None });
            }
        };
        let local = storage::Local::open(folder).map_err(|error| {
            let remedy = "make the folder writable for this process, or set hbase.wal.dir to another";
            Failure::new(format!("hbase.wal.dir is {self}: {error}; {remedy}"))
        })?;
        Ok(OpenRoot { files: Arc::new(local), meter: None, probe: None })
    }

    /// Opens the place of the log for a caller that has the data directory to itself and only reads. Fails if it is a folder of
    /// this machine that does not exist. In HDFS the caller becomes the owner, without which the log has no end.
    pub(crate) fn open_log_to_check(&self, conf: &Conf) -> Result<Arc<dyn Files>, Failure> {
        self.check_log_folder_is_there()?;
        match self {
            Root::Folder(folder) => match storage::Local::open_for_reading(folder) {
                Ok(local) => Ok(Arc::new(local)),
                Err(error) => Err(self.is_no_log_folder(&error)),
            },
            Root::Bucket { .. } => self.open_for_reading_log(conf, None),
            Root::Hdfs { .. } => Ok(self.open_for_log(conf, None, |_| Ok(()))?.files),
        }
    }

    /// Opens the place of the log of a server that has ended. Fails if it is a folder of this machine that does not exist. In
    /// HDFS this process becomes the owner if `check` permits it.
    pub(crate) fn open_existing_log(
        &self,
        conf: &Conf,
        check: impl FnOnce(&dyn Files) -> Result<(), Failure>,
    ) -> Result<Arc<dyn Files>, Failure> {
        self.check_log_folder_is_there()?;
        Ok(self.open_for_log(conf, None, check)?.files)
    }

    /// Fails if this is a folder of this machine that does not exist.
    fn check_log_folder_is_there(&self) -> Result<(), Failure> {
        match self {
            Root::Folder(folder) if !folder.is_dir() => {
                Err(self.is_no_log_folder(&"there is no such folder"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the refusal of the place of the log of an existing data directory.
    fn is_no_log_folder(&self, why: &dyn fmt::Display) -> Failure {
        Failure::new(format!(
            "hbase.wal.dir is {self}: {why}; mount its disk, or name it as the server has it"
        ))
    }

    /// Checks that a store can do what a server needs, as a start does; does nothing for a folder.
    pub(crate) fn probe(&self, conf: &Conf) -> Result<(), Failure> {
        match self {
            Root::Folder(_) => Ok(()),
            Root::Bucket { .. } => self.connect(conf).map(drop),
            Root::Hdfs { url, folder } => {
                Hdfs::probe(&hdfs_options(conf, url, folder)?).map_err(|error| self.not_served(&error))
            }
        }
    }

    /// Returns the folder in HDFS. This process does not own the folder until it is taken.
    fn hdfs(&self, conf: &Conf, url: &str, folder: &str) -> Result<Continued<Hdfs>, Failure> {
        let options = hdfs_options(conf, url, folder)?;
        let sync = conf.value(&keys::cluster::HDFS_LOG_SYNC_MAX)?;
        let limits = PartLimits { sync, sync_max: options.sync_max.max(sync), patience: options.call_max };
        // Every later call is repeated for a long time, because the NameNode of a running server may come back.
        Hdfs::probe(&options).map_err(|error| self.not_served(&error))?;
        let opened = Hdfs::open(options).map_err(|error| self.not_served(&error))?;
        Ok(Continued::new(opened, is_log_file, limits, World::real()))
    }

    fn not_served(&self, error: &storage::Error) -> Failure {
        Failure::new(format!(
            "{self}: {error}; check that its NameNode runs and this machine reaches it and the DataNodes, HADOOP_CONF_DIR, and the \
             right of HADOOP_USER_NAME to write the folder"
        ))
    }

    /// Connects to the store, after a check that it keeps the promises on which the data depends.
    fn connect(&self, conf: &Conf) -> Result<Arc<Bucket>, Failure> {
        let store = self.bucket(conf, None)?;
        store.probe().map_err(|error| self.unreachable(conf, &error))?;
        Ok(store)
    }

    /// Returns the folders above this one in the bucket, the nearest first.
    fn above(&self) -> Vec<Root> {
        let Root::Bucket { bucket, prefix } = self else { return Vec::new() };
        let (mut above, mut found) = (prefix.as_str(), Vec::new());
        while !above.is_empty() {
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
            found.push(Root::Bucket { bucket: bucket.clone(), prefix: above.to_owned() });
        }
        found
    }

    /// Fails if a folder above this one in the bucket is a data directory of Bellows, whose files would be among those of this
    /// one. A folder that cannot be read counts as none. `meter` counts the requests.
    fn check_not_in_another(&self, conf: &Conf, meter: &Arc<Meter>) -> Result<(), Failure> {
        for other in self.above() {
            let files = other.bucket(conf, Some(meter))?;
            if data_dir::is_of_bellows(&*files, &other).unwrap_or(false) {
                return Err(Failure::new(format!(
                    "{self} is in {other}, which is a data directory of bellows: their files would be mixed; choose a --data-dir outside \
                     of it, or name {other} itself"
                )));
            }
        }
        Ok(())
    }

    /// Returns the bucket that the settings name. The root must be in a bucket. `meter` counts its requests, or else a meter
    /// of its own.
    fn bucket(&self, conf: &Conf, meter: Option<&Arc<Meter>>) -> Result<Arc<Bucket>, Failure> {
        let Root::Bucket { bucket, prefix } = self else { unreachable!("only a bucket is in a store") };
        let options = options(conf, bucket, prefix)?;
        let store = Bucket::new(objectstore::Options { meter: meter.cloned(), ..options });
        store.map(Arc::new).map_err(|error| self.unreachable(conf, &error))
    }

    fn unreachable(&self, conf: &Conf, error: &storage::Error) -> Failure {
        let Root::Bucket { bucket, .. } = self else { unreachable!("only a bucket is in a store") };
        let options = options(conf, bucket, "").ok();
        let is_path_style = options
            .as_ref()
            .is_some_and(|options| matches!(&options.service, Service::S3(s3) if s3.path_style));
        let endpoint = options.and_then(|options| options.endpoint);
        Failure::new(match (bucket, endpoint) {
            (BucketName::S3(_), None) => {
                format!("{self} at Amazon S3: {error}; {}", s3_remedy(&error.to_string(), true))
            }
            (BucketName::S3(_), Some(url)) => {
                format!("{self} at {url}: {error}; {}", s3_remedy(&error.to_string(), is_path_style))
            }
            (BucketName::Azure(_), endpoint) => format!(
                "{self} at {}: {error}; check that the container is there, bellows.azure.endpoint, and the right to read and write \
                 with fs.azure.account.key.ACCOUNT, fs.azure.sas.fixed.token.ACCOUNT or the identity of the environment",
                endpoint.as_deref().unwrap_or("Azure")
            ),
        })
    }
}

impl BucketName {
    /// Returns the bucket that a URL of this scheme and authority names; `None` if the scheme is not one of an object
    /// store. The error says what is expected.
    pub(crate) fn parse(scheme: &str, authority: &str) -> Option<Result<BucketName, &'static str>> {
        if let Some(container) = Container::parse(scheme, authority) {
            return Some(container.map(BucketName::Azure));
        }
        if !["s3", "s3a"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        let is_good = !authority.is_empty() && !authority.contains(['@', ':']);
        Some(is_good.then(|| BucketName::S3(authority.to_owned())).ok_or(
            "expected s3://BUCKET/FOLDER; the store's address is fs.s3a.endpoint, the keys are fs.s3a.access.key and \
             fs.s3a.secret.key",
        ))
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BucketName::S3(bucket) => write!(f, "s3://{bucket}"),
            BucketName::Azure(container) => container.fmt(f),
        }
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Root::Folder(folder) => folder.display().fmt(f),
            Root::Bucket { bucket, prefix } if prefix.is_empty() => bucket.fmt(f),
            Root::Bucket { bucket, prefix } => write!(f, "{bucket}/{prefix}"),
            Root::Hdfs { url, folder } => write!(f, "{url}{folder}"),
        }
    }
}

/// Whether a name is that of a file of the log.
fn is_log_file(name: &FileName) -> bool {
    name.below(&FileName::new(LOG_FOLDER)).is_some_and(|rest| rest.ends_with(".wal"))
}

/// Whether a setting is one of Hadoop's client.
fn is_hadoops(key: &str) -> bool {
    ["dfs.", "hadoop.", "fs.defaultFS", "fs.viewfs."].iter().any(|begin| key.starts_with(begin))
}

fn hdfs_options(conf: &Conf, url: &str, folder: &str) -> Result<hdfs::Options, Failure> {
    use keys::cluster as key;
    let mut settings = Vec::new();
    for name in conf.unknown().filter(|name| is_hadoops(name)) {
        settings.extend(conf.text(name)?.map(|text| (name.to_owned(), text)));
    }
    let replication = u32::try_from(conf.value(&key::HDFS_REPLICATION)?).unwrap_or(u32::MAX);
    let host = env::host_name().unwrap_or_else(|| "a machine without a name".to_owned());
    Ok(hdfs::Options {
        owner: format!("process {} on {host}", std::process::id()),
        settings,
        replication: Some(replication).filter(|count| *count > 0),
        reads_max: usize::try_from(conf.value(&key::HDFS_READS_MAX)?).unwrap_or(usize::MAX).max(1),
        sync_max: conf.value(&key::HDFS_SYNC_MAX)?,
        call_max: conf.value(&key::HDFS_CALL_MAX)?,
        ..hdfs::Options::new(url, folder)
    })
}

fn options(conf: &Conf, bucket: &BucketName, prefix: &str) -> Result<objectstore::Options, Failure> {
    use keys::cluster as key;
    let (name, endpoint, service) = match bucket {
        BucketName::S3(name) => {
            let endpoint = s3_endpoint(conf)?;
            let s3 = s3_settings(conf, endpoint.as_deref())?;
            (name, endpoint, Service::S3(s3))
        }
        BucketName::Azure(container) => {
            let azure = azure::settings(conf, container.account.as_ref())?;
            let endpoint = azure::endpoint(conf)?;
            if let Some(url) = &endpoint {
                check_endpoint(keys::cluster::AZURE_ENDPOINT.name(), url)?;
            }
            (&container.name, endpoint, Service::Azure(azure))
        }
    };
    let reads_max = usize::try_from(conf.value(&key::S3_READS_MAX)?).unwrap_or(usize::MAX).max(1);
    Ok(objectstore::Options {
        endpoint,
        service,
        reads_max,
        hedging: objectstore::Hedging {
            percent_max: conf.value(&key::S3_HEDGE_PERCENT)?,
            delay_min: conf.value(&key::S3_HEDGE_DELAY_MIN)?,
        },
        settle_time: conf.value(&key::S3_SETTLE_TIME)?,
        account_of: layout::account_of,
        prices: prices(conf)?,
        ..objectstore::Options::new(name, prefix)
    })
}

/// The variables that name the S3-compatible store. The first that is set counts, if the key is not set.
const ENDPOINT_VARIABLES: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// Returns the URL of the S3-compatible store; `None` for Amazon's.
fn s3_endpoint(conf: &Conf) -> Result<Option<String>, Failure> {
    let key = &keys::cluster::S3_ENDPOINT;
    let url: String = conf.value(key)?;
    let variable = |name: &'static str| Some((name, std::env::var(name).ok().filter(|url| !url.is_empty())?));
    let named = match url.is_empty() {
        true => ENDPOINT_VARIABLES.into_iter().find_map(variable),
        false => Some((key.name(), url)),
    };
    let Some((name, url)) = named else { return Ok(None) };
    let scheme = if conf.value(&keys::cluster::S3_SSL)? { "https" } else { "http" };
    let url = if url.contains("://") { url } else { format!("{scheme}://{url}") };
    check_endpoint(name, &url)?;
    Ok(Some(url))
}

/// Fails unless `url`, the value of the key or variable `name`, is the address of a store.
fn check_endpoint(name: &str, url: &str) -> Result<(), Failure> {
    let is_address = |url: &reqwest::Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.query().or(url.fragment()).is_none()
    };
    match reqwest::Url::parse(url) {
        Ok(url) if is_address(&url) => Ok(()),
        _ => Err(Failure::new(format!("{name} is {url:?}, expected http://HOST:PORT or https://HOST:PORT"))),
    }
}

/// Returns what to do about `error`, with which an S3-compatible store was not reached.
fn s3_remedy(error: &str, is_path_style: bool) -> String {
    /// In the message of a TLS handshake with a server that speaks plain HTTP.
    const NO_TLS: &str = "InvalidContentType";
    /// The addresses from which an instance and a container get their keys.
    const METADATA: [&str; 2] = ["169.254.169.254", "169.254.170."];
    if error.contains(NO_TLS) {
        return "it does not speak TLS: begin fs.s3a.endpoint with http://, or set fs.s3a.connection.ssl.enabled to false".to_owned();
    }
    if error.contains(objectstore::NO_KEYS) {
        return "set fs.s3a.access.key and fs.s3a.secret.key or another of these, or give the machine a role"
            .to_owned();
    }
    if METADATA.iter().any(|address| error.contains(address)) {
        return "there are no keys in fs.s3a.access.key, AWS_ACCESS_KEY_ID, a profile or a web identity, and the metadata of this \
                machine or container gave none: set fs.s3a.access.key and fs.s3a.secret.key, or give the machine a role"
            .to_owned();
    }
    let style = match is_path_style {
        true => "",
        false => " fs.s3a.path.style.access (true for MinIO, Ceph or versitygw),",
    };
    format!(
        "check that the bucket is there, fs.s3a.endpoint,{style} fs.s3a.endpoint.region, and the right to read and write with \
         fs.s3a.access.key"
    )
}

fn s3_settings(conf: &Conf, endpoint: Option<&str>) -> Result<S3, Failure> {
    use keys::cluster as key;
    let text = |key| Ok::<_, Failure>(Some(conf.value(key)?).filter(|text: &String| !text.is_empty()));
    let (access, secret) = (text(&key::S3_ACCESS_KEY)?, text(&key::S3_SECRET_KEY)?);
    let keys = match (access, secret) {
        (Some(access), Some(secret)) => Some((access, secret)),
        (None, None) => None,
        _ => {
            return Err(Failure::new(
                "fs.s3a.access.key and fs.s3a.secret.key belong together: set both, or none to take them from the environment",
            ));
        }
    };
    let session_token = text(&key::S3_SESSION_TOKEN)?;
    if keys.is_none() && session_token.is_some() {
        return Err(Failure::new(
            "fs.s3a.session.token belongs to fs.s3a.access.key and fs.s3a.secret.key: set all three, or none to take them from the \
             environment",
        ));
    }
    Ok(S3 {
        path_style: conf.value(&key::S3_PATH_STYLE)? || endpoint.is_some_and(has_no_subdomains),
        region: text(&key::S3_REGION)?,
        keys,
        session_token,
    })
}

/// Returns the price list of the store's provider.
pub(crate) fn prices(conf: &Conf) -> Result<objectstore::Prices, Failure> {
    use keys::cluster as key;
    Ok(objectstore::Prices {
        put: conf.value(&key::PRICE_PUT)?,
        get: conf.value(&key::PRICE_GET)?,
        list: conf.value(&key::PRICE_LIST)?,
        delete: conf.value(&key::PRICE_DELETE)?,
        received: conf.value(&key::PRICE_RECEIVED)?,
    })
}

/// Whether the host of a URL is an address or `localhost`. A bucket's name cannot be put before such a host.
fn has_no_subdomains(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.starts_with('[') || name == "localhost" || name.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_and_a_folder_are_told_apart() {
        let bucket = |bucket: &str, prefix: &str| Root::Bucket {
            bucket: BucketName::S3(bucket.into()),
            prefix: prefix.into(),
        };
        for (text, root) in [
            ("s3://b/x/y", bucket("b", "x/y")),
            ("s3a://b/x/", bucket("b", "x")),
            ("S3://b", bucket("b", "")),
            ("./s3:x", Root::Folder("./s3:x".into())),
            ("/srv/x", Root::Folder("/srv/x".into())),
        ] {
            assert_eq!(Root::parse("hbase.rootdir", text).expect(text), root);
        }
        for text in ["s3://", "s3:///x", "s3://key:secret@b/x", "s3://localhost:9000/b"] {
            let refused = Root::parse("hbase.rootdir", text).expect_err(text).to_string();
            assert!(refused.contains("expected s3://BUCKET/FOLDER"), "{refused}");
        }
        for text in ["s3://b/a//b", "s3://b/./x", "s3a://b/a/../b", "abfs://c@acc.dfs.core.windows.net/a//b"]
        {
            let refused = Root::parse("hbase.rootdir", text).expect_err(text).to_string();
            assert!(refused.contains("expected a folder without empty parts"), "{refused}");
        }
        let container = "abfs://c@acc.dfs.core.windows.net/x/";
        let container = Root::parse("hbase.rootdir", container).expect(container);
        assert_eq!(container.to_string(), "abfss://c@acc.dfs.core.windows.net/x");
        assert!(
            container.understands("fs.azure.account.key.acc") && !container.understands("dfs.nameservices")
        );
        let refused = Root::parse("hbase.rootdir", "abfs://c/x").expect_err("no account").to_string();
        assert!(refused.contains("expected abfss://CONTAINER@ACCOUNT"), "{refused}");
        let above = |prefix: &str| bucket("b", prefix).above();
        assert_eq!(
            (above("x/y/z"), above("")),
            (vec![bucket("b", "x/y"), bucket("b", "x"), bucket("b", "")], vec![])
        );
        let hdfs = |url: &str, folder: &str| Root::Hdfs { url: url.into(), folder: folder.into() };
        for (text, root) in [
            ("hdfs://nn:9000/hbase", hdfs("hdfs://nn:9000", "/hbase")),
            ("HDFS://service/a//b/", hdfs("hdfs://service", "/a/b")),
        ] {
            assert_eq!(Root::parse("hbase.rootdir", text).expect(text), root);
        }
        for text in ["hdfs:", "hdfs:///x", "hdfs://nn", "hdfs://nn/", "hdfs://u@nn/x", "hdfs://nn/../x"] {
            let refused = Root::parse("hbase.rootdir", text).expect_err(text).to_string();
            assert!(refused.contains("expected hdfs://HOST:PORT/FOLDER"), "{refused}");
        }
        assert_eq!(hdfs("hdfs://nn", "/a/b").to_string(), "hdfs://nn/a/b");
        assert_eq!([bucket("b", "x/y").to_string(), bucket("b", "").to_string()], ["s3://b/x/y", "s3://b"]);
    }

    #[test]
    fn an_address_has_no_bucket_before_it() {
        for url in ["http://127.0.0.1:9000", "localhost:9000", "https://[::1]:9000/", "http://localhost"] {
            assert!(has_no_subdomains(url), "{url}");
        }
        for url in ["https://s3.eu-west-1.amazonaws.com", "https://store.example:9000/x"] {
            assert!(!has_no_subdomains(url), "{url}");
        }
    }

    #[test]
    fn an_address_that_is_no_url_is_refused_with_the_name_of_its_key() {
        let endpoint = |url: &str| s3_endpoint(&Conf::new().with(&keys::cluster::S3_ENDPOINT, url));
        assert_eq!(endpoint("minio:9000").expect("good").as_deref(), Some("https://minio:9000"));
        assert_eq!(endpoint("http://[::1]:9000").expect("good").as_deref(), Some("http://[::1]:9000"));
        for url in ["foo bar", "ftp://foo", "http://", "http://key:secret@minio", "http://minio?x=1"] {
            let refused = endpoint(url).expect_err(url).to_string();
            assert!(
                refused.starts_with("fs.s3a.endpoint is ") && refused.contains("http://HOST:PORT"),
                "{refused}"
            );
        }
    }

    #[test]
    fn the_refusal_of_a_store_says_what_to_do() {
        for (error, is_path_style, remedy) in [
            ("received corrupt message of type InvalidContentType", true, "fs.s3a.connection.ssl.enabled"),
            ("Error performing PUT http://169.254.169.254/latest/api/token", true, "there are no keys"),
            (&format!("{}: no fs.s3a.access.key", objectstore::NO_KEYS), true, "or give the machine a role"),
            ("dns error", false, "fs.s3a.path.style.access"),
            ("NoSuchBucket", true, "check that the bucket is there"),
        ] {
            let said = s3_remedy(error, is_path_style);
            assert!(said.contains(remedy), "{said}");
        }
        assert!(!s3_remedy("NoSuchBucket", true).contains("path.style"));
    }

    #[test]
    fn hadoops_settings_reach_hdfs() {
        let conf = Conf::new().with_definition("dfs.nameservices=a").expect("a setting");
        let conf = conf.with_definition("dfs.replication=2").expect("a setting");
        let conf = conf.with_definition("hbase.some.key=1").expect("a setting");
        let options = hdfs_options(&conf, "hdfs://a", "/x").expect("good");
        assert_eq!(options.settings, [("dfs.nameservices".to_owned(), "a".to_owned())]);
        assert_eq!((options.replication, options.folder.as_str()), (Some(2), "/x"));
        let root = Root::parse("hbase.rootdir", "hdfs://a/x").expect("a place");
        assert!(root.understands("dfs.nameservices") && !root.understands("hbase.some.key"));
    }

    #[test]
    fn keys_come_in_pairs() {
        let conf = Conf::new().with(&keys::cluster::S3_ACCESS_KEY, "a");
        let refused = options(&conf, &BucketName::S3("b".into()), "").expect_err("half of it").to_string();
        assert!(refused.contains("belong together"), "{refused}");
    }
}
