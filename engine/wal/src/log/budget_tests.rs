//! Tests that a sync begins only when the budget of the storage allows it.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::Context;
use std::time::Duration;

use storage::{Capabilities, Memory, Overlay, Segmented};

use super::tests::edit;
use super::*;

/// Growing files in whose storage every sync must wait while the budget is spent (`is_spent`).
struct Budgeted {
    below: Segmented,
    is_spent: AtomicBool,
    /// How often the log asked for the pause while the budget was spent. The first two questions are reported to the
    /// test.
    asked: AtomicUsize,
    report: SyncSender<()>,
}

impl Overlay for Budgeted {
    fn below(&self) -> &dyn Files {
        &self.below
    }

    fn sync_pause(&self, _waited: Duration) -> Duration {
        if !self.is_spent.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        if self.asked.fetch_add(1, Ordering::AcqRel) < 2 {
            self.report.send(()).expect("the test waits");
        }
        Duration::from_millis(1)
    }
}

#[test]
fn no_part_is_written_while_the_budget_is_spent() {
    for idle in [false, true] {
        let base = Memory::with(Capabilities::NONE);
        let (report, reported) = sync_channel(2);
        let below = Segmented::new(Arc::new(base.clone()), World::real(), Duration::from_secs(1));
        let files =
            Arc::new(Budgeted { below, is_spent: AtomicBool::new(true), asked: AtomicUsize::new(0), report });
        let (folder, place) = (FileName::new("WALs"), Arc::clone(&files) as Arc<dyn Files>);
        let idle_write = if idle { Duration::from_millis(1) } else { Duration::from_secs(3_600) };
        let options = Options { idle_write, ..Options::default() };
        let (log, _) = Log::open(World::real(), place, folder.clone(), options).expect("taken");
        let parts = || base.list(&folder).expect("listed").len();
        let before = parts();
        let ticket = log.append(&edit("a", 1, b"x")).expect("alive");
        let mut durable = pin!(log.sync(ticket, Level::Os));
        let mut poll = || durable.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // With `idle`, nobody polls the future, so the log's thread writes the record by itself after `idle_write`.
        assert!(idle || poll().is_pending());
        for _ in 0..2 {
            reported.recv_timeout(Duration::from_secs(20)).expect("the log asks for the budget");
        }
        assert!(poll().is_pending());
        assert_eq!(parts(), before, "idle: {idle}");
        files.is_spent.store(false, Ordering::Release);
        log.sync_blocking(ticket, Level::Os).expect("durable");
        assert_eq!(parts(), before + 1, "idle: {idle}");
    }
}
