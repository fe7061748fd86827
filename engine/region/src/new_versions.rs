//! `NEW_VERSION_BEHAVIOR`: what was written later wins, whatever its timestamp.
//!
//! Without it a marker masks every cell up to its timestamp, also those that are written after it, and a version that
//! newer ones have pushed out comes back when those are deleted. With it,
//!
//! 1. a marker masks only what was written before it, or with it;
//! 2. of two cells with one timestamp the one that was written later is the version;
//! 3. a version that was pushed out once stays out: if at the moment of some later marker there were as many newer
//!    versions as the family keeps, it is gone, whatever that marker takes away. Readers that ask for a part of time only
//!    do not see it either.
//!
//! Cells of a column come newest timestamp first, and markers before what they could mask, so that all that matters of a
//! cell is known when it comes. Every marker of the column is looked at for every cell; families with this behaviour pay
//! for it, others never come here. Nothing here says that the rest of a column is masked: an older timestamp may have been
//! written later. Source of the facts: HBase 2.6 `NewVersionBehaviorTracker` and its client-side tests.

use cell::{Cell, CellType, SequenceId, Timestamp};
use smallvec::SmallVec;

/// A marker, as far as it masks.
#[derive(Clone, Copy, Debug)]
struct Marker {
    timestamp: Timestamp,
    sequence: SequenceId,
    /// Whether it masks its own timestamp alone, or all up to it.
    exactly: bool,
    /// The moment of the marker over all timestamps that it goes with: the next one that was known when it came.
    with: SequenceId,
}

impl Marker {
    fn covers(self, timestamp: Timestamp) -> bool {
        if self.exactly { timestamp == self.timestamp } else { timestamp <= self.timestamp }
    }
}

/// The markers of a row and family, and the versions of the column under way.
#[derive(Debug, Default)]
pub(crate) struct NewVersions {
    max_versions: usize,
    family: Vec<Marker>,
    /// Those of the family and of the column.
    column: Vec<Marker>,
    /// Versions met so far, masked ones included.
    puts: Vec<Version>,
}

/// A version, and how long it was there.
#[derive(Clone, Copy, Debug)]
struct Version {
    timestamp: Timestamp,
    sequence: SequenceId,
    /// From this moment on it is not there; `None` when it is there for good.
    gone: Option<SequenceId>,
}

impl Version {
    /// Whether it was there at `moment`: with what was written then, but before markers of that moment took anything.
    fn is_there(&self, moment: SequenceId) -> bool {
        self.sequence <= moment && self.gone.is_none_or(|gone| moment < gone)
    }
}

impl NewVersions {
    pub(crate) fn new(max_versions: u32) -> NewVersions {
        NewVersions { max_versions: max_versions as usize, ..NewVersions::default() }
    }

    /// Begins a row.
    pub(crate) fn clear(&mut self) {
        self.family.clear();
        self.clear_column();
    }

    /// Begins a column.
    pub(crate) fn clear_column(&mut self) {
        self.column.clear();
        self.column.extend_from_slice(&self.family);
        self.puts.clear();
    }

    pub(crate) fn add(&mut self, marker: Cell<'_>) {
        let (timestamp, sequence) = (marker.timestamp(), marker.sequence());
        let (of_family, exactly) = match marker.cell_type() {
            Some(CellType::DeleteFamily) => (true, false),
            Some(CellType::DeleteFamilyVersion) => (true, true),
            Some(CellType::DeleteColumn) => (false, false),
            Some(CellType::Delete) => (false, true),
            _ => return,
        };
        let lists = [Some(&mut self.column), of_family.then_some(&mut self.family)];
        for markers in lists.into_iter().flatten() {
            let next = |markers: &[Marker]| {
                let over_all = markers.iter().filter(|other| !other.exactly && other.sequence >= sequence);
                over_all.map(|other| other.sequence).min().unwrap_or(SequenceId::MAX)
            };
            let with = if exactly { next(markers) } else { sequence };
            if !exactly {
                // HBase knows one of a batch, the last that comes by, and nothing of what went with the others.
                markers.retain(|earlier| earlier.with != sequence);
            }
            markers.push(Marker { timestamp, sequence, exactly, with });
        }
    }

    /// Whether nobody may see this version; notes it for those that follow.
    pub(crate) fn masks(&mut self, cell: Cell<'_>) -> bool {
        let (timestamp, sequence) = (cell.timestamp(), cell.sequence());
        let gone = self.gone(timestamp, sequence);
        self.puts.push(Version { timestamp, sequence, gone });
        gone.is_some()
    }

    /// The moment from which on the version is not there any more. Its life is gone through from marker to marker.
    fn gone(&self, timestamp: Timestamp, sequence: SequenceId) -> Option<SequenceId> {
        let markers = || self.column.iter().filter(|marker| marker.sequence >= sequence);
        let mut moments: SmallVec<[SequenceId; 8]> = markers().map(|marker| marker.sequence).collect();
        moments.sort_unstable();
        moments.dedup();
        moments.push(SequenceId::MAX);
        // Of one timestamp the one that was written last comes first.
        let outdone = self.puts.last().filter(|last| last.timestamp == timestamp).map(|last| last.sequence);
        for moment in moments {
            if let Some(outdone) = outdone.filter(|outdone| *outdone <= moment) {
                return Some(outdone);
            }
            // One that was outdone is not there beside the one that did it, so that each timestamp counts once.
            // Nor do those of one batch count more than once: it is their moments that HBase counts.
            let newer = self.puts.iter().filter(|put| put.timestamp > timestamp && put.is_there(moment));
            let mut moments: SmallVec<[SequenceId; 8]> = newer.map(|put| put.sequence).collect();
            moments.sort_unstable();
            moments.dedup();
            if moments.len() >= self.max_versions {
                return Some(moment);
            }
            if markers().any(|marker| marker.sequence == moment && marker.covers(timestamp)) {
                // It was there when the marker came, and pushed out what it could.
                return Some(moment.next());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::CellParts;

    /// `writes` are (timestamp, type) in the order in which they were written; says the timestamps that are seen.
    fn seen(max_versions: u32, writes: &[(i64, CellType)]) -> Vec<i64> {
        let mut cells: Vec<_> = writes
            .iter()
            .enumerate()
            .map(|(index, &(timestamp, cell_type))| {
                let qualifier: &[u8] = if cell_type.is_family_delete() { b"" } else { b"q" };
                let parts = CellParts {
                    row: b"r",
                    family: b"f",
                    qualifier,
                    timestamp: Timestamp(timestamp),
                    cell_type,
                    value: b"",
                    tags: b"",
                };
                (parts.to_vec().expect("within limits"), SequenceId(index as u64 + 1))
            })
            .collect();
        let cell = |(bytes, sequence): &(Vec<u8>, SequenceId)| {
            Cell::trusted(bytes, *sequence).key().bytes().to_vec()
        };
        cells.sort_by(|left, right| {
            let order = cell::Comparator::Table
                .compare_keys(cell::Key::trusted(&cell(left)), cell::Key::trusted(&cell(right)));
            order.then(right.1.cmp(&left.1))
        });
        let mut tracker = NewVersions::new(max_versions);
        let mut seen = Vec::new();
        for (bytes, sequence) in &cells {
            let cell = Cell::trusted(bytes, *sequence);
            match cell.cell_type() {
                Some(CellType::Put) if !tracker.masks(cell) => seen.push(cell.timestamp().0),
                Some(CellType::Put) => {}
                _ => tracker.add(cell),
            }
        }
        seen.truncate(max_versions as usize);
        seen
    }

    #[test]
    fn what_was_written_later_wins() {
        use CellType::{Delete, DeleteColumn, DeleteFamily, DeleteFamilyVersion, Put};
        for marker in [DeleteColumn, DeleteFamily] {
            assert_eq!(seen(3, &[(1, Put), (2, Put), (9, marker)]), []);
            assert_eq!(seen(3, &[(2, Put), (9, marker), (1, Put)]), [1], "written after the marker");
            assert_eq!(seen(3, &[(9, marker), (1, Put), (2, Put)]), [2, 1]);
        }
        for marker in [Delete, DeleteFamilyVersion] {
            assert_eq!(seen(3, &[(1, Put), (2, Put), (2, marker)]), [1]);
            assert_eq!(seen(3, &[(1, Put), (2, Put), (2, marker), (2, Put)]), [2, 1]);
        }
    }

    #[test]
    fn of_markers_of_one_batch_the_oldest_counts() {
        let marker = |timestamp, cell_type, qualifier: &'static [u8]| CellParts {
            row: b"r",
            family: b"f",
            qualifier,
            timestamp: Timestamp(timestamp),
            cell_type,
            value: b"",
            tags: b"",
        };
        let seen = |markers: &[CellParts<'_>]| {
            let mut tracker = NewVersions::new(9);
            let mut column = false;
            for parts in markers {
                if !parts.cell_type.is_family_delete() && !column {
                    tracker.clear_column();
                    column = true;
                }
                tracker.add(Cell::trusted(&parts.to_vec().expect("within limits"), SequenceId(7)));
            }
            if !column {
                tracker.clear_column();
            }
            let puts = [9, 8, 5, 3].map(|timestamp| marker(timestamp, CellType::Put, b"q").to_vec().expect("within limits"));
            let seen = puts.iter().map(|put| Cell::trusted(put, SequenceId(4))).filter(|put| !tracker.masks(*put));
            seen.map(|put| put.timestamp().0).collect::<Vec<_>>()
        };
        use CellType::{Delete, DeleteColumn, DeleteFamily, DeleteFamilyVersion};
        assert_eq!(seen(&[marker(9, DeleteFamily, b"")]), []);
        assert_eq!(seen(&[marker(9, DeleteFamily, b""), marker(5, DeleteFamily, b"")]), [9, 8]);
        assert_eq!(seen(&[marker(9, DeleteFamily, b""), marker(5, DeleteColumn, b"q")]), [9, 8]);
        assert_eq!(seen(&[marker(9, DeleteFamilyVersion, b""), marker(5, DeleteFamilyVersion, b"")]), [8, 3]);
        // Of the same batch, and known before there was one over all timestamps.
        assert_eq!(seen(&[marker(8, Delete, b"q"), marker(5, DeleteColumn, b"q")]), [9]);
        assert_eq!(seen(&[marker(9, DeleteColumn, b"q"), marker(8, Delete, b"q"), marker(5, DeleteColumn, b"q")]), [9, 8]);
    }

    #[test]
    fn a_version_that_was_pushed_out_stays_out() {
        use CellType::{Delete, DeleteColumn, Put};
        let four = [(1, Put), (2, Put), (3, Put), (4, Put)];
        let then = |more: &[(i64, CellType)]| seen(3, &[&four[..], more].concat());
        assert_eq!(then(&[]), [4, 3, 2]);
        assert_eq!(then(&[(4, Delete)]), [3, 2], "1 was out before 4 was deleted");
        assert_eq!(then(&[(4, Delete), (3, Delete), (2, Delete)]), []);
        assert_eq!(then(&[(4, DeleteColumn), (0, Put)]), [0]);
        assert_eq!(then(&[(4, Delete), (1, Put)]), [3, 2, 1], "it was written again");
        // It had never been out: one was deleted before the fourth came.
        assert_eq!(seen(3, &[(1, Put), (2, Put), (3, Put), (3, Delete), (4, Put), (4, Delete)]), [2, 1]);
        // One timestamp is one version, however often it was written.
        assert_eq!(seen(2, &[(1, Put), (2, Put), (2, Put), (2, Delete)]), [1]);
    }
}
