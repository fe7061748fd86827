//! The part of protobuf that the envelope needs, decoded without copies.
//!
//! Header and framing are decoded for every call, so they are read field by field in the frame itself. Rarely used
//! messages are decoded by `prost`.

use bytes::BufMut;

/// The bytes are not valid protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf at byte {offset}: {what}")]
pub(crate) struct Malformed {
    pub(crate) offset: usize,
    pub(crate) what: &'static str,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    /// The range of a length-delimited value.
    Bytes(usize, usize),
}

impl Value {
    pub(crate) fn number(self, offset: usize) -> Result<u64, Malformed> {
        match self {
            Value::Number(number) => Ok(number),
            Value::Bytes(..) => Err(Malformed { offset, what: "expected a number" }),
        }
    }

    pub(crate) fn range(self, offset: usize) -> Result<(usize, usize), Malformed> {
        match self {
            Value::Bytes(from, to) => Ok((from, to)),
            Value::Number(_) => Err(Malformed { offset, what: "expected a run of bytes" }),
        }
    }
}

/// Decodes the varint at `at` and returns it with its length; `None` when it does not end within `bytes`.
pub(crate) fn varint(bytes: &[u8], at: usize) -> Result<Option<(u64, usize)>, Malformed> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index as u32);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 10 {
        Err(Malformed { offset: at, what: "varint of more than ten bytes" })
    } else {
        Ok(None)
    }
}

/// Iterates over the fields of the message at `at..end` of `bytes`; positions refer to `bytes`.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize, end: usize) -> Fields<'a> {
        assert!(at <= end && end <= bytes.len(), "message at {at}..{end} of {} bytes", bytes.len());
        Fields { bytes, at, end }
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        match varint(&self.bytes[self.at..self.end], self.at)? {
            Some((value, length)) => {
                self.at += length;
                Ok(value)
            }
            None => Err(Malformed { offset: self.at, what: "varint cut short" }),
        }
    }

    fn skip(&mut self, length: u64) -> Result<(usize, usize), Malformed> {
        if length > (self.end - self.at) as u64 {
            return Err(Malformed { offset: self.at, what: "length beyond the message" });
        }
        let from = self.at;
        self.at += length as usize;
        Ok((from, self.at))
    }

    /// Returns the next field's number, the position of its value, and the value.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u64, usize, Value)>, Malformed> {
        if self.at == self.end {
            return Ok(None);
        }
        let key = self.number()?;
        let start = self.at;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => {
                self.skip(8)?;
                Value::Number(0)
            }
            2 => {
                let length = self.number()?;
                let (from, to) = self.skip(length)?;
                Value::Bytes(from, to)
            }
            5 => {
                self.skip(4)?;
                Value::Number(0)
            }
            _ => return Err(Malformed { offset: start, what: "unknown wire type" }),
        };
        if key >> 3 == 0 {
            return Err(Malformed { offset: start, what: "field number zero" });
        }
        Ok(Some((key >> 3, start, value)))
    }
}

pub(crate) fn put_varint(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub(crate) fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

pub(crate) fn put_number(out: &mut impl BufMut, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

pub(crate) fn put_bytes(out: &mut impl BufMut, field: u32, value: &[u8]) {
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
    }

    #[test]
    fn fields_do_not_reach_beyond_their_message() {
        let mut bytes = Vec::new();
        put_number(&mut bytes, 1, 300);
        put_bytes(&mut bytes, 2, b"abc");
        let mut fields = Fields::new(&bytes, 0, bytes.len());
        assert!(matches!(fields.next(), Ok(Some((1, _, Value::Number(300))))));
        assert!(matches!(fields.next(), Ok(Some((2, _, Value::Bytes(5, 8))))));
        assert_eq!(fields.next(), Ok(None));
        for end in 1..bytes.len() {
            let mut fields = Fields::new(&bytes, 0, end);
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
