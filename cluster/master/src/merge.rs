//! The checks that a merge of regions must pass, and its submission.
//!
//! The checks and their messages are HBase's. [`crate::replace`] carries out the merge. One check is stricter. With
//! `forcible`, HBase also merges regions that have another region between them, whose rows then belong to two regions.
//! Here that is refused.

use std::sync::Arc;

use bytes::Bytes;
use contract::SplitRow;
use proto::{RegionId, RegionInfo, TableName, pb};
use rpc::{Exception, class};

use crate::Master;
use crate::error::of_proto;
use crate::procedure::{NonceKey, Parameters, ProcedureId, ProcedureKind};
use crate::switches::Switch;

impl Master {
    /// Submits the merge of two or more open regions of a table, and returns the procedure's id. Unless the merge is
    /// `forcible`, each region must touch or overlap the next one in the order of their start keys.
    pub(crate) fn merge_regions(
        self: &Arc<Self>,
        regions: &[pb::RegionSpecifier],
        forcible: bool,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        if let Some(id) = self.procedures.repeated(nonce) {
            return Ok(id);
        }
        let parents = regions.iter().map(|region| Ok(self.find(region)?.region));
        let mut parents: Vec<RegionInfo> = parents.collect::<Result<_, Exception>>()?;
        parents
            .sort_by(|left, right| left.start_key().cmp(right.start_key()).then(left.id().cmp(&right.id())));
        let name = check_together(&parents, forcible)?;
        self.check_merge(&name, &parents)?;
        let parameters = Parameters::merge(&parents, forcible);
        let id =
            self.submit_on_regions(ProcedureKind::Merge, &parents.clone(), nonce, move |master, context| {
                master.check_merge(&name, &parents)?;
                let child = merged(&parents, master.new_region_id()).map_err(of_proto)?;
                master.check_nothing_between(&child, &parents)?;
                master.replace(parents, vec![child], context)
            })?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Refuses a merge of regions that may not be merged now.
    fn check_merge(&self, name: &TableName, parents: &[RegionInfo]) -> Result<(), Exception> {
        let shown = || parents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let failed = |why: &str| Exception::do_not_retry(format!("Merge of [{}] failed {why}", shown()));
        if !self.switches.is_on(Switch::Merge) {
            return Err(failed("because merge switch is off"));
        }
        let table = self.check_enabled(name)?;
        if !table.options().map_err(of_proto)?.merge_enabled {
            return Err(failed("as region merge is disabled for the table"));
        }
        for parent in parents {
            self.check_serves(parent)?;
            let has_parents = self.read_view(|view| {
                view.region(parent.encoded_name()).is_some_and(|row| !row.merged_from.is_empty())
            });
            let shape = self.regions.shape(parent.encoded_name(), &SplitRow::None)?;
            if has_parents || shape.has_references {
                // The client may try again: when the region was compacted and its parents were deleted, the merge is
                // possible.
                return Err(Exception::io(format!(
                    "{} NOT mergeable: it refers to files of its parents, or these are not deleted yet",
                    parent.encoded_name()
                )));
            }
        }
        Ok(())
    }

    /// Refuses a merge whose result would cover rows of a region that is not merged.
    fn check_nothing_between(&self, child: &RegionInfo, parents: &[RegionInfo]) -> Result<(), Exception> {
        let is_parent = |region: &RegionInfo| parents.iter().any(|parent| parent.name() == region.name());
        let between = self.read_view(|view| {
            let mut rows = view.tables.get(child.table()).into_iter().flat_map(|table| table.serving());
            rows.find(|row| row.region.overlaps(child) && !is_parent(&row.region)).cloned()
        });
        match between {
            None => Ok(()),
            Some(row) => Err(Exception::new(
                class::MERGE_REGION,
                format!("region {} lies between the regions to merge: merge it, too", row.region),
            )),
        }
    }
}

/// Refuses regions that cannot be merged into one. Returns their table. `parents` are in the order of their start keys.
fn check_together(parents: &[RegionInfo], forcible: bool) -> Result<TableName, Exception> {
    let refused = |words: String| Err(Exception::new(class::MERGE_REGION, words));
    let mut unique: Vec<&Bytes> = parents.iter().map(RegionInfo::name).collect();
    unique.sort();
    unique.dedup();
    if unique.len() < parents.len() {
        return refused(format!(
            "Duplicate regions specified; cannot merge a region to itself. Passed in {} but only {} unique.",
            parents.len(),
            unique.len()
        ));
    }
    let [first, _, ..] = parents else {
        return refused("Need two Regions at least to run a Merge".to_owned());
    };
    for pair in parents.windows(2) {
        let [before, next] = pair else { continue };
        if before.table() != next.table() {
            return refused(format!("Can't merge regions from different tables: {before}, {next}"));
        }
        let touches = before.end_key() == next.start_key() && !before.end_key().is_empty();
        if !forcible && !touches && !before.overlaps(next) {
            return refused(format!(
                "Unable to merge non-adjacent or non-overlapping regions '{}', '{}' when force=false",
                before.encoded_name(),
                next.encoded_name()
            ));
        }
    }
    if *first.table() == TableName::meta() || *first.table() == TableName::namespaces() {
        return refused(format!("table {} has one region for good", first.table()));
    }
    Ok(first.table().clone())
}

/// Returns the region that covers all of `parents`. Its id is greater than the ids of the parents, as clients expect of
/// the newer of two regions.
fn merged(parents: &[RegionInfo], id: RegionId) -> Result<RegionInfo, proto::Error> {
    let first = parents.first().expect("at least two were merged");
    let start = parents.iter().map(RegionInfo::start_key).min().cloned().unwrap_or_default();
    let ends = parents.iter().map(RegionInfo::end_key);
    let end = if ends.clone().any(Bytes::is_empty) { None } else { ends.max() };
    let newest = parents.iter().map(|parent| parent.id().0).max().unwrap_or(0);
    let id = RegionId(id.0.max(newest + 1));
    RegionInfo::new(first.table().clone(), start, end.cloned().unwrap_or_default(), id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &'static str, end: &'static str) -> RegionInfo {
        RegionInfo::new("t".parse().unwrap(), start.into(), end.into(), RegionId(7)).unwrap()
    }

    #[test]
    fn neighbours_are_merged_and_others_only_by_force() {
        let refusal = |parents: &[RegionInfo], forcible| {
            check_together(parents, forcible).map(drop).unwrap_err().message
        };
        assert!(refusal(&[region("", "")], true).starts_with("Need two"));
        assert!(refusal(&[region("", "c"), region("", "c")], true).starts_with("Duplicate"));
        let apart = [region("", "c"), region("d", "")];
        assert!(refusal(&apart, false).starts_with("Unable to merge non-adjacent"));
        assert!(check_together(&apart, true).is_ok());
        assert!(check_together(&[region("", "c"), region("c", "e"), region("e", "")], false).is_ok());
        let other = RegionInfo::new("u".parse().unwrap(), "c".into(), "".into(), RegionId(7)).unwrap();
        assert!(refusal(&[region("", "c"), other], true).contains("different tables"));
    }

    #[test]
    fn the_merged_region_covers_all_and_is_newer() {
        let merge = |parents: &[RegionInfo]| {
            let all = merged(parents, RegionId(3)).unwrap();
            (all.start_key().clone(), all.end_key().clone(), all.id())
        };
        let bytes = |text: &'static str| Bytes::from(text);
        assert_eq!(merge(&[region("b", "d"), region("d", "f")]), (bytes("b"), bytes("f"), RegionId(8)));
        assert_eq!(merge(&[region("", "d"), region("d", "")]), (bytes(""), bytes(""), RegionId(8)));
    }
}
