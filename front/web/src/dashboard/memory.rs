//! Draws the memstores of a server in plain text, for a terminal.
//!
//! ```text
//! memstores 61.2 MB · 1 regions, 1 stores
//!
//! usertable,,1700000000000 · f · ADAPTIVE
//!   ███████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░░░░ 61.2 MB of 128.0 MB, sealed at 32.0 MB
//!   active      22.1 MB      180231 cells  22 bytes of index each
//!   pipeline    39.1 MB      300000 cells  12 bytes of index each, flat
//!   sealed 12 · flattened 12 · merged 2 · compacted 4: 51 % of 1240000 cells dropped, 120.0 MB copied
//!   09:14:05 compacted 2 segments in 120 ms: 512000 → 250000 cells, 62.1 MB → 30.2 MB; 48 % expected, 51 % dropped
//! ```

use std::fmt::Write as _;

use region::{Balance, MemoryAct, MemoryEvent, MemoryLoad, SegmentLoad};
use regionserver::RegionServer;

use super::{line, percent, size};

/// Width of a bar, in characters.
const BAR: u64 = 50;
/// Maximum number of events that are shown for a store.
const EVENTS: usize = 4;
/// Maximum number of stores, those with the most bytes in memory first.
const STORES: usize = 20;

/// A store as it is drawn.
struct Drawn {
    name: String,
    flush_size: u64,
    memory: MemoryLoad,
    events: Vec<MemoryEvent>,
}

impl Drawn {
    fn bytes(&self) -> u64 {
        let segments =
            std::iter::once(&self.memory.active).chain(&self.memory.pipeline).chain(&self.memory.snapshot);
        segments.map(|segment| segment.bytes).sum()
    }
}

/// Draws the memstores of a server.
pub fn memory_dashboard(server: &RegionServer) -> String {
    let regions = server.regions().all();
    let mut stores = Vec::new();
    for region in &regions {
        for store in region.load().stores {
            let family = String::from_utf8_lossy(&store.family).into_owned();
            stores.push(Drawn {
                name: format!("{} · {family}", region.info()),
                flush_size: region.flush_size(),
                // The region has all families of its own load, so this does not fail.
                events: region.memory_events(&store.family).unwrap_or_default(),
                memory: store.memory,
            });
        }
    }
    let balances = server.foundation().region_options.ledger.balances();
    let tables: Vec<(String, Balance)> =
        balances.into_iter().map(|(table, balance)| (table.to_string(), balance)).collect();
    render(regions.len(), stores, &tables)
}

fn render(regions: usize, mut stores: Vec<Drawn>, tables: &[(String, Balance)]) -> String {
    stores.sort_by_key(|store| std::cmp::Reverse(store.bytes()));
    let total = stores.iter().map(Drawn::bytes).sum();
    let mut out = format!("memstores {} · {regions} regions, {} stores\n", size(total), stores.len());
    for store in stores.iter().take(STORES).filter(|store| store.bytes() > 0 || !store.events.is_empty()) {
        draw(&mut out, store);
    }
    let written: Vec<_> = tables.iter().filter(|(_, balance)| *balance != Balance::default()).collect();
    if !written.is_empty() {
        line(&mut out, format_args!(""));
        let (written, logged, flushed, compacted) = ("written", "logged", "flushed", "compacted");
        line(
            &mut out,
            format_args!(
                "{:<30} {written:>10} {logged:>10} {flushed:>10} {compacted:>10}  files ÷ written",
                "bytes since the start"
            ),
        );
    }
    for (table, balance) in written {
        let amplification =
            balance.amplification().map_or_else(|| "-".to_owned(), |times| format!("{times:.2}"));
        line(
            &mut out,
            format_args!(
                "{table:<30} {:>10} {:>10} {:>10} {:>10}  {amplification}",
                size(balance.user),
                size(balance.log),
                size(balance.flushed),
                size(balance.compacted)
            ),
        );
    }
    out
}

fn draw(out: &mut String, store: &Drawn) {
    let memory = &store.memory;
    line(out, format_args!("\n{} · {}", store.name, memory.level.name()));
    let bytes = |segments: &[SegmentLoad]| segments.iter().map(|segment| segment.bytes).sum::<u64>();
    let parts = [(memory.active.bytes, '█'), (bytes(&memory.pipeline), '▓'), (bytes(&memory.snapshot), '▒')];
    let mut bar = String::new();
    let mut drawn = 0;
    let mut until = 0;
    for (bytes, letter) in parts {
        until += bytes;
        let end = (until.saturating_mul(BAR) / store.flush_size.max(1)).min(BAR);
        (drawn..end).for_each(|_| bar.push(letter));
        drawn = drawn.max(end);
    }
    (drawn..BAR).for_each(|_| bar.push('░'));
    let sealed = match memory.bound {
        u64::MAX => String::new(),
        bound => format!(", sealed at {}", size(bound)),
    };
    line(out, format_args!("  {bar} {} of {}{sealed}", size(store.bytes()), size(store.flush_size)));
    let segment = |out: &mut String, what: &str, segment: &SegmentLoad| {
        let flat = if segment.flat { ", flat" } else { "" };
        let index = segment.index_bytes / segment.cells.max(1);
        let (bytes, cells) = (size(segment.bytes), segment.cells);
        line(
            out,
            format_args!("  {what:<9} {bytes:>10} {cells:>11} cells  {index} bytes of index each{flat}"),
        );
    };
    segment(out, "active", &memory.active);
    memory.pipeline.iter().for_each(|load| segment(out, "pipeline", load));
    memory.snapshot.iter().for_each(|load| segment(out, "flushing", load));
    let counts = memory.counts;
    if counts.sealed > 0 {
        line(
            out,
            format_args!(
                "  sealed {} · flattened {} · merged {} · compacted {}: {} of {} cells dropped, {} copied",
                counts.sealed,
                counts.flattened,
                counts.merged,
                counts.compacted,
                percent(counts.cells_dropped as f64 / counts.cells_compacted.max(1) as f64),
                counts.cells_compacted,
                size(counts.bytes_copied)
            ),
        );
    }
    if counts.kept > 0 {
        line(
            out,
            format_args!(
                "  {} flushes left {} in memory, {} of it replaced before it was written",
                counts.kept,
                size(counts.bytes_kept),
                percent(counts.bytes_spared as f64 / counts.bytes_kept.max(1) as f64)
            ),
        );
    }
    for event in store.events.iter().rev().take(EVENTS).rev() {
        line(out, format_args!("  {}", told(event)));
    }
}

fn told(event: &MemoryEvent) -> String {
    let second = event.time.0.div_euclid(1_000).rem_euclid(24 * 3_600);
    let dropped = 1.0 - event.cells_after as f64 / event.cells_before.max(1) as f64;
    let mut text = format!(
        "{:02}:{:02}:{:02} {} {} segments in {} ms: {} → {} cells, {} → {}",
        second / 3_600,
        second / 60 % 60,
        second % 60,
        event.act.name(),
        event.segments,
        event.took.as_millis(),
        event.cells_before,
        event.cells_after,
        size(event.bytes_before),
        size(event.bytes_after)
    );
    match event.expected {
        Some(expected) if event.act == MemoryAct::Kept => {
            let _infallible = write!(text, " stay; {} expected to be replaced", percent(expected));
        }
        Some(expected) => {
            let _infallible = write!(text, "; {} expected", percent(expected));
        }
        None => {}
    }
    if event.act == MemoryAct::Compacted {
        let _infallible = write!(text, ", {} dropped", percent(dropped));
    }
    if event.overtaken {
        text.push_str(" (a flush was first)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;
    use region::{Level, MemoryCounts};
    use std::time::Duration;

    #[test]
    fn the_view_shows_the_use_of_memory_and_the_effects_of_in_memory_compactions() {
        let load = |cells, bytes, index_bytes, flat| SegmentLoad { cells, bytes, index_bytes, flat };
        let event = MemoryEvent {
            time: WallTime(1_700_000_000_000),
            act: MemoryAct::Compacted,
            segments: 2,
            cells_before: 1_000,
            cells_after: 490,
            bytes_before: 20 << 20,
            bytes_after: 10 << 20,
            expected: Some(0.48),
            took: Duration::from_millis(120),
            overtaken: false,
        };
        let store = |name: &str, megabytes: u64| Drawn {
            name: name.to_owned(),
            flush_size: 128 << 20,
            memory: MemoryLoad {
                level: Level::Adaptive,
                bound: 32 << 20,
                active: load(100, megabytes << 20, 2_200, false),
                pipeline: vec![load(490, 32 << 20, 5_880, true)],
                snapshot: vec![load(5, 16 << 20, 60, true)],
                counts: MemoryCounts {
                    sealed: 2,
                    compacted: 1,
                    cells_compacted: 1_000,
                    cells_dropped: 510,
                    kept: 1,
                    bytes_kept: 2 << 20,
                    bytes_spared: 1 << 20,
                    ..MemoryCounts::default()
                },
            },
            events: vec![
                event,
                MemoryEvent { act: MemoryAct::Kept, bytes_after: 2 << 20, expected: Some(0.68), ..event },
            ],
        };
        let balance = Balance { user: 100, log: 120, flushed: 80, compacted: 70 };
        let drawn =
            render(3, vec![store("t,,1 · f", 16), store("t,,2 · f", 32)], &[("t".to_owned(), balance)]);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "memstores 144.0 MB · 3 regions, 2 stores");
        assert_eq!(lines[2], "t,,2 · f · ADAPTIVE", "the fullest first");
        let bar = format!("{}{}{}{}", "█".repeat(12), "▓".repeat(13), "▒".repeat(6), "░".repeat(19));
        assert_eq!(lines[3], format!("  {bar} 80.0 MB of 128.0 MB, sealed at 32.0 MB"));
        assert_eq!(lines[5], "  pipeline     32.0 MB         490 cells  12 bytes of index each, flat");
        let expected = "  22:13:20 compacted 2 segments in 120 ms: 1000 → 490 cells, 20.0 MB → 10.0 MB; 48 % expected, 51 % dropped";
        assert!(lines.contains(&expected), "{drawn}");
        let expected = "  22:13:20 flushed 2 segments in 120 ms: 1000 → 490 cells, 20.0 MB → 2.0 MB stay; 68 % expected to be replaced";
        assert!(lines.contains(&expected), "{drawn}");
        let expected = "  1 flushes left 2.0 MB in memory, 50 % of it replaced before it was written";
        assert!(lines.contains(&expected), "{drawn}");
        assert!(drawn.ends_with("1.50\n"), "{drawn}");
    }
}
