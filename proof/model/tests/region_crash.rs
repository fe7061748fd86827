//! Crashes a region in every storage operation of writing, flushing and compacting, and compares it with the model.
//!
//! A run opens log and region, compares all rows with what the model allows, writes, and ends when the storage fails:
//! in its n-th operation, for every n, with the operation done or not done. The next run opens what is left, and fails
//! again during recovery. A last run is not interrupted. In a further run the storage fails once, and the region must
//! continue. All random numbers come from the seed.

use std::sync::Arc;

use bytes::Bytes;
use cache::Cache;
use cell::{Cell, CellBlock, CellParts, CellType, SequenceId, Timestamp};
use env::{WallTime, World};
use model::{Edit, Model, Visible, What};
use proto::region_info::RegionId;
use proto::{FamilyDescriptor, RegionInfo, TableDescriptor, TableName};
use region::{
    CellSink, CompactionRequest, Durability, FlushReason, Level, Limits, Mutation, MutationKind, Opening,
    Pending, ReadMode, Region, RegionOptions, Scan,
};
use storage::memory::Fault;
use storage::{FileName, Files, Kind, Memory, Outcome};
use wal::{Log, Options};

const VERSIONS: usize = 2;
const LEVELS: [Level; 4] = [Level::None, Level::Basic, Level::Eager, Level::Adaptive];
const FAMILIES: [&[u8]; 2] = [b"f", b"g"];

/// The crash with which a process ends.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// The process is killed: all written bytes survive.
    Kill,
    /// The power is lost: synced bytes survive.
    Power,
}

/// The storage and environment of all processes of a run.
struct Subject {
    info: RegionInfo,
    table: Arc<TableDescriptor>,
}

impl Subject {
    fn new() -> Subject {
        let name = TableName::new("default", "t").expect("a name");
        let mut table = TableDescriptor::new(name.clone());
        for family in FAMILIES {
            let has_mob_files = family == FAMILIES[1];
            let family = FamilyDescriptor::new(family).expect("a name").with("VERSIONS", VERSIONS);
            let family = family.with("IS_MOB", has_mob_files).with("MOB_THRESHOLD", 30);
            table.set_family(family);
        }
        let info = RegionInfo::new(name, Bytes::new(), Bytes::new(), RegionId(1)).expect("a region");
        Subject { info, table: Arc::new(table) }
    }
}

/// Random numbers that follow from a seed: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

/// Why a process ended early. A failure of the storage is injected; any other error is a defect.
#[derive(Debug)]
enum End {
    Log(wal::Error),
    Region(region::Error),
}

impl From<wal::Error> for End {
    fn from(error: wal::Error) -> End {
        End::Log(error)
    }
}

impl From<region::Error> for End {
    fn from(error: region::Error) -> End {
        End::Region(error)
    }
}

impl End {
    fn is_corruption(&self) -> bool {
        match self {
            End::Log(error) => matches!(error, wal::Error::Corrupt { .. }),
            End::Region(error) => matches!(error, region::Error::Corrupt { .. }),
        }
    }
}

#[derive(Default)]
struct Seen(Visible);

impl CellSink for Seen {
    fn cell(&mut self, cell: Cell<'_>) {
        let column = (cell.row().to_vec(), cell.family().to_vec(), cell.qualifier().to_vec());
        self.0.entry(column).or_default().push((cell.timestamp().0, cell.value().to_vec()));
    }
}

fn scan() -> Scan {
    Scan { max_versions: VERSIONS as u32, ..Scan::default() }
}

/// Returns everything that a full scan shows.
fn see(region: &Arc<Region>) -> region::Result<Visible> {
    let mut seen = Seen::default();
    let mut scanner = region.scanner(scan())?;
    while scanner.next_row(&Limits::NONE, &mut seen, ReadMode::Any)?.more {}
    Ok(seen.0)
}

/// Checks that gets see what the scan saw, row by row.
fn check_gets(region: &Arc<Region>, visible: &Visible) -> region::Result<()> {
    let mut by_gets = Seen::default();
    for row in 0..ROWS {
        let get = Scan { max_versions: VERSIONS as u32, ..Scan::get(Bytes::from(format!("row{row}"))) };
        region.get(&get, ReadMode::Any, &mut by_gets)?;
    }
    assert_eq!(by_gets.0, *visible, "gets and scan differ");
    Ok(())
}

const ROWS: u64 = 5;

fn random_write(random: &mut Random, now: i64) -> Vec<Edit> {
    let row = format!("row{}", random.below(ROWS)).into_bytes();
    let deletes = random.below(4) == 0;
    let family = || FAMILIES[0].to_vec();
    if deletes {
        let what = if random.below(2) == 0 { What::DeleteFamily } else { What::DeleteColumn };
        let qualifier = match what {
            What::DeleteFamily => Vec::new(),
            _ => format!("q{}", random.below(3)).into_bytes(),
        };
        // Deletes from both families in one write. If a crash kept half of the write, a reader would see it.
        return FAMILIES
            .iter()
            .map(|family| Edit {
                column: (row.clone(), family.to_vec(), qualifier.clone()),
                timestamp: now,
                what: what.clone(),
            })
            .collect();
    }
    let value = format!("{now}-{}", "v".repeat(random.below(60) as usize)).into_bytes();
    let mut columns = vec![(row.clone(), family(), format!("q{}", random.below(3)).into_bytes())];
    if random.below(2) == 0 {
        columns.push((row, FAMILIES[1].to_vec(), format!("q{}", random.below(3)).into_bytes()));
    }
    columns
        .into_iter()
        .map(|column| Edit { column, timestamp: now, what: What::Put(value.clone()) })
        .collect()
}

/// Makes a write that masks a row in both families.
fn marker(row: u64, now: i64) -> Vec<Edit> {
    let column = |family: &&[u8]| (format!("row{row}").into_bytes(), family.to_vec(), Vec::new());
    let edit = |family| Edit { column: column(family), timestamp: now, what: What::DeleteFamily };
    FAMILIES.iter().map(edit).collect()
}

/// Begins a write, in the model and in the region.
fn write(region: &Arc<Region>, model: &mut Model, write: Vec<Edit>) -> region::Result<Pending> {
    let mutation = mutation(&write);
    model.begin(write);
    let applied = region.apply(&[mutation], ReadMode::Any).inspect_err(|error| {
        if let region::Error::Log(refused @ wal::Error::Full { .. }) = error
            && refused.outcome() == Outcome::DidNotHappen
        {
            model.refuse();
        }
    })?;
    for outcome in applied.outcomes {
        outcome?;
    }
    Ok(applied.pending)
}

/// Returns the mutation of one row with these edits.
fn mutation(write: &[Edit]) -> Mutation {
    let mut block = Vec::new();
    let mut kind = MutationKind::Delete;
    for Edit { column: (row, family, qualifier), timestamp, what } in write {
        let (cell_type, value) = match what {
            What::Put(value) => (CellType::Put, &value[..]),
            What::DeleteColumn => (CellType::DeleteColumn, &b""[..]),
            What::DeleteFamily => (CellType::DeleteFamily, &b""[..]),
        };
        if cell_type == CellType::Put {
            kind = MutationKind::Put;
        }
        let parts = CellParts {
            row,
            family,
            qualifier,
            timestamp: Timestamp(*timestamp),
            cell_type,
            value,
            tags: b"",
        };
        let bytes = parts.to_vec().expect("within limits");
        cell::block::write_with_tags(&mut block, Cell::parse(&bytes, SequenceId::ZERO).expect("whole"));
    }
    Mutation {
        kind,
        row: Bytes::copy_from_slice(&write[0].column.0),
        cells: CellBlock::parse(Bytes::from(block)).expect("whole"),
        durability: Durability::UseDefault,
        time_range: None,
        return_results: false,
        nonce: None,
    }
}

struct Life<'a> {
    subject: &'a Subject,
    place: &'a Memory,
    world: &'a World,
    death: Death,
    /// Whether the failure of the call ends the process.
    last: bool,
}

type OpenRegion = (Arc<Log>, Arc<Region>, Arc<wal::LogReader>);

impl Life<'_> {
    fn open(&self, log: &Arc<Log>, recovered: Arc<wal::LogReader>) -> region::Result<Arc<Region>> {
        let region = Region::open(Opening {
            info: self.subject.info.clone(),
            table: Arc::clone(&self.subject.table),
            files: Arc::new(self.place.clone()) as Arc<dyn Files>,
            folder: FileName::new("data/default/t").join(self.subject.info.encoded_name().as_str()),
            log: Arc::clone(log),
            cache: Arc::new(Cache::with_bytes(1 << 20)),
            world: self.world.clone(),
            options: RegionOptions {
                sync_to_disk: matches!(self.death, Death::Power),
                // The levels of in-memory compaction in turn, on segments of a few cells.
                in_memory_compaction: LEVELS[self.world.random() as usize % LEVELS.len()],
                in_memory_flush_factor: 600.0 / RegionOptions::default().flush_size as f64,
                ..RegionOptions::default()
            },
            recovered: Some(Arc::clone(&recovered)),
        })?;
        recovered.taken(region.info().encoded_name().as_str().as_bytes());
        Ok(region)
    }

    /// Opens the log and the region.
    fn begin(&self) -> Result<OpenRegion, End> {
        let options = Options {
            // Small files, so that a life rolls and deletes several.
            file_bytes_max: 1_500,
            // What nobody waits for is not written by a clock that the seed does not know.
            idle_write: std::time::Duration::from_secs(3_600),
            full_retry: std::time::Duration::ZERO,
            ..Options::default()
        };
        let files: Arc<dyn Files> = Arc::new(self.place.clone());
        let (log, recovered) = Log::open(self.world.clone(), files, FileName::new("WALs"), options)?;
        let (log, recovered) = (Arc::new(log), Arc::new(recovered));
        let region = self.open(&log, Arc::clone(&recovered))?;
        Ok((log, region, recovered))
    }

    /// Does one operation on the region.
    fn step(
        &self,
        region: &mut Arc<Region>,
        log: &Arc<Log>,
        recovered: &Arc<wal::LogReader>,
        model: &mut Model,
        random: &mut Random,
    ) -> Result<(), End> {
        match random.below(14) {
            12 | 13 => region.compact_memory(random.below(3) as f64 / 2.0),
            0 | 1 => drop(region.flush(FlushReason::Requested)?),
            2 => drop(region.compact(&CompactionRequest { major: false, families: Vec::new() })?),
            3 => drop(region.compact(&CompactionRequest { major: true, families: Vec::new() })?),
            4 if random.below(3) == 0 => {
                region.close()?;
                *region = self.open(log, Arc::clone(recovered))?;
            }
            4 => log.roll()?,
            5 if random.below(3) == 0 => {
                // No cells are left, not even markers. Old cells must not come back, and sequence ids must not start
                // again.
                for row in 0..ROWS {
                    write(region, model, marker(row, self.world.now().0))?.wait_blocking()?;
                    model.acknowledge();
                }
                region.flush(FlushReason::Requested)?;
                region.compact(&CompactionRequest { major: true, families: Vec::new() })?;
                region.close()?;
                *region = self.open(log, Arc::clone(recovered))?;
            }
            _ => {
                let pending = write(region, model, random_write(random, self.world.now().0))?;
                // Some writes are acknowledged only together with later ones.
                if random.below(4) > 0 {
                    pending.wait_blocking()?;
                    model.acknowledge();
                }
            }
        }
        Ok(())
    }

    /// Runs until the storage fails or the work is done.
    fn live(&self, model: &mut Model, random: &mut Random) -> Result<(), End> {
        let (log, mut region, recovered) = self.begin()?;
        let found = see(&region)?;
        check_gets(&region, &found)?;
        model.settle(&found).unwrap_or_else(|error| panic!("after a death: {error}"));

        for step in 0..40 {
            self.world.advance(std::time::Duration::from_millis(7));
            let stepped = self.step(&mut region, &log, &recovered, model, random);
            let failed = stepped.is_err();
            match stepped {
                // The storage works again, and so does the region, unless it has lost its log.
                Err(_) if !self.last => {}
                other => other?,
            }
            if failed || step % 8 == 7 {
                // Writes under way may be seen; acknowledged ones must be.
                let seen = see(&region)?;
                model.clone().settle(&seen).unwrap_or_else(|error| panic!("step {step}: {error}"));
            }
        }
        region.close()?;
        model.acknowledge();
        log.close()?;
        Ok(())
    }
}

/// Runs one process for each number in `deaths`, which ends at that storage call, and a last one without a crash.
/// Returns the number of calls of each process.
fn lives(seed: u64, death: Death, fault: Fault, deaths: &[u64]) -> Vec<u64> {
    let subject = Subject::new();
    let world = World::simulated(seed, WallTime(1_000_000));
    let mut model = Model::new(VERSIONS);
    let mut random = Random(seed);
    let mut place = Memory::new();
    let mut acts = Vec::new();
    for (life, act) in deaths.iter().copied().chain([u64::MAX]).enumerate() {
        place.set_fault(Some(Fault { act, ..fault }));
        let this = Life { subject: &subject, place: &place, world: &world, death, last: fault.last };
        let lived = this.live(&mut model, &mut random);
        acts.push(place.acts());
        if let Err(end) = lived {
            assert!(act != u64::MAX, "seed {seed}, life {life} met no fault and failed: {end:?}");
            assert!(!end.is_corruption(), "seed {seed}, life {life}: {end:?}");
        }
        place = match death {
            Death::Kill => place.kill(),
            Death::Power => place.crash(seed + life as u64),
        };
    }
    acts
}

/// Returns the number of seeds; `MODEL_SEEDS` overrides it.
fn seeds() -> u64 {
    std::env::var("MODEL_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

fn every_death(death: Death, kind: Kind, last: bool) {
    for seed in 1..=seeds() {
        let fault = |outcome| Fault { act: 0, kind, outcome, last };
        let whole = lives(seed, death, fault(Outcome::DidNotHappen), &[]);
        assert!(whole[0] > 60, "seed {seed}: a life of {} acts shows little", whole[0]);
        for act in 1..=whole[0] {
            for outcome in [Outcome::DidNotHappen, Outcome::MayHaveHappened] {
                // The second life ends during its recovery or soon after it.
                let second = 1 + (act * 7 + seed) % 25;
                lives(seed, death, fault(outcome), &[act, second]);
            }
        }
    }
}

#[test]
fn every_acknowledged_write_survives_the_loss_of_power_in_every_act() {
    every_death(Death::Power, Kind::Failed, true);
}

#[test]
fn every_acknowledged_write_survives_a_kill_in_every_act() {
    every_death(Death::Kill, Kind::Failed, true);
}

#[test]
fn an_act_that_fails_once_loses_nothing_then_or_later() {
    every_death(Death::Power, Kind::Full, false);
}

/// Runs writers beside flushes and compactions until the storage fails.
#[test]
fn writers_flushes_and_compactions_side_by_side_lose_nothing() {
    const WRITERS: usize = 4;
    let subject = Subject::new();
    for seed in 1..=40 * seeds() {
        let death = if seed % 2 == 0 { Death::Kill } else { Death::Power };
        let world = World::simulated(seed, WallTime(1_000_000));
        let mut random = Random(seed);
        let mut place = Memory::new();
        // For each writer: the last value that was acknowledged, and the last that was begun.
        let mut progress = [(0u64, 0u64); WRITERS];
        for life in 0..3 {
            let act = if life == 2 { u64::MAX } else { place.acts() + 10 + random.below(400) };
            let fault = Fault { act, kind: Kind::Failed, outcome: Outcome::MayHaveHappened, last: true };
            place.set_fault(Some(fault));
            let this = Life { subject: &subject, place: &place, world: &world, death, last: true };
            let opened = this.begin();
            assert!(life < 2 || opened.is_ok(), "seed {seed}: {:?}", opened.err());
            if let Ok((_log, region, _)) = &opened {
                check_writers(region, &mut progress, seed);
                if life == 2 {
                    break;
                }
                std::thread::scope(|scope| {
                    let writers: Vec<_> = progress
                        .iter_mut()
                        .enumerate()
                        .map(|(writer, progress)| {
                            let world = &world;
                            scope.spawn(move || keep_writing(region, world, writer, progress))
                        })
                        .collect();
                    let mut round = 0;
                    while writers.iter().any(|writer| !writer.is_finished()) {
                        round += 1;
                        region.compact_memory(0.5);
                        // The flush and the compaction fail when the storage fails. The writers notice that themselves.
                        let _flushed = region.flush(FlushReason::Requested);
                        if round % 3 == 0 {
                            let _compacted = region
                                .compact(&CompactionRequest { major: round % 2 == 0, families: vec![] });
                        }
                    }
                });
            }
            drop(opened);
            place = match death {
                Death::Kill => place.kill(),
                Death::Power => place.crash(seed),
            };
        }
    }
}

/// Writes 1, 2, 3 … into both families of the writer's row, each acknowledged before the next, until something fails.
fn keep_writing(region: &Arc<Region>, world: &World, writer: usize, progress: &mut (u64, u64)) {
    loop {
        world.advance(std::time::Duration::from_millis(1));
        let (_, begun) = progress;
        *begun += 1;
        let edit = |family: &&[u8]| Edit {
            column: (format!("row{writer}").into_bytes(), family.to_vec(), b"q".to_vec()),
            timestamp: *begun as i64,
            what: What::Put(begun.to_string().into_bytes()),
        };
        let mutation = mutation(&FAMILIES.iter().map(edit).collect::<Vec<_>>());
        let Ok(applied) = region.apply(&[mutation], ReadMode::Any) else { return };
        if applied.outcomes.iter().any(Result::is_err) || applied.pending.wait_blocking().is_err() {
            return;
        }
        progress.0 = progress.1;
    }
}

fn check_writers(region: &Arc<Region>, progress: &mut [(u64, u64)], seed: u64) {
    let seen = see(region).expect("readable");
    for (writer, (acknowledged, begun)) in progress.iter_mut().enumerate() {
        let values = FAMILIES.map(|family| {
            let column = (format!("row{writer}").into_bytes(), family.to_vec(), b"q".to_vec());
            seen.get(&column).map_or(0, |versions| versions[0].0 as u64)
        });
        assert_eq!(values[0], values[1], "seed {seed}: half of a write of writer {writer}");
        assert!(
            (*acknowledged..=*begun).contains(&values[0]),
            "seed {seed}: writer {writer} found {}, acknowledged {acknowledged}, begun {begun}",
            values[0]
        );
        (*acknowledged, *begun) = (values[0], values[0]);
    }
}
