//! Limits the time that a step may spend within one row.
//!
//! Reading the clock costs more than judging most cells, so the clock is read once for a number of cells; a large cell
//! counts as several. With a costly filter the clock is read after every cell, until the measured times show that the
//! filter is fast.

use std::time::Duration;

use cell::Cell;
use env::Moment;

use crate::query::{Limits, ReadMode};
use crate::{Error, Result};

/// Maximum time that a read may occupy a thread on which other calls wait. Within a row the scanner checks it, between
/// rows its caller.
pub const INLINE_TIME: Duration = Duration::from_micros(300);

/// Amount of work between two clock readings. A cell counts 1, plus 1 for each KB, which is copied or compared byte by
/// byte.
const WORK_PER_READING: u32 = 64;

/// If clock readings are further apart than this, the clock is read after every cell.
const READINGS_APART_MAX: Duration = Duration::from_micros(50);

/// The time limit of a step, and the work since the last clock reading.
pub(super) struct StepTimer {
    end: Expiry,
    work_per_reading: u32,
    /// Amount of work until the next clock reading.
    left: u32,
    /// The last clock reading.
    last: Option<Moment>,
    judged: u64,
}

/// What happens when the time of a step is over.
enum Expiry {
    /// Nothing happens: there is no limit.
    Never,
    /// The row is cut at this moment.
    Cut(Moment),
    /// The step fails with [`Error::WouldBlock`] at this moment, which is set when the clock is first read.
    Leave(Option<Moment>),
}

impl StepTimer {
    /// Creates the time limit for a step within a row. An `is_whole` row may not be cut. `is_dear`: see
    /// [`Filter::is_dear`](filter::Filter::is_dear).
    pub(super) fn new(limits: &Limits, mode: ReadMode, is_whole: bool, is_dear: bool) -> StepTimer {
        let end = match (mode, limits.deadline) {
            (ReadMode::MemoryOnly, _) => Expiry::Leave(None),
            (ReadMode::Any, Some(deadline)) if limits.allow_partial && !is_whole => Expiry::Cut(deadline),
            (ReadMode::Any, _) => Expiry::Never,
        };
        let work_per_reading = match end {
            Expiry::Never => u32::MAX,
            _ if is_dear => 1,
            _ => WORK_PER_READING,
        };
        StepTimer { end, work_per_reading, left: work_per_reading, last: None, judged: 0 }
    }

    /// Counts a judged cell. Returns whether the caller should read the clock after it.
    #[inline]
    pub(super) fn count(&mut self, cell: Cell<'_>) -> bool {
        self.judged += 1;
        let work = 1 + (cell.bytes().len() >> 10) as u32;
        self.left = self.left.saturating_sub(work);
        self.left == 0
    }

    /// Returns the number of judged cells.
    pub(super) fn judged(&self) -> u64 {
        self.judged
    }

    /// Whether the row should be cut here. Fails with [`Error::WouldBlock`] if the step must end instead.
    #[cold]
    pub(super) fn is_expired(&mut self, now: Moment) -> Result<bool> {
        let is_cheap = self.last.replace(now).is_some_and(|last| now.since(last) < READINGS_APART_MAX);
        self.work_per_reading = match self.end {
            Expiry::Never => u32::MAX,
            _ if is_cheap => (self.work_per_reading * 2).min(WORK_PER_READING),
            _ => 1,
        };
        self.left = self.work_per_reading;
        match &mut self.end {
            Expiry::Never => Ok(false),
            Expiry::Cut(deadline) => Ok(now >= *deadline),
            Expiry::Leave(end) => match *end.get_or_insert(now.plus(INLINE_TIME)) <= now {
                true => Err(Error::WouldBlock),
                false => Ok(false),
            },
        }
    }
}
