#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::target("http").expect("a target")(bytes));
