//! Draws the block cache of a server in plain text, for a terminal.
//!
//! ```text
//! block cache · 98.2 % of 120340 lookups hit in the last 1.0 s · 97.1 % of 48120334 lookups hit since the start
//!
//! memory
//!   ████████████████████████████████░░░░░░░░░░░░░░░░░░ 310.2 MB of 480.0 MB in 2914 blocks: 0 data, 2870 index, 44 bloom
//!   evicted 0 · refused 0
//! bucket mmap:/ssd/cache
//!   ███████████████████████████████████████████████░░░ 0.95 GB of 1.00 GB in 14210 blocks · 2 % of the slots is lost
//!   evicted 1202 · refused 88103 · dropped 12 · corrupt 0 · stale 0 · failed 0
//!
//! lookups                                memory     bucket     missed       hit
//! usertable · data                          0     112034       2100    98.2 %
//! usertable · index                      6206          0          0   100.0 %
//!
//! slots of      buckets   used of slots   filled     lost    evicted
//!     68.0 KB       431     12102 of 12930   94 %      3 %       1202
//! ```
//!
//! Lookups are those of the last seconds; the first time the cache is drawn, those since the start. Slots are shown if
//! there are any.

use cache::{BlockKind, BucketCounts, Cache, Counts, DeviceCounts, Lookups, SlotCounts, TableCounts, Tier};
use env::Moment;
use std::time::Duration;

use env::sync::Mutex;

use super::{line, percent, size};

/// Width of a bar, in characters.
const BAR: u64 = 50;
/// Maximum number of tables, those with the most lookups first.
const TABLES: usize = 12;
/// Minimum age of the counts with which the present ones are compared.
const LOOK_BACK: Duration = Duration::from_secs(1);

/// The counts of the cache at one moment.
#[derive(Clone, Debug)]
struct Sample {
    at: Moment,
    tables: Vec<TableCounts>,
}

/// Earlier counts of the cache, with which the present ones are compared when the cache is drawn.
#[derive(Debug, Default)]
pub struct CacheWindow {
    /// The sample that is used now, and the one that replaces it.
    samples: Mutex<(Option<Sample>, Option<Sample>)>,
}

/// Everything that is drawn.
struct Seen<'a> {
    counts: &'a Counts,
    bytes_max: u64,
    bucket: Option<(String, BucketCounts)>,
    tables: &'a [TableCounts],
    /// Age of the counts in `before`, with which `tables` is compared; `None` if the counts are those since the start.
    lately: Option<Duration>,
    before: &'a [TableCounts],
}

impl CacheWindow {
    /// Draws `cache` as it is now.
    pub fn picture_of(&self, cache: &Cache, now: Moment) -> String {
        let tables = cache.tables();
        let before = self.look_back(Sample { at: now, tables: tables.clone() });
        let seen = Seen {
            counts: &cache.counts(),
            bytes_max: cache.bytes_max() as u64,
            bucket: cache.bucket().map(|bucket| (bucket.engine(), bucket.counts())),
            tables: &tables,
            lately: before.as_ref().map(|before| now.since(before.at)),
            before: before.as_ref().map_or(&[], |before| &before.tables),
        };
        render(&seen)
    }

    /// Returns the earlier counts with which those in `now` are compared; `None` if there are none yet. Callers that
    /// draw more often than once in [`LOOK_BACK`], or at the same time as others, get the same sample.
    fn look_back(&self, now: Sample) -> Option<Sample> {
        let (before, next) = &mut *self.samples.lock();
        if next.as_ref().is_none_or(|next| now.at.since(next.at) >= LOOK_BACK) {
            *before = next.replace(now);
        }
        before.clone()
    }
}

fn hit_share(lookups: &Lookups) -> String {
    let (hits, misses) = (lookups.hits(), lookups.misses());
    match hits + misses {
        0 => "-".to_owned(),
        all => format!("{:.1} %", 100.0 * hits as f64 / all as f64),
    }
}

fn sum(tables: &[TableCounts]) -> Lookups {
    tables.iter().fold(Lookups::default(), |mut sum, table| {
        sum += table.lookups;
        sum
    })
}

fn bar(part: u64, of: u64) -> String {
    let filled = (part.saturating_mul(BAR) / of.max(1)).min(BAR);
    (0..BAR).map(|at| if at < filled { '█' } else { '░' }).collect()
}

fn render(seen: &Seen<'_>) -> String {
    let all = sum(seen.tables);
    let total = |lookups: &Lookups| {
        format!("{} of {} lookups hit", hit_share(lookups), lookups.hits() + lookups.misses())
    };
    let lately = seen.lately.map_or_else(String::new, |time| {
        format!("{} in the last {:.1} s · ", total(&all.since(&sum(seen.before))), time.as_secs_f64())
    });
    let mut out = format!("block cache · {lately}{} since the start\n\nmemory\n", total(&all));
    let counts = seen.counts;
    let kinds = BlockKind::ALL.map(|kind| format!("{} {}", counts.blocks_of[kind as usize], name_of(kind)));
    let (bar_of_memory, bytes, bytes_max) =
        (bar(counts.bytes, seen.bytes_max), size(counts.bytes), size(seen.bytes_max));
    let (blocks, kinds) = (counts.blocks, kinds.join(", "));
    line(&mut out, format_args!("  {bar_of_memory} {bytes} of {bytes_max} in {blocks} blocks: {kinds}"));
    line(&mut out, format_args!("  evicted {} · refused {}", counts.evicted, counts.refused));
    if let Some((engine, bucket)) = &seen.bucket {
        draw_bucket(&mut out, engine, bucket);
    }
    draw_looks(&mut out, seen);
    if let Some((_, bucket)) = &seen.bucket {
        draw_slots(&mut out, &bucket.slots);
    }
    out
}

fn name_of(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Data => "data",
        BlockKind::Index => "index",
        BlockKind::Bloom => "bloom",
    }
}

/// Returns the fraction of used slots that holds no block.
fn lost(bytes: u64, used: u64) -> f64 {
    1.0 - bytes as f64 / used.max(1) as f64
}

fn draw_bucket(out: &mut String, engine: &str, bucket: &BucketCounts) {
    let state = match bucket {
        BucketCounts { disabled: true, .. } => " · DISABLED: its device failed for too long",
        BucketCounts { read_only: true, .. } => " · READ ONLY: writes to its device failed for too long",
        _ => "",
    };
    line(out, format_args!("bucket {engine}{state}"));
    for device in bucket.devices.iter().filter(|_| bucket.devices.len() > 1) {
        let state = match device {
            DeviceCounts { disabled: true, .. } => "NOT USED: it failed for too long",
            DeviceCounts { read_only: true, .. } => "READ ONLY: writes failed for too long",
            _ => continue,
        };
        line(out, format_args!("  {} · {state}", device.place));
    }
    let used: u64 = bucket.slots.iter().map(|slots| slots.used * u64::from(slots.size)).sum();
    let bytes: u64 = bucket.slots.iter().map(|slots| slots.bytes).sum();
    let lost = if used == 0 {
        String::new()
    } else {
        format!(" · {} of the slots is lost", percent(lost(bytes, used)))
    };
    let heads = match bucket.head_bytes {
        0 => String::new(),
        bytes => format!(" · heads in memory {}", size(bytes)),
    };
    line(
        out,
        format_args!(
            "  {} {} of {} in {} blocks{lost}{heads}",
            bar(bucket.bytes, bucket.bytes_max),
            size(bucket.bytes),
            size(bucket.bytes_max),
            bucket.blocks
        ),
    );
    let BucketCounts { evicted, refused, dropped, corrupt, stale, failed, .. } = bucket;
    line(
        out,
        format_args!(
            "  evicted {evicted} · refused {refused} · dropped {dropped} · corrupt {corrupt} · stale {stale} \
             · failed {failed}"
        ),
    );
}

fn draw_looks(out: &mut String, seen: &Seen<'_>) {
    let lately = |table: &TableCounts| {
        let before = seen.before.iter().find(|before| before.table == table.table);
        before.map_or(table.lookups, |before| table.lookups.since(&before.lookups))
    };
    let mut tables: Vec<(&str, Lookups)> =
        seen.tables.iter().map(|table| (&table.table[..], lately(table))).collect();
    tables.sort_by_key(|(_, lookups)| std::cmp::Reverse(lookups.hits() + lookups.misses()));
    let (memory, bucket, missed, hit) = ("memory", "bucket", "missed", "hit");
    line(out, format_args!("\n{:<32} {memory:>10} {bucket:>10} {missed:>10} {hit:>9}", "lookups"));
    for (table, lookups) in tables.iter().take(TABLES) {
        for kind in BlockKind::ALL {
            let in_tiers = [Tier::Memory, Tier::Bucket].map(|tier| lookups.hits_of_in(kind, tier));
            let (hits, misses) = (lookups.hits_of(kind), lookups.misses_of(kind));
            if hits + misses == 0 {
                continue;
            }
            let name = format!("{table} · {}", name_of(kind));
            let share = format!("{:.1} %", 100.0 * hits as f64 / (hits + misses) as f64);
            let [memory, bucket] = in_tiers;
            line(out, format_args!("{name:<32} {memory:>10} {bucket:>10} {misses:>10} {share:>9}"));
        }
    }
}

fn draw_slots(out: &mut String, slots: &[SlotCounts]) {
    let some: Vec<&SlotCounts> =
        slots.iter().filter(|slots| slots.buckets > 0 || slots.evicted > 0).collect();
    if some.is_empty() {
        return;
    }
    let head = ["slots of", "buckets", "used", "of slots", "filled", "lost", "evicted"];
    let [slot, buckets, used, of, filled, lost_head, evicted] = head;
    line(
        out,
        format_args!(
            "\n{slot:>10} {buckets:>9} {used:>10} {of:>10} {filled:>8} {lost_head:>8} {evicted:>10}"
        ),
    );
    for slots in some {
        line(
            out,
            format_args!(
                "{:>10} {:>9} {:>10} {:>10} {:>8} {:>8} {:>10}",
                size(u64::from(slots.size)),
                slots.buckets,
                slots.used,
                slots.slots,
                percent(slots.used as f64 / slots.slots.max(1) as f64),
                if slots.used == 0 {
                    "-".to_owned()
                } else {
                    percent(lost(slots.bytes, slots.used * u64::from(slots.size)))
                },
                slots.evicted
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Ask, Block, Bucket, BucketOptions, Caching};
    use env::{WallTime, World};
    use std::convert::Infallible;
    use std::sync::Arc;
    use storage::{DeviceFault, Scratch};

    fn cache_over(world: &World) -> Arc<Cache> {
        let device = Arc::new(Scratch::new(8 << 20));
        let bucket = Bucket::on(vec![device], &BucketOptions::default(), world.clone());
        Arc::new(Cache::with_bytes(4 << 20).with_bucket(bucket))
    }

    fn look(cache: &Arc<Cache>, table: &str, kind: BlockKind, offsets: std::ops::Range<u64>) {
        let caching = Caching { table: table.into(), ..Caching::default() };
        let file = cache.open_file(table, 1 << 30, caching);
        for offset in offsets {
            let ask = Ask { keep: true, memory_only: false };
            let block = || Block {
                kind,
                bytes: vec![7; 66_000].into(),
                offsets: [].into(),
                heads: [].into(),
                shared: 0,
                row_starts: [].into(),
                disk_length: 9,
                previous: None,
                packed: false,
            };
            let Ok(found) = file.block::<Infallible>(offset, kind, ask, || Ok(block()));
            found.expect("the caller may wait");
        }
        cache.bucket().expect("there is one").settle();
    }

    #[test]
    fn the_view_has_the_tiers_the_recent_lookups_and_the_slots() {
        let world = World::simulated(1, WallTime(0));
        let (cache, window) = (cache_over(&world), CacheWindow::default());
        look(&cache, "t", BlockKind::Data, 0..20);
        look(&cache, "t", BlockKind::Data, 0..20);
        look(&cache, "t", BlockKind::Index, 100..101);
        let first = window.picture_of(&cache, world.moment());
        let lines: Vec<&str> = first.lines().collect();
        assert_eq!(lines[0], "block cache · 48.8 % of 41 lookups hit since the start");
        assert!(lines[3].contains(" of 4.0 MB in ") && lines[3].contains("1 index, 0 bloom"), "{first}");
        assert_eq!(lines[5], "bucket file:scratch");
        assert!(lines[6].contains(" of 6.0 MB in 20 blocks · 4 % of the slots is lost"), "{first}");
        assert_eq!(lines[7], "  evicted 0 · refused 0 · dropped 0 · corrupt 0 · stale 0 · failed 0");
        assert!(lines[10].starts_with("t · data ") && lines[10].ends_with("        20    50.0 %"), "{first}");
        assert!(
            lines[11].starts_with("t · index ") && lines[11].ends_with("         1     0.0 %"),
            "{first}"
        );
        assert_eq!(lines[14], "   68.0 KB         1         20         30     67 %      4 %          0");
        // One second later the dashboard shows only what has happened in that second.
        world.advance(Duration::from_secs(1));
        look(&cache, "t", BlockKind::Data, 0..10);
        look(&cache, "u", BlockKind::Data, 0..1);
        let second = window.picture_of(&cache, world.moment());
        assert!(
            second.starts_with(
                "block cache · 90.9 % of 11 lookups hit in the last 1.0 s · 57.7 % of 52 lookups hit"
            ),
            "{second}"
        );
        assert!(!second.contains("t · index"), "{second}");
        let (t, u) = (second.find("\nt · data").expect("shown"), second.find("\nu · data").expect("shown"));
        assert!(t < u, "the one with the most lookups first");
        // If another caller asked in between, both are compared with the same earlier sample.
        world.advance(LOOK_BACK / 2);
        assert!(window.picture_of(&cache, world.moment()).contains("in the last 1.5 s"));
    }

    #[test]
    fn the_view_says_that_a_device_is_full() {
        let world = World::simulated(1, WallTime(0));
        let device = Scratch::new(8 << 20);
        let bucket = Bucket::on(vec![Arc::new(device.clone())], &BucketOptions::default(), world.clone());
        let cache = Arc::new(Cache::with_bytes(4 << 20).with_bucket(bucket));
        look(&cache, "t", BlockKind::Data, 0..2);
        device.set_fault(DeviceFault::Full);
        for round in 1..3 {
            look(&cache, "t", BlockKind::Data, 10 * round..10 * round + 1);
            world.advance(BucketOptions::default().errors_tolerated);
        }
        let drawn = CacheWindow::default().picture_of(&cache, world.moment());
        assert!(drawn.contains("\nbucket file:scratch · READ ONLY: writes "), "{drawn}");
        assert!(drawn.contains(" in 2 blocks"), "{drawn}");
    }

    #[test]
    fn a_cache_in_memory_alone_has_no_slots() {
        let cache = Arc::new(Cache::with_bytes(0));
        let drawn = CacheWindow::default().picture_of(&cache, World::simulated(1, WallTime(0)).moment());
        assert!(drawn.starts_with("block cache · - of 0 lookups hit since the start\n"), "{drawn}");
        assert!(!drawn.contains("\nbucket ") && !drawn.contains("slots of"), "{drawn}");
        let bucket = Bucket::offheap(1 << 20, &BucketOptions::default());
        let cache = Arc::new(Cache::with_bytes(1 << 20).with_bucket(bucket));
        let drawn = CacheWindow::default().picture_of(&cache, World::simulated(1, WallTime(0)).moment());
        assert!(drawn.contains("bucket offheap\n") && !drawn.contains("slots of"), "{drawn}");
    }
}
