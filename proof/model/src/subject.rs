//! Applies a stream of operations to a region and to the reference, and compares them after each operation.
//!
//! 1. A read must return the same cells from both, and a write must have the same result.
//! 2. A new file must have exactly the cells that the rules of flushes and compactions keep of its sources. Memory may
//!    drop the cells that those rules drop, and no others. The reference then drops what the region has dropped.
//! 3. After a crash the region must have everything that the log or a file had.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::Cache;
use cell::tags::write_tag;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, TagType, Timestamp};
use env::{WallTime, World};
use filter::{ColumnRange, Comparable, CompareOperator, Filter, RowRange};
use proto::region_info::RegionId;
use proto::{FamilyDescriptor, RegionInfo, TableDescriptor, TableName};
use region::{
    CellPlace, CellSink, CompactionPolicy, CompactionRequest, Durability, FamilyQuery, FlushReason, Level,
    Limits, Mutation, MutationKind, Opening, Pending, ReadMode, Region, RegionOptions, RegionScanner, Scan,
    StripeOptions, TimeRange,
};
use storage::{FileName, Files};

use crate::reference::{Given, Place, Reference, Stored, check_holds};
use crate::rewrite::{Kind, kept};
use crate::stream::{
    Act, BEGIN, Change, Check, Compare, Family, FamilyRequest, Keep, Memory, Operation, Query, Setup, Sieve,
    Test, Value, Walk, What,
};

/// A difference between the region and the reference.
#[derive(Debug, thiserror::Error)]
#[error("act {at}, {act:?}: {what}")]
pub struct Difference {
    /// Index of the operation that showed the difference, from 0.
    pub at: usize,
    /// The operation that showed the difference; `None` for the final comparison.
    pub act: Option<Operation>,
    /// What differs.
    pub what: String,
}

/// Numbers of compared things.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    /// Number of operations.
    pub acts: u64,
    /// Number of cells returned to readers.
    pub cells: u64,
    /// Number of flushes and compactions whose output was compared.
    pub rewrites: u64,
    /// Number of crashes.
    pub deaths: u64,
    /// Number of markers that memory dropped.
    pub swept: u64,
    /// Number of dropped markers that came back for a put.
    pub returned: u64,
    /// Number of cells that a flush retained in memory.
    pub stayed: u64,
}

impl Compared {
    /// Adds the counts of another stream.
    pub fn add(&mut self, other: Compared) {
        self.acts += other.acts;
        self.cells += other.cells;
        self.rewrites += other.rewrites;
        self.deaths += other.deaths;
        self.swept += other.swept;
        self.stayed += other.stayed;
        self.returned += other.returned;
    }
}

/// Runs `stream` on a region of `setup` and compares after each operation. Returns the counts, or the first difference.
pub fn run(setup: &Setup, stream: &[Operation]) -> Result<Compared, Box<Difference>> {
    let differs = |at, act, what| Box::new(Difference { at, act, what });
    let mut subject = Subject::new(setup).map_err(|what| differs(0, None, what))?;
    for (at, act) in stream.iter().enumerate() {
        subject.compared.acts += 1;
        subject.step(act).map_err(|what| differs(at, Some(act.clone()), what))?;
    }
    subject.look_at_everything().map_err(|what| differs(stream.len(), None, what))?;
    Ok(subject.compared)
}

type Outcome<T = ()> = Result<T, String>;

/// The cells of each file, or of memory (`None`), with their sequence ids.
type Lying = BTreeMap<Option<String>, Vec<(u64, Given)>>;

/// New files and their cells.
type Made = Vec<(String, Vec<(u64, Given)>)>;

/// An open scan, and the rows that it must still return.
struct Held {
    scanner: RegionScanner<'static>,
    walk: Walk,
    left: std::vec::IntoIter<Vec<Given>>,
    /// The cells of the current row that were returned so far.
    part: Vec<Given>,
    done: bool,
}

struct Subject<'a> {
    setup: &'a Setup,
    place: storage::Memory,
    world: World,
    log: Arc<wal::Log>,
    region: Arc<Region>,
    options: RegionOptions,
    reference: Reference,
    /// The region's last sequence id.
    sequence: u64,
    pending: Option<Pending>,
    held: [Option<Held>; 2],
    deaths: u64,
    /// For each family, whether its last flush retained rows in memory, or whether its memory came from the log beside
    /// files. Then compactions must keep markers.
    has_young: Vec<bool>,
    compared: Compared,
}

fn level(memory: Memory) -> Level {
    match memory {
        Memory::Plain => Level::None,
        Memory::Basic => Level::Basic,
        Memory::Eager => Level::Eager,
        Memory::Adaptive => Level::Adaptive,
    }
}

fn options_of(setup: &Setup, pool: &RegionOptions) -> RegionOptions {
    let families = setup.families.len() as f64;
    RegionOptions {
        in_memory_compaction: level(setup.memory),
        in_memory_flush_factor: setup.seal_bytes as f64 * families / pool.flush_size as f64,
        purge_deletes_after: setup.purge_deletes_after,
        compaction_files_min: 2,
        flush_keeps: if setup.seed.is_multiple_of(2) { 1.0 } else { 0.25 },
        flush_keeps_gain_min: 0.0,
        // The reference does not know which expired files a policy drops unread; the policy's own tests cover that.
        delete_expired_files: false,
        compaction_policy: if setup.stripes { CompactionPolicy::Stripe } else { CompactionPolicy::Exploring },
        stripe: StripeOptions {
            initial_count: 1 + (setup.seed % 4) as usize,
            split_size: Some([1, 2_000, 3_000, 1 << 20][(setup.seed / 4 % 4) as usize]),
            flush_to_level0: (setup.seed / 16).is_multiple_of(3),
            level0_files_min: 1 + (setup.seed / 64 % 3) as usize,
            files_min: Some(2),
            ..StripeOptions::default()
        },
        ..pool.clone()
    }
}

fn table_of(families: &[Family]) -> Arc<TableDescriptor> {
    let mut table = TableDescriptor::new(TableName::new("default", "t").expect("a name"));
    for family in families {
        let keep = match family.keep {
            Keep::Nothing => "FALSE",
            Keep::Deleted => "TRUE",
            Keep::UntilTtl => "TTL",
        };
        let mut of = FamilyDescriptor::new(family.name)
            .expect("a name")
            .with("VERSIONS", family.versions)
            .with("MIN_VERSIONS", family.min_versions)
            .with("KEEP_DELETED_CELLS", keep)
            .with("NEW_VERSION_BEHAVIOR", family.new_versions)
            .with("DATA_BLOCK_ENCODING", family.encoding)
            .with("BLOOMFILTER", family.bloom)
            .with("COMPRESSION", family.compression)
            .with("BLOCKSIZE", family.block_bytes);
        if let Some(ttl) = family.ttl {
            of = of.with("TTL", ttl);
        }
        table.set_family(of);
    }
    Arc::new(table)
}

fn log_options() -> wal::Options {
    wal::Options {
        file_bytes_max: 1 << 16,
        // No timer writes the log: its clock would not follow from the seed.
        idle_write: Duration::from_secs(3_600),
        full_retry: Duration::ZERO,
        ..wal::Options::default()
    }
}

thread_local! {
    /// The chunk pool of a thread, shared by its streams, because allocating chunks would take most of the time.
    static OPTIONS: RegionOptions = RegionOptions {
        memory: memstore_pool(),
        ..RegionOptions::default()
    };
}

fn memstore_pool() -> Arc<region::Pool> {
    region::Pool::new(1 << 16, 16)
}

/// Maximum number of rows of a step of a scan.
const ROWS_AT_ONCE: usize = 3;

/// A sink that records cells, and their number at the end of each row.
#[derive(Default)]
struct Sink(Vec<Given>, Vec<usize>);

impl CellSink for Sink {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.push(given(cell));
    }

    fn row_ends(&mut self) {
        self.1.push(self.0.len());
    }
}

fn given(cell: Cell<'_>) -> Given {
    Given {
        row: cell.row().to_vec(),
        family: cell.family().to_vec(),
        qualifier: cell.qualifier().to_vec(),
        timestamp: cell.timestamp().0,
        kind: cell.key().cell_type().map_or(0, CellType::code),
        value: cell.value().to_vec(),
        tags: cell.tags().bytes().to_vec(),
    }
}

fn show(cells: &[Given]) -> String {
    let one = |cell: &Given| {
        format!(
            "\n    {}/{}:{}/{}/{} = '{}'{}",
            cell.row.escape_ascii(),
            cell.family.escape_ascii(),
            cell.qualifier.escape_ascii(),
            cell.timestamp,
            CellType::from_code(cell.kind).map_or_else(|| cell.kind.to_string(), |kind| format!("{kind:?}")),
            cell.value.escape_ascii(),
            if cell.tags.is_empty() { String::new() } else { format!(" tags {:?}", cell.tags) },
        )
    };
    if cells.is_empty() { "\n    nothing".to_owned() } else { cells.iter().map(one).collect() }
}

fn same(what: &str, expected: &[Given], found: &[Given]) -> Outcome {
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected{}\n  found{}", show(expected), show(found)))
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn range_of((from, until): (i64, i64)) -> TimeRange {
    TimeRange { from: Timestamp(from), until: Timestamp(until) }
}

fn scan_of(query: &Query) -> Scan {
    let family = |asked: &FamilyRequest| FamilyQuery {
        family: bytes(asked.family),
        qualifiers: asked.qualifiers.as_ref().map(|all| all.iter().map(|name| bytes(name)).collect()),
        time_range: asked.range.map(range_of),
    };
    Scan {
        families: query.families.iter().map(family).collect(),
        filter: query.sieve.as_ref().map(filter_of),
        time_range: query.range.map_or(TimeRange::ALL, range_of),
        max_versions: query.versions,
        store_limit: query.store_limit,
        store_offset: query.store_offset,
        raw: query.raw,
        load_families_on_demand: Some(query.on_demand),
        ..Scan::default()
    }
}

fn scan_of_walk(walk: &Walk) -> Scan {
    Scan {
        start: bytes(walk.start.0),
        include_start: walk.start.1,
        stop: bytes(walk.stop.0),
        include_stop: walk.stop.1,
        reversed: walk.reversed,
        batch: walk.batch,
        ..scan_of(&walk.query)
    }
}

fn operator(compare: Compare) -> CompareOperator {
    match compare {
        Compare::Less => CompareOperator::Less,
        Compare::LessOrEqual => CompareOperator::LessOrEqual,
        Compare::Equal => CompareOperator::Equal,
        Compare::NotEqual => CompareOperator::NotEqual,
        Compare::GreaterOrEqual => CompareOperator::GreaterOrEqual,
        Compare::Greater => CompareOperator::Greater,
    }
}

/// Returns the filter of a sieve.
pub fn filter_of(sieve: &Sieve) -> Filter {
    let text = |text: &'static str| Comparable::Binary(bytes(text));
    let value = |value: &Value| Comparable::Binary(value.bytes().into());
    match sieve {
        Sieve::Row(compare, with) => Filter::row(operator(*compare), text(with)),
        Sieve::Prefix(prefix) => Filter::prefix(bytes(prefix)),
        Sieve::Stop(row) => Filter::inclusive_stop(bytes(row)),
        Sieve::Ranges(ranges) => {
            let range =
                |&(start, include_start, stop, include_stop): &(&'static str, bool, &'static str, bool)| {
                    RowRange { start: bytes(start), include_start, stop: bytes(stop), include_stop }
                };
            Filter::multi_row_range(ranges.iter().map(range).collect())
                .expect("ranges that begin before they end")
        }
        Sieve::Fuzzy(keys) => {
            let key = |key: &&'static str| (bytes(key), key.bytes().map(|byte| byte != b'?').collect());
            Filter::fuzzy_row(keys.iter().map(key).collect()).expect("masks as long as keys")
        }
        Sieve::Family(compare, with) => Filter::family(operator(*compare), text(with)),
        Sieve::Qualifier(compare, with) => Filter::qualifier(operator(*compare), text(with)),
        Sieve::Value(compare, with) => Filter::value(operator(*compare), value(with)),
        Sieve::ColumnPrefix(prefix) => Filter::column_prefix(bytes(prefix)),
        Sieve::ColumnPrefixes(prefixes) => {
            Filter::multiple_column_prefix(prefixes.iter().map(|prefix| bytes(prefix)).collect())
        }
        Sieve::ColumnRange(min, include_min, max, include_max) => Filter::column_range(ColumnRange {
            min: min.map(bytes),
            include_min: *include_min,
            max: max.map(bytes),
            include_max: *include_max,
        }),
        Sieve::Timestamps(stamps, hints) => {
            Filter::timestamps(stamps.iter().map(|stamp| Timestamp(*stamp)).collect(), *hints)
        }
        Sieve::ColumnValue(family, name, compare, with) => {
            Filter::column_value(bytes(family), bytes(name), operator(*compare), value(with))
        }
        Sieve::KeyOnly(length) => Filter::key_only(*length),
        Sieve::FirstKeyOnly => Filter::first_key_only(),
        Sieve::Page(rows) => Filter::page(*rows),
        Sieve::Pagination(limit, offset) => Filter::column_pagination(*limit, *offset, None),
        Sieve::ColumnCount(limit) => Filter::column_count_get(*limit),
        Sieve::Single(single) => Filter::single_column_value(
            bytes(single.column.0),
            bytes(single.column.1),
            operator(single.compare),
            value(&single.value),
            single.if_missing,
            single.latest_only,
            single.exclude,
        ),
        Sieve::Dependent(family, name, drop) => {
            Filter::dependent_column(bytes(family), bytes(name), *drop, None)
        }
        Sieve::Skip(inner) => Filter::skip(filter_of(inner)),
        Sieve::All(of) => Filter::list(filter::Operator::MustPassAll, of.iter().map(filter_of).collect()),
        Sieve::One(of) => Filter::list(filter::Operator::MustPassOne, of.iter().map(filter_of).collect()),
    }
}

fn cell_type(what: What) -> CellType {
    match what {
        What::Value => CellType::Put,
        What::Version => CellType::Delete,
        What::Column => CellType::DeleteColumn,
        What::Family => CellType::DeleteFamily,
        What::FamilyVersion => CellType::DeleteFamilyVersion,
    }
}

fn ttl_tag(ttl: i64) -> Vec<u8> {
    let mut tags = Vec::new();
    write_tag(&mut tags, TagType::Ttl as u8, &ttl.to_be_bytes());
    tags
}

fn mutation_of(change: &Change) -> Mutation {
    let mut block = Vec::new();
    for part in &change.parts {
        let tags = part.ttl.map(ttl_tag).unwrap_or_default();
        let parts = CellParts {
            row: change.row.as_bytes(),
            family: part.family.as_bytes(),
            qualifier: part.qualifier.as_bytes(),
            timestamp: part.at.map_or(Timestamp::LATEST, Timestamp),
            cell_type: cell_type(part.what),
            value: &if part.what == What::Value { part.value.bytes() } else { Vec::new() },
            tags: &tags,
        };
        let bytes = parts.to_vec().expect("within limits");
        cell::block::write_with_tags(&mut block, Cell::parse(&bytes, SequenceId::ZERO).expect("whole"));
    }
    Mutation {
        kind: match change.act {
            Act::Put => MutationKind::Put,
            Act::Delete => MutationKind::Delete,
            Act::Increment => MutationKind::Increment,
            Act::Append => MutationKind::Append,
        },
        row: bytes(change.row),
        cells: CellBlock::parse(Bytes::from(block)).expect("whole"),
        durability: if change.skip_log { Durability::Skip } else { Durability::UseDefault },
        time_range: change.range.map(range_of),
        return_results: true,
        nonce: None,
    }
}

/// A cell of a write that has no sequence id yet.
#[derive(Clone, Debug)]
struct New {
    row: &'static str,
    family: usize,
    qualifier: &'static str,
    timestamp: i64,
    kind: CellType,
    value: Vec<u8>,
    tags: Vec<u8>,
    ttl: Option<i64>,
    /// Whether the column was empty before. The answer then lacks the time to live.
    is_first: bool,
}

impl New {
    fn key(&self) -> (&str, usize, &str, i64, u8) {
        (self.row, self.family, self.qualifier, self.timestamp, self.kind.code())
    }
}

impl<'a> Subject<'a> {
    fn new(setup: &'a Setup) -> Outcome<Subject<'a>> {
        let world = World::simulated(setup.seed, WallTime(BEGIN));
        let place = storage::Memory::new();
        let options = OPTIONS.with(|shared| options_of(setup, shared));
        let (log, region) = open(&place, &world, &options, &setup.families)?;
        Ok(Subject {
            setup,
            place,
            world,
            log,
            sequence: region.open_sequence().0,
            region,
            options,
            reference: Reference::new(setup.families.clone()),
            pending: None,
            held: [None, None],
            deaths: 0,
            has_young: vec![false; setup.families.len()],
            compared: Compared::default(),
        })
    }

    fn now(&self) -> i64 {
        self.world.now().0
    }

    fn step(&mut self, act: &Operation) -> Outcome {
        match act {
            Operation::Batch(changes) => self.batch(changes),
            Operation::Row(changes) => self.row(changes),
            Operation::CheckThen(check, changes) => self.check_then(check, changes),
            Operation::Get(row, query) => self.get(row, query),
            Operation::Scan(walk) => self.scan(walk),
            Operation::Hold(slot, walk, steps) => self.hold(*slot, walk, *steps),
            Operation::Resume(slot, steps) => self.resume(*slot, *steps),
            Operation::Flush(family) => self.flush(*family),
            Operation::Relieve => self.relieve(),
            Operation::Shrink(pressure) => self.shrink(f64::from(*pressure) / 100.0),
            Operation::Minor => self.compact(false),
            Operation::Major => self.compact(true),
            Operation::Pass(by) => {
                self.world.advance(Duration::from_millis(*by));
                Ok(())
            }
            Operation::Tune(memory) => {
                self.options.in_memory_compaction = level(*memory);
                self.region.tune(&self.options);
                Ok(())
            }
            Operation::Kill => self.die(false),
            Operation::Crash => self.die(true),
            Operation::Reopen => self.reopen(None),
            Operation::Alter(families) => self.reopen(Some(families)),
        }
    }

    // Writes.

    fn settle(&mut self) -> Outcome {
        match self.pending.take() {
            Some(pending) => pending.wait_blocking().map_err(|error| format!("waiting failed: {error}")),
            None => Ok(()),
        }
    }

    /// Returns the cells of a put or delete.
    fn prepared(&self, change: &Change, now: i64) -> Vec<New> {
        let mut taken: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        let mut cells = Vec::new();
        for part in &change.parts {
            let family = self.reference.family(part.family);
            let mut timestamp = part.at.unwrap_or(now);
            if part.at.is_none() && part.what == What::Version {
                let skip = taken.entry((family, part.qualifier)).or_default();
                let query = Query {
                    families: vec![FamilyRequest {
                        family: part.family,
                        qualifiers: Some(vec![part.qualifier]),
                        range: None,
                    }],
                    versions: *skip as u32 + 1,
                    ..Query::all()
                };
                let found = self.reference.get(change.row, &query, now);
                if let Some(cell) = found.get(*skip) {
                    timestamp = cell.timestamp;
                }
                *skip += 1;
            }
            cells.push(New {
                row: change.row,
                family,
                qualifier: part.qualifier,
                timestamp,
                kind: cell_type(part.what),
                value: if part.what == What::Value { part.value.bytes() } else { Vec::new() },
                tags: part.ttl.map(ttl_tag).unwrap_or_default(),
                ttl: part.ttl,
                is_first: false,
            });
        }
        cells
    }

    /// Returns the cells of an increment or append; `None` when it is refused.
    fn changed(&self, change: &Change, now: i64) -> Option<Vec<New>> {
        let mut deltas: Vec<_> = change.parts.iter().collect();
        deltas.sort_by_key(|part| (part.family, part.qualifier));
        let mut cells = Vec::new();
        for part in deltas {
            let asked =
                FamilyRequest { family: part.family, qualifiers: Some(vec![part.qualifier]), range: None };
            let query = Query { families: vec![asked], range: change.range, ..Query::all() };
            let found = self.reference.get(change.row, &query, now);
            let old = found.first();
            let timestamp = old.map_or(part.at.unwrap_or(now), |old| now.max(old.timestamp + 1));
            let mut value = old.map(|old| old.value.clone()).unwrap_or_default();
            match (change.act, part.value) {
                (Act::Increment, Value::Long(delta)) => {
                    let before = match old {
                        Some(_) => i64::from_be_bytes(value.try_into().ok()?),
                        None => 0,
                    };
                    value = before.wrapping_add(delta).to_be_bytes().to_vec();
                }
                _ => value.extend(part.value.bytes()),
            }
            // The only tag here is the time to live; a new one replaces the old one.
            let mut ttl = part.ttl;
            if ttl.is_none()
                && let Some(old) = old
                && old.tags.len() == 11
            {
                ttl = old.tags[3..].try_into().ok().map(i64::from_be_bytes);
            }
            cells.push(New {
                row: change.row,
                family: self.reference.family(part.family),
                qualifier: part.qualifier,
                timestamp,
                kind: CellType::Put,
                value,
                tags: ttl.map(ttl_tag).unwrap_or_default(),
                ttl,
                is_first: old.is_none(),
            });
        }
        Some(cells)
    }

    /// Inserts cells under the next sequence id; of cells with equal keys only the last one.
    fn insert(&mut self, cells: Vec<New>, logged: &[bool]) -> Outcome {
        if cells.is_empty() {
            return Ok(());
        }
        self.sequence += 1;
        for (index, new) in cells.iter().enumerate() {
            if cells[index + 1..].iter().any(|later| later.key() == new.key()) {
                continue;
            }
            self.reference.insert(
                new.row,
                new.family,
                Stored {
                    qualifier: new.qualifier,
                    timestamp: new.timestamp,
                    kind: new.kind,
                    sequence: self.sequence,
                    value: Rc::from(&new.value[..]),
                    tags: Rc::from(&new.tags[..]),
                    ttl: new.ttl,
                    logged: logged[index],
                    place: Place::Memory,
                },
            );
        }
        (0..self.reference.families.len()).try_for_each(|family| self.take_returned(family))
    }

    /// Adds to the reference the markers that memory had dropped and restored beside a put. Later reads show whether
    /// they suffice.
    fn take_returned(&mut self, family: usize) -> Outcome {
        let remembered = |cell: &Stored| matches!(cell.place, Place::Swept(_));
        let swept: Vec<(&'static str, Stored)> = self
            .reference
            .of_family(family)
            .flat_map(|(row, cells)| {
                cells.iter().filter(|cell| remembered(cell)).map(move |cell| (row, cell.clone()))
            })
            .collect();
        if swept.is_empty() {
            return Ok(());
        }
        let known = self.expected_at(family, |place| *place == Place::Memory);
        let memory = self.lying(family)?.remove(&None).unwrap_or_default();
        let name = self.reference.families[family].name;
        for (sequence, cell) in memory.iter().filter(|cell| !known.contains(cell)) {
            let is_it = |(row, marker): &&(&'static str, Stored)| given_of(row, name, marker).1 == *cell;
            let has_put = known.iter().any(|(of, put)| {
                (of, &put.row) == (sequence, &cell.row)
                    && put.kind == CellType::Put.code()
                    && put.timestamp <= cell.timestamp
            });
            let Some((row, marker)) = swept.iter().find(is_it).filter(|_| has_put) else {
                return Err(format!("memory has what was not there: {}", show(std::slice::from_ref(cell))));
            };
            self.compared.returned += 1;
            // The log has the put alone; a replay restores the marker as before.
            let back = Stored { sequence: *sequence, logged: false, place: Place::Memory, ..marker.clone() };
            self.reference.insert(row, family, back);
        }
        Ok(())
    }

    fn batch(&mut self, changes: &[Change]) -> Outcome {
        let mutations: Vec<Mutation> = changes.iter().map(mutation_of).collect();
        let applied =
            self.region.apply(&mutations, ReadMode::Any).map_err(|error| format!("refused: {error}"))?;
        if let Some(refused) = applied.outcomes.into_iter().find_map(Result::err) {
            return Err(format!("refused: {refused}"));
        }
        let now = self.now();
        let (mut cells, mut logged) = (Vec::new(), Vec::new());
        for change in changes {
            let prepared = self.prepared(change, now);
            // Mutations of one row are logged together, even if only some ask for it.
            let is_logged = changes.iter().any(|other| other.row == change.row && !other.skip_log);
            logged.extend(vec![is_logged; prepared.len()]);
            cells.extend(prepared);
        }
        // All mutations of a batch have one sequence id.
        self.insert(cells, &logged)?;
        self.pending = Some(applied.pending);
        Ok(())
    }

    /// Returns the cells of an atomic mutation, its answer, and whether it is logged; `None` when it is refused.
    fn as_one(&self, changes: &[Change], put_now: i64) -> Option<(Vec<New>, Vec<Given>, bool)> {
        let now = self.now();
        let (mut cells, mut answer) = (Vec::new(), Vec::new());
        for change in changes {
            match change.act {
                Act::Put => cells.extend(self.prepared(change, put_now)),
                Act::Delete => cells.extend(self.prepared(change, now)),
                Act::Increment | Act::Append => {
                    let changed = self.changed(change, now)?;
                    answer.extend(changed.iter().map(|new| Given {
                        row: new.row.as_bytes().to_vec(),
                        family: self.reference.families[new.family].name.as_bytes().to_vec(),
                        qualifier: new.qualifier.as_bytes().to_vec(),
                        timestamp: new.timestamp,
                        kind: new.kind.code(),
                        value: new.value.clone(),
                        tags: if new.is_first { Vec::new() } else { new.tags.clone() },
                    }));
                    cells.extend(changed);
                }
            }
        }
        // The strictest durability applies to all.
        let logged = changes.iter().any(|change| !change.skip_log);
        Some((cells, answer, logged))
    }

    fn written_as_one(
        &mut self,
        expected: Option<(Vec<New>, Vec<Given>, bool)>,
        found: region::Result<(CellBlock, Pending)>,
    ) -> Outcome {
        match (expected, found) {
            (Some((cells, answer, logged)), Ok((block, pending))) => {
                let found: Vec<Given> = block.cells().map(given).collect();
                same("answer", &answer, &found)?;
                let logged = vec![logged; cells.len()];
                self.insert(cells, &logged)?;
                self.pending = Some(pending);
                Ok(())
            }
            (None, Err(region::Error::NotALong(_))) => Ok(()),
            (None, Ok(_)) => Err("an increment of what is no number was taken".to_owned()),
            (_, Err(error)) => Err(format!("refused: {error}")),
        }
    }

    fn row(&mut self, changes: &[Change]) -> Outcome {
        let mutations: Vec<Mutation> = changes.iter().map(mutation_of).collect();
        let expected = self.as_one(changes, self.now());
        let found = self.region.mutate_row(&mutations, ReadMode::Any);
        self.written_as_one(expected, found.map(|changed| (changed.cells, changed.pending)))
    }

    fn check_then(&mut self, check: &Check, changes: &[Change]) -> Outcome {
        let mutations: Vec<Mutation> = changes.iter().map(mutation_of).collect();
        let now = self.now();
        let (query, test) = match &check.test {
            Test::Value(family, name, compare, value) => {
                let asked = FamilyRequest { family, qualifiers: Some(vec![name]), range: None };
                let test = region::Test::Value {
                    family: bytes(family),
                    qualifier: bytes(name),
                    operator: operator(*compare),
                    comparable: value
                        .map_or(Comparable::Null, |value| Comparable::Binary(value.bytes().into())),
                };
                (Query { families: vec![asked], range: check.range, ..Query::all() }, test)
            }
            Test::Sieve(sieve) => (
                Query { sieve: Some(sieve.clone()), range: check.range, ..Query::all() },
                region::Test::Filter(filter_of(sieve)),
            ),
        };
        let found = self.reference.get(check.row, &query, now);
        let holds = match &check.test {
            Test::Value(_, _, compare, value) => {
                check_holds(*compare, *value, found.first().map(|cell| &cell.value[..]))
            }
            Test::Sieve(_) => !found.is_empty(),
        };
        let newest = found.first().map_or(now, |cell| cell.timestamp.max(now));
        let expected = self.as_one(changes, newest);
        let check = region::Check { row: bytes(check.row), test, time_range: check.range.map(range_of) };
        let found = self.region.check_and_mutate(&check, &mutations, ReadMode::Any);
        match found {
            Ok(checked) if checked.passed != holds => {
                Err(format!("the check: expected {holds}, found {}", checked.passed))
            }
            Ok(checked) if !holds => {
                self.pending = Some(checked.pending);
                Ok(())
            }
            found if holds => {
                self.written_as_one(expected, found.map(|checked| (checked.cells, checked.pending)))
            }
            Err(error) => Err(format!("refused: {error}")),
            Ok(_) => unreachable!("what was checked was said"),
        }
    }

    // Reads.

    fn get(&mut self, row: &'static str, query: &Query) -> Outcome {
        self.settle()?;
        let scan = Scan { start: bytes(row), stop: bytes(row), include_stop: true, ..scan_of(query) };
        let mut sink = Sink::default();
        self.region.get(&scan, ReadMode::Any, &mut sink).map_err(|error| format!("get failed: {error}"))?;
        self.compared.cells += sink.0.len() as u64;
        same("get", &self.reference.get(row, query, self.now()), &sink.0)
    }

    fn open_scan(&mut self, walk: &Walk) -> Outcome<Held> {
        self.settle()?;
        let scanner =
            self.region.scanner(scan_of_walk(walk)).map_err(|error| format!("scan refused: {error}"))?;
        let left = self.reference.scan(walk, self.now()).into_iter();
        Ok(Held { scanner, walk: walk.clone(), left, part: Vec::new(), done: false })
    }

    fn scan(&mut self, walk: &Walk) -> Outcome {
        let mut held = self.open_scan(walk)?;
        while !held.done {
            self.compared.cells += held.step()?;
        }
        Ok(())
    }

    fn hold(&mut self, slot: usize, walk: &Walk, steps: usize) -> Outcome {
        let mut held = self.open_scan(walk)?;
        // The first step reads the clock, so the expectation is computed now.
        for _ in 0..steps + 1 {
            if !held.done {
                self.compared.cells += held.step()?;
            }
        }
        self.held[slot] = Some(held);
        Ok(())
    }

    fn resume(&mut self, slot: usize, steps: usize) -> Outcome {
        let Some(held) = &mut self.held[slot] else { return Ok(()) };
        for _ in 0..steps {
            if !held.done {
                self.compared.cells += held.step()?;
            }
        }
        Ok(())
    }

    // Operations of operators.

    /// Returns the cells of a family by place.
    fn lying(&self, family: usize) -> Outcome<Lying> {
        let name = self.reference.families[family].name;
        let mut lying = Lying::new();
        let visited = self.region.visit_stored(name.as_bytes(), &mut |place, cell| {
            let file = if let CellPlace::File(name) = place { Some(name.to_owned()) } else { None };
            let of = lying.entry(file).or_default();
            of.push((cell.sequence().0, given(cell)));
        });
        visited.map_err(|error| format!("looking at what is stored: {error}"))?;
        if let Some(memory) = lying.get_mut(&None) {
            memory.sort_by(|left, right| order_of(left).cmp(&order_of(right)));
        }
        Ok(lying)
    }

    fn files(&self, family: usize) -> Outcome<Vec<String>> {
        let name = bytes(self.reference.families[family].name);
        let files = self.region.file_names(&[name]).map_err(|error| error.to_string())?;
        Ok(files.iter().map(|file| file.last().to_owned()).collect())
    }

    /// Returns the reference's cells at some places, in order.
    fn expected_at(&self, family: usize, is_there: impl Fn(&Place) -> bool) -> Vec<(u64, Given)> {
        let name = self.reference.families[family].name;
        let mut cells = Vec::new();
        for (row, of) in self.reference.of_family(family) {
            cells
                .extend(of.iter().filter(|cell| is_there(&cell.place)).map(|cell| given_of(row, name, cell)));
        }
        cells
    }

    /// Returns the cells at some places that the rules keep.
    fn kept_at(&self, family: usize, is_there: impl Fn(&Place) -> bool, kind: Kind) -> Vec<(u64, Given)> {
        self.kept_of(family, |_, cell| is_there(&cell.place), kind)
    }

    /// Returns the given cells that the rules keep.
    fn kept_of(
        &self,
        family: usize,
        takes_part: impl Fn(&str, &Stored) -> bool,
        kind: Kind,
    ) -> Vec<(u64, Given)> {
        let schema = &self.reference.families[family];
        let mut left = Vec::new();
        for (row, of) in self.reference.of_family(family) {
            let cells: Vec<&Stored> = of.iter().filter(|cell| takes_part(row, cell)).collect();
            let stays = kept(&cells, schema, kind, self.now());
            let cells = cells.iter().zip(stays).filter(|(_, stays)| *stays);
            left.extend(cells.map(|(cell, _)| given_of(row, schema.name, cell)));
        }
        left
    }

    fn flush(&mut self, one: Option<&'static str>) -> Outcome {
        self.settle()?;
        let families: Vec<usize> = match one {
            Some(name) => vec![self.reference.family(name)],
            None => (0..self.reference.families.len()).collect(),
        };
        let before: Vec<Vec<String>> =
            families.iter().map(|family| self.files(*family)).collect::<Outcome<_>>()?;
        let flushed = match one {
            Some(name) => self.region.flush_families(&[bytes(name)]),
            None => self.region.flush(FlushReason::Requested),
        };
        flushed.map_err(|error| format!("flush failed: {error}"))?;
        for (family, before) in families.into_iter().zip(before) {
            self.flushed(family, &before)?;
        }
        Ok(())
    }

    /// Flushes all families because memory is full; rewritten rows may stay.
    fn relieve(&mut self) -> Outcome {
        self.settle()?;
        let families = 0..self.reference.families.len();
        let before: Vec<Vec<String>> =
            families.clone().map(|family| self.files(family)).collect::<Outcome<_>>()?;
        self.region.flush(FlushReason::MemstoreSize).map_err(|error| format!("flush failed: {error}"))?;
        for (family, before) in families.zip(before) {
            let stayed = self.lying(family)?.remove(&None).unwrap_or_default();
            if stayed.is_empty() {
                self.flushed(family, &before)?;
            } else {
                self.flushed_but_for(family, &before, &stayed)?;
            }
        }
        Ok(())
    }

    /// Returns the sequence id up to which all writes of a family are in files.
    fn through(&self, family: usize) -> u64 {
        self.region.load().stores[family].flushed_sequence.0
    }

    /// Checks a flush that retained rows: the rows and the new file together are what the rules keep.
    fn flushed_but_for(&mut self, family: usize, before: &[String], stayed: &[(u64, Given)]) -> Outcome {
        let after = self.files(family)?;
        let new: Vec<&String> = after.iter().filter(|file| !before.contains(file)).collect();
        let [file] = &new[..] else { return Err(format!("a flush made {new:?}")) };
        self.compared.rewrites += 1;
        self.compared.stayed += stayed.len() as u64;
        self.has_young[family] = true;
        let through = self.through(family);
        let schema = &self.reference.families[family];
        if schema.versions > 1 || schema.new_versions {
            return Err(format!("{} cells of a family with more versions have stayed", stayed.len()));
        }
        let name = schema.name;
        let expected = self.kept_at(family, |place| *place == Place::Memory, Kind::Some);
        let gone = self.lying(family)?.remove(&Some((*file).clone())).unwrap_or_default();
        let mut found = [&gone[..], stayed].concat();
        found.sort_by(|left, right| order_of(left).cmp(&order_of(right)));
        same_lying(&format!("file of flushed family {family} and what stayed"), &expected, &found)?;
        let file: Rc<str> = Rc::from(&file[..]);
        let mut not_safe = None;
        self.reference.retain(family, |row, cell| {
            if !matches!(cell.place, Place::Memory | Place::Log) {
                return true;
            }
            let of = given_of(row, name, cell);
            if cell.place == Place::Memory && stayed.contains(&of) {
                if !cell.logged || cell.sequence <= through {
                    not_safe = Some(of.1);
                }
                return true;
            }
            if cell.place == Place::Memory && gone.contains(&of) {
                cell.place = Place::File(Rc::clone(&file));
                return true;
            }
            // The log must still have the cell: after a crash the write that replaced it comes back from the log, and
            // so does this cell.
            cell.place = Place::Log;
            cell.logged && cell.sequence > through
        });
        if let Some(cell) = not_safe {
            return Err(format!("stays, and is not in the log from {through} on: {}", show(&[cell])));
        }
        self.remembered_in(family, &file, |of| of.is_none());
        Ok(())
    }

    /// Checks a flush: the new file, or those of several stripes together, has what the rules keep.
    fn flushed(&mut self, family: usize, before: &[String]) -> Outcome {
        let after = self.files(family)?;
        let new: Vec<&String> = after.iter().filter(|file| !before.contains(file)).collect();
        let in_memory = |place: &Place| *place == Place::Memory;
        let had = !self.expected_at(family, in_memory).is_empty();
        let file = match &new[..] {
            [] if !had => return Ok(()),
            // A memstore that dropped all its cells writes a file without cells, which has its sequence id.
            [file] => (*file).clone(),
            [file, ..] if self.setup.stripes => (*file).clone(),
            _ => return Err(format!("a flush of {had} cells made {new:?}")),
        };
        self.compared.rewrites += 1;
        let expected = self.kept_at(family, in_memory, Kind::Some);
        let mut lying = self.lying(family)?;
        let made = made_of(&mut lying, &new);
        let found = together(&made);
        same_lying(&format!("file of flushed family {family}"), &expected, &found)?;
        same_lying("memory after a flush", &[], &lying.remove(&None).unwrap_or_default())?;
        self.has_young[family] = false;
        self.now_in(family, &made, |place| matches!(place, Place::Memory | Place::Log));
        self.remembered_in(family, &file, |of| of.is_none());
        Ok(())
    }

    /// Moves the cells at some places into the files that have them, and removes the others.
    fn now_in(&mut self, family: usize, files: &Made, was_there: impl Fn(&Place) -> bool) {
        let files: Vec<_> =
            files.iter().map(|(name, cells)| (Rc::<str>::from(&name[..]), &cells[..])).collect();
        let family_name = self.reference.families[family].name;
        let through = self.through(family);
        self.reference.retain(family, |row, cell| {
            if !was_there(&cell.place) {
                return true;
            }
            let of = given_of(row, family_name, cell);
            let file = files.iter().find(|(_, cells)| cells.contains(&of));
            if let Some((name, _)) = file.filter(|_| cell.place != Place::Log) {
                cell.place = Place::File(Rc::clone(name));
                return true;
            }
            cell.place = Place::Log;
            cell.logged && cell.sequence > through
        });
    }

    /// Moves the remembered markers of some places into a file.
    fn remembered_in(&mut self, family: usize, file: &str, was_there: impl Fn(Option<&str>) -> bool) {
        let name: Rc<str> = Rc::from(file);
        self.reference.retain(family, |_, cell| {
            if let Place::Swept(of) = &mut cell.place
                && was_there(of.as_deref())
            {
                *of = Some(Rc::clone(&name));
            }
            true
        });
    }

    /// Returns the cells of a family in sealed segments, by key and sequence id.
    fn sealed(&self, family: usize) -> Outcome<Vec<(u64, Given)>> {
        let mut sealed = Vec::new();
        let name = self.reference.families[family].name.as_bytes();
        let visited = self.region.visit_stored(name, &mut |place, cell| {
            if place == CellPlace::Sealed {
                sealed.push((cell.sequence().0, given(cell)));
            }
        });
        visited.map_err(|error| format!("looking at what is stored: {error}"))?;
        Ok(sealed)
    }

    fn shrink(&mut self, pressure: f64) -> Outcome {
        self.settle()?;
        let families = 0..self.reference.families.len();
        let sealed: Vec<_> = families.map(|family| self.sealed(family)).collect::<Outcome<_>>()?;
        self.region.compact_memory(pressure);
        for (family, sealed) in sealed.iter().enumerate() {
            self.compared.rewrites += 1;
            let found = self.lying(family)?.remove(&None).unwrap_or_default();
            let before = self.expected_at(family, |place| *place == Place::Memory);
            // The active segment does not take part. As with files, a marker that is not read may mask a version that
            // now displaces another one.
            let name = self.reference.families[family].name;
            let is_sealed = |row: &str, cell: &Stored| {
                cell.place == Place::Memory && sealed.contains(&given_of(row, name, cell))
            };
            let mut needed: Vec<_> = before.iter().filter(|cell| !sealed.contains(cell)).cloned().collect();
            needed.extend(self.kept_of(family, is_sealed, Kind::Some));
            for cell in &found {
                if !before.contains(cell) {
                    return Err(format!(
                        "memory has what was not there: {}",
                        show(std::slice::from_ref(&cell.1))
                    ));
                }
            }
            let schema = &self.reference.families[family];
            let may_sweep = self.options.drop_markers
                && schema.keep == Keep::Nothing
                && !schema.new_versions
                && self.setup.purge_deletes_after == 0
                && !self.setup.stripes
                && self.options.in_memory_compaction != Level::Basic;
            for cell in &needed {
                let is_marker = CellType::from_code(cell.1.kind).is_some_and(CellType::is_delete);
                if !(found.contains(cell) || is_marker && may_sweep && sealed.contains(cell)) {
                    let all = |cells: &[(u64, Given)]| -> Vec<Given> {
                        cells.iter().map(|(_, cell)| cell.clone()).collect()
                    };
                    return Err(format!(
                        "memory has dropped what is needed: {}\n  of{}\n  and has{}",
                        show(std::slice::from_ref(&cell.1)),
                        show(&all(sealed)),
                        show(&all(&found)),
                    ));
                }
            }
            let name = self.reference.families[family].name;
            let mut swept = 0;
            self.reference.retain(family, |row, cell| {
                let of = given_of(row, name, cell);
                if cell.place == Place::Memory && !found.contains(&of) {
                    if needed.contains(&of) {
                        // The region remembers the marker, which masks later writes as if it were still stored.
                        cell.place = Place::Swept(None);
                        swept += 1;
                        return true;
                    }
                    cell.place = Place::Log;
                    return cell.logged;
                }
                true
            });
            self.compared.swept += swept;
        }
        Ok(())
    }

    fn compact(&mut self, major: bool) -> Outcome {
        self.settle()?;
        let families = 0..self.reference.families.len();
        let before: Vec<Vec<String>> =
            families.clone().map(|family| self.files(family)).collect::<Outcome<_>>()?;
        let had_young = self.has_young.clone();
        self.region
            .compact(&CompactionRequest { major, families: Vec::new() })
            .map_err(|error| format!("compaction failed: {error}"))?;
        for (family, before) in families.zip(before) {
            let after = self.files(family)?;
            let gone: Vec<&String> = before.iter().filter(|file| !after.contains(file)).collect();
            let new: Vec<&String> = after.iter().filter(|file| !before.contains(file)).collect();
            if gone.is_empty() && new.is_empty() && (!major || before.is_empty()) {
                continue;
            }
            if self.setup.stripes {
                self.compacted_stripes(family, &gone, &new)?;
                continue;
            }
            let [file] = &new[..] else { return Err(format!("a compaction of {gone:?} made {new:?}")) };
            self.compared.rewrites += 1;
            let unseen = "flushed before it".to_owned();
            let mut gone = gone;
            if major && had_young[family] {
                // A major compaction first flushes rows that the last flush has retained, or that a replay has brought
                // back, to a file, and deletes that file with its other sources. So the file is in neither listing.
                let kept = self.kept_at(family, |place| *place == Place::Memory, Kind::Some);
                self.has_young[family] = false;
                let made = vec![(unseen.clone(), kept)];
                self.now_in(family, &made, |place| matches!(place, Place::Memory | Place::Log));
                self.remembered_in(family, &unseen, |of| of.is_none());
                gone.push(&unseen);
            }
            let is_all = gone.len() == before.len() + usize::from(major && had_young[family]);
            let takes_part = |place: &Place| matches!(place, Place::File(of) if gone.iter().any(|name| name[..] == of[..]));
            let puts = self.expected_at(family, takes_part);
            let puts = puts.iter().filter(|(_, cell)| cell.kind == CellType::Put.code());
            let kind = if is_all && !self.has_young[family] {
                Kind::All {
                    purge_deletes_after: self.setup.purge_deletes_after,
                    earliest_put: puts.map(|(_, cell)| cell.timestamp).min().unwrap_or(i64::MAX),
                }
            } else {
                Kind::Some
            };
            let expected = self.kept_at(family, takes_part, kind);
            let made = made_of(&mut self.lying(family)?, &[file]);
            let found = together(&made);
            same_lying(&format!("file of compacted family {family}, {kind:?}"), &expected, &found)?;
            self.now_in(family, &made, takes_part);
            let was_there = |of: Option<&str>| of.is_some_and(|of| gone.iter().any(|name| **name == *of));
            if let Kind::All { purge_deletes_after: purge, .. } = kind {
                let now = self.now();
                self.reference.retain(family, |_, cell| {
                    let Place::Swept(of) = &cell.place else { return true };
                    !was_there(of.as_deref()) || (purge > 0 && now - cell.timestamp <= purge)
                });
            }
            self.remembered_in(family, file, was_there);
        }
        Ok(())
    }

    /// Checks a compaction of some stripes. A row has lost its markers, or has kept them all. It may lose them only if
    /// no other file has cells of it.
    fn compacted_stripes(&mut self, family: usize, gone: &[&String], new: &[&String]) -> Outcome {
        self.compared.rewrites += 1;
        let takes_part =
            |place: &Place| matches!(place, Place::File(of) if gone.iter().any(|name| name[..] == of[..]));
        let is_left = |place: &Place| matches!(place, Place::File(_)) && !takes_part(place);
        let puts = self.expected_at(family, takes_part);
        let puts = puts.iter().filter(|(_, cell)| cell.kind == CellType::Put.code());
        let all = Kind::All {
            purge_deletes_after: self.setup.purge_deletes_after,
            earliest_put: puts.map(|(_, cell)| cell.timestamp).min().unwrap_or(i64::MAX),
        };
        let (of_some, of_all) =
            (self.kept_at(family, takes_part, Kind::Some), self.kept_at(family, takes_part, all));
        let left = self.expected_at(family, is_left);
        let made = made_of(&mut self.lying(family)?, new);
        let found = together(&made);
        let of_row = |cells: &[(u64, Given)], row: &[u8]| -> Vec<(u64, Given)> {
            cells.iter().filter(|(_, cell)| cell.row == row).cloned().collect()
        };
        let rows: BTreeSet<&[u8]> = of_some.iter().chain(&found).map(|(_, cell)| &cell.row[..]).collect();
        for row in rows {
            let found = of_row(&found, row);
            let may_purge = !left.iter().any(|(_, cell)| cell.row == row);
            if may_purge && same_lying("", &of_row(&of_all, row), &found).is_ok() {
                continue;
            }
            let what = format!("row in compacted stripes of family {family}, may purge: {may_purge}");
            same_lying(&what, &of_row(&of_some, row), &found)?;
        }
        self.now_in(family, &made, takes_part);
        Ok(())
    }

    // Crashes and openings.

    /// Kills the process or the machine, and opens the region again.
    fn die(&mut self, power: bool) -> Outcome {
        self.settle()?;
        self.held = [None, None];
        self.deaths += 1;
        self.compared.deaths += 1;
        self.place = if power { self.place.crash(self.setup.seed ^ self.deaths) } else { self.place.kill() };
        (self.log, self.region) = open(&self.place, &self.world, &self.options, &self.reference.families)?;
        self.sequence = self.region.open_sequence().0;
        for family in 0..self.reference.families.len() {
            let mut lying = self.lying(family)?;
            let memory = lying.remove(&None).unwrap_or_default();
            let name = self.reference.families[family].name;
            self.has_young[family] = !memory.is_empty() && !self.files(family)?.is_empty();
            // The log has markers that a file remembers.
            let is_again = |row: &str, cell: &Stored| {
                matches!(cell.place, Place::Swept(Some(_))) && memory.contains(&given_of(row, name, cell))
            };
            let again: Vec<(&'static str, Stored)> = self
                .reference
                .of_family(family)
                .flat_map(|(row, cells)| cells.iter().map(move |cell| (row, cell)))
                .filter(|(row, cell)| is_again(row, cell))
                .map(|(row, cell)| (row, Stored { place: Place::Memory, ..cell.clone() }))
                .collect();
            let mut lost = None;
            self.reference.retain(family, |row, cell| match cell.place {
                Place::File(_) | Place::Swept(Some(_)) => true,
                Place::Memory | Place::Swept(None) if !cell.logged => false,
                // The log has the marker and the cells that it masks, and all come back.
                Place::Swept(None) => {
                    cell.place = Place::Memory;
                    true
                }
                Place::Memory => {
                    let of = given_of(row, name, cell);
                    if !memory.contains(&of) {
                        lost = Some(of.1);
                    }
                    true
                }
                // Dropped cells come back if the log still has them.
                Place::Log => {
                    cell.place = Place::Memory;
                    memory.contains(&given_of(row, name, cell))
                }
            });
            if let Some(lost) = lost {
                return Err(format!("lost: {}", show(&[lost])));
            }
            again.into_iter().for_each(|(row, marker)| self.reference.insert(row, family, marker));
            self.take_returned(family)?;
            same_lying(
                "memory after a death",
                &self.expected_at(family, |place| *place == Place::Memory),
                &memory,
            )?;
            for (file, found) in lying {
                let file = file.expect("memory was taken out");
                let is_it = |place: &Place| matches!(place, Place::File(of) if of[..] == file[..]);
                same_lying("file after a death", &self.expected_at(family, is_it), &found)?;
            }
        }
        Ok(())
    }

    fn reopen(&mut self, families: Option<&Vec<Family>>) -> Outcome {
        self.settle()?;
        let count = self.reference.families.len();
        let before: Vec<Vec<String>> = (0..count).map(|family| self.files(family)).collect::<Outcome<_>>()?;
        self.region.close().map_err(|error| format!("closing failed: {error}"))?;
        for held in self.held.iter_mut().filter_map(Option::take) {
            held.must_end()?;
        }
        // The files are compared before the schema changes.
        for (family, before) in before.iter().enumerate() {
            self.flushed(family, before)?;
        }
        if let Some(families) = families {
            // A shortened stream may name families that the setup lacks.
            if families.len() == count {
                self.reference.families.clone_from(families);
            }
        }
        let (log, families) = (Arc::clone(&self.log), &self.reference.families);
        self.region = open_region(&self.place, &self.world, &self.options, families, log, None)?;
        let opened = self.region.open_sequence().0;
        if opened <= self.sequence && self.expected_any() {
            return Err(format!("opened at {opened} although {} was written", self.sequence));
        }
        self.sequence = opened;
        Ok(())
    }

    fn expected_any(&self) -> bool {
        (0..self.reference.families.len()).any(|family| {
            self.reference
                .of_family(family)
                .any(|(_, cells)| cells.iter().any(|cell| cell.sequence == self.sequence))
        })
    }

    /// Compares all stored cells, and everything that readers get.
    fn look_at_everything(&mut self) -> Outcome {
        self.settle()?;
        for family in 0..self.reference.families.len() {
            for (file, found) in self.lying(family)? {
                let is_it = |place: &Place| match (place, &file) {
                    (Place::Memory, None) => true,
                    (Place::File(of), Some(file)) => of[..] == file[..],
                    _ => false,
                };
                same_lying(&format!("at the end, in {file:?}"), &self.expected_at(family, is_it), &found)?;
            }
        }
        for versions in [1, 10] {
            for raw in [false, true] {
                self.scan(&Walk::over(Query { versions, raw, ..Query::all() }))?;
            }
        }
        Ok(())
    }
}

impl Held {
    /// Runs one step of the scan; returns the number of cells.
    fn step(&mut self) -> Outcome<u64> {
        let limits = Limits {
            rows: ROWS_AT_ONCE,
            bytes: self.walk.bytes.unwrap_or(u64::MAX),
            deadline: None,
            allow_partial: self.walk.bytes.is_some(),
        };
        let mut sink = Sink::default();
        let step = self
            .scanner
            .next_row(&limits, &mut sink, ReadMode::Any)
            .map_err(|error| format!("scan failed: {error}"))?;
        let count = sink.0.len();
        if self.walk.batch.is_some_and(|batch| count > batch as usize) {
            return Err(format!("{count} cells in a step, more than the batch"));
        }
        if step.partial && count == 0 {
            return Err("a part of a row without cells".to_owned());
        }
        // The last of several rows is checked below.
        let mut from = 0;
        if let [ends @ .., _] = &sink.1[..] {
            for &end in ends {
                same("row of several", &self.left.next().unwrap_or_default(), &sink.0[from..end])?;
                from = end;
            }
        }
        self.part.extend(sink.0.drain(from..));
        if step.more && step.partial {
            return Ok(count as u64);
        }
        let row = std::mem::take(&mut self.part);
        if !row.is_empty() {
            same("row of a scan", &self.left.next().unwrap_or_default(), &row)?;
        }
        if !step.more {
            self.done = true;
            let rest: Vec<Given> = self.left.by_ref().flatten().collect();
            same("rest of a scan", &rest, &[])?;
        }
        Ok(count as u64)
    }

    /// Checks that a scan of a closed region returns nothing more.
    fn must_end(mut self) -> Outcome {
        if self.done {
            return Ok(());
        }
        match self.scanner.next_row(&Limits::NONE, &mut Sink::default(), ReadMode::Any) {
            Err(region::Error::NotServing(_)) => Ok(()),
            other => Err(format!("a scanner of a closed region: {other:?}")),
        }
    }
}

type Order<'a> = (&'a [u8], &'a [u8], std::cmp::Reverse<i64>, std::cmp::Reverse<u8>, std::cmp::Reverse<u64>);

fn order_of((sequence, cell): &(u64, Given)) -> Order<'_> {
    use std::cmp::Reverse;
    (&cell.row, &cell.qualifier, Reverse(cell.timestamp), Reverse(cell.kind), Reverse(*sequence))
}

/// Takes the cells of the new files out of `lying`, and returns them.
fn made_of(lying: &mut Lying, new: &[&String]) -> Made {
    new.iter()
        .map(|file| ((*file).clone(), lying.remove(&Some((*file).clone())).unwrap_or_default()))
        .collect()
}

/// Returns the cells of all files, in order.
fn together(made: &Made) -> Vec<(u64, Given)> {
    let mut cells: Vec<(u64, Given)> = made.iter().flat_map(|(_, cells)| cells).cloned().collect();
    cells.sort_by(|left, right| order_of(left).cmp(&order_of(right)));
    cells
}

fn given_of(row: &str, family: &str, cell: &Stored) -> (u64, Given) {
    let given = Given {
        row: row.as_bytes().to_vec(),
        family: family.as_bytes().to_vec(),
        qualifier: cell.qualifier.as_bytes().to_vec(),
        timestamp: cell.timestamp,
        kind: cell.kind.code(),
        value: cell.value.to_vec(),
        tags: cell.tags.to_vec(),
    };
    (cell.sequence, given)
}

fn same_lying(what: &str, expected: &[(u64, Given)], found: &[(u64, Given)]) -> Outcome {
    if expected == found || markers_once(expected) == markers_once(found) {
        return Ok(());
    }
    let show = |cells: &[(u64, Given)]| -> String {
        cells
            .iter()
            .map(|(sequence, cell)| format!("{} #{sequence}", show(std::slice::from_ref(cell))))
            .collect()
    };
    Err(format!("{what}: expected{}\n  found{}", show(expected), show(found)))
}

/// Returns the cells, each marker once. A marker that was restored for several puts, or for a put and its replay, may
/// be stored several times until it is rewritten; with equal key and sequence id these are one.
fn markers_once(cells: &[(u64, Given)]) -> Vec<&(u64, Given)> {
    let mut once: Vec<&(u64, Given)> = cells.iter().collect();
    once.dedup_by(|cell, before| {
        cell == before && CellType::from_code(cell.1.kind).is_some_and(CellType::is_delete)
    });
    once
}

fn open(
    place: &storage::Memory,
    world: &World,
    options: &RegionOptions,
    families: &[Family],
) -> Outcome<(Arc<wal::Log>, Arc<Region>)> {
    let files: Arc<dyn Files> = Arc::new(place.clone());
    let (log, recovered) = wal::Log::open(world.clone(), files, FileName::new("WALs"), log_options())
        .map_err(|error| format!("the log does not open: {error}"))?;
    let log = Arc::new(log);
    let region = open_region(place, world, options, families, Arc::clone(&log), Some(Arc::new(recovered)))?;
    Ok((log, region))
}

fn open_region(
    place: &storage::Memory,
    world: &World,
    options: &RegionOptions,
    families: &[Family],
    log: Arc<wal::Log>,
    recovered: Option<Arc<wal::LogReader>>,
) -> Outcome<Arc<Region>> {
    let name = TableName::new("default", "t").expect("a name");
    let info = RegionInfo::new(name, Bytes::new(), Bytes::new(), RegionId(1)).expect("a region");
    Region::open(Opening {
        folder: FileName::new("data/default/t").join(info.encoded_name().as_str()),
        info,
        table: table_of(families),
        files: Arc::new(place.clone()),
        log,
        cache: Arc::new(Cache::with_bytes(1 << 18)),
        world: world.clone(),
        options: options.clone(),
        recovered,
    })
    .map_err(|error| format!("the region does not open: {error}"))
}
