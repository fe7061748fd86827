//! Tests of snapshots: which files they list, which files stay while a snapshot names them, and clones.

use prost::Message;
use proto::pb;
use storage::{Capabilities, Capability};

use super::file_life::{After, Interrupted, Server, f, put, region_of, rows};
use super::*;

/// Stores a snapshot as the master does.
pub(super) fn store(server: &Server, name: &str, regions: Vec<pb::SnapshotRegionManifest>) {
    let manifest = pb::SnapshotDataManifest { region_manifests: regions, ..Default::default() };
    let info =
        pb::SnapshotDescription { name: name.into(), table: Some("ns:t".into()), ..Default::default() };
    let objects = [
        (layout::snapshot_manifest(name), manifest.encode_to_vec()),
        (layout::snapshot_info(name), info.encode_to_vec()),
    ];
    for (place, content) in objects {
        server.files.swap(&place, None, &content).expect("the disk works");
    }
}

pub(super) fn delete(server: &Server, name: &str) {
    for place in [layout::snapshot_info(name), layout::snapshot_manifest(name)] {
        server.files.delete(&place).expect("the disk works");
    }
}

fn names(manifest: &pb::SnapshotRegionManifest) -> Vec<String> {
    manifest
        .family_files
        .iter()
        .flat_map(|family| &family.store_files)
        .map(|file| file.name.clone())
        .collect()
}

fn clone(server: &Server, table: &str, source: &pb::SnapshotRegionManifest) -> Result<Arc<Region>> {
    let (info, files) = (Server::info(table, 9), Arc::new(server.files.clone()) as Arc<dyn Files>);
    Region::write_clone(&files, &server.log, &server.world, &Server::folder(&info), source)?;
    Ok(server.open(&info, f()))
}

#[test]
fn a_snapshot_lists_flushed_writes_or_files_alone() {
    let server = Server::new();
    let region = region_of(&server, "ns:t", &["a"]);
    put(&region, "b");
    assert_eq!(names(&region.snapshot(false).expect("listed")).len(), 1);
    assert!(region.memstore_bytes() > 0, "nothing was flushed");
    let flushed = region.snapshot(true).expect("listed");
    assert_eq!((names(&flushed).len(), region.memstore_bytes()), (2, 0));
    let (info, files) = (region.info().clone(), Arc::new(server.files.clone()) as Arc<dyn Files>);
    region.close().expect("closed");
    let folder = Server::folder(&info);
    let closed = Region::snapshot_of_closed(&files, &server.world, &folder, &info, &region.table());
    assert_eq!(closed.expect("listed"), flushed);
    assert!(matches!(region.snapshot(false), Err(Error::NotServing(_))));
}

/// A holder that needs no file. When it is first asked, something else happens.
struct Meanwhile(env::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl FileHolder for Meanwhile {
    fn mark_held(&self, _: &[FileName], _: &mut [bool]) -> Result<()> {
        if let Some(act) = self.0.lock().take() {
            act();
        }
        Ok(())
    }
}

/// The janitor has asked for links when the clone is made, and has not asked for snapshots when the snapshot is deleted.
#[test]
fn a_file_that_passes_from_a_snapshot_to_a_clone_stays() {
    let server = Arc::new(Server::new());
    let region = region_of(&server, "ns:t", &["a", "b"]);
    let manifest = region.snapshot(true).expect("listed");
    store(&server, "s", vec![manifest.clone()]);
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    let places = names(&manifest).into_iter();
    let places: Vec<_> = places.map(|name| Server::folder(region.info()).join("f").join(&name)).collect();
    let cloned = Arc::new(env::sync::Mutex::new(None));
    let act = {
        let (server, cloned) = (Arc::clone(&server), Arc::clone(&cloned));
        move || {
            let region = clone(&server, "other:c", &manifest).expect("cloned");
            delete(&server, "s");
            // Otherwise the files would stay because they are open.
            drop(region);
            *cloned.lock() = Some(());
        }
    };
    let meanwhile = Meanwhile(env::sync::Mutex::new(Some(Box::new(act))));
    let janitor = server.janitor().asking(Arc::new(meanwhile));
    assert_eq!(janitor.collect(&places).expect("asked"), []);
    assert!(cloned.lock().is_some());
    assert_eq!(rows(&server.open(&Server::info("other:c", 9), f())), "a b");
}

#[test]
fn files_stay_while_a_snapshot_names_them() {
    let server = Server::new();
    let region = region_of(&server, "ns:t", &["a", "b"]);
    let manifest = region.snapshot(true).expect("listed");
    store(&server, "s", vec![manifest.clone()]);
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    let place = |name: &String| Server::folder(region.info()).join("f").join(name);
    let there = |name: &FileName| server.files.open(name).is_ok();
    let janitor = server.janitor();
    region.clean(&janitor, Search::Folders).expect("cleaned");
    assert!(names(&manifest).iter().all(|name| there(&place(name))), "the snapshot names them");

    // The table is dropped. The snapshot finds its files in the archive, and so does a clone.
    region.close().expect("closed");
    janitor.drop_folder(&FileName::new("data/ns/t")).expect("dropped");
    janitor.clean_archive(&FileName::root()).expect("cleaned");
    let archived = |name: &String| FileName::new(format!("archive/{}", place(name)));
    assert!(names(&manifest).iter().all(|name| there(&archived(name)) && !there(&place(name))));
    let cloned = clone(&server, "other:c", &manifest).expect("cloned");
    assert_eq!(rows(&cloned), "a b");

    // The clone needs the files, too.
    delete(&server, "s");
    janitor.clean_archive(&FileName::root()).expect("cleaned");
    assert!(names(&manifest).iter().all(|name| there(&archived(name))));
    cloned.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    cloned.clean(&janitor, Search::Folders).expect("cleaned");
    janitor.clean_archive(&FileName::root()).expect("cleaned");
    assert!(!names(&manifest).iter().any(|name| there(&archived(name))), "nobody holds them any more");
    assert_eq!(rows(&cloned), "a b");
    assert!(matches!(clone(&server, "other:d", &manifest), Err(Error::Corrupt { .. })), "the files are gone");
}

/// A start carries out an interrupted clone with the same regions, while the earlier server still does.
#[test]
fn a_server_that_has_lost_its_log_replaces_no_list_of_a_clone() {
    let capabilities = Capabilities::ALL.without(Capability::OneProcess);
    let late = Server::over(Memory::with(capabilities));
    let manifest = region_of(&late, "ns:t", &["a"]).snapshot(true).expect("listed");
    let owner = Server::over(late.files.clone());
    let cloned = clone(&owner, "other:c", &manifest).expect("cloned");
    put(&cloned, "b");
    cloned.flush(FlushReason::Requested).expect("flushed");
    let error = clone(&late, "other:c", &manifest).expect_err("another server has opened it");
    assert!(matches!(error, Error::Log(wal::Error::Fenced { .. })), "{error:?}");
    let again = Server::over(late.files.clone());
    assert_eq!(rows(&again.open(cloned.info(), f())), "a b");
}

#[test]
fn all_files_of_a_table_stay_while_its_snapshot_is_taken() {
    let server = Server::new();
    let region = region_of(&server, "ns:t", &["a", "b"]);
    let other = region_of(&server, "ns:u", &["a", "b"]);
    let info = pb::SnapshotDescription { name: "s".into(), table: Some("ns:t".into()), ..Default::default() };
    let running = layout::running_snapshot("s");
    server.files.swap(&running, None, &info.encode_to_vec()).expect("the disk works");
    for region in [&region, &other] {
        region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    }
    assert_eq!(region.clean(&server.janitor(), Search::GivenUp).expect("cleaned"), 0);
    assert_eq!(other.clean(&server.janitor(), Search::GivenUp).expect("cleaned"), 2);
    server.files.delete(&running).expect("the disk works");
    assert_eq!(region.clean(&server.janitor(), Search::GivenUp).expect("cleaned"), 2);
}

#[test]
fn a_snapshot_that_cannot_be_read_stops_all_deletions() {
    let server = Server::new();
    let region = region_of(&server, "ns:t", &["a", "b"]);
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    server.files.swap(&layout::snapshot_manifest("s"), None, b"\xff\xff").expect("the disk works");
    let error = region.clean(&server.janitor(), Search::GivenUp).expect_err("nobody can tell");
    assert!(error.to_string().contains(".hbase-snapshot/s/data.manifest"), "{error}");
    server.files.delete(&layout::snapshot_manifest("s")).expect("the disk works");
    assert_eq!(region.clean(&server.janitor(), Search::GivenUp).expect("cleaned"), 2);
}

#[test]
fn all_files_of_a_table_stay_if_a_snapshot_of_it_has_no_manifest() {
    for capabilities in [Capabilities::ALL, Capabilities::ALL.without(Capability::OneProcess)] {
        let server = Server::over(Memory::with(capabilities));
        let region = region_of(&server, "ns:t", &["a", "b"]);
        let other = region_of(&server, "ns:u", &["a"]);
        let manifest = region.snapshot(true).expect("listed");
        let names = names(&manifest);
        // HBase's format 0: a file of the snapshot's folder stands for each file of a store.
        let of_region = layout::snapshot("s").join(region.info().encoded_name().as_str()).join("f");
        for name in &names {
            server.files.swap(&of_region.join(name), None, b"").expect("the disk works");
        }
        let info =
            pb::SnapshotDescription { name: "s".into(), table: Some("ns:t".into()), ..Default::default() };
        server.files.swap(&layout::snapshot_info("s"), None, &info.encode_to_vec()).expect("the disk works");
        let folder = Server::folder(region.info()).join("f");
        for region in [region, other] {
            region.close().expect("closed");
        }
        let janitor = server.janitor();
        for table in ["data/ns/t", "data/ns/u"] {
            janitor.drop_folder(&FileName::new(table)).expect("dropped");
        }
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        let archived = server.files.list(&FileName::new("archive")).expect("listed");
        let archived: Vec<String> = archived.iter().map(|entry| entry.name.to_string()).collect();
        let mut kept: Vec<String> = names.iter().map(|name| format!("archive/{folder}/{name}")).collect();
        kept.sort();
        assert_eq!(archived, kept, "nothing of the other table");
        delete(&server, "s");
        janitor.clean_archive(&FileName::root()).expect("cleaned");
        assert!(server.files.list(&FileName::new("archive")).expect("listed").is_empty());
    }
}

#[test]
fn files_stay_if_their_snapshot_is_completed_while_the_janitor_asks() {
    let server = Arc::new(Server::new());
    let region = region_of(&server, "ns:t", &["a", "b"]);
    let manifest = region.snapshot(true).expect("listed");
    let info = pb::SnapshotDescription { name: "s".into(), table: Some("ns:t".into()), ..Default::default() };
    let running = layout::running_snapshot("s");
    server.files.swap(&running, None, &info.encode_to_vec()).expect("the disk works");
    region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    let complete = {
        let (server, manifest) = (Arc::clone(&server), manifest.clone());
        move || {
            store(&server, "s", vec![manifest]);
            server.files.delete(&running).expect("the disk works");
        }
    };
    let files = Interrupted::by(&server.files, After::List(layout::snapshots()), complete);
    let janitor = Janitor::new(Arc::new(files), Arc::clone(&server.options.open_files));
    assert_eq!(region.clean(&janitor, Search::GivenUp).expect("cleaned"), 0);
    clone(&server, "other:c", &manifest).expect("its files are there");
}
