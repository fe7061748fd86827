import java.io.IOException;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ClusterConnection;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.codec.KeyValueCodecWithTags;
import org.apache.hadoop.hbase.shaded.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.util.Bytes;

/** A server under test: Apache HBase or Bellows. */
final class Side implements AutoCloseable {
  /** Required configuration of servers: the number of files of a minor compaction (hbase.hstore.compaction.min). */
  static final int COMPACTION_FILES = 3;
  /**
   * Required configuration: the size in bytes above which minor compactions skip a file
   * (hbase.hstore.compaction.max.size).
   */
  static final int COMPACTION_SIZE_MAX = 1 << 20;
  private static final long WAIT_NANOS = 60_000_000_000L;
  private static final long ASK_AGAIN_NANOS = 500_000_000L;

  final String name;
  private final Connection connection;
  /** A connection whose codec has tags. */
  private final Connection tagged;
  private final Admin admin;
  final TableOperations operations;

  /** {@code address} is {@code zk:HOST:PORT}, or {@code rpc:HOST:PORT} of a master or region server. */
  Side(String name, String address) throws IOException {
    this.name = name;
    Configuration conf = HBaseConfiguration.create();
    String[] parts = address.split(":");
    if (parts[0].equals("zk")) {
      conf.set("hbase.zookeeper.quorum", parts[1]);
      conf.set("hbase.zookeeper.property.clientPort", parts[2]);
    } else {
      conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.RpcConnectionRegistry");
      conf.set("hbase.client.bootstrap.servers", parts[1] + ":" + parts[2]);
    }
    // Errors are reported at once, not after fifteen attempts.
    conf.setInt("hbase.client.retries.number", 2);
    conf.setInt("hbase.client.pause", 20);
    conf.setInt("hbase.rpc.timeout", 20_000);
    conf.setInt("hbase.client.operation.timeout", 30_000);
    conf.setInt("hbase.client.scanner.timeout.period", 20_000);
    // The server, not the client, refuses too large cells.
    conf.setInt("hbase.client.keyvalue.maxsize", 0);
    connection = ConnectionFactory.createConnection(conf);
    admin = connection.getAdmin();
    operations = new TableOperations(this, admin);
    conf.set("hbase.client.rpc.codec", KeyValueCodecWithTags.class.getName());
    tagged = ConnectionFactory.createConnection(conf);
  }

  /** Opens a table; {@code (tags)} in the schema asks for cells with tags. */
  Table table(Node schema, TableName name) throws IOException {
    return (schema.has("tags") ? tagged : connection).getTable(name);
  }

  void create(Node table, TableName name, List<String> prefixes) throws IOException {
    byte[][] splits = Schemas.splits(table, prefixes);
    if (splits == null) {
      admin.createTable(Schemas.descriptor(table, name));
    } else {
      admin.createTable(Schemas.descriptor(table, name), splits);
    }
    if (table.has("heavy")) {
      makeHeavy(table, name);
    }
  }

  /** Gives each store a file of incompressible bytes, in a row before those of all scripts. */
  private void makeHeavy(Node table, TableName name) throws IOException {
    byte[] noise = new byte[2 * COMPACTION_SIZE_MAX];
    new Random(7).nextBytes(noise);
    Put put = new Put(new byte[] {'!'});
    for (String family : Schemas.families(table)) {
      put.addColumn(Bytes.toBytes(family), Bytes.toBytes("noise"), 1L << 60, noise);
    }
    try (Table all = connection.getTable(name)) {
      all.put(put);
    }
    flush(table, name);
  }

  Table catalog() throws IOException {
    return connection.getTable(TableName.META_TABLE_NAME);
  }

  /** Lets the clients ask again where the regions are. */
  void forgetRegions(TableName name) throws IOException {
    for (Connection one : List.of(connection, tagged)) {
      try (RegionLocator locator = one.getRegionLocator(name)) {
        locator.clearRegionLocationCache();
      }
    }
  }

  List<HRegionLocation> regions(TableName name) throws IOException {
    try (RegionLocator locator = connection.getRegionLocator(name)) {
      return locator.getAllRegionLocations();
    }
  }

  void drop(TableName name) throws IOException {
    operations.clean(name);
    if (admin.tableExists(name)) {
      if (admin.isTableEnabled(name)) {
        admin.disableTable(name);
      }
      admin.deleteTable(name);
    }
  }

  /**
   *  Flushes, and waits for the minor compactions that are then due, so that both sides have the same files. Returns the number of
   *  files.
   */
  String flush(Node table, TableName name) throws IOException {
    int files = COMPACTION_FILES - 1 + (table.has("heavy") ? 1 : 0);
    for (HRegionLocation location : regions(name)) {
      admin.flushRegion(location.getRegion().getRegionName());
    }
    for (HRegionLocation location : regions(name)) {
      waitForFiles(table, location, files);
    }
    return files(table, name);
  }

  /** Waits until no file of the table is a reference to a parent's file, and no compaction is due. */
  void settle(Node table, TableName name) throws IOException {
    awaitNoReferences(name);
    for (HRegionLocation location : regions(name)) {
      waitForFiles(table, location, COMPACTION_FILES - 1);
    }
  }

  void awaitNoReferences(TableName name) throws IOException {
    for (HRegionLocation location : regions(name)) {
      byte[] region = location.getRegion().getRegionName();
      var service = ((ClusterConnection) connection).getAdmin(location.getServerName());
      long deadline = System.nanoTime() + WAIT_NANOS;
      long asked = System.nanoTime();
      for (byte[] family : admin.getDescriptor(name).getColumnFamilyNames()) {
        while (ProtobufUtil.getStoreFiles(service, region, family).stream().anyMatch(Side::isReference)) {
          if (System.nanoTime() > deadline) {
            throw new IOException(name + ": " + location + " still has references");
          }
          if (System.nanoTime() - asked > ASK_AGAIN_NANOS) {
            admin.compactRegion(region);
            asked = System.nanoTime();
          }
          LockSupport.parkNanos(1_000_000);
        }
      }
    }
  }

  /** The name of a reference ends with a dot and the parent's encoded name. */
  private static boolean isReference(String path) {
    return path.substring(path.lastIndexOf('/') + 1).contains(".");
  }

  /** Compacts all regions and waits for the end. */
  String compact(Node table, TableName name) throws IOException {
    for (HRegionLocation location : regions(name)) {
      admin.majorCompactRegion(location.getRegion().getRegionName());
    }
    for (HRegionLocation location : regions(name)) {
      waitForFiles(table, location, 1);
    }
    awaitNoReferences(name);
    return files(table, name);
  }

  /** Returns the number of files of each store, region by region. */
  private String files(Node table, TableName name) throws IOException {
    StringBuilder counts = new StringBuilder("files");
    for (HRegionLocation location : regions(name)) {
      var service = ((ClusterConnection) connection).getAdmin(location.getServerName());
      byte[] region = location.getRegion().getRegionName();
      for (String family : Schemas.families(table)) {
        counts.append(' ').append(ProtobufUtil.getStoreFiles(service, region, Bytes.toBytes(family)).size());
      }
    }
    return counts.toString();
  }

  private void waitForFiles(Node table, HRegionLocation location, int files) throws IOException {
    byte[] region = location.getRegion().getRegionName();
    var service = ((ClusterConnection) connection).getAdmin(location.getServerName());
    long deadline = System.nanoTime() + WAIT_NANOS;
    long asked = System.nanoTime();
    for (String family : Schemas.families(table)) {
      while (ProtobufUtil.getStoreFiles(service, region, Bytes.toBytes(family)).size() > files) {
        if (System.nanoTime() > deadline) {
          throw new IOException(name + ": family " + family + " of " + location + " still has more than " + files + " files");
        }
        if (System.nanoTime() - asked > ASK_AGAIN_NANOS) {
          // HBase skips the compaction that a flush makes due if one has just ended.
          admin.compactRegion(region);
          asked = System.nanoTime();
        }
        LockSupport.parkNanos(1_000_000);
      }
    }
    while (admin.getCompactionStateForRegion(region) != CompactionState.NONE) {
      if (System.nanoTime() > deadline) {
        throw new IOException(name + ": " + location + " is compacted without end");
      }
      LockSupport.parkNanos(1_000_000);
    }
  }

  @Override
  public void close() throws IOException {
    admin.close();
    tagged.close();
    connection.close();
  }
}
