//! Values of documents: their types, and their equality and order as in Java's classes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;

use super::DEPTH_MAX;
use super::path::Path;
use crate::comparable::compare_decimals;
use crate::foreign::java_stream::{JavaStream, Reason};
use crate::foreign::spark::java_order_of_floats;

/// A fault of a value or an argument. As in HDocDB, a wrong argument makes the comparison false, and any other fault
/// ends the scan.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// An `IllegalArgumentException`.
    Argument(String),
    Other(String),
}

impl Fault {
    pub(super) fn into_reason(self) -> String {
        match self {
            Fault::Argument(reason) | Fault::Other(reason) => reason,
        }
    }
}

/// OJAI's value types, with their codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null = 1,
    Boolean,
    String,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    Decimal,
    Date,
    Time,
    Timestamp,
    Interval,
    Binary,
    Map,
    Array,
}

impl Kind {
    const ALL: [Kind; 17] = [
        Kind::Null,
        Kind::Boolean,
        Kind::String,
        Kind::Byte,
        Kind::Short,
        Kind::Int,
        Kind::Long,
        Kind::Float,
        Kind::Double,
        Kind::Decimal,
        Kind::Date,
        Kind::Time,
        Kind::Timestamp,
        Kind::Interval,
        Kind::Binary,
        Kind::Map,
        Kind::Array,
    ];

    fn of_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

pub(super) type Elements = BTreeMap<u32, Value>;

/// The members of an object. The member that is the document's id is kept apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) id: Option<Box<Value>>,
    pub(super) entries: BTreeMap<String, Value>,
}

/// A value, and the timestamp of its cell in ms.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) content: Content,
    pub(super) time: i64,
}

/// The value that is used where a document has none.
pub(super) static NULL: Value = Value { content: Content::Scalar(Kind::Null, Bytes::new()), time: 0 };

#[derive(Clone, Debug)]
pub(super) enum Content {
    Scalar(Kind, Bytes),
    Map(Members),
    Array(Elements),
}

/// A scalar as the Java object with which HDocDB compares it.
#[derive(Debug)]
enum Object<'a> {
    Null,
    Boolean(bool),
    String(std::borrow::Cow<'a, str>),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal(&'a [u8]),
    Date(i32),
    Time(i32),
    Timestamp(i64),
    Interval(i64),
    Binary(&'a [u8]),
}

impl Value {
    pub(super) fn new(content: Content) -> Value {
        Value { content, time: 0 }
    }

    /// Decodes a value from a stream.
    pub(super) fn read(stream: &mut JavaStream<'_>, depth: usize) -> Result<Value, Reason> {
        if depth > DEPTH_MAX {
            return Err(format!("values are nested deeper than {DEPTH_MAX}"));
        }
        let code = stream.byte()?;
        let kind = Kind::of_code(code).ok_or_else(|| format!("{code} is no type, expected 1 to 17"))?;
        Ok(match kind {
            Kind::Array => {
                let mut elements = Elements::new();
                let count = stream.count()?;
                stream.count_object(map_bytes(count))?;
                for index in 0..count as u32 {
                    elements.insert(index, Value::read(stream, depth + 1)?);
                }
                Value::new(Content::Array(elements))
            }
            Kind::Map => {
                let mut map = Value::new(Content::Map(Members::default()));
                let count = stream.count()?;
                stream.count_object(map_bytes(count))?;
                for _ in 0..count {
                    let path = Path::parse(&stream.utf()?).map_err(Fault::into_reason)?;
                    // Each step of the path is a level of its own, and each but the first has a map of its own.
                    stream.count_object((path.0.len() - 1) * map_bytes(1))?;
                    let value = Value::read(stream, depth + path.0.len())?;
                    map.set(&path.0, value, false).map_err(Fault::into_reason)?;
                }
                map
            }
            scalar => Value::new(Content::Scalar(scalar, stream.long_bytes()?)),
        })
    }

    pub(super) fn kind(&self) -> Kind {
        match &self.content {
            Content::Scalar(kind, _) => *kind,
            Content::Map(_) => Kind::Map,
            Content::Array(_) => Kind::Array,
        }
    }

    pub(super) fn elements(&self) -> Option<&Elements> {
        match &self.content {
            Content::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// Returns the value of a timestamp, in ms; fails for a value of another type.
    pub(super) fn timestamp(&self) -> Result<i64, Fault> {
        match &self.content {
            Content::Scalar(Kind::Timestamp, bytes) => number(bytes).map(i64::from_be_bytes),
            _ => {
                Err(Fault::Other(format!("a timestamp was expected, not a value of type {:?}", self.kind())))
            }
        }
    }

    /// Returns the Java object of a scalar; `None` for an array or object.
    fn object(&self) -> Result<Option<Object<'_>>, Fault> {
        let Content::Scalar(kind, bytes) = &self.content else { return Ok(None) };
        Ok(Some(match kind {
            Kind::Boolean => match bytes[..] {
                [byte] => Object::Boolean(byte != 0),
                _ => return Err(length(bytes, 1)),
            },
            Kind::String => Object::String(String::from_utf8_lossy(bytes)),
            Kind::Byte => match bytes[..] {
                [byte] => Object::Byte(byte as i8),
                _ => return Err(Fault::Other(format!("a byte has {} bytes", bytes.len()))),
            },
            Kind::Short => Object::Short(i16::from_be_bytes(number(bytes)?)),
            Kind::Int => Object::Int(i32::from_be_bytes(number(bytes)?)),
            Kind::Long => Object::Long(i64::from_be_bytes(number(bytes)?)),
            Kind::Float => Object::Float(f32::from_be_bytes(number(bytes)?)),
            Kind::Double => Object::Double(f64::from_be_bytes(number(bytes)?)),
            Kind::Decimal => match bytes.len() {
                0..5 => return Err(Fault::Other(format!("a decimal number has {} bytes", bytes.len()))),
                _ => Object::Decimal(bytes),
            },
            Kind::Date => Object::Date(i32::from_be_bytes(number(bytes)?)),
            Kind::Time => Object::Time(i32::from_be_bytes(number(bytes)?)),
            Kind::Timestamp => Object::Timestamp(i64::from_be_bytes(number(bytes)?)),
            Kind::Interval => Object::Interval(i64::from_be_bytes(number(bytes)?)),
            Kind::Binary => Object::Binary(bytes),
            Kind::Null | Kind::Map | Kind::Array => Object::Null,
        }))
    }

    /// Whether this equals another value. Values of different types are not equal.
    pub(super) fn equals(&self, other: &Value) -> Result<bool, Fault> {
        match (&self.content, &other.content) {
            (Content::Array(mine), Content::Array(others)) => equal_maps(mine, others),
            (Content::Map(mine), Content::Map(others)) => {
                let same_id = match (&mine.id, &others.id) {
                    (None, None) => true,
                    (None, Some(_)) => false,
                    (Some(id), None) => id.kind() == Kind::Null,
                    (Some(mine), Some(other)) => mine.equals(other)?,
                };
                Ok(same_id && equal_maps(&mine.entries, &others.entries)?)
            }
            (Content::Scalar(Kind::Null, _), _) => Ok(other.kind() == Kind::Null),
            (Content::Scalar(..), _) => match (self.object()?, other.object()?) {
                (Some(mine), Some(other)) => Ok(mine.equals(&other)),
                _ => Ok(false),
            },
            _ => Ok(false),
        }
    }

    /// Whether an element of the array equals this value.
    pub(super) fn is_among(&self, elements: &Elements) -> Result<bool, Fault> {
        for element in elements.values() {
            if self.equals(element)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares two values. Fails if their types differ ([`Fault::Argument`]), or if values of this type have no order.
    pub(super) fn compare(&self, other: &Value) -> Result<Ordering, Fault> {
        if self.kind() != other.kind() {
            return Err(Fault::Argument(format!(
                "{:?} does not compare with {:?}",
                self.kind(),
                other.kind()
            )));
        }
        let incomparable = || Fault::Other(format!("values of type {:?} have no order", self.kind()));
        let (mine, other) = (self.object()?.ok_or_else(incomparable)?, other.object()?);
        mine.compare(&other.ok_or_else(incomparable)?).ok_or_else(incomparable)
    }
}

/// Returns the size in bytes of a map with this many members, or of an array: at least one node of a B-tree, and nodes may be
/// half empty.
fn map_bytes(count: usize) -> usize {
    const NODE_ENTRIES: usize = 11;
    let entries = if count == 0 { 0 } else { NODE_ENTRIES.max(count.saturating_mul(2)) };
    entries.saturating_mul(size_of::<(String, Value)>())
}

/// Compares two maps like Java's `AbstractMap.equals`. A null in one map does not equal a missing value in the other.
fn equal_maps<K: Ord>(mine: &BTreeMap<K, Value>, others: &BTreeMap<K, Value>) -> Result<bool, Fault> {
    if mine.len() != others.len() {
        return Ok(false);
    }
    for (key, value) in mine {
        let equal = match others.get(key) {
            Some(other) => value.equals(other)?,
            None => value.kind() == Kind::Null,
        };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}

fn length(bytes: &[u8], expected: usize) -> Fault {
    Fault::Argument(format!("a value has {} bytes, expected {expected}", bytes.len()))
}

/// Decodes a number from the first `N` bytes; further bytes are ignored.
fn number<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Fault> {
    bytes.first_chunk().copied().ok_or_else(|| length(bytes, N))
}

/// Returns the scale of a decimal number, and its digits without leading bytes that repeat the sign.
fn decimal_parts(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (scale, mut digits) = bytes.split_at(4);
    while let [first @ (0 | 0xff), second, ..] = digits
        && (second & 0x80 == 0) == (*first == 0)
    {
        digits = &digits[1..];
    }
    (scale, digits)
}

impl Object<'_> {
    fn equals(&self, other: &Object<'_>) -> bool {
        match (self, other) {
            (Object::Decimal(mine), Object::Decimal(other)) => decimal_parts(mine) == decimal_parts(other),
            (Object::Interval(mine), Object::Interval(other)) => mine == other,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// Compares two objects like `compareTo` of their Java class. That class subtracts dates and times of day, so the
    /// difference may overflow. `None` if the objects cannot be compared.
    fn compare(&self, other: &Object<'_>) -> Option<Ordering> {
        Some(match (self, other) {
            (Object::Boolean(mine), Object::Boolean(other)) => mine.cmp(other),
            (Object::String(mine), Object::String(other)) => mine.encode_utf16().cmp(other.encode_utf16()),
            (Object::Byte(mine), Object::Byte(other)) => mine.cmp(other),
            (Object::Short(mine), Object::Short(other)) => mine.cmp(other),
            (Object::Int(mine), Object::Int(other)) => mine.cmp(other),
            (Object::Long(mine), Object::Long(other))
            | (Object::Timestamp(mine), Object::Timestamp(other)) => mine.cmp(other),
            (Object::Float(mine), Object::Float(other)) => {
                java_order_of_floats((*mine).into(), (*other).into())
            }
            (Object::Double(mine), Object::Double(other)) => java_order_of_floats(*mine, *other),
            (Object::Decimal(mine), Object::Decimal(other)) => return compare_decimals(mine, other),
            (Object::Date(mine), Object::Date(other)) | (Object::Time(mine), Object::Time(other)) => {
                mine.wrapping_sub(*other).cmp(&0)
            }
            (Object::Binary(mine), Object::Binary(other)) => {
                mine.iter().map(|byte| *byte as i8).cmp(other.iter().map(|byte| *byte as i8))
            }
            _ => return None,
        })
    }
}
