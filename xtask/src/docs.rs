//! Builds the documentation as a site with mdBook, from `docs/book.toml` and `docs/SUMMARY.md`.
//!
//! The pages are in the root, in `docs/` and in `recipes/`, and link to each other. They are copied to the same
//! relative places below `target/book/source`, so that the links stay valid. The site is in `target/book/site`.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::java::succeed;
use crate::{Outcome, run};

pub(crate) const USAGE: &str = "       cargo xtask docs   (the documentation as a site in target/book/site; mdBook is installed into target/ the first time)";

const ROOT: &str = "target/book";
const MDBOOK: &str = "target/tools/bin/mdbook";
const VERSION: &str = "0.5.4";

/// Checks the links, and builds the site.
pub(crate) fn build() -> Outcome {
    let wrong = broken_links(Path::new("."))?;
    if !wrong.is_empty() {
        return Err(format!("links that lead nowhere:\n{}", wrong.join("\n")));
    }
    let source = Path::new(ROOT).join("source");
    let failed = |error: std::io::Error| format!("{ROOT}: {error}");
    if source.exists() {
        std::fs::remove_dir_all(&source).map_err(failed)?;
    }
    for page in pages(Path::new("."))?.iter().chain(&attachments()?) {
        let to = source.join(page);
        std::fs::create_dir_all(to.parent().expect("below the source")).map_err(failed)?;
        std::fs::copy(page, &to).map_err(|error| format!("{}: {error}", page.display()))?;
    }
    std::fs::copy("docs/book.toml", Path::new(ROOT).join("book.toml")).map_err(failed)?;
    let summary =
        std::fs::read_to_string("docs/SUMMARY.md").map_err(|error| format!("docs/SUMMARY.md: {error}"))?;
    std::fs::write(source.join("SUMMARY.md"), from_root(&summary)).map_err(failed)?;
    let mdbook = match std::env::var("MDBOOK") {
        Ok(own) => own,
        Err(_) => {
            if !Path::new(MDBOOK).exists() {
                let install = ["install", "mdbook", "--version", VERSION, "--locked", "--quiet"];
                run("cargo", &[&install[..], &["--root", "target/tools"]].concat())?;
            }
            MDBOOK.to_owned()
        }
    };
    let mut command = Command::new(mdbook);
    command.arg("build").arg(ROOT);
    succeed("mdbook", command)?;
    say!("the site is in {ROOT}/site/index.html");
    Ok(())
}

/// Returns the summary, with addresses relative to the root.
fn from_root(summary: &str) -> String {
    summary.replace("](../", "](\u{0}").replace("](", "](docs/").replace("](docs/\u{0}", "](")
}

/// Returns every page of the site.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "COMPAT.md", "CHANGELOG.md", "CONTRIBUTING.md"]
            .map(PathBuf::from)
            .into();
    for folder in
        ["docs", "docs/compat", "docs/formats", "docs/operations", "docs/rfcs", "docs/use", "recipes"]
    {
        pages
            .extend(files(&root.join(folder), &["md"])?.into_iter().map(|name| Path::new(folder).join(name)));
    }
    pages.retain(|page| page != Path::new("docs/SUMMARY.md"));
    Ok(pages)
}

/// Returns the files that pages show or link to, besides pages.
fn attachments() -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    for folder in ["docs/pictures", "recipes/pictures", "recipes/src"] {
        let files = files(Path::new(folder), &["png", "svg", "rs"])?;
        all.extend(files.into_iter().map(|name| Path::new(folder).join(name)));
    }
    Ok(all)
}

fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = PathBuf::from(entry.map_err(failed)?.file_name());
        if name.extension().is_some_and(|own| extensions.iter().any(|one| own == *one)) {
            files.push(name);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the links to files that do not exist, and the pages that the summary lacks.
fn broken_links(root: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    let read = |page: &Path| {
        std::fs::read_to_string(root.join(page)).map_err(|error| format!("{}: {error}", page.display()))
    };
    let summary = from_root(&read(Path::new("docs/SUMMARY.md"))?);
    for page in pages(root)? {
        if !summary.contains(&format!("]({})", page.display())) {
            wrong.push(format!("docs/SUMMARY.md: {} is missing", page.display()));
        }
        for link in links(&read(&page)?) {
            let folder = page.parent().unwrap_or(Path::new(""));
            if !root.join(plain(&folder.join(&link))).exists() {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    for link in links(&summary) {
        if !root.join(&link).exists() {
            wrong.push(format!("docs/SUMMARY.md: {link}"));
        }
    }
    Ok(wrong)
}

/// Returns the files to which a page links, without anchors.
fn links(page: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        for link in line.split("](").skip(1).filter(|_| !in_code) {
            let Some((link, _)) = link.split_once(')') else { continue };
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") {
                found.push(file.to_owned());
            }
        }
    }
    found
}

/// Returns a path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_book_and_every_link_leads_somewhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(broken_links(&root), Ok(Vec::new()));
    }

    #[test]
    fn links_are_found_and_seen_from_the_root() {
        let page = "a [b](c.md#d), [e](https://f) `x`\n```\n[no](code.md)\n```\n[g](../h.md)";
        assert_eq!(links(page), ["c.md", "../h.md"]);
        assert_eq!(plain(Path::new("docs/use/../../README.md")), Path::new("README.md"));
        assert_eq!(from_root("[a](../A.md) [b](c/d.md)"), "[a](A.md) [b](docs/c/d.md)");
    }
}
