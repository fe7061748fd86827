//! Cache statistics: numbers of lookups, by table, by block kind, by outcome, and by whether the request caches what it
//! reads.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::BlockKind;

/// The cache tier that had a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The memory tier.
    Memory,
    /// The bucket cache.
    Bucket,
}

/// Outcomes of a lookup: a hit in either tier, or a miss.
const OUTCOMES: usize = 3;
const MISS: usize = 2;
const CELLS: usize = 2 * 3 * OUTCOMES;

fn place(caching: bool, kind: BlockKind, outcome: usize) -> usize {
    (usize::from(caching) * 3 + kind as usize) * OUTCOMES + outcome
}

/// The lookups for blocks of one table.
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

    pub(crate) fn lookups(&self) -> Lookups {
        Lookups { cells: std::array::from_fn(|cell| self.cells[cell].load(Ordering::Relaxed)) }
    }
}

/// Numbers of lookups, by block kind, by tier or miss, and by whether the request caches what it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    cells: [u64; CELLS],
}

impl Lookups {
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

    /// Returns the lookups since `before`.
    pub fn since(&self, before: &Lookups) -> Lookups {
        Lookups { cells: std::array::from_fn(|cell| self.cells[cell].saturating_sub(before.cells[cell])) }
    }

    /// Returns the number of lookups that found the block.
    pub fn hits(&self) -> u64 {
        self.sum(|_, _, outcome| outcome != MISS)
    }

    /// Returns the number of lookups that found the block in no tier.
    pub fn misses(&self) -> u64 {
        self.sum(|_, _, outcome| outcome == MISS)
    }

    /// Returns the number of lookups of one kind that found the block.
    pub fn hits_of(&self, kind: BlockKind) -> u64 {
        self.sum(|_, of, outcome| of == kind && outcome != MISS)
    }

    /// Returns the number of lookups of one kind that found the block in no tier. A block of unknown kind counts as
    /// data.
    pub fn misses_of(&self, kind: BlockKind) -> u64 {
        self.sum(|_, of, outcome| of == kind && outcome == MISS)
    }

    /// Returns the number of lookups that found the block in this tier.
    pub fn hits_in(&self, tier: Tier) -> u64 {
        self.sum(|_, _, outcome| outcome == tier as usize)
    }

    /// Returns the number of lookups of one kind that found the block in this tier.
    pub fn hits_of_in(&self, kind: BlockKind, tier: Tier) -> u64 {
        self.sum(|_, of, outcome| of == kind && outcome == tier as usize)
    }

    /// Returns the number of lookups that found the block, by requests that cache what they read.
    pub fn caching_hits(&self) -> u64 {
        self.sum(|caching, _, outcome| caching && outcome != MISS)
    }

    /// Returns the number of lookups that did not find the block, by requests that cache what they read.
    pub fn caching_misses(&self) -> u64 {
        self.sum(|caching, _, outcome| caching && outcome == MISS)
    }
}

impl AddAssign for Lookups {
    fn add_assign(&mut self, other: Lookups) {
        self.cells.iter_mut().zip(other.cells).for_each(|(mine, others)| *mine += others);
    }
}

/// Lookups since the start, and the current contents of the memory tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Numbers of lookups over all tables.
    pub lookups: Lookups,
    /// Number of blocks evicted from memory to make room.
    pub evicted: u64,
    /// Number of blocks not admitted to memory, because the blocks present were used more often.
    pub refused: u64,
    /// Number of blocks in memory.
    pub blocks: u64,
    /// Number of bytes in memory.
    pub bytes: u64,
    /// Number of blocks of each kind in memory, in the order of [`BlockKind::ALL`].
    pub blocks_of: [u64; 3],
}

/// The lookups for blocks of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// The table's name.
    pub table: String,
    /// The lookups for blocks of this table.
    pub lookups: Lookups,
}
