//! Files that a read of some columns looks into late or never.

use super::*;

/// How many bytes of data blocks a get of `columns` looks into, and what it finds.
fn get(bench: &Bench, row: &str, columns: &[&str], versions: u32) -> (u64, String) {
    let scan =
        Scan { families: vec![query(columns)], max_versions: versions, ..Scan::get(row.to_owned().into()) };
    let before = hfile::data_bytes_of_thread();
    let mut shown = Shown::default();
    bench.region.get(&scan, ReadMode::Any, &mut shown).expect("serving");
    (hfile::data_bytes_of_thread() - before, shown.0.join(" "))
}

fn query(columns: &[&str]) -> FamilyQuery {
    let qualifiers = columns.iter().map(|column| Bytes::copy_from_slice(column.as_bytes())).collect();
    FamilyQuery { family: "f".into(), qualifiers: Some(qualifiers), time_range: None }
}

/// The same by a scan over a range of rows, which looks into everything.
fn scan(bench: &Bench, row: &str, columns: &[&str], versions: u32) -> String {
    let (start, stop) = (Bytes::from(row.to_owned()), Bytes::from(format!("{row}\0")));
    bench.scan(Scan {
        families: vec![query(columns)],
        max_versions: versions,
        start,
        stop,
        ..Scan::default()
    })
}

#[test]
fn a_file_older_than_what_was_found_is_not_looked_into() {
    let bench = Bench::new();
    bench.put("a", "f:x", 5, "old");
    bench.put("a", "f:y", 5, "old");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert!(get(&bench, "a", &["x"], 1).0 > 0);
    bench.put("a", "f:x", 6, "new");
    assert_eq!(get(&bench, "a", &["x"], 1), (0, "a/f:x@6=new".to_owned()));
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let one_file = get(&bench, "a", &["x"], 1);
    assert_eq!(one_file.1, "a/f:x@6=new");
    let (both, found) = get(&bench, "a", &["x", "y"], 1);
    assert_eq!(found, "a/f:x@6=new a/f:y@5=old");
    assert!(both > one_file.0, "the older one has the second column: {both}");
    bench.put("a", "f:x", 6, "newer, of the same time");
    assert_eq!(get(&bench, "a", &["x"], 1).1, "a/f:x@6=newer, of the same time");
    bench.delete("a", "f:x", 6, CellType::Delete);
    assert_eq!(get(&bench, "a", &["x"], 1).1, "a/f:x@5=old", "what is masked is no version");
}

#[test]
fn what_is_put_off_is_found_all_the_same() {
    let world = World::simulated(7, WallTime(0));
    let any = |below: u64| world.random() % below;
    for bloom in ["ROW", "ROWCOL", "NONE"] {
        let family =
            FamilyDescriptor::new("f").expect("a name").with("VERSIONS", 3).with("BLOOMFILTER", bloom);
        let bench = Bench::with(family);
        let columns = ["", "a", "b", "c"];
        for step in 0..400 {
            let row = ["r", "s"][any(2) as usize];
            let column = format!("f:{}", columns[any(4) as usize]);
            let timestamp = 1 + any(12) as i64;
            match any(12) {
                0 => bench.delete(row, "f:", timestamp, CellType::DeleteFamily),
                1 => bench.delete(row, &column, timestamp, CellType::DeleteColumn),
                2 => bench.delete(row, &column, timestamp, CellType::Delete),
                3 => bench.delete(row, "f:", timestamp, CellType::DeleteFamilyVersion),
                4 => drop(bench.region.flush(FlushReason::Requested).expect("flushed")),
                5 if any(6) == 0 => {
                    let request = CompactionRequest { major: any(2) == 0, families: Vec::new() };
                    bench.region.compact(&request).expect("compacted");
                }
                _ => bench.put(row, &column, timestamp, &step.to_string()),
            }
            for wanted in [&["a"][..], &["", "b"], &["a", "b", "c"]] {
                for versions in [1, 2] {
                    let found = get(&bench, row, wanted, versions).1;
                    assert_eq!(
                        found,
                        scan(&bench, row, wanted, versions),
                        "{bloom}, step {step}, {wanted:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_reader_of_rows_reads_each_as_a_get_does() {
    let bench = Bench::new();
    for (row, timestamp) in [("a", 1), ("b", 2), ("d", 3), ("b", 4), ("e", 5)] {
        bench.put(row, "f:x", timestamp, "v");
        if timestamp == 3 {
            bench.region.flush(FlushReason::Requested).expect("flushed");
        }
    }
    for families in [vec![], vec![query(&["x"])]] {
        let scan = |row: &str| Scan { families: families.clone(), ..Scan::get(row.to_owned().into()) };
        let mut reader = bench.region.row_reader(scan("any")).expect("serving");
        for row in ["b", "a", "c", "e", "b", "d", "0", "zz"] {
            let (mut by_reader, mut by_get) = (Shown::default(), Shown::default());
            let row = Bytes::from(row);
            let count = reader.read(&row, ReadMode::Any, &mut by_reader).expect("serving");
            let scan = Scan { start: row.clone(), stop: row.clone(), ..scan("any") };
            assert_eq!(bench.region.get(&scan, ReadMode::Any, &mut by_get).expect("serving"), count);
            assert_eq!(by_reader.0, by_get.0, "{row:?}");
        }
        assert!(reader.read(&Bytes::new(), ReadMode::Any, &mut Shown::default()).is_err());
    }
}
