//! Checks a split, and chooses the row at which a region is split.
//!
//! The checks and their messages are HBase's, since its shell and tools know them. [`crate::replace`] carries out the
//! split.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use cell::string_binary;
use contract::{MasterRequests, SplitRow};
use proto::{RegionId, RegionInfo, TableName, pb};
use rpc::Exception;

use crate::Master;
use crate::error::of_proto;
use crate::procedure::{NonceKey, Parameters, ProcedureId, ProcedureKind};
use crate::replace::daughters;
use crate::switches::Switch;

/// Passes requests of region servers to a master, as long as the master exists.
struct Requests(Weak<Master>);

impl MasterRequests for Requests {
    fn split(&self, region: &RegionInfo, row: Bytes) {
        let Some(master) = self.0.upgrade() else { return };
        match master.split_region(&region.into(), Some(row), None) {
            Ok(id) => {
                tracing::info!(%region, table = %region.table(), pid = id.0, "the region is too large: it is split")
            }
            Err(refusal) => {
                tracing::info!(%region, table = %region.table(), %refusal, "the region is too large, and is not split");
            }
        }
    }
}

impl Master {
    /// Returns the interface through which region servers send requests to this master.
    pub fn requests(self: &Arc<Self>) -> Arc<dyn MasterRequests> {
        Arc::new(Requests(Arc::downgrade(self)))
    }

    /// Submits the split of an open region at `row`, or at the row that divides its data best.
    pub(crate) fn split_region(
        self: &Arc<Self>,
        region: &pb::RegionInfo,
        row: Option<Bytes>,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let region = RegionInfo::try_from(region).map_err(of_proto)?;
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        let region = self.check_split(&region)?;
        let row = self.split_row(&region, row.filter(|row| !row.is_empty()))?;
        let parameters = Parameters::split(&region);
        let id = self.submit_on_regions(
            ProcedureKind::Split,
            [&region.clone()],
            nonce,
            move |master, context| {
                let region = master.check_split(&region)?;
                let id = RegionId(master.new_region_id().0.max(region.id().0 + 1));
                let children = daughters(&region, &row, id).map_err(of_proto)?;
                master.replace(vec![region], children, context)
            },
        )?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Checks whether a region may be split at all, without regard to its data. Returns the region as hbase:meta has it.
    fn check_split(&self, region: &RegionInfo) -> Result<RegionInfo, Exception> {
        if region.is_meta() || *region.table() == TableName::namespaces() {
            return Err(Exception::do_not_retry(format!("table {} has one region for good", region.table())));
        }
        let failed = |why: &str| Exception::do_not_retry(format!("Split region {region} failed {why}"));
        if !self.switches.is_on(Switch::Split) {
            return Err(failed("due to split switch off"));
        }
        let table = self.check_enabled(region.table())?;
        if !table.options().map_err(of_proto)?.split_enabled {
            return Err(failed("as region split is disabled for the table"));
        }
        self.check_serves(region)
    }

    /// Returns the row at which a region is split: the requested row, as the table's split restriction shortens it, or, if
    /// none is requested, the row that divides the region's data best. Fails if there is no such row, if it is not inside the
    /// region, if the table's split policy forbids every split, or while the region refers to files of its parents.
    fn split_row(&self, region: &RegionInfo, asked: Option<Bytes>) -> Result<Bytes, Exception> {
        let wanted = asked.map_or(SplitRow::Best, SplitRow::Given);
        let shape = self.regions.shape(region.encoded_name(), &wanted)?;
        if !shape.can_split {
            return Err(Exception::do_not_retry(format!(
                "{} NOT splittable: the split policy of table {} is DisabledRegionSplitPolicy",
                region.encoded_name(),
                region.table()
            )));
        }
        if shape.has_references {
            // A compaction removes the cause, so clients may try again.
            return Err(Exception::io(format!(
                "{} NOT splittable: it refers to files of its parent until it is compacted",
                region.encoded_name()
            )));
        }
        let row = shape.split_row.ok_or_else(|| {
            Exception::do_not_retry(
                "Region not splittable because bestSplitPoint = null, maybe table is too small for auto split. For force \
                 split, try specifying split row",
            )
        })?;
        let shown = string_binary(&row);
        if row == region.start_key() {
            return Err(Exception::do_not_retry(format!("Split row is equal to startkey: {shown}")));
        }
        if !region.contains_row(&row) {
            return Err(Exception::do_not_retry(format!(
                "Split row is not inside region key range splitKey:{shown} region: {region}"
            )));
        }
        Ok(row)
    }
}
