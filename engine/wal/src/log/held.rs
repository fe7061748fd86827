//! Taking the back, and letting it go.
//!
//! Who waits for the system tries to take the back, to write for all who wait. Finding it held, it relies on the holder,
//! whatever that took the back for: to write, to make the file durable, or for a look at a number. So whoever lets it go
//! tells those who wait. That nobody is missed needs no flag: who waits is in the front's list before it tries the back,
//! and the holder looks at the list after the back is free. If it does not see one who waits there, that one came to the
//! list later, and finds the back free.
//!
//! Who is told may run at once, on the thread that let go, which may be at rolling: it must neither roll nor end the log.

use std::ops::{Deref, DerefMut};

use env::sync::MutexGuard;

use super::Shared;
use super::back::Back;

/// The back, held. The front must not be held by who lets it go.
pub(crate) struct Held<'s> {
    // Fields go in this order: the back is free before anybody is told.
    back: MutexGuard<'s, Back>,
    _tells: Tells<'s>,
}

struct Tells<'s>(&'s Shared);

impl Drop for Tells<'_> {
    fn drop(&mut self) {
        self.0.wake_reached();
    }
}

impl Shared {
    /// Takes the back when it is free. Its holder may be waiting for the disk.
    pub(crate) fn back(&self) -> Held<'_> {
        Held { back: self.back.lock(), _tells: Tells(self) }
    }

    /// Takes the back if it is free.
    pub(crate) fn try_back(&self) -> Option<Held<'_>> {
        self.back.try_lock().map(|back| Held { back, _tells: Tells(self) })
    }
}

impl Deref for Held<'_> {
    type Target = Back;

    fn deref(&self) -> &Back {
        &self.back
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Back {
        &mut self.back
    }
}
