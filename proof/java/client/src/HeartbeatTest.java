import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.RegexStringComparator;
import org.apache.hadoop.hbase.filter.ValueFilter;
import org.junit.Test;

/** A scan that returns no row for longer than a call may take. */
public class HeartbeatTest extends Words {
  private static final int ROWS_MAX = 100_000;

  @Test
  public void aLongSearchTellsThatItLivesAndWhereItIs() throws Exception {
    Table table = Server.freshTable("heartbeat");
    table.put(new Put(b("last")).addColumn(F, Q, b("aaaa")));
    Configuration conf = Server.configuration();
    conf.setInt("hbase.client.scanner.timeout.period", 1_500);
    // The necessary number of rows depends on the machine.
    int rows = 0;
    for (int more = 1_500; rows < ROWS_MAX; more *= 2) {
      List<Put> puts = new ArrayList<>();
      for (int end = rows + more; rows < end; rows++) {
        // A text on which the pattern backtracks for long and does not match.
        puts.add(new Put(b(String.format("%06d", rows))).addColumn(F, Q, b("aaaaaaaaaaaaaaaaaab")));
      }
      table.put(puts);
      if (heartbeats(conf, table) > 0) {
        Server.drop(table);
        return;
      }
    }
    throw new AssertionError("no heartbeat in " + rows + " rows");
  }

  /** Searches for the last row; returns the number of cursors received. */
  private static int heartbeats(Configuration conf, Table table) throws Exception {
    Scan scan =
        new Scan().setNeedCursorResult(true)
            .setFilter(new ValueFilter(CompareOperator.EQUAL, new RegexStringComparator("^(a|aa)+\\1$")));
    int cursors = 0;
    List<String> rows = new ArrayList<>();
    String place = "";
    try (Connection connection = ConnectionFactory.createConnection(conf);
        ResultScanner scanner = connection.getTable(table.getName()).getScanner(scan)) {
      for (Result result : scanner) {
        if (result.isCursor()) {
          String row = s(result.getCursor().getRow());
          assertTrue(place + " then " + row, row.compareTo(place) >= 0);
          place = row;
          cursors++;
        } else {
          rows.add(s(result.getRow()));
        }
      }
    }
    assertEquals(List.of("last"), rows);
    return cursors;
  }
}
