//! Tests of changes of schemas that fail: what the client is told is what the next start finds.

use std::sync::Arc;

use proto::descriptor::tracker::TRACKER;
use proto::{TableDescriptor, pb};
use rpc::Exception;
use storage::memory::Fault;
use storage::{Files, Kind, Outcome};

use super::fake::{Life, name, pb_name};

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
