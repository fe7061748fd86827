//! HBase's LoadTestTool writes, updates, deletes and reads, and finds every key as it should be.
//!
//! Each key has a random number of columns whose content follows from key and column, so the readers know what they must
//! find; an updated row carries the list of what was done to it (a column incremented, appended to, put or deleted), and
//! the readers hold the row to that. In each round writers, updaters and readers run side by side on a new table; the
//! rounds differ in how the calls are made and how the table keeps its files. Then the server is killed and started
//! again, and every key of every round is read once more, and counted.
//!
//! The tool's `-batchupdate` is left out: it gives one Append several parts for the same column, of which HBase keeps one,
//! and so its readers find errors with HBase, too.

use crate::Outcome;
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::tools::{Registry, Tools, numbers};

/// The rounds: a name, options of the writing run, options of both runs.
const ROUNDS: &[(&str, &[&str], &[&str])] = &[
    ("single", &["-bloom", "ROWCOL", "-compression", "SNAPPY", "-data_block_encoding", "ROW_INDEX_V1"], &[]),
    (
        "batches",
        &["-bloom", "ROW", "-compression", "GZ", "-multiput"],
        &["-families", "one,two", "-multiget_batchsize", "10"],
    ),
    (
        "plain",
        &["-bloom", "NONE", "-compression", "ZSTD", "-multiput", "-in_memory"],
        &["-num_regions_per_server", "1"],
    ),
];

const TOOL: &str = "org.apache.hadoop.hbase.util.LoadTestTool";

/// Options: `--keys`, in each round, and `--threads` of each of writers, updaters and readers.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let [keys, threads] = numbers(options, [("--keys", 1000), ("--threads", 4)])?;
    build()?;
    let folder = fresh_folder("loadtest")?;
    // Small enough that files are written, read and compacted while the load runs.
    let start =
        || Server::start_in(&folder.join("data"), &["-D", "hbase.hregion.memstore.flush.size=262144"]);
    let server = start()?;
    let tools = Tools::new("tools", &server, &folder)?;
    let keys_word = keys.to_string();
    let (write, update, read) =
        (format!("5:64:{threads}"), format!("50:{threads}"), format!("100:{threads}"));
    let load = |tools: &Tools, step: &str, index: usize, table: &str, more: &[&[&str]]| {
        let (name, ..) = ROUNDS[index];
        let words = ["-tn", table, "-num_keys", &keys_word];
        let words: Vec<&str> = more.iter().fold(words.to_vec(), |words, more| [&words, *more].concat());
        let ended = tools.run(&format!("{name}-{step}"), Registry::of_step(index), TOOL, &words)?;
        let failed = |line: &&str| line.starts_with("Failed to ") && !line.trim_end().ends_with(": 0");
        if let Some(line) = ended.output.lines().find(failed) {
            return Err(format!("{name}, {step}: {line}"));
        }
        say!("{name:10} {step:8} {:6.1} s", ended.seconds);
        Ok(ended.output)
    };
    for (index, (name, writing, both)) in ROUNDS.iter().enumerate() {
        let work = ["-write", &write, "-update", &update, "-read", &read];
        let said = load(&tools, "write", index, &format!("load_{name}"), &[&work, writing, both])?;
        for word in ["Failed to write keys: 0", "Failed to update keys: 0"] {
            if !said.contains(word) {
                return Err(format!("{name}: LoadTestTool does not say {word:?}"));
            }
        }
    }
    server.kill()?;
    let server = start()?;
    let tools = Tools::new("tools", &server, &folder)?;
    for (index, (name, _, both)) in ROUNDS.iter().enumerate() {
        let table = format!("load_{name}");
        // A reader gives up after its tenth error; one is enough.
        let work = ["-skip_init", "-read", &read, "-max_read_errors", "0"];
        load(&tools, "verify", index, &table, &[&work, both])?;
        let (rows, cells) = tools.count(&table)?;
        if rows != keys {
            return Err(format!("{name}: {keys} keys were written, {rows} rows are there"));
        }
        say!("{name:10} {rows} rows, {cells} cells after kill -9");
    }
    server.stop()?;
    no_panic(&log_of(&folder.join("data")))?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}
