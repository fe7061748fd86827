//! Serves one region to threads of this process, with background flushes and compactions, and simulated crashes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp};
use env::World;
use env::sync::Mutex;
use filter::{Comparable, CompareOperator};
use proto::region_info::RegionId;
use proto::{FamilyDescriptor, RegionInfo, TableDescriptor, TableName};
use region::{
    CellSink, Check, CompactionRequest, Durability, FlushReason, Level, Limits, Mutation, MutationKind,
    Opening, ReadMode, Region, RegionOptions, Scan, Test,
};
use storage::{FileName, Files};

use crate::concurrent::{Target, Unanswered, Values};
use crate::linear::{Answer, Operation, State};

/// The families that [`Target::write`] sets; [`Target::act`] uses `f`.
const WIDE: [&str; 3] = ["a", "b", "c"];
const COLUMNS: usize = 10;

/// All levels of in-memory compaction.
pub const LEVELS: [Level; 4] = [Level::None, Level::Basic, Level::Eager, Level::Adaptive];

/// A region, its log, and the number of crashes.
struct Life {
    region: Arc<Region>,
    _log: Arc<wal::Log>,
    number: u64,
}

/// A region that threads use.
pub struct InProcess {
    world: World,
    options: RegionOptions,
    place: Mutex<storage::Memory>,
    life: Mutex<Arc<Life>>,
    /// The number of the process, incremented before a crash: answers of an earlier process are ignored.
    number: AtomicU64,
    turns: AtomicU64,
}

fn table() -> Arc<TableDescriptor> {
    let mut table = TableDescriptor::new(TableName::new("default", "t").expect("a name"));
    for name in WIDE {
        table.set_family(FamilyDescriptor::new(name).expect("a name").with("BLOCKSIZE", 1_024));
    }
    // With NEW_VERSION_BEHAVIOR the later of two writes within a millisecond wins.
    table.set_family(FamilyDescriptor::new("f").expect("a name").with("NEW_VERSION_BEHAVIOR", true));
    Arc::new(table)
}

impl InProcess {
    /// Creates an empty region over storage in memory, with the real clock.
    ///
    /// # Panics
    /// When it does not open.
    pub fn new(level: Level) -> InProcess {
        let world = World::real();
        let options = RegionOptions {
            in_memory_compaction: level,
            // Segments of a few kilobytes.
            in_memory_flush_factor: 16_384.0 / RegionOptions::default().flush_size as f64,
            compaction_files_min: 2,
            ..RegionOptions::default()
        };
        let place = storage::Memory::new();
        let life = open(&place, &world, &options, 0);
        InProcess {
            world,
            options,
            place: Mutex::new(place),
            life: Mutex::new(Arc::new(life)),
            number: AtomicU64::new(0),
            turns: AtomicU64::new(0),
        }
    }

    /// Does background work: an in-memory compaction in each call, and in some calls also a flush, a compaction of
    /// files, or a change of the level of in-memory compaction.
    ///
    /// # Panics
    /// When one fails.
    pub fn disturb(&self) {
        const NEVER: &str = "background work does not fail";
        let region = Arc::clone(&self.life.lock().region);
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        region.compact_memory((turn % 3) as f64 / 2.0);
        if turn.is_multiple_of(2) {
            region.flush(FlushReason::Requested).expect(NEVER);
        }
        if turn.is_multiple_of(3) {
            let request = CompactionRequest { major: turn.is_multiple_of(6), families: Vec::new() };
            region.compact(&request).expect(NEVER);
        }
        if turn % 16 == 15 {
            let level = LEVELS[(turn / 16) as usize % LEVELS.len()];
            region.tune(&RegionOptions { in_memory_compaction: level, ..self.options.clone() });
        }
    }

    /// Kills the process or cuts the power, and opens the region again.
    ///
    /// # Panics
    /// When it does not open again.
    pub fn die(&self, power: bool) {
        let mut life = self.life.lock();
        let number = self.number.fetch_add(1, Ordering::SeqCst) + 1;
        let mut place = self.place.lock();
        let next = if power { place.crash(number) } else { place.kill() };
        *place = next;
        *life = Arc::new(open(&place, &self.world, &self.options, number));
    }

    /// Returns the answer of `work`, unless the process has died meanwhile.
    fn answer<T>(&self, work: impl FnOnce(&Arc<Region>) -> region::Result<T>) -> Result<T, Unanswered> {
        let life = Arc::clone(&self.life.lock());
        let answer = work(&life.region);
        if self.number.load(Ordering::SeqCst) != life.number {
            return Err(Unanswered::MayHaveHappened);
        }
        answer.map_err(|_| Unanswered::MayHaveHappened)
    }
}

fn open(place: &storage::Memory, world: &World, options: &RegionOptions, number: u64) -> Life {
    let files: Arc<dyn Files> = Arc::new(place.clone());
    let (log, recovered) =
        wal::Log::open(world.clone(), Arc::clone(&files), FileName::new("WALs"), wal::Options::default())
            .expect("a log");
    let log = Arc::new(log);
    let name = TableName::new("default", "t").expect("a name");
    let info = RegionInfo::new(name, Bytes::new(), Bytes::new(), RegionId(1)).expect("a region");
    let region = Region::open(Opening {
        folder: FileName::new("data/default/t").join(info.encoded_name().as_str()),
        info,
        table: table(),
        files,
        log: Arc::clone(&log),
        cache: Arc::new(Cache::with_bytes(1 << 20)),
        world: world.clone(),
        options: options.clone(),
        recovered: Some(Arc::new(recovered)),
    });
    Life { region: region.expect("the region opens"), _log: log, number }
}

#[derive(Default)]
struct Sink(Vec<(Vec<u8>, Vec<u8>)>);

impl CellSink for Sink {
    fn cell(&mut self, cell: Cell<'_>) {
        self.0.push((cell.row().to_vec(), cell.value().to_vec()));
    }
}

fn mutation(kind: MutationKind, row: &str, cells: &[(&str, &str, CellType, &[u8])]) -> Mutation {
    let mut block = Vec::new();
    for (family, qualifier, cell_type, value) in cells {
        let parts = CellParts {
            row: row.as_bytes(),
            family: family.as_bytes(),
            qualifier: qualifier.as_bytes(),
            timestamp: Timestamp::LATEST,
            cell_type: *cell_type,
            value,
            tags: b"",
        };
        let bytes = parts.to_vec().expect("within limits");
        cell::block::write_with_tags(&mut block, Cell::parse(&bytes, SequenceId::ZERO).expect("whole"));
    }
    Mutation {
        kind,
        row: Bytes::copy_from_slice(row.as_bytes()),
        cells: CellBlock::parse(Bytes::from(block)).expect("whole"),
        durability: Durability::UseDefault,
        time_range: None,
        return_results: true,
        nonce: None,
    }
}

/// Makes a mutation of both columns of a row with one value.
fn both(kind: MutationKind, row: &str, cell_type: CellType, value: &[u8]) -> Mutation {
    mutation(kind, row, &[("f", "x", cell_type, value), ("f", "y", cell_type, value)])
}

/// Returns the value that both columns have; for a torn row a value that no client wrote.
pub(crate) fn value_of(values: &[&[u8]]) -> State {
    match values {
        [] => None,
        [one, other] if one == other => Some(one.to_vec()),
        torn => Some(format!("torn {torn:?}").into_bytes()),
    }
}

impl Target for InProcess {
    fn act(&self, row: &str, operation: &Operation) -> Result<Answer, Unanswered> {
        let change = |region: &Arc<Region>, mutation: Mutation| {
            let changed = region.mutate_row(&[mutation], ReadMode::Any)?;
            let values: Vec<&[u8]> = changed.cells.cells().map(|cell| cell.value()).collect();
            let value = value_of(&values);
            changed.pending.wait_blocking().map(|()| value)
        };
        let put = |value: &[u8]| both(MutationKind::Put, row, CellType::Put, value);
        self.answer(|region| match operation {
            Operation::Put(value) => change(region, put(value)).map(|_| Answer::Done),
            Operation::Delete => {
                let delete = if row.starts_with('r') {
                    mutation(MutationKind::Delete, row, &[("f", "", CellType::DeleteFamily, b"")])
                } else {
                    both(MutationKind::Delete, row, CellType::Delete, b"")
                };
                change(region, delete).map(|_| Answer::Done)
            }
            Operation::Get => {
                let mut sink = Sink::default();
                region.get(&Scan::get(Bytes::copy_from_slice(row.as_bytes())), ReadMode::Any, &mut sink)?;
                let values: Vec<&[u8]> = sink.0.iter().map(|(_, value)| &value[..]).collect();
                Ok(Answer::Value(value_of(&values)))
            }
            Operation::Increment(by) => {
                let by = by.to_be_bytes();
                change(region, both(MutationKind::Increment, row, CellType::Put, &by)).map(Answer::Value)
            }
            Operation::Append(more) => {
                change(region, both(MutationKind::Append, row, CellType::Put, more)).map(Answer::Value)
            }
            Operation::CheckAndPut(expected, value) => {
                let check = Check {
                    row: Bytes::copy_from_slice(row.as_bytes()),
                    test: Test::Value {
                        family: Bytes::from_static(b"f"),
                        qualifier: Bytes::from_static(b"x"),
                        operator: CompareOperator::Equal,
                        comparable: match expected {
                            Some(value) => Comparable::Binary(Bytes::copy_from_slice(value)),
                            None => Comparable::Null,
                        },
                    },
                    time_range: None,
                };
                let checked = region.check_and_mutate(&check, &[put(value)], ReadMode::Any)?;
                checked.pending.wait_blocking().map(|()| Answer::Passed(checked.passed))
            }
        })
    }

    fn write(&self, row: &str, value: &[u8]) -> Result<(), Unanswered> {
        let names: Vec<String> = (0..COLUMNS).map(|column| format!("q{column}")).collect();
        let cells: Vec<_> = WIDE
            .iter()
            .flat_map(|family| names.iter().map(|name| (*family, &name[..], CellType::Put, value)))
            .collect();
        let put = mutation(MutationKind::Put, row, &cells);
        self.answer(|region| {
            let applied = region.apply(&[put], ReadMode::Any)?;
            applied.outcomes.into_iter().collect::<region::Result<Vec<()>>>()?;
            applied.pending.wait_blocking()
        })
    }

    fn read(&self, row: &str) -> Result<Values, Unanswered> {
        self.answer(|region| {
            let mut sink = Sink::default();
            region.get(&Scan::get(Bytes::copy_from_slice(row.as_bytes())), ReadMode::Any, &mut sink)?;
            Ok(sink.0.into_iter().map(|(_, value)| value).collect())
        })
    }

    fn scan(&self) -> Result<BTreeMap<Vec<u8>, Values>, Unanswered> {
        self.answer(|region| {
            let mut sink = Sink::default();
            let mut scanner = region.scanner(Scan::default())?;
            while scanner.next_row(&Limits::NONE, &mut sink, ReadMode::Any)?.more {}
            let mut rows: BTreeMap<Vec<u8>, Values> = BTreeMap::new();
            for (row, value) in sink.0 {
                rows.entry(row).or_default().push(value);
            }
            Ok(rows)
        })
    }

    fn width(&self) -> usize {
        WIDE.len() * COLUMNS
    }
}
