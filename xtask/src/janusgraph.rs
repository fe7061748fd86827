//! Runs JanusGraph 1.1 with its HBase backend: the Graph of the Gods, a vertex of 2,000 edges, changes and a reindex.
//!
//! `proof/janusgraph/expected.txt` is what the program printed on Apache HBase 2.6.4. This is no part of `cargo xtask
//! test`, because it needs a hundred jars and a minute, most of which JanusGraph waits for its own locks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::java::succeed;
use crate::server::Server;
use crate::{Outcome, run};

/// The usage of the command.
pub(crate) const USAGE: &str = "       cargo xtask janusgraph [HOST:PORT]   (the Graph of the Gods; against a running cluster's ZooKeeper, or a server of its own)";

const FOLDER: &str = "proof/janusgraph";
const TARGET: &str = "target/janusgraph";

/// Runs the program against the cluster at a ZooKeeper's address, or against a server of its own.
pub(crate) fn suite(words: &[&str]) -> Outcome {
    match words {
        [] => {
            crate::server::build()?;
            let server = Server::start("janusgraph", &[])?;
            gods(&server.registry)?;
            server.stop()
        }
        [registry] => gods(registry),
        _ => Err("expected at most one HOST:PORT".to_owned()),
    }
}

fn gods(registry: &str) -> Outcome {
    let (host, port) =
        registry.rsplit_once(':').ok_or_else(|| format!("expected HOST:PORT, found {registry}"))?;
    let class_path = compile()?;
    let program = Command::new("java")
        .args(["-Xmx512m", "-cp", &class_path, "Gods", host, port, "gods"])
        .output()
        .map_err(|error| format!("cannot start java: {error}"))?;
    let printed = String::from_utf8_lossy(&program.stdout).into_owned();
    if !program.status.success() {
        let errors = String::from_utf8_lossy(&program.stderr);
        return Err(format!("JanusGraph ended with {}\n{printed}{errors}", program.status));
    }
    let expected = read(&Path::new(FOLDER).join("expected.txt"))?;
    if printed != expected {
        let differing = expected.lines().zip(printed.lines()).find(|(expected, printed)| expected != printed);
        return Err(format!("expected what HBase answered, found another answer: {differing:?}\n{printed}"));
    }
    say!("{} answers as on HBase 2.6.4", expected.lines().count());
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Fetches the jars unless they are there, compiles the program, and returns the class path.
fn compile() -> Result<String, String> {
    let classes = format!("{TARGET}/classes");
    std::fs::create_dir_all(&classes).map_err(|error| format!("{classes}: {error}"))?;
    let list = std::path::absolute(PathBuf::from(TARGET).join("class-path"))
        .map_err(|error| format!("{TARGET}: {error}"))?;
    let known = read(&list).is_ok_and(|jars| jars.trim().split(':').all(|jar| Path::new(jar).exists()));
    if !known {
        let output = format!("-Dmdep.outputFile={}", list.display());
        run("mvn", &["-q", "-B", "-f", &format!("{FOLDER}/pom.xml"), "dependency:build-classpath", &output])
            .map_err(|error| format!("{error}; a JDK 17 and Maven 3.8 are needed"))?;
    }
    let jars = read(&list)?;
    let mut javac = Command::new("javac");
    javac.args(["-Xlint:all,-processing,-classfile,-path,-serial", "-Werror", "-proc:none"]);
    javac.args(["-cp", jars.trim(), "-d", &classes, &format!("{FOLDER}/Gods.java")]);
    succeed("javac", javac)?;
    Ok(format!("{classes}:{}", jars.trim()))
}
