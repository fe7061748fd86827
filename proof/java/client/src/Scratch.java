import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.SnapshotDescription;
import org.apache.hadoop.hbase.client.SnapshotType;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/**
 * Tables, snapshots and namespaces on which a test may try a call. {@link #clean} deletes what was handed out since the last
 * one, and what the call has made under a name that was handed out. The common table and its snapshot stay until the end.
 */
final class Scratch {
  /** Time limit for the end of what a call left behind, in ms. */
  private static final long CLEAN_MS = 60_000;

  final Admin admin = Server.connection().getAdmin();
  private final TableName common = create(true);
  private final String commonSnapshot = "common-" + common.getNameAsString();
  private final List<TableName> tables = new ArrayList<>();
  private final List<String> snapshots = new ArrayList<>();
  private final List<String> ended = new ArrayList<>();
  private final List<String> namespaces = new ArrayList<>();

  Scratch() throws Exception {
    admin.snapshot(commonSnapshot, common);
  }

  /** Creates a table with the families f and g, a row before and one after "m", and a region for each if `isSplit`. */
  private static TableName create(boolean isSplit) throws Exception {
    try (Table table = isSplit ? Server.freshTable("every", Server.b("m")) : Server.freshTable("every")) {
      for (String row : List.of("a", "z")) {
        table.put(new Put(Server.b(row)).addColumn(Server.F, Server.Q, Server.b("v")));
      }
      return table.getName();
    }
  }

  /** Returns a table of two regions that calls may read, flush and compact. */
  TableName common() {
    return common;
  }

  String commonSnapshot() {
    return commonSnapshot;
  }

  /** Returns a new table of one region. */
  TableName fresh() throws Exception {
    TableName name = create(false);
    tables.add(name);
    return name;
  }

  TableName freshSplit() throws Exception {
    TableName name = create(true);
    tables.add(name);
    return name;
  }

  TableName disabled() throws Exception {
    TableName name = fresh();
    admin.disableTable(name);
    return name;
  }

  /** Returns a new table that is left alone afterwards: it may not be deleted any more. */
  TableName abandoned() throws Exception {
    return create(false);
  }

  /** Returns the name of no table. */
  TableName absent() {
    TableName name = Server.freshName("every");
    tables.add(name);
    return name;
  }

  TableDescriptor descriptor(TableName name) {
    return TableDescriptorBuilder.newBuilder(name).setColumnFamily(ColumnFamilyDescriptorBuilder.of(Server.F)).build();
  }

  byte[] region(TableName name) throws Exception {
    return regions(name).get(0).getRegionName();
  }

  byte[] encodedRegion(TableName name) throws Exception {
    return regions(name).get(0).getEncodedNameAsBytes();
  }

  List<RegionInfo> regions(TableName name) throws Exception {
    return admin.getRegions(name);
  }

  /** Returns a region as the class that old methods of HBase 2's client take. */
  Object oldRegion(TableName name) throws Exception {
    return ((List<?>) Admin.class.getMethod("getTableRegions", TableName.class).invoke(admin, name)).get(0);
  }

  /** Returns a region that is closed. */
  byte[] closedRegion() throws Exception {
    byte[] region = region(fresh());
    admin.unassign(region);
    return region;
  }

  ServerName server() throws Exception {
    return admin.getRegionServers().iterator().next();
  }

  /** Returns the name of no snapshot. */
  String absentSnapshot() {
    String name = Server.freshName("every").getNameAsString();
    snapshots.add(name);
    return name;
  }

  /** Takes a snapshot of a table. */
  String snapshot(TableName of) throws Exception {
    String name = absentSnapshot();
    admin.snapshot(name, of);
    return name;
  }

  /** Takes a snapshot of a new table, which is disabled then. */
  String snapshotOfDisabled() throws Exception {
    return snapshot(disabled());
  }

  SnapshotDescription description(String name) {
    return new SnapshotDescription(name, common, SnapshotType.FLUSH, null, -1, -1, Map.of());
  }

  String absentNamespace() {
    String name = Server.freshName("every").getNameAsString().replace('-', '_');
    namespaces.add(name);
    return name;
  }

  String namespace() throws Exception {
    String name = absentNamespace();
    admin.createNamespace(NamespaceDescriptor.create(name).build());
    return name;
  }

  /** Deletes what was handed out. A call may have left a change that is under way, so a failure is tried again. */
  void clean() throws Exception {
    for (String snapshot : snapshots) {
      retry(
          () -> {
            if (admin.listSnapshots().stream().anyMatch(one -> one.getName().equals(snapshot))) {
              admin.deleteSnapshot(snapshot);
            }
          });
    }
    for (TableName table : tables) {
      retry(
          () -> {
            if (admin.tableExists(table)) {
              if (admin.isTableEnabled(table)) {
                admin.disableTable(table);
              }
              admin.deleteTable(table);
            }
          });
    }
    for (String namespace : namespaces) {
      retry(
          () -> {
            if (List.of(admin.listNamespaces()).contains(namespace)) {
              admin.deleteNamespace(namespace);
            }
          });
    }
    ended.addAll(snapshots);
    snapshots.clear();
    tables.clear();
    namespaces.clear();
  }

  private static void retry(Server.Act act) throws Exception {
    for (long end = System.currentTimeMillis() + CLEAN_MS; ; ) {
      try {
        act.run();
        return;
      } catch (Exception failure) {
        if (System.currentTimeMillis() > end) {
          throw failure;
        }
      }
    }
  }

  /** Deletes everything. */
  void end() throws Exception {
    // A snapshot that a call has only begun was not listed when its turn came.
    snapshots.addAll(ended);
    snapshots.add(commonSnapshot);
    tables.add(common);
    clean();
    admin.close();
  }
}
