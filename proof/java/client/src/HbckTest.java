import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Hbck;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableState;
import org.apache.hadoop.hbase.master.RegionState;
import org.junit.Test;

/** The repairs of HBCK2, through the client that it uses. */
public class HbckTest extends Words {
  @Test
  public void aSoundClusterIsCheckedAndNothingIsToMend() throws Exception {
    try (Hbck hbck = Server.connection().getHbck()) {
      assertTrue(hbck.runHbckChore());
      hbck.fixMeta();
      assertEquals(List.of(), hbck.scheduleSCPsForUnknownServers());
      assertEquals(List.of(false), hbck.bypassProcedure(List.of(1L), 0, false, false));
    }
  }

  @Test
  public void statesAreSetAndRegionsAssigned() throws Exception {
    Table table = Server.freshTable("hbck");
    try (Hbck hbck = Server.connection().getHbck(); Admin admin = Server.connection().getAdmin()) {
      TableState before = hbck.setTableStateInMeta(new TableState(table.getName(), TableState.State.DISABLED));
      assertEquals(TableState.State.ENABLED, before.getState());
      assertTrue(admin.isTableDisabled(table.getName()));
      hbck.setTableStateInMeta(new TableState(table.getName(), TableState.State.ENABLED));

      RegionInfo region = admin.getRegions(table.getName()).get(0);
      String name = region.getEncodedName();
      assertEquals(
          Map.of(name, RegionState.State.OPEN),
          hbck.setRegionStateInMeta(Map.of(name, RegionState.State.CLOSED)));
      hbck.setRegionStateInMeta(Map.of(name, RegionState.State.OPEN));

      List<Long> ids = hbck.unassigns(List.of(name), false);
      assertEquals(1, ids.size());
      assertTrue(ids.get(0) > 0);
      ids = hbck.assigns(List.of(name, "00000000000000000000000000000000"), false);
      assertTrue(ids.get(0) > 0);
      assertEquals(Long.valueOf(-1), ids.get(1));
      // Whatever runs is over when the client finds the region again.
      assertFalse(table.exists(new org.apache.hadoop.hbase.client.Get(b("row"))));
    }
    Server.drop(table);
  }
}
