//! Tests of a read replica's catalog beside that of its primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto::RegionInfo;
use storage::{Capabilities, Entry, FileName, Files, Memory, Overlay};

use super::fake::{Durable, Life, name, pb_name};
use super::replaced::{set_versions, versions};
use super::snapshots::NeverAhead;
use crate::{Mirror, MirrorOutcome, PrimaryCatalog};

/// Storage that counts listings.
struct Counted {
    below: Memory,
    lists: AtomicUsize,
}

impl Overlay for Counted {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn list(&self, folder: &FileName) -> storage::Result<Vec<Entry>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.below.list(folder)
    }
}

/// Returns the catalog of a primary as its replica reads it.
fn catalog(primary: &Life) -> PrimaryCatalog {
    let meta = primary.servers.rows_of(RegionInfo::meta().encoded_name());
    let region = PrimaryCatalog::namespace_region(meta.clone()).expect("it has one");
    PrimaryCatalog { meta, namespaces: primary.servers.rows_of(region.encoded_name()) }
}

/// A change of some attributes changes no row of hbase:meta, so a replica looks for such changes from time to time.
#[test]
fn a_replica_lists_no_descriptors_until_a_schema_has_changed() {
    let memory = Memory::with(Capabilities::NONE);
    let primary = Life::at(memory.clone(), Durable::default(), 1_700_000_000_000).expect("it starts");
    for table in ["t", "u", "v"] {
        primary.create(table, &["f"], &[]).expect("created");
        // The replica's servers here have no files of the primary, so they cannot open its regions.
        primary.done(primary.master.disable_table(&pb_name(table), None)).expect("disabled");
    }
    let replica = Life::first();
    let files = Arc::new(Counted { below: memory, lists: AtomicUsize::new(0) });
    let mut mirror =
        Mirror::new(Arc::clone(&replica.master), Arc::clone(&files) as Arc<dyn Files>, Arc::new(NeverAhead));
    let mut lists_of_round = || {
        let before = files.lists.load(Ordering::Relaxed);
        let outcome = mirror.follow(&catalog(&primary), true).expect("the disk works");
        assert_eq!(outcome, MirrorOutcome::default());
        files.lists.load(Ordering::Relaxed) - before
    };
    assert_eq!(lists_of_round(), 3);
    assert_eq!((lists_of_round(), lists_of_round()), (0, 0));
    set_versions(&primary, "7");
    assert_eq!(lists_of_round(), 3);
    assert_eq!(versions(&replica), 7);
    assert_eq!(lists_of_round(), 0);
    assert!(replica.master.read_view(|view| view.tables.contains_key(&name("v"))));
}
