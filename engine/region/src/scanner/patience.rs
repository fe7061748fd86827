//! How long a step may take within one row.
//!
//! The clock is looked at after some cells, for many cost less than a look; a large cell counts as several. With a filter that
//! may think for long about one each is looked after, until the looks show that it does not.

use std::time::Duration;

use cell::Cell;
use env::Moment;

use crate::query::{Limits, ReadMode};
use crate::{Error, Result};

/// How long a read may keep a thread that others wait for: within a row it is kept here, over several by who reads them.
pub const INLINE_TIME: Duration = Duration::from_micros(300);

/// Work between two looks: a cell is one, and each of its KB, for it is copied or judged byte by byte.
const WORK_PER_LOOK: u32 = 64;

/// Two looks that are further apart than this are too far apart.
const LOOKS_APART_MAX: Duration = Duration::from_micros(50);

/// What a step is allowed, and has used.
pub(super) struct Patience {
    end: End,
    per_look: u32,
    /// Work until the next look.
    left: u32,
    /// When it was looked last.
    last: Option<Moment>,
    judged: u64,
}

/// What happens when it has taken too long.
enum End {
    /// Nothing: it may take as long as it takes.
    Never,
    /// The row is cut at this moment.
    Cut(Moment),
    /// The step fails with [`Error::WouldBlock`] at this moment, which the first look finds.
    Leave(Option<Moment>),
}

impl Patience {
    /// What `limits` allow a step within a row that may not be cut if it `is_whole`. `is_dear`: see
    /// [`Filter::is_dear`](filter::Filter::is_dear).
    pub(super) fn new(limits: &Limits, mode: ReadMode, is_whole: bool, is_dear: bool) -> Patience {
        let end = match (mode, limits.deadline) {
            (ReadMode::MemoryOnly, _) => End::Leave(None),
            (ReadMode::Any, Some(deadline)) if limits.allow_partial && !is_whole => End::Cut(deadline),
            (ReadMode::Any, _) => End::Never,
        };
        let per_look = match end {
            End::Never => u32::MAX,
            _ if is_dear => 1,
            _ => WORK_PER_LOOK,
        };
        Patience { end, per_look, left: per_look, last: None, judged: 0 }
    }

    /// Counts a cell that is judged. Says whether the clock is to be looked at behind it.
    #[inline]
    pub(super) fn judges(&mut self, cell: Cell<'_>) -> bool {
        self.judged += 1;
        let work = 1 + (cell.bytes().len() >> 10) as u32;
        self.left = self.left.saturating_sub(work);
        self.left == 0
    }

    /// How many cells were counted.
    pub(super) fn judged(&self) -> u64 {
        self.judged
    }

    /// Whether the row is to be cut here.
    #[cold]
    pub(super) fn is_over(&mut self, now: Moment) -> Result<bool> {
        let is_cheap = self.last.replace(now).is_some_and(|last| now.since(last) < LOOKS_APART_MAX);
        self.per_look = match self.end {
            End::Never => u32::MAX,
            _ if is_cheap => (self.per_look * 2).min(WORK_PER_LOOK),
            _ => 1,
        };
        self.left = self.per_look;
        match &mut self.end {
            End::Never => Ok(false),
            End::Cut(deadline) => Ok(now >= *deadline),
            End::Leave(end) => match *end.get_or_insert(now.plus(INLINE_TIME)) <= now {
                true => Err(Error::WouldBlock),
                false => Ok(false),
            },
        }
    }
}
