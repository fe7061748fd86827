//! Rows of the catalog's tables, as the master reads and writes them.

use bytes::Bytes;
pub use proto::catalog::CatalogRow;

/// A change of one row of a catalog table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogEdit {
    /// Sets columns.
    Put(CatalogRow),
    /// Deletes the row in all families of the table, up to the edit's timestamp.
    Delete(Bytes),
    /// Deletes columns of the row, each named by family and qualifier, up to the edit's timestamp.
    DeleteColumns(Bytes, Vec<(Bytes, Bytes)>),
}

/// The timestamp of an edit, in ms since 1970. The master gives each batch a greater timestamp than the previous batch,
/// so that a row written again is never hidden by its own earlier deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

/// The sequence id that a region was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenSequence(pub u64);
