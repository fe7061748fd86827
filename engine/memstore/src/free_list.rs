//! Memory of chunks, and the list of memory that waits for reuse.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::sync::Mutex;

/// Minimum chunk size, in bytes.
pub const CHUNK_SIZE_MIN: usize = 4 << 10;
/// Maximum chunk size, in bytes: a place has 19 bits for the offset, in units of four bytes.
pub const CHUNK_SIZE_MAX: usize = 2 << 20;

/// The memory of one chunk. New memory is zeroed; reused memory has old bytes.
pub(crate) struct ChunkMemory {
    start: NonNull<u8>,
    size: usize,
}

impl ChunkMemory {
    #[expect(unsafe_code, reason = "memory that is written through shared pointers")]
    pub(crate) fn new(size: usize) -> ChunkMemory {
        let layout = ChunkMemory::layout(size);
        assert!(size > 0, "a chunk has room for something");
        // SAFETY: the layout's size is not zero, as asserted.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { std::alloc::handle_alloc_error(layout) };
        ChunkMemory { start, size }
    }

    /// Returns the layout of `size` bytes with no more than the allocator's natural alignment. For a larger alignment
    /// the allocator would write zeros, and so touch every page.
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

impl Default for ChunkMemory {
    /// Returns an empty memory.
    fn default() -> ChunkMemory {
        ChunkMemory { start: NonNull::dangling(), size: 0 }
    }
}

impl Drop for ChunkMemory {
    #[expect(unsafe_code, reason = "memory that is written through shared pointers")]
    fn drop(&mut self) {
        if self.size > 0 {
            // SAFETY: allocated in `new` with the same layout, and freed only here.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), ChunkMemory::layout(self.size)) }
        }
    }
}

// SAFETY: a `ChunkMemory` owns what it points to, as a `Box` does; it only returns its address.
#[expect(unsafe_code, reason = "a pointer that owns")]
unsafe impl Send for ChunkMemory {}
// SAFETY: as for `Send`; `chunk` guarantees who writes through the address, and when.
#[expect(unsafe_code, reason = "a pointer that owns")]
unsafe impl Sync for ChunkMemory {}

/// The list of chunk memory that waits for reuse.
pub(crate) struct FreeList {
    waiting: Mutex<Vec<ChunkMemory>>,
    chunks_max: usize,
    /// Number of chunks that are in use or wait for reuse.
    chunks: AtomicUsize,
}

impl FreeList {
    /// Creates an empty list for at most `chunks_max` chunks.
    pub(crate) fn new(chunks_max: usize) -> FreeList {
        FreeList { waiting: Mutex::default(), chunks_max, chunks: AtomicUsize::new(0) }
    }

    /// Returns memory that waits for reuse, or new memory of `size` bytes, all zeros.
    pub(crate) fn take(&self, size: usize) -> ChunkMemory {
        let waiting = self.waiting.lock().pop();
        waiting.unwrap_or_else(|| {
            self.chunks.fetch_add(1, Ordering::Relaxed);
            ChunkMemory::new(size)
        })
    }

    /// Returns the number of chunks in use, and the number of those that wait for reuse.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let waiting = self.waiting.lock().len();
        (self.chunks.load(Ordering::Relaxed).saturating_sub(waiting), waiting)
    }

    /// Keeps the memory for reuse, or frees it when enough memory waits.
    pub(crate) fn take_back(&self, memory: ChunkMemory) {
        let mut waiting = self.waiting.lock();
        if waiting.len() < self.chunks_max {
            waiting.push(memory);
        } else {
            self.chunks.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
