import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.BufferedMutator;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.CheckAndMutateResult;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.BinaryComparator;
import org.apache.hadoop.hbase.filter.QualifierFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.AfterClass;
import org.junit.BeforeClass;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TestName;

/** Reads and writes of a table: single rows, batches, conditions, counters. */
public class TableTest extends Words {
  private static Table table;

  @Rule public final TestName test = new TestName();

  @BeforeClass
  public static void create() throws Exception {
    table = Server.freshTable("table", b("h"), b("p"));
  }

  @AfterClass
  public static void drop() throws Exception {
    Server.drop(table);
  }

  /** A row that no other test uses. */
  private byte[] row(String suffix) {
    return b(test.getMethodName() + suffix);
  }

  private byte[] row() {
    return row("");
  }

  private List<String> all(byte[] row) throws Exception {
    List<String> texts = Server.cells(table.get(new Get(row).readAllVersions()));
    texts.replaceAll(text -> text.substring(row.length + 1));
    return texts;
  }

  private void put(byte[] row, String qualifier, long timestamp, String value) throws Exception {
    table.put(new Put(row).addColumn(F, b(qualifier), timestamp, b(value)));
  }

  @Test
  public void aPutIsReadBack() throws Exception {
    long before = System.currentTimeMillis();
    table.put(new Put(row()).addColumn(F, Q, b("v")).addColumn(G, b("x"), 7, b("w")).addColumn(F, b(""), b("")));
    Result result = table.get(new Get(row()));
    assertEquals(3, result.size());
    assertEquals("v", s(result.getValue(F, Q)));
    assertEquals("w", s(result.getValue(G, b("x"))));
    assertEquals("", s(result.getValue(F, b(""))));
    assertEquals(7, result.getColumnLatestCell(G, b("x")).getTimestamp());
    long stamp = result.getColumnLatestCell(F, Q).getTimestamp();
    assertTrue(stamp >= before - 60_000 && stamp <= System.currentTimeMillis() + 60_000);
    assertArrayEquals(row(), result.getRow());
  }

  @Test
  public void aMissingRowIsAnEmptyResult() throws Exception {
    Result result = table.get(new Get(row()));
    assertTrue(result.isEmpty());
    assertNull(result.getRow());
    assertFalse(table.exists(new Get(row())));
    Result[] many = table.get(List.of(new Get(row("1")), new Get(row("2"))));
    assertTrue(many[0].isEmpty() && many[1].isEmpty());
  }

  @Test
  public void existsAsksWithoutReading() throws Exception {
    put(row(), "q", 5, "v");
    assertTrue(table.exists(new Get(row())));
    assertTrue(table.exists(new Get(row()).addColumn(F, Q)));
    assertFalse(table.exists(new Get(row()).addColumn(F, b("other"))));
    assertFalse(table.exists(new Get(row()).setTimeRange(6, 9)));
    boolean[] found = table.exists(List.of(new Get(row()), new Get(row("no")), new Get(row()).addFamily(G)));
    assertTrue(found[0]);
    assertFalse(found[1]);
    assertFalse(found[2]);
  }

  @Test
  public void aGetChoosesFamiliesColumnsVersionsAndTimes() throws Exception {
    for (int version = 1; version <= 4; version++) {
      put(row(), "q", version * 10, "v" + version);
    }
    put(row(), "r", 15, "r");
    table.put(new Put(row()).addColumn(G, Q, 15, b("g")));
    assertEquals(
        List.of("f:q@40=v4", "f:q@30=v3", "f:q@20=v2", "f:q@10=v1", "f:r@15=r", "g:q@15=g"), all(row()));
    String prefix = s(row()) + "/";
    assertEquals(List.of(prefix + "f:q@40=v4", prefix + "f:r@15=r"), Server.cells(table.get(new Get(row()).addFamily(F))));
    assertEquals(
        List.of(prefix + "f:q@40=v4", prefix + "f:q@30=v3"),
        Server.cells(table.get(new Get(row()).addColumn(F, Q).readVersions(2))));
    assertEquals(
        List.of(prefix + "f:q@20=v2", prefix + "f:r@15=r", prefix + "g:q@15=g"),
        Server.cells(table.get(new Get(row()).setTimeRange(11, 30))));
    assertEquals(
        List.of(prefix + "f:q@30=v3"), Server.cells(table.get(new Get(row()).addFamily(F).setTimestamp(30))));
    assertEquals(
        List.of(prefix + "f:q@20=v2", prefix + "f:q@10=v1", prefix + "f:r@15=r"),
        Server.cells(
            table.get(new Get(row()).addFamily(F).addFamily(G).readAllVersions().setColumnFamilyTimeRange(F, 0, 25)
                .setColumnFamilyTimeRange(G, 0, 5))));
    assertEquals(
        List.of(prefix + "f:r@15=r", prefix + "g:q@15=g"),
        Server.cells(table.get(new Get(row()).addColumn(F, b("r")).addFamily(G))));
    assertEquals(
        List.of(prefix + "f:q@30=v3", prefix + "f:q@20=v2"),
        Server.cells(
            table.get(new Get(row()).addFamily(F).readAllVersions().setMaxResultsPerColumnFamily(2).setRowOffsetPerColumnFamily(1))));
  }

  @Test
  public void onlyAsManyVersionsAreKeptAsTheFamilySays() throws Exception {
    for (int version = 1; version <= 8; version++) {
      put(row(), "q", version, "v" + version);
      table.put(new Put(row()).addColumn(G, Q, version, b("g" + version)));
    }
    assertEquals(List.of("f:q@8=v8", "f:q@7=v7", "f:q@6=v6", "f:q@5=v5", "f:q@4=v4", "g:q@8=g8"), all(row()));
  }

  @Test
  public void theSameCoordinatesTwiceAreOneCellWithTheLaterValue() throws Exception {
    put(row(), "q", 9, "first");
    put(row(), "q", 9, "second");
    assertEquals(List.of("f:q@9=second"), all(row()));
  }

  @Test
  public void eachKindOfDeleteHidesWhatItShould() throws Exception {
    for (String suffix : List.of("one", "newest", "column", "family", "version", "row", "old")) {
      for (int version = 1; version <= 3; version++) {
        put(row(suffix), "q", version, "v" + version);
        put(row(suffix), "r", version, "r" + version);
        table.put(new Put(row(suffix)).addColumn(G, Q, version, b("g" + version)));
      }
    }
    List<String> rest = List.of("f:r@3=r3", "f:r@2=r2", "f:r@1=r1", "g:q@3=g3");

    table.delete(new Delete(row("one")).addColumn(F, Q, 2));
    assertEquals(join(List.of("f:q@3=v3", "f:q@1=v1"), rest), all(row("one")));

    table.delete(new Delete(row("newest")).addColumn(F, Q));
    assertEquals(join(List.of("f:q@2=v2", "f:q@1=v1"), rest), all(row("newest")));

    table.delete(new Delete(row("column")).addColumns(F, Q, 2));
    assertEquals(join(List.of("f:q@3=v3"), rest), all(row("column")));
    table.delete(new Delete(row("column")).addColumns(F, Q));
    assertEquals(rest, all(row("column")));

    table.delete(new Delete(row("family")).addFamily(F, 2));
    assertEquals(List.of("f:q@3=v3", "f:r@3=r3", "g:q@3=g3"), all(row("family")));
    table.delete(new Delete(row("family")).addFamily(F));
    assertEquals(List.of("g:q@3=g3"), all(row("family")));

    table.delete(new Delete(row("version")).addFamilyVersion(F, 2));
    assertEquals(
        List.of("f:q@3=v3", "f:q@1=v1", "f:r@3=r3", "f:r@1=r1", "g:q@3=g3"), all(row("version")));

    table.delete(new Delete(row("old"), 2));
    assertEquals(List.of("f:q@3=v3", "f:r@3=r3", "g:q@3=g3"), all(row("old")));

    table.delete(new Delete(row("row")));
    assertEquals(List.of(), all(row("row")));
    assertFalse(table.exists(new Get(row("row"))));
  }

  @Test
  public void aDeleteHidesOlderPutsThatComeLater() throws Exception {
    table.delete(new Delete(row()).addColumns(F, Q, 100));
    put(row(), "q", 50, "hidden");
    put(row(), "q", 101, "seen");
    assertEquals(List.of("f:q@101=seen"), all(row()));
  }

  @Test
  public void aRawScanShowsMarkersAndWhatTheyHide() throws Exception {
    put(row(), "q", 5, "v");
    table.delete(new Delete(row()).addColumns(F, Q, 6));
    table.delete(new Delete(row()).addFamily(F, 3));
    Scan scan = new Scan().withStartRow(row()).withStopRow(row(), true).setRaw(true).readAllVersions();
    String prefix = s(row()) + "/";
    assertEquals(
        List.of(prefix + "f:@3!DeleteFamily=", prefix + "f:q@6!DeleteColumn=", prefix + "f:q@5=v"),
        Server.cells(table, scan));
  }

  @Test
  public void aTimeRangeInThePastIgnoresNothingButTheFuture() throws Exception {
    put(row(), "q", 1, "v1");
    put(row(), "q", 5, "v5");
    table.delete(new Delete(row()).addColumns(F, Q, 3));
    assertEquals(List.of("f:q@5=v5"), all(row()));
    // The marker is outside the range and still hides, because KEEP_DELETED_CELLS is off.
    assertTrue(table.get(new Get(row()).setTimeRange(0, 2)).isEmpty());
  }

  @Test
  public void aCellWithATimeToLiveEnds() throws Exception {
    table.put(new Put(row()).addColumn(F, Q, b("short")).setTTL(300));
    table.put(new Put(row()).addColumn(F, b("r"), b("long")).setTTL(3_600_000));
    assertTrue(table.exists(new Get(row()).addColumn(F, b("r"))));
    long end = System.nanoTime() + 20_000_000_000L;
    while (table.exists(new Get(row()).addColumn(F, Q))) {
      assertTrue("the cell outlives its time", System.nanoTime() < end);
    }
    assertEquals(1, table.get(new Get(row())).size());
  }

  @Test
  public void everyDurabilityIsReadAfterItsAnswer() throws Exception {
    for (Durability durability : Durability.values()) {
      table.put(new Put(row(durability.name())).addColumn(F, Q, b("v")).setDurability(durability));
      assertEquals("v", s(table.get(new Get(row(durability.name()))).value()));
    }
  }

  @Test
  public void aBatchOfEveryKindAnswersInItsOrder() throws Exception {
    put(row("get"), "q", 5, "got");
    put(row("delete"), "q", 5, "gone");
    List<Row> acts =
        List.of(
            new Get(row("get")),
            new Put(row("put")).addColumn(F, Q, 6, b("v")),
            new Delete(row("delete")),
            new Increment(row("increment")).addColumn(F, Q, 41),
            new Append(row("append")).addColumn(F, Q, b("tail")),
            new Get(row("nothing")),
            RowMutations.of(
                List.of(
                    new Put(row("mutations")).addColumn(F, Q, 6, b("m")),
                    new Delete(row("mutations")).addColumns(F, b("r")))));
    Object[] results = new Object[acts.size()];
    table.batch(acts, results);
    assertEquals("got", s(((Result) results[0]).value()));
    assertTrue(((Result) results[1]).isEmpty());
    assertTrue(((Result) results[2]).isEmpty());
    assertEquals(41, Bytes.toLong(((Result) results[3]).value()));
    assertEquals("tail", s(((Result) results[4]).value()));
    assertTrue(((Result) results[5]).isEmpty());
    assertTrue(((Result) results[6]).getExists());
    assertEquals(List.of("f:q@6=v"), all(row("put")));
    assertEquals(List.of(), all(row("delete")));
    assertEquals(List.of("f:q@6=m"), all(row("mutations")));
  }

  @Test
  public void aBatchWithAFaultyActDoesTheOthers() throws Exception {
    List<Row> acts =
        List.of(
            new Put(row("a")).addColumn(F, Q, 6, b("a")),
            new Put(row("b")).addColumn(b("nosuch"), Q, 6, b("b")),
            new Put(row("c")).addColumn(F, Q, 6, b("c")),
            new Get(row("d")).addFamily(b("nosuch")));
    Object[] results = new Object[acts.size()];
    if (Server.IS_CLIENT_3) {
      Server.refused(NoSuchColumnFamilyException.class, () -> table.batch(acts, results));
    } else {
      RetriesExhaustedWithDetailsException details =
          Server.refused(RetriesExhaustedWithDetailsException.class, () -> table.batch(acts, results));
      assertEquals(2, details.getNumExceptions());
      assertTrue(details.getCause(0).toString(), details.getCause(0) instanceof NoSuchColumnFamilyException);
    }
    assertTrue(results[0] instanceof Result);
    assertNotNull(Server.find(NoSuchColumnFamilyException.class, (Throwable) results[1]));
    assertTrue(results[2] instanceof Result);
    assertNotNull(Server.find(NoSuchColumnFamilyException.class, (Throwable) results[3]));
    assertEquals(List.of("f:q@6=a"), all(row("a")));
    assertEquals(List.of("f:q@6=c"), all(row("c")));
  }

  @Test
  public void aListOfPutsDeletesAndGetsSpansRegions() throws Exception {
    List<Put> puts = new ArrayList<>();
    List<Get> gets = new ArrayList<>();
    List<Delete> deletes = new ArrayList<>();
    for (String region : List.of("a", "i", "z")) {
      for (int n = 0; n < 50; n++) {
        byte[] key = b(region + s(row()) + n);
        puts.add(new Put(key).addColumn(F, Q, 5, b(region + n)));
        gets.add(new Get(key));
        if (n % 2 == 0) {
          deletes.add(new Delete(key));
        }
      }
    }
    table.put(puts);
    Result[] results = table.get(gets);
    assertEquals(150, results.length);
    assertEquals("a0", s(results[0].value()));
    assertEquals("i49", s(results[99].value()));
    assertEquals("z49", s(results[149].value()));
    table.delete(new ArrayList<>(deletes));
    int left = 0;
    for (boolean there : table.exists(gets)) {
      left += there ? 1 : 0;
    }
    assertEquals(75, left);
  }

  @Test
  public void rowMutationsAreOneAct() throws Exception {
    put(row(), "old", 5, "x");
    Result result =
        table.mutateRow(
            RowMutations.of(
                List.of(
                    new Put(row()).addColumn(F, Q, 6, b("v")).addColumn(G, Q, 6, b("w")),
                    new Delete(row()).addColumns(F, b("old")))));
    assertTrue(result.isEmpty());
    assertEquals(List.of("f:q@6=v", "g:q@6=w"), all(row()));
    Result answered =
        table.mutateRow(
            RowMutations.of(
                List.of(
                    new Increment(row()).addColumn(F, b("n"), 2),
                    new Append(row()).addColumn(F, b("t"), b("ab")),
                    new Put(row()).addColumn(F, b("p"), 6, b("p")))));
    assertEquals(2, Bytes.toLong(answered.getValue(F, b("n"))));
    assertEquals("ab", s(answered.getValue(F, b("t"))));
    RowMutations faulty =
        RowMutations.of(
            List.of(
                new Put(row()).addColumn(F, b("z"), 6, b("v")), new Put(row()).addColumn(b("nosuch"), Q, b("v"))));
    Server.refused(NoSuchColumnFamilyException.class, () -> table.mutateRow(faulty));
    assertFalse(table.exists(new Get(row()).addColumn(F, b("z"))));
  }

  @Test
  public void checkAndMutateComparesTheExpectedWithTheStored() throws Exception {
    put(row(), "q", 5, "5");
    // EXPECTED op STORED, as HBase has it: LESS holds when the expected value is less than the stored one.
    Object[][] cases = {
      {CompareOperator.EQUAL, "5", true}, {CompareOperator.EQUAL, "4", false},
      {CompareOperator.NOT_EQUAL, "4", true}, {CompareOperator.NOT_EQUAL, "5", false},
      {CompareOperator.LESS, "4", true}, {CompareOperator.LESS, "5", false}, {CompareOperator.LESS, "6", false},
      {CompareOperator.LESS_OR_EQUAL, "5", true}, {CompareOperator.LESS_OR_EQUAL, "6", false},
      {CompareOperator.GREATER, "6", true}, {CompareOperator.GREATER, "5", false}, {CompareOperator.GREATER, "4", false},
      {CompareOperator.GREATER_OR_EQUAL, "5", true}, {CompareOperator.GREATER_OR_EQUAL, "4", false},
    };
    int number = 0;
    for (Object[] one : cases) {
      byte[] mark = b("mark" + number++);
      CheckAndMutateResult result =
          table.checkAndMutate(
              CheckAndMutate.newBuilder(row())
                  .ifMatches(F, Q, (CompareOperator) one[0], b((String) one[1]))
                  .build(new Put(row()).addColumn(F, mark, b("done"))));
      assertEquals(one[0] + " " + one[1], one[2], result.isSuccess());
      assertEquals(one[0] + " " + one[1], one[2], table.exists(new Get(row()).addColumn(F, mark)));
    }
  }

  @Test
  public void checkAndMutateKnowsAbsence() throws Exception {
    CheckAndMutate create =
        CheckAndMutate.newBuilder(row()).ifNotExists(F, Q).build(new Put(row()).addColumn(F, Q, 5, b("one")));
    assertTrue(table.checkAndMutate(create).isSuccess());
    assertFalse(table.checkAndMutate(create).isSuccess());
    byte[] absent = row("absent");
    for (CompareOperator operator : new CompareOperator[] {CompareOperator.EQUAL, CompareOperator.NOT_EQUAL}) {
      assertFalse(
          operator.toString(),
          table.checkAndMutate(
              CheckAndMutate.newBuilder(absent).ifMatches(F, Q, operator, b("x"))
                  .build(new Put(absent).addColumn(F, Q, b("no")))).isSuccess());
    }
    assertFalse(
        table.checkAndMutate(
            CheckAndMutate.newBuilder(absent).ifMatches(F, Q, CompareOperator.NOT_EQUAL, null)
                .build(new Put(absent).addColumn(F, Q, b("no")))).isSuccess());
    put(absent, "q", 5, "there");
    assertTrue(
        table.checkAndMutate(
            CheckAndMutate.newBuilder(absent).ifMatches(F, Q, CompareOperator.NOT_EQUAL, null)
                .build(new Delete(absent))).isSuccess());
    assertFalse(table.exists(new Get(absent)));
  }

  @Test
  public void checkAndMutateWithAFilterATimeRangeAndSeveralMutations() throws Exception {
    put(row(), "q", 10, "ten");
    put(row(), "q", 20, "twenty");
    assertFalse(
        table.checkAndMutate(
            CheckAndMutate.newBuilder(row())
                .ifMatches(new SingleColumnValueFilter(F, Q, CompareOperator.EQUAL, b("ten")))
                .build(new Put(row()).addColumn(F, b("no"), b("no")))).isSuccess());
    assertTrue(
        table.checkAndMutate(
            CheckAndMutate.newBuilder(row())
                .ifMatches(new SingleColumnValueFilter(F, Q, CompareOperator.EQUAL, b("twenty")))
                .build(
                    RowMutations.of(
                        List.of(
                            new Put(row()).addColumn(F, b("r"), 5, b("r")),
                            new Delete(row()).addColumn(F, Q, 20))))).isSuccess());
    assertEquals(List.of("f:q@10=ten", "f:r@5=r"), all(row()));
    assertTrue(
        table.checkAndMutate(
            CheckAndMutate.newBuilder(row())
                .ifMatches(F, Q, CompareOperator.EQUAL, b("ten")).timeRange(org.apache.hadoop.hbase.io.TimeRange.between(0, 11))
                .build(new Put(row()).addColumn(F, b("s"), 5, b("s")))).isSuccess());
    assertFalse(
        table.checkAndMutate(
            CheckAndMutate.newBuilder(row())
                .ifMatches(F, Q, CompareOperator.EQUAL, b("ten")).timeRange(org.apache.hadoop.hbase.io.TimeRange.between(11, 15))
                .build(new Put(row()).addColumn(F, b("t"), 5, b("t")))).isSuccess());
  }

  @Test
  public void checkAndMutateCountsAndAppends() throws Exception {
    put(row(), "q", 5, "yes");
    CheckAndMutateResult counted =
        table.checkAndMutate(
            CheckAndMutate.newBuilder(row()).ifEquals(F, Q, b("yes"))
                .build(new Increment(row()).addColumn(F, b("n"), 3)));
    assertTrue(counted.isSuccess());
    assertEquals(3, Bytes.toLong(counted.getResult().getValue(F, b("n"))));
    CheckAndMutateResult appended =
        table.checkAndMutate(
            CheckAndMutate.newBuilder(row()).ifEquals(F, Q, b("yes"))
                .build(new Append(row()).addColumn(F, b("t"), b("tail"))));
    assertEquals("tail", s(appended.getResult().getValue(F, b("t"))));
    CheckAndMutateResult not =
        table.checkAndMutate(
            CheckAndMutate.newBuilder(row()).ifEquals(F, Q, b("no"))
                .build(new Increment(row()).addColumn(F, b("n"), 3)));
    assertFalse(not.isSuccess());
    assertNull(not.getResult());
    assertEquals(3, Bytes.toLong(table.get(new Get(row()).addColumn(F, b("n"))).value()));
  }

  @Test
  public void severalChecksGoInOneCall() throws Exception {
    put(row("1"), "q", 5, "a");
    put(row("2"), "q", 5, "b");
    List<CheckAndMutateResult> results =
        table.checkAndMutate(
            List.of(
                CheckAndMutate.newBuilder(row("1")).ifEquals(F, Q, b("a"))
                    .build(new Put(row("1")).addColumn(F, b("r"), 5, b("1"))),
                CheckAndMutate.newBuilder(row("2")).ifEquals(F, Q, b("a"))
                    .build(new Put(row("2")).addColumn(F, b("r"), 5, b("2")))));
    assertTrue(results.get(0).isSuccess());
    assertFalse(results.get(1).isSuccess());
    assertEquals(List.of("f:q@5=b"), all(row("2")));

    List<CheckAndMutate> counts =
        List.of(
            CheckAndMutate.newBuilder(row("3")).ifNotExists(F, Q).build(new Increment(row("3")).addColumn(F, Q, 9)),
            CheckAndMutate.newBuilder(row("3")).ifEquals(F, Q, b("no")).build(new Increment(row("3")).addColumn(F, Q, 9)));
    if (!Server.cellBlocks()) {
      // Without cell blocks the client itself refuses these in one call.
      Server.refused(DoNotRetryIOException.class, () -> table.checkAndMutate(counts));
      return;
    }
    List<CheckAndMutateResult> counted = table.checkAndMutate(counts);
    assertTrue(counted.get(0).isSuccess());
    assertEquals(9, Bytes.toLong(counted.get(0).getResult().value()));
    assertFalse(counted.get(1).isSuccess());
  }

  @Test
  @SuppressWarnings("deprecation")
  public void theOlderCallsForConditionsWork() throws Exception {
    put(row(), "q", 5, "a");
    assertTrue(
        table.checkAndMutate(row(), F).qualifier(Q).ifEquals(b("a"))
            .thenPut(new Put(row()).addColumn(F, b("r"), 5, b("r"))));
    assertFalse(
        table.checkAndMutate(row(), F).qualifier(Q).ifEquals(b("b")).thenDelete(new Delete(row())));
    assertTrue(
        table.checkAndMutate(row(), F).qualifier(Q).ifEquals(b("a"))
            .thenMutate(RowMutations.of(List.of(new Delete(row()).addColumns(F, b("r"))))));
    assertEquals(List.of("f:q@5=a"), all(row()));
  }

  @Test
  public void incrementsCount() throws Exception {
    assertEquals(5, table.incrementColumnValue(row(), F, Q, 5));
    assertEquals(3, table.incrementColumnValue(row(), F, Q, -2));
    assertEquals(3, table.incrementColumnValue(row(), F, Q, 0));
    Result result = table.increment(new Increment(row()).addColumn(F, Q, 4).addColumn(G, b("x"), 1));
    assertEquals(7, Bytes.toLong(result.getValue(F, Q)));
    assertEquals(1, Bytes.toLong(result.getValue(G, b("x"))));
    Result silent = table.increment(new Increment(row()).addColumn(F, Q, 1).setReturnResults(false));
    assertTrue(silent == null || silent.isEmpty());
    assertEquals(8, Bytes.toLong(table.get(new Get(row()).addColumn(F, Q)).value()));
    table.put(new Put(row("max")).addColumn(F, Q, Bytes.toBytes(Long.MAX_VALUE)));
    assertEquals(Long.MIN_VALUE, table.incrementColumnValue(row("max"), F, Q, 1));
  }

  @Test
  public void anIncrementOfSomethingElseIsRefused() throws Exception {
    put(row(), "q", 5, "four");
    DoNotRetryIOException refusal =
        Server.refused(DoNotRetryIOException.class, () -> table.incrementColumnValue(row(), F, Q, 1));
    assertTrue(refusal.getMessage(), refusal.getMessage().contains("Field is not a long, it's 4 bytes wide"));
    assertEquals(List.of("f:q@5=four"), all(row()));
  }

  @Test
  public void anIncrementWithinATimeRangeStartsAnew() throws Exception {
    table.put(new Put(row()).addColumn(F, Q, 5, Bytes.toBytes(100L)));
    Result result =
        table.increment(new Increment(row()).addColumn(F, Q, 1).setTimeRange(10, Long.MAX_VALUE));
    assertEquals(1, Bytes.toLong(result.value()));
  }

  @Test
  public void appendsGrow() throws Exception {
    assertEquals("ab", s(table.append(new Append(row()).addColumn(F, Q, b("ab"))).value()));
    Result result = table.append(new Append(row()).addColumn(F, Q, b("cd")).addColumn(G, b("x"), b("y")));
    assertEquals("abcd", s(result.getValue(F, Q)));
    assertEquals("y", s(result.getValue(G, b("x"))));
    Result silent = table.append(new Append(row()).addColumn(F, Q, b("e")).setReturnResults(false));
    assertTrue(silent == null || silent.isEmpty());
    assertEquals("abcde", s(table.get(new Get(row()).addColumn(F, Q)).value()));
  }

  @Test
  public void aBufferedMutatorWritesAllItWasGiven() throws Exception {
    List<Mutation> mutations = new ArrayList<>();
    for (int n = 0; n < 1000; n++) {
      mutations.add(new Put(row(String.format("%04d", n))).addColumn(F, Q, 5, b("v" + n)));
    }
    try (BufferedMutator mutator = Server.connection().getBufferedMutator(table.getName())) {
      mutator.mutate(mutations);
      mutator.flush();
      mutator.mutate(new Delete(row("0000")));
    }
    Scan scan = new Scan().setStartStopRowForPrefixScan(row());
    List<String> rows = Server.rows(table, scan);
    assertEquals(999, rows.size());
    assertEquals(s(row("0001")), rows.get(0));
  }

  @Test
  public void aGetWithAFilterAnswersWhatPasses() throws Exception {
    put(row(), "a", 5, "1");
    put(row(), "b", 5, "2");
    Get get = new Get(row()).setFilter(new QualifierFilter(CompareOperator.EQUAL, new BinaryComparator(b("b"))));
    assertEquals(List.of(s(row()) + "/f:b@5=2"), Server.cells(table.get(get)));
  }

  @Test
  public void attributesOfRowsAndCellsOfAnyBytesAreKept() throws Exception {
    byte[] row = Bytes.add(row(), new byte[] {0, (byte) 0xff, 1, ','});
    byte[] qualifier = new byte[] {0, 1, (byte) 0x80, (byte) 0xff};
    byte[] value = new byte[70_000];
    for (int n = 0; n < value.length; n++) {
      value[n] = (byte) (n * 31);
    }
    table.put(new Put(row).addColumn(F, qualifier, value).setAttribute("mark", b("ignored")));
    assertArrayEquals(value, table.get(new Get(row)).getValue(F, qualifier));
  }

  private static List<String> join(List<String> first, List<String> second) {
    List<String> both = new ArrayList<>(first);
    both.addAll(second);
    return both;
  }
}
