import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.VersionInfo;

/** The server under test in one way of connecting, and helpers of the tests. */
final class Server {
  static final byte[] F = b("f");
  static final byte[] G = b("g");
  static final byte[] Q = b("q");

  /** Whether the client is HBase 3's, which differs in some results and exceptions that it makes itself. */
  static final boolean IS_CLIENT_3 = VersionInfo.getVersion().startsWith("3.");

  private static final AtomicInteger NAMES = new AtomicInteger();
  private static Configuration configuration;
  private static Connection connection;

  private Server() {}

  /** Connects in the way `way`: REGISTRY[-CODEC], as listed in {@link Suite}. */
  static void connect(String way) throws IOException {
    close();
    configuration = configuration(way);
    connection = ConnectionFactory.createConnection(configuration);
  }

  static Configuration configuration(String way) {
    Configuration conf = HBaseConfiguration.create();
    if (way.startsWith("rpc")) {
      conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.RpcConnectionRegistry");
      conf.set("hbase.client.bootstrap.servers", System.getProperty("proof.bootstrap"));
    } else {
      conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.ZKConnectionRegistry");
      String[] quorum = System.getProperty("proof.quorum").split(":");
      conf.set("hbase.zookeeper.quorum", quorum[0]);
      conf.set("hbase.zookeeper.property.clientPort", quorum[1]);
    }
    if (way.endsWith("-protobuf")) {
      conf.set("hbase.client.default.rpc.codec", "");
    }
    if (way.endsWith("-gzip")) {
      conf.set("hbase.client.rpc.compressor", "org.apache.hadoop.io.compress.GzipCodec");
    }
    if (way.endsWith("-tags")) {
      conf.set("hbase.client.rpc.codec", "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags");
    }
    return conf;
  }

  /** Whether cells are in cell blocks and not in the messages. */
  static boolean cellBlocks() {
    return !"".equals(configuration.get("hbase.client.default.rpc.codec"));
  }

  static void close() throws IOException {
    if (connection != null) {
      connection.close();
      connection = null;
    }
  }

  static Connection connection() {
    return connection;
  }

  static Configuration configuration() {
    return new Configuration(configuration);
  }

  static TableName freshName(String about) {
    return TableName.valueOf(about + "-" + System.nanoTime() + "-" + NAMES.incrementAndGet());
  }

  /** Creates a table with the families f (5 versions) and g (1 version). */
  static Table freshTable(String about, byte[]... splits) throws IOException {
    TableName name = freshName(about);
    try (Admin admin = connection.getAdmin()) {
      TableDescriptor table =
          TableDescriptorBuilder.newBuilder(name)
              .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(F).setMaxVersions(5).build())
              .setColumnFamily(ColumnFamilyDescriptorBuilder.of(G))
              .build();
      if (splits.length == 0) {
        admin.createTable(table);
      } else {
        admin.createTable(table, splits);
      }
    }
    return connection.getTable(name);
  }

  static void drop(Table table) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      admin.disableTable(table.getName());
      admin.deleteTable(table.getName());
    }
    table.close();
  }

  static byte[] b(String text) {
    return Bytes.toBytes(text);
  }

  static String s(byte[] bytes) {
    return bytes == null ? null : Bytes.toString(bytes);
  }

  /** Returns the cells of a result as `row/family:qualifier@timestamp=value`; large timestamps are left out. */
  static List<String> cells(Result result) {
    List<String> texts = new ArrayList<>();
    if (result.rawCells() == null) {
      return texts;
    }
    for (Cell cell : result.rawCells()) {
      String at = cell.getTimestamp() < 1_000_000 ? "@" + cell.getTimestamp() : "";
      String kind = cell.getType() == Cell.Type.Put ? "" : "!" + cell.getType();
      texts.add(
          s(CellUtil.cloneRow(cell)) + "/" + s(CellUtil.cloneFamily(cell)) + ":" + s(CellUtil.cloneQualifier(cell))
              + at + kind + "=" + s(CellUtil.cloneValue(cell)));
    }
    return texts;
  }

  static List<String> cells(Table table, Scan scan) throws IOException {
    List<String> texts = new ArrayList<>();
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result result : scanner) {
        texts.addAll(cells(result));
      }
    }
    return texts;
  }

  static List<String> rows(Table table, Scan scan) throws IOException {
    List<String> texts = new ArrayList<>();
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result result : scanner) {
        texts.add(s(result.getRow()));
      }
    }
    return texts;
  }

  static <T extends Throwable> T find(Class<T> expected, Throwable thrown) {
    for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
      if (expected.isInstance(cause)) {
        return expected.cast(cause);
      }
      if (cause instanceof RetriesExhaustedWithDetailsException) {
        for (Throwable each : ((RetriesExhaustedWithDetailsException) cause).getCauses()) {
          T found = find(expected, each);
          if (found != null) {
            return found;
          }
        }
      }
    }
    return null;
  }

  interface Act {
    void run() throws Exception;
  }

  /** Runs `act`, which must throw. Returns the first exception of class `expected` in the chain of causes. */
  static <T extends Throwable> T refused(Class<T> expected, Act act) throws Exception {
    try {
      act.run();
    } catch (Exception thrown) {
      T found = find(expected, thrown);
      if (found != null) {
        return found;
      }
      throw new AssertionError("expected " + expected.getName() + ", got " + thrown.getClass().getName(), thrown);
    }
    throw new AssertionError("expected " + expected.getName() + ", but it was done");
  }
}
