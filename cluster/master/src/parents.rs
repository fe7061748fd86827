//! Deletes the files and rows of parents of splits and merges once nobody needs them, as HBase's CatalogJanitor does.
//!
//! The parent of a split keeps its row in hbase:meta, marked as split. The parents of a merge are named in the row of
//! the merged region. The files of parents are read through references until the children have been compacted. Then the
//! master
//!
//! 1. orders that the parent's folder be dropped; a repetition of this step finds nothing to drop;
//! 2. orders that the log records of the parent be discarded;
//! 3. removes the parent's row, or the columns that name the parent.

use std::sync::Arc;

use proto::catalog::RegionRow;
use proto::{RegionInfo, TableName};
use rpc::Exception;

use crate::Master;
use crate::procedure::ProcedureKind;

impl Master {
    /// Deletes all parents whose files nobody needs, and returns their number. Waits for other procedures of their tables.
    pub(crate) fn collect_parents(self: &Arc<Self>) -> Result<usize, Exception> {
        let mut count = 0;
        for table in self.tables_with_parents() {
            let (collected, tally) = std::sync::mpsc::channel();
            let name = table.clone();
            let id = self.submit(ProcedureKind::CollectParents, &table, None, move |master, _| {
                // If this master ends, nobody waits for the number any more, and the send fails.
                let _ended = collected.send(master.collect_parents_of(&name)?);
                Ok(())
            })?;
            self.procedures.wait(id).unwrap_or(Ok(bytes::Bytes::new()))?;
            count += tally.try_recv().unwrap_or(0);
        }
        Ok(count)
    }

    /// Submits the deletion of the parents that nobody needs, and waits for nothing. A table with another procedure is left for
    /// the next call: one that waits would let everything that comes after it wait, too.
    pub(crate) fn submit_collections(self: &Arc<Self>) -> Result<(), Exception> {
        for table in self.tables_with_parents() {
            if self.procedures.is_busy(&table) {
                continue;
            }
            let name = table.clone();
            self.submit(ProcedureKind::CollectParents, &table, None, move |master, _| {
                master.collect_parents_of(&name).map(drop).inspect_err(|cause| {
                    tracing::warn!(table = %name, %cause, "parents of splits and merges were not collected; it is tried again");
                })
            })?;
        }
        Ok(())
    }

    fn tables_with_parents(&self) -> Vec<TableName> {
        let has_parents = |row: &RegionRow| row.region.is_split() || !row.merged_from.is_empty();
        self.read_view(|view| {
            let with = view.tables.iter().filter(|(_, table)| table.regions.iter().any(has_parents));
            with.map(|(name, _)| name.clone()).collect()
        })
    }

    /// Deletes the parents of one table. No other procedure of the table runs meanwhile.
    fn collect_parents_of(&self, table: &TableName) -> Result<usize, Exception> {
        let rows = self
            .read_view(|view| view.tables.get(table).map(|table| table.regions.clone()))
            .unwrap_or_default();
        let mut count = 0;
        for row in rows {
            // As in HBase, all parents of a merge are deleted together, because their columns are numbered without a
            // gap.
            let mut needed = row.merged_from.iter().map(|parent| self.is_needed(parent));
            if needed.try_fold(false, |any, needed| needed.map(|needed| any || needed))? {
                continue;
            }
            if !row.merged_from.is_empty() {
                row.merged_from.iter().try_for_each(|parent| self.drop_parent(parent))?;
                self.catalog.forget_merge(&row)?;
                self.update_view(|view| {
                    let rows = view.tables.get_mut(table).into_iter().flat_map(|table| &mut table.regions);
                    let of_row = rows.filter(|known| known.region.name() == row.region.name());
                    of_row.for_each(|known| known.merged_from.clear());
                });
                count += row.merged_from.len();
            }
            // The row of a parent of a split is removed last. It names the regions from which the parent itself was
            // merged.
            if row.region.is_split() && !self.is_needed(&row.region)? {
                self.drop_parent(&row.region)?;
                self.catalog.replace_regions([], std::slice::from_ref(&row.region))?;
                self.update_view(|view| {
                    let table = view.tables.get_mut(table);
                    table.map(|table| table.regions.retain(|known| known.region.name() != row.region.name()))
                });
                count += 1;
            }
        }
        Ok(count)
    }

    fn is_needed(&self, parent: &RegionInfo) -> Result<bool, Exception> {
        self.regions.is_needed(layout::region_folder(parent))
    }

    fn drop_parent(&self, parent: &RegionInfo) -> Result<(), Exception> {
        self.regions.drop_folder(layout::region_folder(parent))?;
        self.regions.forget(parent.encoded_name())?;
        tracing::info!(region = %parent, table = %parent.table(), "a parent that nobody refers to any more was deleted");
        Ok(())
    }
}
