//! Threads, runtimes and tasks.
//!
//! Foreground (RPC and reads from memory) and background (flush, compaction) never share a thread. A [`Runtime`] is one
//! `current_thread` tokio runtime on a thread of its own; tasks that must leave it because they touch the disk use
//! [`blocking`], whose pool belongs to the runtime it was called on.

use std::future::Future;
use std::io;
use std::thread;
use std::time::Duration;

use crate::weight;

/// How the operating system should weigh a thread against the others of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Somebody waits for the answer.
    Foreground,
    /// The same, and it seldom runs for long: woken, it goes before those that do, where the system knows how.
    Serving,
    /// Flush, compaction and the like.
    Background,
    /// It runs as soon as it is woken, before everything else, where the system allows it: for what measures others, and
    /// must not count its own waiting as theirs. It must sleep most of the time.
    Prompt,
}

/// A running thread; joining it gives back what it returned.
#[derive(Debug)]
pub struct Thread<T>(thread::JoinHandle<T>);

impl<T> Thread<T> {
    /// Waits for the thread's end. `Err` carries the panic it ended with.
    pub fn join(self) -> thread::Result<T> {
        self.0.join()
    }

    /// Whether the thread's work is over.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// Starts a thread named `name` (cut to what the system shows, 15 bytes on Linux).
pub fn spawn_thread<T: Send + 'static>(
    name: &str,
    priority: Priority,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Thread<T>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            match priority {
                Priority::Foreground => {}
                Priority::Serving => weight::be_brief(),
                Priority::Background => weight::lower(),
                Priority::Prompt => {
                    // Without the right to it, it waits like others: a measurement that is less exact.
                    let _is_prompt = weight::be_prompt();
                }
            }
            work()
        })
        .map(Thread)
}

/// Runs `work`, and catches a panic in it: `Err` has its words, which the panic hook has printed with the place already.
///
/// For work that can be given up as a whole without harm to what it worked on, on threads that other work needs.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words").to_owned()
    })
}

/// Runs `work` on `count` threads at once, the calling one among them, and returns when all have ended.
///
/// `work` takes its share from something that all can reach, a queue for instance: a thread that cannot be started
/// leaves its share to the others.
///
/// # Panics
/// When `work` panics in one of them.
pub fn together(name: &str, count: usize, work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 1..count {
            if thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

/// One single-threaded runtime on a thread of its own.
#[derive(Debug)]
pub struct Runtime {
    handle: tokio::runtime::Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<Thread<()>>,
}

impl Runtime {
    /// Starts the runtime; `blocking_threads_max` bounds the pool behind [`blocking`].
    pub fn start(name: &str, blocking_threads_max: usize) -> io::Result<Runtime> {
        Runtime::start_as(name, Priority::Foreground, blocking_threads_max)
    }

    /// The same with a thread of another priority; the pool's threads inherit it, but of one that serves no more than the weight, if
    /// that is not above the usual.
    pub fn start_as(name: &str, priority: Priority, blocking_threads_max: usize) -> io::Result<Runtime> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(blocking_threads_max)
            .thread_name(format!("{name}-pool"))
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = spawn_thread(name, priority, move || {
            // Either the word to stop or the runtime's own handle being dropped ends it.
            let _either = runtime.block_on(stopped);
            runtime.shutdown_timeout(Duration::from_secs(5));
        })?;
        Ok(Runtime { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Starts a task on this runtime.
    pub fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(task)
    }

    /// The handle, for code that must enter the runtime's context.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        &self.handle
    }

    /// Ends the runtime: tasks are dropped at their next wait.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The receiver is gone only when the thread has ended already.
            let _ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A runtime that is dropped by one of its own tasks cannot wait for itself.
            if thread.0.thread().id() != thread::current().id() {
                let _panicked = thread.join();
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Starts a task on the runtime of the calling task.
pub fn spawn<F>(task: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(task)
}

/// Runs `work`, which may wait for a disk, on the pool of the calling task's runtime.
///
/// # Panics
/// When `work` panics: the panic goes on in the caller.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) => std::panic::resume_unwind(failure.into_panic()),
    }
}

/// Waits on the runtime's timer.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits for `future` no longer than `limit`; `None` when the time is over.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_done_together_is_all_done_on_return() {
        let left = std::sync::atomic::AtomicI32::new(1000);
        together("test", 4, || while left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 1 {});
        assert!(left.into_inner() <= 0);
    }

    #[test]
    fn a_runtime_runs_tasks_and_leaves_the_thread_for_blocking_work() {
        let runtime = Runtime::start("test", 2).expect("start");
        let (sender, receiver) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let here = thread::current().id();
            let there = blocking(|| thread::current().id()).await;
            sender.send(here != there).expect("receiver waits");
        });
        assert!(receiver.recv().expect("task ran"), "blocking work has a thread of its own");
        runtime.stop();
    }

    #[test]
    fn a_background_thread_returns_its_result() {
        let thread = spawn_thread("sum", Priority::Background, || 1 + 1).expect("start");
        assert_eq!(thread.join().expect("no panic"), 2);
    }
}
