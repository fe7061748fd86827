//! Measures hit rates of the cache under skewed gets, of a table that is a quarter larger than the cache.
//!
//! * `scans`: engine by engine, the hit rate of gets alone, and during scans of another table that is four times as
//!   large as the cache.
//! * `restart`: the hit rate before SIGKILL with a file as bucket cache, and in the first two seconds after the
//!   restart.

use std::path::Path;
use std::process::Stdio;

use super::{Plan, TABLE, drive, is_within, settings, start};
use crate::generator::generator;
use crate::server::Server;
use crate::startup::ask;

/// Minimum hit rate after a restart, relative to that before.
const RESTART_SHARE: f64 = 0.95;
/// The cache counts as warm when its hit rate grows by less than this in five seconds. The next constant is the maximum
/// number of such periods.
const WARM: f64 = 0.01;
const WARM_ROUNDS_MAX: usize = 24;
/// Maximum loss of hit rate during scans.
const SCANS_COST: f64 = 0.01;
/// Minimum hit rate of undisturbed gets, so that scans could reduce it. Four fifths of the rows fit into the cache, and
/// the rest are the least popular.
const RATE_MIN: f64 = 0.75;
/// Minimum number of blocks that a scan must load to count as one.
const SCANNED_MIN: f64 = 1_000.0;
/// The name of the scanned table.
const SCANNED: &str = "Scanned";
/// Size of the scanned table, as a multiple of the cache's.
const SCANNED_TIMES: u64 = 4;
/// Size of a row of either table, in bytes.
const ROW_BYTES: u64 = 1_100;

/// Number of lookups of a table's data blocks, and of those that hit.
#[derive(Clone, Copy, Default)]
pub(super) struct Lookups {
    hits: f64,
    misses: f64,
}

impl Lookups {
    pub(super) fn since(self, before: &Lookups) -> Lookups {
        Lookups { hits: self.hits - before.hits, misses: self.misses - before.misses }
    }

    pub(super) fn hit_rate(self) -> f64 {
        self.hits / (self.hits + self.misses)
    }
}

pub(super) fn lookups(server: &Server, table: &str) -> Result<Lookups, String> {
    let (_, body) = ask(&server.web, "/metrics")?;
    let mut lookups = Lookups::default();
    for line in body.lines().filter(|line| line.starts_with("bellows_block_cache_lookups_total{")) {
        if !line.contains(&format!("table=\"{table}\"")) || !line.contains("kind=\"data\"") {
            continue;
        }
        let count: f64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0.0);
        if line.contains("outcome=\"miss\"") { lookups.misses += count } else { lookups.hits += count }
    }
    Ok(lookups)
}

/// Gets with a Zipfian distribution.
struct Gets<'a> {
    bellows: &'a Path,
    rows: String,
    seed: u32,
}

impl<'a> Gets<'a> {
    /// Loads the rows and warms the cache. Returns the hit rate.
    fn warm(bellows: &'a Path, server: &Server, cache_mib: u64) -> Result<(Gets<'a>, f64), String> {
        // A quarter more rows than fit into the cache.
        let rows = ((cache_mib << 20) * 5 / 4 / ROW_BYTES).to_string();
        let mut gets = Gets { bellows, rows, seed: 0 };
        gets.run(server, "0.1")?;
        // Fills the cache by a whole scan, and then by gets.
        let scan = ["scan", "--rows", &gets.rows, "--threads", "1", "--seconds", "10", "--warm-up", "0"];
        drive(bellows, server, &scan)?;
        let mut rate = 0.0;
        for _ in 0..WARM_ROUNDS_MAX {
            let before = rate;
            rate = gets.run(server, "5")?;
            if rate - before < WARM {
                break;
            }
        }
        Ok((gets, rate))
    }

    /// Returns the hit rate in this many seconds. Each call reads other rows, with the same distribution, because
    /// repeated rows would be cached.
    fn run(&mut self, server: &Server, seconds: &str) -> Result<f64, String> {
        self.seed += 1;
        let (rows, seed) = (&self.rows[..], self.seed.to_string());
        let words =
            ["random-read", "--keys", "zipfian", "--rows", rows, "--threads", "20", "--seconds", seconds];
        let before = lookups(server, TABLE)?;
        drive(self.bellows, server, &[&words[..], &["--warm-up", "0", "--seed", &seed]].concat())?;
        Ok(lookups(server, TABLE)?.since(&before).hit_rate())
    }
}

/// Measures the hit rate of gets alone and during scans of another table.
pub(super) fn scans(plan: &Plan, bellows: &Path, folder: &Path) -> Result<Vec<String>, String> {
    let mut fell_short = Vec::new();
    for engine in &plan.engines {
        let folder = folder.join(format!("scans-{engine}"));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let server = start(bellows, &folder, &settings(engine, plan.restart_mib, &folder)?)?;
        let rows = ((plan.restart_mib << 20) * SCANNED_TIMES / ROW_BYTES).to_string();
        let scan = |seconds: &'static str| {
            let words = ["scan", "--rows", &rows, "--threads", "1", "--seconds", seconds, "--warm-up", "0"];
            let mut command = generator(bellows, &server.rpc, SCANNED, &words);
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            child.map_err(|error| format!("the generator cannot be started: {error}"))
        };
        let ended = |mut child: std::process::Child| {
            let status = child.wait().map_err(|error| error.to_string())?;
            if status.success() { Ok(()) } else { Err(format!("a scan of {SCANNED}: {status}")) }
        };
        // The table is written first. Then the blocks that writing has left in the cache are evicted.
        ended(scan("0.1")?)?;
        let (mut gets, _) = Gets::warm(bellows, &server, plan.restart_mib)?;
        let alone = gets.run(&server, "10")?;
        let scanned = lookups(&server, SCANNED)?;
        let scans = scan("14")?;
        let beside = gets.run(&server, "10");
        ended(scans)?;
        let beside = beside?;
        let scanned = lookups(&server, SCANNED)?.since(&scanned);
        server.stop()?;
        say!(
            "{engine}: {:.2} % of lookups for data hit alone, {:.2} % beside scans that looked for {} blocks, of which \
             {:.2} % were here",
            100.0 * alone,
            100.0 * beside,
            scanned.hits + scanned.misses,
            100.0 * scanned.hit_rate()
        );
        if !(is_within(RATE_MIN, alone) && is_within(SCANNED_MIN, scanned.misses)) {
            fell_short.push(format!(
                "{engine}: {alone:.4} of lookups hit alone and {} blocks were scanned, where {RATE_MIN} and {SCANNED_MIN} \
                 are wanted at least: nothing is shown",
                scanned.misses
            ));
        }
        if !is_within(alone - beside, SCANS_COST) {
            fell_short.push(format!("scans cost gets {:.4} of the hit rate with {engine}", alone - beside));
        }
    }
    Ok(fell_short)
}

/// Measures the hit rate before and after SIGKILL.
pub(super) fn restart(plan: &Plan, bellows: &Path, folder: &Path) -> Result<Vec<String>, String> {
    let folder = folder.join("restart");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut settings = settings("file", plan.restart_mib, &folder)?;
    settings.push(format!("hbase.bucketcache.persistent.path={}", folder.join("index").display()));
    let server = start(bellows, &folder, &settings)?;
    let (mut gets, before) = Gets::warm(bellows, &server, plan.restart_mib)?;
    server.kill()?;
    let server = start(bellows, &folder, &settings)?;
    let ready = server.ready;
    let after = gets.run(&server, "2")?;
    server.stop()?;
    let share = after / before;
    say!(
        "restart, {} MiB in a file: {:.2} % of lookups for data hit before kill -9, {:.2} % in the first 2 s after it ({:.3} of that); \
         ready after {} ms",
        plan.restart_mib,
        100.0 * before,
        100.0 * after,
        share,
        ready.as_millis()
    );
    let mut fell_short = Vec::new();
    if !is_within(RATE_MIN, before) {
        fell_short
            .push(format!("{before:.4} of lookups hit before kill -9, not {RATE_MIN}: nothing is shown"));
    }
    if !is_within(RESTART_SHARE, share) {
        fell_short.push(format!("{share:.3} of the hit rate is left after kill -9"));
    }
    Ok(fell_short)
}
