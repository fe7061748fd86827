//! A guard of the lock on the log's files (the *back*), which wakes waiters after it has released the lock.
//!
//! A waiter for [`Level::Os`](crate::Level::Os) tries to lock the back, to write for all waiters. If another thread has
//! the lock, the waiter relies on that thread, whatever the thread does with the lock. So every thread that releases
//! the back wakes waiters afterwards. No waiter is missed: a waiter is in the front's list before it tries to lock the
//! back, and the other thread reads the list after it has released the back. A waiter that is not in the list by then
//! comes later, and finds the back free.
//!
//! A woken waiter may run at once, on the thread that released the back. That thread may have the rolling lock, so the
//! waiter must neither roll nor close the log.

use std::ops::{Deref, DerefMut};

use env::sync::MutexGuard;

use super::Shared;
use super::back::Back;

/// The locked back. The front must not be locked when this value is dropped.
pub(crate) struct BackGuard<'s> {
    // Fields are dropped in this order, so the back is free before a waiter is woken.
    back: MutexGuard<'s, Back>,
    _wakes: WakeOnDrop<'s>,
}

struct WakeOnDrop<'s>(&'s Shared);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.wake_reached();
    }
}

impl Shared {
    /// Locks the back. May block as long as a disk operation takes, because another thread may have the lock while it
    /// waits for the disk.
    pub(crate) fn back(&self) -> BackGuard<'_> {
        BackGuard { back: self.back.lock(), _wakes: WakeOnDrop(self) }
    }

    /// Locks the log's [`Back`] without waiting; `None` if another thread has it.
    pub(crate) fn try_back(&self) -> Option<BackGuard<'_>> {
        self.back.try_lock().map(|back| BackGuard { back, _wakes: WakeOnDrop(self) })
    }
}

impl Deref for BackGuard<'_> {
    type Target = Back;

    fn deref(&self) -> &Back {
        &self.back
    }
}

impl DerefMut for BackGuard<'_> {
    fn deref_mut(&mut self) -> &mut Back {
        &mut self.back
    }
}
