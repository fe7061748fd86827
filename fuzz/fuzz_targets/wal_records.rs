#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::target("wal_records").expect("a target")(bytes));
