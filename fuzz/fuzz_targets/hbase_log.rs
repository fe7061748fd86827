#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::target("hbase_log").expect("a target")(bytes));
