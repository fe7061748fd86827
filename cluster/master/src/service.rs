//! `MasterService`: from a method's name and message to the master's acts, and back.
//!
//! What reads the master's picture of the cluster is answered at once; what changes something is checked, submitted as a
//! procedure and answered with its id; what must wait for the disk leaves the thread that serves sockets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use proto::pb;
use rpc::{Answer, Call, Exception, Reply, Service, class};

use crate::procedure::{NonceKey, Outcome, ProcedureId};
use crate::switches::Switch;
use crate::{Master, Selection};

/// Answers the calls of `MasterService`.
#[derive(Debug)]
pub struct MasterService {
    master: Arc<Master>,
}

impl MasterService {
    /// The service of `master`.
    pub fn new(master: Arc<Master>) -> MasterService {
        MasterService { master }
    }
}

/// How long clients poll a procedure of the older kind whose answer was not held to its end, in ms. HBase's number.
const PROCEDURE_TIMEOUT_MS: i64 = 60_000;

/// An answer that is held for the end of a procedure goes out before the client's time is over: a tenth of that time, but
/// no more than this.
const ANSWER_MARGIN_MAX: Duration = Duration::from_secs(1);

type Outcomes = Result<Reply, Exception>;

/// Runs `act` away from the thread that serves sockets: it may wait for the disk.
fn away(act: impl FnOnce() -> Outcomes + Send + 'static) -> Answer {
    Answer::later(env::blocking(act))
}

impl Service for MasterService {
    fn call(&self, call: Call) -> Answer {
        let master = &self.master;
        match call.method.as_str() {
            "IsMasterRunning" => now(&pb::IsMasterRunningResponse { is_master_running: true }),
            "GetClusterStatus" => self.with(call, |master, request: pb::GetClusterStatusRequest| {
                Ok(Reply::of(&pb::GetClusterStatusResponse {
                    cluster_status: crate::status::of(master, &request.options),
                }))
            }),

            "CreateTable" => self.with(call, |master, request: pb::CreateTableRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                let id = master.create_table(&request.table_schema, &request.split_keys, nonce)?;
                Ok(Reply::of(&pb::CreateTableResponse { proc_id: Some(id.0) }))
            }),
            "DeleteTable" => self.with(call, |master, request: pb::DeleteTableRequest| {
                let id = master
                    .delete_table(&request.table_name, NonceKey::of(request.nonce_group, request.nonce))?;
                Ok(Reply::of(&pb::DeleteTableResponse { proc_id: Some(id.0) }))
            }),
            "EnableTable" => self.with(call, |master, request: pb::EnableTableRequest| {
                let id = master
                    .enable_table(&request.table_name, NonceKey::of(request.nonce_group, request.nonce))?;
                Ok(Reply::of(&pb::EnableTableResponse { proc_id: Some(id.0) }))
            }),
            "DisableTable" => self.with(call, |master, request: pb::DisableTableRequest| {
                let id = master
                    .disable_table(&request.table_name, NonceKey::of(request.nonce_group, request.nonce))?;
                Ok(Reply::of(&pb::DisableTableResponse { proc_id: Some(id.0) }))
            }),
            "truncateTable" => self.with_end(
                call,
                |master, request: pb::TruncateTableRequest| {
                    let nonce = NonceKey::of(request.nonce_group, request.nonce);
                    let preserve = request.preserve_splits.unwrap_or(false);
                    master.truncate_table(&request.table_name, preserve, nonce)
                },
                |id| Reply::of(&pb::TruncateTableResponse { proc_id: Some(id.0) }),
            ),
            "ModifyTable" => self.with_end(
                call,
                |master, request: pb::ModifyTableRequest| {
                    let nonce = NonceKey::of(request.nonce_group, request.nonce);
                    master.modify_table(&request.table_name, &request.table_schema, nonce)
                },
                |id| Reply::of(&pb::ModifyTableResponse { proc_id: Some(id.0) }),
            ),
            "AddColumn" => self.with_end(
                call,
                |master, request: pb::AddColumnRequest| {
                    let nonce = NonceKey::of(request.nonce_group, request.nonce);
                    master.add_family(&request.table_name, &request.column_families, nonce)
                },
                |id| Reply::of(&pb::AddColumnResponse { proc_id: Some(id.0) }),
            ),
            "ModifyColumn" => self.with_end(
                call,
                |master, request: pb::ModifyColumnRequest| {
                    let nonce = NonceKey::of(request.nonce_group, request.nonce);
                    master.modify_family(&request.table_name, &request.column_families, nonce)
                },
                |id| Reply::of(&pb::ModifyColumnResponse { proc_id: Some(id.0) }),
            ),
            "DeleteColumn" => self.with_end(
                call,
                |master, request: pb::DeleteColumnRequest| {
                    let nonce = NonceKey::of(request.nonce_group, request.nonce);
                    master.delete_family(&request.table_name, &request.column_name, nonce)
                },
                |id| Reply::of(&pb::DeleteColumnResponse { proc_id: Some(id.0) }),
            ),
            "GetSchemaAlterStatus" => self.with(call, |master, request: pb::GetSchemaAlterStatusRequest| {
                let (waiting, all) = master.alter_status(&request.table_name)?;
                Ok(Reply::of(&pb::GetSchemaAlterStatusResponse {
                    yet_to_update_regions: Some(waiting),
                    total_regions: Some(all),
                }))
            }),
            "FlushTable" => self.with(call, |master, request: pb::FlushTableRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                let id = master.flush_table(&request.table_name, &request.column_family, nonce)?;
                Ok(Reply::of(&pb::FlushTableResponse { proc_id: Some(id.0) }))
            }),
            "getProcedureResult" => answer(
                call.decode()
                    .map(|request: pb::GetProcedureResultRequest| procedure_result(master, &request)),
            ),
            "AbortProcedure" => now(&pb::AbortProcedureResponse { is_procedure_aborted: false }),
            "GetProcedures" => now(&pb::GetProceduresResponse { procedure: Vec::new() }),
            "GetLocks" => now(&pb::GetLocksResponse { lock: Vec::new() }),
            "ExecProcedure" => self.with_end(
                call,
                |master, request: pb::ExecProcedureRequest| master.execute(&request.procedure),
                |_| {
                    Reply::of(&pb::ExecProcedureResponse {
                        expected_timeout: Some(PROCEDURE_TIMEOUT_MS),
                        return_data: None,
                    })
                },
            ),
            // HBase has another class for a signature that is not known here.
            "ExecProcedureWithRet" => self.with_end(
                call,
                |master, request: pb::ExecProcedureRequest| {
                    master.execute(&request.procedure).map_err(|refused| Exception::io(refused.message))
                },
                |_| Reply::of(&pb::ExecProcedureResponse::default()),
            ),
            "IsProcedureDone" => self.with(call, |master, request: pb::IsProcedureDoneRequest| {
                let Some(procedure) = request.procedure else {
                    return Err(Exception::do_not_retry("the request names no procedure"));
                };
                let done = master.is_done(&procedure)?;
                Ok(Reply::of(&pb::IsProcedureDoneResponse { done: Some(done), snapshot: Some(procedure) }))
            }),

            "GetTableDescriptors" => self.with(call, |master, request: pb::GetTableDescriptorsRequest| {
                let selection = Selection {
                    names: &request.table_names,
                    regex: request.regex.as_deref(),
                    namespace: request.namespace.as_deref(),
                    system: request.include_sys_tables.unwrap_or(false),
                };
                Ok(Reply::of(&pb::GetTableDescriptorsResponse {
                    table_schema: master.descriptors(&selection)?,
                }))
            }),
            "GetTableNames" => self.with(call, |master, request: pb::GetTableNamesRequest| {
                let selection = Selection {
                    names: &[],
                    regex: request.regex.as_deref(),
                    namespace: request.namespace.as_deref(),
                    system: request.include_sys_tables.unwrap_or(false),
                };
                Ok(Reply::of(&pb::GetTableNamesResponse { table_names: master.table_names(&selection)? }))
            }),
            "GetTableState" => self.with(call, |master, request: pb::GetTableStateRequest| {
                let state = master.table_state(&request.table_name)?;
                Ok(Reply::of(&pb::GetTableStateResponse {
                    table_state: pb::TableState { state: state as i32 },
                }))
            }),
            "ListTableDescriptorsByState" => {
                self.with(call, |master, request: pb::ListTableDescriptorsByStateRequest| {
                    let table_schema = master.descriptors_by_state(request.is_enabled);
                    Ok(Reply::of(&pb::ListTableDescriptorsByStateResponse { table_schema }))
                })
            }
            "ListTableNamesByState" => {
                self.with(call, |master, request: pb::ListTableNamesByStateRequest| {
                    let table_names = master.names_by_state(request.is_enabled);
                    Ok(Reply::of(&pb::ListTableNamesByStateResponse { table_names }))
                })
            }
            "getLastMajorCompactionTimestamp" => {
                self.with(call, |master, request: pb::MajorCompactionTimestampRequest| {
                    let compaction_timestamp = master.last_major_compaction(&request.table_name)?;
                    Ok(Reply::of(&pb::MajorCompactionTimestampResponse { compaction_timestamp }))
                })
            }
            "getLastMajorCompactionTimestampForRegion" => {
                self.with(call, |master, request: pb::MajorCompactionTimestampForRegionRequest| {
                    let compaction_timestamp = master.last_major_compaction_of_region(&request.region)?;
                    Ok(Reply::of(&pb::MajorCompactionTimestampResponse { compaction_timestamp }))
                })
            }

            "CreateNamespace" => self.with(call, |master, request: pb::CreateNamespaceRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                let id = master.create_namespace(&request.namespace_descriptor, nonce)?;
                Ok(Reply::of(&pb::CreateNamespaceResponse { proc_id: Some(id.0) }))
            }),
            "ModifyNamespace" => self.with(call, |master, request: pb::ModifyNamespaceRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                let id = master.modify_namespace(&request.namespace_descriptor, nonce)?;
                Ok(Reply::of(&pb::ModifyNamespaceResponse { proc_id: Some(id.0) }))
            }),
            "DeleteNamespace" => self.with(call, |master, request: pb::DeleteNamespaceRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                let id = master.delete_namespace(&request.namespace_name, nonce)?;
                Ok(Reply::of(&pb::DeleteNamespaceResponse { proc_id: Some(id.0) }))
            }),
            "GetNamespaceDescriptor" => {
                self.with(call, |master, request: pb::GetNamespaceDescriptorRequest| {
                    let namespace_descriptor = master.namespace(&request.namespace_name)?;
                    Ok(Reply::of(&pb::GetNamespaceDescriptorResponse { namespace_descriptor }))
                })
            }
            "ListNamespaceDescriptors" => {
                now(&pb::ListNamespaceDescriptorsResponse { namespace_descriptor: master.namespaces() })
            }
            "ListNamespaces" => {
                let names = master.namespaces().into_iter();
                let namespace_name =
                    names.map(|one| String::from_utf8_lossy(&one.name).into_owned()).collect();
                now(&pb::ListNamespacesResponse { namespace_name })
            }
            "ListTableDescriptorsByNamespace" => {
                self.with(call, |master, request: pb::ListTableDescriptorsByNamespaceRequest| {
                    master.namespace(&request.namespace_name)?;
                    let selection = Selection::of_namespace(&request.namespace_name);
                    let table_schema = master.descriptors(&selection)?;
                    Ok(Reply::of(&pb::ListTableDescriptorsByNamespaceResponse { table_schema }))
                })
            }
            "ListTableNamesByNamespace" => {
                self.with(call, |master, request: pb::ListTableNamesByNamespaceRequest| {
                    master.namespace(&request.namespace_name)?;
                    let table_name = master.table_names(&Selection::of_namespace(&request.namespace_name))?;
                    Ok(Reply::of(&pb::ListTableNamesByNamespaceResponse { table_name }))
                })
            }

            "MoveRegion" => self.with_end(
                call,
                |master, request: pb::MoveRegionRequest| {
                    master.move_region(&request.region, request.dest_server_name.as_ref())
                },
                |_| Reply::of(&pb::MoveRegionResponse {}),
            ),
            "AssignRegion" => self.with_end(
                call,
                |master, request: pb::AssignRegionRequest| master.assign_region(&request.region),
                |_| Reply::of(&pb::AssignRegionResponse {}),
            ),
            "UnassignRegion" => self.with_end(
                call,
                |master, request: pb::UnassignRegionRequest| master.unassign_region(&request.region),
                |_| Reply::of(&pb::UnassignRegionResponse {}),
            ),
            "TruncateRegion" => self.with(call, |master, request: pb::TruncateRegionRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                let id = master.truncate_region(&request.region_info, nonce)?;
                Ok(Reply::of(&pb::TruncateRegionResponse { proc_id: Some(id.0) }))
            }),

            "Balance" => now(&pb::BalanceResponse {
                // One server: a run that finds nothing to move.
                balancer_ran: master.switches.is_on(Switch::Balancer),
                moves_calculated: Some(0),
                moves_executed: Some(0),
            }),
            "SetBalancerRunning" => self.with(call, |master, request: pb::SetBalancerRunningRequest| {
                let before = master.switch(Switch::Balancer, request.on)?;
                Ok(Reply::of(&pb::SetBalancerRunningResponse { prev_balance_value: Some(before) }))
            }),
            "IsBalancerEnabled" => {
                now(&pb::IsBalancerEnabledResponse { enabled: master.switches.is_on(Switch::Balancer) })
            }
            "Normalize" => {
                now(&pb::NormalizeResponse { normalizer_ran: master.switches.is_on(Switch::Normalizer) })
            }
            "SetNormalizerRunning" => self.with(call, |master, request: pb::SetNormalizerRunningRequest| {
                let before = master.switch(Switch::Normalizer, request.on)?;
                Ok(Reply::of(&pb::SetNormalizerRunningResponse { prev_normalizer_value: Some(before) }))
            }),
            "IsNormalizerEnabled" => {
                now(&pb::IsNormalizerEnabledResponse { enabled: master.switches.is_on(Switch::Normalizer) })
            }
            "SetSplitOrMergeEnabled" => {
                self.with(call, |master, request: pb::SetSplitOrMergeEnabledRequest| {
                    let mut prev_value = Vec::new();
                    for kind in request.switch_types() {
                        prev_value.push(master.switch(switch_of(kind), request.enabled)?);
                    }
                    Ok(Reply::of(&pb::SetSplitOrMergeEnabledResponse { prev_value }))
                })
            }
            "IsSplitOrMergeEnabled" => {
                answer(call.decode().map(|request: pb::IsSplitOrMergeEnabledRequest| {
                    let enabled = master.switches.is_on(switch_of(request.switch_type()));
                    Reply::of(&pb::IsSplitOrMergeEnabledResponse { enabled })
                }))
            }
            "RunCatalogScan" => now(&pb::RunCatalogScanResponse { scan_result: Some(0) }),
            "EnableCatalogJanitor" => self.with(call, |master, request: pb::EnableCatalogJanitorRequest| {
                let before = master.switch(Switch::CatalogJanitor, request.enable)?;
                Ok(Reply::of(&pb::EnableCatalogJanitorResponse { prev_value: Some(before) }))
            }),
            "IsCatalogJanitorEnabled" => now(&pb::IsCatalogJanitorEnabledResponse {
                value: master.switches.is_on(Switch::CatalogJanitor),
            }),
            "RunCleanerChore" => now(&pb::RunCleanerChoreResponse {
                cleaner_chore_ran: master.switches.is_on(Switch::Cleaner),
            }),
            "SetCleanerChoreRunning" => {
                self.with(call, |master, request: pb::SetCleanerChoreRunningRequest| {
                    let before = master.switch(Switch::Cleaner, request.on)?;
                    Ok(Reply::of(&pb::SetCleanerChoreRunningResponse { prev_value: Some(before) }))
                })
            }
            "IsCleanerChoreEnabled" => {
                now(&pb::IsCleanerChoreEnabledResponse { value: master.switches.is_on(Switch::Cleaner) })
            }
            "SwitchSnapshotCleanup" => self.with(call, |master, request: pb::SetSnapshotCleanupRequest| {
                let prev_snapshot_cleanup = master.switch(Switch::SnapshotCleanup, request.enabled)?;
                Ok(Reply::of(&pb::SetSnapshotCleanupResponse { prev_snapshot_cleanup }))
            }),
            "IsSnapshotCleanupEnabled" => now(&pb::IsSnapshotCleanupEnabledResponse {
                enabled: master.switches.is_on(Switch::SnapshotCleanup),
            }),
            "ModifyTableStoreFileTracker" => {
                self.with(call, |master, request: pb::ModifyTableStoreFileTrackerRequest| {
                    let nonce = NonceKey::of(request.nonce_group, request.nonce);
                    let id = master.change_tracker(&request.table_name, &request.dst_sft, nonce)?;
                    Ok(Reply::of(&pb::ModifyTableStoreFileTrackerResponse { proc_id: Some(id.0) }))
                })
            }
            "ModifyColumnStoreFileTracker" => {
                self.with(call, |master, request: pb::ModifyColumnStoreFileTrackerRequest| {
                    let nonce = NonceKey::of(request.nonce_group, request.nonce);
                    let id = master.change_tracker(&request.table_name, &request.dst_sft, nonce)?;
                    Ok(Reply::of(&pb::ModifyColumnStoreFileTrackerResponse { proc_id: Some(id.0) }))
                })
            }
            // These three as HBase answers when quotas are not enabled.
            "SwitchRpcThrottle" => {
                now(&pb::SwitchRpcThrottleResponse { previous_rpc_throttle_enabled: false })
            }
            "SwitchExceedThrottleQuota" => {
                now(&pb::SwitchExceedThrottleQuotaResponse { previous_exceed_throttle_quota_enabled: false })
            }
            "IsRpcThrottleEnabled" => now(&pb::IsRpcThrottleEnabledResponse { rpc_throttle_enabled: false }),

            "getSecurityCapabilities" => now(&pb::SecurityCapabilitiesResponse {
                capabilities: vec![
                    pb::security_capabilities_response::Capability::SimpleAuthentication as i32,
                ],
            }),
            "IsMasterInMaintenanceMode" => {
                now(&pb::IsInMaintenanceModeResponse { in_maintenance_mode: false })
            }
            "GetCompletedSnapshots" => now(&pb::GetCompletedSnapshotsResponse { snapshots: Vec::new() }),
            "ListReplicationPeers" => now(&pb::ListReplicationPeersResponse { peer_desc: Vec::new() }),
            "ListDecommissionedRegionServers" => {
                now(&pb::ListDecommissionedRegionServersResponse { server_name: Vec::new() })
            }
            "ClearDeadServers" => answer(call.decode().map(|request: pb::ClearDeadServersRequest| {
                // What could not be cleared comes back: no server here is dead.
                Reply::of(&pb::ClearDeadServersResponse { server_name: request.server_name })
            })),
            "ExecMasterService" => answer(Err(Exception::new(
                class::UNKNOWN_PROTOCOL,
                "no master coprocessor endpoint is registered here",
            ))),
            // One process: who stops the master, or shuts the cluster down, ends it. The answer goes out first.
            "Shutdown" => {
                tracing::info!(client = %call.connection.remote, "shut down by a client's request");
                master.regions.stop();
                now(&pb::ShutdownResponse {})
            }
            "StopMaster" => {
                tracing::info!(client = %call.connection.remote, "stopped by a client's request");
                master.regions.stop();
                now(&pb::StopMasterResponse {})
            }
            method => match crate::absent::answer(method) {
                Some(outcome) => answer(outcome),
                None => Exception::unknown_method("MasterService", method).into(),
            },
        }
    }
}

impl MasterService {
    /// Decodes the parameter and acts away from the serving thread.
    fn with<M: Message + Default + 'static>(
        &self,
        call: Call,
        act: impl FnOnce(&Arc<Master>, M) -> Outcomes + Send + 'static,
    ) -> Answer {
        match call.decode::<M>() {
            Ok(request) => {
                let master = Arc::clone(&self.master);
                away(move || act(&master, request))
            }
            Err(exception) => exception.into(),
        }
    }

    /// Decodes the parameter, submits a procedure and answers when it has ended, with its exception if it failed. HBase
    /// does so for changes after which clients go on without a question. When the client's time is nearly over the
    /// procedure's id is the answer: the procedure goes on, and the client may poll it.
    fn with_end<M: Message + Default + 'static>(
        &self,
        call: Call,
        submit: impl FnOnce(&Arc<Master>, M) -> Result<ProcedureId, Exception> + Send + 'static,
        reply: fn(ProcedureId) -> Reply,
    ) -> Answer {
        let request = match call.decode::<M>() {
            Ok(request) => request,
            Err(exception) => return exception.into(),
        };
        let master = Arc::clone(&self.master);
        Answer::later(async move {
            let submitter = Arc::clone(&master);
            let id = env::blocking(move || submit(&submitter, request)).await?;
            let end = master.procedures.end_of(id);
            let ended = match held_max(&call, &master.world) {
                Some(limit) => env::timeout(limit, end).await.flatten(),
                None => end.await,
            };
            match ended {
                Some(Err(exception)) => Err(exception),
                Some(Ok(_)) | None => Ok(reply(id)),
            }
        })
    }
}

/// How long the answer to a call may be held, counted from now: the client, which waits until `deadline`, must still get it.
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

fn switch_of(kind: pb::MasterSwitchType) -> Switch {
    match kind {
        pb::MasterSwitchType::Split => Switch::Split,
        pb::MasterSwitchType::Merge => Switch::Merge,
    }
}

fn procedure_result(master: &Master, request: &pb::GetProcedureResultRequest) -> Reply {
    use pb::get_procedure_result_response::State;
    let milliseconds = |time: env::WallTime| u64::try_from(time.0).ok();
    let mut response = pb::GetProcedureResultResponse { state: State::NotFound as i32, ..Default::default() };
    match master.procedures.outcome(ProcedureId(request.proc_id)) {
        None => {}
        Some(Outcome::Running { submitted }) => {
            response.state = State::Running as i32;
            response.submitted_time = milliseconds(submitted);
            response.last_update = milliseconds(submitted);
        }
        Some(Outcome::Finished { submitted, ended, result }) => {
            response.state = State::Finished as i32;
            response.submitted_time = milliseconds(submitted);
            response.last_update = milliseconds(ended);
            match result {
                Ok(result) => response.result = Some(result).filter(|result: &Bytes| !result.is_empty()),
                Err(exception) => {
                    response.exception = Some(pb::ForeignExceptionMessage {
                        source: Some("master".to_owned()),
                        generic_exception: Some(pb::GenericExceptionMessage {
                            class_name: Some(exception.class.into_owned()),
                            message: Some(exception.message),
                            ..Default::default()
                        }),
                    });
                }
            }
        }
    }
    Reply::of(&response)
}
