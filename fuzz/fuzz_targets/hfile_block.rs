#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::target("hfile_block").expect("a target")(bytes));
