//! Fuzz targets: each reader of bytes from outside, behind a function that takes the bytes.
//!
//! A target panics when the reader misbehaves; its result does not matter. The same functions are run in three
//! ways: by libFuzzer for as long as one likes (`fuzz/`), by the driver of this crate for seconds in every test
//! (`cargo xtask test --only fuzz`), and over inputs that once broke something (`broken/`, in `cargo test`).

mod disk;
mod seal;
mod seeds;
mod wire;

pub use seeds::seeds;

/// A name, and what reads the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("frame", wire::frame),
    ("cell_block", wire::cell_block),
    ("packed_cells", wire::packed_cells),
    ("filter", wire::filter),
    ("zookeeper", wire::zookeeper),
    ("http", wire::http),
    ("hfile", disk::hfile),
    ("hfile_block", disk::hfile_block),
    ("hfile_trailer", disk::hfile_trailer),
    ("wal_file", disk::wal_file),
    ("wal_records", disk::wal_records),
    ("hbase_log", disk::hbase_log),
];

/// The target of that name.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Bytes as text, two digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of such a text; white space does not count.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}
