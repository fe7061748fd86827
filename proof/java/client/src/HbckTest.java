import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Hbck;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableState;
import org.apache.hadoop.hbase.master.RegionState;
import org.junit.Test;

/** The repairs of HBCK2, through the client that it uses. */
public class HbckTest extends Words {
  /** Time limit for a repair, in ms. HBase repairs with procedures, which end later than the call. */
  private static final long REPAIR_MS = 60_000;

  /** Returns `[start,end)` of each region that hbase:meta has of a table. */
  private static List<String> ranges(Admin admin, TableName table) throws Exception {
    return admin.getRegions(table).stream()
        .map(region -> "[" + s(region.getStartKey()) + "," + s(region.getEndKey()) + ")")
        .collect(Collectors.toList());
  }

  /** Returns the state of a region in its row of hbase:meta. */
  private static String storedState(RegionInfo region) throws Exception {
    try (Table meta = Server.connection().getTable(TableName.META_TABLE_NAME)) {
      return s(meta.get(new Get(region.getRegionName())).getValue(HConstants.CATALOG_FAMILY, HConstants.STATE_QUALIFIER));
    }
  }

  /** Waits until hbase:meta has a state of a region. */
  private static void awaitState(RegionInfo region, String state) throws Exception {
    long end = System.currentTimeMillis() + REPAIR_MS;
    while (!state.equals(storedState(region)) && System.currentTimeMillis() < end) {
      Thread.sleep(20);
    }
    assertEquals(state, storedState(region));
  }

  @Test
  public void aSoundClusterHasNothingToRepair() throws Exception {
    try (Hbck hbck = Server.connection().getHbck()) {
      assertTrue(hbck.runHbckChore());
      assertEquals(List.of(), hbck.scheduleSCPsForUnknownServers());
      assertEquals(List.of(false), hbck.bypassProcedure(List.of(1L), 1, false, false));
      assertThrows("no time to wait for the lock", IOException.class, () -> hbck.bypassProcedure(List.of(1L), 0, false, false));
    }
  }

  @Test
  public void fixMetaRestoresALostRowOfMeta() throws Exception {
    Table table = Server.freshTable("hole", b("h"), b("p"));
    List<String> whole = List.of("[,h)", "[h,p)", "[p,)");
    try (Hbck hbck = Server.connection().getHbck(); Admin admin = Server.connection().getAdmin()) {
      assertEquals(whole, ranges(admin, table.getName()));
      RegionInfo middle = admin.getRegions(table.getName()).get(1);
      try (Table meta = Server.connection().getTable(TableName.META_TABLE_NAME)) {
        meta.delete(new Delete(middle.getRegionName()));
      }
      assertEquals(List.of("[,h)", "[p,)"), ranges(admin, table.getName()));
      // HBase repairs what the last run of the catalog janitor has found.
      admin.runCatalogJanitor();
      hbck.fixMeta();
      long end = System.currentTimeMillis() + REPAIR_MS;
      while (!whole.equals(ranges(admin, table.getName())) && System.currentTimeMillis() < end) {
        Thread.sleep(100);
      }
      assertEquals(whole, ranges(admin, table.getName()));
      Server.connection().clearRegionLocationCache();
      table.put(new Put(b("m")).addColumn(F, Q, b("v")));
      assertEquals("v", s(table.get(new Get(b("m"))).value()));
    }
    Server.drop(table);
  }

  @Test
  public void statesAreSetAndRegionsAssigned() throws Exception {
    Table table = Server.freshTable("hbck");
    try (Hbck hbck = Server.connection().getHbck(); Admin admin = Server.connection().getAdmin()) {
      TableState before = hbck.setTableStateInMeta(new TableState(table.getName(), TableState.State.DISABLED));
      assertEquals(TableState.State.ENABLED, before.getState());
      assertTrue(admin.isTableDisabled(table.getName()));
      before = hbck.setTableStateInMeta(new TableState(table.getName(), TableState.State.ENABLED));
      assertEquals(TableState.State.DISABLED, before.getState());
      assertTrue(admin.isTableEnabled(table.getName()));

      RegionInfo region = admin.getRegions(table.getName()).get(0);
      String name = region.getEncodedName();
      assertEquals("OPEN", storedState(region));
      assertEquals(
          Map.of(name, RegionState.State.OPEN),
          hbck.setRegionStateInMeta(Map.of(name, RegionState.State.CLOSED)));
      assertEquals("CLOSED", storedState(region));
      assertEquals(
          Map.of(name, RegionState.State.CLOSED),
          hbck.setRegionStateInMeta(Map.of(name, RegionState.State.OPEN)));
      assertEquals("OPEN", storedState(region));

      List<Long> ids = hbck.unassigns(List.of(name, "00000000000000000000000000000000"), false);
      assertEquals("an unknown region is left out", 1, ids.size());
      assertTrue(ids.get(0) > 0);
      awaitState(region, "CLOSED");
      ids = hbck.assigns(List.of(name, "00000000000000000000000000000000"), false);
      assertEquals("an unknown region is left out", 1, ids.size());
      assertTrue(ids.get(0) > 0);
      awaitState(region, "OPEN");
      assertFalse(table.exists(new Get(b("row"))));
    }
    Server.drop(table);
  }
}
