//! Reusable buffers for records. A reused buffer need not be zeroed, and a buffer that this thread has just released is
//! still in the processor's cache.

use std::cell::Cell;

use bytes::Bytes;

/// Maximum number of released buffers that a thread keeps.
const KEPT_MAX: usize = 8;
/// Maximum size of a buffer that a thread keeps, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes that a long-lived buffer may waste, in addition to a quarter of its length.
const SPARE_MAX: usize = 1 << 10;

thread_local! {
    /// The buffers that this thread keeps, the oldest first.
    static KEPT: Cell<Vec<Vec<u8>>> = const { Cell::new(Vec::new()) };
}

/// A buffer of a given length. Its memory may be longer.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}

impl Buffer {
    /// Returns a buffer of `length` bytes with arbitrary contents, for a single request. Its memory may be much larger
    /// than `length`.
    pub(super) fn of(length: usize) -> Buffer {
        Buffer::within(length, usize::MAX)
    }

    /// Returns a buffer of `length` bytes that may live as long as a cached block. It wastes little memory, because the
    /// cache does not count wasted bytes.
    pub(super) fn to_keep(length: usize) -> Buffer {
        Buffer::within(length, length + length / 4 + SPARE_MAX)
    }

    fn within(length: usize, length_max: usize) -> Buffer {
        let mut kept = KEPT.take();
        let fits = kept.iter().rposition(|bytes| (length..=length_max).contains(&bytes.len()));
        let bytes = fits.map_or_else(|| vec![0; length], |at| kept.remove(at));
        KEPT.set(kept);
        Buffer { bytes, length }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// Makes the buffer shareable. It is released with the last reference.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("length", &self.length).finish_non_exhaustive()
    }
}

impl AsRef<[u8]> for Buffer {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.len() > KEPT_BYTES_MAX {
            return;
        }
        // While the thread ends, its storage is gone. Then the buffer is freed.
        let _gone = KEPT.try_with(|slot| {
            let mut kept = slot.take();
            // The oldest buffer is freed, because recent reads did not need it.
            let unused = (kept.len() == KEPT_MAX).then(|| kept.remove(0));
            kept.push(std::mem::take(&mut self.bytes));
            slot.set(kept);
            drop(unused);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_buffer_is_hardly_larger_than_its_request() {
        drop(Buffer::of(250_000));
        assert_eq!(Buffer::of(4_000).bytes.len(), 250_000, "for a request any is good");
        let (small, large) = (Buffer::to_keep(4_000), Buffer::to_keep(240_000));
        assert_eq!((small.bytes.len(), large.bytes.len()), (4_000, 250_000));
        KEPT.take();
    }

    #[test]
    fn a_thread_keeps_what_it_reads_now_and_not_what_it_read_once() {
        let fill = |length: usize| drop(std::array::from_fn::<_, KEPT_MAX, _>(|_| Buffer::to_keep(length)));
        let is_kept = |length: usize| {
            let place = Buffer::to_keep(length).as_ref().as_ptr();
            KEPT.take().iter().any(|bytes| bytes.as_ptr() == place)
        };
        for (before, now) in [(4_000, 64_000), (64_000, 4_000)] {
            fill(before);
            assert!(is_kept(now), "{now} after {before}");
            fill(before);
            (0..100).for_each(|_| drop(Buffer::to_keep(now)));
            let kept = KEPT.take();
            let lengths: Vec<usize> = kept.iter().map(Vec::len).collect();
            assert_eq!(lengths, [&[before; KEPT_MAX - 1][..], &[now]].concat(), "it is used again and again");
        }
    }

    #[test]
    fn a_buffer_is_used_again_when_its_last_holder_is_gone() {
        let mut first = Buffer::of(5_000);
        first.bytes_mut().fill(7);
        let place = first.as_ref().as_ptr();
        let shared = first.freeze();
        let part = shared.slice(10..20);
        drop(shared);
        assert_ne!(Buffer::of(4_000).as_ref().as_ptr(), place, "a part of it is held");
        drop(part);
        let again = Buffer::of(5_000);
        assert_eq!((again.as_ref().as_ptr(), again.as_ref().len()), (place, 5_000));
        drop(again);
        let large = Buffer::of(KEPT_BYTES_MAX + 1);
        drop(large);
        let kept = KEPT.take();
        assert!(kept.iter().all(|bytes| bytes.len() <= KEPT_BYTES_MAX) && kept.len() == 2);
    }
}
