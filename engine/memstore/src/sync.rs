//! The atomics and locks of the index. In tests they are those of a scheduler that interrupts threads at each use.

#[cfg(not(shuttle))]
pub(crate) use env::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(shuttle)]
pub(crate) use scheduled::{Mutex, MutexGuard};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};

/// Waits for something that another thread is about to do: first by spinning, then by yielding.
#[derive(Default)]
pub(crate) struct Backoff {
    waited: u32,
}

impl Backoff {
    /// Number of spins before the thread yields: several times as many as it takes to add an entry.
    #[cfg(not(shuttle))]
    const AWAKE: u32 = 200;

    pub(crate) fn wait(&mut self) {
        self.waited += 1;
        #[cfg(not(shuttle))]
        if self.waited <= Backoff::AWAKE {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        #[cfg(shuttle)]
        shuttle::thread::yield_now();
    }
}

/// The scheduler's lock, with the interface of the system's lock.
#[cfg(shuttle)]
mod scheduled {
    pub(crate) use shuttle::sync::MutexGuard;

    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("nobody panics with the lock")
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}
