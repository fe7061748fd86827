//! Tests of changes whose intent is stored although its write failed. What clients write afterwards must not be deleted by
//! such an intent, neither by the chore nor by the next start.

use std::sync::Arc;

use bytes::Bytes;
use env::sync::Mutex;
use proto::catalog::TableState;
use proto::{RegionInfo, pb};
use rpc::Exception;
use storage::memory::Fault;
use storage::{
    Capabilities, Entry, Error, FileName, FileReader, FileWriter, Files, Kind, Memory, Object, Outcome,
    Result, Settled, Version,
};

use super::fake::{Durable, Life, name, pb_name};
use super::snapshots::{clone, take};

const TIME: i64 = 1_700_000_000_000;

/// How the object of the intents cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    None,
    /// The next write happens and reports failure, and its outcome cannot be found out at once.
    OfOneWrite,
    /// Writes happen and report failure, and the object cannot be read.
    Lasting,
}

/// Storage in memory in which the object of the intents can have an outage.
#[derive(Clone)]
struct Unreliable {
    below: Memory,
    outage: Arc<Mutex<Outage>>,
}

impl Unreliable {
    fn check(&self, name: &FileName, act: &'static str) -> Result<()> {
        if *name != layout::unfinished() || *self.outage.lock() == Outage::None {
            return Ok(());
        }
        Err(Error::new(Kind::Failed, Outcome::MayHaveHappened, name, act).because("an outage of the test"))
    }

    fn set(&self, outage: Outage) {
        *self.outage.lock() = outage;
    }
}

impl Files for Unreliable {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.below.create(name)
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        self.below.open(name)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        self.below.list(folder)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.below.delete(name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.check(name, "load")?;
        self.below.load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let version = self.below.swap(name, expected, new)?;
        self.check(name, "swap")?;
        Ok(version)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        let checked = self.check(name, "settle");
        if checked.is_err() && *self.outage.lock() == Outage::OfOneWrite {
            self.set(Outage::None);
        }
        checked?;
        self.below.settle(name, expected, new)
    }

    fn place(&self) -> String {
        self.below.place()
    }
}

/// Returns a master with table t, which has the families f and g in two regions, and snapshot s of it.
fn life() -> (Life, Unreliable) {
    let (below, durable) = (Memory::new(), Durable::default());
    let files = Unreliable { below: below.clone(), outage: Arc::new(Mutex::new(Outage::None)) };
    let life = Life::over(below, Arc::new(files.clone()), durable, TIME, |_| {}).expect("it starts");
    life.create("t", &["f", "g"], &["m"]).expect("created");
    take(&life, "s", "t").expect("taken");
    (life, files)
}

fn disable(life: &Life) {
    life.done(life.master.disable_table(&pb_name("t"), None)).expect("disabled");
}

fn enable(life: &Life) -> std::result::Result<(), Exception> {
    life.done(life.master.enable_table(&pb_name("t"), None))
}

fn delete_family(life: &Life) -> std::result::Result<(), Exception> {
    life.done(life.master.delete_family(&pb_name("t"), &"g".into(), None))
}

/// What the chore does every ten seconds.
fn carry_on(life: &Life) {
    life.master.carry_on_what_waits();
    life.master.procedures.wait_idle();
}

fn regions(life: &Life) -> Vec<RegionInfo> {
    life.master
        .read_view(|view| view.tables[&name("t")].regions.iter().map(|row| row.region.clone()).collect())
}

/// Asserts that t, after the next start, is as it was, with this file. Returns the next master.
fn assert_untouched(life: &Life, before: &[RegionInfo], file: &FileName, words: &str) -> Life {
    carry_on(life);
    assert!(life.files_of("t").contains(file), "{words}: deleted by the chore");
    let next = Life::at(life.files.kill(), life.durable.clone(), TIME + 60_000).expect("it starts");
    assert!(next.files_of("t").contains(file), "{words}: deleted by the next start");
    assert_eq!((next.state("t"), regions(&next).as_slice()), (TableState::Enabled, before), "{words}");
    let schema = next.master.read_view(|view| Arc::clone(&view.tables[&name("t")].descriptor));
    let versions = schema.family(b"g").expect("it is kept").options().expect("a good schema").versions_max;
    assert_eq!(versions, 1, "{words}");
    assert!(next.master.intents.all().is_empty(), "{words}");
    next
}

type Change = fn(&Life) -> std::result::Result<(), Exception>;

#[test]
fn a_disabled_table_is_enabled_only_once_a_failed_change_of_it_is_not_stored() {
    let changes: [(&str, Change); 5] = [
        ("deletion", |life| life.done(life.master.delete_table(&pb_name("t"), None))),
        ("truncation", |life| life.done(life.master.truncate_table(&pb_name("t"), true, None))),
        ("restoration", |life| clone(life, "s", "t")),
        ("deletion of a family", delete_family),
        ("alteration", |life| {
            let versions = pb::BytesBytesPair { first: "VERSIONS".into(), second: "7".into() };
            let family =
                pb::ColumnFamilySchema { name: "g".into(), attributes: vec![versions], ..Default::default() };
            life.done(life.master.modify_family(&pb_name("t"), &family, None))
        }),
    ];
    for (words, change) in changes {
        for outage in [Outage::OfOneWrite, Outage::Lasting] {
            let (life, files) = life();
            let before = regions(&life);
            disable(&life);
            files.set(outage);
            let failure = change(&life).expect_err("the intent is reported as not stored");
            if outage == Outage::Lasting {
                assert!(failure.message.contains("Until it can be withdrawn"), "{words}: {failure}");
                let refused = enable(&life).expect_err("the intent may be stored");
                assert!(refused.message.contains("cannot be withdrawn"), "{words}: {refused}");
                assert_eq!(life.state("t"), TableState::Disabled);
                files.set(Outage::None);
            }
            enable(&life).expect("nothing is in the way");
            // The rows of this file are acknowledged after the failure.
            let file = life.put_store_file("t", "g");
            assert_untouched(&life, &before, &file, &format!("{words}, {outage:?}"));
        }
    }
}

/// Returns the number of regions that take puts to these families.
fn taking(life: &Life, regions: &[RegionInfo]) -> [usize; 2] {
    [b"f", b"g"].map(|family| {
        regions.iter().filter(|region| life.servers.takes_puts(region.encoded_name(), family)).count()
    })
}

#[test]
fn a_family_whose_deletion_may_be_stored_takes_no_writes_until_it_is_not() {
    for outage in [Outage::OfOneWrite, Outage::Lasting] {
        let (life, files) = life();
        let before = regions(&life);
        files.set(outage);
        let failure = delete_family(&life).expect_err("the intent is reported as not stored");
        if outage == Outage::Lasting {
            assert!(failure.message.contains("table t refuses puts to these families"), "{failure}");
            carry_on(&life);
            assert_eq!(taking(&life, &before), [2, 0], "all regions serve the other family");
            files.set(Outage::None);
            carry_on(&life);
        }
        assert_eq!(taking(&life, &before), [2, 2]);
        let file = life.put_store_file("t", "g");
        let next = assert_untouched(&life, &before, &file, &format!("{outage:?}"));
        delete_family(&next).expect("nothing is in the way");
        assert!(!next.files_of("t").contains(&file));
    }
}

#[test]
fn the_deletion_of_a_family_goes_on_from_a_region_that_cannot_be_closed() {
    let (life, _) = life();
    let regions = regions(&life);
    let file = life.put_store_file("t", "g");
    life.servers.refuse_closes(1);
    let failure = delete_family(&life).expect_err("a region is not closed");
    assert!(failure.message.contains("by the test"), "{failure}");
    assert_eq!(taking(&life, &regions), [2, 0]);
    assert!(life.files_of("t").contains(&file));
    carry_on(&life);
    assert_eq!(taking(&life, &regions), [2, 0]);
    assert!(!life.files_of("t").contains(&file), "the deletion is complete");
    assert!(life.master.intents.all().is_empty());
    let family = pb::ColumnFamilySchema { name: "g".into(), ..Default::default() };
    life.done(life.master.add_family(&pb_name("t"), &family, None)).expect("nothing is in the way");
    assert_eq!(taking(&life, &regions), [2, 2]);
}

/// A deletion of a family closes one region at a time.
#[test]
fn a_region_whose_family_cannot_be_deleted_is_the_only_one_that_is_closed() {
    let (life, _) = life();
    let regions = regions(&life);
    life.servers.refuse(Some(""));
    delete_family(&life).expect_err("the first region is not opened again");
    assert_eq!(taking(&life, &regions), [1, 0]);
    life.servers.refuse(None);
    carry_on(&life);
    assert_eq!(taking(&life, &regions), [2, 0], "the chore goes on");
}

#[test]
fn a_family_that_takes_puts_after_its_deletion_failed_keeps_its_files() {
    let (mut served, mut refused) = (0, 0);
    let outcomes = [Outcome::DidNotHappen, Outcome::MayHaveHappened];
    for (outcome, last) in outcomes.into_iter().flat_map(|outcome| [(outcome, false), (outcome, true)]) {
        for act in 1..20 {
            let (life, _) = life();
            let file = life.put_store_file("t", "g");
            let act = life.files.acts() + act;
            life.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last }));
            let deleted = delete_family(&life);
            life.files.set_fault(None);
            if deleted.is_ok() {
                continue;
            }
            let [_, taking] = taking(&life, &regions(&life));
            if taking > 0 {
                served += 1;
                let next = life.next();
                assert!(
                    next.files_of("t").contains(&file),
                    "act {act}, {outcome:?}, last {last}: {deleted:?}"
                );
            } else {
                refused += 1;
                let next = life.next();
                assert_eq!(next.servers.open_count(), 4, "act {act}, {outcome:?}, last {last}: {deleted:?}");
            }
        }
    }
    assert!(served > 0 && refused > 0, "{served} {refused}");
}

#[test]
fn a_merge_that_may_be_stored_opens_no_region_that_was_split_since() {
    let (life, files) = life();
    let parents = regions(&life);
    let specifiers =
        parents.iter().map(|region| pb::RegionSpecifier { r#type: 1, value: region.name().clone() });
    files.set(Outage::Lasting);
    let merged = life.done(life.master.merge_regions(&specifiers.collect::<Vec<_>>(), false, None));
    merged.expect_err("its first step is reported as not stored");
    files.set(Outage::None);
    let split = life.master.split_region(&(&parents[1]).into(), Some(Bytes::from("s")), None);
    life.done(split).expect("nothing is in the way");
    carry_on(&life);
    assert!(life.servers.server_of(parents[1].encoded_name()).is_none(), "its daughters have its rows");
    assert!(life.master.intents.all().is_empty());
    let next = Life::at(life.files.kill(), life.durable.clone(), TIME + 60_000).expect("it starts");
    assert_eq!(next.servers.open_count(), 5);
}
