//! Computes keys and values of rows from the row number.
//!
//! There are two kinds of tables. HBase's PerformanceEvaluation has the row number in 26 decimal digits as key, and
//! one column. YCSB has keys that begin with `user`, and several fields. YCSB hashes the number into the key, to
//! spread popular rows. Here the choice of rows is spread instead ([`Keys`](crate::Keys)). So rows are in the order
//! of their numbers, and scans can be checked.
//!
//! The value of a field follows from the row number, so every read can be checked, and every write of a row writes
//! the same. Values are slices of one pool of random bytes, so that they cost nothing to make and cannot be
//! compressed. The first byte of a value is the last digit of the row number; with it a filter can select any tenth
//! of the rows.

use std::sync::Arc;

use bytes::Bytes;
use client::{Put, Row};

use crate::random::{Random, spread};

/// Maximum number of digits of a key.
const DIGITS_MAX: usize = 26;
/// Minimum number of digits of a key: those of the greatest row number.
const DIGITS_MIN: usize = 20;
/// Number of offsets in the pool at which values begin, for each digit.
const PLACES: u64 = 1024;
/// Number of bytes between two offsets in the pool at which values begin.
const STRIDE: usize = 64;

/// The layout of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layout {
    /// One column, as in PerformanceEvaluation.
    Evaluation,
    /// Several fields, as in YCSB.
    Ycsb,
}

impl Layout {
    /// Returns the family of all columns.
    pub(crate) fn family(self) -> Bytes {
        Bytes::from_static(match self {
            Layout::Evaluation => b"info0",
            Layout::Ycsb => b"family",
        })
    }

    fn prefix(self) -> &'static [u8] {
        match self {
            Layout::Evaluation => b"",
            Layout::Ycsb => b"user",
        }
    }

    fn digits(self) -> usize {
        match self {
            Layout::Evaluation => DIGITS_MAX,
            Layout::Ycsb => 20,
        }
    }
}

/// The keys and values of a table's rows.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    layout: Layout,
    count: u64,
    digits: usize,
    qualifiers: Arc<[Bytes]>,
    value_size: usize,
    pool: Bytes,
}

impl Rows {
    /// Creates a table with this number of rows and columns, and values of this many bytes.
    pub(crate) fn new(layout: Layout, count: u64, fields: usize, value_size: usize) -> Rows {
        let mut random = Random::new(0, 0);
        let places = 10 * PLACES as usize;
        let mut pool: Vec<u8> = Vec::with_capacity(places * STRIDE + value_size + 8);
        while pool.len() < places * STRIDE + value_size {
            pool.extend_from_slice(&random.next().to_le_bytes());
        }
        for place in 0..places {
            pool[place * STRIDE] = b'0' + (place % 10) as u8;
        }
        let mut qualifiers: Vec<Bytes> = (0..fields)
            .map(|field| match layout {
                Layout::Evaluation => field.to_string().into(),
                Layout::Ycsb => format!("field{field}").into(),
            })
            .collect();
        qualifiers.sort();
        let digits = layout.digits();
        Rows { layout, count, digits, qualifiers: qualifiers.into(), value_size, pool: pool.into() }
    }

    /// Returns the same rows with keys of this many bytes: the prefix, and as many digits as fit, but at least those of
    /// every row number.
    pub(crate) fn with_key_size(self, key_size: usize) -> Rows {
        let digits = key_size.saturating_sub(self.layout.prefix().len()).clamp(DIGITS_MIN, DIGITS_MAX);
        Rows { digits, ..self }
    }

    /// Returns the layout of the table.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of rows of the loaded table.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the size of a value in bytes.
    pub(crate) fn value_size(&self) -> usize {
        self.value_size
    }

    /// Returns the columns, in the order in which a server sorts them.
    pub(crate) fn qualifiers(&self) -> &[Bytes] {
        &self.qualifiers
    }

    /// Returns the size of a row's key and values in bytes, which users see as the size of a row.
    pub(crate) fn row_size(&self) -> u64 {
        (self.key_size() + self.qualifiers.len() * self.value_size) as u64
    }

    /// Returns the size of a key in bytes.
    pub(crate) fn key_size(&self) -> usize {
        self.layout.prefix().len() + self.digits
    }

    /// Returns the key of a row.
    pub(crate) fn key(&self, number: u64) -> Bytes {
        let prefix = self.layout.prefix();
        let mut key = [b'0'; 4 + DIGITS_MAX];
        key[..prefix.len()].copy_from_slice(prefix);
        let key = &mut key[..self.key_size()];
        let mut rest = number;
        for digit in key.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Bytes::copy_from_slice(key)
    }

    /// Returns the value of a field of a row.
    pub(crate) fn value(&self, number: u64, field: usize) -> Bytes {
        let place = (spread(number ^ (field as u64) << 56) % PLACES * 10 + number % 10) as usize;
        self.pool.slice(place * STRIDE..place * STRIDE + self.value_size)
    }

    /// Returns a put of the whole row.
    pub(crate) fn put(&self, number: u64) -> Put {
        self.put_at(self.key(number), number)
    }

    /// Returns a put of the whole row under another key.
    pub(crate) fn put_at(&self, key: Bytes, number: u64) -> Put {
        let family = self.layout.family();
        self.qualifiers.iter().enumerate().fold(Put::row(key), |put, (field, qualifier)| {
            put.set(family.clone(), qualifier.clone(), self.value(number, field))
        })
    }

    /// Whether `row` is exactly the row with this number.
    pub(crate) fn is_right(&self, number: u64, row: &Row) -> bool {
        row.cells().len() == self.qualifiers.len()
            && row.key() == &self.key(number)[..]
            && row.cells().iter().zip(&self.qualifiers[..]).enumerate().all(|(field, (cell, qualifier))| {
                let cell = cell.view();
                cell.qualifier() == &qualifier[..] && cell.value() == &self.value(number, field)[..]
            })
    }

    /// Returns the number of the row with this key; `None` for a key of another form.
    pub(crate) fn number(&self, key: &[u8]) -> Option<u64> {
        let digits = key.strip_prefix(self.layout.prefix())?;
        if digits.len() != self.digits {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Returns the split keys of `regions` parts of equal size, but of no more parts than there are rows.
    pub(crate) fn split_keys(&self, regions: u64) -> Vec<Bytes> {
        let regions = regions.min(self.count);
        (1..regions)
            .map(|region| {
                self.key((u128::from(self.count) * u128::from(region) / u128::from(regions)) as u64)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let rows = Rows::new(Layout::Evaluation, 10, 1, 1);
        assert_eq!(rows.key(0), "00000000000000000000000000");
        assert_eq!(rows.key(1_234), "00000000000000000000001234");
        assert_eq!((rows.number(&rows.key(77)), rows.number(b"77")), (Some(77), None));
        let short = rows.clone().with_key_size(22);
        assert_eq!((short.key(1_234), short.key_size()), ("0000000000000000001234".into(), 22));
        assert_eq!(short.number(&short.key(77)), Some(77));
        assert!(rows.key(9) < rows.key(10) && rows.key(999) < rows.key(u64::MAX));
        let rows = Rows::new(Layout::Ycsb, 10, 10, 1);
        assert_eq!(rows.key(1_234), "user00000000000000001234");
        assert_eq!(rows.key(u64::MAX), "user18446744073709551615");
    }

    #[test]
    fn a_value_begins_with_the_last_digit_of_its_row_and_is_always_the_same() {
        let rows = Rows::new(Layout::Ycsb, 1_000, 2, 100);
        for number in 0..1_000 {
            for field in 0..2 {
                let value = rows.value(number, field);
                assert_eq!((value.len(), value[0]), (100, b'0' + (number % 10) as u8));
                assert_eq!(value, rows.value(number, field));
            }
        }
        assert_ne!(rows.value(1, 0), rows.value(11, 0));
        assert_ne!(rows.value(1, 0), rows.value(1, 1));
    }

    #[test]
    fn regions_have_the_same_size() {
        let rows = Rows::new(Layout::Evaluation, 1_000, 1, 1);
        assert_eq!(rows.split_keys(4), [rows.key(250), rows.key(500), rows.key(750)]);
        assert_eq!(rows.split_keys(1), Vec::<Bytes>::new());
    }
}
