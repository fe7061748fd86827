//! What is counted: looks by table, kind of block, outcome, and whether the request wanted blocks kept.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::BlockKind;

/// Where a block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// In memory, as it is read.
    Memory,
    /// In the bucket cache.
    Bucket,
}

/// Outcomes of a look: found in a tier, or missed.
const OUTCOMES: usize = 3;
const MISS: usize = 2;
const CELLS: usize = 2 * 3 * OUTCOMES;

fn place(caching: bool, kind: BlockKind, outcome: usize) -> usize {
    (usize::from(caching) * 3 + kind as usize) * OUTCOMES + outcome
}

/// The looks for blocks of one table.
#[derive(Debug)]
pub(crate) struct Tally {
    table: Box<str>,
    cells: [AtomicU64; CELLS],
}

impl Tally {
    pub(crate) fn new(table: &str) -> Tally {
        Tally { table: table.into(), cells: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    #[inline]
    pub(crate) fn hit(&self, kind: BlockKind, tier: Tier, caching: bool) {
        self.cells[place(caching, kind, tier as usize)].fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn miss(&self, kind: BlockKind, caching: bool) {
        self.cells[place(caching, kind, MISS)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn looks(&self) -> Looks {
        Looks { cells: std::array::from_fn(|cell| self.cells[cell].load(Ordering::Relaxed)) }
    }
}

/// Looks for blocks, by kind, tier, and whether blocks that were read should be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    cells: [u64; CELLS],
}

impl Looks {
    fn sum(&self, wanted: impl Fn(bool, BlockKind, usize) -> bool) -> u64 {
        let mut sum = 0;
        for caching in [false, true] {
            for kind in BlockKind::ALL {
                for outcome in 0..OUTCOMES {
                    if wanted(caching, kind, outcome) {
                        sum += self.cells[place(caching, kind, outcome)];
                    }
                }
            }
        }
        sum
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &Looks) -> Looks {
        Looks { cells: std::array::from_fn(|cell| self.cells[cell].saturating_sub(before.cells[cell])) }
    }

    /// Blocks that were found.
    pub fn hits(&self) -> u64 {
        self.sum(|_, _, outcome| outcome != MISS)
    }

    /// Blocks that were in no tier.
    pub fn misses(&self) -> u64 {
        self.sum(|_, _, outcome| outcome == MISS)
    }

    /// Blocks of a kind that were found.
    pub fn hits_of(&self, kind: BlockKind) -> u64 {
        self.sum(|_, of, outcome| of == kind && outcome != MISS)
    }

    /// Blocks of a kind that were in no tier. What is of no known kind before it is read counts as data.
    pub fn misses_of(&self, kind: BlockKind) -> u64 {
        self.sum(|_, of, outcome| of == kind && outcome == MISS)
    }

    /// Blocks that were found in a tier.
    pub fn hits_in(&self, tier: Tier) -> u64 {
        self.sum(|_, _, outcome| outcome == tier as usize)
    }

    /// Blocks of a kind that were found in a tier.
    pub fn hits_of_in(&self, kind: BlockKind, tier: Tier) -> u64 {
        self.sum(|_, of, outcome| of == kind && outcome == tier as usize)
    }

    /// Blocks that were found, for requests that want what is read kept.
    pub fn caching_hits(&self) -> u64 {
        self.sum(|caching, _, outcome| caching && outcome != MISS)
    }

    /// Blocks that were not, for requests that want what is read kept.
    pub fn caching_misses(&self) -> u64 {
        self.sum(|caching, _, outcome| caching && outcome == MISS)
    }
}

impl AddAssign for Looks {
    fn add_assign(&mut self, other: Looks) {
        self.cells.iter_mut().zip(other.cells).for_each(|(mine, others)| *mine += others);
    }
}

/// Looks since the start, and what is in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Looks, over all tables.
    pub looks: Looks,
    /// Dropped from memory to make room.
    pub evicted: u64,
    /// Not taken into memory, because what was there was used more.
    pub refused: u64,
    /// Blocks in memory now.
    pub blocks: u64,
    /// Bytes in memory now.
    pub bytes: u64,
    /// Blocks of each kind in memory now, in the order of [`BlockKind::ALL`].
    pub blocks_of: [u64; 3],
}

/// The looks for blocks of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// Its name.
    pub table: String,
    /// The looks.
    pub looks: Looks,
}
