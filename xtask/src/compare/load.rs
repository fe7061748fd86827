//! The workloads of a comparison, as arguments of `bellows bench`.

/// A workload of the comparison.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) words: &'static [&'static str],
    /// Whether the workload is in the short form.
    short: bool,
}

impl Load {
    /// Whether the latencies of the workload are judged, at a rate that every server can sustain. Such a workload runs
    /// last, with separate processors for server and generator.
    pub(crate) fn is_apart(&self) -> bool {
        self.words.contains(&"--rate")
    }

    /// Returns the table that the workload uses.
    pub(crate) fn table(&self) -> &'static str {
        let named = self.words.iter().skip_while(|word| **word != "--ycsb-table").nth(1);
        match self.words.first() {
            Some(workload) if workload.starts_with("ycsb") => named.copied().unwrap_or("usertable"),
            _ => "TestTable",
        }
    }
}

/// The arguments for a table with half reads and half writes at a fixed rate. Its memstore is small, so it is flushed
/// and compacted continuously. HBase can sustain the rate on one processor.
const MIXED: &[&str] = &[
    "ycsb-a",
    "--ycsb-table",
    "mixed",
    "--fields",
    "1",
    "--field-size",
    "1000",
    "--flush-size",
    "4194304",
    "--rate",
    "4000",
    "--threads",
    "64",
    "--keys",
    "uniform",
];

const ALL: &[Load] = &[
    Load { name: "random-read", words: &["random-read"], short: true },
    Load { name: "multi-get", words: &["multi-get"], short: true },
    // 30 rows per call, like PerformanceEvaluation.
    Load { name: "scan-30", words: &["scan", "--caching", "30"], short: true },
    Load { name: "scan", words: &["scan"], short: true },
    Load { name: "scan-range-10", words: &["scan-range-10"], short: false },
    Load { name: "scan-range-100", words: &["scan-range-100"], short: true },
    Load { name: "scan-range-1000", words: &["scan-range-1000"], short: false },
    Load { name: "scan-range-10000", words: &["scan-range-10000"], short: false },
    // A Java process that is not warm needs seconds to filter ten thousand rows, so fewer are read.
    Load { name: "filter-scan", words: &["filter-scan", "--range", "2000"], short: true },
    Load { name: "filter-0", words: &["filter-0"], short: true },
    Load { name: "filter-10", words: &["filter-10"], short: true },
    Load { name: "sequential-read", words: &["sequential-read"], short: false },
    Load { name: "random-write", words: &["random-write"], short: true },
    Load {
        name: "random-write-fsync",
        words: &["random-write", "--durability", "fsync", "--threads", "64"],
        short: true,
    },
    Load { name: "sequential-write", words: &["sequential-write"], short: false },
    Load { name: "batch-write", words: &["batch-write"], short: true },
    Load { name: "increment", words: &["increment"], short: true },
    Load { name: "append", words: &["append"], short: false },
    Load { name: "check-and-put", words: &["check-and-put"], short: true },
    Load { name: "ycsb-a", words: &["ycsb-a"], short: false },
    Load { name: "ycsb-b", words: &["ycsb-b"], short: false },
    Load { name: "ycsb-c", words: &["ycsb-c"], short: false },
    Load { name: "ycsb-f", words: &["ycsb-f"], short: false },
    Load { name: "ycsb-d", words: &["ycsb-d"], short: false },
    Load { name: "ycsb-e", words: &["ycsb-e"], short: false },
    Load { name: "mixed", words: MIXED, short: true },
];

/// Returns the workloads of the short form, or all of them.
pub(crate) fn loads(short: bool) -> Vec<Load> {
    let wanted = ALL.iter().filter(|load| load.short || !short);
    wanted.map(|load| Load { ..*load }).collect()
}
