//! Planted bugs: mistakes in our own code behind `env::planted(number)`, which a simulation must find.
//!
//! They show that the judges detect mistakes. Release builds contain none of them.

/// A planted bug.
#[derive(Clone, Copy, Debug)]
pub struct PlantedBug {
    /// The argument of `env::planted`.
    pub number: u32,
    /// What the mistake is.
    pub what: &'static str,
    /// Command line options that a hunt adds to every seed: a fault or workload without which the mistake never or
    /// rarely shows.
    pub hunt: &'static str,
}

const fn bug(number: u32, hunt: &'static str, what: &'static str) -> PlantedBug {
    PlantedBug { number, what, hunt }
}

/// All planted bugs.
pub const PLANTED: &[PlantedBug] = &[
    bug(1, "", "a write is acknowledged before the log has it"),
    bug(2, "", "the log calls a batch durable without a sync"),
    bug(3, "", "a flush leaves its file out of the store's list"),
    bug(
        4,
        "--workload registers --fault Kill --fault SlowDisk",
        "the read point runs ahead of writes that are not durable",
    ),
    bug(5, "--workload counters", "a nonce is used again: a repeated operation counts twice"),
    bug(6, "--workload counters --fault Kill", "nonces are not recovered from the log"),
    bug(7, "", "a minor compaction drops delete markers as a major one does"),
    bug(8, "", "a compaction leaves the files after its own out of the list"),
    bug(9, "", "a row has not the same lock each time"),
    bug(10, "", "a check and an increment read behind the read point"),
    bug(11, "--workload churn", "a truncation keeps the rows"),
    bug(12, "", "replay takes one family's flush for that of all families"),
    bug(13, "--workload list", "a scanner begins again at the row that it has handed out"),
    bug(14, "--fault FailingStore", "the error of a swap that may have happened is not settled"),
    bug(16, "", "a flush lets go of its snapshot before its file is listed"),
    bug(17, "", "a flush tells the log of rows that stay in memory"),
    bug(18, "", "a flush tells the log of writes that came after it"),
    bug(19, "", "a compaction deletes its inputs before the list is replaced"),
    bug(20, "--workload division", "the janitor does not ask the lists of daughters and merged regions"),
    bug(21, "--workload snapshots", "the janitor deletes files that only a snapshot names"),
    bug(22, "--workload loads --fault Kill", "a bulk load into several families notes no intent"),
    bug(23, "--workload snapshots", "a link leaves no back reference beside its target"),
    bug(24, "--workload division", "a merged region takes over the files of its first parent only"),
    bug(
        25,
        "--workload snapshots --fault FailingStore",
        "a region that could not be opened again is not recorded as one to be tried again",
    ),
    bug(26, "--fault WrongBits", "the checksum of a block is not compared"),
    bug(27, "--fault WrongBits --fault Kill", "the checksum of the log's batches is not compared"),
    bug(28, "--fault Misdirected", "damage in the log is taken for a torn tail"),
    bug(29, "--fault FailingStore --fault Kill", "a log in the store trusts the listing of its files"),
    bug(30, "--fault FailingStore", "a part of the log whose outcome is unknown is taken for written"),
    bug(
        31,
        "--workload list --fault WrongBits",
        "the opening of a daughter is tried again after the daughter was split itself",
    ),
    bug(32, "--fault FailingStore", "the janitor of MOB files trusts a listing that may be stale"),
    bug(
        33,
        "--fault WrongBits",
        "the janitor of MOB files takes a store file that it misread for one that is gone",
    ),
    bug(
        34,
        "--fault FailingStore --fault Kill",
        "a part of the log in the store is acknowledged before the parts ahead of it are there",
    ),
    bug(35, "--fault FailingStore --fault Kill", "the log in the store is read past its seal"),
];
