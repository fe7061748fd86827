//! Streams of operations on one region, as plain data: operations of clients and operators, and faults.
//!
//! A stream is generated from a seed or written by hand; its `Debug` form, with `[` as `vec![`, is the code that makes
//! it. Rows, columns and timestamps come from small sets, so that operations often concern the same cells. The meaning
//! of an operation does not depend on earlier ones, so any of them can be removed.

use crate::random::Random;

/// Which deleted cells a family keeps (`KEEP_DELETED_CELLS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The family keeps no deleted cells.
    Nothing,
    /// The family keeps all deleted cells within its versions and time to live.
    Deleted,
    /// The family keeps all deleted cells within its time to live.
    UntilTtl,
}

/// A level of in-memory compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// NONE.
    Plain,
    /// BASIC.
    Basic,
    /// EAGER.
    Eager,
    /// ADAPTIVE.
    Adaptive,
}

/// A family's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The family's name.
    pub name: &'static str,
    /// VERSIONS: maximum number of versions.
    pub versions: u32,
    /// MIN_VERSIONS: number of versions that are kept although their TTL has expired.
    pub min_versions: u32,
    /// TTL in seconds.
    pub ttl: Option<i32>,
    /// KEEP_DELETED_CELLS.
    pub keep: Keep,
    /// NEW_VERSION_BEHAVIOR.
    pub new_versions: bool,
    /// DATA_BLOCK_ENCODING, by its name.
    pub encoding: &'static str,
    /// BLOOMFILTER, by its name.
    pub bloom: &'static str,
    /// COMPRESSION, by its name.
    pub compression: &'static str,
    /// BLOCKSIZE in bytes.
    pub block_bytes: u32,
}

impl Family {
    /// Returns a family with one version and defaults.
    pub fn plain(name: &'static str) -> Family {
        Family {
            name,
            versions: 1,
            min_versions: 0,
            ttl: None,
            keep: Keep::Nothing,
            new_versions: false,
            encoding: "NONE",
            bloom: "ROW",
            compression: "NONE",
            block_bytes: 65_536,
        }
    }
}

/// The region on which a stream runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The families, in the order of their names.
    pub families: Vec<Family>,
    /// The initial level of in-memory compaction.
    pub memory: Memory,
    /// Size at which an active segment is sealed, in bytes.
    pub seal_bytes: u64,
    /// How long major compactions keep markers, in ms.
    pub purge_deletes_after: i64,
    /// The seed of the environment, of the losses of power and of numbers that change no answer.
    pub seed: u64,
    /// Whether files are kept in stripes.
    pub stripes: bool,
}

impl Setup {
    /// Returns a region with one plain family `f`, changed by `change`.
    pub fn of(change: impl FnOnce(&mut Family)) -> Setup {
        let mut family = Family::plain("f");
        change(&mut family);
        Setup {
            families: vec![family],
            memory: Memory::Basic,
            seal_bytes: 600,
            purge_deletes_after: 0,
            seed: 1,
            stripes: false,
        }
    }
}

/// The type of a cell of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A value, or the delta of an increment or append.
    Value,
    /// A marker that deletes one version.
    Version,
    /// A marker that deletes a column.
    Column,
    /// A marker that deletes a family.
    Family,
    /// A marker that deletes one version of each column.
    FamilyVersion,
}

/// The value of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number of eight bytes.
    Long(i64),
    /// A text.
    Text(&'static str),
}

impl Value {
    /// Returns the bytes of the value.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Value::Long(number) => number.to_be_bytes().to_vec(),
            Value::Text(text) => text.as_bytes().to_vec(),
        }
    }
}

/// A cell of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The family of the cell.
    pub family: &'static str,
    /// The qualifier of the cell; empty for markers of families.
    pub qualifier: &'static str,
    /// The timestamp of the cell. `None` is the server's time, or for [`What::Version`] the newest version.
    pub at: Option<i64>,
    /// The type of the cell.
    pub what: What,
    /// The value of the cell; unused for markers.
    pub value: Value,
    /// The time to live of the cell, in ms.
    pub ttl: Option<i64>,
}

/// The kind of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Put.
    Put,
    /// Delete.
    Delete,
    /// Increment.
    Increment,
    /// Append.
    Append,
}

/// A mutation of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of the mutation.
    pub act: Act,
    /// The row that the mutation changes.
    pub row: &'static str,
    /// The cells of the mutation.
    pub parts: Vec<Part>,
    /// The time range that an increment or append reads.
    pub range: Option<(i64, i64)>,
    /// Whether the mutation skips the log.
    pub skip_log: bool,
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The left value is less (`<`).
    Less,
    /// The left value is less or equal (`<=`).
    LessOrEqual,
    /// The values are equal (`==`).
    Equal,
    /// The values are not equal (`!=`).
    NotEqual,
    /// The left value is greater or equal (`>=`).
    GreaterOrEqual,
    /// The left value is greater (`>`).
    Greater,
}

impl Compare {
    /// Whether `left op right` holds.
    pub fn holds(self, left: &[u8], right: &[u8]) -> bool {
        match self {
            Compare::Less => left < right,
            Compare::LessOrEqual => left <= right,
            Compare::Equal => left == right,
            Compare::NotEqual => left != right,
            Compare::GreaterOrEqual => left >= right,
            Compare::Greater => left > right,
        }
    }
}

/// A filter, by its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sieve {
    /// RowFilter.
    Row(Compare, &'static str),
    /// PrefixFilter.
    Prefix(&'static str),
    /// InclusiveStopFilter.
    Stop(&'static str),
    /// MultiRowRangeFilter: (start, inclusive, stop, inclusive).
    Ranges(Vec<(&'static str, bool, &'static str, bool)>),
    /// FuzzyRowFilter: keys in which `?` stands for any byte.
    Fuzzy(Vec<&'static str>),
    /// FamilyFilter.
    Family(Compare, &'static str),
    /// QualifierFilter.
    Qualifier(Compare, &'static str),
    /// ValueFilter.
    Value(Compare, Value),
    /// ColumnPrefixFilter.
    ColumnPrefix(&'static str),
    /// MultipleColumnPrefixFilter.
    ColumnPrefixes(Vec<&'static str>),
    /// ColumnRangeFilter: (min, inclusive, max, inclusive).
    ColumnRange(Option<&'static str>, bool, Option<&'static str>, bool),
    /// TimestampsFilter, and whether it gives seek hints.
    Timestamps(Vec<i64>, bool),
    /// ColumnValueFilter.
    ColumnValue(&'static str, &'static str, Compare, Value),
    /// KeyOnlyFilter, and whether the length replaces the value.
    KeyOnly(bool),
    /// FirstKeyOnlyFilter.
    FirstKeyOnly,
    /// PageFilter.
    Page(u64),
    /// ColumnPaginationFilter: limit, offset.
    Pagination(u32, u32),
    /// ColumnCountGetFilter.
    ColumnCount(u32),
    /// SingleColumnValueFilter.
    Single(Single),
    /// DependentColumnFilter: family, qualifier, whether the column itself is dropped.
    Dependent(&'static str, &'static str, bool),
    /// SkipFilter.
    Skip(Box<Sieve>),
    /// FilterList, MUST_PASS_ALL.
    All(Vec<Sieve>),
    /// FilterList, MUST_PASS_ONE.
    One(Vec<Sieve>),
}

/// SingleColumnValueFilter, or SingleColumnValueExcludeFilter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Single {
    /// The column.
    pub column: (&'static str, &'static str),
    /// The comparison.
    pub compare: Compare,
    /// The value to compare with.
    pub value: Value,
    /// `filterIfMissing`.
    pub if_missing: bool,
    /// `latestVersionOnly`.
    pub latest_only: bool,
    /// Whether the column itself is dropped.
    pub exclude: bool,
}

/// A requested family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyRequest {
    /// The family's name.
    pub family: &'static str,
    /// The requested columns, in order; `None` for all.
    pub qualifiers: Option<Vec<&'static str>>,
    /// A time range for this family, instead of the query's.
    pub range: Option<(i64, i64)>,
}

/// The part of a request that gets and scans have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The families in order of their names; empty for all.
    pub families: Vec<FamilyRequest>,
    /// Maximum number of versions of a column.
    pub versions: u32,
    /// The time range: from (inclusive) and until (exclusive).
    pub range: Option<(i64, i64)>,
    /// The filter.
    pub sieve: Option<Sieve>,
    /// Maximum number of cells of one row and family.
    pub store_limit: Option<u32>,
    /// Number of cells of each row and family that are skipped.
    pub store_offset: u32,
    /// Whether it is a raw read, which returns markers, too.
    pub raw: bool,
    /// Whether families that the filter does not need are loaded on demand.
    pub on_demand: bool,
}

impl Query {
    /// Returns a query of one version of everything.
    pub fn all() -> Query {
        Query {
            families: Vec::new(),
            versions: 1,
            range: None,
            sieve: None,
            store_limit: None,
            store_offset: 0,
            raw: false,
            on_demand: false,
        }
    }
}

/// A scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The start row, and whether it is included; empty for none.
    pub start: (&'static str, bool),
    /// The stop row, and whether it is included; empty for none.
    pub stop: (&'static str, bool),
    /// Whether rows are read in descending order.
    pub reversed: bool,
    /// What the scan reads of each row.
    pub query: Query,
    /// The batch: maximum number of cells in a result.
    pub batch: Option<u32>,
    /// Size of the returned cells in bytes after which a row is cut.
    pub bytes: Option<u64>,
}

impl Walk {
    /// Returns a scan of all rows.
    pub fn over(query: Query) -> Walk {
        Walk { start: ("", true), stop: ("", false), reversed: false, query, batch: None, bytes: None }
    }
}

/// The condition of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Whether *value op cell* holds for one column; `None` stands for no value.
    Value(&'static str, &'static str, Compare, Option<Value>),
    /// Whether a filter keeps a cell.
    Sieve(Sieve),
}

/// A check of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The row that is tested.
    pub row: &'static str,
    /// The condition.
    pub test: Test,
    /// The time range that the test reads.
    pub range: Option<(i64, i64)>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A batch of puts and deletes.
    Batch(Vec<Change>),
    /// An atomic mutation of one row.
    Row(Vec<Change>),
    /// An atomic mutation of one row, if a check succeeds.
    CheckThen(Check, Vec<Change>),
    /// A get.
    Get(&'static str, Query),
    /// A scan.
    Scan(Walk),
    /// A scan of which only some steps run: slot, scan and number of steps. The scan stays open in the slot.
    Hold(usize, Walk, usize),
    /// Further steps of the scan that is open in a slot: slot and number of steps. Does nothing if none is open.
    Resume(usize, usize),
    /// A flush of one family or of all.
    Flush(Option<&'static str>),
    /// A flush because memory is full: it may retain rewritten rows in memory.
    Relieve,
    /// An in-memory compaction, at a memory pressure in hundredths.
    Shrink(u32),
    /// A minor compaction.
    Minor,
    /// A major compaction.
    Major,
    /// This many ms pass.
    Pass(u64),
    /// The level of in-memory compaction changes.
    Tune(Memory),
    /// The process is killed and started again.
    Kill,
    /// The power is lost and comes back.
    Crash,
    /// The region is closed and opened.
    Reopen,
    /// The region is closed and opened with other schemas.
    Alter(Vec<Family>),
}

/// The time at which a stream begins, in ms since 1970.
pub const BEGIN: i64 = 1_000_000;

/// A number of versions that no column reaches.
const MANY: u32 = 1_000;

const ROWS: [&str; 7] = ["a", "aa", "ab", "b", "ba", "c", "\u{7f}z"];
/// The rows of a queue, which are written in order.
const QUEUE_ROWS: [&str; 40] = [
    "q00", "q01", "q02", "q03", "q04", "q05", "q06", "q07", "q08", "q09", "q10", "q11", "q12", "q13", "q14",
    "q15", "q16", "q17", "q18", "q19", "q20", "q21", "q22", "q23", "q24", "q25", "q26", "q27", "q28", "q29",
    "q30", "q31", "q32", "q33", "q34", "q35", "q36", "q37", "q38", "q39",
];
const QUALIFIERS: [&str; 5] = ["", "n", "na", "o", "p"];
const TEXTS: [&str; 4] = ["", "x", "y", "the value of a cell is longer than its key"];

/// Draws a random setup of a region.
pub fn setup(random: &mut Random) -> Setup {
    let count = 1 + random.below(3) as usize;
    let memory = [Memory::Plain, Memory::Basic, Memory::Eager, Memory::Adaptive];
    // A flush retains only rows of families with one version. So a stream that tests this has only such families.
    let is_hot = random.once_in(3);
    let family = |name: &&'static str| {
        let family = family(random, name);
        if is_hot { Family { versions: 1, new_versions: false, ..family } } else { family }
    };
    let families = ["f", "g", "h"][..count].iter().map(family).collect();
    let memory = if is_hot { Memory::Adaptive } else { random.pick(&memory) };
    let seal_bytes = 300 + random.below(1_500);
    let purge_deletes_after = if random.once_in(4) { 20 + random.below(100) as i64 } else { 0 };
    let seed = random.word();
    Setup { families, memory, seal_bytes, purge_deletes_after, seed, stripes: seed.is_multiple_of(3) }
}

fn family(random: &mut Random, name: &'static str) -> Family {
    let ttl = random.once_in(3).then_some(1);
    Family {
        name,
        versions: random.pick(&[1, 1, 2, 3, 5, MANY]),
        min_versions: if ttl.is_some() { random.pick(&[0, 0, 1, 2]) } else { 0 },
        ttl,
        keep: random.pick(&[Keep::Nothing, Keep::Nothing, Keep::Deleted, Keep::UntilTtl]),
        new_versions: random.once_in(4),
        encoding: random.pick(&["NONE", "PREFIX", "DIFF", "FAST_DIFF", "ROW_INDEX_V1"]),
        bloom: random.pick(&["NONE", "ROW", "ROWCOL"]),
        compression: random.pick(&["NONE", "NONE", "NONE", "SNAPPY", "LZ4"]),
        block_bytes: random.pick(&[128, 512, 65_536]),
    }
}

/// Generates random operations for a setup.
pub struct Source {
    random: Random,
    families: Vec<Family>,
    now: i64,
    counter: i64,
    /// Whether columns may have an empty qualifier. Markers of the family sort among the cells of a column with an
    /// empty qualifier. A filter that seeks to a later column skips these markers, and then returns cells that they
    /// mask, as in HBase.
    nameless: bool,
    /// Whether the server sets nearly all timestamps.
    timeless: bool,
    /// Whether rows are written once and deleted, as in a queue, with few files.
    queue: bool,
    /// Whether memory is compacted often, and flushed because it is full.
    hot: bool,
    /// The latest deletes: row, family, qualifier and timestamp.
    done: Vec<(&'static str, &'static str, &'static str, i64)>,
    /// Whether there are deletes. TimestampsFilter with hints seeks past markers, as in HBase.
    deletes: bool,
}

impl Source {
    /// Creates a source for `setup`.
    pub fn new(seed: u64, setup: &Setup) -> Source {
        let mut random = Random(seed);
        let nameless = random.once_in(2);
        let queue = random.once_in(3);
        let (deletes, timeless) = (queue || !random.once_in(6), queue || random.once_in(2));
        let families = setup.families.clone();
        Source {
            random,
            families,
            now: BEGIN,
            counter: 0,
            nameless,
            timeless,
            queue,
            hot: setup.memory == Memory::Adaptive && setup.families.iter().all(|family| family.versions == 1),
            done: Vec::new(),
            deletes,
        }
    }

    fn row(&mut self) -> &'static str {
        if self.queue {
            let first = (self.counter / 4) as usize;
            // Some operations concern earlier rows.
            let back = if self.random.once_in(4) { self.random.below(10) as usize } else { 0 };
            let at = QUEUE_ROWS.len() + first + self.random.below(3) as usize - back;
            return QUEUE_ROWS[at % QUEUE_ROWS.len()];
        }
        self.random.pick(&ROWS)
    }

    fn family(&mut self) -> &'static str {
        self.families[self.random.below(self.families.len() as u64) as usize].name
    }

    fn qualifier(&mut self) -> &'static str {
        self.random.pick(&QUALIFIERS[usize::from(!self.nameless)..])
    }

    /// Returns a timestamp near the present, so that some are equal.
    fn time(&mut self) -> i64 {
        match self.random.below(8) {
            0 => self.now - 1_000 - self.random.below(20) as i64,
            1 => self.now + 1 + self.random.below(30) as i64,
            2 => self.now,
            _ => BEGIN + self.random.below(8) as i64 + (self.now - BEGIN) / 100 * 100,
        }
    }

    fn range(&mut self) -> (i64, i64) {
        let (one, other) = (self.time(), self.time());
        match self.random.below(4) {
            0 => (0, one + 1),
            1 => (one, i64::MAX),
            _ => (one.min(other), one.max(other) + 1),
        }
    }

    fn maybe_range(&mut self, once_in: u64) -> Option<(i64, i64)> {
        self.random.once_in(once_in).then(|| self.range())
    }

    fn value(&mut self) -> Value {
        self.counter += 1;
        if self.random.once_in(4) {
            Value::Text(self.random.pick(&TEXTS))
        } else {
            Value::Long(self.counter % 40)
        }
    }

    fn compare(&mut self) -> Compare {
        use Compare::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        self.random.pick(&[Less, LessOrEqual, Equal, NotEqual, GreaterOrEqual, Greater])
    }

    fn change(&mut self, act: Act, row: &'static str) -> Change {
        let act = if act == Act::Delete && !self.deletes { Act::Put } else { act };
        let skip_log = self.random.once_in(if self.hot { 300 } else { 12 });
        let range = if matches!(act, Act::Increment | Act::Append) { self.maybe_range(6) } else { None };
        let mut parts = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let what = match (act, self.random.below(8)) {
                (Act::Delete, 0..=3) => What::Version,
                (Act::Delete, 4 | 5) => What::Column,
                (Act::Delete, 6) => What::Family,
                (Act::Delete, _) => What::FamilyVersion,
                _ => What::Value,
            };
            let is_of_family = matches!(what, What::Family | What::FamilyVersion);
            let at = match act {
                // A delete of one version of each column always has a timestamp.
                Act::Delete if what == What::FamilyVersion => Some(self.time()),
                Act::Increment | Act::Append => self.random.once_in(6).then(|| self.time()),
                _ if self.queue => {
                    self.random.once_in(30).then(|| self.now - 110 - self.random.below(600) as i64)
                }
                _ if self.timeless => self.random.once_in(12).then(|| self.time()),
                _ => (!self.random.once_in(3)).then(|| self.time()),
            };
            let (family, qualifier) = (self.family(), if is_of_family { "" } else { self.qualifier() });
            if self.queue && act == Act::Delete && at.is_none() && what != What::Version {
                self.done.push((row, family, qualifier, self.now));
            }
            let value = match act {
                Act::Delete => Value::Text(""),
                Act::Increment => Value::Long(self.random.below(3) as i64),
                _ => self.value(),
            };
            let ttl =
                (act != Act::Delete && self.random.once_in(10)).then(|| 1 + self.random.below(300) as i64);
            parts.push(Part { family, qualifier, at, what, value, ttl });
        }
        Change { act, row, parts, range, skip_log }
    }

    /// Draws a put that is older than an earlier marker.
    fn late(&mut self) -> Change {
        let at = self.done.len() - 1 - self.random.below(self.done.len().min(20) as u64) as usize;
        let (row, family, qualifier, time) = self.done[at];
        let part = Part {
            family,
            qualifier: if qualifier.is_empty() { self.qualifier() } else { qualifier },
            at: Some(time - self.random.below(20) as i64),
            what: What::Value,
            value: self.value(),
            ttl: None,
        };
        Change {
            act: Act::Put,
            row,
            parts: vec![part],
            range: None,
            skip_log: self.random.once_in(if self.hot { 300 } else { 12 }),
        }
    }

    fn plain_changes(&mut self) -> Vec<Change> {
        let count = self.random.pick(&[1, 1, 1, 2, 4]);
        let row = self.row();
        (0..count)
            .map(|_| {
                let deletes = self.random.once_in(if self.queue { 2 } else { 3 });
                let act = if deletes { Act::Delete } else { Act::Put };
                let row = if self.random.once_in(2) { row } else { self.row() };
                self.change(act, row)
            })
            .collect()
    }

    fn changes_of(&mut self, row: &'static str) -> Vec<Change> {
        (0..1 + self.random.below(3))
            .map(|_| {
                let act = self.random.pick(&[Act::Put, Act::Put, Act::Delete, Act::Increment, Act::Append]);
                self.change(act, row)
            })
            .collect()
    }

    /// Draws a filter that decides about each cell on its own.
    fn plain_sieve(&mut self, in_list_of_one: bool) -> Sieve {
        let one_family = self.families.len() == 1;
        loop {
            return match self.random.below(14) {
                0 => Sieve::Row(self.compare(), self.row()),
                1 => Sieve::Prefix(self.random.pick(&["a", "aa", "b", "d", "\u{7f}"])),
                2 => Sieve::Stop(self.row()),
                3 => self.ranges(),
                4 => {
                    let count = 1 + self.random.below(2);
                    Sieve::Fuzzy((0..count).map(|_| self.random.pick(&["a", "?", "b"])).collect())
                }
                5 => Sieve::Qualifier(self.compare(), self.qualifier()),
                6 | 7 => Sieve::Value(self.compare(), self.value()),
                8 => {
                    let mut stamps: Vec<i64> = (0..1 + self.random.below(4)).map(|_| self.time()).collect();
                    stamps.sort_unstable();
                    stamps.dedup();
                    // Cells that a seek skips are not counted as versions.
                    let counts = |family: &Family| {
                        family.versions < MANY || family.new_versions || family.ttl.is_some()
                    };
                    let may_hint = !self.nameless && !self.deletes && !self.families.iter().any(counts);
                    Sieve::Timestamps(stamps, may_hint && !self.random.once_in(3))
                }
                // In a list with MUST_PASS_ONE their "next row" also ends the other families.
                9 if !in_list_of_one => Sieve::Family(self.compare(), self.family()),
                10 if !self.nameless && (!in_list_of_one || one_family) => {
                    Sieve::ColumnPrefix(self.random.pick(&["", "n", "na", "oo"]))
                }
                11 if !self.nameless && (!in_list_of_one || one_family) => {
                    let mut prefixes =
                        vec![self.random.pick(&["n", "na"]), self.random.pick(&["o", "p", "q"])];
                    prefixes.sort_unstable();
                    // When one prefix begins with another, HBase compares only one of them.
                    Sieve::ColumnPrefixes(prefixes)
                }
                12 if !self.nameless && (!in_list_of_one || one_family) => {
                    let (one, other) = (self.qualifier(), self.qualifier());
                    let min = (!self.random.once_in(4)).then(|| one.min(other));
                    let max = (!self.random.once_in(4)).then(|| one.max(other));
                    Sieve::ColumnRange(min, self.random.once_in(2), max, self.random.once_in(2))
                }
                13 if !in_list_of_one => {
                    Sieve::ColumnValue(self.family(), self.qualifier(), self.compare(), self.value())
                }
                _ => continue,
            };
        }
    }

    fn ranges(&mut self) -> Sieve {
        let count = 1 + self.random.below(2);
        let mut ranges = Vec::new();
        for _ in 0..count {
            let (one, other) = (self.row(), self.row());
            let (start, stop) = (one.min(other), one.max(other));
            let stop_too = start == stop || self.random.once_in(2);
            ranges.push((start, start == stop || self.random.once_in(2), stop, stop_too));
        }
        Sieve::Ranges(ranges)
    }

    fn single(&mut self) -> Sieve {
        Sieve::Single(Single {
            column: (self.family(), self.qualifier()),
            compare: self.compare(),
            value: self.value(),
            if_missing: self.random.once_in(2),
            latest_only: !self.random.once_in(3),
            exclude: self.random.once_in(4),
        })
    }

    fn sieve(&mut self, is_get: bool) -> Sieve {
        match self.random.below(16) {
            0 => Sieve::KeyOnly(self.random.once_in(2)),
            1 => Sieve::FirstKeyOnly,
            2 if !is_get => Sieve::Page(1 + self.random.below(4)),
            2 => Sieve::ColumnCount(1 + self.random.below(4) as u32),
            3 => Sieve::Pagination(1 + self.random.below(3) as u32, self.random.below(3) as u32),
            4 | 5 => self.single(),
            6 => Sieve::Dependent(self.family(), self.qualifier(), self.random.once_in(2)),
            7 => {
                let inner = if self.random.once_in(2) {
                    Sieve::Value(self.compare(), self.value())
                } else {
                    Sieve::Qualifier(self.compare(), self.qualifier())
                };
                Sieve::Skip(Box::new(inner))
            }
            8 | 9 => {
                let mut all: Vec<Sieve> =
                    (0..1 + self.random.below(3)).map(|_| self.plain_sieve(false)).collect();
                match self.random.below(4) {
                    0 => {
                        // SingleColumnValueFilter would not get the cells that another filter skips. So only filters
                        // that skip none are kept beside it.
                        all.retain(|sieve| matches!(sieve, Sieve::Value(..) | Sieve::Qualifier(..)));
                        all.insert(0, self.single());
                    }
                    1 => all.push(Sieve::KeyOnly(self.random.once_in(2))),
                    _ => {}
                }
                Sieve::All(all)
            }
            10 | 11 => Sieve::One((0..1 + self.random.below(3)).map(|_| self.plain_sieve(true)).collect()),
            _ => self.plain_sieve(false),
        }
    }

    fn query(&mut self, is_get: bool) -> Query {
        let raw = self.random.once_in(8);
        let mut families = Vec::new();
        if !self.random.once_in(3) {
            for name in self.families.iter().map(|family| family.name).collect::<Vec<_>>() {
                if self.random.once_in(3) {
                    continue;
                }
                let qualifiers = (!raw && self.random.once_in(2)).then(|| {
                    let mut of: Vec<&str> = (0..1 + self.random.below(3)).map(|_| self.qualifier()).collect();
                    of.sort_unstable();
                    of.dedup();
                    of
                });
                families.push(FamilyRequest { family: name, qualifiers, range: self.maybe_range(6) });
            }
        }
        Query {
            families,
            versions: self.random.pick(&[1, 1, 2, 3, 10]),
            range: self.maybe_range(4),
            sieve: (!raw && self.random.once_in(2)).then(|| self.sieve(is_get)),
            store_limit: self.random.once_in(8).then(|| 1 + self.random.below(4) as u32),
            store_offset: if self.random.once_in(8) { self.random.below(3) as u32 } else { 0 },
            raw,
            on_demand: self.random.once_in(2),
        }
    }

    fn walk(&mut self) -> Walk {
        let (one, other) = (self.row(), self.row());
        let reversed = self.random.once_in(4);
        let (mut first, mut last) = (one.min(other), one.max(other));
        if self.random.once_in(2) {
            first = "";
        }
        if self.random.once_in(2) {
            last = "";
        }
        let (start, stop) = if reversed { (last, first) } else { (first, last) };
        let mut query = self.query(false);
        // In a reversed scan HBase's list with MUST_PASS_ONE compares hints as if columns were reversed, too.
        if reversed && matches!(&query.sieve, Some(Sieve::One(of)) if of.iter().any(Sieve::names_columns)) {
            query.sieve = None;
        }
        let judges_rows = query.sieve.as_ref().is_some_and(Sieve::judges_rows);
        Walk {
            start: (start, !self.random.once_in(3)),
            stop: (stop, self.random.once_in(3)),
            reversed,
            batch: (!judges_rows && self.random.once_in(6)).then(|| 1 + self.random.below(4) as u32),
            bytes: self.random.once_in(6).then(|| 1 + self.random.below(600)),
            query: Query { on_demand: query.on_demand && !reversed, ..query },
        }
    }

    /// Draws the next operation.
    pub fn draw(&mut self) -> Operation {
        let mut dice = self.random.below(100);
        // Memory keeps a row's markers while a file may have the row. So with a queue, most flushes, file compactions
        // and crashes become in-memory compactions.
        if self.queue && (80..=98).contains(&dice) && !(91..=95).contains(&dice) && !self.random.once_in(5) {
            dice = 84;
        }
        if self.hot {
            match self.random.below(40) {
                0..=4 => return Operation::Shrink(100),
                5 | 6 => return Operation::Relieve,
                _ => {}
            }
        }
        if !self.done.is_empty() && self.random.once_in(20) {
            return Operation::Batch(vec![self.late()]);
        }
        match dice {
            0..=27 => Operation::Batch(self.plain_changes()),
            28..=34 => {
                let row = self.row();
                Operation::Row(self.changes_of(row))
            }
            35..=39 => {
                let row = self.row();
                let test = if self.random.once_in(4) {
                    Test::Sieve(self.sieve(true))
                } else {
                    let value = (!self.random.once_in(4)).then(|| self.value());
                    Test::Value(self.family(), self.qualifier(), self.compare(), value)
                };
                let check = Check { row, test, range: self.maybe_range(6) };
                Operation::CheckThen(check, self.changes_of(row))
            }
            40..=59 => {
                let row = self.row();
                Operation::Get(row, self.query(true))
            }
            60..=76 => Operation::Scan(self.walk()),
            77 => Operation::Hold(self.random.below(2) as usize, self.walk(), self.random.below(3) as usize),
            78 | 79 => Operation::Resume(self.random.below(2) as usize, 1 + self.random.below(8) as usize),
            80..=83 if self.random.once_in(2) => Operation::Relieve,
            80..=83 => {
                let one = self.random.once_in(4).then(|| self.family());
                Operation::Flush(one)
            }
            84..=87 => Operation::Shrink(self.random.below(3) as u32 * 50),
            88 | 89 => Operation::Minor,
            90 => Operation::Major,
            91..=95 => {
                let by = self.random.pick(&[1, 5, 40, 150, 700]);
                self.now += by as i64;
                Operation::Pass(by)
            }
            96 => {
                let memory = [Memory::Plain, Memory::Basic, Memory::Eager, Memory::Adaptive];
                Operation::Tune(self.random.pick(&memory))
            }
            97 => {
                if self.random.once_in(2) {
                    Operation::Kill
                } else {
                    Operation::Crash
                }
            }
            98 if self.random.once_in(2) => Operation::Reopen,
            98 => {
                let names: Vec<_> =
                    self.families.iter().map(|family| (family.name, family.new_versions)).collect();
                let families: Vec<Family> = names
                    .into_iter()
                    // NEW_VERSION_BEHAVIOR cannot change.
                    .map(|(name, new_versions)| Family { new_versions, ..family(&mut self.random, name) })
                    .collect();
                self.families.clone_from(&families);
                Operation::Alter(families)
            }
            _ => Operation::Pass(1),
        }
    }
}

impl Sieve {
    /// Whether the filter returns seek hints.
    fn names_columns(&self) -> bool {
        use Sieve::{ColumnPrefix, ColumnPrefixes, ColumnRange, Timestamps};
        matches!(self, ColumnPrefix(_) | ColumnPrefixes(_) | ColumnRange(..) | Timestamps(..))
    }

    /// Whether the filter judges whole rows, so that partial rows cannot be returned.
    pub fn judges_rows(&self) -> bool {
        match self {
            Sieve::Page(_) | Sieve::Single(_) | Sieve::Dependent(..) | Sieve::Skip(_) => true,
            Sieve::All(of) | Sieve::One(of) => of.iter().any(Sieve::judges_rows),
            _ => false,
        }
    }
}
