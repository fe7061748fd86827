//! Counts allocations, for tests of code that must not allocate.
//!
//! A test program makes [`Counting`] its allocator and passes work to [`allocations_of`]. Each thread has its own
//! count.
//!
//! ```
//! #[global_allocator]
//! static COUNTING: micro::Counting = micro::Counting;
//!
//! fn main() {
//!     let (count, sum) = micro::allocations_of(|| (1..=4).sum::<u32>());
//!     assert_eq!((count, sum), (0, 10));
//!     let (count, _) = micro::allocations_of(|| vec![1]);
//!     assert_eq!(count, 1);
//! }
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// An allocator that passes each call to the system's allocator and counts the allocations of each thread.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator that counts and forwards every call")]
// SAFETY: every call is forwarded to the system's allocator unchanged. Counting changes a number of the calling thread,
// which does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller upholds the requirements of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work`, and returns the number of allocations and reallocations of this thread meanwhile, and the result. The
/// number is zero in a program whose allocator is not [`Counting`].
pub fn allocations_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ALLOCATIONS.get();
    let value = work();
    (ALLOCATIONS.get() - before, value)
}
