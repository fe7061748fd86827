//! `NEW_VERSION_BEHAVIOR`: the later write wins, whatever its timestamp.
//!
//! Without it a marker masks every cell up to its timestamp, even cells written after it, and a version displaced by
//! newer ones comes back when those are deleted. With it,
//!
//! 1. a marker masks only cells written before it or together with it;
//! 2. of two cells with one timestamp, the later write is the version;
//! 3. a displaced version stays hidden. A version is displaced if, when some later marker was written, as many newer
//!    versions existed as the family keeps. It does not matter what that marker deletes, and readers with a time range
//!    do not see the version either.
//!
//! Cells of a column come newest timestamp first, and markers before the cells they could mask, so every fact about a
//! cell is known when it comes. Each cell is compared with every marker of its column; only families with this
//! behaviour pay for it. The rest of a column is never skipped, because an older timestamp may have been written later.
//!
//! HBase keeps its state in periods, each of which ends with a marker over many timestamps, and its answers depend on
//! that. A marker of one timestamp belongs to the period that contains its sequence id when the marker is read; a
//! period that is split off later does not know it. If several markers in one batch end a period, the one that is read
//! last counts. The versions of one batch count as one. This code does the same. Source: HBase 2.6
//! `NewVersionBehaviorTracker` and its client-side tests. One difference: in the column with the empty name HBase
//! ignores family markers; here they count.

use cell::{Cell, CellType, SequenceId, Timestamp};
use smallvec::{SmallVec, smallvec};

/// The versions that existed at a moment, each identified by the sequence id of its write, in any order.
#[derive(Clone, Debug)]
struct Count {
    moment: SequenceId,
    versions: SmallVec<[SequenceId; 4]>,
}

/// The period of writes between two consecutive markers that mask many timestamps each.
#[derive(Clone, Debug)]
struct Era {
    /// Sequence id of the marker that ends the period; `SequenceId::MAX` for the current period.
    end: SequenceId,
    /// The timestamp up to which the marker masks; `None` for the current period.
    up_to: Option<Timestamp>,
    /// The markers of the period that delete one timestamp each.
    exact: SmallVec<[(Timestamp, SequenceId); 2]>,
    /// The versions that existed at each of these markers, and at the end of the period; ordered by time.
    counts: SmallVec<[Count; 1]>,
}

impl Era {
    fn new(end: SequenceId, up_to: Option<Timestamp>) -> Era {
        let at_end = Count { moment: SequenceId::MAX, versions: SmallVec::new() };
        Era { end, up_to, exact: SmallVec::new(), counts: smallvec![at_end] }
    }

    /// Adds a marker of one timestamp. From then on, versions are also counted at the moment of this marker.
    fn add(&mut self, timestamp: Timestamp, sequence: SequenceId) {
        self.exact.push((timestamp, sequence));
        let at = self.counts.partition_point(|count| count.moment < sequence);
        let versions = self.counts[at].versions.iter().copied().filter(|put| *put < sequence).collect();
        let count = Count { moment: sequence, versions };
        if self.counts[at].moment == sequence {
            self.counts[at] = count;
        } else {
            self.counts.insert(at, count);
        }
    }

    /// Returns the sequence id of the first marker that deletes exactly the version with this timestamp, written at
    /// `sequence`; `None` if there is no such marker.
    fn taken_at(&self, timestamp: Timestamp, sequence: SequenceId) -> Option<SequenceId> {
        let of_it = self.exact.iter().filter(|(of, marker)| *of == timestamp && *marker >= sequence);
        of_it.map(|(_, marker)| *marker).min()
    }
}

/// Periods, ordered by their ends; the last one is the current period.
#[derive(Clone, Debug)]
struct Eras(Vec<Era>);

impl Eras {
    fn new() -> Eras {
        Eras(vec![Era::new(SequenceId::MAX, None)])
    }

    /// Returns the index of the period that contains `moment`.
    fn at(&self, moment: SequenceId) -> usize {
        self.0.partition_point(|era| era.end < moment).min(self.0.len() - 1)
    }

    fn add(&mut self, timestamp: Timestamp, sequence: SequenceId, exactly: bool) {
        let at = self.at(sequence);
        if exactly {
            self.0[at].add(timestamp, sequence);
        } else if self.0[at].end == sequence {
            self.0[at] = Era::new(sequence, Some(timestamp));
        } else {
            self.0.insert(at, Era::new(sequence, Some(timestamp)));
        }
    }
}

/// The markers of a row and family, and the versions of the current column.
#[derive(Debug)]
pub(crate) struct NewVersions {
    max_versions: usize,
    /// The periods made by the family's markers.
    family: Eras,
    /// The periods made by the markers of the family and the column.
    column: Eras,
    /// The last timestamp seen, and the sequence id of its latest write.
    last: Option<(Timestamp, SequenceId)>,
}

impl NewVersions {
    pub(crate) fn new(max_versions: u32) -> NewVersions {
        let (family, column) = (Eras::new(), Eras::new());
        NewVersions { max_versions: max_versions as usize, family, column, last: None }
    }

    /// Begins a new row.
    pub(crate) fn clear(&mut self) {
        self.family = Eras::new();
        self.clear_column();
    }

    /// Begins a new column.
    pub(crate) fn clear_column(&mut self) {
        self.column.0.clone_from(&self.family.0);
        self.last = None;
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
        if of_family {
            self.family.add(timestamp, sequence, exactly);
        }
        self.column.add(timestamp, sequence, exactly);
    }

    /// Whether this version is hidden from every reader. Counts the version against later ones, period by period.
    pub(crate) fn masks(&mut self, cell: Cell<'_>) -> bool {
        let (timestamp, sequence) = (cell.timestamp(), cell.sequence());
        // Of several writes with one timestamp the latest comes first; an older one existed until the latest was
        // written.
        let outdone = self.last.filter(|(of, _)| *of == timestamp).map(|(_, by)| by);
        if outdone.is_none() {
            self.last = Some((timestamp, sequence));
        }
        let from = self.column.at(sequence);
        for era in &mut self.column.0[from..] {
            let taken = era.taken_at(timestamp, sequence);
            let until = taken.into_iter().chain(outdone).min().unwrap_or(SequenceId::MAX);
            for count in era.counts.iter_mut().filter(|count| (sequence..=until).contains(&count.moment)) {
                if count.versions.len() >= self.max_versions {
                    return true;
                }
                if !count.versions.contains(&sequence) {
                    count.versions.push(sequence);
                }
            }
            if taken.is_some() || era.up_to.is_some_and(|up_to| timestamp <= up_to) {
                return true;
            }
        }
        outdone.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cell::CellParts;

    /// Applies `writes`, given as (timestamp, type) in the order of writing, and returns the visible timestamps.
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
    fn the_later_write_wins() {
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
            let puts = [9, 8, 5, 3]
                .map(|timestamp| marker(timestamp, CellType::Put, b"q").to_vec().expect("within limits"));
            let seen =
                puts.iter().map(|put| Cell::trusted(put, SequenceId(4))).filter(|put| !tracker.masks(*put));
            seen.map(|put| put.timestamp().0).collect::<Vec<_>>()
        };
        use CellType::{Delete, DeleteColumn, DeleteFamily, DeleteFamilyVersion};
        assert_eq!(seen(&[marker(9, DeleteFamily, b"")]), []);
        assert_eq!(seen(&[marker(9, DeleteFamily, b""), marker(5, DeleteFamily, b"")]), [9, 8]);
        assert_eq!(seen(&[marker(9, DeleteFamily, b""), marker(5, DeleteColumn, b"q")]), [9, 8]);
        assert_eq!(seen(&[marker(9, DeleteFamilyVersion, b""), marker(5, DeleteFamilyVersion, b"")]), [8, 3]);
        // A marker of a single timestamp is known in its own period only.
        assert_eq!(seen(&[marker(8, Delete, b"q"), marker(5, DeleteColumn, b"q")]), [9]);
        assert_eq!(
            seen(&[marker(9, DeleteColumn, b"q"), marker(8, Delete, b"q"), marker(5, DeleteColumn, b"q")]),
            [9, 8]
        );
    }

    #[test]
    fn a_displaced_version_stays_hidden() {
        use CellType::{Delete, DeleteColumn, Put};
        let four = [(1, Put), (2, Put), (3, Put), (4, Put)];
        let then = |more: &[(i64, CellType)]| seen(3, &[&four[..], more].concat());
        assert_eq!(then(&[]), [4, 3, 2]);
        assert_eq!(then(&[(4, Delete)]), [3, 2], "1 was out before 4 was deleted");
        assert_eq!(then(&[(4, Delete), (3, Delete), (2, Delete)]), []);
        assert_eq!(then(&[(4, DeleteColumn), (0, Put)]), [0]);
        assert_eq!(then(&[(4, Delete), (1, Put)]), [3, 2, 1], "it was written again");
        // The first version was not displaced: one newer version was deleted before the fourth was written.
        assert_eq!(seen(3, &[(1, Put), (2, Put), (3, Put), (3, Delete), (4, Put), (4, Delete)]), [2, 1]);
        // One timestamp is one version, however often it was written.
        assert_eq!(seen(2, &[(1, Put), (2, Put), (2, Put), (2, Delete)]), [1]);
    }
}
