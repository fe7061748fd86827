//! Compiles the schemas of `proto/`, for the tests of this folder.

use std::path::{Path, PathBuf};

/// Returns the folder of this crate.
pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every schema file, sorted by name.
#[expect(clippy::disallowed_methods, reason = "the sources of this crate are real files")]
pub(crate) fn schema_files() -> Vec<PathBuf> {
    let listing = std::fs::read_dir(crate_dir().join("proto")).expect("the schemas lie in proto/");
    let mut files: Vec<PathBuf> = listing.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no schema in proto/");
    files
}

/// Returns the descriptors of all schemas, including their comments.
pub(crate) fn compiled() -> prost_types::FileDescriptorSet {
    let root = crate_dir().join("proto");
    protox::Compiler::new([root])
        .expect("proto/ is a folder")
        .include_imports(true)
        .include_source_info(true)
        .open_files(schema_files())
        .expect("the schemas compile")
        .file_descriptor_set()
}
