//! Tests of MOB: large values are written to files of their own and read from there, compactions copy references, and
//! the janitor keeps the MOB files that a store file names.

use hfile::{ReadOptions, Reader};
use proto::EncodedName;

use super::file_life::Server;
use super::*;
use crate::mob_format::names::MobFileRefs;
use crate::store_file::StoreFile;
use crate::{CatalogRegions, FoundBy, FoundStore};

/// The catalog of a local disk, of which the janitor does not ask for it.
struct NoCatalog;

impl CatalogRegions for NoCatalog {
    fn regions(&self) -> Result<Vec<RegionInfo>> {
        panic!("the store files on a local disk say which MOB files are needed")
    }

    fn is_settled(&self, region: &EncodedName) -> bool {
        panic!("asked for region {region}")
    }
}

pub(super) fn mob_family() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name").with("IS_MOB", "true").with("MOB_THRESHOLD", 10)
}

/// Returns a value of `length` bytes.
pub(super) fn value(letter: char, length: usize) -> String {
    String::from(letter).repeat(length)
}

pub(super) fn put(region: &Arc<Region>, row: &str, timestamp: i64, value: &str) {
    let put = mutation(MutationKind::Put, row, &[("f:q", timestamp, CellType::Put, value.as_bytes())]);
    let applied = region.apply(&[put], ReadMode::Any).expect("serving");
    applied.outcomes.into_iter().for_each(|outcome| outcome.expect("good"));
    applied.pending.wait_blocking().expect("durable");
}

pub(super) fn flush(region: &Arc<Region>) {
    region.flush(FlushReason::Requested).expect("flushed");
}

pub(super) fn compact(region: &Arc<Region>, major: bool) {
    region.compact(&CompactionRequest { major, families: Vec::new() }).expect("compacted");
}

fn scan(region: &Arc<Region>, scan: Scan) -> String {
    let mut scanner = region.scanner(scan).expect("serving");
    let mut shown = Shown::default();
    while scanner.next_row(&Limits::NONE, &mut shown, ReadMode::Any).expect("read").more {}
    shown.0.join(" ")
}

pub(super) fn all(region: &Arc<Region>) -> String {
    scan(region, Scan { max_versions: 10, ..Scan::default() })
}

/// Returns the names of the table's MOB files.
pub(super) fn mob_files(server: &Server) -> Vec<String> {
    let all = server.files.list(&FileName::new("mobdir")).expect("listed");
    all.into_iter().map(|entry| entry.name.last().to_owned()).collect()
}

/// Returns, as text, the MOB files that each store file of the region names.
fn refs(region: &Arc<Region>) -> Vec<String> {
    let files = region.stores[0].view.load().files.clone();
    let of_file = |file: &Arc<StoreFile>| {
        let value = file.reader.info().get(&b"MOB_FILE_REFS"[..]).expect("each store file says it").clone();
        assert!(MobFileRefs::parse(&value).is_some());
        String::from_utf8(value.to_vec()).expect("text")
    };
    files.iter().map(of_file).collect()
}

/// Adds a MOB file that no store file names, beside the first MOB file.
pub(super) fn add_unnamed_mob_file(server: &Server) {
    let first = &server.files.list(&FileName::new("mobdir")).expect("listed")[0].name;
    let unnamed = FileName::new(first.as_str().replace("d41d8", "00000"));
    let mut file = server.files.create(&unnamed).expect("created");
    file.write(b"x").expect("written");
    file.finish().expect("finished");
}

pub(super) fn open(server: &Server, table: &str) -> Arc<Region> {
    server.open(&Server::info(table, 1), mob_family())
}

#[test]
fn values_above_the_threshold_are_in_mob_files_and_are_read_from_there() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    let (small, large) = (value('s', 10), value('l', 11));
    for (row, value) in [("a", &small), ("b", &large), ("c", &small), ("d", &large)] {
        put(&region, row, 86_400_000, value);
    }
    let before = all(&region);
    flush(&region);
    let files = mob_files(&server);
    let name = format!("_{}", region.info().encoded_name());
    // The MD5 of an empty first row, and the day of the newest cell.
    assert!(files.len() == 1 && files[0].ends_with(&name), "{files:?}");
    assert!(files[0].starts_with("d41d8cd98f00b204e9800998ecf8427e19700102"), "{files:?}");
    assert_eq!(refs(&region), [format!("ns:t/{}", files[0])]);
    assert_eq!(all(&region), before);
    for row in ["a", "b", "d"] {
        assert_eq!(
            scan(&region, Scan::get(row.into())),
            scan(
                &region,
                Scan { start: row.into(), stop: row.into(), include_stop: true, ..Scan::default() }
            )
        );
    }
    let reversed = scan(&region, Scan { reversed: true, ..Scan::default() });
    let mut cells: Vec<&str> = before.split(' ').collect();
    cells.reverse();
    assert_eq!(reversed, cells.join(" "));
    // A read of a value in memory succeeds in memory-only mode; a read of a value in a MOB file does not.
    let get = |row: &'static str| {
        let mut scanner = region.scanner(Scan::get(row.into())).expect("serving");
        scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::MemoryOnly)
    };
    scan(&region, Scan::default());
    assert!(get("a").is_ok());
    assert!(matches!(get("b"), Err(Error::MobValue { bytes }) if bytes == large.len() as u64));
    // The bytes of a reference are HBase's.
    let raw = MobRead { raw: true, ..MobRead::default() };
    let references = scan(&region, Scan { mob: raw, ..Scan::get("b".into()) });
    assert_eq!(references, format!("b/f:q@86400000=\0\0\0\x0b{}", files[0]));
    let only = MobRead { references_only: true, ..MobRead::default() };
    let only = scan(&region, Scan { mob: only, ..Scan::default() });
    assert_eq!(only, format!("b/f:q@86400000={large} d/f:q@86400000={large}"));
    // The values are also read after a restart.
    region.close().expect("closed");
    assert_eq!(all(&open(&server, "ns:t")), before);
}

#[test]
fn compactions_keep_references_and_a_major_one_by_request_writes_the_values_anew() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    for (row, timestamp) in [("a", 1), ("b", 2), ("c", 3)] {
        put(&region, row, timestamp, &value('v', 20));
        flush(&region);
    }
    put(&region, "d", 4, "small");
    flush(&region);
    let before = all(&region);
    let files = mob_files(&server);
    assert_eq!((files.len(), refs(&region).len(), refs(&region)[3].as_str()), (3, 4, ""));
    let system = StoreCompaction { family: "f".into(), major: true, is_user: false, off_peak: false };
    region.compact_family(&system, &()).expect("compacted");
    assert_eq!(refs(&region), [format!("ns:t/{}", files.join(","))]);
    assert_eq!((mob_files(&server), all(&region)), (files.clone(), before.clone()));
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 0);

    compact(&region, true);
    let one = mob_files(&server).into_iter().find(|file| !files.contains(file)).expect("a new one");
    assert_eq!((refs(&region), all(&region)), (vec![format!("ns:t/{one}")], before.clone()));
    // A reader of the old view still uses the files.
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 0);
    region.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 3);
    assert_eq!((mob_files(&server), all(&region)), (vec![one], before));
}

/// A compaction of HBase's type "optimized" neither reads nor rewrites the values in large MOB files.
#[test]
fn an_optimized_compaction_leaves_large_mob_files_and_limits_the_size_of_new_ones() {
    let mut server = Server::new();
    (server.options.mob_optimized, server.options.mob_file_bytes_max) = (true, 16_000);
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('l', 20_000));
    flush(&region);
    let large = mob_files(&server);
    for (row, timestamp) in [("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
        put(&region, row, timestamp, &value('s', 9_000));
        flush(&region);
    }
    let (l, v) = (value('l', 20_000), value('s', 9_000));
    let before = format!("a/f:q@1={l} b/f:q@2={v} c/f:q@3={v} d/f:q@4={v} e/f:q@5={v}");
    // The compaction read no values, so none is cached. While the large value, near the beginning of its file, is
    // damaged, a read of it fails.
    let listed = server.files.list(&FileName::new("mobdir")).expect("listed");
    let path = listed.into_iter().find(|entry| entry.name.last() == large[0]).expect("it is there").name;
    let flip = || server.files.damage(&path, |bytes| bytes[5_000] ^= 1);
    flip();
    let small: Vec<String> = mob_files(&server).into_iter().filter(|file| !large.contains(file)).collect();
    assert_eq!((large.len(), small.len()), (1, 4));
    compact(&region, true);
    flip();
    assert_eq!(all(&region), before);
    let named = refs(&region);
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(named[0].contains(&large[0]), "the large file stays: {named:?}");
    assert!(small.iter().all(|file| !named[0].contains(file)), "the small ones go: {named:?}");
    let new = mob_files(&server).len() - 5;
    assert_eq!(new, 2, "a new one is ended once it has 16,000 bytes, here two values");
    region.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 4);
    assert_eq!((mob_files(&server).len(), all(&region)), (3, before.clone()));
    // No MOB file is small any more, so nothing is written.
    let files = mob_files(&server);
    put(&region, "f", 6, "tiny");
    flush(&region);
    compact(&region, true);
    assert_eq!(mob_files(&server), files);
}

#[test]
fn an_optimized_compaction_that_fails_at_any_act_loses_no_value_and_leaves_only_garbage() {
    for outcome in [storage::Outcome::DidNotHappen, storage::Outcome::MayHaveHappened] {
        for act in 1.. {
            let mut server = Server::new();
            server.options.mob_optimized = true;
            server.options.mob_file_bytes_max = 12_000;
            let region = open(&server, "ns:t");
            for (row, timestamp) in [("a", 1), ("b", 2), ("c", 3)] {
                put(&region, row, timestamp, &value('s', 6_500));
                flush(&region);
            }
            let before = all(&region);
            let at = server.files.acts() + act;
            let fault = storage::memory::Fault { act: at, kind: storage::Kind::Failed, outcome, last: true };
            server.files.set_fault(Some(fault));
            let ended = region.compact(&CompactionRequest { major: true, families: Vec::new() }).is_ok();
            server.files.set_fault(None);
            let next = Server::over(server.files.kill());
            let region = open(&next, "ns:t");
            assert_eq!(all(&region), before, "act {act}");
            region.clean(&next.janitor(), Search::Folders).expect("cleaned");
            next.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned");
            let named = refs(&region).join(",").replace("ns:t/", "");
            let mut named: Vec<&str> = named.split(',').collect();
            named.sort_unstable();
            assert_eq!(mob_files(&next), named, "act {act}");
            if ended {
                assert!(act > 10, "the compaction has {act} acts");
                break;
            }
        }
    }
}

#[test]
fn deleted_values_go_with_their_mob_file() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    let delete = mutation(MutationKind::Delete, "a", &[("f:q", 1, CellType::DeleteColumn, b"")]);
    region.apply(&[delete], ReadMode::Any).expect("serving").pending.wait_blocking().expect("durable");
    flush(&region);
    compact(&region, true);
    assert_eq!((refs(&region), all(&region)), (vec![String::new()], String::new()));
    region.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 1);
    assert!(mob_files(&server).is_empty());
}

#[test]
fn an_altered_family_takes_part_in_mob_or_leaves_it() {
    let server = Server::new();
    let plain = FamilyDescriptor::new("f").expect("a name");
    let region = server.open(&Server::info("ns:t", 1), plain.clone());
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    let alter = |family: FamilyDescriptor| {
        let mut table = TableDescriptor::new("ns:t".parse().expect("a name"));
        table.set_family(family);
        assert!(region.alter(&Arc::new(table), &server.options).expect("serving"), "no reopening");
    };
    alter(mob_family());
    put(&region, "b", 1, &value('w', 20));
    flush(&region);
    let before = all(&region);
    assert_eq!(mob_files(&server).len(), 1);
    compact(&region, true);
    assert_eq!((refs(&region).len(), all(&region)), (1, before.clone()));
    // A greater threshold moves values back into store files, and so does switching MOB off.
    alter(mob_family().with("MOB_THRESHOLD", 20));
    compact(&region, true);
    assert_eq!((refs(&region), all(&region)), (vec![String::new()], before.clone()));
    alter(mob_family());
    compact(&region, true);
    assert_ne!(refs(&region), [String::new()]);
    alter(plain);
    assert_eq!(all(&region), before, "references are read while they are there");
    let system = StoreCompaction { family: "f".into(), major: true, is_user: false, off_peak: false };
    put(&region, "c", 1, &value('x', 20));
    flush(&region);
    let before = all(&region);
    region.compact_family(&system, &()).expect("compacted");
    assert_eq!((refs(&region), all(&region)), (vec![String::new()], before));
}

#[test]
fn a_missing_value_is_an_error_or_empty_if_the_reader_wants_that() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    let gone = server.files.list(&FileName::new("mobdir")).expect("listed").remove(0).name;
    // As in HBase, the archive is searched too.
    let bytes = server.files.read(&gone, 1 << 20).expect("read");
    let archived = FileName::new(gone.as_str().replacen("mobdir", "archive", 1));
    let mut copy = server.files.create(&archived).expect("created");
    copy.write(&bytes).expect("written");
    copy.finish().expect("finished");
    server.files.delete(&gone).expect("deleted");
    assert_eq!(all(&region), format!("a/f:q@1={}", value('v', 20)));
    region.close().expect("closed");
    server.files.delete(&archived).expect("deleted");
    let _nobody_reads = server.options.open_files.condemn(&archived);
    let region = open(&server, "ns:t");
    let mut scanner = region.scanner(Scan::default()).expect("serving");
    let read = scanner.next_row(&Limits::NONE, &mut Shown::default(), ReadMode::Any);
    assert!(matches!(&read, Err(Error::NoMobValue { file, .. }) if *file == gone.to_string()), "{read:?}");
    let mob = MobRead { empty_if_missing: true, ..MobRead::default() };
    assert_eq!(scan(&region, Scan { mob, ..Scan::default() }), "a/f:q@1=");
    // A compaction that would lose the value fails and changes nothing.
    let failed = region.compact(&CompactionRequest { major: true, families: Vec::new() });
    assert!(matches!(failed, Err(Error::NoMobValue { .. })), "{failed:?}");
    assert_eq!(refs(&region), [format!("ns:t/{}", gone.last())]);
}

#[test]
fn filters_judge_references_cell_by_cell_and_values_row_by_row() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    put(&region, "b", 1, "vvv");
    let equal = |text: &str| Filter::value(CompareOperator::Equal, Comparable::substring(text));
    let found = |filter: Filter| scan(&region, Scan { filter: Some(filter), ..Scan::default() });
    assert_eq!(found(equal("vvv")).split(' ').count(), 2);
    flush(&region);
    assert_eq!(found(equal("vvv")), "b/f:q@1=vvv");
    assert_eq!(found(equal("d41d8cd98f00b204e9800998ecf8427e")), format!("a/f:q@1={}", value('v', 20)));
    assert_eq!(found(Filter::key_only(false)), "a/f:q@1= b/f:q@1=");
}

#[test]
fn halves_clones_and_snapshots_hold_mob_files() {
    let server = Server::new();
    let parent = open(&server, "ns:t");
    for row in ["a", "z"] {
        put(&parent, row, 1, &value('v', 20));
        flush(&parent);
    }
    let before = all(&parent);
    let clone = Server::info("ns:clone", 9);
    parent.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    let half = |half, id| {
        let info = Server::info("ns:t", id);
        let reference = Reference { half, split_row: "m".into() };
        parent.write_heir(&Server::folder(&info), &InheritedFiles::Half(reference)).expect("written");
        server.open(&info, mob_family())
    };
    let [bottom, top] = [half(Half::Bottom, 2), half(Half::Top, 3)];
    parent.close().expect("closed");
    let folder = Server::folder(parent.info());
    drop(parent);
    assert_eq!([all(&bottom), all(&top)].join(" "), before);
    let clean = || {
        server.janitor().clean_archive(&FileName::root()).expect("cleaned");
        server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned")
    };
    // References are copied to the daughters' own files. The names of the MOB files still contain the parent's name.
    let system = StoreCompaction { family: "f".into(), major: true, is_user: false, off_peak: false };
    for daughter in [&bottom, &top] {
        daughter.compact_family(&system, &()).expect("compacted");
        daughter.clean(&server.janitor(), Search::Folders).expect("cleaned");
    }
    server.janitor().drop_folder(&folder).expect("dropped");
    assert_eq!((clean(), mob_files(&server).len()), (0, 2));
    assert_eq!([all(&bottom), all(&top)].join(" "), before);
    for daughter in [bottom, top] {
        daughter.close().expect("closed");
        let folder = Server::folder(daughter.info());
        drop(daughter);
        server.janitor().drop_folder(&folder).expect("dropped");
    }
    assert_eq!((clean(), mob_files(&server).len()), (0, 2), "the clone has links");
    let clone = server.open(&clone, mob_family());
    assert_eq!(all(&clone), before);
    clone.compact_family(&system, &()).expect("compacted");
    clone.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!(
        (clean(), all(&clone)),
        (0, before.clone()),
        "its own file names the files of the other table"
    );
    compact(&clone, true);
    clone.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!((clean(), all(&clone)), (2, before));
}

#[test]
fn on_the_way_back_to_hbase_a_clone_gets_links_to_the_mob_files_of_its_source() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    let file = mob_files(&server).remove(0);
    let clone = Server::info("other", 9);
    let folder = Server::folder(&clone);
    region.write_heir(&folder, &InheritedFiles::Links).expect("written");
    let files: Arc<dyn Files> = Arc::new(server.files.clone());
    let link = |folder: &FileName, info: &RegionInfo| {
        let found = FoundStore::find(&files, folder, info, &mob_family(), FoundBy::List, &server.world)
            .expect("found");
        found.link_mob_files(&files, folder, &mob_family()).expect("written")
    };
    assert_eq!(link(&Server::folder(region.info()), region.info()), 0, "its MOB files are its own");
    assert_eq!((link(&folder, &clone), link(&folder, &clone)), (1, 1));
    let of_table = |table: &str| layout::mob_region(&table.parse().expect("a name")).to_string();
    let (source, own) = (of_table("ns:t"), of_table("other"));
    let links = server.files.list(&FileName::new("mobdir/data/default/other")).expect("listed");
    let names: Vec<_> = links.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names, [format!("mobdir/data/default/other/{own}/f/ns=t={source}-{file}")]);
    let back = format!("archive/data/ns/t/{source}/f/.links-{file}/{own}.other");
    assert!(server.files.read(&FileName::new(back), 10).expect("a back reference").is_empty());
}

#[test]
fn mob_files_in_the_archive_stay_while_a_store_file_or_a_manifest_names_them() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    let before = all(&region);
    let clone = Server::info("ns:clone", 9);
    region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    region.close().expect("closed");
    drop(region);
    server.janitor().drop_folder(&FileName::new("data/ns/t")).expect("dropped");
    // HBase moves the MOB files of a dropped table to the archive.
    let name = server.files.list(&FileName::new("mobdir")).expect("listed").remove(0).name;
    let bytes = server.files.read(&name, 1 << 20).expect("read");
    let archived = FileName::new(name.as_str().replacen("mobdir", "archive", 1));
    let not_needed = FileName::new(archived.as_str().replace("d41d8", "00000"));
    for name in [&archived, &not_needed] {
        let mut copy = server.files.create(name).expect("created");
        copy.write(&bytes).expect("written");
        copy.finish().expect("finished");
    }
    server.files.delete(&name).expect("deleted");
    let clean = || {
        let archive = server.janitor().clean_archive(&FileName::root()).expect("cleaned");
        (archive, server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"))
    };
    // A snapshot of HBase lists the MOB files as files of a region.
    let table: proto::TableName = "ns:t".parse().expect("a name");
    let mob_region = layout::mob_region_info(&table);
    let manifest = proto::pb::SnapshotRegionManifest {
        region_info: proto::pb::RegionInfo::from(&mob_region),
        family_files: vec![proto::pb::snapshot_region_manifest::FamilyFiles {
            family_name: "f".into(),
            store_files: vec![proto::pb::snapshot_region_manifest::StoreFile {
                name: not_needed.last().to_owned(),
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    super::snapshots::store(&server, "s", vec![manifest]);
    assert_eq!(
        clean(),
        (0, 0),
        "the file of the archive to which the clone links names the one, the manifest the other"
    );
    super::snapshots::delete(&server, "s");
    assert_eq!(clean(), (0, 1), "nothing needs the other one");
    let clone = server.open(&clone, mob_family());
    assert_eq!(all(&clone), before);
    let system = StoreCompaction { family: "f".into(), major: true, is_user: false, off_peak: false };
    clone.compact_family(&system, &()).expect("compacted");
    clone.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!(clean(), (1, 0), "the file of the clone names it");
    assert_eq!(all(&clone), before);
    compact(&clone, true);
    clone.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!((clean(), all(&clone)), ((0, 1), before));
}

#[test]
fn a_snapshot_lists_the_mob_files_of_its_table() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    put(&region, "b", 1, &value('w', 20));
    let files = Arc::new(server.files.clone()) as Arc<dyn Files>;
    // Returns the names and sizes of the MOB files of a region in a manifest, and the name of the region that has them.
    let listed = |region: &Arc<Region>| {
        let source = region.snapshot(true).expect("listed");
        let mob = Region::mob_files_of(&files, &source, &region.table()).expect("readable");
        let Some(mob) = mob.manifest else { return (String::new(), Vec::new()) };
        let info = RegionInfo::try_from(&mob.region_info).expect("a region");
        let names = mob.family_files.iter().flat_map(|family| &family.store_files);
        let names = names.map(|file| (file.name.clone(), file.file_size.expect("known"))).collect();
        (info.encoded_name().to_string(), names)
    };
    let (of_region, names) = listed(&region);
    assert_eq!(of_region, layout::mob_region(region.info().table()).as_str());
    let on_disk: Vec<(String, u64)> = server
        .files
        .list(&FileName::new("mobdir"))
        .expect("listed")
        .into_iter()
        .map(|entry| (entry.name.last().to_owned(), entry.size))
        .collect();
    assert_eq!((names.len(), &names), (2, &on_disk));

    let clone = Server::info("ns:clone", 9);
    region.write_heir(&Server::folder(&clone), &InheritedFiles::Links).expect("written");
    let clone = server.open(&clone, mob_family());
    put(&clone, "c", 1, &value('x', 20));
    let (of_clone, names) = listed(&clone);
    assert_eq!(of_clone, layout::mob_region(clone.info().table()).as_str());
    assert!(names.len() == 1 && !on_disk.contains(&names[0]), "its own file only: {names:?}");
    compact(&clone, true);
    assert_eq!(listed(&clone).1.len(), 1, "the compaction has written all values again");
    let own: u64 = server
        .files
        .list(&FileName::new("mobdir/data/ns/clone"))
        .expect("listed")
        .iter()
        .map(|entry| entry.size)
        .sum();
    assert!(own > names[0].1, "into the clone's folder");

    // A missing MOB file is left out, so that the rest of the table can be in a snapshot.
    server
        .files
        .delete(&server.files.list(&FileName::new("mobdir/data/ns/t")).expect("listed")[0].name)
        .expect("deleted");
    assert_eq!(listed(&region).1, on_disk[1..]);
    let plain = server.open(&Server::info("ns:plain", 3), FamilyDescriptor::new("f").expect("a name"));
    put(&plain, "a", 1, &value('v', 20));
    assert_eq!(listed(&plain), (String::new(), Vec::new()));
}

#[test]
fn a_flush_that_ends_at_any_act_leaves_only_garbage_which_is_collected() {
    for outcome in [storage::Outcome::DidNotHappen, storage::Outcome::MayHaveHappened] {
        for act in 1.. {
            let server = Server::new();
            let region = open(&server, "ns:t");
            put(&region, "a", 1, &value('v', 20));
            flush(&region);
            put(&region, "b", 1, &value('w', 20));
            let at = server.files.acts() + act;
            let fault = storage::memory::Fault { act: at, kind: storage::Kind::Failed, outcome, last: true };
            server.files.set_fault(Some(fault));
            let ended = region.flush(FlushReason::Requested).is_ok();
            server.files.set_fault(None);
            let files = if act % 2 == 0 { server.files.kill() } else { server.files.crash(act) };
            let next = Server::over(files);
            next.janitor()
                .clean_mob_files(&FileName::root(), &NoCatalog)
                .expect("cleaned before the region is opened");
            let region = open(&next, "ns:t");
            region.clean(&next.janitor(), Search::Folders).expect("cleaned");
            next.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned");
            let mut named: Vec<String> =
                refs(&region).iter().map(|refs| refs.replacen("ns:t/", "", 1)).collect();
            named.sort();
            assert_eq!(mob_files(&next), named, "act {act}");
            assert!(all(&region).starts_with(&format!("a/f:q@1={}", value('v', 20))), "act {act}");
            if ended {
                assert!(act > 6, "the flush has {act} acts");
                break;
            }
        }
    }
}

#[test]
fn a_store_file_that_does_not_say_what_it_needs_holds_the_mob_files_of_its_table() {
    let server = Server::new();
    let plain = FamilyDescriptor::new("f").expect("a name");
    let region = server.open(&Server::info("ns:t", 1), plain);
    let tagged = expiring_put("a", "f:q", 1, b"v", 1 << 40);
    region.apply(&[tagged], ReadMode::Any).expect("serving").pending.wait_blocking().expect("durable");
    flush(&region);
    let mut table = TableDescriptor::new("ns:t".parse().expect("a name"));
    table.set_family(mob_family());
    region.alter(&Arc::new(table), &server.options).expect("serving");
    put(&region, "b", 1, &value('w', 20));
    flush(&region);
    add_unnamed_mob_file(&server);
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 0);
    compact(&region, true);
    region.clean(&server.janitor(), Search::Folders).expect("cleaned");
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 2);
}

#[test]
fn a_clone_of_hbase_that_does_not_say_what_it_needs_holds_the_mob_files_to_which_it_has_links() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    region.close().expect("closed");
    drop(region);
    server.janitor().drop_folder(&FileName::new("data/ns/t")).expect("dropped");
    // A file of the clone as an early HBase writes it: it has tags, and does not name MOB files.
    let clone = server.open(&Server::info("ns:clone", 9), FamilyDescriptor::new("f").expect("a name"));
    let tagged = expiring_put("a", "f:q", 1, b"v", 1 << 40);
    clone.apply(&[tagged], ReadMode::Any).expect("serving").pending.wait_blocking().expect("durable");
    flush(&clone);
    let mob_region = |table: &str| layout::mob_region(&table.parse().expect("a name"));
    let link = format!(
        "mobdir/data/ns/clone/{}/f/ns=t={}-{}",
        mob_region("ns:clone"),
        mob_region("ns:t"),
        mob_files(&server)[0]
    );
    let link = FileName::new(link);
    server.files.create(&link).expect("created").finish().expect("finished");
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 0);
    server.files.delete(&link).expect("deleted");
    assert_eq!(server.janitor().clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 1);
}

/// The cells of a loaded file have the sequence id of the load, and the values in MOB files keep that of their write.
#[test]
fn loaded_references_find_their_values() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    for letter in ['u', 'v'] {
        put(&region, "a", 1, &value(letter, 20));
    }
    put(&region, "b", 2, &value('w', 20));
    flush(&region);
    let expected = format!("a/f:q@1={} b/f:q@2={}", value('v', 20), value('w', 20));
    assert_eq!(all(&region), expected);
    let store_file = region.stores[0].view.load().files[0].reader.name().clone();
    let clone = open(&server, "ns:clone");
    // So the ids of loads differ from those of the writes.
    put(&clone, "z", 1, "small");
    let load = BulkLoad {
        files: vec![BulkFile {
            family: "f".into(),
            path: store_file.to_string(),
            file: server.files.open(&store_file),
            within: Some(store_file),
        }],
        assign_sequence: true,
        copy: true,
        token: None,
    };
    assert!(matches!(clone.bulk_load(&load), Ok(BulkLoadOutcome::Loaded { .. })));
    let expected = format!("{expected} z/f:q@1=small");
    assert_eq!(all(&clone), expected);
    let without = BulkLoad { assign_sequence: false, ..load };
    assert!(matches!(clone.bulk_load(&without), Ok(BulkLoadOutcome::Loaded { .. })));
    assert_eq!(all(&clone), expected);
    compact(&clone, true);
    assert_eq!(all(&clone), expected, "the compaction has written the values again");
}

#[test]
fn the_mob_file_has_the_values_in_order_and_their_number() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    for row in ["c", "a", "b"] {
        put(&region, row, 1, &value('v', 20));
    }
    flush(&region);
    let name = server.files.list(&FileName::new("mobdir")).expect("listed").remove(0).name;
    let place = format!("mobdir/data/ns/t/{}/f", layout::mob_region(region.info().table()));
    assert_eq!(name.parent().expect("a folder").as_str(), place);
    let file = server.files.open(&name).expect("there");
    let reader = Arc::new(
        Reader::open(file, name, Arc::new(Cache::with_bytes(0)), cache::Caching::default()).expect("whole"),
    );
    assert_eq!((reader.entries(), reader.bloom()), (3, hfile::BloomType::None));
    assert_eq!(
        reader.info().get(&b"MOB_CELLS_COUNT"[..]).map(|count| &count[..]),
        Some(&[0, 0, 0, 0, 0, 0, 0, 3][..])
    );
    let mut cursor = reader.cursor(ReadOptions::default());
    cursor.seek_first().expect("read");
    let mut rows = Vec::new();
    while let Some(cell) = cursor.peek() {
        assert!(cell.tags().is_empty(), "the value has no reference's tags");
        rows.push(String::from_utf8_lossy(cell.row()).into_owned());
        cursor.advance().expect("read");
    }
    assert_eq!(rows, ["a", "b", "c"]);
}

#[test]
fn a_store_file_that_is_misread_keeps_all_mob_files_of_its_family() {
    let server = Server::new();
    let region = open(&server, "ns:t");
    put(&region, "a", 1, &value('v', 20));
    flush(&region);
    add_unnamed_mob_file(&server);
    let store_file = region.stores[0].view.load().files[0].reader.name().clone();
    let flip_version = |bytes: &mut Vec<u8>| {
        // A file ends with the version of its format.
        let last = bytes.len() - 1;
        bytes[last] ^= 0xff;
    };
    let janitor = server.janitor();
    server.files.damage(&store_file, flip_version);
    assert_eq!(janitor.clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 0);
    // A misread is not remembered.
    server.files.damage(&store_file, flip_version);
    assert_eq!(janitor.clean_mob_files(&FileName::root(), &NoCatalog).expect("cleaned"), 1);
    assert_eq!((mob_files(&server).len(), all(&region)), (1, format!("a/f:q@1={}", value('v', 20))));
}
