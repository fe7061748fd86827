//! Measures the server on an S3 store that answers late: `cargo xtask s3latency`.
//!
//! A [proxy](crate::s3faults::proxy) in front of a real S3 server delays each request by `L` and records how long it
//! took. Most bars are ratios to figures of the same run, so they hold on any machine without other work.
//!
//! * `put`: durable puts of one client and of 64, beside `P`, the time of one conditional put of the log.
//! * `flush`, `open`, `start`: a flush of 16 MB, a compaction of four files of 16 MB, the opening of a region of ten
//!   files, and a start until 20 regions are open. Their bars are those for `L` = 20 ms.
//! * `recovery`: a gigabyte of live log, `kill -9`, and a start that finds nothing on the machine's disk, beside a
//!   plain loop that reads the same objects.
//! * `cached`: gets of cached rows with `L`, beside those without.
//! * `cold`: gets of rows that no cache has, when one of a hundred replies is a second late.
//! * `budget`: what the log costs under load, beside `bellows.wal.store.budget`.
//! * `idle`: what a server without clients costs.
//! * `rename`: loads and compactions whose files are committed by a list, beside those whose files are renamed (`proof/rename`).
//! * `replica`: how late a read replica shows writes while the primary gets 5 MB/s of other writes, beside readers that
//!   check each answer while the primary flushes, compacts, splits and drops; and its promotion.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::compare::{figure_of, memory_mib};
use crate::crash::store_options;
use crate::fire::free_ports;
use crate::generator::{generator, median, said};
use crate::java::succeed;
use crate::programs::{build_example, target};
use crate::random::seed_from_the_clock;
use crate::replica::{END_MAX, lag, promote};
use crate::s3::Store;
use crate::s3faults::proxy::{Delays, Proxy, Recorded};
use crate::s3faults::request::RequestKind;
use crate::server::{Server, Start, fresh_folder, release};
use crate::talk::Talk;
use crate::{Outcome, web};

pub(crate) const USAGE: &str = "\
       cargo xtask s3latency [--only put,flush,open,start,recovery,cached,cold,budget,idle,rename,replica] [--delay MS,…] [--seconds S]
                  [--log MB] [--bellows BINARY]
                  (all of them with a delay of 20 ms, 10 seconds for each load and 1,000 MB of log, unless said
                  otherwise; needs Go and curl)";

const PARTS: [&str; 11] =
    ["put", "flush", "open", "start", "recovery", "cached", "cold", "budget", "idle", "rename", "replica"];
/// The delay in ms for which `flush`, `open` and `start` have bars.
const DELAY_OF_BARS: u64 = 20;
/// Maximum time of a durable put of one client, and of 64, divided by `P`.
const PUT_BARS: [(&str, f64); 2] = [("1", 1.15), ("64", 1.5)];
/// Maximum times with [`DELAY_OF_BARS`], in ms.
const FLUSH_MS: f64 = 200.0;
const COMPACTION_MS: f64 = 2_000.0;
const OPEN_MS: f64 = 100.0;
const START_MS: f64 = 2_000.0;
/// Maximum time in ms until the first region is writable after the loss of the machine's disk.
const FIRST_WRITE_MS: f64 = 2_000.0;
/// Maximum time of a start with a large log, divided by that of the plain loop.
const RECOVERY_BAR: f64 = 1.3;
/// Maximum ratio of two costs that should be equal.
const EQUAL: f64 = 1.05;
/// Maximum p99 of a cold get, divided by the delay plus the median of cold gets without delay.
const COLD_BAR: f64 = 3.0;
/// How late one of a hundred replies is while cold gets are measured.
const SLOW: Duration = Duration::from_secs(1);
/// Budget of the log in dollars a day, maximum ratio of its cost to the budget, and price of a PUT request in dollars.
const BUDGET: f64 = 5.0;
const BUDGET_BAR: f64 = 1.02;
const PUT_PRICE: f64 = 0.005 / 1_000.0;
/// Prices of a GET and a LIST request in dollars.
const GET_PRICE: f64 = 0.0004 / 1_000.0;
const LIST_PRICE: f64 = PUT_PRICE;
/// Maximum cost of an idle server in dollars a day, the time for which it is watched, and the time before that.
const IDLE_BAR: f64 = 0.06;
const IDLE: Duration = Duration::from_secs(120);
const CALM_DOWN: Duration = Duration::from_secs(30);
/// What is done with both commits, and the minimum time with renames, divided by that with lists.
const RENAME_BARS: [(&str, f64); 3] = [("flushes", 1.5), ("compaction", 1.04), ("load", 1.07)];
/// Rate of the writes of 1 KB beside which a replica is measured, in a second: 5 MB.
const REPLICA_RATE: &str = "5000";
/// Maximum time in ms at p50 and p99 until a replica shows a write, and maximum time of its promotion, in s.
const LAG_BARS: [f64; 2] = [250.0, 1_000.0];
const PROMOTION_BAR: f64 = 5.0;
/// The number of objects of the log as shipped.
const LOG_PARTS: &str = "bellows.wal.store.parts.max=2000";
/// Maximum time of one request to the judge of a replica.
const ROUND_SECONDS: u64 = 60;
const SECONDS_OF_A_DAY: f64 = 86_400.0;
/// Number of rows of 1 KB in 16 MB.
const ROWS_OF_16_MB: u64 = 16_000;
/// Number of rounds in which two servers are measured in turn.
const ROUNDS: u32 = 5;
/// The server has sent all its requests if it has sent none for this time.
const CALM: Duration = Duration::from_secs(2);
/// Maximum time to wait for a line in the server's log.
const LINE_MAX: Duration = Duration::from_secs(120);
/// Number of requests at a time of a loop that is shown beside the plain one.
const LOOP_REQUESTS: &str = "16";
const TABLE: &str = "TestTable";

struct Plan {
    parts: Vec<String>,
    delays: Vec<u64>,
    seconds: String,
    log_mb: u64,
    bellows: Option<PathBuf>,
}

impl Plan {
    fn of(options: &[&str]) -> Result<Plan, String> {
        let mut plan = Plan {
            parts: PARTS.map(str::to_owned).to_vec(),
            delays: vec![DELAY_OF_BARS],
            seconds: "10".to_owned(),
            log_mb: 1_000,
            bellows: None,
        };
        for pair in options.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value\nusage:\n{USAGE}", pair[0]));
            };
            let wrong = || format!("{name} {value}: not understood\nusage:\n{USAGE}");
            match *name {
                "--only" => {
                    plan.parts = value.split(',').map(str::to_owned).collect();
                    if plan.parts.iter().any(|part| !PARTS.contains(&&part[..])) {
                        return Err(wrong());
                    }
                }
                "--delay" => {
                    plan.delays =
                        value.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
                }
                "--seconds" => {
                    plan.seconds = value.parse::<u32>().map_err(|_| wrong())?.to_string();
                }
                "--log" => plan.log_mb = value.parse().map_err(|_| wrong())?,
                "--bellows" => plan.bellows = Some(PathBuf::from(value)),
                _ => return Err(wrong()),
            }
        }
        Ok(plan)
    }
}

/// Runs `cargo xtask s3latency` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let plan = Plan::of(options)?;
    let bellows = release(plan.bellows.as_deref())?;
    let folder = std::path::absolute(fresh_folder("s3latency")?).map_err(|error| error.to_string())?;
    let buckets = folder.join("store");
    let store = Store::start_in(&buckets)?;
    let mut fell_short = Vec::new();
    for ms in &plan.delays {
        for part in &plan.parts {
            let mut bench = Bench {
                plan: &plan,
                bellows: &bellows,
                folder: folder.join(format!("{part}-{ms}")),
                buckets: &buckets,
                store: &store,
                delay: *ms,
                fell_short: &mut fell_short,
            };
            fs::create_dir_all(&bench.folder).map_err(|error| error.to_string())?;
            let outcome = match &part[..] {
                "put" => bench.puts(),
                "flush" => bench.flush(),
                "open" => bench.opening(),
                "start" => bench.start_of_20_regions(),
                "recovery" => bench.recovery(),
                "cached" => bench.cached(),
                "cold" => bench.cold(),
                "budget" => bench.budget(),
                "idle" => bench.idle(),
                "rename" => bench.rename(),
                _ => bench.replica(),
            };
            outcome.map_err(|why| format!("{part} with L = {ms} ms: {why}; see {}", folder.display()))?;
        }
    }
    drop(store);
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if fell_short.is_empty() { Ok(()) } else { Err(fell_short.join("; ")) }
}

/// One measurement, with a folder and a root of its own.
struct Bench<'a> {
    plan: &'a Plan,
    bellows: &'a Path,
    folder: PathBuf,
    buckets: &'a Path,
    store: &'a Store,
    /// The delay of each request in ms.
    delay: u64,
    /// What missed its bar.
    fell_short: &'a mut Vec<String>,
}

impl Bench<'_> {
    /// Prints a figure, and notes it if it is above its bar. `None`: there is no bar.
    fn judge(&mut self, what: &str, figure: f64, bar: Option<f64>) {
        let (delay, bar_said) = (self.delay, bar.map(|bar| format!(", bar {bar}")).unwrap_or_default());
        say!("L = {delay} ms: {what} {figure:.3}{bar_said}");
        if bar.is_some_and(|bar| figure.is_nan() || figure > bar) {
            self.fell_short.push(format!("L = {delay} ms: {what} {figure:.3}{bar_said}"));
        }
    }

    /// Returns a bar that holds only with [`DELAY_OF_BARS`].
    fn of_this_delay(&self, bar: f64) -> Option<f64> {
        (self.delay == DELAY_OF_BARS).then_some(bar)
    }

    fn proxy(&self, delay: Duration, slow: Duration) -> Result<Proxy, String> {
        let delays = Delays { each: delay, slow, ..Delays::default() };
        Proxy::delaying(&self.store.endpoint, delays).map_err(|error| format!("no proxy: {error}"))
    }

    fn usual_proxy(&self) -> Result<Proxy, String> {
        self.proxy(Duration::from_millis(self.delay), Duration::ZERO)
    }

    /// The root in the bucket, as a key.
    fn root(&self) -> String {
        self.folder.file_name().expect("it was joined").to_string_lossy().into_owned()
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn server(&self, proxy: &Proxy, settings: &[&str]) -> Result<Server, String> {
        self.server_at(proxy, settings, &self.root(), [0; 4])
    }

    fn server_at(
        &self,
        proxy: &Proxy,
        settings: &[&str],
        root: &str,
        ports: [u16; 4],
    ) -> Result<Server, String> {
        let mut words = store_options(&proxy.endpoint, "");
        // Only what is measured sends requests.
        let quiet = ["hbase.hstore.compaction.min=20", "bellows.wal.store.parts.max=0"];
        words.extend(
            quiet.iter().chain(settings).flat_map(|setting| ["-D".to_owned(), (*setting).to_owned()]),
        );
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let data = PathBuf::from(format!("s3://bellows/{root}"));
        let log = self.log();
        let start =
            Start { before: &[], binary: self.bellows, folder: &data, log: &log, ports, more: &words };
        Server::start_as(&start)
    }

    /// Runs a workload, and returns the generator's line of JSON.
    fn drive(&self, server: &Server, words: &[&str]) -> Result<String, String> {
        let mut command = generator(self.bellows, &server.rpc, TABLE, words);
        said(command.args(["--json", "--pid", &server.id().to_string()]))
    }

    /// Inserts this many rows of 1 KB, without a flush.
    fn insert(&self, server: &Server, rows: u64, words: &[&str]) -> Outcome {
        let rows = rows.to_string();
        let insert = [
            "insert",
            "--warm-up",
            "0",
            "--no-flush",
            "--rows",
            "200",
            "--threads",
            "32",
            "--seconds",
            "300",
        ];
        self.drive(server, &[&insert[..], &["--operations", &rows], words].concat()).map(drop)
    }

    /// Returns the times in ms that the server's log has for what it says with `said` about the table, in order, when
    /// there are at least `count`.
    fn logged(&self, said: &str, count: usize) -> Result<Vec<f64>, String> {
        let began = Instant::now();
        loop {
            let text = fs::read_to_string(self.log()).map_err(|error| error.to_string())?;
            let table = format!(" table={TABLE} ");
            let lines = text.lines().filter(|line| line.contains(said) && line.contains(&table));
            let times: Vec<f64> = lines
                .filter_map(|line| line.rsplit_once(" ms=")?.1.split(' ').next()?.parse().ok())
                .collect();
            if times.len() >= count {
                return Ok(times);
            }
            if began.elapsed() > LINE_MAX {
                return Err(format!("the log has {} lines with {said}, expected {count}", times.len()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn puts(&mut self) -> Outcome {
        let proxy = self.usual_proxy()?;
        let server = self.server(&proxy, &[])?;
        self.insert(&server, 1, &[])?;
        drop(proxy.recorded(CALM));
        let mut alone = f64::NAN;
        for (clients, bar) in PUT_BARS {
            let seconds = &self.plan.seconds[..];
            let words =
                ["insert", "--rows", "200", "--threads", clients, "--warm-up", "2", "--seconds", seconds];
            let line = self.drive(&server, &[&words[..], &["--no-flush"]].concat())?;
            let took: Vec<f64> = proxy.recorded(CALM).iter().filter(|it| is_log_put(it)).map(ms).collect();
            // `P` is that of the single client, whose puts have no other beside them.
            if clients == "1" {
                alone = median(&took);
                self.judge("P, one conditional put of the log, median ms", alone, None);
            }
            let p50 = figure_of(line.as_bytes(), "p50_us")? / 1_000.0;
            say!("L = {} ms: durable put of {clients} clients, p50 {p50:.2} ms", self.delay);
            self.judge(&format!("p50 of a durable put of {clients} clients ÷ P"), p50 / alone, Some(bar));
        }
        server.stop()
    }

    fn flush(&mut self) -> Outcome {
        let proxy = self.usual_proxy()?;
        let settings = ["hbase.hregion.memstore.flush.size=256m"];
        let server = self.server(&proxy, &settings)?;
        for count in 1..=4 {
            self.insert(&server, ROWS_OF_16_MB, &[])?;
            web::act(&server.web, TABLE, "flush")?;
            self.logged("flushed region=", count)?;
        }
        let times = self.logged("flushed region=", 4)?;
        self.judge("flush of 16 MB, median ms", median(&times), self.of_this_delay(FLUSH_MS));
        server.stop()?;
        // After a restart no cache has the blocks.
        let server = self.server(&proxy, &settings)?;
        web::act(&server.web, TABLE, "major_compact")?;
        let times = self.logged("compacted region=", 1)?;
        self.judge("compaction of four files of 16 MB, ms", times[0], self.of_this_delay(COMPACTION_MS));
        server.stop()
    }

    fn opening(&mut self) -> Outcome {
        let proxy = self.usual_proxy()?;
        let server = self.server(&proxy, &[])?;
        for count in 1..=10 {
            self.insert(&server, 1_000, &[])?;
            web::act(&server.web, TABLE, "flush")?;
            self.logged("flushed region=", count)?;
        }
        server.stop()?;
        let opened = self.logged("region opened", 1)?.len();
        let server = self.server(&proxy, &[])?;
        let times = self.logged("region opened", opened + 1)?;
        self.judge("opening of a region of ten files, ms", times[opened], self.of_this_delay(OPEN_MS));
        server.stop()
    }

    fn start_of_20_regions(&mut self) -> Outcome {
        let proxy = self.usual_proxy()?;
        let server = self.server(&proxy, &[])?;
        self.insert(&server, 20_000, &["--regions", "20"])?;
        web::act(&server.web, TABLE, "flush")?;
        self.logged("flushed region=", 20)?;
        server.stop()?;
        let server = self.server(&proxy, &[])?;
        let ready = server.ready.as_secs_f64() * 1_000.0;
        self.judge("start until 20 regions are open, ms", ready, self.of_this_delay(START_MS));
        self.insert(&server, 20_000, &["--regions", "20"])?;
        server.kill()?;
        let server = self.server(&proxy, &[])?;
        let ready = server.ready.as_secs_f64() * 1_000.0;
        // Each row is an object of the log.
        self.judge(
            "start until 20 regions are open, after kill -9 with 20,000 rows in the log, ms",
            ready,
            None,
        );
        server.stop()
    }

    fn recovery(&mut self) -> Outcome {
        let proxy = self.usual_proxy()?;
        let size = format!("hbase.hregion.memstore.flush.size={}m", 4 * self.plan.log_mb.max(128));
        let shares = ["hbase.regionserver.global.memstore.size=0.6", "hfile.block.cache.size=0.1"];
        let settings = [&[&size[..]], &shares[..]].concat();
        let server = self.server(&proxy, &settings)?;
        // The generator first loads as many rows of 1 KB as the batches have afterwards, a thousand each.
        let (batches, rows) = ((self.plan.log_mb / 2).to_string(), (self.plan.log_mb * 500).to_string());
        let words = ["batch-write", "--batch", "1000", "--warm-up", "0", "--no-flush", "--threads", "16"];
        let more = ["--seconds", "600", "--operations", &batches, "--rows", &rows, "--regions", "20"];
        self.drive(&server, &[&words[..], &more].concat())?;
        server.kill()?;
        let (bytes, loop_ms) = self.plain_loop(&proxy, "1")?;
        let (_, beside_ms) = self.plain_loop(&proxy, LOOP_REQUESTS)?;
        let ports = free_ports(seed_from_the_clock())?;
        let address = format!("127.0.0.1:{}", ports[0]);
        let mut first =
            generator(self.bellows, &address, TABLE, &["--until-first", "start", "--rows", &rows, "--json"]);
        let first = first.stdout(Stdio::piped()).spawn().map_err(|error| format!("no generator: {error}"))?;
        let server = self.server_at(&proxy, &settings, &self.root(), ports)?;
        let said = first.wait_with_output().map_err(|error| format!("the generator: {error}"))?;
        let write = figure_of(&said.stdout, "write_ms")?;
        let ready = server.ready.as_secs_f64() * 1_000.0;
        say!(
            "L = {} ms: {:.0} MB of log; a plain loop reads them in {loop_ms:.0} ms, and with {LOOP_REQUESTS} requests at a \
             time in {beside_ms:.0} ms; the start took {ready:.0} ms",
            self.delay,
            bytes as f64 / 1e6
        );
        self.judge("first write after the loss of the disk, ms", write, Some(FIRST_WRITE_MS));
        self.judge("start after the loss of the disk ÷ plain loop", ready / loop_ms, Some(RECOVERY_BAR));
        server.kill()
    }

    /// Reads all objects of the log with curl, `at_once` at a time. Returns their bytes, and the time in ms.
    fn plain_loop(&self, proxy: &Proxy, at_once: &str) -> Result<(u64, f64), String> {
        let mut objects = Vec::new();
        let bucket = self.buckets.join("bellows");
        files_below(&bucket.join(self.root()).join("WALs"), &mut objects)?;
        let (mut urls, mut bytes) = (String::new(), 0);
        for (object, size) in objects {
            let key = object.strip_prefix(&bucket).map_err(|error| error.to_string())?;
            urls +=
                &format!("url = \"{}/bellows/{}\"\noutput = \"/dev/null\"\n", proxy.endpoint, key.display());
            bytes += size;
        }
        let list = self.folder.join("urls");
        fs::write(&list, urls).map_err(|error| error.to_string())?;
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--parallel", "--parallel-max", at_once])
            .args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", "bellows:bellowssecret", "--config"])
            .arg(&list)
            // It shows its progress even if it is silent.
            .stderr(Stdio::null());
        let began = Instant::now();
        succeed("curl", curl)?;
        Ok((bytes, began.elapsed().as_secs_f64() * 1_000.0))
    }

    fn cached(&mut self) -> Outcome {
        let proxies = [self.proxy(Duration::ZERO, Duration::ZERO)?, self.usual_proxy()?];
        let mut servers = Vec::new();
        for (index, proxy) in proxies.iter().enumerate() {
            let server = self.server_at(proxy, &[], &format!("{}-{index}", self.root()), [0; 4])?;
            self.insert(&server, 20_000, &[])?;
            web::act(&server.web, TABLE, "flush")?;
            self.logged("flushed region=", index + 1)?;
            servers.push(server);
        }
        let (mut cpu, mut p50, mut rates) = ([vec![], vec![]], [vec![], vec![]], [vec![], vec![]]);
        let words = ["random-read", "--rows", "200", "--threads", "10", "--warm-up", "2", "--no-flush"];
        for _ in 0..ROUNDS {
            for (index, server) in servers.iter().enumerate() {
                let line = self.drive(server, &[&words[..], &["--seconds", &self.plan.seconds]].concat())?;
                let figure = |name| figure_of(line.as_bytes(), name);
                cpu[index].push(figure("cpu_us_per_operation")?);
                p50[index].push(figure("p50_us")?);
                rates[index].push(figure("operations_per_second")?);
            }
        }
        let ratio = |figures: &[Vec<f64>; 2]| median(&figures[1]) / median(&figures[0]);
        self.judge("CPU time of a cached get ÷ without delay", ratio(&cpu), Some(EQUAL));
        self.judge("p50 of a cached get ÷ without delay", ratio(&p50), Some(EQUAL));
        self.judge("rate of cached gets without delay ÷ with it", 1.0 / ratio(&rates), Some(EQUAL));
        servers.into_iter().try_for_each(Server::stop)
    }

    fn cold(&mut self) -> Outcome {
        const ROWS: u64 = 200_000;
        // Room for the indexes and Bloom filters, and for a few of 3,000 blocks.
        let cache = format!("hfile.block.cache.size={:.6}", 2.0 * 8.0 / memory_mib()? as f64);
        let settings =
            [&cache[..], "hbase.rs.cacheblocksonwrite=false", "hbase.hregion.memstore.flush.size=1g"];
        let fast = self.proxy(Duration::ZERO, Duration::ZERO)?;
        let server = self.server(&fast, &settings)?;
        let rows = ROWS.to_string();
        let load = ["insert", "--operations", "1", "--warm-up", "0", "--seconds", "300", "--rows", &rows];
        self.drive(&server, &load)?;
        self.logged("flushed region=", 1)?;
        let words = ["random-read", "--rows", &rows, "--threads", "4", "--warm-up", "3", "--no-flush"];
        let words = [&words[..], &["--seconds", &self.plan.seconds]].concat();
        let base = figure_of(self.drive(&server, &words)?.as_bytes(), "p50_us")? / 1_000.0;
        server.stop()?;
        let proxy = self.proxy(Duration::from_millis(self.delay), SLOW)?;
        let server = self.server(&proxy, &settings)?;
        let line = self.drive(&server, &words)?;
        let p99 = figure_of(line.as_bytes(), "p99_us")? / 1_000.0;
        say!("L = {} ms: cold get p50 {base:.2} ms without delay, p99 {p99:.2} ms with delays", self.delay);
        self.judge("p99 of a cold get ÷ (L + base)", p99 / (self.delay as f64 + base), Some(COLD_BAR));
        server.stop()
    }

    fn rename(&mut self) -> Outcome {
        let mut build = Command::new("cargo");
        build.args(["build", "--quiet", "--release", "--package", "rename"]);
        succeed("cargo build", build)?;
        let proxy = self.usual_proxy()?;
        let mut command = Command::new(target().join("release/rename"));
        command.args([&proxy.endpoint, "bellows", &self.root(), "bellows", "bellowssecret"]);
        let output =
            command.arg(self.folder.join("log")).output().map_err(|error| format!("rename: {error}"))?;
        if !output.status.success() {
            return Err(format!("rename: {} {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        for (what, bar) in RENAME_BARS {
            let line = said.lines().find(|line| line.split(' ').next() == Some(what));
            let line = line.ok_or_else(|| format!("no line about {what} in {said}"))?;
            let figure = |name: &str| {
                let mut words = line.split(' ').skip_while(|word| *word != name).skip(1);
                words
                    .next()
                    .and_then(|word| word.parse::<f64>().ok())
                    .ok_or_else(|| format!("no {name} in {line}"))
            };
            say!("L = {} ms: {line}", self.delay);
            let ratio = figure("list")? / figure("rename")?;
            self.judge(
                &format!("{what}: time with lists ÷ with renames"),
                ratio,
                self.of_this_delay(1.0 / bar),
            );
        }
        Ok(())
    }

    fn budget(&mut self) -> Outcome {
        let proxy = self.usual_proxy()?;
        let setting = format!("bellows.wal.store.budget={BUDGET}");
        let server = self.server(&proxy, &[&setting])?;
        self.insert(&server, 1, &[])?;
        let words =
            ["insert", "--rows", "200", "--threads", "64", "--warm-up", "0", "--seconds", "75", "--no-flush"];
        let mut load = generator(self.bellows, &server.rpc, TABLE, &words);
        let load = load
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("no generator: {error}"))?;
        // What was saved before the load is spent first.
        std::thread::sleep(Duration::from_secs(10));
        drop(proxy.recorded(Duration::ZERO));
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs(60));
        let requests = proxy.recorded(Duration::ZERO);
        let seconds = began.elapsed().as_secs_f64();
        let status = load.wait_with_output().map_err(|error| format!("the generator: {error}"))?.status;
        if !status.success() {
            return Err(format!("the generator: {status}"));
        }
        let puts = requests.iter().filter(|it| is_log_put(it)).count();
        let cost = puts as f64 * PUT_PRICE / seconds * SECONDS_OF_A_DAY;
        self.judge("cost of the log under load ÷ its budget", cost / BUDGET, Some(BUDGET_BAR));
        server.stop()
    }

    fn idle(&mut self) -> Outcome {
        let proxy = self.usual_proxy()?;
        let server = self.server(&proxy, &[])?;
        self.insert(&server, 20_000, &["--regions", "20"])?;
        web::act(&server.web, TABLE, "flush")?;
        self.logged("flushed region=", 20)?;
        std::thread::sleep(CALM_DOWN);
        drop(proxy.recorded(Duration::ZERO));
        std::thread::sleep(IDLE);
        let requests = proxy.recorded(Duration::ZERO);
        let price = |request: &Recorded| match request.kind {
            RequestKind::Get | RequestKind::Head => GET_PRICE,
            RequestKind::Delete | RequestKind::BulkDelete | RequestKind::Abort => 0.0,
            _ => PUT_PRICE,
        };
        // Once a day the server lists each store; these listings are not in the time that is watched.
        const STORES: f64 = 22.0;
        let watched = requests.iter().map(price).sum::<f64>() / IDLE.as_secs_f64() * SECONDS_OF_A_DAY;
        say!("L = {} ms: an idle server sent {} requests in {IDLE:?}", self.delay, requests.len());
        let cost = watched + STORES * LIST_PRICE;
        self.judge("cost of an idle server of 20 regions, dollars a day", cost, Some(IDLE_BAR));
        server.stop()
    }

    fn replica(&mut self) -> Outcome {
        build_example("replica")?;
        let proxy = self.usual_proxy()?;
        // The log is as long as with the settings as shipped, because a promotion reads it.
        let primary = self.server(&proxy, &[LOG_PARTS])?;
        self.insert(&primary, 1, &["--regions", "4"])?;
        let replica = self.server(&proxy, &[LOG_PARTS, "hbase.global.readonly.enabled=true"])?;
        let seconds: u64 = self.plan.seconds.parse().map_err(|_| "no number of seconds")?;
        let until = (4 * seconds + 60).to_string();
        let words =
            ["insert", "--rows", "20000", "--threads", "16", "--rate", REPLICA_RATE, "--warm-up", "0"];
        let words = [&words[..], &["--regions", "4", "--no-flush", "--seconds", &until]].concat();
        let mut load = generator(self.bellows, &primary.rpc, TABLE, &words);
        let load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let load = Killed(load.map_err(|error| format!("no generator: {error}"))?);
        let seed = seed_from_the_clock().to_string();
        let mut judge = Talk::with("replica", &seed)?;
        let late = lag(&mut judge, &primary, &replica, seconds.min(ROUND_SECONDS))?;
        say!("L = {} ms: at most {} ms until a replica shows a write", self.delay, late.max_ms);
        for (what, figure, bar) in [("p50", late.p50_ms, LAG_BARS[0]), ("p99", late.p99_ms, LAG_BARS[1])] {
            let what = format!("{what} until a replica shows a write, beside 5 MB/s, ms");
            self.judge(&what, figure, self.of_this_delay(bar));
        }
        let mut left = seconds;
        while left > 0 {
            let round = left.min(ROUND_SECONDS);
            let answer = judge.ask(&format!("run {} {} {round}", primary.rpc, replica.rpc))?;
            let figures = answer.strip_prefix("good ").ok_or_else(|| answer.clone())?;
            say!("L = {} ms: a replica for {round} s, seed {seed}: {figures}", self.delay);
            left -= round;
        }
        drop(load);
        let began = Instant::now();
        promote(self.bellows, &replica)?;
        let took = began.elapsed().as_secs_f64();
        self.judge("promotion of a replica, s", took, self.of_this_delay(PROMOTION_BAR));
        primary.resume_and_end(END_MAX)?;
        self.insert(&replica, 100, &["--regions", "4"])?;
        replica.stop()
    }
}

/// A process that is killed when the value is dropped.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Whether the request puts an object of the log.
fn is_log_put(request: &Recorded) -> bool {
    request.kind == RequestKind::Put && request.key.contains("/WALs/")
}

fn ms(request: &Recorded) -> f64 {
    request.took.as_secs_f64() * 1_000.0
}

/// Adds the files below `folder`, with their sizes.
fn files_below(folder: &Path, found: &mut Vec<(PathBuf, u64)>) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let of_entry = entry.metadata().map_err(failed)?;
        if of_entry.is_dir() {
            files_below(&entry.path(), found)?;
        } else {
            found.push((entry.path(), of_entry.len()));
        }
    }
    Ok(())
}
