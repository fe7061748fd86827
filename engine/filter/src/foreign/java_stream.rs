//! Decodes streams that `java.io.ObjectOutputStream` writes, if they contain only primitive data.
//!
//! ```text
//! AC ED 00 05   { 77 length:1 bytes | 7A length:4 bytes }…
//! ```
//!
//! A class that implements `Externalizable` by hand writes only such blocks. A stream with objects is refused, and no
//! class that it names is ever instantiated.

use std::borrow::Cow;

use bytes::Bytes;

const HEADER: &[u8] = &[0xac, 0xed, 0x00, 0x05];
const BLOCK: u8 = 0x77;
const LONG_BLOCK: u8 = 0x7a;

/// Maximum size in bytes of the objects that are decoded from one stream. Without it, an object of a few bytes in the
/// stream would take a thousand bytes of memory.
const OBJECT_BYTES_MAX: usize = 64 << 20;

/// Why a stream cannot be decoded.
pub(super) type Reason = String;

/// The data of a stream, read from the front.
pub(super) struct JavaStream<'a> {
    data: Cow<'a, [u8]>,
    at: usize,
    /// Size of the decoded objects in bytes, as far as they were counted.
    object_bytes: usize,
}

impl<'a> JavaStream<'a> {
    /// Opens a stream. Several blocks are joined; a single block is not copied.
    pub(super) fn open(bytes: &'a [u8]) -> Result<JavaStream<'a>, Reason> {
        let mut left =
            bytes.strip_prefix(HEADER).ok_or("a stream of Java objects begins with AC ED 00 05")?;
        let mut data = Cow::Borrowed(&[][..]);
        while let Some((&kind, rest)) = left.split_first() {
            let (length, rest) = match kind {
                BLOCK => rest.split_first().map(|(&length, rest)| (usize::from(length), rest)),
                LONG_BLOCK => rest.split_first_chunk::<4>().map(|(length, rest)| {
                    // A length that is negative in Java becomes a large number here. So the stream is found to be too
                    // short.
                    (u32::from_be_bytes(*length) as usize, rest)
                }),
                kind => return Err(format!("a block of data was expected, not the kind {kind:#04x}")),
            }
            .ok_or("the stream ends in a block's length")?;
            let (block, rest) = rest.split_at_checked(length).ok_or("the stream ends within a block")?;
            match &mut data {
                data if data.is_empty() => *data = Cow::Borrowed(block),
                data => data.to_mut().extend_from_slice(block),
            }
            left = rest;
        }
        Ok(JavaStream { data, at: 0, object_bytes: 0 })
    }

    /// Counts the memory of an object that is about to be decoded. Fails if all objects of the stream take too much.
    pub(super) fn count_object(&mut self, bytes: usize) -> Result<(), Reason> {
        self.object_bytes = self.object_bytes.saturating_add(bytes);
        match self.object_bytes > OBJECT_BYTES_MAX {
            true => Err(format!("its objects take more than {OBJECT_BYTES_MAX} bytes of memory")),
            false => Ok(()),
        }
    }

    /// Returns the next `length` bytes.
    pub(super) fn bytes(&mut self, length: usize) -> Result<&[u8], Reason> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.data.len());
        let end = end
            .ok_or_else(|| format!("{length} bytes were expected, {} are left", self.data.len() - self.at))?;
        let bytes = &self.data[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Reason> {
        Ok(self.bytes(N)?.try_into().expect("as long as asked"))
    }

    /// Reads a byte, as `readByte` does.
    pub(super) fn byte(&mut self) -> Result<u8, Reason> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a number of four bytes, as `readInt` does.
    pub(super) fn int(&mut self) -> Result<i32, Reason> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Reads a count of following items, each of at least one byte.
    pub(super) fn count(&mut self) -> Result<usize, Reason> {
        let count = self.int()?;
        let left = self.data.len() - self.at;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= left)
            .ok_or_else(|| format!("{count} things were announced, and {left} bytes are left"))
    }

    /// Reads an int, and returns as many of the bytes that follow it.
    pub(super) fn long_bytes(&mut self) -> Result<Bytes, Reason> {
        let length = self.count()?;
        self.bytes(length).map(Bytes::copy_from_slice)
    }

    /// Reads a text, as `readUTF` does: a length of two bytes, then UTF-16 units of one to three bytes each.
    pub(super) fn utf(&mut self) -> Result<String, Reason> {
        let length = u16::from_be_bytes(self.array()?);
        let bytes = self.bytes(usize::from(length))?;
        let (mut units, mut at) = (Vec::with_capacity(bytes.len()), 0);
        while let Some(&first) = bytes.get(at) {
            let tail = |index: usize| {
                let byte = bytes.get(at + index).filter(|byte| **byte & 0xc0 == 0x80);
                byte.map(|byte| u16::from(byte & 0x3f)).ok_or("the text is no UTF-8 of Java's kind")
            };
            let (unit, length) = match first >> 4 {
                0..=7 => (u16::from(first), 1),
                0xc | 0xd => (u16::from(first & 0x1f) << 6 | tail(1)?, 2),
                0xe => (u16::from(first & 0x0f) << 12 | tail(1)? << 6 | tail(2)?, 3),
                _ => return Err("the text is no UTF-8 of Java's kind".to_owned()),
            };
            units.push(unit);
            at += length;
        }
        Ok(String::from_utf16_lossy(&units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(blocks: &[u8]) -> Result<JavaStream<'_>, Reason> {
        JavaStream::open(blocks)
    }

    #[test]
    fn blocks_of_both_kinds_are_one_run_of_data() {
        let stream =
            [HEADER, &[BLOCK, 3, 0, 0, 1], &[LONG_BLOCK, 0, 0, 0, 6, 2, 0, 3, b'a', 0xc0, 0x80]].concat();
        let mut stream = open(&stream).expect("a stream");
        assert_eq!(stream.int(), Ok(0x0000_0102));
        assert_eq!(stream.utf().as_deref(), Ok("a\0"));
        assert!(stream.byte().expect_err("the end").contains("0 are left"));
    }

    #[test]
    fn what_is_no_data_or_ends_early_is_refused() {
        let refused = |tail: &[u8], part: &str| {
            let stream = [HEADER, tail].concat();
            let error = open(&stream).err().unwrap_or_else(|| panic!("{part}"));
            assert!(error.contains(part), "{error}, expected {part}");
        };
        refused(&[0x73], "not the kind 0x73");
        refused(&[BLOCK, 2, 1], "within a block");
        refused(&[LONG_BLOCK, 0xff, 0xff, 0xff, 0xff], "within a block");
        refused(&[LONG_BLOCK, 0], "a block's length");
        assert!(open(b"AB").is_err());
        let stream = [HEADER, &[BLOCK, 4, 0x7f, 0xff, 0xff, 0xff]].concat();
        assert!(open(&stream).expect("a stream").count().expect_err("too many").contains("announced"));
    }
}
