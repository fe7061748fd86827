//! The servers of a comparison: Bellows, and Apache HBase as shipped and tuned.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Results;
use crate::{Outcome, run as run_command};

/// The servers that are compared, with their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bellows,
    /// HBase tuned: off-heap block cache, in-memory compaction, and the collector with the shortest pauses.
    Tuned,
    /// HBase as shipped, except for sizes.
    Shipped,
}

/// Sizes that all servers share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Size of the block cache in MiB.
    pub(crate) cache_mib: u64,
    /// Size of Java's heap in MiB. Two fifths of it, HBase's default, are for the memstores of every server.
    pub(crate) heap_mib: u64,
}

/// The fraction of the heap for memstores: the default of `hbase.regionserver.global.memstore.size`.
const MEMSTORE_SHARE: f64 = 0.4;
/// Maximum time of an orderly stop.
const STOP_MAX: Duration = Duration::from_secs(60);

/// The packages of the JDK that HBase's start script opens.
const OPENED: [&str; 13] = [
    "--add-modules=jdk.unsupported",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.util.random=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.dns=ALL-UNNAMED",
];

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Bellows, Kind::Tuned, Kind::Shipped];

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Bellows => "bellows",
            Kind::Tuned => "tuned",
            Kind::Shipped => "shipped",
        }
    }

    /// Returns the name in results.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Bellows => "Bellows",
            Kind::Tuned => "HBase tuned",
            Kind::Shipped => "HBase as shipped",
        }
    }

    pub(crate) fn is_java(self) -> bool {
        self != Kind::Bellows
    }

    /// Returns the settings of this kind, besides folders and ports.
    fn settings(self, sizes: &Sizes) -> Result<Vec<(&'static str, String)>, String> {
        let Sizes { cache_mib, heap_mib } = *sizes;
        let part = |mib: f64, of: u64| format!("{:.4}", mib / of as f64);
        Ok(match self {
            Kind::Bellows => {
                // Bellows takes fractions of half of the machine's memory, so the sizes are converted.
                let memory = memory_mib()? / 2;
                vec![
                    ("hfile.block.cache.size", part(cache_mib as f64, memory)),
                    (
                        "hbase.regionserver.global.memstore.size",
                        part(heap_mib as f64 * MEMSTORE_SHARE, memory),
                    ),
                ]
            }
            Kind::Tuned => vec![
                ("hbase.bucketcache.ioengine", "offheap".to_owned()),
                ("hbase.bucketcache.size", cache_mib.to_string()),
                ("hfile.block.cache.size", "0.1".to_owned()),
                ("hbase.hregion.compacting.memstore.type", "BASIC".to_owned()),
            ],
            Kind::Shipped => vec![("hfile.block.cache.size", part(cache_mib as f64, heap_mib))],
        })
    }
}

/// Returns the machine's memory in MiB.
pub(crate) fn memory_mib() -> Result<u64, String> {
    crate::backed::memory_mib("MemTotal:")
}

/// The ports of one server, free when they were chosen.
#[derive(Clone, Copy, Debug)]
struct Ports {
    region: u16,
    master: u16,
    registry: u16,
}

impl Ports {
    fn free() -> Result<Ports, String> {
        let listener = || TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string());
        // All ports stay open until all are known. Otherwise the system could return one twice.
        let held = [listener()?, listener()?, listener()?];
        let port = |at: usize| {
            held[at].local_addr().map(|address| address.port()).map_err(|error| error.to_string())
        };
        Ok(Ports { region: port(0)?, master: port(1)?, registry: port(2)? })
    }
}

/// A running server, which is killed when the value is dropped.
pub(crate) struct Running {
    pub(crate) kind: Kind,
    child: Child,
    ports: Ports,
    folder: PathBuf,
}

impl Running {
    /// Starts a server in `folder`, while the generator already waits for its first answers.
    pub(super) fn start(
        kind: Kind,
        folder: &Path,
        bellows: &Path,
        jars: &str,
        sizes: &Sizes,
        after: &str,
        results: &mut Results,
    ) -> Result<Running, String> {
        let ports = Ports::free()?;
        let server = if kind.is_java() {
            hbase(kind, folder, jars, sizes, ports, &[])?
        } else {
            native(kind, folder, bellows, sizes, ports)?
        };
        let mut generator = results.generator(&format!("127.0.0.1:{}", ports.region));
        generator.args(["--label", kind.label(), "--until-first", after]);
        let (running, said) = Running::launch(kind, server, ports, folder, generator)?;
        results.keep(&said)?;
        Ok(running)
    }

    /// Starts Apache HBase as shipped in `folder`, with these settings added. The program `bellows` checks whether
    /// HBase is up.
    pub(crate) fn start_hbase(
        folder: &Path,
        bellows: &Path,
        jars: &str,
        sizes: &Sizes,
        settings: &[(&'static str, String)],
    ) -> Result<Running, String> {
        let (kind, ports) = (Kind::Shipped, Ports::free()?);
        let server = hbase(kind, folder, jars, sizes, ports, settings)?;
        let mut generator = Command::new(bellows);
        generator.args(["bench", "--json", "--at", &format!("127.0.0.1:{}", ports.region)]);
        generator.args(["--until-first", "start"]);
        Running::launch(kind, server, ports, folder, generator).map(|(running, _)| running)
    }

    /// Starts `server` with a `generator` that waits for its first answers. Returns the generator's output.
    fn launch(
        kind: Kind,
        mut server: Command,
        ports: Ports,
        folder: &Path,
        mut generator: Command,
    ) -> Result<(Running, Vec<u8>), String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let log_file = folder.with_extension("log");
        let log = File::create(&log_file).map_err(|error| format!("{}: {error}", log_file.display()))?;
        let both = log.try_clone().map_err(|error| error.to_string())?;
        server.stdin(Stdio::null()).stdout(log).stderr(both);
        let waiting = generator
            .args(["--table", "first"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the generator cannot be started: {error}"))?;
        let child = server.spawn().map_err(|error| format!("{} cannot be started: {error}", kind.label()))?;
        let running = Running { kind, child, ports, folder: folder.to_owned() };
        let output = waiting.wait_with_output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "{} gave no answer: {}; see {}",
                kind.label(),
                said.trim(),
                log_file.display()
            ));
        }
        Ok((running, output.stdout))
    }

    /// Kills the server with SIGKILL, and starts it in the same folder.
    pub(super) fn kill_and_restart(
        mut self,
        bellows: &Path,
        jars: &str,
        sizes: &Sizes,
        results: &mut Results,
    ) -> Result<Running, String> {
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| error.to_string())?;
        Running::start(self.kind, &self.folder.clone(), bellows, jars, sizes, "kill -9", results)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.region)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the server with SIGTERM. It is killed after [`STOP_MAX`], because stopping is not compared.
    pub(crate) fn stop(mut self) -> Outcome {
        run_command("kill", &["-TERM", &self.child.id().to_string()])?;
        let began = Instant::now();
        while began.elapsed() < STOP_MAX {
            if self.child.try_wait().map_err(|error| error.to_string())?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Normally the process has ended already, and killing it fails.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn native(kind: Kind, folder: &Path, bellows: &Path, sizes: &Sizes, ports: Ports) -> Result<Command, String> {
    let mut command = Command::new(bellows);
    command.args(["start", "--bind", "127.0.0.1", "--web-port", "0", "--data-dir"]).arg(folder.join("root"));
    for (option, port) in
        [("--rpc-port", ports.region), ("--master-port", ports.master), ("--zk-port", ports.registry)]
    {
        command.args([option, &port.to_string()]);
    }
    command.args(["-D", "hbase.wal.hsync=false"]);
    for (key, value) in kind.settings(sizes)? {
        command.args(["-D", &format!("{key}={value}")]);
    }
    Ok(command)
}

/// HBase standalone: master, region server and ZooKeeper in one process.
fn hbase(
    kind: Kind,
    folder: &Path,
    jars: &str,
    sizes: &Sizes,
    ports: Ports,
    more: &[(&'static str, String)],
) -> Result<Command, String> {
    let conf = folder.join("conf");
    fs::create_dir_all(&conf).map_err(|error| format!("{}: {error}", conf.display()))?;
    let path = |name: &str| folder.join(name).display().to_string();
    let local = "127.0.0.1".to_owned();
    let mut settings = vec![
        ("hbase.cluster.distributed", "false".to_owned()),
        ("hbase.rootdir", format!("file://{}", path("root"))),
        ("hbase.tmp.dir", path("tmp")),
        ("hbase.zookeeper.property.dataDir", path("zookeeper")),
        ("hbase.zookeeper.quorum", local.clone()),
        ("hbase.zookeeper.property.clientPort", ports.registry.to_string()),
        // Hadoop's local file system says that it cannot sync, although without checksum files it can.
        ("hbase.unsafe.stream.capability.enforce", "false".to_owned()),
        ("hbase.localcluster.assign.random.ports", "false".to_owned()),
        ("hbase.master.hostname", "localhost".to_owned()),
        ("hbase.unsafe.regionserver.hostname", "localhost".to_owned()),
        ("hbase.master.ipc.address", local.clone()),
        ("hbase.regionserver.ipc.address", local),
        ("hbase.master.port", ports.master.to_string()),
        ("hbase.regionserver.port", ports.region.to_string()),
        ("hbase.master.info.port", "-1".to_owned()),
        ("hbase.regionserver.info.port", "-1".to_owned()),
        ("hbase.wal.hsync", "false".to_owned()),
    ];
    settings.extend(kind.settings(sizes)?);
    settings.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
    settings.extend_from_slice(more);
    let properties: String = settings
        .iter()
        .map(|(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>\n"))
        .collect();
    let site = conf.join("hbase-site.xml");
    fs::write(&site, format!("<?xml version=\"1.0\"?>\n<configuration>\n{properties}</configuration>\n"))
        .map_err(|error| format!("{}: {error}", site.display()))?;
    let mut command = Command::new("java");
    command.args([format!("-Xms{}m", sizes.heap_mib), format!("-Xmx{}m", sizes.heap_mib)]);
    command.arg(format!("-XX:MaxDirectMemorySize={}m", sizes.cache_mib + 512));
    if kind == Kind::Tuned {
        command.arg("-XX:+UseZGC");
    }
    command.args(["-XX:+ExitOnOutOfMemoryError", "-Dproof.log=WARN"]);
    command.arg("-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true");
    command.args(OPENED);
    command.args(["-cp", &format!("{}:proof/hbase/conf:{jars}", conf.display())]);
    command.args(["org.apache.hadoop.hbase.master.HMaster", "start"]);
    Ok(command)
}
