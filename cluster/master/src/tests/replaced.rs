//! Tests of a master that is stopped at any of its calls, and goes on after another process has taken over its files.
//! What the successor has acknowledged must stay.

use std::sync::Arc;
use std::time::Duration;

use env::sync::Mutex;
use proto::pb;
use rpc::Exception;
use storage::{
    Capabilities, Entry, FileName, FileReader, FileWriter, Files, Memory, Object, Result, Settled, Version,
};

use crate::procedure::{NonceKey, Outcome, ProcedureId};

use super::fake::{Durable, Life, name, pb_name};
use super::snapshots::{names, request, take};

/// A process of which the next call but `0` more is preceded by what another process does meanwhile.
type Pause = (u64, Box<dyn FnOnce() + Send>);

/// Storage in memory whose calls can be interrupted.
#[derive(Clone)]
struct Interruptible {
    below: Memory,
    pause: Arc<Mutex<Option<Pause>>>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

/// A request that the storage may carry out again at any later time.
#[derive(Clone)]
enum Sent {
    Swap(FileName, Option<Version>, Vec<u8>),
    Delete(FileName),
}

impl Interruptible {
    fn over(below: &Memory) -> Interruptible {
        Interruptible { below: below.clone(), pause: Arc::default(), sent: Arc::default() }
    }

    /// Carries out again every request about snapshots that was sent, the oldest first.
    fn deliver_again(&self) {
        let of_snapshots = |name: &FileName| name.as_str().starts_with(".hbase-snapshot");
        for sent in self.sent.lock().clone() {
            match sent {
                Sent::Swap(name, expected, new) if of_snapshots(&name) => {
                    let _refused = self.below.swap(&name, expected.as_ref(), &new);
                }
                Sent::Delete(name) if of_snapshots(&name) => self.below.delete(&name).expect("deleted"),
                Sent::Swap(..) | Sent::Delete(_) => {}
            }
        }
    }

    /// Counts a call that changes something, and lets the other process run if it is the chosen one.
    fn call(&self) {
        let mut pause = self.pause.lock();
        let run = match &mut *pause {
            Some((0, _)) => pause.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        drop(pause);
        if let Some((_, run)) = run {
            run();
        }
    }
}

impl Files for Interruptible {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.call();
        self.below.create(name)
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        self.below.open(name)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        self.call();
        self.below.list(folder)
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        self.call();
        self.sent.lock().push(Sent::Delete(name.clone()));
        self.below.delete(name)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        self.call();
        self.below.load(name, bytes_max)
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        self.call();
        self.sent.lock().push(Sent::Swap(name.clone(), expected.cloned(), new.to_vec()));
        self.below.swap(name, expected, new)
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        self.below.settle(name, expected, new)
    }

    fn place(&self) -> String {
        self.below.place()
    }
}

/// Gives the family `f` of table `t` this number of versions.
pub(super) fn set_versions(life: &Life, versions: &'static str) {
    life.done(submit_versions(life, versions)).expect("altered");
}

fn submit_versions(life: &Life, versions: &'static str) -> std::result::Result<ProcedureId, Exception> {
    let versions = pb::BytesBytesPair { first: "VERSIONS".into(), second: versions.into() };
    let family =
        pb::ColumnFamilySchema { name: "f".into(), attributes: vec![versions], ..Default::default() };
    life.master.modify_family(&pb_name("t"), &family, None)
}

pub(super) fn versions(life: &Life) -> u32 {
    let table = life.master.read_view(|view| view.tables[&name("t")].descriptor.clone());
    table.family(b"f").expect("it has one").options().expect("a good schema").versions_max
}

const TIME: i64 = 1_700_000_000_000;

/// Starts the master that takes over `files`. Its clock is behind that of the first master by half an hour.
fn successor(files: &Memory, durable: &Durable) -> Life {
    Life::at(files.clone(), durable.clone(), TIME - 1_800_000).expect("it starts")
}

/// Changes a schema from 1 version to 2, and stops the master at the given call. Then `meanwhile` runs with the master
/// that takes over. The first master goes on. Returns whether it was stopped, the number of versions that the successor
/// had at last, and the number that the next start finds.
fn alter_across(call: u64, meanwhile: fn(&Life)) -> (bool, u32, u32) {
    let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
    let files = Interruptible::over(&memory);
    let first = Life::over(memory.clone(), Arc::new(files.clone()), durable.clone(), TIME, |_| {})
        .expect("it starts");
    first.create("t", &["f"], &[]).expect("created");
    let served = Arc::new(Mutex::new(None));
    let (shown, place, rows) = (Arc::clone(&served), memory.clone(), durable.clone());
    let run = move || {
        let next = successor(&place, &rows);
        meanwhile(&next);
        *shown.lock() = Some(versions(&next));
    };
    *files.pause.lock() = Some((call, Box::new(run)));
    let altered = submit_versions(&first, "2");
    // A master that was replaced reports no result.
    first.master.procedures.wait_idle();
    let served = *served.lock();
    let Some(served) = served else {
        first.done(altered).expect("nothing was in the way");
        return (false, versions(&first), versions(&successor(&memory, &durable)));
    };
    (true, served, versions(&successor(&memory, &durable)))
}

/// Runs [`alter_across`] with a pause at each call. Returns the number of calls.
fn at_every_call(meanwhile: fn(&Life)) -> u64 {
    for call in 0.. {
        let (was_stopped, served, found) = alter_across(call, meanwhile);
        assert_eq!(found, served, "stopped at call {call}");
        if !was_stopped {
            return call;
        }
    }
    unreachable!("a change has fewer than 2^64 calls")
}

#[test]
fn a_descriptor_of_a_replaced_master_never_counts() {
    assert!(at_every_call(|_| {}) > 4);
    assert!(at_every_call(|next| set_versions(next, "7")) > 4);
}

#[test]
fn a_descriptor_of_a_replaced_master_does_not_count_for_a_table_that_was_created_again() {
    let create_again = |next: &Life| {
        next.done(next.master.disable_table(&pb_name("t"), None)).expect("disabled");
        next.done(next.master.delete_table(&pb_name("t"), None)).expect("deleted");
        next.create("t", &["f"], &[]).expect("created");
        set_versions(next, "7");
    };
    assert!(at_every_call(create_again) > 4);
}

#[test]
fn a_replaced_master_changes_no_schema() {
    let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
    let first = Life::at(memory.clone(), durable.clone(), TIME).expect("it starts");
    first.create("t", &["f"], &[]).expect("created");
    let next = successor(&memory, &durable);
    set_versions(&next, "7");
    let late = submit_versions(&first, "2").expect("submitted");
    first.master.procedures.wait_idle();
    assert!(
        matches!(first.master.procedures.outcome(late), Some(Outcome::Running { .. })),
        "it is not reported"
    );
    assert_eq!(versions(&successor(&memory, &durable)), 7);
}

/// A client that submits to a replaced master gets no id, so it repeats its call at the successor.
#[test]
fn a_replaced_master_accepts_no_procedure() {
    let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
    let first = Life::at(memory.clone(), durable.clone(), TIME).expect("it starts");
    let next = successor(&memory, &durable);
    let namespace = pb::NamespaceDescriptor { name: "ns".into(), configuration: Vec::new() };
    let nonce = NonceKey::of(Some(1), Some(2));
    let refused = first.master.create_namespace(&namespace, nonce).expect_err("refused");
    assert!(!refused.do_not_retry && refused.message.contains("was not begun"), "{refused}");
    next.done(next.master.create_namespace(&namespace, nonce)).expect("created");
}

/// Takes a snapshot, and stops the master at the given call. Then another master starts, and the first one goes on. Returns
/// whether it was stopped.
fn snapshot_across(call: u64) -> bool {
    let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
    let files = Interruptible::over(&memory);
    let first = Life::over(memory.clone(), Arc::new(files.clone()), durable.clone(), TIME, |_| {})
        .expect("it starts");
    first.create("t", &["f"], &[]).expect("created");
    let next = Arc::new(Mutex::new(None));
    let (shown, place, rows) = (Arc::clone(&next), memory.clone(), durable.clone());
    *files.pause.lock() = Some((call, Box::new(move || *shown.lock() = Some(successor(&place, &rows)))));
    let taken = first.master.snapshot(request("s", "t"), None);
    // A master that was replaced reports no result.
    first.master.procedures.wait_idle();
    let next = next.lock().take();
    let Some(next) = next else {
        first.done(taken).expect("nothing was in the way");
        return false;
    };
    let is_whole = || memory.open(&layout::snapshot_manifest("s")).is_ok();
    if names(&next).is_empty() {
        take(&next, "s", "t").expect("nothing is in the way");
    }
    assert!(is_whole(), "stopped at call {call}");
    next.master.delete_snapshot("s").expect("deleted");
    assert!(names(&next).is_empty() && has_only_tombstones(&memory));
    true
}

/// Returns the objects that say that a snapshot is being taken.
fn running(memory: &Memory) -> Vec<Entry> {
    memory.list(&layout::running_snapshots()).expect("listed")
}

/// The chore that deletes what others have left runs at each call while a snapshot is taken.
#[test]
fn a_master_keeps_the_objects_of_its_own_snapshots() {
    let left = layout::taken_snapshot("of-another", 1);
    let exported = layout::running_snapshot("exported");
    let mut kept = 0;
    for call in 0.. {
        let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
        let files = Interruptible::over(&memory);
        let life =
            Life::over(memory.clone(), Arc::new(files.clone()), durable, TIME, |_| {}).expect("it starts");
        life.create("t", &["f"], &[]).expect("created");
        memory.swap(&exported, None, b"by ExportSnapshot").expect("new");
        let (master, place, left) = (Arc::clone(&life.master), memory.clone(), left.clone());
        let own = Arc::new(Mutex::new(None));
        let shown = Arc::clone(&own);
        let chore = move || {
            let own = running(&place);
            place.swap(&left, None, b"late").expect("new");
            let (done, ended) = std::sync::mpsc::channel();
            let discard = move || done.send(master.discard_running_snapshots().is_ok());
            env::spawn_thread("chore", env::Priority::Background, discard).expect("a thread");
            // The chore waits for locks that the stopped thread may hold.
            if let Ok(is_done) = ended.recv_timeout(Duration::from_millis(100)) {
                assert!(is_done);
                assert_eq!(running(&place), own, "stopped at call {call}");
                *shown.lock() = Some(own.len() - 1);
            } else {
                *shown.lock() = Some(0);
            }
        };
        *files.pause.lock() = Some((call, Box::new(chore)));
        take(&life, "s", "t").expect("taken");
        let Some(own) = *own.lock() else { break };
        kept += own;
        life.master.discard_running_snapshots().expect("deleted");
        let names: Vec<_> = running(&memory).into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, std::slice::from_ref(&exported), "an export goes on");
    }
    assert!(kept > 2, "the object was there at {kept} calls");
}

/// Whether nothing is left of any snapshot but tombstones.
fn has_only_tombstones(memory: &Memory) -> bool {
    let objects = memory.list(&layout::snapshots()).expect("listed");
    objects.len() == layout::tombstones(memory).expect("listed").len()
}

#[test]
fn a_snapshot_of_a_replaced_master_is_whole_or_does_not_exist() {
    let calls = (0..).find(|call| !snapshot_across(*call)).expect("a snapshot has fewer than 2^64 calls");
    assert!(calls > 6, "{calls}");
}

/// What a replaced master does with snapshots, as a call of a client or by itself.
type Act = fn(&Life);

/// Begins `act` with a complete snapshot, and stops the master at the given call. Then another master starts, deletes the
/// snapshot if it exists, and takes another one of the same name. The first master goes on. Returns whether it was stopped.
fn taken_again_across(call: u64, act: Act) -> bool {
    let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
    let files = Interruptible::over(&memory);
    let first = Life::over(memory.clone(), Arc::new(files.clone()), durable.clone(), TIME, |_| {})
        .expect("it starts");
    first.create("t", &["f"], &[]).expect("created");
    take(&first, "s", "t").expect("taken");
    let next = Arc::new(Mutex::new(None));
    let (shown, place, rows) = (Arc::clone(&next), memory.clone(), durable.clone());
    let run = move || {
        let next = successor(&place, &rows);
        if !names(&next).is_empty() {
            next.master.delete_snapshot("s").expect("deleted");
        }
        take(&next, "s", "t").expect("taken");
        *shown.lock() = Some(next);
    };
    *files.pause.lock() = Some((call, Box::new(run)));
    act(&first);
    first.master.procedures.wait_idle();
    let next = next.lock().take();
    let Some(next) = next else { return false };
    for _ in 0..2 {
        assert_eq!(names(&next), ["s"], "stopped at call {call}");
        next.master.snapshot_manifest("s").expect("whole");
        files.deliver_again();
        next.master.discard_running_snapshots().expect("deleted");
        assert_eq!(running(&memory), [], "stopped at call {call}");
    }
    let later = Life::at(memory.clone(), durable, TIME + 60_000).expect("it starts");
    assert_eq!(names(&later), ["s"], "stopped at call {call}");
    true
}

#[test]
fn a_replaced_master_deletes_no_snapshot_that_its_successor_has_acknowledged() {
    let delete: Act = |first| _ = first.master.delete_snapshot("s");
    let delete_and_take: Act = |first| {
        if first.master.delete_snapshot("s").is_ok() {
            let _unknown = first.master.snapshot(request("s", "t"), None);
        }
    };
    let start: Act = |first| _ = first.master.discard_incomplete_snapshots();
    for (act, calls_min) in [(delete, 4), (delete_and_take, 12), (start, 1)] {
        let calls = (0..).find(|call| !taken_again_across(*call, act)).expect("fewer than 2^64 calls");
        assert!(calls > calls_min, "{calls}");
    }
}

/// A call may wait in the socket of a server that hangs, until another one has taken over.
#[test]
fn a_replaced_master_carries_out_no_deletion_of_a_snapshot() {
    let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
    let first = Life::at(memory.clone(), durable.clone(), TIME).expect("it starts");
    first.create("t", &["f"], &[]).expect("created");
    let old = pb::SnapshotDescription { ttl: Some(1), creation_time: Some(1), ..request("old", "t") };
    first.done(first.master.snapshot(old, None)).expect("taken");
    take(&first, "s", "t").expect("taken");
    let next = successor(&memory, &durable);
    next.master.delete_snapshot("s").expect("deleted");
    take(&next, "s", "t").expect("taken");
    first.master.delete_snapshot("s").expect_err("it was replaced");
    assert_eq!(first.master.delete_expired_snapshots().unwrap_or(0), 0);
    assert_eq!(names(&next), ["old", "s"]);
    next.master.snapshot_manifest("s").expect("whole");
}

/// The deletion has no answer, but has begun, so the next master finishes it.
#[test]
fn a_deletion_that_has_begun_is_finished_by_the_next_master() {
    let (memory, durable) = (Memory::with(Capabilities::NONE), Durable::default());
    let first = Life::at(memory.clone(), durable.clone(), TIME).expect("it starts");
    first.create("t", &["f"], &[]).expect("created");
    take(&first, "s", "t").expect("taken");
    first.master.intents.begin_snapshot_deletion("s").expect("stored");
    assert!(names(&first).is_empty() && first.master.snapshot_info("s").expect("readable").is_none());
    take(&first, "s", "t").expect("the deletion is finished first");
    assert_eq!(names(&first), ["s"]);
    first.master.intents.begin_snapshot_deletion("s").expect("stored");
    let next = successor(&memory, &durable);
    assert!(names(&next).is_empty() && has_only_tombstones(&memory));
    assert!(next.master.intents.deleted_snapshots().expect("readable").is_empty());
}
