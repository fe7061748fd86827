//! The pool of chunks.
//!
//! The first access to new memory costs a page fault for each 4 KB, which takes several times as long as filling the
//! memory. So the pool keeps unused chunks, up to a limit, and reuses them.

use std::sync::{Arc, Weak};

use crate::chunk::{Appender, Chunk};
use crate::free_list::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, ChunkMemory, FreeList};

/// Gives out chunks, and takes back their memory. One pool serves all memstores of a server.
pub struct Pool {
    chunk_size: usize,
    free: Arc<FreeList>,
}

/// Statistics of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Size of a chunk of the pool, in bytes.
    pub chunk_size: usize,
    /// Number of chunks in use.
    pub used: usize,
    /// Number of chunks that wait for reuse.
    pub waiting: usize,
}

impl Pool {
    /// Creates a pool of chunks of `chunk_size` bytes that keeps at most `chunks_max` unused ones.
    ///
    /// A size outside [`CHUNK_SIZE_MIN`] to [`CHUNK_SIZE_MAX`] is replaced by the nearer bound.
    pub fn new(chunk_size: usize, chunks_max: usize) -> Arc<Pool> {
        let chunk_size = chunk_size.clamp(CHUNK_SIZE_MIN, CHUNK_SIZE_MAX);
        Arc::new(Pool { chunk_size, free: Arc::new(FreeList::new(chunks_max)) })
    }

    /// Maximum size in bytes of a cell that shares a chunk. A larger cell gets its own chunk. The limit is an eighth of
    /// a chunk, as with the defaults of `hbase.hregion.memstore.mslab.max.allocation` and `…chunksize`.
    pub(crate) fn allocation_max(&self) -> usize {
        self.chunk_size / 8
    }

    /// Returns an empty chunk.
    pub(crate) fn chunk(&self) -> Appender {
        let memory = self.free.take(self.chunk_size);
        Chunk::over(memory, Arc::downgrade(&self.free))
    }

    /// Returns a separate chunk for a large cell. Its memory is not reused by the pool.
    pub(crate) fn chunk_for(size: usize) -> Appender {
        Chunk::over(ChunkMemory::new(size), Weak::new())
    }

    /// Returns the statistics.
    pub fn usage(&self) -> PoolUse {
        let (used, waiting) = self.free.counts();
        PoolUse { chunk_size: self.chunk_size, used, waiting }
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
        assert!(again.chunk().bytes().is_empty(), "its previous content is gone");
    }
}
