//! Tests of references to halves of files: both read paths return only rows of the half.

use super::file_life::Server;
use super::skipped_rows::{Random, of_f, some_ttl};
use super::*;

type Region = Arc<crate::Region>;

fn read(region: &Region, scan: Scan, limits: &Limits) -> Vec<String> {
    let mut scanner = region.scanner(scan).expect("serving");
    let mut shown = Shown::default();
    while scanner.next_row(limits, &mut shown, ReadMode::Any).expect("read").more {}
    shown.0
}

/// Returns a region with files of random cells: versions, markers, cells that expire, and rows in several files.
fn random_region(server: &Server, family: &FamilyDescriptor, random: &mut Random) -> Region {
    let region = server.open(&Server::info("t", 1), family.clone());
    for _ in 0..1 + random.below(3) {
        let tagged = random.below(4) == 0;
        for _ in 0..80 {
            let row = format!("row-{:02}", random.below(40));
            let column = ["f:a", "f:b", "f:c"][random.below(3) as usize];
            let timestamp = 1 + random.below(9) as i64;
            let (kind, cell) = match random.below(14) {
                0 => (MutationKind::Delete, (column, timestamp, CellType::Delete, &b""[..])),
                1 => (MutationKind::Delete, (column, timestamp, CellType::DeleteColumn, &b""[..])),
                2 => (MutationKind::Delete, ("f:", timestamp, CellType::DeleteFamily, &b""[..])),
                _ => (MutationKind::Put, (column, timestamp, CellType::Put, &b"value"[..])),
            };
            let change = match kind {
                MutationKind::Put if tagged && random.below(3) == 0 => {
                    expiring_put(&row, column, timestamp, b"value", some_ttl(random))
                }
                kind => mutation(kind, &row, &[cell]),
            };
            let applied = region.apply(&[change], ReadMode::Any).expect("serving");
            applied.pending.wait_blocking().expect("durable");
        }
        region.flush(FlushReason::Requested).expect("flushed");
    }
    region
}

/// Returns the halves of a region's files. Each is in a region that has the parent's whole key range.
fn halves(server: &Server, parent: &Region, family: &FamilyDescriptor, row: &str) -> [Region; 2] {
    [(Half::Bottom, 2), (Half::Top, 3)].map(|(half, id)| {
        let info = Server::info("t", id);
        let reference = Reference { half, split_row: Bytes::copy_from_slice(row.as_bytes()) };
        parent.write_heir(&Server::folder(&info), &InheritedFiles::Half(reference)).expect("written");
        server.open(&info, family.clone())
    })
}

fn row_of(cell: &str) -> &str {
    cell.split('/').next().expect("a row")
}

#[test]
fn scans_and_gets_return_only_rows_of_the_half() {
    for seed in 0..24 {
        let (server, mut random) = (Server::new(), Random(seed));
        let family = FamilyDescriptor::new("f").expect("a name");
        let family = family.with("BLOCKSIZE", 200 + random.below(900)).with("VERSIONS", 1 + random.below(3));
        let family = if seed % 3 == 0 { family.with("BLOOMFILTER", "ROWCOL") } else { family };
        // TTLs in seconds. With the first one, every cell has expired.
        let family = match seed % 8 {
            6 => family.with("TTL", 100),
            7 => family.with("TTL", 1_000_000),
            _ => family,
        };
        let parent = random_region(&server, &family, &mut random);
        let split = match seed % 4 {
            0 => "row".to_owned(),
            1 => "rox".to_owned(),
            // A row that may exist, and one between two rows.
            2 => format!("row-{:02}", random.below(40)),
            _ => format!("row-{:02}+", random.below(40)),
        };
        let daughters = halves(&server, &parent, &family, &split);
        let ranges = [("", ""), ("row-05", "row-20"), ("row-05", ""), ("", "row-31"), (&split[..], "")];
        for (start, stop) in ranges {
            for (reversed, batch, filtered) in (0..8).map(|bits| (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0)) {
                let (start, stop) = if reversed { (stop, start) } else { (start, stop) };
                let filter = Filter::value(CompareOperator::NotEqual, Comparable::Binary("other".into()));
                let scan = || Scan {
                    start: start.to_owned().into(),
                    stop: stop.to_owned().into(),
                    reversed,
                    // A batch limit that never applies. Because of it the matcher judges each cell.
                    batch: batch.then_some(u32::MAX),
                    filter: filtered.then(|| filter.clone()),
                    families: vec![of_f(None)],
                    max_versions: 1 + (seed % 2) as u32,
                    ..Scan::default()
                };
                let limits = Limits { rows: 1 + random.below(8) as usize, ..Limits::NONE };
                let whole = read(&parent, scan(), &limits);
                for (daughter, is_top) in daughters.iter().zip([false, true]) {
                    let expected: Vec<&String> =
                        whole.iter().filter(|cell| (row_of(cell) >= &split[..]) == is_top).collect();
                    let found = read(daughter, scan(), &limits);
                    let about = format!("seed {seed}, {start}..{stop}, split {split}, top {is_top}");
                    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{about}, {batch} {filtered}");
                }
            }
        }
        for number in 0..40 {
            let row = format!("row-{number:02}");
            let get = |region: &Region| read(region, Scan::get(row.clone().into()), &Limits::NONE);
            let columns = |region: &Region| {
                let scan = Scan { families: vec![of_f(Some(&["b"]))], ..Scan::get(row.clone().into()) };
                read(region, scan, &Limits::NONE)
            };
            for (daughter, is_top) in daughters.iter().zip([false, true]) {
                let is_here = (row[..] >= split[..]) == is_top;
                let (all, some) = if is_here { (get(&parent), columns(&parent)) } else { Default::default() };
                assert_eq!((get(daughter), columns(daughter)), (all, some), "seed {seed}, {row}, {split}");
            }
        }
    }
}

#[test]
fn a_compaction_of_halves_keeps_their_rows() {
    for seed in 0..8 {
        let (server, mut random) = (Server::new(), Random(seed));
        let family = FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 2);
        let parent = random_region(&server, &family, &mut random);
        let daughters = halves(&server, &parent, &family, "row-20");
        for daughter in &daughters {
            let scan = || Scan { max_versions: 2, ..Scan::default() };
            let before = read(daughter, scan(), &Limits::NONE);
            assert!(daughter.needs_compaction() && daughter.has_references());
            assert_eq!(daughter.best_split_row().expect("read"), None, "halves are not split");
            daughter.compact(&CompactionRequest::default()).expect("compacted");
            assert!(!daughter.has_references());
            assert_eq!(read(daughter, scan(), &Limits::NONE), before, "seed {seed}");
        }
        let bytes = |region: &Region| region.load().file_bytes;
        assert!(bytes(&daughters[0]) > 0 && bytes(&daughters[1]) > 0);
    }
}

#[test]
fn a_half_counts_half_of_its_files_size_and_cells() {
    let (server, mut random) = (Server::new(), Random(1));
    let family = FamilyDescriptor::new("f").expect("a name");
    let parent = random_region(&server, &family, &mut random);
    let [bottom, top] = halves(&server, &parent, &family, "row-20");
    let sums = |region: &Region| {
        let view = region.stores[0].view.load();
        let entries: u64 = view.files.iter().map(|file| file.entries()).sum();
        (view.files.len() as u64, entries, region.load().file_bytes)
    };
    let (files, entries, bytes) = sums(&parent);
    for daughter in [&bottom, &top] {
        let (half_files, half_entries, half_bytes) = sums(daughter);
        assert_eq!(half_files, files);
        assert!(half_entries.abs_diff(entries / 2) <= files && half_bytes.abs_diff(bytes / 2) <= files);
    }
    // A file whose half has no row of the range is skipped before its Bloom filter is checked.
    let view = top.stores[0].view.load();
    for file in &view.files {
        assert!(!file.may_have_rows(b"row-00", b"row-19", cell::Comparator::Table));
        assert!(file.may_have_rows(b"row-00", b"row-20", cell::Comparator::Table));
    }
}
