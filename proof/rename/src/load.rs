//! A region, and the loads whose time is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cache::Cache;
use cell::{CellBlock, CellParts, CellType, Timestamp};
use env::{Priority, Thread, World};
use proto::{FamilyDescriptor, RegionId, RegionInfo, TableDescriptor};
use region::{
    CompactionRequest, Durability, FlushReason, Mutation, MutationKind, Opening, ReadMode, Region,
    RegionOptions,
};
use storage::{FileName, Files};

const FAMILY: &str = "f";
/// Number of bytes in memory at which the region flushes.
pub(crate) const FLUSH_BYTES: u64 = 16 << 20;
/// Number of such sizes in memory at which writes wait, as by default (`hbase.hregion.memstore.block.multiplier`).
const BLOCK_MULTIPLIER: u64 = 4;
/// Number of bytes of a value.
const VALUE_BYTES: usize = 1_000;
/// Number of rows of one write.
const BATCH: u64 = 200;
const LOOK: Duration = Duration::from_millis(1);

/// A region of all rows, with a log of its own.
pub(crate) struct Loaded {
    region: Arc<Region>,
    world: World,
    value: Vec<u8>,
    written: u64,
}

/// Whether the writes of a load are logged, and whether its files are compacted meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Neither, so that only flushes limit it.
    Flushes,
    /// Both.
    Whole,
}

impl Loaded {
    /// Opens an empty region with files in `files` and its log in `log_files`.
    pub(crate) fn open(files: Arc<dyn Files>, log_files: Arc<dyn Files>) -> Result<Loaded, String> {
        let world = World::real();
        let (log, recovered) =
            wal::Log::open(world.clone(), log_files, FileName::new("WALs"), wal::Options::default())
                .map_err(|error| error.to_string())?;
        let info = RegionInfo::new("t".parse().expect("a name"), Bytes::new(), Bytes::new(), RegionId(1))
            .expect("a region");
        let mut table = TableDescriptor::new(info.table().clone());
        table.set_family(FamilyDescriptor::new(FAMILY).expect("a name"));
        let region = Region::open(Opening {
            folder: FileName::new("data/default/t").join(info.encoded_name().as_str()),
            info,
            table: Arc::new(table),
            files,
            log: Arc::new(log),
            cache: Arc::new(Cache::with_bytes(64 << 20)),
            world: world.clone(),
            options: RegionOptions {
                flush_size: FLUSH_BYTES,
                block_multiplier: BLOCK_MULTIPLIER,
                ..RegionOptions::default()
            },
            recovered: Some(Arc::new(recovered)),
        })
        .map_err(|error| error.to_string())?;
        let mut value = vec![0; VALUE_BYTES];
        value.iter_mut().for_each(|byte| *byte = world.random() as u8);
        Ok(Loaded { region, world, value, written: 0 })
    }

    fn batch(&mut self, durability: Durability) -> Vec<Mutation> {
        let numbers = self.written..self.written + BATCH;
        self.written += BATCH;
        let mutation = |number: u64| {
            let row = Bytes::from(format!("user{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let parts = CellParts {
                row: &row,
                family: FAMILY.as_bytes(),
                qualifier: b"q",
                timestamp: Timestamp(1),
                cell_type: CellType::Put,
                value: &self.value,
                tags: b"",
            };
            let cell = parts.to_vec().expect("within limits");
            let block = [&(cell.len() as u32).to_be_bytes()[..], &cell].concat();
            Mutation {
                kind: MutationKind::Put,
                cells: CellBlock::parse(block.into()).expect("whole"),
                row,
                durability,
                time_range: None,
                return_results: false,
                nonce: None,
            }
        };
        numbers.map(mutation).collect()
    }

    fn write(&mut self, rows: u64, durability: Durability) -> Result<(), String> {
        for _ in 0..rows / BATCH {
            while self.region.memstore_bytes() >= BLOCK_MULTIPLIER * FLUSH_BYTES {
                self.world.pause(LOOK);
            }
            let batch = self.batch(durability);
            let applied = self.region.apply(&batch, ReadMode::Any).map_err(|error| error.to_string())?;
            applied.pending.wait_blocking().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Writes `rows` rows of 1 KB, flushes them as a server does, and returns the time until all are in files and no
    /// compaction is due.
    pub(crate) fn load(&mut self, load: Load, rows: u64) -> Result<Duration, String> {
        let began = self.world.moment();
        let all_written = Arc::new(AtomicBool::new(false));
        let all_flushed = Arc::new(AtomicBool::new(false));
        let (region, world) = (Arc::clone(&self.region), self.world.clone());
        let (is_last, done) = (Arc::clone(&all_written), Arc::clone(&all_flushed));
        let flushing = thread("flushes", move || {
            let flushed = repeat(&world, &is_last, || {
                let bytes = region.memstore_bytes();
                let is_due = bytes >= FLUSH_BYTES || (bytes > 0 && is_last.load(Ordering::Acquire));
                if is_due {
                    region.flush(FlushReason::Requested).map_err(|error| error.to_string())?;
                }
                Ok(is_due)
            });
            done.store(true, Ordering::Release);
            flushed
        })?;
        let compacting = match load {
            Load::Flushes => None,
            Load::Whole => {
                let (region, world) = (Arc::clone(&self.region), self.world.clone());
                Some(thread("compactions", move || {
                    let request = CompactionRequest { major: false, families: vec![] };
                    repeat(&world, &all_flushed, || {
                        Ok(region.compact(&request).map_err(|error| error.to_string())? > 0)
                    })
                })?)
            }
        };
        let written =
            self.write(rows, if load == Load::Whole { Durability::UseDefault } else { Durability::Skip });
        all_written.store(true, Ordering::Release);
        for thread in std::iter::once(flushing).chain(compacting) {
            thread.join().map_err(|_| "a thread of the load panicked".to_owned())??;
        }
        written?;
        Ok(self.world.moment().since(began))
    }

    /// Compacts all files, and returns the time and the number of files that were replaced.
    pub(crate) fn compact(&self) -> Result<(Duration, usize), String> {
        let began = self.world.moment();
        let request = CompactionRequest { major: true, families: vec![] };
        let replaced = self.region.compact(&request).map_err(|error| error.to_string())?;
        Ok((self.world.moment().since(began), replaced))
    }
}

fn thread(
    name: &str,
    work: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<Thread<Result<(), String>>, String> {
    env::spawn_thread(name, Priority::Background, work).map_err(|error| format!("no thread: {error}"))
}

/// Does the work that is due, until `is_last` was set before nothing was due.
fn repeat(
    world: &World,
    is_last: &AtomicBool,
    mut work: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    loop {
        let ends = is_last.load(Ordering::Acquire);
        if !work()? {
            if ends {
                return Ok(());
            }
            world.pause(LOOK);
        }
    }
}
