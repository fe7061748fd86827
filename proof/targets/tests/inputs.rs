//! Tests that the valid inputs are accepted, and that inputs that once broke a reader no longer do.
#![expect(clippy::disallowed_methods, reason = "the files of this folder are what the tests are about")]

use std::path::PathBuf;

use targets::{TARGETS, hex, seeds, target, unhex};

#[test]
fn every_target_takes_its_good_inputs_and_every_cut_of_them() {
    for (name, target) in TARGETS {
        for seed in seeds(name) {
            assert!(!seed.is_empty());
            target(&seed);
            // The web port answers through a socket; a file is long.
            let step = if *name == "http" { 7 } else { 1 + seed.len() / 150 };
            for cut in (0..seed.len()).step_by(step) {
                target(&seed[..cut]);
            }
        }
    }
}

#[test]
fn inputs_that_once_broke_something_break_nothing() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("broken");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        if path.extension().is_some_and(|kind| kind == "hex") {
            let (of, _) = name.split_once('-').expect("TARGET-WHAT.hex");
            let text = std::fs::read_to_string(&path).expect("readable");
            target(of).unwrap_or_else(|| panic!("no target {of}"))(&unhex(&text).expect("hex"));
        }
    }
}

#[test]
fn bytes_are_written_and_read_as_hex() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(unhex(&hex(&bytes)).as_deref(), Some(&bytes[..]));
    assert_eq!((unhex("0"), unhex("xx"), unhex("0a \n0b")), (None, None, Some(vec![10, 11])));
}
