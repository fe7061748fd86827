//! Locks and condition variables.
//!
//! The types are those of `parking_lot`. In builds with debug assertions, a wait inside a simulation suspends the
//! simulated thread and not the thread of the system.

#[cfg(not(debug_assertions))]
pub use parking_lot::{
    Condvar, MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    WaitTimeoutResult,
};

#[cfg(debug_assertions)]
pub(crate) use simulated::forget;
#[cfg(debug_assertions)]
pub use simulated::{
    Condvar, MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    WaitTimeoutResult,
};

#[cfg(debug_assertions)]
mod simulated {
    // The traits of `lock_api` are unsafe: an implementation promises that one thread at a time holds the lock.
    #![expect(unsafe_code, reason = "locks of our own; see each implementation")]

    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::hash::{BuildHasherDefault, Hasher};
    use std::time::{Duration, Instant};

    use lock_api::RawMutex as _;

    use crate::simulation::{self, ThreadId};

    /// See `parking_lot::Mutex`.
    pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
    /// See `parking_lot::MutexGuard`.
    pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
    /// See `parking_lot::MappedMutexGuard`.
    pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;
    /// See `parking_lot::RwLock`.
    pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
    /// See `parking_lot::RwLockReadGuard`.
    pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
    /// See `parking_lot::RwLockWriteGuard`.
    pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

    thread_local! {
        /// The simulated threads that wait, by the address of the lock or condition. The order of the map decides
        /// nothing.
        static WAITERS: RefCell<HashMap<usize, Vec<ThreadId>, BuildHasherDefault<AddressHasher>>> =
            RefCell::default();
    }

    /// Hashes an address with one multiplication, because each release of a lock looks up its waiters.
    #[derive(Default)]
    struct AddressHasher(u64);

    impl Hasher for AddressHasher {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, _bytes: &[u8]) {
            unreachable!("only addresses are hashed")
        }

        fn write_usize(&mut self, address: usize) {
            self.0 = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        }
    }

    /// A simulated thread that waits for a lock or condition. The wait ends when the thread is woken or this value is
    /// dropped.
    struct Waiting {
        address: usize,
        thread: ThreadId,
    }

    impl Waiting {
        fn begin(address: usize, thread: ThreadId) -> Waiting {
            WAITERS.with_borrow_mut(|all| all.entry(address).or_default().push(thread));
            Waiting { address, thread }
        }

        fn is_over(&self) -> bool {
            WAITERS.with_borrow(|all| !all.get(&self.address).is_some_and(|all| all.contains(&self.thread)))
        }

        /// Ends the wait. Returns whether the thread was still waiting.
        fn give_up(&self) -> bool {
            leave(self.address, self.thread)
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            self.give_up();
        }
    }

    /// Records that a simulated thread waits no more.
    pub(crate) fn forget(thread: ThreadId) {
        WAITERS.with_borrow_mut(|all| {
            all.retain(|_, waiting| {
                waiting.retain(|waiting| *waiting != thread);
                !waiting.is_empty()
            });
        });
    }

    /// Ends the wait of a thread at `address`. Returns whether the thread was still waiting.
    fn leave(address: usize, thread: ThreadId) -> bool {
        WAITERS.with_borrow_mut(|all| {
            let Some(waiting) = all.get_mut(&address) else { return false };
            let Some(at) = waiting.iter().position(|waiting| *waiting == thread) else { return false };
            waiting.remove(at);
            if waiting.is_empty() {
                all.remove(&address);
            }
            true
        })
    }

    /// Wakes all threads that wait at the address, and returns their number.
    fn wake_all(address: usize) -> usize {
        let woken = WAITERS.with_borrow_mut(|all| all.remove(&address)).unwrap_or_default();
        for thread in &woken {
            simulation::unpark(*thread);
        }
        woken.len()
    }

    fn wake_one(address: usize) -> bool {
        let woken = WAITERS.with_borrow_mut(|all| {
            let waiting = all.get_mut(&address)?;
            let count = waiting.len();
            let chosen = match count {
                1 => 0,
                _ => simulation::with(|director| director.random()).unwrap_or(0) as usize % count,
            };
            let thread = waiting.remove(chosen);
            if waiting.is_empty() {
                all.remove(&address);
            }
            Some(thread)
        });
        if let Some(thread) = woken {
            simulation::unpark(thread);
        }
        woken.is_some()
    }

    /// Repeats `attempt` until it succeeds or the time `limit` is over. Between attempts the thread is suspended until
    /// the address is woken. Returns whether it succeeded; `None` if the caller is no thread of a simulation.
    fn acquire(address: usize, limit: Option<Duration>, attempt: impl Fn() -> bool) -> Option<bool> {
        let (thread, is_interrupted) = simulation::with(|director| {
            let thread = director.current()?;
            Some((thread, director.interrupts()))
        })??;
        if is_interrupted {
            simulation::give_way();
        }
        if attempt() {
            return Some(true);
        }
        let world = simulation::with(|director| director.world())?;
        let until = limit.map(|limit| world.moment().plus(limit));
        loop {
            let left = until.map(|until| until.since(world.moment()));
            if left.is_some_and(|left| left.is_zero()) {
                return Some(false);
            }
            let _waiting = Waiting::begin(address, thread);
            simulation::park(left);
            if attempt() {
                return Some(true);
            }
        }
    }

    /// The state of a [`Mutex`].
    pub struct RawMutex(parking_lot::RawMutex);

    impl RawMutex {
        fn address(&self) -> usize {
            std::ptr::from_ref(self).addr()
        }
    }

    // SAFETY: the lock within decides which thread holds it; a simulation only tries again instead of waiting.
    unsafe impl lock_api::RawMutex for RawMutex {
        const INIT: RawMutex = RawMutex(parking_lot::RawMutex::INIT);
        type GuardMarker = lock_api::GuardNoSend;

        #[inline]
        fn lock(&self) {
            if simulation::is_active() && acquire(self.address(), None, || self.0.try_lock()) == Some(true) {
                return;
            }
            self.0.lock();
        }

        #[inline]
        fn try_lock(&self) -> bool {
            self.0.try_lock()
        }

        #[inline]
        unsafe fn unlock(&self) {
            // SAFETY: the caller holds it.
            unsafe { self.0.unlock() };
            if simulation::is_active() {
                wake_all(self.address());
            }
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.0.is_locked()
        }
    }

    // SAFETY: as for `lock_api::RawMutex` above.
    unsafe impl lock_api::RawMutexTimed for RawMutex {
        type Duration = Duration;
        type Instant = Instant;

        fn try_lock_for(&self, timeout: Duration) -> bool {
            if simulation::is_active()
                && let Some(held) = acquire(self.address(), Some(timeout), || self.0.try_lock())
            {
                return held;
            }
            self.0.try_lock_for(timeout)
        }

        fn try_lock_until(&self, timeout: Instant) -> bool {
            self.0.try_lock_until(timeout)
        }
    }

    // SAFETY: as for `lock_api::RawMutex` above.
    unsafe impl lock_api::RawMutexFair for RawMutex {
        unsafe fn unlock_fair(&self) {
            // SAFETY: the caller holds it.
            unsafe { self.0.unlock_fair() };
            if simulation::is_active() {
                wake_all(self.address());
            }
        }
    }

    /// The state of an [`RwLock`]: one writer or several readers.
    pub struct RawRwLock(parking_lot::RawRwLock);

    impl RawRwLock {
        fn address(&self) -> usize {
            std::ptr::from_ref(self).addr()
        }
    }

    // SAFETY: the lock within decides which threads hold it; a simulation only tries again instead of waiting.
    unsafe impl lock_api::RawRwLock for RawRwLock {
        const INIT: RawRwLock = RawRwLock(parking_lot::RawRwLock::INIT);
        type GuardMarker = lock_api::GuardNoSend;

        fn lock_shared(&self) {
            if simulation::is_active()
                && acquire(self.address(), None, || self.0.try_lock_shared()) == Some(true)
            {
                return;
            }
            self.0.lock_shared();
        }

        fn try_lock_shared(&self) -> bool {
            self.0.try_lock_shared()
        }

        unsafe fn unlock_shared(&self) {
            // SAFETY: the caller holds it.
            unsafe { self.0.unlock_shared() };
            if simulation::is_active() {
                wake_all(self.address());
            }
        }

        fn lock_exclusive(&self) {
            if simulation::is_active()
                && acquire(self.address(), None, || self.0.try_lock_exclusive()) == Some(true)
            {
                return;
            }
            self.0.lock_exclusive();
        }

        fn try_lock_exclusive(&self) -> bool {
            self.0.try_lock_exclusive()
        }

        unsafe fn unlock_exclusive(&self) {
            // SAFETY: the caller holds it.
            unsafe { self.0.unlock_exclusive() };
            if simulation::is_active() {
                wake_all(self.address());
            }
        }

        fn is_locked(&self) -> bool {
            self.0.is_locked()
        }
    }

    /// Whether a wait on a [`Condvar`] ended because its time was over.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        /// Returns whether the time was over before a notification came.
        pub fn timed_out(self) -> bool {
            self.0
        }
    }

    /// See `parking_lot::Condvar`.
    #[derive(Debug, Default)]
    pub struct Condvar {
        // A waiter holds this lock from before it releases the caller's lock until it waits. So no notification is lost
        // in between.
        gate: parking_lot::Mutex<()>,
        inner: parking_lot::Condvar,
    }

    impl Condvar {
        /// Creates a condition variable without waiting threads.
        pub const fn new() -> Condvar {
            Condvar { gate: parking_lot::Mutex::new(()), inner: parking_lot::Condvar::new() }
        }

        fn address(&self) -> usize {
            std::ptr::from_ref(self).addr()
        }

        /// Wakes one waiting thread, and returns whether there was one.
        pub fn notify_one(&self) -> bool {
            if simulation::is_active() {
                return wake_one(self.address());
            }
            let _gate = self.gate.lock();
            self.inner.notify_one()
        }

        /// Wakes all waiting threads, and returns their number.
        pub fn notify_all(&self) -> usize {
            if simulation::is_active() {
                return wake_all(self.address());
            }
            let _gate = self.gate.lock();
            self.inner.notify_all()
        }

        /// Releases the lock and waits for a notification.
        pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
            self.wait_some(guard, None);
        }

        /// Releases the lock and waits while `condition` holds.
        pub fn wait_while<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            mut condition: impl FnMut(&mut T) -> bool,
        ) {
            while condition(&mut **guard) {
                self.wait(guard);
            }
        }

        /// As [`wait`](Condvar::wait), but for no longer than `limit`.
        pub fn wait_for<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            limit: Duration,
        ) -> WaitTimeoutResult {
            WaitTimeoutResult(self.wait_some(guard, Some(limit)))
        }

        fn wait_some<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, limit: Option<Duration>) -> bool {
            if let Some(thread) = simulation::current()
                && let Some(world) = simulation::with(|director| director.world())
            {
                let until = limit.map(|limit| world.moment().plus(limit));
                let waiting = Waiting::begin(self.address(), thread);
                return MutexGuard::unlocked(guard, || {
                    loop {
                        if waiting.is_over() {
                            return false;
                        }
                        let left = until.map(|until| until.since(world.moment()));
                        if left.is_some_and(|left| left.is_zero()) {
                            return waiting.give_up();
                        }
                        simulation::park(left);
                    }
                });
            }
            let mut gate = self.gate.lock();
            MutexGuard::unlocked(guard, move || match limit {
                Some(limit) => self.inner.wait_for(&mut gate, limit).timed_out(),
                None => {
                    self.inner.wait(&mut gate);
                    false
                }
            })
        }
    }
}
