//! Delete markers that memory has dropped together with all cells they masked, and how they come back.
//!
//! A queue puts, reads and deletes each row. HBase's memstores keep delete markers at every level of in-memory
//! compaction. So half of what such a table writes to disk are markers for cells that never reached the disk. But a
//! marker also masks later writes: a put with an older timestamp stays hidden until a major compaction drops the
//! marker. So a dropped marker is recorded, in 24 bytes, for as long as it would have been kept:
//!
//! ```text
//! entry  kind 1B · the first 15 bytes of MD5(row length 4B · row · qualifier) · timestamp 8B
//! list   the entries, sorted
//! ```
//!
//! 1. A memory compaction drops a marker, and adds it to the list of the store's [`View`](crate::view::View), if the
//!    marker masks nothing elsewhere: no flush is running, each file's Bloom filter excludes the row, all sealed writes
//!    are complete, and no newer put can have a timestamp as old as the marker's ([`LateRows`]).
//! 2. A flush writes the list into its file, as a file-info entry ([`FACT`]) that HBase ignores. A compaction of some
//!    files merges their lists. A major compaction drops markers, and so it drops the list, except entries that are
//!    younger than `hbase.hstore.time.to.purge.deletes`.
//! 3. A put whose timestamp is in the past is looked up in the lists. If a recorded marker masks it, the marker is
//!    inserted again beside the put, under the put's sequence id. The marker needs no log record: a replay either
//!    replays the marker's own record first, or finds the marker in the list of a file.
//!
//! A raw scan does not see dropped markers or versions. A put to another row is taken for a masked one only if 120
//! bits of MD5 collide.

use bytes::Bytes;
use cell::{Cell, CellParts, CellType, Timestamp};
use env::HashSet;
use md5::{Digest, Md5};

/// Name of the file-info entry that lists markers dropped before the file was written.
pub(crate) const FACT: &str = "BELLOWS_SWEPT_MARKERS";
/// Size of an entry in bytes.
const ENTRY: usize = 24;
/// Number of leading bytes of an entry that identify the masked row or column and the kind of marker.
const WHAT: usize = 16;
/// Number of late rows after which no marker is dropped until the next flush.
const LATE_ROWS_MAX: usize = 4_096;

type Entry = [u8; ENTRY];

/// The kinds of markers. The flag says whether a marker masks all versions up to its timestamp (true), or only the
/// version with exactly its timestamp.
const KINDS: [(CellType, bool); 4] = [
    (CellType::DeleteFamily, true),
    (CellType::DeleteColumn, true),
    (CellType::Delete, false),
    (CellType::DeleteFamilyVersion, false),
];

fn digest(row: &[u8], qualifier: &[u8]) -> [u8; WHAT] {
    let mut md5 = Md5::new();
    md5.update((row.len() as u32).to_be_bytes());
    md5.update(row);
    md5.update(qualifier);
    md5.finalize().into()
}

fn entry(kind: CellType, digest: &[u8; WHAT], timestamp: Timestamp) -> Entry {
    let mut entry = [0; ENTRY];
    entry[0] = kind.code();
    entry[1..WHAT].copy_from_slice(&digest[..WHAT - 1]);
    // Timestamps are not negative, so their big-endian bytes sort like the timestamps.
    entry[WHAT..].copy_from_slice(&timestamp.0.to_be_bytes());
    entry
}

/// Returns the key of a row in [`LateRows`].
fn row_digest(row: &[u8]) -> [u8; WHAT] {
    digest(row, b"")
}

/// A sorted list of dropped markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedMarkers(Bytes);

impl DroppedMarkers {
    /// Returns the list in a file's info; empty if there is none, or if its length is not a multiple of the entry size.
    pub(crate) fn of_fact(bytes: Option<&Bytes>) -> DroppedMarkers {
        DroppedMarkers(bytes.filter(|bytes| bytes.len().is_multiple_of(ENTRY)).cloned().unwrap_or_default())
    }

    /// Merges lists into one.
    pub(crate) fn merged<'a>(lists: impl IntoIterator<Item = &'a DroppedMarkers>) -> DroppedMarkers {
        let lists: Vec<&DroppedMarkers> = lists.into_iter().filter(|list| !list.is_empty()).collect();
        match &lists[..] {
            [] => DroppedMarkers::default(),
            [only] => (*only).clone(),
            // The sort merges runs that are already sorted.
            many => {
                DroppedMarkers::of_entries(many.iter().flat_map(|list| list.entries().copied()).collect())
            }
        }
    }

    fn of_entries(mut entries: Vec<Entry>) -> DroppedMarkers {
        entries.sort();
        entries.dedup_by(|later, earlier| {
            let is_same = later[..WHAT] == earlier[..WHAT];
            // Of the markers that mask everything up to their timestamp only the newest is needed, because it masks
            // what the others mask.
            if is_same && masks_up_to(later[0]) {
                *earlier = *later;
            }
            is_same && *later == *earlier
        });
        DroppedMarkers(entries.into_flattened().into())
    }

    /// Returns the entries with a timestamp after `since`, in ms.
    pub(crate) fn since(&self, since: i64) -> DroppedMarkers {
        let is_after = |entry: &&Entry| timestamp_of(entry) > since;
        DroppedMarkers::of_entries(self.entries().filter(is_after).copied().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the newest timestamp of a marker; `None` if the list is empty. Reads the whole list.
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        self.entries().map(timestamp_of).max().map(Timestamp)
    }

    /// Returns the list as a file-info entry; none if the list is empty.
    pub(crate) fn fact(&self) -> Vec<(&'static str, Bytes)> {
        if self.is_empty() { Vec::new() } else { vec![(FACT, self.0.clone())] }
    }

    pub(crate) fn size(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the number of markers.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len() / ENTRY
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.as_chunks::<ENTRY>().0.iter()
    }

    /// Returns the timestamp of a recorded marker of this kind that masks `timestamp`; `None` if there is none.
    fn find(
        &self,
        kind: CellType,
        up_to: bool,
        digest: &[u8; WHAT],
        timestamp: Timestamp,
    ) -> Option<Timestamp> {
        let least = entry(kind, digest, timestamp);
        let entries = self.0.as_chunks::<ENTRY>().0;
        let found = entries.get(entries.partition_point(|entry| *entry < least))?;
        let masks = found[..WHAT] == least[..WHAT] && (up_to || *found == least);
        masks.then(|| Timestamp(timestamp_of(found)))
    }
}

fn masks_up_to(kind: u8) -> bool {
    KINDS.iter().any(|(of, up_to)| of.code() == kind && *up_to)
}

fn timestamp_of(entry: &Entry) -> i64 {
    entry.last_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Returns the markers in any of `lists` that mask `put`, as cells.
pub(crate) fn markers_of<'a>(
    put: Cell<'_>,
    lists: impl Iterator<Item = &'a DroppedMarkers> + Clone,
) -> Vec<Vec<u8>> {
    let (row, qualifier) = (put.row(), put.qualifier());
    let (of_row, of_column) = (digest(row, b""), digest(row, qualifier));
    let found = KINDS.into_iter().filter_map(|(kind, up_to)| {
        let (digest, qualifier) =
            if kind.is_family_delete() { (&of_row, &b""[..]) } else { (&of_column, qualifier) };
        let mut found = lists.clone().filter_map(|list| list.find(kind, up_to, digest, put.timestamp()));
        let timestamp = found.next()?;
        let parts = CellParts {
            row,
            family: put.family(),
            qualifier,
            timestamp,
            cell_type: kind,
            value: b"",
            tags: b"",
        };
        Some(parts.to_vec().expect("row and qualifier come from a valid cell"))
    });
    found.collect()
}

/// Rows that got a put with an old timestamp since the last flush. A memory compaction that does not see such a late
/// put must not drop markers of its row.
#[derive(Debug, Default)]
pub(crate) struct LateRows {
    rows: HashSet<[u8; WHAT]>,
    many: bool,
}

impl LateRows {
    pub(crate) fn add(&mut self, row: &[u8]) {
        if !self.many {
            self.rows.insert(row_digest(row));
            self.many = self.rows.len() >= LATE_ROWS_MAX;
        }
    }

    /// Forgets all rows, because a flush has taken the memory with their puts.
    pub(crate) fn clear(&mut self) {
        *self = LateRows::default();
    }
}

/// Markers that a memory compaction is about to drop.
#[derive(Debug)]
pub(crate) struct PendingDrops {
    /// Only markers with a timestamp below this may be dropped, in ms since 1970.
    below: i64,
    /// The rows of late puts when the compaction began.
    late: HashSet<[u8; WHAT]>,
    dropped: Vec<Entry>,
    /// The rows of the dropped markers.
    rows: HashSet<[u8; WHAT]>,
}

impl PendingDrops {
    /// Creates an empty collection; `None` when no marker may be dropped before the next flush.
    pub(crate) fn new(late: &LateRows, below: i64) -> Option<PendingDrops> {
        let pending =
            || PendingDrops { below, late: late.rows.clone(), dropped: Vec::new(), rows: HashSet::default() };
        (!late.many).then(pending)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.dropped.is_empty()
    }

    /// Whether the marker's timestamp is old enough, and it has no tags.
    pub(crate) fn may_drop(&self, marker: Cell<'_>) -> bool {
        marker.timestamp().0 < self.below && marker.tags().is_empty()
    }

    /// Whether the row of this marker had a late put when the compaction began.
    pub(crate) fn is_late(&self, row: &[u8]) -> bool {
        !self.late.is_empty() && self.late.contains(&row_digest(row))
    }

    /// Records the marker as dropped.
    pub(crate) fn drop_marker(&mut self, marker: Cell<'_>) {
        let Some(kind) = marker.cell_type() else { return };
        let row = row_digest(marker.row());
        let of = if kind.is_family_delete() { row } else { digest(marker.row(), marker.qualifier()) };
        self.dropped.push(entry(kind, &of, marker.timestamp()));
        self.rows.insert(row);
    }

    /// Whether a late put has come for the row of a dropped marker since the compaction began.
    pub(crate) fn is_overtaken(&self, late: &LateRows) -> bool {
        !self.dropped.is_empty()
            && (late.many || late.rows.difference(&self.late).any(|row| self.rows.contains(row)))
    }

    /// Returns the list of these markers, merged with those dropped before.
    pub(crate) fn with(self, before: &DroppedMarkers) -> DroppedMarkers {
        DroppedMarkers::merged([before, &DroppedMarkers::of_entries(self.dropped)])
    }
}

#[cfg(test)]
mod tests {
    use cell::SequenceId;

    use super::*;

    fn cell(row: &str, qualifier: &str, timestamp: i64, cell_type: CellType) -> Vec<u8> {
        let parts = CellParts {
            row: row.as_bytes(),
            family: b"f",
            qualifier: qualifier.as_bytes(),
            timestamp: Timestamp(timestamp),
            cell_type,
            value: b"",
            tags: b"",
        };
        parts.to_vec().expect("within limits")
    }

    fn list(markers: &[(&str, &str, i64, CellType)]) -> DroppedMarkers {
        let mut pending = PendingDrops::new(&LateRows::default(), i64::MAX).expect("no late rows");
        for (row, qualifier, timestamp, kind) in markers {
            let bytes = cell(row, qualifier, *timestamp, *kind);
            pending.drop_marker(Cell::parse(&bytes, SequenceId::ZERO).expect("whole"));
        }
        pending.with(&DroppedMarkers::default())
    }

    /// Returns the kinds and timestamps of the markers that mask a put at `row/q`.
    fn found(lists: &[DroppedMarkers], row: &str, timestamp: i64) -> Vec<(CellType, i64)> {
        let put = cell(row, "q", timestamp, CellType::Put);
        let markers = markers_of(Cell::parse(&put, SequenceId::ZERO).expect("whole"), lists.iter());
        let told = |marker: &Vec<u8>| {
            let marker = Cell::parse(marker, SequenceId::ZERO).expect("whole");
            assert_eq!((marker.row(), marker.family()), (row.as_bytes(), &b"f"[..]));
            (marker.cell_type().expect("known"), marker.timestamp().0)
        };
        markers.iter().map(told).collect()
    }

    #[test]
    fn each_kind_of_dropped_marker_is_found_for_what_it_masks() {
        use CellType::{Delete, DeleteColumn, DeleteFamily, DeleteFamilyVersion};
        let lists = [list(&[
            ("a", "q", 5, DeleteColumn),
            ("a", "other", 9, DeleteColumn),
            ("b", "", 5, DeleteFamily),
            ("c", "q", 5, Delete),
            ("d", "", 5, DeleteFamilyVersion),
        ])];
        for (row, kind, up_to) in [
            ("a", DeleteColumn, true),
            ("b", DeleteFamily, true),
            ("c", Delete, false),
            ("d", DeleteFamilyVersion, false),
        ] {
            assert_eq!(found(&lists, row, 5), [(kind, 5)]);
            assert_eq!(found(&lists, row, 6), []);
            let below = if up_to { vec![(kind, 5)] } else { vec![] };
            assert_eq!(found(&lists, row, 4), below, "{kind:?}");
        }
        assert_eq!(found(&lists, "e", 1), []);
    }

    #[test]
    fn merged_lists_keep_the_newest_column_marker() {
        use CellType::{Delete, DeleteColumn};
        let lists = [
            list(&[("a", "q", 5, DeleteColumn), ("a", "q", 7, DeleteColumn), ("b", "q", 1, Delete)]),
            list(&[("a", "q", 6, DeleteColumn), ("b", "q", 2, Delete), ("b", "q", 1, Delete)]),
        ];
        assert_eq!((lists[0].len(), lists[1].len()), (2, 3));
        let one = DroppedMarkers::merged(&lists);
        assert_eq!(one.len(), 3, "{one:?}");
        assert_eq!(found(std::slice::from_ref(&one), "a", 6), [(DeleteColumn, 7)]);
        assert_eq!(found(std::slice::from_ref(&one), "b", 1), [(Delete, 1)]);
        assert_eq!(found(std::slice::from_ref(&one), "b", 2), [(Delete, 2)]);
        assert_eq!(found(&[one.since(6)], "a", 1), [(DeleteColumn, 7)]);
        assert!(one.since(7).is_empty());
        let [(FACT, bytes)] = &one.fact()[..] else { panic!("one fact") };
        assert_eq!(DroppedMarkers::of_fact(Some(bytes)), one);
        assert!(DroppedMarkers::of_fact(Some(&bytes.slice(1..))).is_empty());
    }

    #[test]
    fn a_late_put_keeps_the_markers_of_its_row() {
        let marker = cell("a", "", 5, CellType::DeleteFamily);
        let marker = Cell::parse(&marker, SequenceId::ZERO).expect("whole");
        let mut late = LateRows::default();
        late.add(b"b");
        let mut pending = PendingDrops::new(&late, 6).expect("below the limit");
        assert!(pending.may_drop(marker) && !pending.is_late(b"a") && pending.is_late(b"b"));
        pending.drop_marker(marker);
        late.add(b"c");
        assert!(!pending.is_overtaken(&late));
        late.add(b"a");
        assert!(pending.is_overtaken(&late));
        (0..LATE_ROWS_MAX).for_each(|row| late.add(&row.to_be_bytes()));
        assert!(PendingDrops::new(&late, 6).is_none() && pending.is_overtaken(&late));
        late.clear();
        assert!(PendingDrops::new(&late, 5).is_some_and(|pending| !pending.may_drop(marker)));
    }
}
