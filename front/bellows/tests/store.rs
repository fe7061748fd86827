//! Tests with a real object store: bulk loads between it and the server's machine, and the adoption of an HBase's root
//! there. `cargo xtask test --only s3` starts an S3 server, and passes its address in `BELLOWS_S3_ENDPOINT`; `--only azure`
//! starts Azurite, with `BELLOWS_AZURE_ENDPOINT`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a real process, its files and its ports are the point"
)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Cluster, Get, Options, Put, Registry, Scan};
use env::{Runtime, World};
use objectstore::{Azure, AzureSecret, Bucket, PUBLIC_DOMAIN, S3, Service};
use proto::{FamilyDescriptor, TableDescriptor};
use storage::{FileName, Files, Local};

/// The setting that names the stores from which files are loaded, without a value.
const SOURCES: &str = "bellows.bulkload.sources=";

/// The account of Azurite, and its key, which is the same everywhere.
const AZURITE: (&str, &str) = (
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
);

/// A store that `cargo xtask test` has started.
struct Store {
    endpoint: String,
    service: Service,
    /// The URL of the bucket.
    url: String,
    /// The server's settings.
    settings: Vec<String>,
}

fn store() -> Store {
    if let Ok(endpoint) = std::env::var("BELLOWS_AZURE_ENDPOINT") {
        let (account, key) = AZURITE;
        let endpoint = format!("{endpoint}/{account}");
        return Store {
            settings: vec![
                format!("bellows.azure.endpoint={endpoint}"),
                format!("fs.azure.account.key.{account}={key}"),
            ],
            endpoint,
            service: Service::Azure(Azure {
                account: Some(account.to_owned()),
                domain: PUBLIC_DOMAIN.to_owned(),
                secret: Some(AzureSecret::AccountKey(key.to_owned())),
            }),
            url: format!("abfss://bellows@{account}.dfs.{PUBLIC_DOMAIN}"),
        };
    }
    let endpoint = std::env::var("BELLOWS_S3_ENDPOINT").expect(
        "BELLOWS_S3_ENDPOINT, as `cargo xtask test --only s3` sets it, or BELLOWS_AZURE_ENDPOINT, as `--only azure` does",
    );
    Store {
        settings: vec![
            format!("fs.s3a.endpoint={endpoint}"),
            "fs.s3a.access.key=bellows".to_owned(),
            "fs.s3a.secret.key=bellowssecret".to_owned(),
        ],
        endpoint,
        service: Service::S3(S3 {
            region: Some("us-east-1".to_owned()),
            keys: Some(("bellows".to_owned(), "bellowssecret".to_owned())),
            path_style: true,
            ..S3::default()
        }),
        url: "s3a://bellows".to_owned(),
    }
}

/// Returns the command with these arguments, and with the settings of the store.
fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellows"));
    command.args(words);
    for setting in store().settings {
        command.args(["-D", &setting]);
    }
    command
}

/// A server on free ports. Dropping it kills the server.
struct Server {
    child: Child,
    cluster: Cluster,
}

impl Server {
    /// Starts a server with a setting.
    fn start(root: &str, setting: &str) -> Server {
        let mut command = program(&["start", "--data-dir", root, "-D", setting]);
        command.args(["--rpc-port", "0", "--master-port", "0", "--zk-port", "0", "--web-port", "0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut greeting = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut greeting).expect("a greeting");
        let (_, rest) = greeting.split_once("region server ").unwrap_or_else(|| panic!("{greeting:?}"));
        let rpc = rest.split([',', '/']).next().unwrap_or_default().trim().to_owned();
        let options = Options { retries: 2, ..Options::new(Registry::rpc([rpc])) };
        Server { child, cluster: Cluster::connect(World::real(), options) }
    }

    async fn create(&self, name: &str) {
        let mut table = TableDescriptor::new(name.parse().expect("a name"));
        table.set_family(FamilyDescriptor::new("f").expect("a name"));
        self.cluster.admin().create_table(&table, &[]).await.expect("created");
    }

    /// Loads a file into the table; the error is the exception's message.
    async fn load(&self, table: &str, path: &str) -> Result<bool, String> {
        let table = self.cluster.table(table).expect("a name");
        table.bulk_load("a", &[("f", path)], "token").await.map_err(|error| error.to_string())
    }

    /// Returns the number of rows of a table.
    async fn rows(&self, table: &str) -> usize {
        let mut scanner = self.cluster.table(table).expect("a name").scan(Scan::new());
        let mut rows = 0;
        while scanner.next().await.expect("read").is_some() {
            rows += 1;
        }
        rows
    }

    async fn value(&self, table: &str) -> Option<Vec<u8>> {
        let row = self.cluster.table(table).expect("a name").get(Get::row("a")).await.expect("read");
        row.value("f", "q").map(<[u8]>::to_vec)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _has_ended = (self.child.kill(), self.child.wait());
    }
}

/// Returns a bucket's client, with a prefix that no earlier run used, and the URL of the prefix.
fn bucket(test: &str, run: u64) -> (Bucket, String) {
    let prefix = format!("{test}-{run:x}");
    let Store { endpoint, service, url, .. } = store();
    let bucket = Bucket::new(objectstore::Options {
        endpoint: Some(endpoint),
        service,
        settle_time: Duration::from_secs(20),
        ..objectstore::Options::new("bellows", prefix.clone())
    });
    (bucket.expect("a bucket"), format!("{url}/{prefix}"))
}

/// The root folder of an HBase in the bucket, and the place of its logs in a folder of this machine.
struct HBase {
    bucket: Bucket,
    url: String,
    log: PathBuf,
}

impl HBase {
    /// Unpacks an archive of `proof/golden/roots`.
    fn unpack(archive: &str) -> HBase {
        let run = World::real().random();
        let (bucket, url) = bucket("adopt", run);
        let log = std::env::temp_dir().join(format!("bellows-adopt-store-{run:x}"));
        std::fs::create_dir_all(&log).expect("new");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/golden/roots").join(archive);
        let packed = std::fs::read(path).expect("the archive is there");
        let mut packed = tar::Archive::new(flate2::read::GzDecoder::new(&packed[..]));
        for entry in packed.entries().expect("an archive") {
            let mut entry = entry.expect("whole");
            let name = entry.path().expect("text").to_str().expect("text").to_owned();
            if name.contains("WALs/") {
                entry.unpack_in(&log).expect("unpacked");
            } else if entry.header().entry_type().is_file() {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).expect("whole");
                bucket.swap(&FileName::new(name), None, &content).expect("written");
            }
        }
        HBase { bucket, url, log }
    }

    fn files(&self) -> Vec<(String, u64)> {
        let listed = self.bucket.list(&FileName::root()).expect("listed").into_iter();
        listed.map(|entry| (entry.name.to_string(), entry.size)).collect()
    }

    /// Returns the setting of the logs' place.
    fn wal_dir(&self) -> String {
        format!("hbase.wal.dir={}", self.log.display())
    }

    /// Runs `bellows adopt` with further arguments. Returns what it prints.
    fn adopt(&self, words: &[&str]) -> String {
        let done = program(&[&["adopt", &self.url], words].concat()).output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
        said
    }
}

impl Drop for HBase {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.log);
    }
}

#[test]
fn the_root_of_an_hbase_in_the_store_is_adopted_in_place() {
    let runtime = Runtime::start("client", 2).expect("threads");
    for (archive, rows) in [("stopped.tar.gz", 9), ("killed.tar.gz", 19)] {
        let hbase = HBase::unpack(archive);
        let wal_dir = hbase.wal_dir();
        let mut words = vec!["-D", &wal_dir];
        words.extend((rows == 19).then_some("--killed"));
        let before = hbase.files();
        let said = hbase.adopt(&[&words[..], &["--dry-run"]].concat());
        assert!(said.ends_with("nothing was changed\n"), "{said}");
        assert_eq!(hbase.files(), before);
        let said = hbase.adopt(&words);
        let settings = store().settings;
        let names: Vec<&str> = settings.iter().filter_map(|setting| setting.split('=').next()).collect();
        let served = format!(
            "bellows start --data-dir {} -D {wal_dir} -D {}=",
            hbase.url.replace("s3a", "s3"),
            names[0]
        );
        let end = format!("-D {}=…\n", names[names.len() - 1]);
        assert!(said.contains(&served) && said.ends_with(&end), "{said}");
        let is_new = |(name, _): &&(String, u64)| {
            name.contains("/.filelist/") || name.contains("/.tabledesc/") || name.starts_with("bellows.")
        };
        let after = hbase.files();
        let kept: Vec<_> = after.iter().filter(|file| !is_new(file)).collect();
        assert_eq!(
            kept,
            before.iter().filter(|file| !is_new(file)).collect::<Vec<_>>(),
            "nothing was copied"
        );
        let server = Server::start(&hbase.url, &wal_dir);
        runtime.handle().block_on(async {
            assert_eq!([server.rows("ns1:ft").await, server.rows("ns1:clone").await], [rows, 20]);
        });
        let done = program(&["adopt", &hbase.url]).output().expect("it starts");
        let refused = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && refused.contains("data directory of bellows already"), "{refused}");
    }
}

#[test]
fn a_root_in_the_store_whose_logs_are_missing_is_refused_if_hbase_was_killed() {
    let hbase = HBase::unpack("stopped.tar.gz");
    let done = program(&["adopt", &hbase.url, "--killed"]).output().expect("it starts");
    let refused = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        !done.status.success() && refused.contains("name that place with -D hbase.wal.dir=…"),
        "{refused}"
    );
    let said = hbase.adopt(&["--dry-run"]);
    assert!(said.contains("has no logs of HBase, so HBase had its logs elsewhere (hbase.wal.dir)"), "{said}");
}

/// Returns the only store file of table `source`.
fn store_file(root: &Path) -> PathBuf {
    let files = Local::open(root).expect("the server has ended");
    let listed = files.list(&FileName::new("data/default/source")).expect("listed");
    let name = listed.into_iter().map(|entry| entry.name).find(|name| {
        let parts: Vec<&str> = name.as_str().split('/').collect();
        parts.len() == 6 && parts[4] == "f" && !parts[5].starts_with('.')
    });
    root.join(name.expect("a flush has written it").as_str())
}

#[test]
fn files_are_loaded_from_the_store_and_from_the_machine() {
    let run = World::real().random();
    let folder = std::env::temp_dir().join(format!("bellows-bulk-store-{run:x}"));
    let root = folder.join("data");
    let (bucket, url) = bucket("bulk-load", run);
    let runtime = Runtime::start("client", 2).expect("threads");
    let server = Server::start(&root.display().to_string(), SOURCES);
    let names_key = runtime.handle().block_on(async {
        server.create("source").await;
        server.create("from_store").await;
        let table = server.cluster.table("source").expect("a name");
        table.put(Put::row("a").set("f", "q", "v")).await.expect("written");
        server.cluster.admin().flush(&"source".parse().expect("a name")).await.expect("flushed");
        let refused = server.load("from_store", &format!("{url}/out/f/one")).await.expect_err("not allowed");
        refused.contains("bellows.bulkload.sources")
    });
    assert!(names_key, "the refusal names the key");
    drop(server);
    let made = store_file(&root);
    let file = storage::open_outside(&made).expect("there");
    storage::copy(&*file, &bucket, &FileName::new("out/f/one")).expect("copied");
    let outside = folder.join("one");
    std::fs::copy(&made, &outside).expect("copied");

    let server = Server::start(&root.display().to_string(), &format!("{SOURCES}{url}/out"));
    runtime.handle().block_on(async {
        let path = format!("{url}/out/f/one");
        assert_eq!(server.load("from_store", &path).await, Ok(true));
        assert_eq!(server.value("from_store").await.as_deref(), Some(&b"v"[..]));
        assert_eq!(server.load("from_store", &path).await, Ok(true), "a repeated call");
        let gone = server.load("from_store", &format!("{url}/out/f/none")).await.expect_err("no file");
        assert!(gone.contains(&format!("check that {url}/out/f/none is there")), "{gone}");
    });
    drop(server);
    assert!(bucket.open(&FileName::new("out/f/one")).is_ok(), "the source stays");

    let server = Server::start(&format!("{url}/root"), SOURCES);
    runtime.handle().block_on(async {
        for table in ["from_machine", "from_bucket"] {
            server.create(table).await;
        }
        assert_eq!(server.load("from_machine", &format!("file:{}", outside.display())).await, Ok(true));
        assert_eq!(server.load("from_bucket", &format!("{url}/out/f/one")).await, Ok(true));
        for table in ["from_machine", "from_bucket"] {
            assert_eq!(server.value(table).await.as_deref(), Some(&b"v"[..]), "{table}");
        }
    });
    drop(server);
    assert!(outside.exists() && bucket.open(&FileName::new("out/f/one")).is_ok(), "the sources stay");
    std::fs::remove_dir_all(&folder).expect("removed");
}
