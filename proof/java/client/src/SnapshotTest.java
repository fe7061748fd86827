import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.SnapshotDescription;
import org.apache.hadoop.hbase.client.SnapshotType;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.snapshot.SnapshotCreationException;
import org.apache.hadoop.hbase.snapshot.SnapshotExistsException;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** Snapshots: taken, listed, deleted, cloned and restored. */
public class SnapshotTest extends Words {
  private Admin admin;
  private Table table;

  @Before
  public void open() throws Exception {
    admin = Server.connection().getAdmin();
    table = Server.freshTable("snapshots", b("m"));
    put("a", "z");
  }

  @After
  public void close() throws Exception {
    admin.deleteSnapshots(Pattern.compile(name("") + ".*"));
    if (admin.tableExists(table.getName())) {
      Server.drop(table);
    }
    admin.close();
  }

  private String name(String about) {
    return "of-" + table.getName().getQualifierAsString() + "-" + about;
  }

  private void put(String... rows) throws Exception {
    for (String row : rows) {
      table.put(new Put(b(row)).addColumn(F, Q, b("of " + row)));
    }
  }

  private static List<String> rows(Table table) throws Exception {
    return Server.rows(table, new Scan());
  }

  private List<String> names() throws Exception {
    List<String> names = new ArrayList<>();
    for (SnapshotDescription snapshot : admin.listSnapshots(Pattern.compile(name("") + ".*"))) {
      assertEquals(table.getName(), snapshot.getTableName());
      names.add(snapshot.getName().substring(name("").length()) + " " + snapshot.getType());
    }
    names.sort(null);
    return names;
  }

  @Test
  public void everyKindIsTakenListedAndDeleted() throws Exception {
    admin.snapshot(name("flushed"), table.getName());
    put("b");
    admin.snapshot(name("skipped"), table.getName(), SnapshotType.SKIPFLUSH);
    admin.disableTable(table.getName());
    admin.snapshot(name("closed"), table.getName());
    assertEquals(List.of("closed DISABLED", "flushed FLUSH", "skipped SKIPFLUSH"), names());
    admin.deleteSnapshot(name("skipped"));
    assertEquals(List.of("closed DISABLED", "flushed FLUSH"), names());
    Server.refused(SnapshotExistsException.class, () -> admin.snapshot(name("closed"), table.getName()));
    Server.refused(
        SnapshotCreationException.class, () -> admin.snapshot(name("x"), TableName.valueOf("no-such-table")));
    admin.deleteTableSnapshots(Pattern.compile(table.getName().getNameAsString()), Pattern.compile(".*"));
    assertEquals(List.of(), names());
    admin.enableTable(table.getName());
  }

  @Test
  public void aTimeToLiveIsKept() throws Exception {
    admin.snapshot(name("brief"), table.getName(), SnapshotType.FLUSH, Map.of("TTL", 3600L));
    assertEquals(3600, admin.listSnapshots(Pattern.compile(name("brief"))).get(0).getTtl());
  }

  @Test
  public void aCloneLivesOnWithoutItsTableAndItsSnapshot() throws Exception {
    admin.snapshot(name("s"), table.getName());
    put("b");
    TableName copy = Server.freshName("clone");
    admin.cloneSnapshot(name("s"), copy);
    try (Table clone = Server.connection().getTable(copy)) {
      assertEquals(List.of("a", "z"), rows(clone));
      clone.put(new Put(b("c")).addColumn(G, Q, b("only there")));
      assertEquals(List.of("a", "b", "z"), rows(table));
      Server.drop(table);
      admin.deleteSnapshot(name("s"));
      admin.majorCompact(copy);
      assertEquals(List.of("a", "c", "z"), rows(clone));
      admin.disableTable(copy);
      admin.enableTable(copy);
      assertEquals(List.of("a", "c", "z"), rows(clone));
      Server.drop(clone);
    }
  }

  @Test
  public void aSnapshotOfASplitTableHasAllRows() throws Exception {
    put("b", "c", "d");
    admin.flush(table.getName());
    admin.split(table.getName(), b("c"));
    for (int i = 0; i < 100 && admin.getRegions(table.getName()).size() < 3; i++) {
      Thread.sleep(100);
    }
    assertEquals(3, admin.getRegions(table.getName()).size());
    admin.snapshot(name("s"), table.getName());
    TableName copy = Server.freshName("clone");
    admin.cloneSnapshot(name("s"), copy);
    try (Table clone = Server.connection().getTable(copy)) {
      assertEquals(List.of("a", "b", "c", "d", "z"), rows(clone));
      assertEquals(3, admin.getRegions(copy).size());
      Server.drop(clone);
    }
  }

  @Test
  public void aRestorationBringsBackRowsAndSchema() throws Exception {
    TableDescriptor schema = table.getDescriptor();
    admin.snapshot(name("s"), table.getName());
    put("b");
    admin.modifyTable(TableDescriptorBuilder.newBuilder(schema).removeColumnFamily(G).build());
    Server.refused(Exception.class, () -> admin.restoreSnapshot(name("s"), false));
    admin.disableTable(table.getName());
    for (boolean failsafe : List.of(true, false)) {
      admin.restoreSnapshot(name("s"), failsafe);
      assertTrue(admin.isTableDisabled(table.getName()));
      admin.enableTable(table.getName());
      assertEquals(List.of("a", "z"), rows(table));
      assertEquals(schema, table.getDescriptor());
      put("c");
      assertEquals(List.of("a", "c", "z"), rows(table));
      admin.disableTable(table.getName());
    }
    admin.enableTable(table.getName());
    // The safety snapshot is gone when the restoration went well.
    assertFalse(admin.listSnapshots().stream().anyMatch(one -> one.getName().contains("failsafe")));
  }
}
