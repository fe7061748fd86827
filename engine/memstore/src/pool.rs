//! The pool of chunks.
//!
//! The first access to new memory costs a page fault for each 4 KB, several times as much as filling it. So the pool
//! keeps unused chunks, up to a limit, and reuses them.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use env::sync::Mutex;

use crate::chunk::{Appender, Chunk};

/// Minimum chunk size, in bytes.
pub const CHUNK_SIZE_MIN: usize = 4 << 10;
/// Maximum chunk size, in bytes: a place has 19 bits for an offset in units of four bytes.
pub const CHUNK_SIZE_MAX: usize = 2 << 20;

/// Memory of one chunk; zeros when it is new.
pub(crate) struct Memory {
    start: NonNull<u8>,
    size: usize,
}

impl Memory {
    #[expect(unsafe_code, reason = "memory that is written through shared pointers")]
    fn new(size: usize) -> Memory {
        let layout = Memory::layout(size);
        assert!(size > 0, "a chunk has room for something");
        // SAFETY: the layout's size is not zero, as asserted.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { std::alloc::handle_alloc_error(layout) };
        Memory { start, size }
    }

    /// No more than the allocator's natural alignment: for a larger one it would write zeros, and so touch every page.
    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).expect("sizes of chunks are far below the address space")
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

impl Default for Memory {
    /// No memory.
    fn default() -> Memory {
        Memory { start: NonNull::dangling(), size: 0 }
    }
}

impl Drop for Memory {
    #[expect(unsafe_code, reason = "memory that is written through shared pointers")]
    fn drop(&mut self) {
        if self.size > 0 {
            // SAFETY: allocated in `new` with the same layout, and given back here only.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), Memory::layout(self.size)) }
        }
    }
}

// SAFETY: a `Memory` owns what it points to, as a `Box` does; it hands out its address and nothing more.
#[expect(unsafe_code, reason = "a pointer that owns")]
unsafe impl Send for Memory {}
// SAFETY: as above; `chunk` guarantees who writes through the address, and when.
#[expect(unsafe_code, reason = "a pointer that owns")]
unsafe impl Sync for Memory {}

/// Memory that waits for reuse.
pub(crate) struct Free {
    waiting: Mutex<Vec<Memory>>,
    chunks_max: usize,
    /// Number of chunks in use or waiting.
    chunks: AtomicUsize,
}

impl Free {
    /// Keeps the memory, or frees it when enough is waiting.
    pub(crate) fn take_back(&self, memory: Memory) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < self.chunks_max {
            waiting.push(memory);
        } else {
            self.chunks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Hands out chunks, and takes back their memory. One pool serves all memstores of a server.
pub struct Pool {
    chunk_size: usize,
    free: Arc<Free>,
}

/// Statistics of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Size of a chunk, in bytes.
    pub chunk_size: usize,
    /// Number of chunks in use.
    pub used: usize,
    /// Number of chunks waiting for reuse.
    pub waiting: usize,
}

impl Pool {
    /// Creates a pool of chunks of `chunk_size` bytes that keeps at most `chunks_max` of them.
    ///
    /// A size outside [`CHUNK_SIZE_MIN`] to [`CHUNK_SIZE_MAX`] is set to the nearer of both.
    pub fn new(chunk_size: usize, chunks_max: usize) -> Arc<Pool> {
        let chunk_size = chunk_size.clamp(CHUNK_SIZE_MIN, CHUNK_SIZE_MAX);
        let free = Free { waiting: Mutex::default(), chunks_max, chunks: AtomicUsize::new(0) };
        Arc::new(Pool { chunk_size, free: Arc::new(free) })
    }

    /// Maximum size of a cell that shares a chunk, in bytes. A larger cell gets its own chunk. It is an eighth of a
    /// chunk, the ratio of `hbase.hregion.memstore.mslab.max.allocation` to `…chunksize`.
    pub(crate) fn allocation_max(&self) -> usize {
        self.chunk_size / 8
    }

    /// Returns an empty chunk.
    pub(crate) fn chunk(&self) -> Appender {
        let waiting = self.free.waiting.lock().pop();
        let memory = waiting.unwrap_or_else(|| {
            self.free.chunks.fetch_add(1, Ordering::Relaxed);
            Memory::new(self.chunk_size)
        });
        Chunk::over(memory, Arc::downgrade(&self.free))
    }

    /// Returns a separate chunk for a large cell. It does not return to the pool.
    pub(crate) fn chunk_for(size: usize) -> Appender {
        Chunk::over(Memory::new(size), Weak::new())
    }

    /// Returns the statistics.
    pub fn usage(&self) -> PoolUse {
        let waiting = self.free.waiting.lock().len();
        let chunks = self.free.chunks.load(Ordering::Relaxed);
        PoolUse { chunk_size: self.chunk_size, used: chunks.saturating_sub(waiting), waiting }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pool").field(&self.usage()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_kept_up_to_the_limit() {
        let pool = Pool::new(4 << 10, 2);
        let chunks: Vec<Appender> = (0..3).map(|_| pool.chunk()).collect();
        let usage = |used, waiting| PoolUse { chunk_size: 4 << 10, used, waiting };
        assert_eq!(pool.usage(), usage(3, 0));
        let reader = Arc::clone(chunks[0].chunk());
        drop(chunks);
        assert_eq!(pool.usage(), usage(1, 2), "a reader holds its chunk");
        drop(reader);
        assert_eq!(pool.usage(), usage(0, 2), "two are kept");
        let again = pool.chunk();
        assert_eq!(pool.usage(), usage(1, 1));
        assert!(again.chunk().bytes().is_empty(), "what it held before is gone");
    }
}
