//! Tests of the normalizer on two servers: which calls make it run, and which splits and merges it submits.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use proto::pb;
use rpc::{Exception, Service};

use super::fake::{Life, name, pb_name, schema};
use super::service::{call, end_of};
use crate::MasterService;
use crate::switches::Switch;

/// Returns the start keys of a table's serving regions.
fn starts(life: &Life, table: &str) -> Vec<String> {
    life.master.read_view(|view| {
        let serving = view.tables[&name(table)].serving();
        serving.map(|row| String::from_utf8_lossy(row.region.start_key()).into_owned()).collect()
    })
}

/// Creates a table that asks to be normalized, with regions from "", "c", "f" and "m" on.
fn create(life: &Life, table: &str) {
    let mut schema = schema(table, &["f"]);
    let age = ("hbase.normalizer.merge.min_region_age.days", "0");
    schema.attributes = [("NORMALIZATION_ENABLED", "true"), age]
        .map(|(first, second)| pb::BytesBytesPair { first: first.into(), second: second.into() })
        .to_vec();
    let splits = ["c", "f", "m"].map(Bytes::from);
    life.done(life.master.create_table(&schema, &splits, None)).expect("created");
    // A region's id is its creation time. Without a later time the region would not be older than a minimum age of 0.
    life.master.world.advance(Duration::from_secs(1));
}

/// Sets the sizes in MB of the regions that begin at these keys.
fn set_sizes(life: &Life, sizes: [(&'static str, u32); 4]) {
    *life.servers.sizes.lock() = sizes.into_iter().map(|(start, size)| (Bytes::from(start), size)).collect();
}

fn normalize(life: &Life, request: &pb::NormalizeRequest) -> Result<bool, Exception> {
    let runtime = env::Runtime::start("test", 2).expect("a thread can be started");
    let call = call(life, None, "Normalize", request.encode_to_vec().into());
    let reply = end_of(&runtime, MasterService::new(std::sync::Arc::clone(&life.master)).call(call))?;
    Ok(pb::NormalizeResponse::decode(reply.message).expect("its answer").normalizer_ran)
}

fn all() -> pb::NormalizeRequest {
    pb::NormalizeRequest { table_names: Vec::new(), regex: None, namespace: None }
}

/// Runs the normalizer as the chore does, and waits for the procedures that it has submitted.
fn run(life: &Life) {
    life.master.run_normalizer();
    for procedure in life.master.procedures.list() {
        let _outcome = life.master.procedures.wait(procedure.id);
    }
}

#[test]
fn a_large_region_is_split_and_small_neighbours_are_merged() {
    let life = Life::first();
    create(&life, "t");
    life.create("other", &["f"], &["c", "f", "m"]).expect("a table that does not ask for it");
    set_sizes(&life, [("", 10), ("c", 10), ("f", 10), ("m", 90)]);
    *life.servers.split_row.lock() = Some("x".into());
    assert!(normalize(&life, &all()).expect("it runs"));
    assert_eq!(starts(&life, "t"), ["", "c", "f", "m"], "the answer does not wait for the chore");
    run(&life);
    assert_eq!(starts(&life, "t"), ["", "m", "x"]);
    assert_eq!(starts(&life, "other"), ["", "c", "f", "m"]);
}

#[test]
fn a_call_chooses_tables_and_the_switches_count() {
    let life = Life::first();
    create(&life, "t");
    create(&life, "u");
    set_sizes(&life, [("", 10), ("c", 10), ("f", 10), ("m", 90)]);
    let one = pb::NormalizeRequest { table_names: vec![pb_name("u")], ..all() };
    life.master.switch(Switch::Normalizer, false).expect("switched");
    assert!(!normalize(&life, &one).expect("an answer"), "it is off");
    life.master.switch(Switch::Normalizer, true).expect("switched");
    life.master.switch(Switch::Merge, false).expect("switched");
    assert!(normalize(&life, &one).expect("an answer"));
    run(&life);
    assert_eq!(starts(&life, "u"), ["", "c", "f", "m"], "merges are off, and it has no row to split at");
    life.master.switch(Switch::Merge, true).expect("switched");
    assert!(normalize(&life, &one).expect("an answer"));
    run(&life);
    assert_eq!((starts(&life, "t").len(), starts(&life, "u").len()), (4, 2));
    let pattern = pb::NormalizeRequest { regex: Some("(".into()), ..all() };
    assert!(normalize(&life, &pattern).expect_err("no pattern").do_not_retry);
}

#[test]
fn plans_wait_for_the_limit_of_bytes_in_a_second() {
    let life = Life::first_with(|options| options.normalizer.bytes_per_second = 1 << 20);
    create(&life, "t");
    create(&life, "u");
    // The average is 8: each table has one merge of 8 MB.
    set_sizes(&life, [("", 4), ("c", 4), ("f", 10), ("m", 14)]);
    assert!(normalize(&life, &all()).expect("it runs"));
    run(&life);
    assert_eq!((starts(&life, "t").len(), starts(&life, "u").len()), (3, 4), "the first costs nothing");
    assert!(!life.master.normalizer.lock().has_tables(), "the chore has nothing to do but to wait");
    life.master.world.advance(Duration::from_millis(7_900));
    run(&life);
    assert_eq!(starts(&life, "u").len(), 4);
    life.master.world.advance(Duration::from_millis(200));
    run(&life);
    assert_eq!(starts(&life, "u").len(), 3);
}
