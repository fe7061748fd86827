//! Compares Bellows with Apache HBase: the same data, durability, and cache and memstore sizes, with one generator.
//!
//! 1. Apache HBase comes from Maven Central, with the class path of HBase's own tools; Bellows and the generator are
//!    release builds.
//! 2. Each server is started while the generator already waits, which measures the time to its first responses.
//! 3. Each fills the same table. HBase then runs every workload unmeasured, repeatedly until an operation costs hardly
//!    less than before, so that its compiler has seen the code.
//! 4. The servers take turns workload by workload, in alternating order. The generator drives one server at a time
//!    while the others idle. At the begin of a round each table is flushed and compacted on each server, so that scans
//!    meet the same versions of rows.
//! 5. Half reads and half writes at a fixed rate follow after all rounds. Server and generator then have [their own
//!    processors](crate::apart), which are watched, so that operations delayed by a stall are reported separately.
//! 6. Each server is killed with SIGKILL and started again, with the generator waiting.
//! 7. The machine's limits: the same bytes over the loopback interface, through memory and to the disk.
//! 8. `bellows bench --beside` compares all results and draws pictures.
//!
//! Before step 5 [no memory is free](crate::backed), as on a machine that has run for a day.
//!
//! A server's cost is the CPU time of its process, which is comparable on a busy machine. Latencies and throughput are
//! not, so each workload is reported with the machine's load.

mod load;
mod subject;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::apart::Apart;
use crate::backed::Backed;
use crate::server::release;
use crate::{Outcome, java};
use load::{Load, loads};
use subject::Kind;

pub(crate) use subject::{Running, Sizes, memory_mib};

/// Java counts as warm when a pass costs more than this fraction of the pass before it.
pub(crate) const WARM: f64 = 0.85;

/// Minimum duration in seconds of a workload with separate processors: a memstore is flushed every other second, and
/// files are compacted less often.
const APART_SECONDS: f64 = 15.0;

/// The options of the command.
struct Plan {
    short: bool,
    seconds: f64,
    warm_up: f64,
    rounds: u32,
    rows: u64,
    value_size: u64,
    threads: u64,
    sizes: Sizes,
    kinds: Vec<Kind>,
    loads: Vec<Load>,
    out: PathBuf,
    bellows: Option<PathBuf>,
}

pub(crate) const USAGE: &str = "\
       cargo xtask compare [--short] [--seconds S] [--warm-up S] [--rounds N] [--rows N] [--value-size BYTES]
             [--threads N] [--cache MIB] [--heap MIB] [--with bellows,tuned,shipped] [--only WORKLOAD,…]
             [--bellows BINARY] [--out FOLDER]   (Bellows beside Apache HBase; JDK 17 and Maven)";

/// Runs `cargo xtask compare` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let plan = Plan::of(options)?;
    let began = Instant::now();
    fs::create_dir_all(&plan.out).map_err(|error| format!("{}: {error}", plan.out.display()))?;
    let bellows = release(plan.bellows.as_deref())?;
    let jars =
        if plan.kinds.iter().any(|kind| kind.is_java()) { java::class_path("tools")? } else { String::new() };
    let results = plan.out.join("results.jsonl");
    let mut results = Results { file: results.clone(), bellows: bellows.clone(), apart: None };
    results.begin()?;
    let (machine, settings) = (machine()?, plan.settings());
    say!("{machine}\n{settings}");
    say(began, "memory is filled");
    let backed = Backed::start()?;

    let mut servers = Vec::new();
    for kind in &plan.kinds {
        let folder = plan.out.join(kind.name());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        say(began, &format!("{} is started", kind.label()));
        servers.push(Running::start(*kind, &folder, &bellows, &jars, &plan.sizes, "start", &mut results)?);
    }
    // Before the measurement Java must be warm, and Bellows' log must have spare files. All servers get the same
    // unmeasured load.
    for server in &servers {
        for load in &plan.loads {
            results.warm(server, load, &plan, began)?;
        }
    }
    let (apart, beside): (Vec<&Load>, Vec<&Load>) = plan.loads.iter().partition(|load| load.is_apart());
    results.rounds(&servers, &beside, &plan, began)?;
    drop(backed);
    if !apart.is_empty() {
        results.stand_apart(&servers);
        for server in servers.iter().filter(|server| server.kind.is_java()) {
            for load in &apart {
                results.warm(server, load, &plan, began)?;
            }
        }
        results.rounds(&servers, &apart, &plan, began)?;
    }
    for server in servers {
        say(began, &format!("{} is killed and started again", server.kind.label()));
        let server = server.kill_and_restart(&bellows, &jars, &plan.sizes, &mut results)?;
        server.stop()?;
    }
    say(began, "what this machine could do");
    results.limits(&plan.out.join("limits"), &plan)?;
    let pictures = plan.out.join("pictures");
    let beside = results.beside(&pictures)?;
    let report = format!("{machine}\n{settings}\n\n{beside}\n");
    let file = plan.out.join("report.md");
    fs::write(&file, &report).map_err(|error| format!("{}: {error}", file.display()))?;
    say!("\n{beside}\n");
    say(began, &format!("kept: {}, {} and {}", file.display(), results.file.display(), pictures.display()));
    Ok(())
}

fn say(began: Instant, words: &str) {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    say!("{:5} s, load {load}: {words}", began.elapsed().as_secs());
}

impl Plan {
    fn of(options: &[&str]) -> Result<Plan, String> {
        let short = options.contains(&"--short");
        let mut plan = Plan {
            short,
            seconds: if short { 4.0 } else { 20.0 },
            warm_up: if short { 1.0 } else { 5.0 },
            rounds: if short { 1 } else { 3 },
            rows: if short { 100_000 } else { 500_000 },
            value_size: 1_000,
            threads: 10,
            sizes: Sizes { cache_mib: 1_024, heap_mib: 2_560 },
            kinds: Kind::ALL.to_vec(),
            loads: loads(short),
            out: PathBuf::from("target/compare"),
            bellows: None,
        };
        let mut words = options.iter().filter(|word| **word != "--short");
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            let wrong = || format!("{name} {value}: not understood");
            match *name {
                "--seconds" => plan.seconds = value.parse().map_err(|_| wrong())?,
                "--warm-up" => plan.warm_up = value.parse().map_err(|_| wrong())?,
                "--rounds" => plan.rounds = value.parse().map_err(|_| wrong())?,
                "--rows" => plan.rows = value.parse().map_err(|_| wrong())?,
                "--value-size" => plan.value_size = value.parse().map_err(|_| wrong())?,
                "--threads" => plan.threads = value.parse().map_err(|_| wrong())?,
                "--cache" => plan.sizes.cache_mib = value.parse().map_err(|_| wrong())?,
                "--heap" => plan.sizes.heap_mib = value.parse().map_err(|_| wrong())?,
                "--with" => {
                    let kind = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name);
                    plan.kinds = value.split(',').map(kind).collect::<Option<_>>().ok_or_else(wrong)?;
                }
                "--only" => {
                    let mut all = loads(false);
                    let mut one = |name: &str| {
                        let at = all.iter().position(|load| load.name == name);
                        at.map(|at| all.swap_remove(at))
                    };
                    plan.loads = value.split(',').map(&mut one).collect::<Option<_>>().ok_or_else(|| {
                        let names: Vec<_> = loads(false).iter().map(|load| load.name).collect();
                        format!("--only {value}: workloads are {}", names.join(", "))
                    })?;
                }
                "--out" => plan.out = PathBuf::from(value),
                "--bellows" => plan.bellows = Some(PathBuf::from(value)),
                _ => return Err(format!("{name} is no option\nusage:\n{USAGE}")),
            }
        }
        // The servers may have another working directory, so the path is made absolute.
        plan.out = std::path::absolute(&plan.out).map_err(|error| error.to_string())?;
        Ok(plan)
    }

    /// Returns the duration of one unmeasured pass of each workload, and the maximum number of passes.
    fn warm_passes(&self) -> (f64, u32) {
        if self.short { (2.5, 4) } else { (8.0, 8) }
    }

    fn settings(&self) -> String {
        format!(
            "{} rows of {} bytes in one region; {} callers on one connection; {} s after {} s of warm-up, {} round(s); \
             log handed to the operating system, but where fsync is said; block cache {} MiB, Java heap {} MiB.",
            self.rows,
            self.value_size,
            self.threads,
            self.seconds,
            self.warm_up,
            self.rounds,
            self.sizes.cache_mib,
            self.sizes.heap_mib
        )
    }
}

/// Where results are written, and the programs that make them.
struct Results {
    file: PathBuf,
    bellows: PathBuf,
    /// The processors of the generator, if they are separate.
    apart: Option<Apart>,
}

impl Results {
    fn begin(&self) -> Outcome {
        File::create(&self.file).map(drop).map_err(|error| format!("{}: {error}", self.file.display()))
    }

    /// Appends lines to the file of results.
    fn keep(&mut self, lines: &[u8]) -> Outcome {
        let file = File::options().append(true).open(&self.file);
        file.and_then(|mut file| file.write_all(lines))
            .map_err(|error| format!("{}: {error}", self.file.display()))
    }

    fn generator(&self, server: &str) -> Command {
        let mut command = Command::new(&self.bellows);
        command.args(["bench", "--json", "--at", server]);
        command
    }

    /// Runs these workloads on all servers, round by round.
    fn rounds(&mut self, servers: &[Running], loads: &[&Load], plan: &Plan, began: Instant) -> Outcome {
        for round in 0..plan.rounds {
            let mut tables = BTreeSet::new();
            for load in loads {
                let is_first = tables.insert(load.table());
                let mut order: Vec<&Running> = servers.iter().collect();
                if round % 2 == 1 {
                    order.reverse();
                }
                for server in order {
                    say(began, &format!("round {}: {} on {}", round + 1, load.name, server.kind.label()));
                    if load.is_apart() {
                        write_back()?;
                    }
                    let begin = if is_first { &["--compact"][..] } else { &[] };
                    let seconds =
                        if load.is_apart() { plan.seconds.max(APART_SECONDS) } else { plan.seconds };
                    let lines = self.drive(server, load, plan, begin, (plan.warm_up, seconds))?;
                    self.keep(&lines)?;
                }
            }
        }
        Ok(())
    }

    /// Separates the processors of the servers and the generator from now on, if possible.
    fn stand_apart(&mut self, servers: &[Running]) {
        let settled = |apart: Apart| {
            servers.iter().try_for_each(|server| apart.settle(server.id()))?;
            Ok::<Apart, String>(apart)
        };
        match Apart::new().and_then(settled) {
            Ok(apart) => self.apart = Some(apart),
            Err(why) => say!("servers and generator are not apart: {why}"),
        }
    }

    /// Runs one workload on one server until an operation costs hardly less than before.
    fn warm(&self, server: &Running, load: &Load, plan: &Plan, began: Instant) -> Outcome {
        let (seconds, times) = plan.warm_passes();
        let mut before = f64::INFINITY;
        for time in 1..=times {
            let lines = self.drive(server, load, plan, &[], (0.0, seconds))?;
            let cost = cpu_us(&lines)?;
            say(began, &format!("{} warms up: {}, {cost:.1} µs", server.kind.label(), load.name));
            if time > 1 && cost > WARM * before {
                break;
            }
            before = cost;
        }
        Ok(())
    }

    /// Runs one workload on one server with extra arguments, for `seconds` after a warm-up. Returns the generator's
    /// output.
    fn drive(
        &self,
        server: &Running,
        load: &Load,
        plan: &Plan,
        more: &[&str],
        (warm_up, seconds): (f64, f64),
    ) -> Result<Vec<u8>, String> {
        let mut command = self.generator(&server.address());
        command.args(["--label", server.kind.label(), "--pid", &server.id().to_string()]);
        command.args(["--rows", &plan.rows.to_string(), "--value-size", &plan.value_size.to_string()]);
        command.args(["--threads", &plan.threads.to_string()]);
        command.args(["--warm-up", &warm_up.to_string(), "--seconds", &seconds.to_string()]);
        command.args(more);
        // The workload's own arguments come last, so they override those before them.
        command.args(load.words);
        if let Some(apart) = &self.apart {
            command.arg("--calm");
            command = apart.generator(&command);
        }
        let output = command.output().map_err(|error| format!("the generator cannot be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or("nothing");
            return Err(format!("{} on {} failed: {last}", load.name, server.kind.label()));
        }
        Ok(output.stdout)
    }

    /// Measures the machine itself.
    fn limits(&mut self, folder: &Path, plan: &Plan) -> Outcome {
        let mut command = Command::new(&self.bellows);
        command.args(["bench", "--json", "--limits"]).arg(folder);
        command.args(["--value-size", &plan.value_size.to_string(), "--threads", &plan.threads.to_string()]);
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        self.keep(&output.stdout)
    }

    fn beside(&self, pictures: &Path) -> Result<String, String> {
        let output = Command::new(&self.bellows)
            .args(["bench", "--beside"])
            .arg(&self.file)
            .arg("--pictures")
            .arg(pictures)
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

/// Returns the server's CPU time per operation in a line of results, in µs.
fn cpu_us(line: &[u8]) -> Result<f64, String> {
    figure_of(line, "cpu_us_per_operation")
}

/// Returns a figure in a line of the generator's results.
pub(crate) fn figure_of(line: &[u8], name: &str) -> Result<f64, String> {
    let name = format!("\"{name}\":");
    let line = String::from_utf8_lossy(line);
    let figure = line.split_once(&name).and_then(|(_, rest)| rest.split([',', '}']).next()?.parse().ok());
    figure.ok_or_else(|| format!("the generator did not say {name} {line}"))
}

/// Writes dirty pages to disk now, so that measured latencies do not wait for it.
fn write_back() -> Outcome {
    let status = Command::new("sync").status().map_err(|error| format!("sync: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("sync: {status}")) }
}

/// Returns a line that describes this machine.
fn machine() -> Result<String, String> {
    let text = |file: &str| fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    let cpus = text("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([':', ' ', '\t']);
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let memory = subject::memory_mib()?;
    let kernel = text("/proc/sys/kernel/osrelease")?;
    Ok(format!("{count} CPUs ({model}), {memory} MiB, Linux {}", kernel.trim()))
}
