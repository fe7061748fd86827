//! HBase's filters and comparators, over borrowed cells.
//!
//! A [`Filter`] decides which cells of a scan over one region are kept, row by row. The calls come in HBase's order:
//! `reset` and `filter_row_key` at the start of a row; `filter_cell` for each cell that is not hidden by deletes,
//! versions or the choice of columns; `filter_row_cells` and `filter_row` at the end of the row; and
//! `filter_all_remaining` before each row and between its cells. A filter has state, so each scanner uses its own
//! clone. Most filters allocate nothing for a cell.
//!
//! This crate does not know regions, versions or messages of the wire. The region server converts messages to filters.

mod comparable;
mod error;
mod foreign;
mod list;
mod rows;
mod single;

use cell::{Cell, Key, KeyBuf};

pub use comparable::{BitOperator, Comparable, CompareOperator, Pattern};
pub use error::{Error, Failure, Result};
pub use foreign::SparkColumn;
pub use javaregex::Charset;
pub use list::Operator;
pub use rows::RowRange;
pub use single::ColumnRange;

use list::List;
use single::Single;

/// The decision of a filter about a cell, and where the scan continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnCode {
    /// Keep the cell.
    Include,
    /// Keep the cell and skip the rest of its column.
    IncludeAndNextColumn,
    /// Keep the cell and skip the rest of its row.
    IncludeAndSeekNextRow,
    /// Drop the cell.
    Skip,
    /// Drop the cell and the rest of its column.
    NextColumn,
    /// Drop the cell and the rest of its row.
    NextRow,
    /// Drop the cell and everything before the filter's seek hint.
    SeekNextUsingHint,
}

impl ReturnCode {
    /// Whether the cell is kept.
    pub fn includes(self) -> bool {
        matches!(
            self,
            ReturnCode::Include | ReturnCode::IncludeAndNextColumn | ReturnCode::IncludeAndSeekNextRow
        )
    }
}

/// The effect of one cell on a row, as a [plain](Filter::is_plain) filter decides it from this cell alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The filter does not drop the cell, or it can decide only if it gets the cells in order.
    None,
    /// The filter cannot decide about this cell: the cell is dropped if another cell of its row causes the row to be
    /// dropped.
    Undecided,
    /// The filter drops the cell. A row is dropped if every cell of it is.
    Cell,
    /// The filter drops the whole row.
    Row,
}

/// How a kept cell is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The cell is returned unchanged.
    Keep,
    /// The cell is returned without its value.
    EmptyValue,
    /// The cell is returned with the length of its value, four bytes, in place of the value.
    LengthValue,
    /// The cell is returned with this length, four bytes, in place of the value.
    ThisLengthValue(u32),
}

impl Transform {
    /// Applies `next` after this transformation.
    fn then(self, next: Transform) -> Transform {
        match (self, next) {
            (known, Transform::Keep) => known,
            (Transform::Keep, next) => next,
            (Transform::EmptyValue, Transform::LengthValue) => Transform::ThisLengthValue(0),
            (_, Transform::LengthValue) => Transform::ThisLengthValue(size_of::<u32>() as u32),
            (_, next) => next,
        }
    }
}

/// Maximum number of filters and keys whose decisions about one cell are fast together.
const CHEAP_PARTS_MAX: usize = 128;

/// A filter, which may consist of other filters.
#[derive(Clone, Debug)]
pub struct Filter(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Single(Single),
    List(List),
    /// WhileMatchFilter: ends the scan at the first cell or row that the inner filter refuses.
    WhileMatch {
        inner: Box<Filter>,
        over: bool,
    },
    /// SkipFilter: drops every row in which the inner filter refuses a cell.
    SkipRow {
        inner: Box<Filter>,
        refused: bool,
    },
}

impl Filter {
    fn single(single: Single) -> Filter {
        Filter(Kind::Single(single))
    }

    /// Creates a FilterList: several filters as one.
    pub fn list(operator: Operator, filters: Vec<Filter>) -> Filter {
        Filter(Kind::List(List::new(operator, filters)))
    }

    /// Creates a WhileMatchFilter.
    pub fn while_match(inner: Filter) -> Filter {
        Filter(Kind::WhileMatch { inner: Box::new(inner), over: false })
    }

    /// Creates a SkipFilter.
    pub fn skip(inner: Filter) -> Filter {
        Filter(Kind::SkipRow { inner: Box::new(inner), refused: false })
    }

    /// Sets the direction of the scan. Must be called before its first row.
    pub fn set_reversed(&mut self, reversed: bool) {
        match &mut self.0 {
            Kind::Single(single) => single.set_reversed(reversed),
            Kind::List(list) => list.set_reversed(reversed),
            // Like HBase, does not pass the direction of the scan to the inner filters of these two.
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => {}
        }
    }

    /// Clears the state of the previous row.
    pub fn reset(&mut self) {
        match &mut self.0 {
            Kind::Single(single) => single.reset(),
            Kind::List(list) => list.reset(),
            Kind::WhileMatch { inner, .. } => inner.reset(),
            Kind::SkipRow { inner, refused } => {
                inner.reset();
                *refused = false;
            }
        }
    }

    /// Whether the filter will keep nothing more.
    pub fn filter_all_remaining(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.filter_all_remaining(),
            Kind::List(list) => list.filter_all_remaining(),
            Kind::WhileMatch { inner, over } => *over || inner.filter_all_remaining(),
            // Like HBase's SkipFilter, passes only single cells, and no whole rows, to the inner filter.
            Kind::SkipRow { .. } => false,
        }
    }

    /// Whether [`filter_all_remaining`](Filter::filter_all_remaining) can ever return true; otherwise it need not be
    /// called.
    pub fn may_end(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.may_end(),
            Kind::List(list) => list.may_end(),
            Kind::WhileMatch { .. } => true,
            Kind::SkipRow { .. } => false,
        }
    }

    /// Whether the filter has state that is not determined by the current row: neither [`reset`](Filter::reset) clears
    /// it, nor the next row's key restores it. Such a filter must not get a part of a row twice.
    pub fn remembers_rows(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.remembers_rows(),
            Kind::List(list) => list.filters().any(Filter::remembers_rows),
            Kind::WhileMatch { .. } => true,
            Kind::SkipRow { inner, .. } => inner.remembers_rows(),
        }
    }

    /// Whether deciding about one cell may take so long that a caller on a shared thread should use another thread.
    pub fn is_dear(&self) -> bool {
        self.may_take_long() || self.parts() > CHEAP_PARTS_MAX
    }

    fn may_take_long(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.may_take_long(),
            Kind::List(list) => list.filters().any(Filter::may_take_long),
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.may_take_long(),
        }
    }

    /// Returns the number of filters and keys with which a cell or row may be compared.
    fn parts(&self) -> usize {
        match &self.0 {
            Kind::Single(single) => single.parts(),
            Kind::List(list) => list.filters().map(Filter::parts).sum(),
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.parts(),
        }
    }

    /// Whether the filter drops the row because of its key alone.
    pub fn filter_row_key(&mut self, row: &[u8]) -> bool {
        match &mut self.0 {
            Kind::Single(single) => single.filter_row_key(row),
            Kind::List(list) => list.filter_row_key(row),
            Kind::WhileMatch { inner, over } => {
                if *over || inner.filter_all_remaining() {
                    return true;
                }
                let dropped = inner.filter_row_key(row);
                *over |= dropped;
                dropped
            }
            Kind::SkipRow { .. } => false,
        }
    }

    /// Decides about a cell.
    pub fn filter_cell(&mut self, cell: Cell<'_>) -> ReturnCode {
        match &mut self.0 {
            Kind::Single(single) => single.filter_cell(cell),
            Kind::List(list) => list.filter_cell(cell),
            Kind::WhileMatch { inner, over } => {
                let code = inner.filter_cell(cell);
                // Any decision other than "keep it and continue" ends the scan, as in HBase.
                *over |= code != ReturnCode::Include;
                code
            }
            Kind::SkipRow { inner, refused } => {
                let code = inner.filter_cell(cell);
                *refused |= code != ReturnCode::Include;
                code
            }
        }
    }

    /// Returns the position to seek to after [`ReturnCode::SeekNextUsingHint`] for `cell`; `None` means the next cell.
    pub fn next_hint(&mut self, cell: Cell<'_>) -> Option<KeyBuf> {
        self.hint_from(cell.key())
    }

    fn hint_from(&mut self, key: Key<'_>) -> Option<KeyBuf> {
        match &mut self.0 {
            Kind::Single(single) => single.hint_from(key),
            Kind::List(list) => list.hint_from(key),
            // Like HBase's, these two filters do not return the hints of their inner filters.
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => None,
        }
    }

    /// Whether a list asks this filter for a seek hint even when another filter of the list has refused the cell.
    fn is_hinting(&self) -> bool {
        matches!(&self.0, Kind::Single(single) if single.is_hinting())
    }

    /// Whether [`refusal`](Filter::refusal) works for this filter: its decision about a cell depends on that cell
    /// alone, and not on earlier cells.
    pub fn is_plain(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.is_plain(),
            Kind::List(list) => list.only().is_some_and(Filter::is_plain),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => false,
        }
    }

    /// Returns the decision of a [plain](Filter::is_plain) filter about one cell, for a row of which it has kept no
    /// cell so far. Changes no state.
    #[inline]
    pub fn refusal(&self, cell: Cell<'_>) -> Refusal {
        match &self.0 {
            Kind::Single(single) => single.refusal(cell),
            Kind::List(list) => list.only().map_or(Refusal::None, |only| only.refusal(cell)),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => Refusal::None,
        }
    }

    /// Returns how the last kept cell is to be returned.
    pub fn transform(&self) -> Transform {
        match &self.0 {
            Kind::Single(single) => single.transform(),
            Kind::List(list) => list.transform(),
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.transform(),
        }
    }

    /// Whether the decisions about the cells of one row can end the scan. Such a filter must also get the cells of a
    /// row that it dropped by the row key.
    pub fn remembers_cells(&self) -> bool {
        match &self.0 {
            Kind::Single(_) => false,
            Kind::List(list) => list.filters().any(Filter::remembers_cells),
            Kind::WhileMatch { .. } => true,
            Kind::SkipRow { inner, .. } => inner.remembers_cells(),
        }
    }

    /// Returns the error of a cell that could not be decided, and clears it; `None` without one. If there is one, all
    /// decisions since the last call are meaningless.
    pub fn failure(&mut self) -> Option<Failure> {
        match &mut self.0 {
            Kind::Single(single) => single.take_failure(),
            Kind::List(list) => list.filters_mut().find_map(Filter::failure),
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.failure(),
        }
    }

    /// Whether the filter decides about a row only when it is complete, so that partial rows cannot be returned.
    pub fn has_filter_row(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.has_filter_row(),
            Kind::List(list) => list.filters().any(Filter::has_filter_row),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => true,
        }
    }

    /// Drops cells of a complete row: `keep` has a flag for each of `cells`.
    pub fn filter_row_cells(&mut self, cells: &[Cell<'_>], keep: &mut [bool]) {
        match &mut self.0 {
            Kind::Single(single) => single.filter_row_cells(cells, keep),
            Kind::List(list) => list.filters_mut().for_each(|filter| filter.filter_row_cells(cells, keep)),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => {}
        }
    }

    /// Whether the filter drops the complete row.
    pub fn filter_row(&mut self) -> bool {
        match &mut self.0 {
            Kind::Single(single) => single.filter_row(),
            Kind::List(list) => list.filter_row(),
            Kind::WhileMatch { inner, over } => {
                let dropped = inner.filter_row();
                *over |= dropped;
                dropped
            }
            Kind::SkipRow { refused, .. } => *refused,
        }
    }

    /// Whether the filter needs cells of the family to decide about a row.
    pub fn is_family_essential(&self, family: &[u8]) -> bool {
        match &self.0 {
            Kind::Single(single) => single.is_family_essential(family),
            Kind::List(list) => {
                list.is_empty() || list.filters().any(|filter| filter.is_family_essential(family))
            }
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.is_family_essential(family),
        }
    }
}

#[cfg(test)]
mod tests;
