//! Calls a function that waits for storage for several items at the same time, on several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use env::sync::Mutex;

/// Calls `act` for each of `items`, by at most `at_once` threads at the same time, and returns the results in the order
/// of the items. After a failure no further call is begun; the failure of the first item that has one is returned.
pub fn side_by_side<I: Sync, T: Send, E: Send>(
    name: &str,
    at_once: usize,
    items: &[I],
    act: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    if at_once.min(items.len()) <= 1 {
        return items.iter().map(act).collect();
    }
    let (next, is_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results = Mutex::new(Vec::with_capacity(items.len()));
    env::together(name, at_once.min(items.len()), || {
        while !is_failed.load(Ordering::Relaxed)
            && let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            let result = act(item);
            is_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().push((index, result));
        }
    });
    let mut results = results.into_inner();
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::Error;

    #[test]
    fn calls_run_at_the_same_time_and_their_results_are_in_order() {
        // Each call waits until three calls are running at the same time.
        let together = Barrier::new(3);
        let opened = side_by_side("test", 3, &[5, 6, 7], |item| {
            together.wait();
            Ok::<_, Error>(item * 10)
        });
        assert_eq!(opened.expect("all succeed"), [50, 60, 70]);
        let count = AtomicUsize::new(0);
        let opened =
            side_by_side("test", 1, &[0_u8; 9], |_| Ok::<_, Error>(count.fetch_add(1, Ordering::Relaxed)));
        assert_eq!(opened.expect("all succeed"), (0..9).collect::<Vec<_>>(), "one after the other");
    }

    #[test]
    fn the_first_failure_is_returned_and_no_further_call_begins() {
        for at_once in [1, 4] {
            let begun = AtomicUsize::new(0);
            let items: Vec<usize> = (0..1_000).collect();
            let opened = side_by_side("test", at_once, &items, |item| {
                begun.fetch_add(1, Ordering::Relaxed);
                if *item >= 3 { Err(Error::ReadOnly(item.to_string())) } else { Ok(*item) }
            });
            let error = opened.expect_err("all but three fail").to_string();
            assert!(error.contains('3'), "{error}");
            assert!(begun.into_inner() <= 3 + at_once, "{at_once} at once");
        }
    }
}
