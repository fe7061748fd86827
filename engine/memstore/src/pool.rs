//! The pool of chunks.
//!
//! Memory that is touched for the first time costs a page fault per 4 KB, several times what filling it costs. So
//! chunks that nobody needs any more are kept, up to a limit, and filled again.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use env::sync::Mutex;

use crate::chunk::{Appender, Chunk};

/// The smallest chunk.
pub const CHUNK_SIZE_MIN: usize = 4 << 10;
/// The largest chunk: places within it are 19 bits of four bytes each.
pub const CHUNK_SIZE_MAX: usize = 2 << 20;

/// Memory of one chunk, made of zeros when it is new.
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

    /// No more than the allocator's own alignment: beyond it zeros would be written, and every page touched.
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
    /// None at all.
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
// SAFETY: as above; who writes through the address, and when, is settled in `chunk`.
#[expect(unsafe_code, reason = "a pointer that owns")]
unsafe impl Sync for Memory {}

/// The memory that waits to be used again.
pub(crate) struct Free {
    waiting: Mutex<Vec<Memory>>,
    chunks_max: usize,
    /// Chunks that are in use or wait.
    chunks: AtomicUsize,
}

impl Free {
    /// Keeps the memory, or frees it if there is enough.
    pub(crate) fn take_back(&self, memory: Memory) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < self.chunks_max {
            waiting.push(memory);
        } else {
            self.chunks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Gives out chunks, and takes back their memory. One serves all memstores of a server.
pub struct Pool {
    chunk_size: usize,
    free: Arc<Free>,
}

/// What a pool has given out and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Bytes of a chunk.
    pub chunk_size: usize,
    /// Chunks that are in use.
    pub used: usize,
    /// Chunks that wait to be used again.
    pub waiting: usize,
}

impl Pool {
    /// A pool of chunks of `chunk_size` bytes that keeps at most `chunks_max` of them for later.
    ///
    /// A size beyond [`CHUNK_SIZE_MIN`] or [`CHUNK_SIZE_MAX`] becomes the nearer of both.
    pub fn new(chunk_size: usize, chunks_max: usize) -> Arc<Pool> {
        let chunk_size = chunk_size.clamp(CHUNK_SIZE_MIN, CHUNK_SIZE_MAX);
        let free = Free { waiting: Mutex::default(), chunks_max, chunks: AtomicUsize::new(0) };
        Arc::new(Pool { chunk_size, free: Arc::new(free) })
    }

    /// Cells beyond this size get a chunk of their own, of their size: an eighth of a chunk, as
    /// `hbase.hregion.memstore.mslab.max.allocation` is to `…chunksize`.
    pub(crate) fn allocation_max(&self) -> usize {
        self.chunk_size / 8
    }

    /// A chunk to be filled.
    pub(crate) fn chunk(&self) -> Appender {
        let waiting = self.free.waiting.lock().pop();
        let memory = waiting.unwrap_or_else(|| {
            self.free.chunks.fetch_add(1, Ordering::Relaxed);
            Memory::new(self.chunk_size)
        });
        Chunk::over(memory, Arc::downgrade(&self.free))
    }

    /// A chunk of its own for something large. It does not come back.
    pub(crate) fn chunk_for(size: usize) -> Appender {
        Chunk::over(Memory::new(size), Weak::new())
    }

    /// What it has given out and keeps.
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
