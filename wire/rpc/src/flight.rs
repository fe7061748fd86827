//! Polls many waiting answers in one task.
//!
//! Each waiting future has a slot with its own waker. The waker adds the slot's index to a list, and wakes the task if
//! the list was empty. So a task with a thousand waiting calls polls only those that can continue, and a group commit
//! that ends the wait of sixty calls wakes the task once. Slots and their wakers are reused.
//!
//! A new future first runs at the next poll. By then all requests that arrived together have been started, and the
//! first one that waits for the log writes the log for all.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use env::sync::Mutex;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The futures that one task polls, each with a tag that identifies it.
pub(crate) struct Flight<K, T> {
    slots: Vec<Slot<K, T>>,
    free: Vec<usize>,
    list: Arc<List>,
    woken: Vec<usize>,
    /// Indices of slots whose futures have not run yet.
    fresh: Vec<usize>,
}

struct Slot<K, T> {
    running: Option<(K, Boxed<T>)>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// The indices of slots that can continue, and the task that polls them.
#[derive(Default)]
struct List(Mutex<Woken>);

#[derive(Default)]
struct Woken {
    indexes: Vec<usize>,
    task: Option<Waker>,
}

struct Bell {
    index: usize,
    rung: AtomicBool,
    list: Arc<List>,
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut woken = self.list.0.lock();
            woken.indexes.push(self.index);
            // If there are other entries, the first of them has already woken the task.
            if woken.indexes.len() == 1 { woken.task.clone() } else { None }
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// How a future ended: with its value, or in a panic.
pub(crate) type FutureResult<T> = thread::Result<T>;

impl<K, T> Flight<K, T> {
    pub(crate) fn new() -> Flight<K, T> {
        let list = Arc::default();
        Flight { slots: Vec::new(), free: Vec::new(), list, woken: Vec::new(), fresh: Vec::new() }
    }

    /// Returns the number of waiting futures.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a future, which runs at the next [`poll`](Flight::poll).
    pub(crate) fn push(&mut self, tag: K, future: Boxed<T>) {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.slots.len();
            let bell = Arc::new(Bell { index, rung: AtomicBool::new(false), list: Arc::clone(&self.list) });
            self.slots.push(Slot { running: None, waker: Waker::from(Arc::clone(&bell)), bell });
            index
        });
        self.slots[index].running = Some((tag, future));
        self.fresh.push(index);
    }

    fn run(&mut self, index: usize) -> Option<(K, FutureResult<T>)> {
        let slot = &mut self.slots[index];
        let (_, future) = slot.running.as_mut()?;
        let mut context = Context::from_waker(&slot.waker);
        let ended = match env::catch_unwind(|| future.as_mut().poll(&mut context)) {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panic) => Err(panic),
        };
        let (tag, _) = slot.running.take().expect("it ran just now");
        self.free.push(index);
        Some((tag, ended))
    }

    /// Polls every future that is new or was woken, and passes the finished ones to `done`. Later wake-ups wake the
    /// task of `context`. Returns whether any future ran.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        mut done: impl FnMut(K, FutureResult<T>),
    ) -> bool {
        let mut woken = std::mem::take(&mut self.woken);
        {
            let mut list = self.list.0.lock();
            if !list.task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                list.task = Some(context.waker().clone());
            }
            std::mem::swap(&mut list.indexes, &mut woken);
        }
        let ran = !woken.is_empty() || !self.fresh.is_empty();
        let mut fresh = std::mem::take(&mut self.fresh);
        for index in fresh.drain(..) {
            if let Some((tag, ended)) = self.run(index) {
                done(tag, ended);
            }
        }
        self.fresh = fresh;
        for index in woken.drain(..) {
            // Cleared before the future runs. So a wake-up during the run makes the future run again.
            self.slots[index].bell.rung.store(false, Ordering::Release);
            if let Some((tag, ended)) = self.run(index) {
                done(tag, ended);
            }
        }
        self.woken = woken;
        ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::oneshot;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn woken_calls_end_in_the_order_of_waking_and_the_task_is_woken_once() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut flight = Flight::new();
        let mut senders = Vec::new();
        for index in 0..4usize {
            let (sender, receiver) = oneshot::channel::<usize>();
            senders.push(Some(sender));
            flight.push(index, Box::pin(async move { receiver.await.expect("sent") }));
        }
        assert!(flight.poll(&mut context, |_, _| panic!("nothing is sent")), "they are new");
        assert!(!flight.poll(&mut context, |_, _| panic!("nothing is ready")));
        for index in [2usize, 0] {
            senders[index].take().expect("first time").send(index * 10).expect("waits");
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "the second finds the task on its way");
        let mut ended = Vec::new();
        assert!(flight.poll(&mut context, |tag, value| ended.push((tag, value.expect("no panic")))));
        assert_eq!(ended, [(2, 20), (0, 0)]);
        assert_eq!(flight.len(), 2);
        // A wake-up works for a slot that is used again as for a new one.
        flight.push(9, Box::pin(async { 9 }));
        flight.poll(&mut context, |tag, value| ended.push((tag, value.expect("no panic"))));
        assert_eq!(ended.last(), Some(&(9, 9)));
        for sender in senders.into_iter().flatten() {
            sender.send(1).expect("waits");
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        flight.poll(&mut context, |_, _| {});
        assert_eq!(flight.len(), 0);
    }

    #[test]
    fn a_panic_ends_one_future_alone() {
        let mut flight: Flight<u8, ()> = Flight::new();
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let mut ends = Vec::new();
        for tag in [1, 2] {
            flight.push(tag, Box::pin(async move { assert_eq!(tag, 2, "on purpose") }));
        }
        flight.poll(&mut Context::from_waker(Waker::noop()), |tag, ended| ends.push((tag, ended.is_ok())));
        std::panic::set_hook(hook);
        assert_eq!((ends, flight.len()), (vec![(1, false), (2, true)], 0));
    }
}
