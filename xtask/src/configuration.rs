//! Writes `docs/operations/configuration.md` from the declarations in `conf`, and checks in its tests that the page is
//! current and that every declared key is read.

use std::fmt::Write;

use conf::keys::{PARTS, Part};

use crate::Outcome;

/// The page's path, from the workspace's root.
const PAGE: &str = "docs/operations/configuration.md";

const HEAD: &str = "# Configuration reference

For operators: every key that has an effect, with its default and what it does. `cargo xtask configuration` writes this page from
`base/conf/src/keys/`; do not edit it here.

Keys come from `--site FILE` in the form of `hbase-site.xml`, from `-D KEY=VALUE`, which overrides the file, and from options such
as `--data-dir`, which override both. The CONFIGURATION of a table or family overrides keys of writes and store files.
`bellows keys` prints all keys, and the server's log names those that are set and have no meaning here. A wrong value stops the start
with the key, the value and what is expected.

Times are in ms, or in the unit that the default or the text names; a value may name its unit (`ns us ms s m h d`). Sizes are in
bytes unless a unit follows (`k m g t`, powers of 1024). Keys that begin with `bellows.` are not HBase's.
";

/// Runs `cargo xtask configuration`.
pub(crate) fn write() -> Outcome {
    std::fs::write(PAGE, page()).map_err(|error| format!("{PAGE}: {error}"))?;
    say!("{PAGE} is written");
    Ok(())
}

fn page() -> String {
    PARTS.iter().fold(HEAD.to_owned(), |page, part| page + &section(part))
}

fn section(part: &Part) -> String {
    let mut text = format!("\n## {}\n\n| key | default | meaning |\n|---|---|---|\n", part.title);
    for key in part.keys {
        let default = match (key.default_text(), key.unit()) {
            ("", _) => String::new(),
            ("9223372036854775807", _) => "no limit".to_owned(),
            (default, "ms" | "s" | "bytes") => format!("{default} {}", key.unit()),
            (default, _) => format!("`{default}`"),
        };
        // Writing to a `String` cannot fail.
        let _infallible = writeln!(text, "| `{}` | {default} | {} |", key.name(), one_line(key.meaning()));
    }
    text
}

/// Returns the lines of a doc comment as one line, escaped for a table.
fn one_line(meaning: &str) -> String {
    meaning.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// Keys that are declared although no code reads them yet. Empty, except while such code is being written.
    const PENDING: &[&str] = &[];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
    }

    #[test]
    fn the_configuration_reference_is_current() {
        let found = std::fs::read_to_string(root().join(PAGE)).expect("the page is there");
        assert!(found == page(), "{PAGE} is not what the declarations say; run cargo xtask configuration");
    }

    /// Adds all sources below a folder to `found`, without those of tests.
    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "benches", "examples", "target"].contains(&&name[..]) {
                sources(&path, found);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).expect("a source");
                found.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
            }
        }
    }

    /// Returns the module and the constant of each declaration in `base/conf/src/keys/`.
    fn declarations() -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(root().join("base/conf/src/keys")).expect("the declarations") {
            let path = entry.expect("an entry").path();
            let module = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("a source");
            for line in text.lines().filter(|line| line.contains(" = \"") && !line.contains("///")) {
                let (constant, _) = line.trim().split_once(':').expect("CONSTANT: Kind = \"name\"");
                found.push((module.clone(), constant.to_owned()));
            }
        }
        found
    }

    /// Returns the names by which a source refers to the keys of `module`: the module's name, and each `use … as`.
    fn names_of(module: &str, source: &str) -> Vec<String> {
        let renaming = format!("{module} as ");
        let renamed = source.match_indices(&renaming).map(|(at, found)| {
            let rest = &source[at + found.len()..];
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned()
        });
        [module.to_owned()].into_iter().chain(renamed).collect()
    }

    fn mentions(source: &str, path: &str) -> bool {
        source.match_indices(path).any(|(at, _)| {
            let after = source[at + path.len()..].chars().next();
            let before = source[..at].chars().next_back();
            !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
                && !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    }

    #[test]
    fn every_declared_key_is_read_somewhere() {
        let mut all = Vec::new();
        for layer in ["engine", "wire", "cluster", "front"] {
            sources(&root().join(layer), &mut all);
        }
        let declared = declarations();
        assert_eq!(declared.len(), conf::keys::all().count(), "a declaration was not recognized");
        let (mut unread, mut done) = (Vec::new(), Vec::new());
        for (module, constant) in declared {
            let is_read = all.iter().any(|source| {
                names_of(&module, source).iter().any(|name| mentions(source, &format!("{name}::{constant}")))
            });
            let key = format!("{module}::{constant}");
            match (is_read, PENDING.contains(&&key[..])) {
                (false, false) => unread.push(key),
                (true, true) => done.push(key),
                _ => {}
            }
        }
        assert_eq!(unread, [""; 0], "declared and read nowhere: let it act, or remove it");
        assert_eq!(done, [""; 0], "read now: remove it from PENDING");
    }
}
