//! Handlers of calls about replication peers, of which there are none.
//!
//! Changes of peers are refused with HBase's exceptions. The switch that forbids such changes is stored, because tools
//! set it around a migration and expect its previous value. Source: HBase 2.6 `MasterRpcServices`, `HMaster`,
//! `ReplicationPeerManager`.

use std::sync::Arc;

use proto::pb;
use rpc::{Answer, Exception, Reply};

use super::{Handler, answer, now, with};
use crate::Master;
use crate::switches::Switch;

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("ListReplicationPeers", |_, _| now(&pb::ListReplicationPeersResponse { peer_desc: Vec::new() })),
    ("GetReplicationPeerConfig", |_, _| answer(Err(no_such_peer()))),
    // HBase answers with this exception, which clients retry.
    ("IsReplicationPeerEnabled", |_, call| {
        answer(call.decode().and_then(|request: pb::GetReplicationPeerStateRequest| {
            Err(Exception::io(format!("Replication Peer of {} does not exist.", request.peer_id)))
        }))
    }),
    ("AddReplicationPeer", |master, _| {
        change(master, || {
            Exception::do_not_retry(
                "java.lang.UnsupportedOperationException: \
                 replication to other clusters is not supported by this master",
            )
        })
    }),
    ("UpdateReplicationPeerConfig", |master, _| change(master, no_such_peer)),
    ("RemoveReplicationPeer", |master, _| change(master, no_such_peer)),
    ("EnableReplicationPeer", |master, _| change(master, no_such_peer)),
    ("DisableReplicationPeer", |master, _| change(master, no_such_peer)),
    ("ReplicationPeerModificationSwitch", |master, call| {
        with(master, call, |master, request: pb::ReplicationPeerModificationSwitchRequest| {
            let previous_value = master.switch(Switch::PeerModification, request.on)?;
            Ok(Reply::of(&pb::ReplicationPeerModificationSwitchResponse { previous_value }))
        })
    }),
    ("IsReplicationPeerModificationEnabled", |master, _| {
        now(&pb::IsReplicationPeerModificationEnabledResponse {
            enabled: master.switches.is_on(Switch::PeerModification),
        })
    }),
    // A client that switches modification off may wait until this list is empty.
    ("GetReplicationPeerModificationProcedures", |_, _| {
        now(&pb::GetReplicationPeerModificationProceduresResponse { procedure: Vec::new() })
    }),
];

fn no_such_peer() -> Exception {
    Exception {
        do_not_retry: true,
        ..Exception::new(
            "org.apache.hadoop.hbase.ReplicationPeerNotFoundException",
            "there are no replication peers here",
        )
    }
}

/// Refuses the change of a peer: with `refusal`, or with HBase's refusal while modification is switched off.
fn change(master: &Arc<Master>, refusal: fn() -> Exception) -> Answer {
    answer(Err(if master.switches.is_on(Switch::PeerModification) {
        refusal()
    } else {
        Exception::io("Replication peer modification disabled")
    }))
}
