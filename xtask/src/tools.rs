//! Runs HBase's own tools and YCSB with the stock Java client, each against a new server.
//!
//! A tool has succeeded if it ended with status 0, and its output, with that of its client, has no warning, error or
//! exception. The output is kept beside the server's folder until the part has passed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::java;
use crate::server::Server;

/// How a client finds the server.
#[derive(Clone, Copy)]
pub(crate) enum Registry {
    /// Through a region server or master.
    Rpc,
    /// Through ZooKeeper, the client's default.
    ZooKeeper,
}

impl Registry {
    /// Returns the two registries in turn, for consecutive steps.
    pub(crate) fn of_step(step: usize) -> Registry {
        [Registry::ZooKeeper, Registry::Rpc][step % 2]
    }
}

/// Runs Java programs of one class path against one server.
pub(crate) struct Tools {
    class_path: String,
    /// The folder for configuration and outputs.
    folder: PathBuf,
    rpc: String,
    registry: String,
    /// Lines with one of these words are no complaints.
    tolerated: &'static [&'static str],
}

/// The output of a tool, and its duration.
pub(crate) struct Ended {
    pub(crate) output: String,
    pub(crate) seconds: f64,
}

impl Tools {
    /// Creates a runner for the programs of `proof/java/MODULE` and of its jars, against `server`. Configuration and
    /// outputs go to `folder`.
    pub(crate) fn new(module: &str, server: &Server, folder: &Path) -> Result<Tools, String> {
        let failed = |error| format!("{}: {error}", folder.display());
        // The programs run in their own folder, so all paths are absolute.
        let here = std::env::current_dir().map_err(failed)?;
        let whole = |entry: &str| here.join(entry).display().to_string();
        let class_path: Vec<String> = java::compile(module)?.split(':').map(whole).collect();
        Ok(Tools {
            class_path: class_path.join(":"),
            folder: folder.canonicalize().map_err(failed)?,
            rpc: server.rpc.clone(),
            registry: server.registry.clone(),
            tolerated: &[],
        })
    }

    /// Returns a runner that takes no line with one of `words` for a complaint.
    pub(crate) fn tolerating(self, words: &'static [&'static str]) -> Tools {
        Tools { tolerated: words, ..self }
    }

    /// Runs the class `main` to its end; `name` is the name of its output.
    pub(crate) fn run(
        &self,
        name: &str,
        registry: Registry,
        main: &str,
        arguments: &[&str],
    ) -> Result<Ended, String> {
        let class_path = format!("{}:{}", self.conf(registry)?.display(), self.class_path);
        let path = self.folder.join(format!("{name}.log"));
        let failed = |error| format!("{}: {error}", path.display());
        let file = std::fs::File::create(&path).map_err(failed)?;
        let words: Vec<&str> = [main].into_iter().chain(arguments.iter().copied()).collect();
        let mut command = java::java(&class_path, &[("proof.log", "INFO")], &words);
        // Some tools leave files in the folder where they run.
        command.current_dir(&self.folder);
        command.stdout(file.try_clone().map_err(failed)?).stderr(file);
        let began = Instant::now();
        let status = command.status().map_err(|error| format!("cannot start java: {error}"))?;
        let seconds = began.elapsed().as_secs_f64();
        let output = String::from_utf8_lossy(&std::fs::read(&path).map_err(failed)?).into_owned();
        let tolerated = |line: &str| self.tolerated.iter().any(|word| line.contains(word));
        if let Some(line) = output.lines().find(|line| complains(line) && !tolerated(line)) {
            return Err(format!("{name} complains: {line}; see {}", path.display()));
        }
        if !status.success() {
            return Err(format!("{name} ended with {status}; see {}", path.display()));
        }
        Ok(Ended { output, seconds })
    }

    /// Returns the number of rows and cells of a table, by a scan of the stock client (`Rows` of the module `tools`).
    pub(crate) fn count(&self, table: &str) -> Result<(u64, u64), String> {
        self.rows(&[table], " cells ")
    }

    /// Returns the number of rows with the column, and the sum of its counters.
    pub(crate) fn sum(&self, table: &str, family: &str, qualifier: &str) -> Result<(u64, u64), String> {
        self.rows(&[table, family, qualifier], " sum ")
    }

    fn rows(&self, arguments: &[&str], between: &str) -> Result<(u64, u64), String> {
        let ended = self.run("rows", Registry::Rpc, "Rows", arguments)?;
        let line = ended.output.lines().find_map(|line| line.strip_prefix("rows ")?.split_once(between));
        match line.and_then(|(rows, other)| Some((rows.parse().ok()?, other.parse().ok()?))) {
            Some(counted) => Ok(counted),
            None => Err(format!("the count of {} is not understood: {}", arguments[0], ended.output)),
        }
    }

    /// Returns a folder with the client's hbase-site.xml.
    fn conf(&self, registry: Registry) -> Result<PathBuf, String> {
        let (name, properties) = match registry {
            Registry::Rpc => {
                let class = "org.apache.hadoop.hbase.client.RpcConnectionRegistry";
                let servers = ("hbase.client.bootstrap.servers", &self.rpc[..]);
                ("rpc", [("hbase.client.registry.impl", class), servers])
            }
            Registry::ZooKeeper => {
                let (host, port) = self.registry.rsplit_once(':').ok_or("the registry has no port")?;
                let port = ("hbase.zookeeper.property.clientPort", port);
                ("zookeeper", [("hbase.zookeeper.quorum", host), port])
            }
        };
        let folder = self.folder.join("conf").join(name);
        let failed = |error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let mut site = "<?xml version=\"1.0\"?>\n<configuration>\n".to_owned();
        for (key, value) in properties {
            site += &format!("  <property><name>{key}</name><value>{value}</value></property>\n");
        }
        site += "</configuration>\n";
        std::fs::write(folder.join("hbase-site.xml"), site).map_err(failed)?;
        Ok(folder)
    }
}

/// Whether a line of a tool's output reports a problem.
fn complains(line: &str) -> bool {
    ["WARN", "ERROR", "FATAL", "Exception"].iter().any(|word| line.contains(word))
}

/// Parses the options of a long run, `--NAME NUMBER` each. Returns the values in the order of `defaults`.
pub(crate) fn numbers<const N: usize>(
    words: &[&str],
    defaults: [(&str, u64); N],
) -> Result<[u64; N], String> {
    let mut values = defaults.map(|(_, default)| default);
    let known = || defaults.map(|(name, default)| format!("{name} N ({default})")).join(", ");
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a number", pair[0])) };
        let at = defaults.iter().position(|(known, _)| known == name);
        let at = at.ok_or_else(|| format!("{name} is not known; there are {}", known()))?;
        values[at] = value.parse().map_err(|_| format!("{name} {value}: a number was expected"))?;
        if values[at] == 0 {
            return Err(format!("{name} 0: it is 1 or more"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_long_runs_are_numbers_with_defaults() {
        let parse = |words: &[&str]| numbers(words, [("--rows", 10), ("--threads", 2)]);
        assert_eq!(parse(&[]), Ok([10, 2]));
        assert_eq!(parse(&["--threads", "7"]), Ok([10, 7]));
        for wrong in [&["--rows"][..], &["--rows", "x"], &["--rows", "0"], &["--row", "1"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_warning_of_the_client_is_a_complaint() {
        assert!(complains("2026-01-01T00:00:00,000 WARN  [main] client.X: retrying"));
        assert!(complains("java.io.IOException: broken"));
        assert!(complains("Status: ERROR"));
        assert!(!complains("2026-01-01T00:00:00,000 INFO  [main] hbase.PerformanceEvaluation: Finished"));
    }
}
