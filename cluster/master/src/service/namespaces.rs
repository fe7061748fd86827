//! Handlers of calls about namespaces.

use proto::pb;
use rpc::Reply;

use super::{Handler, now, with, with_end};
use crate::Selection;
use crate::procedure::NonceKey;

pub(super) const HANDLERS: &[(&str, Handler)] = &[
    ("CreateNamespace", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::CreateNamespaceRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                master.create_namespace(&request.namespace_descriptor, nonce)
            },
            |id| Reply::of(&pb::CreateNamespaceResponse { proc_id: Some(id.0) }),
        )
    }),
    ("ModifyNamespace", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::ModifyNamespaceRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                master.modify_namespace(&request.namespace_descriptor, nonce)
            },
            |id| Reply::of(&pb::ModifyNamespaceResponse { proc_id: Some(id.0) }),
        )
    }),
    ("DeleteNamespace", |master, call| {
        with_end(
            master,
            call,
            |master, request: pb::DeleteNamespaceRequest| {
                let nonce = NonceKey::of(request.nonce_group, request.nonce);
                master.delete_namespace(&request.namespace_name, nonce)
            },
            |id| Reply::of(&pb::DeleteNamespaceResponse { proc_id: Some(id.0) }),
        )
    }),
    ("GetNamespaceDescriptor", |master, call| {
        with(master, call, |master, request: pb::GetNamespaceDescriptorRequest| {
            let namespace_descriptor = master.namespace(&request.namespace_name)?;
            Ok(Reply::of(&pb::GetNamespaceDescriptorResponse { namespace_descriptor }))
        })
    }),
    ("ListNamespaceDescriptors", |master, _| {
        now(&pb::ListNamespaceDescriptorsResponse { namespace_descriptor: master.namespaces() })
    }),
    ("ListNamespaces", |master, _| {
        let names = master.namespaces().into_iter();
        let namespace_name = names.map(|one| String::from_utf8_lossy(&one.name).into_owned()).collect();
        now(&pb::ListNamespacesResponse { namespace_name })
    }),
    ("ListTableDescriptorsByNamespace", |master, call| {
        with(master, call, |master, request: pb::ListTableDescriptorsByNamespaceRequest| {
            master.namespace(&request.namespace_name)?;
            let selection = Selection::of_namespace(&request.namespace_name);
            let table_schema = master.descriptors(&selection)?;
            Ok(Reply::of(&pb::ListTableDescriptorsByNamespaceResponse { table_schema }))
        })
    }),
    ("ListTableNamesByNamespace", |master, call| {
        with(master, call, |master, request: pb::ListTableNamesByNamespaceRequest| {
            master.namespace(&request.namespace_name)?;
            let table_name = master.table_names(&Selection::of_namespace(&request.namespace_name))?;
            Ok(Reply::of(&pb::ListTableNamesByNamespaceResponse { table_name }))
        })
    }),
];
