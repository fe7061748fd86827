//! Converts root folders of Apache HBase 2.x to this project's data directories, and back.
//!
//! ```text
//!   HBase's root ── look ──▶ Inventory ── adopt ──▶ a root that this project serves
//!                              │
//!                              └─ Report: what blocks, what is left behind, what is worth knowing
//! ```
//!
//! [`look`] reads everything on which an adoption depends, and writes nothing: descriptors, hbase:meta,
//! `hbase:storefile`, the master's procedures, the head of every store file, and the logs of killed servers. Then the
//! changes are made in this order:
//!
//! 1. [`adopt()`] writes a file list for each store that has none. Its files are all files in its folder, or those that
//!    `hbase:storefile` names. Tables keep the tracker that they name. A descriptor that names none gets DEFAULT, the
//!    only tracker of HBase's older releases.
//! 2. [`adopt()`] copies the writes that are only in HBase's logs to a log of this project, from which the next start
//!    recovers.
//! 3. The caller writes the version file of this project. From then on the root is no longer HBase's.
//! 4. [`archive_logs`] moves HBase's logs to `oldWALs`, the folder of logs that HBase no longer needs. In an object store
//!    it deletes them.
//!
//! Until step 3, HBase can open the root after every single write, because it does not read the list of a store whose
//! tracker is DEFAULT. So a crash needs no repair: the adoption is repeated, and writes the lists of such stores again.
//! From step 3 on the lists count, whatever tracker a descriptor names.
//!
//! [`hand_back()`] is the way back, for a root that was closed in order.
//!
//! A root may be on a disk, in HDFS or in an object store. Nothing is renamed, and no store file is copied. HDFS shows the
//! end of a log that a killed HBase has left open only after [`close_logs`].
//!
//! This crate knows nothing of processes. Its caller makes sure that neither HBase nor Bellows runs on the root.

mod adopt;
mod catalog;
mod error;
mod file_table;
mod found;
mod fsck;
mod hand_back;
mod inventory;
mod losses;
mod peek;
mod procedures;
mod replay;
mod snapshots;

pub use adopt::{OwnLog, adopt};
pub use error::{Error, Result};
pub use found::{FoundRegion, FoundTable, LogEnds, Shutdown};
pub use fsck::{FsckReport, fsck};
pub use hand_back::{check_log_is_flushed, hand_back};
pub use inventory::{Inventory, look};
pub use losses::Report;
pub use replay::{archive_logs, close_logs, has_logs};
