//! Comparators: the values that filters compare with.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use cell::compare_bytes;

use crate::{Error, Failure, Result};
use javaregex::{Charset, Regex, STEPS_MAX, TooManySteps};

/// The operator of a comparison. A cell is kept when `part operator value` holds for the compared part of the cell and
/// the comparator's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOperator {
    /// The part is less than the comparator's value.
    Less,
    /// The part is less than or equal to the comparator's value.
    LessOrEqual,
    /// The part equals the comparator's value.
    Equal,
    /// The part does not equal the comparator's value.
    NotEqual,
    /// The part is greater than or equal to the comparator's value.
    GreaterOrEqual,
    /// The part is greater than the comparator's value.
    Greater,
    /// NO_OP: no part is kept. In a SingleColumnValueFilter it is an error.
    NoOp,
}

/// How a bit comparator combines its bits with those of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperator {
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// A regular expression in Java's syntax. A search that exceeds the step limit is an error.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Arc<Regex>,
    text: Arc<str>,
    charset: Charset,
}

impl Pattern {
    /// Compiles a pattern for UTF-8 text. `flags` are the flags of `java.util.regex.Pattern`.
    pub fn new(pattern: &str, flags: i32) -> Result<Pattern> {
        Pattern::in_charset(pattern, flags, Charset::Utf8)
    }

    /// Compiles a pattern for text encoded in `charset`.
    pub fn in_charset(pattern: &str, flags: i32, charset: Charset) -> Result<Pattern> {
        match Regex::new(pattern, flags) {
            Ok(regex) => Ok(Pattern { regex: Arc::new(regex), text: pattern.into(), charset }),
            Err(reason) => Err(Error::Pattern { pattern: pattern.to_owned(), reason }),
        }
    }

    /// Returns the source of the pattern.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn is_found_in(&self, value: &[u8]) -> std::result::Result<bool, Failure> {
        self.regex.find(value, self.charset).map_err(|TooManySteps| Failure::TooManySteps {
            pattern: self.text.to_string(),
            steps: STEPS_MAX,
        })
    }
}

/// The value that a part of a cell is compared with.
#[derive(Clone, Debug)]
pub enum Comparable {
    /// BinaryComparator: compares all bytes of the part.
    Binary(Bytes),
    /// BinaryPrefixComparator: compares as many bytes of the part as the value has.
    BinaryPrefix(Bytes),
    /// BinaryComponentComparator: compares as many bytes as the value has, from an offset in the part on.
    BinaryComponent {
        /// The value that the bytes are compared with.
        value: Bytes,
        /// The offset of the compared bytes in the part.
        offset: usize,
    },
    /// LongComparator: compares the part as a big-endian number of eight bytes. A part of another length is an error.
    Long(i64),
    /// BigDecimalComparator: compares the part as a decimal number that HBase's `Bytes.toBytes(BigDecimal)` encodes:
    /// scale 4B, unscaled value. A part that is not such a number is an error.
    BigDecimal(Bytes),
    /// NullComparator: equals only a missing part. No part of a cell is missing, so nothing is equal to it.
    Null,
    /// BitComparator: equal when value and part have the same length, and their combined bits have any bit set.
    Bit {
        /// The value whose bits are combined with the part's.
        value: Bytes,
        /// How the bits are combined.
        operator: BitOperator,
    },
    /// RegexStringComparator: equal when the pattern is found in the part. A search that takes too many steps is an
    /// error.
    Regex(Pattern),
    /// SubstringComparator: its value is a text in lower case. Equal when the part, converted to lower case, contains
    /// that text.
    Substring(String),
    /// No comparator was given: each comparison is an error.
    Missing,
}

impl Comparable {
    /// Creates a comparator that searches for a text regardless of case.
    pub fn substring(text: &str) -> Comparable {
        Comparable::Substring(text.to_lowercase())
    }

    /// Compares the comparator's value with `part`. A comparator that only tests for equality returns `Equal` or
    /// `Greater`. Fails if the part cannot be compared.
    pub fn compare(&self, part: &[u8]) -> std::result::Result<Ordering, Failure> {
        let found = |found: bool| if found { Ordering::Equal } else { Ordering::Greater };
        Ok(match self {
            Comparable::Binary(mine) => compare_bytes(mine, part),
            Comparable::BinaryPrefix(mine) => compare_bytes(mine, &part[..part.len().min(mine.len())]),
            Comparable::BinaryComponent { value, offset } => {
                let from = part.get(*offset..).unwrap_or(&[]);
                compare_bytes(value, &from[..from.len().min(value.len())])
            }
            Comparable::Long(mine) => match <[u8; 8]>::try_from(part) {
                Ok(word) => mine.cmp(&i64::from_be_bytes(word)),
                Err(_) => return Err(Failure::NotALong(part.len())),
            },
            Comparable::BigDecimal(mine) => {
                compare_decimals(mine, part).ok_or(Failure::NotADecimal(part.len()))?
            }
            // A part of a cell always exists, even if it is empty. So it is never equal to null.
            Comparable::Null => Ordering::Greater,
            Comparable::Bit { value, operator } => {
                let any = value.len() == part.len()
                    && value.iter().zip(part).any(|(mine, part)| {
                        let bits = match operator {
                            BitOperator::And => mine & part,
                            BitOperator::Or => mine | part,
                            BitOperator::Xor => mine ^ part,
                        };
                        bits != 0
                    });
                found(any)
            }
            Comparable::Regex(pattern) => found(pattern.is_found_in(part)?),
            Comparable::Substring(text) => found(has_in_lower_case(part, text)),
            Comparable::Missing => return Err(Failure::NoComparator),
        })
    }

    /// Whether a comparison keeps a part of a cell. If the part cannot be compared, returns `false` and stores the
    /// error in `failure`.
    pub(crate) fn keeps(
        &self,
        operator: CompareOperator,
        part: &[u8],
        failure: &mut Option<Failure>,
    ) -> bool {
        if operator == CompareOperator::NoOp {
            return false;
        }
        // `compare` orders the comparator's value relative to the part, so the result is reversed for the operator.
        let order = match self.compare(part) {
            Ok(order) => order,
            Err(why) => {
                *failure = Some(why);
                return false;
            }
        };
        match operator {
            CompareOperator::Less => order.is_gt(),
            CompareOperator::LessOrEqual => order.is_ge(),
            CompareOperator::Equal => order.is_eq(),
            CompareOperator::NotEqual => order.is_ne(),
            CompareOperator::GreaterOrEqual => order.is_le(),
            CompareOperator::Greater => order.is_lt(),
            CompareOperator::NoOp => false,
        }
    }
}

/// Maximum length in bytes of a text that is compared at each position of a part. For a longer one this could take as
/// many steps as the product of both lengths.
const COMPARED_TEXT_MAX: usize = 64;

/// Whether `part`, converted to lower case, contains `text`, which is in lower case. Nearly all parts are ASCII, and
/// are not copied, since nearly all texts are short.
fn has_in_lower_case(part: &[u8], text: &str) -> bool {
    if !part.is_ascii() {
        return String::from_utf8_lossy(part).to_lowercase().contains(text);
    }
    if text.len() > COMPARED_TEXT_MAX {
        return String::from_utf8_lossy(&part.to_ascii_lowercase()).contains(text);
    }
    let text = text.as_bytes();
    let Some(first) = text.first() else { return true };
    part.windows(text.len())
        .any(|window| window[0].to_ascii_lowercase() == *first && window.eq_ignore_ascii_case(text))
}

/// Compares two decimal numbers as `Bytes.toBytes(BigDecimal)` encodes them, digit by digit, so that they may have any
/// size. Returns `None` if one of them is not a number.
pub(crate) fn compare_decimals(left: &[u8], right: &[u8]) -> Option<Ordering> {
    let (left, right) = (Decimal::parse(left)?, Decimal::parse(right)?);
    Some(match (left.negative, right.negative) {
        (false, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, false) => left.compare_magnitude(&right),
        (true, true) => right.compare_magnitude(&left),
    })
}

struct Decimal {
    negative: bool,
    /// The digits of the number, most significant first, without leading zeros.
    digits: Vec<u8>,
    scale: i64,
}

impl Decimal {
    fn parse(bytes: &[u8]) -> Option<Decimal> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        let first = *unscaled.first()?;
        // Stored numbers have fewer digits. Without this limit, converting one cell could take minutes.
        if unscaled.len() > 1024 {
            return None;
        }
        let negative = first & 0x80 != 0;
        let mut magnitude = unscaled.to_vec();
        if negative {
            let mut carry = true;
            for byte in magnitude.iter_mut().rev() {
                let (sum, over) = (!*byte).overflowing_add(u8::from(carry));
                (*byte, carry) = (sum, over);
            }
        }
        let mut digits = Vec::new();
        while magnitude.iter().any(|byte| *byte != 0) {
            let mut rest = 0u32;
            for byte in &mut magnitude {
                let value = rest << 8 | u32::from(*byte);
                *byte = (value / 10) as u8;
                rest = value % 10;
            }
            digits.push(rest as u8);
        }
        digits.reverse();
        let negative = negative && !digits.is_empty();
        Some(Decimal { negative, digits, scale: i64::from(i32::from_be_bytes(*scale)) })
    }

    fn compare_magnitude(&self, other: &Decimal) -> Ordering {
        if self.digits.is_empty() || other.digits.is_empty() {
            return other.digits.is_empty().cmp(&self.digits.is_empty());
        }
        let exponent = |number: &Decimal| number.digits.len() as i64 - number.scale;
        exponent(self).cmp(&exponent(other)).then_with(|| {
            let length = self.digits.len().max(other.digits.len());
            let digits = |number: &Decimal| -> Vec<u8> {
                let mut digits = number.digits.clone();
                digits.resize(length, 0);
                digits
            };
            digits(self).cmp(&digits(other))
        })
    }
}
