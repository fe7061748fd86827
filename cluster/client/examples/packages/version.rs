//! Debian's order of versions: `[epoch:]upstream[-revision]` (Debian Policy, 5.6.12).
//!
//! Upstream and revision are compared piece by piece: non-digits, then digits, and so on. Among non-digits a tilde
//! sorts before everything, even before the end, and letters sort before all other characters. Digits compare as a
//! number.

use std::cmp::Ordering;

/// Compares two versions.
pub(crate) fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let (one, other) = (Parts::of(one), Parts::of(other));
    pieces(one.epoch, other.epoch)
        .then_with(|| pieces(one.upstream, other.upstream))
        .then_with(|| pieces(one.revision, other.revision))
}

struct Parts<'a> {
    epoch: &'a [u8],
    upstream: &'a [u8],
    revision: &'a [u8],
}

impl Parts<'_> {
    /// Returns the parts of a version; an epoch or revision that is missing counts as 0.
    fn of(version: &[u8]) -> Parts<'_> {
        let (epoch, rest) = match version.iter().position(|byte| *byte == b':') {
            Some(at) => (&version[..at], &version[at + 1..]),
            None => (&b"0"[..], version),
        };
        match rest.iter().rposition(|byte| *byte == b'-') {
            Some(at) => Parts { epoch, upstream: &rest[..at], revision: &rest[at + 1..] },
            None => Parts { epoch, upstream: rest, revision: b"0" },
        }
    }
}

fn pieces(mut one: &[u8], mut other: &[u8]) -> Ordering {
    while !one.is_empty() || !other.is_empty() {
        let (word, digits, rest) = next_piece(one);
        let (other_word, other_digits, other_rest) = next_piece(other);
        let weights =
            |word: &[u8]| -> Vec<u16> { word.iter().map(|byte| weight(*byte)).chain([END]).collect() };
        let order = weights(word)
            .cmp(&weights(other_word))
            .then(digits.len().cmp(&other_digits.len()))
            .then(digits.cmp(other_digits));
        if order.is_ne() {
            return order;
        }
        (one, other) = (rest, other_rest);
    }
    Ordering::Equal
}

/// Splits off the non-digits at the start, and then a number. Returns the non-digits, the number without leading zeros,
/// and the rest.
fn next_piece(version: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let count = |bytes: &[u8], holds: fn(&u8) -> bool| bytes.iter().take_while(|byte| holds(byte)).count();
    let (word, rest) = version.split_at(count(version, |byte| !byte.is_ascii_digit()));
    let (digits, rest) = rest.split_at(count(rest, u8::is_ascii_digit));
    (word, &digits[count(digits, |digit| *digit == b'0')..], rest)
}

/// The rank of the end of a piece: after a tilde and before all other characters.
const END: u16 = 1;

fn weight(byte: u8) -> u16 {
    match byte {
        b'~' => 0,
        byte if byte.is_ascii_alphabetic() => u16::from(byte),
        byte => u16::from(byte) + 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_debians_order() {
        let ascending = [
            "0~",
            "0",
            "1.0~~",
            "1.0~rc1",
            "1.0",
            "1.0-0.1",
            "1.0-1",
            "1.0-1+b1",
            "1.0-1+deb12u1",
            "1.0a",
            "1.0+b",
            "1.2",
            "1.10",
            "1.10.1",
            "2~",
            "10",
            "1:0.1",
            "1:1-1",
        ];
        for (index, one) in ascending.iter().enumerate() {
            for (other_index, other) in ascending.iter().enumerate() {
                let found = compare(one.as_bytes(), other.as_bytes());
                assert_eq!(found, index.cmp(&other_index), "{one} {other}");
            }
        }
        assert_eq!(compare(b"0:1.0-0", b"1.00"), Ordering::Equal);
    }
}
