//! Handlers of calls about single regions.

use proto::catalog::RegionState;
use proto::pb;
use rpc::Reply;

use super::{Handler, answer, with, with_end};
use crate::procedure::NonceKey;

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("getLastMajorCompactionTimestampForRegion", |master, call| {
        with(master, call, |master, request: pb::MajorCompactionTimestampForRegionRequest| {
            let compaction_timestamp = master.last_major_compaction_of_region(&request.region)?;
            Ok(Reply::of(&pb::MajorCompactionTimestampResponse { compaction_timestamp }))
        })
    }),
    ("MoveRegion", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::MoveRegionRequest| {
                master.move_region(&request.region, request.dest_server_name.as_ref())
            },
            |_| Reply::of(&pb::MoveRegionResponse {}),
        )
    }),
    ("AssignRegion", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::AssignRegionRequest| {
                if !request.r#override() {
                    master.check_transition(&request.region, RegionState::Open)?;
                }
                master.assign_region(&request.region)
            },
            |_| Reply::of(&pb::AssignRegionResponse {}),
        )
    }),
    ("UnassignRegion", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::UnassignRegionRequest| {
                master.check_transition(&request.region, RegionState::Closed)?;
                master.unassign_region(&request.region)
            },
            |_| Reply::of(&pb::UnassignRegionResponse {}),
        )
    }),
    // Changes nothing. HBase marks the region as offline in its master's memory only: the region server continues to
    // serve it, and hbase:meta keeps its state. Here the region's state has no second copy that could be wrong.
    ("OfflineRegion", |master, call| {
        answer(call.decode().and_then(|request: pb::OfflineRegionRequest| {
            master.find(&request.region)?;
            Ok(Reply::of(&pb::OfflineRegionResponse {}))
        }))
    }),
    ("SplitRegion", |master, call| {
        with(master, call, |master, request: pb::SplitTableRegionRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            let id = master.split_region(&request.region_info, request.split_row, nonce)?;
            Ok(Reply::of(&pb::SplitTableRegionResponse { proc_id: Some(id.0) }))
        })
    }),
    ("MergeTableRegions", |master, call| {
        with(master, call, |master, request: pb::MergeTableRegionsRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            let id = master.merge_regions(&request.region, request.forcible(), nonce)?;
            Ok(Reply::of(&pb::MergeTableRegionsResponse { proc_id: Some(id.0) }))
        })
    }),
    ("TruncateRegion", |master, call| {
        with(master, call, |master, request: pb::TruncateRegionRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            let id = master.truncate_region(&request.region_info, nonce)?;
            Ok(Reply::of(&pb::TruncateRegionResponse { proc_id: Some(id.0) }))
        })
    }),
];
