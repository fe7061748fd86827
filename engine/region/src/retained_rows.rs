//! Rows that a flush retains in memory because they are written again and again.
//!
//! Memory has one version of a row that is written often. If every flush wrote that version, the next flush would write
//! the row again, and compactions would rewrite both. So a flush that only frees memory retains the cells that were
//! *rewritten*: those of which memory has dropped an older version since the last flush.
//!
//! ```text
//!                 floor        through                    sequence
//!   ────────────────┼─────────────┼──────────────────────────┤
//!     all in the    │ all in the  │ not rewritten: in the file
//!     file          │ file        │ rewritten: stays, in new chunks, as the oldest segment of the pipeline
//! ```
//!
//! **For the log, the flush counts as one of an earlier moment.** `through` is the last write before the first retained
//! one. It is the file's sequence id: replay begins after it, and log records up to it may be deleted. The file also
//! has some writes after `through`; replay skips the cells that the file has.
//!
//! **What must not be lost.** [`CompactionMatcher`] judges the whole snapshot, so versions that a retained cell has
//! replaced are not written anywhere. After a crash the retained cell must come from the log. Therefore nothing up to
//! the last write without a log record (SKIP_WAL) is retained. While cells are retained, a compaction of all files
//! keeps its markers, because cells that they mask may be in the log; a major compaction flushes first. The file lists
//! all dropped markers, whatever their sequence ids, and replay looks them up for each put.
//!
//! The same is true after an opening that has replayed writes: a masked cell that the file lacks is in memory again, and its
//! marker, which the file has, is not. So the [view](crate::view::View) says whether markers must stay, until a flush that
//! retains nothing.
//!
//! **A cell is retained by one flush only.** The next flush writes it, if memory has no newer version by then. So a log
//! record is needed for two flushes at most, and no edit is in memory alone for longer.
//!
//! **Whether retaining pays** is measured. Retained bytes that are no longer in memory at the next flush were replaced
//! there and never written. If these were too few, nothing is retained for some flushes. Stores whose memory drops next
//! to nothing (unique keys, uniform updates) are flushed whole, without looking at their cells. So are families with
//! more than one version, where the next write does not replace the retained one.
//!
//! A simpler rule would retain the newest half. But with Zipfian rows over 20 memstores, three quarters of that half
//! are not written again soon. That rule saves an eighth of the flushes, and its files are half as large, so
//! compactions cost more than it saves.

use std::sync::Arc;

use cell::{Cell, SequenceId};
use memstore::Segment;

use crate::compaction_matcher::CompactionMatcher;

/// Bytes are counted for each of this many ranges of sequence ids.
const RUNS: u64 = 1_024;
/// Approximate overhead of a cell in bytes: the record's header and its entry in a flat index.
const CELL_OVERHEAD: u64 = 20;
/// A snapshot is examined only if memory has dropped at least this fraction of its cells since the last flush. Also the
/// minimum fraction of the snapshot's bytes that is worth retaining.
const SHARE_MIN: f64 = 1.0 / 16.0;
/// The fraction of retained bytes that is expected to be replaced, before the first measurement.
const GAIN_EXPECTED: f64 = 0.5;

/// How much of a snapshot a flush may retain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Maximum number of retained bytes.
    pub(crate) bytes: u64,
    /// Minimum fraction of the retained bytes that must be expected to be replaced before the next flush.
    pub(crate) gain_min: f64,
    /// Only cells with a greater sequence id may be retained.
    pub(crate) floor: SequenceId,
}

/// Numbers about a store's retained cells, and the fraction of them that is expected to be replaced.
#[derive(Debug)]
pub(crate) struct RetainedRows {
    /// The sequence id of the last write that the last flush covered.
    sequence: SequenceId,
    /// Number of bytes that the last flush retained.
    retained_bytes: u64,
    /// The fraction of retained bytes that is expected to be replaced.
    gain: f64,
    /// Number of cells that memory had dropped by the last flush.
    dropped: u64,
}

impl Default for RetainedRows {
    fn default() -> RetainedRows {
        RetainedRows { sequence: SequenceId::ZERO, retained_bytes: 0, gain: GAIN_EXPECTED, dropped: 0 }
    }
}

/// The treatment of one cell of a snapshot in a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Dropped,
    Goes,
    /// The cell was rewritten: it is retained if it is recent enough.
    MayStay,
}

/// Which cells of a snapshot a flush retains.
#[derive(Debug)]
pub(crate) struct Retention {
    /// The fate of each cell, in order.
    fates: Vec<Fate>,
    /// Cells with a greater sequence id are retained, if they were rewritten.
    after: SequenceId,
    /// The sequence id up to which all cells are written to the file.
    pub(crate) through: SequenceId,
    /// Number of retained bytes.
    pub(crate) bytes: u64,
    /// The fraction of the retained bytes that is expected to be replaced.
    pub(crate) expected: f64,
}

impl Retention {
    /// Returns a function to call once for each cell, in the same order. It returns whether the cell is written to the
    /// file, and whether it is retained.
    pub(crate) fn fates(&self) -> impl FnMut(Cell<'_>) -> (bool, bool) {
        let mut fates = self.fates.iter();
        move |cell| {
            let fate = *fates.next().expect("a snapshot does not change");
            let stays = fate == Fate::MayStay && cell.sequence() > self.after;
            (fate != Fate::Dropped && !stays, stays)
        }
    }
}

/// The bytes of a snapshot, and the bytes of its rewritten cells by age.
struct RewrittenBytes {
    floor: SequenceId,
    width: u64,
    /// For each range of sequence ids after the floor: the bytes of rewritten cells, and their smallest sequence
    /// id.
    runs: Vec<(u64, SequenceId)>,
    all: u64,
    /// Number of bytes of cells that the last flush retained.
    retained_bytes: u64,
}

impl RewrittenBytes {
    fn new(floor: SequenceId, sequence: SequenceId) -> RewrittenBytes {
        let span = sequence.0.saturating_sub(floor.0);
        let width = span.div_ceil(RUNS).max(1);
        let runs = vec![(0, SequenceId::MAX); span.div_ceil(width) as usize];
        RewrittenBytes { floor, width, runs, all: 0, retained_bytes: 0 }
    }

    fn bytes(cell: Cell<'_>) -> u64 {
        cell.bytes().len() as u64 + CELL_OVERHEAD
    }

    fn add(&mut self, cell: Cell<'_>) {
        let sequence = cell.sequence();
        if let Some(age) = sequence.0.checked_sub(self.floor.0 + 1) {
            let run = &mut self.runs[(age / self.width) as usize];
            *run = (run.0 + RewrittenBytes::bytes(cell), run.1.min(sequence));
        }
    }

    /// Chooses the newest rewritten cells, of at most `bytes` bytes in all. Returns three values: the sequence id after
    /// which rewritten cells are chosen, the largest sequence id before the first chosen cell, and the number of bytes
    /// of the chosen cells.
    fn cut(&self, bytes: u64) -> (SequenceId, SequenceId, u64) {
        let (mut stays, mut first, mut recent) = (0, SequenceId::MAX, self.runs.len());
        while let Some(&(more, least)) = recent.checked_sub(1).map(|run| &self.runs[run])
            && stays + more <= bytes
        {
            (stays, first, recent) = (stays + more, first.min(least), recent - 1);
        }
        let after = SequenceId(self.floor.0 + recent as u64 * self.width);
        (after, SequenceId(first.0 - 1), stays)
    }
}

impl RetainedRows {
    /// Decides which cells of a snapshot that ends at `sequence` are retained. `dropped` is the number of cells that
    /// memory has dropped since the region was opened. `rewrite` decides which cells are written at all. Returns `None`
    /// if none is retained. Also returns how many of the bytes that the last flush retained are no longer in memory.
    pub(crate) fn split(
        &mut self,
        snapshot: &[Arc<Segment>],
        sequence: SequenceId,
        dropped: u64,
        allowance: Allowance,
        mut rewrite: CompactionMatcher,
    ) -> (Option<Retention>, u64) {
        let cells: u64 = snapshot.iter().map(|segment| segment.cells()).sum();
        let dropped = dropped.saturating_sub(self.dropped);
        let is_worth_a_look = dropped as f64 >= (cells + dropped) as f64 * SHARE_MIN;
        let had = self.retained_bytes;
        if had == 0 && !(is_worth_a_look && self.gain >= allowance.gain_min) {
            // Nothing was retained by the last flush, so nothing can be measured. The expected gain slowly returns to
            // its first value, so that retaining is tried again.
            self.gain += (GAIN_EXPECTED - self.gain) / 16.0;
            return (None, 0);
        }
        let mut rewritten = RewrittenBytes::new(allowance.floor.max(self.sequence), sequence);
        let mut fates: Vec<Fate> = Vec::with_capacity(cells as usize);
        // The last cell that is kept. It counts as rewritten if dropped cells of its column come after it.
        let mut last: Option<(usize, Cell<'_>, bool)> = None;
        let settle =
            |fates: &mut [Fate], rewritten: &mut RewrittenBytes, last: Option<(usize, Cell<'_>, bool)>| {
                if let Some((index, cell, true)) = last {
                    fates[index] = Fate::MayStay;
                    rewritten.add(cell);
                }
            };
        Segment::visit(snapshot, |cell, is_rewritten| {
            if rewrite.keeps(cell) {
                let before = last.replace((fates.len(), cell, is_rewritten));
                settle(&mut fates, &mut rewritten, before);
                rewritten.all += RewrittenBytes::bytes(cell);
                if cell.sequence() <= self.sequence {
                    rewritten.retained_bytes += RewrittenBytes::bytes(cell);
                }
                fates.push(Fate::Goes);
            } else {
                if let Some((_, kept, is_rewritten)) = &mut last {
                    *is_rewritten = *is_rewritten || Segment::is_older_version(*kept, cell);
                }
                fates.push(Fate::Dropped);
            }
        });
        settle(&mut fates, &mut rewritten, last);
        let spared = had.saturating_sub(rewritten.retained_bytes);
        if had > 0 {
            self.gain = 0.75 * self.gain + 0.25 * (spared as f64 / had as f64);
        }
        let (after, through, stays) = rewritten.cut(allowance.bytes);
        let pays =
            self.gain >= allowance.gain_min && stays > 0 && stays as f64 >= rewritten.all as f64 * SHARE_MIN;
        (pays.then_some(Retention { fates, after, through, bytes: stays, expected: self.gain }), spared)
    }

    /// Records that the store was flushed up to `sequence`, except `retained_bytes` bytes. `dropped` is the number of
    /// cells that memory has dropped by now.
    pub(crate) fn flushed(&mut self, sequence: SequenceId, retained_bytes: u64, dropped: u64) {
        (self.sequence, self.retained_bytes, self.dropped) = (sequence, retained_bytes, dropped);
    }
}
