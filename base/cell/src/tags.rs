//! Tags: small typed values attached to a cell.
//!
//! The layout of each tag is `length 2B (of type and value) · type 1B · value`.

use crate::{Malformed, Result};

/// HBase's tag types that the server interprets (`TagType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TagType {
    /// An access control list.
    Acl = 1,
    /// A visibility expression.
    Visibility = 2,
    /// The value is in a MOB file, and this cell refers to it. The tag has no value.
    MobReference = 5,
    /// The name of the table whose MOB file has the value.
    MobTableName = 6,
    /// The time to live of the cell, 8 bytes, in milliseconds.
    Ttl = 8,
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// The type code.
    pub code: u8,
    /// The value.
    pub value: &'a [u8],
}

/// The tags of a cell, in order.
#[derive(Clone, Copy, Debug)]
pub struct Tags<'a>(&'a [u8]);

impl<'a> Tags<'a> {
    /// Validates that `bytes` are complete tags and nothing else.
    pub fn parse(bytes: &'a [u8]) -> Result<Tags<'a>> {
        let mut at = 0;
        while at < bytes.len() {
            let room = bytes.len() - at;
            let length = match bytes[at..] {
                [high, low, ..] => usize::from(u16::from_be_bytes([high, low])),
                _ => return Err(Malformed { what: "tag", offset: at, expected: 3, found: room as u64 }),
            };
            if length == 0 || length > room - 2 {
                let expected = room as u64 - 2;
                return Err(Malformed { what: "tag length", offset: at, expected, found: length as u64 });
            }
            at += 2 + length;
        }
        Ok(Tags(bytes))
    }

    /// Wraps bytes that were validated before. If they are not complete tags, the iterator ends before the first
    /// incomplete one.
    #[inline]
    pub fn trusted(bytes: &'a [u8]) -> Tags<'a> {
        Tags(bytes)
    }

    /// Returns the encoded tags, without the length that precedes them in the cell.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether there are no tags.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first tag of this type; `None` if there is none.
    pub fn find(self, wanted: TagType) -> Option<Tag<'a>> {
        self.into_iter().find(|tag| tag.code == wanted as u8)
    }
}

impl<'a> IntoIterator for Tags<'a> {
    type Item = Tag<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        Iter(self.0)
    }
}

/// Iterates over the tags of a cell.
#[derive(Clone, Debug)]
pub struct Iter<'a>(&'a [u8]);

impl<'a> Iterator for Iter<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let (length, rest) = self.0.split_first_chunk::<2>()?;
        let (tag, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.0 = rest;
        let (&code, value) = tag.split_first()?;
        Some(Tag { code, value })
    }
}

/// Appends one tag to `out`.
///
/// # Panics
/// When type and value together have more than 65,535 bytes.
pub fn write_tag(out: &mut Vec<u8>, code: u8, value: &[u8]) {
    let length = u16::try_from(value.len() + 1).expect("a tag measures at most 65,535 bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.push(code);
    out.extend_from_slice(value);
}
