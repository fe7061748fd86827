//! Checks that `src/generated.rs` is exactly what the compiler generates from the schemas in `proto/`.
//!
//! After a change of a schema, write the file again: `PROTO_WRITE=1 cargo test -p proto --test schemas`.

use crate::compiled::{compiled, crate_dir};

#[test]
#[expect(clippy::disallowed_methods, reason = "the sources of this crate are real files")]
fn generated_code_is_what_the_schemas_say() {
    let module = prost_build::Module::from_protobuf_package_name("hbase.pb");
    let requests: Vec<_> = compiled()
        .file
        .into_iter()
        .filter(|file| file.package() == "hbase.pb")
        .map(|file| (module.clone(), file))
        .collect();
    let made = prost_build::Config::new()
        // Row keys and values share the bytes of their frame.
        .bytes(["."])
        // Equal messages are encoded as equal bytes.
        .btree_map(["."])
        .generate(requests)
        .expect("the schemas have a form in Rust")
        .remove(&module)
        .expect("one module for hbase.pb");

    let path = crate_dir().join("src/generated.rs");
    if std::env::var_os("PROTO_WRITE").is_some() {
        std::fs::write(&path, &made).expect("src/ can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(at) = made.lines().zip(kept.lines()).position(|(a, b)| a != b) {
        panic!(
            "src/generated.rs differs from the schemas in proto/, first at line {}: run `PROTO_WRITE=1 cargo test -p proto --test schemas`",
            at + 1
        );
    }
    assert_eq!(
        made.len(),
        kept.len(),
        "src/generated.rs is longer or shorter than the code generated from proto/"
    );
}
