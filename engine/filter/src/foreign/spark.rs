//! `SparkSQLPushDownFilter` of HBase's Spark connector: keeps the rows for which an expression over their columns is
//! true.
//!
//! The expression is a text whose words are separated by single spaces, such as
//! `( age >= 0 AND ( name == 1 OR name isNull ) )`. A name is that of a column of Spark's table, which is mapped to a
//! family and a qualifier, or to the row key (no family, `key`). A number is the index of a value in the filter's
//! message. For `<`, `<=`, `>` and `>=` the first byte of this value is its type (the connector's NaiveEncoder); the
//! other operators compare plain bytes.
//!
//! As in Java, a row is kept when the expression cannot be evaluated, for example because a cell is shorter than its
//! type. Unlike in Java, the values of such a row are cleared before the next row.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use cell::Cell;

use super::unreadable;
use crate::Result;

const NAME: &str = "SparkSQLPushDownFilter";

/// Maximum depth of nested parentheses.
const DEPTH_MAX: usize = 1_000;

/// A column of HBase and its name in the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparkColumn {
    /// The family; empty for the row key.
    pub family: Bytes,
    /// The qualifier; `key` for the row key.
    pub qualifier: Bytes,
    /// The name in the expression.
    pub name: String,
}

/// The state of a SparkSQLPushDownFilter, with the values of the current row.
#[derive(Clone, Debug)]
pub(crate) struct Spark {
    expression: Expression,
    values: Vec<Bytes>,
    /// The columns of the expression, each with the index of its value in `row`.
    columns: Vec<(usize, SparkColumn)>,
    /// The current row's value for each name of the expression; `None` if the row has none.
    row: Vec<Option<Vec<u8>>>,
}

#[derive(Clone, Debug)]
enum Expression {
    And(Box<(Expression, Expression)>),
    Or(Box<(Expression, Expression)>),
    Compare(Operator, Operands),
    Equal { operands: Operands, wanted: bool },
    StartsWith(Operands),
    IsNull { name: usize, wanted: bool },
    Pass,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The operands of a comparison: a name, and the index of a value, which may not exist.
#[derive(Clone, Copy, Debug)]
struct Operands {
    name: usize,
    value: i32,
}

/// The expression cannot be evaluated for this row.
struct Undecided;

impl Spark {
    pub(crate) fn new(expression: &str, values: Vec<Bytes>, columns: Vec<SparkColumn>) -> Result<Spark> {
        let mut parser = Parser { words: expression.split(' ').collect(), names: HashMap::new() };
        let (expression, _) = parser.parse(0, 0).map_err(|reason| unreadable(NAME, reason))?;
        let names = parser.names;
        // Two columns with one name share an element of `row`. If one column has two names, the last counts, as in
        // Java's maps.
        let mut placed: Vec<(usize, SparkColumn)> = Vec::new();
        let mut known: HashMap<(Bytes, Bytes), usize> = HashMap::new();
        for column in columns {
            let Some(&place) = names.get(&*column.name) else { continue };
            match known.entry((column.family.clone(), column.qualifier.clone())) {
                Entry::Occupied(at) => placed[*at.get()] = (place, column),
                Entry::Vacant(at) => {
                    at.insert(placed.len());
                    placed.push((place, column));
                }
            }
        }
        Ok(Spark { expression, values, columns: placed, row: vec![None; names.len()] })
    }

    pub(crate) fn reset(&mut self) {
        self.row.fill(None);
    }

    /// Stores the value of a column that the expression uses.
    pub(crate) fn note(&mut self, cell: Cell<'_>) {
        for (place, column) in &self.columns {
            let value = match (column.family.is_empty(), &column.qualifier[..]) {
                (true, b"key") => cell.row(),
                _ if cell.family() == column.family && cell.qualifier() == column.qualifier => cell.value(),
                _ => continue,
            };
            let noted = self.row[*place].get_or_insert_default();
            noted.clear();
            noted.extend_from_slice(value);
        }
    }

    pub(crate) fn is_row_refused(&self) -> bool {
        // If the expression cannot be evaluated, the row is kept.
        !self.holds(&self.expression).unwrap_or(true)
    }

    fn holds(&self, expression: &Expression) -> std::result::Result<bool, Undecided> {
        let value = |operands: &Operands| {
            let value = usize::try_from(operands.value).ok().and_then(|index| self.values.get(index));
            value.ok_or(Undecided)
        };
        let mine = |name: usize| self.row[name].as_deref();
        Ok(match expression {
            Expression::And(both) => self.holds(&both.0)? && self.holds(&both.1)?,
            Expression::Or(both) => self.holds(&both.0)? || self.holds(&both.1)?,
            Expression::Compare(operator, operands) => {
                let value = value(operands)?;
                match mine(operands.name) {
                    Some(mine) => operator.accepts(compare(mine, value)?),
                    None => false,
                }
            }
            Expression::Equal { operands, wanted } => {
                let value = value(operands)?;
                mine(operands.name).is_some_and(|mine| (mine == &value[..]) == *wanted)
            }
            Expression::StartsWith(operands) => {
                let value = value(operands)?;
                mine(operands.name).is_some_and(|mine| mine.starts_with(value))
            }
            Expression::IsNull { name, wanted } => mine(*name).is_none() == *wanted,
            Expression::Pass => true,
        })
    }
}

impl Operator {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Compares a cell's value with a value of the query, whose first byte is its type.
fn compare(mine: &[u8], value: &[u8]) -> std::result::Result<Ordering, Undecided> {
    fn first<const N: usize>(bytes: &[u8]) -> std::result::Result<[u8; N], Undecided> {
        bytes.first_chunk().copied().ok_or(Undecided)
    }
    let (kind, value) = value.split_first().ok_or(Undecided)?;
    Ok(match kind {
        1 => i16::from_be_bytes(first(mine)?).cmp(&i16::from_be_bytes(first(value)?)),
        2 => i32::from_be_bytes(first(mine)?).cmp(&i32::from_be_bytes(first(value)?)),
        3 | 8 => i64::from_be_bytes(first(mine)?).cmp(&i64::from_be_bytes(first(value)?)),
        4 => java_order_of_floats(
            f32::from_be_bytes(first(mine)?).into(),
            f32::from_be_bytes(first(value)?).into(),
        ),
        5 => java_order_of_floats(f64::from_be_bytes(first(mine)?), f64::from_be_bytes(first(value)?)),
        _ => mine.cmp(value),
    })
}

/// Compares two numbers as `Double.compare` does: 0.0 is greater than -0.0, and NaN, with any bits, is the greatest.
pub(super) fn java_order_of_floats(left: f64, right: f64) -> Ordering {
    let plain = |number: f64| if number.is_nan() { f64::NAN.copysign(1.0) } else { number };
    plain(left).total_cmp(&plain(right))
}

struct Parser<'a> {
    words: Vec<&'a str>,
    /// The names that the expression uses, numbered in the order in which they appear.
    names: HashMap<&'a str, usize>,
}

impl<'a> Parser<'a> {
    fn word(&self, at: usize) -> std::result::Result<&'a str, String> {
        self.words.get(at).copied().ok_or_else(|| "the expression ends early".to_owned())
    }

    fn name(&mut self, at: usize) -> std::result::Result<usize, String> {
        let (name, next) = (self.word(at)?, self.names.len());
        Ok(*self.names.entry(name).or_insert(next))
    }

    fn operands(&mut self, at: usize) -> std::result::Result<Operands, String> {
        let word = self.word(at + 2)?;
        let value = word.parse().map_err(|_| format!("{word:?} is no index of a value"))?;
        Ok(Operands { name: self.name(at)?, value })
    }

    /// Parses the expression that begins at the word with index `at`. Returns the expression and the index of the word
    /// after it.
    fn parse(&mut self, at: usize, depth: usize) -> std::result::Result<(Expression, usize), String> {
        if depth > DEPTH_MAX {
            return Err(format!("brackets are nested deeper than {DEPTH_MAX}"));
        }
        if self.word(at)? == "(" {
            let (left, gate) = self.parse(at + 1, depth + 1)?;
            let (right, end) = self.parse(gate + 1, depth + 1)?;
            let both = Box::new((left, right));
            return match self.word(gate)? {
                "AND" => Ok((Expression::And(both), end + 1)),
                "OR" => Ok((Expression::Or(both), end + 1)),
                other => Err(format!("{other:?} joins nothing, expected AND or OR")),
            };
        }
        let compare = |operator| move |operands| Expression::Compare(operator, operands);
        let equal = |wanted| move |operands| Expression::Equal { operands, wanted };
        let null = |wanted| move |name| Expression::IsNull { name, wanted };
        Ok(match self.word(at + 1)? {
            "<" => (self.operands(at).map(compare(Operator::Less))?, at + 3),
            "<=" => (self.operands(at).map(compare(Operator::LessOrEqual))?, at + 3),
            ">" => (self.operands(at).map(compare(Operator::Greater))?, at + 3),
            ">=" => (self.operands(at).map(compare(Operator::GreaterOrEqual))?, at + 3),
            "==" => (self.operands(at).map(equal(true))?, at + 3),
            "!=" => (self.operands(at).map(equal(false))?, at + 3),
            "startsWith" => (self.operands(at).map(Expression::StartsWith)?, at + 3),
            "isNull" => (self.name(at).map(null(true))?, at + 2),
            "isNotNull" => (self.name(at).map(null(false))?, at + 2),
            "Pass" => (Expression::Pass, at + 3),
            other => return Err(format!("{other:?} is no operator")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spark(expression: &str, values: &[&'static [u8]]) -> Result<Spark> {
        let column = |family: &'static str, qualifier: &'static str, name: &str| SparkColumn {
            family: family.into(),
            qualifier: qualifier.into(),
            name: name.to_owned(),
        };
        let columns = vec![column("", "key", "ID"), column("f", "a", "A"), column("f", "b", "B")];
        Spark::new(expression, values.iter().map(|value| Bytes::from_static(value)).collect(), columns)
    }

    /// Whether a filter with this expression keeps a row with `f:a`.
    fn keeps(expression: &str, values: &[&'static [u8]], a: &[u8]) -> bool {
        let mut spark = spark(expression, values).expect("a filter");
        let parts = cell::CellParts {
            row: b"row1",
            family: b"f",
            qualifier: b"a",
            timestamp: cell::Timestamp(1),
            cell_type: cell::CellType::Put,
            value: a,
            tags: b"",
        };
        let bytes = parts.to_vec().expect("a cell");
        spark.reset();
        spark.note(Cell::parse(&bytes, cell::SequenceId::ZERO).expect("a cell"));
        !spark.is_row_refused()
    }

    #[test]
    fn expressions_decide_by_type() {
        let minus_five = (-5i32).to_be_bytes();
        assert!(keeps("A < 0", &[&[2, 0, 0, 0, 1]], &minus_five), "numbers are signed");
        assert!(!keeps("A < 0", &[&[6, 0, 0, 0, 1]], &minus_five), "and bytes are not");
        assert!(keeps("A > 0", &[&[3, 0, 0, 0, 0, 0, 0, 0, 1]], &2i64.to_be_bytes()), "all of a long counts");
        assert!(keeps("( A == 0 AND ID startsWith 1 )", &[b"x", b"ro"], b"x"));
        assert!(!keeps("( A != 0 AND ID startsWith 1 )", &[b"x", b"ro"], b"x"));
        assert!(keeps("( B isNull AND A isNotNull )", &[], b"x"));
        assert!(!keeps("B != 0", &[b"x"], b"x"), "a column that is missing is never unequal");
        assert!(keeps("dummy Pass -1", &[], b"x"));
        assert!(keeps("( ( A > 0 OR A > 1 ) AND ID >= 2 )", &[&[6, b'z'], &[6, b'a'], &[6, b'r']], b"x"));
        assert!(keeps("A >= 0", &[&[5, 0, 0, 0, 0, 0, 0, 0, 0]], &f64::NAN.to_be_bytes()));
        assert!(!keeps("A >= 0", &[&[5, 0, 0, 0, 0, 0, 0, 0, 0]], &(-0.0f64).to_be_bytes()));
    }

    #[test]
    fn the_last_name_of_a_column_counts() {
        let column =
            |name: &str| SparkColumn { family: "f".into(), qualifier: "a".into(), name: name.to_owned() };
        let spark =
            |expression| Spark::new(expression, Vec::new(), vec![column("A"), column("B"), column("unused")]);
        let columns = |expression| {
            let columns = spark(expression).expect("a filter").columns;
            columns.into_iter().map(|(place, column)| (place, column.name)).collect::<Vec<_>>()
        };
        assert_eq!(columns("( A isNull OR B isNull )"), [(1, "B".to_owned())]);
        assert_eq!(columns("( B isNull OR A isNull )"), [(0, "B".to_owned())]);
        assert_eq!(columns("A isNull"), [(0, "A".to_owned())]);
    }

    /// With a search for each name among all others, this would take minutes.
    #[test]
    fn expressions_with_many_names_are_parsed_in_time_that_grows_with_their_length() {
        fn any(names: std::ops::Range<usize>) -> String {
            match names.len() {
                1 => format!("column{} isNull", names.start),
                count => {
                    let middle = names.start + count / 2;
                    format!("( {} OR {} )", any(names.start..middle), any(middle..names.end))
                }
            }
        }
        let expression = any(0..100_000);
        let columns = (0..100_000).map(|number| SparkColumn {
            family: "f".into(),
            qualifier: format!("q{number}").into(),
            name: format!("column{number}"),
        });
        let clock = env::World::real();
        let before = clock.moment();
        let spark = Spark::new(&expression, Vec::new(), columns.collect()).expect("a filter");
        assert_eq!((spark.columns.len(), spark.row.len()), (100_000, 100_000));
        let took = clock.moment().since(before);
        assert!(took < std::time::Duration::from_secs(10), "{took:?}");
    }

    #[test]
    fn what_cannot_be_evaluated_is_kept() {
        assert!(keeps("A < 0", &[&[2, 0, 0, 0, 1]], b"abc"), "too short for an int");
        assert!(keeps("A == 7", &[b"x"], b"y"), "there is no value 7");
        assert!(keeps("A == -1", &[b"x"], b"y"));
        assert!(keeps("A < 0", &[b""], b"y"), "a value without a type");
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["", "A", "A <", "A < x", "A ~ 0", "( A < 0", "( A < 0 XOR A < 0 )", &"( ".repeat(2_000)]
        {
            let error = spark(text, &[]).expect_err(text);
            assert!(error.to_string().starts_with("SparkSQLPushDownFilter: "), "{error}");
        }
    }
}
