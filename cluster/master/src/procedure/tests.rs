use super::*;
use rpc::class;
use std::sync::mpsc;
use storage::Memory;

fn procedures(options: Options) -> (World, Arc<Procedures>) {
    let world = World::simulated(1, WallTime(1_000));
    (world.clone(), open(&Memory::new(), &world, options))
}

fn open(memory: &Memory, world: &World, options: Options) -> Arc<Procedures> {
    Procedures::open(Arc::new(memory.clone()), world.clone(), options, Arc::default()).expect("it opens")
}

/// Submits work on a whole table.
fn submit(
    procedures: &Arc<Procedures>,
    table: &str,
    nonce: Option<NonceKey>,
    work: impl FnOnce(&Context) -> Result<Bytes, Exception> + Send + 'static,
) -> Result<ProcedureId, Exception> {
    let locks = LockSet::table(&table.parse().expect("a table's name"));
    procedures.submit(Submission { kind: ProcedureKind::Alter, locks, nonce, target: None }, work)
}

#[test]
fn the_same_lock_runs_in_order_and_another_runs_beside_it() {
    let (_, procedures) = procedures(Options::default());
    let (go, wait) = mpsc::channel::<()>();
    let (say, heard) = mpsc::channel();
    let said = say.clone();
    submit(&procedures, "t", None, move |_| {
        wait.recv().expect("told");
        said.send(1).expect("heard");
        Ok(Bytes::new())
    })
    .expect("accepted");
    let said = say.clone();
    let second = submit(&procedures, "t", None, move |_| {
        said.send(2).expect("heard");
        Ok(Bytes::from_static(b"two"))
    })
    .expect("accepted");
    let beside = submit(&procedures, "u", None, move |_| {
        say.send(3).expect("heard");
        Ok(Bytes::new())
    })
    .expect("accepted");
    assert!(procedures.wait(beside).expect("known").is_ok(), "another table does not wait");
    assert!(matches!(procedures.outcome(second), Some(Outcome::Running { .. })));
    go.send(()).expect("first waits");
    assert_eq!(procedures.wait(second).expect("known").expect("good"), "two");
    assert_eq!(heard.iter().take(3).collect::<Vec<_>>(), [3, 1, 2]);
}

#[test]
fn a_repeated_nonce_is_the_same_procedure_until_it_is_forgotten() {
    let (world, procedures) = procedures(Options::default());
    let nonce = NonceKey::of(Some(1), Some(2));
    assert_eq!(procedures.repeated(nonce), None);
    let first = submit(&procedures, "t", nonce, |_| Ok(Bytes::new())).expect("accepted");
    procedures.wait_idle();
    assert_eq!(procedures.repeated(nonce), Some(first));
    assert_eq!(submit(&procedures, "t", nonce, |_| panic!("must not run")).expect("accepted"), first);
    world.advance(Options::default().outcome_kept);
    assert!(procedures.outcome(first).is_none());
    assert_ne!(submit(&procedures, "t", nonce, |_| Ok(Bytes::new())).expect("accepted"), first);
    assert!(NonceKey::of(Some(5), None).is_none() && NonceKey::of(None, Some(0)).is_none());
}

#[test]
fn a_panic_is_a_failure_and_frees_the_lock() {
    let (_, procedures) = procedures(Options::default());
    let broken = submit(&procedures, "t", None, |_| panic!("seven is not eight")).expect("accepted");
    let failure = procedures.wait(broken).expect("known").expect_err("failed");
    assert!(failure.message.contains("seven is not eight"), "{failure:?}");
    let after = submit(&procedures, "t", None, |_| Ok(Bytes::new())).expect("accepted");
    assert!(procedures.wait(after).expect("known").is_ok());
}

#[test]
fn more_than_the_limit_is_refused() {
    let (_, procedures) = procedures(Options { threads_max: 1, waiting_max: 1, ..Options::default() });
    let (go, wait) = mpsc::channel::<()>();
    submit(&procedures, "t", None, move |_| {
        wait.recv().expect("told");
        Ok(Bytes::new())
    })
    .expect("runs");
    submit(&procedures, "u", None, |_| Ok(Bytes::new())).expect("waits");
    let refused = submit(&procedures, "v", None, |_| Ok(Bytes::new())).expect_err("refused");
    assert!(refused.message.contains("the limit"), "{refused:?}");
    go.send(()).expect("first waits");
    procedures.wait_idle();
}

/// Submits a procedure that runs until the test lets it continue, and that then checks whether it was aborted.
fn held(procedures: &Arc<Procedures>, is_past_return: bool) -> (ProcedureId, mpsc::Sender<()>) {
    let (go, wait) = mpsc::channel();
    let (say, began) = mpsc::channel();
    let id = submit(procedures, "t", None, move |context| {
        if is_past_return {
            context.pass_point_of_no_return()?;
        }
        say.send(()).expect("heard");
        wait.recv().expect("told");
        context.check_aborted()?;
        context.pass_point_of_no_return()?;
        Ok(Bytes::new())
    });
    began.recv().expect("it begins");
    (id.expect("accepted"), go)
}

#[test]
fn an_abort_ends_waiting_procedures_and_those_that_can_be_undone() {
    let (_, procedures) = procedures(Options::default());
    let end = |id| procedures.wait(id).expect("known");
    let (running, go) = held(&procedures, false);
    let waiting = submit(&procedures, "t", None, |_| panic!("must not run")).expect("accepted");
    let last = submit(&procedures, "t", None, |_| Ok(Bytes::new())).expect("accepted");
    assert!(procedures.abort(waiting, false), "it has not begun");
    assert_eq!(end(waiting).unwrap_err().class, class::PROCEDURE_ABORTED);
    assert!(!procedures.abort(waiting, true), "it has ended");
    assert!(!procedures.abort(ProcedureId(1), true), "nobody knows it");
    assert!(!procedures.abort(running, false), "it runs, and may not be interrupted");
    assert!(procedures.abort(running, true));
    go.send(()).expect("it waits");
    assert_eq!(end(running).unwrap_err().message, "abort requested");
    assert!(end(last).is_ok(), "the locks are free");
    let (past, go) = held(&procedures, true);
    assert!(!procedures.abort(past, true), "there is no way back");
    go.send(()).expect("it waits");
    assert!(end(past).is_ok());
}

#[test]
fn the_list_has_waiting_running_and_ended_procedures() {
    let (world, procedures) = procedures(Options::default());
    let ended = acting_for(Some("ann".into()), || submit(&procedures, "u", None, |_| Ok(Bytes::new())));
    procedures.wait_idle();
    world.advance(Duration::from_secs(60));
    let (running, go) = held(&procedures, false);
    let waiting = submit(&procedures, "t", None, |_| Ok(Bytes::new())).expect("accepted");
    let list = procedures.list();
    let ids: Vec<_> = list.iter().map(|summary| (summary.id, summary.is_locked)).collect();
    assert_eq!(ids, [(ended.expect("accepted"), false), (running, true), (waiting, false)]);
    assert_eq!((list[0].owner.as_deref(), list[1].owner.as_deref()), (Some("ann"), None));
    assert!(matches!(list[0].outcome, Outcome::Finished { .. }) && list[1].updated > list[0].updated);
    go.send(()).expect("it waits");
    procedures.wait_idle();
    // An outcome that a client has read is deleted sooner.
    procedures.note_read(running);
    world.advance(Options::default().read_outcome_kept);
    let left: Vec<_> = procedures.list().iter().map(|summary| summary.id).collect();
    assert_eq!(left, [ids[0].0, waiting]);
}

#[test]
fn a_procedure_changes_its_locks_without_waiting_for_itself() {
    let (_, procedures) = procedures(Options { threads_max: 2, ..Options::default() });
    let table: TableName = "t".parse().expect("a table's name");
    let shared = || Submission {
        kind: ProcedureKind::Flush,
        locks: LockSet::table_shared(&table),
        nonce: None,
        target: None,
    };
    let (go, wait) = mpsc::channel::<()>();
    let (say, began) = mpsc::channel();
    let reader = procedures.submit(shared(), move |_| {
        say.send(()).expect("heard");
        wait.recv().expect("told");
        Ok(Bytes::new())
    });
    began.recv().expect("it begins");
    let (say, began) = mpsc::channel();
    let changed = table.clone();
    let changer = procedures.submit(shared(), move |context| {
        let resource = Resource::Table(changed.clone());
        assert!(!context.excludes(&resource));
        say.send(()).expect("heard");
        context.relock(LockSet::table(&changed));
        assert!(context.excludes(&resource));
        Ok(Bytes::new())
    });
    began.recv().expect("it begins");
    let changer = changer.expect("accepted");
    assert!(matches!(procedures.outcome(changer), Some(Outcome::Running { .. })));
    go.send(()).expect("the reader waits");
    assert!(procedures.wait(changer).expect("known").is_ok());
    assert!(procedures.wait(reader.expect("accepted")).expect("known").is_ok());
    assert_eq!(procedures.locks(), []);
}

#[test]
fn procedures_that_wait_for_other_locks_do_not_take_the_threads_of_those_before_them() {
    let (_, procedures) = procedures(Options { threads_max: 1, ..Options::default() });
    let table: TableName = "t".parse().expect("a table's name");
    let (go, wait) = mpsc::channel::<()>();
    let (say, began) = mpsc::channel();
    let of_table = |locks| Submission { kind: ProcedureKind::Flush, locks, nonce: None, target: None };
    let locked = table.clone();
    let changer = procedures.submit(of_table(LockSet::table_shared(&table)), move |context| {
        say.send(()).expect("heard");
        wait.recv().expect("told");
        // The procedure that was submitted meanwhile has its turn first.
        context.relock(LockSet::table(&locked));
        Ok(Bytes::new())
    });
    began.recv().expect("it begins");
    let next = procedures.submit(of_table(LockSet::table(&table)), |_| Ok(Bytes::new()));
    go.send(()).expect("it waits");
    let (say, ended) = mpsc::channel();
    let waiting = Arc::clone(&procedures);
    env::spawn_thread("waits", env::Priority::Background, move || {
        for id in [changer, next] {
            assert!(waiting.wait(id.expect("accepted")).expect("known").is_ok());
        }
        say.send(()).expect("heard");
    })
    .expect("a thread can be started");
    ended.recv_timeout(std::time::Duration::from_secs(60)).expect("both end");
}

#[test]
fn a_failure_of_a_replaced_master_is_not_reported() {
    let world = World::simulated(1, WallTime(1_000));
    let ownership = Arc::<Ownership>::default();
    let files = Arc::new(Memory::new());
    let procedures =
        Procedures::open(files, world, Options::default(), Arc::clone(&ownership)).expect("it opens");
    let told = Arc::clone(&ownership);
    let id = submit(&procedures, "t", None, move |_| {
        told.replaced.record(|| "another process".to_owned());
        Err(Exception::io("its content was changed by somebody else"))
    })
    .expect("accepted");
    procedures.wait_idle();
    assert!(matches!(procedures.outcome(id), Some(Outcome::Running { .. })));
}

/// Submits work with a target, so that the procedure has a record.
fn submit_recorded(
    procedures: &Arc<Procedures>,
    nonce: u64,
    work: impl FnOnce(&Context) -> Result<Bytes, Exception> + Send + 'static,
) -> Result<ProcedureId, Exception> {
    let target = Some(ProcedureTarget { name: "t".into(), ..ProcedureTarget::default() });
    let locks = LockSet::table(&"t".parse().expect("a table's name"));
    let nonce = NonceKey::of(None, Some(nonce));
    procedures.submit(Submission { kind: ProcedureKind::Alter, locks, nonce, target }, work)
}

#[test]
fn ids_nonces_and_outcomes_survive_the_end_of_the_process() {
    let (memory, world) = (Memory::new(), World::simulated(1, WallTime(1_000)));
    let first = open(&memory, &world, Options::default());
    let done = submit_recorded(&first, 1, |_| Ok(Bytes::from_static(b"done"))).expect("accepted");
    let failed = submit_recorded(&first, 2, |_| Err(Exception::do_not_retry("no"))).expect("accepted");
    first.wait_idle();
    // The clock of the next process is behind, and its ids are still higher.
    let next = open(&memory.kill(), &World::simulated(1, WallTime(2)), Options::default());
    let repeat = |nonce| submit_recorded(&next, nonce, |_| panic!("must not run")).expect("accepted");
    assert_eq!((repeat(1), repeat(2)), (done, failed));
    assert_eq!(next.wait(done), Some(Ok("done".into())));
    assert_eq!(next.wait(failed), Some(Err(Exception::do_not_retry("no"))));
    assert!(submit_recorded(&next, 3, |_| Ok(Bytes::new())).expect("accepted") > failed);
    next.wait_idle();
}

#[test]
fn an_outcome_can_be_read_only_when_it_is_stored() {
    let (memory, world) = (Memory::new(), World::simulated(1, WallTime(1_000)));
    let procedures = open(&memory, &world, Options::default());
    for nonce in 1..20 {
        let id = submit_recorded(&procedures, nonce, |_| Ok(Bytes::new())).expect("accepted");
        procedures.wait(id);
        let next = open(&memory, &world, Options::default());
        assert!(next.interrupted().is_empty(), "procedure {nonce} has ended");
        assert!(matches!(next.outcome(id), Some(Outcome::Finished { .. })));
    }
}

#[test]
fn the_records_are_deleted_with_the_outcomes_and_their_number_is_limited() {
    let (memory, options) = (Memory::new(), Options::default());
    let world = World::simulated(1, WallTime(1_000));
    let procedures = open(&memory, &world, options.clone());
    let first = submit_recorded(&procedures, 1, |_| Ok(Bytes::new())).expect("accepted");
    procedures.wait_idle();
    let later = |by: Duration| World::simulated(1, WallTime(1_000 + i64::try_from(by.as_millis()).unwrap()));
    let next = open(&memory, &later(options.outcome_kept - Duration::from_secs(1)), options.clone());
    assert!(next.outcome(first).is_some());
    let next = open(&memory, &later(options.outcome_kept), options.clone());
    assert!(next.outcome(first).is_none() && next.repeated(NonceKey::of(None, Some(1))).is_none());
    let count = u64::try_from(ENDED_MAX).unwrap() + 10;
    let ids: Vec<_> =
        (2..count).map(|nonce| submit_recorded(&procedures, nonce, |_| Ok(Bytes::new())).unwrap()).collect();
    procedures.wait_idle();
    let next = open(&memory, &world, options);
    assert_eq!(next.list().len(), ENDED_MAX);
    assert!(next.outcome(ids[0]).is_none() && next.outcome(*ids.last().unwrap()).is_some());
}

#[test]
fn a_submission_whose_record_cannot_be_stored_is_refused() {
    let (memory, world) = (Memory::new(), World::simulated(1, WallTime(1_000)));
    let procedures = open(&memory, &world, Options::default());
    let (act, outcome) = (memory.acts() + 1, storage::Outcome::DidNotHappen);
    memory.set_fault(Some(storage::memory::Fault { act, kind: Kind::Full, outcome, last: false }));
    let refused = submit_recorded(&procedures, 1, |_| panic!("must not run")).expect_err("refused");
    assert!(refused.do_not_retry && refused.message.starts_with("the procedure was not begun"), "{refused}");
    assert!(procedures.list().is_empty());
    memory.set_fault(None);
    let id = submit_recorded(&procedures, 1, |_| Ok(Bytes::new())).expect("accepted");
    assert_eq!(procedures.wait(id), Some(Ok(Bytes::new())));
}

#[test]
fn an_interrupted_procedure_begins_again_with_its_id() {
    let (memory, world) = (Memory::new(), World::simulated(1, WallTime(1_000)));
    let first = open(&memory, &world, Options::default());
    let (go, wait) = mpsc::channel::<()>();
    let id = submit_recorded(&first, 1, move |_| {
        wait.recv().expect("told");
        Ok(Bytes::new())
    })
    .expect("accepted");
    let killed = memory.kill();
    go.send(()).expect("it waits");
    let next = open(&killed, &world, Options::default());
    assert_eq!(next.interrupted().iter().map(|found| found.id).collect::<Vec<_>>(), [id]);
    next.decide(vec![(id, None)]);
    // The decision is stored, too.
    for next in [&next, &open(&killed, &world, Options::default())] {
        let told = next.wait(id).expect("known").expect_err("its change was not made");
        assert!(told.do_not_retry && told.message.contains("repeat it"), "{told}");
    }
    assert_eq!(next.repeated(NonceKey::of(None, Some(1))), None);
    assert_eq!(submit_recorded(&next, 1, |_| Ok(Bytes::from_static(b"again"))).expect("accepted"), id);
    assert_eq!(next.wait(id), Some(Ok("again".into())));
}

/// A procedure that waited for another one with the same target was submitted before the other one's change.
#[test]
fn an_interrupted_procedure_is_alone_if_the_others_had_ended_before() {
    for waited in [false, true] {
        let (memory, world) = (Memory::new(), World::simulated(1, WallTime(1_000)));
        let procedures = open(&memory, &world, Options::default());
        let (go, wait) = mpsc::channel::<()>();
        let first = submit_recorded(&procedures, 1, move |_| {
            wait.recv().expect("told");
            Ok(Bytes::new())
        })
        .expect("accepted");
        if !waited {
            go.send(()).expect("it waits");
            procedures.wait(first);
            world.advance(Duration::from_secs(1));
        }
        let (on, held) = mpsc::channel::<()>();
        let second = submit_recorded(&procedures, 2, move |_| {
            held.recv().expect("told");
            Ok(Bytes::new())
        })
        .expect("accepted");
        if waited {
            go.send(()).expect("it waits");
            procedures.wait(first);
        }
        let next = open(&memory.kill(), &world, Options::default());
        let found: Vec<_> = next.interrupted().iter().map(|found| (found.id, found.is_alone)).collect();
        assert_eq!(found, [(second, !waited)]);
        on.send(()).expect("it waits");
    }
}
