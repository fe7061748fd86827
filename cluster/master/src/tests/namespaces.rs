//! Tests of changes of namespaces whose write to hbase:namespace fails, and takes place later.

use proto::pb;
use rpc::Exception;

use super::fake::{Life, name};

fn namespace(value: &'static str) -> pb::NamespaceDescriptor {
    let configuration = vec![pb::NameStringPair { name: "key".into(), value: value.into() }];
    pb::NamespaceDescriptor { name: "ns".into(), configuration }
}

fn create(life: &Life) -> Result<(), Exception> {
    life.done(life.master.create_namespace(&namespace("old"), None))
}

/// Calls `change` while hbase:namespace takes no writes. Its write waits, as for room on a full disk.
fn fail(life: &Life, change: impl FnOnce(&Life) -> Result<(), Exception>) {
    life.servers.stick();
    life.servers.die_after(Some(0));
    change(life).expect_err("hbase:namespace takes no writes");
    life.servers.die_after(None);
}

fn delete(life: &Life) -> Result<(), Exception> {
    life.done(life.master.delete_namespace("ns", None))
}

fn modify(life: &Life) -> Result<(), Exception> {
    life.done(life.master.modify_namespace(&namespace("new"), None))
}

#[test]
fn a_table_is_created_in_a_namespace_only_once_its_failed_deletion_cannot_take_place() {
    let life = Life::first();
    create(&life).expect("created");
    fail(&life, delete);
    life.servers.die_after(Some(0));
    life.create("ns:t", &["f"], &[]).expect_err("it is not certain that the namespace stays");
    life.servers.die_after(None);
    life.create("ns:t", &["f"], &[]).expect("created");
    life.servers.release_stuck();
    let next = life.next();
    assert!(next.has("ns:t"));
    assert_eq!(next.master.namespace("ns"), Ok(namespace("old")));
    assert_eq!(next.master.read_view(|view| view.tables[&name("ns:t")].regions.len()), 1);
}

#[test]
fn a_failed_change_of_a_namespace_does_not_take_place_after_the_chore() {
    type Change = fn(&Life) -> Result<(), Exception>;
    let cases: [(bool, Change); 3] = [(false, create), (true, modify), (true, delete)];
    for (is_there, change) in cases {
        let life = Life::first();
        if is_there {
            create(&life).expect("created");
        }
        let before = life.master.namespaces();
        fail(&life, change);
        life.master.carry_on_what_waits();
        life.master.procedures.wait_idle();
        life.servers.release_stuck();
        assert_eq!(life.master.namespaces(), before);
        assert_eq!(life.next().master.namespaces(), before);
        // The client repeats its call.
        change(&life).expect("nothing is in the way");
    }
}
