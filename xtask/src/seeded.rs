//! Tests that the server's locks and hash maps come from `env`; otherwise the seed of a simulation does not control
//! them.
//!
//! `clippy.toml` bans items with one path, such as `std::thread::spawn`. It cannot ban these types: `env`'s own maps
//! are aliases of std's, and a few of std's maps are right, because their order is fixed or unused.

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    /// Layers whose code runs in simulations.
    const LAYERS: [&str; 4] = ["base", "engine", "wire", "cluster"];

    /// Files that use a hash map of std: it is never iterated, has a hasher without a seed, or does not run in
    /// simulations.
    const MAPS: [&str; 8] = [
        "base/javaregex/src/machine.rs",
        "base/javaregex/src/parse.rs",
        "base/storage/src/local.rs",
        "base/telemetry/src/exposition.rs",
        "engine/cache/src/bucket/allocator.rs",
        "engine/cache/src/memory/shelf.rs",
        "engine/filter/src/foreign/spark.rs",
        "engine/filter/src/single.rs",
    ];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
    }

    fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                rust_files(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(path);
            }
        }
    }

    /// Returns the lines before the tests within the file, without lines that are only a comment.
    fn code(text: &str) -> impl Iterator<Item = &str> {
        let is_inline = |at: usize| text[at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
        let tests = text.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at).find(|at| is_inline(*at));
        text[..tests.unwrap_or(text.len())].lines().filter(|line| !line.trim_start().starts_with("//"))
    }

    fn takes_lock(line: &str) -> bool {
        let of_std = line.contains("std::sync::")
            && ["Mutex", "RwLock", "Condvar"].iter().any(|lock| line.contains(lock));
        line.contains("parking_lot") || of_std
    }

    fn takes_map(line: &str) -> bool {
        line.contains("std::collections::") && (line.contains("HashMap") || line.contains("HashSet"))
    }

    #[test]
    fn locks_and_hash_maps_of_the_server_come_from_env() {
        let mut files = Vec::new();
        for layer in LAYERS {
            for entry in std::fs::read_dir(root().join(layer)).expect("a layer") {
                let folder = entry.expect("a crate").path();
                if folder.file_name().is_some_and(|name| name != "env") && folder.join("src").is_dir() {
                    rust_files(&folder.join("src"), &mut files);
                }
            }
        }
        assert!(files.len() > 200, "{} files were found; are the layers still folders?", files.len());
        let (mut locks, mut maps) = (Vec::new(), Vec::new());
        for file in files {
            let name = file.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
            let is_test = name.contains("tests") || name.ends_with("traces.rs");
            let text = std::fs::read_to_string(&file).expect("a source");
            if !is_test && code(&text).any(takes_lock) {
                locks.push(name.clone());
            }
            if !is_test && code(&text).any(takes_map) {
                maps.push(name);
            }
        }
        maps.sort();
        assert_eq!(locks, [""; 0], "take the lock from env::sync");
        assert_eq!(maps, MAPS, "take the map from env, or say here why its order does not matter");
    }
}
