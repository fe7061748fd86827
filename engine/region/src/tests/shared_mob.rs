//! Tests of the deletion of MOB files in storage that other processes reach. Each test has a MOB file that nothing needs,
//! and a danger: a MOB file that is needed for one reason only.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use proto::{EncodedName, pb};
use storage::{Capabilities, Capability, Kind, Outcome};

use super::file_life::Server;
use super::mob::{add_unnamed_mob_file, all, compact, flush, mob_family, mob_files, open, put, value};
use super::*;
use crate::CatalogRegions;

const GRACE: Duration = Duration::from_secs(60);

/// A catalog with these regions.
struct Tables<'a> {
    regions: Vec<RegionInfo>,
    is_settled: &'a dyn Fn(&EncodedName) -> bool,
}

impl CatalogRegions for Tables<'_> {
    fn regions(&self) -> Result<Vec<RegionInfo>> {
        Ok(self.regions.clone())
    }

    fn is_settled(&self, region: &EncodedName) -> bool {
        (self.is_settled)(region)
    }
}

/// The catalog of a region that is open.
fn open_in(region: &Arc<Region>) -> Tables<'static> {
    Tables { regions: vec![region.info().clone()], is_settled: &|_| true }
}

/// A catalog with these regions, of which none is open.
fn closed(regions: &[&RegionInfo]) -> Tables<'static> {
    Tables { regions: regions.iter().map(|&region| region.clone()).collect(), is_settled: &|_| false }
}

fn shared() -> Server {
    let without = Capabilities::ALL.without(Capability::OneProcess).without(Capability::ListsAll);
    Server::over(Memory::with(without))
}

fn janitor(server: &Server) -> Janitor {
    server.janitor().keeping(server.world.clone(), GRACE).owning(Arc::clone(&server.log))
}

fn clean(janitor: &Janitor, catalog: &dyn CatalogRegions) -> Result<usize> {
    janitor.clean_mob_files(&FileName::root(), catalog)
}

/// Lets the grace of all unneeded MOB files end, and returns the number of deleted ones.
fn clean_after_grace(server: &Server, janitor: &Janitor, catalog: &dyn CatalogRegions) -> usize {
    assert_eq!(clean(janitor, catalog).expect("read"), 0, "the grace has begun");
    server.world.advance(GRACE);
    clean(janitor, catalog).expect("read")
}

/// Returns an open region with one value in a MOB file.
fn with_value(server: &Server, table: &str) -> Arc<Region> {
    let region = open(server, table);
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    region
}

/// Closes a region, and drops the folder of its table.
fn drop_table(server: &Server, janitor: &Janitor, region: Arc<Region>) {
    let folder = Server::folder(region.info()).parent().expect("a table's");
    region.close().expect("closed");
    drop(region);
    janitor.drop_folder(&folder).expect("dropped");
    assert!(server.files.list(&folder).expect("listed").is_empty());
}

/// Something that happens before a call with this file or folder, which may fail the call.
type Hook = Box<dyn Fn(&FileName) -> storage::Result<()> + Send + Sync>;

/// The regions' or the janitor's storage, with faults.
struct Faulty {
    files: Memory,
    /// Called before a file is created or an object is swapped, with its name.
    on_write: Hook,
    /// Called before each reading call, with what is read.
    on_read: Hook,
    /// Whether a listing of this folder lacks everything but MOB files, because it is stale.
    is_stale: fn(&FileName) -> bool,
}

impl Faulty {
    fn new(server: &Server) -> Faulty {
        Faulty {
            files: server.files.clone(),
            on_write: Box::new(|_| Ok(())),
            on_read: Box::new(|_| Ok(())),
            is_stale: |_| false,
        }
    }

    fn janitor(self, server: &Server) -> Janitor {
        let janitor = Janitor::new(Arc::new(self), Arc::clone(&server.options.open_files));
        janitor.keeping(server.world.clone(), GRACE)
    }
}

impl storage::Overlay for Faulty {
    fn below(&self) -> &dyn Files {
        &self.files
    }

    fn create(&self, name: &FileName) -> storage::Result<Box<dyn storage::FileWriter>> {
        (self.on_write)(name)?;
        self.files.create(name)
    }

    fn open(&self, name: &FileName) -> storage::Result<Arc<dyn storage::FileReader>> {
        (self.on_read)(name)?;
        self.files.open(name)
    }

    fn list(&self, folder: &FileName) -> storage::Result<Vec<storage::Entry>> {
        (self.on_read)(folder)?;
        let mut listed = self.files.list(folder)?;
        listed.retain(|entry| !(self.is_stale)(folder) || entry.name.as_str().starts_with("mobdir/"));
        Ok(listed)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<storage::Object> {
        (self.on_read)(name)?;
        self.files.load(name, bytes_max)
    }

    fn swap(
        &self,
        name: &FileName,
        expected: Option<&storage::Version>,
        new: &[u8],
    ) -> storage::Result<storage::Version> {
        (self.on_write)(name)?;
        self.files.swap(name, expected, new)
    }

    fn settle(
        &self,
        name: &FileName,
        expected: Option<&storage::Version>,
        new: &[u8],
    ) -> storage::Result<storage::Settled> {
        (self.on_write)(name)?;
        self.files.settle(name, expected, new)
    }
}

fn fails(outcome: Outcome) -> storage::Error {
    storage::Error::new(Kind::Failed, outcome, &FileName::new("x"), "use")
}

#[test]
fn a_mob_file_is_deleted_when_it_was_not_needed_for_the_grace() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    let before = all(&region);
    let catalog = open_in(&region);
    assert_eq!(clean_after_grace(&server, &janitor, &catalog), 0, "the store file names it");
    compact(&region, true);
    assert_eq!(clean(&janitor, &catalog).expect("read"), 0);
    server.world.advance(GRACE - Duration::from_millis(1));
    assert_eq!(clean(&janitor, &catalog).expect("read"), 0, "a replica may still read it");
    server.world.advance(Duration::from_millis(1));
    assert_eq!(clean(&janitor, &catalog).expect("read"), 1);
    assert_eq!((mob_files(&server).len(), all(&region)), (1, before));
}

#[test]
fn a_mob_file_that_a_scanner_will_read_stays() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    let mut scanner = region.scanner(Scan::default()).expect("serving");
    compact(&region, true);
    let catalog = open_in(&region);
    assert_eq!(clean_after_grace(&server, &janitor, &catalog), 0);
    let mut shown = Shown::default();
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    assert_eq!(shown.0.join(" "), all(&region));
    drop(scanner);
    assert_eq!(clean_after_grace(&server, &janitor, &catalog), 1);
}

#[test]
fn a_mob_file_whose_store_file_no_list_names_yet_stays() {
    let mut server = shared();
    // A compaction ends each MOB file after two values, long before its store file.
    (server.options.mob_optimized, server.options.mob_file_bytes_max) = (true, 16_000);
    let janitor = Arc::new(janitor(&server));
    let info = Server::info("ns:t", 1);
    let cleaned = Arc::new(AtomicUsize::new(0));
    let on_write = {
        let (janitor, world, cleaned, info) =
            (Arc::clone(&janitor), server.world.clone(), Arc::clone(&cleaned), info.clone());
        move |_: &FileName| {
            let catalog = Tables { regions: vec![info.clone()], is_settled: &|_| true };
            for _ in 0..2 {
                assert_eq!(clean(&janitor, &catalog).expect("read"), 0);
                world.advance(GRACE);
                cleaned.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }
    };
    let files = Arc::new(Faulty { on_write: Box::new(on_write), ..Faulty::new(&server) });
    let region = Region::open(Opening { files, ..server.opening(&info, mob_family()) }).expect("opened");
    for row in ["a", "b", "c", "d"] {
        put(&region, row, 1, &value('v', 9_000));
        flush(&region);
    }
    let (before, passes) = (all(&region), cleaned.load(Ordering::Relaxed));
    compact(&region, true);
    assert!(
        cleaned.load(Ordering::Relaxed) >= passes + 8,
        "before three files are created and a list is swapped"
    );
    assert_eq!(all(&region), before);
    let replaced = clean_after_grace(&server, &janitor, &open_in(&region));
    assert_eq!((replaced, all(&region)), (4, before), "those whose values the compaction has written again");
}

#[test]
fn mob_files_of_a_region_stay_while_it_is_unknown_which_of_its_lists_counts() {
    let server = shared();
    let janitor = janitor(&server);
    let is_failing = Arc::new(AtomicBool::new(false));
    let on_write = {
        let is_failing = Arc::clone(&is_failing);
        move |name: &FileName| match is_failing.load(Ordering::Relaxed) && name.as_str().contains(".filelist")
        {
            true => Err(fails(Outcome::MayHaveHappened)),
            false => Ok(()),
        }
    };
    let files = Arc::new(Faulty { on_write: Box::new(on_write), ..Faulty::new(&server) });
    let opening = server.opening(&Server::info("ns:t", 1), mob_family());
    let region = Region::open(Opening { files, ..opening }).expect("opened");
    put(&region, "a", 1, &value('v', 20));
    is_failing.store(true, Ordering::Relaxed);
    assert!(matches!(region.flush(FlushReason::Requested), Err(Error::InDoubt { .. })));
    is_failing.store(false, Ordering::Relaxed);
    let catalog = Tables { regions: vec![region.info().clone()], is_settled: &|_| !region.is_in_doubt() };
    assert_eq!(clean_after_grace(&server, &janitor, &catalog), 0, "the list may still be written");
    flush(&region);
    assert_eq!(clean_after_grace(&server, &janitor, &catalog), 1);
    assert_eq!(all(&region), format!("a/f:q@1={}", value('v', 20)));
}

#[test]
fn mob_files_of_a_region_that_an_earlier_owner_may_still_change_stay() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    // The earlier owner has written this file, and not yet the store file that names it.
    add_unnamed_mob_file(&server);
    let not_claimed = closed(&[region.info()]);
    assert_eq!(clean_after_grace(&server, &janitor, &not_claimed), 0);
    assert_eq!(clean_after_grace(&server, &janitor, &open_in(&region)), 1);
    add_unnamed_mob_file(&server);
    assert_eq!(
        clean_after_grace(&server, &janitor, &closed(&[])),
        1,
        "no region will be opened from its list"
    );
}

#[test]
fn a_clone_that_is_closed_keeps_the_mob_files_of_its_links() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    let before = all(&region);
    let clone = Server::info("ns:clone", 9);
    region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    drop_table(&server, &janitor, region);
    assert_eq!(clean_after_grace(&server, &janitor, &closed(&[&clone])), 0);
    let region = server.open(&clone, mob_family());
    let system = StoreCompaction { family: "f".into(), major: true, is_user: false, off_peak: false };
    region.compact_family(&system, &()).expect("compacted");
    region.close().expect("closed");
    drop(region);
    assert_eq!(clean_after_grace(&server, &janitor, &closed(&[&clone])), 0, "its own file names it");
    let region = server.open(&clone, mob_family());
    assert_eq!(all(&region), before);
    compact(&region, true);
    assert_eq!((clean_after_grace(&server, &janitor, &open_in(&region)), all(&region)), (1, before));
}

#[test]
fn a_snapshot_of_a_dropped_table_keeps_the_mob_files_that_its_store_files_name() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    let manifest = region.snapshot(true).expect("listed");
    super::snapshots::store(&server, "s", vec![manifest]);
    let of_snapshot = mob_files(&server);
    compact(&region, true);
    drop_table(&server, &janitor, region);
    let none = closed(&[]);
    assert_eq!(clean_after_grace(&server, &janitor, &none), 1, "that of the last compaction");
    assert_eq!(mob_files(&server), of_snapshot);
    super::snapshots::delete(&server, "s");
    assert_eq!(clean_after_grace(&server, &janitor, &none), 1);
}

#[test]
fn no_mob_file_is_deleted_while_a_snapshot_is_taken() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    let running = layout::running_snapshot("s");
    let info = pb::SnapshotDescription { name: "s".into(), table: Some("ns:t".into()), ..Default::default() };
    server.files.swap(&running, None, &info.encode_to_vec()).expect("the disk works");
    compact(&region, true);
    assert_eq!(clean_after_grace(&server, &janitor, &open_in(&region)), 0);
    server.files.delete(&running).expect("the disk works");
    assert_eq!(clean(&janitor, &open_in(&region)).expect("read"), 1);
}

#[test]
fn a_manifest_keeps_the_mob_files_that_it_names() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    let source = region.snapshot(true).expect("listed");
    let files = Arc::new(server.files.clone()) as Arc<dyn Files>;
    let mob = Region::mob_files_of(&files, &source, &region.table()).expect("readable").manifest;
    super::snapshots::store(&server, "s", vec![mob.expect("it has one")]);
    compact(&region, true);
    assert_eq!(clean_after_grace(&server, &janitor, &open_in(&region)), 0);
    super::snapshots::delete(&server, "s");
    assert_eq!(clean_after_grace(&server, &janitor, &open_in(&region)), 1);
}

#[test]
fn a_store_file_that_does_not_say_what_it_needs_keeps_all_mob_files_of_its_family() {
    let server = shared();
    let janitor = janitor(&server);
    let region = with_value(&server, "ns:t");
    let early = server.open(&Server::info("ns:early", 9), FamilyDescriptor::new("f").expect("a name"));
    let tagged = expiring_put("a", "f:q", 1, b"v", 1 << 40);
    early.apply(&[tagged], ReadMode::Any).expect("serving").pending.wait_blocking().expect("durable");
    flush(&early);
    let info = early.info().clone();
    early.close().expect("closed");
    drop(early);
    add_unnamed_mob_file(&server);
    let with_early = Tables { regions: vec![region.info().clone(), info], is_settled: &|_| true };
    assert_eq!(clean_after_grace(&server, &janitor, &with_early), 0);
    assert_eq!(clean_after_grace(&server, &janitor, &open_in(&region)), 1);
}

#[test]
fn nothing_is_deleted_if_a_read_fails() {
    for failing in 1.. {
        let server = shared();
        let region = with_value(&server, "ns:t");
        let clone = Server::info("ns:clone", 9);
        region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
        super::snapshots::store(&server, "s", vec![region.snapshot(true).expect("listed")]);
        compact(&region, true);
        drop_table(&server, &server.janitor(), region);
        let (reads, is_armed) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let armed = Arc::clone(&is_armed);
        let on_read = move |_: &FileName| {
            let is_failing =
                armed.load(Ordering::Relaxed) && reads.fetch_add(1, Ordering::Relaxed) + 1 == failing;
            if is_failing { Err(fails(Outcome::DidNotHappen)) } else { Ok(()) }
        };
        let janitor = Faulty { on_read: Box::new(on_read), ..Faulty::new(&server) }.janitor(&server);
        assert_eq!(clean(&janitor, &closed(&[&clone])).expect("read"), 0);
        server.world.advance(GRACE);
        is_armed.store(true, Ordering::Relaxed);
        match clean(&janitor, &closed(&[&clone])) {
            Err(_) => assert_eq!(mob_files(&server).len(), 2, "read {failing}"),
            Ok(deleted) => {
                assert_eq!((deleted, mob_files(&server).len()), (1, 1));
                assert!(failing > 6, "there were {failing} reads");
                break;
            }
        }
    }
}

#[test]
fn nothing_is_deleted_if_the_catalog_fails_or_changes_meanwhile() {
    struct Changing<'a>(&'a Arc<Region>, AtomicUsize);
    impl CatalogRegions for Changing<'_> {
        fn regions(&self) -> Result<Vec<RegionInfo>> {
            let region = self.0.info().clone();
            match self.1.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::NotServing("hbase:meta".to_owned())),
                1 => Ok(vec![region]),
                2 => Ok(vec![region, Server::info("ns:clone", 9)]),
                _ => Ok(vec![region]),
            }
        }

        fn is_settled(&self, _: &EncodedName) -> bool {
            true
        }
    }
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    add_unnamed_mob_file(&server);
    let catalog = Changing(&region, AtomicUsize::new(0));
    assert_eq!(clean(&janitor, &catalog).expect("read"), 0);
    server.world.advance(GRACE);
    assert!(matches!(clean(&janitor, &catalog), Err(Error::NotServing(_))));
    assert_eq!(clean(&janitor, &catalog).expect("read"), 0, "a clone was made meanwhile");
    assert_eq!(clean(&janitor, &catalog).expect("read"), 1);
}

#[test]
fn nothing_is_deleted_if_a_listed_store_file_is_missing() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    let info = region.info().clone();
    let store_file = region.file_names(&[]).expect("a family").remove(0);
    region.close().expect("closed");
    drop(region);
    server.files.delete(&store_file).expect("deleted");
    let catalog = Tables { regions: vec![info], is_settled: &|_| true };
    assert_eq!(clean(&janitor, &catalog).expect("read"), 0);
    server.world.advance(GRACE);
    let error = clean(&janitor, &catalog).expect_err("the file may have needed it").to_string();
    assert!(error.contains(store_file.as_str()) && mob_files(&server).len() == 1, "{error}");
}

#[test]
fn stale_listings_of_large_folders_do_no_harm() {
    let server = shared();
    let region = with_value(&server, "ns:t");
    let before = all(&region);
    let info = region.info().clone();
    region.close().expect("closed");
    drop(region);
    add_unnamed_mob_file(&server);
    let is_stale =
        |folder: &FileName| folder.last() != ".filelist" && !folder.as_str().starts_with(".hbase-snapshot");
    let janitor = Faulty { is_stale, ..Faulty::new(&server) }.janitor(&server);
    let catalog = Tables { regions: vec![info.clone()], is_settled: &|_| true };
    assert_eq!(clean_after_grace(&server, &janitor, &catalog), 1);
    assert_eq!(all(&server.open(&info, mob_family())), before);
}

#[test]
fn nothing_is_deleted_by_a_process_that_was_replaced() {
    let server = shared();
    let (region, janitor) = (with_value(&server, "ns:t"), janitor(&server));
    add_unnamed_mob_file(&server);
    assert_eq!(clean(&janitor, &open_in(&region)).expect("read"), 0);
    server.world.advance(GRACE);
    let _successor = Server::over(server.files.clone());
    clean(&janitor, &open_in(&region)).expect_err("the successor may need it");
    assert_eq!(mob_files(&server).len(), 2);
}
