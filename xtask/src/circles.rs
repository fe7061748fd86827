//! Tests that the modules of a crate import each other in one direction.
//!
//! The nodes are the modules that a crate's root declares; modules below one of them belong to it. An edge is a path
//! that begins with `crate::`, or with `super::` in the module's own file. A name that the root re-exports counts for
//! the module that defines it. Tests at the end of a file do not count.

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    /// The modules of one crate, each with the modules that it imports from.
    type Imports = BTreeMap<String, BTreeSet<String>>;

    /// The known cycles of imports: the crate and its modules. Whoever removes a cycle from the code removes it here.
    /// No cycle may be added.
    const KNOWN: &[(&str, &str)] = &[
        ("base/env", "executor simulation sync"),
        ("base/env", "threads weight"),
        ("cluster/client", "admin batch cluster scan table"),
        ("cluster/client", "connections lookup options"),
        ("cluster/master", "clones intents replace"),
        (
            "cluster/regionserver",
            "background memory options replica server slow_calls split_requests tasks throughput watch",
        ),
        ("engine/filter", "rows single"),
        ("engine/hfile", "awaited error"),
        ("engine/hfile", "cursor facts held reader"),
        ("engine/region", "compaction_policy options"),
        ("engine/wal", "commit holder log owner reader seal"),
        ("front/bench", "calm recorder"),
        ("front/bench", "mix worker"),
        ("front/web", "node sampler"),
        ("proof/sim", "network scheduler"),
    ];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
    }

    /// Returns the code of a file, without comments and without the tests at its end.
    fn code(path: &Path) -> String {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        without_tests(&text)
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Returns the text before the tests at the end of a file, which may have attributes of their own.
    fn without_tests(text: &str) -> &str {
        text.split_once("#[cfg(test)]\n").map_or(text, |(before, rest)| {
            let is_attribute = |line: &&str| line.starts_with(['#', ' ', ')']);
            match rest.lines().find(|line| !is_attribute(line)) {
                Some("mod tests {") => before,
                _ => text,
            }
        })
    }

    /// Returns the paths of a `use` tree: `a::{b, c::d}` stands for `a::b` and `a::c::d`.
    fn expanded(tree: &str) -> Vec<String> {
        let tree = tree.trim();
        let Some((before, rest)) = tree.split_once('{') else { return vec![tree.to_owned()] };
        let body = rest.strip_suffix('}').unwrap_or(rest);
        let (mut depth, mut from, mut paths) = (0, 0, Vec::new());
        for (at, sign) in body.char_indices().chain([(body.len(), ',')]) {
            match sign {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    let part = body[from..at].trim();
                    if !part.is_empty() {
                        paths.extend(expanded(part).iter().map(|path| format!("{}{path}", before.trim())));
                    }
                    from = at + 1;
                }
                _ => {}
            }
        }
        paths
    }

    /// Returns the paths of `code` that begin with `prefix`, without the prefix.
    fn paths_after(code: &str, prefix: &str) -> Vec<String> {
        let mut paths = Vec::new();
        for (at, _) in code.match_indices(prefix) {
            let is_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            let path = &code[at + prefix.len()..];
            if is_word {
            } else if code[..at].ends_with("use ") {
                paths.extend(expanded(path.split(';').next().unwrap_or_default()));
            } else {
                paths.push(
                    path.split(|c: char| !c.is_alphanumeric() && c != '_')
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                );
            }
        }
        paths
    }

    fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true if path.file_name().is_some_and(|name| name != "tests") => files_below(&path, files),
                true => {}
                false => files.push(path),
            }
        }
    }

    /// Returns the first name of a path, and the name by which `use` makes the path's last part known.
    fn ends(path: &str) -> (&str, &str) {
        let first = path.split("::").next().unwrap_or_default();
        let last = path.rsplit("::").next().unwrap_or_default();
        (
            first.split(" as ").next().unwrap_or_default().trim(),
            last.rsplit(" as ").next().unwrap_or_default().trim(),
        )
    }

    fn imports_of(source: &Path, crate_root: &str) -> Imports {
        let declared = |line: &str| {
            let name = line.trim().strip_suffix(';')?.rsplit_once("mod ")?;
            (name.0.is_empty() || name.0.starts_with("pub")).then(|| name.1.to_owned())
        };
        let modules: BTreeSet<String> =
            crate_root.lines().filter_map(declared).filter(|name| name != "tests").collect();
        let mut exported = BTreeMap::new();
        for (at, start) in crate_root.match_indices("use ") {
            let tree = crate_root[at + start.len()..].split(';').next().unwrap_or_default();
            for path in expanded(tree.trim_start_matches("self::").trim_start_matches("crate::")) {
                let (module, name) = ends(&path);
                if modules.contains(module) {
                    exported.insert(name.to_owned(), module.to_owned());
                }
            }
        }
        let mut imports = Imports::new();
        for module in &modules {
            let own = source.join(format!("{module}.rs"));
            let mut files = vec![own.clone()];
            files_below(&source.join(module), &mut files);
            let of_module = imports.entry(module.clone()).or_default();
            for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
                let code = code(file);
                let mut paths = paths_after(&code, "crate::");
                if *file == own {
                    paths.extend(paths_after(&code, "super::"));
                }
                for path in paths {
                    let first = ends(&path).0;
                    let from =
                        if modules.contains(first) { Some(first) } else { exported.get(first).map(|m| &**m) };
                    of_module.extend(from.filter(|from| from != module).map(str::to_owned));
                }
            }
        }
        imports
    }

    /// Returns all modules from which `from` imports, directly or through others.
    fn reachable(imports: &Imports, from: &str) -> BTreeSet<String> {
        let (mut found, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            for import in imports.get(&module).into_iter().flatten() {
                if found.insert(import.clone()) {
                    next.push(import.clone());
                }
            }
        }
        found
    }

    /// Returns the groups of modules that all reach each other, one line for each group.
    fn circles(imports: &Imports) -> BTreeSet<String> {
        let reach: BTreeMap<&str, BTreeSet<String>> =
            imports.keys().map(|module| (&**module, reachable(imports, module))).collect();
        let group = |module: &str| {
            let of = reach[module].iter().filter(|other| reach[&***other].contains(module));
            of.map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        imports
            .keys()
            .filter(|module| reach[&***module].contains(&**module))
            .map(|module| group(module))
            .collect()
    }

    #[test]
    fn modules_import_each_other_in_one_direction() {
        let mut found = BTreeSet::new();
        let mut crates = 0;
        for layer in ["base", "engine", "wire", "cluster", "front", "proof"] {
            for entry in std::fs::read_dir(root().join(layer)).expect("a layer").flatten() {
                let source = entry.path().join("src");
                let file = ["lib.rs", "main.rs"]
                    .map(|name| source.join(name))
                    .into_iter()
                    .find(|file| file.exists());
                let Some(file) = file else { continue };
                crates += 1;
                let name = format!("{layer}/{}", entry.file_name().to_string_lossy());
                let circles = circles(&imports_of(&source, &code(&file)));
                found.extend(circles.into_iter().map(|circle| (name.clone(), circle)));
            }
        }
        assert!(crates > 20, "only {crates} crates were found");
        let known: BTreeSet<_> =
            KNOWN.iter().map(|(name, circle)| (name.to_string(), circle.to_string())).collect();
        let new: Vec<_> = found.difference(&known).collect();
        assert!(
            new.is_empty(),
            "circles of imports: move what both sides need to a module of its own: {new:#?}"
        );
        let broken: Vec<_> = known.difference(&found).collect();
        assert!(broken.is_empty(), "no circles any more: take them from KNOWN in {}: {broken:#?}", file!());
    }

    #[test]
    fn a_circle_is_found_through_re_exports_and_trees() {
        let of = |pairs: &[(&str, &[&str])]| -> Imports {
            let set = |to: &[&str]| to.iter().map(|name| name.to_string()).collect();
            pairs.iter().map(|(from, to)| (from.to_string(), set(to))).collect()
        };
        let imports = of(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"]), ("d", &["a"])]);
        assert_eq!(circles(&imports), BTreeSet::from(["b c".to_owned()]));
        assert_eq!(expanded("a::{b, c::{d, e}}"), ["a::b", "a::c::d", "a::c::e"]);
        assert_eq!(
            paths_after("use crate::{a::B, C};\nfn f(x: crate::d::E) {}", "crate::"),
            ["a::B", "C", "d"]
        );
    }
}
