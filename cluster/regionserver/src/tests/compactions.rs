//! Tests of the queues of compactions, and of compactions that are watched.

use std::sync::Arc;

use region::{Region, RegionOptions};

use super::bench::{Bench, region, table};
use crate::background::{Background, PendingCompactions};
use crate::{Options, TaskFilter, TaskState};

fn no_wait() -> Options {
    Options { wake_period: std::time::Duration::ZERO, ..Options::default() }
}

fn write_files(bench: &Bench, row: &'static str, column: &'static str, count: usize) {
    let region = region_of(bench, row);
    for _ in 0..count {
        bench.put(row, column, "1");
        region.flush(region::FlushReason::Requested).expect("flushes");
    }
}

fn region_of(bench: &Bench, row: &str) -> Arc<Region> {
    let regions = bench.server.regions().all();
    regions.into_iter().find(|region| region.info().contains_row(row.as_bytes())).expect("it is open")
}

fn files(region: &Region) -> Vec<usize> {
    region.load().stores.iter().map(|store| store.files).collect()
}

#[test]
fn the_store_closest_to_holding_flushes_back_comes_first() {
    let bench = Bench::with(no_wait(), &[("", "m"), ("m", "")]);
    write_files(&bench, "a", "f:x", 3);
    write_files(&bench, "z", "f:x", 5);
    write_files(&bench, "z", "g:x", 4);
    let (first, second) = (region_of(&bench, "a"), region_of(&bench, "z"));
    bench.server.background.consider_compaction(&first);
    bench.server.background.consider_compaction(&second);
    assert_eq!(bench.server.background.waiting().compactions.small, 3);
    Background::compact_next_small(&bench.server);
    assert_eq!((files(&first), files(&second)), (vec![3, 0], vec![1, 4]));
    // A client's request is more urgent than the two that are left in the queue.
    bench.server.background.request_compaction(&first, true, vec!["f".into()]);
    Background::compact_next_small(&bench.server);
    assert_eq!((files(&first), files(&second)), (vec![1, 0], vec![1, 4]));
    Background::compact_next_small(&bench.server);
    assert_eq!(files(&second), [1, 1]);
}

#[test]
fn large_compactions_have_threads_of_their_own() {
    let options = RegionOptions { compaction_throttle: Some(0), ..RegionOptions::default() };
    let bench = Bench::of(no_wait(), options, 1 << 20, &[("", "")]);
    write_files(&bench, "a", "f:x", 3);
    let region = region_of(&bench, "a");
    bench.server.background.consider_compaction(&region);
    let waiting = bench.server.background.waiting().compactions;
    assert_eq!((waiting.small, waiting.large), (0, 1));
    Background::compact_next_small(&bench.server);
    assert_eq!(files(&region), [3, 0], "it is no work for this thread");
    Background::compact_next(&bench.server);
    assert_eq!(files(&region), [1, 0]);
    assert_eq!(bench.server.background.compacting(&region), PendingCompactions::default());
    // If there is no large compaction, the thread takes a small one.
    let bench = Bench::with(no_wait(), &[("", "")]);
    write_files(&bench, "a", "f:x", 3);
    let region = region_of(&bench, "a");
    bench.server.background.consider_compaction(&region);
    Background::compact_next(&bench.server);
    assert_eq!(files(&region), [1, 0]);
}

#[test]
fn the_progress_of_a_compaction_is_listed() {
    let bench = Bench::with(no_wait(), &[("", "")]);
    write_files(&bench, "a", "f:x", 3);
    let region = region_of(&bench, "a");
    bench.server.background.request_compaction(&region, true, vec!["f".into()]);
    Background::compact_next(&bench.server);
    let tasks = bench.server.tasks(TaskFilter::General);
    let task = tasks.iter().find(|task| task.description.starts_with("Major compaction of f in t,"));
    assert_eq!(task.expect("it is listed").state, TaskState::Complete);
    let load = bench.server.region_load(&region);
    assert_eq!((load.total_compacting_k_vs, load.current_compacted_k_vs), (Some(3), Some(3)));
}

#[test]
fn switching_compactions_off_ends_a_running_one_and_it_waits() {
    let bench = Bench::with(no_wait(), &[("", "")]);
    write_files(&bench, "a", "f:x", 3);
    let region = region_of(&bench, "a");
    bench.server.background.consider_compaction(&region);
    // A limit of one byte a second keeps the compaction running until compactions are switched off.
    bench.server.background.compaction_budget.set_limit(1);
    let (server, (tell, told)) = (Arc::clone(&bench.server), std::sync::mpsc::channel());
    let thread = env::spawn_thread("compacts", env::Priority::Background, move || {
        Background::compact_next(&server);
        let _nobody_waits = tell.send(());
    });
    drop(thread.expect("a thread"));
    let is_waiting = || {
        let tasks = bench.server.tasks(TaskFilter::General);
        tasks.iter().any(|task| task.status.starts_with("read 3 of 3 cells, wrote "))
    };
    while !is_waiting() {
        std::thread::yield_now();
    }
    bench.server.background.switch_compaction(false);
    told.recv_timeout(std::time::Duration::from_secs(30)).expect("it ends");
    assert_eq!(files(&region), [3, 0]);
    assert!(bench.server.background.compacting(&region).minor, "it waits");
    assert_eq!(bench.server.counters().snapshot().compactions_failed, 0);
    bench.server.background.compaction_budget.set_limit(u64::MAX);
    bench.server.background.switch_compaction(true);
    Background::compact_next(&bench.server);
    assert_eq!(files(&region), [1, 0]);
    let load = bench.server.region_load(&region);
    assert_eq!((load.total_compacting_k_vs, load.current_compacted_k_vs), (Some(3), Some(3)));
}

#[test]
fn a_table_may_do_without_compactions() {
    let bench = Bench::with(no_wait(), &[]);
    let mut table = table();
    table.attributes_mut().set("COMPACTION_ENABLED".into(), "false".into());
    bench.server.open_region(region("", ""), Arc::new(table)).expect("opens");
    write_files(&bench, "a", "f:x", 3);
    let region = region_of(&bench, "a");
    bench.server.background.request_compaction(&region, true, Vec::new());
    bench.server.run_chore();
    assert_eq!(bench.server.background.compacting(&region), PendingCompactions::default());
}

#[test]
fn the_limit_of_flushes_follows_memory_and_acts() {
    const MB: u64 = 1 << 20;
    let flush_throughput =
        crate::ThroughputOptions { is_limited: true, lower: 100 * MB, higher: 200 * MB, off_peak: u64::MAX };
    let options = Options { memstore_bytes_max: 1 << 30, memstore_lower: 0.5, flush_throughput, ..no_wait() };
    let bench = Bench::with(options, &[("", "")]);
    let budget = Arc::clone(&bench.server.foundation().region_options.flush_budget);
    assert_eq!(budget.limit(), u64::MAX, "before the first check");
    bench.server.run_chore();
    assert_eq!(budget.limit(), 100 * MB);
    // At one byte a second the flush waits until the limit is raised.
    bench.put("a", "f:x", "1");
    budget.set_limit(1);
    let (region, (tell, told)) = (region_of(&bench, "a"), std::sync::mpsc::channel());
    let thread = env::spawn_thread("flushes", env::Priority::Background, move || {
        let _nobody_waits = tell.send(region.flush(region::FlushReason::Requested).is_ok());
    });
    drop(thread.expect("a thread"));
    assert!(told.recv_timeout(std::time::Duration::from_millis(100)).is_err(), "it waits");
    budget.set_limit(u64::MAX);
    assert_eq!(told.recv_timeout(std::time::Duration::from_secs(30)), Ok(true));
    assert_eq!(files(&region_of(&bench, "a")), [1, 0]);
}

#[test]
fn the_limit_follows_the_files_of_the_fullest_store() {
    const MB: u64 = 1 << 20;
    let options = RegionOptions { blocking_files: 5, ..RegionOptions::default() };
    let bench = Bench::of(no_wait(), options, 1 << 20, &[("", "")]);
    let limit = |files: usize| {
        write_files(&bench, "a", "f:x", files);
        bench.server.run_chore();
        bench.server.background.compaction_budget.limit()
    };
    assert_eq!(limit(3), 50 * MB);
    assert_eq!(limit(1), 75 * MB);
    assert_eq!(limit(1), 100 * MB);
    assert_eq!(limit(1), u64::MAX, "flushes wait");
}
