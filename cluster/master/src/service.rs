//! `MasterService`: decodes a method's message, calls the master, and encodes the answer.
//!
//! Each method has a handler in one of the tables below. A read of the master's view of the cluster is answered at
//! once. A change is checked, submitted as a procedure, and answered with the procedure's id or with its end. Work that
//! waits for the disk leaves the thread that serves sockets.

mod cluster;
mod namespaces;
mod procedures;
mod regions;
mod replication;
mod snapshots;
mod switches;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prost::Message;
use rpc::{Answer, Call, Exception, Reply, Service};

use crate::Master;
use crate::error::is_unchecked;
use crate::procedure::{ProcedureId, acting_for};

/// Answers a call of one method.
type Handler = fn(&Arc<Master>, Call) -> Answer;

/// The handlers of all methods, by subject. [`crate::absent`] answers methods of features that are absent.
const HANDLERS: [&[(&str, Handler)]; 8] = [
    cluster::HANDLERS,
    tables::HANDLERS,
    procedures::HANDLERS,
    namespaces::HANDLERS,
    regions::HANDLERS,
    replication::HANDLERS,
    snapshots::HANDLERS,
    switches::HANDLERS,
];

/// Answers the calls of `MasterService`.
#[derive(Debug)]
pub struct MasterService {
    master: Arc<Master>,
    handlers: BTreeMap<&'static str, Handler>,
}

impl MasterService {
    /// Creates the service of `master`.
    pub fn new(master: Arc<Master>) -> MasterService {
        MasterService { master, handlers: HANDLERS.into_iter().flatten().copied().collect() }
    }
}

impl Service for MasterService {
    fn call(&self, call: Call) -> Answer {
        if !WHILE_STARTING.contains(&call.method.as_str())
            && let Err(wait) = self.master.check_started()
        {
            return wait.into();
        }
        if self.master.is_mirror.load(Ordering::Acquire) && !reads(&call.method) {
            return Exception::do_not_retry(READ_ONLY).into();
        }
        if let Some(handler) = self.handlers.get(call.method.as_str()) {
            return handler(&self.master, call);
        }
        match crate::absent::answer(&call.method) {
            Some(outcome) => answer(outcome),
            None => Exception::unknown_method("MasterService", &call.method).into(),
        }
    }
}

/// The methods that the master answers while it opens the tables. They need no table.
const WHILE_STARTING: [&str; 3] = ["IsMasterRunning", "Shutdown", "StopMaster"];

/// The message of a refused change on a read replica. HBase 3 has an exception class for this refusal, but clients of
/// HBase 2 do not know it. They do not retry the class that is sent instead, either.
pub(crate) const READ_ONLY: &str = "Operation not allowed in Read-Only Mode: this server is a read replica; ask the primary, or start this \
                         server without --read-replica to make it the primary";

/// Whether a read replica answers a method. It does if the method changes nothing, or only the replica's own process.
/// The promotion itself is done by the process that is started afterwards.
fn reads(method: &str) -> bool {
    let verbs = ["Get", "get", "List", "Is", "Has", "Refresh"];
    let others = ["Shutdown", "StopMaster", "StopServer", "ClearDeadServers", "PromoteReplica"];
    verbs.iter().any(|verb| method.starts_with(verb)) || others.contains(&method)
}

type Outcomes = Result<Reply, Exception>;

/// If an answer is held until the end of a procedure, it is sent before the client's time limit: a tenth of the limit
/// earlier, but at most this much earlier.
const ANSWER_MARGIN_MAX: Duration = Duration::from_secs(1);

/// Decodes the parameter and calls the handler on the blocking thread pool.
fn with<M: Message + Default + 'static>(
    master: &Arc<Master>,
    call: Call,
    act: impl FnOnce(&Arc<Master>, M) -> Outcomes + Send + 'static,
) -> Answer {
    match call.decode::<M>() {
        Ok(request) => {
            let (master, user) = (Arc::clone(master), user_of(&call));
            Answer::later(env::blocking(move || acting_for(user, || act(&master, request))))
        }
        Err(exception) => exception.into(),
    }
}

/// Decodes the parameter, submits a procedure, and answers when the procedure has ended. If the procedure failed with a
/// checked exception, the exception is the answer. HBase does this for changes after which clients continue without
/// asking for the result. If the client's time limit is near, the answer is the procedure's id; the procedure
/// continues, and the client may ask for its result.
fn with_end<M: Message + Default + 'static>(
    master: &Arc<Master>,
    call: Call,
    submit: impl FnOnce(&Arc<Master>, M) -> Result<ProcedureId, Exception> + Send + 'static,
    reply: fn(ProcedureId) -> Reply,
) -> Answer {
    let request = match call.decode::<M>() {
        Ok(request) => request,
        Err(exception) => return exception.into(),
    };
    let master = Arc::clone(master);
    Answer::later(async move {
        let (submitter, user) = (Arc::clone(&master), user_of(&call));
        let id = env::blocking(move || acting_for(user, || submit(&submitter, request))).await?;
        let end = master.procedures.end_of(id);
        let ended = match held_max(&call, &master.world) {
            Some(limit) => env::timeout(limit, end).await.flatten(),
            None => end.await,
        };
        match ended {
            Some(Err(exception)) if !is_unchecked(&exception) => Err(exception),
            Some(_) | None => Ok(reply(id)),
        }
    })
}

/// Returns the user on whose behalf a client calls; `None` if the client has named none.
pub(crate) fn user_of(call: &Call) -> Option<Arc<str>> {
    call.connection.user.effective.as_deref().map(Arc::from)
}

/// Returns how long the answer to a call may be held from now on, so that a client that waits until the call's deadline
/// still gets it. `None` if the call has no deadline.
fn held_max(call: &Call, world: &env::World) -> Option<Duration> {
    let (timeout, deadline) = (call.timeout?, call.deadline?);
    let margin = (timeout / 10).min(ANSWER_MARGIN_MAX);
    Some(deadline.before(margin).since(world.moment()))
}

fn now(message: &impl Message) -> Answer {
    Answer::Now(Ok(Reply::of(message)))
}

fn answer(outcome: Outcomes) -> Answer {
    Answer::Now(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_replica_answers_what_reads_and_refuses_what_changes() {
        let refused: Vec<&str> =
            HANDLERS.into_iter().flatten().map(|(name, _)| *name).filter(|name| !reads(name)).collect();
        // Examples of both kinds. `reads` decides by a method's name. So a new method that changes nothing must begin
        // with a known verb or be in its list; otherwise a read replica refuses it.
        for change in [
            "CreateTable",
            "DeleteTable",
            "ModifyTable",
            "MoveRegion",
            "SplitRegion",
            "Snapshot",
            "SetBalancerRunning",
            "truncateTable",
            "FlushTable",
            "ExecProcedure",
            "RunCatalogScan",
            "Balance",
            "Normalize",
            "SwitchRpcThrottle",
            "OfflineRegion",
            "FlushMasterStore",
            "DecommissionRegionServers",
            "ReplicationPeerModificationSwitch",
        ] {
            assert!(refused.contains(&change), "{change}");
        }
        for read in [
            "GetTableDescriptors",
            "IsMasterRunning",
            "getProcedureResult",
            "ListNamespaces",
            "StopMaster",
            "RefreshMeta",
            "IsReplicationPeerModificationEnabled",
        ] {
            assert!(!refused.contains(&read), "{read}");
        }
    }

    #[test]
    fn every_method_has_one_handler() {
        let names: Vec<&str> = HANDLERS.into_iter().flatten().map(|(name, _)| *name).collect();
        let once: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(once.len(), names.len());
        for name in names {
            assert!(crate::absent::answer(name).is_none(), "{name} is here and absent");
        }
    }
}
