//! Finds a cluster's master and the server of hbase:meta, through ZooKeeper or through any server of the cluster.

use std::net::SocketAddr;
use std::time::Duration;

use ::registry::client::Client as ZooKeeper;
use ::registry::payload;
use prost::Message;
use proto::{RegionInfo, ServerName, pb};
use rpc::client::Invocation;

use crate::connections::{Connections, resolve};
use crate::{Error, Location, Result};

/// How a cluster is located.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registry {
    /// Addresses of masters or region servers, `host:port`.
    Rpc(Vec<String>),
    /// A ZooKeeper ensemble.
    ZooKeeper {
        /// The ZooKeeper servers, `host:port`.
        quorum: Vec<String>,
        /// The parent znode of the cluster.
        parent: String,
    },
}

const SERVICE: &str = "ClientMetaService";

impl Registry {
    /// Locates the cluster through any masters or region servers, `host:port`. Key: `hbase.client.bootstrap.servers`.
    pub fn rpc<T: Into<String>>(servers: impl IntoIterator<Item = T>) -> Registry {
        Registry::Rpc(servers.into_iter().map(Into::into).collect())
    }

    /// Locates the cluster through ZooKeeper servers, `host:port`, at `/hbase`. Key: `hbase.zookeeper.quorum`.
    pub fn zookeeper<T: Into<String>>(quorum: impl IntoIterator<Item = T>) -> Registry {
        Registry::ZooKeeper {
            quorum: quorum.into_iter().map(Into::into).collect(),
            parent: "/hbase".to_owned(),
        }
    }

    pub(crate) async fn meta(&self, connections: &Connections) -> Result<Location> {
        match self {
            Registry::Rpc(servers) => {
                let method = "GetMetaRegionLocations";
                let request = pb::GetMetaRegionLocationsRequest::default();
                let answer: pb::GetMetaRegionLocationsResponse =
                    ask(servers, connections, method, &request).await?;
                for location in &answer.meta_locations {
                    let region = RegionInfo::try_from(&location.region_info);
                    if let (Ok(region), Some(server)) = (region, &location.server_name)
                        && region.replica().0 == 0
                    {
                        return Ok(Location { region, server: server_name(server)? });
                    }
                }
                Err(Error::Registry("no server has hbase:meta yet".to_owned()))
            }
            Registry::ZooKeeper { quorum, parent } => {
                let node: pb::MetaRegionServer =
                    read(quorum, parent, "meta-region-server", connections).await?;
                Ok(Location { region: RegionInfo::meta(), server: server_name(&node.server)? })
            }
        }
    }

    pub(crate) async fn master(&self, connections: &Connections) -> Result<ServerName> {
        match self {
            Registry::Rpc(servers) => {
                let request = pb::GetActiveMasterRequest::default();
                let answer: pb::GetActiveMasterResponse =
                    ask(servers, connections, "GetActiveMaster", &request).await?;
                match &answer.server_name {
                    Some(server) => server_name(server),
                    None => Err(Error::Registry("there is no active master".to_owned())),
                }
            }
            Registry::ZooKeeper { quorum, parent } => {
                let node: pb::Master = read(quorum, parent, "master", connections).await?;
                server_name(&node.master)
            }
        }
    }

    pub(crate) async fn cluster_id(&self, connections: &Connections) -> Result<String> {
        match self {
            Registry::Rpc(servers) => {
                let request = pb::GetClusterIdRequest::default();
                let answer: pb::GetClusterIdResponse =
                    ask(servers, connections, "GetClusterId", &request).await?;
                answer.cluster_id.ok_or_else(|| Error::Registry("the cluster has no id yet".to_owned()))
            }
            Registry::ZooKeeper { quorum, parent } => {
                let node: pb::ClusterId = read(quorum, parent, "hbaseid", connections).await?;
                Ok(node.cluster_id)
            }
        }
    }
}

fn server_name(message: &pb::ServerName) -> Result<ServerName> {
    Ok(ServerName::try_from(message)?)
}

/// Asks the servers of the registry in turn, starting at a random one, until one answers.
async fn ask<M: Message + Default>(
    servers: &[String],
    connections: &Connections,
    method: &'static str,
    request: &impl Message,
) -> Result<M> {
    let mut failures = Vec::new();
    for server in rotated(servers, connections) {
        let answer = async {
            let (_, connection) = connections.of_any(&resolve(server).await?, SERVICE).await?;
            let response =
                connection.call(Invocation::of(method, request).within(connections.call_max())).await?;
            M::decode(response.message)
                .map_err(|error| Error::Unreadable { method, reason: error.to_string() })
        };
        match answer.await {
            Ok(answer) => return Ok(answer),
            Err(error) => failures.push(format!("{server}: {error}")),
        }
    }
    Err(Error::Registry(failures.join("; ")))
}

fn rotated<'a>(servers: &'a [String], connections: &Connections) -> impl Iterator<Item = &'a String> {
    let first = (connections.random() % servers.len().max(1) as u64) as usize;
    servers.iter().cycle().skip(first).take(servers.len())
}

async fn read<M: Message + Default>(
    quorum: &[String],
    parent: &str,
    name: &str,
    connections: &Connections,
) -> Result<M> {
    let path = format!("{}/{name}", parent.trim_end_matches('/'));
    let mut failures = Vec::new();
    for server in rotated(quorum, connections) {
        let answer = async {
            let data = node_at_any(&resolve(server).await?, &path, connections.call_max())
                .await
                .map_err(|error| Error::Registry(error.to_string()))?;
            let data = data.ok_or_else(|| Error::Registry(format!("there is no node {path}")))?;
            let message = payload::unwrap(&data)
                .ok_or_else(|| Error::Registry(format!("node {path} is not one of HBase's")))?;
            M::decode(message).map_err(|error| Error::Registry(format!("node {path}: {error}")))
        };
        match answer.await {
            Ok(answer) => return Ok(answer),
            Err(error) => failures.push(format!("{server}: {error}")),
        }
    }
    Err(Error::Registry(failures.join("; ")))
}

/// Reads a node at the first of `addresses`, of which there is at least one, that answers. Fails with the error of the last
/// address.
async fn node_at_any(
    addresses: &[SocketAddr],
    path: &str,
    limit: Duration,
) -> std::result::Result<Option<bytes::Bytes>, ::registry::client::Error> {
    let (last, others) = addresses.split_last().expect("a name has an address");
    for address in others {
        if let Ok(data) = node(*address, path, limit).await {
            return Ok(data);
        }
    }
    node(*last, path, limit).await
}

async fn node(
    address: SocketAddr,
    path: &str,
    limit: Duration,
) -> std::result::Result<Option<bytes::Bytes>, ::registry::client::Error> {
    let mut client = ZooKeeper::connect(address, limit).await?;
    let data = client.data(path).await?;
    client.close().await?;
    Ok(data)
}
