//! Checks whether some order of operations explains a history of concurrent clients (linearizability).
//!
//! Each operation takes effect at one moment between its call and its return. One that never returned may have taken
//! effect at any time since its call, or not at all. Rows are independent and are checked separately.
//!
//! The search is that of Wing and Gong with Lowe's memoization. It visits calls and returns in the order of time. At a
//! call it tries to let the operation take effect next, and removes its call and return from the history. At a return
//! of an operation that has not taken effect it backtracks to the last choice. Each set of applied operations with its
//! resulting state is tried once.

use std::collections::HashSet;

/// The content of a row: at most one value.
pub type State = Option<Vec<u8>>;

/// An operation on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sets the value.
    Put(Vec<u8>),
    /// Removes the value.
    Delete,
    /// Reads the value.
    Get,
    /// Adds to a number of eight bytes.
    Increment(i64),
    /// Appends to the value.
    Append(Vec<u8>),
    /// Sets the value to the second if it equals the first.
    CheckAndPut(State, Vec<u8>),
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The operation succeeded.
    Done,
    /// The value that was read or written.
    Value(State),
    /// Whether the check held.
    Passed(bool),
}

/// An operation of a history. Its times are numbers of one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it was called.
    pub called: u64,
    /// When the operation returned, and its answer; `None` if it never returned.
    pub returned: Option<(u64, Answer)>,
    /// The operation.
    pub operation: Operation,
}

/// No order explains the history.
#[derive(Debug, thiserror::Error)]
#[error(
    "no order explains the history: {explained} of {total} operations can be explained, but not {stuck:?}, around\n{around}"
)]
pub struct Refused {
    /// Maximum number of operations that one order explains.
    pub explained: usize,
    /// Number of operations in the history.
    pub total: usize,
    /// The operation whose return that order could not explain.
    pub stuck: Box<Entry>,
    /// The operations that ran concurrently with it.
    pub around: String,
}

/// Returns the state after an operation; `None` if the operation is not possible in `state`, or if the answer does not
/// fit. Without an answer every possible operation fits.
fn step(state: &State, operation: &Operation, answer: Option<&Answer>) -> Option<State> {
    let next = match operation {
        Operation::Put(value) => Some(value.clone()),
        Operation::Delete => None,
        Operation::Get => state.clone(),
        Operation::Increment(by) => {
            let before = match state {
                Some(value) => i64::from_be_bytes(value[..].try_into().ok()?),
                None => 0,
            };
            Some(before.wrapping_add(*by).to_be_bytes().to_vec())
        }
        Operation::Append(more) => Some([state.as_deref().unwrap_or_default(), more].concat()),
        Operation::CheckAndPut(expected, value) if state == expected => Some(value.clone()),
        Operation::CheckAndPut(..) => state.clone(),
    };
    let fits = match (operation, answer) {
        (_, None) => true,
        (Operation::Put(_) | Operation::Delete, Some(Answer::Done)) => true,
        (Operation::Get | Operation::Increment(_) | Operation::Append(_), Some(Answer::Value(value))) => {
            *value == next
        }
        (Operation::CheckAndPut(expected, _), Some(Answer::Passed(passed))) => *passed == (state == expected),
        _ => false,
    };
    fits.then_some(next)
}

/// A set of operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Members(Vec<u64>);

impl Members {
    fn flip(&mut self, index: usize) {
        self.0[index / 64] ^= 1 << (index % 64);
    }
}

/// The remaining calls and returns, each with its neighbours; 0 stands for the position before the first.
struct Left {
    next: Vec<usize>,
    before: Vec<usize>,
}

impl Left {
    fn take(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = next;
        self.before[next] = before;
    }

    fn put_back(&mut self, at: usize) {
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = at;
        self.before[next] = at;
    }
}

/// Looks for an order that explains the history of a row that was empty at first. Fails if there is none.
pub fn check(history: &[Entry]) -> Result<(), Refused> {
    // Each operation's call and return; an operation without a return returns at the end of time.
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (index, entry) in history.iter().enumerate() {
        events.push((entry.called, false, index));
        events.push((entry.returned.as_ref().map_or(u64::MAX, |(at, _)| *at), true, index));
    }
    events.sort_unstable();
    let count = events.len();
    // Index 0 is the beginning, the last index the end.
    let mut left = Left {
        next: (1..=count + 1).chain([0]).collect(),
        before: [count + 1].into_iter().chain(0..=count).collect(),
    };
    let mut return_of = vec![0; history.len()];
    for (place, (_, is_return, index)) in events.iter().enumerate() {
        if *is_return {
            return_of[*index] = place + 1;
        }
    }
    let mut done = Members(vec![0; history.len().div_ceil(64)]);
    let mut state: State = None;
    let mut tried: HashSet<(Members, State)> = HashSet::new();
    let mut choices: Vec<(usize, State)> = Vec::new();
    let mut best = (0, 0);
    let mut at = left.next[0];
    loop {
        if at == count + 1 {
            return Ok(());
        }
        let (time, is_return, index) = events[at - 1];
        if is_return && time == u64::MAX {
            // Only operations without a return are left, which need not have happened.
            return Ok(());
        }
        if !is_return {
            let answer = history[index].returned.as_ref().map(|(_, answer)| answer);
            if let Some(next) = step(&state, &history[index].operation, answer) {
                done.flip(index);
                if tried.insert((done.clone(), next.clone())) {
                    choices.push((at, std::mem::replace(&mut state, next)));
                    left.take(at);
                    left.take(return_of[index]);
                    at = left.next[0];
                    continue;
                }
                done.flip(index);
            }
            at = left.next[at];
            continue;
        }
        if choices.len() >= best.0 {
            best = (choices.len(), index);
        }
        let Some((choice, before)) = choices.pop() else {
            return Err(refused(history, best));
        };
        let index = events[choice - 1].2;
        state = before;
        done.flip(index);
        left.put_back(return_of[index]);
        left.put_back(choice);
        at = left.next[choice];
    }
}

fn refused(history: &[Entry], (explained, stuck): (usize, usize)) -> Refused {
    let entry = &history[stuck];
    let (from, until) = (entry.called, entry.returned.as_ref().map_or(u64::MAX, |(at, _)| *at));
    let beside = |other: &&Entry| {
        other.called <= until && other.returned.as_ref().is_none_or(|(at, _)| *at + 20 >= from)
    };
    let around: Vec<String> =
        history.iter().filter(beside).take(60).map(|entry| format!("  {entry:?}")).collect();
    Refused { explained, total: history.len(), stuck: Box::new(entry.clone()), around: around.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn entry(called: u64, returned: u64, operation: Operation, answer: Answer) -> Entry {
        Entry { called, returned: Some((returned, answer)), operation }
    }

    fn open(called: u64, operation: Operation) -> Entry {
        Entry { called, returned: None, operation }
    }

    fn number(of: i64) -> State {
        Some(of.to_be_bytes().to_vec())
    }

    fn put(of: &str) -> Operation {
        Operation::Put(of.into())
    }

    fn saw(of: &str) -> Answer {
        Answer::Value(Some(of.into()))
    }

    #[test]
    fn overlapping_operations_may_take_any_order() {
        use Operation::Get;
        let writes = [entry(1, 10, put("a"), Answer::Done), entry(2, 9, put("b"), Answer::Done)];
        for last in ["a", "b"] {
            let history =
                [&writes[..], &[entry(11, 12, Get, saw(last)), entry(13, 14, Get, saw(last))]].concat();
            check(&history).expect("either was last");
        }
        let changing = [&writes[..], &[entry(11, 12, Get, saw("a")), entry(13, 14, Get, saw("b"))]].concat();
        let error = check(&changing).expect_err("nothing was written between the two reads");
        assert_eq!((error.explained, error.total), (3, 4));
        // A read beside both writes may see one, then the other.
        let beside = [&writes[..], &[entry(3, 4, Get, saw("b")), entry(5, 6, Get, saw("a"))]].concat();
        check(&beside).expect("b, then a");
    }

    #[test]
    fn returned_operations_take_effect_after_their_call() {
        use Operation::Get;
        let stale = [
            entry(1, 2, put("a"), Answer::Done),
            entry(3, 4, put("b"), Answer::Done),
            entry(5, 6, Get, saw("a")),
        ];
        check(&stale).expect_err("a was written over");
        let early = [entry(1, 2, Get, saw("a")), entry(3, 4, put("a"), Answer::Done)];
        check(&early).expect_err("seen before it was written");
        let deleted = [
            entry(1, 2, put("a"), Answer::Done),
            entry(3, 4, Operation::Delete, Answer::Done),
            entry(5, 6, Get, Answer::Value(None)),
        ];
        check(&deleted).expect("gone");
    }

    #[test]
    fn increments_and_checks_happen_once_each() {
        let twice = |first, second| {
            [
                entry(1, 5, Operation::Increment(1), Answer::Value(number(first))),
                entry(2, 6, Operation::Increment(1), Answer::Value(number(second))),
            ]
        };
        check(&twice(1, 2)).expect("one after the other");
        check(&twice(2, 1)).expect("the other way round");
        check(&twice(1, 1)).expect_err("one was lost");
        let both = |first, second| {
            let cas = |to: &str| Operation::CheckAndPut(None, to.into());
            [entry(1, 5, cas("a"), Answer::Passed(first)), entry(2, 6, cas("b"), Answer::Passed(second))]
        };
        check(&both(true, false)).expect("one was first");
        check(&both(true, true)).expect_err("both were");
        check(&both(false, false)).expect_err("none was");
        let appended = [
            entry(1, 9, Operation::Append("a".into()), saw("ba")),
            entry(2, 8, Operation::Append("b".into()), saw("b")),
        ];
        check(&appended).expect("b, then a");
    }

    #[test]
    fn unreturned_operations_may_take_effect_late_or_never() {
        use Operation::Get;
        let history =
            |seen: Answer| [open(1, put("a")), entry(2, 3, Get, Answer::Value(None)), entry(4, 5, Get, seen)];
        check(&history(saw("a"))).expect("between the reads");
        check(&history(Answer::Value(None))).expect("never, or later");
        check(&history(saw("b"))).expect_err("nobody wrote b");
        let back = [open(1, put("a")), entry(2, 3, Get, saw("a")), entry(4, 5, Get, Answer::Value(None))];
        check(&back).expect_err("it happened, and was undone");
    }

    /// Histories of operations that take effect at chosen moments are explained. With one changed answer they are not,
    /// unless the change has the same meaning.
    #[test]
    fn real_histories_are_explained_and_changed_ones_refused() {
        let mut refusals = 0;
        for seed in 0..300 {
            let mut random = Random(seed);
            let mut history: Vec<(u64, Entry)> = Vec::new();
            for index in 0..40 {
                let operation = match random.below(4) {
                    0 => put(&format!("v{index}")),
                    1 => Operation::Append(b"x".to_vec()),
                    _ => Operation::Get,
                };
                let effect = 10 + index * 10 + random.below(5);
                let entry = Entry {
                    called: effect - random.below(10),
                    returned: Some((effect + 1 + random.below(30), Answer::Done)),
                    operation,
                };
                history.push((effect, entry));
            }
            history.sort_by_key(|(effect, _)| *effect);
            let mut state = None;
            let mut history: Vec<Entry> = history.into_iter().map(|(_, entry)| entry).collect();
            for entry in &mut history {
                state = step(&state, &entry.operation, None).expect("any answer");
                if let (false, Some((_, answer))) =
                    (matches!(entry.operation, Operation::Put(_)), &mut entry.returned)
                {
                    *answer = Answer::Value(state.clone());
                }
            }
            check(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let read = history.iter().rposition(|entry| entry.operation == Operation::Get).expect("some are");
            history[read].returned = Some((history[read].called + 1, saw("nobody wrote this")));
            check(&history).expect_err("a value from nowhere");
            refusals += 1;
        }
        assert_eq!(refusals, 300);
    }
}
