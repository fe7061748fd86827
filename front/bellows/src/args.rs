//! The command line.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Apache HBase as one native binary.
#[derive(Debug, Parser)]
#[command(name = "bellows", version, about, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts master, region server and registry in this process, on files of this machine, in an object
    /// store or in HDFS.
    Start(Start),
    /// Puts load on a server, Bellows or Apache HBase, and reports throughput, latency and what the server paid for it.
    #[command(args_override_self = true)]
    Bench(Box<bench::Args>),
    /// Shows the memstores of a running server, refreshed every second.
    Memstore(Watch),
    /// Shows the block cache of a running server, refreshed every second.
    Cache(Watch),
    /// Checks this machine with the settings of a server: disk, clock, limits, memory, names, ports. Changes nothing.
    /// The exit status is 1 if a server would not start or would lose data.
    Doctor(Doctor),
    /// Shows load by namespace, table, region, server, user or client, the busiest first, refreshed; for Bellows and
    /// Apache HBase.
    Top(Top),
    /// Collects what is needed to find out what is wrong with a server.
    #[command(subcommand)]
    Debug(Debug),
    /// Makes a running read replica the primary of its bucket. The old primary, if it still runs, acknowledges nothing
    /// more.
    Promote(Promote),
    /// Takes over the root folder of an Apache HBase 2.x that does not run. First reports what is not carried over.
    Adopt(Adopt),
    /// Makes a data directory that was stopped in order the root folder of an Apache HBase 2.6.
    HandBack(HandBack),
    /// Checks a data directory that no server has open: hbase:meta, the folders of regions, the file lists and every
    /// store file that they name. Changes nothing. The exit status is 1 if something contradicts.
    Fsck(Fsck),
    /// Lists every configuration key with its default and origin.
    Keys,
}

/// Options of `bellows start`. An option that is not given takes the value of its key, and then the key's default.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Start {
    /// Place of all files: a folder, s3://BUCKET/FOLDER or hdfs://HOST:PORT/FOLDER
    /// [key: hbase.rootdir; default: bellows-data].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Address to listen at [key: hbase.regionserver.ipc.address; default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) bind: Option<IpAddr>,

    /// Port of the region server, 0 for a free one [key: hbase.regionserver.port; default: 16020].
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(crate) rpc_port: Option<u16>,

    /// Port of the master, 0 for a free one; every service answers on both [key: hbase.master.port; default: 16000].
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(crate) master_port: Option<u16>,

    /// Port for clients that use ZooKeeper, 0 for a free one
    /// [key: hbase.zookeeper.property.clientPort; default: 2181].
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(crate) zk_port: Option<u16>,

    /// Port of /healthz and /metrics, 0 for a free one [key: hbase.master.info.port; default: 16010].
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub(crate) web_port: Option<u16>,

    /// Serves the tables of the server that has the same data directory, for reading: a read replica
    /// [key: hbase.global.readonly.enabled; default: false].
    #[arg(long)]
    pub(crate) read_replica: bool,

    /// An hbase-site.xml to read keys from.
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,

    /// Sets a key. It overrides the file.
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) define: Vec<(String, String)>,
}

/// The ports at which a server listens.
pub(crate) struct Ports {
    pub(crate) rpc: u16,
    pub(crate) master: u16,
    pub(crate) zookeeper: u16,
    pub(crate) web: u16,
}

impl Start {
    /// Returns the options with which a read replica with these options and ports starts as the primary. `wal_dir` is the
    /// `hbase.wal.dir` of its primary, which a replica need not know; empty for a log in the root.
    pub(crate) fn as_primary(&self, ports: &Ports, wal_dir: &str) -> Start {
        use conf::keys::cluster as key;
        let mut start = self.clone();
        start.read_replica = false;
        // Keys on the command line override those of a file. So these turn off what the file may turn on.
        let overrides = [
            (key::READ_ONLY.name(), "false"),
            (key::READ_REPLICA.name(), "false"),
            (key::WAL_DIR.name(), wal_dir),
        ];
        for (key, value) in overrides {
            start.define.retain(|(name, _)| name != key);
            start.define.push((key.to_owned(), value.to_owned()));
        }
        Start {
            rpc_port: Some(ports.rpc),
            master_port: Some(ports.master),
            zk_port: Some(ports.zookeeper),
            web_port: Some(ports.web),
            ..start
        }
    }

    /// Returns the words of a command line with these options.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["start".into()];
        let mut option = |name: &str, value: Option<OsString>| {
            if let Some(value) = value {
                words.extend([name.into(), value]);
            }
        };
        let number = |port: Option<u16>| port.map(|port| port.to_string().into());
        option("--data-dir", self.data_dir.clone().map(PathBuf::into_os_string));
        option("--bind", self.bind.map(|address| address.to_string().into()));
        option("--rpc-port", number(self.rpc_port));
        option("--master-port", number(self.master_port));
        option("--zk-port", number(self.zk_port));
        option("--web-port", number(self.web_port));
        option("--site", self.site.clone().map(PathBuf::into_os_string));
        for (key, value) in &self.define {
            option("-D", Some(format!("{key}={value}").into()));
        }
        if self.read_replica {
            words.push("--read-replica".into());
        }
        words
    }
}

/// Options of `bellows promote`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Promote {
    /// The replica, `host:port`.
    #[arg(long, value_name = "SERVER", default_value = "127.0.0.1:16020")]
    pub(crate) at: String,

    /// Longest time to wait until it is the primary, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub(crate) within: f64,
}

/// Options of `bellows memstore` and `bellows cache`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Watch {
    /// Address of the server's web port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:16010")]
    pub(crate) web: std::net::SocketAddr,

    /// Seconds between refreshes.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) every: f64,

    /// Prints once and ends.
    #[arg(long)]
    pub(crate) once: bool,
}

/// Options of `bellows doctor`: those of `bellows start`, and the form of the answer.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) start: Start,

    /// Prints JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `bellows adopt`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Adopt {
    /// The folder that hbase.rootdir of that HBase names: a path, s3://BUCKET/FOLDER, or hdfs://HOST:PORT/FOLDER.
    #[arg(value_name = "HBASE_ROOT")]
    pub(crate) root: PathBuf,

    /// Reports what would be done, and changes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Adopts the root although something is left behind.
    #[arg(long)]
    pub(crate) leave_behind: bool,

    /// Adopts the root of an HBase that was not stopped in order, with the writes in its logs. You have made sure that
    /// no process of it runs.
    #[arg(long)]
    pub(crate) killed: bool,

    /// The hbase-site.xml of that HBase; hbase.wal.dir is taken from it.
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,

    /// Sets a key. It overrides the file.
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) define: Vec<(String, String)>,
}

/// Options of `bellows hand-back`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HandBack {
    /// The data directory.
    #[arg(value_name = "FOLDER")]
    pub(crate) root: PathBuf,

    /// The hbase-site.xml that the server had; hbase.wal.dir is taken from it.
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,

    /// Sets a key. It overrides the file.
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) define: Vec<(String, String)>,
}

/// Options of `bellows fsck`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Fsck {
    /// The data directory, as `bellows start --data-dir` has it [key: hbase.rootdir; default: bellows-data].
    #[arg(value_name = "DATA_DIR")]
    pub(crate) root: Option<PathBuf>,

    /// The hbase-site.xml that the server has.
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,

    /// Sets a key. It overrides the file.
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) define: Vec<(String, String)>,
}

/// What `bellows debug` can do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Debug {
    /// Writes a tar file with the configuration (secrets removed), metrics and their history, slow calls, regions, work
    /// and the latest log lines of a running server, and what `bellows doctor` finds.
    Bundle(Bundle),
}

/// Options of `bellows debug bundle`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bundle {
    #[command(flatten)]
    pub(crate) start: Start,

    /// Address of the server's web port; by default that of the settings.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) web: Option<std::net::SocketAddr>,

    /// The file to write, which must not exist [default: bellows-debug-TIME.tar.gz].
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `bellows top`. Letters and names are those of HBase's hbtop.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Top {
    /// Servers that know the cluster, `host:port,…`.
    #[arg(long, value_name = "SERVERS", default_value = "127.0.0.1:16020")]
    pub(crate) at: String,

    /// Asks these ZooKeeper servers instead, `host:port,…`.
    #[arg(long, value_name = "SERVERS")]
    pub(crate) zookeeper: Option<String>,

    /// What a line is: n namespace, t table, r region, s server, u user, c client.
    #[arg(long, short = 'm', value_name = "MODE", default_value = "r")]
    pub(crate) mode: String,

    /// Seconds between refreshes; rates are measured over them.
    #[arg(long, short = 'd', value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub(crate) delay: f64,

    /// Refreshes before it ends; 0 means until it is interrupted.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 0)]
    pub(crate) number: u64,

    /// Batch mode: prints one table after the other instead of clearing the screen, as a file needs it.
    #[arg(long, short = 'b')]
    pub(crate) batch: bool,

    /// Field to sort by, as #REQ/S [default: that of the mode]. A `+` before it sorts upwards.
    #[arg(long, short = 's', value_name = "FIELD")]
    pub(crate) sort: Option<String>,

    /// Fields to show, in order, with commas [default: those of the mode].
    #[arg(long, short = 'f', value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,

    /// Lists the fields of the mode.
    #[arg(long, short = 'O')]
    pub(crate) outputs: bool,

    /// Shows only lines that match, as TABLE==t or #REQ/S>=100; several filters must all match. `=` means part of the
    /// text, `==` equal, and a `!` before a filter negates it.
    #[arg(long, short = 'i', value_name = "FILTER")]
    pub(crate) filter: Vec<String>,

    /// Maximum number of lines.
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) lines: usize,

    /// Prints JSON, one object for each refresh.
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3_600.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds, 0.1 to 3600".to_owned())
}

/// Parses an IP address of this machine.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => text.parse().map_err(|_| "expected an IP address such as 127.0.0.1".to_owned()),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "expected a port, 0 to 65535".to_owned())
}

/// Returns the command that a command line names, with its subcommands as far as they exist: `bellows debug bundle`.
pub(crate) fn command_in(line: impl IntoIterator<Item = OsString>) -> String {
    let root = Args::command();
    let (mut command, mut path) = (&root, root.get_name().to_owned());
    for word in line.into_iter().skip(1) {
        let Some(next) = command.find_subcommand(&word) else { break };
        path = format!("{path} {}", next.get_name());
        command = next;
    }
    path
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, for example -D hbase.wal.hsync=false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_command_line_is_understood() {
        let line = "bellows start --data-dir d --bind 127.0.0.1 --rpc-port 1 --master-port 2 --zk-port 3 --web-port 4 \
                    --site s.xml -D a=b -Dc=d=e";
        let args = Args::try_parse_from(line.split_whitespace()).expect("valid");
        let Command::Start(start) = args.command else { panic!("start was asked for") };
        assert_eq!(
            (start.rpc_port, start.master_port, start.zk_port, start.web_port),
            (Some(1), Some(2), Some(3), Some(4))
        );
        assert_eq!(start.define, [("a".into(), "b".into()), ("c".into(), "d=e".into())]);
    }

    #[test]
    fn the_help_names_every_place_of_files() {
        let mut all = Args::command();
        let start = all.find_subcommand_mut("start").expect("there is one").render_help().to_string();
        let start = start.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(start.contains("object store or in HDFS") && start.contains("s3://BUCKET/FOLDER"), "{start}");
    }

    #[test]
    fn errors_of_options_say_what_is_expected() {
        for (option, value, expected) in [
            ("-D", "novalue", "expected KEY=VALUE"),
            ("--rpc-port", "65536", "expected a port"),
            ("--bind", "nowhere", "expected an IP address"),
        ] {
            let error = Args::try_parse_from(["bellows", "start", option, value]).expect_err("refused");
            let failure = crate::failure::Failure::of_command_line("bellows start", &error).to_string();
            assert!(
                failure.contains(option) && failure.contains(value) && failure.contains(expected),
                "{failure}"
            );
            assert!(failure.ends_with("; bellows start --help lists the options"), "{failure}");
            assert!(!failure.contains('\n'), "{failure}");
        }
        assert_eq!(address("localhost"), Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn an_error_names_the_help_of_the_command_that_was_given() {
        for (line, command) in [
            ("bellows start --rpc-port x", "bellows start"),
            ("bellows fsck --data-dir d", "bellows fsck"),
            ("bellows debug bundle --to", "bellows debug bundle"),
            ("bellows debug nothing", "bellows debug"),
            ("bellows version", "bellows"),
        ] {
            assert_eq!(command_in(line.split_whitespace().map(OsString::from)), command);
        }
    }
}
