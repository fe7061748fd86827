//! Handlers of calls that switch chores on and off, or run them once.

use proto::pb;
use rpc::Reply;

use super::{Handler, answer, now, with};
use crate::selection::Selection;
use crate::switches::Switch;

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("Balance", |master, _| {
        now(&pb::BalanceResponse {
            // There is only one server, so a run of the balancer finds nothing to move.
            balancer_ran: master.switches.is_on(Switch::Balancer),
            moves_calculated: Some(0),
            moves_executed: Some(0),
        })
    }),
    ("SetBalancerRunning", |master, call| {
        with(master, call, |master, request: pb::SetBalancerRunningRequest| {
            let before = master.switch(Switch::Balancer, request.on)?;
            Ok(Reply::of(&pb::SetBalancerRunningResponse { prev_balance_value: Some(before) }))
        })
    }),
    ("IsBalancerEnabled", |master, _| {
        now(&pb::IsBalancerEnabledResponse { enabled: master.switches.is_on(Switch::Balancer) })
    }),
    ("Normalize", |master, call| {
        with(master, call, |master, request: pb::NormalizeRequest| {
            let selection = Selection {
                names: &request.table_names,
                regex: request.regex.as_deref(),
                namespace: request.namespace.as_deref(),
                system: false,
            };
            let normalizer_ran = master.normalize(&selection, true)?;
            Ok(Reply::of(&pb::NormalizeResponse { normalizer_ran }))
        })
    }),
    ("SetNormalizerRunning", |master, call| {
        with(master, call, |master, request: pb::SetNormalizerRunningRequest| {
            let before = master.switch(Switch::Normalizer, request.on)?;
            Ok(Reply::of(&pb::SetNormalizerRunningResponse { prev_normalizer_value: Some(before) }))
        })
    }),
    ("IsNormalizerEnabled", |master, _| {
        now(&pb::IsNormalizerEnabledResponse { enabled: master.switches.is_on(Switch::Normalizer) })
    }),
    ("SetSplitOrMergeEnabled", |master, call| {
        with(master, call, |master, request: pb::SetSplitOrMergeEnabledRequest| {
            let mut prev_value = Vec::new();
            for kind in request.switch_types() {
                prev_value.push(master.switch(switch_of(kind), request.enabled)?);
            }
            Ok(Reply::of(&pb::SetSplitOrMergeEnabledResponse { prev_value }))
        })
    }),
    ("IsSplitOrMergeEnabled", |master, call| {
        answer(call.decode().map(|request: pb::IsSplitOrMergeEnabledRequest| {
            let enabled = master.switches.is_on(switch_of(request.switch_type()));
            Reply::of(&pb::IsSplitOrMergeEnabledResponse { enabled })
        }))
    }),
    ("RunCatalogScan", |master, call| {
        with(master, call, |master, _: pb::RunCatalogScanRequest| {
            let collected = i32::try_from(master.collect_parents()?).unwrap_or(i32::MAX);
            Ok(Reply::of(&pb::RunCatalogScanResponse { scan_result: Some(collected) }))
        })
    }),
    ("EnableCatalogJanitor", |master, call| {
        with(master, call, |master, request: pb::EnableCatalogJanitorRequest| {
            let before = master.switch(Switch::CatalogJanitor, request.enable)?;
            Ok(Reply::of(&pb::EnableCatalogJanitorResponse { prev_value: Some(before) }))
        })
    }),
    ("IsCatalogJanitorEnabled", |master, _| {
        now(&pb::IsCatalogJanitorEnabledResponse { value: master.switches.is_on(Switch::CatalogJanitor) })
    }),
    ("RunCleanerChore", |master, _| {
        now(&pb::RunCleanerChoreResponse { cleaner_chore_ran: master.switches.is_on(Switch::Cleaner) })
    }),
    ("SetCleanerChoreRunning", |master, call| {
        with(master, call, |master, request: pb::SetCleanerChoreRunningRequest| {
            let before = master.switch(Switch::Cleaner, request.on)?;
            Ok(Reply::of(&pb::SetCleanerChoreRunningResponse { prev_value: Some(before) }))
        })
    }),
    ("IsCleanerChoreEnabled", |master, _| {
        now(&pb::IsCleanerChoreEnabledResponse { value: master.switches.is_on(Switch::Cleaner) })
    }),
    // The next three calls are answered as HBase answers them when quotas are not enabled.
    ("SwitchRpcThrottle", |_, _| {
        now(&pb::SwitchRpcThrottleResponse { previous_rpc_throttle_enabled: false })
    }),
    ("SwitchExceedThrottleQuota", |_, _| {
        now(&pb::SwitchExceedThrottleQuotaResponse { previous_exceed_throttle_quota_enabled: false })
    }),
    ("IsRpcThrottleEnabled", |_, _| now(&pb::IsRpcThrottleEnabledResponse { rpc_throttle_enabled: false })),
];

fn switch_of(kind: pb::MasterSwitchType) -> Switch {
    match kind {
        pb::MasterSwitchType::Split => Switch::Split,
        pb::MasterSwitchType::Merge => Switch::Merge,
    }
}
