//! Heat maps: how often each part of a table's keys was read and written, over time.
//!
//! Sampled calls are counted in buckets of the key space, in columns of time. The bounds of the buckets are quantiles
//! of the distinct keys that were sampled. So all buckets have about the same number of rows, and a hot row makes a
//! hot bucket. Each column keeps the bounds with which it was counted; a reader converts it to the present bounds. If
//! columns have too many different bounds, as with growing keys, some of them are converted to later bounds.
//!
//! ```text
//!   10 s for 1 h   ·   1 min for 12 h   ·   10 min for 7 d        256 buckets, reads and writes, one byte each
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::World;
use parking_lot::{Mutex, RwLock};
use regionserver::SAMPLED_ONE_IN;

/// Number of buckets of the key space.
pub(crate) const BUCKETS: usize = 256;
/// Maximum number of tables with a heat map. A map takes about 1 MB, and less than 4 MB with the longest keys.
const TABLES_MAX: usize = 12;
/// Time in seconds without a sample after which another table may take over a table's map.
const QUIET: u64 = 600;
/// Maximum number of keys that are kept to compute bounds.
const KEYS_MAX: usize = 4_096;
/// Number of distinct keys that are sampled before the first bounds are computed.
const KEYS_MIN: usize = 64;
/// Maximum number of bytes that are kept of a key.
const KEY_BYTES_MAX: usize = 128;
/// Number of rows of each table that have a count of their own.
const HOT_ROWS: usize = 64;
/// Minimum time in seconds between computations of the bounds, if they no longer fit.
const BOUNDS_AGE: u64 = 120;
/// Maximum number of different bounds that the columns of a map have. Bounds take up to 40 KB.
const BOUNDS_MAX: usize = 16;

/// The resolution and the length of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeatRange {
    Hour,
    HalfDay,
    Week,
}

impl HeatRange {
    pub(crate) const ALL: [HeatRange; 3] = [HeatRange::Hour, HeatRange::HalfDay, HeatRange::Week];

    pub(crate) fn step(self) -> u64 {
        match self {
            HeatRange::Hour => 10,
            HeatRange::HalfDay => 60,
            HeatRange::Week => 600,
        }
    }

    fn columns(self) -> usize {
        match self {
            HeatRange::Hour => 360,
            HeatRange::HalfDay => 720,
            HeatRange::Week => 1_008,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            HeatRange::Hour => "1h",
            HeatRange::HalfDay => "12h",
            HeatRange::Week => "7d",
        }
    }

    pub(crate) fn of_name(name: &str) -> HeatRange {
        HeatRange::ALL.into_iter().find(|range| range.name() == name).unwrap_or(HeatRange::Hour)
    }
}

/// Which calls a heat map counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heat {
    Reads,
    Writes,
    All,
}

impl Heat {
    pub(crate) const ALL: [Heat; 3] = [Heat::All, Heat::Reads, Heat::Writes];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Heat::Reads => "reads",
            Heat::Writes => "writes",
            Heat::All => "all",
        }
    }

    pub(crate) fn of_name(name: &str) -> Heat {
        Heat::ALL.into_iter().find(|heat| heat.name() == name).unwrap_or(Heat::All)
    }
}

type Bounds = Arc<Vec<Box<[u8]>>>;
type Maps = HashMap<Box<[u8]>, Arc<Mutex<HeatMap>>>;

/// The counts of one column that is not finished.
#[derive(Clone, Debug)]
struct Column {
    slot: u64,
    bounds: Bounds,
    reads: Vec<f32>,
    writes: Vec<f32>,
}

impl Column {
    fn new(slot: u64, bounds: &Bounds) -> Column {
        let counts = vec![0.0; bounds.len() + 1];
        Column { slot, bounds: Arc::clone(bounds), reads: counts.clone(), writes: counts }
    }
}

/// A finished column: one byte for each bucket, on a logarithmic scale.
#[derive(Clone, Debug)]
struct Packed {
    slot: u64,
    bounds: Bounds,
    reads: Box<[u8]>,
    writes: Box<[u8]>,
}

impl Packed {
    /// Distributes the counts to the buckets of other bounds.
    fn convert_to(&mut self, bounds: &Bounds) {
        for bytes in [&mut self.reads, &mut self.writes] {
            let counts: Vec<f32> = bytes.iter().map(|byte| unpack(*byte)).collect();
            let mut converted = vec![0.0; bounds.len() + 1];
            convert(&self.bounds, &counts, bounds, &mut converted);
            *bytes = converted.iter().map(|count| pack(*count)).collect();
        }
        self.bounds = Arc::clone(bounds);
    }
}

/// Encodes a count in one byte, which covers a factor of 2^21 in steps of 6 %.
fn pack(count: f32) -> u8 {
    ((1.0 + count).log2() * 12.0).round().clamp(0.0, 255.0) as u8
}

fn unpack(byte: u8) -> f32 {
    (f32::from(byte) / 12.0).exp2() - 1.0
}

/// A row with many calls.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotRow {
    pub(crate) row: Box<[u8]>,
    /// The row's recent fraction of the table's sampled rows.
    pub(crate) share: f64,
    /// The fraction of writes among the row's calls.
    pub(crate) writes: f64,
}

#[derive(Debug)]
struct Counted {
    row: Box<[u8]>,
    count: f64,
    writes: f64,
}

/// The heat map of one table.
#[derive(Debug)]
struct HeatMap {
    bounds: Bounds,
    /// The bounds that columns may have, the oldest first and the present ones last.
    used_bounds: Vec<Bounds>,
    bounds_since: u64,
    /// Recent distinct keys, the oldest first, for the next bounds.
    keys: VecDeque<Box<[u8]>>,
    known: HashSet<Box<[u8]>>,
    /// Number of keys from which the bounds were computed.
    bounds_of: usize,
    filling: [Option<Column>; 3],
    columns: [VecDeque<Packed>; 3],
    hot: Vec<Counted>,
    /// Total number of samples that `hot` counts.
    hot_total: f64,
    hot_since: u64,
    /// The largest written key.
    largest: Box<[u8]>,
    /// Number of recent writes.
    written: f64,
    /// Number of recent writes with a key above the largest one before them.
    appended: f64,
}

impl HeatMap {
    fn new(now: u64) -> HeatMap {
        let bounds = Bounds::default();
        HeatMap {
            used_bounds: vec![Arc::clone(&bounds)],
            bounds,
            bounds_since: now,
            keys: VecDeque::new(),
            known: HashSet::new(),
            bounds_of: 0,
            filling: [const { None }; 3],
            columns: Default::default(),
            hot: Vec::new(),
            hot_total: 0.0,
            hot_since: now,
            largest: Box::default(),
            written: 0.0,
            appended: 0.0,
        }
    }

    fn add(&mut self, row: &[u8], is_write: bool, weight: u32, now: u64) {
        let row = &row[..row.len().min(KEY_BYTES_MAX)];
        self.note_key(row, now);
        self.note_hot(row, is_write, now);
        if is_write {
            self.note_growth(row);
        }
        let bucket = bucket_of(&self.bounds, row);
        for (at, range) in HeatRange::ALL.into_iter().enumerate() {
            let slot = now / range.step();
            let is_current = self.filling[at]
                .as_ref()
                .is_some_and(|column| column.slot == slot && Arc::ptr_eq(&column.bounds, &self.bounds));
            if !is_current {
                self.begin_column(at, range, slot);
            }
            let column = self.filling[at].as_mut().expect("just begun");
            let counts = if is_write { &mut column.writes } else { &mut column.reads };
            counts[bucket] += SAMPLED_ONE_IN as f32 * weight as f32;
        }
    }

    /// Returns the second of the last sample, rounded to ten seconds.
    fn last(&self) -> u64 {
        self.filling[0].as_ref().map_or(0, |column| column.slot * HeatRange::Hour.step())
    }

    fn begin_column(&mut self, at: usize, range: HeatRange, slot: u64) {
        let mut begun = Column::new(slot, &self.bounds);
        if let Some(column) = self.filling[at].take() {
            if column.slot == slot {
                // The bounds have changed within the column: its counts are converted to the new ones.
                convert(&column.bounds, &column.reads, &self.bounds, &mut begun.reads);
                convert(&column.bounds, &column.writes, &self.bounds, &mut begun.writes);
            } else {
                if self.columns[at].len() == range.columns() {
                    self.columns[at].pop_front();
                }
                let bytes = |counts: &[f32]| counts.iter().map(|count| pack(*count)).collect();
                self.columns[at].push_back(Packed {
                    slot: column.slot,
                    reads: bytes(&column.reads),
                    writes: bytes(&column.writes),
                    bounds: column.bounds,
                });
            }
        }
        self.filling[at] = Some(begun);
    }

    fn note_key(&mut self, row: &[u8], now: u64) {
        if !self.known.contains(row) {
            if self.keys.len() == KEYS_MAX {
                self.keys.pop_front().and_then(|oldest| self.known.take(&oldest));
            }
            self.keys.push_back(row.into());
            self.known.insert(row.into());
        }
        let grown = self.keys.len() >= KEYS_MIN.max(2 * self.bounds_of);
        let aged = now.saturating_sub(self.bounds_since) >= BOUNDS_AGE && self.keys.len() >= KEYS_MIN;
        if grown || (aged && self.bounds_do_not_fit()) {
            self.bounds = quantiles(&self.keys);
            self.bounds_of = self.keys.len();
            self.used_bounds.push(Arc::clone(&self.bounds));
            self.limit_bounds();
        }
        if grown || aged {
            self.bounds_since = now;
        }
    }

    /// If the columns have too many different bounds, gives up those that the fewest columns have: converts these columns to
    /// the next later bounds.
    fn limit_bounds(&mut self) {
        if self.used_bounds.len() <= BOUNDS_MAX {
            return;
        }
        let columns = |bounds: &Bounds| {
            self.columns.iter().flatten().filter(|column| Arc::ptr_eq(&column.bounds, bounds)).count()
        };
        // The present bounds stay, and those before them, which the unfinished columns still have.
        let Some(fewest) = (0..self.used_bounds.len() - 2).min_by_key(|at| columns(&self.used_bounds[*at]))
        else {
            return;
        };
        let given_up = self.used_bounds.remove(fewest);
        let later = &self.used_bounds[fewest];
        for columns in &mut self.columns {
            // Converted, such a column would seem to say how the keys are used.
            columns.retain(|column| !Arc::ptr_eq(&column.bounds, &given_up) || tells(&given_up, later.len()));
            let given_up = columns.iter_mut().filter(|column| Arc::ptr_eq(&column.bounds, &given_up));
            given_up.for_each(|column| column.convert_to(later));
        }
    }

    /// Whether a bucket has many times more distinct keys than expected.
    fn bounds_do_not_fit(&self) -> bool {
        let mut counts = vec![0; self.bounds.len() + 1];
        self.keys.iter().for_each(|key| counts[bucket_of(&self.bounds, key)] += 1);
        let most = counts.iter().max().copied().unwrap_or(0);
        most > 4 && most > 8 * self.keys.len() / counts.len()
    }

    /// Counts a call of a row by the space-saving algorithm: a new row replaces the coldest one and inherits its count.
    fn note_hot(&mut self, row: &[u8], is_write: bool, now: u64) {
        if now.saturating_sub(self.hot_since) >= 60 {
            self.hot_since = now;
            self.hot_total /= 2.0;
            self.written /= 2.0;
            self.appended /= 2.0;
            for counted in &mut self.hot {
                counted.count /= 2.0;
                counted.writes /= 2.0;
            }
        }
        self.hot_total += 1.0;
        let write = f64::from(u8::from(is_write));
        if let Some(counted) = self.hot.iter_mut().find(|counted| *counted.row == *row) {
            counted.count += 1.0;
            counted.writes += write;
        } else if self.hot.len() < HOT_ROWS {
            self.hot.push(Counted { row: row.into(), count: 1.0, writes: write });
        } else if let Some(coldest) = self.hot.iter_mut().min_by(|a, b| a.count.total_cmp(&b.count)) {
            let count = coldest.count + 1.0;
            *coldest = Counted { row: row.into(), count, writes: write };
        }
    }

    /// Records a write, and whether its row is above the largest key: hardly ever for random keys, nearly always for
    /// growing ones.
    fn note_growth(&mut self, row: &[u8]) {
        self.written += 1.0;
        if *row > *self.largest {
            self.largest = row.into();
            self.appended += 1.0;
        }
    }

    fn hot_rows(&self) -> Vec<HotRow> {
        let total = self.hot_total.max(1.0);
        // The count of a row may be too high, but by no more than the count of the coldest row.
        let error = if self.hot.len() < HOT_ROWS {
            0.0
        } else {
            self.hot.iter().map(|counted| counted.count).fold(f64::INFINITY, f64::min)
        };
        let mut rows: Vec<HotRow> = self
            .hot
            .iter()
            .filter(|counted| counted.count - error >= 4.0)
            .map(|counted| HotRow {
                row: counted.row.clone(),
                share: (counted.count - error) / total,
                writes: counted.writes / counted.count.max(1.0),
            })
            .filter(|row| row.share >= 0.002)
            .collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share));
        rows
    }
}

fn bucket_of(bounds: &[Box<[u8]>], row: &[u8]) -> usize {
    bounds.partition_point(|bound| **bound <= *row)
}

/// Whether a column with these bounds says which keys are used, for a view with `count` bounds.
fn tells(bounds: &Bounds, count: usize) -> bool {
    bounds.len() * 8 >= count
}

/// Returns bounds that divide the distinct keys into parts of equal size.
fn quantiles(keys: &VecDeque<Box<[u8]>>) -> Bounds {
    let mut sorted: Vec<&Box<[u8]>> = keys.iter().collect();
    sorted.sort_unstable();
    let parts = BUCKETS.min(sorted.len());
    Arc::new((1..parts).map(|part| sorted[part * sorted.len() / parts].clone()).collect())
}

/// Distributes the count of each bucket of `from` equally to the buckets of `to` that it overlaps.
fn convert(from: &[Box<[u8]>], counts: &[f32], to: &[Box<[u8]>], out: &mut [f32]) {
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        let first = if bucket == 0 { 0 } else { bucket_of(to, &from[bucket - 1]) };
        let last = from.get(bucket).map_or(to.len(), |end| to.partition_point(|bound| **bound < **end));
        let overlapped = &mut out[first..=last.max(first)];
        let share = count / overlapped.len() as f32;
        overlapped.iter_mut().for_each(|out| *out += share);
    }
}

/// The part of a heat map that a page shows.
#[derive(Clone, Debug)]
pub(crate) struct HeatView {
    /// The bounds between buckets: one fewer than buckets.
    pub(crate) bounds: Vec<Box<[u8]>>,
    /// The start of each column, in seconds since 1970, without gaps.
    pub(crate) times: Vec<u64>,
    /// Numbers of rows read or written in each bucket of each column, column by column.
    pub(crate) counts: Vec<Vec<f32>>,
    pub(crate) hot_rows: Vec<HotRow>,
    /// The fraction of recent writes above the largest key.
    pub(crate) growing: f64,
}

/// The heat maps of all tables.
#[derive(Debug)]
pub(crate) struct HeatMaps {
    world: World,
    tables: RwLock<Maps>,
    /// Until this second, every map is known to be in use.
    full_until: AtomicU64,
}

impl HeatMaps {
    pub(crate) fn new(world: World) -> HeatMaps {
        HeatMaps { world, tables: RwLock::default(), full_until: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.world.now().0).unwrap_or(0) / 1_000
    }

    /// Records a sampled row, which stands for `weight` rows. The sample is dropped if another thread is recording one
    /// at this moment.
    pub(crate) fn add(&self, table: &[u8], row: &[u8], is_write: bool, weight: u32) {
        let now = self.now();
        let map = self.tables.read().get(table).map(Arc::clone);
        let map = match map {
            Some(map) => map,
            None => match self.new_map(table, now) {
                Some(map) => map,
                None => return,
            },
        };
        if let Some(mut map) = map.try_lock() {
            map.add(row, is_write, weight, now);
        }
    }

    /// Returns the map for a table that has none: a new one, or that of the table that was idle for the longest time.
    /// Searches for an idle table at most once in ten seconds.
    fn new_map(&self, table: &[u8], now: u64) -> Option<Arc<Mutex<HeatMap>>> {
        if now < self.full_until.load(Ordering::Relaxed) {
            return None;
        }
        let mut tables = self.tables.write();
        if tables.len() >= TABLES_MAX && !tables.contains_key(table) {
            let quietest = tables.iter().map(|(name, map)| (map.lock().last(), name.clone())).min()?;
            if quietest.0 + QUIET > now {
                self.full_until.store(now + 10, Ordering::Relaxed);
                return None;
            }
            tables.remove(&quietest.1);
        }
        let map = tables.entry(table.into()).or_insert_with(|| Arc::new(Mutex::new(HeatMap::new(now))));
        Some(Arc::clone(map))
    }

    /// Returns the tables that have a map.
    pub(crate) fn tables(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.tables.read().keys().map(|name| name.escape_ascii().to_string()).collect();
        names.sort();
        names
    }

    /// Returns the hottest rows of a table, the hottest first; none if the table has no map.
    pub(crate) fn hot_rows(&self, table: &str) -> Vec<HotRow> {
        let map = self.tables.read().get(table.as_bytes()).cloned();
        map.map_or_else(Vec::new, |map| map.lock().hot_rows())
    }

    /// Returns the map of a table; `None` without samples.
    pub(crate) fn view(&self, table: &str, heat: Heat, range: HeatRange) -> Option<HeatView> {
        let map = self.tables.read().get(table.as_bytes()).cloned()?;
        let map = map.lock();
        let at = HeatRange::ALL.iter().position(|other| *other == range)?;
        let now = self.now() / range.step();
        let buckets = map.bounds.len() + 1;
        let mut columns: HashMap<u64, Vec<f32>> = HashMap::new();
        let mut add = |slot: u64, bounds: &Bounds, reads: &[f32], writes: &[f32]| {
            let counts: Vec<f32> = match heat {
                Heat::Reads => reads.to_vec(),
                Heat::Writes => writes.to_vec(),
                Heat::All => reads.iter().zip(writes).map(|(reads, writes)| reads + writes).collect(),
            };
            let out = columns.entry(slot).or_insert_with(|| vec![0.0; buckets]);
            if Arc::ptr_eq(bounds, &map.bounds) {
                out.iter_mut().zip(&counts).for_each(|(out, count)| *out += count);
            } else {
                convert(bounds, &counts, &map.bounds, out);
            }
        };
        for column in map.columns[at].iter().filter(|column| tells(&column.bounds, map.bounds.len())) {
            let counts = |bytes: &[u8]| bytes.iter().map(|byte| unpack(*byte)).collect::<Vec<f32>>();
            add(column.slot, &column.bounds, &counts(&column.reads), &counts(&column.writes));
        }
        if let Some(column) = &map.filling[at] {
            add(column.slot, &column.bounds, &column.reads, &column.writes);
        }
        let oldest = (now + 1).saturating_sub(range.columns() as u64);
        let first = columns.keys().copied().filter(|slot| *slot >= oldest).min().unwrap_or(now);
        let slots: Vec<u64> = (first..=now).collect();
        Some(HeatView {
            bounds: map.bounds.to_vec(),
            times: slots.iter().map(|slot| slot * range.step()).collect(),
            counts: slots
                .iter()
                .map(|slot| columns.remove(slot).unwrap_or_else(|| vec![0.0; buckets]))
                .collect(),
            hot_rows: map.hot_rows(),
            growing: if map.written < 16.0 { 0.0 } else { map.appended / map.written },
        })
    }
}

/// A pattern in a heat map, in the words of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    TooLittle,
    HotRow,
    Sequential,
    HotRange,
    Bursts,
    Even,
}

impl Pattern {
    /// Returns the name of the pattern, its meaning, and advice.
    pub(crate) fn explained(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Pattern::TooLittle => (
                "Too little traffic",
                "There are too few calls to see a pattern.",
                "Come back when the table is in use.",
            ),
            Pattern::HotRow => (
                "One hot row",
                "A thin bright line: a large part of all calls goes to one row, and one region server core serves it.",
                "Split the row over several keys (a counter: add a bucket number to the key), or cache it in the client.",
            ),
            Pattern::Sequential => (
                "Sequential keys",
                "A diagonal, or a bright line at the upper end: new rows go to the end of the key space, so that one region takes all writes.",
                "Put a salt or a hash before the key, or reverse it (a time stamp: Long.MAX_VALUE minus the time).",
            ),
            Pattern::HotRange => (
                "Hot range",
                "A bright horizontal band: a small part of the keys has most of the traffic.",
                "Split the region in the middle of the band, so that its halves can go to two servers.",
            ),
            Pattern::Bursts => (
                "Bursts",
                "Vertical stripes: the load comes in bursts, as that of a batch job does.",
                "Spread the job over time, or give it fewer threads, if others feel it.",
            ),
            Pattern::Even => (
                "Even",
                "The heat is spread over all keys. This is how a good row key looks.",
                "Nothing to do.",
            ),
        }
    }
}

impl HeatView {
    /// Returns the most distinct pattern of the map.
    pub(crate) fn pattern(&self) -> Pattern {
        let total: f32 = self.counts.iter().flatten().sum();
        if total < 64.0 * SAMPLED_ONE_IN as f32 || self.bounds.is_empty() {
            return match self.hot_rows.first() {
                Some(row) if row.share > 0.2 && total > 16.0 * SAMPLED_ONE_IN as f32 => Pattern::HotRow,
                _ => Pattern::TooLittle,
            };
        }
        if self.hot_rows.first().is_some_and(|row| row.share > 0.1) {
            return Pattern::HotRow;
        }
        let buckets = self.bounds.len() + 1;
        let mut by_bucket = vec![0.0_f32; buckets];
        for column in &self.counts {
            by_bucket.iter_mut().zip(column).for_each(|(sum, count)| *sum += count);
        }
        if self.growing > 0.3 {
            return Pattern::Sequential;
        }
        let mut sorted = by_bucket;
        sorted.sort_by(|a, b| b.total_cmp(a));
        let hottest: f32 = sorted.iter().take(buckets.div_ceil(8)).sum();
        if buckets >= 16 && hottest > 0.7 * total {
            return Pattern::HotRange;
        }
        let sums: Vec<f32> = self.counts.iter().map(|column| column.iter().sum()).collect();
        let mean = total / sums.len() as f32;
        let quiet = sums.iter().filter(|sum| **sum < 0.1 * mean).count();
        let loud = sums.iter().filter(|sum| **sum > 3.0 * mean).count();
        if sums.len() >= 12 && loud >= 2 && quiet * 2 > sums.len() {
            return Pattern::Bursts;
        }
        Pattern::Even
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;
    use std::time::Duration;

    fn maps() -> (World, HeatMaps) {
        let world = World::simulated(1, WallTime(1_700_000_000_000));
        (world.clone(), HeatMaps::new(world))
    }

    /// Returns a key of a table whose keys are spread evenly.
    fn key(number: u64) -> Vec<u8> {
        format!("user{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).into_bytes()
    }

    fn load(world: &World, maps: &HeatMaps, columns: u64, mut key: impl FnMut(u64) -> Vec<u8>) {
        for column in 0..columns {
            (0..500).for_each(|call| maps.add(b"t", &key(column * 500 + call), call % 2 == 0, 1));
            world.advance(Duration::from_secs(10));
        }
    }

    fn view(maps: &HeatMaps) -> HeatView {
        maps.view("t", Heat::All, HeatRange::Hour).expect("sampled")
    }

    #[test]
    fn even_load_is_even_and_counted_whole() {
        let (world, maps) = maps();
        load(&world, &maps, 30, key);
        let view = view(&maps);
        assert_eq!(view.pattern(), Pattern::Even);
        assert_eq!(view.bounds.len(), BUCKETS - 1);
        let total: f32 = view.counts.iter().flatten().sum();
        let expected = (30 * 500 * SAMPLED_ONE_IN) as f32;
        assert!((total / expected - 1.0).abs() < 0.05, "{total} of {expected}");
        let writes = maps.view("t", Heat::Writes, HeatRange::Hour).expect("sampled");
        let writes: f32 = writes.counts.iter().flatten().sum();
        assert!((writes / expected - 0.5).abs() < 0.03, "{writes}");
        assert!(maps.view("u", Heat::All, HeatRange::Hour).is_none());
    }

    #[test]
    fn a_hot_row_is_found_and_named() {
        let (world, maps) = maps();
        load(&world, &maps, 20, |call| if call % 4 == 0 { b"user-of-everybody".to_vec() } else { key(call) });
        let view = view(&maps);
        assert_eq!(view.pattern(), Pattern::HotRow);
        assert_eq!(&*view.hot_rows[0].row, b"user-of-everybody");
        assert!((view.hot_rows[0].share - 0.25).abs() < 0.05, "{:?}", view.hot_rows[0]);
    }

    #[test]
    fn growing_keys_a_narrow_range_and_bursts_have_their_names() {
        let (world, maps) = self::maps();
        load(&world, &maps, 60, |call| format!("{call:012}").into_bytes());
        assert_eq!(view(&maps).pattern(), Pattern::Sequential);
        let (world, maps) = self::maps();
        load(&world, &maps, 60, |call| {
            let far = key(call);
            if call % 8 == 0 {
                return far;
            }
            // 64 neighbouring rows.
            [&b"user8"[..], &far[4..5], &[b'a' + (call % 4) as u8]].concat()
        });
        let found = view(&maps);
        assert_eq!(found.pattern(), Pattern::HotRange);
        let (world, maps) = self::maps();
        for _ in 0..4 {
            load(&world, &maps, 1, key);
            world.advance(Duration::from_secs(100));
        }
        assert_eq!(view(&maps).pattern(), Pattern::Bursts);
    }

    /// Growing keys need new bounds every two minutes, and the columns of a week would keep all of them.
    #[test]
    fn a_map_keeps_few_bounds_and_all_counts() {
        let (world, maps) = maps();
        load(&world, &maps, 359, |call| format!("{call:0128}").into_bytes());
        let found = view(&maps);
        assert_eq!(found.pattern(), Pattern::Sequential);
        let total: f32 = found.counts.iter().flatten().sum();
        let expected = (359 * 500 * SAMPLED_ONE_IN) as f32;
        assert!((total / expected - 1.0).abs() < 0.05, "{total} of {expected}");
        let map = maps.tables.read()[&b"t"[..]].clone();
        let map = map.lock();
        let kept: HashSet<*const _> =
            map.columns.iter().flatten().map(|column| Arc::as_ptr(&column.bounds)).collect();
        assert!((2..=BOUNDS_MAX).contains(&kept.len()), "{} different bounds", kept.len());
    }

    #[test]
    fn an_idle_table_loses_its_map_to_a_busy_one() {
        let (world, maps) = maps();
        (0..TABLES_MAX as u8).for_each(|table| maps.add(&[b'a' + table], b"r", true, 1));
        maps.add(b"new", b"r", true, 1);
        assert!(!maps.tables().contains(&"new".to_owned()), "every map is in use");
        world.advance(Duration::from_secs(QUIET / 2));
        // All tables but one are used again.
        (1..TABLES_MAX as u8).for_each(|table| maps.add(&[b'a' + table], b"r", true, 1));
        world.advance(Duration::from_secs(QUIET / 2 + 10));
        maps.add(b"new", b"r", true, 1);
        let names = maps.tables();
        assert!(names.contains(&"new".to_owned()) && !names.contains(&"a".to_owned()), "{names:?}");
        assert_eq!(names.len(), TABLES_MAX);
    }

    #[test]
    fn a_map_stays_small_and_long_rows_are_cut() {
        let (world, maps) = maps();
        (0..1_000).for_each(|table: u32| maps.add(&table.to_le_bytes(), b"r", false, 1));
        assert_eq!(maps.tables.read().len(), TABLES_MAX);
        let (table, map) =
            maps.tables.read().iter().map(|(name, map)| (name.clone(), map.clone())).next().expect("one");
        (0..5_000).for_each(|_| {
            maps.add(&table, &[7; 10_000], true, 1);
            world.advance(Duration::from_secs(10));
        });
        let map = map.lock();
        assert_eq!(map.columns[0].len(), 360);
        assert!(map.keys.iter().all(|key| key.len() <= KEY_BYTES_MAX));
    }
}
