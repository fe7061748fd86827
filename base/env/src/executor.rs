//! The tasks of one simulated thread; replaces a tokio runtime.
//!
//! The random numbers of the simulation choose which of the ready tasks runs next.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;

use crate::simulation::{self, ThreadId};

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the tasks of one simulated thread; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    /// The tasks that can run, sorted by their numbers. They are not kept in the order in which they were woken,
    /// because that order does not follow from the seed: tokio draws random numbers of its own.
    ready: Mutex<BTreeMap<u64, Arc<Task>>>,
    /// All tasks that have not ended, in the order in which they were started, with the number of the next task.
    tasks: Mutex<(u64, BTreeMap<u64, Weak<Task>>)>,
    thread: Mutex<Option<ThreadId>>,
    stopping: AtomicBool,
}

/// A task of an executor. Dropping this value lets the task continue.
pub(crate) struct Task {
    number: u64,
    executor: Arc<Executor>,
    future: Mutex<Option<Boxed>>,
    is_queued: AtomicBool,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            let executor = Arc::clone(&self.executor);
            executor.ready.lock().insert(self.number, self);
            executor.wake();
        }
    }
}

impl Task {
    /// Drops the task at the place where it waits.
    pub(crate) fn abort(&self) {
        let future = self.future.lock().take();
        drop(future);
        self.executor.tasks.lock().1.remove(&self.number);
    }
}

impl Executor {
    pub(crate) fn spawn(self: &Arc<Self>, future: Boxed) -> Arc<Task> {
        let mut tasks = self.tasks.lock();
        tasks.0 += 1;
        let number = tasks.0;
        let task = Arc::new(Task {
            number,
            executor: Arc::clone(self),
            future: Mutex::new(Some(future)),
            is_queued: AtomicBool::new(false),
        });
        tasks.1.insert(number, Arc::downgrade(&task));
        drop(tasks);
        Arc::clone(&task).wake();
        task
    }

    /// Ends the executor's loop after the current task; the other tasks are dropped.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = *self.thread.lock() {
            simulation::unpark(thread);
        }
    }

    /// Runs ready tasks until [`stop`](Executor::stop) is called. This is the loop of the simulated thread.
    pub(crate) fn run(self: &Arc<Self>) {
        *self.thread.lock() = simulation::current();
        simulation::set_executor(Some(Arc::clone(self)));
        // This guard drops the tasks when the loop ends, even by a panic.
        let _dropped = DropTasks(self);
        while !self.stopping.load(Ordering::Acquire) {
            let Some(task) = self.next() else {
                simulation::park(None);
                continue;
            };
            task.is_queued.store(false, Ordering::Release);
            // The future is taken out of the task while it runs, because the task may wake itself or suspend this
            // thread.
            let Some(mut future) = task.future.lock().take() else { continue };
            let waker = Waker::from(Arc::clone(&task));
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                *task.future.lock() = Some(future);
            } else {
                self.tasks.lock().1.remove(&task.number);
            }
            simulation::give_way();
        }
    }

    fn next(&self) -> Option<Arc<Task>> {
        let mut ready = self.ready.lock();
        let chosen = match ready.len() {
            0 | 1 => 0,
            count => simulation::with(|director| director.random()).unwrap_or(0) as usize % count,
        };
        let number = *ready.keys().nth(chosen)?;
        ready.remove(&number)
    }
}

/// Drops the tasks that have not ended. A waiting task is kept alive only by its waker, which may never be dropped.
struct DropTasks<'a>(&'a Executor);

impl Drop for DropTasks<'_> {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.0.tasks.lock().1);
        for task in left.into_values().filter_map(|task| task.upgrade()) {
            let future = task.future.lock().take();
            drop(future);
        }
        self.0.ready.lock().clear();
    }
}
