//! HBase's filters and comparators, over borrowed cells.
//!
//! A [`Filter`] judges the cells of one region's scan, row by row. Its calls come in HBase's order: `reset` and
//! `filter_row_key` at a row's start, `filter_cell` for each cell that deletes, versions and columns have let through,
//! `filter_row_cells` and `filter_row` at its end; `filter_all_remaining` before each row. It has state, so that each
//! scanner gets a clone of its own. Nothing allocates per cell.
//!
//! What it does not know: regions, versions, the wire's messages; those become filters in the region server.

mod comparable;
mod error;
mod list;
pub mod regex;
mod rows;
mod single;

use cell::{Cell, Key, KeyBuf};

pub use comparable::{BitOperator, Comparable, CompareOperator, Pattern};
pub use error::{Error, Failure, Result};
pub use list::Operator;
pub use regex::Charset;
pub use rows::RowRange;
pub use single::ColumnRange;

use list::List;
use single::Single;

/// What becomes of a cell, and where to go after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnCode {
    /// It is kept.
    Include,
    /// It is kept, and the rest of its column is not looked at.
    IncludeAndNextColumn,
    /// It is kept, and the rest of its row is not looked at.
    IncludeAndSeekNextRow,
    /// It is not kept.
    Skip,
    /// It is not kept, nor the rest of its column.
    NextColumn,
    /// It is not kept, nor the rest of its row.
    NextRow,
    /// It is not kept, nor anything before the place that the filter names.
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

/// What a filter refuses, looking at one cell alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing, or it cannot be said: the cell must be judged in its turn.
    None,
    /// This one does not say: it goes with the row, should another cell of it be the one that refuses that.
    Undecided,
    /// The cell. A row of which every cell is refused is dropped.
    Cell,
    /// The whole row.
    Row,
}

/// How a kept cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// As it is.
    Keep,
    /// Without its value.
    EmptyValue,
    /// With the length of its value, four bytes, in the place of the value.
    LengthValue,
    /// With this length, four bytes, in the place of the value.
    ThisLengthValue(u32),
}

impl Transform {
    /// What comes of doing `next` after this.
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

/// A filter, alone or made of others.
#[derive(Clone, Debug)]
pub struct Filter(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Single(Single),
    List(List),
    /// Ends the scan at the first cell or row that the inner one refuses.
    WhileMatch {
        inner: Box<Filter>,
        over: bool,
    },
    /// Drops every row of which the inner one refuses a cell.
    SkipRow {
        inner: Box<Filter>,
        refused: bool,
    },
}

impl Filter {
    fn single(single: Single) -> Filter {
        Filter(Kind::Single(single))
    }

    /// Several as one.
    pub fn list(operator: Operator, filters: Vec<Filter>) -> Filter {
        Filter(Kind::List(List::new(operator, filters)))
    }

    /// WhileMatchFilter.
    pub fn while_match(inner: Filter) -> Filter {
        Filter(Kind::WhileMatch { inner: Box::new(inner), over: false })
    }

    /// SkipFilter.
    pub fn skip(inner: Filter) -> Filter {
        Filter(Kind::SkipRow { inner: Box::new(inner), refused: false })
    }

    /// Tells the direction of the scan, before its first row.
    pub fn set_reversed(&mut self, reversed: bool) {
        match &mut self.0 {
            Kind::Single(single) => single.set_reversed(reversed),
            Kind::List(list) => list.set_reversed(reversed),
            // HBase does not tell what is inside these.
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => {}
        }
    }

    /// Forgets what belongs to the last row.
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

    /// Whether nothing more will be kept.
    pub fn filter_all_remaining(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.filter_all_remaining(),
            Kind::List(list) => list.filter_all_remaining(),
            Kind::WhileMatch { inner, over } => *over || inner.filter_all_remaining(),
            // HBase's SkipFilter asks the inner one of single cells only.
            Kind::SkipRow { .. } => false,
        }
    }

    /// Whether [`filter_all_remaining`](Filter::filter_all_remaining) can ever be true: else nobody needs to ask.
    pub fn may_end(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.may_end(),
            Kind::List(list) => list.may_end(),
            Kind::WhileMatch { .. } => true,
            Kind::SkipRow { .. } => false,
        }
    }

    /// Whether it knows more than what [`reset`](Filter::reset) makes it forget and what the next row's key tells it again: what
    /// it was shown of a row cannot be shown to it once more.
    pub fn remembers_rows(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.remembers_rows(),
            Kind::List(list) => list.filters().any(Filter::remembers_rows),
            Kind::WhileMatch { .. } => true,
            Kind::SkipRow { inner, .. } => inner.remembers_rows(),
        }
    }

    /// Whether it may think for long about a single cell: who shares the thread with others asks it elsewhere.
    pub fn is_dear(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.is_dear(),
            Kind::List(list) => list.filters().any(Filter::is_dear),
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.is_dear(),
        }
    }

    /// Whether the row is dropped by its key alone.
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

    /// What becomes of a cell.
    pub fn filter_cell(&mut self, cell: Cell<'_>) -> ReturnCode {
        match &mut self.0 {
            Kind::Single(single) => single.filter_cell(cell),
            Kind::List(list) => list.filter_cell(cell),
            Kind::WhileMatch { inner, over } => {
                let code = inner.filter_cell(cell);
                // Whatever is more than "keep it and go on" ends the scan, as in HBase.
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

    /// Where to go after `cell` was answered with [`ReturnCode::SeekNextUsingHint`]; `None` is to the next cell.
    pub fn next_hint(&mut self, cell: Cell<'_>) -> Option<KeyBuf> {
        self.hint_from(cell.key())
    }

    fn hint_from(&mut self, key: Key<'_>) -> Option<KeyBuf> {
        match &mut self.0 {
            Kind::Single(single) => single.hint_from(key),
            Kind::List(list) => list.hint_from(key),
            // Neither passes on what the inner one knows.
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => None,
        }
    }

    /// Whether it is asked for a place to go to also when another filter of a list has refused the cell.
    fn is_hinting(&self) -> bool {
        matches!(&self.0, Kind::Single(single) if single.is_hinting())
    }

    /// Whether [`refusal`](Filter::refusal) knows it: what it says of a cell depends on that cell alone, and not on what it
    /// has seen.
    pub fn is_plain(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.is_plain(),
            Kind::List(list) => list.only().is_some_and(Filter::is_plain),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => false,
        }
    }

    /// What a plain filter says of a cell of a row of which it has kept nothing; it remembers nothing of that.
    #[inline]
    pub fn refusal(&self, cell: Cell<'_>) -> Refusal {
        match &self.0 {
            Kind::Single(single) => single.refusal(cell),
            Kind::List(list) => list.only().map_or(Refusal::None, |only| only.refusal(cell)),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => Refusal::None,
        }
    }

    /// How a cell that was just kept is shown.
    pub fn transform(&self) -> Transform {
        match &self.0 {
            Kind::Single(single) => single.transform(),
            Kind::List(list) => list.transform(),
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.transform(),
        }
    }

    /// Whether what is said of one row's cells can end the scan: such a filter must see the cells of a row that was
    /// dropped by its key, too.
    pub fn remembers_cells(&self) -> bool {
        match &self.0 {
            Kind::Single(_) => false,
            Kind::List(list) => list.filters().any(Filter::remembers_cells),
            Kind::WhileMatch { .. } => true,
            Kind::SkipRow { inner, .. } => inner.remembers_cells(),
        }
    }

    /// Why a cell could not be judged, since the last time that this was asked. What was answered of it means nothing.
    pub fn failure(&mut self) -> Option<Failure> {
        match &mut self.0 {
            Kind::Single(single) => single.take_failure(),
            Kind::List(list) => list.filters_mut().find_map(Filter::failure),
            Kind::WhileMatch { inner, .. } | Kind::SkipRow { inner, .. } => inner.failure(),
        }
    }

    /// Whether a row is judged when all of it is known: parts of rows cannot be given then.
    pub fn has_filter_row(&self) -> bool {
        match &self.0 {
            Kind::Single(single) => single.has_filter_row(),
            Kind::List(list) => list.filters().any(Filter::has_filter_row),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => true,
        }
    }

    /// Takes cells out of a row that is complete: `keep` has a flag for each of `cells`.
    pub fn filter_row_cells(&mut self, cells: &[Cell<'_>], keep: &mut [bool]) {
        match &mut self.0 {
            Kind::Single(single) => single.filter_row_cells(cells, keep),
            Kind::List(list) => list.filters_mut().for_each(|filter| filter.filter_row_cells(cells, keep)),
            Kind::WhileMatch { .. } | Kind::SkipRow { .. } => {}
        }
    }

    /// Whether the complete row is dropped.
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

    /// Whether cells of the family are needed to judge a row.
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
