//! Counting allocations, for tests that promise none.
//!
//! A test program makes [`Counting`] its allocator and asks [`allocations_of`] some work. Each thread has its own count:
//! what others do at the same time does not matter.
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

/// The system's allocator, counting for each thread.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator that counts and hands everything on")]
// SAFETY: every call goes to the system's allocator as it came; counting touches a thread's own number, which needs no
// memory from the heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How often this thread asked for memory during `work`, growth of what it had included, and what came of the work. Always
/// none in a program whose allocator is not [`Counting`].
pub fn allocations_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = ALLOCATIONS.get();
    let value = work();
    (ALLOCATIONS.get() - before, value)
}
