//! The memory that answers take together, from their making until they are sent.
//!
//! What one answer may have is bounded by the service, what one connection leaves unread by the connection. Neither
//! bounds the sum: some dozen clients that ask for much on several calls at once and read nothing would have it all.
//! So every answer that grows counts here, while it is made and while it waits for its socket: its share goes with it,
//! from who made it to the connection, so that in between, where it may wait for a busy thread, it counts as well. Else
//! others would find that room free, make answers as large, and all of them would come to their connections at once.
//! From half of the limit
//! on, a connection with unread answers is served no further calls and has less time to read; at the limit answers stay
//! small, and a scan or a batch says that there is more; at four times the limit, which only answers reach that cannot be
//! cut, new calls are refused as they are when too much is queued. What is small counts for nothing: it needs no look at
//! a number that all threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many bytes of an answer, or of a connection's output, count for nothing.
const FREE: u64 = 64 << 10;

/// An answer that grows counts for so much more at a time, at least.
const STEP: u64 = 1 << 20;

/// The sum for one server, and its limit.
#[derive(Clone, Debug)]
pub struct Answers(Arc<Sum>);

#[derive(Debug)]
struct Sum {
    max: u64,
    taken: AtomicU64,
}

impl Answers {
    /// Nothing is taken yet of `max` bytes.
    pub fn new(max: u64) -> Answers {
        Answers(Arc::new(Sum { max, taken: AtomicU64::new(0) }))
    }

    /// What one answer, or one connection, has of it; nothing at first.
    pub fn share(&self) -> Share {
        Share { of: self.clone(), bytes: 0 }
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Whether so much more than the limit is taken that nothing may be added.
    pub fn is_over(&self) -> bool {
        self.taken() > self.0.max.saturating_mul(4)
    }

    /// Whether more than half of the limit is taken.
    pub fn is_short(&self) -> bool {
        self.taken() > self.0.max / 2
    }
}

/// A part of the sum, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    of: Answers,
    bytes: u64,
}

impl Share {
    /// Whether an answer that has `bytes` now may go on to grow.
    pub fn admits(&mut self, bytes: u64) -> bool {
        let missing = bytes.saturating_sub(FREE + self.bytes);
        if missing == 0 {
            return true;
        }
        // What is there counts, whether there is room for it or not.
        self.bytes += missing.max(STEP);
        let before = self.of.0.taken.fetch_add(missing.max(STEP), Ordering::Relaxed);
        before + missing.max(STEP) <= self.of.0.max
    }

    /// Counts for `bytes` from now on.
    pub fn set(&mut self, bytes: u64) {
        let counted = if bytes <= FREE { 0 } else { bytes };
        if counted > self.bytes {
            self.of.0.taken.fetch_add(counted - self.bytes, Ordering::Relaxed);
        } else if counted < self.bytes {
            self.of.0.taken.fetch_sub(self.bytes - counted, Ordering::Relaxed);
        }
        self.bytes = counted;
    }

    /// Counts from now on for what `other` counted for, too: at no moment for less.
    pub fn take_over(&mut self, mut other: Share) {
        debug_assert!(Arc::ptr_eq(&self.of.0, &other.of.0), "shares of two servers");
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_answers_are_free_large_ones_share_what_there_is_and_give_it_back() {
        let answers = Answers::new(4 << 20);
        let mut small: Vec<Share> = (0..1000).map(|_| answers.share()).collect();
        assert!(small.iter_mut().all(|share| share.admits(FREE)));
        assert_eq!(answers.taken(), 0);
        let mut first = answers.share();
        assert!(first.admits(FREE + 1) && first.admits(3 << 20));
        assert!(answers.taken() >= (3 << 20) - FREE && answers.is_short() && !answers.is_over());
        let mut second = answers.share();
        assert!(!second.admits(14 << 20), "there is no room for it");
        assert!(answers.taken() > 16 << 20 && answers.is_over(), "but it is there, and counts");
        assert!(small[0].admits(FREE), "small ones go on");
        first.take_over(second);
        assert!(answers.taken() > 16 << 20 && answers.is_over(), "it counts whoever has it");
        first.set(2 << 20);
        assert_eq!(answers.taken(), 2 << 20);
        first.set(FREE);
        assert_eq!(answers.taken(), 0);
    }
}
