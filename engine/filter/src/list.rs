//! FilterList: several filters as one, all of which or one of which must keep a cell.
//!
//! The rules are HBase's, since clients can see them in the results of filters with state. A MUST_PASS_ALL list stops
//! at the first filter that refuses the cell: later filters do not get the cell. Of these, only filters whose sole
//! state is a seek hint ([`Filter::is_hinting`]) are still asked for the hint. A MUST_PASS_ONE list passes every cell
//! to every filter, except to filters that asked to skip it.

use cell::{Cell, Comparator, Key, KeyBuf};

use crate::{Filter, ReturnCode, Transform};

/// Which filters of a list must keep a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// MUST_PASS_ALL: every filter must keep the cell.
    MustPassAll,
    /// MUST_PASS_ONE: at least one filter must keep the cell.
    MustPassOne,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    operator: Operator,
    entries: Vec<Entry>,
    reversed: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    filter: Filter,
    /// For MUST_PASS_ONE: the filter's last decision, if it asked to skip cells, and the cell for which it decided
    /// this.
    last: Option<(ReturnCode, KeyBuf)>,
    /// For MUST_PASS_ONE: whether the filter kept the last cell.
    kept: bool,
    /// For MUST_PASS_ALL: whether the filter gave a hint for the last cell.
    hinted: bool,
}

impl List {
    pub(crate) fn new(operator: Operator, filters: Vec<Filter>) -> List {
        let entry = |filter| Entry { filter, last: None, kept: false, hinted: false };
        List { operator, entries: filters.into_iter().map(entry).collect(), reversed: false }
    }

    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.entries.iter().map(|entry| &entry.filter)
    }

    pub(crate) fn filters_mut(&mut self) -> impl Iterator<Item = &mut Filter> {
        self.entries.iter_mut().map(|entry| &mut entry.filter)
    }

    /// Returns the only filter of a list that has one; `None` for any other list.
    pub(crate) fn only(&self) -> Option<&Filter> {
        match &self.entries[..] {
            [only] => Some(&only.filter),
            _ => None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn set_reversed(&mut self, reversed: bool) {
        self.reversed = reversed;
        self.filters_mut().for_each(|filter| filter.set_reversed(reversed));
    }

    pub(crate) fn reset(&mut self) {
        for entry in &mut self.entries {
            entry.filter.reset();
            entry.last = None;
            entry.kept = false;
            entry.hinted = false;
        }
    }

    pub(crate) fn filter_all_remaining(&self) -> bool {
        match self.operator {
            Operator::MustPassAll => self.filters().any(Filter::filter_all_remaining),
            Operator::MustPassOne => !self.is_empty() && self.filters().all(Filter::filter_all_remaining),
        }
    }

    pub(crate) fn may_end(&self) -> bool {
        match self.operator {
            Operator::MustPassAll => self.filters().any(Filter::may_end),
            Operator::MustPassOne => !self.is_empty() && self.filters().all(Filter::may_end),
        }
    }

    pub(crate) fn filter_row_key(&mut self, row: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        match self.operator {
            Operator::MustPassAll => {
                let (mut dropped, mut must_see_cells) = (false, false);
                for filter in self.filters_mut() {
                    if filter.filter_all_remaining() {
                        return true;
                    } else if filter.filter_row_key(row) {
                        dropped = true;
                    } else {
                        // A filter with a hint returns it only when it gets a cell. So the list must see cells.
                        must_see_cells |= filter.is_hinting();
                    }
                }
                dropped && !must_see_cells
            }
            Operator::MustPassOne => {
                let mut dropped = true;
                for filter in self.filters_mut() {
                    // Every filter gets the row key, even after one has dropped the row, because some reset their state
                    // then.
                    dropped &= filter.filter_all_remaining() || filter.filter_row_key(row);
                }
                dropped
            }
        }
    }

    pub(crate) fn filter_cell(&mut self, cell: Cell<'_>) -> ReturnCode {
        if self.is_empty() {
            return ReturnCode::Include;
        }
        match self.operator {
            Operator::MustPassAll => self.filter_by_all(cell),
            Operator::MustPassOne => self.filter_by_one(cell),
        }
    }

    fn filter_by_all(&mut self, cell: Cell<'_>) -> ReturnCode {
        let mut code = ReturnCode::Include;
        let mut hinted = false;
        let mut refused = false;
        for entry in &mut self.entries {
            entry.hinted = false;
            if refused {
                if entry.filter.is_hinting() {
                    entry.hinted = entry.filter.filter_cell(cell) == ReturnCode::SeekNextUsingHint;
                    hinted |= entry.hinted;
                }
                continue;
            }
            if entry.filter.filter_all_remaining() {
                code = ReturnCode::NextRow;
                refused = true;
                continue;
            }
            let own = entry.filter.filter_cell(cell);
            entry.hinted = own == ReturnCode::SeekNextUsingHint;
            hinted |= entry.hinted;
            code = merge_all(code, own);
            refused = !code.includes();
        }
        if hinted { ReturnCode::SeekNextUsingHint } else { code }
    }

    fn filter_by_one(&mut self, cell: Cell<'_>) -> ReturnCode {
        let mut code: Option<ReturnCode> = None;
        let reversed = self.reversed;
        for entry in &mut self.entries {
            entry.kept = false;
            if entry.filter.filter_all_remaining() {
                continue;
            }
            let passed_over = match entry.last.take() {
                Some((last, place)) => passes_over(last, &place, cell, &mut entry.filter, reversed),
                None => None,
            };
            let own = passed_over.unwrap_or_else(|| entry.filter.filter_cell(cell));
            entry.kept = own.includes();
            entry.last = match own {
                ReturnCode::Include | ReturnCode::Skip => None,
                own => Some((own, KeyBuf::of(cell))),
            };
            code = Some(merge_one(code, own));
        }
        code.unwrap_or(ReturnCode::Skip)
    }

    pub(crate) fn hint_from(&mut self, key: Key<'_>) -> Option<KeyBuf> {
        let reversed = self.reversed;
        // Whether `left` is further than `right` in the direction of the scan.
        let is_farther = |left: &KeyBuf, right: &KeyBuf| {
            let order = Comparator::Table.compare(left.position(), right.position());
            if reversed { order.is_lt() } else { order.is_gt() }
        };
        let mut chosen: Option<KeyBuf> = None;
        for entry in &mut self.entries {
            let asked = match self.operator {
                Operator::MustPassAll => entry.hinted,
                Operator::MustPassOne => true,
            };
            if !asked || entry.filter.filter_all_remaining() {
                continue;
            }
            match (entry.filter.hint_from(key), self.operator) {
                (None, Operator::MustPassAll) => {}
                // A filter of this list has no hint, so it may accept the very next cell. Then the list has none,
                // either.
                (None, Operator::MustPassOne) => return None,
                (Some(hint), operator) => {
                    let better = chosen.as_ref().is_none_or(|chosen| match operator {
                        Operator::MustPassAll => is_farther(&hint, chosen),
                        Operator::MustPassOne => is_farther(chosen, &hint),
                    });
                    if better {
                        chosen = Some(hint);
                    }
                }
            }
        }
        chosen
    }

    pub(crate) fn transform(&self) -> Transform {
        self.entries
            .iter()
            .filter(|entry| self.operator == Operator::MustPassAll || entry.kept)
            .fold(Transform::Keep, |known, entry| known.then(entry.filter.transform()))
    }

    pub(crate) fn filter_row(&mut self) -> bool {
        // As in HBase, later filters are not asked when an earlier one has decided. Filters that count rows depend on
        // that.
        match self.operator {
            Operator::MustPassAll => self.filters_mut().any(Filter::filter_row),
            Operator::MustPassOne => !self.is_empty() && self.filters_mut().all(Filter::filter_row),
        }
    }
}

/// For a filter that returned `last` for the cell at `place`: returns its decision about `cell` if that follows from
/// `last`. `None` when the filter must get the cell.
fn passes_over(
    last: ReturnCode,
    place: &KeyBuf,
    cell: Cell<'_>,
    filter: &mut Filter,
    reversed: bool,
) -> Option<ReturnCode> {
    let same_family = place.key().row() == cell.row() && place.key().family() == cell.family();
    match last {
        ReturnCode::IncludeAndNextColumn | ReturnCode::NextColumn => {
            (same_family && place.key().qualifier() == cell.qualifier()).then_some(ReturnCode::NextColumn)
        }
        ReturnCode::IncludeAndSeekNextRow | ReturnCode::NextRow => same_family.then_some(ReturnCode::NextRow),
        ReturnCode::SeekNextUsingHint => {
            let hint = filter.hint_from(place.key())?;
            let order = Comparator::Table.compare(cell.into(), hint.position());
            let is_before = if reversed { order.is_gt() } else { order.is_lt() };
            is_before.then_some(ReturnCode::SeekNextUsingHint)
        }
        ReturnCode::Include | ReturnCode::Skip => None,
    }
}

/// For MUST_PASS_ALL: returns the step of two filters that skips more. A seek hint has precedence.
pub(crate) fn merge_all(known: ReturnCode, next: ReturnCode) -> ReturnCode {
    use ReturnCode::{
        Include, IncludeAndNextColumn, IncludeAndSeekNextRow, NextColumn, NextRow, SeekNextUsingHint, Skip,
    };
    match (known, next) {
        (SeekNextUsingHint, _) | (_, SeekNextUsingHint) => SeekNextUsingHint,
        (NextRow, _) | (_, NextRow) => NextRow,
        (Include, other) | (other, Include) => other,
        (IncludeAndNextColumn, IncludeAndNextColumn) => IncludeAndNextColumn,
        (IncludeAndNextColumn | IncludeAndSeekNextRow, IncludeAndNextColumn | IncludeAndSeekNextRow) => {
            IncludeAndSeekNextRow
        }
        (IncludeAndSeekNextRow, Skip | NextColumn) | (Skip | NextColumn, IncludeAndSeekNextRow) => NextRow,
        (Skip, Skip) => Skip,
        (Skip | NextColumn | IncludeAndNextColumn, Skip | NextColumn | IncludeAndNextColumn) => NextColumn,
    }
}

/// For MUST_PASS_ONE: returns the step of two filters that skips less, so that each filter gets every cell that it has
/// not asked to skip.
pub(crate) fn merge_one(known: Option<ReturnCode>, next: ReturnCode) -> ReturnCode {
    use ReturnCode::{
        Include, IncludeAndNextColumn, IncludeAndSeekNextRow, NextColumn, NextRow, SeekNextUsingHint, Skip,
    };
    let Some(known) = known else { return next };
    let step = |code: ReturnCode| match code {
        Include | Skip => 0,
        IncludeAndNextColumn | NextColumn => 1,
        IncludeAndSeekNextRow | NextRow => 2,
        // If only one of the two filters returns a hint, the hint ranks like the next cell.
        SeekNextUsingHint => 0,
    };
    if known == SeekNextUsingHint && next == SeekNextUsingHint {
        return SeekNextUsingHint;
    }
    let nearest = step(known).min(step(next));
    if known.includes() || next.includes() {
        [Include, IncludeAndNextColumn, IncludeAndSeekNextRow][nearest]
    } else {
        [Skip, NextColumn, NextRow][nearest]
    }
}
