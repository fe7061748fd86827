import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.TableNotEnabledException;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** Tables of every store file tracker, and the change of it. */
public class TrackerTest extends Words {
  private static final String TRACKER = "hbase.store.file-tracker.impl";
  private static final String SOURCE = "hbase.store.file-tracker.migration.src.impl";
  private static final String TARGET = "hbase.store.file-tracker.migration.dst.impl";

  private final List<Table> made = new ArrayList<>();
  private Admin admin;

  @Before
  public void open() throws Exception {
    admin = Server.connection().getAdmin();
  }

  @After
  public void close() throws Exception {
    for (Table table : made) {
      if (admin.isTableDisabled(table.getName())) {
        admin.enableTable(table.getName());
      }
      Server.drop(table);
    }
    admin.close();
  }

  /** A descriptor with these attributes of the table, and this configuration of its family. */
  private static TableDescriptor described(TableName name, Map<String, String> ofTable, Map<String, String> ofFamily) {
    ColumnFamilyDescriptorBuilder family = ColumnFamilyDescriptorBuilder.newBuilder(F);
    ofFamily.forEach(family::setConfiguration);
    TableDescriptorBuilder table = TableDescriptorBuilder.newBuilder(name).setColumnFamily(family.build());
    ofTable.forEach(table::setValue);
    return table.build();
  }

  private Table create(Map<String, String> ofTable, Map<String, String> ofFamily) throws Exception {
    TableName name = Server.freshName("trackers");
    admin.createTable(described(name, ofTable, ofFamily));
    Table table = Server.connection().getTable(name);
    made.add(table);
    return table;
  }

  private String tracker(Table table) throws Exception {
    return admin.getDescriptor(table.getName()).getValue(TRACKER);
  }

  private static List<String> put(Table table, int from, int to) throws Exception {
    for (int row = from; row < to; row++) {
      table.put(new Put(b(String.format("r%03d", row))).addColumn(F, Q, b("v" + row)));
    }
    return Server.rows(table, new Scan());
  }

  private static Map<String, String> migration(String source, String target) {
    return Map.of(TRACKER, "MIGRATION", SOURCE, source, TARGET, target);
  }

  @Test
  public void tablesOfEachTrackerKeepTheirRowsThroughFlushesCompactionsAndSplits() throws Exception {
    for (String tracker : List.of("DEFAULT", "FILE", "default")) {
      Table table = create(Map.of(TRACKER, tracker), Map.of());
      for (int flush = 0; flush < 3; flush++) {
        put(table, 10 * flush, 10 * flush + 10);
        admin.flush(table.getName());
      }
      admin.majorCompact(table.getName());
      assertEquals(30, Server.rows(table, new Scan()).size());
      admin.splitRegionAsync(admin.getRegions(table.getName()).get(0).getRegionName(), b("r015")).get(60, TimeUnit.SECONDS);
      assertEquals(2, admin.getRegions(table.getName()).size());
      assertEquals(40, put(table, 30, 40).size());
      admin.disableTable(table.getName());
      admin.enableTable(table.getName());
      assertEquals(40, Server.rows(table, new Scan()).size());
      assertEquals(tracker, tracker(table));
    }
  }

  @Test
  public void aTrackerChangesWhileTheTableIsInUse() throws Exception {
    Table table = create(Map.of(TRACKER, "DEFAULT"), Map.of());
    TableName name = table.getName();
    put(table, 0, 10);
    admin.flush(name);
    admin.modifyTable(described(name, migration("DEFAULT", "FILE"), Map.of()));
    assertEquals("MIGRATION", tracker(table));
    put(table, 10, 20);
    admin.flush(name);
    admin.modifyTableStoreFileTracker(name, "FILE");
    assertEquals("FILE", tracker(table));
    assertNull(admin.getDescriptor(name).getValue(SOURCE));
    assertEquals(30, put(table, 20, 30).size());
    admin.flush(name);
    admin.modifyTable(described(name, migration("FILE", "DEFAULT"), Map.of()));
    assertEquals(40, put(table, 30, 40).size());
    admin.modifyTable(described(name, Map.of(TRACKER, "DEFAULT"), Map.of()));
    admin.majorCompact(name);
    admin.modifyColumnFamilyStoreFileTracker(name, F, "FILE");
    ColumnFamilyDescriptor family = admin.getDescriptor(name).getColumnFamily(F);
    assertEquals("FILE", family.getConfigurationValue(TRACKER));
    assertNull(family.getConfigurationValue(TARGET));
    assertEquals("DEFAULT", tracker(table));
    admin.disableTable(name);
    admin.enableTable(name);
    assertEquals(40, Server.rows(table, new Scan()).size());
  }

  @Test
  public void whatMayNotFollowIsRefused() throws Exception {
    TableName none = Server.freshName("trackers");
    Server.refused(DoNotRetryIOException.class, () -> admin.createTable(described(none, migration("FILE", "DEFAULT"), Map.of())));
    Server.refused(DoNotRetryIOException.class, () -> admin.createTable(described(none, Map.of(), Map.of(TRACKER, "MIGRATION"))));
    IOException unknown =
        Server.refused(IOException.class, () -> admin.createTable(described(none, Map.of(TRACKER, "no.Such"), Map.of())));
    String words = "java.lang.RuntimeException: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class no.Such not found";
    assertEquals(words, unknown.getMessage());
    assertTrue(!admin.tableExists(none));

    Table table = create(Map.of(TRACKER, "DEFAULT"), Map.of());
    TableName name = table.getName();
    unknown = Server.refused(IOException.class, () -> admin.modifyTable(described(name, Map.of(TRACKER, "no.Such"), Map.of())));
    assertEquals(words, unknown.getMessage());
    unknown = Server.refused(IOException.class, () -> admin.modifyTable(described(name, Map.of(TRACKER, "MIGRATION", SOURCE, "DEFAULT"), Map.of())));
    assertEquals("java.lang.NullPointerException: config " + TARGET + " is not set", unknown.getMessage());
    Server.refused(DoNotRetryIOException.class, () -> admin.modifyTable(described(name, Map.of(TRACKER, "FILE"), Map.of())));
    Server.refused(DoNotRetryIOException.class, () -> admin.modifyTable(described(name, migration("FILE", "DEFAULT"), Map.of())));
    Server.refused(DoNotRetryIOException.class, () -> admin.modifyTableStoreFileTracker(name, "MIGRATION"));
    Server.refused(NoSuchColumnFamilyException.class, () -> admin.modifyColumnFamilyStoreFileTracker(name, b("x"), "FILE"));
    admin.modifyTable(described(name, migration("DEFAULT", "FILE"), Map.of()));
    Server.refused(DoNotRetryIOException.class, () -> admin.modifyTable(described(name, Map.of(TRACKER, "DEFAULT"), Map.of())));
    admin.disableTable(name);
    Server.refused(TableNotEnabledException.class, () -> admin.modifyTable(described(name, Map.of(TRACKER, "FILE"), Map.of())));
    Server.refused(TableNotEnabledException.class, () -> admin.modifyTableStoreFileTracker(name, "FILE"));
    admin.enableTable(name);
    admin.modifyTableStoreFileTracker(name, "FILE");
    assertEquals("FILE", tracker(table));
  }
}
