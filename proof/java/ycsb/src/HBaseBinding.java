import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.filter.PageFilter;
import org.apache.hadoop.hbase.util.Bytes;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * Lets YCSB drive HBase through the stock Java client: a call for each operation, every field a column of family cf.
 *
 * <p>All threads share one connection. A scan asks the server for its rows by PageFilter. Run as a program it makes the
 * table: {@code HBaseBinding TABLE REGIONS}.
 */
public class HBaseBinding extends DB {
  private static final byte[] FAMILY = Bytes.toBytes("cf");

  private static Connection connection;
  private static int users;

  private final Map<String, Table> tables = new HashMap<>();

  @Override
  public void init() throws DBException {
    synchronized (HBaseBinding.class) {
      try {
        if (users == 0) {
          connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        }
      } catch (IOException e) {
        throw new DBException(e);
      }
      users++;
    }
  }

  @Override
  public void cleanup() throws DBException {
    try {
      for (Table table : tables.values()) {
        table.close();
      }
      synchronized (HBaseBinding.class) {
        if (--users == 0) {
          connection.close();
        }
      }
    } catch (IOException e) {
      throw new DBException(e);
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> out) {
    Get get = new Get(Bytes.toBytes(key));
    if (fields == null) {
      get.addFamily(FAMILY);
    } else {
      fields.forEach(field -> get.addColumn(FAMILY, Bytes.toBytes(field)));
    }
    return attempt(
        () -> {
          Result row = table(table).get(get);
          copy(row, out);
          return row.isEmpty() ? Status.NOT_FOUND : Status.OK;
        });
  }

  @Override
  public Status scan(
      String table, String start, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> out) {
    Scan scan =
        new Scan().withStartRow(Bytes.toBytes(start)).setCaching(count).setFilter(new PageFilter(count));
    if (fields == null) {
      scan.addFamily(FAMILY);
    } else {
      fields.forEach(field -> scan.addColumn(FAMILY, Bytes.toBytes(field)));
    }
    return attempt(
        () -> {
          try (ResultScanner rows = table(table).getScanner(scan)) {
            Result row;
            // The filter counts in each region separately, so the client counts, too.
            while (out.size() < count && (row = rows.next()) != null) {
              HashMap<String, ByteIterator> record = new HashMap<>();
              copy(row, record);
              out.add(record);
            }
          }
          return out.isEmpty() ? Status.NOT_FOUND : Status.OK;
        });
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    Put put = new Put(Bytes.toBytes(key));
    values.forEach((field, value) -> put.addColumn(FAMILY, Bytes.toBytes(field), value.toArray()));
    return attempt(
        () -> {
          table(table).put(put);
          return Status.OK;
        });
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return update(table, key, values);
  }

  @Override
  public Status delete(String table, String key) {
    return attempt(
        () -> {
          table(table).delete(new Delete(Bytes.toBytes(key)));
          return Status.OK;
        });
  }

  private Table table(String name) throws IOException {
    Table table = tables.get(name);
    if (table == null) {
      table = connection.getTable(TableName.valueOf(name));
      tables.put(name, table);
    }
    return table;
  }

  private static void copy(Result row, Map<String, ByteIterator> out) {
    if (row.isEmpty()) {
      return;
    }
    for (Cell cell : row.rawCells()) {
      out.put(
          Bytes.toString(CellUtil.cloneQualifier(cell)), new ByteArrayByteIterator(CellUtil.cloneValue(cell)));
    }
  }

  private interface Call {
    Status run() throws IOException;
  }

  private static Status attempt(Call call) {
    try {
      return call.run();
    } catch (IOException e) {
      System.err.println(e);
      return Status.ERROR;
    }
  }

  /** Makes a table: TABLE REGIONS. Split points suit YCSB's keys, user0 to user9. */
  public static void main(String[] args) throws IOException {
    int regions = Integer.parseInt(args[1]);
    byte[][] splits = new byte[regions - 1][];
    for (int i = 1; i < regions; i++) {
      splits[i - 1] = Bytes.toBytes(String.format("user%04d", 10000 * i / regions));
    }
    try (Connection c = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = c.getAdmin()) {
      admin.createTable(
          TableDescriptorBuilder.newBuilder(TableName.valueOf(args[0]))
              .setColumnFamily(ColumnFamilyDescriptorBuilder.of(FAMILY))
              .build(),
          splits);
    }
  }
}
