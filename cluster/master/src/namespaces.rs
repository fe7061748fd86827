//! Namespaces: rows of hbase:namespace.
//!
//! A write that fails may still take place, as the writes of [`crate::doubt`]. Then the namespace is noted as in doubt. The next
//! change of it, the next creation of a table in it, or the chore within ten seconds writes it again as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use proto::descriptor::sanity::FOLDER_NAME_MAX;
use proto::table_name::{DEFAULT_NAMESPACE, SYSTEM_NAMESPACE, check_namespace};
use proto::{EncodedName, TableName, pb};
use rpc::{Exception, class};

use crate::Master;
use crate::error::of_proto;
use crate::interrupted::namespace_state;
use crate::procedure::locks::LockSet;
use crate::procedure::{NonceKey, Parameters, ProcedureId, ProcedureKind, Submission};

impl Master {
    /// Submits the procedure that creates a namespace, and returns its id.
    pub(crate) fn create_namespace(
        self: &Arc<Self>,
        namespace: &pb::NamespaceDescriptor,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let (name, namespace) = (name_of(namespace)?, namespace.clone());
        let parameters = Parameters::create_namespace(&namespace);
        let after = Some(namespace_state(&namespace));
        let id = self.submit_namespace(
            ProcedureKind::CreateNamespace,
            &name.clone(),
            nonce,
            after,
            move |master, region| {
                if master.read_view(|view| view.namespaces.contains_key(&name)) {
                    return Err(Exception::new(
                        class::NAMESPACE_EXISTS,
                        format!("Namespace {name} already exists"),
                    ));
                }
                master.put_namespace(region, &namespace)?;
                master.update_view(|view| view.namespaces.insert(name, namespace));
                Ok(())
            },
        )?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Submits the procedure that changes a namespace's configuration, and returns its id.
    pub(crate) fn modify_namespace(
        self: &Arc<Self>,
        namespace: &pb::NamespaceDescriptor,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let (name, namespace) = (name_of(namespace)?, namespace.clone());
        let parameters = Parameters::modify_namespace(self.namespace(&name).ok().as_ref(), &namespace);
        let id = self.submit_namespace(
            ProcedureKind::ModifyNamespace,
            &name.clone(),
            nonce,
            Some(namespace_state(&namespace)),
            move |master, region| {
                if !master.read_view(|view| view.namespaces.contains_key(&name)) {
                    return Err(not_found(&name));
                }
                master.put_namespace(region, &namespace)?;
                master.update_view(|view| view.namespaces.insert(name, namespace));
                Ok(())
            },
        )?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Submits the procedure that deletes an empty namespace, and returns its id.
    pub(crate) fn delete_namespace(
        self: &Arc<Self>,
        name: &str,
        nonce: Option<NonceKey>,
    ) -> Result<ProcedureId, Exception> {
        let name = name.to_owned();
        let parameters = Parameters::delete_namespace(&name, self.namespace(&name).ok().as_ref());
        let id = self.submit_namespace(
            ProcedureKind::DeleteNamespace,
            &name.clone(),
            nonce,
            None,
            move |master, region| {
                let namespace = master.remove_empty_namespace(&name)?;
                master.catalog.remove_namespace(region, &name).inspect_err(|_| {
                    master.namespaces_in_doubt.lock().insert(name.clone());
                    if let Some(namespace) = namespace {
                        master.update_view(|view| view.namespaces.insert(name.clone(), namespace));
                    }
                })
            },
        )?;
        self.procedures.describe(id, parameters);
        Ok(id)
    }

    /// Removes a namespace without tables from the view, and returns it. Fails if it has tables, also if these cannot be served
    /// now.
    fn remove_empty_namespace(&self, name: &str) -> Result<Option<pb::NamespaceDescriptor>, Exception> {
        // A table that comes into reach meanwhile is in this list, in the view, or in both.
        let mut hidden: BTreeSet<TableName> = self.unreachable_tables.read().keys().cloned().collect();
        hidden.extend(self.left_out.lock().iter().cloned());
        hidden.retain(|table| table.namespace() == name);
        // The tables are counted under the same lock under which the namespace is removed. So no table can be created in it
        // afterwards.
        self.update_view(|view| {
            if !view.namespaces.contains_key(name) {
                return Err(not_found(name));
            }
            if matches!(name, DEFAULT_NAMESPACE | SYSTEM_NAMESPACE) {
                let words = format!("Reserved namespace {name} cannot be removed.");
                return Err(Exception::new(class::CONSTRAINT, words));
            }
            hidden.retain(|table| !view.tables.contains_key(table));
            let count = view.count_in(name) + hidden.len();
            if count == 0 {
                return Ok(view.namespaces.remove(name));
            }
            let mut words =
                format!("Only empty namespaces can be removed. Namespace {name} has {count} tables");
            if let Some(table) = hidden.first() {
                words += &format!(", of which this server cannot serve {}; {table} is one", hidden.len());
            }
            Err(Exception::new(class::CONSTRAINT, words))
        })
    }

    /// Returns the namespace `name`; fails with HBase's `NamespaceNotFoundException` if there is none.
    pub(crate) fn namespace(&self, name: &str) -> Result<pb::NamespaceDescriptor, Exception> {
        self.read_view(|view| view.namespaces.get(name).cloned()).ok_or_else(|| not_found(name))
    }

    /// Returns all namespaces, by name.
    pub(crate) fn namespaces(&self) -> Vec<pb::NamespaceDescriptor> {
        self.read_view(|view| view.namespaces.values().cloned().collect())
    }

    /// Returns the only region of hbase:namespace. Fails with HBase's `PleaseHoldException` until the start has opened
    /// it.
    pub(crate) fn namespace_region(&self) -> Result<EncodedName, Exception> {
        let found = self.read_view(|view| {
            let table = view.tables.get(&TableName::namespaces())?;
            table.serving().next().map(|row| row.region.encoded_name().clone())
        });
        found.ok_or_else(|| {
            Exception::new(
                class::PLEASE_HOLD,
                "Table Namespace Manager not fully initialized, try again later",
            )
        })
    }

    /// Writes a namespace to hbase:namespace. The caller then changes the view.
    fn put_namespace(
        &self,
        region: &EncodedName,
        namespace: &pb::NamespaceDescriptor,
    ) -> Result<(), Exception> {
        self.catalog.put_namespace(region, namespace).inspect_err(|_| {
            let name = String::from_utf8_lossy(&namespace.name).into_owned();
            self.namespaces_in_doubt.lock().insert(name);
        })
    }

    /// Makes sure that a change of the namespace that failed does not take place later, as once a full disk has room: writes
    /// the namespace again as the view has it. The log takes all writes in their order, so this one is the last. The caller
    /// has the lock of the namespace, at least shared.
    pub(crate) fn settle_namespace(&self, name: &str) -> Result<(), Exception> {
        if !self.namespaces_in_doubt.lock().contains(name) {
            return Ok(());
        }
        let region = self.namespace_region()?;
        let settled = match self.read_view(|view| view.namespaces.get(name).cloned()) {
            Some(namespace) => self.catalog.put_namespace(&region, &namespace),
            None => self.catalog.remove_namespace(&region, name),
        };
        settled.map_err(|cause| {
            let message = format!(
                "a change of namespace {name} has failed and cannot be ruled out yet, so nothing is done in it; call again \
                 when hbase:namespace can be written: {}",
                cause.message
            );
            Exception { message, ..cause }
        })?;
        self.namespaces_in_doubt.lock().remove(name);
        Ok(())
    }

    /// Submits a procedure without a change for each namespace that is in doubt, which settles it.
    pub(crate) fn settle_namespaces(self: &Arc<Self>) {
        let names = self.namespaces_in_doubt.lock().clone();
        for name in names {
            let settled = self.submit_namespace(ProcedureKind::CarryOn, &name, None, None, |_, _| Ok(()));
            if let Err(cause) = settled {
                tracing::warn!(namespace = name, %cause, "a failed change is not ruled out yet; it is tried again");
            }
        }
    }

    fn submit_namespace(
        self: &Arc<Self>,
        kind: ProcedureKind,
        name: &str,
        nonce: Option<NonceKey>,
        after: Option<Bytes>,
        work: impl FnOnce(&Master, &EncodedName) -> Result<(), Exception> + Send + 'static,
    ) -> Result<ProcedureId, Exception> {
        let master = Arc::clone(self);
        let target = self.target(kind, name, after);
        let submission = Submission { kind, locks: LockSet::namespace(name), nonce, target };
        let name = name.to_owned();
        self.procedures.submit(submission, move |context| {
            context.pass_point_of_no_return()?;
            let region = master.namespace_region()?;
            master.settle_namespace(&name)?;
            work(&master, &region)?;
            Ok(Bytes::new())
        })
    }
}

fn name_of(namespace: &pb::NamespaceDescriptor) -> Result<String, Exception> {
    let name = String::from_utf8_lossy(&namespace.name).into_owned();
    check_namespace(&name).map_err(of_proto)?;
    if name.len() > FOLDER_NAME_MAX {
        let length = name.len();
        return Err(Exception::do_not_retry(format!(
            "the namespace's name has {length} bytes, file systems take at most {FOLDER_NAME_MAX}"
        )));
    }
    Ok(name)
}

fn not_found(name: &str) -> Exception {
    Exception::new(class::NAMESPACE_NOT_FOUND, name)
}
