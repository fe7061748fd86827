//! What a flush leaves in memory: rows that are written again and again.
//!
//! Of a row that is written often memory has one version, the last. A flush that writes all of memory writes it, too, and
//! the next flush writes it again, and so do the compactions behind them. So a flush for the sake of memory leaves the
//! cells there that were *rewritten*: those of which memory has dropped an older version since the last flush.
//!
//! ```text
//!                 floor        through                    sequence
//!   ────────────────┼─────────────┼──────────────────────────┤
//!     all in the    │ all in the  │ not rewritten: in the file
//!     file          │ file        │ rewritten: stays, in new chunks, as the oldest segment of the pipeline
//! ```
//!
//! **For the log it is a flush of an earlier moment.** `through` is the write before the first one that stays. It is the
//! file's sequence id: replay begins behind it, and the log is cut there. Up to the newest write in the file, replay asks
//! it for each cell and passes over those that it has.
//!
//! **What must not be lost with what stays.** The rules judge the whole snapshot ([`CompactionMatcher`]): a version that one which stays
//! has replaced goes nowhere. After a crash the younger one comes from the log; so what is not in the log (SKIP_WAL), and
//! all before it, does not stay. While something stays a compaction of all files keeps markers, for what they have masked may
//! be in the log; a major one flushes first. Markers that memory has dropped are told in the file whatever their
//! sequence id, and replay asks for them at each put.
//!
//! **Nothing stays twice** that was not written again: what was there at the last flush goes. So the log is held back for
//! two flushes at most, and no edit grows older in memory than that.
//!
//! **Whether it pays** is measured: of the bytes that stayed, those which are gone at the next flush were replaced in memory,
//! and never written. When that was too few nothing stays for some flushes. Streams of which memory drops next to nothing, unique
//! keys or uniform updates, are flushed whole and not even looked at. Families with more than one version are, too: what
//! would stay there are versions that the next write does not replace.
//!
//! Why not the half that was written last, which is simpler: over 20 memstores of zipfian rows, in steady state, three
//! quarters of that half are rows that are not written again soon; it saves an eighth of the flushes, and their files, half as
//! large, cost more compactions than that.

use std::sync::Arc;

use cell::{Cell, SequenceId};
use memstore::Segment;

use crate::compaction_matcher::CompactionMatcher;

/// Runs of sequence ids of which the bytes are told apart.
const RUNS: u64 = 1_024;
/// What a cell takes beside its bytes, about: the record's head and its entry in a flat index.
const BESIDE: u64 = 20;
/// The share of cells that memory must have dropped since the last flush, and the share of bytes that must have been
/// rewritten, to be worth looking, and keeping.
const SHARE_MIN: f64 = 1.0 / 16.0;
/// The share of what stays that is expected to be replaced before anything is known.
const GAIN_EXPECTED: f64 = 0.5;

/// What may stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Bytes of it.
    pub(crate) bytes: u64,
    /// The share of them that must be expected to be replaced before the next flush.
    pub(crate) gain_min: f64,
    /// Only what was written after this may stay.
    pub(crate) floor: SequenceId,
}

/// What a store knows of the cells that stayed.
#[derive(Debug)]
pub(crate) struct RetainedRows {
    /// The last write when it was flushed last.
    sequence: SequenceId,
    /// Bytes that stayed then.
    stayed: u64,
    /// The share of them that is expected to be replaced.
    gain: f64,
    /// Cells that memory had dropped by then.
    dropped: u64,
}

impl Default for RetainedRows {
    fn default() -> RetainedRows {
        RetainedRows { sequence: SequenceId::ZERO, stayed: 0, gain: GAIN_EXPECTED, dropped: 0 }
    }
}

/// What becomes of a cell of the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Dropped,
    Goes,
    /// It was rewritten: it stays if it is recent enough.
    MayStay,
}

/// What of a snapshot stays.
#[derive(Debug)]
pub(crate) struct Retention {
    /// Of each cell in order.
    fates: Vec<Fate>,
    /// Only what was written after this stays.
    after: SequenceId,
    /// Up to this one everything goes.
    pub(crate) through: SequenceId,
    /// Bytes that stay.
    pub(crate) bytes: u64,
    /// The share of them that is expected to be replaced.
    pub(crate) expected: f64,
}

impl Retention {
    /// Walks over the cells once more, in the same order: for each whether it goes to the file and whether it stays.
    pub(crate) fn fates(&self) -> impl FnMut(Cell<'_>) -> (bool, bool) {
        let mut fates = self.fates.iter();
        move |cell| {
            let fate = *fates.next().expect("a snapshot does not change");
            let stays = fate == Fate::MayStay && cell.sequence() > self.after;
            (fate != Fate::Dropped && !stays, stays)
        }
    }
}

/// The bytes of a snapshot, those that may stay by their age.
struct Ages {
    floor: SequenceId,
    width: u64,
    /// In each run of sequence ids after the floor, and the first one there.
    runs: Vec<(u64, SequenceId)>,
    all: u64,
    /// Of those that had stayed before.
    stayed: u64,
}

impl Ages {
    fn new(floor: SequenceId, sequence: SequenceId) -> Ages {
        let span = sequence.0.saturating_sub(floor.0);
        let width = span.div_ceil(RUNS).max(1);
        let runs = vec![(0, SequenceId::MAX); span.div_ceil(width) as usize];
        Ages { floor, width, runs, all: 0, stayed: 0 }
    }

    fn bytes(cell: Cell<'_>) -> u64 {
        cell.bytes().len() as u64 + BESIDE
    }

    fn rewritten(&mut self, cell: Cell<'_>) {
        let sequence = cell.sequence();
        if let Some(age) = sequence.0.checked_sub(self.floor.0 + 1) {
            let run = &mut self.runs[(age / self.width) as usize];
            *run = (run.0 + Ages::bytes(cell), run.1.min(sequence));
        }
    }

    /// The write after which at most `bytes` may stay, the one before the first that does, and how many they are.
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
    /// Decides over a snapshot that ends at `sequence`, when memory has dropped `dropped` cells since the region was
    /// opened. `rewrite` says what goes to files at all. Says also how many bytes that stayed the last time are gone.
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
        let had = self.stayed;
        if had == 0 && !(is_worth_a_look && self.gain >= allowance.gain_min) {
            // What was learnt fades, so that one disappointment does not rule for ever.
            self.gain += (GAIN_EXPECTED - self.gain) / 16.0;
            return (None, 0);
        }
        let mut ages = Ages::new(allowance.floor.max(self.sequence), sequence);
        let mut fates: Vec<Fate> = Vec::with_capacity(cells as usize);
        // The last that is kept: what comes behind it says whether it was rewritten.
        let mut last: Option<(usize, Cell<'_>, bool)> = None;
        let settle = |fates: &mut [Fate], ages: &mut Ages, last: Option<(usize, Cell<'_>, bool)>| {
            if let Some((index, cell, true)) = last {
                fates[index] = Fate::MayStay;
                ages.rewritten(cell);
            }
        };
        Segment::visit(snapshot, |cell, is_rewritten| {
            if rewrite.keeps(cell) {
                let before = last.replace((fates.len(), cell, is_rewritten));
                settle(&mut fates, &mut ages, before);
                ages.all += Ages::bytes(cell);
                if cell.sequence() <= self.sequence {
                    ages.stayed += Ages::bytes(cell);
                }
                fates.push(Fate::Goes);
            } else {
                if let Some((_, kept, is_rewritten)) = &mut last {
                    *is_rewritten = *is_rewritten || Segment::is_older_version(*kept, cell);
                }
                fates.push(Fate::Dropped);
            }
        });
        settle(&mut fates, &mut ages, last);
        let spared = had.saturating_sub(ages.stayed);
        if had > 0 {
            self.gain = 0.75 * self.gain + 0.25 * (spared as f64 / had as f64);
        }
        let (after, through, stays) = ages.cut(allowance.bytes);
        let pays =
            self.gain >= allowance.gain_min && stays > 0 && stays as f64 >= ages.all as f64 * SHARE_MIN;
        (pays.then_some(Retention { fates, after, through, bytes: stays, expected: self.gain }), spared)
    }

    /// Whether something stayed at the last flush.
    pub(crate) fn has_stayed(&self) -> bool {
        self.stayed > 0
    }

    /// The store was flushed up to `sequence`, but for `stayed` bytes. Memory has dropped `dropped` cells by now.
    pub(crate) fn flushed(&mut self, sequence: SequenceId, stayed: u64, dropped: u64) {
        (self.sequence, self.stayed, self.dropped) = (sequence, stayed, dropped);
    }
}
