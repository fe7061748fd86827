//! ClientMetaService and BootstrapNodeService, by which a client that knows one address finds the other servers.
//!
//! Masters and region servers answer from a [`ClusterView`], which the master keeps up to date.

use std::sync::Arc;

use arc_swap::ArcSwap;
use proto::{RegionInfo, ServerName, pb};
use rpc::{Answer, Call, Exception, Reply, Service, class};

/// The location of a replica of hbase:meta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaLocation {
    /// The region that is the replica.
    pub region: RegionInfo,
    /// The server of the replica; `None` while it is not assigned.
    pub server: Option<ServerName>,
    /// The sequence id with which the replica was opened.
    pub open_sequence: u64,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    cluster_id: Option<String>,
    active_master: Option<ServerName>,
    backup_masters: Vec<ServerName>,
    meta: Vec<MetaLocation>,
    region_servers: Vec<ServerName>,
}

/// The cluster's id, masters and region servers, and the locations of hbase:meta. One writer at a time changes the
/// view; readers never wait.
#[derive(Debug, Default)]
pub struct ClusterView {
    seen: ArcSwap<Seen>,
}

impl ClusterView {
    /// Creates an empty view.
    pub fn new() -> ClusterView {
        ClusterView::default()
    }

    /// Creates the view of a cluster whose master and only region server share a process. `meta` is where hbase:meta is
    /// served.
    pub fn of_one_process(cluster_id: &str, master: &ServerName, meta: MetaLocation) -> ClusterView {
        let seen = Seen {
            cluster_id: Some(cluster_id.to_owned()),
            active_master: Some(master.clone()),
            backup_masters: Vec::new(),
            region_servers: meta.server.iter().cloned().collect(),
            meta: vec![meta],
        };
        ClusterView { seen: ArcSwap::from_pointee(seen) }
    }

    fn change(&self, change: impl Fn(&mut Seen)) {
        self.seen.rcu(|seen| {
            let mut seen = Seen::clone(seen);
            change(&mut seen);
            seen
        });
    }

    /// Sets the cluster's id.
    pub fn set_cluster_id(&self, id: impl Into<String>) {
        let id = id.into();
        self.change(|seen| seen.cluster_id = Some(id.clone()));
    }

    /// Sets the active master, if there is one, and the backup masters.
    pub fn set_masters(&self, active: Option<ServerName>, backup: Vec<ServerName>) {
        self.change(|seen| (seen.active_master, seen.backup_masters) = (active.clone(), backup.clone()));
    }

    /// Sets the locations of hbase:meta and its replicas.
    pub fn set_meta(&self, locations: Vec<MetaLocation>) {
        self.change(|seen| seen.meta = locations.clone());
    }

    /// Sets the live region servers.
    pub fn set_region_servers(&self, servers: Vec<ServerName>) {
        self.change(|seen| seen.region_servers = servers.clone());
    }

    /// Returns the cluster's id; `None` until it was set.
    pub fn cluster_id(&self) -> Option<String> {
        self.seen.load().cluster_id.clone()
    }

    /// Returns the active master; `None` if there is none.
    pub fn active_master(&self) -> Option<ServerName> {
        self.seen.load().active_master.clone()
    }

    /// Returns the locations of hbase:meta and its replicas.
    pub fn meta(&self) -> Vec<MetaLocation> {
        self.seen.load().meta.clone()
    }

    /// Returns the live region servers.
    pub fn region_servers(&self) -> Vec<ServerName> {
        self.seen.load().region_servers.clone()
    }
}

/// Responds to clients that use `RpcConnectionRegistry`.
#[derive(Clone, Debug)]
pub struct ClientMetaService {
    view: Arc<ClusterView>,
    nodes_max: usize,
}

impl ClientMetaService {
    /// Creates a service that responds from `view`, with at most `nodes_max` bootstrap addresses.
    pub fn new(view: Arc<ClusterView>, nodes_max: usize) -> ClientMetaService {
        ClientMetaService { view, nodes_max }
    }

    fn answer(&self, call: &Call) -> Result<Reply, Exception> {
        let seen = self.view.seen.load();
        match &*call.method {
            "GetClusterId" => Ok(Reply::of(&pb::GetClusterIdResponse {
                cluster_id: Some(seen.cluster_id.clone().ok_or_else(|| unknown("the cluster's id"))?),
            })),
            "GetActiveMaster" => Ok(Reply::of(&pb::GetActiveMasterResponse {
                server_name: seen.active_master.as_ref().map(Into::into),
            })),
            "GetMasters" => {
                let entry = |name: &ServerName, is_active| pb::GetMastersResponseEntry {
                    server_name: name.into(),
                    is_active,
                };
                let active = seen.active_master.iter().map(|name| entry(name, true));
                let backup = seen.backup_masters.iter().map(|name| entry(name, false));
                Ok(Reply::of(&pb::GetMastersResponse { master_servers: active.chain(backup).collect() }))
            }
            "GetMetaRegionLocations" => Ok(Reply::of(&pb::GetMetaRegionLocationsResponse {
                meta_locations: seen.meta.iter().map(location).collect(),
            })),
            "GetBootstrapNodes" => {
                let nodes = seen.region_servers.iter().take(self.nodes_max);
                Ok(Reply::of(&pb::GetBootstrapNodesResponse { server_name: nodes.map(Into::into).collect() }))
            }
            method => Err(Exception::unknown_method("ClientMetaService", method)),
        }
    }
}

fn unknown(what: &str) -> Exception {
    Exception::new(class::SERVER_NOT_RUNNING_YET, format!("{what} is not known yet"))
}

fn location(location: &MetaLocation) -> pb::RegionLocation {
    pb::RegionLocation {
        region_info: (&location.region).into(),
        server_name: location.server.as_ref().map(Into::into),
        seq_num: i64::try_from(location.open_sequence).unwrap_or(i64::MAX),
    }
}

impl Service for ClientMetaService {
    fn call(&self, call: Call) -> Answer {
        self.answer(&call).into()
    }
}

/// Responds to region servers that look for each other.
#[derive(Clone, Debug)]
pub struct BootstrapNodeService {
    view: Arc<ClusterView>,
}

impl BootstrapNodeService {
    /// Creates a service that responds from `view`.
    pub fn new(view: Arc<ClusterView>) -> BootstrapNodeService {
        BootstrapNodeService { view }
    }
}

impl Service for BootstrapNodeService {
    fn call(&self, call: Call) -> Answer {
        match &*call.method {
            "GetAllBootstrapNodes" => {
                let seen = self.view.seen.load();
                let node = seen.region_servers.iter().map(Into::into).collect();
                Ok(Reply::of(&pb::GetAllBootstrapNodesResponse { node })).into()
            }
            method => Exception::unknown_method("BootstrapNodeService", method).into(),
        }
    }
}
