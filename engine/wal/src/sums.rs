//! Checksums, also of many ranges of the same bytes.
//!
//! A reader that looks for a whole batch in the rest of a file computes a checksum for each place that may be the header
//! of one. Clients choose most of these bytes, so very many places may look like the header of a long batch. So the
//! reader does not read all bytes of each range. It computes the checksum of each step of the bytes once, and combines:
//!
//! - `sum(a · b) = sum(a) · x^(8 · length of b) + sum(b)`
//! - so the sum of a range of whole steps follows from the sums of what is before it and what is up to its end.
//!
//! Sums are polynomials over GF(2) modulo that of CRC-32C, and their lowest bit is the coefficient of x^31.

use std::ops::Range;

/// The polynomial of CRC-32C without x^32.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// The polynomials 1 and x.
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;
/// Number of bytes of a step.
const STEP: usize = 4 << 10;

/// The polynomials x^(8 · 2^n).
const POWERS: [u32; u32::BITS as usize] = {
    let mut powers = [0; u32::BITS as usize];
    // Three squares of x are x^8.
    let (mut power, mut squares) = (X, 0);
    while squares < 3 + powers.len() {
        if squares >= 3 {
            powers[squares - 3] = power;
        }
        power = times(power, power);
        squares += 1;
    }
    powers
};

/// Multiplies two polynomials.
const fn times(left: u32, mut right: u32) -> u32 {
    let (mut product, mut coefficient) = (0, ONE);
    while coefficient != 0 {
        if left & coefficient != 0 {
            product ^= right;
        }
        right = if right & 1 == 0 { right >> 1 } else { (right >> 1) ^ POLYNOMIAL };
        coefficient >>= 1;
    }
    product
}

/// Returns the checksum of these parts together.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

/// Returns the checksum of some bytes with the sum `before` and `length` bytes with the sum `after` behind them.
pub(crate) fn combined(before: u32, after: u32, length: u32) -> u32 {
    let bits = (0..u32::BITS).filter(|bit| length >> bit & 1 == 1);
    bits.fold(before, |shifted, bit| times(POWERS[bit as usize], shifted)) ^ after
}

/// The checksums of all ranges of some bytes.
pub(crate) struct Sums<'b> {
    bytes: &'b [u8],
    /// The sum of the first `n` steps, for each `n`.
    of_steps: Vec<u32>,
}

impl<'b> Sums<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Sums<'b> {
        let mut of_steps = vec![crc32c(&[])];
        for step in bytes.chunks_exact(STEP) {
            of_steps.push(combined(of_steps[of_steps.len() - 1], crc32c(&[step]), STEP as u32));
        }
        Sums { bytes, of_steps }
    }

    /// Returns the checksum of a range, which has less than 4 GB.
    pub(crate) fn of(&self, range: Range<usize>) -> u32 {
        let (first, last) = (range.start.div_ceil(STEP), range.end / STEP);
        if last <= first {
            return crc32c(&[&self.bytes[range]]);
        }
        let (begin, end) = (first * STEP, last * STEP);
        let length = |range: &Range<usize>| (range.end - range.start) as u32;
        let (steps, tail) = (begin..end, end..range.end);
        // The sum of the steps is what their end adds to the sum of everything before them.
        let of_steps = combined(self.of_steps[first], self.of_steps[last], length(&steps));
        let with_steps = combined(crc32c(&[&self.bytes[range.start..begin]]), of_steps, length(&steps));
        combined(with_steps, crc32c(&[&self.bytes[tail.clone()]]), length(&tail))
    }
}

#[cfg(test)]
mod tests {
    use env::{WallTime, World};

    use super::*;

    #[test]
    fn the_sum_of_each_range_is_that_of_its_bytes() {
        let world = World::simulated(1, WallTime(0));
        let bytes: Vec<u8> = (0..5 * STEP + 77).map(|_| world.random() as u8).collect();
        let sums = Sums::new(&bytes);
        let near = |step: usize| [0, 1, STEP / 2, STEP - 1].map(|offset| step * STEP + offset);
        let places: Vec<usize> = (0..5).flat_map(near).chain([5 * STEP, bytes.len()]).collect();
        for (index, begin) in places.iter().enumerate() {
            for end in &places[index..] {
                assert_eq!(sums.of(*begin..*end), crc32c(&[&bytes[*begin..*end]]), "{begin}..{end}");
            }
        }
        assert_eq!(Sums::new(&[]).of(0..0), crc32c(&[]));
        assert_eq!(
            combined(crc32c(&[b"1234"]), crc32c(&[b"56789"]), 5),
            0xe306_9283,
            "the check value of CRC-32C"
        );
    }
}
