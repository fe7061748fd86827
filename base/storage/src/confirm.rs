//! A swap that does not leave its caller in doubt when that can be helped.

use crate::{Error, FileName, Files, Kind, Outcome, Result};

/// Replaces the content of a small object as [`Files::swap`] does. When the swap fails and may have happened all the
/// same, this reads the object and swaps once more from what it found, so that the new content is durable on success.
///
/// An error whose outcome is [`Outcome::MayHaveHappened`] means that the content is still not known. The caller must
/// read the object again before it acts on either content.
pub fn swap_confirmed(files: &dyn Files, name: &FileName, expected: Option<&[u8]>, new: &[u8]) -> Result<()> {
    let failure = match files.swap(name, expected, new) {
        Err(error) if error.outcome() == Outcome::MayHaveHappened => error,
        outcome => return outcome,
    };
    let bytes_max = new.len().max(expected.map_or(0, <[u8]>::len));
    let found = match files.read(name, bytes_max) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == Kind::NotFound => None,
        // Longer than both contents: somebody else was there, before us or after us.
        Err(error) if error.kind() == Kind::TooLarge => return Err(conflict(name)),
        Err(_) => return Err(failure),
    };
    // What can be read may be lost with the power, and what is missing may still be on its way. A swap that succeeds
    // settles both.
    if found.as_deref() == Some(new) || found.as_deref() == expected {
        files.swap(name, found.as_deref(), new).map_err(|_| failure)
    } else {
        Err(conflict(name))
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
        swap_confirmed(&memory, &name, None, b"one").expect("the object has the new content");
        fault(&memory, 1, Outcome::MayHaveHappened);
        swap_confirmed(&memory, &name, Some(b"one"), b"two").expect("the object has the new content");
        assert_eq!(memory.read(&name, 10).expect("there"), b"two");
        fault(&memory, 1, Outcome::DidNotHappen);
        let error = swap_confirmed(&memory, &name, Some(b"two"), b"three").expect_err("it did not happen");
        assert_eq!(error.outcome(), Outcome::DidNotHappen);
        assert_eq!(memory.read(&name, 10).expect("there"), b"two");
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
