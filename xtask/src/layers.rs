//! Tests that the layers of the workspace depend on each other as ARCHITECTURE.md says.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    /// The layers, the lowest first. Layers in one line do not know each other.
    const LAYERS: [&[&str]; 4] = [&["base"], &["engine", "wire"], &["cluster"], &["front"]];

    /// Crates of one layer that know a contract and not each other.
    const APART: [(&str, &str); 2] = [("master", "regionserver"), ("regionserver", "master")];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
    }

    fn height(folder: &str) -> Option<usize> {
        LAYERS.iter().position(|layer| layer.contains(&folder))
    }

    /// Returns the folder of each crate of the layers, by the crate's name.
    fn crates() -> BTreeMap<String, String> {
        let mut crates = BTreeMap::new();
        for folder in LAYERS.iter().flat_map(|layer| layer.iter()) {
            for entry in std::fs::read_dir(root().join(folder)).expect("a folder of the layers") {
                let path = entry.expect("readable").path();
                if path.join("Cargo.toml").exists() {
                    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                    crates.insert(name, (*folder).to_owned());
                }
            }
        }
        crates
    }

    /// Returns the names in a manifest's `[dependencies]`, without dependencies that only tests have.
    fn dependencies(manifest: &str) -> Vec<&str> {
        let mut inside = false;
        let mut names = Vec::new();
        for line in manifest.lines() {
            if line.starts_with('[') {
                inside = line.trim() == "[dependencies]";
            } else if inside && let Some((name, _)) = line.split_once('=') {
                names.push(name.trim().trim_end_matches(".workspace"));
            }
        }
        names
    }

    /// Returns the error of a crate of `folder` that depends on `other` of `beneath`; `None` if it may.
    fn complaint(name: &str, folder: &str, other: &str, beneath: &str) -> Option<String> {
        let (from, to) = (height(folder)?, height(beneath)?);
        let wrong = to > from || (to == from && folder != beneath) || APART.contains(&(name, other));
        wrong.then(|| format!("{folder}/{name} leans on {beneath}/{other}"))
    }

    #[test]
    fn arrows_between_layers_point_down() {
        let crates = crates();
        let (mut arrows, mut complaints) = (0, Vec::new());
        for (name, folder) in &crates {
            let path = root().join(folder).join(name).join("Cargo.toml");
            let manifest = std::fs::read_to_string(&path).expect("a manifest");
            for other in dependencies(&manifest) {
                if let Some(beneath) = crates.get(other) {
                    arrows += 1;
                    complaints.extend(complaint(name, folder, other, beneath));
                }
            }
        }
        assert!(arrows > 60, "{arrows} arrows between {} crates", crates.len());
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    #[test]
    fn an_arrow_that_points_up_or_sideways_is_seen() {
        assert!(complaint("storage", "base", "wal", "engine").is_some());
        assert!(complaint("region", "engine", "rpc", "wire").is_some());
        assert!(complaint("master", "cluster", "regionserver", "cluster").is_some());
        assert!(complaint("region", "engine", "wal", "engine").is_none());
        assert!(complaint("web", "front", "master", "cluster").is_none());
    }
}
