//! The simple filters. Their behaviour is HBase's; their names are HBase's class names.

use std::collections::HashSet;

use bytes::Bytes;
use cell::{Cell, CellType, Key, KeyBuf, Timestamp, is_same};

use crate::foreign::{Documents, Spark, read_stop_prefix};
use crate::rows::{Fuzzy, Ranges};
use crate::{
    Comparable, CompareOperator, Error, Failure, Filter, Refusal, Result, ReturnCode, RowRange, SparkColumn,
    Transform,
};

/// Qualifiers from `min` to `max`; `None` means no limit.
#[derive(Clone, Debug)]
pub struct ColumnRange {
    /// The lower bound.
    pub min: Option<Bytes>,
    /// Whether the range includes `min`.
    pub include_min: bool,
    /// The upper bound.
    pub max: Option<Bytes>,
    /// Whether the range includes `max`.
    pub include_max: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Single {
    rule: Rule,
    reversed: bool,
    failure: Option<Failure>,
}

#[derive(Clone, Debug)]
enum Rule {
    All,
    Prefix {
        prefix: Bytes,
        refused: bool,
        /// Whether later rows may have the prefix.
        ahead: bool,
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
    /// FirstKeyValueMatchingQualifiersFilter; the qualifiers are sorted.
    FirstOfQualifiers {
        qualifiers: Vec<Bytes>,
        found: bool,
    },
    ColumnPrefix(Bytes),
    /// ColumnPrefixFilter for several sorted prefixes; `hint` is the next prefix to seek to.
    ColumnPrefixes {
        prefixes: Vec<Bytes>,
        hint: usize,
    },
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
    /// InclusiveStopFilter for a prefix: keeps rows up to the last one with the prefix. For forward scans only.
    InclusiveStopPrefix {
        prefix: Bytes,
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
        stamps: HashSet<Timestamp>,
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
    Fuzzy(Fuzzy),
    Ranges(Ranges),
    Spark(Spark),
    Documents(Box<Documents>),
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
        Filter::single(Single { rule, reversed: false, failure: None })
    }

    pub(crate) fn set_reversed(&mut self, reversed: bool) {
        self.reversed = reversed;
    }

    pub(crate) fn reset(&mut self) {
        match &mut self.rule {
            // Until the row key was tested, the row counts as one without the prefix.
            Rule::Prefix { refused, .. } => *refused = true,
            Rule::Row { refused, .. } | Rule::RandomRow { refused, .. } => *refused = false,
            Rule::Fuzzy(fuzzy) => fuzzy.reset(),
            Rule::FirstKeyOnly { found }
            | Rule::FirstOfQualifiers { found, .. }
            | Rule::ColumnValue { found, .. } => {
                *found = false;
            }
            Rule::ColumnPagination { count, .. } | Rule::ColumnCount { count, .. } => *count = 0,
            Rule::Dependent { stamps, .. } => stamps.clear(),
            Rule::SingleValue(rule) => (rule.found, rule.matched) = (false, false),
            Rule::Spark(spark) => spark.reset(),
            _ => {}
        }
    }

    pub(crate) fn filter_all_remaining(&self) -> bool {
        match &self.rule {
            Rule::Prefix { passed, .. } => *passed,
            Rule::Page { size, rows } => rows >= size,
            Rule::ColumnCount { limit, count } => count > limit,
            Rule::InclusiveStop { done, .. } | Rule::InclusiveStopPrefix { done, .. } => *done,
            Rule::Fuzzy(fuzzy) => fuzzy.is_done(),
            Rule::Ranges(ranges) => ranges.is_done(),
            _ => false,
        }
    }

    /// Whether this is one of the filters for which [`filter_all_remaining`](Single::filter_all_remaining) can return
    /// true.
    pub(crate) fn may_end(&self) -> bool {
        matches!(
            self.rule,
            Rule::Prefix { .. }
                | Rule::Page { .. }
                | Rule::ColumnCount { .. }
                | Rule::InclusiveStop { .. }
                | Rule::InclusiveStopPrefix { .. }
                | Rule::Fuzzy(_)
                | Rule::Ranges(_)
        )
    }

    /// Implements [`Filter::is_plain`].
    pub(crate) fn is_plain(&self) -> bool {
        match &self.rule {
            Rule::Value { .. } => true,
            // Without `latest_only` the decision also depends on the other versions of the column. With the operator
            // NO_OP the comparison fails.
            Rule::SingleValue(rule) => rule.latest_only && rule.operator != CompareOperator::NoOp,
            _ => false,
        }
    }

    /// Implements [`Filter::refusal`]. If a cell cannot be compared, this decides nothing:
    /// [`filter_cell`](Single::filter_cell) will record the error.
    #[inline]
    pub(crate) fn refusal(&self, cell: Cell<'_>) -> Refusal {
        let mut failure = None;
        let (with, operator, refusal) = match &self.rule {
            Rule::Value { with, operator } => (with, *operator, Refusal::Cell),
            Rule::SingleValue(rule) if rule.latest_only => match rule.is_of(cell) {
                true => (&rule.with, rule.operator, Refusal::Row),
                false => return Refusal::Undecided,
            },
            _ => return Refusal::None,
        };
        if with.keeps(operator, cell.value(), &mut failure) || failure.is_some() {
            return Refusal::None;
        }
        refusal
    }

    /// Whether the filter counts rows, draws a random number for each row, or steps through a list of keys.
    pub(crate) fn remembers_rows(&self) -> bool {
        matches!(self.rule, Rule::Page { .. } | Rule::RandomRow { .. } | Rule::Fuzzy(_) | Rule::Ranges(_))
    }

    /// Whether the filter has a pattern, whose search may take many steps, or decodes whole documents.
    pub(crate) fn may_take_long(&self) -> bool {
        let with = match &self.rule {
            Rule::Documents(_) => return true,
            Rule::Row { with, .. }
            | Rule::Family { with, .. }
            | Rule::Qualifier { with, .. }
            | Rule::Value { with, .. }
            | Rule::ColumnValue { with, .. }
            | Rule::Dependent { compare: Some((_, with)), .. } => with,
            Rule::SingleValue(rule) => &rule.with,
            _ => return false,
        };
        matches!(with, Comparable::Regex(_))
    }

    /// Returns the number of parts with which a cell or row may be compared.
    pub(crate) fn parts(&self) -> usize {
        match &self.rule {
            Rule::Fuzzy(fuzzy) => fuzzy.keys(),
            _ => 1,
        }
    }

    pub(crate) fn filter_row_key(&mut self, row: &[u8]) -> bool {
        let reversed = self.reversed;
        if self.filter_all_remaining() {
            return true;
        }
        match &mut self.rule {
            Rule::Prefix { prefix, refused, ahead, passed } => {
                let order = row[..row.len().min(prefix.len())].cmp(&prefix[..]);
                *refused = order.is_ne();
                (*ahead, *passed) =
                    if reversed { (order.is_gt(), order.is_lt()) } else { (order.is_lt(), order.is_gt()) };
                *passed
            }
            Rule::InclusiveStop { row: stop, done } => {
                *done = if reversed { row < &stop[..] } else { row > &stop[..] };
                *done
            }
            Rule::InclusiveStopPrefix { prefix, done } => {
                *done = row[..row.len().min(prefix.len())] > prefix[..];
                *done
            }
            Rule::Row { operator, with, refused } => {
                *refused |= !with.keeps(*operator, row, &mut self.failure);
                *refused
            }
            Rule::RandomRow { chance, state, refused } => {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let draw = (*state >> 40) as f32 / (1u64 << 24) as f32;
                *refused = draw >= *chance;
                *refused
            }
            Rule::Ranges(ranges) => {
                ranges.begin_row(row, reversed);
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
            Rule::Prefix { ahead: true, .. } => SeekNextUsingHint,
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
                *found = qualifiers.binary_search_by(|qualifier| qualifier[..].cmp(cell.qualifier())).is_ok();
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
            Rule::ColumnPrefixes { prefixes, hint } => {
                let qualifier = cell.qualifier();
                // As in HBase, only one prefix is compared: the greatest one that is not after the qualifier.
                let next = prefixes.partition_point(|prefix| &prefix[..] <= qualifier);
                if prefixes.is_empty() || (next > 0 && qualifier.starts_with(&prefixes[next - 1])) {
                    Include
                } else if next < prefixes.len() {
                    *hint = next;
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
                *count = count.saturating_add(1);
                if *count > *limit { NextColumn } else { IncludeAndNextColumn }
            }
            Rule::InclusiveStop { done, .. } | Rule::InclusiveStopPrefix { done, .. } => {
                keep_or(!*done, NextRow)
            }
            Rule::Spark(spark) => {
                spark.note(cell);
                Include
            }
            Rule::Documents(_) => IncludeAndNextColumn,
            Rule::Family { operator, with } => {
                keep_or(with.keeps(*operator, cell.family(), &mut self.failure), NextRow)
            }
            Rule::Qualifier { operator, with } => {
                keep_or(with.keeps(*operator, cell.qualifier(), &mut self.failure), Skip)
            }
            Rule::Value { operator, with } => {
                keep_or(with.keeps(*operator, cell.value(), &mut self.failure), Skip)
            }
            Rule::Dependent { family, qualifier, drop, compare, stamps } => {
                if (cell.family(), cell.qualifier()) != (&family[..], &qualifier[..]) {
                    return Include;
                }
                if let Some((operator, with)) = compare
                    && !with.keeps(*operator, cell.value(), &mut self.failure)
                {
                    return Skip;
                }
                stamps.insert(cell.timestamp());
                keep_or(!*drop, Skip)
            }
            Rule::SingleValue(rule) => rule.filter_cell(cell, &mut self.failure),
            Rule::ColumnValue { family, qualifier, operator, with, found } => {
                if (cell.family(), cell.qualifier()) != (&family[..], &qualifier[..]) {
                    return if *found { NextRow } else { NextColumn };
                }
                *found = true;
                keep_or(with.keeps(*operator, cell.value(), &mut self.failure), Skip)
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
            Rule::Fuzzy(fuzzy) => fuzzy.filter_row(cell.row()),
            Rule::Ranges(ranges) => ranges.answer(),
        }
    }

    pub(crate) fn hint_from(&mut self, key: Key<'_>) -> Option<KeyBuf> {
        let reversed = self.reversed;
        let column = |qualifier: &[u8]| Some(KeyBuf::first_on_column(key.row(), key.family(), qualifier));
        match &mut self.rule {
            Rule::Prefix { prefix, .. } if reversed => Some(KeyBuf::first_on_row(&after_prefix(prefix))),
            Rule::Prefix { prefix, .. } => Some(KeyBuf::first_on_row(prefix)),
            Rule::ColumnPrefix(prefix) => column(prefix),
            Rule::ColumnPrefixes { prefixes, hint } => prefixes.get(*hint).and_then(|prefix| column(prefix)),
            Rule::ColumnRange(range) => range.min.as_ref().and_then(|min| column(min)),
            Rule::ColumnPagination { from, .. } => from.as_ref().and_then(|from| column(from)),
            Rule::Timestamps { wanted, can_hint: true } => {
                let (row, family, qualifier) = (key.row(), key.family(), key.qualifier());
                let older = wanted.partition_point(|wanted| *wanted < key.timestamp());
                Some(match older.checked_sub(1) {
                    Some(older) => KeyBuf::new(row, family, qualifier, wanted[older], CellType::Maximum),
                    None => KeyBuf::last_on_column(row, family, qualifier),
                })
            }
            Rule::Fuzzy(fuzzy) => fuzzy.hint(key.row(), reversed).map(KeyBuf::first_on_row),
            Rule::Ranges(ranges) => ranges.hint().map(KeyBuf::first_on_row),
            _ => None,
        }
    }

    pub(crate) fn is_hinting(&self) -> bool {
        matches!(
            self.rule,
            Rule::Prefix { .. }
                | Rule::ColumnPrefix(_)
                | Rule::ColumnPrefixes { .. }
                | Rule::ColumnRange(_)
                | Rule::Timestamps { .. }
                | Rule::Fuzzy(_)
                | Rule::Ranges(_)
        )
    }

    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    pub(crate) fn transform(&self) -> Transform {
        match self.rule {
            Rule::KeyOnly { length_as_value: true } => Transform::LengthValue,
            Rule::KeyOnly { length_as_value: false } => Transform::EmptyValue,
            _ => Transform::Keep,
        }
    }

    pub(crate) fn has_filter_row(&self) -> bool {
        matches!(
            self.rule,
            Rule::All
                | Rule::Page { .. }
                | Rule::Dependent { .. }
                | Rule::SingleValue(_)
                | Rule::RandomRow { .. }
                | Rule::Spark(_)
                | Rule::Documents(_)
        )
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
            Rule::Documents(documents) => {
                if let Err(failure) = documents.filter_row_cells(cells, keep) {
                    self.failure.get_or_insert(failure);
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
            Rule::Fuzzy(fuzzy) => fuzzy.is_row_refused(),
            Rule::Spark(spark) => spark.is_row_refused(),
            _ => false,
        }
    }

    pub(crate) fn is_family_essential(&self, family: &[u8]) -> bool {
        match &self.rule {
            Rule::SingleValue(rule) => !rule.if_missing || rule.family == family,
            Rule::ColumnValue { family: mine, .. } => mine == family,
            _ => true,
        }
    }
}

impl SingleValue {
    #[inline]
    fn is_of(&self, cell: Cell<'_>) -> bool {
        let (family, qualifier) = cell.key().column();
        is_same(qualifier, &self.qualifier) && is_same(family, &self.family)
    }

    fn filter_cell(&mut self, cell: Cell<'_>, failure: &mut Option<Failure>) -> ReturnCode {
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
        if self.operator == CompareOperator::NoOp {
            // In other filters than this one, NO_OP is no error and keeps no cell.
            *failure = Some(Failure::NoOperator);
        }
        self.matched = self.with.keeps(self.operator, cell.value(), failure);
        match (self.matched, self.latest_only) {
            (false, true) => ReturnCode::NextRow,
            _ => ReturnCode::Include,
        }
    }
}

/// Returns the least row after all rows with the prefix; returns the prefix itself if there is no such row.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut next = prefix.to_vec();
    if let Some(at) = next.iter().rposition(|byte| *byte != u8::MAX) {
        next[at] += 1;
        next.truncate(at + 1);
    }
    next
}

impl Filter {
    /// Creates a FilterAllFilter, which is part of HBase's PerformanceEvaluation: it reads every cell and returns none.
    pub fn all() -> Filter {
        Single::filter(Rule::All)
    }

    /// Creates a PrefixFilter.
    pub fn prefix(prefix: Bytes) -> Filter {
        Single::filter(Rule::Prefix { prefix, refused: true, ahead: false, passed: false })
    }

    /// Creates a PageFilter, which returns at most `size` rows of each region.
    pub fn page(size: u64) -> Filter {
        Single::filter(Rule::Page { size, rows: 0 })
    }

    /// Creates a KeyOnlyFilter.
    pub fn key_only(length_as_value: bool) -> Filter {
        Single::filter(Rule::KeyOnly { length_as_value })
    }

    /// Creates a FirstKeyOnlyFilter.
    pub fn first_key_only() -> Filter {
        Single::filter(Rule::FirstKeyOnly { found: false })
    }

    /// Creates a FirstKeyValueMatchingQualifiersFilter.
    pub fn first_key_value_matching_qualifiers(mut qualifiers: Vec<Bytes>) -> Filter {
        qualifiers.sort();
        Single::filter(Rule::FirstOfQualifiers { qualifiers, found: false })
    }

    /// Creates a ColumnPrefixFilter.
    pub fn column_prefix(prefix: Bytes) -> Filter {
        Single::filter(Rule::ColumnPrefix(prefix))
    }

    /// Creates a MultipleColumnPrefixFilter.
    pub fn multiple_column_prefix(mut prefixes: Vec<Bytes>) -> Filter {
        prefixes.sort();
        prefixes.dedup();
        Single::filter(Rule::ColumnPrefixes { prefixes, hint: 0 })
    }

    /// Creates a ColumnRangeFilter.
    pub fn column_range(range: ColumnRange) -> Filter {
        Single::filter(Rule::ColumnRange(range))
    }

    /// Creates a ColumnPaginationFilter: `limit` columns after the first `offset`, or from the column `from` on.
    pub fn column_pagination(limit: u32, offset: u32, from: Option<Bytes>) -> Filter {
        Single::filter(Rule::ColumnPagination { limit, offset, from, count: 0 })
    }

    /// Creates a ColumnCountGetFilter.
    pub fn column_count_get(limit: u32) -> Filter {
        Single::filter(Rule::ColumnCount { limit, count: 0 })
    }

    /// Creates an InclusiveStopFilter.
    pub fn inclusive_stop(row: Bytes) -> Filter {
        Single::filter(Rule::InclusiveStop { row, done: false })
    }

    /// Creates HDocDB's InclusiveStopPrefixFilter, from the stream of Java objects that its class writes.
    pub fn inclusive_stop_prefix(stream: &[u8]) -> Result<Filter> {
        let prefix = read_stop_prefix(stream)?;
        Ok(Single::filter(Rule::InclusiveStopPrefix { prefix, done: false }))
    }

    /// Creates HDocDB's HDocumentFilter, from the stream of Java objects that its class writes.
    pub fn documents(stream: &[u8]) -> Result<Filter> {
        Ok(Single::filter(Rule::Documents(Box::new(Documents::read(stream)?))))
    }

    /// Creates a SparkSQLPushDownFilter from an expression, the values that it names by index, and the columns that it
    /// names.
    pub fn spark(expression: &str, values: Vec<Bytes>, columns: Vec<SparkColumn>) -> Result<Filter> {
        Ok(Single::filter(Rule::Spark(Spark::new(expression, values, columns)?)))
    }

    /// Creates a RowFilter.
    pub fn row(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Row { operator, with, refused: false })
    }

    /// Creates a FamilyFilter.
    pub fn family(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Family { operator, with })
    }

    /// Creates a QualifierFilter.
    pub fn qualifier(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Qualifier { operator, with })
    }

    /// Creates a ValueFilter.
    pub fn value(operator: CompareOperator, with: Comparable) -> Filter {
        Single::filter(Rule::Value { operator, with })
    }

    /// Creates a DependentColumnFilter, which keeps cells whose timestamp a cell of the given column has as well.
    pub fn dependent_column(
        family: Bytes,
        qualifier: Bytes,
        drop: bool,
        compare: Option<(CompareOperator, Comparable)>,
    ) -> Filter {
        Single::filter(Rule::Dependent { family, qualifier, drop, compare, stamps: HashSet::new() })
    }

    /// Creates a SingleColumnValueFilter, or a SingleColumnValueExcludeFilter if `exclude`.
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

    /// Creates a ColumnValueFilter.
    pub fn column_value(
        family: Bytes,
        qualifier: Bytes,
        operator: CompareOperator,
        with: Comparable,
    ) -> Filter {
        Single::filter(Rule::ColumnValue { family, qualifier, operator, with, found: false })
    }

    /// Creates a TimestampsFilter.
    pub fn timestamps(mut wanted: Vec<Timestamp>, can_hint: bool) -> Filter {
        wanted.sort();
        Single::filter(Rule::Timestamps { wanted, can_hint })
    }

    /// Creates a RandomRowFilter, with a seed for its random numbers.
    pub fn random_row(chance: f32, seed: u64) -> Filter {
        Single::filter(Rule::RandomRow { chance, state: seed, refused: false })
    }

    /// Creates a FuzzyRowFilter. Each key has one flag for each byte, which says whether the byte is fixed.
    pub fn fuzzy_row(keys: Vec<(Bytes, Vec<bool>)>) -> Result<Filter> {
        if keys.iter().any(|(key, fixed)| key.len() != fixed.len()) {
            return Err(Error::Argument {
                filter: "FuzzyRowFilter",
                rule: "Fuzzy pair lengths do not match",
            });
        }
        Ok(Single::filter(Rule::Fuzzy(Fuzzy::new(keys))))
    }

    /// Creates a MultiRowRangeFilter. At least one range is required, and each must begin before it ends.
    pub fn multi_row_range(ranges: Vec<RowRange>) -> Result<Filter> {
        Ok(Single::filter(Rule::Ranges(Ranges::new(ranges)?)))
    }
}
