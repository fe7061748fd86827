//! A cell together with the owner of its memory.

use std::ptr::NonNull;
use std::sync::Arc;

use cell::{Cell, SequenceId};

/// An owner of memory, and possibly a cell in that memory. With it, a cursor looks its current cell up only once.
///
/// The version without unsafe code looks the cell up at every [`PinnedCell::cell`]; the tests of cursors compare the
/// two.
pub(crate) struct PinnedCell<T> {
    owner: Arc<T>,
    found: Option<(NonNull<[u8]>, SequenceId)>,
}

impl<T> PinnedCell<T> {
    pub(crate) fn new(owner: Arc<T>) -> PinnedCell<T> {
        PinnedCell { owner, found: None }
    }

    #[inline]
    pub(crate) fn owner(&self) -> &Arc<T> {
        &self.owner
    }

    /// Sets the cell to the result of `find`, which borrows it from the owner.
    #[inline]
    pub(crate) fn pin(&mut self, find: impl for<'a> FnOnce(&'a T) -> Option<Cell<'a>>) {
        self.found = find(&self.owner).map(|cell| (NonNull::from(cell.bytes()), cell.sequence()));
    }

    #[inline]
    pub(crate) fn cell(&self) -> Option<Cell<'_>> {
        let (bytes, sequence) = self.found?;
        Some(Cell::trusted(Self::borrow(self, bytes), sequence))
    }

    #[inline]
    #[expect(unsafe_code, reason = "a borrow that lives as long as its owner")]
    fn borrow(_owner: &Self, bytes: NonNull<[u8]>) -> &[u8] {
        // SAFETY: `bytes` was borrowed in `pin` from `&'a T` for an `'a` of our choice. The `T` is behind an `Arc` that
        // this value owns and never gives out as `&mut`. So that borrow could have lasted until now: the bytes exist
        // and nobody writes them. The borrow returned here ends with that of `self`.
        unsafe { bytes.as_ref() }
    }
}

// SAFETY: the pointer is a shared borrow of what `owner` owns (see `borrow`); sending it is sending `&T`, which needs
// what `Arc<T>` needs.
#[expect(unsafe_code, reason = "a pointer that stands for a shared borrow")]
unsafe impl<T: Send + Sync> Send for PinnedCell<T> {}
// SAFETY: as for `Send`; through `&PinnedCell` the bytes are only read.
#[expect(unsafe_code, reason = "a pointer that stands for a shared borrow")]
unsafe impl<T: Send + Sync> Sync for PinnedCell<T> {}
