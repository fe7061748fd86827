//! The interface through which a simulation replaces the operating system.
//!
//! A simulation runs a whole cluster in one thread. Each thread of a simulated machine is a coroutine, which gives
//! control back wherever a real thread would wait: for a lock, a condition, a timer, a task or a disk. The
//! [`Director`] decides which one runs next and what time it is; `proof/sim` implements it. This module exists only
//! in builds with debug assertions, so that a release build pays nothing.
//!
//! All state here belongs to the calling thread: while a director is [entered](enter), all of `env` uses it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::World;
use crate::executor::Executor;

/// The number of a simulated thread, unique in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u64);

/// A connected simulated socket.
pub trait Socket: AsyncRead + AsyncWrite + Send + Sync + Unpin + std::fmt::Debug {
    /// Returns the address of the other end.
    fn peer(&self) -> SocketAddr;
    /// Returns the address of this end.
    fn local(&self) -> SocketAddr;
}

/// A listening simulated socket.
pub trait Acceptor: Send + Sync + std::fmt::Debug {
    /// Waits for the next connection and returns it with the address that it came from.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Socket>, SocketAddr)>>;
    /// Returns the address where the socket listens.
    fn local(&self) -> SocketAddr;
}

/// A future that a [`Director`] returns.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Decides what happens next in a simulation. Calls come from the simulated threads themselves.
pub trait Director {
    /// Returns the world of the machine to which the calling thread belongs.
    fn world(&self) -> World;
    /// Returns a random number of the simulation itself, for decisions about the order of events.
    fn random(&self) -> u64;
    /// Starts a thread on the machine of the calling thread.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce()>) -> io::Result<ThreadId>;
    /// Returns the calling thread; `None` outside of the simulation's threads.
    fn current(&self) -> Option<ThreadId>;
    /// Suspends the calling thread until another one [unparks](Director::unpark) it, or until `limit` is over. Returns
    /// at once if it was unparked since its last call of `park`. May also return earlier.
    fn park(&self, limit: Option<Duration>);
    /// Makes a suspended thread ready to run.
    fn unpark(&self, thread: ThreadId);
    /// Lets other threads run before the calling one continues.
    fn give_way(&self);
    /// Wakes `timer` after `time` has passed.
    fn wake_after(&self, time: Duration, timer: &Arc<Timer>);
    /// Connects to an address.
    fn dial(&self, address: SocketAddr) -> Boxed<io::Result<Box<dyn Socket>>>;
    /// Listens at an address.
    fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Acceptor>>;
    /// Whether the director lets other threads run first when a thread takes a free lock.
    fn interrupts(&self) -> bool;
    /// Returns the number of the active planted bug (see [`planted`](crate::World::planted)); 0 for none.
    fn planted(&self) -> u32;
    /// Records that the run reached `state`, which tests should reach sometimes.
    fn reached(&self, state: &'static str);
    /// Records that code panicked with these `words` and that the panic was caught.
    fn panicked(&self, words: &str);
}

thread_local! {
    static DIRECTOR: RefCell<Option<Rc<dyn Director>>> = const { RefCell::new(None) };
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static EXECUTOR: RefCell<Option<Arc<Executor>>> = const { RefCell::new(None) };
}

/// Enters a simulation until the guard is dropped.
pub fn enter(director: Rc<dyn Director>) -> Entered {
    DIRECTOR.with_borrow_mut(|entered| *entered = Some(director));
    ACTIVE.set(true);
    Entered(std::marker::PhantomData)
}

/// Keeps a simulation entered until it is dropped; see [`enter`].
#[derive(Debug)]
pub struct Entered(std::marker::PhantomData<*const ()>);

impl Drop for Entered {
    fn drop(&mut self) {
        ACTIVE.set(false);
        DIRECTOR.with_borrow_mut(Option::take);
    }
}

/// Whether the calling thread is inside a simulation.
#[inline]
pub fn is_active() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(false)
}

/// Calls the director, if one is entered.
pub(crate) fn with<T>(act: impl FnOnce(&dyn Director) -> T) -> Option<T> {
    if !is_active() {
        return None;
    }
    let director = DIRECTOR.with_borrow(Clone::clone)?;
    Some(act(&*director))
}

/// Returns the calling simulated thread; `None` outside of a simulation.
pub(crate) fn current() -> Option<ThreadId> {
    with(|director| director.current()).flatten()
}

/// Suspends the calling thread, see [`Director::park`].
pub(crate) fn park(limit: Option<Duration>) {
    // While this thread is suspended, other threads run, and set their own executors.
    let executor = executor();
    with(|director| director.park(limit));
    set_executor(executor);
}

/// Makes a suspended thread ready to run.
pub(crate) fn unpark(thread: ThreadId) {
    with(|director| director.unpark(thread));
}

/// Records that a thread ended: no other thread waits for it, and it waits for nothing.
pub fn forget(thread: ThreadId) {
    crate::sync::forget(thread);
}

/// Lets other threads run before the calling one continues.
pub fn give_way() {
    let executor = executor();
    with(|director| director.give_way());
    set_executor(executor);
}

/// Suspends the calling thread for `time`, as a disk would.
pub fn suspend(time: Duration) {
    let Some(world) = with(|director| director.world()) else { return };
    let until = world.moment().plus(time);
    loop {
        let left = until.since(world.moment());
        if left.is_zero() {
            return;
        }
        park(Some(left));
    }
}

/// Returns the executor of the calling thread's tasks; `None` outside of a simulation.
pub(crate) fn executor() -> Option<Arc<Executor>> {
    EXECUTOR.with_borrow(Clone::clone)
}

pub(crate) fn set_executor(executor: Option<Arc<Executor>>) -> Option<Arc<Executor>> {
    EXECUTOR.with_borrow_mut(|current| std::mem::replace(current, executor))
}

/// A timer that a task awaits. Dropping it cancels it.
#[derive(Debug, Default)]
pub struct Timer(parking_lot::Mutex<(bool, Option<Waker>)>);

impl Timer {
    /// Marks the timer's time as over, and wakes the task that waits for it.
    pub fn ring(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Waits in simulated time.
pub(crate) async fn sleep(time: Duration) {
    let timer = Arc::new(Timer::default());
    with(|director| director.wake_after(time, &timer));
    std::future::poll_fn(|context| timer.poll(context)).await;
}
