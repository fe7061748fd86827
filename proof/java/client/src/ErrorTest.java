import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.TableNotEnabledException;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.junit.AfterClass;
import org.junit.BeforeClass;
import org.junit.Test;

/** Refusals: their exception classes, and that they change nothing. */
public class ErrorTest extends Words {
  private static final byte[] NONE = b("nosuch");
  private static Table table;

  @BeforeClass
  public static void create() throws Exception {
    table = Server.freshTable("error");
  }

  @AfterClass
  public static void drop() throws Exception {
    Server.drop(table);
  }

  private static void next(Table table, Scan scan) throws Exception {
    try (ResultScanner scanner = table.getScanner(scan)) {
      scanner.next();
    }
  }

  @Test
  public void aFamilyThatIsNotThereIsNamed() throws Exception {
    byte[] row = b("family");
    List<Server.Act> acts =
        List.of(
            () -> table.get(new Get(row).addFamily(NONE)),
            () -> table.exists(new Get(row).addFamily(NONE)),
            () -> table.put(new Put(row).addColumn(F, Q, b("v")).addColumn(NONE, Q, b("v"))),
            () -> table.delete(new Delete(row).addFamily(NONE)),
            () -> table.delete(new Delete(row).addColumn(NONE, Q)),
            () -> table.increment(new Increment(row).addColumn(NONE, Q, 1)),
            () -> table.append(new Append(row).addColumn(NONE, Q, b("v"))),
            () -> next(table, new Scan().addFamily(NONE)),
            () -> next(table, new Scan().addColumn(F, Q).addColumn(NONE, Q)));
    for (Server.Act act : acts) {
      NoSuchColumnFamilyException refusal = Server.refused(NoSuchColumnFamilyException.class, act);
      assertTrue(refusal.getMessage(), refusal.getMessage().contains("nosuch"));
    }
    assertFalse(table.exists(new Get(row)));
  }

  @Test
  public void aCellThatIsTooLargeIsRefused() throws Exception {
    byte[] value = new byte[11 << 20];
    // The client's own limit applies first.
    Server.refused(IllegalArgumentException.class, () -> table.put(new Put(b("large")).addColumn(F, Q, value)));
    Configuration conf = Server.configuration();
    conf.setInt("hbase.client.keyvalue.maxsize", -1);
    try (Connection connection = ConnectionFactory.createConnection(conf);
        Table patient = connection.getTable(table.getName())) {
      DoNotRetryIOException refusal =
          Server.refused(
              DoNotRetryIOException.class, () -> patient.put(new Put(b("large")).addColumn(F, Q, value)));
      assertTrue(refusal.getMessage(), refusal.getMessage().contains("exceeds limit of 10485760 bytes"));
      Server.refused(
          DoNotRetryIOException.class,
          () -> patient.put(List.of(new Put(b("large")).addColumn(F, Q, value), new Put(b("small")).addColumn(F, Q, b("v")))));
      patient.append(new Append(b("grows")).addColumn(F, Q, new byte[6 << 20]));
      Server.refused(
          DoNotRetryIOException.class, () -> patient.append(new Append(b("grows")).addColumn(F, Q, new byte[6 << 20])));
      assertEquals(6 << 20, patient.get(new Get(b("grows"))).value().length);
    }
    assertFalse(table.exists(new Get(b("large"))));
  }

  @Test
  public void aTableThatIsNotThereIsNotFound() throws Exception {
    TableName name = TableName.valueOf("no-such-table");
    Table none = Server.connection().getTable(name);
    List<Server.Act> acts =
        List.of(
            () -> none.get(new Get(b("r"))),
            () -> none.put(new Put(b("r")).addColumn(F, Q, b("v"))),
            () -> none.delete(new Delete(b("r"))),
            () -> next(none, new Scan()),
            () -> none.get(List.of(new Get(b("r")), new Get(b("s")))),
            () -> none.getDescriptor());
    for (Server.Act act : acts) {
      Server.refused(TableNotFoundException.class, act);
    }
    try (RegionLocator locator = Server.connection().getRegionLocator(name)) {
      Server.refused(TableNotFoundException.class, () -> locator.getRegionLocation(b("r"), true));
    }
    Server.refused(
        TableNotFoundException.class,
        () -> Server.connection().getTable(TableName.valueOf("nosuch:table")).get(new Get(b("r"))));
  }

  @Test
  public void aDisabledTableIsNotEnabled() throws Exception {
    Table own = Server.freshTable("disabled");
    own.put(new Put(b("r")).addColumn(F, Q, 5, b("v")));
    try (Admin admin = Server.connection().getAdmin()) {
      admin.disableTable(own.getName());
      Server.refused(TableNotEnabledException.class, () -> own.get(new Get(b("r"))));
      Server.refused(TableNotEnabledException.class, () -> own.put(new Put(b("r")).addColumn(F, Q, b("v"))));
      Server.refused(TableNotEnabledException.class, () -> next(own, new Scan()));
      admin.enableTable(own.getName());
    }
    assertEquals(List.of("r/f:q@5=v"), Server.cells(own.get(new Get(b("r")))));
    Server.drop(own);
  }

  @Test
  public void aConnectionToATableThatWasMadeAnewFindsIt() throws Exception {
    Table own = Server.freshTable("anew", b("m"));
    own.put(new Put(b("z")).addColumn(F, Q, 5, b("old")));
    try (Admin admin = Server.connection().getAdmin()) {
      var descriptor = admin.getDescriptor(own.getName());
      admin.disableTable(own.getName());
      admin.deleteTable(own.getName());
      admin.createTable(descriptor, new byte[][] {b("f"), b("x")});
    }
    assertFalse(own.exists(new Get(b("z"))));
    own.put(new Put(b("z")).addColumn(F, Q, 6, b("new")));
    assertEquals(List.of("z/f:q@6=new"), Server.cells(own.get(new Get(b("z")))));
    Server.drop(own);
  }

  @Test
  public void rowsAndFamiliesHaveTheirLengths() throws Exception {
    byte[] longest = new byte[Short.MAX_VALUE];
    table.put(new Put(longest).addColumn(F, Q, 5, b("v")));
    assertTrue(table.exists(new Get(longest)));
    table.delete(new Delete(longest));
    Server.refused(IllegalArgumentException.class, () -> new Put(new byte[Short.MAX_VALUE + 1]));
    Server.refused(IllegalArgumentException.class, () -> new Get(new byte[0]));
  }
}
