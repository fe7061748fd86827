//! Tests of requests that a region refuses: the error names the thing and the remedy, and nothing has changed.

use super::file_life::{Server, put, region_of};
use super::*;

/// Returns an append of `-more` to the column `f:q` of row a, with a tag of `tag_bytes` bytes.
fn tagged_append(tag_bytes: usize) -> Mutation {
    let tag_length = (tag_bytes as u16 + 1).to_be_bytes();
    let tags = [&tag_length[..], &[100], &vec![b't'; tag_bytes]].concat();
    let cell = CellParts {
        row: b"a",
        family: b"f",
        qualifier: b"q",
        timestamp: Timestamp::LATEST,
        cell_type: CellType::Put,
        value: b"-more",
        tags: &tags,
    };
    let mut block = Vec::new();
    let cell = cell.to_vec().expect("within limits");
    cell::block::write_with_tags(&mut block, Cell::trusted(&cell, cell::SequenceId::ZERO));
    let cells = CellBlock::parse(block.into()).expect("whole");
    Mutation { cells, ..mutation(MutationKind::Append, "a", &[]) }
}

#[test]
fn an_append_whose_tags_do_not_fit_into_a_cell_changes_nothing() {
    let bench = Bench::new();
    let first = bench.region.append(&tagged_append(40_000), ReadMode::Any).expect("serving");
    first.pending.wait_blocking().expect("durable");
    let error = bench.region.append(&tagged_append(40_000), ReadMode::Any).expect_err("80,000 bytes of tags");
    let words = error.to_string();
    assert!(matches!(error, Error::NewCellTooLong { .. }), "{words}");
    for part in ["column f:q in row a", "tags length", "expected 65535", "replace the column by a put"] {
        assert!(words.contains(part), "{part:?} is missing in {words}");
    }
    assert_eq!(bench.all().matches("=-more").count(), 1, "the row can still be read");
    let less = bench.region.append(&tagged_append(10), ReadMode::Any).expect("it fits");
    less.pending.wait_blocking().expect("durable");
}

#[test]
fn a_child_takes_the_rows_of_one_side_of_closed_regions() {
    let server = Server::new();
    let parent = region_of(&server, "t", &["a", "z"]);
    let child = |start: &'static str, end: &'static str| {
        RegionInfo::new("t".parse().expect("a name"), start.into(), end.into(), RegionId(9))
            .expect("a region")
    };
    let write = |child: &RegionInfo, parents: &[Arc<Region>]| match Region::write_child(
        child,
        &Server::folder(child),
        parents,
    ) {
        Err(Error::Heir(refusal)) => Some(refusal),
        written => {
            written.expect("written");
            None
        }
    };
    let upper = child("m", "");
    assert_eq!(write(&upper, &[]), Some(HeirRefusal::NoParent { child: Box::new(upper.clone()) }));
    put(&parent, "n");
    let parents = [Arc::clone(&parent)];
    let unflushed = write(&upper, &parents).expect("row n is in memory alone");
    assert!(matches!(&unflushed, HeirRefusal::UnflushedWrites { .. }), "{unflushed}");
    assert!(unflushed.to_string().contains("close it before"), "{unflushed}");
    parent.flush(FlushReason::Requested).expect("flushed");
    let middle = child("c", "x");
    assert!(matches!(write(&middle, &parents), Some(HeirRefusal::NotOneSide { .. })));
    assert_eq!(write(&upper, &parents), None);
}
