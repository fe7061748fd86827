//! Reads the fields of an encoded protobuf message in place, and writes single fields.
//!
//! The headers of calls and the requests on the hot path are read field by field in the frame itself, without
//! allocation or copy. All other messages are decoded by `prost`. Groups are refused; no message of HBase has one.

use std::ops::Range;

use bytes::BufMut;

/// The error of bytes that are not valid protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf at byte {offset}: {what}")]
pub struct Malformed {
    /// Position of the fault in the bytes that the reader was given.
    pub offset: usize,
    /// What is wrong at that position.
    pub what: &'static str,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The number that a varint encodes.
    Number(u64),
    /// The position of a number of fixed length, four or eight bytes.
    Fixed(Range<usize>),
    /// The position of a string, of bytes or of an embedded message.
    Bytes(Range<usize>),
}

impl Value {
    /// Returns the number; fails if the field, which is at `offset`, is not a varint.
    #[inline]
    pub fn number(self, offset: usize) -> Result<u64, Malformed> {
        match self {
            Value::Number(number) => Ok(number),
            Value::Fixed(_) | Value::Bytes(_) => Err(Malformed { offset, what: "expected a number" }),
        }
    }

    /// Returns the range of the bytes; fails if the field, which is at `offset`, has no length.
    #[inline]
    pub fn range(self, offset: usize) -> Result<Range<usize>, Malformed> {
        match self {
            Value::Bytes(range) => Ok(range),
            Value::Number(_) | Value::Fixed(_) => Err(Malformed { offset, what: "expected a run of bytes" }),
        }
    }
}

/// Decodes the varint at the front of `bytes` and returns it with its length; `None` when it does not end within
/// `bytes`. `offset` is the position that an error reports.
#[inline]
pub fn varint(bytes: &[u8], offset: usize) -> Result<Option<(u64, usize)>, Malformed> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        // Ten bytes have room for 70 bits. A negative 32 or 64 bit number takes all ten, the last of which has one bit.
        if index == 9 && *byte > 1 {
            return Err(Malformed { offset, what: "varint of more than 64 bits" });
        }
        value |= u64::from(byte & 0x7f) << (7 * index as u32);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    Ok(None)
}

/// The fields of a message, read one after the other. Positions are those in the bytes that [`Fields::new`] was given.
#[derive(Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// Iterates over the fields of the message at `range` of `bytes`.
    ///
    /// # Panics
    /// When `bytes` does not contain that range.
    #[inline]
    pub fn new(bytes: &'a [u8], range: Range<usize>) -> Fields<'a> {
        let Range { start: at, end } = range;
        assert!(at <= end && end <= bytes.len(), "message at {at}..{end} of {} bytes", bytes.len());
        Fields { bytes, at, end }
    }

    /// Iterates over the fields of the message that takes all of `bytes`.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0, end: bytes.len() }
    }

    /// Returns the range of the fields that have not been read.
    #[inline]
    pub fn rest(&self) -> Range<usize> {
        self.at..self.end
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Malformed> {
        match varint(&self.bytes[self.at..self.end], self.at)? {
            Some((value, length)) => {
                self.at += length;
                Ok(value)
            }
            None => Err(Malformed { offset: self.at, what: "varint cut short" }),
        }
    }

    #[inline]
    fn skip(&mut self, length: u64) -> Result<Range<usize>, Malformed> {
        if length > (self.end - self.at) as u64 {
            return Err(Malformed { offset: self.at, what: "length beyond the message" });
        }
        let from = self.at;
        self.at += length as usize;
        Ok(from..self.at)
    }

    /// Returns the next field's number, the position of its value, and the value; `None` at the message's end.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator would turn each error into an item")]
    pub fn next(&mut self) -> Result<Option<(u64, usize, Value)>, Malformed> {
        if self.at == self.end {
            return Ok(None);
        }
        let key = self.number()?;
        let start = self.at;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => Value::Fixed(self.skip(8)?),
            2 => {
                let length = self.number()?;
                Value::Bytes(self.skip(length)?)
            }
            5 => Value::Fixed(self.skip(4)?),
            _ => return Err(Malformed { offset: start, what: "unknown wire type" }),
        };
        if key >> 3 == 0 {
            return Err(Malformed { offset: start, what: "field number zero" });
        }
        Ok(Some((key >> 3, start, value)))
    }
}

/// Appends a varint of one to ten bytes.
#[inline]
pub fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Returns the number of bytes that [`put_varint`] appends.
#[inline]
pub fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends the field with number `field` and a varint.
#[inline]
pub fn put_number(out: &mut impl BufMut, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

/// Appends the field with number `field` and a string, bytes or an encoded message.
#[inline]
pub fn put_bytes(out: &mut impl BufMut, field: u32, value: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, value.len() as u64);
    out.put_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_varints_are_what_is_written() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_length(value), "{value}");
                assert_eq!(varint(&out, 0), Ok(Some((value, out.len()))));
                for cut in 0..out.len() {
                    assert_eq!(varint(&out[..cut], 0), Ok(None));
                }
            }
        }
        assert!(varint(&[0x80; 12], 0).is_err());
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(varint(&largest, 0), Ok(Some((u64::MAX, 10))));
        largest[9] = 2;
        assert!(varint(&largest, 0).is_err(), "a bit more than there is room for");
    }

    #[test]
    fn fields_do_not_reach_beyond_their_message() {
        let mut bytes = Vec::new();
        put_number(&mut bytes, 1, 300);
        put_bytes(&mut bytes, 2, b"abc");
        let mut fields = Fields::of(&bytes);
        assert!(matches!(fields.next(), Ok(Some((1, _, Value::Number(300))))));
        assert!(matches!(
            fields.next(),
            Ok(Some((2, _, Value::Bytes(std::ops::Range { start: 5, end: 8 }))))
        ));
        assert_eq!(fields.next(), Ok(None));
        for end in 1..bytes.len() {
            let mut fields = Fields::new(&bytes, 0..end);
            let ended = loop {
                match fields.next() {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            assert_eq!(ended.is_ok(), end == 3, "cut at {end}");
        }
    }
}
