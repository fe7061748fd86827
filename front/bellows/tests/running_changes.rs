//! Tests changes of settings while a real server runs: in its configuration file, and in the schema of a table.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a real process, its file and its ports are the point"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Cluster, Options, Put, Registry};
use env::{Runtime, World};
use proto::{FamilyDescriptor, TableDescriptor, TableName};

/// Maximum wait for a compaction that runs in the background.
const COMPACTED_MAX: Duration = Duration::from_secs(60);
const COMPACTION_MIN: &str = "hbase.hstore.compaction.min";

/// A server on free ports that reads a configuration file. Dropping it ends the server and removes its folder.
struct Server {
    child: Child,
    folder: PathBuf,
    rpc: String,
    web: String,
}

impl Server {
    fn start(compaction_min: u32) -> Server {
        let folder = std::env::temp_dir().join(format!("bellows-running-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("new");
        write_site(&folder, compaction_min);
        let mut child = Command::new(env!("CARGO_BIN_EXE_bellows"))
            .arg("start")
            .args(["--rpc-port", "0", "--master-port", "0", "--zk-port", "0", "--web-port", "0"])
            .arg("--site")
            .arg(folder.join("site.xml"))
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut greeting = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut greeting).expect("a greeting");
        let after = |word: &str| {
            let (_, rest) = greeting.split_once(word).unwrap_or_else(|| panic!("{word} in {greeting:?}"));
            rest.split([',', '/']).next().unwrap_or_default().trim().to_owned()
        };
        Server { rpc: after("region server "), web: after("web http://"), child, folder }
    }

    /// Requests a page of the server as HBase's shell does.
    fn page(&self, path: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.web).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.web)
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error} in {body}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _has_ended = self.child.kill();
        let _is_gone = self.child.wait();
        let _nobody_needs_it = std::fs::remove_dir_all(&self.folder);
    }
}

fn write_site(folder: &std::path::Path, compaction_min: u32) {
    let site = format!(
        "<configuration><property><name>{COMPACTION_MIN}</name><value>{compaction_min}</value></property></configuration>"
    );
    std::fs::write(folder.join("site.xml"), site).expect("writable");
}

/// Creates a table whose only store has three files.
async fn three_files(cluster: &Cluster, name: &TableName) -> TableDescriptor {
    let mut table = TableDescriptor::new(name.clone());
    table.set_family(FamilyDescriptor::new("f").expect("a name"));
    cluster.admin().create_table(&table, &[]).await.expect("created");
    for row in ["a", "b", "c"] {
        let rows = cluster.table(name.as_str()).expect("a name");
        rows.put(Put::row(row).set("f", "q", "v")).await.expect("written");
        cluster.admin().flush(name).await.expect("flushed");
    }
    table
}

async fn files(cluster: &Cluster, name: &TableName) -> u32 {
    let loads = cluster.admin().region_loads(name).await.expect("served");
    loads.iter().map(|load| load.storefiles.unwrap_or_default()).sum()
}

/// Waits until all files of a table were compacted into one.
async fn compacted(cluster: &Cluster, name: &TableName) {
    let world = World::real();
    let began = world.moment();
    loop {
        let left = files(cluster, name).await;
        if left == 1 {
            return;
        }
        assert!(world.moment().since(began) < COMPACTED_MAX, "{name} still has {left} files");
    }
}

#[test]
fn the_file_and_the_schema_of_a_table_change_a_running_server() {
    let server = Server::start(10);
    let runtime = Runtime::start("client", 2).expect("threads");
    let cluster = Cluster::connect(World::real(), Options::new(Registry::rpc([server.rpc.clone()])));
    let by_file: TableName = "by_file".parse().expect("a name");
    let by_schema: TableName = "by_schema".parse().expect("a name");
    runtime.handle().block_on(async {
        let mut table = three_files(&cluster, &by_schema).await;
        assert_eq!(files(&cluster, &by_schema).await, 3, "the file asks for ten");
        table.attributes_mut().set(COMPACTION_MIN.into(), "2".into());
        cluster.admin().modify_table(&table).await.expect("altered");
        three_files(&cluster, &by_file).await;
        // Asked for first: it is decided long before the other table has been compacted.
        cluster.admin().compact(&by_file, false).await.expect("asked for");
        cluster.admin().compact(&by_schema, false).await.expect("asked for");
        compacted(&cluster, &by_schema).await;
        assert_eq!(files(&cluster, &by_file).await, 3, "the other table's key is its own");
        write_site(&server.folder, 2);
        cluster.admin().update_configuration().await.expect("read again");
        compacted(&cluster, &by_file).await;
    });
    for filter in ["general", "handler", "rpc", "operation", "all"] {
        let tasks = server.page(&format!("/rs-status?format=json&filter={filter}"));
        assert!(tasks.is_array(), "{filter}: {tasks}");
    }
}
