//! Java's BigDecimal with the arithmetic of BigDecimalColumnInterpreter: rounded to two places, half to even.
//!
//! A value is a scale of 4 bytes and then the unscaled number, big-endian in two's complement, as HBase's
//! `Bytes.toBytes` writes it. Here a number has at most 16 bytes, or some 36 digits before the point; Java's have no
//! limit.

/// The scale of all numbers after reading.
const SCALE: i32 = 2;

/// The exponent of the largest power of ten that fits into 16 bytes.
const POWER_MAX: u32 = 38;

/// A decimal number: `unscaled` × 10^-`scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    unscaled: i128,
    scale: i32,
}

impl Decimal {
    /// Java's `BigDecimal.valueOf(Double.MIN_VALUE)`.
    pub(super) const TINY: Decimal = Decimal { unscaled: 49, scale: 325 };

    /// Reads a value and rounds it; the error says why the value is not a number.
    pub(super) fn read(value: &[u8]) -> Result<Decimal, &'static str> {
        const TOO_LARGE: &str = "the number has more than 16 bytes at two places after the point";
        let (scale, bytes) = value
            .split_first_chunk::<4>()
            .filter(|(_, bytes)| !bytes.is_empty())
            .ok_or("a BigDecimal has 5 bytes or more")?;
        // Leading bytes that only repeat the sign carry no information, so they are skipped.
        let sign = if bytes[0] >= 0x80 { 0xff } else { 0 };
        let (head, tail) = bytes.split_at(bytes.len().saturating_sub(16));
        if head.iter().any(|byte| *byte != sign) || (!head.is_empty() && (tail[0] ^ sign) >= 0x80) {
            return Err(TOO_LARGE);
        }
        let mut word = [sign; 16];
        word[16 - tail.len()..].copy_from_slice(tail);
        let number = i128::from_be_bytes(word);
        let shift = i64::from(SCALE) - i64::from(i32::from_be_bytes(*scale));
        let power = u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX);
        let unscaled = if number == 0 {
            Some(0)
        } else if shift >= 0 {
            10i128.checked_pow(power).and_then(|power| number.checked_mul(power))
        } else if power > POWER_MAX {
            // The result is 0: any number of 16 bytes is less than half of the last place, because 2^127 < 5 * 10^38.
            Some(0)
        } else {
            Some(rounded(number, 10i128.pow(power)))
        };
        unscaled.map(|unscaled| Decimal { unscaled, scale: SCALE }).ok_or(TOO_LARGE)
    }

    /// Returns the sum; `None` when it is too large.
    pub(super) fn plus(self, other: Decimal) -> Option<Decimal> {
        Some(Decimal { unscaled: self.unscaled.checked_add(other.unscaled)?, ..self })
    }

    /// Returns the square, rounded; `None` when it is too large.
    pub(super) fn square(self) -> Option<Decimal> {
        let square = self.unscaled.checked_mul(self.unscaled)?;
        Some(Decimal { unscaled: rounded(square, 10i128.pow(SCALE.unsigned_abs())), ..self })
    }

    /// Whether the number is greater than another one of the same scale.
    pub(super) fn is_greater(self, other: Decimal) -> bool {
        self.unscaled > other.unscaled
    }

    /// Returns the bytes that Java's `Bytes.toBytes(BigDecimal)` writes.
    pub(super) fn encode(self) -> Vec<u8> {
        let word = self.unscaled.to_be_bytes();
        let sign = if self.unscaled < 0 { 0xff } else { 0 };
        // The encoding begins at the first byte that is not only a repetition of the sign.
        let start = (0..15).find(|&at| word[at] != sign || (word[at + 1] ^ sign) >= 0x80).unwrap_or(15);
        [&self.scale.to_be_bytes()[..], &word[start..]].concat()
    }
}

/// Returns the quotient, rounded to the nearest number, or to the even one of two. The divisor is a power of ten.
fn rounded(number: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (number / divisor, (number % divisor).unsigned_abs());
    // The rest is compared with the divisor minus the rest, because twice the rest might not fit into the type.
    let above = rest.cmp(&(divisor.unsigned_abs() - rest));
    if above.is_gt() || (above.is_eq() && quotient % 2 != 0) { quotient + number.signum() } else { quotient }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(scale: i32, unscaled: &[u8]) -> Vec<u8> {
        [&scale.to_be_bytes()[..], unscaled].concat()
    }

    fn read(scale: i32, unscaled: &[u8]) -> i128 {
        Decimal::read(&value(scale, unscaled)).expect("a number").unscaled
    }

    #[test]
    fn numbers_are_rounded_to_two_places_half_to_even() {
        assert_eq!(read(0, &[5]), 500);
        assert_eq!(read(2, &[0xff]), -1);
        assert_eq!(read(3, &[15]), 2, "0.015");
        assert_eq!(read(3, &[25]), 2, "0.025");
        assert_eq!(read(3, &[26]), 3, "0.026");
        assert_eq!(read(3, &[0xf1]), -2, "-0.015");
        assert_eq!(read(-1, &[1]), 1000);
        assert_eq!(read(1000, &[0x7f; 16]), 0);
        assert_eq!(read(40, &[0x7f; 16]), 2, "1.7 at two places");
        assert_eq!(read(i32::MIN, &[0]), 0);
        assert_eq!(read(2, &[&[0xff; 20][..], &[0x80; 1]].concat()), -128, "the sign may be repeated");
    }

    #[test]
    fn what_is_no_number_here_is_refused() {
        for (scale, unscaled) in
            [(0, &[][..]), (0, &[1; 17][..]), (0, &[0x7f; 16][..]), (-40, &[1][..]), (i32::MIN, &[1][..])]
        {
            assert!(Decimal::read(&value(scale, unscaled)).is_err(), "{scale} {unscaled:?}");
        }
        let sign = [&[0][..], &[0x80; 16]].concat();
        assert!(Decimal::read(&value(2, &sign)).is_err(), "2^127 has 17 bytes");
        assert!(Decimal::read(b"123").is_err());
        let large = Decimal { unscaled: i128::MAX, scale: 2 };
        assert_eq!((large.plus(large), large.square()), (None, None));
    }

    #[test]
    fn numbers_are_written_as_java_writes_them() {
        for (unscaled, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0, 128]),
            (-128, &[128]),
            (-129, &[0xff, 0x7f]),
            (49, &[49]),
        ] {
            let decimal = Decimal { unscaled, scale: 2 };
            assert_eq!(decimal.encode(), value(2, bytes), "{unscaled}");
            assert_eq!(Decimal::read(&decimal.encode()), Ok(decimal));
        }
        assert_eq!(Decimal::TINY.encode(), value(325, &[49]));
        let square = Decimal { unscaled: 15, scale: 2 }.square();
        assert_eq!(square, Some(Decimal { unscaled: 2, scale: 2 }), "0.15² is 0.0225");
    }
}
