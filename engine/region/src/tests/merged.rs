//! Tests that the merge heap returns the same cells as a sorted list of all cells.

use cell::{Comparator, KeyBuf, SequenceId};
use hfile::{BloomType, ReadOptions, Reader, Refused, StoreFileInfo, Writer, WriterOptions};
use memstore::{CHUNK_SIZE_MIN, Cursor, Pool, Segment};

use super::*;
use crate::heap::{Heap, RowTarget, Source};

const ORDER: Comparator = Comparator::Table;
const COLUMNS: [&str; 3] = ["", "a", "b"];
const KINDS: [CellType; 4] =
    [CellType::DeleteFamily, CellType::DeleteFamilyVersion, CellType::DeleteColumn, CellType::Delete];

/// A cell and its sequence id.
type Written = (Vec<u8>, SequenceId);

fn cell((bytes, sequence): &Written) -> Cell<'_> {
    Cell::trusted(bytes, *sequence)
}

fn is_refused(cell: Cell<'_>) -> bool {
    cell.value().starts_with(b"refused")
}

/// Returns sorted cells with distinct keys out of few possible ones, so that sources often have equal keys. The value
/// names the source.
fn some_cells(any: &impl Fn(u64) -> u64, source: u64) -> Vec<Written> {
    let (markers, first) = (any(2), any(10));
    let one = |_| {
        let cell_type = if any(4) < markers { KINDS[any(4) as usize] } else { CellType::Put };
        let of_family = KINDS[..2].contains(&cell_type);
        let parts = CellParts {
            row: format!("r{}", first + any(10 - first)).as_bytes(),
            family: b"f",
            qualifier: COLUMNS[if of_family { 0 } else { any(3) as usize }].as_bytes(),
            timestamp: Timestamp(any(4) as i64),
            cell_type,
            value: format!("{}{source}", if any(8) == 0 { "wanted" } else { "refused" }).as_bytes(),
            tags: b"",
        }
        .to_vec();
        (parts.expect("within limits"), SequenceId(1 + any(6)))
    };
    let mut cells: Vec<Written> = (0..any(40)).map(one).collect();
    cells.sort_by(|left, right| ORDER.compare(cell(left).into(), cell(right).into()));
    cells.dedup_by(|left, right| ORDER.compare(cell(left).into(), cell(right).into()).is_eq());
    cells
}

/// Returns a source: an active segment, a flat segment, or a file of small blocks.
fn source(any: &impl Fn(u64) -> u64, files: &Memory, cache: &Arc<Cache>, cells: &[Written]) -> Source {
    if any(2) == 0 {
        let pool = Pool::new(CHUNK_SIZE_MIN, 100);
        let mut segment = Segment::new(ORDER, &pool);
        cells.iter().for_each(|(bytes, sequence)| assert!(segment.insert([&bytes[..]], *sequence)));
        if any(2) == 0 {
            drop(segment.successor(&pool));
            segment = segment.flattened();
        }
        return Source::Memory(Cursor::new(Arc::new(segment)));
    }
    let bloom = [BloomType::None, BloomType::Row, BloomType::RowColumn][any(3) as usize];
    let options = WriterOptions { block_size: 200, bloom, with_tags: false, ..WriterOptions::default() };
    let name = FileName::new(format!("{:016x}", any(u64::MAX)));
    let mut writer = Writer::create(files.create(&name).expect("made"), name.clone(), options);
    cells.iter().for_each(|written| writer.append(cell(written)).expect("written"));
    writer.finish(StoreFileInfo::default()).expect("written");
    let file = files.open(&name).expect("there");
    let reader = Reader::open(file, name, Arc::clone(cache), cache::Caching::default()).expect("whole");
    Source::File(crate::store_file::FileCursor::new(Arc::new(reader).cursor(ReadOptions::default()), None))
}

#[test]
fn a_heap_merges_in_order_with_the_newest_source_first() {
    let world = World::simulated(23, WallTime(0));
    let any = |below: u64| world.random() % below;
    let (mut waits, mut deferred, mut passed) = (0, 0, 0);
    for round in 0..300 {
        let (files, cache) = (Memory::new(), Arc::new(Cache::with_bytes(1 << 20)));
        let read_point = [SequenceId(any(7)), SequenceId::MAX][any(2) as usize];
        let lists: Vec<_> = (0..[1, 2, 3, 10, 70][any(5) as usize]).map(|of| some_cells(&any, of)).collect();
        let sources = lists.iter().map(|cells| source(&any, &files, &cache, cells)).collect();
        let mut heap = Heap::new(ORDER, read_point, sources);
        let mut all: Vec<Written> = lists.into_iter().flatten().filter(|(_, of)| *of <= read_point).collect();
        // The sort is stable, so if cells are equal the cell of the first source comes first.
        all.sort_by(|left, right| ORDER.compare(cell(left).into(), cell(right).into()));
        let before = |place: &KeyBuf| all.partition_point(|one| place.is_after(ORDER, cell(one)));
        let begin = |row: &[u8]| before(&KeyBuf::first_on_row(row));
        let shown = |heap: &Heap| heap.peek().map(|cell| (cell.bytes().to_vec(), cell.sequence()));
        let mut at = all.len();
        for step in 0..60 {
            let [row, other] = [(); 2].map(|()| format!("r{}", any(10)).into_bytes());
            let column = COLUMNS[any(3) as usize].as_bytes();
            let target = match any(3) {
                0 => KeyBuf::first_on_row(&row),
                1 => KeyBuf::last_on_row(&row),
                _ => KeyBuf::new(&row, b"f", column, Timestamp(any(4) as i64), CellType::Put),
            };
            let act = any(8);
            let what = format!("round {round}, step {step}, act {act}");
            heap.set_options(ReadOptions { memory_only: any(2) == 0, ..ReadOptions::default() });
            let mut act = || -> Result<()> {
                match act {
                    0 => {
                        heap.forward(target.position())?;
                        at = at.max(before(&target));
                    }
                    1 => {
                        heap.skip_while(|cell| target.is_after(ORDER, cell), |_| target.clone())?;
                        at = at.max(before(&target));
                    }
                    2 => {
                        heap.seek(KeyBuf::first_on_row(&row).position())?;
                        at = begin(&row);
                        let end = Some(&other[..]).filter(|_| any(3) == 0);
                        let refuses =
                            |cell: Cell<'_>| if is_refused(cell) { Refused::Cell } else { Refused::No };
                        let rows = heap.skip_rows(end, refuses)?;
                        assert!(rows > 0 || !heap.ran_out(), "{what}");
                        for _ in 0..rows {
                            let of = cell(&all[at]).row();
                            let rest = all[at..].iter().map(cell).take_while(|cell| cell.row() == of);
                            assert!(rest.clone().all(is_refused) && end.is_none_or(|end| of < end), "{what}");
                            (at, passed) = (at + rest.count(), passed + 1);
                        }
                    }
                    // Backwards, reading each row to its end or not.
                    3 => {
                        let mut end = Some(row.clone()).filter(|_| any(3) > 0);
                        for _ in 0..any(6) {
                            let to = end.as_ref().map_or(all.len(), |row| begin(row));
                            let last = all[..to].last().map(|last| cell(last).row());
                            assert_eq!(heap.seek_row_before(end.as_deref())?, last.is_some(), "{what}");
                            let Some(last) = last else { break };
                            for one in all[begin(last)..to].iter().take(1 + any(30) as usize) {
                                assert_eq!(shown(&heap).as_ref(), Some(one), "{what}");
                                heap.advance()?;
                            }
                            end = Some(last.to_vec());
                        }
                        heap.seek(target.position())?;
                        at = before(&target);
                    }
                    4 => {
                        let wanted = [&["a"][..], &["", "b"], &["b"]][any(3) as usize];
                        let is_wanted = |cell: Cell<'_>| {
                            cell.row() == row && wanted.iter().any(|name| name.as_bytes() == cell.qualifier())
                        };
                        let qualifiers = wanted.iter().map(|name| Bytes::from(*name)).collect::<Vec<_>>();
                        let qualifiers = Some(&qualifiers[..]);
                        heap.seek_row(&RowTarget {
                            row: &row,
                            family: b"f",
                            qualifiers,
                            newest_counts: true,
                            is_get: true,
                        })?;
                        deferred += heap.deferred();
                        let mut found = Vec::new();
                        while heap.peek().is_some_and(|cell| cell.row() == row) {
                            found.extend(shown(&heap).filter(|one| is_wanted(cell(one))));
                            heap.advance()?;
                        }
                        assert!(found.iter().eq(all.iter().filter(|one| is_wanted(cell(one)))), "{what}");
                        heap.seek(target.position())?;
                        at = before(&target);
                    }
                    _ => {
                        for _ in 0..any(40) {
                            heap.advance()?;
                            at = all.len().min(at + 1);
                            assert_eq!(shown(&heap).as_ref(), all.get(at), "{what}");
                        }
                    }
                }
                Ok(())
            };
            if let Err(error) = act() {
                // After an error the heap has no defined position, so the test seeks.
                assert!(matches!(error, Error::WouldBlock), "{what}: {error}");
                waits += 1;
                heap.set_options(ReadOptions::default());
                heap.seek(target.position()).expect("whole");
                at = before(&target);
            }
            assert_eq!(shown(&heap).as_ref(), all.get(at), "{what}");
        }
    }
    assert!(waits > 300 && deferred > 500 && passed > 100, "{waits} {deferred} {passed}");
}
