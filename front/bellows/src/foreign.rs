//! The stores from which files are bulk-loaded, besides the root and the folders of this machine: buckets of the
//! S3-compatible store that the settings name, and HDFS.
//!
//! The server reads these files with its own credentials. So a client could read through it what the client itself may
//! not read, or make it connect to any address. Therefore only the bucket or HDFS of the root, and the stores that
//! `bellows.bulkload.sources` names, are read.

use std::sync::Arc;

use conf::{Conf, keys};
use env::sync::Mutex;
use objectstore::Meter;
use regionserver::{ForeignFile, ForeignStorage, SourcePlace};
use storage::{FileName, Files};

use crate::failure::Failure;
use crate::root::{BucketName, Root};

/// Maximum number of stores to which clients are kept between loads.
const KEPT_MAX: usize = 4;

/// The stores from which files may be bulk-loaded.
pub(crate) struct ForeignStores {
    conf: Conf,
    /// The place of the root; `None` for a folder of this machine.
    root: Option<Place>,
    allowed: Allowed,
    /// Counts the requests to buckets, if the root or the log is in one.
    meter: Option<Arc<Meter>>,
    /// The clients of the stores that were used last, the newest at the end.
    kept: Mutex<Vec<(Root, Arc<dyn Files>)>>,
}

/// The value of `bellows.bulkload.sources`.
enum Allowed {
    Everything,
    Below(Vec<Place>),
}

/// A file or folder in a bucket or in HDFS.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The bucket without a prefix, or HDFS without a folder.
    store: Root,
    /// The path in the store, without slashes at its ends.
    path: String,
}

impl Place {
    /// Interprets a URL. The error says what is expected.
    fn parse(url: &str) -> Result<Place, String> {
        let expected = "expected s3a://BUCKET/PATH, abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH or hdfs://HOST:PORT/PATH, or \
                        file:/PATH for the server's machine";
        let (scheme, rest) = url.split_once("://").ok_or(expected)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Older clients write s3n.
        let scheme = if scheme.eq_ignore_ascii_case("s3n") { "s3" } else { scheme };
        let store = match BucketName::parse(scheme, authority) {
            Some(Ok(bucket)) => Root::Bucket { bucket, prefix: String::new() },
            Some(Err(_)) => return Err(expected.to_owned()),
            None if scheme.eq_ignore_ascii_case("hdfs") => {
                if authority.is_empty() || authority.contains('@') {
                    return Err(expected.to_owned());
                }
                Root::Hdfs { url: format!("hdfs://{authority}"), folder: String::new() }
            }
            None => {
                return Err(format!("the scheme {}: is not served; {expected}", scheme.to_ascii_lowercase()));
            }
        };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| matches!(*part, "." | "..") || part.contains('\0')) {
            return Err("a path with . or .. is not accepted; name the file by its whole path".to_owned());
        }
        Ok(Place { store, path: parts.join("/") })
    }

    /// Returns the place of a root; `None` for a folder of this machine.
    fn of_root(root: &Root) -> Option<Place> {
        let parsed = match root {
            Root::Folder(_) => return None,
            Root::Bucket { .. } | Root::Hdfs { .. } => Place::parse(&root.to_string()),
        };
        parsed.ok()
    }

    /// Returns the path of `file` below this folder; `None` if the file is elsewhere.
    fn path_below<'a>(&self, file: &'a Place) -> Option<&'a str> {
        let rest = match self.path.as_str() {
            _ if self.store != file.store => return None,
            "" => &*file.path,
            folder => file.path.strip_prefix(folder)?.strip_prefix('/')?,
        };
        (!rest.is_empty()).then_some(rest)
    }
}

impl ForeignStores {
    /// Reads the settings. Connects to nothing.
    pub(crate) fn new(conf: &Conf, root: &Root) -> Result<ForeignStores, Failure> {
        let key = &keys::cluster::BULK_LOAD_SOURCES;
        let urls: Vec<String> = conf.value(key)?;
        let place = |url: &String| {
            let wrong = |expected: String| {
                Failure::new(format!(
                    "bellows.bulkload.sources has {url:?}: {expected}; * allows every store"
                ))
            };
            Place::parse(url).map_err(wrong)
        };
        let allowed = match urls.iter().any(|url| url == "*") {
            true => Allowed::Everything,
            false => Allowed::Below(urls.iter().map(place).collect::<Result<_, _>>()?),
        };
        let root = Place::of_root(root);
        Ok(ForeignStores { conf: conf.clone(), root, allowed, meter: None, kept: Mutex::default() })
    }

    /// Lets `meter` count the requests to buckets.
    pub(crate) fn counted_by(self, meter: Option<Arc<Meter>>) -> ForeignStores {
        ForeignStores { meter, ..self }
    }

    /// Whether clients may load the file.
    fn allows(&self, file: &Place) -> bool {
        let is_beside_root = self.root.as_ref().is_some_and(|root| root.store == file.store);
        is_beside_root
            || match &self.allowed {
                Allowed::Everything => true,
                Allowed::Below(folders) => folders.iter().any(|folder| folder.path_below(file).is_some()),
            }
    }

    /// Returns a client of the store.
    fn open(&self, store: &Root) -> Result<Arc<dyn Files>, Failure> {
        let mut kept = self.kept.lock();
        let known = kept.iter().position(|(known, _)| known == store).map(|at| kept.remove(at));
        let entry = match known {
            Some(entry) => entry,
            None => (store.clone(), store.open_for_single_files(&self.conf, self.meter.as_ref())?),
        };
        let files = Arc::clone(&entry.1);
        kept.push(entry);
        let oldest = (kept.len() > KEPT_MAX).then(|| kept.remove(0));
        // The last user of a client waits for its threads to end, so the lock is released first.
        drop(kept);
        drop(oldest);
        Ok(files)
    }
}

impl ForeignStorage for ForeignStores {
    fn locate(&self, url: &str) -> Result<SourcePlace, String> {
        let place = Place::parse(url)?;
        if place.path.is_empty() {
            return Err("the URL names no file; name the file by its whole path".to_owned());
        }
        if let Some(name) = self.root.as_ref().and_then(|root| root.path_below(&place)) {
            return Ok(SourcePlace::Root(FileName::new(name)));
        }
        if !self.allows(&place) {
            return Err(format!(
                "this server may not read from {}; add it, or a folder of it, to bellows.bulkload.sources and start the server \
                 again, or copy the file to the server's machine and name it file:/PATH",
                place.store
            ));
        }
        let remedy = match &place.store {
            Root::Hdfs { .. } => {
                "check that this machine reaches the NameNode and the DataNodes, HADOOP_CONF_DIR, and that HADOOP_USER_NAME may \
                 read the file"
            }
            Root::Bucket { bucket: BucketName::Azure(_), .. } => {
                "check that the container is there, and that the account's key or identity may read the file"
            }
            _ => {
                "check that the bucket is there, fs.s3a.endpoint, fs.s3a.endpoint.region, and that fs.s3a.access.key may read \
                 the file"
            }
        };
        let files = self.open(&place.store).map_err(|failure| failure.to_string())?;
        Ok(SourcePlace::Foreign(ForeignFile { files, name: FileName::new(place.path), remedy }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where the file is that a server with this root and setting would load, or the refusal.
    fn locate(root: &str, sources: &str, url: &str) -> Result<String, String> {
        let conf = Conf::new()
            .with(&keys::cluster::BULK_LOAD_SOURCES, sources)
            .with(&keys::cluster::S3_ENDPOINT, "http://127.0.0.1:1")
            .with(&keys::cluster::S3_ACCESS_KEY, "a")
            .with(&keys::cluster::S3_SECRET_KEY, "b");
        let root = Root::parse("hbase.rootdir", root).expect("a root");
        let stores = ForeignStores::new(&conf, &root).expect("good settings");
        stores.locate(url).map(|place| match place {
            SourcePlace::Root(name) => format!("root {name}"),
            SourcePlace::Foreign(file) => format!("{} {}", file.files.place(), file.name),
        })
    }

    #[test]
    fn only_the_roots_store_and_named_ones_are_read() {
        let text = |text: &str| Ok(text.to_owned());
        for (root, sources, url, place) in [
            ("s3://b/x", "", "s3a://b/x/job/f/a", "root job/f/a"),
            ("s3://b/x", "", "s3a://b/xy//f/a", "s3://b/ xy/f/a"),
            ("hdfs://nn:8020/hbase", "", "hdfs://nn:8020/hbase/job/a", "root job/a"),
            ("hdfs://nn:8020/hbase", "", "hdfs://nn:8020/out/f/a", "hdfs://nn:8020 out/f/a"),
            ("/srv/x", "s3a://b/out/", "s3://b/out/f/a", "s3://b/ out/f/a"),
            ("/srv/x", "s3a://c, hdfs://nn:8020", "hdfs://nn:8020/f/a", "hdfs://nn:8020 f/a"),
            ("/srv/x", "*", "s3a://any/f/a", "s3://any/ f/a"),
            ("abfs://c@a.dfs.core.windows.net/x", "", "wasbs://c@a.blob.core.windows.net/x/f/a", "root f/a"),
            (
                "abfs://c@a.dfs.core.windows.net/x",
                "",
                "abfss://c@a.dfs.core.windows.net/f/a",
                "abfss://c@a.dfs.core.windows.net/ f/a",
            ),
        ] {
            assert_eq!(locate(root, sources, url), text(place), "{root} {sources} {url}");
        }
        for (root, sources, url) in [
            ("/srv/x", "", "s3a://b/f/a"),
            ("/srv/x", "s3a://b/out", "s3a://b/outer/f/a"),
            ("s3://b/x", "", "hdfs://nn:8020/f/a"),
            ("hdfs://nn:8020/hbase", "hdfs://nn:8020/out", "hdfs://other:8020/out/f/a"),
        ] {
            let refused = locate(root, sources, url).expect_err(url);
            assert!(refused.contains("to bellows.bulkload.sources and start"), "{refused}");
        }
        for (url, words) in [
            ("gs://b/f/a", "the scheme gs: is not served; expected s3a://"),
            ("hdfs:/f/a", "expected s3a://BUCKET/PATH"),
            ("s3a://key:secret@b/f", "expected s3a://BUCKET/PATH"),
            ("s3a://b/../f", "name the file by its whole path"),
            ("s3a://b/", "the URL names no file"),
        ] {
            let refused = locate("/srv/x", "*", url).expect_err(url);
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn a_wrong_setting_ends_the_start() {
        let conf = Conf::new().with(&keys::cluster::BULK_LOAD_SOURCES, "s3a://b, /srv/out");
        let root = Root::parse("hbase.rootdir", "/srv/x").expect("a root");
        let refused = ForeignStores::new(&conf, &root).err().expect("a path").to_string();
        assert!(refused.contains("bellows.bulkload.sources has \"/srv/out\": expected s3a://"), "{refused}");
    }
}
