//! Swaps a small object and resolves unknown outcomes, so that the caller nearly always learns whether the swap
//! happened.

use crate::{Error, FileName, Files, Kind, Outcome, Result, Settled, Version};

/// Replaces the content of a small object as [`Files::swap`] does. If the swap fails and may have happened,
/// [settles](Files::settle) it, and swaps once more if it did not happen. On success the new content is durable.
///
/// If the storage repeats requests by itself, it does so for the time of one call in all of these.
///
/// An error with [`Outcome::MayHaveHappened`] means that the content is still unknown. The caller must read the object
/// again before it acts on either content.
pub fn swap_confirmed(
    files: &dyn Files,
    name: &FileName,
    expected: Option<&Version>,
    new: &[u8],
) -> Result<Version> {
    let bounded = files.under_one_deadline();
    let files = bounded.as_deref().unwrap_or(files);
    let failure = match files.swap(name, expected, new) {
        Err(error) if error.outcome() == Outcome::MayHaveHappened => error,
        outcome => return outcome,
    };
    if env::planted(14) {
        return Ok(Version::new(new));
    }
    match files.settle(name, expected, new) {
        Ok(Settled::Happened(version)) => Ok(version),
        Ok(Settled::DidNotHappen) => files.swap(name, expected, new).map_err(|_| failure),
        // Another writer has replaced the object. Whether that was before or after this swap is unknown.
        Ok(Settled::Replaced) => Err(conflict(name)),
        Err(_) => Err(failure),
    }
}

/// Makes earlier deletions in the folder of `marker` durable, by creating the empty object `marker`: a durable write to
/// a folder also makes earlier deletions in it durable. The caller deletes the marker afterwards.
///
/// If an earlier attempt has left a marker, that attempt is settled, because it may have failed before its write was
/// durable.
pub fn make_deletions_durable(files: &dyn Files, marker: &FileName) -> Result<()> {
    match swap_confirmed(files, marker, None, b"") {
        Err(error) if error.kind() == Kind::Conflict => match files.settle(marker, None, b"")? {
            Settled::Happened(_) => Ok(()),
            Settled::DidNotHappen | Settled::Replaced => Err(error),
        },
        made => made.map(drop),
    }
}

fn conflict(name: &FileName) -> Error {
    Error::new(Kind::Conflict, Outcome::MayHaveHappened, name, "swap")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use crate::memory::Fault;

    fn fault(memory: &Memory, after: u64, outcome: Outcome) {
        let act = memory.acts() + after;
        memory.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: false }));
    }

    #[test]
    fn a_swap_that_happened_and_reported_failure_succeeds() {
        let (memory, name) = (Memory::new(), FileName::new("object"));
        fault(&memory, 1, Outcome::MayHaveHappened);
        let one = swap_confirmed(&memory, &name, None, b"one").expect("the object has the new content");
        fault(&memory, 1, Outcome::MayHaveHappened);
        let two = swap_confirmed(&memory, &name, Some(&one), b"two").expect("the object has the new content");
        assert_eq!(memory.read(&name, 10).expect("there"), b"two");
        fault(&memory, 1, Outcome::DidNotHappen);
        let error = swap_confirmed(&memory, &name, Some(&two), b"three").expect_err("it did not happen");
        assert_eq!(error.outcome(), Outcome::DidNotHappen);
        assert_eq!(memory.read(&name, 10).expect("there"), b"two");
    }

    #[test]
    fn deletions_are_durable_whatever_an_earlier_attempt_has_left() {
        let (gone, marker) = (FileName::new("folder/gone"), FileName::new("folder/marker"));
        let attempted = || {
            let memory = Memory::new();
            memory.swap(&gone, None, b"x").expect("the disk works");
            memory.delete(&gone).expect("the disk works");
            fault(&memory, 1, Outcome::MayHaveHappened);
            memory.swap(&marker, None, b"").expect_err("the marker is there, and failure is reported");
            memory
        };
        let mut back = 0;
        for seed in 0..16 {
            back += usize::from(attempted().crash(seed).open(&gone).is_ok());
            let memory = attempted();
            make_deletions_durable(&memory, &marker).expect("durable");
            assert!(memory.crash(seed).open(&gone).is_err(), "seed {seed}");
        }
        assert!(back > 0, "without it a deleted file is there again after some crashes");
    }

    #[test]
    fn a_place_that_is_gone_leaves_the_outcome_unknown() {
        let (memory, name) = (Memory::new(), FileName::new("object"));
        let act = memory.acts() + 1;
        let outcome = Outcome::MayHaveHappened;
        memory.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last: true }));
        let error = swap_confirmed(&memory, &name, None, b"one").expect_err("nothing can be read");
        assert_eq!(error.outcome(), Outcome::MayHaveHappened);
    }
}
