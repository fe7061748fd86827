//! Measures RocksDB, called in process, with the gets and puts of `bellows bench`.
//!
//! Keys (26 digits), sizes and block cache are the same as in `bellows bench`; there is a Bloom filter and no
//! compression. So the figures are the cost of finding, copying and logging a row, without requests and answers. The
//! program prints JSON lines in the format of `bellows bench --limits --json`, which `bellows bench --beside` compares
//! with a server's results:
//!
//! ```text
//! cargo run --release --manifest-path proof/rocksdb/Cargo.toml -- FOLDER [ROWS [VALUE-SIZE]] >> results.jsonl
//! ```
//!
//! CPU time is that of the process: RocksDB flushes and compacts on threads of its own.

use std::error::Error;
use std::time::{Duration, Instant};

use rocksdb::{BlockBasedOptions, Cache, DB, IteratorMode, Options, WriteBatch, WriteOptions};
use rustix::time::{ClockId, clock_gettime};

/// Duration of each measurement.
const DURING: Duration = Duration::from_secs(3);
/// Number of rows of a batch, and of a part of a scan.
const BATCH: u64 = 100;
const STRETCH: u64 = 1_000;
const CACHE: usize = 1 << 30;

/// Returns the CPU time of this process so far, in µs.
fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn key(number: u64) -> [u8; 26] {
    let mut key = [b'0'; 26];
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Random numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// Repeats `step`, which handles `rows` rows, and prints the cost of a row.
fn time(
    name: &str,
    workload: &str,
    rows: u64,
    mut step: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (began, began_cpu, mut steps) = (Instant::now(), cpu_us(), 0u64);
    while began.elapsed() < DURING {
        step()?;
        steps += 1;
    }
    let done = (steps * rows) as f64;
    let (cpu, wall) = ((cpu_us() - began_cpu) / done, began.elapsed().as_secs_f64() * 1e6 / done);
    println!(
        r#"{{"limit":"RocksDB in process: {name}","workload":"{workload}","cpu_us":{cpu:.4},"wall_us":{wall:.4}}}"#
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = words.first().ok_or("a folder is needed, for RocksDB's files")?;
    let rows: u64 = words.get(1).map_or(Ok(100_000), |word| word.parse())?;
    let size: usize = words.get(2).map_or(Ok(1_000), |word| word.parse())?;

    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(CACHE));
    blocks.set_block_size(64 << 10);
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(rocksdb::DBCompressionType::None);
    options.set_write_buffer_size(128 << 20);
    DB::destroy(&options, folder)?;
    let db = DB::open(&options, folder)?;

    let mut random = Random(1);
    let value: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
    for first in (0..rows).step_by(BATCH as usize) {
        let mut batch = WriteBatch::default();
        (first..(first + BATCH).min(rows)).for_each(|number| batch.put(key(number), &value));
        db.write(batch)?;
    }
    db.flush()?;
    let read_all = || db.iterator(IteratorMode::Start).try_fold(0u64, |seen, entry| entry.map(|_| seen + 1));
    assert_eq!(read_all()?, rows, "everything was written");

    time("get", "random-read", 1, || {
        let found = db.get_pinned(key(random.below(rows)))?;
        assert_eq!(found.map(|value| value.len()), Some(size));
        Ok(())
    })?;
    time("multi-get of 100, a row", "multi-get", BATCH, || {
        let keys: Vec<_> = (0..BATCH).map(|_| key(random.below(rows))).collect();
        let found = db.multi_get(keys);
        assert!(found.iter().all(|value| value.as_ref().is_ok_and(Option::is_some)));
        Ok(())
    })?;
    time("a row of a scan, copied", "scan", STRETCH, || {
        let mut iterator = db.raw_iterator();
        iterator.seek(key(random.below(rows.saturating_sub(STRETCH).max(1))));
        let mut answer = Vec::new();
        for _ in 0..STRETCH {
            match iterator.item() {
                Some((key, value)) => {
                    answer.extend_from_slice(key);
                    answer.extend_from_slice(value);
                }
                None => iterator.seek_to_first(),
            }
            iterator.next();
        }
        std::hint::black_box(answer);
        Ok(iterator.status()?)
    })?;
    let mut write = WriteOptions::default();
    time("put, log handed to the system", "random-write", 1, || {
        Ok(db.put_opt(key(random.below(rows)), &value, &write)?)
    })?;
    time("a row of a batch of 100", "batch-write", BATCH, || {
        let mut batch = WriteBatch::default();
        (0..BATCH).for_each(|_| batch.put(key(random.below(rows)), &value));
        Ok(db.write_opt(batch, &write)?)
    })?;
    write.set_sync(true);
    time("put with fdatasync, alone", "", 1, || Ok(db.put_opt(key(random.below(rows)), &value, &write)?))?;
    drop(db);
    Ok(DB::destroy(&options, folder)?)
}
