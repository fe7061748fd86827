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
    /// Command line options that a search for the bug adds to every seed: faults, workloads and settings without which
    /// the mistake never or rarely shows.
    pub hunt: &'static str,
    /// Maximum number of seeds of a search. Most bugs are found with far fewer.
    pub seeds_max: u32,
}

const fn bug(number: u32, seeds_max: u32, hunt: &'static str, what: &'static str) -> PlantedBug {
    PlantedBug { number, what, hunt, seeds_max }
}

/// All planted bugs.
pub const PLANTED: &[PlantedBug] = &[
    bug(1, 200, "", "a write is acknowledged before the log has it"),
    bug(2, 200, "", "the log calls a batch durable without a sync"),
    bug(3, 200, "", "a flush leaves its file out of the store's list"),
    bug(
        4,
        200,
        "--workload registers --fault Kill --fault SlowDisk",
        "the read point runs ahead of writes that are not durable",
    ),
    bug(5, 200, "--workload counters", "a nonce is used again: a repeated operation counts twice"),
    bug(
        6,
        60,
        "--only --workload counters --fault Kill --fault Cut --preset Disk --preset NoFlushes",
        "nonces are not recovered from the log",
    ),
    bug(7, 200, "", "a minor compaction drops delete markers as a major one does"),
    bug(8, 200, "", "a compaction leaves the files after its own out of the list"),
    bug(9, 200, "", "a row has not the same lock each time"),
    bug(10, 200, "", "a check and an increment read behind the read point"),
    bug(11, 20, "--only --workload churn --preset Disk", "a truncation keeps the rows"),
    bug(12, 200, "", "replay takes one family's flush for that of all families"),
    bug(13, 200, "--workload list", "a scanner begins again at the row that it has handed out"),
    bug(14, 200, "--fault FailingStore --fault Kill", "a swap whose outcome is unknown is taken for done"),
    bug(16, 200, "", "a flush lets go of its snapshot before its file is listed"),
    bug(
        17,
        60,
        "--only --workload counters --fault Kill --preset Disk --preset RetainedRows --preset ShortLogs",
        "a flush tells the log of rows that stay in memory",
    ),
    bug(18, 200, "", "a flush tells the log of writes that came after it"),
    bug(19, 200, "", "a compaction deletes its inputs before the list is replaced"),
    bug(
        20,
        60,
        "--only --workload churn --workload division --preset Disk --preset Janitor --preset NoCompactions",
        "the janitor does not ask the lists of daughters and merged regions",
    ),
    bug(21, 200, "--workload snapshots", "the janitor deletes files that only a snapshot names"),
    bug(22, 200, "--workload loads --fault Kill", "a bulk load into several families notes no intent"),
    bug(
        23,
        60,
        "--only --workload snapshots --preset Disk --preset Janitor",
        "a link leaves no back reference beside its target",
    ),
    bug(24, 200, "--workload division", "a merged region takes over the files of its first parent only"),
    bug(
        25,
        300,
        "--only --workload churn --workload division --fault WrongBits --fault ShortReads --preset Disk",
        "a region that could not be opened again is not recorded as one to be tried again",
    ),
    bug(26, 200, "--fault WrongBits", "the checksum of a block is not compared"),
    bug(27, 200, "--fault WrongBits --fault Kill", "the checksum of the log's batches is not compared"),
    bug(28, 200, "--fault Misdirected", "damage in the log is taken for a torn tail"),
    bug(
        29,
        400,
        "--only --workload counters --fault FailingStore --fault Kill --preset LogInStore --preset ShortLogs",
        "a log in the store trusts the listing of its files",
    ),
    bug(30, 200, "--fault FailingStore", "a part of the log whose outcome is unknown is taken for written"),
    bug(
        31,
        200,
        "--only --workload division --workload list --fault WrongBits --fault ShortReads --preset Disk",
        "the opening of a daughter is tried again after the daughter was split itself",
    ),
    bug(
        32,
        200,
        "--only --workload cells --workload snapshots --fault FailingStore --preset Janitor",
        "the janitor of MOB files trusts a listing that may be stale",
    ),
    bug(
        33,
        200,
        "--only --workload bank --workload cells --workload snapshots --fault WrongBits --preset Disk --preset Janitor",
        "the janitor of MOB files takes a store file that it misread for one that is gone",
    ),
    bug(
        34,
        200,
        "--fault FailingStore --fault Kill",
        "a part of the log in the store is acknowledged before the parts ahead of it are there",
    ),
    bug(35, 200, "--fault FailingStore --fault Kill", "the log in the store is read past its seal"),
    bug(
        36,
        200,
        "--only --workload churn --workload snapshots --fault TakeOver --preset LogInStore",
        "a start only reads the intents, so an earlier master can add one",
    ),
    bug(
        37,
        200,
        "--only --workload counters --workload appends --fault TakeOver --preset LogInStore",
        "a file of the log is sealed after its last part and not in its first gap",
    ),
    bug(
        38,
        200,
        "--only --workload snapshots --preset Store --preset Janitor",
        "in a store the janitor of MOB files does not ask snapshots",
    ),
    bug(
        39,
        400,
        "--only --workload snapshots --fault Kill --preset Store",
        "in a store a link that an interrupted clone has written cannot be written again",
    ),
    bug(
        40,
        400,
        "--only --workload churn --fault TakeOver --preset Store --preset LogInStore",
        "a server that was replaced while it started takes the master's small objects from its successor",
    ),
    bug(
        41,
        600,
        "--only --workload followed --workload division --fault Replica --fault Kill",
        "a replica is as current as the end of a round and not its beginning",
    ),
    bug(
        42,
        200,
        "--only --workload followed --workload division --fault Replica --fault Kill",
        "a region that a replica has opened again does not replace the old one",
    ),
    bug(
        43,
        200,
        "--only --workload followed --fault Replica --preset ShortLogs",
        "a replica goes on after a part of the log that was deleted before it was read",
    ),
    bug(
        44,
        200,
        "--only --workload followed --fault Replica --preset Janitor",
        "a replica leaves out a file that was deleted before it was opened",
    ),
    bug(
        45,
        200,
        "--only --workload followed --fault Replica",
        "a replica drops everything from memory at a flush, also what the new files do not have",
    ),
    bug(
        46,
        200,
        "--fault FailingDisk --fault Power",
        "a sync of the log that failed is repeated and then believed",
    ),
];
