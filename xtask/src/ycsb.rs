//! Runs YCSB: it loads its records and runs its core workloads A to F. No operation may fail, and the counts must be
//! right.
//!
//! The binding is our own (`proof/java/ycsb/src/HBaseBinding.java`) on the stock client. Records carry YCSB's checkable
//! content (`dataintegrity`), so every read is also compared. At the end the stock client counts all rows and fields.

use std::collections::BTreeMap;

use crate::Outcome;
use crate::server::{Server, build, fresh_folder, log_of, no_panic};
use crate::tools::{Ended, Registry, Tools, numbers};

/// A workload's letter, its fractions of read, update, insert, scan and read-modify-write, and the distribution of its
/// keys.
const WORKLOADS: &[(&str, [&str; 5], &str)] = &[
    ("a", ["0.5", "0.5", "0", "0", "0"], "zipfian"),
    ("b", ["0.95", "0.05", "0", "0", "0"], "zipfian"),
    ("c", ["1", "0", "0", "0", "0"], "zipfian"),
    ("f", ["0.5", "0", "0", "0", "0.5"], "zipfian"),
    ("d", ["0.95", "0", "0.05", "0", "0"], "latest"),
    ("e", ["0", "0", "0.05", "0.95", "0"], "zipfian"),
];

const SHARES: [&str; 5] =
    ["readproportion", "updateproportion", "insertproportion", "scanproportion", "readmodifywriteproportion"];

pub(crate) const REGIONS: &str = "4";
pub(crate) const FIELDS: u64 = 10;

/// Number of successful operations of one kind.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Runs the part. Options: `--records`, `--operations` of each workload, `--threads`.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let [records, operations, threads] =
        numbers(options, [("--records", 100_000), ("--operations", 10_000), ("--threads", 16)])?;
    build()?;
    let folder = fresh_folder("ycsb")?;
    let server = Server::start_in(&folder.join("data"), &[])?;
    let tools = Tools::new("ycsb", &server, &folder)?;
    tools.run("create", Registry::Rpc, "HBaseBinding", &["usertable", REGIONS])?;

    let mut phases = vec![("load", [""; 5], "uniform")];
    phases.extend(WORKLOADS);
    let mut inserted = 0;
    for (index, (name, shares, distribution)) in phases.into_iter().enumerate() {
        let registry = Registry::of_step(index);
        let load = Load { records, operations, threads };
        let (counts, ended) = load.run(&tools, registry, name, shares, distribution)?;
        // Every workload that inserts begins at the first key after the loaded ones.
        if name != "load" {
            inserted = inserted.max(counts.get("INSERT").copied().unwrap_or(0));
        }
        say!(
            "{name:5} {:>9} operations/s  {:6.1} s in all  {counts:?}",
            overall(&ended.output),
            ended.seconds
        );
    }
    let rows = records + inserted;
    let counted = Tools::new("tools", &server, &folder)?.count("usertable")?;
    if counted != (rows, rows * FIELDS) {
        return Err(format!("usertable has (rows, cells) {counted:?}; {rows} rows of {FIELDS} were written"));
    }
    say!("{rows} rows of {FIELDS} fields are there");
    server.stop()?;
    no_panic(&log_of(&folder.join("data")))?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())
}

/// How much YCSB does.
pub(crate) struct Load {
    pub(crate) records: u64,
    /// Number of operations of a workload.
    pub(crate) operations: u64,
    pub(crate) threads: u64,
}

impl Load {
    /// Runs the workload `name` with these shares of operations, or loads the records if the name is `load`. Returns the
    /// counts and the output. Fails unless every operation succeeded.
    pub(crate) fn run(
        &self,
        tools: &Tools,
        registry: Registry,
        name: &str,
        shares: [&str; 5],
        distribution: &str,
    ) -> Result<(Counts, Ended), String> {
        let Load { records, operations, threads } = *self;
        let is_load = name == "load";
        let mut properties = vec![
            ("workload", "site.ycsb.workloads.CoreWorkload".to_owned()),
            ("recordcount", records.to_string()),
            ("operationcount", operations.to_string()),
            ("requestdistribution", distribution.to_owned()),
            ("maxscanlength", "100".to_owned()),
            ("dataintegrity", "true".to_owned()),
            ("measurementtype", "hdrhistogram".to_owned()),
        ];
        if !is_load {
            properties.extend(SHARES.into_iter().zip(shares.map(str::to_owned)));
        }
        let properties: Vec<String> =
            properties.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        let threads = threads.to_string();
        let mut arguments = vec![if is_load { "-load" } else { "-t" }];
        arguments.extend(["-db", "HBaseBinding", "-threads", &threads]);
        arguments.extend(properties.iter().flat_map(|property| ["-p", property]));
        let ended = tools.run(name, registry, "site.ycsb.Client", &arguments)?;
        let counts = counts(&ended.output).map_err(|why| format!("{name}: {why}"))?;
        let wanted = if is_load { records } else { operations };
        if done(&counts) != wanted {
            return Err(format!("{name}: {wanted} operations were asked for, done were {counts:?}"));
        }
        Ok((counts, ended))
    }
}

/// Returns YCSB's counts, `[KIND], Operations, N`; fails on a return code other than OK.
fn counts(output: &str) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for line in output.lines() {
        let Some((kind, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once("], ")) else {
            continue;
        };
        if kind.ends_with("-FAILED") {
            return Err(format!("operations failed: {line}"));
        }
        if rest.starts_with("Return=") && !rest.starts_with("Return=OK, ") {
            return Err(format!("operations failed: {line}"));
        }
        if let Some(count) = rest.strip_prefix("Operations, ") {
            let count = count.trim().parse().map_err(|_| format!("a count was expected: {line}"))?;
            counts.insert(kind.to_owned(), count);
        }
    }
    counts.remove("CLEANUP");
    Ok(counts)
}

/// Returns the number of operations as YCSB counts them: a read-modify-write also counts as a read and an update.
fn done(counts: &Counts) -> u64 {
    let of = |kind| counts.get(kind).copied().unwrap_or(0);
    let pairs = of("READ-MODIFY-WRITE");
    of("READ") + of("UPDATE") + of("INSERT") + of("SCAN") - pairs
}

/// Returns the operations per second that YCSB reports, without their fraction; `?` if it reports none.
fn overall(output: &str) -> &str {
    output
        .lines()
        .find_map(|line| line.strip_prefix("[OVERALL], Throughput(ops/sec), "))
        .map_or("?", |rate| rate.split('.').next().unwrap_or(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_operation_is_not_overlooked() {
        let good = "[OVERALL], Throughput(ops/sec), 812.5\n[READ], Operations, 6\n[READ], Return=OK, 6\n\
                    [UPDATE], Operations, 2\n[READ-MODIFY-WRITE], Operations, 2\n[CLEANUP], Operations, 4\n";
        let counted = counts(good).expect("good");
        assert_eq!((done(&counted), overall(good)), (6, "812"));
        for bad in [
            "[READ], Return=NOT_FOUND, 1",
            "[UPDATE-FAILED], Operations, 3",
            "[VERIFY], Return=UNEXPECTED_STATE, 1",
        ] {
            assert!(counts(&format!("{good}{bad}\n")).is_err(), "{bad}");
        }
    }
}
