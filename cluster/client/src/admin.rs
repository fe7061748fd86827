//! Administration: tables, namespaces and cluster status.
//!
//! The master runs changes as procedures. The answer to a request has the procedure's id, and the client then asks for
//! the result until the procedure has ended. If that takes longer than
//! [`Options::operation_max`](crate::Options::operation_max), the client gives up, and the procedure continues.

use std::time::Duration;

use bytes::Bytes;
use proto::catalog::TableState;
use proto::{FamilyDescriptor, RegionInfo, ServerName, TableDescriptor, TableName, catalog, pb};
use rpc::{Exception, class};

use crate::cluster::specifier;
use crate::{Cluster, Error, Get, Location, Result};

/// The first pause between two polls of a procedure; it doubles with each poll.
const POLL_MIN: Duration = Duration::from_millis(5);
/// The maximum pause between two polls of a procedure.
const POLL_MAX: Duration = Duration::from_millis(500);

/// The administration of a cluster. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Admin {
    pub(crate) cluster: Cluster,
}

impl Admin {
    pub(crate) fn new(cluster: Cluster) -> Admin {
        Admin { cluster }
    }

    /// Returns a nonce group and a nonce, by which the master recognizes a retry.
    pub(crate) fn nonce(&self) -> (Option<u64>, Option<u64>) {
        (Some(self.cluster.0.nonce_group), Some(self.cluster.0.world.random()))
    }

    /// Creates a table, pre-split at the given keys.
    pub async fn create_table(&self, table: &TableDescriptor, split_keys: &[Bytes]) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::CreateTableRequest {
            table_schema: table.into(),
            split_keys: split_keys.to_vec(),
            nonce_group,
            nonce,
        };
        let answer: pb::CreateTableResponse = self.cluster.on_master("CreateTable", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Enables a table.
    pub async fn enable_table(&self, table: &TableName) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::EnableTableRequest { table_name: table.into(), nonce_group, nonce };
        let answer: pb::EnableTableResponse = self.cluster.on_master("EnableTable", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Disables a table.
    pub async fn disable_table(&self, table: &TableName) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::DisableTableRequest { table_name: table.into(), nonce_group, nonce };
        let answer: pb::DisableTableResponse = self.cluster.on_master("DisableTable", &request).await?;
        self.finished(answer.proc_id).await?;
        self.cluster.forget(table);
        Ok(())
    }

    /// Deletes a table, which must be disabled.
    pub async fn delete_table(&self, table: &TableName) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::DeleteTableRequest { table_name: table.into(), nonce_group, nonce };
        let answer: pb::DeleteTableResponse = self.cluster.on_master("DeleteTable", &request).await?;
        self.finished(answer.proc_id).await?;
        self.cluster.forget(table);
        Ok(())
    }

    /// Truncates a table. It must be disabled and is enabled afterwards.
    pub async fn truncate_table(&self, table: &TableName, preserve_splits: bool) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::TruncateTableRequest {
            table_name: table.into(),
            preserve_splits: Some(preserve_splits),
            nonce_group,
            nonce,
        };
        let answer: pb::TruncateTableResponse = self.cluster.on_master("truncateTable", &request).await?;
        self.finished(answer.proc_id).await?;
        self.cluster.forget(table);
        Ok(())
    }

    /// Removes all rows of a region. Its table must be enabled.
    pub async fn truncate_region(&self, region: &RegionInfo) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::TruncateRegionRequest { region_info: region.into(), nonce_group, nonce };
        let answer: pb::TruncateRegionResponse = self.cluster.on_master("TruncateRegion", &request).await?;
        self.finished(answer.proc_id).await?;
        Ok(())
    }

    /// Splits a region at `row`, or in the middle of its data.
    pub async fn split_region(&self, region: &RegionInfo, row: Option<Bytes>) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request =
            pb::SplitTableRegionRequest { region_info: region.into(), split_row: row, nonce_group, nonce };
        let answer: pb::SplitTableRegionResponse = self.cluster.on_master("SplitRegion", &request).await?;
        self.finished(answer.proc_id).await?;
        self.cluster.forget(region.table());
        Ok(())
    }

    /// Merges regions of one table. They must be neighbours, in order of their keys, unless the merge is `forcible`.
    pub async fn merge_regions(&self, regions: &[RegionInfo], forcible: bool) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::MergeTableRegionsRequest {
            region: regions.iter().map(specifier).collect(),
            forcible: Some(forcible),
            nonce_group,
            nonce,
        };
        let answer: pb::MergeTableRegionsResponse =
            self.cluster.on_master("MergeTableRegions", &request).await?;
        self.finished(answer.proc_id).await?;
        regions.iter().for_each(|region| self.cluster.forget(region.table()));
        Ok(())
    }

    /// Replaces a table's descriptor.
    pub async fn modify_table(&self, table: &TableDescriptor) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::ModifyTableRequest {
            table_name: table.name().into(),
            table_schema: table.into(),
            nonce_group,
            nonce,
            reopen_regions: Some(true),
        };
        let answer: pb::ModifyTableResponse = self.cluster.on_master("ModifyTable", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Adds a family.
    pub async fn add_family(&self, table: &TableName, family: &FamilyDescriptor) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::AddColumnRequest {
            table_name: table.into(),
            column_families: family.into(),
            nonce_group,
            nonce,
        };
        let answer: pb::AddColumnResponse = self.cluster.on_master("AddColumn", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Replaces a family's descriptor.
    pub async fn modify_family(&self, table: &TableName, family: &FamilyDescriptor) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::ModifyColumnRequest {
            table_name: table.into(),
            column_families: family.into(),
            nonce_group,
            nonce,
        };
        let answer: pb::ModifyColumnResponse = self.cluster.on_master("ModifyColumn", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Changes the store file tracker of a table, or of one of its families, to FILE or DEFAULT.
    pub async fn change_tracker(
        &self,
        table: &TableName,
        family: Option<&[u8]>,
        tracker: &str,
    ) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let (table_name, dst_sft) = (table.into(), tracker.to_owned());
        let procedure = match family {
            None => {
                let request =
                    pb::ModifyTableStoreFileTrackerRequest { table_name, dst_sft, nonce_group, nonce };
                let answer: pb::ModifyTableStoreFileTrackerResponse =
                    self.cluster.on_master("ModifyTableStoreFileTracker", &request).await?;
                answer.proc_id
            }
            Some(family) => {
                let family = Bytes::copy_from_slice(family);
                let request = pb::ModifyColumnStoreFileTrackerRequest {
                    table_name,
                    family,
                    dst_sft,
                    nonce_group,
                    nonce,
                };
                let answer: pb::ModifyColumnStoreFileTrackerResponse =
                    self.cluster.on_master("ModifyColumnStoreFileTracker", &request).await?;
                answer.proc_id
            }
        };
        self.finished(procedure).await
    }

    /// Deletes a family with its data.
    pub async fn delete_family(&self, table: &TableName, family: impl Into<Bytes>) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::DeleteColumnRequest {
            table_name: table.into(),
            column_name: family.into(),
            nonce_group,
            nonce,
        };
        let answer: pb::DeleteColumnResponse = self.cluster.on_master("DeleteColumn", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Lists the names of all user tables.
    pub async fn tables(&self) -> Result<Vec<TableName>> {
        let request = pb::GetTableNamesRequest::default();
        let answer: pb::GetTableNamesResponse = self.cluster.on_master("GetTableNames", &request).await?;
        answer.table_names.iter().map(|name| Ok(TableName::try_from(name)?)).collect()
    }

    /// Returns a table's descriptor; `None` when the table does not exist.
    pub async fn describe_table(&self, table: &TableName) -> Result<Option<TableDescriptor>> {
        let request = pb::GetTableDescriptorsRequest {
            table_names: vec![table.into()],
            include_sys_tables: Some(table.is_system()),
            ..pb::GetTableDescriptorsRequest::default()
        };
        let answer: pb::GetTableDescriptorsResponse =
            self.cluster.on_master("GetTableDescriptors", &request).await?;
        answer
            .table_schema
            .into_iter()
            .next()
            .map(|schema| Ok(TableDescriptor::try_from(schema)?))
            .transpose()
    }

    /// Returns a table's state from hbase:meta; `None` when the table does not exist.
    pub async fn table_state(&self, table: &TableName) -> Result<Option<TableState>> {
        if table.is_meta() {
            return Ok(Some(TableState::Enabled));
        }
        let meta = self.cluster.table("hbase:meta")?;
        let row = meta.get(Get::row(Bytes::copy_from_slice(table.as_bytes())).family(catalog::TABLE)).await?;
        row.table_state()
    }

    /// Whether a table exists.
    pub async fn table_exists(&self, table: &TableName) -> Result<bool> {
        Ok(self.table_state(table).await?.is_some())
    }

    /// Flushes a table's memstores to files.
    pub async fn flush(&self, table: &TableName) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request =
            pb::FlushTableRequest { table_name: table.into(), column_family: Vec::new(), nonce_group, nonce };
        let answer: Result<pb::FlushTableResponse> = self.cluster.on_master("FlushTable", &request).await;
        match answer {
            Ok(answer) => self.finished(answer.proc_id).await,
            // Masters before HBase 2.6 do not know this call. Then the client flushes each region.
            Err(Error::Remote(exception)) if exception.message.contains(class::UNSUPPORTED_OPERATION) => {
                for location in self.cluster.locations(table).await? {
                    self.flush_region(&location).await?;
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until a read replica has the tables that its primary had at the time of the call, with all of their
    /// acknowledged writes.
    pub async fn refresh_meta(&self) -> Result<()> {
        let request = pb::RefreshMetaRequest {};
        let answer: pb::RefreshMetaResponse = self.cluster.on_master("RefreshMeta", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Waits until a read replica has all writes that its primary had acknowledged before the call, in all tables.
    pub async fn refresh_hfiles(&self) -> Result<()> {
        let request = pb::RefreshHFilesRequest {};
        let answer: pb::RefreshHFilesResponse = self.cluster.on_master("RefreshHFiles", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Asks a read replica to become the primary. Returns `true` if it is the primary already. Otherwise it begins to
    /// become the primary, and answers as the primary once it has taken over the log.
    pub async fn promote_replica(&self) -> Result<bool> {
        let request = pb::PromoteReplicaRequest {};
        let answer: pb::PromoteReplicaResponse = self.cluster.on_master("PromoteReplica", &request).await?;
        Ok(answer.was_primary)
    }

    async fn flush_region(&self, location: &Location) -> Result<()> {
        let request = pb::FlushRegionRequest {
            region: specifier(&location.region),
            ..pb::FlushRegionRequest::default()
        };
        let _flushed: pb::FlushRegionResponse =
            self.cluster.on_server(&location.server, "AdminService", "FlushRegion", &request).await?;
        Ok(())
    }

    /// Requests a compaction of every region of a table, a major one if `major`. Returns before the compactions end.
    pub async fn compact(&self, table: &TableName, major: bool) -> Result<()> {
        for location in self.cluster.locations(table).await? {
            let request = pb::CompactRegionRequest {
                region: specifier(&location.region),
                major: Some(major),
                family: None,
            };
            let _begun: pb::CompactRegionResponse =
                self.cluster.on_server(&location.server, "AdminService", "CompactRegion", &request).await?;
        }
        Ok(())
    }

    /// Returns the regions of a table in key order, with their servers.
    pub async fn regions(&self, table: &TableName) -> Result<Vec<Location>> {
        self.cluster.locations(table).await
    }

    /// Returns the load of each region of a table, as its server reports it now.
    pub async fn region_loads(&self, table: &TableName) -> Result<Vec<pb::RegionLoad>> {
        let mut servers: Vec<_> =
            self.cluster.locations(table).await?.into_iter().map(|location| location.server).collect();
        servers.sort();
        servers.dedup();
        let request = pb::GetRegionLoadRequest { table_name: Some(table.into()) };
        let mut loads = Vec::new();
        for server in servers {
            let answer: pb::GetRegionLoadResponse =
                self.cluster.on_server(&server, "AdminService", "GetRegionLoad", &request).await?;
            loads.extend(answer.region_loads);
        }
        Ok(loads)
    }

    /// Creates a namespace.
    pub async fn create_namespace(&self, name: &str, configuration: &[(&str, &str)]) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let configuration = configuration
            .iter()
            .map(|(name, value)| pb::NameStringPair { name: (*name).to_owned(), value: (*value).to_owned() })
            .collect();
        let request = pb::CreateNamespaceRequest {
            namespace_descriptor: pb::NamespaceDescriptor {
                name: Bytes::copy_from_slice(name.as_bytes()),
                configuration,
            },
            nonce_group,
            nonce,
        };
        let answer: pb::CreateNamespaceResponse = self.cluster.on_master("CreateNamespace", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Deletes a namespace, which must be empty.
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        let (nonce_group, nonce) = self.nonce();
        let request = pb::DeleteNamespaceRequest { namespace_name: name.to_owned(), nonce_group, nonce };
        let answer: pb::DeleteNamespaceResponse = self.cluster.on_master("DeleteNamespace", &request).await?;
        self.finished(answer.proc_id).await
    }

    /// Lists the names of all namespaces.
    pub async fn namespaces(&self) -> Result<Vec<String>> {
        let request = pb::ListNamespacesRequest::default();
        let answer: pb::ListNamespacesResponse = self.cluster.on_master("ListNamespaces", &request).await?;
        Ok(answer.namespace_name)
    }

    /// Returns the cluster status.
    pub async fn cluster_status(&self) -> Result<pb::ClusterStatus> {
        let request = pb::GetClusterStatusRequest::default();
        let answer: pb::GetClusterStatusResponse =
            self.cluster.on_master("GetClusterStatus", &request).await?;
        Ok(answer.cluster_status)
    }

    /// Makes every live region server read its configuration again. Keys that act on a running server have their new
    /// values when this returns.
    pub async fn update_configuration(&self) -> Result<()> {
        let status = self.cluster_status().await?;
        for live in status.live_servers {
            let server = ServerName::try_from(&live.server)?;
            let request = pb::UpdateConfigurationRequest {};
            let _read: pb::UpdateConfigurationResponse =
                self.cluster.on_server(&server, "AdminService", "UpdateConfiguration", &request).await?;
        }
        Ok(())
    }

    /// Makes the master compare hbase:meta, the open regions and their folders now. The master's web page shows the
    /// result.
    pub async fn run_self_check(&self) -> Result<()> {
        let request = pb::RunHbckChoreRequest {};
        let _ran: pb::RunHbckChoreResponse =
            self.cluster.on_master_service("HbckService", "RunHbckChore", &request).await?;
        Ok(())
    }

    /// Waits until a procedure has ended, for the time limit of an operation at most. Fails with the procedure's
    /// exception if it failed. If the master returned no procedure id, the work was finished when it answered.
    pub(crate) async fn finished(&self, id: Option<u64>) -> Result<()> {
        use pb::get_procedure_result_response::State;
        let Some(id) = id else { return Ok(()) };
        let world = &self.cluster.0.world;
        let (started, mut pause) = (world.moment(), POLL_MIN);
        loop {
            let request = pb::GetProcedureResultRequest { proc_id: id };
            let answer: pb::GetProcedureResultResponse =
                self.cluster.on_master("getProcedureResult", &request).await?;
            let failed = |exception| Err(Error::Procedure { id, exception });
            let (state, exception) = (answer.state(), answer.exception);
            match (state, exception.and_then(|message| message.generic_exception)) {
                (State::Running, _) => {}
                (_, Some(generic)) => {
                    let (class, message) = (generic.class_name().to_owned(), generic.message().to_owned());
                    return failed(Exception::new(class, message));
                }
                (State::Finished, None) => return Ok(()),
                (State::NotFound, None) => {
                    return failed(Exception::io("the master does not know it any more".to_owned()));
                }
            }
            let elapsed = world.moment().since(started);
            if elapsed > self.cluster.0.options.operation_max {
                let last =
                    Box::new(Error::Procedure { id, exception: Exception::io("it still runs".to_owned()) });
                return Err(Error::GivenUp { tries: 1, elapsed, last });
            }
            env::sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
        }
    }
}
