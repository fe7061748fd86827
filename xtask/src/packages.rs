//! Stores Debian's package index in a table and reads it back, also after `kill -9`.
//!
//! The example `cluster/client/examples/packages` does the work. The index is apt's on this machine; if apt has none, a
//! list of a few hundred packages is generated in the same form, and the part reports that.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::{Outcome, programs};

const APT: &str = "/var/lib/apt/lists";

/// Number of packages in a generated list.
const MADE_UP: usize = 400;

/// Runs the part. Lists may be named, or `--made-up`; apt's own are the default, and a generated one if apt has none.
pub(crate) fn run(lists: &[&str]) -> Outcome {
    build()?;
    build_example()?;
    let folder = fresh_folder("packages")?;
    let mut lists: Vec<String> = lists.iter().map(|&list| list.to_owned()).collect();
    if lists == ["--made-up"] || lists.is_empty() && !apt_has_lists() {
        let path = folder.join("made-up_Packages");
        say!("not from apt (apt-get update brings its lists): {MADE_UP} packages are made up");
        std::fs::write(&path, made_up()).map_err(|error| format!("{}: {error}", path.display()))?;
        lists = vec![path.display().to_string()];
    }
    let lists: Vec<&str> = lists.iter().map(String::as_str).collect();
    let data = folder.join("data");
    // The memstore is small. So at the kill most of the index is in files, and the rest only in the log.
    let start = || Server::start_in(&data, &["-D", "hbase.hregion.memstore.flush.size=8388608"]);

    let server = start()?;
    crate::print(&packages(&server, &[&["load"], &lists[..]].concat())?);
    server.kill()?;
    let server = start()?;
    crate::print(&packages(&server, &[&["verify"], &lists[..]].concat())?);
    for (words, expected) in [
        (&["get", "bash"][..], "Package: bash\n"),
        (&["prefix", "bash"], "\nbash-completion "),
        (&["find", "Package", "bash"], "\n1 packages\n"),
    ] {
        let said = format!("\n{}", packages(&server, words)?);
        if !said.contains(expected) {
            return Err(format!("packages {}: {expected:?} was expected in {said:?}", words.join(" ")));
        }
    }
    if let Ok(said) = packages(&server, &["get", "no such package"]) {
        return Err(format!("a package that is not there is found: {said:?}"));
    }
    server.stop()?;
    no_panic(&log_of(&data))?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// Builds the example.
pub(crate) fn build_example() -> Outcome {
    programs::build_example("packages").map(drop)
}

fn apt_has_lists() -> bool {
    let Ok(entries) = std::fs::read_dir(Path::new(APT)) else { return false };
    entries.filter_map(Result::ok).any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

/// Runs the example; returns its output.
pub(crate) fn packages(server: &Server, words: &[&str]) -> Result<String, String> {
    let program = programs::target().join("debug/examples/packages");
    let output = Command::new(&program)
        .args(["--server", &server.rpc])
        .args(words)
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("packages {} ended with {}: {}", words.join(" "), output.status, why.trim()))
    }
}

/// Returns a generated list in Debian's form: a third of the packages in several versions, multi-line values, and
/// optional fields.
pub(crate) fn made_up() -> String {
    let sections = ["admin", "libs", "python", "games"];
    let mut list = String::new();
    let names = ["bash".to_owned(), "bash-completion".to_owned()].into_iter();
    let names = names.chain((2..MADE_UP).map(|index| match index % 3 {
        0 => format!("lib{index}-dev"),
        1 => format!("python3-{index}"),
        _ => format!("{}-tool", char::from(b'a' + (index % 26) as u8).to_string() + &index.to_string()),
    }));
    for (index, name) in names.enumerate() {
        let versions: &[&str] = if index % 3 == 0 { &["1.10-2", "1.9-1", "1:0.1~rc1-1"] } else { &["2.0-1"] };
        for version in versions {
            let section = sections[(index / 7) % sections.len()];
            let mut line = |field: &str, value: &str| {
                writeln!(list, "{field}: {value}").expect("text grows");
            };
            line("Package", &name);
            line("Version", version);
            line("Architecture", if index % 2 == 0 { "amd64" } else { "all" });
            line("Installed-Size", &(index * 13 + version.len()).to_string());
            line("Section", section);
            if index % 5 == 0 {
                line("Depends", "libc6 (>= 2.36), bash (>= 1.9)");
            }
            line(
                "Description",
                &format!("package {index}\n It has a longer text, too,\n .\n of {index} words."),
            );
            line("Filename", &format!("pool/main/{name}/{name}_{version}.deb"));
            list.push('\n');
        }
    }
    list
}
