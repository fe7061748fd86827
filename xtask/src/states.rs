//! Tests that the list of states in `proof/sim/src/states.rs` has each state that the code marks with `env::sometimes`,
//! and no other. Otherwise nobody notices that no run reaches a state any more.

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// Layers whose code runs in simulations, and the simulation.
    const FOLDERS: [&str; 5] = ["base", "engine", "wire", "cluster", "proof/sim"];

    /// Calls that mark a state. The simulation counts faults with the last two.
    const CALLS: [&str; 3] = ["env::sometimes(", ".count(", " tell("];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
    }

    fn sources(folder: &Path, into: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(std::fs::read_to_string(&path).expect("a source"));
            }
        }
    }

    /// Returns the text up to the parenthesis that closes the one before the text.
    fn arguments(text: &str) -> &str {
        let mut depth = 1;
        let end = text.find(|letter| {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        &text[..end.expect("a call that ends")]
    }

    /// Returns the string literals in a text that has no escapes.
    fn literals(text: &str) -> impl Iterator<Item = &str> {
        text.split('"').skip(1).step_by(2)
    }

    /// Returns the states that a source marks. A call without a literal gives an empty one.
    fn marked(source: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for call in CALLS {
            for (at, _) in source.match_indices(call) {
                let arguments = arguments(&source[at + call.len()..]);
                let before = all.len();
                all.extend(literals(arguments).filter(|state| state.contains(": ")).map(str::to_owned));
                if call == CALLS[0] && all.len() == before && literals(arguments).next().is_none() {
                    all.insert(String::new());
                }
            }
        }
        all
    }

    #[test]
    fn a_call_marks_each_of_its_literals() {
        let source = r#"env::sometimes(match (a, b(c)) { _ => "x: one", (d) => "x: two" }); scheduler.count("f: g"); other("x: no")"#;
        assert_eq!(marked(source).into_iter().collect::<Vec<_>>(), ["f: g", "x: one", "x: two"]);
        assert_eq!(marked("env::sometimes(state)").into_iter().collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn the_list_of_states_has_what_the_code_marks() {
        let list = std::fs::read_to_string(root().join("proof/sim/src/states.rs")).expect("the list");
        let listed: BTreeSet<String> =
            literals(&list).filter(|state| state.contains(": ")).map(str::to_owned).collect();
        let mut all = Vec::new();
        FOLDERS.iter().for_each(|folder| sources(&root().join(folder), &mut all));
        all.retain(|source| *source != list);
        let marked: BTreeSet<String> = all.iter().flat_map(|source| marked(source)).collect();
        assert!(marked.len() > 60, "{} states were found; are the layers still folders?", marked.len());
        let unlisted: Vec<_> = marked.difference(&listed).collect();
        assert_eq!(unlisted, [""; 0], "add the states to proof/sim/src/states.rs");
        // A fault's words are an argument of the function that counts it.
        let is_unmarked =
            |state: &&String| !all.iter().any(|source| source.contains(&format!("\"{state}\"")));
        let unmarked: Vec<_> = listed.iter().filter(is_unmarked).collect();
        assert_eq!(unmarked, [""; 0], "no code marks these states");
    }
}
