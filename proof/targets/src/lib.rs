//! Fuzz targets: each reader of bytes from outside, behind a function that takes the bytes.
//!
//! A target panics when the reader misbehaves; its result does not matter. The functions run in three ways: by
//! libFuzzer without a time limit (`fuzz/`), by the driver of this crate for seconds in every test (`cargo xtask test
//! --only fuzz`), and on inputs that once broke a reader (`broken/`, in `cargo test`).

mod disk;
mod seal;
mod seeds;
mod wire;

pub use seeds::seeds;

/// A target: its name, and the function that reads the bytes.
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

/// Returns the target of this name; `None` if there is none.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses pairs of hexadecimal digits; ignores white space. Returns `None` for other text.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}
