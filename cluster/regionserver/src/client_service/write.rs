//! The code that Mutate and Multi share: writes of one row, their nonces, and the cells that they return.

use std::sync::Arc;

use bytes::Bytes;
use cell::SequenceId;
use region::{Check, FamilyQuery, Mutation, MutationKind, Pending, ReadMode, Region, Scan};

use crate::RegionServer;
use crate::cells::CellsOut;
use crate::counters::count;
use crate::nonces::NonceGuard;
use crate::request::RequestedMutation;

/// The result of a write that is not durable yet.
pub(super) struct WriteOutcome {
    /// Whether the condition held; `None` if the write has no condition.
    pub(super) processed: Option<bool>,
    /// Whether cells were returned into the reply; puts and deletes return none.
    pub(super) has_result: bool,
    /// The write's sequence id; `None` if nothing was written.
    pub(super) sequence: Option<SequenceId>,
    /// Resolves when the write is durable and visible.
    pub(super) pending: Pending,
}

/// Returns the first increment or append with a nonce other than zero; `None` if there is none. Nonces of other
/// mutations are ignored.
pub(super) fn first_with_nonce(asked: &[RequestedMutation]) -> Option<&RequestedMutation> {
    asked.iter().find(|asked| {
        asked.nonce != 0 && matches!(asked.mutation.kind, MutationKind::Increment | MutationKind::Append)
    })
}

/// Writes mutations of one row together, optionally with a condition. If that would have to block but must not, writes
/// nothing. Cells that increments and appends return go into `out`. A claimed nonce is recorded as done when the write
/// is applied. If nothing is written, the nonce counts as never claimed.
pub(super) fn write_row(
    server: &RegionServer,
    region: &Arc<Region>,
    check: Option<&Check>,
    mutations: &[Mutation],
    running: Option<NonceGuard>,
    mode: ReadMode,
    out: &mut CellsOut,
) -> Result<WriteOutcome, region::Error> {
    let written = match (check, mutations) {
        (Some(check), mutations) => {
            let checked = region.check_and_mutate(check, mutations, mode)?;
            let counters = server.counters();
            count(if checked.passed { &counters.checks_passed } else { &counters.checks_failed });
            put_out(&checked.cells, out);
            let gives =
                |mutation: &Mutation| matches!(mutation.kind, MutationKind::Increment | MutationKind::Append);
            WriteOutcome {
                processed: Some(checked.passed),
                has_result: checked.passed && mutations.iter().any(gives),
                sequence: checked.pending.sequence().filter(|_| checked.passed),
                pending: checked.pending,
            }
        }
        (None, [one]) if matches!(one.kind, MutationKind::Increment | MutationKind::Append) => {
            let row = match one.kind {
                MutationKind::Increment => region.increment(one, mode)?,
                _ => region.append(one, mode)?,
            };
            put_out(&row.cells, out);
            let sequence = row.pending.sequence();
            WriteOutcome { processed: None, has_result: true, sequence, pending: row.pending }
        }
        (None, mutations) => {
            let row = region.mutate_row(mutations, mode)?;
            put_out(&row.cells, out);
            WriteOutcome {
                processed: Some(true),
                has_result: row.cells.count() > 0,
                sequence: row.pending.sequence(),
                pending: row.pending,
            }
        }
    };
    if let (Some(running), Some(sequence)) = (running, written.sequence) {
        running.done(sequence);
    }
    server.written(region);
    Ok(written)
}

/// Reads the response to a repeated increment or append: its columns as of the write `sequence`. If a flush or an
/// in-memory compaction has dropped one of these versions, returns the present versions, where HBase returns older
/// versions or nothing. First waits until everything that is read is durable.
pub(super) fn read_again(
    region: &Arc<Region>,
    mutation: &Mutation,
    sequence: SequenceId,
    out: &mut CellsOut,
) -> Result<(), region::Error> {
    region.settled().wait_blocking()?;
    if !mutation.return_results || !matches!(mutation.kind, MutationKind::Increment | MutationKind::Append) {
        return Ok(());
    }
    let mut families: Vec<FamilyQuery> = Vec::new();
    for cell in mutation.cells.cells() {
        let at = families.iter().position(|query| query.family == cell.family()).unwrap_or_else(|| {
            let family = Bytes::copy_from_slice(cell.family());
            families.push(FamilyQuery { family, qualifiers: Some(Vec::new()), time_range: None });
            families.len() - 1
        });
        families[at].qualifiers.get_or_insert_default().push(Bytes::copy_from_slice(cell.qualifier()));
    }
    for qualifiers in families.iter_mut().filter_map(|query| query.qualifiers.as_mut()) {
        qualifiers.sort();
        qualifiers.dedup();
    }
    let mut query = Scan { families, ..Scan::get(mutation.row.clone()) };
    if let Some(range) = mutation.time_range {
        query.time_range = range;
    }
    let columns = query.families.iter().filter_map(|family| family.qualifiers.as_ref()).map(Vec::len).sum();
    query.read_point = Some(sequence);
    let start = out.mark();
    // The cells are counted and kept by the same read, because a compaction may drop the versions after any read.
    let mut versions = VersionsOf { sequence, count: 0, out };
    region.get(&query, ReadMode::Any, &mut versions)?;
    if versions.count != columns {
        out.rewind(start);
        query.read_point = None;
        region.get(&query, ReadMode::Any, out)?;
    }
    Ok(())
}

/// Passes cells on, and counts those that the write `sequence` has written.
struct VersionsOf<'a> {
    sequence: SequenceId,
    count: usize,
    out: &'a mut CellsOut,
}

impl region::CellSink for VersionsOf<'_> {
    fn cell(&mut self, cell: cell::Cell<'_>) {
        self.sized_cell(cell, cell.heap_size());
    }

    fn sized_cell(&mut self, cell: cell::Cell<'_>, heap_size: usize) {
        self.count += usize::from(cell.sequence() == self.sequence);
        self.out.sized_cell(cell, heap_size);
    }
}

fn put_out(cells: &cell::CellBlock, out: &mut CellsOut) {
    for cell in cells.cells() {
        region::CellSink::cell(out, cell);
    }
}
