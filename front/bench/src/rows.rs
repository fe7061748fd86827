//! Keys and values: which row has which.
//!
//! Keys are those of HBase's PerformanceEvaluation: the row's number in 26 decimal digits. The value of a row follows from
//! its number, so every read can be checked and every write of a row writes the same. Values are slices of one pool of
//! chance, so that making one costs nothing and no server can compress them away; the first byte of a value is the last
//! digit of its row's number, by which a filter can pick any tenth of the rows.

use bytes::Bytes;

use crate::chance::{Chance, spread};

/// Digits of a key.
const KEY_LENGTH: usize = 26;
/// Places in the pool at which values begin, for each digit.
const PLACES: u64 = 1024;
/// Bytes between two of them.
const STRIDE: usize = 64;

/// All rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    count: u64,
    value_size: usize,
    pool: Bytes,
}

impl Rows {
    /// So many rows with values of so many bytes.
    pub(crate) fn new(count: u64, value_size: usize) -> Rows {
        let mut chance = Chance::new(0, 0);
        let places = 10 * PLACES as usize;
        let mut pool: Vec<u8> = Vec::with_capacity(places * STRIDE + value_size + 8);
        while pool.len() < places * STRIDE + value_size {
            pool.extend_from_slice(&chance.next().to_le_bytes());
        }
        for place in 0..places {
            pool[place * STRIDE] = b'0' + (place % 10) as u8;
        }
        Rows { count, value_size, pool: pool.into() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The key of a row.
    pub(crate) fn key(number: u64) -> Bytes {
        let mut key = [b'0'; KEY_LENGTH];
        let mut rest = number;
        for digit in key.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Bytes::copy_from_slice(&key)
    }

    /// The value of a row.
    pub(crate) fn value(&self, number: u64) -> Bytes {
        let place = (spread(number) % PLACES * 10 + number % 10) as usize;
        self.pool.slice(place * STRIDE..place * STRIDE + self.value_size)
    }

    /// Where the table is cut into `regions` parts of the same size.
    pub(crate) fn split_keys(&self, regions: u64) -> Vec<Bytes> {
        let regions = regions.min(self.count);
        (1..regions)
            .map(|region| {
                Rows::key((u128::from(self.count) * u128::from(region) / u128::from(regions)) as u64)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        assert_eq!(Rows::key(0), "00000000000000000000000000");
        assert_eq!(Rows::key(1_234), "00000000000000000000001234");
        assert!(Rows::key(9) < Rows::key(10) && Rows::key(999) < Rows::key(u64::MAX));
    }

    #[test]
    fn a_value_begins_with_the_last_digit_of_its_row_and_is_always_the_same() {
        let rows = Rows::new(1_000, 100);
        for number in 0..1_000 {
            let value = rows.value(number);
            assert_eq!((value.len(), value[0]), (100, b'0' + (number % 10) as u8));
            assert_eq!(value, rows.value(number));
        }
        assert_ne!(rows.value(1), rows.value(11));
    }

    #[test]
    fn regions_have_the_same_size() {
        let rows = Rows::new(1_000, 1);
        assert_eq!(rows.split_keys(4), [Rows::key(250), Rows::key(500), Rows::key(750)]);
        assert_eq!(rows.split_keys(1), Vec::<Bytes>::new());
    }
}
