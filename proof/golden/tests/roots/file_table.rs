//! Tests that a root whose store files are named in `hbase:storefile`, as Amazon EMR 6.2 to 7.3 does, is adopted with
//! exactly the files that count. The table is added here to a root that HBase has written.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use cell::{CellBlock, CellParts, CellType, SequenceId, Timestamp};
use prost::Message;
use proto::catalog::{Column, RegionRow, TableState, meta_descriptor, table_state_column};
use proto::{FamilyDescriptor, RegionId, RegionInfo, TableDescriptor, pb};
use region::{Durability, Mutation, MutationKind};

use super::*;

const SPLIT_POLICY: &str = "org.apache.hadoop.hbase.regionserver.BusyRegionSplitPolicy";
const ENGINE: &str = "org.apache.hadoop.hbase.regionserver.PersistedStoreEngine";

/// The timestamp of the next cells that are written, so that later ones are newer.
static CLOCK: AtomicI64 = AtomicI64::new(1_795_700_000_000);

/// A write of one row.
type Row = (Bytes, Vec<Column>);

fn column(family: &'static str, qualifier: &'static str, value: impl Into<Bytes>) -> Column {
    Column { family: family.into(), qualifier: qualifier.into(), value: value.into() }
}

/// Writes rows to a new file of a region, one after the other, as a flush of HBase leaves them: no list names the file.
fn flush(files: &Memory, table: &TableDescriptor, info: &RegionInfo, rows: &[Row]) {
    let log_files: Arc<dyn Files> = Arc::new(Memory::new());
    let options = wal::Options::default();
    let (log, _) = wal::Log::open(World::real(), log_files, FileName::new("WALs"), options).expect("a log");
    let folder = layout::region_folder(info);
    let region = Region::open(Opening {
        info: info.clone(),
        table: Arc::new(table.clone()),
        files: Arc::new(files.clone()),
        folder: folder.clone(),
        log: Arc::new(log),
        cache: Arc::new(Cache::with_bytes(1 << 20)),
        world: World::real(),
        options: RegionOptions::default(),
        recovered: None,
    })
    .expect("opened");
    for (row, columns) in rows {
        let mut cells = Vec::new();
        for Column { family, qualifier, value } in columns {
            let (timestamp, cell_type) = (Timestamp(CLOCK.fetch_add(1, Ordering::Relaxed)), CellType::Put);
            let parts = CellParts { row, family, qualifier, timestamp, cell_type, value, tags: b"" };
            let bytes = parts.to_vec().expect("short");
            cell::block::write_with_tags(&mut cells, Cell::trusted(&bytes, SequenceId::ZERO));
        }
        let put = Mutation {
            kind: MutationKind::Put,
            row: row.clone(),
            cells: CellBlock::parse(cells.into()).expect("whole"),
            durability: Durability::Sync,
            time_range: None,
            return_results: false,
            nonce: None,
        };
        region.apply(&[put], ReadMode::Any).expect("serving").outcomes.remove(0).expect("applied");
    }
    region.close().expect("closed");
    for entry in files.list(&folder).expect("listed") {
        if entry.name.as_str().contains("/.filelist/") {
            files.delete(&entry.name).expect("deleted");
        }
    }
}

fn descriptor(files: &Memory, name: &str) -> TableDescriptor {
    let name: TableName = name.parse().expect("a name");
    master::descriptors::read(files, &name).expect("readable").expect("there")
}

/// A root of HBase, to which the table with the names of files is added.
struct Emr {
    files: Memory,
    table: TableDescriptor,
    regions: [RegionInfo; 2],
}

impl Emr {
    /// Unpacks a root, and adds the table. It names all files that stores without a list of their own have now.
    fn unpack(archive: &str) -> Emr {
        let files = root(archive);
        let mut table = TableDescriptor::new("hbase:storefile".parse().expect("a name"));
        let family = FamilyDescriptor::new("included").expect("a name");
        table.set_family(family.with("VERSIONS", 3).with("IN_MEMORY", true));
        table.attributes_mut().set("SPLIT_POLICY".into(), SPLIT_POLICY.into());
        master::descriptors::write(&files, &table, WallTime(1)).expect("written");
        let region = |start: &'static str, end: &'static str| {
            RegionInfo::new(table.name().clone(), start.into(), end.into(), RegionId(1)).expect("lawful")
        };
        let emr = Emr { regions: [region("", "8"), region("8", "")], table, files };
        let mut rows = vec![("hbase:storefile".into(), vec![table_state_column(TableState::Enabled)])];
        for region in &emr.regions {
            layout::keep_region_info(&emr.files, &layout::region_folder(region), region).expect("written");
            let row = RegionRow::open(region.clone(), "h,16020,1".parse().expect("a name"), 1);
            rows.push((row.key(), row.columns()));
        }
        flush(&emr.files, &meta_descriptor(), &RegionInfo::meta(), &rows);
        let names = emr.names_of_all();
        emr.put(&names);
        emr
    }

    /// Returns a row for each store with files, except those of hbase:meta, of the table itself and of `ns1:ft`.
    fn names_of_all(&self) -> Vec<(String, String)> {
        let mut paths = BTreeMap::<String, Vec<String>>::new();
        for entry in self.files.list(&FileName::new("data")).expect("listed") {
            let name = entry.name.as_str();
            let ["data", namespace, table, region, family, file] = name.split('/').collect::<Vec<_>>()[..]
            else {
                continue;
            };
            if ["meta", "storefile", "ft"].contains(&table)
                || family == "recovered.edits"
                || [region, family, file].iter().any(|part| part.starts_with('.'))
            {
                continue;
            }
            let of = if namespace == "default" { table.to_owned() } else { format!("{namespace}:{table}") };
            paths.entry(format!("{region}-{family}-{of}")).or_default().push(format!("s3://b/hbase/{name}"));
        }
        paths.into_iter().map(|(store, paths)| (store, paths.join(";"))).collect()
    }

    /// Writes rows of the table.
    fn put(&self, rows: &[(String, String)]) {
        for region in &self.regions {
            let within = |key: &str| (key < "8") == region.start_key().is_empty();
            let rows = rows.iter().filter(|(key, _)| within(key)).map(|(key, paths)| {
                (Bytes::from(key.clone()), vec![column("included", "filepaths", paths.clone())])
            });
            flush(&self.files, &self.table, region, &rows.collect::<Vec<_>>());
        }
    }

    /// Returns the key of the row for the store of the table `off`, and the paths in it.
    fn row_of_off(&self) -> (String, String) {
        self.names_of_all().into_iter().find(|(key, _)| key.ends_with("-f-off")).expect("there")
    }

    /// Leaves a file with `count` rows in the store of a table with one region, as a flush or a compaction does that has failed.
    fn leave_file(&self, table: &str, count: usize) {
        let table = descriptor(&self.files, table);
        let rows: Vec<Row> =
            (0..count).map(|row| (format!("deleted{row}").into(), vec![column("f", "q", "v")])).collect();
        let folder = find(&self.files, &format!("/{}/", table.name().qualifier()));
        let parts = folder.as_str().split('/').take(3).collect::<Vec<_>>().join("/");
        let info = self.files.list(&FileName::new(parts)).expect("listed").into_iter();
        let info = info.map(|entry| entry.name).find(|name| name.last() == ".regioninfo").expect("a region");
        let info = self.files.read(&info, 1 << 20).expect("there");
        let info = RegionInfo::from_file(&info.into()).expect("a region");
        flush(&self.files, &table, &info, &rows);
    }

    /// Returns the blockers, and the notes.
    fn look(&self, ended: Shutdown) -> (Vec<String>, Vec<String>) {
        let report = look_at(&self.files, ended).expect("readable").report;
        assert_eq!(report.left_behind, Vec::<String>::new());
        (report.blockers, report.notes)
    }

    /// Returns the first blocker after a stop in order.
    fn refused(&self) -> String {
        let (blockers, _) = self.look(Shutdown::Clean);
        assert_eq!(blockers.len(), 1, "{blockers:?}");
        adopt(&self.files).expect_err("refused");
        blockers.into_iter().next().expect("one")
    }

    /// Returns the rows of the user tables after the adoption.
    fn rows(&self) -> BTreeMap<String, (usize, usize)> {
        let mut found = rows(&self.files);
        found.retain(|name, _| !name.starts_with("hbase:"));
        found
    }
}

#[test]
fn only_the_files_that_the_table_names_are_adopted() {
    let emr = Emr::unpack("stopped.tar.gz");
    // As in HBase 2.4, which has no trackers.
    let mut off = descriptor(&emr.files, "off");
    off.attributes_mut().remove(b"hbase.store.file-tracker.impl");
    off.attributes_mut().set("hbase.hstore.engine.class".into(), ENGINE.into());
    off.attributes_mut().set("hbase.storefile.tracking.persist.enabled".into(), "true".into());
    master::descriptors::write(&emr.files, &off, WallTime(1)).expect("written");
    emr.leave_file("off", 1);
    let before = content(&emr.files);
    let (blockers, notes) = emr.look(Shutdown::Clean);
    assert_eq!(blockers, Vec::<String>::new());
    let is_unnamed =
        |note: &&String| note.starts_with("data/default/off/") && note.contains("is not named by");
    assert_eq!(notes.iter().filter(is_unnamed).count(), 1, "{notes:?}");
    assert!(
        notes.iter().any(|note| note.contains("names the files of ") && note.contains("may be disabled")),
        "{notes:?}"
    );
    assert_eq!(content(&emr.files), before, "looking changes nothing");
    for time in ["once", "again, as after an interruption"] {
        adopt(&emr.files).expect("adopted");
        assert_eq!(emr.rows(), expected(), "{time}");
    }
    let kept = |name: &&String| !name.contains("/.tabledesc/") && !name.contains("/.filelist/");
    let after = content(&emr.files);
    assert!(before.keys().filter(kept).all(|name| before[name] == after[name]), "no file was changed");
}

#[test]
fn a_store_without_a_row_or_without_paths_has_all_files_in_its_folder() {
    let emr = Emr::unpack("stopped.tar.gz");
    let (key, _) = emr.row_of_off();
    emr.leave_file("off", 1);
    emr.put(&[(key, String::new())]);
    let (blockers, notes) = emr.look(Shutdown::Clean);
    assert_eq!(blockers, Vec::<String>::new());
    let listed = |note: &&String| note.contains("has no names for 1 stores of table off");
    assert_eq!(notes.iter().filter(listed).count(), 1, "{notes:?}");
    adopt(&emr.files).expect("adopted");
    assert_eq!(emr.rows()["off"], (11, 11));
}

#[test]
fn the_list_of_a_store_with_the_tracker_file_counts_before_the_table() {
    let emr = Emr::unpack("stopped.tar.gz");
    let list = find(&emr.files, "/.filelist/");
    let region = list.as_str().split('/').nth(3).expect("a region");
    emr.put(&[(format!("{region}-f-ns1:ft"), format!("s3://b/data/ns1/ft/{region}/f/0a"))]);
    assert_eq!(emr.look(Shutdown::Clean).0, Vec::<String>::new());
    adopt(&emr.files).expect("adopted");
    assert_eq!(emr.rows(), expected());
}

#[test]
fn a_table_that_is_out_of_date_or_not_understood_is_refused_with_the_remedy() {
    let emr = Emr::unpack("stopped.tar.gz");
    let (key, path) = emr.row_of_off();
    let name = path.strip_prefix("s3://b/hbase/").expect("one path");
    let name = FileName::new(name);
    let bytes = emr.files.read(&name, 1 << 20).expect("there");
    emr.files.delete(&name).expect("deleted");
    let refused = emr.refused();
    for part in [
        "family f of region off,",
        name.as_str(),
        "RefreshHFilesClient for table off",
        "drop hbase:storefile",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    write(&emr.files, name.as_str(), &bytes);
    assert_eq!(emr.look(Shutdown::Clean).0, Vec::<String>::new());

    // The flush has later writes than the named file, so it has succeeded, and the table does not know of it.
    emr.leave_file("off", 300);
    let refused = emr.refused();
    assert!(refused.contains("has later writes than all files that hbase:storefile names"), "{refused}");
    assert!(refused.contains("RefreshHFilesClient for table off"), "{refused}");

    let emr = Emr::unpack("stopped.tar.gz");
    emr.put(&[(key.clone(), format!("s3://b/elsewhere/{}", name.last()))]);
    let refused = emr.refused();
    assert!(refused.contains(&key) && refused.contains("s3://b/elsewhere/"), "{refused}");
}

/// Writes a log of a region server that was killed, with one put of a row with this value.
fn write_log(files: &Memory, region: &RegionInfo, row: &str, value: &str) {
    let parts = CellParts {
        row: row.as_bytes(),
        family: b"included",
        qualifier: b"filepaths",
        timestamp: Timestamp(CLOCK.fetch_add(1, Ordering::Relaxed)),
        cell_type: CellType::Put,
        value: value.as_bytes(),
        tags: b"",
    };
    let cell = parts.to_vec().expect("short");
    let key = pb::WalKey {
        encoded_region_name: region.encoded_name().as_str().as_bytes().to_vec().into(),
        table_name: b"hbase:storefile".to_vec().into(),
        log_sequence_number: 1_000,
        write_time: 1,
        following_kv_count: Some(1),
        ..pb::WalKey::default()
    };
    let header = pb::WalHeader::default().encode_length_delimited_to_vec();
    let key = key.encode_length_delimited_to_vec();
    let length = (cell.len() as u32).to_be_bytes();
    write(files, "WALs/h,16020,9/h%2C16020%2C9.9", &[b"PWAL", &header[..], &key, &length, &cell].concat());
}

#[test]
fn after_a_kill_the_newest_names_are_in_the_logs_and_writes_of_a_failed_flush_too() {
    let emr = Emr::unpack("killed.tar.gz");
    // A compaction had ended, and the files that it has replaced are still in the folder.
    let cf = look_at(&emr.files, Shutdown::MaybeKilled).expect("readable").tables;
    let cf = cf.iter().find(|table| table.descriptor.name().as_str() == "cf").expect("there");
    let replaced = cf.regions[0].stores[0].replaced.clone();
    assert_eq!(replaced.len(), 2);
    let (key, paths) = emr.names_of_all().into_iter().find(|(key, _)| key.ends_with("-f-cf")).expect("there");
    let is_replaced = |path: &&str| replaced.iter().any(|file| path.ends_with(file.as_str()));
    let (old, new): (Vec<&str>, Vec<&str>) = paths.split(';').partition(is_replaced);
    emr.put(&[(key.clone(), old.join(";"))]);
    let (blockers, _) = emr.look(Shutdown::MaybeKilled);
    assert!(blockers.is_empty(), "the compaction's result has no later writes: {blockers:?}");
    let region =
        emr.regions.iter().find(|region| (&*key < "8") == region.start_key().is_empty()).expect("one");
    write_log(&emr.files, region, &key, &new.join(";"));
    emr.leave_file("cf", 300);
    let (blockers, notes) = emr.look(Shutdown::MaybeKilled);
    assert_eq!(blockers, Vec::<String>::new(), "the logs have the writes of the flush that failed");
    let unnamed = notes.iter().filter(|note| note.contains("/cf/") && note.contains("is not named by"));
    assert_eq!(unnamed.count(), 3, "{notes:?}");
    adopt(&emr.files).expect("adopted");
    assert_eq!(emr.rows(), expected_of_killed());
    let shared: Arc<dyn Files> = Arc::new(emr.files.clone());
    // A dry run in HDFS does not see the end of that log.
    let hidden =
        door::look(&shared, &shared, LogEnds::Hidden, &world(), Shutdown::MaybeKilled).expect("readable");
    assert!(hidden.report.notes.iter().any(|note| note.contains("may have newer rows")), "{}", hidden.report);
}
