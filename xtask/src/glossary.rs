//! Tests that the types named in `docs/glossary.md` and the files named in `ARCHITECTURE.md` exist.

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    const LAYERS: [&str; 6] = ["base", "engine", "wire", "cluster", "front", "proof"];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
    }

    /// The source text of a crate; `None` if there is no such crate.
    fn sources(name: &str) -> Option<String> {
        let folder = LAYERS.iter().map(|layer| root().join(layer).join(name).join("src"));
        let mut folders = vec![folder.into_iter().find(|folder| folder.is_dir())?];
        let mut text = String::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    text += &std::fs::read_to_string(&path).expect("a source");
                }
            }
        }
        Some(text)
    }

    fn declares(sources: &str, name: &str) -> bool {
        ["struct", "enum", "trait", "type"].iter().any(|kind| {
            let declaration = format!("{kind} {name}");
            sources.match_indices(&declaration).any(|(at, found)| {
                !sources[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        })
    }

    #[test]
    fn every_type_and_folder_of_the_glossary_exists() {
        let page = std::fs::read_to_string(root().join("docs/glossary.md")).expect("the page is there");
        let mut missing = Vec::new();
        let mut count = 0;
        for line in page.lines().filter(|line| line.starts_with("| ")) {
            let carried_by = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
            for name in carried_by.split('`').skip(1).step_by(2) {
                count += 1;
                let exists = match name.split_once("::") {
                    Some((krate, name)) => sources(krate).is_some_and(|text| declares(&text, name)),
                    None => root().join(name).exists(),
                };
                if !exists {
                    missing.push(name.to_owned());
                }
            }
        }
        assert!(count > 50, "{count} names were found in the glossary; is it still a table?");
        assert_eq!(missing, [""; 0], "renamed or gone: update docs/glossary.md");
    }

    #[test]
    fn every_file_of_the_architecture_exists() {
        let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is there");
        let paths = page.split('`').skip(1).step_by(2).filter(|name| name.contains("/src/"));
        let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
        assert_eq!(missing, [""; 0], "moved or gone: update \"Where it is decided\" in ARCHITECTURE.md");
    }
}
