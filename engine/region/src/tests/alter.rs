//! Tests of schemas that change while a region is open.

use super::*;

fn family() -> FamilyDescriptor {
    FamilyDescriptor::new("f").expect("a name")
}

fn alter(bench: &Bench, family: FamilyDescriptor) -> bool {
    bench.region.alter(&table(family), &RegionOptions::default()).expect("serving")
}

#[test]
fn readers_and_new_files_follow_a_schema_and_a_scan_goes_on() {
    let bench = Bench::new();
    for value in ["1", "2", "3"] {
        bench.put("a", "f:q", value.parse().expect("a number"), value);
    }
    bench.put("b", "f:q", 1, "1");
    let mut scan = bench.region.scanner(Scan { max_versions: 10, ..Scan::default() }).expect("serving");
    let mut shown = Shown::default();
    let one = Limits { rows: 1, ..Limits::NONE };
    scan.next_row(&one, &mut shown, ReadMode::Any).expect("read");
    assert!(alter(&bench, family().with("VERSIONS", "2").with("COMPRESSION", "GZ")));
    assert_eq!(
        bench.region.table().family(b"f").map(|family| family.options().expect("good").versions_max),
        Some(2)
    );
    while scan.next_row(&one, &mut shown, ReadMode::Any).expect("read").more {}
    assert_eq!(shown.0.join(" "), "a/f:q@3=3 b/f:q@1=1", "it goes on with what it began with");
    bench.put("a", "f:q", 4, "4");
    bench.put("a", "f:q", 5, "5");
    assert_eq!(bench.all(), "a/f:q@5=5 a/f:q@4=4 b/f:q@1=1");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    let codecs = |bench: &Bench| -> Vec<hfile::Compression> {
        let store = bench.region.store(b"f").expect("the family");
        store.view.load().files.iter().map(|file| file.reader.compression()).collect()
    };
    assert_eq!(codecs(&bench), [hfile::Compression::Gz]);
    assert!(alter(&bench, family().with("VERSIONS", "2")));
    bench.put("c", "f:q", 1, "1");
    bench.region.flush(FlushReason::Requested).expect("flushed");
    assert_eq!(codecs(&bench), [hfile::Compression::Gz, hfile::Compression::None]);
    bench.region.compact(&CompactionRequest { major: true, families: Vec::new() }).expect("compacted");
    assert_eq!(codecs(&bench), [hfile::Compression::None], "files converge");
    assert_eq!(bench.all(), "a/f:q@5=5 a/f:q@4=4 b/f:q@1=1 c/f:q@1=1");
    // Cells that expire by the new schema are not seen any more.
    assert!(alter(&bench, family().with("TTL", "1")));
    assert_eq!(bench.all(), "");
}

#[test]
fn a_schema_that_needs_an_opening_changes_nothing() {
    let bench = Bench::new();
    bench.put("a", "f:q", 1, "1");
    assert!(!alter(&bench, family().with("VERSIONS", "5").with("NEW_VERSION_BEHAVIOR", "true")));
    bench.put("a", "f:q", 2, "2");
    assert_eq!(bench.all(), "a/f:q@2=2", "one version, as before");
    bench.region.close().expect("closed");
    let closed = bench.region.alter(&table(family().with("VERSIONS", "5")), &RegionOptions::default());
    assert!(matches!(closed, Err(Error::NotServing(_))), "{closed:?}");
}
