//! Memory that records are read into, used again and again: it need not be zeroed each time, and what a thread has just
//! given back is still near the processor.

use std::cell::Cell;

use bytes::Bytes;

/// Buffers that a thread keeps.
const KEPT_MAX: usize = 8;
/// Larger ones are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// What a buffer to be kept may have beside a quarter that nobody asked for.
const SPARE_MAX: usize = 1 << 10;

thread_local! {
    /// From the one that was given back first.
    static KEPT: Cell<Vec<Vec<u8>>> = const { Cell::new(Vec::new()) };
}

/// A buffer of so many bytes; longer ones have been cut to the length that was asked for.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}

impl Buffer {
    /// One of `length` bytes, whatever they are, for as long as a request takes: all of a longer one may be behind it.
    pub(super) fn of(length: usize) -> Buffer {
        Buffer::within(length, usize::MAX)
    }

    /// One of `length` bytes that may be held for as long as a block is kept: hardly more is behind it, as nobody counts
    /// that.
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

    /// The same to be shared. It is given back by the last who holds it.
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
        // Whoever holds a block to the end of its thread frees it there.
        let _gone = KEPT.try_with(|slot| {
            let mut kept = slot.take();
            // One that is of no use to what is read now is in nobody's way for long.
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
    fn what_is_kept_has_hardly_more_behind_it_than_was_asked_for() {
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
