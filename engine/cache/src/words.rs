//! Numbers that belong to a block, in memory of their own or inside a record of a [device](crate::Bucket).
//!
//! A record stores a block's numbers in little endian on a boundary of four bytes, so that a block read in place needs
//! no further memory. On a big-endian machine, or in an unaligned buffer, the numbers are copied.

use std::ops::Deref;

use bytes::Bytes;

/// A slice of numbers; see the module documentation. Reading it is equally fast wherever the numbers are.
pub struct Words {
    /// Points into memory that `owner` keeps alive.
    start: *const u32,
    length: usize,
    _owner: Owner,
}

/// The owner of the numbers' memory. Moving an owner does not move the numbers.
enum Owner {
    Own(#[expect(dead_code, reason = "kept for what it keeps")] Box<[u32]>),
    Record(#[expect(dead_code, reason = "kept for what it keeps")] Bytes),
}

#[expect(unsafe_code, reason = "a pointer into what is owned beside it")]
// SAFETY: both owners are `Send`, and the pointer leads into memory that they own and nobody writes to.
unsafe impl Send for Words {}
#[expect(unsafe_code, reason = "a pointer into what is owned beside it")]
// SAFETY: as for `Send` above; the only operation is reading.
unsafe impl Sync for Words {}

impl Words {
    /// Returns the numbers in `bytes`: four bytes each, little endian. They are not copied if the machine can read them
    /// in place. A remainder of fewer than four bytes is ignored.
    pub(crate) fn within(bytes: Bytes) -> Words {
        let length = bytes.len() / 4;
        let start = bytes.as_ptr().cast::<u32>();
        if cfg!(target_endian = "little") && start.is_aligned() {
            return Words { start, length, _owner: Owner::Record(bytes) };
        }
        Words::copied(&bytes)
    }

    /// Like [`within`](Self::within), but always copies: the safe version with which tests compare it.
    fn copied(bytes: &[u8]) -> Words {
        let words = bytes.chunks_exact(4);
        words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }
}

impl Deref for Words {
    type Target = [u32];

    #[inline]
    #[expect(unsafe_code, reason = "a borrow from what is owned beside it")]
    fn deref(&self) -> &[u32] {
        // SAFETY: `start` is aligned and points to `length` numbers in memory of the owner, which is neither changed
        // nor dropped before `self`. Any bytes are valid numbers.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl From<Box<[u32]>> for Words {
    fn from(own: Box<[u32]>) -> Words {
        Words { start: own.as_ptr(), length: own.len(), _owner: Owner::Own(own) }
    }
}

impl<const COUNT: usize> From<[u32; COUNT]> for Words {
    fn from(own: [u32; COUNT]) -> Words {
        Words::from(Box::from(own) as Box<[u32]>)
    }
}

impl FromIterator<u32> for Words {
    fn from_iter<I: IntoIterator<Item = u32>>(words: I) -> Words {
        words.into_iter().collect::<Box<[u32]>>().into()
    }
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_in_place_equal_those_of_a_copy() {
        let bytes: Bytes = (0..=200u8).collect::<Vec<u8>>().into();
        for from in 0..8 {
            for until in from..=40 {
                let part = bytes.slice(from..until);
                assert_eq!(&*Words::within(part.clone()), &*Words::copied(&part), "{from}..{until}");
            }
        }
        let moved = std::thread::scope(|scope| {
            let words = Words::within(bytes.slice(4..12));
            scope.spawn(move || words).join().expect("no panic")
        });
        drop(bytes);
        assert_eq!(&*moved, [0x0706_0504, 0x0b0a_0908]);
        assert_eq!(&*Words::from([1, 2]), [1, 2]);
        assert!(Words::from([]).is_empty());
    }
}
