//! Tests bulk loads between the server's machine and a real S3 store. `cargo xtask test --only s3` starts a store, and
//! passes its address in `BELLOWS_S3_ENDPOINT`.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a real process, its files and its ports are the point"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Cluster, Get, Options, Put, Registry};
use env::{Runtime, World};
use objectstore::Bucket;
use proto::{FamilyDescriptor, TableDescriptor};
use storage::{FileName, Files, Local};

fn endpoint() -> String {
    std::env::var("BELLOWS_S3_ENDPOINT")
        .expect("BELLOWS_S3_ENDPOINT, as `cargo xtask test --only s3` sets it")
}

/// A server on free ports. Dropping it kills the server.
struct Server {
    child: Child,
    cluster: Cluster,
}

impl Server {
    fn start(root: &str, sources: &str) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bellows"));
        command.args(["start", "--data-dir", root]);
        command.args(["--rpc-port", "0", "--master-port", "0", "--zk-port", "0", "--web-port", "0"]);
        for setting in [
            format!("bellows.bulkload.sources={sources}"),
            format!("fs.s3a.endpoint={}", endpoint()),
            "fs.s3a.access.key=bellows".to_owned(),
            "fs.s3a.secret.key=bellowssecret".to_owned(),
        ] {
            command.args(["-D", &setting]);
        }
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
fn bucket(run: u64) -> (Bucket, String) {
    let prefix = format!("bulk-load-{run:x}");
    let bucket = Bucket::new(objectstore::Options {
        endpoint: Some(endpoint()),
        region: Some("us-east-1".to_owned()),
        keys: Some(("bellows".to_owned(), "bellowssecret".to_owned())),
        path_style: true,
        settle_time: Duration::from_secs(5),
        ..objectstore::Options::new("bellows", prefix.clone())
    });
    (bucket.expect("a bucket"), format!("s3a://bellows/{prefix}"))
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
    let (bucket, url) = bucket(run);
    let runtime = Runtime::start("client", 2).expect("threads");
    let server = Server::start(&root.display().to_string(), "");
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

    let server = Server::start(&root.display().to_string(), &format!("{url}/out"));
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

    let server = Server::start(&format!("{url}/root"), "");
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
