//! Decides when and why a region is flushed, from plain numbers.
//!
//! The caller gathers the [facts](FlushFacts) and carries out the [decision](FlushDecision); nothing here reads a clock
//! or a region. The rules, in order of precedence:
//!
//! 1. A region is not flushed if it was opened for reading, or if it has neither cells in memory nor a long list of
//!    dropped delete markers.
//! 2. While the server's or the region's memory is full, everything is flushed, because writes wait for free memory.
//! 3. If the region has edits that are too old, or that keep log files from being deleted, all its stores are flushed.
//! 4. A long list of dropped delete markers is written to a file.
//! 5. While a flush of the region runs, nothing is decided; the decision is made again when that flush has ended.
//! 6. A region at its limit is flushed, unless its memory can be made smaller and is less than a quarter over the
//!    limit.
//!
//! The limit is the flush size. If every store compacts in memory, it is up to [`RegionOptions::stretch`] flush sizes
//! while the server's memory has room.
//!
//! [`RegionOptions::stretch`]: crate::RegionOptions::stretch

/// The state of a region and its server.
#[derive(Clone, Copy, Debug)]
pub struct FlushFacts {
    /// Whether the region was opened for reading.
    pub is_reader: bool,
    /// Bytes in the region's memory, including those that are being flushed.
    pub bytes: u64,
    /// Number of bytes in memory at which the region is flushed: the result of [`flush_limit`].
    pub limit: u64,
    /// Whether the list of dropped markers of some store is longer than its permitted part of the memory.
    pub has_many_markers: bool,
    /// Whether a flush of the region is running.
    pub is_flushing: bool,
    /// The facts that only the server knows.
    pub urgency: FlushUrgency,
}

/// The facts of a region's flush decision that only the server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushUrgency {
    /// Whether writes are refused for lack of memory, by the region or by the server.
    pub is_short: bool,
    /// Whether the region's oldest edit is too old, or keeps log files from being deleted.
    pub is_overdue: bool,
}

/// Why a region is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// An operator or a client requested it.
    Requested,
    /// The region's memory is full, the server needs the memory, or a store's list of dropped delete markers is long.
    /// This is the only reason for which rows may be retained.
    MemstoreSize,
    /// The server refuses writes until memory is free.
    MemoryShort,
    /// The region's edits are old, or keep log files from being deleted.
    Periodic,
    /// The region is being closed.
    Closing,
}

/// What to do with a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushDecision {
    /// Do nothing.
    Wait,
    /// Compact the memory, then decide again.
    Shrink,
    /// Flush the region, for this reason.
    Flush(FlushReason),
}

/// Decides whether to flush a region. Calls `may_shrink` only if its result matters; it returns whether the region's
/// memory can be made smaller.
pub fn decide_flush(facts: &FlushFacts, may_shrink: impl FnOnce() -> bool) -> FlushDecision {
    let FlushFacts { bytes, limit, .. } = *facts;
    if facts.is_reader || bytes == 0 && !facts.has_many_markers {
        FlushDecision::Wait
    } else if facts.urgency.is_short {
        FlushDecision::Flush(FlushReason::MemoryShort)
    } else if facts.urgency.is_overdue {
        FlushDecision::Flush(FlushReason::Periodic)
    } else if facts.has_many_markers {
        FlushDecision::Flush(FlushReason::MemstoreSize)
    } else if facts.is_flushing || bytes < limit {
        FlushDecision::Wait
    } else if bytes < limit.saturating_add(limit / 4) && may_shrink() {
        FlushDecision::Shrink
    } else {
        FlushDecision::Flush(FlushReason::MemstoreSize)
    }
}

/// Returns the number of bytes in memory at which a region is flushed. `pressure` says how full the server's memory for
/// memstores is: 1 means the lower limit of all memstores. From 0.5 on, every region's limit is the flush size.
pub(crate) fn flush_limit(flush_size: u64, stretch: f64, compacts: bool, pressure: f64) -> u64 {
    let room = (1.0 - 2.0 * pressure).clamp(0.0, 1.0);
    if stretch <= 1.0 || room == 0.0 || !compacts {
        return flush_size;
    }
    (flush_size as f64 * (1.0 + (stretch - 1.0) * room)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases, one in each line: the differences from a region of 60 bytes with a limit of 100, and the expected
    /// decision.
    const GOLDEN: &str = "\
                                  -> Wait
bytes=99                          -> Wait
bytes=100                         -> Flush(MemstoreSize)
bytes=100 shrink                  -> Shrink
bytes=124 shrink                  -> Shrink
bytes=125 shrink                  -> Flush(MemstoreSize)
bytes=100 flushing                -> Wait
bytes=125 shrink flushing         -> Wait
markers                           -> Flush(MemstoreSize)
markers flushing                  -> Flush(MemstoreSize)
markers bytes=0                   -> Flush(MemstoreSize)
overdue                           -> Flush(Periodic)
overdue bytes=0                   -> Wait
overdue bytes=200                 -> Flush(Periodic)
overdue markers                   -> Flush(Periodic)
overdue flushing                  -> Flush(Periodic)
short                             -> Flush(MemoryShort)
short bytes=0                     -> Wait
short overdue bytes=200           -> Flush(MemoryShort)
reader bytes=200                  -> Wait
reader short overdue markers      -> Wait
";

    #[test]
    fn decisions_match_the_golden_cases() {
        let mut found = String::new();
        for line in GOLDEN.lines() {
            let (case, _) = line.split_once("->").expect("a case and a decision");
            let mut facts = FlushFacts {
                is_reader: false,
                bytes: 60,
                limit: 100,
                has_many_markers: false,
                is_flushing: false,
                urgency: FlushUrgency::default(),
            };
            let mut may_shrink = false;
            for word in case.split_whitespace() {
                match word {
                    "reader" => facts.is_reader = true,
                    "markers" => facts.has_many_markers = true,
                    "flushing" => facts.is_flushing = true,
                    "shrink" => may_shrink = true,
                    "short" => facts.urgency.is_short = true,
                    "overdue" => facts.urgency.is_overdue = true,
                    bytes => facts.bytes = bytes["bytes=".len()..].parse().expect("a number"),
                }
            }
            found += &format!("{case}-> {:?}\n", decide_flush(&facts, || may_shrink));
        }
        assert_eq!(found, GOLDEN);
    }

    #[test]
    fn the_limit_falls_to_the_flush_size_while_memory_fills() {
        let limits = [0.0, 0.1, 0.25, 0.49, 0.5, 1.0].map(|pressure| flush_limit(100, 2.0, true, pressure));
        assert_eq!(limits, [200, 180, 150, 102, 100, 100]);
        assert_eq!(flush_limit(100, 2.0, false, 0.0), 100, "a store that does not compact in memory");
        assert_eq!(flush_limit(100, 1.0, true, 0.0), 100);
    }
}
