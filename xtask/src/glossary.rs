//! Tests that the types named in `docs/glossary.md` and the files and items named in `ARCHITECTURE.md` exist.

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    const LAYERS: [&str; 6] = ["base", "engine", "wire", "cluster", "front", "proof"];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
    }

    /// Returns the source text of a crate; `None` if there is no such crate.
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

    /// Returns the files of a page with the items that it names of them: "`file` (`item`, `item`)" or "`item` in
    /// `file`".
    fn items_of_files(page: &str) -> Vec<(&str, &str)> {
        let pieces: Vec<&str> = page.split('`').collect();
        let (mut items, mut file) = (Vec::new(), None);
        let mut is_listing = false;
        for at in (1..pieces.len()).step_by(2) {
            let (before, name) = (pieces[at - 1], pieces[at]);
            if name.contains("/src/") {
                file = name.ends_with(".rs").then_some(name);
                is_listing = false;
                if before == " in " && at > 2 {
                    items.push((name, pieces[at - 2]));
                }
                continue;
            }
            is_listing = before == " (" || (is_listing && before == ", ");
            file = file.filter(|_| is_listing);
            items.extend(file.map(|file| (file, name)));
        }
        items
    }

    #[test]
    fn every_item_that_the_architecture_names_of_a_file_is_in_it() {
        let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is there");
        let items = items_of_files(&page);
        assert!(
            items.len() > 25,
            "{} items were found; is \"Where it is decided\" still a table?",
            items.len()
        );
        let is_missing = |(file, item): &&(&str, &str)| {
            let name = item.rsplit("::").next().unwrap_or(item);
            let source = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            !source.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
        };
        let missing: Vec<_> = items.iter().filter(is_missing).collect();
        assert_eq!(
            missing,
            [&("", ""); 0],
            "renamed or moved: update \"Where it is decided\" in ARCHITECTURE.md"
        );
    }
}
