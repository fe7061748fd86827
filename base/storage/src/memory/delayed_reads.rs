//! Awaited reads of storage in memory that take time, as in an object store.

use std::time::Duration;

use env::sync::Mutex;
use tokio::sync::{Notify, Semaphore};

/// How long an awaited read takes.
#[derive(Clone, Copy, Debug)]
pub enum ReadDelay {
    /// The read takes this long, by the timers of the environment.
    For(Duration),
    /// The read takes until the test [completes](super::Memory::complete_reads) it.
    UntilCompleted,
}

/// The state of a storage whose reads are delayed.
pub(super) struct DelayedReads {
    delay: ReadDelay,
    limit: Semaphore,
    begun: Mutex<ReadProgress>,
    completed: Notify,
}

#[derive(Default)]
struct ReadProgress {
    reads: u64,
    running: usize,
    running_most: usize,
    /// Number of further reads that may end.
    completions: usize,
}

/// Counts of awaited reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCounts {
    /// Number of reads that have begun.
    pub begun: u64,
    /// Number of reads that run now.
    pub running: usize,
    /// Maximum number of reads that were running at the same time.
    pub running_most: usize,
}

/// A running read; it is counted until it ends or is dropped.
struct Running<'d>(&'d DelayedReads);

impl<'d> Running<'d> {
    fn begin(delayed: &'d DelayedReads) -> Running<'d> {
        let mut begun = delayed.begun.lock();
        begun.reads += 1;
        begun.running += 1;
        begun.running_most = begun.running_most.max(begun.running);
        Running(delayed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.begun.lock().running -= 1;
    }
}

impl DelayedReads {
    /// Reads take `delay`, and at most `at_once_max` run at once.
    pub(super) fn new(delay: ReadDelay, at_once_max: usize) -> DelayedReads {
        DelayedReads {
            delay,
            limit: Semaphore::new(at_once_max),
            begun: Mutex::default(),
            completed: Notify::new(),
        }
    }

    /// Completes `count` more reads of [`ReadDelay::UntilCompleted`].
    pub(super) fn complete(&self, count: usize) {
        self.begun.lock().completions += count;
        self.completed.notify_waiters();
    }

    pub(super) fn counts(&self) -> ReadCounts {
        let begun = self.begun.lock();
        ReadCounts { begun: begun.reads, running: begun.running, running_most: begun.running_most }
    }

    /// Waits as long as a read takes. While as many reads run as may run at once, waits for one of them first.
    pub(super) async fn read(&self) {
        let _permit = self.limit.acquire().await.expect("the semaphore is never closed");
        let _running = Running::begin(self);
        self.wait().await;
    }

    async fn wait(&self) {
        match self.delay {
            ReadDelay::For(time) => env::sleep(time).await,
            ReadDelay::UntilCompleted => loop {
                let notified = self.completed.notified();
                let may_end = {
                    let mut begun = self.begun.lock();
                    let may_end = begun.completions > 0;
                    begun.completions -= usize::from(may_end);
                    may_end
                };
                if may_end {
                    return;
                }
                notified.await;
            },
        }
    }
}
