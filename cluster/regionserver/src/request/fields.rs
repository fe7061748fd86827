//! Finds the fields of a protobuf message without decoding it.

use std::ops::Range;

use bytes::Bytes;
use proto::pb;

/// The value of one field.
#[derive(Debug)]
pub(super) enum Value {
    Number(u64),
    Bytes(Range<usize>),
}

/// Iterates over the fields of the message at `at..end` of `bytes`.
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Fields<'_> {
    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes[..self.end].get(self.at)?;
            self.at += 1;
            // The nonce group of every other client takes ten bytes, of which the last has one bit.
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next field; `Some(None)` at the end. `None` if the plain decoder might read the message differently.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Option<(u64, Value)>> {
        if self.at == self.end {
            return Some(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let to = self.at.checked_add(length).filter(|to| *to <= self.end)?;
                let from = std::mem::replace(&mut self.at, to);
                Value::Bytes(from..to)
            }
            _ => return None,
        };
        Some(Some((key >> 3, value)))
    }
}

/// The region specifier at `range`, in the form that clients write; `None` if the plain decoder must decode it.
pub(super) fn specifier(bytes: &Bytes, range: Range<usize>) -> Option<pb::RegionSpecifier> {
    let mut fields = Fields { bytes, at: range.start, end: range.end };
    let Some((1, Value::Number(by))) = fields.next()? else { return None };
    let Some((2, Value::Bytes(name))) = fields.next()? else { return None };
    let is_all = fields.next()?.is_none();
    is_all.then(|| pb::RegionSpecifier { r#type: by as i32, value: bytes.slice(name) })
}

#[cfg(test)]
mod tests {
    use env::{WallTime, World};
    use prost::Message;

    use super::*;

    #[test]
    fn the_specifier_equals_that_of_the_plain_decoder() {
        let world = World::simulated(7, WallTime(0));
        let any = |below: u64| world.random() % below;
        // Keys of both fields, of other fields and of other types; lengths, long numbers, and truncated names.
        let parts: [&[u8]; 12] = [
            b"\x08\x01",
            b"\x08\x02",
            b"\x88\x00\x01",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            b"\x12\x01r",
            b"\x12\x00",
            b"\x92\x80\x00\x02rr",
            b"\x12\x05r",
            b"\x18\x01",
            b"\x0a\x01r",
            b"\x11",
        ];
        let mut named = 0;
        for _ in 0..20_000 {
            let bytes = (0..any(4)).flat_map(|_| parts[any(12) as usize]).copied();
            let bytes: Bytes = bytes.collect::<Vec<_>>().into();
            if let Some(found) = specifier(&bytes, 0..bytes.len()) {
                named += 1;
                let expected = pb::RegionSpecifier::decode(bytes.clone());
                assert_eq!(expected.ok(), Some(found), "{}", bytes.escape_ascii());
            }
        }
        assert!(named > 200, "{named} were named as clients do");
        let region = pb::RegionSpecifier { r#type: 1, value: "t,,1.abc.".into() };
        let bytes = Bytes::from([b"..", &region.encode_to_vec()[..], b"."].concat());
        assert_eq!(specifier(&bytes, 2..bytes.len() - 1), Some(region));
    }
}
