import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AdvancedScanResultConsumer;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.AsyncAdmin;
import org.apache.hadoop.hbase.client.AsyncBufferedMutator;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.filter.RowFilter;
import org.apache.hadoop.hbase.filter.SubstringComparator;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.AfterClass;
import org.junit.BeforeClass;
import org.junit.Test;

/** HBase's asynchronous client, which has its own connections, lookups, retries and scanners. */
public class AsyncTest extends Words {
  private static AsyncConnection connection;
  private static AsyncAdmin admin;
  private static AsyncTable<AdvancedScanResultConsumer> table;

  @BeforeClass
  public static void create() throws Exception {
    connection = done(ConnectionFactory.createAsyncConnection(Server.configuration()));
    admin = connection.getAdmin();
    TableName name = Server.freshName("async");
    done(
        admin.createTable(
            TableDescriptorBuilder.newBuilder(name).setColumnFamily(ColumnFamilyDescriptorBuilder.of(F)).build(),
            new byte[][] {b("h"), b("p")}));
    table = connection.getTable(name);
  }

  @AfterClass
  public static void drop() throws Exception {
    done(admin.disableTable(table.getName()));
    done(admin.deleteTable(table.getName()));
    connection.close();
  }

  private static <T> T done(CompletableFuture<T> future) throws Exception {
    return future.get(60, TimeUnit.SECONDS);
  }

  private static List<String> fill(String prefix, int count) throws Exception {
    List<Put> puts = new ArrayList<>();
    List<String> rows = new ArrayList<>();
    for (int n = 0; n < count; n++) {
      String row = (char) ('a' + n * 26 / count) + prefix + String.format("%03d", n);
      rows.add(row);
      puts.add(new Put(b(row)).addColumn(F, Q, 5, b("v" + n)));
    }
    done(table.putAll(puts));
    return rows;
  }

  @Test
  public void singleCallsAreAnswered() throws Exception {
    byte[] row = b("single");
    done(table.put(new Put(row).addColumn(F, Q, 5, b("v"))));
    assertEquals(List.of("single/f:q@5=v"), Server.cells(done(table.get(new Get(row)))));
    assertTrue(done(table.exists(new Get(row))));
    assertEquals(7, Bytes.toLong(done(table.increment(new Increment(row).addColumn(F, b("n"), 7))).value()));
    assertEquals("ab", s(done(table.append(new Append(row).addColumn(F, b("t"), b("ab")))).value()));
    assertTrue(
        done(table.checkAndMutate(CheckAndMutate.newBuilder(row).ifEquals(F, Q, b("v")).build(new Put(row).addColumn(F, Q, 6, b("w")))))
            .isSuccess());
    done(table.mutateRow(RowMutations.of(List.of(new Put(row).addColumn(F, b("p"), 5, b("p")), new Delete(row).addColumns(F, b("n"))))));
    assertEquals(3, done(table.get(new Get(row))).size());
    done(table.delete(new Delete(row)));
    assertFalse(done(table.exists(new Get(row))));
    Server.refused(
        NoSuchColumnFamilyException.class, () -> done(table.put(new Put(row).addColumn(b("nosuch"), Q, b("v")))));
  }

  @Test
  public void hundredsOfCallsAreUnderWayAtOnce() throws Exception {
    List<CompletableFuture<Void>> puts = new ArrayList<>();
    for (int n = 0; n < 500; n++) {
      puts.add(table.put(new Put(b((char) ('a' + n % 26) + "many" + n)).addColumn(F, Q, 5, Bytes.toBytes(n))));
    }
    done(CompletableFuture.allOf(puts.toArray(CompletableFuture[]::new)));
    List<CompletableFuture<Result>> gets = new ArrayList<>();
    for (int n = 0; n < 500; n++) {
      gets.add(table.get(new Get(b((char) ('a' + n % 26) + "many" + n))));
    }
    for (int n = 0; n < 500; n++) {
      assertEquals(n, Bytes.toInt(done(gets.get(n)).value()));
    }
  }

  @Test
  public void batchesSpanRegions() throws Exception {
    List<String> rows = fill("batch", 60);
    List<Row> acts = new ArrayList<>();
    rows.forEach(row -> acts.add(new Get(b(row))));
    acts.add(new Delete(b(rows.get(0))));
    acts.add(new Increment(b("counter")).addColumn(F, Q, 3));
    List<Object> results = done(table.batchAll(acts));
    for (int n = 0; n < rows.size(); n++) {
      assertEquals("v" + n, s(((Result) results.get(n)).value()));
    }
    assertEquals(3, Bytes.toLong(((Result) results.get(rows.size() + 1)).value()));
    List<CompletableFuture<Object>> some = table.batch(List.of(new Get(b(rows.get(1))), new Get(b("r")).addFamily(b("nosuch"))));
    assertEquals("v1", s(((Result) done(some.get(0))).value()));
    Server.refused(NoSuchColumnFamilyException.class, () -> done(some.get(1)));
  }

  @Test
  public void scansComeAllAtOnceOrPieceByPiece() throws Exception {
    List<String> rows = fill("scan", 100);
    Scan scan = new Scan().setFilter(new RowFilter(
        CompareOperator.EQUAL, new SubstringComparator("scan")));
    List<String> found = new ArrayList<>();
    done(table.scanAll(scan)).forEach(result -> found.add(s(result.getRow())));
    assertEquals(rows, found);
    found.clear();
    try (ResultScanner scanner = table.getScanner(new Scan(scan).setCaching(9).setMaxResultSize(1_000))) {
      scanner.forEach(result -> found.add(s(result.getRow())));
    }
    assertEquals(rows, found);
    assertEquals(5, done(table.scanAll(new Scan(scan).setReversed(true).setLimit(5))).size());
    assertEquals(rows.get(99), s(done(table.scanAll(new Scan(scan).setReversed(true).setOneRowLimit())).get(0).getRow()));
  }

  @Test
  public void aScanCanBeHeldUpAndGoOn() throws Exception {
    List<String> rows = fill("held", 40);
    List<String> found = new ArrayList<>();
    CompletableFuture<Void> over = new CompletableFuture<>();
    Scan scan = new Scan().setCaching(4).setFilter(new RowFilter(
        CompareOperator.EQUAL, new SubstringComparator("held")));
    table.scan(
        scan,
        new AdvancedScanResultConsumer() {
          @Override
          public void onNext(Result[] results, ScanController controller) {
            for (Result result : results) {
              found.add(s(result.getRow()));
            }
            ScanResumer resumer = controller.suspend();
            // The scan continues after another call.
            table.exists(new Get(results[0].getRow())).whenComplete((there, error) -> resumer.resume());
          }

          @Override
          public void onError(Throwable error) {
            over.completeExceptionally(error);
          }

          @Override
          public void onComplete() {
            over.complete(null);
          }
        });
    done(over);
    assertEquals(rows, found);
  }

  @Test
  public void aBufferedMutatorWritesAllItWasGiven() throws Exception {
    List<Mutation> puts = new ArrayList<>();
    for (int n = 0; n < 300; n++) {
      puts.add(new Put(b((char) ('a' + n % 26) + "buffered" + n)).addColumn(F, Q, 5, b("v")));
    }
    List<CompletableFuture<Void>> futures;
    try (AsyncBufferedMutator mutator = connection.getBufferedMutator(table.getName())) {
      futures = mutator.mutate(puts);
      mutator.flush();
    }
    done(CompletableFuture.allOf(futures.toArray(CompletableFuture[]::new)));
    assertTrue(done(table.exists(new Get(b("abuffered0")))));
    assertTrue(done(table.exists(new Get(b("nbuffered299")))));
  }

  @Test
  public void theAdministrationIsAsynchronousToo() throws Exception {
    TableName name = table.getName();
    assertTrue(done(admin.tableExists(name)));
    assertTrue(done(admin.isTableEnabled(name)));
    assertTrue(done(admin.isTableAvailable(name)));
    assertTrue(done(admin.listTableNames()).contains(name));
    assertEquals(3, done(admin.getRegions(name)).size());
    assertEquals(3, done(connection.getRegionLocator(name).getAllRegionLocations()).size());
    done(admin.flush(name));
    done(admin.majorCompact(name));
    assertFalse(done(admin.getClusterMetrics()).getLiveServerMetrics().isEmpty());
    assertFalse(done(admin.listNamespaces()).isEmpty());
  }
}
