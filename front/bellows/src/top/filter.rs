//! Chooses the lines that are shown, by hbtop's filters: a field, a comparison and a value, with `!` before it for the
//! opposite.

use std::cmp::Ordering;

use super::field::{Cell, Field, Line, Mode};
use super::names;

/// How a cell is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// The cell has the value as a part of its text.
    Part,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// The signs of the comparisons, those of two characters first.
const SIGNS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    (">=", Comparison::GreaterOrEqual),
    ("<=", Comparison::LessOrEqual),
    ("=", Comparison::Part),
    (">", Comparison::Greater),
    ("<", Comparison::Less),
];

/// A condition on a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    is_not: bool,
    field: Field,
    comparison: Comparison,
    value: String,
}

impl Filter {
    /// Parses a filter such as `TABLE==t`, `#REQ/S>=100` or `!TABLE=meta`. The error says what was expected.
    pub(super) fn parse(mode: Mode, text: &str) -> Result<Filter, String> {
        let (is_not, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let expected = || {
            format!(
                "filter {text:?}, expected a field, one of == = > >= < <=, and a value; the fields are {}",
                names(&mode.all())
            )
        };
        let at = rest.find(['=', '<', '>']).ok_or_else(expected)?;
        let (name, rest) = rest.split_at(at);
        let field = Field::of_name(mode, name.trim()).ok_or_else(expected)?;
        let (sign, comparison) =
            SIGNS.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(expected)?;
        let value = rest[sign.len()..].trim();
        if !field.is_text() && comparison != Comparison::Part && number(value).is_none() {
            return Err(format!("filter {text:?}, expected a number after {sign}: {} is one", field.name()));
        }
        Ok(Filter { is_not, field, comparison, value: value.to_owned() })
    }

    /// Whether the line meets the condition.
    pub(super) fn is_match(&self, line: &Line) -> bool {
        let cell = line.cell(self.field);
        let order = || match cell {
            Cell::Text(text) => Some(text[..].cmp(&self.value)),
            Cell::Number { value, .. } => number(&self.value).map(|wanted| value.total_cmp(&wanted)),
        };
        let is_match = match self.comparison {
            Comparison::Part => cell.to_string().contains(&self.value),
            Comparison::Equal => order() == Some(Ordering::Equal),
            Comparison::Greater => order() == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
            Comparison::Less => order() == Some(Ordering::Less),
            Comparison::LessOrEqual => order().is_some_and(Ordering::is_le),
        };
        is_match != self.is_not
    }
}

/// Returns the number of a text that may end with a unit; `None` if the rest is no number.
fn number(text: &str) -> Option<f64> {
    text.trim_end_matches(|end: char| end.is_ascii_alphabetic() || end == ' ' || end == '%').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_compared_as_texts_or_as_numbers() {
        let line = Line::default()
            .with(Field::Table, Cell::text("users"))
            .with(Field::Requests, Cell::number(100.0, 0))
            .with(Field::FileSize, Cell::megabytes(20));
        for (text, expected) in [
            ("TABLE=ser", true),
            ("TABLE==ser", false),
            ("table == users", true),
            ("!TABLE==users", false),
            ("#REQ/S>99.5", true),
            ("#REQ/S>100", false),
            ("#REQ/S>=100", true),
            ("#REQ/S<=99", false),
            ("#REQ/S<1000", true),
            ("SF==20 MB", true),
        ] {
            let filter = Filter::parse(Mode::Table, text).expect(text);
            assert_eq!(filter.is_match(&line), expected, "{text}");
        }
    }

    #[test]
    fn an_invalid_filter_is_refused_with_the_valid_forms() {
        for (text, part) in
            [("TABLE", "expected a field"), ("REGION==x", "#READ/S"), ("#REQ/S>many", "expected a number")]
        {
            let refused = Filter::parse(Mode::Table, text).expect_err(text);
            assert!(refused.contains(part) && refused.contains(text), "{refused}");
        }
    }
}
