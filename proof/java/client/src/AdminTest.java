import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.HBaseIOException;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.InvalidFamilyOperationException;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.NamespaceExistException;
import org.apache.hadoop.hbase.NamespaceNotFoundException;
import org.apache.hadoop.hbase.RegionMetrics;
import org.apache.hadoop.hbase.ServerMetrics;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableExistsException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.TableNotDisabledException;
import org.apache.hadoop.hbase.TableNotEnabledException;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.CompactType;
import org.apache.hadoop.hbase.client.CompactionState;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.LogEntry;
import org.apache.hadoop.hbase.client.OnlineLogRecord;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.ServerType;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.quotas.QuotaFilter;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.security.access.GetUserPermissionsRequest;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** Administration by a client: tables, families, namespaces, regions, flushes, compactions, loads. */
public class AdminTest extends Words {
  private static final long PATIENCE_NANOS = 60_000_000_000L;
  private Admin admin;

  @Before
  public void open() throws Exception {
    admin = Server.connection().getAdmin();
  }

  @After
  public void close() throws Exception {
    admin.close();
  }

  private interface Question {
    boolean ask() throws Exception;
  }

  private static void eventually(String what, Question question) throws Exception {
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (!question.ask()) {
      // Each check is a call, so the loop needs no pause.
      assertTrue(what, System.nanoTime() < end);
    }
  }

  private static List<String> starts(List<RegionInfo> regions) {
    List<String> starts = new ArrayList<>();
    regions.forEach(region -> starts.add(s(region.getStartKey()) + ".." + s(region.getEndKey())));
    return starts;
  }

  private void delete(TableName name) throws Exception {
    if (admin.isTableEnabled(name)) {
      admin.disableTable(name);
    }
    admin.deleteTable(name);
  }

  private List<RegionMetrics> loads(TableName name) throws Exception {
    List<RegionMetrics> loads = new ArrayList<>();
    for (ServerName server : admin.getRegionServers()) {
      loads.addAll(admin.getRegionMetrics(server, name));
    }
    return loads;
  }

  private int files(TableName name) throws Exception {
    return loads(name).stream().mapToInt(RegionMetrics::getStoreFileCount).sum();
  }

  @Test
  public void aTableIsMadeListedDescribedAndDeleted() throws Exception {
    TableName name = Server.freshName("made");
    assertFalse(admin.tableExists(name));
    TableDescriptor asked =
        TableDescriptorBuilder.newBuilder(name)
            .setMaxFileSize(5L << 30).setDurability(Durability.SYNC_WAL).setValue("OURS", "kept")
            .setColumnFamily(
                ColumnFamilyDescriptorBuilder.newBuilder(F).setMaxVersions(7).setMinVersions(2).setTimeToLive(86_400)
                    .setCompressionType(Compression.Algorithm.GZ).setBloomFilterType(BloomType.ROWCOL)
                    .setDataBlockEncoding(DataBlockEncoding.ROW_INDEX_V1).setBlocksize(8_192).setInMemory(true)
                    .setConfiguration("hbase.hstore.compaction.min", "5").setValue(b("MINE"), b("too")).build())
            .setColumnFamily(ColumnFamilyDescriptorBuilder.of(G))
            .build();
    admin.createTable(asked, new byte[][] {b("p"), b("d")});
    assertTrue(admin.tableExists(name));
    assertTrue(admin.isTableAvailable(name));
    assertTrue(admin.isTableEnabled(name));
    assertFalse(admin.isTableDisabled(name));
    assertEquals(List.of("..d", "d..p", "p.."), starts(admin.getRegions(name)));

    TableDescriptor told = admin.getDescriptor(name);
    assertEquals(7, told.getColumnFamily(F).getMaxVersions());
    assertEquals("5", told.getColumnFamily(F).getConfigurationValue("hbase.hstore.compaction.min"));
    assertEquals("too", s(told.getColumnFamily(F).getValue(b("MINE"))));
    assertEquals(asked.getColumnFamily(F), told.getColumnFamily(F));
    assertEquals("kept", told.getValue("OURS"));
    assertEquals(5L << 30, told.getMaxFileSize());
    assertEquals(Durability.SYNC_WAL, told.getDurability());
    assertEquals(2, told.getColumnFamilyCount());

    assertTrue(Arrays.asList(admin.listTableNames()).contains(name));
    assertArrayEquals(new TableName[] {name}, admin.listTableNames(Pattern.compile(name.getNameAsString() + "|nosuch.*")));
    assertEquals(List.of(told), admin.listTableDescriptors(List.of(name)));
    assertTrue(admin.listTableDescriptors().contains(told));
    Pattern every = Pattern.compile(".*");
    assertTrue(admin.listTableNames(every, true).length > admin.listTableNames(every, false).length);
    assertTrue(admin.listTableDescriptorsByState(true).contains(told));
    assertFalse(admin.listTableNamesByState(false).contains(name));
    Server.refused(TableExistsException.class, () -> admin.createTable(asked));

    Server.refused(TableNotDisabledException.class, () -> admin.deleteTable(name));
    delete(name);
    assertFalse(admin.tableExists(name));
    Server.refused(TableNotFoundException.class, () -> admin.getDescriptor(name));
    Server.refused(TableNotFoundException.class, () -> admin.deleteTable(name));
    Server.refused(TableNotFoundException.class, () -> admin.disableTable(name));
  }

  @Test
  public void regionsAreCutBetweenTwoKeys() throws Exception {
    TableName name = Server.freshName("between");
    TableDescriptor descriptor =
        TableDescriptorBuilder.newBuilder(name).setColumnFamily(ColumnFamilyDescriptorBuilder.of(F)).build();
    admin.createTable(descriptor, b("1000"), b("9000"), 6);
    List<RegionInfo> regions = admin.getRegions(name);
    assertEquals(6, regions.size());
    assertEquals("..1000", starts(regions).get(0));
    assertEquals("9000..", starts(regions).get(5));
    for (int n = 1; n < 6; n++) {
      assertArrayEquals(regions.get(n - 1).getEndKey(), regions.get(n).getStartKey());
    }
    delete(name);
    Server.refused(
        IllegalArgumentException.class, () -> admin.createTable(descriptor, new byte[][] {b("a"), b("a")}));
  }

  @Test
  public void aTableIsDisabledAndEnabled() throws Exception {
    Table table = Server.freshTable("switched", b("m"));
    TableName name = table.getName();
    table.put(new Put(b("r")).addColumn(F, Q, 5, b("v")));
    Server.refused(TableNotDisabledException.class, () -> admin.enableTable(name));
    admin.disableTable(name);
    assertTrue(admin.isTableDisabled(name));
    assertFalse(admin.isTableEnabled(name));
    assertTrue(admin.listTableNamesByState(false).contains(name));
    Server.refused(TableNotEnabledException.class, () -> admin.disableTable(name));
    admin.enableTable(name);
    assertTrue(admin.isTableEnabled(name));
    assertTrue(admin.isTableAvailable(name));
    assertEquals(List.of("r/f:q@5=v"), Server.cells(table.get(new Get(b("r")))));
    Server.drop(table);
  }

  @Test
  public void familiesComeChangeAndGo() throws Exception {
    Table table = Server.freshTable("families", b("m"));
    TableName name = table.getName();
    byte[] h = b("h");
    for (String row : List.of("a", "z")) {
      table.put(new Put(b(row)).addColumn(F, Q, 5, b("f")).addColumn(G, Q, 5, b("g")));
    }
    admin.addColumnFamily(name, ColumnFamilyDescriptorBuilder.newBuilder(h).setMaxVersions(3).build());
    for (long version = 1; version <= 4; version++) {
      table.put(new Put(b("a")).addColumn(h, Q, version, b("h" + version)));
    }
    assertEquals(
        List.of("a/f:q@5=f", "a/g:q@5=g", "a/h:q@4=h4", "a/h:q@3=h3", "a/h:q@2=h2"),
        Server.cells(table.get(new Get(b("a")).readAllVersions())));
    Server.refused(
        InvalidFamilyOperationException.class, () -> admin.addColumnFamily(name, ColumnFamilyDescriptorBuilder.of(h)));

    ColumnFamilyDescriptor one =
        ColumnFamilyDescriptorBuilder.newBuilder(h).setMaxVersions(1).setBloomFilterType(BloomType.NONE).build();
    admin.modifyColumnFamily(name, one);
    assertEquals(one, admin.getDescriptor(name).getColumnFamily(h));
    assertEquals(List.of("a/h:q@4=h4"), Server.cells(table.get(new Get(b("a")).addFamily(h).readAllVersions())));
    Server.refused(
        InvalidFamilyOperationException.class,
        () -> admin.modifyColumnFamily(name, ColumnFamilyDescriptorBuilder.of("nosuch")));

    admin.deleteColumnFamily(name, G);
    assertFalse(admin.getDescriptor(name).hasColumnFamily(G));
    assertEquals(List.of("z/f:q@5=f"), Server.cells(table.get(new Get(b("z")))));
    Server.refused(InvalidFamilyOperationException.class, () -> admin.deleteColumnFamily(name, G));

    TableDescriptor changed =
        TableDescriptorBuilder.newBuilder(admin.getDescriptor(name)).setMaxFileSize(7L << 30).setValue("OURS", "new")
            .removeColumnFamily(h).build();
    admin.modifyTable(changed);
    assertEquals(changed, admin.getDescriptor(name));
    assertEquals(List.of("a/f:q@5=f", "z/f:q@5=f"), Server.cells(table, new Scan()));
    Server.drop(table);
  }

  /** The change is stored, and a region has it when it is opened the next time. */
  @Test
  public void aTableIsChangedWithoutReopeningItsRegions() throws Exception {
    Table table = Server.freshTable("notreopened");
    TableName name = table.getName();
    for (long version = 1; version <= 3; version++) {
      table.put(new Put(b("r")).addColumn(F, Q, version, b("v" + version)));
    }
    Get all = new Get(b("r")).readAllVersions();
    List<String> three = List.of("r/f:q@3=v3", "r/f:q@2=v2", "r/f:q@1=v1");
    assertEquals(three, Server.cells(table.get(all)));

    TableDescriptor before = admin.getDescriptor(name);
    ColumnFamilyDescriptor one =
        ColumnFamilyDescriptorBuilder.newBuilder(before.getColumnFamily(F)).setMaxVersions(1).build();
    TableDescriptor changed = TableDescriptorBuilder.newBuilder(before).modifyColumnFamily(one).build();
    // Only this method is in HBase 2 and in HBase 3.
    admin.modifyTableAsync(changed, false).get(1, TimeUnit.MINUTES);
    assertEquals(changed, admin.getDescriptor(name));
    assertEquals(three, Server.cells(table.get(all)));

    TableDescriptor less = TableDescriptorBuilder.newBuilder(changed).removeColumnFamily(G).build();
    // The client would repeat the call for two minutes, because the exception does not say that this is no use.
    Configuration conf = Server.configuration();
    conf.setInt("hbase.client.retries.number", 1);
    try (Connection once = ConnectionFactory.createConnection(conf); Admin impatient = once.getAdmin()) {
      Server.refused(HBaseIOException.class, () -> impatient.modifyTableAsync(less, false).get(1, TimeUnit.MINUTES));
    }
    assertEquals(changed, admin.getDescriptor(name));

    admin.disableTable(name);
    admin.enableTable(name);
    assertEquals(List.of("r/f:q@3=v3"), Server.cells(table.get(all)));
    Server.drop(table);
  }

  @Test
  public void aTableIsEmptied() throws Exception {
    Table table = Server.freshTable("emptied", b("g"), b("p"));
    TableName name = table.getName();
    for (boolean keeping : new boolean[] {true, false}) {
      table.put(new Put(b("h")).addColumn(F, Q, b("v")));
      admin.flush(name);
      table.put(new Put(b("z")).addColumn(F, Q, b("v")));
      Server.refused(TableNotDisabledException.class, () -> admin.truncateTable(name, keeping));
      admin.disableTable(name);
      admin.truncateTable(name, keeping);
      assertTrue(admin.isTableEnabled(name));
      assertEquals(List.of(), Server.rows(table, new Scan()));
      assertEquals(keeping ? 3 : 1, admin.getRegions(name).size());
      assertEquals(5, admin.getDescriptor(name).getColumnFamily(F).getMaxVersions());
    }
    Server.drop(table);
  }

  @Test
  public void namespacesHoldTables() throws Exception {
    String space = Server.freshName("space").getNameAsString().replace('-', '_');
    Server.refused(NamespaceNotFoundException.class, () -> admin.getNamespaceDescriptor(space));
    admin.createNamespace(NamespaceDescriptor.create(space).addConfiguration("ours", "one").build());
    assertEquals("one", admin.getNamespaceDescriptor(space).getConfigurationValue("ours"));
    admin.modifyNamespace(NamespaceDescriptor.create(space).addConfiguration("ours", "two").build());
    assertEquals("two", admin.getNamespaceDescriptor(space).getConfigurationValue("ours"));
    Server.refused(
        NamespaceExistException.class, () -> admin.createNamespace(NamespaceDescriptor.create(space).build()));
    assertTrue(Arrays.asList(admin.listNamespaces()).containsAll(List.of(space, "default", "hbase")));
    assertTrue(
        Arrays.stream(admin.listNamespaceDescriptors()).anyMatch(descriptor -> descriptor.getName().equals(space)));

    TableName name = TableName.valueOf(space, "table");
    TableDescriptor descriptor =
        TableDescriptorBuilder.newBuilder(name).setColumnFamily(ColumnFamilyDescriptorBuilder.of(F)).build();
    admin.createTable(descriptor);
    assertArrayEquals(new TableName[] {name}, admin.listTableNamesByNamespace(space));
    assertEquals(List.of(admin.getDescriptor(name)), admin.listTableDescriptorsByNamespace(b(space)));
    try (Table table = Server.connection().getTable(name)) {
      table.put(new Put(b("r")).addColumn(F, Q, 5, b("v")));
      assertEquals(List.of("r/f:q@5=v"), Server.cells(table.get(new Get(b("r")))));
    }
    // The client does not have the exception's class, so its message is compared.
    IOException refusal = Server.refused(IOException.class, () -> admin.deleteNamespace(space));
    String words = refusal.getMessage() + refusal.getCause();
    assertTrue(words, words.contains("Only empty namespaces can be removed"));
    delete(name);
    admin.deleteNamespace(space);
    assertFalse(Arrays.asList(admin.listNamespaces()).contains(space));
    Server.refused(NamespaceNotFoundException.class, () -> admin.deleteNamespace(space));
    Server.refused(NamespaceNotFoundException.class, () -> admin.createTable(descriptor));
  }

  @Test
  public void aTruncatedRegionIsEmptyAndKeepsItsName() throws Exception {
    Table table = Server.freshTable("emptied", b("m"));
    TableName name = table.getName();
    table.put(new Put(b("a")).addColumn(F, Q, b("in a file")));
    admin.flush(name);
    table.put(new Put(b("b")).addColumn(F, Q, b("in memory")));
    table.put(new Put(b("z")).addColumn(F, Q, b("in the other region")));
    List<RegionInfo> before = admin.getRegions(name);
    admin.truncateRegion(before.get(0).getRegionName());
    assertEquals(before, admin.getRegions(name));
    assertEquals(List.of("z"), Server.rows(table, new Scan()));
    table.put(new Put(b("a")).addColumn(F, Q, b("again")));
    assertEquals(List.of("a", "z"), Server.rows(table, new Scan()));
    admin.disableTable(name);
    Server.refused(TableNotEnabledException.class, () -> admin.truncateRegion(before.get(0).getRegionName()));
    admin.enableTable(name);
    Server.drop(table);
  }

  @Test
  public void aProcedureIsNamedByItsSignature() throws Exception {
    Table table = Server.freshTable("signed");
    String name = table.getName().getNameAsString();
    table.put(new Put(b("a")).addColumn(F, Q, b("v")));
    admin.execProcedure("flush-table-proc", name, Map.of());
    assertTrue(admin.isProcedureFinished("flush-table-proc", name, Map.of()));
    eventually("the flush is told", () -> files(table.getName()) == 1);
    DoNotRetryIOException unknown =
        Server.refused(DoNotRetryIOException.class, () -> admin.execProcedure("nosuch", name, Map.of()));
    assertTrue(unknown.getMessage(), unknown.getMessage().contains("The procedure is not registered: nosuch"));
    Server.drop(table);
  }

  @Test
  public void theTimeOfTheLastMajorCompactionOutlivesAFlush() throws Exception {
    Table table = Server.freshTable("majored");
    TableName name = table.getName();
    long began = System.currentTimeMillis();
    assertEquals(0, admin.getLastMajorCompactionTimestamp(name));
    table.put(new Put(b("a")).addColumn(F, Q, b("v")));
    admin.flush(name);
    admin.majorCompact(name);
    eventually("the compaction is told", () -> admin.getLastMajorCompactionTimestamp(name) >= began);
    long told = admin.getLastMajorCompactionTimestamp(name);
    assertEquals(
        told, admin.getLastMajorCompactionTimestampForRegion(admin.getRegions(name).get(0).getRegionName()));
    table.put(new Put(b("b")).addColumn(F, Q, b("v")));
    admin.flush(name);
    eventually("the flush is told", () -> files(name) == 2);
    assertEquals(told, admin.getLastMajorCompactionTimestamp(name));
    Server.drop(table);
  }

  @Test
  public void flushesAndCompactionsChangeFilesAndNothingElse() throws Exception {
    Table table = Server.freshTable("files");
    TableName name = table.getName();
    for (int file = 1; file <= 2; file++) {
      for (int n = 0; n < 50; n++) {
        table.put(new Put(b("r" + n)).addColumn(F, Q, file, b("v" + file)));
      }
      admin.flush(name);
      int expected = file;
      eventually("the flush is told", () -> files(name) == expected);
    }
    assertEquals(0, loads(name).get(0).getMemStoreSize().getLongValue());
    table.delete(new Delete(b("r7")).addFamily(F));
    admin.flushRegion(admin.getRegions(name).get(0).getRegionName());
    eventually("the region's flush is told", () -> files(name) >= 1);
    List<String> before = Server.cells(table, new Scan().readAllVersions());
    admin.compact(name);
    eventually("the minor compaction ends", () -> admin.getCompactionState(name) == CompactionState.NONE);
    assertEquals(before, Server.cells(table, new Scan().readAllVersions()));
    admin.majorCompact(name);
    eventually("the major compaction ends", () -> files(name) == 1 && admin.getCompactionState(name) == CompactionState.NONE);
    assertEquals(before, Server.cells(table, new Scan().readAllVersions()));
    assertEquals(CompactionState.NONE, admin.getCompactionState(name, CompactType.MOB));
    assertEquals(98, before.size());
    // The marker and the cells that it hid are dropped.
    eventually(
        "the marker is gone",
        () -> Server.cells(table, new Scan().setRaw(true).readAllVersions().withStartRow(b("r7")).withStopRow(b("r7"), true)).isEmpty());

    RegionInfo region = admin.getRegions(name).get(0);
    table.put(new Put(b("z")).addColumn(F, Q, b("v")).addColumn(G, Q, b("v")));
    admin.flush(name, F);
    admin.compactRegion(region.getRegionName(), F);
    admin.majorCompactRegion(region.getRegionName());
    eventually("it ends", () -> admin.getCompactionStateForRegion(region.getRegionName()) == CompactionState.NONE);
    assertEquals("v", s(table.get(new Get(b("z"))).getValue(G, Q)));
    Server.refused(TableNotFoundException.class, () -> admin.flush(TableName.valueOf("no-such-table")));
    Server.refused(TableNotFoundException.class, () -> admin.majorCompact(TableName.valueOf("no-such-table")));
    Server.drop(table);
  }

  @Test
  public void aStoreOfStripesIsFlushedAndCompactedByRanges() throws Exception {
    TableName name = Server.freshName("stripes");
    admin.createTable(
        TableDescriptorBuilder.newBuilder(name)
            .setColumnFamily(
                ColumnFamilyDescriptorBuilder.newBuilder(F)
                    .setConfiguration("hbase.hstore.engine.class", "org.apache.hadoop.hbase.regionserver.StripeStoreEngine")
                    .setConfiguration("hbase.store.stripe.initialStripeCount", "3")
                    .setConfiguration("hbase.store.stripe.compaction.minFiles", "2").build())
            .build());
    Table table = Server.connection().getTable(name);
    for (int n = 0; n < 60; n++) {
      table.put(new Put(b(String.format("r%02d", n))).addColumn(F, Q, 1, b("v")));
    }
    admin.flush(name);
    eventually("each stripe has a file", () -> files(name) == 3);
    table.delete(new Delete(b("r07")).addFamily(F));
    List<String> before = Server.cells(table, new Scan().readAllVersions());
    assertEquals(59, before.size());
    admin.flush(name);
    admin.majorCompact(name);
    // A stripe has all files with its rows, so the marker and the cell that it hid are dropped.
    eventually(
        "the stripe is compacted",
        () -> Server.cells(table, new Scan().setRaw(true).readAllVersions().withStartRow(b("r07")).withStopRow(b("r07"), true)).isEmpty());
    eventually("each stripe has a file again", () -> files(name) == 3);
    assertEquals(before, Server.cells(table, new Scan().readAllVersions()));
    Server.drop(table);
  }

  @Test
  public void regionsHavePlaces() throws Exception {
    Table table = Server.freshTable("places", b("h"), b("p"));
    try (RegionLocator locator = Server.connection().getRegionLocator(table.getName())) {
      List<HRegionLocation> all = locator.getAllRegionLocations();
      assertEquals(3, all.size());
      for (HRegionLocation location : all) {
        assertTrue(admin.getRegionServers().contains(location.getServerName()));
        // HBase 3's client does not read the sequence id for a list of all regions.
        assertTrue(Server.IS_CLIENT_3 || location.getSeqNum() > 0);
        assertTrue(admin.getRegions(location.getServerName()).contains(location.getRegion()));
      }
      assertArrayEquals(new byte[][] {b(""), b("h"), b("p")}, locator.getStartKeys());
      assertArrayEquals(new byte[][] {b("h"), b("p"), b("")}, locator.getEndKeys());
      assertEquals("h", s(locator.getRegionLocation(b("h"), true).getRegion().getStartKey()));
      assertEquals("", s(locator.getRegionLocation(b("gzzz"), true).getRegion().getStartKey()));
      assertEquals("p", s(locator.getRegionLocation(b("zzz")).getRegion().getStartKey()));
    }
    Server.drop(table);
  }

  @Test
  public void theClusterTellsItsServersRegionsAndLoads() throws Exception {
    Table table = Server.freshTable("loads", b("m"));
    TableName name = table.getName();
    for (int n = 0; n < 20; n++) {
      table.put(new Put(b("a" + n)).addColumn(F, Q, new byte[1_000]));
      table.get(new Get(b("a" + n)));
    }
    ClusterMetrics metrics = admin.getClusterMetrics();
    assertNotNull(metrics.getHBaseVersion());
    assertEquals(36, metrics.getClusterId().length());
    assertEquals(0, metrics.getDeadServerNames().size());
    assertEquals(0, metrics.getRegionStatesInTransition().size());
    assertEquals(metrics.getMasterName(), admin.getMaster());
    assertTrue(metrics.getMasterName().getPort() > 0);
    assertTrue(metrics.getRegionCount() >= 3);
    assertEquals(1, metrics.getLiveServerMetrics().size());
    ServerMetrics server = metrics.getLiveServerMetrics().values().iterator().next();
    assertTrue(server.getMaxHeapSize().getLongValue() > 0);
    assertTrue(server.getReportTimestamp() > 0);
    assertEquals(metrics.getRegionCount(), server.getRegionMetrics().size(), 2);

    // A server returns its present loads, the master the last reported ones.
    eventually(
        "the regions' loads are told",
        () -> {
          Map<String, RegionMetrics> loads = new TreeMap<>();
          loads(name).forEach(load -> loads.put(RegionInfo.encodeRegionName(load.getRegionName()), load));
          assertEquals(2, loads.size());
          RegionInfo first = admin.getRegions(name).get(0);
          RegionMetrics load = loads.get(first.getEncodedName());
          return load.getStoreCount() == 2 && load.getWriteRequestCount() >= 20 && load.getReadRequestCount() >= 20
              && load.getMemStoreSize().get() > 0;
        });
    eventually(
        "the server's count of requests is told",
        () -> {
          ClusterMetrics again = admin.getClusterMetrics(EnumSet.of(ClusterMetrics.Option.LIVE_SERVERS));
          ServerMetrics one = again.getLiveServerMetrics().values().iterator().next();
          return one.getRequestCount() > 0 && one.getRegionMetrics().values().stream()
              .anyMatch(load -> Bytes.toString(load.getRegionName()).startsWith(name.getNameAsString()));
        });
    ClusterMetrics some = admin.getClusterMetrics(EnumSet.of(ClusterMetrics.Option.MASTER, ClusterMetrics.Option.HBASE_VERSION));
    assertEquals(metrics.getMasterName(), some.getMasterName());
    assertTrue(some.getLiveServerMetrics().isEmpty());
    assertEquals(List.copyOf(metrics.getLiveServerMetrics().keySet()), List.copyOf(admin.getRegionServers()));
    Server.drop(table);
  }

  /** Each call of every kind is answered; those that name what does not exist are refused as HBase refuses them. */
  @Test
  public void everyKindOfCallIsAnsweredOrRefusedAndNothingIsClosed() throws Exception {
    Configuration conf = Server.configuration();
    conf.setInt("hbase.client.retries.number", 2);
    conf.setInt("hbase.client.pause", 20);
    Table table = Server.freshTable("beyond", b("m"));
    TableName name = table.getName();
    RegionInfo region = admin.getRegions(name).get(0);
    ServerName server = admin.getRegionServers().iterator().next();
    try (Connection connection = ConnectionFactory.createConnection(conf); Admin patient = connection.getAdmin()) {
      Map<String, Server.Act> acts = new TreeMap<>();
      acts.put("snapshot", () -> patient.snapshot("snapshot-" + name.getNameAsString(), name));
      acts.put("snapshots", patient::listSnapshots);
      acts.put("deleteSnapshot", () -> patient.deleteSnapshot("no-such-snapshot"));
      acts.put("split", () -> patient.splitRegionAsync(region.getRegionName(), b("c")).get());
      acts.put("balance", patient::balance);
      acts.put("balancer", patient::isBalancerEnabled);
      acts.put("normalizer", patient::isNormalizerEnabled);
      acts.put("catalogJanitor", patient::isCatalogJanitorEnabled);
      acts.put("cleaner", patient::isCleanerChoreEnabled);
      acts.put("splitSwitch", patient::isSplitEnabled);
      acts.put("mergeSwitch", patient::isMergeEnabled);
      acts.put("replication", patient::listReplicationPeers);
      acts.put("removePeer", () -> patient.removeReplicationPeer("no-such-peer"));
      acts.put("quotas", () -> patient.getQuota(new QuotaFilter()));
      acts.put("throttle", patient::isRpcThrottleEnabled);
      acts.put("spaceQuotas", patient::getSpaceQuotaTableSizes);
      acts.put("rollLog", () -> patient.rollWALWriter(server));
      acts.put("locks", patient::getLocks);
      acts.put("procedures", patient::getProcedures);
      acts.put("maintenance", patient::isMasterInMaintenanceMode);
      acts.put("decommissioned", patient::listDecommissionedRegionServers);
      acts.put("security", patient::getSecurityCapabilities);
      acts.put("lastMajor", () -> patient.getLastMajorCompactionTimestamp(name));
      acts.put("compactionSwitch", () -> patient.compactionSwitch(true, List.of()));
      acts.put("clearCache", () -> patient.clearBlockCache(name));
      acts.put("clearQueues", () -> patient.clearCompactionQueues(server, Set.of("short")));
      acts.put("updateConfiguration", () -> patient.updateConfiguration(server));
      acts.put("snapshotCleanup", patient::isSnapshotCleanupEnabled);
      acts.put("slowLog", () -> patient.getLogEntries(Set.of(server), "SLOW_LOG", ServerType.REGION_SERVER, 10, Map.of()));
      acts.put("permissions", () -> patient.getUserPermissions(GetUserPermissionsRequest.newBuilder(name).build()));
      Map<String, String> refusals = new TreeMap<>();
      for (Map.Entry<String, Server.Act> act : acts.entrySet()) {
        try {
          act.getValue().run();
        } catch (Exception refusal) {
          refusals.put(act.getKey(), refusal.getClass().getSimpleName());
        }
        // The same connections still work.
        assertTrue(act.getKey(), patient.tableExists(name));
      }
      Map<String, String> expected = new TreeMap<>(Map.of(
          "deleteSnapshot", "SnapshotDoesNotExistException",
          "permissions", "DoNotRetryIOException",
          "removePeer", "ReplicationPeerNotFoundException"));
      if (Server.IS_CLIENT_3) {
        // Quotas are off, so the table hbase:quota does not exist. HBase 2's client hides this from its caller.
        expected.put("quotas", "TableNotFoundException");
      }
      assertEquals(expected, refusals);
      patient.deleteSnapshot("snapshot-" + name.getNameAsString());
    }
    Server.drop(table);
  }

  /** A call with an answer of more than 100 MB is listed as large until an operator clears the list. */
  @Test
  public void largeAnswersAreListedAndForgotten() throws Exception {
    Table table = Server.freshTable("large");
    Set<ServerName> servers = Set.copyOf(admin.getRegionServers());
    boolean listed = !admin.clearSlowLogResponses(servers).contains(false);
    byte[] value = new byte[9 << 20];
    table.put(new Put(b("row")).addColumn(F, b("1"), value));
    table.put(new Put(b("row")).addColumn(F, b("2"), value));
    // HBase counts a value again when the one before it was another.
    for (Result row : table.get(Collections.nCopies(6, new Get(b("row"))))) {
      assertEquals(2, row.size());
    }
    Map<String, Object> ofTable = Map.of("tableName", table.getName().getNameAsString());
    // HBase writes the list after the answer. With hbase.regionserver.slowlog.buffer.enabled=false there is none.
    eventually("the answer is listed", () -> !listed || !logged(servers, "LARGE_LOG", ofTable).isEmpty());
    List<LogEntry> large = logged(servers, "LARGE_LOG", ofTable);
    assertEquals(large.toString(), listed ? 1 : 0, large.size());
    if (listed) {
      OnlineLogRecord record = (OnlineLogRecord) large.get(0);
      assertEquals("Multi", record.getMethodName());
      assertTrue(record.toString(), record.getRegionName().startsWith(table.getName() + ","));
    }
    assertEquals(List.of(), logged(servers, "LARGE_LOG", Map.of("tableName", "no-such-table")));
    assertEquals(List.of(), logged(servers, "SLOW_LOG", Map.of("userName", "nobody")));
    assertEquals(Collections.nCopies(servers.size(), listed), admin.clearSlowLogResponses(servers));
    assertEquals(List.of(), logged(servers, "LARGE_LOG", ofTable));
    Server.drop(table);
  }

  private List<LogEntry> logged(Set<ServerName> servers, String kind, Map<String, Object> filter) throws IOException {
    return admin.getLogEntries(servers, kind, ServerType.REGION_SERVER, 10, filter);
  }
}
