//! Runs HBase's LoadTestTool: it writes, updates, deletes and reads, and must find every key as expected.
//!
//! Each key has a random number of columns whose content follows from key and column, so the readers know what to
//! expect. An updated row carries the list of its changes (columns incremented, appended to, put or deleted), which the
//! readers check. In each round writers, updaters and readers run concurrently on a new table; rounds differ in how
//! calls are made and how the table stores its files. Then the server is killed and started again, and every key of
//! every round is read and counted.
//!
//! The tool's `-batchupdate` is not used: it gives one Append several parts for one column, of which HBase keeps one,
//! so its readers report errors with HBase too.

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

/// Runs the test. Options: `--keys`, in each round, and `--threads` of each of writers, updaters and readers.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let [keys, threads] = numbers(options, [("--keys", 1000), ("--threads", 4)])?;
    build()?;
    let folder = fresh_folder("loadtest")?;
    // Memstores are so small that they are flushed and files compacted during the load.
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
        // A reader gives up after ten errors by default; here after one.
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
