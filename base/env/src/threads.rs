//! Threads, runtimes and tasks.
//!
//! Foreground work (RPC and reads from memory) and background work (flush, compaction) never share a thread. A
//! [`Runtime`] is one `current_thread` tokio runtime on a thread of its own. A task passes work that reads or writes a
//! disk to [`blocking`], which runs it in the thread pool of the task's runtime.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

#[cfg(debug_assertions)]
use crate::executor::Executor;
#[cfg(debug_assertions)]
use crate::simulation;
use crate::weight;

/// How much the operating system should prefer a thread to the others of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// For work whose result a client waits for.
    Foreground,
    /// Like [`Foreground`](Priority::Foreground), for threads that seldom run for long. When such a thread is woken, it
    /// runs before other threads of this process, if the system supports that.
    Serving,
    /// For flushes, compactions and similar work.
    Background,
    /// Runs as soon as it is woken, before all other threads, if the system allows it. For threads that measure
    /// latencies and must not add their own waiting. Such a thread must sleep most of the time.
    Prompt,
}

/// A running thread; joining it returns its result.
#[derive(Debug)]
pub struct Thread<T>(Started<T>);

#[derive(Debug)]
enum Started<T> {
    System(thread::JoinHandle<T>),
    #[cfg(debug_assertions)]
    Simulated(simulation::ThreadId, tokio::sync::oneshot::Receiver<thread::Result<T>>),
}

impl<T> Thread<T> {
    /// Waits for the thread to end. `Err` is the panic that ended it.
    pub fn join(self) -> thread::Result<T> {
        match self.0 {
            Started::System(thread) => thread.join(),
            #[cfg(debug_assertions)]
            Started::Simulated(_, ended) => block_on(ended).expect("a thread ends with a result"),
        }
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Started::System(thread) => thread.is_finished(),
            #[cfg(debug_assertions)]
            Started::Simulated(_, ended) => !ended.is_empty() || ended.is_terminated(),
        }
    }

    /// Whether the calling thread may join this thread. A thread may not join itself, and in a simulation only
    /// simulated threads may join others.
    fn can_be_joined(&self) -> bool {
        match &self.0 {
            Started::System(thread) => thread.thread().id() != thread::current().id(),
            #[cfg(debug_assertions)]
            Started::Simulated(thread, _) => simulation::current().is_some_and(|current| current != *thread),
        }
    }
}

/// The identity of a thread, for comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(Id);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    System(thread::ThreadId),
    #[cfg(debug_assertions)]
    Simulated(simulation::ThreadId),
}

/// Returns the identity of the calling thread.
pub fn this_thread() -> ThreadId {
    #[cfg(debug_assertions)]
    if let Some(thread) = simulation::current() {
        return ThreadId(Id::Simulated(thread));
    }
    ThreadId(Id::System(thread::current().id()))
}

/// Waits for `future`, blocks the calling thread meanwhile, and returns the future's result.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    #[cfg(debug_assertions)]
    if let Some(thread) = simulation::current() {
        let waker = Waker::from(Arc::new(UnparkSimulated(thread)));
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => simulation::park(None),
            }
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(debug_assertions)]
struct UnparkSimulated(simulation::ThreadId);

#[cfg(debug_assertions)]
impl Wake for UnparkSimulated {
    fn wake(self: Arc<Self>) {
        simulation::unpark(self.0);
    }
}

/// Starts a thread named `name` (cut to what the system shows, 15 bytes on Linux).
pub fn spawn_thread<T: Send + 'static>(
    name: &str,
    priority: Priority,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Thread<T>> {
    #[cfg(debug_assertions)]
    if simulation::is_active() {
        return spawn_simulated(name, work);
    }
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            match priority {
                Priority::Foreground => {}
                Priority::Serving => weight::be_brief(),
                Priority::Background => weight::lower(),
                Priority::Prompt => {
                    // Without permission for the priority the thread waits like others. Then the measurement is only
                    // less exact.
                    let _is_prompt = weight::be_prompt();
                }
            }
            work()
        })
        .map(|thread| Thread(Started::System(thread)))
}

#[cfg(debug_assertions)]
fn spawn_simulated<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Thread<T>> {
    let (ends, ended) = tokio::sync::oneshot::channel();
    let work = Box::new(move || {
        let result = catch_unwind(work);
        // The send fails if nobody joins this thread, and then the result is not needed.
        let _detached = ends.send(result);
    });
    let thread = simulation::with(|director| director.spawn(name, work)).expect("it is active")?;
    Ok(Thread(Started::Simulated(thread, ended)))
}

/// Runs `work`, and catches a panic in it, as [`std::panic::catch_unwind`] does; for work that can be given up as a
/// whole. In a simulation, the director is informed of every panic.
pub fn catch_unwind<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    #[cfg(debug_assertions)]
    if let Err(panic) = &caught {
        simulation::with(|director| director.panicked(&words_of(&**panic)));
    }
    caught
}

/// Runs `work`, and catches a panic in it. `Err` is the panic's message, which the panic hook has already printed with
/// its source location.
///
/// For work on a thread that other work needs, if a panic leaves the data that `work` uses intact.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(work).map_err(|panic| words_of(&*panic))
}

/// Returns the message of a panic.
fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words").to_owned()
}

/// Runs `work` on `count` threads at once, the calling thread among them, and returns when all have ended.
///
/// `work` takes its share from a place that all threads can reach, such as a queue. If a thread cannot be started, the
/// others do its share.
///
/// # Panics
/// When `work` panics in one of them.
pub fn together(name: &str, count: usize, work: impl Fn() + Sync) {
    #[cfg(debug_assertions)]
    if simulation::current().is_some() {
        return together_simulated(name, count, &work);
    }
    thread::scope(|scope| {
        for _ in 1..count {
            if thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

/// [`together`] on simulated threads.
#[cfg(debug_assertions)]
#[expect(unsafe_code, reason = "simulated threads have no scope like those of the system")]
fn together_simulated(name: &str, count: usize, work: &(dyn Fn() + Sync)) {
    // SAFETY: this function ends, normally or by a panic, only after all threads that use `work` have ended. If the
    // simulated machine is killed meanwhile, all of its threads end at once: none of them runs again.
    let shared: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(work) };
    let threads: Vec<_> = (1..count).map_while(|_| spawn_simulated(name, shared).ok()).collect();
    let mut ended = vec![std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))];
    ended.extend(threads.into_iter().map(Thread::join));
    if let Some(panic) = ended.into_iter().find_map(Result::err) {
        std::panic::resume_unwind(panic);
    }
}

/// One single-threaded runtime on a thread of its own.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<Thread<()>>,
}

/// A reference to a runtime, for code that starts tasks on it or enters its context.
#[derive(Clone, Debug)]
pub struct Handle(Tasks);

#[derive(Clone, Debug)]
enum Tasks {
    System(tokio::runtime::Handle),
    #[cfg(debug_assertions)]
    Simulated(Arc<Executor>),
}

impl Handle {
    /// Returns the runtime of the calling task.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn current() -> Handle {
        #[cfg(debug_assertions)]
        if simulation::is_active() {
            return Handle(Tasks::Simulated(simulation::executor().expect("a task calls")));
        }
        Handle(Tasks::System(tokio::runtime::Handle::current()))
    }

    /// Starts a task on this runtime.
    pub fn spawn<F>(&self, task: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.0 {
            Tasks::System(handle) => Task(Spawned::System(handle.spawn(task))),
            #[cfg(debug_assertions)]
            Tasks::Simulated(executor) => {
                let (ends, ended) = tokio::sync::oneshot::channel();
                let spawned = executor.spawn(Box::pin(async move {
                    let mut task = Box::pin(task);
                    let result =
                        std::future::poll_fn(|context| match catch_unwind(|| task.as_mut().poll(context)) {
                            Ok(Poll::Pending) => Poll::Pending,
                            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
                            Err(panic) => Poll::Ready(Err(panic)),
                        })
                        .await;
                    drop(task);
                    // The send fails if nobody waits for the task, and then the result is not needed.
                    let _detached = ends.send(result);
                }));
                Task(Spawned::Simulated(spawned, ended))
            }
        }
    }

    /// Enters the runtime's context until the guard is dropped: sockets and timers that the calling thread creates
    /// meanwhile belong to this runtime.
    pub fn enter(&self) -> Within<'_> {
        match &self.0 {
            Tasks::System(handle) => Within(Entry::System(handle.enter())),
            #[cfg(debug_assertions)]
            Tasks::Simulated(executor) => {
                Within(Entry::Simulated(simulation::set_executor(Some(Arc::clone(executor)))))
            }
        }
    }

    /// Runs `future` on the calling thread, with the timers and sockets of the runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match &self.0 {
            Tasks::System(handle) => handle.block_on(future),
            #[cfg(debug_assertions)]
            Tasks::Simulated(_) => {
                let _within = self.enter();
                block_on(future)
            }
        }
    }
}

/// Keeps a runtime's context entered until it is dropped; see [`Handle::enter`].
#[derive(Debug)]
pub struct Within<'a>(Entry<'a>);

#[derive(Debug)]
enum Entry<'a> {
    System(#[expect(dead_code, reason = "held")] tokio::runtime::EnterGuard<'a>),
    #[cfg(debug_assertions)]
    Simulated(Option<Arc<Executor>>),
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        match &mut self.0 {
            Entry::System(_) => {}
            #[cfg(debug_assertions)]
            Entry::Simulated(before) => {
                simulation::set_executor(before.take());
            }
        }
    }
}

/// A task that was started. Awaiting it returns the task's result; dropping it lets the task continue.
#[derive(Debug)]
pub struct Task<T>(Spawned<T>);

#[derive(Debug)]
enum Spawned<T> {
    System(tokio::task::JoinHandle<T>),
    #[cfg(debug_assertions)]
    Simulated(Arc<crate::executor::Task>, tokio::sync::oneshot::Receiver<thread::Result<T>>),
}

impl<T> Task<T> {
    /// Drops the task at its next wait.
    pub fn abort(&self) {
        match &self.0 {
            Spawned::System(task) => task.abort(),
            #[cfg(debug_assertions)]
            Spawned::Simulated(task, _) => task.abort(),
        }
    }
}

/// Why a task has no result.
#[derive(Debug)]
pub enum TaskError {
    /// The task panicked, with this message.
    Panicked(String),
    /// The task was [aborted](Task::abort), or its runtime ended before it.
    Dropped,
}

impl std::fmt::Display for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TaskError::Panicked(words) => write!(f, "the task panicked: {words}"),
            TaskError::Dropped => f.write_str("the task's runtime has ended before it"),
        }
    }
}

impl std::error::Error for TaskError {}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Spawned::System(task) => Pin::new(task).poll(context).map_err(|error| {
                error
                    .try_into_panic()
                    .map_or(TaskError::Dropped, |panic| TaskError::Panicked(words_of(&*panic)))
            }),
            #[cfg(debug_assertions)]
            Spawned::Simulated(_, ended) => Pin::new(ended).poll(context).map(|ended| match ended {
                Ok(result) => result.map_err(|panic| TaskError::Panicked(words_of(&*panic))),
                Err(_) => Err(TaskError::Dropped),
            }),
        }
    }
}

impl Runtime {
    /// Starts a runtime; `blocking_threads_max` bounds the pool of threads behind [`blocking`].
    pub fn start(name: &str, blocking_threads_max: usize) -> io::Result<Runtime> {
        Runtime::start_as(name, Priority::Foreground, blocking_threads_max)
    }

    /// Starts a runtime whose thread has the given priority. The threads of its blocking pool inherit the priority, but
    /// not the short time slices of [`Priority::Serving`].
    pub fn start_as(name: &str, priority: Priority, blocking_threads_max: usize) -> io::Result<Runtime> {
        #[cfg(debug_assertions)]
        if simulation::is_active() {
            let executor = Arc::<Executor>::default();
            let running = Arc::clone(&executor);
            let thread = spawn_simulated(name, move || running.run())?;
            return Ok(Runtime {
                handle: Handle(Tasks::Simulated(executor)),
                stop: None,
                thread: Some(thread),
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(blocking_threads_max)
            .thread_name(format!("{name}-pool"))
            .build()?;
        let handle = Handle(Tasks::System(runtime.handle().clone()));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = spawn_thread(name, priority, move || {
            // The future ends when `halt` sends a message or the sender is dropped. Both mean that the runtime ends.
            let _either = runtime.block_on(stopped);
            runtime.shutdown_timeout(Duration::from_secs(5));
        })?;
        Ok(Runtime { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Starts a task on this runtime.
    pub fn spawn<F>(&self, task: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(task)
    }

    /// Returns the handle, for code that must enter the runtime's context.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the runtime: its tasks are dropped at their next wait. Waits for the runtime's thread, and at most 5 s for
    /// work in its blocking pool. A task of the runtime itself may call this; then the call does not wait.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The send fails only if the thread has already ended.
            let _ended = stop.send(());
        }
        #[cfg(debug_assertions)]
        if let Tasks::Simulated(executor) = &self.handle.0 {
            executor.stop();
        }
        if let Some(thread) = self.thread.take() {
            // If one of the runtime's own tasks drops it, this is the runtime's thread, which cannot wait for itself.
            if thread.can_be_joined() {
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
///
/// # Panics
/// Outside of a runtime.
pub fn spawn<F>(task: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[cfg(debug_assertions)]
    if simulation::is_active() {
        return Handle::current().spawn(task);
    }
    Task(Spawned::System(tokio::spawn(task)))
}

/// Runs `work`, which may wait for a disk, on the pool of the calling task's runtime.
///
/// # Panics
/// When `work` panics: the panic continues in the caller. Outside of a runtime.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    #[cfg(debug_assertions)]
    if let Some(executor) = simulation::executor() {
        let inside = move || {
            simulation::set_executor(Some(executor));
            work()
        };
        // In a simulation each call gets a thread of its own, so the pool has no limit.
        let Thread(Started::Simulated(_, ended)) = spawn_simulated("pool", inside).expect("a thread") else {
            unreachable!("it is simulated")
        };
        return match ended.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The sender is never dropped before it sends: nothing of a killed simulated machine is dropped.
            Err(_) => unreachable!("a thread of the pool ends with a result"),
        };
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) => std::panic::resume_unwind(failure.into_panic()),
    }
}

/// Waits for `duration` on the timer of the calling task's runtime.
pub async fn sleep(duration: Duration) {
    #[cfg(debug_assertions)]
    if simulation::is_active() {
        return simulation::sleep(duration).await;
    }
    tokio::time::sleep(duration).await;
}

/// Waits for `future` for at most `limit`; returns `None` when the time is over.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    #[cfg(debug_assertions)]
    if simulation::is_active() {
        let (mut future, mut over) = (pin!(future), pin!(simulation::sleep(limit)));
        return std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            over.as_mut().poll(context).map(|()| None)
        })
        .await;
    }
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
