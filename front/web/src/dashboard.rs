//! The dashboards in plain text, for a terminal: memstores and block cache.
//!
//! The server draws them at `/memstores` and `/cache` of its web port; `bellows memstore` and `bellows cache` fetch
//! them periodically.

mod cache;
mod memory;

pub use cache::CacheWindow;
pub use memory::memory_dashboard;

use std::fmt::Write as _;

/// Adds a line to a dashboard.
fn line(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _infallible = writeln!(out, "{what}");
}

/// Formats a fraction as whole per cent.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats a number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..0x10_0000 => format!("{:.1} KB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.2} GB", bytes as f64 / f64::from(1 << 30)),
    }
}
