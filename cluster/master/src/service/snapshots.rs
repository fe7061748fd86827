//! Handlers of calls about snapshots.

use proto::pb;
use rpc::Reply;

use super::{Handler, now, with};
use crate::procedure::NonceKey;
use crate::switches::Switch;

/// How long clients that do not know procedures ask for the end of a snapshot, in ms. HBase's value.
const SNAPSHOT_TIMEOUT_MS: i64 = 300_000;

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("Snapshot", |master, call| {
        with(master, call, |master, request: pb::SnapshotRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            // Clients before HBase 2.6 send no nonce, and ask for the snapshot instead of the procedure.
            let polls_procedure = request.nonce_group.is_some() && request.nonce.is_some();
            let id = master.snapshot(request.snapshot, nonce)?;
            Ok(Reply::of(&pb::SnapshotResponse {
                expected_timeout: SNAPSHOT_TIMEOUT_MS,
                proc_id: polls_procedure.then(|| i64::try_from(id.0).unwrap_or(i64::MAX)),
            }))
        })
    }),
    ("IsSnapshotDone", |master, call| {
        with(master, call, |master, request: pb::IsSnapshotDoneRequest| {
            let (done, snapshot) = master.is_snapshot_done(request.snapshot)?;
            Ok(Reply::of(&pb::IsSnapshotDoneResponse { done: Some(done), snapshot: Some(snapshot) }))
        })
    }),
    ("GetCompletedSnapshots", |master, call| {
        with(master, call, |master, _: pb::GetCompletedSnapshotsRequest| {
            Ok(Reply::of(&pb::GetCompletedSnapshotsResponse { snapshots: master.completed_snapshots()? }))
        })
    }),
    ("DeleteSnapshot", |master, call| {
        with(master, call, |master, request: pb::DeleteSnapshotRequest| {
            master.delete_snapshot(&request.snapshot.name)?;
            Ok(Reply::of(&pb::DeleteSnapshotResponse {}))
        })
    }),
    ("RestoreSnapshot", |master, call| {
        with(master, call, |master, request: pb::RestoreSnapshotRequest| {
            let id = master.restore_snapshot(&request)?;
            Ok(Reply::of(&pb::RestoreSnapshotResponse { proc_id: id.0 }))
        })
    }),
    ("SwitchSnapshotCleanup", |master, call| {
        with(master, call, |master, request: pb::SetSnapshotCleanupRequest| {
            let prev_snapshot_cleanup = master.switch(Switch::SnapshotCleanup, request.enabled)?;
            Ok(Reply::of(&pb::SetSnapshotCleanupResponse { prev_snapshot_cleanup }))
        })
    }),
    ("IsSnapshotCleanupEnabled", |master, _| {
        now(&pb::IsSnapshotCleanupEnabledResponse { enabled: master.switches.is_on(Switch::SnapshotCleanup) })
    }),
];
