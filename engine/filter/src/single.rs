//! The filters that stand alone, one by one. What each does is HBase's; the names are its class names.

use bytes::Bytes;
use cell::{Cell, CellType, KeyBuf, SequenceId, Timestamp};

use crate::{Comparable, CompareOperator, Error, Filter, Result, ReturnCode, Transform};

/// Rows from `start` to `stop`; an empty end is open.
#[derive(Clone, Debug)]
pub struct RowRange {
    /// The first row.
    pub start: Bytes,
    /// Whether it belongs.
    pub include_start: bool,
    /// The last row.
    pub stop: Bytes,
    /// Whether it belongs.
    pub include_stop: bool,
}

impl RowRange {
    fn ends_before(&self, row: &[u8]) -> bool {
        !self.stop.is_empty() && (row > &self.stop[..] || (row == &self.stop[..] && !self.include_stop))
    }

    fn begins_after(&self, row: &[u8]) -> bool {
        row < &self.start[..] || (row == &self.start[..] && !self.include_start)
    }
}

/// Qualifiers from `min` to `max`; `None` is open.
#[derive(Clone, Debug)]
pub struct ColumnRange {
    /// The first.
    pub min: Option<Bytes>,
    /// Whether it belongs.
    pub include_min: bool,
    /// The last.
    pub max: Option<Bytes>,
    /// Whether it belongs.
    pub include_max: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Single {
    rule: Rule,
    reversed: bool,
}

#[derive(Clone, Debug)]
enum Rule {
    All,
    Prefix {
        prefix: Bytes,
        refused: bool,
        passed: bool,
    },
    Page {
        size: u64,
        rows: u64,
    },
    KeyOnly {
        length_as_value: bool,
    },
    FirstKeyOnly {
        found: bool,
    },
    FirstOfQualifiers {
        qualifiers: Vec<Bytes>,
        found: bool,
    },
    ColumnPrefix(Bytes),
    ColumnPrefixes(Vec<Bytes>),
    ColumnRange(ColumnRange),
    ColumnPagination {
        limit: u32,
        offset: u32,
        from: Option<Bytes>,
        count: u32,
    },
    ColumnCount {
        limit: u32,
        count: u32,
    },
    InclusiveStop {
        row: Bytes,
        done: bool,
    },
    Row {
        operator: CompareOperator,
        with: Comparable,
        refused: bool,
    },
    Family {
        operator: CompareOperator,
        with: Comparable,
    },
    Qualifier {
        operator: CompareOperator,
        with: Comparable,
    },
    Value {
        operator: CompareOperator,
        with: Comparable,
    },
    Dependent {
        family: Bytes,
        qualifier: Bytes,
        drop: bool,
        compare: Option<(CompareOperator, Comparable)>,
        stamps: Vec<Timestamp>,
    },
    SingleValue(SingleValue),
    ColumnValue {
        family: Bytes,
        qualifier: Bytes,
        operator: CompareOperator,
        with: Comparable,
        found: bool,
    },
    Timestamps {
        wanted: Vec<Timestamp>,
        can_hint: bool,
    },
    RandomRow {
        chance: f32,
        state: u64,
        refused: bool,
    },
    Fuzzy {
        keys: Vec<(Bytes, Vec<bool>)>,
        done: bool,
        next: Option<Vec<u8>>,
    },
    Ranges {
        ranges: Vec<RowRange>,
        done: bool,
        refused: bool,
        next: Option<Bytes>,
    },
}

#[derive(Clone, Debug)]
struct SingleValue {
    family: Bytes,
    qualifier: Bytes,
    operator: CompareOperator,
    with: Comparable,
    if_missing: bool,
    latest_only: bool,
    exclude: bool,
    found: bool,
    matched: bool,
}

impl Single {
    fn filter(rule: Rule) -> Filter {
        Filter::single(Single { rule, reversed: false })
    }

    pub(crate) fn set_reversed(&mut self, reversed: bool) {
        self.reversed = reversed;
    }

    pub(crate) fn reset(&mut self) {
        match &mut self.rule {
            Rule::Prefix { refused, .. } | Rule::Row { refused, .. } | Rule::RandomRow { refused, .. } => {
                *refused = false
            }
            Rule::Ranges { refused, next, .. } => (*refused, *next) = (false, None),
            Rule::FirstKeyOnly { found }
            | Rule::FirstOfQualifiers { found, .. }
            | Rule::ColumnValue { found, .. } => {
                *found = false;
            }
            Rule::ColumnPagination { count, .. } | Rule::ColumnCount { count, .. } => *count = 0,
            Rule::Dependent { stamps, .. } => stamps.clear(),
            Rule::SingleValue(rule) => (rule.found, rule.matched) = (false, false),
            _ => {}
        }
    }

    pub(crate) fn filter_all_remaining(&self) -> bool {
        match &self.rule {
            Rule::Prefix { passed, .. } => *passed,
            Rule::Page { size, rows } => rows >= size,
            Rule::ColumnCount { limit, count } => count > limit,
            Rule::InclusiveStop { done, .. } | Rule::Fuzzy { done, .. } | Rule::Ranges { done, .. } => *done,
            _ => false,
        }
    }

    pub(crate) fn filter_row_key(&mut self, row: &[u8]) -> bool {
        let reversed = self.reversed;
        match &mut self.rule {
            Rule::Prefix { prefix, refused, passed } => {
                let head = &row[..row.len().min(prefix.len())];
                let order = head.cmp(&prefix[..]);
                *passed |= if reversed { order.is_lt() } else { order.is_gt() };
                *refused = !order.is_eq();
                *refused
            }
            Rule::InclusiveStop { row: stop, done } => {
                *done |= if reversed { row < &stop[..] } else { row > &stop[..] };
                *done
            }
            Rule::Row { operator, with, refused } => {
                *refused = !with.keeps(*operator, row);
                *refused
            }
            Rule::RandomRow { chance, state, refused } => {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let draw = (*state >> 40) as f32 / (1u64 << 24) as f32;
                *refused = draw >= *chance;
                *refused
            }
            Rule::Ranges { ranges, done, refused, next } => {
                *next = None;
                *refused = !ranges.iter().any(|range| !range.begins_after(row) && !range.ends_before(row));
                if *refused {
                    if reversed {
                        *done = ranges.first().is_none_or(|first| first.begins_after(row));
                    } else {
                        match ranges.iter().find(|range| range.begins_after(row)) {
                            Some(range) => *next = Some(range.start.clone()),
                            None => *done = true,
                        }
                    }
                }
                // The row's first cell is answered with the place of the next range.
                false
            }
            _ => false,
        }
    }

    pub(crate) fn filter_cell(&mut self, cell: Cell<'_>) -> ReturnCode {
        use ReturnCode::{Include, IncludeAndNextColumn, NextColumn, NextRow, SeekNextUsingHint, Skip};
        let keep_or = |kept: bool, otherwise: ReturnCode| if kept { Include } else { otherwise };
        match &mut self.rule {
            Rule::All => Skip,
            Rule::Prefix { refused, .. } | Rule::Row { refused, .. } => keep_or(!*refused, NextRow),
            Rule::RandomRow { refused, .. } => keep_or(!*refused, NextRow),
            Rule::Page { .. } | Rule::KeyOnly { .. } => Include,
            Rule::FirstKeyOnly { found } => {
                if std::mem::replace(found, true) {
                    NextRow
                } else {
                    Include
                }
            }
            Rule::FirstOfQualifiers { qualifiers, found } => {
                if *found {
                    return NextRow;
                }
                *found = qualifiers.iter().any(|qualifier| *qualifier == cell.qualifier());
                Include
            }
            Rule::ColumnPrefix(prefix) => {
                let head = &cell.qualifier()[..cell.qualifier().len().min(prefix.len())];
                match head.cmp(&prefix[..]) {
                    std::cmp::Ordering::Less => SeekNextUsingHint,
                    std::cmp::Ordering::Equal => Include,
                    std::cmp::Ordering::Greater => NextRow,
                }
            }
            Rule::ColumnPrefixes(prefixes) => {
                let qualifier = cell.qualifier();
                if prefixes.iter().any(|prefix| qualifier.starts_with(prefix)) {
                    Include
                } else if prefixes.iter().any(|prefix| &prefix[..] > qualifier) {
                    SeekNextUsingHint
                } else {
                    NextRow
                }
            }
            Rule::ColumnRange(range) => {
                let qualifier = cell.qualifier();
                if let Some(min) = &range.min {
                    if qualifier < &min[..] {
                        return SeekNextUsingHint;
                    }
                    if qualifier == &min[..] && !range.include_min {
                        return NextColumn;
                    }
                }
                match &range.max {
                    Some(max) if qualifier > &max[..] || (qualifier == &max[..] && !range.include_max) => {
                        NextRow
                    }
                    _ => Include,
                }
            }
            Rule::ColumnPagination { limit, offset, from, count } => match from {
                Some(from) => {
                    if *count >= *limit {
                        return NextRow;
                    }
                    if *count == 0 && cell.qualifier() < &from[..] {
                        return SeekNextUsingHint;
                    }
                    *count += 1;
                    IncludeAndNextColumn
                }
                None => {
                    if *count >= offset.saturating_add(*limit) {
                        return NextRow;
                    }
                    let code = if *count < *offset { NextColumn } else { IncludeAndNextColumn };
                    *count += 1;
                    code
                }
            },
            Rule::ColumnCount { limit, count } => {
                *count += 1;
                if *count > *limit { NextRow } else { IncludeAndNextColumn }
            }
            Rule::InclusiveStop { done, .. } => keep_or(!*done, NextRow),
            Rule::Family { operator, with } => keep_or(with.keeps(*operator, cell.family()), NextRow),
            Rule::Qualifier { operator, with } => keep_or(with.keeps(*operator, cell.qualifier()), Skip),
            Rule::Value { operator, with } => keep_or(with.keeps(*operator, cell.value()), Skip),
            Rule::Dependent { family, qualifier, drop, compare, stamps } => {
                if (cell.family(), cell.qualifier()) != (&family[..], &qualifier[..]) {
                    return Include;
                }
                if compare.as_ref().is_some_and(|(operator, with)| !with.keeps(*operator, cell.value())) {
                    return Skip;
                }
                stamps.push(cell.timestamp());
                keep_or(!*drop, Skip)
            }
            Rule::SingleValue(rule) => rule.filter_cell(cell),
            Rule::ColumnValue { family, qualifier, operator, with, found } => {
                if (cell.family(), cell.qualifier()) != (&family[..], &qualifier[..]) {
                    return if *found { NextRow } else { NextColumn };
                }
                *found = true;
                keep_or(with.keeps(*operator, cell.value()), Skip)
            }
            Rule::Timestamps { wanted, can_hint } => {
                let timestamp = cell.timestamp();
                if wanted.binary_search(&timestamp).is_ok() {
                    Include
                } else if wanted.first().is_none_or(|oldest| timestamp < *oldest) {
                    NextColumn
                } else {
                    keep_or(false, if *can_hint { SeekNextUsingHint } else { Skip })
                }
            }
            Rule::Fuzzy { keys, done, next } => {
                let row = cell.row();
                if keys.iter().any(|(key, fixed)| fits(key, fixed, row)) {
                    return Include;
                }
                if self.reversed {
                    return NextRow;
                }
                *next = keys.iter().filter_map(|(key, fixed)| next_fitting(key, fixed, row)).min();
                *done = next.is_none();
                if *done { NextRow } else { SeekNextUsingHint }
            }
            Rule::Ranges { refused, next, .. } => match (*refused, next) {
                (false, _) => Include,
                (true, Some(_)) => SeekNextUsingHint,
                (true, None) => NextRow,
            },
        }
    }

    pub(crate) fn next_hint(&self, cell: Cell<'_>) -> Option<KeyBuf> {
        let column = |qualifier: &[u8]| Some(KeyBuf::first_on_column(cell.row(), cell.family(), qualifier));
        match &self.rule {
            Rule::ColumnPrefix(prefix) => column(prefix),
            Rule::ColumnPrefixes(prefixes) => prefixes
                .iter()
                .filter(|prefix| &prefix[..] > cell.qualifier())
                .min()
                .and_then(|prefix| column(prefix)),
            Rule::ColumnRange(range) => range.min.as_ref().and_then(|min| column(min)),
            Rule::ColumnPagination { from, .. } => from.as_ref().and_then(|from| column(from)),
            Rule::Timestamps { wanted, .. } => {
                let older = wanted.iter().rev().find(|wanted| **wanted < cell.timestamp())?;
                let mut key = KeyBuf::default();
                let (family, qualifier) = (cell.family(), cell.qualifier());
                key.set(cell.row(), family, qualifier, *older, CellType::Maximum, SequenceId::MAX);
                Some(key)
            }
            Rule::Fuzzy { next, .. } => next.as_ref().map(|row| KeyBuf::first_on_row(row)),
            Rule::Ranges { next, .. } => next.as_ref().map(|row| KeyBuf::first_on_row(row)),
            _ => None,
        }
    }

    pub(crate) fn transform(&self) -> Transform {
        match self.rule {
            Rule::KeyOnly { length_as_value: true } => Transform::LengthValue,
            Rule::KeyOnly { length_as_value: false } => Transform::EmptyValue,
            _ => Transform::Keep,
        }
    }

    pub(crate) fn has_filter_row(&self) -> bool {
        matches!(self.rule, Rule::All | Rule::Page { .. } | Rule::Dependent { .. } | Rule::SingleValue(_))
    }

    pub(crate) fn filter_row_cells(&mut self, cells: &[Cell<'_>], keep: &mut [bool]) {
        match &self.rule {
            Rule::Dependent { stamps, .. } => {
                for (cell, keep) in cells.iter().zip(keep) {
                    *keep &= stamps.contains(&cell.timestamp());
                }
            }
            Rule::SingleValue(rule) if rule.exclude => {
                for (cell, keep) in cells.iter().zip(keep) {
                    *keep &= !rule.is_of(*cell);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn filter_row(&mut self) -> bool {
        match &mut self.rule {
            Rule::All => true,
            Rule::Page { size, rows } => {
                *rows += 1;
                *rows > *size
            }
            Rule::SingleValue(rule) => {
                if rule.found {
                    !rule.matched
                } else {
                    rule.if_missing
                }
            }
            Rule::Prefix { refused, .. } | Rule::Row { refused, .. } | Rule::RandomRow { refused, .. } => {
                *refused
            }
            _ => false,
        }
    }

    pub(crate) fn is_family_essential(&self, family: &[u8]) -> bool {
        match &self.rule {
            Rule::SingleValue(rule) => rule.family == family,
            _ => true,
        }
    }
}

impl SingleValue {
    fn is_of(&self, cell: Cell<'_>) -> bool {
        (cell.family(), cell.qualifier()) == (&self.family[..], &self.qualifier[..])
    }

    fn filter_cell(&mut self, cell: Cell<'_>) -> ReturnCode {
        if self.matched {
            return ReturnCode::Include;
        }
        if self.latest_only && self.found {
            return ReturnCode::NextRow;
        }
        if !self.is_of(cell) {
            return ReturnCode::Include;
        }
        self.found = true;
        self.matched = self.with.keeps(self.operator, cell.value());
        match (self.matched, self.latest_only) {
            (false, true) => ReturnCode::NextRow,
            _ => ReturnCode::Include,
        }
    }
}

/// Whether `row` has the bytes of `key` wherever they are fixed. A row may be longer than the key, not shorter.
fn fits(key: &[u8], fixed: &[bool], row: &[u8]) -> bool {
    row.len() >= key.len() && key.iter().zip(fixed).zip(row).all(|((key, fixed), row)| !fixed || key == row)
}

/// The smallest row after `row` that fits.
fn next_fitting(key: &[u8], fixed: &[bool], row: &[u8]) -> Option<Vec<u8>> {
    // The longest prefix of `row` that can stay, then a byte that is greater, then the least that fits.
    let least = |prefix: &[u8]| -> Vec<u8> {
        let mut next = prefix.to_vec();
        next.extend((next.len()..key.len()).map(|at| if fixed[at] { key[at] } else { 0 }));
        next
    };
    let stays = (0..key.len().min(row.len())).take_while(|&at| !fixed[at] || key[at] == row[at]).count();
    if stays == row.len() && row.len() < key.len() {
        return Some(least(row));
    }
    if stays < key.len() && stays < row.len() && fixed[stays] && key[stays] > row[stays] {
        return Some(least(&row[..stays]));
    }
    for at in (0..stays.min(row.len())).rev() {
        if !fixed[at] && row[at] < u8::MAX {
            let mut prefix = row[..at].to_vec();
            prefix.push(row[at] + 1);
            return Some(least(&prefix));
        }
    }
    None
}

/// Sorts ranges and joins those that touch.
fn joined(mut ranges: Vec<RowRange>) -> Vec<RowRange> {
    ranges.sort_by(|left, right| {
        left.start.cmp(&right.start).then(right.include_start.cmp(&left.include_start))
    });
    let mut out: Vec<RowRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.stop.is_empty() => {}
            Some(last)
                if range.start < last.stop
                    || (range.start == last.stop && (range.include_start || last.include_stop)) =>
            {
                let further = range.stop.is_empty() || range.stop > last.stop;
                if further {
                    (last.stop, last.include_stop) = (range.stop, range.include_stop);
                } else if range.stop == last.stop {
                    last.include_stop |= range.include_stop;
                }
            }
            _ => out.push(range),
        }
    }
    out
}

impl Filter {
    /// FilterAllFilter, which lies beside HBase's PerformanceEvaluation: every cell is read, none is given.
    pub fn all() -> Filter {
        Single::filter(Rule::All)
    }

    /// PrefixFilter.
    pub fn prefix(prefix: Bytes) -> Filter {
        Single::filter(Rule::Prefix { prefix, refused: false, passed: false })
    }

    /// PageFilter: so many rows of each region.
    pub fn page(size: u64) -> Filter {
        Single::filter(Rule::Page { size, rows: 0 })
    }

    /// KeyOnlyFilter.
    pub fn key_only(length_as_value: bool) -> Filter {
        Single::filter(Rule::KeyOnly { length_as_value })
    }

    /// FirstKeyOnlyFilter.
    pub fn first_key_only() -> Filter {
        Single::filter(Rule::FirstKeyOnly { found: false })
    }

    /// FirstKeyValueMatchingQualifiersFilter.
    pub fn first_key_value_matching_qualifiers(qualifiers: Vec<Bytes>) -> Filter {
        Single::filter(Rule::FirstOfQualifiers { qualifiers, found: false })
    }

    /// ColumnPrefixFilter.
    pub fn column_prefix(prefix: Bytes) -> Filter {
        Single::filter(Rule::ColumnPrefix(prefix))
    }

    /// MultipleColumnPrefixFilter.
    pub fn multiple_column_prefix(prefixes: Vec<Bytes>) -> Filter {
        Single::filter(Rule::ColumnPrefixes(prefixes))
    }

    /// ColumnRangeFilter.
    pub fn column_range(range: ColumnRange) -> Filter {
        Single::filter(Rule::ColumnRange(range))
    }

    /// ColumnPaginationFilter: `limit` columns behind the first `offset`, or from the column `from` on.
    pub fn column_pagination(limit: u32, offset: u32, from: Option<Bytes>) -> Filter {
        Single::filter(Rule::ColumnPagination { limit, offset, from, count: 0 })
    }

    /// ColumnCountGetFilter.
    pub fn column_count_get(limit: u32) -> Filter {
        Single::filter(Rule::ColumnCount { limit, count: 0 })
    }

    /// InclusiveStopFilter.
    pub fn inclusive_stop(row: Bytes) -> Filter {
        Single::filter(Rule::InclusiveStop { row, done: false })
    }

    /// RowFilter.
    pub fn row(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Row { operator, with, refused: false })
    }

    /// FamilyFilter.
    pub fn family(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Family { operator, with })
    }

    /// QualifierFilter.
    pub fn qualifier(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Qualifier { operator, with })
    }

    /// ValueFilter.
    pub fn value(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Value { operator, with })
    }

    /// DependentColumnFilter: cells with a timestamp that the column has, too.
    pub fn dependent_column(
        family: Bytes,
        qualifier: Bytes,
        drop: bool,
        compare: Option<(CompareOperator, Comparable)>,
    ) -> Filter {
        Single::filter(Rule::Dependent { family, qualifier, drop, compare, stamps: Vec::new() })
    }

    /// SingleColumnValueFilter, or with `exclude` SingleColumnValueExcludeFilter.
    pub fn single_column_value(
        family: Bytes,
        qualifier: Bytes,
        operator: CompareOperator,
        with: Comparable,
        if_missing: bool,
        latest_only: bool,
        exclude: bool,
    ) -> Filter {
        Single::filter(Rule::SingleValue(SingleValue {
            family,
            qualifier,
            operator,
            with,
            if_missing,
            latest_only,
            exclude,
            found: false,
            matched: false,
        }))
    }

    /// ColumnValueFilter.
    pub fn column_value(
        family: Bytes,
        qualifier: Bytes,
        operator: CompareOperator,
        with: Comparable,
    ) -> Filter {
        Single::filter(Rule::ColumnValue { family, qualifier, operator, with, found: false })
    }

    /// TimestampsFilter.
    pub fn timestamps(mut wanted: Vec<Timestamp>, can_hint: bool) -> Filter {
        wanted.sort();
        Single::filter(Rule::Timestamps { wanted, can_hint })
    }

    /// RandomRowFilter, with a seed for its chance.
    pub fn random_row(chance: f32, seed: u64) -> Filter {
        Single::filter(Rule::RandomRow { chance, state: seed, refused: false })
    }

    /// FuzzyRowFilter: each key with, for each byte, whether it is fixed.
    pub fn fuzzy_row(keys: Vec<(Bytes, Vec<bool>)>) -> Result<Filter> {
        if keys.iter().any(|(key, fixed)| key.len() != fixed.len()) {
            return Err(Error::Argument {
                filter: "FuzzyRowFilter",
                rule: "Fuzzy pair lengths do not match",
            });
        }
        Ok(Single::filter(Rule::Fuzzy { keys, done: false, next: None }))
    }

    /// MultiRowRangeFilter.
    pub fn multi_row_range(ranges: Vec<RowRange>) -> Filter {
        let ranges = joined(ranges);
        Single::filter(Rule::Ranges { ranges, done: false, refused: false, next: None })
    }
}
