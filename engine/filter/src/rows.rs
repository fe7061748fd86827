//! The filters that seek from row to row: FuzzyRowFilter and MultiRowRangeFilter.
//!
//! Both compute the next row to which the scan should seek. The state that they keep between rows is HBase's, since
//! clients can see it: a fuzzy filter ends the scan when no later key can match, a range filter after the last range.

use std::cmp::Ordering;

use bytes::Bytes;

use crate::single::after_prefix;
use crate::{Error, Result, ReturnCode};

/// The state of a FuzzyRowFilter: keys of which some bytes are fixed.
#[derive(Clone, Debug)]
pub(crate) struct Fuzzy {
    /// The keys. Each has one flag for each byte, which says whether the byte is fixed. Bytes that are not fixed are 0.
    keys: Vec<(Vec<u8>, Vec<bool>)>,
    /// The index of the key that matched last.
    last: Option<usize>,
    refused: bool,
    done: bool,
    /// For each key that can still match, the next matching row and the key's index; `None` until the first hint is
    /// requested.
    ahead: Option<Vec<(Vec<u8>, usize)>>,
}

impl Fuzzy {
    pub(crate) fn new(keys: Vec<(Bytes, Vec<bool>)>) -> Fuzzy {
        let prepared = |(key, fixed): (Bytes, Vec<bool>)| {
            let bytes = key.iter().zip(&fixed).map(|(byte, fixed)| if *fixed { *byte } else { 0 });
            (bytes.collect(), fixed)
        };
        let keys = keys.into_iter().map(prepared).collect();
        Fuzzy { keys, last: None, refused: false, done: false, ahead: None }
    }

    /// Returns the number of keys.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn reset(&mut self) {
        self.refused = false;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn is_row_refused(&self) -> bool {
        self.refused
    }

    pub(crate) fn filter_row(&mut self, row: &[u8]) -> ReturnCode {
        let first = self.last.unwrap_or(0);
        let order = (first..self.keys.len()).chain(0..first);
        for index in order {
            let (key, fixed) = &self.keys[index];
            if fits(key, fixed, row) {
                self.last = Some(index);
                return ReturnCode::Include;
            }
        }
        self.last = None;
        self.refused = true;
        ReturnCode::SeekNextUsingHint
    }

    /// Returns the next row that may match. Returns `None` when there is none, and then the scan ends.
    pub(crate) fn hint(&mut self, row: &[u8], reversed: bool) -> Option<&[u8]> {
        let is_ahead = |next: &[u8]| if reversed { row > next } else { row < next };
        let mut renewed: Vec<usize> = Vec::new();
        let ahead = match &mut self.ahead {
            Some(ahead) => {
                ahead.retain(|(next, key)| {
                    let stays = is_ahead(next);
                    if !stays {
                        renewed.push(*key);
                    }
                    stays
                });
                ahead
            }
            none => {
                renewed.extend(0..self.keys.len());
                none.insert(Vec::new())
            }
        };
        for index in renewed {
            let (key, fixed) = &self.keys[index];
            if let Some(next) = next_fitting(key, fixed, row, reversed) {
                ahead.push((next, index));
            }
        }
        let nearest = |left: &&(Vec<u8>, usize), right: &&(Vec<u8>, usize)| {
            let order = left.0.cmp(&right.0);
            if reversed { order.reverse() } else { order }
        };
        let next = ahead.iter().min_by(nearest);
        self.done |= next.is_none();
        next.map(|(next, _)| &next[..])
    }
}

/// Whether `row` has the fixed bytes of `key`, up to the shorter length.
fn fits(key: &[u8], fixed: &[bool], row: &[u8]) -> bool {
    key.iter().zip(fixed).zip(row).all(|((key, fixed), row)| !fixed || key == row)
}

/// Returns the next row after `row`, in scan order, that matches `key`; `None` if there is none. For a reversed scan,
/// returns the row after all rows with the prefix.
fn next_fitting(key: &[u8], fixed: &[bool], row: &[u8], reversed: bool) -> Option<Vec<u8>> {
    let (least, most) = if reversed { (u8::MAX, 0) } else { (0, u8::MAX) };
    let length = key.len().max(row.len());
    let is_fixed = |at: usize| fixed.get(at).copied().unwrap_or(false);
    let mut next: Vec<u8> = (0..length).map(|at| key.get(at).copied().unwrap_or(0)).collect();
    if reversed {
        // Bytes that are not fixed are set to their greatest value. As in HBase, fixed zeros are too.
        next.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = u8::MAX);
    }
    let mut step: Option<usize> = None;
    let mut is_ahead = false;
    for at in 0..length {
        let byte = row.get(at).copied().unwrap_or(0);
        if !is_fixed(at) {
            next[at] = byte;
            if byte != most {
                step = Some(at);
            }
            continue;
        }
        let order = byte.cmp(&key[at]);
        match if reversed { order.reverse() } else { order } {
            Ordering::Equal => {}
            Ordering::Less => {
                is_ahead = true;
                break;
            }
            Ordering::Greater => break,
        }
    }
    if !is_ahead {
        let at = step?;
        next[at] = if reversed { next[at] - 1 } else { next[at] + 1 };
        for later in (at + 1..length).filter(|later| !is_fixed(*later)) {
            next[later] = least;
        }
    }
    // A matching row need not have trailing bytes that are not fixed.
    let last_fixed = (0..length.min(fixed.len())).rev().find(|at| fixed[*at]);
    next.truncate(last_fixed.max(step).map_or(0, |last| last + 1));
    Some(if reversed { after_prefix(&next) } else { next })
}

/// Rows from `start` to `stop`; an empty bound means no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRange {
    /// The lower bound.
    pub start: Bytes,
    /// Whether the range includes `start`.
    pub include_start: bool,
    /// The upper bound.
    pub stop: Bytes,
    /// Whether the range includes `stop`.
    pub include_stop: bool,
}

impl RowRange {
    fn contains(&self, row: &[u8]) -> bool {
        let begins = if self.include_start { row >= &self.start[..] } else { row > &self.start[..] };
        let ends = if self.include_stop { row <= &self.stop[..] } else { row < &self.stop[..] };
        begins && (self.stop.is_empty() || ends)
    }

    fn is_valid(&self) -> bool {
        self.start.is_empty()
            || self.stop.is_empty()
            || self.start < self.stop
            || (self.start == self.stop && self.include_stop)
    }
}

/// The state of a MultiRowRangeFilter: ranges of rows in order.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    /// The ranges, in the order of the scan once its direction is known.
    ranges: Vec<RowRange>,
    reversed: bool,
    /// The index of the current range, which contains the scan's row or is the next one after it.
    current: Option<usize>,
    done: bool,
    answer: ReturnCode,
}

impl Ranges {
    pub(crate) fn new(ranges: Vec<RowRange>) -> Result<Ranges> {
        let refused = |rule| Err(Error::Argument { filter: "MultiRowRangeFilter", rule });
        if ranges.is_empty() {
            return refused("No ranges found.");
        }
        if !ranges.iter().all(RowRange::is_valid) {
            return refused("a range must begin before its end");
        }
        Ok(Ranges {
            ranges: joined(ranges),
            reversed: false,
            current: None,
            done: false,
            answer: ReturnCode::Include,
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) fn answer(&self) -> ReturnCode {
        self.answer
    }

    pub(crate) fn begin_row(&mut self, row: &[u8], reversed: bool) {
        if reversed && !self.reversed {
            self.reversed = true;
            self.ranges.reverse();
        }
        if self.current.is_some_and(|current| self.ranges[current].contains(row)) {
            self.answer = ReturnCode::Include;
            return;
        }
        // The first range that ends after the row or contains it. The ranges do not overlap, so they end in the order in
        // which they begin.
        let next = self.ranges.partition_point(|range| {
            if reversed {
                row < &range.start[..] || (row == &range.start[..] && !range.include_start)
            } else {
                !range.stop.is_empty()
                    && (row > &range.stop[..] || (row == &range.stop[..] && !range.include_stop))
            }
        });
        let Some(range) = self.ranges.get(next) else {
            self.done = true;
            self.answer = ReturnCode::NextRow;
            return;
        };
        self.current = Some(next);
        let (edge, belongs) =
            if reversed { (&range.stop, range.include_stop) } else { (&range.start, range.include_start) };
        self.answer = if range.contains(row) {
            ReturnCode::Include
        } else if !belongs && row == &edge[..] {
            // The row is the excluded bound of a range, so the next row may be in the range.
            ReturnCode::NextRow
        } else {
            ReturnCode::SeekNextUsingHint
        };
    }

    pub(crate) fn hint(&self) -> Option<&[u8]> {
        let range = &self.ranges[self.current?];
        let row = if self.reversed { &range.stop } else { &range.start };
        // If the bound is open, there is no row before it to which the scan could seek.
        (!self.reversed || !row.is_empty()).then_some(&row[..])
    }
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
