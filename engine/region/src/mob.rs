//! MOB (medium objects): large values, kept in files of their own.
//!
//! ```text
//! store file   key · [length 4B · name of the MOB file] · tags: MOB_REFERENCE, MOB_TABLE_NAME, the cell's own
//! MOB file     the same key · value · the cell's own tags       mobdir/data/<ns>/<table>/<MOB region>/<family>/<name>
//! ```
//!
//! 1. A flush writes the values of a family with IS_MOB that are longer than MOB_THRESHOLD to a [MOB file](output), and
//!    a reference to each into the store file. The MOB file is durable before the store file is.
//! 2. Each store file of such a family has the property [`MOB_FILE_REFS`](crate::mob_format::names), which names the
//!    MOB files it needs.
//! 3. A reader replaces a reference by the [value](values), after the filter has judged the cell, as in HBase.
//! 4. A compaction copies references. Only a major compaction that a client or the master's MOB chore asked for writes
//!    the values again. If the family no longer has IS_MOB, every major compaction moves the values into store files.
//! 5. The janitor deletes a MOB file when no store file names it. So snapshots, clones, references and readers
//!    keep MOB files by keeping the store files that name them.
//!
//! Names and bytes are HBase's. Source: HBase 2.6 `HMobStore`, `MobUtils`, `DefaultMobStoreFlusher`.

pub(crate) mod output;
pub(crate) mod values;
