//! Writes that depend on the row's current cells: increment, append, check-and-mutate, and several mutations of a row
//! as one.
//!
//! The row is locked while it is read and written. The read also sees writes that are not complete yet, because the log
//! has them before this one. So if nothing is written, the response waits until the writes that were read are complete.

use std::sync::Arc;

use bytes::Bytes;
use cell::tags::{Tag, write_tag};
use cell::{Cell, CellBlock, CellParts, CellSink, CellType, SequenceId, TagType, Timestamp, string_binary};
use env::WallTime;
use filter::{Comparable, CompareOperator, Filter};
use smallvec::SmallVec;

use crate::apply::Edits;
use crate::query::{FamilyQuery, Isolation, ReadMode, Scan, TimeRange};
use crate::region::Region;
use crate::{Durability, Error, Mutation, MutationKind, Pending, Result};

/// The result of a write that also reads.
#[derive(Debug)]
pub struct ChangeOutcome {
    /// The cells that increments and appends have written, if they return results.
    pub cells: CellBlock,
    /// Resolves when the response may be sent.
    pub pending: Pending,
}

/// A condition on a row.
#[derive(Clone, Debug)]
pub struct Check {
    /// The row that is tested.
    pub row: Bytes,
    /// The condition on the row.
    pub test: Test,
    /// The versions that the test reads; `None` for all.
    pub time_range: Option<TimeRange>,
}

/// The condition that a check tests.
#[derive(Clone, Debug)]
pub enum Test {
    /// Compares the newest value of one column.
    Value {
        /// The family of the column.
        family: Bytes,
        /// The qualifier of the column.
        qualifier: Bytes,
        /// The operator. The condition is true when *expected op value* is true; filters use the opposite order.
        operator: CompareOperator,
        /// The expected value. An empty value or a null means "no value".
        comparable: Comparable,
    },
    /// Tests whether the filter accepts some cell of the row.
    Filter(Filter),
}

/// The result of a check-and-mutate.
#[derive(Debug)]
pub struct CheckOutcome {
    /// Whether the check passed and the mutations were applied.
    pub passed: bool,
    /// The cells that increments and appends have written, if they return results.
    pub cells: CellBlock,
    /// Resolves when the response may be sent, even if the check failed.
    pub pending: Pending,
}

/// The cells of a row, in one buffer.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    ends: SmallVec<[usize; 8]>,
}

impl CellSink for Collected {
    fn cell(&mut self, cell: Cell<'_>) {
        self.bytes.extend_from_slice(cell.bytes());
        self.ends.push(self.bytes.len());
    }
}

impl Collected {
    fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let mut from = 0;
        self.ends.iter().map(move |&end| {
            let cell = Cell::trusted(&self.bytes[from..end], SequenceId::ZERO);
            from = end;
            cell
        })
    }
}

/// Tests the first cell of a row, without copying the cell.
struct First<'a> {
    test: &'a Test,
    /// The timestamp of the first cell, and whether the condition is true; `None` if the row has no cell.
    found: Option<(Timestamp, Result<bool>)>,
}

impl CellSink for First<'_> {
    fn cell(&mut self, cell: Cell<'_>) {
        if self.found.is_none() {
            self.found = Some((cell.timestamp(), self.test.holds(Some(cell.value()))));
        }
    }
}

impl Test {
    /// Whether the condition is true for `value`, which is `None` if the filter accepted no cell, or the column has
    /// none. Fails if the comparator cannot compare the value, or the operator is `NO_OP`.
    fn holds(&self, value: Option<&[u8]>) -> Result<bool> {
        let Test::Value { operator, comparable, .. } = self else { return Ok(value.is_some()) };
        let expects_nothing = match comparable {
            Comparable::Binary(expected) | Comparable::BinaryPrefix(expected) => expected.is_empty(),
            Comparable::Null => true,
            _ => false,
        };
        Ok(match value {
            _ if expects_nothing && *operator == CompareOperator::NotEqual => {
                value.is_some_and(|value| !value.is_empty())
            }
            None => expects_nothing,
            Some(value) if expects_nothing && value.is_empty() => true,
            Some(_) if expects_nothing => false,
            Some(value) => {
                let order = comparable.compare(value).map_err(Error::Filter)?;
                match operator {
                    CompareOperator::Less => order.is_lt(),
                    CompareOperator::LessOrEqual => order.is_le(),
                    CompareOperator::Equal => order.is_eq(),
                    CompareOperator::NotEqual => order.is_ne(),
                    CompareOperator::GreaterOrEqual => order.is_ge(),
                    CompareOperator::Greater => order.is_gt(),
                    CompareOperator::NoOp => {
                        return Err(Error::Filter(filter::Failure::NoOperator));
                    }
                }
            }
        })
    }
}

impl Region {
    /// Adds to 64-bit numbers, and returns the new cells if the mutation asks for them. A missing cell counts as 0, and
    /// a sum that overflows wraps around. Fails with [`Error::NotALong`] if a value does not have 8 bytes.
    pub fn increment(self: &Arc<Self>, mutation: &Mutation, mode: ReadMode) -> Result<ChangeOutcome> {
        self.mutate_row(std::slice::from_ref(mutation), mode)
    }

    /// Appends to values, and returns the new cells if the mutation asks for them. A missing cell counts as an empty
    /// value.
    pub fn append(self: &Arc<Self>, mutation: &Mutation, mode: ReadMode) -> Result<ChangeOutcome> {
        self.mutate_row(std::slice::from_ref(mutation), mode)
    }

    /// Applies mutations of one row as one write. If one of them is invalid, none is applied.
    pub fn mutate_row(self: &Arc<Self>, mutations: &[Mutation], mode: ReadMode) -> Result<ChangeOutcome> {
        self.check_all(mutations)?;
        let _locks = self.lock_rows(mutations.iter(), std::iter::empty(), mode)?;
        let (cells, pending) = self.write_as_one(mutations, None, mode)?;
        Ok(ChangeOutcome { cells, pending })
    }

    /// Applies mutations of one row as one write, if `check` is true.
    pub fn check_and_mutate(
        self: &Arc<Self>,
        check: &Check,
        mutations: &[Mutation],
        mode: ReadMode,
    ) -> Result<CheckOutcome> {
        self.mutate_rows(std::slice::from_ref(check), mutations, mode)
    }

    /// Applies mutations of several rows of this region as one write, if all `checks` are true. If one is false, the
    /// result is not an error, and the mutations are not validated.
    pub fn mutate_rows(
        self: &Arc<Self>,
        checks: &[Check],
        mutations: &[Mutation],
        mode: ReadMode,
    ) -> Result<CheckOutcome> {
        self.check_writable()?;
        for check in checks {
            self.check_row(&check.row, "checkAndMutate")?;
        }
        let _locks = self.lock_rows(mutations.iter(), checks.iter().map(|check| &check.row[..]), mode)?;
        let mut newest = None;
        for check in checks {
            let (holds, timestamp) = self.holds(check, mode)?;
            if !holds {
                let pending = Pending::for_reading(self);
                return Ok(CheckOutcome { passed: false, cells: CellBlock::default(), pending });
            }
            newest = newest.max(timestamp);
        }
        // The mutations are checked only after the condition: as in HBase, mutations that are not applied may name a
        // family that does not exist.
        mutations.iter().try_for_each(|mutation| self.check_mutation(mutation))?;
        let (cells, pending) = self.write_as_one(mutations, newest, mode)?;
        Ok(CheckOutcome { passed: true, cells, pending })
    }

    fn check_all(&self, mutations: &[Mutation]) -> Result<()> {
        self.check_writable()?;
        mutations.iter().try_for_each(|mutation| self.check_mutation(mutation))
    }

    /// Writes all mutations as one log record with one sequence id. Puts that the server stamps get no timestamp older
    /// than `not_before`, so that they hide the checked value. The caller holds the row locks.
    fn write_as_one(
        self: &Arc<Self>,
        mutations: &[Mutation],
        not_before: Option<Timestamp>,
        mode: ReadMode,
    ) -> Result<(CellBlock, Pending)> {
        let clock = self.world.now();
        // The size is exact for puts. Increments and appends seldom need much more.
        let bytes = mutations.iter().map(|mutation| mutation.cells.bytes().len()).sum();
        let mut whole = Edits::with_capacity(bytes, 1);
        let (mut durability, mut nonce) = (Durability::Skip, None);
        let mut results = Vec::new();
        for mutation in mutations {
            durability = durability.max(self.strength(mutation.durability));
            nonce = nonce.or(mutation.nonce);
            let stamp = self.stamp_of(mutation, clock);
            match mutation.kind {
                MutationKind::Put => {
                    let time = WallTime(not_before.map_or(stamp.0, |newest| newest.0.max(stamp.0)));
                    self.prepare(mutation, time, mode, whole.bytes())?;
                    self.note_stamp(&mutation.row, Timestamp(time.0), clock);
                }
                MutationKind::Delete => self.prepare(mutation, stamp, mode, whole.bytes())?,
                MutationKind::Increment | MutationKind::Append => {
                    let answer = mutation.return_results.then_some(&mut results);
                    let newest = self.change_cells(mutation, stamp, mode, whole.bytes(), answer)?;
                    self.note_stamp(&mutation.row, newest, clock);
                }
            }
        }
        self.note_deletes(mutations.iter(), clock);
        let cells = CellBlock::parse(Bytes::from(results)).expect("cells encoded above are valid");
        whole.make(durability, nonce, self.comparator);
        let pending = self.write(&whole, clock)?;
        Ok((cells, pending))
    }

    /// Appends to `block` the cells that an increment or append creates, and to `answer` the same cells in the form in
    /// which they are returned. Returns the newest of their timestamps.
    fn change_cells(
        self: &Arc<Self>,
        mutation: &Mutation,
        stamp: WallTime,
        mode: ReadMode,
        block: &mut Vec<u8>,
        mut answer: Option<&mut Vec<u8>>,
    ) -> Result<Timestamp> {
        let mut newest = Timestamp(stamp.0);
        let mut families: Vec<FamilyQuery> = Vec::new();
        let part = |bytes: &[u8]| mutation.cells.bytes().slice_ref(bytes);
        for cell in mutation.cells.cells() {
            let at = families.iter().position(|query| query.family == cell.family()).unwrap_or_else(|| {
                let qualifiers = Some(Vec::with_capacity(mutation.cells.count()));
                families.push(FamilyQuery { family: part(cell.family()), qualifiers, time_range: None });
                families.len() - 1
            });
            families[at].qualifiers.get_or_insert_default().push(part(cell.qualifier()));
        }
        for qualifiers in families.iter_mut().filter_map(|query| query.qualifiers.as_mut()) {
            qualifiers.sort();
            qualifiers.dedup();
        }
        let mut current = Collected::default();
        self.current(mutation.row.clone(), families, mutation.time_range, None, mode, &mut current)?;
        block.reserve(mutation.cells.bytes().len() + current.bytes.len());
        // Both the read and the response have the columns in sorted order.
        let mut deltas: Vec<Cell<'_>> = mutation.cells.cells().collect();
        deltas.sort_by_key(|delta| (delta.family(), delta.qualifier()));
        for delta in deltas {
            let old = current
                .cells()
                .find(|cell| (cell.family(), cell.qualifier()) == (delta.family(), delta.qualifier()));
            let given =
                if delta.timestamp() == Timestamp::LATEST { Timestamp(stamp.0) } else { delta.timestamp() };
            let timestamp =
                old.map_or(given, |old| Timestamp(stamp.0.max(old.timestamp().0.saturating_add(1))));
            newest = newest.max(timestamp);
            let value = match mutation.kind {
                MutationKind::Increment => {
                    let sum =
                        number(delta.value())?.wrapping_add(old.map_or(Ok(0), |old| number(old.value()))?);
                    sum.to_be_bytes().to_vec()
                }
                _ => [old.map_or(&[][..], |old| old.value()), delta.value()].concat(),
            };
            // The tags of the mutation come first, then those of the old cell, then the time to live. A time to live in
            // the mutation replaces that of the old cell.
            let is_ttl = |tag: &Tag<'_>| tag.code == TagType::Ttl as u8;
            let ttl = delta.tags().into_iter().find(is_ttl);
            let mut tags = Vec::new();
            for tag in delta.tags().into_iter().filter(|tag| !is_ttl(tag)) {
                write_tag(&mut tags, tag.code, tag.value);
            }
            for tag in old.into_iter().flat_map(|old| old.tags()).filter(|tag| ttl.is_none() || !is_ttl(tag))
            {
                write_tag(&mut tags, tag.code, tag.value);
            }
            let before_ttl = tags.len();
            if let Some(ttl) = ttl {
                write_tag(&mut tags, ttl.code, ttl.value);
            }
            let parts = CellParts {
                row: &mutation.row,
                family: delta.family(),
                qualifier: delta.qualifier(),
                timestamp,
                cell_type: CellType::Put,
                value: &value,
                tags: &tags,
            };
            // HBase counts the cell's 4-byte length prefix too.
            self.check_size(parts.size() + 4)?;
            let write = |block: &mut Vec<u8>, parts: CellParts<'_>| {
                block.extend_from_slice(&(parts.size() as u32).to_be_bytes());
                parts.write(block).map_err(|cause| Error::NewCellTooLong {
                    column: format!("{}:{}", string_binary(parts.family), string_binary(parts.qualifier)),
                    row: string_binary(parts.row).to_string(),
                    cause,
                })
            };
            write(block, parts)?;
            if let Some(answer) = &mut answer {
                // In the response to the first write of a column HBase leaves out the time to live.
                let tags = if old.is_none() { &tags[..before_ttl] } else { &tags[..] };
                write(answer, CellParts { tags, ..parts })?;
            }
        }
        Ok(newest)
    }

    /// Reads the current cells of the row into `sink`, including those of incomplete writes.
    fn current(
        self: &Arc<Self>,
        row: Bytes,
        families: Vec<FamilyQuery>,
        range: Option<TimeRange>,
        filter: Option<Filter>,
        mode: ReadMode,
        sink: &mut dyn CellSink,
    ) -> Result<()> {
        let scan = Scan {
            families,
            filter,
            time_range: range.unwrap_or(TimeRange::ALL),
            isolation: match env::planted(10) {
                true => Isolation::ReadCommitted,
                false => Isolation::ReadUncommitted,
            },
            // As in HBase, the filter of a check sees all families of the row.
            load_families_on_demand: Some(false),
            ..Scan::get(row)
        };
        self.get(&scan, mode, sink)?;
        Ok(())
    }

    /// Returns whether the check is true, and the timestamp of the cell that it tested; `None` if there is no such
    /// cell.
    fn holds(self: &Arc<Self>, check: &Check, mode: ReadMode) -> Result<(bool, Option<Timestamp>)> {
        let (families, filter) = match &check.test {
            Test::Value { family, qualifier, .. } => {
                self.store(family)?;
                let qualifiers = Some(vec![qualifier.clone()]);
                (vec![FamilyQuery { family: family.clone(), qualifiers, time_range: None }], None)
            }
            Test::Filter(filter) => (Vec::new(), Some(filter.clone())),
        };
        // As in HBase, the first cell that the filter accepts decides.
        let mut first = First { test: &check.test, found: None };
        self.current(check.row.clone(), families, check.time_range, filter, mode, &mut first)?;
        match first.found {
            Some((timestamp, holds)) => Ok((holds?, Some(timestamp))),
            None => Ok((check.test.holds(None)?, None)),
        }
    }
}

fn number(value: &[u8]) -> Result<i64> {
    <[u8; 8]>::try_from(value).map(i64::from_be_bytes).map_err(|_| Error::NotALong(value.len()))
}
