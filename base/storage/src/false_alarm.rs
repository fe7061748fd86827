//! Tests how code reacts when a storage call takes effect but reports failure: the code runs once for each of its
//! calls, and each time another call does so.

use crate::Memory;
use crate::memory::Fault;

/// Number of crashes that are tried after each run: one killed process, and losses of power with different seeds.
const CRASHES: u64 = 8;

/// Runs `change` once for each storage call that it makes, on storage that `prepare` fills. In each run one of the
/// calls takes effect but reports failure, and the process continues. `change` returns whether it succeeded. Then
/// several crashes are tried. After each crash `check` gets the storage that the next process finds, and whether
/// `change` had succeeded.
///
/// Returns the number of runs in which `change` succeeded.
///
/// # Panics
/// When `change` makes no call.
pub fn at_every_false_alarm(
    prepare: impl Fn(&Memory),
    change: impl Fn(&Memory) -> bool,
    check: impl Fn(&Memory, bool),
) -> u64 {
    let mut overcome = 0;
    for after in 1.. {
        for seed in 0..CRASHES {
            let place = Memory::new();
            prepare(&place);
            let alarm = Fault::false_alarm(place.acts() + after);
            place.set_fault(Some(alarm));
            let succeeded = change(&place);
            if place.acts() < alarm.act {
                assert!(after > 1, "the change makes no call");
                return overcome;
            }
            place.set_fault(None);
            overcome += u64::from(succeeded && seed == 0);
            let next = if seed == 0 { place.kill() } else { place.crash(seed) };
            check(&next, succeeded);
        }
    }
    overcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileName, Files};

    #[test]
    fn every_call_is_reported_as_failed_once() {
        let name = FileName::new("object");
        let twice = |place: &Memory| {
            let first = place.swap(&name, None, b"one");
            let second = place.swap(&name, Some(&crate::Version::new(*b"one")), b"two");
            first.is_ok() || second.is_ok()
        };
        let overcome = at_every_false_alarm(
            |_| {},
            twice,
            |next, _| {
                let content = next.read(&name, 10).unwrap_or_default();
                assert!(matches!(&content[..], b"" | b"one" | b"two"), "{content:?}");
            },
        );
        assert_eq!(overcome, 2);
    }
}
