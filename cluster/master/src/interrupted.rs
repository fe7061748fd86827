//! Decides how procedures ended that a crash interrupted.
//!
//! A procedure's record has the state of its target before the change and, if it is known in advance, after it
//! ([`ProcedureTarget`]). When a start has carried out all intents, it compares both with the state that it finds:
//!
//! | state found | outcome of the procedure |
//! |---|---|
//! | as before the change | an exception: it was interrupted; a repeated submission with its nonce begins it again |
//! | as after the change | success |
//! | any other, or an intent of the target is left | an exception: its outcome is unknown |
//!
//! A procedure stores its outcome before it releases its locks, so no later procedure has changed the state. But a
//! procedure may have waited for another one with the same target, which changed the state after the record was made.
//! Then the state before the change shows nothing, and an unknown outcome is more likely.

use std::collections::BTreeSet;

use bytes::Bytes;
use prost::Message;
use proto::catalog::TableState;
use proto::{EncodedName, TableDescriptor, TableName, pb};

use crate::Master;
use crate::procedure::records::ProcedureTarget;
use crate::procedure::{self, InterruptedProcedure, ProcedureKind};

/// The state of a region that serves rows.
const SERVES: &[u8] = b"serves";
/// The state of a region that was split.
const SPLIT: &[u8] = b"split";
/// The state of a region that was merged into another.
const MERGED: &[u8] = b"merged";
/// The state of a snapshot that exists.
const EXISTS: &[u8] = b"exists";

impl Master {
    /// Returns the target of a procedure that is about to be submitted; `None` if procedures of its kind have no
    /// record. `name` is a table, a namespace, a snapshot or an encoded name of a region, as `kind` needs. `after` is
    /// the state after the change, if it depends on more than the kind.
    pub(crate) fn target(
        &self,
        kind: ProcedureKind,
        name: &str,
        after: Option<Bytes>,
    ) -> Option<ProcedureTarget> {
        if !kind.is_recorded() {
            return None;
        }
        let after = after.or_else(|| {
            let state = |state: TableState| Bytes::from_static(state.as_str_name().as_bytes());
            match kind {
                ProcedureKind::Enable => Some(state(TableState::Enabled)),
                ProcedureKind::Disable => Some(state(TableState::Disabled)),
                ProcedureKind::Delete | ProcedureKind::DeleteNamespace => Some(Bytes::new()),
                ProcedureKind::Split => Some(Bytes::from_static(SPLIT)),
                ProcedureKind::Merge => Some(Bytes::from_static(MERGED)),
                _ => None,
            }
        });
        let before = self.target_state(kind, name).unwrap_or_default();
        Some(ProcedureTarget { name: name.to_owned(), before, after })
    }

    /// Decides how the procedures ended that a crash interrupted. `truncated` are the regions whose truncation this
    /// start has completed.
    pub(crate) fn decide_interrupted(&self, truncated: &BTreeSet<EncodedName>) {
        let found = self.procedures.interrupted();
        let outcome = |procedure: &InterruptedProcedure| {
            let InterruptedProcedure { id, kind, ref target, is_alone } = *procedure;
            match self.target_state(kind, &target.name) {
                _ if kind == ProcedureKind::TruncateRegion
                    && truncated.iter().any(|region| region.as_str() == target.name) =>
                {
                    Some(Ok(Bytes::new()))
                }
                _ if self.is_unfinished(&target.name) => Some(Err(procedure::unknown(id))),
                Some(now) if now == target.before && is_alone => None,
                // The other procedure may have made the change: created the namespace with the same configuration, or
                // split or merged the region.
                _ if !is_alone
                    && matches!(
                        kind,
                        ProcedureKind::CreateNamespace | ProcedureKind::Split | ProcedureKind::Merge
                    ) =>
                {
                    Some(Err(procedure::unknown(id)))
                }
                Some(now) if target.after.as_ref() == Some(&now) && now != target.before => {
                    Some(Ok(Bytes::new()))
                }
                // If the procedure is not alone, the change may be another one's.
                Some(now) if target.after.is_none() && !now.is_empty() && is_alone => Some(Ok(Bytes::new())),
                _ => Some(Err(procedure::unknown(id))),
            }
        };
        let mut outcomes = Vec::new();
        for procedure in &found {
            let outcome = outcome(procedure);
            let made = match &outcome {
                None => "no",
                Some(Ok(_)) => "yes",
                Some(Err(_)) => "unknown",
            };
            let InterruptedProcedure { id, kind, target, .. } = procedure;
            let (kind, target) = (kind.label(), &target.name);
            tracing::warn!(
                pid = id.0,
                kind,
                target,
                made,
                "a crash interrupted the procedure; was its change made?"
            );
            outcomes.push((*id, outcome));
        }
        self.procedures.decide(outcomes);
    }

    /// Whether an intent of the thing is left, or its table cannot be read.
    fn is_unfinished(&self, name: &str) -> bool {
        let is_of = |intent: &crate::intents::Intent| {
            let mut regions = intent.regions().unwrap_or_default().iter();
            intent.table().to_string() == name || regions.any(|region| region.encoded_name().as_str() == name)
        };
        self.intents.all().iter().any(is_of)
            || self.unreachable_tables.read().keys().any(|table| table.to_string() == name)
    }

    /// Returns the state of a procedure's target, as far as the procedure changes it; empty if the target does not
    /// exist. `None` if the state does not show whether the change was made.
    fn target_state(&self, kind: ProcedureKind, name: &str) -> Option<Bytes> {
        let table = || name.parse::<TableName>().ok();
        match kind {
            ProcedureKind::Create
            | ProcedureKind::Clone
            | ProcedureKind::Restore
            | ProcedureKind::Truncate
            | ProcedureKind::Delete => {
                let table = table()?;
                let first = self.read_view(|view| {
                    let row = view.tables.get(&table)?.regions.first()?;
                    Some(Bytes::copy_from_slice(row.region.encoded_name().as_str().as_bytes()))
                });
                Some(first.unwrap_or_default())
            }
            ProcedureKind::Enable | ProcedureKind::Disable => {
                let table = table()?;
                let state = self.read_view(|view| view.tables.get(&table).map(|table| table.state));
                Some(state.map_or(Bytes::new(), |state| Bytes::from_static(state.as_str_name().as_bytes())))
            }
            ProcedureKind::Alter | ProcedureKind::ModifyTracker | ProcedureKind::ModifyFamilyTracker => {
                let table = table()?;
                self.read_view(|view| {
                    Some(
                        view.tables.get(&table).map_or(Bytes::new(), |table| schema_state(&table.descriptor)),
                    )
                })
            }
            ProcedureKind::CreateNamespace
            | ProcedureKind::ModifyNamespace
            | ProcedureKind::DeleteNamespace => {
                self.read_view(|view| Some(view.namespaces.get(name).map_or(Bytes::new(), namespace_state)))
            }
            ProcedureKind::Snapshot => match self.snapshot_info(name) {
                Ok(Some(_)) => Some(Bytes::from_static(EXISTS)),
                Ok(None) => Some(Bytes::new()),
                Err(_) => None,
            },
            ProcedureKind::Split | ProcedureKind::Merge => self.read_view(|view| {
                let is_parent = |region: &proto::RegionInfo| region.encoded_name().as_str() == name;
                let mut rows = view.tables.values().flat_map(|table| &table.regions);
                if rows.clone().any(|row| row.merged_from.iter().any(is_parent)) {
                    return Some(Bytes::from_static(MERGED));
                }
                let row = rows.find(|row| is_parent(&row.region))?;
                Some(Bytes::from_static(if row.region.is_split() { SPLIT } else { SERVES }))
            }),
            _ => None,
        }
    }
}

/// Returns the state of a table with this schema, for procedures that change the schema.
pub(crate) fn schema_state(table: &TableDescriptor) -> Bytes {
    digest(&pb::TableSchema::from(table).encode_to_vec())
}

/// Returns the state of a namespace.
pub(crate) fn namespace_state(namespace: &pb::NamespaceDescriptor) -> Bytes {
    digest(&namespace.encode_to_vec())
}

/// Returns the length and the FNV-1a hash of `bytes`, so that records stay small.
fn digest(bytes: &[u8]) -> Bytes {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    [(bytes.len() as u64).to_be_bytes(), hash.to_be_bytes()].concat().into()
}
