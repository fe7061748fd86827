//! Planted bugs: mistakes in our own code behind `env::planted(number)`, which a simulation must find.
//!
//! They show that the judges see what they should. A release build has none of them.

/// Number, and what the mistake is.
pub const PLANTED: &[(u32, &str)] = &[
    (1, "a write is acknowledged before the log has it"),
    (2, "the log calls a batch durable without a sync"),
    (3, "a flush leaves its file out of the store's list"),
    (4, "the read point runs ahead of writes that are not durable"),
    (5, "a nonce is used again: a repeated operation counts twice"),
    (6, "nonces are not recovered from the log"),
    (7, "a minor compaction drops delete markers as a major one does"),
    (8, "a compaction leaves the files after its own out of the list"),
    (9, "a row has not the same lock each time"),
    (10, "a check and an increment read behind the read point"),
    (11, "a truncation keeps the rows"),
    (12, "replay takes one family's flush for that of all families"),
    (13, "a scanner begins again at the row that it has handed out"),
    (14, "the error of a swap that may have happened is not settled"),
    (16, "a flush lets go of its snapshot before its file is listed"),
    (17, "a flush tells the log of rows that stay in memory"),
    (18, "a flush tells the log of writes that came after it"),
    (19, "a compaction deletes its inputs before the list is replaced"),
];
