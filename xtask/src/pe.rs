//! Runs HBase's PerformanceEvaluation: it must end without a warning and leave the expected rows.
//!
//! The commands alternate between the two registries. The first command fills a new server; each thread writes its
//! share of the rows. Increment, append and checkAndPut each add a column; with these commands all threads work on the
//! rows of the first thread, so that they conflict. Finally the stock client counts rows, cells and counters.

use crate::Outcome;
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::tools::{Registry, Tools, numbers};

/// The arguments of PerformanceEvaluation, for each run.
const COMMANDS: &[&[&str]] = &[
    &["sequentialWrite"],
    &["randomWrite"],
    &["randomRead"],
    &["--multiGet=100", "randomRead"],
    &["scan"],
    &["scanRange100"],
    &["increment"],
    &["append"],
    &["checkAndPut"],
];

/// Runs the part. Options: `--rows`, for each thread, and `--threads`.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let [rows, threads] = numbers(options, [("--rows", 1000), ("--threads", 2)])?;
    build()?;
    let folder = fresh_folder("pe")?;
    let server = Server::start_in(&folder.join("data"), &[])?;
    let tools = Tools::new("tools", &server, &folder)?;
    let (rows_option, threads_word) = (format!("--rows={rows}"), threads.to_string());
    for (index, command) in COMMANDS.iter().enumerate() {
        let registry = Registry::of_step(index);
        let name = command.join(" ");
        let mut arguments = vec!["--nomapred", &rows_option[..]];
        arguments.extend_from_slice(command);
        arguments.push(&threads_word);
        let file = format!("{index}-{}", command[command.len() - 1]);
        let ended =
            tools.run(&file, registry, "org.apache.hadoop.hbase.PerformanceEvaluation", &arguments)?;
        let finished = ended.output.matches(&format!("over {rows} rows")).count() as u64;
        if finished != threads {
            return Err(format!(
                "{name}: {finished} of {threads} threads say that they did their {rows} rows"
            ));
        }
        say!("{name:30} {:>8} rows/s  {:6.1} s in all", rate(&ended.output), ended.seconds);
    }
    let total = rows * threads;
    let expected = (total, total + 3 * rows);
    let counted = tools.count("TestTable")?;
    if counted != expected {
        return Err(format!("TestTable has (rows, cells) {counted:?}, {expected:?} were written"));
    }
    let summed = tools.sum("TestTable", "info0", "IncrementTest")?;
    if summed != (rows, total) {
        return Err(format!(
            "TestTable has (counters, sum) {summed:?}; {threads} threads counted {rows} rows by 1"
        ));
    }
    say!("{total} rows of {} cells are there; each of {rows} counters says {threads}", expected.1);
    server.stop()?;
    no_panic(&log_of(&folder.join("data")))?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// Returns the rows per second that a run reports; `?` if it reports none.
fn rate(output: &str) -> &str {
    output.split("[ Avg TPS/QPS]").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or("?")
}
