//! The memory budget of all answers of a server, from their creation until they are sent.
//!
//! The service limits a single answer, and the connection limits the answers that its client has not read. Neither
//! limits the sum: a few dozen clients that request much in several calls and read nothing could use all memory. So
//! every growing answer is counted here while it is created and while it waits to be sent. Its [`Share`] moves with it
//! to the connection, so that it is counted without a gap. Otherwise other calls could create equally large answers
//! meanwhile. Small answers are not counted, so that they need no access to a number that all threads share.
//!
//! - Above half of the limit, a connection with unread answers is served no further calls, and its client has less time
//!   to read.
//! - Above the limit, answers stay small: a scan or batch reports that there is more.
//! - Above four times the limit, new calls are refused, like calls above the limit of the queue. Only answers that
//!   cannot be cut use so much.
//!
//! A share also keeps the [permits](crate::LargePermit) of large answers until they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{LargeBudget, LargePermit};

/// Size up to which an answer, or a connection's output, is not counted, in bytes.
const FREE: u64 = 64 << 10;

/// Minimum step by which the counted size of a growing answer increases, in bytes.
const STEP: u64 = 1 << 20;

/// The memory budget of the answers of one server. Clones share it.
#[derive(Clone, Debug)]
pub struct Answers(Arc<Sum>);

#[derive(Debug)]
struct Sum {
    max: u64,
    taken: AtomicU64,
    large: LargeBudget,
}

impl Answers {
    /// Creates a budget of `max` bytes that treats no answer as large.
    pub fn new(max: u64) -> Answers {
        Answers::with_large(max, LargeBudget::unlimited())
    }

    /// Creates a budget of `max` bytes, beside the budget `large` of large requests and answers.
    pub fn with_large(max: u64, large: LargeBudget) -> Answers {
        Answers(Arc::new(Sum { max, taken: AtomicU64::new(0), large }))
    }

    /// Returns the budget of large requests and answers.
    pub fn large(&self) -> &LargeBudget {
        &self.0.large
    }

    /// Creates an empty share, for one answer or one connection.
    pub fn share(&self) -> Share {
        Share { of: self.clone(), bytes: 0, permits: Vec::new() }
    }

    /// Returns the number of bytes in use.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Whether more than four times the limit is in use, so that new calls are refused.
    pub fn is_over(&self) -> bool {
        self.taken() > self.0.max.saturating_mul(4)
    }

    /// Whether more than half of the limit is in use.
    pub fn is_short(&self) -> bool {
        self.taken() > self.0.max / 2
    }
}

/// The bytes of one answer, or of one connection, that are counted in the budget. Dropping the share returns them to
/// the budget.
#[derive(Debug)]
pub struct Share {
    of: Answers,
    bytes: u64,
    /// The permits of large answers in this share.
    permits: Vec<LargePermit>,
}

impl Share {
    /// Counts an answer that has `bytes` bytes now, even above the limit. Returns whether the answer may continue to
    /// grow.
    pub fn admits(&mut self, bytes: u64) -> bool {
        let missing = bytes.saturating_sub(FREE + self.bytes);
        if missing == 0 {
            return true;
        }
        // The bytes exist already, so they are counted even above the limit.
        self.bytes += missing.max(STEP);
        let before = self.of.0.taken.fetch_add(missing.max(STEP), Ordering::Relaxed);
        before + missing.max(STEP) <= self.of.0.max
    }

    /// Sets the number of bytes that this share counts. Up to 64 KiB count as 0; then the share also returns its
    /// permits.
    pub fn set(&mut self, bytes: u64) {
        let counted = if bytes <= FREE { 0 } else { bytes };
        if counted > self.bytes {
            self.of.0.taken.fetch_add(counted - self.bytes, Ordering::Relaxed);
        } else if counted < self.bytes {
            self.of.0.taken.fetch_sub(self.bytes - counted, Ordering::Relaxed);
        }
        self.bytes = counted;
        if counted == 0 {
            self.permits.clear();
        }
    }

    /// Keeps the permit of a large answer until the answer is sent.
    pub fn keep(&mut self, permit: LargePermit) {
        self.permits.push(permit);
    }

    /// Waits until the server has memory for a large part of the answer, of `bytes` bytes. Only the first large part
    /// waits: an answer that already has a permit and waits for another could wait for itself.
    pub async fn admit_large(&mut self, bytes: u64) {
        let large = self.of.large();
        if large.is_large(bytes) && self.permits.is_empty() {
            let permit = large.acquire(bytes).await;
            self.keep(permit);
        }
    }

    /// Returns the size above which a part of the answer must wait for memory, in bytes; `None` if the answer already
    /// has a permit.
    pub fn large_from(&self) -> Option<u64> {
        self.permits.is_empty().then(|| self.of.large().small_max())
    }

    /// Whether this answer has a permit.
    pub fn has_permit(&self) -> bool {
        !self.permits.is_empty()
    }

    /// Adds the bytes and permits of `other` to this share, without a moment at which they are not counted.
    pub fn take_over(&mut self, mut other: Share) {
        debug_assert!(Arc::ptr_eq(&self.of.0, &other.of.0), "shares of two servers");
        self.bytes += std::mem::take(&mut other.bytes);
        self.permits.append(&mut other.permits);
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
