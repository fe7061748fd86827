//! Memory that records are read into, used again and again: it need not be zeroed each time, and what a thread has just
//! given back is still near the processor.

use std::cell::Cell;

use bytes::Bytes;

/// Buffers that a thread keeps.
const KEPT_MAX: usize = 8;
/// Larger ones are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static KEPT: Cell<Vec<Vec<u8>>> = const { Cell::new(Vec::new()) };
}

/// A buffer of so many bytes; longer ones have been cut to the length that was asked for.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}

impl Buffer {
    /// One of `length` bytes, whatever they are.
    pub(super) fn of(length: usize) -> Buffer {
        let mut kept = KEPT.take();
        let fits = kept.iter().rposition(|bytes| bytes.len() >= length);
        let bytes = fits.map_or_else(|| vec![0; length], |at| kept.swap_remove(at));
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
            if kept.len() < KEPT_MAX {
                kept.push(std::mem::take(&mut self.bytes));
            }
            slot.set(kept);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
