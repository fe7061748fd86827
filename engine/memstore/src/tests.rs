//! Compares segments with a plain ordered map, also while they are written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cell::{Cell, CellParts, CellType, Comparator, KeyBuf, SequenceId};

use crate::{Cleaning, Cursor, Pool, Segment, sample};

/// SplitMix64: random numbers that follow from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

/// A cell of the model, ordered by the comparator.
#[derive(Clone, Debug)]
pub(crate) struct ModelCell {
    comparator: Comparator,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sequence: SequenceId,
}

impl ModelCell {
    pub(crate) fn cell(&self) -> Cell<'_> {
        Cell::parse(&self.bytes, self.sequence).expect("whole")
    }
}

impl PartialEq for ModelCell {
    fn eq(&self, other: &ModelCell) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ModelCell {}

impl PartialOrd for ModelCell {
    fn partial_cmp(&self, other: &ModelCell) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ModelCell {
    fn cmp(&self, other: &ModelCell) -> std::cmp::Ordering {
        self.comparator.compare(self.cell().into(), other.cell().into())
    }
}

/// How the rows of a test are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows {
    /// Rows that are `user` and a random number.
    Random,
    Ascending,
    Descending,
    /// A few rows with many versions each.
    Few,
    /// Rows that first have a common prefix, and later another one.
    Shifting,
    Catalog,
}

pub(crate) const ALL_ROWS: [Rows; 6] =
    [Rows::Random, Rows::Ascending, Rows::Descending, Rows::Few, Rows::Shifting, Rows::Catalog];

impl Rows {
    pub(crate) fn comparator(self) -> Comparator {
        match self {
            Rows::Catalog => Comparator::Meta,
            _ => Comparator::Table,
        }
    }

    fn row(self, number: u64, random: &mut Random) -> String {
        match self {
            Rows::Random => format!("user{:09}", random.below(1_000_000_000)),
            Rows::Ascending => format!("{number:026}"),
            Rows::Descending => format!("{:026}", 1_000_000 - number),
            Rows::Few => format!("r{}", random.below(5)),
            Rows::Shifting if number < 200 => format!("the-same-for-all-{:04}", random.below(10_000)),
            Rows::Shifting => {
                "abcdtuz"[random.below(7) as usize..].to_owned() + &random.below(100).to_string()
            }
            Rows::Catalog => format!("t{},{},{}.x.", random.below(3), random.below(50), random.below(3)),
        }
    }

    pub(crate) fn cell(self, number: u64, random: &mut Random) -> ModelCell {
        let row = self.row(number, random);
        let value = vec![b'v'; random.below(40) as usize * random.below(20) as usize];
        let qualifier = [&b""[..], b"q", b"qualifier"][random.below(3) as usize];
        let put = sample::parts(row.as_bytes(), qualifier, random.below(4) as i64, &value);
        let cell_type = [CellType::Put, CellType::DeleteColumn][usize::from(random.below(9) == 0)];
        let bytes = CellParts { cell_type, ..put }.to_vec().expect("within limits");
        ModelCell { comparator: self.comparator(), bytes, sequence: SequenceId(number + 1) }
    }
}

pub(crate) fn walk(cursor: &mut Cursor) -> Vec<(Vec<u8>, SequenceId)> {
    let mut cells = Vec::new();
    while let Some(cell) = cursor.peek() {
        cells.push((cell.bytes().to_vec(), cell.sequence()));
        cursor.advance();
    }
    cells
}

fn flat<'a>(model: impl IntoIterator<Item = &'a ModelCell>) -> Vec<(Vec<u8>, SequenceId)> {
    model.into_iter().map(|known| (known.bytes.clone(), known.sequence)).collect()
}

/// Checks that every operation of a cursor gives the same result as the model.
pub(crate) fn check(segment: &Arc<Segment>, model: &BTreeSet<ModelCell>, random: &mut Random) {
    let mut cursor = Cursor::new(Arc::clone(segment));
    assert!(cursor.peek().is_none(), "a new cursor has no position");
    cursor.seek(KeyBuf::first_on_row(b"").position());
    assert_eq!(walk(&mut cursor), flat(model), "everything in order");
    assert_eq!(segment.cells(), model.len() as u64);
    let comparator = segment.comparator();
    for _ in 0..if cfg!(miri) { 1 } else { 20 } {
        let Some(from) = model.iter().nth(random.below(model.len().max(1) as u64) as usize) else { break };
        let positions = [
            KeyBuf::of(from.cell()),
            KeyBuf::first_on_row(from.cell().row()),
            KeyBuf::last_on_row(from.cell().row()),
            KeyBuf::first_on_column(from.cell().row(), b"f", b"q"),
            KeyBuf::last_on_column(from.cell().row(), b"f", b"q"),
        ];
        for position in &positions {
            let at = position.position();
            let expected = model.iter().filter(|known| comparator.compare(known.cell().into(), at).is_ge());
            cursor.seek(at);
            assert_eq!(walk(&mut cursor), flat(expected), "from {position:?}");
        }
        let row = from.cell().row();
        let before = model.iter().rfind(|known| comparator.compare_rows(known.cell().row(), row).is_lt());
        assert_eq!(cursor.seek_row_before(Some(row)), before.is_some());
        let first =
            before.and_then(|before| model.iter().find(|known| known.cell().row() == before.cell().row()));
        assert_eq!(cursor.peek().map(Cell::bytes), first.map(|first| &first.bytes[..]));
    }
    check_prefetched(segment, model);
    let last_row = model.last().map(|last| last.cell().row().to_vec());
    assert_eq!(cursor.seek_row_before(None), last_row.is_some());
    assert_eq!(cursor.peek().map(|cell| cell.row().to_vec()), last_row);
}

/// Checks that every present row is prefetched.
fn check_prefetched(segment: &Segment, model: &BTreeSet<ModelCell>) {
    let rows: BTreeSet<&[u8]> = model.iter().map(|known| known.cell().row()).collect();
    let rows: Vec<&[u8]> = rows.into_iter().collect();
    let mut found = Vec::new();
    segment.prefetch_rows(&rows, |index| found.push(index));
    assert_eq!(found, (0..rows.len()).collect::<Vec<_>>());
}

#[test]
fn only_rows_that_exist_are_prefetched() {
    let pool = Pool::new(64 << 10, 4);
    let segment = Segment::new(Comparator::Table, &pool);
    let count = if cfg!(miri) { 30 } else { 5_000 };
    put_rows(&segment, (0..count).step_by(2), 1);
    let rows: Vec<String> = (0..count).map(|row| format!("row{row:06}")).collect();
    let rows: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
    let _next = segment.successor(&pool);
    for segment in [segment.flattened(), segment] {
        let mut found = Vec::new();
        segment.prefetch_rows(&rows, |index| found.push(index));
        assert_eq!(found, (0..count).step_by(2).collect::<Vec<_>>());
    }
}

#[test]
fn a_segment_is_an_ordered_set() {
    for (rows, seed) in ALL_ROWS.into_iter().flat_map(|rows| [(rows, 1), (rows, 2)]) {
        let pool = Pool::new(4 << 10, 4);
        let mut random = Random(seed);
        let segment = Arc::new(Segment::new(rows.comparator(), &pool));
        let mut model = BTreeSet::new();
        let count = if cfg!(miri) { 40 } else { 3_000 };
        for number in 0..count {
            let known = rows.cell(number, &mut random);
            segment.insert([&known.bytes[..]], known.sequence);
            if random.below(10) == 0 {
                // The same write is inserted again.
                let before = segment.bytes();
                segment.insert([&known.bytes[..]], known.sequence);
                assert_eq!(segment.bytes(), before);
            }
            model.insert(known);
            let checked: &[u64] = if cfg!(miri) { &[] } else { &[1, 15, 33, 300, 1_100] };
            if checked.contains(&(number + 1)) || number + 1 == count {
                check(&segment, &model, &mut random);
            }
        }
        let timestamps = model.iter().map(|known| known.cell().timestamp());
        let span = timestamps.clone().min().zip(timestamps.max());
        assert_eq!(segment.timestamps(), span, "{rows:?}");
        let _next = segment.successor(&pool);
        let flat = Arc::new(segment.flattened());
        assert!(
            flat.is_flat() && flat.index_bytes() <= 13 * count && flat.index_bytes() < segment.index_bytes()
        );
        assert_eq!((flat.timestamps(), flat.record_bytes()), (span, segment.record_bytes()));
        assert_eq!(flat.may_delete_families(), segment.may_delete_families());
        check(&flat, &model, &mut random);
        drop((segment, flat, _next));
        assert_eq!(pool.usage().used, 0, "the chunks are back");
    }
}

#[test]
fn cells_of_a_write_may_come_in_any_order() {
    let pool = Pool::new(64 << 10, 4);
    let segment = Arc::new(Segment::new(Comparator::Table, &pool));
    let (mut random, mut model) = (Random(3), BTreeSet::new());
    for write in 0..if cfg!(miri) { 4 } else { 300 } {
        let mut cells: Vec<ModelCell> =
            (0..random.below(20)).map(|_| Rows::Random.cell(write, &mut random)).collect();
        if random.below(2) == 0 {
            cells.sort();
        }
        segment.insert(cells.iter().map(|known| &known.bytes[..]), SequenceId(write + 1));
        model.extend(cells);
    }
    check(&segment, &model, &mut random);
}

#[test]
fn the_successor_goes_on_in_the_same_chunk_and_the_older_one_stays_as_it_is() {
    let pool = Pool::new(64 << 10, 4);
    let first = Arc::new(Segment::new(Comparator::Table, &pool));
    let (mut random, mut models) = (Random(4), [BTreeSet::new(), BTreeSet::new()]);
    let mut fill = |segment: &Segment, model: &mut BTreeSet<ModelCell>| {
        for number in 0..50 {
            let known = Rows::Random.cell(number, &mut random);
            segment.insert([&known.bytes[..]], known.sequence);
            model.insert(known);
        }
    };
    fill(&first, &mut models[0]);
    let used = pool.usage().used;
    let second = Arc::new(first.successor(&pool));
    fill(&second, &mut models[1]);
    assert!(pool.usage().used < used * 2, "{:?}", pool.usage());
    check(&first, &models[0], &mut Random(5));
    check(&second, &models[1], &mut Random(5));
    let mut cursor = Cursor::new(Arc::clone(&first));
    drop(first);
    cursor.seek(KeyBuf::first_on_row(b"").position());
    assert_eq!(walk(&mut cursor), flat(&models[0]), "a cursor keeps its segment alive");
}

/// The cells of one write are stored as if each had been written alone. If two cells are identical, the first one
/// counts.
#[test]
fn cells_added_in_one_call_are_stored_as_if_added_one_by_one() {
    for (rows, seed) in ALL_ROWS.into_iter().zip(50..) {
        let (mut random, mut model) = (Random(seed), BTreeSet::new());
        let segment = Arc::new(Segment::new(rows.comparator(), &Pool::new(16 << 10, 4)));
        let (batches, most) = if cfg!(miri) { (2, 20) } else { (60, 70) };
        for batch in 0..batches {
            let cells: Vec<ModelCell> = (0..1 + random.below(most))
                .map(|number| {
                    let sequence = SequenceId(batch + 1);
                    ModelCell { sequence, ..rows.cell(batch * most + number, &mut random) }
                })
                .collect();
            segment.insert(cells.iter().map(|known| &known.bytes[..]), SequenceId(batch + 1));
            for known in cells {
                model.insert(known);
            }
        }
        assert_eq!(segment.cells(), model.len() as u64);
        check(&segment, &model, &mut random);
    }
}

#[test]
fn segments_become_one_by_their_indexes_or_by_copying() {
    for (rows, seed) in ALL_ROWS.into_iter().zip(30..) {
        let pool = Pool::new(4 << 10, 4);
        let mut random = Random(seed);
        let (mut all, mut model) = (Vec::new(), BTreeSet::new());
        let mut active = Arc::new(Segment::new(rows.comparator(), &pool));
        let (segments, cells) = if cfg!(miri) { (2, 15) } else { (4, 300) };
        for segment in 0..segments {
            for number in 0..cells {
                let known = rows.cell(segment * cells + number, &mut random);
                active.insert([&known.bytes[..]], known.sequence);
                model.insert(known);
            }
            let next = Arc::new(active.successor(&pool));
            // Some segments are flat already, others are not.
            let sealed = if random.below(2) == 0 { Arc::new(active.flattened()) } else { active };
            all.insert(0, sealed);
            active = next;
        }
        all.iter().for_each(|segment| check_fills(segment));
        let merged = Arc::new(Segment::merged(&all).expect("few chunks"));
        check(&merged, &model, &mut random);
        check_fills(&merged);
        let keeps = |cell: Cell<'_>| !cell.sequence().0.is_multiple_of(3);
        let cleaning =
            Cleaning { free_min: random.below(3) * 10_000, dead_min: random.below(3) as f64 / 3.0 };
        let compacted =
            Arc::new(Segment::compacted(&all, &pool, cleaning, keeps).expect("few chunks").segment);
        let kept: BTreeSet<ModelCell> = model.iter().filter(|known| keeps(known.cell())).cloned().collect();
        check(&compacted, &kept, &mut random);
        check_fills(&compacted);
        let twice = [merged, compacted];
        let merged = Arc::new(Segment::merged(&twice).expect("few chunks"));
        check(&merged, &model, &mut random);
        let nothing = Segment::compacted(&twice, &pool, cleaning, |_| false).expect("few chunks");
        check(&Arc::new(nothing.segment), &BTreeSet::new(), &mut random);
        drop((all, merged, twice, active));
        assert_eq!(pool.usage().used, 0, "the chunks are back");
    }
}

#[test]
#[should_panic(expected = "takes no writes")]
fn a_segment_with_a_successor_takes_no_writes() {
    let pool = Pool::new(4 << 10, 4);
    let segment = Segment::new(Comparator::Table, &pool);
    let _next = segment.successor(&pool);
    let known = Rows::Few.cell(1, &mut Random(1));
    segment.insert([&known.bytes[..]], known.sequence);
}

/// A reader sees all cells that existed when it began, once and in order, whatever is written meanwhile.
#[test]
fn readers_see_all_that_was_there_when_they_began() {
    for (rows, seed) in ALL_ROWS.into_iter().zip(10..).take(if cfg!(miri) { 2 } else { 6 }) {
        let pool = Pool::new(16 << 10, 4);
        let mut random = Random(seed);
        let count = if cfg!(miri) { 60 } else { 20_000 };
        let cells: Vec<ModelCell> = (0..count).map(|number| rows.cell(number, &mut random)).collect();
        let segment = Arc::new(Segment::new(rows.comparator(), &pool));
        let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let (segment, cells, written, over) = (&segment, &cells, &written, &over);
                    scope.spawn(move || {
                        let mut random = Random(reader);
                        while !over.load(Ordering::Acquire) {
                            read_once(segment, cells, written.load(Ordering::Acquire), &mut random);
                        }
                        read_once(segment, cells, count, &mut random);
                    })
                })
                .collect();
            for known in &cells {
                segment.insert([&known.bytes[..]], known.sequence);
                written.store(known.sequence.0, Ordering::Release);
            }
            over.store(true, Ordering::Release);
            readers.into_iter().for_each(|reader| reader.join().expect("saw what it should"));
        });
    }
}

/// Several writers add cells of their own and some of the others' cells at the same time. Afterwards every cell is
/// present once, in order, and counted; and concurrent readers see the old cells.
#[test]
fn several_writers_make_one_ordered_set() {
    for (rows, seed) in ALL_ROWS.into_iter().zip(70..).take(if cfg!(miri) { 2 } else { 6 }) {
        let writers = 2 + seed % 2;
        let pool = Pool::new(16 << 10, 4);
        let mut random = Random(seed);
        let count = if cfg!(miri) { 60 } else { 20_000 };
        let cells: Vec<ModelCell> = (0..count).map(|number| rows.cell(number, &mut random)).collect();
        let segment = Arc::new(Segment::new(rows.comparator(), &pool));
        let written: Vec<AtomicU64> = (0..writers).map(|_| AtomicU64::new(0)).collect();
        let begun = || written.iter().map(|written| written.load(Ordering::Acquire)).min().expect("some");
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (segment, cells, written) = (&segment, &cells, &written[writer as usize]);
                scope.spawn(move || {
                    for (number, known) in (0..).zip(cells) {
                        if number % writers == writer || number % 10 == 0 {
                            segment.insert([&known.bytes[..]], known.sequence);
                        }
                        written.store(number + 1, Ordering::Release);
                    }
                });
            }
            let mut random = Random(seed);
            while begun() < count {
                read_once(&segment, &cells, begun(), &mut random);
            }
        });
        let model: BTreeSet<ModelCell> = cells.iter().cloned().collect();
        check(&segment, &model, &mut random);
        let record_bytes = |known: &ModelCell| crate::place::record_bytes(known.cell());
        assert_eq!(segment.record_bytes(), model.iter().map(record_bytes).sum::<u64>());
        let timestamps = model.iter().map(|known| known.cell().timestamp());
        assert_eq!(segment.timestamps(), timestamps.clone().min().zip(timestamps.max()));
        let next = segment.successor(&pool);
        let flat = Arc::new(segment.flattened());
        check(&flat, &model, &mut random);
        drop((segment, flat, next));
        assert_eq!(pool.usage().used, 0, "the chunks are back");
    }
}

/// Writers that do not run at the same time fill one chunk, whatever their threads.
#[test]
fn writers_in_turn_share_a_chunk() {
    let pool = Pool::new(64 << 10, 4);
    let segment = Segment::new(Comparator::Table, &pool);
    for turn in 0..4 {
        std::thread::scope(|scope| {
            scope.spawn(|| put_rows(&segment, 10 * turn..10 * turn + 10, 1));
        });
    }
    assert_eq!((segment.cells(), pool.usage().used), (40, 1));
}

#[cfg(not(miri))]
#[test]
fn several_writers_have_no_more_chunks_than_one() {
    let pool = Pool::new(4 << 10, 4);
    let most = crate::place::CHUNKS_FILLED_MAX as u64;
    let segment = Segment::new(Comparator::Table, &pool);
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (segment, taken) = (&segment, &taken);
            scope.spawn(move || {
                let cells: Vec<Vec<u8>> = (0..most)
                    .map(|number| {
                        let (row, value) = (format!("row{number:06}-{writer}"), [b'v'; 600]);
                        sample::cell(row.as_bytes(), b"q", 1, &value)
                    })
                    .collect();
                let mut left = cells.iter().map(|cell| &cell[..]);
                while segment.insert(left.by_ref().take(7), SequenceId(1)) {}
                taken.fetch_add(most - left.len() as u64, Ordering::Relaxed);
            });
        }
    });
    // Each of these cells has a chunk of its own. A chunk that was reserved for a writer may be unused.
    let taken = taken.into_inner();
    assert!(taken <= most && taken + 3 > most, "{taken} of {most}");
    assert_eq!((segment.cells(), segment.records().chunks().count() as u64), (taken, taken));
}

/// Reads all cells, or a part of them, and checks that the reader finds each wanted cell among the first `begun` ones.
fn read_once(segment: &Arc<Segment>, cells: &[ModelCell], begun: u64, random: &mut Random) {
    let comparator = segment.comparator();
    let from = match (random.below(3), begun) {
        (0, _) | (_, 0) => KeyBuf::first_on_row(b""),
        (_, begun) => KeyBuf::of(cells[random.below(begun) as usize].cell()),
    };
    let limit = if random.below(2) == 0 { usize::MAX } else { 50 };
    let mut cursor = Cursor::new(Arc::clone(segment));
    cursor.seek(from.position());
    let mut seen: Vec<(KeyBuf, bool)> = Vec::new();
    while let Some(cell) = cursor.peek().filter(|_| seen.len() < limit) {
        let key = KeyBuf::of(cell);
        if let Some((last, _)) = seen.last() {
            let order = comparator.compare(last.position(), key.position());
            assert!(order.is_lt(), "{last:?} before {key:?}");
        }
        assert_eq!(cell.bytes(), cells[cell.sequence().0 as usize - 1].bytes);
        seen.push((key, cell.sequence().0 <= begun));
        cursor.advance();
    }
    let end = seen.last().map(|(last, _)| last.clone()).filter(|_| seen.len() == limit);
    let belongs = |known: &&ModelCell| {
        let position = known.cell().into();
        comparator.compare(position, from.position()).is_ge()
            && end.as_ref().is_none_or(|end| comparator.compare(position, end.position()).is_le())
    };
    let expected = cells[..begun as usize].iter().filter(belongs).count();
    assert_eq!(seen.iter().filter(|(_, early)| *early).count(), expected, "of {begun}");
    if begun > 0 {
        // The row before a known row is found, or a later one that was written since.
        let known = cells[random.below(begun) as usize].cell();
        let before = cells[..begun as usize]
            .iter()
            .map(|known| known.cell().row())
            .filter(|row| comparator.compare_rows(row, known.row()).is_lt())
            .max_by(|left, right| comparator.compare_rows(left, right));
        let found = cursor.seek_row_before(Some(known.row()));
        assert!(found || before.is_none());
        if let Some(before) = before {
            let row = cursor.peek().expect("found").row();
            assert!(
                comparator.compare_rows(row, before).is_ge()
                    && comparator.compare_rows(row, known.row()).is_lt()
            );
        }
    }
}

#[cfg(not(miri))]
#[test]
fn a_segment_with_the_maximum_number_of_chunks_leaves_further_cells_to_its_successor() {
    let pool = Pool::new(4 << 10, 4);
    let most = crate::place::CHUNKS_FILLED_MAX as usize;
    let row = |number: usize| format!("row{number:06}");
    let cells: Vec<Vec<u8>> = (0..most + 3)
        .map(|number| {
            let (row, value) = (row(number), [b'v'; 600]);
            sample::cell(row.as_bytes(), b"q", 1, &value)
        })
        .collect();
    let mut left = cells.iter().map(|cell| &cell[..]);
    let first = Segment::new(Comparator::Table, &pool);
    assert!(first.insert(left.by_ref().take(most - 1), SequenceId(1)), "there is room for one more");
    assert!(!first.insert(&mut left, SequenceId(1)));
    assert!(!first.insert(&mut left, SequenceId(1)), "no cell is added that has no room");
    assert_eq!((first.cells(), left.len()), (most as u64, 3));
    let second = first.successor(&pool);
    assert!(second.insert(&mut left, SequenceId(1)));
    let _third = second.successor(&pool);
    let all = [Arc::new(second.flattened()), Arc::new(first.flattened())];
    let merged = Segment::merged(&all).expect("both have no more chunks than one can tell apart");
    assert_eq!(merged.cells(), most as u64 + 3);
    assert_eq!(merged.cell(7).map(|cell| cell.row().to_vec()), Some(row(7).into_bytes()));
    assert!(!Segment::fit_one(&all) && Segment::compacted(&all, &pool, Cleaning::ALL, |_| true).is_none());
    let first = Segment::compacted(&all[1..], &pool, Cleaning::ALL, |_| true).expect("one of them fits");
    assert_eq!(first.segment.cells(), most as u64);
}

/// Checks that the live bytes recorded for each chunk are the bytes of the cells that the index names in it, and that
/// only chunks with recorded bytes are kept.
fn check_fills(segment: &Segment) {
    let (index, fills) = (segment.index(), segment.fills());
    let mut live = vec![0; fills.len()];
    for place in (0..).map_while(|at| index.place(at)) {
        live[place.chunk() as usize] += crate::place::record_bytes(segment.records().cell(place));
    }
    assert_eq!(fills.iter().map(|fill| fill.live).collect::<Vec<_>>(), live);
    assert_eq!(fills.iter().map(|fill| fill.live + fill.dead).sum::<u64>(), segment.record_bytes());
}

/// Writes rows 0 to `rows` of about 100 bytes under `sequence`.
fn put_rows(segment: &Segment, rows: impl Iterator<Item = usize>, sequence: u64) {
    for row in rows {
        let row = format!("row{row:06}");
        let cell = sample::cell(row.as_bytes(), b"q", sequence as i64, &[b'v'; 60]);
        segment.insert([&cell[..]], SequenceId(sequence));
    }
}

/// Returns a function that keeps the first version of each row.
fn newest() -> impl FnMut(Cell<'_>) -> bool {
    let mut row = Vec::new();
    move |cell| {
        let is_new = row != cell.row();
        row = cell.row().to_vec();
        is_new
    }
}

/// A compaction copies live cells only out of chunks with enough dead bytes. The other chunks stay, with their dead
/// bytes recorded, until more of them are dead.
#[cfg(not(miri))]
#[test]
fn a_compaction_empties_chunks_with_many_dropped_cells_and_keeps_the_others() {
    const ROWS: usize = 400;
    let pool = Pool::new(4 << 10, 4);
    let first = Segment::new(Comparator::Table, &pool);
    put_rows(&first, 0..ROWS, 1);
    let active = first.successor(&pool);
    // Replaces three of four rows of the first half, and one of four of the second half.
    let is_replaced = |row: &usize| (row % 4 < 3) == (*row < ROWS / 2);
    put_rows(&active, (0..ROWS).filter(is_replaced), 2);
    let next = active.successor(&pool);
    let sealed = [Arc::new(active.flattened()), Arc::new(first.flattened())];
    let record = sealed[1].record_bytes() / ROWS as u64;
    let before: u64 = sealed.iter().map(|segment| segment.record_bytes()).sum();
    let compact = |segments: &[Arc<Segment>], free_min: u64, dead_min: f64| {
        let compacted = Segment::compacted(segments, &pool, Cleaning { free_min, dead_min }, newest());
        compacted.expect("few chunks")
    };
    let made = compact(&sealed, 0, 0.5);
    assert_eq!(made.segment.cells(), ROWS as u64);
    let rows = |bytes: u64| bytes / record;
    // One or two chunks have rows of both halves.
    let about = |bytes: u64, expected: u64| rows(bytes).abs_diff(expected) <= 40;
    assert!(about(made.bytes_copied, 50), "a quarter of the first half: {}", rows(made.bytes_copied));
    assert!(
        about(made.segment.dead_bytes(), 50),
        "a quarter of the other: {}",
        rows(made.segment.dead_bytes())
    );
    let held = made.segment.record_bytes();
    assert_eq!(held, ROWS as u64 * record + made.segment.dead_bytes());
    assert_eq!(before - held, 200 * record - made.segment.dead_bytes());

    // At least `short` bytes are freed, and at most one chunk more.
    let short = made.segment.dead_bytes() / 2;
    let (dead, chunk) = (made.segment.dead_bytes(), 4 << 10);
    let some = [Arc::new(made.segment)];
    let less = compact(&some, short, 0.5);
    let left = less.segment.dead_bytes();
    assert!(dead - left >= short && dead - left <= short + chunk, "{dead} dead, {short} short, {left} left");
    assert_eq!(less.segment.record_bytes(), ROWS as u64 * record + left);

    // Earlier dead bytes count: with a quarter more of the second half replaced, more than half of it is dead.
    let third = next;
    put_rows(&third, (ROWS / 2..ROWS).filter(|row| row % 4 < 2), 3);
    let _next = third.successor(&pool);
    let again = [Arc::new(third.flattened()), Arc::clone(&some[0])];
    let merged = Segment::merged(&again).expect("few chunks");
    assert_eq!(merged.dead_bytes(), dead, "a merge of indexes forgets nothing");
    let made = compact(&again, 0, 0.6);
    assert!(about(made.bytes_copied, 50), "what is left of the other half: {}", rows(made.bytes_copied));
    let all = compact(&[Arc::new(made.segment)], u64::MAX, 1.0);
    assert_eq!((all.segment.dead_bytes(), all.segment.record_bytes()), (0, ROWS as u64 * record));
    let nothing = compact(&[Arc::new(all.segment)], u64::MAX, 0.0);
    assert_eq!((nothing.bytes_copied, nothing.segment.cells()), (0, ROWS as u64), "all of it lives");
    let used = (pool.usage().used as u64) << 12;
    drop((sealed, first, active, third, again, some, merged, less));
    let alone = (pool.usage().used as u64) << 12;
    assert!(alone < used && alone < ROWS as u64 * record * 3 / 2, "{alone} of {used}");
}

/// A compaction that copies little begins a chunk for the copies. However many such compactions run, the earlier of
/// these chunks are emptied, too.
#[cfg(not(miri))]
#[test]
fn compactions_that_copy_little_do_not_pile_up_chunks() {
    const ROWS: usize = 2_000;
    let pool = Pool::new(16 << 10, 4);
    let mut active = Segment::new(Comparator::Table, &pool);
    put_rows(&active, 0..ROWS, 1);
    let next = active.successor(&pool);
    let mut flat = Arc::new(active.flattened());
    active = next;
    for round in 0..60 {
        // Replaces three of four rows among forty neighbours, at another place in each round.
        let from = round * 97 % (ROWS - 40);
        put_rows(&active, (from..from + 40).filter(|row| row % 4 > 0), round as u64 + 2);
        let next = active.successor(&pool);
        let sealed = [Arc::new(active.flattened()), flat];
        let cleaning = Cleaning { free_min: 0, dead_min: 0.5 };
        let made = Segment::compacted(&sealed, &pool, cleaning, newest()).expect("few chunks");
        (flat, active) = (Arc::new(made.segment), next);
        drop(sealed);
        let (held, told) = ((pool.usage().used as u64) << 14, flat.record_bytes());
        assert!(held <= told * 5 / 4 + (4 << 14), "round {round}: {held} bytes of chunks for {told}");
    }
    assert_eq!(flat.cells(), ROWS as u64);
}

/// The mark of a rewritten cell stays with it when it is moved, and only rewritten cells get it.
#[test]
fn rewritten_cells_are_recorded_across_merges_and_compactions() {
    let pool = Pool::new(4 << 10, 4);
    let first = Segment::new(Comparator::Table, &pool);
    put_rows(&first, 0..200, 1);
    let second = first.successor(&pool);
    put_rows(&second, (0..200).filter(|row| row % 3 == 0), 2);
    let third = second.successor(&pool);
    put_rows(&third, 300..310, 3);
    let _next = third.successor(&pool);
    let all = [Arc::new(second.flattened()), Arc::new(first.flattened())];
    let check = |segments: &[Arc<Segment>]| {
        let mut seen = 0;
        Segment::visit(segments, |cell, is_rewritten| {
            let row: usize = std::str::from_utf8(&cell.row()[3..]).expect("text").parse().expect("a number");
            assert_eq!(is_rewritten, row < 200 && row.is_multiple_of(3), "{row}");
            seen += 1;
        });
        assert_eq!(seen, 210);
    };
    for cleaning in [Cleaning { free_min: 0, dead_min: 1.1 }, Cleaning::ALL] {
        let made = Segment::compacted(&all, &pool, cleaning, newest()).expect("few chunks").segment;
        let both = [Arc::new(third.flattened()), Arc::new(made)];
        check(&both);
        let merged = [Arc::new(Segment::merged(&both).expect("few chunks"))];
        check(&merged);
        let again = Segment::compacted(&merged, &pool, Cleaning::ALL, |_| true).expect("few chunks");
        check(&[Arc::new(again.segment)]);
    }
}

/// If three segments have the same cell, two of the copies do not count, and their bytes are recorded as dead.
#[test]
fn a_cell_that_several_have_is_one() {
    let pool = Pool::new(4 << 10, 4);
    let all: Vec<Arc<Segment>> = (0..3)
        .map(|_| {
            let segment = Segment::new(Comparator::Table, &pool);
            put_rows(&segment, 0..20, 1);
            let _next = segment.successor(&pool);
            Arc::new(segment.flattened())
        })
        .collect();
    let bytes: u64 = all[0].record_bytes();
    let merged = Segment::merged(&all).expect("few chunks");
    assert_eq!((merged.cells(), merged.dead_bytes(), merged.record_bytes()), (20, 2 * bytes, 3 * bytes));
    let made = Segment::compacted(&all, &pool, Cleaning::ALL, |_| true).expect("few chunks");
    assert_eq!((made.segment.cells(), made.segment.record_bytes(), made.bytes_copied), (20, bytes, 0));
}

/// If cells differ only in their values, the cell of the newest segment wins, in a merge as in a compaction.
#[test]
fn of_cells_that_are_the_same_that_of_the_newest_segment_counts() {
    let pool = Pool::new(4 << 10, 4);
    let segment = |value: &[u8], rows: std::ops::Range<u64>| {
        let segment = Segment::new(Comparator::Table, &pool);
        for row in rows {
            let bytes = sample::cell(format!("row{row:02}").as_bytes(), b"q", 1, value);
            segment.insert([&bytes[..]], SequenceId(1));
        }
        let _next = segment.successor(&pool);
        Arc::new(segment)
    };
    // The oldest and the newest segment begin and end at other rows, so each segment is the first one somewhere.
    let all = [segment(b"newest", 5..20), segment(b"middle", 0..15), segment(b"oldest", 3..25)];
    let expected: Vec<&[u8]> = (0..25)
        .map(|row| [&b"middle"[..], b"newest", b"oldest"][(row >= 5) as usize + (row >= 20) as usize])
        .collect();
    let values = |segments: &[Arc<Segment>]| {
        let mut values = Vec::new();
        Segment::visit(segments, |cell, _| values.push(cell.value().to_vec()));
        values
    };
    assert_eq!(values(&all), expected);
    let merged = Segment::merged(&all).expect("few chunks");
    assert_eq!(values(&[Arc::new(merged)]), expected);
    for cleaning in [Cleaning { free_min: 0, dead_min: 1.1 }, Cleaning::ALL] {
        let since = cell::Timestamp(0);
        let made = Segment::compacted_keeping_lone(&all, &pool, cleaning, since, |_| true);
        assert_eq!(values(&[Arc::new(made.expect("few chunks").segment)]), expected);
    }
}

/// If the rows' common prefix has become longer since the heads were made, the heads are made again. The marks of
/// rewritten cells stay.
#[test]
fn rewritten_cells_are_recorded_after_other_rows_were_dropped() {
    let pool = Pool::new(4 << 10, 4);
    let segment = |sequence: u64, rows: &[&str]| {
        let segment = Segment::new(Comparator::Table, &pool);
        for row in rows {
            let bytes = sample::cell(row.as_bytes(), b"q", sequence as i64, b"v");
            segment.insert([&bytes[..]], SequenceId(sequence));
        }
        let _next = segment.successor(&pool);
        Arc::new(segment.flattened())
    };
    let both =
        [segment(2, &["users-1", "users-3"]), segment(1, &["another", "users-1", "users-2", "users-3"])];
    let mut newest = newest();
    let keeps = |cell: Cell<'_>| newest(cell) && cell.row() != b"another";
    let made = Arc::new(Segment::compacted(&both, &pool, Cleaning::ALL, keeps).expect("few chunks").segment);
    let shown = |segment: &Arc<Segment>| {
        let mut all = Vec::new();
        Segment::visit(std::slice::from_ref(segment), |cell, is_rewritten| {
            all.push((String::from_utf8_lossy(cell.row()).into_owned(), is_rewritten));
        });
        all
    };
    let expected = [("users-1", true), ("users-2", false), ("users-3", true)];
    let expected = expected.map(|(row, is_rewritten)| (row.to_owned(), is_rewritten));
    assert_eq!(shown(&made), expected);
    let merged = Segment::merged(&[made]).expect("few chunks");
    assert_eq!(shown(&Arc::new(merged)), expected);
}

/// Cells that are visited, dropped or copied are in several pieces of an index; some are the only cells of their rows.
#[cfg(not(miri))]
#[test]
fn segments_whose_indexes_have_several_pieces_become_one() {
    const ROWS: usize = 150_000;
    let pool = Pool::new(1 << 20, 64);
    let mut active = Segment::new(Comparator::Table, &pool);
    let mut sealed = Vec::new();
    let mut seal = |active: &mut Segment| {
        let next = active.successor(&pool);
        sealed.insert(0, Arc::new(std::mem::replace(active, next).flattened()));
    };
    put_rows(&active, 0..ROWS, 1);
    seal(&mut active);
    // Every third row has a newer version.
    put_rows(&active, (0..ROWS).filter(|row| row % 3 == 0), 2);
    seal(&mut active);
    let shown = |segments: &[Arc<Segment>]| {
        let mut all = Vec::new();
        Segment::visit(segments, |cell, is_rewritten| {
            all.push((cell.row().to_vec(), cell.sequence().0, is_rewritten))
        });
        all
    };
    let all = shown(&sealed);
    assert_eq!(all.len(), ROWS + ROWS / 3);
    let merged = [Arc::new(Segment::merged(&sealed).expect("few chunks"))];
    assert_eq!(shown(&merged), all);
    let mut expected = all;
    expected.dedup_by(|later, kept| {
        let is_older = later.0 == kept.0;
        kept.2 |= is_older;
        is_older
    });
    for segments in [&sealed[..], &merged] {
        for cleaning in [Cleaning { free_min: 0, dead_min: 1.1 }, Cleaning::ALL] {
            let since = cell::Timestamp(i64::MIN);
            let made = Segment::compacted_keeping_lone(segments, &pool, cleaning, since, newest());
            let made = Arc::new(made.expect("few chunks").segment);
            check_fills(&made);
            assert!(shown(&[made]) == expected, "{cleaning:?}");
        }
    }
}

/// Returns a function that keeps the first cell of each column, unless it is too old, has tags, or is a marker.
fn first_of_column(since: i64) -> impl FnMut(Cell<'_>) -> bool {
    let mut column = Vec::new();
    move |cell| {
        let known = std::mem::replace(&mut column, [cell.row(), b"/", cell.qualifier()].concat());
        let is_marker = cell.cell_type() != Some(CellType::Put);
        known != column
            && cell.timestamp().0 >= since
            && cell.tags().is_empty()
            && !(is_marker && cell.timestamp().0 % 2 == 0)
    }
}

/// Returns a row. Depending on `shape`, each row has a head of its own, two or eight rows share one, or all rows share
/// one, as in the catalog.
fn row_of(shape: u64, number: u64) -> String {
    match shape {
        0 => format!("user{number:06}"),
        1 => format!("user{:03}-and-what-comes-behind-{}", number / 2, number % 2),
        2 => {
            format!("user{:o}-and-what-comes-behind", number).split_off(usize::from(number.is_multiple_of(8)))
        }
        _ => format!("t{},{},{}.x.", number % 3, number / 3, number % 7),
    }
}

/// Compactions that do not read values that are alone in their rows give the same result as compactions that read all
/// cells: the same cells, marks and bytes in each chunk, over several rounds. The test also checks that those values
/// are not read.
#[test]
fn skipping_single_values_changes_no_result() {
    let seeds = if cfg!(miri) { 0..4 } else { 0..144 };
    for seed in seeds {
        let (shape, trouble) = (seed % 4, seed / 4 % 4);
        let comparator = if shape == 3 { Comparator::Meta } else { Comparator::Table };
        let mut random = Random(1_000 + seed);
        let pool = Pool::new(4 << 10, 4);
        let (rounds, writes) = if cfg!(miri) { (2, 8) } else { (5, 150) };
        let mut active = Segment::new(comparator, &pool);
        let (mut looked_at, mut not_looked_at): (Vec<Arc<Segment>>, Vec<Arc<Segment>>) = Default::default();
        let mut sequence = 0;
        for round in 0..rounds {
            let since = [i64::MIN, 0, 4, 5][random.below(4) as usize];
            let (mut new, mut again) = (Vec::new(), None::<(Vec<u8>, SequenceId)>);
            for segment in 0..1 + random.below(3) {
                for _ in 0..writes {
                    sequence += 1;
                    let row = row_of(shape, random.below(writes * 3));
                    let value = vec![b'v'; random.below(300) as usize];
                    let qualifier = [&b""[..], b"q"][usize::from(random.below(10) > 0)];
                    let put = sample::parts(row.as_bytes(), qualifier, 4 + random.below(9) as i64, &value);
                    // Markers, tags and old cells, in some segments or in all.
                    let is_strange = random.below(9) == 0 && (round + segment) % 2 == seed / 16 % 2;
                    let parts = match trouble {
                        1 if is_strange => {
                            let markers = [CellType::DeleteColumn, CellType::Delete];
                            CellParts { cell_type: markers[random.below(2) as usize], value: b"", ..put }
                        }
                        2 if is_strange => CellParts { tags: &[0, 2, 200, 7], ..put },
                        3 if is_strange => CellParts { timestamp: cell::Timestamp(1), ..put },
                        _ => put,
                    };
                    let bytes = parts.to_vec().expect("within limits");
                    active.insert([&bytes[..]], SequenceId(sequence));
                    if let Some((bytes, sequence)) = again.take_if(|_| random.below(20) == 0) {
                        active.insert([&bytes[..]], sequence);
                    }
                    again.get_or_insert((bytes, SequenceId(sequence)));
                }
                let next = active.successor(&pool);
                let sealed = std::mem::replace(&mut active, next);
                let sealed = if random.below(3) == 0 { sealed } else { sealed.flattened() };
                new.insert(0, Arc::new(sealed));
            }
            looked_at.splice(0..0, new.iter().cloned());
            not_looked_at.splice(0..0, new);

            let cleaning =
                Cleaning { free_min: random.below(2) * 5_000, dead_min: random.below(4) as f64 / 3.0 };
            let made = Segment::compacted(&looked_at, &pool, cleaning, first_of_column(since));
            let expected = made.expect("few chunks");
            let (mut keeps, mut seen) = (first_of_column(since), BTreeSet::new());
            let lone = lone_rows(&not_looked_at);
            let lone_since = cell::Timestamp(since);
            let made = Segment::compacted_keeping_lone(&not_looked_at, &pool, cleaning, lone_since, |cell| {
                seen.insert(cell.row().to_vec());
                keeps(cell)
            });
            let found = made.expect("few chunks");
            if shape == 0 && trouble == 0 && since <= 4 {
                assert_eq!(lone.intersection(&seen).count(), 0, "seed {seed}: lone rows are looked at");
            }
            let all = |segment: &Arc<Segment>| {
                let mut all = Vec::new();
                Segment::visit(std::slice::from_ref(segment), |cell, is_rewritten| {
                    all.push((cell.bytes().to_vec(), cell.sequence(), is_rewritten));
                });
                all
            };
            assert_eq!(found.bytes_copied, expected.bytes_copied, "seed {seed}");
            let [expected, found] = [expected, found].map(|made| Arc::new(made.segment));
            assert_eq!(all(&found), all(&expected), "seed {seed}");
            assert_eq!(found.fills(), expected.fills(), "seed {seed}");
            assert_eq!(found.record_bytes(), expected.record_bytes());
            assert_eq!(found.may_delete_families(), expected.may_delete_families());
            check_fills(&found);
            if let Some((oldest, newest)) = expected.timestamps() {
                let known = found.timestamps().expect("there are some");
                assert!(known.0 <= oldest && known.1 >= newest, "seed {seed}");
            }
            (looked_at, not_looked_at) = (vec![expected], vec![found]);
        }
    }
}

/// Returns the rows that have only one cell in all segments together.
fn lone_rows(segments: &[Arc<Segment>]) -> BTreeSet<Vec<u8>> {
    let (mut rows, mut lone): (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) = Default::default();
    for segment in segments {
        Segment::visit(std::slice::from_ref(segment), |cell, _| {
            let row = cell.row().to_vec();
            if rows.insert(row.clone()) {
                lone.insert(row);
            } else {
                lone.remove(&row);
            }
        });
    }
    lone
}
