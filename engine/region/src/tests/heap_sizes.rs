//! Tests that a cell counts in size limits with the same size as in HBase. The sizes were measured with HBase 2.6.4:
//! the size of n cells is the greatest `maxResultSize` with which the first partial result has n cells.

use super::*;

/// Size of a cell without family, qualifier, row and value, in bytes: lengths, timestamp and type.
const FRAME: u64 = 20;
/// Size of a TTL tag in bytes, with its own length field and the length field of all tags.
const TTL_TAG: u64 = 13;

/// Value lengths of the cells of a row, in bytes.
const VALUES: [usize; 8] = [1_024, 1_024, 0, 5, 4, 8, 1_024, 5_000];

/// Writes a row of cells with these values; every third cell has a TTL tag if `tagged`.
fn write_row(bench: &Bench, tagged: bool) {
    for (index, length) in VALUES.into_iter().enumerate() {
        let (column, value) = (format!("f:q{index:02}"), vec![b'v'; length]);
        bench.apply(if tagged && index % 3 == 0 {
            expiring_put("row", &column, 1, &value, 1_000_000_000)
        } else {
            mutation(MutationKind::Put, "row", &[(&column, 1, CellType::Put, &value)])
        });
    }
}

/// Returns the number of cells in the first part of the row under a limit of `bytes`.
fn cells_in_first_part(bench: &Bench, bytes: u64) -> usize {
    let mut scanner = bench.region.scanner(Scan::default()).expect("serving");
    let mut shown = Shown::default();
    let limits = Limits { bytes, allow_partial: true, ..Limits::NONE };
    scanner.next_row(&limits, &mut shown, ReadMode::Any).expect("read");
    shown.0.len()
}

/// Checks that the first n cells count as `size` says, for each n; `size` gets a cell's length in bytes and whether it
/// is tagged.
#[track_caller]
fn check_sizes(bench: &Bench, tagged: bool, size: impl Fn(u64, bool) -> u64) {
    let mut sum = 0;
    for (index, length) in VALUES.into_iter().enumerate().take(VALUES.len() - 1) {
        let has_tag = tagged && index % 3 == 0;
        let bytes = FRAME + "rowfq00".len() as u64 + length as u64 + if has_tag { TTL_TAG } else { 0 };
        sum += size(bytes, has_tag);
        let found = (cells_in_first_part(bench, sum), cells_in_first_part(bench, sum + 1));
        assert_eq!(found, (index + 1, index + 2), "{} cells of {sum} bytes", index + 1);
    }
}

#[test]
fn a_cell_in_memory_counts_32_bytes_and_its_own_rounded_up_to_8() {
    for tagged in [false, true] {
        let bench = Bench::new();
        write_row(&bench, tagged);
        check_sizes(&bench, tagged, |bytes, _| 32 + bytes.next_multiple_of(8));
    }
}

#[test]
fn a_cell_in_a_file_counts_what_hbase_makes_of_the_encoding() {
    for (encoding, shares_key_bytes) in
        [("NONE", false), ("ROW_INDEX_V1", false), ("PREFIX", true), ("DIFF", true), ("FAST_DIFF", true)]
    {
        for tagged in [false, true] {
            let family = FamilyDescriptor::new("f").expect("a name").with("DATA_BLOCK_ENCODING", encoding);
            let bench = Bench::with(family);
            write_row(&bench, tagged);
            bench.region.flush(FlushReason::Requested).expect("flushed");
            check_sizes(&bench, tagged, |bytes, has_tag| match (shares_key_bytes, has_tag) {
                (false, _) => 38 + bytes,
                (true, false) => 100 + bytes,
                // Only the tag itself counts, not the length of all tags.
                (true, true) => 98 + bytes,
            });
        }
    }
}
