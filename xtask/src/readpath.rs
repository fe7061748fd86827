//! Measures reads with each engine of the bucket cache, as HBase's published figures were measured: `cargo xtask
//! readpath`.
//!
//! One table (keys of 22 bytes, values of 32, blocks of 16 KB) is loaded once. Then the server is started on it with
//! its blocks in memory, off the heap, in a file and in a mapped file, in turn and round by round. The tier under
//! test holds all data. If that is not the memory tier, the memory tier holds the index and Bloom filters, and little
//! more.
//!
//! * `get`: uniform gets from many callers (the published test of the mmap engine).
//! * `multi-get`: a hundred rows per call, from 5 to 75 callers (PerformanceEvaluation, off-heap read path).
//! * `filter-0`, `filter-10`: scans of 10,000 rows, of which the server returns none, or every tenth.
//! * `tail`: gets at 70 % of the greatest rate: the [ratio of p99 to the median](tail), with separate processors for
//!   server and generator ([`apart`](crate::apart)).
//! * `scans`, `restart`: what [stays in the cache](kept) during scans, and after SIGKILL.
//!
//! With `--with hbase` Apache HBase runs the same workloads, engine by engine, as shipped except for the engine and
//! sizes. Each workload is repeated until the cost of a row hardly falls, and then measured.
//!
//! The measure is CPU time of the server's process. Throughput is also printed; it has a meaning only on a machine
//! without other work.

mod kept;
mod tail;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::apart::Apart;
use crate::backed::Backed;
use crate::compare::{Running, Sizes, WARM as WARM_JAVA, figure_of, memory_mib};
use crate::generator::{generator, median, said};
use crate::server::{Server, fresh_folder, release};
use crate::startup::figure;
use crate::{Outcome, java};

pub(crate) const USAGE: &str = "\
       cargo xtask readpath [--engines memory,offheap,file,mmap] [--only get,tail,multi-get,filter,scans,restart] [--rows N]
             [--seconds S] [--rounds N] [--callers N,…] [--cache MIB] [--restart-cache MIB] [--bellows BINARY]
             [--with hbase]   (with hbase: JDK 17 and Maven)";

const ENGINES: [&str; 4] = ["memory", "offheap", "file", "mmap"];
const PARTS: [&str; 6] = ["get", "tail", "multi-get", "filter", "scans", "restart"];
/// Numbers of callers of a multi-get, as published.
const CALLERS: [&str; 6] = ["5", "10", "20", "25", "50", "75"];
/// Size in MiB of the memory tier while another tier is tested.
const MEMORY_MIB: u64 = 8;
const TABLE: &str = "TestTable";
/// Approximate size in bytes of a row in the tier, with its key and its part of the block's overhead and slot.
const ROW_BYTES: u64 = 100;
/// Minimum throughput with the most callers, relative to the best throughput.
const CALLERS_SHARE: f64 = 0.95;
/// Maximum CPU time of a get with `file`, relative to `mmap`.
const FILE_OVER_MMAP: f64 = 1.25;
/// Minimum ratio of HBase's CPU time for a get to Bellows', with `mmap`.
const HBASE_GET: f64 = 7.0;
/// Minimum ratio of HBase's CPU time for a row of multi-gets and of filtered scans to Bellows', with `offheap`.
const HBASE_ROW: f64 = 6.0;
/// Minimum fraction of lookups of data blocks that hit, because all data should be in the tier.
const IN_TIER: f64 = 0.999;
/// Minimum fraction of gets that are answered in the task that read them.
const INLINE: f64 = 0.999;
/// Size of HBase's heap in MiB.
const HEAP_MIB: u64 = 2_048;
/// Duration of one unmeasured pass of Java in seconds, and maximum number of passes.
const WARM_JAVA_PASSES: (&str, u32) = ("8", 6);

struct Plan {
    engines: Vec<String>,
    parts: Vec<String>,
    rows: u64,
    seconds: f64,
    rounds: u32,
    callers: Vec<&'static str>,
    hbase: bool,
    cache_mib: u64,
    restart_mib: u64,
    bellows: Option<PathBuf>,
}

impl Plan {
    fn of(options: &[&str]) -> Result<Plan, String> {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut plan = Plan {
            engines: all(&ENGINES),
            parts: all(&PARTS),
            rows: 1_000_000,
            seconds: 5.0,
            rounds: 3,
            callers: CALLERS.to_vec(),
            hbase: false,
            cache_mib: 512,
            restart_mib: 64,
            bellows: None,
        };
        for pair in options.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            let wrong = || format!("{name} {value}: not understood");
            let some = |known: &[&str]| {
                let names = all(&value.split(',').collect::<Vec<_>>());
                names.iter().all(|name| known.contains(&&name[..])).then_some(names).ok_or_else(wrong)
            };
            match *name {
                "--engines" => plan.engines = some(&ENGINES)?,
                "--only" => plan.parts = some(&PARTS)?,
                "--callers" => {
                    let one = |name: &str| CALLERS.into_iter().find(|known| *known == name);
                    plan.callers = value.split(',').map(one).collect::<Option<_>>().ok_or_else(wrong)?;
                }
                "--with" if *value == "hbase" => plan.hbase = true,
                "--rows" => plan.rows = value.parse().map_err(|_| wrong())?,
                "--seconds" => plan.seconds = value.parse().map_err(|_| wrong())?,
                "--rounds" => plan.rounds = value.parse().map_err(|_| wrong())?,
                "--cache" => plan.cache_mib = value.parse().map_err(|_| wrong())?,
                "--restart-cache" => plan.restart_mib = value.parse().map_err(|_| wrong())?,
                "--bellows" => plan.bellows = Some(PathBuf::from(value)),
                _ => return Err(format!("{name} is no option\nusage:\n{USAGE}")),
            }
        }
        if plan.rounds == 0 {
            return Err("--rounds 0: nothing would be measured".to_owned());
        }
        if plan.rows * ROW_BYTES > plan.cache_mib << 20 {
            return Err(format!("--cache {}: {} rows would not fit", plan.cache_mib, plan.rows));
        }
        Ok(plan)
    }

    fn has(&self, part: &str) -> bool {
        self.parts.iter().any(|wanted| wanted == part)
    }
}

/// Runs `cargo xtask readpath` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let plan = Plan::of(options)?;
    let bellows = release(plan.bellows.as_deref())?;
    let folder = std::path::absolute(fresh_folder("readpath")?).map_err(|error| error.to_string())?;
    let mut fell_short = Vec::new();
    if plan.has("tail") {
        // For this measurement the free memory is not filled, because the system would evict mapped pages to make room.
        fell_short.extend(tails(&plan, &bellows, &folder)?);
    }
    let is_more = plan.parts.iter().any(|part| part != "tail");
    let _backed = if is_more { Backed::start()? } else { None };
    if ["get", "multi-get", "filter"].iter().any(|part| plan.has(part)) {
        fell_short.extend(costs(&plan, &bellows, &folder)?);
    }
    if plan.has("scans") {
        fell_short.extend(kept::scans(&plan, &bellows, &folder)?);
    }
    if plan.has("restart") {
        fell_short.extend(kept::restart(&plan, &bellows, &folder)?);
    }
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if fell_short.is_empty() { Ok(()) } else { Err(fell_short.join("; ")) }
}

/// Returns the settings of an engine with this many MiB.
fn settings(engine: &str, cache_mib: u64, folder: &Path) -> Result<Vec<String>, String> {
    // Bellows takes fractions of half of the machine's memory, so the size is converted.
    let share = |mib: u64| Ok::<f64, String>(2.0 * mib as f64 / memory_mib()? as f64);
    let file = folder.join(format!("{engine}-blocks"));
    let ioengine = match engine {
        "memory" => String::new(),
        "offheap" => "offheap".to_owned(),
        engine => format!("{engine}:{}", file.display()),
    };
    let memory = if ioengine.is_empty() { cache_mib } else { MEMORY_MIB };
    let mut settings = vec![format!("hfile.block.cache.size={:.6}", share(memory)?)];
    if !ioengine.is_empty() {
        settings.push(format!("hbase.bucketcache.ioengine={ioengine}"));
        settings.push(format!("hbase.bucketcache.size={cache_mib}"));
    }
    // All blocks are written to the tier before the first lookup, because lookups are measured, and not the filling.
    settings.push("hbase.bucketcache.writer.queuelength=100000".to_owned());
    settings.push("hbase.wal.hsync=false".to_owned());
    Ok(settings)
}

fn start(bellows: &Path, folder: &Path, settings: &[String]) -> Result<Server, String> {
    start_behind(&[], bellows, folder, settings)
}

fn start_behind(
    before: &[&str],
    bellows: &Path,
    folder: &Path,
    settings: &[String],
) -> Result<Server, String> {
    let words: Vec<&str> = settings.iter().flat_map(|setting| ["-D", &setting[..]]).collect();
    Server::start_behind(before, bellows, &folder.join("data"), &folder.join("server.log"), &words)
}

/// Runs a workload. Returns the generator's line of JSON.
fn drive(bellows: &Path, server: &Server, words: &[&str]) -> Result<String, String> {
    drive_at(bellows, &server.rpc, server.id(), words)
}

fn drive_at(bellows: &Path, address: &str, id: u32, words: &[&str]) -> Result<String, String> {
    let mut generator = generator(bellows, address, TABLE, words);
    said(generator.args(["--json", "--pid", &id.to_string()]))
}

/// The measurements of one workload on one engine, by round.
#[derive(Default)]
struct Figures {
    cpu_us: Vec<f64>,
    rows_per_second: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
}

/// Returns the median, minimum and maximum, as text.
fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:8.2} ({least:.2}–{most:.2})", median(values))
}

impl Figures {
    fn note(&mut self, said: &str) -> Result<(), String> {
        let figure = |name| figure_of(said.as_bytes(), name);
        self.cpu_us.push(figure("cpu_us_per_row")?);
        self.rows_per_second.push(figure("rows_per_second")?);
        self.p50_us.push(figure("p50_us")?);
        self.p99_us.push(figure("p99_us")?);
        Ok(())
    }
}

/// The figures of a workload on an engine.
type Sheet = BTreeMap<(String, String), Figures>;

/// A workload: its name, and its arguments for the generator.
type Load = (String, Vec<&'static str>);

const GET: &str = "get";

/// Returns the workloads, in order, without the tail, which has a server of its own.
fn loads(plan: &Plan) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    if plan.has("get") {
        loads.push((GET.to_owned(), vec!["random-read", "--threads", "50", "--connections", "5"]));
    }
    if plan.has("multi-get") {
        for callers in &plan.callers {
            loads.push((format!("multi-get {callers:>2}"), vec!["multi-get", "--threads", callers]));
        }
    }
    if plan.has("filter") {
        for name in ["filter-0", "filter-10"] {
            loads.push((name.to_owned(), vec![name]));
        }
    }
    loads
}

/// The parts of the measurement that all engines share.
struct Ground<'a> {
    plan: &'a Plan,
    bellows: &'a Path,
    folder: &'a Path,
    /// The table's rows, as arguments for the generator.
    table: Vec<String>,
}

/// Measures the cost of reads on each engine. Returns the bars that were missed.
fn costs(plan: &Plan, bellows: &Path, folder: &Path) -> Result<Vec<String>, String> {
    let ground = Ground::new(plan, bellows, folder)?;
    let loads = loads(plan);
    let mut figures = Sheet::new();
    let mut fell_short = Vec::new();
    ground.rounds(&mut |engine| {
        fell_short.extend(ground.cost(engine, &loads, &mut figures)?);
        Ok(())
    })?;
    if plan.hbase {
        hbase(plan, bellows, &folder.join("hbase"), &ground.with(&[]), &loads, &mut figures)?;
    }
    show(plan, &figures);
    fell_short.extend(judge(plan, &figures));
    Ok(fell_short)
}

/// Measures the tail of gets on each engine. Returns the bars that were missed.
fn tails(plan: &Plan, bellows: &Path, folder: &Path) -> Result<Vec<String>, String> {
    let ground = Ground::new(plan, bellows, folder)?;
    let mut tails: BTreeMap<String, Vec<tail::Try>> = BTreeMap::new();
    let mut fell_short = Vec::new();
    ground.rounds(&mut |engine| {
        let (tries, not_in_tier) = ground.tail(engine)?;
        tails.entry(engine.to_owned()).or_default().extend(tries);
        fell_short.extend(not_in_tier);
        Ok(())
    })?;
    fell_short.extend(tails.iter().filter_map(|(engine, tries)| tail::judged(engine, tries)));
    Ok(fell_short)
}

impl<'a> Ground<'a> {
    /// Loads the table, unless it exists.
    fn new(plan: &'a Plan, bellows: &'a Path, folder: &'a Path) -> Result<Ground<'a>, String> {
        let rows = plan.rows.to_string();
        let table = ["--rows", &rows, "--value-size", "32", "--key-size", "22", "--block-size", "16384"];
        let ground = Ground { plan, bellows, folder, table: table.map(str::to_owned).to_vec() };
        let server = ground.start(&[], "memory")?;
        drive(bellows, &server, &ground.with(&["random-read", "--seconds", "0.1", "--warm-up", "0"]))?;
        server.stop()?;
        Ok(ground)
    }

    /// Returns the table's shape, followed by these arguments.
    fn with<'w>(&'w self, words: &[&'w str]) -> Vec<&'w str> {
        self.table.iter().map(String::as_str).chain(words.iter().copied()).collect()
    }

    /// Calls a function with each engine in turn, round by round.
    fn rounds(&self, each: &mut dyn FnMut(&str) -> Outcome) -> Outcome {
        for round in 0..self.plan.rounds {
            let mut engines = self.plan.engines.clone();
            if round % 2 == 1 {
                engines.reverse();
            }
            for engine in &engines {
                say!("round {}: {engine}", round + 1);
                each(engine)?;
            }
        }
        Ok(())
    }

    fn start(&self, before: &[&str], engine: &str) -> Result<Server, String> {
        start_behind(before, self.bellows, self.folder, &settings(engine, self.plan.cache_mib, self.folder)?)
    }

    /// Runs the workloads on one engine and records their costs. Returns the bars that were missed.
    fn cost(&self, engine: &str, loads: &[Load], figures: &mut Sheet) -> Result<Vec<String>, String> {
        let mut fell_short = Vec::new();
        let server = self.start(&[], engine)?;
        let drive = |words: &[&str]| drive(self.bellows, &server, &self.with(words));
        fill(&drive)?;
        let before = kept::lookups(&server, TABLE)?;
        for (name, words) in loads {
            let seconds = self.plan.seconds.to_string();
            let calls = calls(&server)?;
            let said = drive(&[words, &["--warm-up", "1", "--seconds", &seconds][..]].concat())?;
            figures.entry((name.clone(), engine.to_owned())).or_default().note(&said)?;
            let inline = calls_inline_since(calls, &server)?;
            if name == GET && !is_within(INLINE, inline) {
                fell_short.push(format!("{engine}: {inline:.4} of gets were answered in their task"));
            }
        }
        fell_short.extend(not_in_tier(engine, &server, &before)?);
        server.stop()?;
        Ok(fell_short)
    }

    /// Measures the tail of gets on one engine, with separate processors. Also returns other failures.
    fn tail(&self, engine: &str) -> Result<(Vec<tail::Try>, Option<String>), String> {
        let apart = Apart::new()?;
        let server = self.start(&apart.before_server(), engine)?;
        let id = server.id().to_string();
        let drive = |words: &[&str]| {
            let words = [&self.with(words)[..], &["--json", "--pid", &id]].concat();
            said(&mut apart.generator(&generator(self.bellows, &server.rpc, TABLE, &words)))
        };
        fill(&drive)?;
        let before = kept::lookups(&server, TABLE)?;
        let closed = figure_of(drive(tail::CLOSED)?.as_bytes(), "rows_per_second")?;
        let offer = |rate: f64, seconds: &str| {
            drive(&[tail::LOAD, &["--rate", &format!("{rate:.0}"), "--seconds", seconds]].concat())
        };
        let tries = tail::tries(engine, closed, &self.plan.seconds.to_string(), &offer)?;
        let not_in_tier = not_in_tier(engine, &server, &before)?;
        server.stop()?;
        Ok((tries, not_in_tier))
    }
}

/// Fills the tier, and then reads each block from it.
fn fill(drive: &dyn Fn(&[&str]) -> Result<String, String>) -> Outcome {
    for _ in 0..2 {
        drive(FILL)?;
    }
    Ok(())
}

/// Reports if some lookups of data blocks missed the tier.
fn not_in_tier(engine: &str, server: &Server, before: &kept::Lookups) -> Result<Option<String>, String> {
    let rate = kept::lookups(server, TABLE)?.since(before).hit_rate();
    Ok((!is_within(IN_TIER, rate)).then(|| {
        format!("{engine} had {:.2} % of the data blocks, not all: something else was measured", 100.0 * rate)
    }))
}

/// Arguments that fill a tier: all rows, several times.
const FILL: &[&str] = &["scan", "--threads", "1", "--seconds", "3", "--warm-up", "0"];

/// Returns the name of HBase's engine among the figures.
fn of_hbase(engine: &str) -> String {
    format!("HBase {engine}")
}

/// Measures the same workloads on Apache HBase, for each engine that it has.
fn hbase(
    plan: &Plan,
    bellows: &Path,
    folder: &Path,
    table: &[&str],
    loads: &[Load],
    figures: &mut Sheet,
) -> Outcome {
    let jars = java::class_path("tools")?;
    let sizes = Sizes { cache_mib: plan.cache_mib, heap_mib: HEAP_MIB };
    let with = |words: &[&'static str]| [table, words].concat();
    for engine in plan.engines.iter().filter(|engine| *engine != "memory") {
        let ioengine = match &engine[..] {
            "offheap" => "offheap".to_owned(),
            engine => format!("{engine}:{}", folder.with_file_name("hbase-blocks").display()),
        };
        let settings = [
            ("hbase.bucketcache.ioengine", ioengine),
            ("hbase.bucketcache.size", plan.cache_mib.to_string()),
            ("hbase.bucketcache.writer.queuelength", "100000".to_owned()),
            ("hfile.block.cache.size", "0.1".to_owned()),
        ];
        say!("HBase is started with {engine}");
        let server = Running::start_hbase(folder, bellows, &jars, &sizes, &settings)?;
        let drive = |words: &[&str]| drive_at(bellows, &server.address(), server.id(), words);
        for _ in 0..2 {
            drive(&with(FILL))?;
        }
        for (name, words) in loads {
            let words = with(words);
            let (seconds, passes) = WARM_JAVA_PASSES;
            let mut before = f64::INFINITY;
            for _ in 0..passes {
                let said = drive(&[&words[..], &["--warm-up", "0", "--seconds", seconds]].concat())?;
                let cost = figure_of(said.as_bytes(), "cpu_us_per_row")?;
                say!("HBase {engine} warms up: {name}, {cost:.2} µs");
                if cost > WARM_JAVA * before {
                    break;
                }
                before = cost;
            }
            for _ in 0..plan.rounds {
                let seconds = plan.seconds.to_string();
                let said = drive(&[&words[..], &["--warm-up", "1", "--seconds", &seconds]].concat())?;
                figures.entry((name.clone(), of_hbase(engine))).or_default().note(&said)?;
            }
        }
        server.stop()?;
    }
    Ok(())
}

/// Returns the number of served calls, and of those that were answered in the task that read them.
fn calls(server: &Server) -> Result<(f64, f64), String> {
    Ok((figure(server, "hbase_ipc_call_count")?, figure(server, "hbase_ipc_inline_call_count")?))
}

fn calls_inline_since(before: (f64, f64), server: &Server) -> Result<f64, String> {
    let after = calls(server)?;
    Ok((after.1 - before.1) / (after.0 - before.0))
}

fn show(plan: &Plan, figures: &Sheet) {
    say!("\nserver CPU in µs a row: median (least–greatest) of {} rounds; rows a second", plan.rounds);
    for ((name, engine), seen) in figures {
        say!(
            "{name:12} {engine:13} {} µs   {:>11.0} rows/s   p50 {:.0} µs, p99 {:.0} µs",
            spread(&seen.cpu_us),
            median(&seen.rows_per_second),
            median(&seen.p50_us),
            median(&seen.p99_us)
        );
    }
}

/// Whether a figure meets its bar. NaN does not.
fn is_within(figure: f64, most: f64) -> bool {
    figure <= most
}

/// Returns the list of missed bars.
fn judge(plan: &Plan, figures: &Sheet) -> Vec<String> {
    let mut fell_short = Vec::new();
    let cpu = |name: &str, engine: &str| {
        figures.get(&(name.to_owned(), engine.to_owned())).map(|seen| median(&seen.cpu_us))
    };
    if let (Some(file), Some(mmap)) = (cpu("get", "file"), cpu("get", "mmap")) {
        say!("a get with file costs {:.2} of one with mmap", file / mmap);
        if !is_within(file, FILE_OVER_MMAP * mmap) {
            fell_short.push(format!("a get costs {file:.2} µs with file and {mmap:.2} with mmap"));
        }
    }
    if let (Some(offheap), Some(mmap)) = (cpu("get", "offheap"), cpu("get", "mmap")) {
        say!("a get with offheap costs {:.2} of one with mmap", offheap / mmap);
        if !is_within(offheap, mmap) {
            fell_short.push(format!("a get costs {offheap:.2} µs with offheap and {mmap:.2} with mmap"));
        }
    }
    for engine in &plan.engines {
        for ((name, _), seen) in figures.iter().filter(|((_, of), _)| *of == of_hbase(engine)) {
            let Some(ours) = cpu(name, engine) else { continue };
            let ratio = median(&seen.cpu_us) / ours;
            say!("{name}: HBase pays {ratio:.1} times as much with {engine}");
            let bar = match (&name[..], &engine[..]) {
                (GET, "mmap") => HBASE_GET,
                (GET, _) | (_, "file" | "mmap") => continue,
                _ => HBASE_ROW,
            };
            if !is_within(bar, ratio) {
                fell_short
                    .push(format!("{name}: HBase pays {ratio:.1} times as much with {engine}, not {bar}"));
            }
        }
    }
    let most = plan.callers.last().copied().unwrap_or_default();
    for engine in plan.engines.iter().filter(|_| plan.has("multi-get") && plan.callers.len() > 1) {
        let of = |callers: &str| {
            let seen = figures.get(&(format!("multi-get {callers:>2}"), engine.clone()));
            seen.map_or(0.0, |seen| median(&seen.rows_per_second))
        };
        let best = plan.callers.iter().map(|callers| of(callers)).fold(0.0, f64::max);
        let share = of(most) / best;
        say!("multi-get with {most} callers on {engine}: {share:.2} of the best throughput");
        if !is_within(CALLERS_SHARE, share) {
            fell_short.push(format!("{most} callers on {engine} get {share:.2} of the best throughput"));
        }
    }
    fell_short
}
