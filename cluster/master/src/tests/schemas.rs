//! Tests of changes of schemas that fail: what the client is told is what the next start finds.

use std::sync::Arc;

use proto::descriptor::tracker::TRACKER;
use proto::{RegionInfo, TableDescriptor, pb};
use rpc::Exception;
use storage::memory::Fault;
use storage::{Files, Kind, Outcome};

use super::fake::{Life, name, pb_name};
use crate::reopen::Reopening;

fn descriptor(life: &Life, table: &str) -> Arc<TableDescriptor> {
    life.master.read_view(|view| Arc::clone(&view.tables[&name(table)].descriptor))
}

fn with_versions(family: &'static str, count: &'static str) -> pb::ColumnFamilySchema {
    let versions = pb::BytesBytesPair { first: "VERSIONS".into(), second: count.into() };
    pb::ColumnFamilySchema { name: family.into(), attributes: vec![versions], ..Default::default() }
}

type Change = fn(&Life) -> Result<(), Exception>;
type Check = fn(&TableDescriptor) -> bool;

#[test]
fn a_change_that_is_reported_as_failed_is_not_found_by_the_next_start() {
    let changes: [(Change, Check); 2] = [
        (
            |life| life.done(life.master.modify_family(&pb_name("t"), &with_versions("f", "7"), None)),
            |table| {
                table.family(b"f").is_some_and(|family| family.options().expect("good").versions_max == 7)
            },
        ),
        (
            |life| life.done(life.master.change_tracker(&pb_name("t"), None, "DEFAULT", None)),
            |table| table.attributes().text(TRACKER) == Some("DEFAULT"),
        ),
    ];
    for (change, is_made) in changes {
        let (mut failed, mut kept_old) = (0, 0);
        for act in 1..15 {
            let life = Life::first();
            life.create("t", &["f"], &["m"]).expect("created");
            let (act, outcome) = (life.files.acts() + act, Outcome::DidNotHappen);
            life.files.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
            let changed = change(&life);
            life.files.set_fault(None);
            let described = life.files.list(&layout::descriptors(&name("t"))).expect("listed").len();
            if changed.is_err() && !life.master.intents.of(&name("t")).is_empty() {
                // The chore carries the change out, as after any failure that leaves an intent.
                continue;
            }
            failed += usize::from(changed.is_err());
            kept_old += usize::from(changed.is_ok() && described == 2);
            assert_eq!(is_made(&descriptor(&life, "t")), changed.is_ok(), "act {act}: {changed:?}");
            assert_eq!(is_made(&descriptor(&life.next(), "t")), changed.is_ok(), "act {act}: {changed:?}");
        }
        assert!(failed > 0 && kept_old == 1, "{failed} failures, {kept_old} deletions that failed");
    }
}

#[test]
fn hbase_meta_that_cannot_be_opened_after_an_alter_is_opened_later() {
    for is_disk_full in [false, true] {
        let life = Life::first();
        life.create("t", &["f"], &[]).expect("created");
        let old = descriptor(&life, "hbase:meta");
        let meta = RegionInfo::meta();
        life.servers.refuse(Some(""));
        if is_disk_full {
            // The old schema cannot be stored again.
            life.servers.fill_at_close();
        }
        let changed = life.master.modify_family(&pb_name("hbase:meta"), &with_versions("info", "7"), None);
        let failure = life.done(changed).expect_err("hbase:meta cannot be opened");
        assert!(failure.message.contains("refused by the test"), "{failure}");
        assert_eq!(life.servers.server_of(meta.encoded_name()), None);
        let closed: Vec<_> = life.master.failed_regions().iter().map(ToString::to_string).collect();
        assert!(closed.len() == 1 && closed[0].contains("hbase:meta"), "{closed:?}");
        life.servers.refuse(None);
        life.files.set_bytes_max(None);
        // What the chore does every ten seconds.
        life.master.carry_on_what_waits();
        life.master.procedures.wait_idle();
        life.master.reopen_failed(&mut Reopening::default());
        life.master.procedures.wait_idle();
        assert!(life.servers.server_of(meta.encoded_name()).is_some(), "disk full: {is_disk_full}");
        assert_eq!(life.servers.schema_of(meta.encoded_name()), old);
        assert!(life.master.failed_regions().is_empty());
        life.create("u", &["f"], &[]).expect("hbase:meta is written");
        let content = life.master.catalog.read().expect("hbase:meta is read");
        assert!(!content.regions.contains_key(&name("hbase:meta")), "no catalog lists it");
        assert!(life.next().has("u"));
    }
}
