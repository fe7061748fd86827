//! Flushes and compactions that nobody asked for.

use std::time::Duration;

use proto::pb;
use region::RegionOptions;

use super::bench::{Bench, class, mutation};
use crate::Options;
use crate::background::{Background, Compacting};

fn files(bench: &Bench) -> usize {
    bench.server.regions().all().iter().map(|region| region.load().files).sum()
}

#[test]
fn a_full_memstore_is_flushed_and_many_files_are_compacted() {
    let bench = Bench::of(
        Options::default(),
        RegionOptions { flush_size: 1, ..RegionOptions::default() },
        1 << 20,
        &[("", "")],
    );
    for expected in 1..=3 {
        bench.put("r", "f:x", "1");
        Background::flush_next(&bench.server);
        assert_eq!(files(&bench), expected);
    }
    let region = bench.server.regions().all().remove(0);
    let minor = Compacting { minor: true, major: false };
    assert_eq!(bench.server.background.compacting(&region), minor, "three files are enough");
    Background::compact_next(&bench.server);
    assert_eq!((files(&bench), bench.server.background.compacting(&region)), (1, Compacting::default()));
    let counted = bench.server.counters().snapshot();
    assert_eq!((counted.flushes, counted.compactions, counted.flushes_failed), (3, 1, 0));
    assert_eq!(bench.row("r"), ["f:x=1"]);
}

#[test]
fn old_edits_are_flushed_after_a_while() {
    let bench =
        Bench::with(Options { flush_period: Duration::from_secs(60), ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", "1");
    bench.world.advance(Duration::from_secs(61));
    bench.server.look_around();
    Background::flush_next(&bench.server);
    assert_eq!(files(&bench), 1);
}

#[test]
fn writes_are_refused_while_memory_is_full() {
    let bench = Bench::with(Options { memstore_bytes_max: 100, ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", &"v".repeat(200));
    bench.server.look_around();
    let put = || bench.mutate(mutation(pb::mutation_proto::MutationType::Put, "s", "f:x", "1"));
    let refused = put().expect_err("too much");
    assert_eq!(class(&refused), "RegionTooBusyException");
    assert!(refused.message.contains("more than 100 bytes"), "{refused}");
    Background::flush_next(&bench.server);
    bench.server.look_around();
    put().expect("there is room again");
}

#[test]
fn compactions_that_are_switched_off_wait() {
    let bench = Bench::with(
        Options { compaction_enabled: false, wake_period: Duration::ZERO, ..Options::default() },
        &[("", "")],
    );
    let region = bench.server.regions().all().remove(0);
    bench.server.background.request_compaction(&region, true, Vec::new());
    Background::compact_next(&bench.server);
    assert!(bench.server.background.compacting(&region).major, "still waits");
    bench.server.background.switch_compaction(true);
    Background::compact_next(&bench.server);
    assert!(!bench.server.background.compacting(&region).major);
}

#[test]
fn a_closed_region_is_no_longer_looked_after() {
    let bench = Bench::with(Options { wake_period: Duration::ZERO, ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", "1");
    let region = bench.server.regions().all().remove(0);
    bench.server.background.request_flush(&region);
    bench.server.background.request_compaction(&region, true, Vec::new());
    bench.server.close_region(region.info().encoded_name(), None).expect("closes");
    assert_eq!(bench.server.background.compacting(&region), Compacting::default());
    Background::flush_next(&bench.server);
    assert_eq!(bench.server.counters().snapshot().flushes, 0);
}

#[test]
fn the_threads_end_with_the_server() {
    let bench = Bench::new();
    bench.server.start().expect("threads");
    bench.put("r", "f:x", "1");
    bench.server.stop();
    bench.server.close_all().expect("closes");
    assert_eq!(bench.server.regions().count(), 0);
}
