//! Tests that root folders that Apache HBase wrote are adopted, and that the engine finds every row in them.
#![expect(clippy::disallowed_methods, reason = "the files of this folder are what the tests are about")]

#[path = "roots/file_table.rs"]
mod file_table;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cache::Cache;
use cell::Cell;
use door::{Inventory, LogEnds, OwnLog, Shutdown};
use env::{WallTime, World};
use proto::TableName;
use region::{CellSink, Limits, Opening, ReadMode, Region, RegionOptions, Scan};
use storage::memory::Fault;
use storage::{Capabilities, Capability, FileName, Files, Kind, Memory, Outcome, Segmented};

fn world() -> World {
    World::simulated(1, WallTime(1_795_700_000_000))
}

/// What a folder of HDFS can do.
const HDFS: Capabilities = Capabilities::NONE.with(Capability::SyncPrefix).with(Capability::ListsAll);

/// Returns the root in an archive of `roots/`, on a disk.
fn root(name: &str) -> Memory {
    root_in(name, Capabilities::ALL)
}

/// Returns the root in an archive of `roots/`, in storage with these capabilities.
fn root_in(name: &str, capabilities: Capabilities) -> Memory {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("roots").join(name);
    let bytes = std::fs::read(path).expect("the archive is there");
    let files = Memory::with(capabilities);
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("whole");
        let name = entry.path().expect("text").to_str().expect("text").to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("whole");
        write(&files, &name, &content);
    }
    files
}

fn write(files: &Memory, name: &str, content: &[u8]) {
    let mut writer = files.create(&FileName::new(name)).expect("new");
    writer.write(content).expect("room");
    writer.finish().expect("durable");
}

fn look(files: &Memory) -> Result<Inventory, door::Error> {
    look_at(files, Shutdown::Clean)
}

fn look_at(files: &Memory, ended: Shutdown) -> Result<Inventory, door::Error> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    door::look(&shared, &shared, LogEnds::Shown, &world(), ended)
}

/// Returns the storage in a form in which a log can grow, as a server uses it.
fn growing(files: &Memory) -> Arc<dyn Files> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    match files.capabilities().has(Capability::SyncPrefix) {
        true => shared,
        false => Arc::new(Segmented::new(shared, world(), Duration::from_secs(1))),
    }
}

/// Adopts a root of an HBase that was stopped or killed.
fn adopt(files: &Memory) -> Result<(), door::Error> {
    let inventory = look_at(files, Shutdown::MaybeKilled)?;
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let log = OwnLog { place: growing(files), abandoned: None };
    door::adopt(&inventory, &shared, &log, &world())
}

/// Returns every file with its content.
fn content(files: &Memory) -> BTreeMap<String, Vec<u8>> {
    let all = files.list(&FileName::root()).expect("listed").into_iter();
    all.map(|entry| (entry.name.to_string(), files.read(&entry.name, 1 << 30).expect("there"))).collect()
}

#[derive(Default)]
struct Counted {
    rows: Vec<Vec<u8>>,
    cells: usize,
}

impl CellSink for Counted {
    fn cell(&mut self, cell: Cell<'_>) {
        self.cells += 1;
        if self.rows.last().is_none_or(|row| row != cell.row()) {
            self.rows.push(cell.row().to_vec());
        }
    }
}

/// Returns the numbers of rows and cells of each table that the engine finds by the lists of an adopted root.
fn rows(files: &Memory) -> BTreeMap<String, (usize, usize)> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let mut found = BTreeMap::new();
    let recovered = Arc::new(wal::LogReader::open(&growing(files), &FileName::new("WALs")).expect("a log"));
    for table in look_at(files, Shutdown::MaybeKilled).expect("readable").tables {
        let name = table.descriptor.name().clone();
        let descriptor = master::descriptors::read(&*shared, &name).expect("readable").expect("there");
        let tracker = if name.qualifier() == "ft" { "FILE" } else { "DEFAULT" };
        assert_eq!(descriptor.attributes().text("hbase.store.file-tracker.impl"), Some(tracker), "{name}");
        let (mut rows, mut cells) = (0, 0);
        let parents = |info: &proto::RegionInfo| info.is_split();
        for region in table.regions.into_iter().filter(|region| !parents(&region.info)) {
            let log_files: Arc<dyn Files> = Arc::new(Memory::new());
            let (log, _) = wal::Log::open(world(), log_files, FileName::new("WALs"), wal::Options::default())
                .expect("a log");
            let region = Region::open_for_reading(Opening {
                info: region.info,
                table: Arc::new(descriptor.clone()),
                files: Arc::clone(&shared),
                folder: region.folder,
                log: Arc::new(log),
                cache: Arc::new(Cache::with_bytes(1 << 20)),
                world: world(),
                options: RegionOptions::default(),
                recovered: Some(Arc::clone(&recovered)),
            })
            .expect("opened");
            let mut counted = Counted::default();
            let mut scanner = region.scanner(Scan::default()).expect("serving");
            while scanner.next_row(&Limits::NONE, &mut counted, ReadMode::Any).expect("read").more {}
            rows += counted.rows.len();
            cells += counted.cells;
        }
        found.insert(name.to_string(), (rows, cells));
    }
    found
}

fn expected() -> BTreeMap<String, (usize, usize)> {
    let all = [
        ("cop", (10, 10)),
        ("enc", (21, 201)),
        ("ns1:clone", (20, 200)),
        ("ns1:ft", (9, 9)),
        ("off", (10, 10)),
    ];
    all.map(|(name, counts)| (name.to_owned(), counts)).into()
}

#[test]
fn a_root_that_was_stopped_is_adopted_with_every_row() {
    for capabilities in [Capabilities::ALL, HDFS, Capabilities::NONE] {
        let files = root_in("stopped.tar.gz", capabilities);
        let before = content(&files);
        let inventory = look(&files).expect("readable");
        assert_eq!(content(&files), before, "looking changes nothing");
        assert_eq!(inventory.report.blockers, Vec::<String>::new());
        assert_eq!(inventory.report.left_behind, Vec::<String>::new());
        adopt(&files).expect("adopted");
        let mut rows = rows(&files);
        assert_eq!(
            (rows.remove("hbase:meta").is_some(), rows.remove("hbase:namespace")),
            (true, Some((3, 3)))
        );
        assert_eq!(rows, expected());
        // Only file lists and descriptors were added or changed: no file was renamed or copied.
        let after = content(&files);
        let kept = |name: &&String| !name.contains("/.tabledesc/") && !name.contains("/.filelist/");
        for name in before.keys().filter(kept) {
            assert_eq!(before[name], after[name], "{name}");
        }
        assert_eq!(before.keys().filter(kept).count(), after.keys().filter(kept).count());
        adopt(&files).expect("again");
        assert_eq!(content(&files), after, "there is nothing left to do");
    }
}

/// Whether HBase could open the root: each table whose descriptor says FILE has all its file lists.
fn can_be_opened_by_hbase(files: &Memory) -> bool {
    let described = |name: &TableName| master::descriptors::read(files, name).expect("readable");
    look_at(files, Shutdown::MaybeKilled).expect("readable").tables.iter().all(|table| {
        let descriptor = described(table.descriptor.name()).expect("there");
        let by_list = descriptor.attributes().text("hbase.store.file-tracker.impl") == Some("FILE");
        let has_list = |folder: &FileName| {
            descriptor.families().iter().all(|family| {
                let store = folder.join(std::str::from_utf8(family.name()).expect("text"));
                !files.list(&store.join(".filelist")).expect("listed").is_empty()
            })
        };
        !by_list
            || table
                .regions
                .iter()
                .all(|region| region.stores.iter().all(|store| store.is_empty()) || has_list(&region.folder))
    })
}

/// Adopts the root `name` in storage that fails at every `step`th call and at the `last` ones, and again after each
/// crash.
fn is_continued_after_each(
    (name, capabilities): (&str, Capabilities),
    step: u64,
    last: u64,
    expected: &BTreeMap<String, (usize, usize)>,
) {
    let whole = root_in(name, capabilities);
    let begin = whole.acts();
    adopt(&whole).expect("adopted");
    let acts = whole.acts() - begin;
    assert!(acts > 50, "{acts} acts");
    for act in (1..=acts).filter(|act| act % step == 1 || act + last > acts) {
        let files = root_in(name, capabilities);
        let at = files.acts() + act;
        files.set_fault(Some(Fault {
            act: at,
            kind: Kind::Failed,
            outcome: Outcome::MayHaveHappened,
            last: true,
        }));
        adopt(&files).expect_err("the disk is gone");
        let files = files.crash(act);
        assert!(can_be_opened_by_hbase(&files), "act {act}");
        adopt(&files).expect("continued");
        let mut found = rows(&files);
        found.retain(|name, _| !name.starts_with("hbase:"));
        assert_eq!(&found, expected, "act {act}");
    }
}

#[test]
fn an_adoption_that_ends_at_any_act_leaves_a_root_of_hbase_and_is_continued() {
    for (capabilities, step) in [(Capabilities::ALL, 10), (HDFS, 40), (Capabilities::NONE, 20)] {
        is_continued_after_each(("stopped.tar.gz", capabilities), step, 5, &expected());
    }
}

/// Returns the first line of the report that says why the changed root is refused.
fn refused(change: impl FnOnce(&Memory)) -> String {
    let files = root("stopped.tar.gz");
    change(&files);
    match look(&files) {
        Ok(inventory) => inventory.report.blockers.first().expect("refused").clone(),
        Err(error) => error.to_string(),
    }
}

fn find(files: &Memory, part: &str) -> FileName {
    let mut all = files.list(&FileName::new("data")).expect("listed").into_iter().map(|entry| entry.name);
    all.find(|name| name.as_str().contains(part)).unwrap_or_else(|| panic!("{part} is there"))
}

#[test]
fn what_cannot_be_adopted_is_refused_with_its_name_and_the_remedy() {
    let told = refused(|files| files.delete(&FileName::new("hbase.version")).expect("deleted"));
    assert!(told.contains("hbase.version") && told.contains("hbase.rootdir"), "{told}");
    let told = refused(|files| files.damage(&FileName::new("hbase.version"), |bytes| bytes[6] = b'7'));
    assert!(told.contains("version 7, expected 8"), "{told}");
    let told = refused(|files| {
        write(files, "WALs/h,16020,1/h%2C16020%2C1.5", b"PWAL");
    });
    assert!(told.contains("WALs/h,16020,1/h%2C16020%2C1.5") && told.contains("--killed"), "{told}");
    let told = refused(|files| {
        let region = find(files, "/.regioninfo").parent().expect("a region");
        write(files, region.join("recovered.edits/0000000000000000007").as_str(), b"P");
    });
    assert!(told.contains("recovered.edits/0000000000000000007") && told.contains("--killed"), "{told}");
    let told = refused(|files| {
        for entry in files.list(&FileName::new("MasterData")).expect("listed") {
            files.delete(&entry.name).expect("deleted");
        }
    });
    assert!(told.contains("MasterData/data/master/store") && told.contains("start HBase 2.6"), "{told}");
    // A damaged store file, and an absent one that a link needs.
    let told = refused(|files| {
        let table = FileName::new("data/ns1/ft");
        let entries = files.list(&table).expect("listed");
        let file = entries
            .iter()
            .find(|entry| entry.name.as_str().contains("/f/") && !entry.name.as_str().contains(".filelist"));
        files.damage(&file.expect("there").name, |bytes| bytes.truncate(100));
    });
    assert!(told.contains("ns1:ft") && told.contains("size"), "{told}");
    let told = refused(|files| {
        let link = find(files, "/b/enc=");
        let (region, file) = link.last()["enc=".len()..].split_once('-').expect("a link");
        files.delete(&FileName::new(format!("data/default/enc/{region}/b/{file}"))).expect("deleted");
    });
    assert!(told.contains("family b of region ns1:clone,") && told.contains("no such file"), "{told}");
    let told = refused(|files| {
        let tables = files.list(&FileName::new("data/default/off")).expect("listed");
        for entry in tables.iter().filter(|entry| !entry.name.as_str().contains(".tabledesc")) {
            files.delete(&entry.name).expect("deleted");
        }
    });
    assert!(told.contains("region off,") && told.contains("HBCK2"), "{told}");
}

/// Returns the rows and cells of the user tables in the root of the killed HBase.
fn expected_of_killed() -> BTreeMap<String, (usize, usize)> {
    let mut all = expected();
    for (name, counts) in [
        ("cf", (18, CELLS_OF_CF)),
        ("enc", (22, 202)),
        ("fresh", (1, 1)),
        ("halves", (10, 10)),
        ("ns1:ft", (19, 19)),
    ] {
        all.insert(name.to_owned(), counts);
    }
    all
}

/// Number of cells that a scan by HBase's shell found before HBase was killed.
const CELLS_OF_CF: usize = 46;

#[test]
fn the_writes_of_a_killed_hbase_are_in_its_logs() {
    let files = root("killed.tar.gz");
    let before = content(&files);
    let told = look(&files).expect("readable").report.blockers;
    assert!(told.len() == 2 && told.iter().all(|line| line.contains("WALs/localhost,")), "{told:?}");
    let inventory = look_at(&files, Shutdown::MaybeKilled).expect("readable");
    assert_eq!(inventory.report.blockers, Vec::<String>::new());
    assert!(inventory.report.writes > 100, "{}", inventory.report);
    assert_eq!(content(&files), before, "looking changes nothing");
    // A compaction had ended, and its inputs were not moved to the archive yet.
    let cf = inventory.tables.iter().find(|table| table.descriptor.name().as_str() == "cf").expect("there");
    assert_eq!((cf.regions[0].stores[0].len(), cf.regions[0].stores[0].replaced.len()), (1, 2));
    adopt(&files).expect("adopted");
    let of_people = |files: &Memory| {
        let mut found = rows(files);
        found.retain(|name, _| !name.starts_with("hbase:"));
        found
    };
    assert_eq!(of_people(&files), expected_of_killed());
    door::archive_logs(&files, &files).expect("moved");
    let names = content(&files);
    assert!(!names.keys().any(|name| name.starts_with("WALs/localhost,")));
    assert_eq!(names.keys().filter(|name| name.starts_with("oldWALs/")).count(), 4 + 2);
}

#[test]
fn logs_in_an_object_store_are_deleted_and_not_copied() {
    let files = root_in("killed.tar.gz", Capabilities::NONE);
    let archived = |files: &Memory| files.list(&FileName::new("oldWALs")).expect("listed");
    let before = archived(&files);
    adopt(&files).expect("adopted");
    door::archive_logs(&files, &files).expect("deleted");
    assert!(!content(&files).keys().any(|name| name.starts_with("WALs/localhost,")));
    assert_eq!(archived(&files), before);
}

/// Returns the blockers, or the notes, that name a log which was not closed.
fn told_of_open_logs(files: &Memory, ended: Shutdown) -> Vec<String> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let inventory = door::look(&shared, &shared, LogEnds::Hidden, &world(), ended).expect("readable");
    let report = inventory.report;
    let lines = if ended == Shutdown::Clean { report.blockers } else { report.notes };
    lines.into_iter().filter(|line| line.contains("was not closed")).collect()
}

#[test]
fn logs_whose_ends_are_hidden_are_named_if_they_were_not_closed() {
    let stopped = root_in("stopped.tar.gz", HDFS);
    for ended in [Shutdown::Clean, Shutdown::MaybeKilled] {
        assert_eq!(told_of_open_logs(&stopped, ended), Vec::<String>::new());
    }
    let killed = root_in("killed.tar.gz", HDFS);
    // Without --killed each log of a region server is refused in any case.
    let told = told_of_open_logs(&killed, Shutdown::Clean);
    assert!(told.len() == 1 && told[0].contains("MasterData/WALs/"), "{told:?}");
    assert!(told[0].contains("repeat with --killed"), "{told:?}");
    let told = told_of_open_logs(&killed, Shutdown::MaybeKilled);
    assert!(told.len() == 3 && told[1..].iter().all(|line| line.starts_with("WALs/localhost,")), "{told:?}");
    let before = content(&killed);
    door::close_logs(&killed).expect("closed");
    assert_eq!(content(&killed), before);
}

#[test]
fn the_logs_of_an_hbase_are_found_also_after_an_orderly_stop() {
    let files = root_in("stopped.tar.gz", HDFS);
    assert!(door::has_logs(&files).expect("listed"));
    for name in ["WALs", "oldWALs", "MasterData/WALs", "MasterData/oldWALs"] {
        for entry in files.list(&FileName::new(name)).expect("listed") {
            files.delete(&entry.name).expect("deleted");
        }
    }
    assert!(!door::has_logs(&files).expect("listed"));
}

#[test]
fn an_adoption_with_logs_that_ends_at_any_act_is_continued_and_loses_no_write() {
    for (capabilities, step) in [(Capabilities::ALL, 20), (HDFS, 60), (Capabilities::NONE, 40)] {
        is_continued_after_each(("killed.tar.gz", capabilities), step, 12, &expected_of_killed());
    }
}

#[test]
fn a_damaged_or_encrypted_log_is_refused_by_name_and_a_torn_end_is_reported() {
    let log = |files: &Memory| {
        let logs = files.list(&FileName::new("WALs")).expect("listed").into_iter();
        let mut logs = logs.map(|entry| entry.name).filter(|name| !name.last().ends_with(".meta"));
        logs.next().expect("a log")
    };
    let refused = |change: fn(&mut Vec<u8>)| {
        let files = root("killed.tar.gz");
        let name = log(&files);
        files.damage(&name, change);
        let error = look_at(&files, Shutdown::MaybeKilled)
            .map(|found| found.report)
            .expect_err("refused")
            .to_string();
        assert!(error.contains(name.as_str()), "{error}");
        error
    };
    // The first entry, after magic and header. HBase's logs have no checksums, so damage within a value is not
    // detected.
    let told = refused(|bytes| {
        let first = 5 + usize::from(bytes[4]);
        bytes[first..first + 8].fill(0xff);
    });
    assert!(told.contains("log corrupt") && told.contains("offset="), "{told}");
    let told = refused(|bytes| *bytes = b"PWAL\x03\x12\x01k".to_vec());
    assert!(told.contains("encrypted") && told.contains("its keys"), "{told}");
    let files = root("killed.tar.gz");
    files.damage(&log(&files), |bytes| bytes.truncate(bytes.len() - 3));
    let notes = look_at(&files, Shutdown::MaybeKilled).expect("readable").report.notes;
    assert!(notes.iter().any(|note| note.contains("no whole entry")), "{notes:?}");
}

#[test]
fn a_root_that_is_handed_back_has_what_hbases_master_looks_for() {
    let files = root("stopped.tar.gz");
    adopt(&files).expect("adopted");
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    write(&files, "bellows/switches", b"");
    // A deletion of a snapshot that has begun. Half of its objects would be a snapshot that HBase cannot read.
    write(&files, "bellows/unfinished", b"\x14\x0a\x0fdelete-snapshot\x12\x01s");
    let error = door::hand_back(&shared, &shared, &world()).expect_err("refused").to_string();
    assert!(error.contains("the deletion of snapshot s is not finished"), "{error}");
    files.delete(&FileName::new("bellows/unfinished")).expect("deleted");
    // A region's bulk load intent: one of an unfinished load, then none.
    let note = find(&files, "/.regioninfo").parent().expect("a folder").join(".bulkload");
    let unfinished = b"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x0a\x0c\x0a\x07\x64\x65\x66\x61\x75\x6c\x74\x12\x01\x74\x12\x01\x72\x20\x07\x89\x41\xb9\xc6";
    write(&files, note.as_str(), unfinished);
    let error = door::hand_back(&shared, &shared, &world()).expect_err("refused").to_string();
    assert!(error.contains("a bulk load"), "{error}");
    files.delete(&note).expect("deleted");
    write(&files, note.as_str(), b"\x00\x00\x00\x00\x00\x00\x00\x00\x02\x08\x07\x75\x82");
    door::hand_back(&shared, &shared, &world()).expect("handed back");
    let names = content(&files);
    let is_own = |name: &String| {
        name.starts_with("bellows") || [".wal", "OWNER", ".bulkload"].iter().any(|end| name.ends_with(end))
    };
    assert!(!names.keys().any(is_own), "{names:?}");
    let master: Vec<&String> = names.keys().filter(|name| name.starts_with("MasterData/")).collect();
    let store = "MasterData/data/master/store/1595e783b53d99cd5eef43b6debb2682";
    let has = |part: &str| master.iter().any(|name| name.starts_with(&format!("{store}{part}")));
    assert!(has("/.regioninfo") && has("/info/") && has("/rs/") && !has("/proc/"), "{master:?}");
    assert!(!master.iter().any(|name| name.contains(".filelist")), "{master:?}");
    // The root can be adopted again.
    adopt(&files).expect("adopted again");
    let mut found = rows(&files);
    found.retain(|name, _| !name.starts_with("hbase:"));
    assert_eq!(found, expected());
}

/// Writes files that no list names into a store of each table: the beginning of a store file, as after a flush that was
/// cut off, a whole store file, as after a flush whose list was not written, and a file whose name HBase ignores.
/// Returns the stores.
fn add_unlisted(files: &Memory) -> Vec<FileName> {
    let mut stores: BTreeMap<String, FileName> = BTreeMap::new();
    let all = files.list(&FileName::new("data")).expect("listed");
    for name in all.iter().map(|entry| &entry.name).filter(|name| !name.as_str().contains("/.")) {
        let parts: Vec<&str> = name.as_str().split('/').collect();
        if let ["data", _, table, _, _, file] = parts[..]
            && file.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            stores.entry(table.to_owned()).or_insert_with(|| name.clone());
        }
    }
    assert!(
        stores.contains_key("enc") && stores.contains_key("ft") && stores.contains_key("meta"),
        "{stores:?}"
    );
    for file in stores.values() {
        let store = file.parent().expect("a store");
        let content = files.read(file, 1 << 30).expect("there");
        write(files, store.join("00000000000000000000000000000001").as_str(), &content[..content.len() / 2]);
        write(files, store.join("00000000000000000000000000000002").as_str(), &content);
        write(files, store.join("note.txt").as_str(), b"of a user");
    }
    stores.into_values().map(|file| file.parent().expect("a store")).collect()
}

/// Returns the number and size of the store files that HBase finds in a root that was handed back, by the trackers that
/// its tables name.
fn found_by_hbase(files: &Memory) -> (usize, u64) {
    let report = look(files).expect("readable").report;
    assert_eq!(report.blockers, Vec::<String>::new());
    (report.files, report.bytes)
}

#[test]
fn a_root_that_is_handed_back_has_no_file_in_a_folder_that_hbase_would_count_and_no_list_names() {
    let files = root("stopped.tar.gz");
    let before = found_by_hbase(&files);
    adopt(&files).expect("adopted");
    let stores = add_unlisted(&files);
    assert!(
        look(&files).is_err() || found_by_hbase_fails(&files),
        "HBase would read a file that was cut off"
    );
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    door::hand_back(&shared, &shared, &world()).expect("handed back");
    assert_eq!(found_by_hbase(&files), before);
    let names = content(&files);
    for store in stores {
        let has = |name: &str| names.contains_key(store.join(name).as_str());
        let is_by_list = store.as_str().contains("/ft/");
        for number in [1, 2] {
            let name = format!("{number:032}");
            let archived = format!("archive/{}/{name}", store.as_str());
            assert_eq!((has(&name), names.contains_key(&archived)), (is_by_list, !is_by_list), "{store}");
        }
        assert!(has("note.txt"), "{store}");
    }
    adopt(&files).expect("adopted again");
    let mut found = rows(&files);
    found.retain(|name, _| !name.starts_with("hbase:"));
    assert_eq!(found, expected());
}

/// HBase's cleaner deletes files from the archive, so the files of a store that could not be read once must not get there.
#[test]
fn a_root_in_which_something_cannot_be_read_is_not_handed_back() {
    // The tracker of this table is DEFAULT.
    let store_file = |files: &Memory| {
        let all = files.list(&FileName::new("data/default/enc")).expect("listed").into_iter();
        let is_store_file = |name: &FileName| !name.as_str().contains("/.") && name.last().len() == 32;
        all.map(|entry| entry.name).find(is_store_file).expect("there is one")
    };
    let delete_off = |files: &Memory, are_descriptors: bool| {
        for entry in files.list(&FileName::new("data/default/off")).expect("listed") {
            if entry.name.as_str().contains("/.tabledesc/") == are_descriptors {
                files.delete(&entry.name).expect("deleted");
            }
        }
    };
    let damage = |files: &Memory| files.damage(&store_file(files), |bytes| bytes.truncate(bytes.len() / 2));
    type Fault<'a> = (&'a dyn Fn(&Memory), [&'a str; 2]);
    let faults: [Fault<'_>; 4] = [
        (&damage, ["of region enc,", "size"]),
        (&|files| files.delete(&store_file(files)).expect("deleted"), ["of region enc,", "no such file"]),
        (&|files| delete_off(files, true), ["table off", "no .tableinfo"]),
        (&|files| delete_off(files, false), ["region off,", "has no folder"]),
    ];
    for (plant, words) in faults {
        let files = root("stopped.tar.gz");
        adopt(&files).expect("adopted");
        plant(&files);
        let before = content(&files);
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        let refused = door::hand_back(&shared, &shared, &world()).expect_err("refused").to_string();
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
        assert!(refused.contains("nothing was changed: put the files back"), "{refused}");
        assert_eq!(content(&files), before, "{words:?}: nothing was changed");
    }
    let files = root("stopped.tar.gz");
    damage(&files);
    let before = content(&files);
    adopt(&files).expect_err("the files of one region are not known");
    assert_eq!(content(&files), before, "nothing was changed");
}

/// Whether HBase could not open every store.
fn found_by_hbase_fails(files: &Memory) -> bool {
    look(files).is_ok_and(|found| !found.report.blockers.is_empty())
}

#[test]
fn handing_back_that_ends_at_any_act_is_repeated() {
    let prepared = || {
        let files = root("stopped.tar.gz");
        adopt(&files).expect("adopted");
        add_unlisted(&files);
        files
    };
    let before = found_by_hbase(&root("stopped.tar.gz"));
    let whole = prepared();
    let begin = whole.acts();
    let hand_back = |files: &Memory| {
        let shared: Arc<dyn Files> = Arc::new(files.clone());
        door::hand_back(&shared, &shared, &world())
    };
    hand_back(&whole).expect("handed back");
    let acts = whole.acts() - begin;
    assert!(acts > 50, "{acts} acts");
    for act in (1..=acts).step_by(7) {
        let files = prepared();
        let at = files.acts() + act;
        let outcome = Outcome::MayHaveHappened;
        files.set_fault(Some(Fault { act: at, kind: Kind::Failed, outcome, last: true }));
        hand_back(&files).expect_err("the disk is gone");
        let files = files.crash(act);
        // Until the version file is deleted the lists count.
        assert_eq!(fsck(&files), Vec::<String>::new(), "act {act}");
        hand_back(&files).expect("repeated");
        assert_eq!(found_by_hbase(&files), before, "act {act}");
    }
}

#[test]
fn a_table_that_migrates_is_adopted_by_the_tracker_that_counts() {
    let files = root("stopped.tar.gz");
    let name: TableName = "enc".parse().expect("a name");
    let mut table = master::descriptors::read(&files, &name).expect("readable").expect("there");
    for (key, value) in [
        ("hbase.store.file-tracker.impl", "MIGRATION"),
        ("hbase.store.file-tracker.migration.src.impl", "DEFAULT"),
        ("hbase.store.file-tracker.migration.dst.impl", "FILE"),
    ] {
        table.attributes_mut().set(key.into(), value.into());
    }
    master::descriptors::write(&files, &table, WallTime(1)).expect("written");
    let before = found_by_hbase(&files);
    adopt(&files).expect("adopted");
    let adopted = master::descriptors::read(&files, &name).expect("readable").expect("there");
    assert_eq!(adopted, table, "it keeps what it names");
    add_unlisted(&files);
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    door::hand_back(&shared, &shared, &world()).expect("handed back");
    assert_eq!(found_by_hbase(&files), before);

    table.attributes_mut().set("hbase.store.file-tracker.impl".into(), "org.example.Tracker".into());
    master::descriptors::write(&files, &table, WallTime(1)).expect("written");
    let why = look(&files).expect("readable").report.blockers;
    assert!(why[0].contains("enc") && why[0].contains("org.example.Tracker"), "{why:?}");
    // HBase before 2.5 names none.
    table.attributes_mut().remove(b"hbase.store.file-tracker.impl");
    master::descriptors::write(&files, &table, WallTime(1)).expect("written");
    adopt(&files).expect("adopted again");
    let adopted = master::descriptors::read(&files, &name).expect("readable").expect("there");
    assert_eq!(adopted.attributes().text("hbase.store.file-tracker.impl"), Some("DEFAULT"));
}

#[test]
fn a_root_with_writes_in_the_log_alone_is_not_handed_back() {
    let files = root("killed.tar.gz");
    adopt(&files).expect("adopted");
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let before = content(&files);
    let error = door::hand_back(&shared, &shared, &world()).expect_err("refused").to_string();
    assert!(error.contains("in no store file") && error.contains("bellows start"), "{error}");
    assert_eq!(content(&files), before, "nothing was changed");
}

#[test]
fn a_torn_entry_is_noted_as_one_that_a_loss_of_power_may_have_taken() {
    let files = root("killed.tar.gz");
    let logs = files.list(&FileName::new("WALs")).expect("listed");
    for log in logs.iter().filter(|log| log.size > 1_000) {
        files.damage(&log.name, |bytes| bytes.truncate(bytes.len() - 3));
    }
    let notes = look_at(&files, Shutdown::MaybeKilled).expect("readable").report.notes;
    let torn: Vec<&String> = notes.iter().filter(|note| note.contains("are no whole entry")).collect();
    let is_true = |note: &&String| note.contains("loss of power") && note.contains("hbase.wal.hsync");
    assert!(!torn.is_empty() && torn.iter().all(is_true), "{notes:?}");
}

#[test]
fn what_is_left_behind_is_listed() {
    let files = root("stopped.tar.gz");
    let name: TableName = "off".parse().expect("a name");
    let mut table = master::descriptors::read(&files, &name).expect("readable").expect("there");
    table.attributes_mut().set("coprocessor$1".into(), "|com.example.Observer|1001|".into());
    let family = table.families()[0].clone().with("REPLICATION_SCOPE", 1);
    table.set_family(family);
    table.attributes_mut().set("REGION_REPLICATION".into(), "3".into());
    master::descriptors::write(&files, &table, WallTime(1)).expect("written");
    let left = look(&files).expect("readable").report.left_behind;
    for part in ["com.example.Observer", "is replicated", "3 replicas"] {
        assert!(left.iter().any(|line| line.contains("off") && line.contains(part)), "{part}: {left:?}");
    }
    table.set_family(table.families()[0].clone().with("ENCRYPTION", "AES"));
    master::descriptors::write(&files, &table, WallTime(1)).expect("written");
    let why = look(&files).expect("readable").report.blockers;
    assert!(why.len() == 1 && why[0].contains("AES"), "{why:?}");
}

/// Returns the inconsistencies that `bellows fsck` finds in a root.
fn fsck(files: &Memory) -> Vec<String> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let before = content(files);
    let checkup = door::fsck(&shared, &shared, &world()).expect("hbase:meta can be read");
    assert!(checkup.tables > 5 && checkup.regions > 5 && checkup.files > 5, "{checkup:?}");
    assert_eq!(content(files), before, "nothing is changed");
    checkup.inconsistencies
}

/// Applies `plant` to a fresh root and returns what fsck finds. `plant` gets the names of all files of the table `enc`.
fn planted(plant: impl FnOnce(&Memory, &[FileName])) -> Vec<String> {
    let files = root("stopped.tar.gz");
    adopt(&files).expect("adopted");
    let names = files.list(&FileName::new("data/default/enc")).expect("listed");
    plant(&files, &names.into_iter().map(|entry| entry.name).collect::<Vec<_>>());
    fsck(&files)
}

#[test]
fn an_adopted_root_is_consistent_and_each_planted_fault_is_found() {
    for name in ["stopped.tar.gz", "killed.tar.gz"] {
        let files = root(name);
        adopt(&files).expect("adopted");
        assert_eq!(fsck(&files), Vec::<String>::new(), "{name}");
    }
    let is_store_file = |name: &&FileName| name.last().len() == 32 && name.parent().is_some();
    let one = |names: &[FileName], test: &dyn Fn(&&FileName) -> bool| {
        names.iter().find(|name| test(name)).expect("there is one").clone()
    };
    let names_region = |found: &[String], table: &str| found.iter().any(|words| words.contains(table));
    // A clone in the root has a link to each file of `enc`. The region with the link to the first file was split, and
    // its children need the file no more.
    let found = planted(|files, names| files.delete(&one(names, &is_store_file)).expect("deleted"));
    assert!(found.len() == 1 && names_region(&found, "region enc,"), "{found:?}");
    let is_linked_by_serving = |name: &&FileName| {
        is_store_file(name) && !name.to_string().contains("0876440dcc9149798b02560a44f085c7")
    };
    let is_of_both = |found: &[String]| {
        found.len() == 2 && names_region(found, "region enc,") && names_region(found, "ns1:clone,")
    };
    let found = planted(|files, names| files.delete(&one(names, &is_linked_by_serving)).expect("deleted"));
    let has_remedy = |words: &String| words.contains("backup") && words.contains("an exported snapshot");
    assert!(is_of_both(&found) && found.iter().all(has_remedy), "{found:?}");
    let found =
        planted(|files, names| files.damage(&one(names, &is_linked_by_serving), |bytes| bytes.truncate(40)));
    assert!(is_of_both(&found), "{found:?}");
    let is_list = |name: &&FileName| name.to_string().contains("/.filelist/");
    let found = planted(|files, names| files.damage(&one(names, &is_list), |bytes| bytes[6] ^= 1));
    assert!(found.len() == 1 && found[0].contains(".filelist"), "{found:?}");
    let is_info = |name: &&FileName| name.last() == ".regioninfo";
    let found = planted(|files, names| files.delete(&one(names, &is_info)).expect("deleted"));
    assert!(found.len() == 1 && found[0].contains("has no folder"), "{found:?}");
    let is_descriptor = |name: &&FileName| name.to_string().contains("/.tabledesc/");
    let found = planted(|files, names| {
        names.iter().filter(is_descriptor).for_each(|name| files.delete(name).expect("deleted"));
    });
    assert!(found.len() == 1 && found[0].contains("table enc has no descriptor"), "{found:?}");
    let found = planted(|files, names| {
        let info = files.read(&one(names, &is_info), 1 << 20).expect("there");
        let info = proto::RegionInfo::from_file(&info.into()).expect("a region");
        let name = info.table().clone();
        let lost = proto::RegionInfo::new(name, "x".into(), "y".into(), info.id()).expect("lawful");
        let folder = layout::region_folder(&lost);
        layout::keep_region_info(files, &folder, &lost).expect("written");
        let mut file = files.create(&folder.join("f/fa9c9d3b587c22c5c83ca6e8090f6614")).expect("new");
        file.write(b"rows").expect("written");
        file.finish().expect("finished");
    });
    assert!(found.len() == 1 && found[0].contains("is not in hbase:meta"), "{found:?}");
}
