import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.BalanceRequest;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.CompactType;
import org.apache.hadoop.hbase.client.MasterSwitchType;
import org.apache.hadoop.hbase.client.NormalizeTableFilterParams;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.ServerType;
import org.apache.hadoop.hbase.client.SnapshotType;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.net.Address;
import org.apache.hadoop.hbase.quotas.QuotaFilter;
import org.apache.hadoop.hbase.quotas.QuotaSettingsFactory;
import org.apache.hadoop.hbase.quotas.ThrottleType;
import org.apache.hadoop.hbase.replication.ReplicationPeerConfig;
import org.apache.hadoop.hbase.security.access.GetUserPermissionsRequest;
import org.apache.hadoop.hbase.security.access.Permission;
import org.apache.hadoop.hbase.security.access.UserPermission;

/**
 * The arguments with which {@link EveryCallTest} calls each method of `Admin` and `AsyncAdmin`, by the method's signature, and
 * the methods that it does not call. A method that both interfaces have gets the same arguments in both.
 */
final class Calls {
  /** Makes the arguments of one call. */
  interface Recipe {
    Object[] arguments(Scratch scratch) throws Exception;
  }

  static final Map<String, Recipe> RECIPES = new TreeMap<>();

  /** The reasons why methods are not called. */
  static final Map<String, String> LEFT_OUT =
      Map.of(
          "shutdown()", "ends the cluster",
          "stopMaster()", "ends the only master",
          "stopRegionServer(String)", "ends the only region server",
          "stopRegionServer(ServerName)", "ends the only region server",
          "deleteSnapshots()", "deletes every snapshot of the cluster; with a pattern it is the same call");

  /** Methods after which HBase's master has a region in a state of which it does not know the way back. */
  static final Set<String> LAST = Set.of("offline(byte[])");

  private static final String FLUSH = "flush-table-proc";
  private static final byte[] F = Server.F;
  private static final byte[] G = Server.G;
  private static final byte[] M = Server.b("m");
  private static final byte[][] SPLITS = {Server.b("d"), M};

  private Calls() {}

  private static void on(String signature, Recipe recipe) {
    if (RECIPES.put(signature, recipe) != null) {
      throw new AssertionError(signature + " has two recipes");
    }
  }

  /** Methods without parameters, and those whose arguments are constants. */
  private static void constant(String signature, Object... arguments) {
    on(signature, scratch -> arguments);
  }

  private static Object[] with(Object... arguments) {
    return arguments;
  }

  private static Pattern pattern(TableName name) {
    return Pattern.compile(name.getNameAsString());
  }

  private static ColumnFamilyDescriptor family(String name) {
    return ColumnFamilyDescriptorBuilder.newBuilder(Server.b(name)).setMaxVersions(3).build();
  }

  private static TableDescriptor changed(Scratch scratch, TableName name) throws Exception {
    return TableDescriptorBuilder.newBuilder(scratch.admin.getDescriptor(name)).setMaxFileSize(7L << 30).build();
  }

  private static NamespaceDescriptor space(String name) {
    return NamespaceDescriptor.create(name).addConfiguration("ours", "one").build();
  }

  /** Returns the cluster itself as a peer, which HBase refuses. Another cluster would be asked for its id, which takes long. */
  private static ReplicationPeerConfig peer() {
    return ReplicationPeerConfig.newBuilder().setClusterKey(System.getProperty("proof.quorum") + ":/hbase").build();
  }

  private static UserPermission permission(TableName name) {
    return new UserPermission("nobody", Permission.newBuilder(name).withActions(Permission.Action.READ).build());
  }

  static {
    for (String signature :
        List.of(
            "balance()", "balancer()", "close()", "coprocessorService()", "flushMasterStore()", "getBackupMasters()",
            "getClusterMetrics()", "getClusterStatus()", "getConfiguration()", "getConnection()", "getLocks()", "getMaster()",
            "getMasterCoprocessorNames()", "getMasterCoprocessors()", "getMasterInfoPort()", "getOperationTimeout()",
            "getProcedures()", "getRegionServers()", "getSecurityCapabilities()", "getSpaceQuotaTableSizes()",
            "getSyncWaitTimeout()", "isAborted()", "isBalancerEnabled()", "isCatalogJanitorEnabled()",
            "isCleanerChoreEnabled()", "isMasterInMaintenanceMode()", "isMergeEnabled()", "isNormalizerEnabled()",
            "isReplicationPeerModificationEnabled()", "isRpcThrottleEnabled()", "isSnapshotCleanupEnabled()",
            "isSplitEnabled()", "listDeadServers()", "listDecommissionedRegionServers()", "listNamespaceDescriptors()",
            "listNamespaces()", "listRSGroups()", "listReplicatedTableCFs()", "listReplicationPeers()", "listSnapshots()",
            "listTableDescriptors()", "listTableNames()", "listTables()", "listUnknownServers()", "normalize()",
            "runCatalogJanitor()", "runCatalogScan()", "runCleanerChore()", "updateConfiguration()")) {
      constant(signature);
    }
    client();
    tables();
    families();
    regions();
    filesAndCompactions();
    snapshots();
    namespaces();
    switches();
    servers();
    replication();
    quotasAndPermissions();
    groups();
  }

  private static void client() {
    constant("abort(String)", "tried");
    constant("abort(String,Throwable)", "tried", new IllegalStateException("tried"));
    on("coprocessorService(ServerName)", scratch -> with(scratch.server()));
    constant("coprocessorService(Function,ServiceCaller)", Endpoint.stub(), Endpoint.caller());
    on("coprocessorService(Function,ServiceCaller,ServerName)",
        scratch -> with(Endpoint.stub(), Endpoint.caller(), scratch.server()));
    constant("abortProcedure(long,boolean)", 1L, true);
    constant("abortProcedureAsync(long,boolean)", 1L, true);
    for (String name : List.of("execProcedure", "execProcedureWithRet", "execProcedureWithReturn", "isProcedureFinished")) {
      on(name + "(String,String,Map)", scratch -> with(FLUSH, scratch.common().getNameAsString(), Map.of()));
    }
  }

  private static void tables() {
    for (String name :
        List.of(
            "tableExists", "isTableAvailable", "isTableDisabled", "isTableEnabled", "getDescriptor", "getTableDescriptor",
            "getTableRegions", "getRegions", "getAlterStatus")) {
      on(name + "(TableName)", scratch -> with(scratch.common()));
    }
    on("getAlterStatus(byte[])", scratch -> with(scratch.common().getName()));
    on("isTableAvailable(TableName,byte[][])", scratch -> with(scratch.common(), new byte[][] {M}));
    for (String name : List.of("listTables", "listTableNames", "listTableDescriptors")) {
      on(name + "(Pattern)", scratch -> with(pattern(scratch.common())));
      on(name + "(Pattern,boolean)", scratch -> with(pattern(scratch.common()), true));
      on(name + "(String)", scratch -> with(scratch.common().getNameAsString()));
      on(name + "(String,boolean)", scratch -> with(scratch.common().getNameAsString(), true));
      constant(name + "(boolean)", true);
    }
    on("listTableDescriptors(List)", scratch -> with(List.of(scratch.common())));
    on("getTableDescriptorsByTableName(List)", scratch -> with(List.of(scratch.common())));
    on("getTableDescriptors(List)", scratch -> with(List.of(scratch.common().getNameAsString())));
    constant("listTableDescriptorsByState(boolean)", true);
    constant("listTableNamesByState(boolean)", true);
    for (String suffix : List.of("", "Async")) {
      on("createTable" + suffix + "(TableDescriptor)", scratch -> with(scratch.descriptor(scratch.absent())));
      on("createTable" + suffix + "(TableDescriptor,byte[][])", scratch -> with(scratch.descriptor(scratch.absent()), SPLITS));
      on("deleteTable" + suffix + "(TableName)", scratch -> with(scratch.disabled()));
      on("truncateTable" + suffix + "(TableName,boolean)", scratch -> with(scratch.disabled(), true));
      on("enableTable" + suffix + "(TableName)", scratch -> with(scratch.disabled()));
      on("disableTable" + suffix + "(TableName)", scratch -> with(scratch.fresh()));
      on("modifyTable" + suffix + "(TableDescriptor)", scratch -> with(changed(scratch, scratch.fresh())));
      on("modifyTable" + suffix + "(TableDescriptor,boolean)", scratch -> with(changed(scratch, scratch.fresh()), true));
      on("modifyTable" + suffix + "(TableName,TableDescriptor)",
          scratch -> {
            TableName name = scratch.fresh();
            return with(name, changed(scratch, name));
          });
      on("modifyTableStoreFileTracker" + suffix + "(TableName,String)", scratch -> with(scratch.fresh(), "FILE"));
    }
    on("createTable(TableDescriptor,byte[],byte[],int)",
        scratch -> with(scratch.descriptor(scratch.absent()), Server.b("1"), Server.b("9"), 4));
    on("cloneTableSchema(TableName,TableName,boolean)", scratch -> with(scratch.common(), scratch.absent(), true));
    on("deleteTables(Pattern)", scratch -> with(pattern(scratch.disabled())));
    on("deleteTables(String)", scratch -> with(scratch.disabled().getNameAsString()));
    on("enableTables(Pattern)", scratch -> with(pattern(scratch.disabled())));
    on("enableTables(String)", scratch -> with(scratch.disabled().getNameAsString()));
    on("disableTables(Pattern)", scratch -> with(pattern(scratch.fresh())));
    on("disableTables(String)", scratch -> with(scratch.fresh().getNameAsString()));
  }

  private static void families() {
    for (String suffix : List.of("Family", "FamilyAsync", "")) {
      on("addColumn" + suffix + "(TableName,ColumnFamilyDescriptor)", scratch -> with(scratch.fresh(), family("h")));
      on("modifyColumn" + suffix + "(TableName,ColumnFamilyDescriptor)", scratch -> with(scratch.fresh(), family("g")));
      on("deleteColumn" + suffix + "(TableName,byte[])", scratch -> with(scratch.fresh(), G));
    }
    for (String suffix : List.of("", "Async")) {
      on("modifyColumnFamilyStoreFileTracker" + suffix + "(TableName,byte[],String)",
          scratch -> with(scratch.fresh(), F, "FILE"));
    }
  }

  private static void regions() {
    on("assign(byte[])", scratch -> with(scratch.closedRegion()));
    on("unassign(byte[])", scratch -> with(scratch.region(scratch.fresh())));
    on("unassign(byte[],boolean)", scratch -> with(scratch.region(scratch.fresh()), true));
    on("offline(byte[])", scratch -> with(scratch.region(scratch.abandoned())));
    on("move(byte[])", scratch -> with(scratch.encodedRegion(scratch.fresh())));
    on("move(byte[],ServerName)", scratch -> with(scratch.encodedRegion(scratch.fresh()), scratch.server()));
    on("move(byte[],byte[])",
        scratch -> with(scratch.encodedRegion(scratch.fresh()), Server.b(scratch.server().getServerName())));
    on("closeRegion(String,String)",
        scratch -> with(Server.s(scratch.region(scratch.fresh())), scratch.server().getServerName()));
    on("closeRegion(byte[],String)", scratch -> with(scratch.region(scratch.fresh()), scratch.server().getServerName()));
    on("closeRegionWithEncodedRegionName(String,String)",
        scratch -> with(Server.s(scratch.encodedRegion(scratch.fresh())), scratch.server().getServerName()));
    on("closeRegion(ServerName,HRegionInfo)", scratch -> with(scratch.server(), scratch.oldRegion(scratch.fresh())));
    for (String name : List.of("truncateRegion", "truncateRegionAsync")) {
      on(name + "(byte[])", scratch -> with(scratch.region(scratch.fresh())));
    }
    on("split(TableName)", scratch -> with(scratch.fresh()));
    on("split(TableName,byte[])", scratch -> with(scratch.fresh(), M));
    for (String name : List.of("splitRegion", "splitRegionAsync")) {
      on(name + "(byte[])", scratch -> with(scratch.region(scratch.fresh())));
      on(name + "(byte[],byte[])", scratch -> with(scratch.region(scratch.fresh()), M));
    }
    for (String name : List.of("mergeRegions", "mergeRegionsAsync")) {
      on(name + "(byte[],byte[],boolean)",
          scratch -> {
            List<RegionInfo> two = scratch.regions(scratch.freshSplit());
            return with(two.get(0).getEncodedNameAsBytes(), two.get(1).getEncodedNameAsBytes(), false);
          });
    }
    on("mergeRegionsAsync(byte[][],boolean)",
        scratch -> {
          List<RegionInfo> two = scratch.regions(scratch.freshSplit());
          return with(new byte[][] {two.get(0).getEncodedNameAsBytes(), two.get(1).getEncodedNameAsBytes()}, false);
        });
    on("mergeRegions(List,boolean)",
        scratch -> {
          List<RegionInfo> two = scratch.regions(scratch.freshSplit());
          return with(List.of(two.get(0).getEncodedNameAsBytes(), two.get(1).getEncodedNameAsBytes()), false);
        });
  }

  private static void filesAndCompactions() {
    on("flush(TableName)", scratch -> with(scratch.common()));
    on("flush(TableName,byte[])", scratch -> with(scratch.common(), F));
    on("flush(TableName,List)", scratch -> with(scratch.common(), List.of(F, G)));
    on("flushAsync(TableName,List)", scratch -> with(scratch.common(), List.of(F, G)));
    on("flushRegion(byte[])", scratch -> with(scratch.region(scratch.common())));
    on("flushRegion(byte[],byte[])", scratch -> with(scratch.region(scratch.common()), F));
    for (String kind : List.of("compact", "majorCompact")) {
      on(kind + "(TableName)", scratch -> with(scratch.common()));
      on(kind + "(TableName,byte[])", scratch -> with(scratch.common(), F));
      on(kind + "(TableName,CompactType)", scratch -> with(scratch.common(), CompactType.NORMAL));
      on(kind + "(TableName,byte[],CompactType)", scratch -> with(scratch.common(), F, CompactType.NORMAL));
      on(kind + "Region(byte[])", scratch -> with(scratch.region(scratch.common())));
      on(kind + "Region(byte[],byte[])", scratch -> with(scratch.region(scratch.common()), F));
      on(kind + "RegionServer(ServerName)", scratch -> with(scratch.server()));
    }
    on("compactRegionServer(ServerName,boolean)", scratch -> with(scratch.server(), false));
    on("flushRegionServer(ServerName)", scratch -> with(scratch.server()));
    on("getCompactionState(TableName)", scratch -> with(scratch.common()));
    on("getCompactionState(TableName,CompactType)", scratch -> with(scratch.common(), CompactType.NORMAL));
    on("getCompactionStateForRegion(byte[])", scratch -> with(scratch.region(scratch.common())));
    on("getLastMajorCompactionTimestamp(TableName)", scratch -> with(scratch.fresh()));
    on("getLastMajorCompactionTimestampForRegion(byte[])", scratch -> with(scratch.region(scratch.fresh())));
    on("clearBlockCache(TableName)", scratch -> with(scratch.common()));
    on("clearCompactionQueues(ServerName,Set)", scratch -> with(scratch.server(), Set.of("long", "short")));
    on("getCachedFilesList(ServerName)", scratch -> with(scratch.server()));
    on("rollWALWriter(ServerName)", scratch -> with(scratch.server()));
  }

  private static void snapshots() {
    on("snapshot(String,TableName)", scratch -> with(scratch.absentSnapshot(), scratch.common()));
    on("snapshot(byte[],TableName)", scratch -> with(Server.b(scratch.absentSnapshot()), scratch.common()));
    on("snapshot(String,TableName,Map)", scratch -> with(scratch.absentSnapshot(), scratch.common(), Map.of("TTL", 1000L)));
    on("snapshot(String,TableName,SnapshotType)",
        scratch -> with(scratch.absentSnapshot(), scratch.common(), SnapshotType.SKIPFLUSH));
    on("snapshot(String,TableName,SnapshotType,Map)",
        scratch -> with(scratch.absentSnapshot(), scratch.common(), SnapshotType.FLUSH, Map.of("TTL", 1000L)));
    for (String name : List.of("snapshot", "snapshotAsync", "takeSnapshotAsync")) {
      on(name + "(SnapshotDescription)", scratch -> with(scratch.description(scratch.absentSnapshot())));
    }
    on("isSnapshotFinished(SnapshotDescription)",
        scratch -> with(scratch.description(scratch.snapshot(scratch.common()))));
    for (String name : List.of("restoreSnapshot", "restoreSnapshotAsync")) {
      on(name + "(String)", scratch -> with(scratch.snapshotOfDisabled()));
    }
    on("restoreSnapshot(String,boolean)", scratch -> with(scratch.snapshotOfDisabled(), true));
    on("restoreSnapshot(String,boolean,boolean)", scratch -> with(scratch.snapshotOfDisabled(), true, false));
    on("restoreSnapshot(byte[])", scratch -> with(Server.b(scratch.snapshotOfDisabled())));
    on("restoreSnapshot(byte[],boolean)", scratch -> with(Server.b(scratch.snapshotOfDisabled()), true));
    for (String suffix : List.of("", "Async")) {
      on("cloneSnapshot" + suffix + "(String,TableName)", scratch -> with(scratch.commonSnapshot(), scratch.absent()));
      on("cloneSnapshot" + suffix + "(String,TableName,boolean)",
          scratch -> with(scratch.commonSnapshot(), scratch.absent(), false));
      on("cloneSnapshot" + suffix + "(String,TableName,boolean,String)",
          scratch -> with(scratch.commonSnapshot(), scratch.absent(), false, "FILE"));
    }
    on("cloneSnapshot(byte[],TableName)", scratch -> with(Server.b(scratch.commonSnapshot()), scratch.absent()));
    on("listSnapshots(Pattern)", scratch -> with(Pattern.compile(scratch.commonSnapshot())));
    on("listSnapshots(String)", scratch -> with(scratch.commonSnapshot()));
    on("listTableSnapshots(Pattern)", scratch -> with(pattern(scratch.common())));
    on("listTableSnapshots(Pattern,Pattern)", scratch -> with(pattern(scratch.common()), Pattern.compile(".*")));
    on("listTableSnapshots(String,String)", scratch -> with(scratch.common().getNameAsString(), ".*"));
    on("deleteSnapshot(String)", scratch -> with(scratch.snapshot(scratch.common())));
    on("deleteSnapshot(byte[])", scratch -> with(Server.b(scratch.snapshot(scratch.common()))));
    on("deleteSnapshots(Pattern)", scratch -> with(Pattern.compile(scratch.snapshot(scratch.common()))));
    on("deleteSnapshots(String)", scratch -> with(scratch.snapshot(scratch.common())));
    on("deleteTableSnapshots(Pattern)",
        scratch -> {
          TableName name = scratch.fresh();
          scratch.snapshot(name);
          return with(pattern(name));
        });
    on("deleteTableSnapshots(Pattern,Pattern)",
        scratch -> {
          TableName name = scratch.fresh();
          return with(pattern(name), Pattern.compile(scratch.snapshot(name)));
        });
    on("deleteTableSnapshots(String,String)",
        scratch -> {
          TableName name = scratch.fresh();
          return with(name.getNameAsString(), scratch.snapshot(name));
        });
  }

  private static void namespaces() {
    for (String suffix : List.of("", "Async")) {
      on("createNamespace" + suffix + "(NamespaceDescriptor)", scratch -> with(space(scratch.absentNamespace())));
      on("modifyNamespace" + suffix + "(NamespaceDescriptor)", scratch -> with(space(scratch.namespace())));
      on("deleteNamespace" + suffix + "(String)", scratch -> with(scratch.namespace()));
    }
    constant("getNamespaceDescriptor(String)", "default");
    constant("listTableDescriptorsByNamespace(String)", "default");
    constant("listTableDescriptorsByNamespace(byte[])", Server.b("default"));
    constant("listTableNamesByNamespace(String)", "default");
  }

  /** Each switch is set to the value that it has. */
  private static void switches() {
    for (String name :
        List.of(
            "balancerSwitch", "catalogJanitorSwitch", "cleanerChoreSwitch", "enableCatalogJanitor", "mergeSwitch",
            "normalizerSwitch", "replicationPeerModificationSwitch", "setCleanerChoreRunning", "setNormalizerRunning",
            "splitSwitch", "switchRpcThrottle")) {
      constant(name + "(boolean)", true);
    }
    for (String name :
        List.of(
            "balancerSwitch", "mergeSwitch", "replicationPeerModificationSwitch", "setBalancerRunning",
            "snapshotCleanupSwitch", "splitSwitch")) {
      constant(name + "(boolean,boolean)", true, true);
    }
    constant("exceedThrottleQuotaSwitch(boolean)", false);
    constant("setSplitOrMergeEnabled(boolean,boolean,MasterSwitchType[])",
        true, true, new MasterSwitchType[] {MasterSwitchType.SPLIT, MasterSwitchType.MERGE});
    constant("isSplitOrMergeEnabled(MasterSwitchType)", MasterSwitchType.SPLIT);
    constant("compactionSwitch(boolean,List)", true, List.of());
    constant("balance(boolean)", false);
    constant("balancer(boolean)", false);
    constant("balance(BalanceRequest)", BalanceRequest.defaultInstance());
    on("normalize(NormalizeTableFilterParams)",
        scratch ->
            with(new NormalizeTableFilterParams.Builder().tableNames(List.of(scratch.common())).build()));
  }

  @SuppressWarnings("deprecation") // one of the methods takes a deprecated filter
  private static void servers() {
    constant("getClusterMetrics(EnumSet)", EnumSet.of(ClusterMetrics.Option.LIVE_SERVERS));
    constant("getRegionServers(boolean)", true);
    on("getRegions(ServerName)", scratch -> with(scratch.server()));
    on("getOnlineRegions(ServerName)", scratch -> with(scratch.server()));
    on("getRegionMetrics(ServerName)", scratch -> with(scratch.server()));
    on("getRegionMetrics(ServerName,TableName)", scratch -> with(scratch.server(), scratch.common()));
    on("updateConfiguration(ServerName)", scratch -> with(scratch.server()));
    constant("decommissionRegionServers(List,boolean)", List.of(), false);
    on("recommissionRegionServer(ServerName,List)", scratch -> with(scratch.server(), List.of()));
    constant("clearDeadServers(List)", List.of(ServerName.valueOf("nosuch.example", 16020, 5)));
    on("getLogEntries(Set,String,ServerType,int,Map)",
        scratch -> with(Set.of(scratch.server()), "SLOW_LOG", ServerType.REGION_SERVER, 10, Map.of("userName", "nobody")));
    on("getSlowLogResponses(Set,LogQueryFilter)",
        scratch -> {
          var filter = new org.apache.hadoop.hbase.client.LogQueryFilter();
          filter.setUserName("nobody");
          return with(Set.of(scratch.server()), filter);
        });
    constant("clearSlowLogResponses(Set)", Set.of());
  }

  /** There are no peers. */
  private static void replication() {
    for (String suffix : List.of("", "Async")) {
      constant("addReplicationPeer" + suffix + "(String,ReplicationPeerConfig)", "nosuch", peer());
      constant("addReplicationPeer" + suffix + "(String,ReplicationPeerConfig,boolean)", "nosuch", peer(), false);
      constant("updateReplicationPeerConfig" + suffix + "(String,ReplicationPeerConfig)", "nosuch", peer());
      for (String verb : List.of("remove", "enable", "disable")) {
        constant(verb + "ReplicationPeer" + suffix + "(String)", "nosuch");
      }
    }
    on("appendReplicationPeerTableCFs(String,Map)", scratch -> with("nosuch", Map.of(scratch.common(), List.of("f"))));
    on("removeReplicationPeerTableCFs(String,Map)", scratch -> with("nosuch", Map.of(scratch.common(), List.of("f"))));
    constant("getReplicationPeerConfig(String)", "nosuch");
    constant("isReplicationPeerEnabled(String)", "nosuch");
    constant("listReplicationPeers(Pattern)", Pattern.compile(".*"));
    on("enableTableReplication(TableName)", scratch -> with(scratch.common()));
    on("disableTableReplication(TableName)", scratch -> with(scratch.common()));
    constant("getReplicationPeerSyncReplicationState(String)", "nosuch");
    for (String suffix : List.of("", "Async")) {
      on("transitReplicationPeerSyncReplicationState" + suffix + "(String,SyncReplicationState)",
          scratch -> {
            // HBase 2's client does not have this class.
            Class<?> states = Class.forName("org.apache.hadoop.hbase.replication.SyncReplicationState");
            return with("nosuch", states.getEnumConstants()[0]);
          });
    }
  }

  private static void quotasAndPermissions() {
    on("setQuota(QuotaSettings)",
        scratch ->
            with(QuotaSettingsFactory.throttleTable(scratch.common(), ThrottleType.REQUEST_NUMBER, 10, TimeUnit.SECONDS)));
    on("getQuota(QuotaFilter)", scratch -> with(new QuotaFilter()));
    on("getQuotaRetriever(QuotaFilter)", scratch -> with(new QuotaFilter()));
    on("getRegionServerSpaceQuotaSnapshots(ServerName)", scratch -> with(scratch.server()));
    constant("getCurrentSpaceQuotaSnapshot(String)", "default");
    on("getCurrentSpaceQuotaSnapshot(TableName)", scratch -> with(scratch.common()));
    on("grant(UserPermission,boolean)", scratch -> with(permission(scratch.common()), false));
    on("revoke(UserPermission)", scratch -> with(permission(scratch.common())));
    on("getUserPermissions(GetUserPermissionsRequest)",
        scratch -> with(GetUserPermissionsRequest.newBuilder(scratch.common()).build()));
    on("hasUserPermissions(List)", scratch -> with(List.of(permission(scratch.common()).getPermission())));
    on("hasUserPermissions(String,List)",
        scratch -> with("nobody", List.of(permission(scratch.common()).getPermission())));
  }

  /** Groups of servers, which only HBase 3's client has in these interfaces. */
  private static void groups() {
    for (String name :
        List.of(
            "addRSGroup", "balanceRSGroup", "getConfiguredNamespacesAndTablesInRSGroup", "getRSGroup", "listTablesInRSGroup",
            "removeRSGroup", "updateConfiguration")) {
      constant(name + "(String)", "nosuch");
    }
    on("getRSGroup(TableName)", scratch -> with(scratch.common()));
    on("getRSGroup(Address)", scratch -> with(scratch.server().getAddress()));
    constant("balanceRSGroup(String,BalanceRequest)", "nosuch", BalanceRequest.defaultInstance());
    constant("renameRSGroup(String,String)", "nosuch", "other");
    constant("updateRSGroupConfig(String,Map)", "nosuch", Map.of("ours", "one"));
    on("setRSGroup(Set,String)", scratch -> with(Set.of(scratch.common()), "nosuch"));
    constant("moveServersToRSGroup(Set,String)", Set.of(Address.fromParts("nosuch.example", 1)), "nosuch");
    constant("removeServersFromRSGroup(Set)", Set.of(Address.fromParts("nosuch.example", 1)));
  }
}
