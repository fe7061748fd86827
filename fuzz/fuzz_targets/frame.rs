#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::target("frame").expect("a target")(bytes));
