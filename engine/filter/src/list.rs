//! FilterList: several filters as one, all of which or one of which must keep a cell.

use cell::{Cell, Comparator, KeyBuf};

use crate::{Filter, ReturnCode, Transform};

/// Which of a list's filters must keep a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Every one.
    MustPassAll,
    /// Any one.
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
    /// One of all: what it said of the last cell, and which one that was.
    last: Option<(ReturnCode, KeyBuf)>,
    /// Whether it kept the last cell.
    kept: bool,
    /// Whether it dropped the row by its key.
    dropped_row: bool,
    /// Whether it asked to go to a place of its own.
    hinted: bool,
}

impl List {
    pub(crate) fn new(operator: Operator, filters: Vec<Filter>) -> List {
        let entry = |filter| Entry { filter, last: None, kept: false, dropped_row: false, hinted: false };
        List { operator, entries: filters.into_iter().map(entry).collect(), reversed: false }
    }

    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.entries.iter().map(|entry| &entry.filter)
    }

    pub(crate) fn filters_mut(&mut self) -> impl Iterator<Item = &mut Filter> {
        self.entries.iter_mut().map(|entry| &mut entry.filter)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn reset(&mut self) {
        for entry in &mut self.entries {
            entry.filter.reset();
            entry.last = None;
            entry.kept = false;
            entry.dropped_row = false;
            entry.hinted = false;
        }
    }

    pub(crate) fn filter_all_remaining(&self) -> bool {
        match self.operator {
            Operator::MustPassAll => self.filters().any(Filter::filter_all_remaining),
            Operator::MustPassOne => !self.is_empty() && self.filters().all(Filter::filter_all_remaining),
        }
    }

    pub(crate) fn filter_row_key(&mut self, row: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        match self.operator {
            Operator::MustPassAll => {
                let mut dropped = false;
                for filter in self.filters_mut() {
                    dropped |= filter.filter_all_remaining() || filter.filter_row_key(row);
                }
                dropped
            }
            Operator::MustPassOne => {
                let mut dropped = true;
                for entry in &mut self.entries {
                    // Every one hears of the row: some begin their state there.
                    entry.dropped_row =
                        entry.filter.filter_all_remaining() || entry.filter.filter_row_key(row);
                    dropped &= entry.dropped_row;
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

    /// Stops at the first filter that does not keep the cell: those behind it, which may count, never see it.
    fn filter_by_all(&mut self, cell: Cell<'_>) -> ReturnCode {
        let mut code = ReturnCode::Include;
        for entry in &mut self.entries {
            entry.hinted = false;
            entry.kept = false;
        }
        for entry in &mut self.entries {
            if entry.filter.filter_all_remaining() {
                return ReturnCode::NextRow;
            }
            let own = entry.filter.filter_cell(cell);
            entry.hinted = own == ReturnCode::SeekNextUsingHint;
            entry.kept = own.includes();
            code = merge_all(code, own);
            if !code.includes() {
                break;
            }
        }
        code
    }

    fn filter_by_one(&mut self, cell: Cell<'_>) -> ReturnCode {
        let mut code: Option<ReturnCode> = None;
        let mut everyone_done = true;
        for entry in &mut self.entries {
            entry.kept = false;
            entry.hinted = false;
            if entry.filter.filter_all_remaining() {
                continue;
            }
            everyone_done = false;
            if entry.dropped_row {
                code = Some(merge_one(code, ReturnCode::NextRow));
                continue;
            }
            // What it asked to pass over it is not shown.
            if let Some((last, place)) = &entry.last
                && passes_over(*last, place, cell, &entry.filter)
            {
                let own = match last {
                    ReturnCode::IncludeAndNextColumn | ReturnCode::NextColumn => ReturnCode::NextColumn,
                    ReturnCode::SeekNextUsingHint => ReturnCode::SeekNextUsingHint,
                    _ => ReturnCode::NextRow,
                };
                entry.hinted = own == ReturnCode::SeekNextUsingHint;
                code = Some(merge_one(code, own));
                continue;
            }
            let own = entry.filter.filter_cell(cell);
            entry.kept = own.includes();
            entry.hinted = own == ReturnCode::SeekNextUsingHint;
            match own {
                ReturnCode::Include | ReturnCode::Skip => entry.last = None,
                _ => entry.last = Some((own, KeyBuf::of(cell))),
            }
            code = Some(merge_one(code, own));
        }
        match code {
            Some(code) if !everyone_done => code,
            _ => ReturnCode::Skip,
        }
    }

    pub(crate) fn next_hint(&self, cell: Cell<'_>) -> Option<KeyBuf> {
        let hints = self.entries.iter().filter(|entry| entry.hinted).filter_map(|entry| match &entry.last {
            Some((ReturnCode::SeekNextUsingHint, _)) | None | Some(_) => entry.filter.next_hint(cell),
        });
        let order =
            |left: &KeyBuf, right: &KeyBuf| Comparator::Table.compare(left.position(), right.position());
        match self.operator {
            // All must agree: the farthest place that one of them names.
            Operator::MustPassAll if !self.reversed => hints.max_by(order),
            _ => hints.min_by(order),
        }
    }

    pub(crate) fn transform(&self, cell: Cell<'_>) -> Transform {
        let relevant = |entry: &&Entry| self.operator == Operator::MustPassAll || entry.kept;
        self.entries
            .iter()
            .filter(relevant)
            .map(|entry| entry.filter.transform(cell))
            .find(|transform| *transform != Transform::Keep)
            .unwrap_or(Transform::Keep)
    }

    pub(crate) fn filter_row(&mut self) -> bool {
        match self.operator {
            Operator::MustPassAll => {
                let mut dropped = false;
                for filter in self.filters_mut() {
                    dropped |= filter.filter_row();
                }
                dropped
            }
            Operator::MustPassOne => {
                let mut dropped = !self.is_empty();
                for entry in &mut self.entries {
                    // One that ended the row by its key has no say in what the others let through.
                    dropped &= entry.dropped_row || entry.filter.filter_row();
                }
                dropped
            }
        }
    }
}

fn passes_over(last: ReturnCode, place: &KeyBuf, cell: Cell<'_>, filter: &Filter) -> bool {
    let same_row = place.key().row() == cell.row();
    let same_column = same_row && place.key().column() == (cell.family(), cell.qualifier());
    match last {
        ReturnCode::IncludeAndNextColumn | ReturnCode::NextColumn => same_column,
        ReturnCode::IncludeAndSeekNextRow | ReturnCode::NextRow => same_row,
        ReturnCode::SeekNextUsingHint => filter
            .next_hint(cell)
            .is_some_and(|hint| Comparator::Table.compare(cell.into(), hint.position()).is_lt()),
        ReturnCode::Include | ReturnCode::Skip => false,
    }
}

/// All must keep the cell: the farthest step that one of them asks for. A place of its own goes before everything.
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

/// One must keep the cell: the nearest step, so that none misses what it has not refused.
pub(crate) fn merge_one(known: Option<ReturnCode>, next: ReturnCode) -> ReturnCode {
    use ReturnCode::{
        Include, IncludeAndNextColumn, IncludeAndSeekNextRow, NextColumn, NextRow, SeekNextUsingHint, Skip,
    };
    let Some(known) = known else { return next };
    let step = |code: ReturnCode| match code {
        Include | Skip => 0,
        IncludeAndNextColumn | NextColumn => 1,
        IncludeAndSeekNextRow | NextRow => 2,
        // A place of its own is as near as the next cell, unless both name one.
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
