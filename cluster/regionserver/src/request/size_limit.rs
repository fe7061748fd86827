//! Limits the memory that a decoded request takes, relative to its length on the wire.
//!
//! An empty message takes two bytes on the wire, and hundreds of bytes when it is decoded. So a list of empty messages
//! in one frame could take gigabytes. No client has a reason to send one. The messages of which a request may have many
//! are therefore counted while they are decoded, or before.

use std::ops::Range;

use proto::wire::{Fields, Value};

/// Size of a decoded request in bytes that is always permitted.
const ALWAYS: usize = 64 << 20;

/// Maximum size of a larger decoded request, as a multiple of its length on the wire. Requests of clients have less,
/// even if each action has different columns.
const FACTOR_MAX: usize = 16;

/// A request would take too much memory.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its messages would take {decoded} bytes of memory, at most {allowed} are allowed for a request of {length} bytes; \
     send fewer actions in a request"
)]
pub(crate) struct Oversized {
    decoded: usize,
    allowed: usize,
    length: usize,
}

/// Checks the size in memory of a request that has `length` bytes on the wire.
#[inline]
pub(crate) fn check(decoded: usize, length: usize) -> Result<(), Oversized> {
    let allowed = ALWAYS.max(length.saturating_mul(FACTOR_MAX));
    if decoded <= allowed { Ok(()) } else { Err(Oversized { decoded, allowed, length }) }
}

/// Returns the number of messages in field `field` of the message at `range`, or more if the message has something
/// that [`Fields`] does not read. Calls `inside` with the position of each.
pub(super) fn count(
    bytes: &[u8],
    range: Range<usize>,
    field: u64,
    mut inside: impl FnMut(Range<usize>),
) -> usize {
    let (mut fields, mut count) = (Fields::new(bytes, range), 0);
    loop {
        match fields.next() {
            Ok(Some((number, _, Value::Bytes(range)))) if number == field => {
                count += 1;
                inside(range);
            }
            Ok(Some(_)) => {}
            Ok(None) => return count,
            // The plain decoder may be able to read the rest, in which each message takes two bytes or more.
            Err(_) => return count + fields.rest().len() / 2,
        }
    }
}

/// Checks the size of a list in field `field` of a request, whose elements take `each` bytes when they are decoded.
pub(crate) fn check_list(request: &[u8], field: u64, each: usize) -> Result<(), Oversized> {
    let count = count(request, 0..request.len(), field, |_| ());
    check(count.saturating_mul(each), request.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_also_behind_what_cannot_be_read() {
        let list = |count: usize| b"\x0a\x00".repeat(count);
        let count = |bytes: &[u8]| count(bytes, 0..bytes.len(), 1, |_| ());
        assert_eq!(count(&list(1_000)), 1_000);
        assert_eq!(count(&[&b"\x12\x01x"[..], &list(7)].concat()), 7, "another field");
        // Field 15 is an empty group, which the plain decoder skips.
        assert!(count(&[&b"\x7b\x7c"[..], &list(1_000)].concat()) >= 1_000);
        assert!(check_list(&list(1_000), 1, 200).is_ok());
        assert!(check_list(&list(1_000_000), 1, 200).is_err());
        assert!(check(320 << 20, 20 << 20).is_ok() && check((320 << 20) + 1, 20 << 20).is_err());
    }
}
