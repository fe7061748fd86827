#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::target("packed_cells").expect("a target")(bytes));
