import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.util.Arrays;
import java.util.Collections;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HColumnDescriptor;
import org.apache.hadoop.hbase.HTableDescriptor;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.TableNotEnabledException;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.BufferedMutator;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.PrefixFilter;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/**
 *  Tests of HBase's 1.x client. It finds the cluster, and the state of each table, in ZooKeeper. It does not poll after a change of
 *  a schema: the call itself must return when the change is done.
 */
public class Hbase1Test {
  private static final byte[] F = b("f");
  private static final byte[] G = b("g");
  private static final byte[] Q = b("q");

  private Connection connection;
  private Admin admin;
  private TableName name;

  private static byte[] b(String text) {
    return Bytes.toBytes(text);
  }

  @Before
  public void open() throws Exception {
    String[] quorum = System.getProperty("proof.quorum").split(":");
    Configuration conf = HBaseConfiguration.create();
    conf.set("hbase.zookeeper.quorum", quorum[0]);
    conf.set("hbase.zookeeper.property.clientPort", quorum[1]);
    conf.setInt("hbase.client.retries.number", 5);
    connection = ConnectionFactory.createConnection(conf);
    admin = connection.getAdmin();
    name = TableName.valueOf("hbase1-" + System.nanoTime());
    HTableDescriptor descriptor = new HTableDescriptor(name);
    descriptor.addFamily(new HColumnDescriptor(F).setMaxVersions(3));
    admin.createTable(descriptor, new byte[][] {b("m")});
  }

  @After
  public void close() throws Exception {
    if (admin.tableExists(name)) {
      if (admin.isTableEnabled(name)) {
        admin.disableTable(name);
      }
      admin.deleteTable(name);
    }
    admin.close();
    connection.close();
  }

  private void put(Table table, String row, String value) throws Exception {
    table.put(new Put(b(row)).addColumn(F, Q, b(value)));
  }

  @Test
  public void theStateOfATableIsFoundInZooKeeper() throws Exception {
    assertTrue(admin.tableExists(name));
    assertTrue(admin.isTableEnabled(name));
    assertTrue(admin.isTableAvailable(name));
    assertTrue(admin.isTableEnabled(TableName.META_TABLE_NAME));
    assertTrue(admin.isTableEnabled(TableName.NAMESPACE_TABLE_NAME));
    admin.disableTable(name);
    assertTrue(admin.isTableDisabled(name));
    assertFalse(admin.isTableEnabled(name));
    try (Table table = connection.getTable(name)) {
      table.get(new Get(b("a")));
      fail("the table is disabled");
    } catch (TableNotEnabledException expected) {
      assertTrue(expected.getMessage(), expected.getMessage().contains(name.getNameAsString()));
    }
    admin.enableTable(name);
    assertTrue(admin.isTableEnabled(name));
    admin.disableTable(name);
    admin.deleteTable(name);
    assertFalse(admin.tableExists(name));
    try {
      admin.isTableEnabled(name);
      fail("the table is gone");
    } catch (TableNotFoundException expected) {
      assertTrue(expected.getMessage(), expected.getMessage().contains(name.getNameAsString()));
    }
  }

  @Test
  public void rowsAreWrittenReadScannedAndDeleted() throws Exception {
    try (Table table = connection.getTable(name)) {
      put(table, "a1", "1");
      put(table, "a2", "2");
      put(table, "z1", "3");
      assertArrayEquals(b("1"), table.get(new Get(b("a1"))).getValue(F, Q));
      assertTrue(table.exists(new Get(b("z1"))));
      Result[] results = table.get(Arrays.asList(new Get(b("a2")), new Get(b("none")), new Get(b("z1"))));
      assertArrayEquals(b("2"), results[0].getValue(F, Q));
      assertTrue(results[1].isEmpty());
      assertArrayEquals(b("3"), results[2].getValue(F, Q));
      assertEquals("a1 a2 z1", rows(table, new Scan()));
      assertEquals("z1 a2 a1", rows(table, new Scan().setReversed(true)));
      assertEquals("a1 a2", rows(table, new Scan().setFilter(new PrefixFilter(b("a")))));
      assertTrue(table.checkAndPut(b("a1"), F, Q, b("1"), new Put(b("a1")).addColumn(F, Q, b("4"))));
      assertFalse(table.checkAndPut(b("a1"), F, Q, b("1"), new Put(b("a1")).addColumn(F, Q, b("5"))));
      assertEquals(7, table.incrementColumnValue(b("n"), F, Q, 7));
      assertEquals(9, Bytes.toLong(table.increment(new Increment(b("n")).addColumn(F, Q, 2)).getValue(F, Q)));
      assertArrayEquals(b("45"), table.append(new Append(b("a1")).add(F, Q, b("5"))).getValue(F, Q));
      table.delete(new Delete(b("a2")));
      assertNull(table.get(new Get(b("a2"))).getValue(F, Q));
    }
    try (BufferedMutator mutator = connection.getBufferedMutator(name)) {
      for (int row = 0; row < 1000; row++) {
        mutator.mutate(new Put(b(String.format("row%03d", row))).addColumn(F, Q, b("x")));
      }
    }
    try (Table table = connection.getTable(name)) {
      assertEquals(1000, rows(table, new Scan().withStartRow(b("row")).withStopRow(b("rox"))).split(" ").length);
    }
  }

  private String rows(Table table, Scan scan) throws Exception {
    StringBuilder rows = new StringBuilder();
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result result : scanner) {
        rows.append(rows.length() == 0 ? "" : " ").append(Bytes.toString(result.getRow()));
      }
    }
    return rows.toString();
  }

  @Test
  public void aChangeOfTheSchemaIsThereWhenItsCallReturns() throws Exception {
    for (int round = 0; round < 5; round++) {
      admin.addColumn(name, new HColumnDescriptor(G));
      try (Table table = connection.getTable(name)) {
        table.put(new Put(b("a")).addColumn(G, Q, b("1")));
        assertArrayEquals(b("1"), table.get(new Get(b("a")).addFamily(G)).getValue(G, Q));
      }
      admin.modifyColumn(name, new HColumnDescriptor(G).setMaxVersions(5));
      assertEquals(5, admin.getTableDescriptor(name).getFamily(G).getMaxVersions());
      admin.deleteColumn(name, G);
      assertEquals(Collections.singleton("f"), families());
    }
    HTableDescriptor wanted = new HTableDescriptor(admin.getTableDescriptor(name));
    wanted.setValue("OURS", "kept");
    admin.modifyTable(name, wanted);
    assertEquals("kept", admin.getTableDescriptor(name).getValue("OURS"));
  }

  private java.util.Set<String> families() throws Exception {
    java.util.Set<String> names = new java.util.TreeSet<>();
    for (byte[] family : admin.getTableDescriptor(name).getFamiliesKeys()) {
      names.add(Bytes.toString(family));
    }
    return names;
  }

  @Test
  public void aTruncatedTableIsThereAndEmptyWhenTheCallReturns() throws Exception {
    try (Table table = connection.getTable(name)) {
      put(table, "a", "1");
      put(table, "z", "1");
      admin.disableTable(name);
      admin.truncateTable(name, true);
      assertTrue(admin.isTableEnabled(name));
      assertEquals(2, admin.getTableRegions(name).size());
      assertEquals("", rows(table, new Scan()));
      put(table, "a", "2");
      assertEquals("a", rows(table, new Scan()));
    }
  }
}
