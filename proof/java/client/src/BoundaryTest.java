import static org.junit.Assert.assertEquals;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.hbase.client.AdvancedScanResultConsumer;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.junit.Test;

/**
 * Scans of the asynchronous client that fill its cache with every cell and cross one region boundary after the other. The
 * client loses such a scan, and waits for ever, when the first cell of a region comes before its own thread has attached
 * a listener. All cores are busy meanwhile.
 *
 * <p>The long form, by hand: {@code java BoundaryTest BOUNDARIES}, which {@code cargo xtask boundaries} runs.
 */
public class BoundaryTest extends Words {
  private static final int REGIONS = 40;
  private static final int ROWS_PER_REGION = 3;

  /** A scan without a row for this long is lost: an answer takes less than a millisecond. */
  private static final int LOST_AFTER_SECONDS = 10;

  @Test
  public void noScanIsLostAtABoundary() throws Exception {
    assertEquals("scans lost", 0, lost(400));
  }

  public static void main(String[] args) throws Exception {
    Server.connect("rpc");
    int boundaries = Integer.parseInt(args[0]);
    long began = System.nanoTime();
    int lost = lost(boundaries);
    long millis = (System.nanoTime() - began) / 1_000_000;
    System.out.println(lost + " scans lost at " + boundaries + " boundaries, " + millis + " ms");
    Server.close();
    System.exit(lost == 0 ? 0 : 1);
  }

  /** Crosses that many boundaries; returns the number of lost scans. */
  private static int lost(int boundaries) throws Exception {
    byte[][] splits = new byte[REGIONS - 1][];
    for (int region = 1; region < REGIONS; region++) {
      splits[region - 1] = b(String.format("%03d", region));
    }
    Table made = Server.freshTable("boundary", splits);
    List<Put> puts = new ArrayList<>();
    for (int region = 0; region < REGIONS; region++) {
      for (int row = 0; row < ROWS_PER_REGION; row++) {
        puts.add(new Put(b(String.format("%03d-%d", region, row))).addColumn(F, Q, b("v")));
      }
    }
    made.put(puts);
    List<Thread> busy = new ArrayList<>();
    for (int core = 0; core < Integer.getInteger("proof.busy", Runtime.getRuntime().availableProcessors()); core++) {
      Thread thread = new Thread(BoundaryTest::spin);
      thread.setDaemon(true);
      thread.start();
      busy.add(thread);
    }
    ExecutorService threads = Executors.newCachedThreadPool();
    try (AsyncConnection connection =
        ConnectionFactory.createAsyncConnection(Server.configuration()).get(60, TimeUnit.SECONDS)) {
      AsyncTable<AdvancedScanResultConsumer> table = connection.getTable(made.getName());
      AtomicInteger crossed = new AtomicInteger();
      int lost = 0;
      for (boolean reversed = false; crossed.get() < boundaries; reversed = !reversed) {
        if (!cross(threads, table, reversed, crossed, boundaries)) {
          crossed.incrementAndGet();
          lost++;
        }
      }
      return lost;
    } finally {
      busy.forEach(Thread::interrupt);
      threads.shutdownNow();
      Server.drop(made);
    }
  }

  /** Scans the table, in either direction; returns whether the scan reached its end or the last boundary. */
  private static boolean cross(
      ExecutorService threads,
      AsyncTable<AdvancedScanResultConsumer> table,
      boolean reversed,
      AtomicInteger crossed,
      int boundaries)
      throws Exception {
    Scan scan = new Scan().setBatch(1).setMaxResultSize(1).setReversed(reversed);
    try (ResultScanner scanner = table.getScanner(scan)) {
      Future<?> reading = threads.submit(() -> read(scanner, crossed, boundaries));
      for (int before = -1, now = crossed.get(); now > before; before = now, now = crossed.get()) {
        try {
          reading.get(LOST_AFTER_SECONDS, TimeUnit.SECONDS);
          return true;
        } catch (TimeoutException slow) {
          // Lost if it has crossed no boundary meanwhile.
        }
      }
      reading.cancel(true);
      return false;
    }
  }

  private static Void read(ResultScanner scanner, AtomicInteger crossed, int boundaries) throws IOException {
    String region = "";
    int rows = 0;
    while (crossed.get() < boundaries) {
      Result result = scanner.next();
      if (result == null) {
        assertEquals("rows of a scan", REGIONS * ROWS_PER_REGION, rows);
        break;
      }
      rows++;
      String of = s(result.getRow()).substring(0, 3);
      if (!of.equals(region) && !region.isEmpty()) {
        crossed.incrementAndGet();
      }
      region = of;
    }
    return null;
  }

  private static void spin() {
    long sum = 0;
    while (!Thread.currentThread().isInterrupted()) {
      sum += System.nanoTime();
    }
    // Used, so that the loop is not left out.
    System.setProperty("proof.spun", Long.toString(sum));
  }
}
