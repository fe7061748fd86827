//! References: files that give a store one half of another file, the rows on one side of a split row.
//!
//! ```text
//! <file>.<parent region>:  "PBUF" · Reference{splitkey = key before every cell of the split row, range TOP 0 | BOTTOM 1}
//! before HBase 0.96:       is top 1B · length of the key, variable · key
//! ```
//!
//! The bottom half has the rows before the split row, the top half that row and those after it. Source: HBase 2.6
//! `Reference`.

use bytes::Bytes;
use cell::{Comparator, Key, KeyBuf};
use prost::Message;
use proto::{pb, pbuf};

/// Maximum size of a reference file in bytes: a key of the longest row and some overhead.
pub(crate) const SIZE_MAX: usize = 64 << 10;

/// A side of the split row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// The split row and the rows after it.
    Top,
    /// The rows before the split row.
    Bottom,
}

/// The rows of a file that belong to a store: those on one side of a split row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The side of the split row.
    pub half: Half,
    /// The split row.
    pub split_row: Bytes,
}

impl Reference {
    /// Whether a row is in this half.
    #[inline]
    pub(crate) fn has(&self, row: &[u8], comparator: Comparator) -> bool {
        let is_before = comparator.compare_rows(row, &self.split_row).is_lt();
        is_before == (self.half == Half::Bottom)
    }

    /// Whether this half may have rows from `start` to `stop`; both are inclusive, and empty means unbounded.
    pub(crate) fn may_have(&self, start: &[u8], stop: &[u8], comparator: Comparator) -> bool {
        match self.half {
            Half::Bottom => start.is_empty() || self.has(start, comparator),
            Half::Top => stop.is_empty() || self.has(stop, comparator),
        }
    }

    /// Returns the content of a reference file.
    pub(crate) fn to_file(&self) -> Bytes {
        pbuf::encode(&pb::Reference::from(self))
    }

    /// Parses a reference file. The error describes the content that was found.
    pub(crate) fn of_file(bytes: &[u8]) -> Result<Reference, String> {
        match bytes.strip_prefix(pbuf::MAGIC) {
            Some(message) => {
                let message = pb::Reference::decode(message).map_err(|error| error.to_string())?;
                Reference::try_from(&message)
            }
            None => Reference::of_writable(bytes).ok_or_else(|| format!("{} other bytes", bytes.len())),
        }
    }

    /// Parses the format of HBase before 0.96; `None` for other bytes.
    fn of_writable(bytes: &[u8]) -> Option<Reference> {
        let (&is_top, rest) = bytes.split_first()?;
        let (&first, rest) = rest.split_first()?;
        // Hadoop's variable length: one byte up to 127, else −112 − n and n bytes.
        let (length, rest) = match first as i8 {
            length @ 0.. => (length as usize, rest),
            count @ -120..=-113 => {
                let (number, rest) = rest.split_at_checked(usize::from((-112 - count) as u8))?;
                let number = number.iter().try_fold(0usize, |number, &byte| {
                    number.checked_mul(256).map(|number| number + usize::from(byte))
                });
                (number?, rest)
            }
            _ => return None,
        };
        let key = Key::parse(rest.get(..length)?).ok()?;
        let half = if is_top != 0 { Half::Top } else { Half::Bottom };
        Some(Reference { half, split_row: Bytes::copy_from_slice(key.row()) })
    }
}

impl From<&Reference> for pb::Reference {
    fn from(reference: &Reference) -> pb::Reference {
        let range = match reference.half {
            Half::Top => pb::reference::Range::Top,
            Half::Bottom => pb::reference::Range::Bottom,
        };
        let splitkey = KeyBuf::first_on_row(&reference.split_row);
        pb::Reference { splitkey: Bytes::copy_from_slice(splitkey.key().bytes()), range: range.into() }
    }
}

impl TryFrom<&pb::Reference> for Reference {
    type Error = String;

    fn try_from(message: &pb::Reference) -> Result<Reference, String> {
        let key = Key::parse(&message.splitkey).map_err(|error| error.to_string())?;
        let half = match pb::reference::Range::try_from(message.range) {
            Ok(pb::reference::Range::Top) => Half::Top,
            Ok(pb::reference::Range::Bottom) => Half::Bottom,
            Err(_) => return Err(format!("range {}", message.range)),
        };
        Ok(Reference { half, split_row: Bytes::copy_from_slice(key.row()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_hbases_bytes() {
        let reference = Reference { half: Half::Bottom, split_row: Bytes::from_static(b"mid") };
        let bytes = reference.to_file();
        // Field 1: rowLen 0003 "mid" familyLen 00, the latest timestamp, type Maximum. Field 2: 1.
        let expected = b"PBUF\x0a\x0f\x00\x03mid\x00\x7f\xff\xff\xff\xff\xff\xff\xff\xff\x10\x01";
        assert_eq!(&bytes[..], expected);
        assert_eq!(Reference::of_file(&bytes), Ok(reference));
        let whole = Reference { half: Half::Top, split_row: Bytes::new() };
        assert_eq!(Reference::of_file(&whole.to_file()), Ok(whole));
    }

    #[test]
    fn the_old_format_is_read_and_invalid_bytes_are_refused() {
        let old = b"\x01\x0f\x00\x03mid\x00\x7f\xff\xff\xff\xff\xff\xff\xff\xff";
        let top = Reference { half: Half::Top, split_row: Bytes::from_static(b"mid") };
        assert_eq!(Reference::of_file(old), Ok(top));
        let row = [b'r'; 200];
        let key = KeyBuf::first_on_row(&row);
        let long = [&[0, 0x8f_u8, 212][..], key.key().bytes()].concat();
        let found = Reference::of_file(&long).expect("a long key");
        assert_eq!((found.half, &found.split_row[..]), (Half::Bottom, &row[..]));
        for cut in 0..old.len() {
            assert!(Reference::of_file(&old[..cut]).is_err(), "{cut} bytes");
        }
        assert!(Reference::of_file(b"PBUF").is_err());
        assert!(Reference::of_file(b"PBUF\x0a\x01x\x10\x00").is_err());
    }

    #[test]
    fn halves_share_no_row_and_lack_none() {
        let half = |half| Reference { half, split_row: Bytes::from_static(b"m") };
        let (top, bottom) = (half(Half::Top), half(Half::Bottom));
        for row in ["", "a", "lzzz", "m", "m\0", "z"] {
            let in_top = top.has(row.as_bytes(), Comparator::Table);
            assert_eq!(in_top, row >= "m", "{row:?}");
            assert_ne!(in_top, bottom.has(row.as_bytes(), Comparator::Table), "{row:?}");
        }
        let may = |half: &Reference, start: &str, stop: &str| {
            half.may_have(start.as_bytes(), stop.as_bytes(), Comparator::Table)
        };
        assert!(may(&top, "a", "") && may(&top, "", "") && may(&top, "", "m") && !may(&top, "a", "l"));
        assert!(may(&bottom, "", "a") && may(&bottom, "a", "z") && !may(&bottom, "m", "z"));
    }
}
