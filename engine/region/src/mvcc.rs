//! Tracks which writes are complete, and from this the read point.
//!
//! Sequence ids follow the order of the log. The read point is the greatest id up to which all writes are complete, and
//! a reader sees writes up to it. The log becomes durable in order, so a durable write also completes all earlier
//! writes that need the same or less durability. So a completed write seldom has to wait for an earlier one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use cell::SequenceId;
use env::sync::Mutex;

/// The condition for which a write waits before it is complete, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaits {
    Nothing,
    Log(wal::Level),
    /// The writes of the file lists of all stores that take part in a bulk load.
    FileLists,
}

#[derive(Debug)]
struct Write {
    sequence: SequenceId,
    awaits: Awaits,
    complete: bool,
}

#[derive(Debug, Default)]
struct Inner {
    /// The writes after the read point, in order.
    writes: VecDeque<Write>,
    waiting: Vec<(SequenceId, Waker)>,
}

/// The read point of a region, and the writes after it.
#[derive(Debug, Default)]
pub(crate) struct Mvcc {
    read_point: AtomicU64,
    inner: Mutex<Inner>,
}

impl Mvcc {
    pub(crate) fn new(read_point: SequenceId) -> Mvcc {
        Mvcc { read_point: AtomicU64::new(read_point.0), inner: Mutex::default() }
    }

    /// Returns the sequence id up to which all writes are complete.
    pub(crate) fn read_point(&self) -> SequenceId {
        SequenceId(self.read_point.load(Ordering::Acquire))
    }

    /// Begins a write. The sequence ids of successive calls must grow.
    pub(crate) fn begin(&self, sequence: SequenceId, awaits: Awaits) {
        let mut inner = self.inner.lock();
        debug_assert!(
            inner.writes.back().is_none_or(|last| last.sequence < sequence),
            "sequence ids only grow"
        );
        inner.writes.push_back(Write { sequence, awaits, complete: false });
        if env::planted(4) {
            self.read_point.fetch_max(sequence.0, Ordering::AcqRel);
        }
    }

    /// Completes every write up to and including `sequence` that awaits the same or a weaker condition than `awaits`.
    pub(crate) fn complete_through(&self, sequence: SequenceId, awaits: Awaits) {
        let woken = {
            let mut inner = self.inner.lock();
            for write in inner.writes.iter_mut().take_while(|write| write.sequence <= sequence) {
                write.complete |= write.awaits <= awaits;
            }
            let mut point = self.read_point();
            while let Some(write) = inner.writes.pop_front_if(|write| write.complete) {
                point = point.max(write.sequence);
            }
            self.read_point.store(point.0, Ordering::Release);
            let waiting = &mut inner.waiting;
            waiting.extract_if(.., |(wanted, _)| *wanted <= point).collect::<Vec<_>>()
        };
        for (_, waker) in woken {
            waker.wake();
        }
    }

    /// Completes one write, regardless of what it awaits.
    pub(crate) fn complete(&self, sequence: SequenceId) {
        for write in self.inner.lock().writes.iter_mut().filter(|write| write.sequence == sequence) {
            write.awaits = Awaits::Nothing;
        }
        self.complete_through(sequence, Awaits::Nothing);
    }

    /// Returns the strongest durability that an incomplete write awaits. The caller holds the region's write lock, so
    /// that no write begins meanwhile.
    pub(crate) fn strongest_awaited(&self) -> Awaits {
        let inner = self.inner.lock();
        let incomplete = inner.writes.iter().filter(|write| !write.complete).map(|write| write.awaits);
        incomplete.filter(|awaits| *awaits != Awaits::FileLists).max().unwrap_or(Awaits::Nothing)
    }

    /// Completes every write up to `sequence`, in a region that follows another process, whose writes arrive in order.
    pub(crate) fn follow(&self, sequence: SequenceId) {
        self.read_point.fetch_max(sequence.0, Ordering::AcqRel);
    }

    /// Whether the read point has reached `sequence`. If not, `waker` is woken when it has, or when the region is
    /// aborted.
    pub(crate) fn reached(&self, sequence: SequenceId, waker: &Waker) -> bool {
        if self.read_point() >= sequence {
            return true;
        }
        let mut inner = self.inner.lock();
        if self.read_point() >= sequence {
            return true;
        }
        inner.waiting.push((sequence, waker.clone()));
        false
    }

    /// Wakes all waiters, which then see that the region was aborted.
    pub(crate) fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.inner.lock().waiting);
        for (_, waker) in waiting {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_point_stops_at_incomplete_writes() {
        let (os, disk) = (Awaits::Log(wal::Level::Os), Awaits::Log(wal::Level::Disk));
        let mvcc = Mvcc::new(SequenceId(10));
        for (sequence, awaits) in [(11, disk), (12, Awaits::Nothing), (13, os), (14, disk)] {
            mvcc.begin(SequenceId(sequence), awaits);
        }
        mvcc.complete_through(SequenceId(12), Awaits::Nothing);
        assert_eq!(mvcc.read_point(), SequenceId(10), "11 is not durable");
        mvcc.complete_through(SequenceId(13), os);
        assert_eq!(mvcc.read_point(), SequenceId(10));
        mvcc.complete_through(SequenceId(11), disk);
        assert_eq!(mvcc.read_point(), SequenceId(13));
        mvcc.complete_through(SequenceId(14), disk);
        assert_eq!(mvcc.read_point(), SequenceId(14));
    }

    #[test]
    fn a_write_awaiting_the_disk_is_not_completed_by_a_weaker_sync() {
        let (os, disk) = (Awaits::Log(wal::Level::Os), Awaits::Log(wal::Level::Disk));
        let mvcc = Mvcc::new(SequenceId(0));
        mvcc.begin(SequenceId(1), os);
        assert_eq!(mvcc.strongest_awaited(), os);
        mvcc.begin(SequenceId(2), disk);
        assert_eq!(mvcc.strongest_awaited(), disk);
        mvcc.complete_through(SequenceId(2), os);
        assert_eq!(mvcc.read_point(), SequenceId(1));
        mvcc.complete_through(SequenceId(2), disk);
        assert_eq!((mvcc.read_point(), mvcc.strongest_awaited()), (SequenceId(2), Awaits::Nothing));
    }

    #[test]
    fn a_durable_write_completes_earlier_abandoned_writes() {
        let disk = Awaits::Log(wal::Level::Disk);
        let mvcc = Mvcc::new(SequenceId(0));
        (1..=5).for_each(|sequence| mvcc.begin(SequenceId(sequence), disk));
        mvcc.complete_through(SequenceId(4), disk);
        assert_eq!(mvcc.read_point(), SequenceId(4));
    }
}
