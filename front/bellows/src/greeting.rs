//! What `bellows start` prints when it is ready: its addresses, and lines to paste into a client.

use std::fmt;
use std::net::SocketAddr;

use crate::estimate::Estimate;

/// The addresses that clients need.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) host: String,
    pub(crate) rpc: SocketAddr,
    pub(crate) master: SocketAddr,
    pub(crate) zookeeper: SocketAddr,
    pub(crate) web: SocketAddr,
    pub(crate) znode_parent: String,
    /// The primary's root, if this is a read replica.
    pub(crate) replica_of: Option<String>,
    /// What the object store will cost, if the files are in an object store.
    pub(crate) estimate: Option<Estimate>,
    pub(crate) ready_after_ms: u128,
}

impl fmt::Display for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Greeting {
            host,
            rpc,
            master,
            zookeeper,
            web,
            znode_parent,
            replica_of,
            estimate,
            ready_after_ms,
        } = self;
        let role =
            replica_of.as_ref().map(|place| format!("read replica of {place}: it accepts no writes\n"));
        let role = role.unwrap_or_default();
        let cost =
            estimate.as_ref().map(|estimate| format!("{estimate}; http://{web}/cost\n")).unwrap_or_default();
        let (rpc_port, master_port, zk_port) = (rpc.port(), master.port(), zookeeper.port());
        write!(
            f,
            "ready after {ready_after_ms} ms: region server {rpc}, master {master}, registry {zookeeper}, \
             web http://{web}/\n\
             {role}\
             {cost}\
             \n\
             Java (hbase-client 2.x), by the registry that needs no ZooKeeper:\n\
             \x20   Configuration conf = HBaseConfiguration.create();\n\
             \x20   conf.set(\"hbase.client.registry.impl\", \"org.apache.hadoop.hbase.client.RpcConnectionRegistry\");\n\
             \x20   conf.set(\"hbase.client.bootstrap.servers\", \"{host}:{rpc_port},{host}:{master_port}\");\n\
             or by the one that is its default:\n\
             \x20   conf.set(\"hbase.zookeeper.quorum\", \"{host}\");\n\
             \x20   conf.set(\"hbase.zookeeper.property.clientPort\", \"{zk_port}\");\n\
             Go (gohbase):\n\
             \x20   client := gohbase.NewClient(\"{host}:{zk_port}\", gohbase.ZookeeperRoot(\"{znode_parent}\"))\n\
             Python (happybase, through HBase's Thrift server started with the same two keys as Java):\n\
             \x20   connection = happybase.Connection(\"localhost\", 9090)\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_to_paste_are_the_ones_it_listens_at() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = Greeting {
            host: "localhost".into(),
            rpc: at(1),
            master: at(2),
            zookeeper: at(3),
            web: at(4),
            znode_parent: "/hbase".into(),
            replica_of: Some("s3://b/x".into()),
            estimate: Some(Estimate::Replica { idle: 0.07, busy: 0.69 }),
            ready_after_ms: 5,
        }
        .to_string();
        assert!(text.contains("\nread replica of s3://b/x: it accepts no writes\n"), "{text}");
        assert!(text.contains("up to $0.69 on others; http://127.0.0.1:4/cost\n"), "{text}");
        assert!(text.starts_with("ready after 5 ms: "), "scripts wait for this word: {text}");
        for line in
            ["\"localhost:1,localhost:2\"", "\"localhost:3\"", "clientPort\", \"3\"", "http://127.0.0.1:4/"]
        {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
    }
}
