//! Runs an hour of overwriting loads and checks that memory use does not grow.
//!
//! Three loads run side by side at fixed rates, into tables with small memstores that compact in memory: half reads and
//! half updates of Zipfian rows, updates of uniform rows, and a queue. Their data does not grow after the first
//! minutes, so the server's memory, the chunks in use and the bytes in memstores must not grow either. These vary by
//! half with each flush, so the mean of the last fifth of the time is compared with that of the second. At no time may
//! memstores hold more than the tables' flush sizes allow.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::server::{Server, fresh_folder, log_of, no_panic, release};
use crate::web::page;

pub(crate) const USAGE: &str = "\
       cargo xtask churn [--minutes N] [--rate OPERATIONS] [--bellows BINARY]   (an hour unless said otherwise)";

/// Number of samples of the server's figures.
const SAMPLES: usize = 60;
/// Maximum ratio of each figure at the end to that at the beginning.
const GROWTH_MAX: f64 = 1.25;
/// Flush size of a table's memstore in bytes. A region may hold twice as much while there is room
/// (`bellows.memstore.stretch`), and a quarter more while memory is compacted.
const FLUSH_SIZE: u64 = 4 << 20;
const HELD_MAX: f64 = 3.0 * 2.5 * FLUSH_SIZE as f64;

/// One sample of the server's figures.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Resident memory in bytes.
    resident: f64,
    /// Number of chunks that memstores use.
    used: f64,
    /// Number of chunks that wait for reuse.
    waiting: f64,
    /// Number of bytes in memstores.
    bytes: f64,
    /// Number of flushes so far.
    flushes: f64,
}

/// A load, which ends with the test.
struct Load(Child, &'static str);

impl Drop for Load {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Runs `cargo xtask churn` with these options.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let (mut minutes, mut rate, mut binary) = (60.0, 1_000, None);
    let mut words = options.iter();
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
        let wrong = |_| format!("{name} {value}: not understood");
        match *name {
            "--minutes" => {
                minutes = value.parse::<f64>().map_err(|_| format!("{name} {value}: no number"))?
            }
            "--rate" => rate = value.parse::<u32>().map_err(wrong)?,
            "--bellows" => binary = Some(PathBuf::from(value)),
            _ => return Err(format!("{name} is no option\nusage:\n{USAGE}")),
        }
    }
    let binary = release(binary.as_deref())?;
    let folder = fresh_folder("churn")?;
    let log = log_of(&folder);
    let more = ["-D", "hbase.wal.hsync=false", "-D", "hfile.block.cache.size=0.01"];
    let server = Server::start_binary(&binary, &folder, &log, &more)?;
    let whole = Duration::from_secs_f64(minutes * 60.0);
    let mut loads = loads(&binary, &server, rate, whole)?;
    let samples = sampled(&server, &mut loads, whole)?;
    let told = compared(&samples);
    for Load(child, name) in &mut loads {
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the load {name} ended with {status}"));
        }
    }
    server.stop()?;
    no_panic(&log)?;
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    told
}

/// Starts the loads.
fn loads(binary: &Path, server: &Server, rate: u32, whole: Duration) -> Result<Vec<Load>, String> {
    let zipfian = "ycsb-a --ycsb-table zipfian --fields 1 --field-size 1000 --rows 20000";
    let uniform = "random-write --table uniform --value-size 100 --rows 100000";
    let queue = "queue --table queue --value-size 100";
    let mut loads = Vec::new();
    for (name, words, rate) in
        [("zipfian", zipfian, rate), ("uniform", uniform, rate), ("queue", queue, rate / 2)]
    {
        let child = Command::new(binary)
            .args(["bench", "--json", "--at", &server.rpc])
            .args(words.split(' '))
            .args(["--flush-size", &FLUSH_SIZE.to_string(), "--threads", "4", "--warm-up", "0"])
            .args(["--rate", &rate.to_string(), "--seconds", &whole.as_secs().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the generator cannot be started: {error}"))?;
        loads.push(Load(child, name));
    }
    Ok(loads)
}

/// Samples the server while the loads run.
fn sampled(server: &Server, loads: &mut [Load], whole: Duration) -> Result<Vec<Sample>, String> {
    say!(
        "{:>7} {:>9} {:>7} {:>8} {:>10} {:>8}",
        "minute",
        "resident",
        "chunks",
        "waiting",
        "memstores",
        "flushes"
    );
    let began = Instant::now();
    let mut samples = Vec::new();
    for number in 1..=SAMPLES {
        // The last sample must be taken while the loads still write.
        let until = whole.mul_f64((number as f64 - 0.5) / SAMPLES as f64);
        std::thread::sleep(until.saturating_sub(began.elapsed()));
        for Load(child, name) in loads.iter_mut() {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                return Err(format!("the load {name} ended too early, with {status}"));
            }
        }
        let sample = Sample::of(server)?;
        let mb = |bytes: f64| bytes / f64::from(1 << 20);
        say!(
            "{:7.1} {:9.1} {:7} {:8} {:10.1} {:8}",
            until.as_secs_f64() / 60.0,
            mb(sample.resident),
            sample.used,
            sample.waiting,
            mb(sample.bytes),
            sample.flushes
        );
        samples.push(sample);
    }
    Ok(samples)
}

impl Sample {
    fn of(server: &Server) -> Result<Sample, String> {
        let page = page(&server.web, "/metrics")?;
        let of = |name: &str| {
            let line = page.lines().find(|line| line.starts_with(name)).ok_or(format!("no {name}"))?;
            let figure = line.rsplit(' ').next().and_then(|figure| figure.parse::<f64>().ok());
            figure.ok_or(format!("{line} has no figure"))
        };
        let status = format!("/proc/{}/status", server.id());
        let text = std::fs::read_to_string(&status).map_err(|error| format!("{status}: {error}"))?;
        let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        Ok(Sample {
            resident: kilobytes.ok_or_else(|| format!("{status} has another form"))? * 1024.0,
            used: of("bellows_memstore_chunks{state=\"used\"}")?,
            waiting: of("bellows_memstore_chunks{state=\"waiting\"}")?,
            bytes: of("hbase_regionserver_mem_store_size ")?,
            flushes: of("hbase_regionserver_flush_count ")?,
        })
    }
}

/// Compares the figures at the end with those at the beginning.
fn compared(samples: &[Sample]) -> Outcome {
    let fifth = samples.len() / 5;
    let (early, late) = (&samples[fifth..2 * fifth], &samples[samples.len() - fifth..]);
    type Value = fn(&Sample) -> f64;
    let mean = |of: &[Sample], value: Value| of.iter().map(value).sum::<f64>() / of.len().max(1) as f64;
    let mut grown = Vec::new();
    let values: [(&str, Value); 3] = [
        ("resident bytes", |sample| sample.resident),
        ("chunks in use", |sample| sample.used),
        ("bytes in memstores", |sample| sample.bytes),
    ];
    for (name, value) in values {
        let (before, after) = (mean(early, value), mean(late, value));
        say!("{name}: {before:.0} in the second fifth of the time, {after:.0} in the last, on average");
        if after > before * GROWTH_MAX {
            grown.push(name);
        }
    }
    let most = samples.iter().map(|sample| sample.bytes).fold(0.0, f64::max);
    say!("memstores held at most {most:.0} bytes, where {HELD_MAX:.0} are allowed");
    if most > HELD_MAX {
        grown.push("bytes in memstores, beyond what is allowed");
    }
    let (first, last) = (samples[fifth].flushes, samples[samples.len() - 1].flushes);
    if last <= first {
        return Err("nothing was flushed: the time is too short to tell anything".to_owned());
    }
    if grown.is_empty() { Ok(()) } else { Err(format!("grown: {}", grown.join(", "))) }
}
