//! The services of a region server.

use std::sync::Arc;

use rpc::Services;

use crate::{
    AdminService, BootstrapNodeService, ClientMetaService, ClientService, ClusterView, RegionServer,
};

/// Returns the services of `server`, by the names that clients use. They answer questions about the cluster from
/// `view`, with at most `nodes_max` bootstrap addresses.
pub fn services(server: &Arc<RegionServer>, view: &Arc<ClusterView>, nodes_max: usize) -> Services {
    Services::new()
        .with("ClientService", Arc::new(ClientService::new(Arc::clone(server))))
        .with("AdminService", Arc::new(AdminService::new(Arc::clone(server))))
        .with("ClientMetaService", Arc::new(ClientMetaService::new(Arc::clone(view), nodes_max)))
        .with("BootstrapNodeService", Arc::new(BootstrapNodeService::new(Arc::clone(view))))
}
