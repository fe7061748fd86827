//! Runs Apache HBase in one Java process: master, region server and ZooKeeper on free ports of the loopback interface.
//! The jars of the module `tools` come from Maven Central.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::java;
use crate::run;
use crate::server::fresh_folder;

/// Maximum time until HBase has started. On busy machines, or with many logs to replay, 180 s were not enough.
const START_MAX: Duration = Duration::from_secs(600);

/// The log line after which HBase serves.
const READY: &str = "Master has completed initialization";

/// A running HBase, which ends when the value is dropped.
pub(crate) struct HBase {
    child: Child,
    folder: PathBuf,
    /// The address of the region server, `host:port`.
    pub(crate) rpc: String,
    /// The address of ZooKeeper, `host:port`.
    pub(crate) quorum: String,
}

/// Returns a port of the loopback interface at which nobody listens.
pub(crate) fn free_port() -> Result<u16, String> {
    free_ports::<1>().map(|[port]| port)
}

fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    // All ports stay open until all are known. Otherwise the system could return one twice.
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("no free port: {error}"))?;
        *port = listener.local_addr().map_err(|error| error.to_string())?.port();
        held.push(listener);
    }
    Ok(ports)
}

impl HBase {
    /// Starts HBase with additional properties, and waits until it serves.
    pub(crate) fn start(properties: &[(&str, &str)]) -> Result<HBase, String> {
        let folder = fresh_folder("hbase")?;
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        HBase::start_in(folder, properties)
    }

    /// As [`start`](HBase::start), in an existing folder, given by its whole path. HBase's data are in `root` there,
    /// and ZooKeeper's in `zookeeper`.
    pub(crate) fn start_in(folder: PathBuf, properties: &[(&str, &str)]) -> Result<HBase, String> {
        let class_path = java::class_path("tools")?;
        let [zookeeper, master, server] = free_ports()?;
        let at = |name: &str| folder.join(name).display().to_string();
        let (root, zookeeper_data) = (format!("file://{}", at("root")), at("zookeeper"));
        let (zookeeper, master, server) = (zookeeper.to_string(), master.to_string(), server.to_string());
        let temporary = at("tmp");
        let own = [
            ("hbase.cluster.distributed", "false"),
            ("hbase.rootdir", &root),
            ("hbase.tmp.dir", &temporary),
            ("hbase.zookeeper.property.dataDir", &zookeeper_data),
            ("hbase.zookeeper.property.clientPort", &zookeeper),
            ("hbase.zookeeper.quorum", "127.0.0.1"),
            // Hadoop's local file system says that it cannot sync, although it can.
            ("hbase.unsafe.stream.capability.enforce", "false"),
            ("hbase.wal.provider", "filesystem"),
            ("hbase.localcluster.assign.random.ports", "false"),
            ("hbase.master.hostname", "localhost"),
            ("hbase.unsafe.regionserver.hostname", "localhost"),
            ("hbase.master.ipc.address", "127.0.0.1"),
            ("hbase.regionserver.ipc.address", "127.0.0.1"),
            ("hbase.master.port", &master),
            ("hbase.regionserver.port", &server),
            ("hbase.master.info.port", "-1"),
            ("hbase.regionserver.info.port", "-1"),
            ("hbase.regionserver.handler.count", "12"),
            ("hbase.io.compress.snappy.codec", "org.apache.hadoop.hbase.io.compress.xerial.SnappyCodec"),
            ("hbase.io.compress.zstd.codec", "org.apache.hadoop.hbase.io.compress.zstd.ZstdCodec"),
        ];
        let mut site = "<?xml version=\"1.0\"?>\n<configuration>\n".to_owned();
        for (name, value) in own.iter().chain(properties) {
            site.push_str(&format!("<property><name>{name}</name><value>{value}</value></property>\n"));
        }
        site.push_str("</configuration>\n");
        let conf = folder.join("conf");
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&conf)
            .and_then(|()| std::fs::write(conf.join("hbase-site.xml"), site))
            .map_err(failed)?;
        std::fs::copy(format!("{}/log4j2.properties", java::CONF), conf.join("log4j2.properties"))
            .map_err(failed)?;
        let log = folder.join("log");
        let output = File::create(&log).map_err(failed)?;
        let mut command = Command::new("java");
        command.args(["-Xms1g", "-Xmx2g", "-XX:+UseG1GC", "-Dproof.log=INFO"]);
        command.arg("-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true");
        for open in [
            "java.nio",
            "sun.nio.ch",
            "java.lang",
            "jdk.internal.ref",
            "java.lang.reflect",
            "java.util",
            "java.util.concurrent",
            "java.io",
            "jdk.internal.misc",
        ] {
            command.arg(format!("--add-opens=java.base/{open}=ALL-UNNAMED"));
        }
        command.arg("-cp").arg(format!("{}:{class_path}", conf.display()));
        command.args(["org.apache.hadoop.hbase.master.HMaster", "start"]);
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
        let child = command.spawn().map_err(|error| format!("cannot start java: {error}"))?;
        let mut hbase = HBase {
            child,
            folder,
            rpc: format!("127.0.0.1:{server}"),
            quorum: format!("127.0.0.1:{zookeeper}"),
        };
        let began = Instant::now();
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains(READY)) {
            let ended = hbase.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || began.elapsed() > START_MAX {
                return Err(format!("Apache HBase does not start, see {}", log.display()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(hbase)
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops HBase in order with SIGTERM.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        run("kill", &["-TERM", &self.child.id().to_string()])?;
        // The exit status only repeats that a signal has ended the process, so it is ignored.
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }

    /// Kills HBase with SIGKILL.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(|error| error.to_string())
    }

    /// Ends HBase and deletes its files.
    pub(crate) fn remove(mut self) -> Result<(), String> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| error.to_string())?;
        std::fs::remove_dir_all(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))
    }
}

impl Drop for HBase {
    fn drop(&mut self) {
        // The process may have ended already, and then killing it fails.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
