//! Handlers of calls about tables, their schemas and their states.

use proto::pb;
use rpc::Reply;

use super::{Handler, with, with_end};
use crate::Selection;
use crate::procedure::NonceKey;

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("CreateTable", |master, call| {
        with(master, call, |master, request: pb::CreateTableRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            let id = master.create_table(&request.table_schema, &request.split_keys, nonce)?;
            Ok(Reply::of(&pb::CreateTableResponse { proc_id: Some(id.0) }))
        })
    }),
    ("DeleteTable", |master, call| {
        with(master, call, |master, request: pb::DeleteTableRequest| {
            let id =
                master.delete_table(&request.table_name, NonceKey::of(request.nonce_group, request.nonce))?;
            Ok(Reply::of(&pb::DeleteTableResponse { proc_id: Some(id.0) }))
        })
    }),
    ("EnableTable", |master, call| {
        with(master, call, |master, request: pb::EnableTableRequest| {
            let id =
                master.enable_table(&request.table_name, NonceKey::of(request.nonce_group, request.nonce))?;
            Ok(Reply::of(&pb::EnableTableResponse { proc_id: Some(id.0) }))
        })
    }),
    ("DisableTable", |master, call| {
        with(master, call, |master, request: pb::DisableTableRequest| {
            let id = master
                .disable_table(&request.table_name, NonceKey::of(request.nonce_group, request.nonce))?;
            Ok(Reply::of(&pb::DisableTableResponse { proc_id: Some(id.0) }))
        })
    }),
    ("truncateTable", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::TruncateTableRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                let preserve = request.preserve_splits.unwrap_or(false);
                master.truncate_table(&request.table_name, preserve, nonce)
            },
            |id| Reply::of(&pb::TruncateTableResponse { proc_id: Some(id.0) }),
        )
    }),
    ("ModifyTable", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::ModifyTableRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                match request.reopen_regions.unwrap_or(true) {
                    true => master.modify_table(&request.table_name, &request.table_schema, nonce),
                    false => master.modify_table_without_reopening(
                        &request.table_name,
                        &request.table_schema,
                        nonce,
                    ),
                }
            },
            |id| Reply::of(&pb::ModifyTableResponse { proc_id: Some(id.0) }),
        )
    }),
    ("AddColumn", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::AddColumnRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                master.add_family(&request.table_name, &request.column_families, nonce)
            },
            |id| Reply::of(&pb::AddColumnResponse { proc_id: Some(id.0) }),
        )
    }),
    ("ModifyColumn", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::ModifyColumnRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                master.modify_family(&request.table_name, &request.column_families, nonce)
            },
            |id| Reply::of(&pb::ModifyColumnResponse { proc_id: Some(id.0) }),
        )
    }),
    ("DeleteColumn", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::DeleteColumnRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                master.delete_family(&request.table_name, &request.column_name, nonce)
            },
            |id| Reply::of(&pb::DeleteColumnResponse { proc_id: Some(id.0) }),
        )
    }),
    ("GetSchemaAlterStatus", |master, call| {
        with(master, call, |master, request: pb::GetSchemaAlterStatusRequest| {
            let (waiting, all) = master.alter_status(&request.table_name)?;
            Ok(Reply::of(&pb::GetSchemaAlterStatusResponse {
                yet_to_update_regions: Some(waiting),
                total_regions: Some(all),
            }))
        })
    }),
    ("FlushTable", |master, call| {
        with(master, call, |master, request: pb::FlushTableRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            let id = master.flush_table(&request.table_name, &request.column_family, nonce)?;
            Ok(Reply::of(&pb::FlushTableResponse { proc_id: Some(id.0) }))
        })
    }),
    ("GetTableDescriptors", |master, call| {
        with(master, call, |master, request: pb::GetTableDescriptorsRequest| {
            let selection = Selection {
                names: &request.table_names,
                regex: request.regex.as_deref(),
                namespace: request.namespace.as_deref(),
                system: request.include_sys_tables.unwrap_or(false),
            };
            Ok(Reply::of(&pb::GetTableDescriptorsResponse { table_schema: master.descriptors(&selection)? }))
        })
    }),
    ("GetTableNames", |master, call| {
        with(master, call, |master, request: pb::GetTableNamesRequest| {
            let selection = Selection {
                names: &[],
                regex: request.regex.as_deref(),
                namespace: request.namespace.as_deref(),
                system: request.include_sys_tables.unwrap_or(false),
            };
            Ok(Reply::of(&pb::GetTableNamesResponse { table_names: master.table_names(&selection)? }))
        })
    }),
    ("GetTableState", |master, call| {
        with(master, call, |master, request: pb::GetTableStateRequest| {
            let state = master.table_state(&request.table_name)?;
            Ok(Reply::of(&pb::GetTableStateResponse { table_state: pb::TableState { state: state as i32 } }))
        })
    }),
    ("ListTableDescriptorsByState", |master, call| {
        with(master, call, |master, request: pb::ListTableDescriptorsByStateRequest| {
            let table_schema = master.descriptors_by_state(request.is_enabled);
            Ok(Reply::of(&pb::ListTableDescriptorsByStateResponse { table_schema }))
        })
    }),
    ("ListTableNamesByState", |master, call| {
        with(master, call, |master, request: pb::ListTableNamesByStateRequest| {
            let table_names = master.names_by_state(request.is_enabled);
            Ok(Reply::of(&pb::ListTableNamesByStateResponse { table_names }))
        })
    }),
    ("getLastMajorCompactionTimestamp", |master, call| {
        with(master, call, |master, request: pb::MajorCompactionTimestampRequest| {
            let compaction_timestamp = master.last_major_compaction(&request.table_name)?;
            Ok(Reply::of(&pb::MajorCompactionTimestampResponse { compaction_timestamp }))
        })
    }),
    ("ModifyTableStoreFileTracker", |master, call| {
        with(master, call, |master, request: pb::ModifyTableStoreFileTrackerRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            let id = master.change_tracker(&request.table_name, None, &request.dst_sft, nonce)?;
            Ok(Reply::of(&pb::ModifyTableStoreFileTrackerResponse { proc_id: Some(id.0) }))
        })
    }),
    ("ModifyColumnStoreFileTracker", |master, call| {
        with(master, call, |master, request: pb::ModifyColumnStoreFileTrackerRequest| {
            let nonce = NonceKey::of(request.nonce_group, request.nonce);
            let family = Some(&request.family);
            let id = master.change_tracker(&request.table_name, family, &request.dst_sft, nonce)?;
            Ok(Reply::of(&pb::ModifyColumnStoreFileTrackerResponse { proc_id: Some(id.0) }))
        })
    }),
];
