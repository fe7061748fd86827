//! The filters of HDocDB, a store of JSON documents in HBase: `HDocumentFilter` and `InclusiveStopPrefixFilter`.
//!
//! A row stores a document: the row key is the document's id, and each value is in a column whose name is the value's
//! path (`a.b[3]`). The filters and the values are streams of Java objects. HDocumentFilter has a tree of conditions on
//! paths, and the paths of the columns that it returns:
//!
//! ```text
//!   filter     leaf:1 node  count:4 path…                                   a path as Java's UTF
//!   leaf       path  operator:4  1 value | 0 type:4                          a parent: and/or:4 count:4 {leaf:1 node}…
//!   value      type:1  length:4 bytes | (array) count:4 value… | (map) count:4 {path value}…
//! ```
//!
//! [`path`] reads paths, [`value`] compares values, [`document`] builds documents and finds values in them.

mod document;
mod path;
mod value;

use std::sync::Arc;

use bytes::Bytes;
use cell::Cell;
use javaregex::Regex;

use super::java_stream::{JavaStream, Reason};
use super::unreadable;
use crate::{Failure, Result};

use document::Found;
use path::Path;
use value::{Fault, Kind, NULL, Value};

const NAME: &str = "HDocumentFilter";

/// Maximum depth of nested conditions, and of nested values, which are cloned and dropped level by level on the stack.
const DEPTH_MAX: usize = 100;

/// Size in bytes of a compiled pattern of a path, generously.
const PATTERN_BYTES: usize = 4 << 10;

/// The column with the time of a document's last change. It is always returned.
const TIME_COLUMN: &[u8] = b"_ts";

/// The state of an HDocumentFilter.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    condition: Condition,
    wanted: Vec<Wanted>,
}

#[derive(Clone, Debug)]
enum Condition {
    Leaf { path: Path, operator: Operator, operand: Operand },
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

#[derive(Clone, Debug)]
enum Operand {
    Value(Value),
    Type(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    None,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    In,
    NotIn,
    /// HDocDB declares this operator but does not evaluate it.
    Unsupported,
    TypeOf,
    NotTypeOf,
}

/// The columns that a query returns.
#[derive(Clone, Debug)]
enum Wanted {
    /// Columns whose name begins with this text.
    Prefix(String),
    /// Columns of array elements; `[]` stands for every index.
    Pattern(Arc<Regex>),
}

impl Documents {
    /// Decodes the filter from the stream that its Java class writes.
    pub(crate) fn read(bytes: &[u8]) -> Result<Documents> {
        let read = || {
            let mut stream = JavaStream::open(bytes)?;
            let condition = read_condition(&mut stream, 0)?;
            let count = stream.count()?;
            let mut wanted = Vec::new();
            for _ in 0..count {
                let path = stream.utf()?;
                if path.contains("[]") {
                    stream.count_object(PATTERN_BYTES)?;
                }
                wanted.push(Wanted::new(path)?);
            }
            Ok(Documents { condition, wanted })
        };
        read().map_err(|reason: Reason| unreadable(NAME, reason))
    }

    /// Decides about a complete row: drops all of its cells, or those that are not wanted.
    pub(crate) fn filter_row_cells(
        &self,
        cells: &[Cell<'_>],
        keep: &mut [bool],
    ) -> std::result::Result<(), Failure> {
        let failed = |fault: Fault| Failure::Document(fault.into_reason());
        let document = Value::of_cells(cells).map_err(failed)?;
        if !self.condition.holds(&document).map_err(failed)? {
            keep.fill(false);
        } else if !self.wanted.is_empty() {
            for (cell, keep) in cells.iter().zip(keep) {
                let column = String::from_utf8_lossy(cell.qualifier());
                *keep &= cell.qualifier() == TIME_COLUMN || self.wants(&column)?;
            }
        }
        Ok(())
    }

    fn wants(&self, column: &str) -> std::result::Result<bool, Failure> {
        for wanted in &self.wanted {
            let fits = match wanted {
                Wanted::Prefix(prefix) => column.starts_with(prefix),
                Wanted::Pattern(pattern) => pattern
                    .matches(column)
                    .map_err(|_| Failure::Document(format!("the path {column:?} takes too long to match")))?,
            };
            if fits {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Wanted {
    fn new(path: String) -> std::result::Result<Wanted, Reason> {
        let parts: Vec<&str> = path.split("[]").collect();
        let Some((last, before)) = parts.split_last().filter(|(_, before)| !before.is_empty()) else {
            return Ok(Wanted::Prefix(path));
        };
        // As in HDocDB, the text after the last brackets is not quoted, so it is part of the pattern.
        let quoted = |part: &&str| format!("\\Q{}\\E\\[\\d+\\]", part.replace("\\E", "\\E\\\\E\\Q"));
        let pattern = format!("^{}{last}", before.iter().map(quoted).collect::<String>());
        let pattern =
            Regex::new(&pattern, 0).map_err(|why| format!("the path {path:?} is no pattern: {why}"))?;
        Ok(Wanted::Pattern(Arc::new(pattern)))
    }
}

fn read_condition(stream: &mut JavaStream<'_>, depth: usize) -> std::result::Result<Condition, Reason> {
    if depth > DEPTH_MAX {
        return Err(format!("conditions are nested deeper than {DEPTH_MAX}"));
    }
    if stream.byte()? == 1 {
        let path = stream.utf()?;
        let path = Path::parse(&path).map_err(Fault::into_reason)?;
        let operator = Operator::of_code(stream.int()?)?;
        let operand = match stream.byte()? {
            1 => Operand::Value(Value::read(stream, 0)?),
            _ => Operand::Type(stream.int()?),
        };
        return Ok(Condition::Leaf { path, operator, operand });
    }
    let kind = stream.int()?;
    let mut children = Vec::new();
    for _ in 0..stream.count()? {
        children.push(read_condition(stream, depth + 1)?);
    }
    match kind {
        1 => Ok(Condition::All(children)),
        2 => Ok(Condition::Any(children)),
        other => Err(format!("the conditions are joined by {other}, expected 1 (and) or 2 (or)")),
    }
}

impl Operator {
    fn of_code(code: i32) -> std::result::Result<Operator, Reason> {
        Ok(match code {
            0 => Operator::None,
            1 => Operator::Less,
            2 => Operator::LessOrEqual,
            3 => Operator::Equal,
            4 => Operator::NotEqual,
            5 => Operator::GreaterOrEqual,
            6 => Operator::Greater,
            7 => Operator::In,
            8 => Operator::NotIn,
            9..=12 => Operator::Unsupported,
            13 => Operator::TypeOf,
            14 => Operator::NotTypeOf,
            code => return Err(format!("{code} is no operator, expected 0 to 14")),
        })
    }

    /// Evaluates an operator that orders values.
    fn accepts(self, order: std::cmp::Ordering) -> bool {
        match self {
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Greater => order.is_gt(),
            _ => false,
        }
    }
}

impl Condition {
    fn holds(&self, document: &Value) -> std::result::Result<bool, Fault> {
        match self {
            Condition::All(children) => {
                for child in children {
                    if !child.holds(document)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Any(children) => {
                for child in children {
                    if child.holds(document)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Condition::Leaf { path, operator, operand } => {
                let found = document.find(path)?;
                let value = found.as_ref().map_or(&NULL, Found::value);
                if let Some(elements) = value.elements() {
                    return any_holds(value, elements, *operator, operand);
                }
                one_holds(value, *operator, operand)
            }
        }
    }
}

fn missing() -> Fault {
    Fault::Other("the condition has a type where its operator needs a value".to_owned())
}

fn one_holds(value: &Value, operator: Operator, operand: &Operand) -> std::result::Result<bool, Fault> {
    match (operator, operand) {
        (Operator::None, _) => Ok(true),
        (Operator::Equal | Operator::NotEqual, operand) => {
            let equal = match operand {
                Operand::Value(wanted) => wanted.equals(value)?,
                Operand::Type(_) => false,
            };
            Ok(equal == (operator == Operator::Equal))
        }
        (Operator::Less | Operator::LessOrEqual | Operator::GreaterOrEqual | Operator::Greater, operand) => {
            if value.kind() == Kind::Null {
                return Ok(false);
            }
            let Operand::Value(wanted) = operand else { return Err(missing()) };
            match value.compare(wanted) {
                Ok(order) => Ok(operator.accepts(order)),
                Err(Fault::Argument(_)) => Ok(false),
                Err(fault) => Err(fault),
            }
        }
        (Operator::In | Operator::NotIn, operand) => {
            let Operand::Value(wanted) = operand else { return Err(missing()) };
            let elements =
                wanted.elements().ok_or_else(|| Fault::Other("IN needs an array of values".to_owned()))?;
            Ok(value.is_among(elements)? == (operator == Operator::In))
        }
        (Operator::Unsupported, _) => Err(Fault::Other("HDocDB evaluates no patterns".to_owned())),
        (Operator::TypeOf | Operator::NotTypeOf, operand) => {
            let is_same = matches!(operand, Operand::Type(code) if value.kind() as i32 == *code);
            Ok(is_same == (operator == Operator::TypeOf))
        }
    }
}

/// Evaluates a condition on an array. With an operator that orders values, the condition holds if any comparable
/// element fulfils it.
fn any_holds(
    value: &Value,
    elements: &value::Elements,
    operator: Operator,
    operand: &Operand,
) -> std::result::Result<bool, Fault> {
    match operator {
        Operator::None => Ok(true),
        Operator::Equal | Operator::NotEqual => {
            let Operand::Value(wanted) = operand else { return Err(missing()) };
            let equal = if wanted.elements().is_some() {
                value.equals(wanted)?
            } else {
                wanted.is_among(elements)?
            };
            Ok(equal == (operator == Operator::Equal))
        }
        Operator::Less | Operator::LessOrEqual | Operator::GreaterOrEqual | Operator::Greater => {
            let Operand::Value(wanted) = operand else {
                return if elements.is_empty() { Ok(false) } else { Err(missing()) };
            };
            for element in elements.values() {
                match element.compare(wanted) {
                    Ok(order) if operator.accepts(order) => return Ok(true),
                    Ok(_) | Err(Fault::Argument(_)) => {}
                    Err(fault) => return Err(fault),
                }
            }
            Ok(false)
        }
        _ => Err(Fault::Other("HDocDB does not apply this operator to arrays".to_owned())),
    }
}

/// Decodes the prefix of InclusiveStopPrefixFilter.
pub(crate) fn read_stop_prefix(bytes: &[u8]) -> Result<Bytes> {
    let read = || JavaStream::open(bytes)?.long_bytes();
    read().map_err(|reason| unreadable("InclusiveStopPrefixFilter", reason))
}
