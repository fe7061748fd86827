//! Tests storage calls that take effect but report failure. Each call fails once, in a master that continues to run.
//! Then the master is restarted.

use storage::Files;
use storage::memory::Fault;

use super::fake::Life;
use super::snapshots::{clone, names, take};

/// Number of losses of power that are tried after each call, in addition to a restart without one.
const CRASHES: u64 = 6;

/// Runs `before` and then `change`, once for each call that `change` makes and each kind of restart. That call takes
/// effect but reports failure. `check` gets the next master, and whether the change was reported as done. Returns the
/// number of calls that reported failure although the change was done.
fn at_every_call(before: impl Fn(&Life), change: impl Fn(&Life) -> bool, check: impl Fn(&Life, bool)) -> u64 {
    let mut overcome = 0;
    for after in 1.. {
        for seed in 0..=CRASHES {
            let life = Life::first();
            before(&life);
            let alarm = Fault::false_alarm(life.files.acts() + after);
            life.files.set_fault(Some(alarm));
            let told = change(&life);
            if life.files.acts() < alarm.act {
                return overcome;
            }
            life.files.set_fault(None);
            overcome += u64::from(told && seed == 0);
            check(&if seed == 0 { life.next() } else { life.after_power_loss(seed) }, told);
        }
    }
    overcome
}

fn with_table(life: &Life) {
    life.create("t", &["f"], &["m"]).expect("created");
}

fn stored(life: &Life) -> Vec<String> {
    let found = life.files.list(&layout::snapshots()).expect("the disk works");
    found.into_iter().map(|entry| entry.name.to_string()).collect()
}

#[test]
fn a_snapshot_is_whole_or_not_there() {
    let taken = |life: &Life| take(life, "s", "t").is_ok();
    let overcome = at_every_call(with_table, taken, |life, told| {
        if names(life).is_empty() {
            assert!(!told, "a snapshot that was taken is there");
            assert_eq!(stored(life), Vec::<String>::new());
            take(life, "s", "t").expect("nothing is in the way");
        }
        let whole = [layout::snapshot_info("s"), layout::snapshot_manifest("s")].map(|name| name.to_string());
        assert_eq!(stored(life), whole, "nothing else is left of taking it");
        clone(life, "s", "copy").expect("the snapshot is whole");
    });
    assert!(overcome >= 3, "each of the three objects is read again: {overcome}");
}

#[test]
fn a_deleted_snapshot_stays_deleted() {
    let before = |life: &Life| {
        with_table(life);
        take(life, "s", "t").expect("taken");
    };
    let deleted = |life: &Life| life.master.delete_snapshot("s").is_ok();
    let overcome = at_every_call(before, deleted, |life, told| {
        if names(life).is_empty() {
            assert_eq!(stored(life), Vec::<String>::new(), "the start deletes what is left");
            take(life, "s", "t").expect("nothing is in the way");
        } else {
            assert!(!told, "a snapshot that was deleted is there again");
        }
        clone(life, "s", "copy").expect("the snapshot is whole");
    });
    assert!(overcome >= 1, "the object that makes the deletion durable is read again");
}
