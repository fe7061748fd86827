//! The cluster, and how clients find it.

keys! {
    /// Directory of all tables, logs and the cluster id: a path or a `file:` URL. `--data-dir` overrides it.
    ROOT_DIR: Text = "hbase.rootdir", "bellows-data";
    /// Directory of the write-ahead log. Empty: below the root.
    WAL_DIR: Text = "hbase.wal.dir", "";
    /// Port on which clients that look for a ZooKeeper are answered.
    ZOOKEEPER_CLIENT_PORT: Port = "hbase.zookeeper.property.clientPort", "2181";
    /// Parent znode of the cluster's znodes.
    ZOOKEEPER_PARENT: Text = "zookeeper.znode.parent", "/hbase";
    /// Longest request of a ZooKeeper client.
    ZOOKEEPER_FRAME: Size = "jute.maxbuffer", "1048575";
    /// Most connections of ZooKeeper clients.
    ZOOKEEPER_CONNECTIONS: Count = "bellows.zookeeper.connections.max", "3000";
    /// Most ZooKeeper sessions, those included that wait for their client to reconnect.
    ZOOKEEPER_SESSIONS: Count = "bellows.zookeeper.sessions.max", "10000";
    /// Most watches of one ZooKeeper connection. Further watches are ignored.
    ZOOKEEPER_WATCHES: Count = "bellows.zookeeper.watches.max", "1000";
    /// Shortest timeout of a ZooKeeper session.
    ZOOKEEPER_SESSION_MIN: Millis = "hbase.zookeeper.property.minSessionTimeout", "4000";
    /// Longest timeout of a ZooKeeper session.
    ZOOKEEPER_SESSION_MAX: Millis = "hbase.zookeeper.property.maxSessionTimeout", "90000";
    /// How long a ZooKeeper client may take to send its first request, or to read an answer.
    ZOOKEEPER_SOCKET_TIMEOUT: Millis = "bellows.zookeeper.socket.timeout", "10000";
    /// Number of addresses that a client receives when it asks for bootstrap nodes.
    BOOTSTRAP_NODE_LIMIT: Count = "hbase.client.bootstrap.node.limit", "10";
}
