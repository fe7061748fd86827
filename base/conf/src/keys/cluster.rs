//! Where the cluster is, and how it is found.

keys! {
    /// The folder that holds everything: tables, logs, the cluster's id. A path, or a `file:` URL.
    ROOT_DIR: Text = "hbase.rootdir", "${hbase.tmp.dir}/hbase";
    /// A folder for what need not outlive the machine; also where the root is when nobody says otherwise.
    TMP_DIR: Text = "hbase.tmp.dir", "${java.io.tmpdir}/hbase-${user.name}";
    /// Where the log lies, when not under the root. Empty: under the root.
    WAL_DIR: Text = "hbase.wal.dir", "";
    /// Whether master and region servers are processes of their own (true) or one process (false).
    DISTRIBUTED: Flag = "hbase.cluster.distributed", "false";
    /// The hosts that answer ZooKeeper's protocol.
    ZOOKEEPER_QUORUM: List = "hbase.zookeeper.quorum", "127.0.0.1";
    /// The port that ZooKeeper's protocol is answered on.
    ZOOKEEPER_CLIENT_PORT: Port = "hbase.zookeeper.property.clientPort", "2181";
    /// The znode that holds the cluster's.
    ZOOKEEPER_PARENT: Text = "zookeeper.znode.parent", "/hbase";
    /// The longest request of a ZooKeeper client.
    ZOOKEEPER_FRAME: Size = "jute.maxbuffer", "1048575";
    /// How many ZooKeeper clients may be connected.
    ZOOKEEPER_CONNECTIONS: Count = "bellows.zookeeper.connections.max", "3000";
    /// How many ZooKeeper sessions are open or may be come back to.
    ZOOKEEPER_SESSIONS: Count = "bellows.zookeeper.sessions.max", "10000";
    /// How many watches one ZooKeeper connection may have; more are not kept.
    ZOOKEEPER_WATCHES: Count = "bellows.zookeeper.watches.max", "1000";
    /// The shortest time-out of a ZooKeeper session.
    ZOOKEEPER_SESSION_MIN: Millis = "hbase.zookeeper.property.minSessionTimeout", "4000";
    /// The longest time-out of a ZooKeeper session.
    ZOOKEEPER_SESSION_MAX: Millis = "hbase.zookeeper.property.maxSessionTimeout", "90000";
    /// How long a ZooKeeper client may take to say hello, and to read an answer.
    ZOOKEEPER_SOCKET_TIMEOUT: Millis = "bellows.zookeeper.socket.timeout", "10000";
    /// How many addresses a client gets that asks for servers to ask.
    BOOTSTRAP_NODE_LIMIT: Count = "hbase.client.bootstrap.node.limit", "10";
}
