//! Measures RocksDB's memtable on the stream of `cargo bench -p memstore --bench compared`: a million cells of 100
//! bytes, whose rows come in random order, are written by one thread and by two; then every third is read.
//!
//! ```text
//! cargo run --release --manifest-path proof/rocksdb/Cargo.toml --bin memtable -- FOLDER [CELLS]
//! ```
//!
//! RocksDB does not export its memtable. So this program measures puts without a log into a write buffer that never
//! fills, and gets from it. The figures include the making of a batch of one put, and the search for a version. Times
//! are wall-clock times, the least of several rounds.

use std::error::Error;
use std::time::Instant;

use rocksdb::{DB, Options, WriteOptions};

const ROUNDS: usize = 3;
/// The value of each row. Key and value together have the size of a cell in the other benchmark.
const VALUE: [u8; 46] = [7; 46];

/// Returns the nanoseconds for each of `count` operations since `began`.
fn nanoseconds(began: Instant, count: usize) -> f64 {
    began.elapsed().as_nanos() as f64 / count as f64
}

/// Opens a database whose memtable is empty.
fn empty(folder: &str) -> Result<DB, rocksdb::Error> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(4 << 30);
    DB::destroy(&options, folder)?;
    DB::open(&options, folder)
}

fn fill(db: &DB, keys: &[Vec<u8>], threads: usize) -> Result<(), rocksdb::Error> {
    let part = |keys: &[Vec<u8>]| {
        let mut write = WriteOptions::default();
        write.disable_wal(true);
        keys.iter().try_for_each(|key| db.put_opt(key, VALUE, &write))
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> =
            keys.chunks(keys.len().div_ceil(threads)).map(|keys| scope.spawn(move || part(keys))).collect();
        parts.into_iter().try_for_each(|part| part.join().expect("a thread that writes ends"))
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = words.first().ok_or("a folder is needed, for RocksDB's files")?;
    let count: usize = words.get(1).map_or(Ok(1_000_000), |word| word.parse())?;
    // An odd factor and a power of two: a permutation. The key is as long as that of a cell: row, family, qualifier,
    // timestamp and type.
    let all = (count as u64).next_power_of_two();
    let numbers =
        (0..all).map(|number| number.wrapping_mul(0x9e37_79b1) % all).filter(|number| *number < count as u64);
    let keys: Vec<Vec<u8>> =
        numbers.map(|number| format!("user{number:016}fq\0\0\0\0\0\0\0\x01\x04").into_bytes()).collect();

    let mut inserts = [f64::INFINITY; 2];
    let mut lookup = f64::INFINITY;
    for _ in 0..ROUNDS {
        for threads in [1, 2] {
            let db = empty(folder)?;
            let began = Instant::now();
            fill(&db, &keys, threads)?;
            inserts[threads - 1] = inserts[threads - 1].min(nanoseconds(began, count));
            let asked = keys.iter().step_by(3);
            let (began, wanted) = (Instant::now(), asked.len());
            for key in asked {
                assert_eq!(db.get_pinned(key)?.map(|value| value.len()), Some(VALUE.len()));
            }
            lookup = lookup.min(nanoseconds(began, wanted));
        }
    }
    println!("{count} cells; million inserts in a second with one thread and with two, ns for a lookup");
    println!("{:20} {:10.2} {:10.2} {lookup:10.0}", "RocksDB", 1e3 / inserts[0], 1e3 / inserts[1]);
    Ok(DB::destroy(&Options::default(), folder)?)
}
