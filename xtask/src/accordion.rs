//! Compares in-memory compaction with the same server without it, and with Apache HBase without it.
//!
//! Each stream of writes is sent to each server in turn, with the same seed, into a table with the same memstore size;
//! every server writes its log to the operating system without a sync. Updated rows are loaded and flushed first. When
//! no more flushes or compactions run, the servers report what was written: Bellows by its metrics, HBase by its JMX
//! page. Cells still in memory are in no file, on either server. Bytes are those of files per byte of keys and values
//! that the generator wrote, without the log.
//!
//! By default a region of Bellows may hold two flush sizes while the server has room (`bellows.memstore.stretch`). For
//! the figures called *same memory* this is off.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::backed::Backed;
use crate::compare::figure_of;
use crate::hbase::HBase;
use crate::server::{Server, fresh_folder, log_of, release};
use crate::web::page;

pub(crate) const USAGE: &str = "\
       cargo xtask accordion [--short] [--memory MIB] [--writes MEMSTORES] [--only STREAM,…] [--without-hbase]
             [--bellows BINARY]   (compaction in memory beside none, and beside Apache HBase; JDK 17 and Maven)";

/// Size of the updated rows, as a multiple of the memstore size.
const DATA: u64 = 20;
/// Approximate size of a cell without its value, in bytes: a key in KeyValue layout with a row of 26 bytes.
const KEY: u64 = 60;
/// A server counts as idle after it has written nothing for this time. HBase's page is refreshed only every ten
/// seconds.
const QUIET: Duration = Duration::from_millis(1_500);
const QUIET_OF_HBASE: Duration = Duration::from_secs(12);
const QUIET_MAX: Duration = Duration::from_secs(60);

/// A stream of writes, as arguments of `bellows bench`.
struct Stream {
    name: &'static str,
    words: &'static [&'static str],
    value: u64,
    /// Whether the rows that the stream changes are loaded before it.
    updates: bool,
    /// Number of operations for each cell that is written, since some of them only read or delete.
    operations: u64,
    /// The kind of operation whose latency is reported.
    read: Option<&'static str>,
    /// Targets of ADAPTIVE for written bytes, relative to NONE and to HBase.
    bytes: (Option<f64>, Option<f64>),
    /// Targets of ADAPTIVE for speed, relative to NONE and to HBase.
    speed: (Option<f64>, Option<f64>),
    /// Targets of ADAPTIVE for the p99 latency of reads, relative to NONE and to HBase.
    latency: (Option<f64>, Option<f64>),
}

const NO_BARS: Stream = Stream {
    name: "",
    words: &[],
    value: 100,
    updates: true,
    operations: 1,
    read: None,
    bytes: (None, None),
    speed: (None, None),
    latency: (None, None),
};

const STREAMS: [Stream; 6] = [
    Stream {
        name: "zipf-100",
        words: &["random-write", "--keys", "zipfian"],
        bytes: (Some(0.6), Some(0.6)),
        speed: (Some(1.2), Some(4.0)),
        ..NO_BARS
    },
    Stream {
        name: "zipf-1k",
        words: &["random-write", "--keys", "zipfian"],
        value: 1_000,
        bytes: (Some(0.6), Some(0.6)),
        speed: (Some(1.2), Some(4.0)),
        ..NO_BARS
    },
    Stream {
        name: "uniform-100",
        words: &["random-write"],
        bytes: (Some(0.95), Some(0.75)),
        speed: (Some(1.0), Some(4.0)),
        ..NO_BARS
    },
    Stream {
        name: "unique-1k",
        words: &["insert"],
        value: 1_000,
        updates: false,
        speed: (Some(0.98), Some(4.0)),
        ..NO_BARS
    },
    Stream {
        name: "mixed-100",
        words: &["ycsb-a", "--fields", "1", "--field-size", "100"],
        operations: 2,
        read: Some("read"),
        latency: (Some(0.88), Some(0.25)),
        ..NO_BARS
    },
    Stream {
        name: "queue-100",
        words: &["queue"],
        updates: false,
        operations: 2,
        read: Some("get"),
        ..NO_BARS
    },
];

/// The options of the command.
struct Plan {
    memory: u64,
    writes: u64,
    streams: Vec<&'static Stream>,
    with_hbase: bool,
    bellows: Option<PathBuf>,
}

impl Plan {
    fn of(options: &[&str]) -> Result<Plan, String> {
        let short = options.contains(&"--short");
        let mut plan = Plan {
            memory: if short { 2 } else { 16 },
            writes: if short { 20 } else { 40 },
            streams: STREAMS.iter().collect(),
            with_hbase: !options.contains(&"--without-hbase"),
            bellows: None,
        };
        let mut words = options.iter().filter(|word| !matches!(**word, "--short" | "--without-hbase"));
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{name} {value}: not understood"));
            match *name {
                "--memory" => plan.memory = number()?,
                "--writes" => plan.writes = number()?,
                "--bellows" => plan.bellows = Some(PathBuf::from(value)),
                "--only" => {
                    let stream = |name: &str| STREAMS.iter().find(|stream| stream.name == name);
                    plan.streams = value.split(',').map(stream).collect::<Option<_>>().ok_or_else(|| {
                        format!(
                            "--only {value}: streams are {}",
                            STREAMS.map(|stream| stream.name).join(", ")
                        )
                    })?;
                }
                _ => return Err(format!("{name} is no option\nusage:\n{USAGE}")),
            }
        }
        plan.memory <<= 20;
        Ok(plan)
    }
}

/// A server, and where it reports the bytes that it has written.
struct Subject {
    name: &'static str,
    at: String,
    id: u32,
    web: String,
    process: Process,
}

enum Process {
    Native(Server, PathBuf),
    Java(HBase),
}

/// The result of a stream on one server.
#[derive(Clone, Copy, Default)]
struct Figures {
    flushed: f64,
    compacted: f64,
    user: f64,
    per_second: f64,
    cpu: f64,
    read: Option<f64>,
}

impl Figures {
    fn amplification(&self) -> f64 {
        (self.flushed + self.compacted) / self.user.max(1.0)
    }
}

/// Runs `cargo xtask accordion` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let plan = Plan::of(options)?;
    let bellows = release(plan.bellows.as_deref())?;
    let began = Instant::now();
    say!(
        "memstores of {} MB; rows of {DATA} and writes of {} memstores; 10 callers on one connection; \
         the log is handed to the system",
        plan.memory >> 20,
        plan.writes
    );
    let _backed = Backed::start()?;
    let mut subjects = Vec::new();
    for (name, level, stretch) in
        [("NONE", "NONE", "1"), ("ADAPTIVE", "ADAPTIVE", "1"), ("with room", "ADAPTIVE", "2")]
    {
        subjects.push(native(&bellows, name, level, stretch)?);
    }
    if plan.with_hbase {
        let subject = java()?;
        // The streams run once unmeasured, so that HBase's compiler has seen their code.
        for stream in [&STREAMS[0], &STREAMS[4]] {
            drive(&bellows, &subject, stream, &plan, "warm")?;
        }
        subjects.push(subject);
    }
    say!(
        "{:12} {:10} {:>7} {:>8} {:>8} {:>6} {:>9} {:>7} {:>9}",
        "stream",
        "server",
        "user",
        "flushed",
        "compact.",
        "ampl.",
        "per s",
        "cpu µs",
        "read p99"
    );
    let mut told = Vec::new();
    for stream in &plan.streams {
        let mut of_stream = Vec::new();
        for subject in &subjects {
            let figures = drive(&bellows, subject, stream, &plan, stream.name)?;
            let mb = |bytes: f64| bytes / f64::from(1 << 20);
            say!(
                "{:12} {:10} {:7.1} {:8.1} {:8.1} {:6.2} {:9.0} {:7.2} {:>9}",
                stream.name,
                subject.name,
                mb(figures.user),
                mb(figures.flushed),
                mb(figures.compacted),
                figures.amplification(),
                figures.per_second,
                figures.cpu,
                figures.read.map_or_else(String::new, |us| format!("{us:.0} µs")),
            );
            of_stream.push(figures);
        }
        told.extend(compared(stream, &of_stream));
    }
    say!("\n{}\n{} s", told.join("\n"), began.elapsed().as_secs());
    for subject in subjects {
        match subject.process {
            Process::Native(server, folder) => {
                server.stop()?;
                std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            }
            Process::Java(hbase) => hbase.remove()?,
        }
    }
    Ok(())
}

/// Returns the ratios of a stream, with their targets. `of` are the figures of NONE, ADAPTIVE, ADAPTIVE with room, and
/// HBase if it was run.
fn compared(stream: &Stream, of: &[Figures]) -> Vec<String> {
    let [none, adaptive, room, rest @ ..] = of else { return Vec::new() };
    let mut lines = Vec::new();
    let mut tell = |what: &str, ratio: f64, roomy: f64, bar: Option<f64>, is_least: bool| {
        let bar = bar.map_or_else(String::new, |bar| {
            let reached = if is_least { ratio >= bar } else { ratio <= bar };
            format!("bar {bar} {}", if reached { "reached" } else { "short" })
        });
        lines.push(format!("{:12} {what:28} {ratio:7.3}  with room {roomy:7.3}  {bar}", stream.name));
    };
    for (name, other, at) in [("NONE", Some(none), 0), ("HBase NONE", rest.first(), 1)] {
        let Some(other) = other else { continue };
        let bar = |bars: (Option<f64>, Option<f64>)| if at == 0 { bars.0 } else { bars.1 };
        let bytes = |mine: &Figures| mine.amplification() / other.amplification().max(f64::MIN_POSITIVE);
        tell(&format!("bytes ÷ {name}"), bytes(adaptive), bytes(room), bar(stream.bytes), false);
        let speed = |mine: &Figures| mine.per_second / other.per_second;
        tell(&format!("throughput ÷ {name}"), speed(adaptive), speed(room), bar(stream.speed), true);
        if let Some(theirs) = other.read {
            let latency = |mine: &Figures| mine.read.unwrap_or_default() / theirs;
            tell(&format!("read p99 ÷ {name}"), latency(adaptive), latency(room), bar(stream.latency), false);
        }
        if at == 1 {
            let same_level = |mine: &Figures| mine.cpu / other.cpu;
            tell("CPU of NONE ÷ HBase NONE", same_level(none), same_level(none), Some(0.125), false);
        }
    }
    lines
}

fn native(bellows: &Path, name: &'static str, level: &str, stretch: &str) -> Result<Subject, String> {
    let folder = fresh_folder(&format!("accordion-{}", name.replace(' ', "-")))?;
    let (level, stretch) = (
        format!("hbase.hregion.compacting.memstore.type={level}"),
        format!("bellows.memstore.stretch={stretch}"),
    );
    let more = ["-D", "hbase.wal.hsync=false", "-D", &level, "-D", &stretch];
    let server = Server::start_binary(bellows, &folder, &log_of(&folder), &more)?;
    let (at, web, id) = (server.rpc.clone(), server.web.clone(), server.id());
    Ok(Subject { name, at, id, web, process: Process::Native(server, folder) })
}

fn java() -> Result<Subject, String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| format!("no free port: {error}"))?.port().to_string();
    let hbase = HBase::start(&[
        ("hbase.wal.hsync", "false"),
        ("hbase.hregion.compacting.memstore.type", "NONE"),
        ("hbase.regionserver.handler.count", "30"),
        ("hbase.master.info.port", &port),
        ("hbase.master.info.bindAddress", "127.0.0.1"),
    ])?;
    let (at, id) = (hbase.rpc.clone(), hbase.id());
    Ok(Subject {
        name: "HBase NONE",
        at,
        id,
        web: format!("127.0.0.1:{port}"),
        process: Process::Java(hbase),
    })
}

/// Sends one stream to one server.
fn drive(
    bellows: &Path,
    subject: &Subject,
    stream: &Stream,
    plan: &Plan,
    table: &str,
) -> Result<Figures, String> {
    let cell = stream.value + KEY;
    let rows = if stream.updates { plan.memory * DATA / cell } else { 1 };
    let operations = plan.memory * plan.writes / cell * stream.operations;
    let generator = |operations: u64| {
        let mut command = Command::new(bellows);
        command.args(["bench", "--json", "--at", &subject.at, "--pid", &subject.id.to_string()]);
        // The mixed load uses a table of its own, because its rows have other columns.
        command.args(["--table", table, "--ycsb-table", &format!("{table}-y")]);
        command.args(["--rows", &rows.to_string(), "--value-size", &stream.value.to_string()]);
        command.args(["--flush-size", &plan.memory.to_string(), "--warm-up", "0", "--seconds", "600"]);
        command.args(["--operations", &operations.to_string()]);
        command.args(stream.words);
        let output = command.output().map_err(|error| format!("the generator cannot be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or("nothing");
            return Err(format!("{} on {} failed: {last}", stream.name, subject.name));
        }
        Ok(output.stdout)
    };
    // The first run creates the table and loads it.
    generator(1)?;
    let before = subject.settled()?;
    let line = generator(operations)?;
    let after = subject.settled()?;
    let read = match stream.read {
        Some(kind) => {
            let line = String::from_utf8_lossy(&line);
            let of_kind = line.split_once(&format!("\"kind\":\"{kind}\"")).map_or("", |(_, rest)| rest);
            Some(figure_of(of_kind.as_bytes(), "p99_us")?)
        }
        None => None,
    };
    // The last line has the totals; the lines before it are those of the kinds of operations.
    let text = String::from_utf8_lossy(&line);
    let (_, all) = text.rsplit_once("\"seen\":").ok_or("the generator did not say what it has seen")?;
    Ok(Figures {
        flushed: after.0 - before.0,
        compacted: after.1 - before.1,
        user: figure_of(all.as_bytes(), "bytes_written")?,
        per_second: figure_of(&line, "operations_per_second")?,
        cpu: figure_of(&line, "cpu_us_per_operation")?,
        read,
    })
}

impl Subject {
    /// Returns the bytes that flushes and compactions have written, once they stop growing.
    fn settled(&self) -> Result<(f64, f64), String> {
        let began = Instant::now();
        let (mut bytes, mut since) = (self.bytes()?, Instant::now());
        let quiet = match self.process {
            Process::Native(..) => QUIET,
            Process::Java(_) => QUIET_OF_HBASE,
        };
        while since.elapsed() < quiet && began.elapsed() < QUIET_MAX {
            std::thread::sleep(Duration::from_millis(150));
            let now = self.bytes()?;
            if now != bytes {
                (bytes, since) = (now, Instant::now());
            }
        }
        Ok(bytes)
    }

    fn bytes(&self) -> Result<(f64, f64), String> {
        match &self.process {
            Process::Native(..) => {
                let page = page(&self.web, "/metrics")?;
                let of = |what: &str| -> f64 {
                    let what = format!("what=\"{what}\"");
                    let lines = page.lines().filter(|line| line.starts_with("bellows_table_bytes_total{"));
                    let figures =
                        lines.filter(|line| line.contains(&what)).filter_map(|line| line.rsplit(' ').next());
                    figures.filter_map(|figure| figure.parse::<f64>().ok()).sum()
                };
                Ok((of("flushed"), of("compacted")))
            }
            Process::Java(_) => {
                const PATH: &str = "/jmx?qry=Hadoop:service=HBase,name=RegionServer,sub=Server";
                // HBase reports a table's figures only some seconds after the table was created.
                let began = Instant::now();
                let mut page = page(&self.web, PATH)?;
                while !page.contains("flushedOutputBytes") && began.elapsed() < QUIET_MAX {
                    std::thread::sleep(Duration::from_millis(150));
                    page = crate::web::page(&self.web, PATH)?;
                }
                let of = |name: &str| {
                    let (_, rest) = page
                        .split_once(&format!("\"{name}\":"))
                        .ok_or_else(|| format!("{} says no {name}", self.web))?;
                    let digits = rest
                        .trim_start()
                        .split(|next: char| !next.is_ascii_digit())
                        .next()
                        .unwrap_or_default();
                    digits.parse::<f64>().map_err(|error| format!("{name} of {}: {error}", self.web))
                };
                Ok((of("flushedOutputBytes")?, of("compactedOutputBytes")?))
            }
        }
    }
}
