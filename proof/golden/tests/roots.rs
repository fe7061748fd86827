//! Root folders that Apache HBase wrote are adopted, and the engine finds every row in them.
#![expect(clippy::disallowed_methods, reason = "the files of this folder are what the tests are about")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use cache::Cache;
use cell::Cell;
use door::Inventory;
use env::{WallTime, World};
use proto::TableName;
use region::{CellSink, Limits, Opening, ReadMode, Region, RegionOptions, Scan};
use storage::memory::Fault;
use storage::{FileName, Files, Kind, Memory, Outcome};

fn world() -> World {
    World::simulated(1, WallTime(1_800_000_000_000))
}

/// The root in an archive of `roots/`.
fn root(name: &str) -> Memory {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("roots").join(name);
    let bytes = std::fs::read(path).expect("the archive is there");
    let files = Memory::new();
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
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    door::look(&shared, files, &world())
}

fn adopt(files: &Memory) -> Result<(), door::Error> {
    let inventory = look(files)?;
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    door::adopt(&inventory, &shared, &world())
}

/// Every file with its content.
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

/// Rows and cells of each table, as the engine finds them by the lists of an adopted root.
fn rows(files: &Memory) -> BTreeMap<String, (usize, usize)> {
    let shared: Arc<dyn Files> = Arc::new(files.clone());
    let mut found = BTreeMap::new();
    for table in look(files).expect("readable").tables {
        let name = table.descriptor.name().clone();
        let descriptor = master::descriptors::read(&*shared, &name).expect("readable").expect("there");
        assert_eq!(descriptor.attributes().text("hbase.store.file-tracker.impl"), Some("FILE"), "{name}");
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
                recovered: None,
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
    let files = root("stopped.tar.gz");
    let before = content(&files);
    let inventory = look(&files).expect("readable");
    assert_eq!(content(&files), before, "looking changes nothing");
    assert_eq!(inventory.report.blockers, Vec::<String>::new());
    assert_eq!(inventory.report.left_behind, Vec::<String>::new());
    adopt(&files).expect("adopted");
    let mut rows = rows(&files);
    assert_eq!((rows.remove("hbase:meta").is_some(), rows.remove("hbase:namespace")), (true, Some((3, 3))));
    assert_eq!(rows, expected());
    // Beside lists and descriptors everything is as it was.
    let after = content(&files);
    let kept = |name: &&String| !name.contains("/.tabledesc/") && !name.contains("/.filelist/");
    for name in before.keys().filter(kept) {
        assert_eq!(before[name], after[name], "{name}");
    }
    assert_eq!(before.keys().filter(kept).count(), after.keys().filter(kept).count());
    adopt(&files).expect("again");
    assert_eq!(content(&files), after, "there is nothing left to do");
}

/// Whether HBase could open the root as it is now: who says FILE has all its lists.
fn can_be_opened_by_hbase(files: &Memory) -> bool {
    let described = |name: &TableName| master::descriptors::read(files, name).expect("readable");
    look(files).expect("readable").tables.iter().all(|table| {
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

#[test]
fn an_adoption_that_ends_at_any_act_leaves_a_root_of_hbase_and_is_continued() {
    let whole = root("stopped.tar.gz");
    adopt(&whole).expect("adopted");
    let acts = whole.acts() - root("stopped.tar.gz").acts();
    assert!(acts > 50, "{acts} acts");
    // Each tenth of them, and the last ones.
    for act in (1..=acts).filter(|act| act % 10 == 1 || act + 5 > acts) {
        let files = root("stopped.tar.gz");
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
        assert_eq!(found, expected(), "act {act}");
    }
}

/// The first line of the report that says why the changed root is refused.
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
    assert!(told.contains("WALs/h,16020,1/h%2C16020%2C1.5") && told.contains("stop it"), "{told}");
    let told = refused(|files| {
        let region = find(files, "/.regioninfo").parent().expect("a region");
        write(files, region.join("recovered.edits/0000000000000000007").as_str(), b"x");
    });
    assert!(told.contains("recovered.edits/0000000000000000007") && told.contains("not replayed"), "{told}");
    let told = refused(|files| {
        for entry in files.list(&FileName::new("MasterData")).expect("listed") {
            files.delete(&entry.name).expect("deleted");
        }
    });
    assert!(told.contains("MasterData/data/master/store") && told.contains("start HBase 2.6"), "{told}");
    // A store file that is damaged, and one that a link needs and that is gone.
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

#[test]
fn what_is_left_behind_is_listed() {
    let files = root("stopped.tar.gz");
    let name: TableName = "off".parse().expect("a name");
    let mut table = master::descriptors::read(&files, &name).expect("readable").expect("there");
    table.attributes_mut().set("coprocessor$1".into(), "|com.example.Observer|1001|".into());
    let family = table.families()[0].clone().with("REPLICATION_SCOPE", 1);
    table.set_family(family);
    table.attributes_mut().set("REGION_REPLICATION".into(), "3".into());
    master::descriptors::write(&files, &table).expect("written");
    let left = look(&files).expect("readable").report.left_behind;
    for part in ["com.example.Observer", "is replicated", "3 replicas"] {
        assert!(left.iter().any(|line| line.contains("off") && line.contains(part)), "{part}: {left:?}");
    }
    table.set_family(table.families()[0].clone().with("ENCRYPTION", "AES"));
    master::descriptors::write(&files, &table).expect("written");
    let why = look(&files).expect("readable").report.blockers;
    assert!(why.len() == 1 && why[0].contains("AES"), "{why:?}");
}
