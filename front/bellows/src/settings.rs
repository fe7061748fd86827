//! Turns command line, site file and keys into the options of each part of the server.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use conf::{Conf, keys};
use region::RegionOptions;
use storage::MachineMemory;

use crate::args::{self, Start};
use crate::bucket::BucketSettings;
use crate::check;
use crate::failure::Failure;
use crate::log_place;
use crate::root::Root;
use crate::spans::SpanSettings;

/// Usable memory in bytes that is assumed if it cannot be read.
const MEMORY_ASSUMED: u64 = 4 << 30;
/// The usable memory (the machine's or the container's) divided by this number takes the place of HBase's heap: keys
/// that HBase defines as a fraction of the heap are a fraction of it.
const MEMORY_PART: u64 = 2;

/// Default period of the search for garbage if the files are in an object store or HDFS, in ms: one day. The search
/// lists the folder of each family, and these listings would be most of what an idle server pays for.
const SEARCH_IN_STORE: &str = "86400000";

/// Default number of regions that are opened at the same time if the files are in an object store or HDFS.
const OPENED_IN_STORE: &str = "32";

const SITE_REMEDY: &str = "name a file in the form of hbase-site.xml, or leave --site out";

/// The settings of a server.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) conf: Conf,
    pub(crate) root: Root,
    /// Whether this server is a read replica of the server with the same root.
    pub(crate) is_replica: bool,
    /// The place of the log, when it is not under the root.
    pub(crate) wal_dir: Option<Root>,
    /// Name under which clients reach the region server.
    pub(crate) host: String,
    /// Name under which clients reach the master.
    pub(crate) master_host: String,
    pub(crate) rpc: SocketAddr,
    pub(crate) master: SocketAddr,
    pub(crate) zookeeper: SocketAddr,
    pub(crate) web: SocketAddr,
    pub(crate) znode_parent: String,
    pub(crate) rpc_options: rpc::Options,
    pub(crate) registry_options: registry::Options,
    pub(crate) web_options: web::Options,
    /// Whether the system may use large pages for the server's memory.
    pub(crate) huge_pages: bool,
    pub(crate) log: wal::Options,
    pub(crate) region: RegionOptions,
    pub(crate) cache: cache::Options,
    /// The second tier of the block cache, if there is one.
    pub(crate) bucket: Option<BucketSettings>,
    pub(crate) memstore_bytes: u64,
    /// Where spans are sent; `None` if nowhere.
    pub(crate) spans: Option<SpanSettings>,
}

impl Settings {
    /// Returns the settings that a server with the root folder `root` would have, for commands that work on the folder
    /// of a stopped server.
    pub(crate) fn of_root(
        root: &Path,
        site: Option<&Path>,
        define: &[(String, String)],
    ) -> Result<Settings, Failure> {
        Settings::gather(&Start {
            data_dir: Some(root.to_owned()),
            site: site.map(Path::to_owned),
            define: define.to_vec(),
            ..Start::default()
        })
    }

    /// Gathers the settings. A command line option overrides `-D`, which overrides the site file, which overrides the
    /// key's default. Fails for an invalid value.
    pub(crate) fn gather(start: &Start) -> Result<Settings, Failure> {
        let mut conf = Conf::new()
            .with_variable("user.name", user())
            .with_variable("java.io.tmpdir", std::env::temp_dir().display().to_string());
        if let Some(site) = &start.site {
            let text = storage::read_text(site).map_err(|error| {
                Failure::new(format!("--site {}: {error}; {SITE_REMEDY}", site.display()))
            })?;
            conf = conf.with_file(&format!("--site {}", site.display()), &text).map_err(
                |error| match error {
                    conf::Error::File { .. } => Failure::new(format!("{error}; {SITE_REMEDY}")),
                    error => error.into(),
                },
            )?;
        }
        for (key, value) in &start.define {
            conf = conf.with_definition(&format!("{key}={value}"))?;
        }
        conf.check()?;
        check::check(&conf)?;
        let bind = match start.bind {
            Some(bind) => bind,
            None => address(&conf.value(&keys::regionserver::ADDRESS)?)?,
        };
        let at = |port: u16| SocketAddr::new(bind, port);
        let web = match start.web_port {
            Some(port) => port,
            None => u16::try_from(conf.value(&keys::master::INFO_PORT)?).unwrap_or(0),
        };
        let said_host = conf.value(&keys::regionserver::HOSTNAME)?;
        let host = if said_host.is_empty() { host_of(bind) } else { said_host };
        check::check_host(&keys::regionserver::HOSTNAME, &host)?;
        let said_host = conf.value(&keys::master::HOSTNAME)?;
        let master_host = if said_host.is_empty() { host.clone() } else { said_host };
        check::check_host(&keys::master::HOSTNAME, &master_host)?;
        let machine = MachineMemory::read().usable();
        let memory = machine.unwrap_or(MEMORY_ASSUMED) / MEMORY_PART;
        let share = |ratio: f64| (memory as f64 * ratio) as u64;
        let memstore_bytes = share(conf.value(&keys::regionserver::GLOBAL_MEMSTORE_SHARE)?);
        let chunk_size = count(conf.value(&keys::region::MEMSTORE_CHUNK_SIZE)?)
            .clamp(memstore::CHUNK_SIZE_MIN, memstore::CHUNK_SIZE_MAX);
        let chunks_kept = memstore_bytes as f64 * conf.value(&keys::region::CHUNK_POOL_SHARE)?;
        let root = root(start, &conf)?;
        let bucket = BucketSettings::gather(&conf, memory, machine)?;
        if root.folder().is_none() {
            conf = with_remote_defaults(conf, bucket.as_ref().map(|bucket| bucket.bytes));
        }
        check_ports(Settings {
            wal_dir: wal_dir(&conf, &root)?,
            is_replica: start.read_replica
                || conf.value(&keys::cluster::READ_ONLY)?
                || conf.value(&keys::cluster::READ_REPLICA)?,
            root,
            host,
            master_host,
            rpc: at(start.rpc_port.map_or_else(|| conf.value(&keys::regionserver::PORT), Ok)?),
            master: at(start.master_port.map_or_else(|| conf.value(&keys::master::PORT), Ok)?),
            zookeeper: at(start
                .zk_port
                .map_or_else(|| conf.value(&keys::cluster::ZOOKEEPER_CLIENT_PORT), Ok)?),
            web: at(web),
            znode_parent: conf.value(&keys::cluster::ZOOKEEPER_PARENT)?,
            rpc_options: rpc_options(&conf)?,
            registry_options: registry_options(&conf)?,
            web_options: web::Options {
                connections_max: count(conf.value(&keys::rpc::WEB_CONNECTIONS_MAX)?),
                request_max: conf.value(&keys::rpc::WEB_REQUEST_TIMEOUT)?,
            },
            spans: SpanSettings::gather(&conf, |name| std::env::var(name).ok())?,
            huge_pages: conf.value(&keys::regionserver::HUGE_PAGES)?,
            log: regionserver::Options::of_log(&conf, memstore_bytes)?,
            region: RegionOptions {
                memory: memstore::Pool::new(chunk_size, chunks_kept as usize / chunk_size),
                ..regionserver::Options::of_regions(&conf)?
            },
            cache: cache_options(&conf, share)?,
            bucket,
            memstore_bytes,
            conf,
        })
    }
}

/// Gives keys the defaults that they have if the files are in an object store or HDFS. `bucket_bytes` is the size of the
/// bucket cache, if there is one.
///
/// There a block that no cache has costs a request, so blocks are cached when they are written. Whole compactions, and
/// files that are opened, are cached only in a bucket cache, because the memory is too small for them. A compaction of
/// more than the bucket cache would evict what is in it.
fn with_remote_defaults(mut conf: Conf, bucket_bytes: Option<u64>) -> Conf {
    use keys::cache as key;
    const REMOTE: &str = "default of roots in an object store or HDFS";
    const REMOTE_WITH_BUCKET: &str = "default of roots in an object store or HDFS with a bucket cache";
    conf = conf.with_default(&keys::master::CLEANER_INTERVAL, SEARCH_IN_STORE, REMOTE).with_default(
        &keys::regionserver::OPEN_REGION_THREADS,
        OPENED_IN_STORE,
        REMOTE,
    );
    for key in [&key::DATA_ON_WRITE, &key::INDEX_ON_WRITE, &key::BLOOMS_ON_WRITE] {
        conf = conf.with_default(key, "true", REMOTE);
    }
    let Some(bucket_bytes) = bucket_bytes else { return conf };
    for key in [&key::COMPACTED_ON_WRITE, &key::PREFETCH_ON_OPEN] {
        conf = conf.with_default(key, "true", REMOTE_WITH_BUCKET);
    }
    conf.with_default(&key::COMPACTED_ON_WRITE_MAX, bucket_bytes.to_string(), REMOTE_WITH_BUCKET)
}

/// Returns the options of the RPC server.
fn rpc_options(conf: &Conf) -> conf::Result<rpc::Options> {
    use keys::rpc as key;
    let threads = count(conf.value(&key::SERVING_THREADS)?);
    Ok(rpc::Options {
        threads: if threads == 0 { rpc::Options::default().threads } else { threads },
        blocking_threads_max: count(conf.value(&key::BLOCKING_THREADS)?).max(1),
        request_size_max: count(conf.value(&key::MAX_REQUEST_SIZE)?),
        header_size_max: count(conf.value(&key::MAX_HEADER_SIZE)?),
        cells_size_max: count(conf.value(&key::MAX_CELL_BLOCK_SIZE)?),
        calls_size_max: count(conf.value(&key::MAX_CALL_QUEUE_SIZE)?),
        calls_max: count(conf.value(&key::MAX_CALL_QUEUE_LENGTH)?),
        timeout_min: conf.value(&key::MIN_CLIENT_REQUEST_TIMEOUT)?,
        connections_max: count(conf.value(&key::MAX_CONNECTIONS)?),
        idle_threshold: count(conf.value(&key::IDLE_THRESHOLD)?),
        // HBase checks connections once in this time, and closes those that were idle for twice as long.
        idle_max: conf.value(&key::MAX_IDLE_TIME)?.saturating_mul(2),
        handshake_max: conf.value(&key::HANDSHAKE_TIMEOUT)?,
        read_stall_max: conf.value(&key::READ_TIMEOUT)?,
        write_stall_max: conf.value(&key::WRITE_TIMEOUT)?,
        output_high: count(conf.value(&key::OUTPUT_HIGH)?),
        answers_size_max: count(conf.value(&key::MAX_ANSWERS_SIZE)?),
        large_size_min: count(conf.value(&key::LARGE_SIZE_MIN)?),
        large_size_max: count(conf.value(&key::LARGE_SIZE_MAX)?),
        large_read_max: conf.value(&key::LARGE_READ_TIMEOUT)?,
        write_stall_short: conf.value(&key::WRITE_TIMEOUT_SHORT)?,
        drain_max: conf.value(&key::DRAIN_TIMEOUT)?,
        stop_max: conf.value(&key::STOP_TIMEOUT)?,
    })
}

/// Returns the options of the block cache.
fn cache_options(conf: &Conf, share: impl Fn(f64) -> u64) -> conf::Result<cache::Options> {
    use keys::cache as key;
    Ok(cache::Options {
        bytes_max: count(share(conf.value(&key::SHARE)?)),
        in_memory_share: conf.value(&key::IN_MEMORY_SHARE)?,
        switches: cache::Switches {
            data_on_read: conf.value(&key::DATA_ON_READ)?,
            data_compressed: conf.value(&key::DATA_COMPRESSED)?,
            data_on_write: conf.value(&key::DATA_ON_WRITE)?,
            index_on_write: conf.value(&key::INDEX_ON_WRITE)?,
            blooms_on_write: conf.value(&key::BLOOMS_ON_WRITE)?,
            compacted_on_write: conf.value(&key::COMPACTED_ON_WRITE)?,
            compacted_bytes_max: conf.value(&key::COMPACTED_ON_WRITE_MAX)?,
            stays_warm: conf.value(&key::STAYS_WARM)?,
            evict_on_close: conf.value(&key::EVICT_ON_CLOSE)?,
            prefetch_on_open: conf.value(&key::PREFETCH_ON_OPEN)?,
        },
        prefetch_threads: count(conf.value(&key::PREFETCH_THREADS)?).max(1),
        read_ahead_bytes_max: count(conf.value(&key::READ_AHEAD_MAX)?),
    })
}

/// Returns the options of the ZooKeeper server.
fn registry_options(conf: &Conf) -> conf::Result<registry::Options> {
    use keys::cluster as key;
    Ok(registry::Options {
        frame_size_max: count(conf.value(&key::ZOOKEEPER_FRAME)?),
        connections_max: count(conf.value(&key::ZOOKEEPER_CONNECTIONS)?),
        sessions_max: count(conf.value(&key::ZOOKEEPER_SESSIONS)?),
        watches_max: count(conf.value(&key::ZOOKEEPER_WATCHES)?),
        session_min: conf.value(&key::ZOOKEEPER_SESSION_MIN)?,
        session_max: conf.value(&key::ZOOKEEPER_SESSION_MAX)?,
        socket_max: conf.value(&key::ZOOKEEPER_SOCKET_TIMEOUT)?,
    })
}

fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "bellows".to_owned())
}

fn address(text: &str) -> Result<IpAddr, Failure> {
    let name = keys::regionserver::ADDRESS.name();
    args::address(text).map_err(|expected| Failure::new(format!("{name} is {text:?}, {expected}")))
}

/// Fails if two listeners have the same port. 0 stands for any free port, and may be given several times.
fn check_ports(settings: Settings) -> Result<Settings, Failure> {
    let ports = [
        ("--rpc-port", settings.rpc.port()),
        ("--master-port", settings.master.port()),
        ("--zk-port", settings.zookeeper.port()),
        ("--web-port", settings.web.port()),
    ];
    for (index, (option, port)) in ports.iter().enumerate() {
        if let Some((other, _)) = ports[index + 1..].iter().find(|(_, other)| *port != 0 && port == other) {
            return Err(Failure::new(format!(
                "{option} and {other} are both {port}; give each its own port"
            )));
        }
    }
    Ok(settings)
}

/// Returns the host to which clients are told to connect if no key sets it: the machine's name if `bind` stands for all
/// addresses of this machine, otherwise `bind`, or `localhost` if `bind` is a loopback address.
fn host_of(bind: IpAddr) -> String {
    let local = || "localhost".to_owned();
    match bind {
        _ if bind.is_loopback() => local(),
        _ if bind.is_unspecified() => env::host_name().unwrap_or_else(local),
        _ => bind.to_string(),
    }
}

/// Returns the root: `--data-dir`, else `hbase.rootdir`.
fn root(start: &Start, conf: &Conf) -> Result<Root, Failure> {
    if let Some(given) = &start.data_dir {
        // A path that is not UTF-8 has no scheme, so it is a folder.
        let folder = || Ok(Root::Folder(given.clone()));
        return given.to_str().map_or_else(folder, |text| Root::parse("--data-dir", text));
    }
    Root::parse(keys::cluster::ROOT_DIR.name(), &conf.value(&keys::cluster::ROOT_DIR)?)
}

/// Returns the place that `hbase.wal.dir` names, if that is not the root. Fails, as HBase does, for a place in the root. A
/// folder has its whole path, because the data directory records it for starts from other folders.
fn wal_dir(conf: &Conf, root: &Root) -> Result<Option<Root>, Failure> {
    let key = &keys::cluster::WAL_DIR;
    let place = conf.value_if_set(key)?.filter(|text| !text.is_empty());
    let place = place.map(|text| Root::parse(key.name(), &text).map(Root::absolute)).transpose()?;
    let root = root.clone().absolute();
    match place {
        Some(place) if place.is_below(&root) => Err(Failure::new(format!(
            "{} is {place}, which is in the data directory {root}: name a place outside, or leave the key empty to have the log in \
             the data directory. If {place} has the log already, first move {} from it to the new place",
            key.name(),
            log_place::PARTS
        ))),
        place => Ok(place.filter(|place| *place != root)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_keys_give_default_options() {
        let conf = Conf::new();
        assert_eq!(rpc_options(&conf).expect("defaults"), rpc::Options::default());
        let registry = registry_options(&conf).expect("defaults");
        assert_eq!(format!("{registry:?}"), format!("{:?}", registry::Options::default()));
        let conf = conf.with(&keys::rpc::MAX_IDLE_TIME, "1000").with(&keys::cluster::ZOOKEEPER_WATCHES, "5");
        assert_eq!(rpc_options(&conf).expect("good").idle_max.as_secs(), 2);
        assert_eq!(registry_options(&conf).expect("good").watches_max, 5);
    }

    #[test]
    fn options_go_before_keys_and_keys_before_defaults() {
        let settings = Settings::gather(&Start::default()).expect("defaults are good");
        assert_eq!((settings.rpc.port(), settings.master.port()), (16020, 16000));
        assert_eq!((settings.zookeeper.port(), settings.web.port()), (2181, 16010));
        assert_eq!((settings.root.to_string().as_str(), &settings.host[..]), ("bellows-data", "localhost"));
        assert!(settings.region.sync_to_disk, "acknowledged is on the disk unless somebody says otherwise");
        let define =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let start = Start {
            rpc_port: Some(1),
            define: define(&[
                ("hbase.regionserver.port", "2"),
                ("hbase.master.port", "3"),
                ("hbase.rootdir", "file:///srv/hbase"),
                ("hbase.wal.hsync", "false"),
            ]),
            ..Start::default()
        };
        let settings = Settings::gather(&start).expect("good");
        assert_eq!((settings.rpc.port(), settings.master.port()), (1, 3));
        assert_eq!(settings.root.to_string(), "/srv/hbase");
        assert!(!settings.region.sync_to_disk);
    }

    #[test]
    fn remote_roots_cache_what_is_written_unless_a_key_says_otherwise() {
        const BUCKET: [(&str, &str); 2] =
            [("hbase.bucketcache.ioengine", "files:/srv/a,/srv/b"), ("hbase.bucketcache.size", "8192")];
        let gather = |root: &str, define: &[(&str, &str)]| {
            let define = define.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Settings::gather(&Start { data_dir: Some(root.into()), define, ..Start::default() })
                .expect("good")
        };
        let switches = |root: &str, define: &[(&str, &str)]| {
            let switches = gather(root, define).cache.switches;
            let on_write = [switches.data_on_write, switches.index_on_write, switches.blooms_on_write];
            (on_write, switches.compacted_on_write, switches.prefetch_on_open, switches.compacted_bytes_max)
        };
        assert_eq!(switches("/srv/hbase", &BUCKET), ([false; 3], false, false, i64::MAX as u64));
        for root in ["s3://bucket/x", "s3a://bucket/x", "hdfs://nn:9000/x"] {
            assert_eq!(switches(root, &[]), ([true; 3], false, false, i64::MAX as u64), "{root}");
            assert_eq!(switches(root, &BUCKET), ([true; 3], true, true, 8 << 30), "{root}");
            let off = [
                ("hbase.rs.cacheblocksonwrite", "false"),
                ("hfile.block.bloom.cacheonwrite", "false"),
                ("hbase.rs.prefetchblocksonopen", "false"),
                ("hbase.rs.cachecompactedblocksonwrite.threshold", "5"),
            ];
            let found = switches(root, &[&BUCKET[..], &off].concat());
            assert_eq!(found, ([false, true, false], true, false, 5), "{root}");
        }
        let conf = gather("s3://bucket/x", &BUCKET).conf;
        let origin = |name: &str| {
            let row = conf.table().rows().into_iter().find(|row| row.name == name).expect("declared");
            row.origin.to_string()
        };
        let remote = "default of roots in an object store or HDFS";
        assert_eq!(origin("hbase.rs.cacheblocksonwrite"), remote);
        assert_eq!(origin("hbase.master.cleaner.interval"), remote);
        assert_eq!(origin("hbase.rs.prefetchblocksonopen"), format!("{remote} with a bucket cache"));
    }

    #[test]
    fn a_scheme_that_is_not_served_is_refused_by_the_option_and_by_the_key() {
        let start = Start { data_dir: Some("gs://bucket/x".into()), ..Start::default() };
        let failure = Settings::gather(&start).expect_err("no folder").to_string();
        assert!(failure.starts_with("--data-dir is \"gs://bucket/x\""), "{failure}");
        let define = vec![("hbase.rootdir".to_owned(), "abfs://nn:8020/hbase".to_owned())];
        let failure = Settings::gather(&Start { define, ..Start::default() }).expect_err("no folder");
        assert!(failure.to_string().starts_with("hbase.rootdir is \"abfs://nn:8020/hbase\""), "{failure}");
        let start = Start { data_dir: Some("file:///srv/hbase".into()), ..Start::default() };
        assert_eq!(Settings::gather(&start).expect("a folder").root.to_string(), "/srv/hbase");
    }

    #[test]
    fn the_log_is_under_the_root_unless_a_key_names_another_place() {
        let gather = |wal_dir: Option<&str>| {
            let define = wal_dir.map(|place| ("hbase.wal.dir".to_owned(), place.to_owned()));
            let data_dir = Some("s3://bucket/x".into());
            let start = Start { data_dir, define: define.into_iter().collect(), ..Start::default() };
            Settings::gather(&start).map(|settings| settings.wal_dir.map(|place| place.to_string()))
        };
        assert_eq!(gather(None).expect("good"), None);
        assert_eq!(gather(Some("s3a://bucket/x/")).expect("the same place"), None);
        assert_eq!(gather(Some("/srv/log")).expect("good").as_deref(), Some("/srv/log"));
        assert_eq!(gather(Some("s3://fast/log")).expect("good").as_deref(), Some("s3://fast/log"));
        let here = std::env::current_dir().expect("there").join("log").display().to_string();
        assert_eq!(gather(Some("log")).expect("good"), Some(here), "found by a start from another folder");
        let refused = gather(Some("gs://bucket/x")).expect_err("not served").to_string();
        assert!(refused.contains("hbase.wal.dir"), "{refused}");
        assert_eq!(gather(Some("s3://bucket/x2")).expect("beside it").as_deref(), Some("s3://bucket/x2"));
        let refused = gather(Some("s3://bucket/x/data/log")).expect_err("in the root").to_string();
        assert!(refused.contains("in the data directory s3://bucket/x: name a place outside"), "{refused}");
    }

    #[test]
    fn an_invalid_value_is_an_error_of_one_line_that_names_the_key() {
        let start = Start {
            define: vec![("hbase.regionserver.port".to_owned(), "many".to_owned())],
            ..Start::default()
        };
        let failure = Settings::gather(&start).expect_err("refused").to_string();
        assert!(failure.contains("hbase.regionserver.port") && failure.contains("many"), "{failure}");
    }

    #[test]
    fn clients_are_told_a_name_that_leads_here() {
        let host = |bind: &str, define: &[(&str, &str)]| {
            let bind = Some(bind.parse().expect("an address"));
            let define = define.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Settings::gather(&Start { bind, define, ..Start::default() }).expect("good").host
        };
        assert_eq!((&host("127.0.0.1", &[])[..], &host("192.0.2.1", &[])[..]), ("localhost", "192.0.2.1"));
        let own = env::host_name().unwrap_or_else(|| "localhost".to_owned());
        assert_eq!((host("0.0.0.0", &[]), host("::", &[])), (own.clone(), own));
        let said = [("hbase.regionserver.hostname", "rs.example.org")];
        assert_eq!(host("0.0.0.0", &said), "rs.example.org");
        let define = |name: &str| vec![("hbase.master.hostname".to_owned(), name.to_owned())];
        let start = Start { define: define("master.example.org"), ..Start::default() };
        let settings = Settings::gather(&start).expect("good");
        assert_eq!((&settings.host[..], &settings.master_host[..]), ("localhost", "master.example.org"));
        let start = Start { define: define("a b"), ..Start::default() };
        let line = Settings::gather(&start).expect_err("no name").to_string();
        assert!(line.starts_with("hbase.master.hostname is \"a b\", expected"), "{line}");
    }

    #[test]
    fn a_port_for_two_is_refused_with_both_options() {
        let start = Start { zk_port: Some(7), web_port: Some(7), ..Start::default() };
        let failure = Settings::gather(&start).expect_err("refused").to_string();
        assert_eq!(failure, "--zk-port and --web-port are both 7; give each its own port");
        let any = Some(0);
        let start =
            Start { rpc_port: any, master_port: any, zk_port: any, web_port: any, ..Start::default() };
        Settings::gather(&start).expect("any free port for each");
    }
}
