//! Tests of flushes and compactions in the background.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use contract::{CatalogEdit, CatalogRow, RegionServers, Stamp};
use env::Priority;
use proto::catalog::{RegionRow, RegionState, meta_descriptor};
use proto::pb::mutation_proto::MutationType;
use proto::{FamilyDescriptor, RegionId, RegionInfo, pb};
use region::{Level, RegionOptions};

use super::bench::{Bench, class, get, mutation, region, table};
use crate::background::{Background, PendingCompactions};
use crate::memory::MemoryQueue;
use crate::{LocalServers, Options, RegionServer};

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
    let minor = PendingCompactions { minor: true, major: false };
    assert_eq!(bench.server.background.compacting(&region), minor, "three files are enough");
    Background::compact_next(&bench.server);
    assert_eq!(
        (files(&bench), bench.server.background.compacting(&region)),
        (1, PendingCompactions::default())
    );
    let counted = bench.server.counters().snapshot();
    assert_eq!((counted.flushes, counted.compactions, counted.flushes_failed), (3, 1, 0));
    assert_eq!(bench.row("r"), ["f:x=1"]);
}

#[test]
fn a_running_flush_is_not_queued_again() {
    let bench = Bench::with(Options { wake_period: Duration::ZERO, ..Options::default() }, &[("", "")]);
    let (background, region) = (&bench.server.background, bench.server.regions().all().remove(0));
    background.set_flushing(vec![region.clone()]);
    background.request_flush(&region);
    assert_eq!(background.waiting().flushes, 1, "the one that runs");
    background.set_flushing(Vec::new());
    background.request_flush(&region);
    background.request_flush(&region);
    assert_eq!(background.waiting().flushes, 1, "queued once");
    Background::flush_next(&bench.server);
    assert_eq!(background.waiting().flushes, 0);
}

/// Runs one step of a background thread in a thread of its own. The receiver gets a message when the step ends.
fn once(bench: &Bench, step: fn(&RegionServer)) -> mpsc::Receiver<()> {
    let (server, (tell, told)) = (Arc::clone(&bench.server), mpsc::channel());
    let thread = env::spawn_thread("once", Priority::Background, move || {
        step(&server);
        let _nobody_waits = tell.send(());
    });
    drop(thread.expect("a thread"));
    told
}

const LONG: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_secs(30);
/// If a thread has not reported after this time, it counts as not woken. A slow machine can only make the test pass
/// wrongly.
const A_WHILE: Duration = Duration::from_millis(100);

#[test]
fn a_request_wakes_one_thread_of_its_kind() {
    let bench = Bench::with(Options { wake_period: LONG, ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", "1");
    let region = bench.server.regions().all().remove(0);
    region.flush(region::FlushReason::Requested).expect("flushes");
    bench.put("r", "f:x", "2");
    let flushes = once(&bench, Background::flush_next);
    let compacts = once(&bench, Background::compact_next);
    let others = once(&bench, Background::flush_next);
    assert!(flushes.recv_timeout(A_WHILE).is_err() && compacts.recv_timeout(A_WHILE).is_err());
    bench.server.background.request_flush(&region);
    let first = std::iter::repeat_with(|| [&flushes, &others].map(|told| told.recv_timeout(A_WHILE).is_ok()));
    let woken = first.take(100).find(|woken| woken.contains(&true)).expect("one is woken");
    assert_ne!(woken, [true; 2], "one flush wakes one thread");
    assert!(compacts.recv_timeout(A_WHILE).is_err(), "it has nothing to do");
    bench.server.background.request_compaction(&region, true, Vec::new());
    compacts.recv_timeout(SOON).expect("it is woken");
    bench.server.background.stop();
    let rest = if woken[0] { others } else { flushes };
    rest.recv_timeout(SOON).expect("all are woken at the end");
}

#[test]
fn a_stop_is_not_missed_before_a_sleep() {
    let bench = Bench::with(Options { wake_period: LONG, ..Options::default() }, &[("", "")]);
    bench.server.background.stop();
    for step in [Background::flush_next, Background::compact_next, MemoryQueue::compact_next] {
        once(&bench, step).recv_timeout(SOON).expect("it does not sleep");
    }
}

#[test]
fn sealed_segments_are_compacted_in_memory() {
    let region = RegionOptions {
        // About 1 KB, shared by two families.
        in_memory_flush_factor: 2_048.0 / RegionOptions::default().flush_size as f64,
        in_memory_compaction: Level::Eager,
        ..RegionOptions::default()
    };
    let options = Options { wake_period: Duration::ZERO, ..Options::default() };
    let bench = Bench::of(options, region, 1 << 20, &[("", "")]);
    for value in 0..100 {
        bench.put("r", "f:x", &value.to_string());
    }
    let pipeline = || bench.server.regions().all()[0].load().stores[0].memory.pipeline.clone();
    assert!(pipeline().iter().any(|segment| !segment.flat), "{:?}", pipeline());
    MemoryQueue::compact_next(&bench.server);
    assert_eq!(
        pipeline().iter().map(|segment| (segment.cells, segment.flat)).collect::<Vec<_>>(),
        [(1, true)]
    );
    MemoryQueue::compact_next(&bench.server);
    assert_eq!(bench.row("r"), ["f:x=99"], "a queue without regions is waited for");
}

#[test]
fn old_edits_are_flushed_after_a_while() {
    let bench =
        Bench::with(Options { flush_period: Duration::from_secs(60), ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", "1");
    bench.world.advance(Duration::from_secs(61));
    bench.server.run_chore();
    Background::flush_next(&bench.server);
    assert_eq!(files(&bench), 1);
}

#[test]
fn writes_are_refused_while_memory_is_full() {
    let bench = Bench::with(Options { memstore_bytes_max: 100, ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", &"v".repeat(200));
    let put = || bench.mutate(mutation(pb::mutation_proto::MutationType::Put, "s", "f:x", "1"));
    let refused = put().expect_err("too much");
    assert_eq!(class(&refused), "RegionTooBusyException");
    assert!(refused.message.contains("more than 100 bytes"), "{refused}");
    Background::flush_next(&bench.server);
    put().expect("there is room again");
}

#[test]
fn writes_that_a_regions_limit_refuses_are_counted() {
    let region = RegionOptions { flush_size: 1 << 10, block_multiplier: 1, ..RegionOptions::default() };
    let bench = Bench::of(Options::default(), region, 1 << 20, &[("", "")]);
    let refused = || bench.server.refused_writes();
    bench.put("r", "f:x", &"v".repeat(2 << 10));
    assert_eq!(refused(), 0);
    let put = || bench.mutate(mutation(pb::mutation_proto::MutationType::Put, "s", "f:x", "1"));
    let error = put().expect_err("too much");
    assert!(class(&error) == "RegionTooBusyException" && error.message.contains("Over memstore limit"));
    assert_eq!(refused(), 1);
    let region = bench.server.regions().all()[0].info().encoded_name().clone();
    let again = bench.server.exception(&region::Busy::MemstoreFull { limit: 1, region, size: 2 }.into());
    assert_eq!((class(&again), refused()), ("RegionTooBusyException", 1), "the error refuses no write");
    Background::flush_next(&bench.server);
    put().expect("there is room again");
    assert_eq!(refused(), 1);
}

#[test]
fn disabled_compactions_wait() {
    let bench = Bench::with(
        Options { compaction_enabled: false, wake_period: Duration::ZERO, ..Options::default() },
        &[("", "")],
    );
    let region = bench.server.regions().all().remove(0);
    bench.put("r", "f:x", "1");
    region.flush(region::FlushReason::Requested).expect("flushes");
    bench.server.background.request_compaction(&region, true, Vec::new());
    Background::compact_next(&bench.server);
    assert!(bench.server.background.compacting(&region).major, "still waits");
    bench.server.background.switch_compaction(true);
    Background::compact_next(&bench.server);
    assert!(!bench.server.background.compacting(&region).major);
}

#[test]
fn closed_regions_get_no_background_work() {
    let bench = Bench::with(Options { wake_period: Duration::ZERO, ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", "1");
    let region = bench.server.regions().all().remove(0);
    bench.server.background.request_flush(&region);
    bench.server.background.request_compaction(&region, true, Vec::new());
    bench.server.close_region(region.info().encoded_name(), None).expect("closes");
    assert_eq!(bench.server.background.compacting(&region), PendingCompactions::default());
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

/// Lets the storage have no free space any more.
fn fill(place: &storage::Memory) {
    use storage::Files;
    let used = place.list(&storage::FileName::root()).expect("there").iter().map(|entry| entry.size).sum();
    place.set_bytes_max(Some(used));
}

#[test]
fn failures_are_counted_logged_and_retried_with_backoff() {
    let options = Options {
        wake_period: Duration::ZERO,
        retry_min: Duration::from_secs(1),
        retry_max: Duration::from_secs(3),
        ..Options::default()
    };
    let bench = Bench::with(options, &[("", "")]);
    bench.put("r", "f:x", "1");
    let region = bench.server.regions().all().remove(0);
    let counted = || bench.server.counters().snapshot();
    fill(&bench.place);
    bench.server.background.request_flush(&region);
    for (failures, wait) in [(1, 1), (2, 2), (3, 3), (4, 3)] {
        Background::flush_next(&bench.server);
        assert_eq!(counted().flushes_failed, failures);
        bench.world.advance(Duration::from_secs(wait) - Duration::from_nanos(1));
        Background::flush_next(&bench.server);
        assert_eq!(counted().flushes_failed, failures, "its turn is after {wait} s");
        assert_eq!(bench.server.background.waiting().flushes, 1);
        bench.world.advance(Duration::from_nanos(1));
    }
    assert_eq!(bench.row("r"), ["f:x=1"], "it is still in memory");
    bench.place.set_bytes_max(None);
    Background::flush_next(&bench.server);
    assert_eq!((files(&bench), counted().flushes, bench.server.background.waiting().flushes), (1, 1, 0));

    bench.put("s", "f:x", "2");
    bench.server.background.request_flush(&region);
    Background::flush_next(&bench.server);
    fill(&bench.place);
    bench.server.background.request_compaction(&region, true, Vec::new());
    Background::compact_next(&bench.server);
    assert_eq!((counted().compactions, counted().compactions_failed), (0, 1));
    assert!(bench.server.background.compacting(&region).major, "it waits");
    bench.place.set_bytes_max(None);
    Background::compact_next(&bench.server);
    assert_eq!(counted().compactions, 0, "not yet");
    bench.world.advance(Duration::from_secs(1));
    Background::compact_next(&bench.server);
    assert_eq!((counted().compactions, files(&bench)), (1, 1));
    assert!(!bench.server.background.compacting(&region).major);
}

#[test]
fn metrics_have_hbases_names_and_true_values() {
    use telemetry::Source;
    let options = Options { warn_time: Some(Duration::ZERO), warn_bytes: Some(0), ..Options::default() };
    let bench = Bench::with(options, &[("", "")]);
    bench.put("r", "f:x", "1");
    bench.put("r", "f:y", "1");
    assert_eq!(bench.row("r"), ["f:x=1", "f:y=1"]);
    let mut out = telemetry::Exposition::default();
    bench.server.show(&mut out);
    bench.server.foundation().log.show(&mut out);
    let text = out.into_text();
    for line in [
        "hbase_regionserver_rpc_mutate_request_count 2",
        "hbase_regionserver_write_request_count 2",
        "hbase_regionserver_region_count 1",
        "hbase_regionserver_call_seconds_count{method=\"Mutate\"} 2",
        "hbase_regionserver_large_answer_count 3",
        "hbase_regionserver_slow_call_count 0",
        // Two writes and the marker of the region's opening.
        "hbase_wal_append_count 3",
        "hbase_wal_disk_full 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing in\n{text}");
    }
}

#[test]
fn from_the_lower_mark_on_the_fullest_regions_are_flushed_until_it_is_below() {
    let options = Options {
        memstore_bytes_max: 20_000,
        memstore_lower: 0.5,
        wake_period: Duration::ZERO,
        ..Options::default()
    };
    let bench = Bench::with(options, &[("", "m"), ("m", "t"), ("t", "")]);
    let waiting = || bench.server.background.waiting().flushes;
    bench.put("a", "f:x", &"v".repeat(3_000));
    bench.put("n", "f:x", &"v".repeat(5_000));
    assert_eq!(waiting(), 0);
    bench.put("z", "f:x", &"v".repeat(4_000));
    assert_eq!(waiting(), 1, "8,000 and more are over half of 20,000");
    let memory = || -> Vec<bool> {
        bench.server.regions().all().iter().map(|region| region.memstore_bytes() > 0).collect()
    };
    Background::flush_next(&bench.server);
    assert_eq!(memory(), [true, false, true], "the fullest one");
    assert_eq!(waiting(), 0, "and no more of them are needed");
    bench.server.close_all().expect("closes");
    assert_eq!(bench.server.background.memory(), 0);
}

#[test]
fn a_region_whose_flush_fails_does_not_keep_others_from_being_flushed() {
    let options = Options {
        memstore_bytes_max: 20_000,
        memstore_lower: 0.5,
        wake_period: Duration::ZERO,
        retry_min: Duration::from_secs(60),
        ..Options::default()
    };
    let bench = Bench::with(options, &[("", "m"), ("m", "t"), ("t", "")]);
    bench.put("a", "f:x", &"v".repeat(6_000));
    fill(&bench.place);
    bench.server.background.request_flush(&bench.server.regions().all()[0]);
    Background::flush_next(&bench.server);
    assert_eq!(bench.server.counters().snapshot().flushes_failed, 1);
    bench.place.set_bytes_max(None);
    // Half of 20,000 is the limit, and the region that fails keeps more than 6,000 of it.
    bench.put("n", "f:x", &"v".repeat(1_500));
    bench.put("z", "f:x", &"v".repeat(3_000));
    assert_eq!(bench.server.background.waiting().flushes, 2, "the one that fails, and another");
    Background::flush_next(&bench.server);
    let regions = bench.server.regions().all();
    let memory: Vec<bool> = regions.iter().map(|region| region.memstore_bytes() > 0).collect();
    assert_eq!(memory, [true, true, false], "the fullest of those that can be flushed");
    assert_eq!(bench.server.background.waiting().flushes, 1, "and no more of them are needed");
}

#[test]
fn too_many_files_delay_a_flush_for_a_limited_time() {
    let region_options = RegionOptions {
        blocking_files: 1,
        compaction_files_min: 2,
        flush_size: 1,
        ..RegionOptions::default()
    };
    let options =
        Options { blocking_wait: Duration::from_secs(10), wake_period: Duration::ZERO, ..Options::default() };
    let bench = Bench::of(options, region_options, 1 << 20, &[("", "")]);
    for _ in 0..2 {
        bench.put("r", "f:x", "1");
        Background::flush_next(&bench.server);
    }
    bench.put("r", "f:x", "2");
    let region = bench.server.regions().all().remove(0);
    Background::flush_next(&bench.server);
    assert_eq!(files(&bench), 2, "it waits");
    assert!(bench.server.background.compacting(&region).minor, "and asks for what it waits for");
    bench.world.advance(Duration::from_secs(9));
    Background::flush_next(&bench.server);
    assert_eq!(files(&bench), 2);
    bench.world.advance(Duration::from_secs(1));
    Background::flush_next(&bench.server);
    assert_eq!(files(&bench), 3);
}

#[test]
fn major_compactions_run_when_due() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let region_options =
        RegionOptions { major_period: 7 * DAY, major_jitter: 0.5, ..RegionOptions::default() };
    let options = Options { wake_period: Duration::ZERO, ..Options::default() };
    let bench = Bench::of(options, region_options, 1 << 20, &[("", "")]);
    let region = bench.server.regions().all().remove(0);
    let due = || {
        bench.server.run_chore();
        bench.server.background.compacting(&region).major
    };
    assert!(!due(), "there are no files");
    bench.put("r", "f:x", "1");
    region.flush(region::FlushReason::Requested).expect("flushes");
    bench.world.advance(DAY * 7 / 2 - Duration::from_secs(1));
    assert!(!due(), "never before half of the period");
    bench.world.advance(7 * DAY + Duration::from_secs(2));
    assert!(due(), "always after half as much again");
    Background::compact_next(&bench.server);
    assert!(region.load().last_major_compaction.is_some());
    bench.world.advance(30 * DAY);
    assert!(!due(), "one file that is whole already is left alone");
    bench.put("r", "f:x", "2");
    region.flush(region::FlushReason::Requested).expect("flushes");
    assert!(due());
}

#[test]
fn an_old_log_file_is_rolled_whatever_its_size() {
    let period = Duration::from_secs(3600);
    let bench = Bench::with(Options { log_roll_period: period, ..Options::default() }, &[("", "")]);
    let log = bench.server.foundation().log.clone();
    // The first file has the marker of the region's opening.
    log.roll().expect("alive");
    let first = log.file_number();
    bench.server.run_chore();
    bench.put("r", "f:x", "1");
    bench.world.advance(period / 2);
    bench.server.run_chore();
    assert_eq!(log.file_number(), first, "it was begun half a period ago");
    bench.world.advance(period / 2);
    bench.server.run_chore();
    assert_eq!(log.file_number(), first + 1, "it was begun a period ago");
    bench.world.advance(period / 2);
    bench.server.run_chore();
    bench.world.advance(period / 2);
    bench.server.run_chore();
    assert_eq!(log.file_number(), first + 1, "the new one is young");
}

/// Returns a server whose log has spare files, and the number of log files that it needs.
fn with_files_ready(options: Options) -> (Bench, usize) {
    let bench = Bench::with_log(options, wal::Options { file_bytes_max: 20_000, ..wal::Options::default() });
    let value = "v".repeat(1_000);
    (0..100).for_each(|_| bench.put("r", "f:x", &value));
    bench.server.regions().all()[0].flush(region::FlushReason::Requested).expect("flushes");
    let needed = bench.server.foundation().log.size().0;
    assert!(log_files(&bench) > needed, "some are ready");
    (bench, needed)
}

fn log_files(bench: &Bench) -> usize {
    use storage::Files;
    let listed = bench.place.list(&storage::FileName::new("WALs")).expect("readable");
    listed.iter().filter(|entry| entry.name.last().ends_with(".wal")).count()
}

#[test]
fn spare_log_files_are_deleted_when_idle() {
    let period = Duration::from_secs(3600);
    let (bench, needed) = with_files_ready(Options { log_roll_period: period, ..Options::default() });
    let log = &bench.server.foundation().log;
    // The last file may be large. The next file, which the chore begins because of the age, is nearly empty.
    for _ in 0..3 {
        bench.server.run_chore();
        bench.world.advance(period);
    }
    bench.server.run_chore();
    assert_eq!((log_files(&bench), log.size().0), (1, 1), "{needed} were needed");
}

#[test]
fn spare_log_files_are_deleted_when_the_disk_is_full() {
    let (bench, needed) = with_files_ready(Options::default());
    bench.put("r", "f:x", "1");
    let region = bench.server.regions().all().remove(0);
    let failing = |bench: &Bench| {
        bench.place.set_bytes_max(Some(0));
        let failed = bench.server.flush(&region, region::FlushReason::Requested);
        bench.place.set_bytes_max(None);
        failed.expect_err("the disk is full")
    };
    assert!(failing(&bench).to_string().contains("space"));
    assert_eq!(log_files(&bench), needed);
    bench.server.flush(&region, region::FlushReason::Requested).expect("there is room again");
}

/// Without the pause, a panic in each attempt took all time of a core and filled the log.
#[test]
fn periodic_work_that_panics_is_tried_again_in_the_next_period() {
    let wake_period = Duration::from_millis(20);
    let bench = Bench::with(Options { wake_period, ..Options::default() }, &[("", "")]);
    let (background, world) = (&bench.server.background, env::World::real());
    let began = world.moment();
    Background::chore_of(&bench.server, |_| panic!("planted"));
    assert!(world.moment().since(began) >= wake_period, "it sleeps as after other work");
    assert!(!background.is_chore_failure_new(Some("planted".into())), "the same panic is not logged again");
    Background::chore_of(&bench.server, |_| {});
    assert!(background.is_chore_failure_new(Some("planted".into())), "it ended well meanwhile");
}

#[test]
fn unlisted_files_are_deleted_after_a_while() {
    use storage::Files;
    let period = Duration::from_secs(300);
    let bench = Bench::with(Options { unnamed_files_period: period, ..Options::default() }, &[("", "")]);
    bench.put("r", "f:x", "1");
    let region = bench.server.regions().all().remove(0);
    region.flush(region::FlushReason::Requested).expect("flushes");
    let named = region.file_names(&[]).expect("a list");
    let left = named[0].parent().expect("the store's folder").join("0123456789abcdef0123456789abcdef");
    bench.place.create(&left).expect("new").finish().expect("durable");
    bench.server.run_chore();
    assert!(bench.place.open(&left).is_ok(), "not at once");
    bench.world.advance(period);
    bench.server.run_chore();
    assert!(bench.place.open(&left).is_err() && bench.place.open(&named[0]).is_ok());
}

#[test]
fn in_shared_storage_a_mob_file_goes_when_two_searches_found_it_unneeded_and_the_catalog_is_open() {
    use storage::{Capabilities, Capability, Files};
    let period = Duration::from_secs(24 * 3_600);
    let place = storage::Memory::with(Capabilities::ALL.without(Capability::OneProcess));
    let bench = Bench::with_storage(place, Options { unnamed_files_period: period, ..Options::default() });
    let open = bench.server.regions().all().remove(0).info().clone();
    let region =
        |id| RegionInfo::new(open.table().clone(), "x".into(), "".into(), RegionId(id)).expect("a region");
    let (closed, dropped) = (region(7), region(8));
    let mob_file = |region: &RegionInfo| {
        let folder = format!("mobdir/data/default/t/{}/f", layout::mob_region(region.table()));
        let random = "0123456789abcdef0123456789abcdef";
        let name = storage::FileName::new(folder)
            .join(&format!("{random}20261129{random}_{}", region.encoded_name()));
        bench.place.create(&name).expect("new").finish().expect("durable");
        name
    };
    let names = [&open, &dropped, &closed].map(mob_file);
    let there = || names.each_ref().map(|name| bench.place.open(name).is_ok());
    let search = || {
        bench.world.advance(period);
        bench.server.run_chore();
    };
    bench.server.run_chore();
    (0..3).for_each(|_| search());
    assert_eq!(there(), [true; 3], "without hbase:meta nothing is known about the regions");
    let meta = RegionInfo::meta();
    bench.server.open_region(meta.clone(), Arc::new(meta_descriptor())).expect("opened");
    let servers = LocalServers::new(Arc::clone(&bench.server)).expect("a thread can be started");
    let rows = [RegionRow::new(open, RegionState::Open), RegionRow::new(closed, RegionState::Closed)];
    let rows = rows.map(|row| CatalogEdit::Put(CatalogRow { key: row.key(), columns: row.columns() }));
    let (server, meta) = (bench.server.name(), meta.encoded_name());
    env::block_on(servers.write(server, meta, Stamp(1), rows.into())).expect("written");
    env::block_on(servers.flush(server, meta, Vec::new())).expect("flushed");
    search();
    assert_eq!(there(), [false, false, true], "an earlier owner may still have the closed region");
}

#[test]
fn flushes_get_full_priority_under_memory_pressure() {
    let region = RegionOptions { flush_size: 1 << 10, block_multiplier: 4, ..RegionOptions::default() };
    let options = Options { wake_period: Duration::ZERO, ..Options::default() };
    let bench = Bench::of(options, region, 1 << 20, &[("", "")]);
    let hurries = || bench.server.background.threads.hurries();
    bench.put("r", "f:x", &"v".repeat(1 << 10));
    assert!(!hurries(), "there is room for the writes that come during the flush");
    bench.put("r", "f:x", &"v".repeat(3 << 10));
    assert!(hurries(), "writers of the region are slowed");
    bench.server.run_chore();
    assert!(hurries(), "until it is flushed");
    Background::flush_next(&bench.server);
    assert!(!hurries());
}

#[test]
fn compactions_get_full_priority_when_a_store_has_too_many_files_or_they_run_long() {
    let region = RegionOptions {
        flush_size: 1,
        block_multiplier: 1 << 20,
        blocking_files: 2,
        ..RegionOptions::default()
    };
    let options = Options { background_patience: Duration::from_secs(10), ..Options::default() };
    let bench = Bench::of(options, region, 1 << 20, &[("", "")]);
    let background = &bench.server.background;
    for (number, hurries) in [(1, false), (2, false), (3, true)] {
        bench.put("r", "f:x", "1");
        Background::flush_next(&bench.server);
        assert_eq!((files(&bench), background.threads.hurries()), (number, hurries));
    }
    bench.put("r", "f:x", "1");
    Background::flush_next(&bench.server);
    assert_eq!(
        (files(&bench), background.threads.hurries()),
        (3, true),
        "the flush waits for the compaction"
    );
    Background::compact_next(&bench.server);
    bench.world.advance(Duration::from_secs(60));
    Background::flush_next(&bench.server);
    assert_eq!((files(&bench), background.threads.hurries()), (2, false));

    let began = bench.world.moment();
    background.set_began(vec![began]);
    bench.world.advance(Duration::from_secs(10));
    bench.server.run_chore();
    assert!(!background.threads.hurries(), "no longer than it may take");
    bench.world.advance(Duration::from_secs(1));
    bench.server.run_chore();
    assert!(background.threads.hurries());
    background.set_began(Vec::new());
    bench.server.run_chore();
    assert!(!background.threads.hurries(), "it has ended");
}

/// A master that records the requests it gets.
#[derive(Default)]
struct AskedMaster(env::sync::Mutex<Vec<(RegionInfo, Bytes)>>);

impl contract::MasterRequests for AskedMaster {
    fn split(&self, region: &RegionInfo, row: Bytes) {
        self.0.lock().push((region.clone(), row));
    }
}

#[test]
fn a_region_that_has_grown_too_large_asks_for_its_split() {
    let split = crate::SplitOptions { initial_bytes: Some(100_000), jitter: 0.0, ..Options::default().split };
    let options = Options { split, wake_period: Duration::ZERO, ..Options::default() };
    let bench = Bench::with(options, &[("", "")]);
    let master = Arc::new(AskedMaster::default());
    bench.server.set_master(master.clone());
    let asked = || std::mem::take(&mut *master.0.lock());
    let region = bench.server.regions().all().remove(0);
    let fill = |rows: std::ops::Range<u32>| {
        for row in rows {
            let (row, value) = (format!("row-{row:05}").leak(), "v".repeat(2_000));
            bench.put(row, "f:x", &value);
        }
        bench.server.background.request_flush(&region);
        Background::flush_next(&bench.server);
    };
    fill(0..40);
    assert_eq!(asked(), [], "80 KB are not too much");
    fill(40..160);
    let [(of, row)] = &asked()[..] else { panic!("it asks once") };
    assert_eq!(of, region.info());
    assert!(region.info().contains_row(row) && row.starts_with(b"row-"), "{row:?}");
    fill(160..170);
    assert_eq!(asked(), [], "it has just asked");
    bench.world.advance(Duration::from_secs(61));
    fill(170..180);
    assert_eq!(asked().len(), 1, "it asks again");
    // A compaction requests a split, too, but not within the pause after a request.
    bench.world.advance(Duration::from_secs(61));
    bench.server.background.request_compaction(&region, true, Vec::new());
    Background::compact_next(&bench.server);
    assert_eq!(asked().len(), 1);
    // With a second region of its table on the server, the region may grow to MAX_FILESIZE.
    bench.server.open_region(super::bench::region("x", "y"), region.table().clone()).expect("opens");
    bench.world.advance(Duration::from_secs(61));
    fill(180..190);
    assert_eq!(asked(), []);
}

#[test]
fn a_large_put_keeps_its_permit_until_its_region_is_flushed() {
    let region_options = RegionOptions { flush_size: 1 << 20, ..RegionOptions::default() };
    let bench = Bench::of(Options::default(), region_options, 1 << 20, &[("", "")]);
    let budget = rpc::LargeBudget::new(1 << 20, 4 << 20);
    let put = |row: &'static str, length: usize| {
        let mutation = mutation(MutationType::Put, row, "f:x", &"v".repeat(length));
        let request =
            pb::MutateRequest { region: bench.region_of(row.as_bytes()), mutation, ..Default::default() };
        let mut call = bench.call("Mutate", &request, Bytes::new());
        (call.size, call.permit) = (2 << 20, Some(budget.take(2 << 20)));
        bench.send(call).expect("a put");
    };
    put("a", 1_000);
    assert_eq!(budget.taken(), 0, "it leaves the region with little in memory");
    put("b", 600 << 10);
    assert_eq!((budget.taken(), bench.server.background.waiting().flushes), (2 << 20, 1));
    let region = bench.server.regions().all().remove(0);
    bench.server.background.set_flushing(vec![region]);
    put("c", 100);
    assert_eq!(budget.taken(), 4 << 20, "also while a flush runs that has begun before");
    bench.server.background.set_flushing(Vec::new());
    Background::flush_next(&bench.server);
    assert_eq!((budget.taken(), files(&bench)), (0, 1));
    assert_eq!(bench.row("c"), [format!("f:x={}", "v".repeat(100))]);
}

#[test]
fn a_get_of_a_large_value_waits_for_memory_and_that_of_a_small_one_does_not() {
    let (in_memory, in_a_file) = (true, false);
    get_waits(in_memory);
    get_waits(in_a_file);
}

fn get_waits(in_memory: bool) {
    let mut bench = Bench::with(Options::default(), &[]);
    let mut table = table();
    let family = FamilyDescriptor::new("f").expect("a name");
    table.set_family(family.with("IS_MOB", true).with("MOB_THRESHOLD", 10));
    bench.server.open_region(region("", ""), Arc::new(table)).expect("a new region");
    let budget = rpc::LargeBudget::new(100_000, 1_000_000);
    bench.answers = rpc::Answers::with_large(1 << 30, budget.clone());
    bench.put("large", "f:x", &"l".repeat(200_000));
    bench.put("small", "f:x", &"s".repeat(50_000));
    if !in_memory {
        bench.server.regions().all().remove(0).flush(region::FlushReason::Requested).expect("flushes");
    }
    let held = budget.take(900_000);
    assert_eq!(bench.row("small"), [format!("f:x={}", "s".repeat(50_000))]);
    let request = pb::GetRequest { region: bench.region_of(b"large"), get: get("large") };
    let answer = bench.begin(bench.call("Get", &request, Bytes::new()));
    let rpc::Answer::Later(answer) = answer else { panic!("it does not wait") };
    let waiting = bench.runtime.spawn(answer);
    let waits = || (std::thread::yield_now(), budget.waiting() == 1).1;
    assert!((0..10_000_000).any(|_| waits()), "the value is read while there is no memory for it");
    drop(held);
    let reply = bench.runtime.handle().block_on(waiting).expect("no panic").expect("a get");
    assert_eq!(budget.taken() / 1_000, 200, "until the answer is sent");
    drop(reply);
    assert_eq!(budget.taken(), 0);
}
