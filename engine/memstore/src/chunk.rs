//! Chunks: memory that one thread fills from the front, once, while others read it.
//!
//! ```text
//!   0                      published                      size
//!   ├── never changes again ──┼── nobody but the appender ──┤
//! ```
//!
//! Any thread may borrow the bytes before `published` for as long as the chunk lives. Only the one [`Appender`] touches
//! the bytes after it. The unsafe code here relies on this and on nothing else. Tests compare it with a version without
//! unsafe code, in which a chunk is a list of boxes.
//!
//! When the last reference to a chunk is dropped, its memory returns to the [`Pool`](crate::Pool) that it came from.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::free_list::{ChunkMemory, FreeList};

/// A run of memory: its front is published and shared, the rest belongs to the appender. It has a cache line of its
/// own, since appenders publish all the time.
#[repr(align(64))]
pub(crate) struct Chunk {
    memory: ChunkMemory,
    published: AtomicUsize,
    /// The list to which the memory returns after its last use. It is empty for a chunk that was made for one large
    /// cell.
    home: Weak<FreeList>,
}

/// The right to fill a chunk. Each chunk has one appender.
pub(crate) struct Appender {
    chunk: Arc<Chunk>,
}

impl Chunk {
    /// Creates an empty chunk over `memory`, and its appender.
    pub(crate) fn over(memory: ChunkMemory, home: Weak<FreeList>) -> Appender {
        Appender { chunk: Arc::new(Chunk { memory, published: AtomicUsize::new(0), home }) }
    }

    /// Returns the capacity, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.memory.size()
    }

    /// Returns the published bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        let published = self.published.load(Ordering::Acquire);
        self.front(published)
    }

    #[inline]
    #[expect(unsafe_code, reason = "a borrow of the front of memory whose rest is being written")]
    fn front(&self, published: usize) -> &[u8] {
        // SAFETY: `published` only grows and never beyond the memory's size. The memory is initialised (it was
        // allocated as zeros), lives as long as `self`, and its first `published` bytes are written by nobody any
        // more: the appender writes beyond them only, and published them with a release that the load above acquired.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr(), published) }
    }
}

impl Chunk {
    /// Prefetches the bytes from offset `at` on. The appender may be writing them.
    #[inline]
    pub(crate) fn fetch(&self, at: usize) {
        if at < self.memory.size() {
            cell::fetch_line(self.memory.start().as_ptr().wrapping_add(at));
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.take_back(std::mem::take(&mut self.memory));
        }
    }
}

impl Appender {
    /// Returns the chunk.
    pub(crate) fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    /// Returns the remaining capacity, in bytes.
    pub(crate) fn room(&self) -> usize {
        // The load may be relaxed, because only this appender changes the field.
        self.chunk.size() - self.chunk.published.load(Ordering::Relaxed)
    }

    /// Appends `parts` and then `padding` arbitrary bytes, publishes them together, and returns the offset of the
    /// first.
    ///
    /// # Panics
    /// When the room does not suffice.
    #[inline]
    #[expect(unsafe_code, reason = "writing into memory whose front is borrowed")]
    pub(crate) fn append(&mut self, parts: [&[u8]; 2], padding: usize) -> usize {
        let length = parts[0].len() + parts[1].len() + padding;
        assert!(length <= self.room(), "{length} bytes into a chunk with room for {}", self.room());
        let start = self.chunk.published.load(Ordering::Relaxed);
        let mut at = start;
        for part in parts {
            // SAFETY: `at + part.len()` stays within the memory, as asserted. The bytes from `published` on are
            // borrowed by nobody, and `&mut self` is the only appender of this chunk (it is neither cloned nor made
            // again), so nobody else writes them. `part` is a borrow of published or foreign memory: no overlap.
            unsafe {
                let target = self.chunk.memory.start().as_ptr().add(at);
                std::ptr::copy_nonoverlapping(part.as_ptr(), target, part.len());
            }
            at += part.len();
        }
        self.chunk.published.store(start + length, Ordering::Release);
        start
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk")
            .field("size", &self.size())
            .field("published", &self.bytes().len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Appender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Appender").field(&self.chunk).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    /// A chunk without unsafe code, with which a test compares the real one: it has a box for each append, with its
    /// offset.
    #[derive(Default)]
    struct Twin {
        appended: Vec<(usize, Box<[u8]>)>,
        end: usize,
    }

    impl Twin {
        fn append(&mut self, parts: [&[u8]; 2], padding: usize) -> usize {
            let (start, bytes) = (self.end, parts.concat());
            self.end += bytes.len() + padding;
            self.appended.push((start, bytes.into()));
            start
        }

        /// Compares the published bytes with `bytes`, except padding, which is arbitrary.
        fn check(&self, bytes: &[u8]) {
            assert_eq!(bytes.len(), self.end);
            for (start, expected) in &self.appended {
                assert_eq!(&bytes[*start..start + expected.len()], &expected[..]);
            }
        }
    }

    #[test]
    fn a_chunk_and_its_safe_twin_hold_the_same() {
        let pool = Pool::new(8 << 10, 4);
        let (mut appender, mut twin) = (pool.chunk(), Twin::default());
        let text: Vec<u8> = (0..=255).collect();
        let mut word = 1u64;
        for _ in 0..if cfg!(miri) { 20 } else { 1_000 } {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (first, second, padding) =
                ((word >> 33) as usize % 40, (word >> 40) as usize % 200, word as usize % 4);
            if first + second + padding > appender.room() {
                appender = pool.chunk();
                twin = Twin::default();
            }
            let parts = [&text[..first], &text[..second]];
            assert_eq!(appender.append(parts, padding), twin.append(parts, padding));
            twin.check(appender.chunk().bytes());
        }
    }

    #[test]
    fn readers_see_whole_appends_while_it_is_filled() {
        let pool = Pool::new(8 << 10, 1);
        let mut appender = pool.chunk();
        let chunk = Arc::clone(appender.chunk());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    let bytes = chunk.bytes();
                    assert_eq!(bytes.len() % 8, 0, "half an append");
                    for (number, record) in bytes.chunks(8).enumerate() {
                        assert_eq!(record, &(number as u64).to_le_bytes());
                    }
                    if bytes.len() == chunk.size() {
                        return;
                    }
                    std::thread::yield_now();
                }
            });
            for number in 0..(chunk.size() / 8) as u64 {
                let bytes = number.to_le_bytes();
                appender.append([&bytes[..3], &bytes[3..]], 0);
            }
            reader.join().expect("the reader saw what it should");
        });
    }
}
