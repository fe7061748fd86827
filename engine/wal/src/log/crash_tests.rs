//! Crashes a log in every one of its storage operations, and again while it recovers.
//!
//! After each crash, whatever the storage kept, the log opens, and every region finds its records in order and without
//! a gap. Acknowledged records that were not flushed are among them, and no record that was never appended is.

use std::collections::BTreeMap;
use std::time::Duration;

use env::{WallTime, World};
use storage::memory::Fault;
use storage::{Kind as StorageKind, Memory, Outcome};

use super::*;
use crate::format::Kind;

const REGIONS: [&str; 3] = ["aaaa", "bbbb", "1588230740"];

fn options() -> Options {
    // Small files, so that one process rolls several times. The idle thread must not add storage operations.
    Options { file_bytes_max: 600, idle_write: Duration::from_secs(3_600), ..Options::default() }
}

/// What the test expects of one region.
#[derive(Default, Clone)]
struct RegionModel {
    appended: u64,
    acknowledged: u64,
    flushed: u64,
}

type Model = BTreeMap<&'static str, RegionModel>;

fn cells(region: &str, sequence: u64) -> Vec<u8> {
    format!("{region}-{sequence}-{}", "x".repeat(sequence as usize * 7 % 90)).into_bytes()
}

/// How the process of a test ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Death {
    /// The process is killed: the bytes that it has passed to the system survive.
    Kill,
    /// The power is lost.
    Power,
}

/// Opens the log, checks the records that it finds against `model`, works, and ends when the storage fails. Every
/// record is acknowledged at `level`.
fn live(place: &Memory, death: Death, level: Level, model: &mut Model) -> Result<()> {
    // After a loss of power, bytes that were only passed to the operating system are gone. In that case only records
    // before a roll count as acknowledged.
    let survives = death == Death::Kill || level == Level::Disk;
    let (log, recovered) =
        Log::open(World::real(), Arc::new(place.clone()), FileName::new("WALs"), options())?;
    for region in REGIONS {
        let known = model.entry(region).or_default();
        let mut found = Vec::new();
        recovered.replay::<Error>(region.as_bytes(), |record| {
            assert_eq!(record.cells, cells(region, record.sequence.0), "{region} {}", record.sequence);
            found.push(record.sequence.0);
            Ok(())
        })?;
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{region}: out of order: {found:?}");
        // Removed files leave gaps in the sequence ids, but only among flushed records. So these are not compared.
        found.retain(|sequence| *sequence > known.flushed);
        let last = found.last().copied().unwrap_or(known.flushed);
        assert_eq!(found, (known.flushed + 1..=last).collect::<Vec<_>>(), "{region}: a gap");
        assert!(
            (known.acknowledged.max(known.flushed)..=known.appended).contains(&last),
            "{region}: found up to {last}, acknowledged {}, appended {}",
            known.acknowledged,
            known.appended
        );
        // As if the region had flushed the records that it got. It continues with the next sequence id.
        known.flushed = last;
        known.acknowledged = last;
        known.appended = last;
        log.flushed(region.as_bytes(), SequenceId(last));
    }
    for round in 0..12u64 {
        for region in REGIONS {
            let known = model.get_mut(region).expect("made above");
            let sequence = known.appended + 1;
            let ticket = log.append(&Record {
                kind: Kind::Edit,
                region: region.as_bytes(),
                table: b"t",
                sequence: SequenceId(sequence),
                time: WallTime(1),
                nonce: None,
                cells: &cells(region, sequence),
            })?;
            known.appended = sequence;
            // Not every record is synced: a record is also acknowledged by the sync of a later one.
            if !(round + sequence).is_multiple_of(3) {
                log.sync_blocking(ticket, level)?;
                if survives {
                    model.values_mut().for_each(|known| known.acknowledged = known.appended);
                }
            }
        }
        if round == 2 {
            log.roll()?;
            model.values_mut().for_each(|known| known.acknowledged = known.appended);
        }
        if round % 2 == 1 {
            let region = REGIONS[round as usize / 2 % 3];
            let known = model.get_mut(region).expect("made above");
            // The region flushes only what was acknowledged.
            known.flushed = known.acknowledged;
            log.flushed(region.as_bytes(), SequenceId(known.flushed));
        }
    }
    assert!(log.shared.counts.reused.value() > 0, "a whole life writes over what it has given up");
    log.close()
}

fn die(place: &Memory, death: Death, seed: u64) -> Memory {
    match death {
        Death::Kill => place.kill(),
        Death::Power => place.crash(seed),
    }
}

/// Tests three processes in a row: the first ends in the storage operation `first`, the second, during or after its
/// recovery, in the operation `second`.
fn three_lives(
    death: Death,
    level: Level,
    seed: u64,
    outcome: Outcome,
    first: u64,
    second: u64,
) -> (u64, u64) {
    let mut model = Model::new();
    let mut place = Memory::new();
    let mut acts = [0; 2];
    for (life, act) in [first, second].into_iter().enumerate() {
        place.set_fault(Some(Fault { act, kind: StorageKind::Failed, outcome, last: true }));
        let lived = live(&place, death, level, &mut model);
        acts[life] = place.acts();
        if let Err(error) = &lived {
            assert!(!matches!(error, Error::Corrupt { .. }), "life {life}: {error}");
        }
        place = die(&place, death, seed + life as u64);
    }
    live(&place, death, level, &mut model).expect("the last life meets no fault");
    (acts[0], acts[1])
}

fn every_death(death: Death, level: Level) {
    for (seed, outcome) in [(1, Outcome::DidNotHappen), (2, Outcome::MayHaveHappened)] {
        let (acts, _) = three_lives(death, level, seed, outcome, u64::MAX, u64::MAX);
        assert!(acts > 30, "a life of {acts} acts shows little");
        for first in 1..=acts {
            // The second process dies soon: in one of its first storage operations, during its recovery, and at some
            // later operation.
            for second in [1, 2, 3, 4, 5 + first % 20] {
                three_lives(death, level, seed * 1_000 + first, outcome, first, second);
            }
        }
    }
}

#[test]
fn power_is_lost_in_every_act_and_again_in_recovery() {
    every_death(Death::Power, Level::Disk);
    every_death(Death::Power, Level::Os);
}

#[test]
fn the_process_is_killed_in_every_act_and_again_in_recovery() {
    every_death(Death::Kill, Level::Os);
    every_death(Death::Kill, Level::Disk);
}

/// The power is lost while a file that already has its end record is being synced. The file then may lack some of its
/// last batches, but have a whole index, which names them. The next owner reads the file, writes a file of its own, and
/// ends. The `Whole` records in that owner's files must not make the third owner trust the index.
#[test]
fn a_torn_file_with_a_whole_index_stays_torn_for_every_later_owner() {
    let open = |place: &Memory| {
        Log::open(World::real(), Arc::new(place.clone()), FileName::new("WALs"), options())
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let append = |log: &Log, sequence: u64| {
        let cells = vec![b'c'; 700];
        let record = Record {
            kind: Kind::Edit,
            region: REGIONS[0].as_bytes(),
            table: b"t",
            sequence: SequenceId(sequence),
            time: WallTime(1),
            nonce: None,
            cells: &cells,
        };
        let ticket = log.append(&record).expect("the log works");
        log.sync_blocking(ticket, Level::Os)
    };
    let mut torn = 0;
    for seed in 0..60 {
        let place = Memory::new();
        let options = Options { file_bytes_max: u64::MAX, ..options() };
        let (log, _) = Log::open(World::real(), Arc::new(place.clone()), FileName::new("WALs"), options)
            .unwrap_or_else(|error| panic!("{error}"));
        (1..=4).for_each(|sequence| append(&log, sequence).expect("the log works"));
        // The fault strikes the fifth operation from here: the creation of the next file, its header, the sync of the
        // header, the end of this file, and now the sync of this file.
        let act = place.acts() + 5;
        let outcome = Outcome::DidNotHappen;
        place.set_fault(Some(Fault { act, kind: StorageKind::Failed, outcome, last: true }));
        log.roll().expect_err("the sync of the ended file fails");
        let place = place.crash(seed);

        let (log, recovered) = open(&place);
        torn += usize::from(!recovered.torn_tails().is_empty());
        let mut kept = 0;
        recovered
            .replay::<Error>(REGIONS[0].as_bytes(), |_| {
                kept += 1;
                Ok(())
            })
            .expect("a torn tail is no damage");
        (1..=2).for_each(|later| append(&log, kept + later).expect("the log works"));
        log.roll().expect("the storage works");
        drop((log, recovered));

        let (_log, recovered) = open(&place);
        let mut found = Vec::new();
        recovered
            .replay::<Error>(REGIONS[0].as_bytes(), |record| {
                found.push(record.sequence.0);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(found, (1..=kept + 2).collect::<Vec<_>>(), "seed {seed}");
    }
    assert!(torn > 10, "{torn} of 60 losses of power tore the file");
}
