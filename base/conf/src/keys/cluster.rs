//! The cluster, and how clients find it.

keys! {
    /// Place of all tables and the cluster id: a path, a `file:` URL, `s3://BUCKET/FOLDER` (also `s3a:`) in an
    /// S3-compatible store, `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER` (also `abfs:`) in Azure, or
    /// `hdfs://HOST:PORT/FOLDER`. `--data-dir` overrides it.
    ROOT_DIR: Text = "hbase.rootdir", "bellows-data";
    /// Place of the write-ahead log: a path, a `file:` URL, `s3://BUCKET/FOLDER` or `abfss:` in the same store as the root,
    /// or `hdfs://HOST:PORT/FOLDER`. Empty: below the root.
    WAL_DIR: Text = "hbase.wal.dir", "";
    /// URL of the S3-compatible store. Empty: the value of `AWS_ENDPOINT_URL`, or Amazon's S3.
    S3_ENDPOINT: Text = "fs.s3a.endpoint", "";
    /// Whether an `fs.s3a.endpoint` without a scheme is an `https:` URL; otherwise it is an `http:` URL.
    S3_SSL: Flag = "fs.s3a.connection.ssl.enabled", "true";
    /// AWS region of the bucket. Empty: the value of `AWS_REGION`, or that of the profile in `~/.aws`, or us-east-1.
    S3_REGION: Text = "fs.s3a.endpoint.region", "";
    /// Access key for the S3-compatible store. Empty: from the environment (`AWS_ACCESS_KEY_ID`), a profile in `~/.aws`
    /// (`AWS_PROFILE`), a web identity, or the metadata of the container or the instance.
    S3_ACCESS_KEY: Text = "fs.s3a.access.key", "";
    /// Secret key that belongs to the access key.
    S3_SECRET_KEY: Text = "fs.s3a.secret.key", "";
    /// Session token that belongs to the access key, if the key is temporary.
    S3_SESSION_TOKEN: Text = "fs.s3a.session.token", "";
    /// Whether the bucket's name is in the URL's path and not in its host name. An endpoint that is an address or
    /// `localhost` has it in the path in any case.
    S3_PATH_STYLE: Flag = "fs.s3a.path.style.access", "false";
    /// Maximum number of concurrent reads of the object store, and of concurrent reads of the log's objects at a start.
    S3_READS_MAX: Count = "bellows.s3.reads.max", "64";
    /// Maximum share of the reads of the object store that are sent a second time because their reply is late, in
    /// percent. The first reply counts. 0: no read is sent twice.
    S3_HEDGE_PERCENT: Ratio = "bellows.s3.hedge.percent", "5";
    /// Minimum time before a read is sent a second time. The time is otherwise a quarter more than what 95 % of the
    /// latest reads took, and at most a second.
    S3_HEDGE_DELAY_MIN: Millis = "bellows.s3.hedge.delay.min", "5";
    /// How long a call of the object store whose requests fail or hang is repeated before it fails.
    S3_SETTLE_TIME: Millis = "bellows.s3.settle.time", "30000";
    /// URL of the blob service, for another than Azure's own, such as `http://127.0.0.1:10000/devstoreaccount1` of Azurite.
    /// Empty: the value of `AZURE_STORAGE_ENDPOINT`, or that of the account. The secret of an account is in
    /// `fs.azure.account.key.ACCOUNT` or `fs.azure.sas.fixed.token.ACCOUNT`.
    AZURE_ENDPOINT: Text = "bellows.azure.endpoint", "";
    /// Number of DataNodes that have each block of a file in HDFS. 0: the NameNode decides.
    HDFS_REPLICATION: Count = "dfs.replication", "0";
    /// Maximum number of concurrent reads of HDFS.
    HDFS_READS_MAX: Count = "bellows.hdfs.reads.max", "64";
    /// How long the DataNodes may take for bytes that are sent to them before a call fails; an eighth of a second more
    /// for each MB.
    HDFS_SYNC_MAX: Millis = "bellows.hdfs.sync.max", "10000";
    /// How long the DataNodes may take for a sync of the log before the log goes on in another file; an eighth of a
    /// second more for each MB.
    HDFS_LOG_SYNC_MAX: Millis = "bellows.hdfs.log.sync.max", "300";
    /// How long any other call to HDFS may take before it fails, including the recovery of a lease.
    HDFS_CALL_MAX: Millis = "bellows.hdfs.call.max", "90000";
    /// Stores from which clients may bulk-load files, besides the bucket or HDFS of the root and the folders of this
    /// machine: URLs such as `s3a://BUCKET/FOLDER` and `hdfs://HOST:PORT/FOLDER`, or `*` for every store. Each includes
    /// the folders below it. The server reads them with its own credentials, whoever the client is.
    BULK_LOAD_SOURCES: List = "bellows.bulkload.sources", "";
    /// Price of 1,000 PUT requests to the object store, including the parts of uploads, in dollars or another currency.
    /// The defaults of all prices are those of Amazon in us-east-1.
    PRICE_PUT: Ratio = "bellows.store.price.put", "0.005";
    /// Price of 1,000 GET requests to the object store.
    PRICE_GET: Ratio = "bellows.store.price.get", "0.0004";
    /// Price of 1,000 LIST requests to the object store.
    PRICE_LIST: Ratio = "bellows.store.price.list", "0.005";
    /// Price of 1,000 DELETE requests to the object store.
    PRICE_DELETE: Ratio = "bellows.store.price.delete", "0";
    /// Price of a gigabyte that the server reads from the object store; 0 for a server in the region of its bucket.
    PRICE_RECEIVED: Ratio = "bellows.store.price.received", "0";
    /// Price of a gigabyte that the object store keeps for a month.
    PRICE_STORED: Ratio = "bellows.store.price.stored", "0.023";
    /// Maximum price of a day's PUT requests for the log, if the log is in an object store, at the price of
    /// `bellows.store.price.put`. Syncs wait until they are within it, at most `bellows.wal.store.delay.max`. 0: no
    /// limit.
    WAL_STORE_BUDGET: Ratio = "bellows.wal.store.budget", "0";
    /// Maximum time for which `bellows.wal.store.budget` delays a sync of the log, even if the log then costs more.
    WAL_STORE_DELAY_MAX: Millis = "bellows.wal.store.delay.max", "1000";
    /// Maximum number of objects of the log, if the log is in an object store. A start reads all of them. Beyond it, the
    /// regions with the oldest writes in the log are flushed. A log file ends at half of this number. 0: no limit.
    WAL_STORE_PARTS_MAX: Count = "bellows.wal.store.parts.max", "2000";
    /// Whether this server is a read replica of the server with the same root: it follows the log of that server, and
    /// refuses writes. `--read-replica` has the same effect.
    READ_ONLY: Flag = "hbase.global.readonly.enabled", "false";
    /// Amazon EMR's name for `hbase.global.readonly.enabled`.
    READ_REPLICA: Flag = "hbase.emr.readreplica.enabled", "false";
    /// How far a read replica may be behind its primary before it refuses reads. 0 means any distance.
    REPLICA_MAX_LAG: Millis = "bellows.replica.max.lag", "0";
    /// How often a read replica reads the log of its primary while new records arrive.
    REPLICA_POLL: Millis = "bellows.replica.poll", "100";
    /// How often a read replica reads the log of its primary after several reads without new records. Each time costs
    /// two requests to the object store. If `bellows.replica.max.lag` is set, it reads at least twice in that time.
    REPLICA_POLL_IDLE: Millis = "bellows.replica.poll.idle", "1250";
    /// Port on which the server answers clients that look for a ZooKeeper.
    ZOOKEEPER_CLIENT_PORT: Port = "hbase.zookeeper.property.clientPort", "2181";
    /// Parent znode of the cluster's znodes.
    ZOOKEEPER_PARENT: Text = "zookeeper.znode.parent", "/hbase";
    /// Maximum size of a ZooKeeper client's request.
    ZOOKEEPER_FRAME: Size = "jute.maxbuffer", "1048575";
    /// Maximum number of connections of ZooKeeper clients.
    ZOOKEEPER_CONNECTIONS: Count = "bellows.zookeeper.connections.max", "3000";
    /// Maximum number of ZooKeeper sessions, including those that wait for their client to reconnect.
    ZOOKEEPER_SESSIONS: Count = "bellows.zookeeper.sessions.max", "10000";
    /// Maximum number of watches on one ZooKeeper connection. Further watches, and those on paths of more than 1 KB, are
    /// ignored.
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
