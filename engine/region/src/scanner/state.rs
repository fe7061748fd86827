//! States of a [`RegionScanner`](super::RegionScanner), and facts about its filter that never change.

use filter::{Filter, Transform};

use crate::query::Scan;

/// Which rows a scanner can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowLimit {
    /// The rows of a range.
    Rows,
    /// Only one row, so the scanner never looks for a second one.
    OneRow,
    /// The one row of a get.
    Get,
}

impl RowLimit {
    pub(super) fn of(scan: &Scan) -> RowLimit {
        let is_one_row = scan.is_one_row() && scan.include_start && !scan.reversed;
        if is_one_row { RowLimit::OneRow } else { RowLimit::Rows }
    }

    pub(super) fn is_one_row(self) -> bool {
        self != RowLimit::Rows
    }
}

/// How far a scanner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Reading,
    /// The scanner has returned all its rows of the region.
    Ended,
    /// The filter wants no more rows, neither here nor from later regions.
    EndedByFilter,
}

/// The ways in which a scanner handles whole rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WholeRows {
    /// Each cell goes through the matcher.
    Judged,
    /// Rows that the filter refuses can be skipped whole.
    Refused {
        /// Whether the filter is likely to refuse the current row.
        likely: bool,
        /// Whether rows were skipped right before the current one.
        passed: bool,
    },
    /// Raw rows can be copied to the response.
    Raw,
}

/// Facts about the scanner's filter that never change; read once when it opens.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterTraits {
    /// Whether the filter may end the scan.
    pub(super) may_end: bool,
    /// Whether the filter judges rows as a whole.
    pub(super) judges_rows: bool,
    /// Whether judging one cell may take long.
    pub(super) is_dear: bool,
    /// Whether the filter keeps values unchanged.
    pub(super) gives_values: bool,
    /// Whether the filter remembers earlier rows. Then its state at the start of a row is kept, in case the row is read
    /// again.
    pub(super) remembers_rows: bool,
}

impl FilterTraits {
    /// Returns the facts about a filter. Without a filter no scan ends early and all values are kept.
    pub(super) fn of(filter: Option<&Filter>) -> FilterTraits {
        FilterTraits {
            may_end: filter.is_some_and(Filter::may_end),
            judges_rows: filter.is_some_and(Filter::has_filter_row),
            is_dear: filter.is_some_and(Filter::is_dear),
            gives_values: filter.is_none_or(|filter| filter.transform() == Transform::Keep),
            remembers_rows: filter.is_some_and(Filter::remembers_rows),
        }
    }
}
