//! Answers the calls of features that this master does not have. The answers are those of HBase when these features are
//! switched off: the same classes of exceptions, or the same empty lists, which clients can handle. Source: HBase 2.6
//! `MasterRpcServices`, `SnapshotManager`, `MasterQuotaManager`, `HMaster`.

use prost::Message;
use proto::pb;
use rpc::{Exception, Reply};

/// Returns HBase's answer to a method of a feature that is switched off; `None` for any other method.
pub(crate) fn answer(method: &str) -> Option<Result<Reply, Exception>> {
    let unsupported = |words: &str| {
        Some(Err(Exception {
            do_not_retry: true,
            ..Exception::new("java.lang.UnsupportedOperationException", words)
        }))
    };
    let refused = |words: &str| Some(Err(Exception::do_not_retry(words)));
    match method {
        "IsRestoreSnapshotDone" => unsupported("clients poll the procedure of a restoration since HBase 2.0"),
        "SetQuota" => refused("java.lang.UnsupportedOperationException: quota support disabled"),
        "GetQuotaStates" => empty(&pb::GetQuotaStatesResponse::default()),
        "GetSpaceQuotaRegionSizes" => empty(&pb::GetSpaceQuotaRegionSizesResponse::default()),
        "Grant" | "Revoke" | "GetUserPermissions" | "HasUserPermissions" => refused(
            "java.lang.UnsupportedOperationException: \
             org.apache.hadoop.hbase.security.access.AccessController is not loaded",
        ),
        // A call for a server that is not decommissioned changes nothing, as in HBase.
        "RecommissionRegionServer" => empty(&pb::RecommissionRegionServerResponse {}),
        _ => None,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an arm of the answers")]
fn empty(message: &impl Message) -> Option<Result<Reply, Exception>> {
    Some(Ok(Reply::of(message)))
}
