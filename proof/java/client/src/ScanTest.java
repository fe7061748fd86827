import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.metrics.ScanMetrics;
import org.apache.hadoop.hbase.filter.BinaryComparator;
import org.apache.hadoop.hbase.filter.BinaryPrefixComparator;
import org.apache.hadoop.hbase.filter.ColumnPrefixFilter;
import org.apache.hadoop.hbase.filter.Filter;
import org.apache.hadoop.hbase.filter.FilterList;
import org.apache.hadoop.hbase.filter.FirstKeyOnlyFilter;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.filter.PageFilter;
import org.apache.hadoop.hbase.filter.PrefixFilter;
import org.apache.hadoop.hbase.filter.QualifierFilter;
import org.apache.hadoop.hbase.filter.RegexStringComparator;
import org.apache.hadoop.hbase.filter.RowFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueExcludeFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.filter.SubstringComparator;
import org.apache.hadoop.hbase.filter.ValueFilter;
import org.junit.AfterClass;
import org.junit.BeforeClass;
import org.junit.Test;

/**
 *  Scans of a table with three regions. Rows are a00 to z09; each has f:number (the row's number among all), f:parity, both
 * in versions 1 and 2, and g:q. Half of it is flushed.
 */
public class ScanTest extends Words {
  private static final int ROWS = 260;
  private static Table table;

  @BeforeClass
  public static void fill() throws Exception {
    table = Server.freshTable("scan", b("h"), b("p"));
    List<Put> puts = new ArrayList<>();
    for (int n = 0; n < ROWS; n++) {
      for (long version = 1; version <= 2; version++) {
        puts.add(
            new Put(b(row(n)))
                .addColumn(F, b("number"), version, b(n + "." + version))
                .addColumn(F, b("parity"), version, b(n % 2 == 0 ? "even" : "odd"))
                .addColumn(G, Q, version, b("g" + n)));
      }
    }
    table.put(puts.subList(0, ROWS));
    try (Admin admin = Server.connection().getAdmin()) {
      admin.flush(table.getName());
    }
    table.put(puts.subList(ROWS, 2 * ROWS));
  }

  @AfterClass
  public static void drop() throws Exception {
    Server.drop(table);
  }

  private static String row(int n) {
    return (char) ('a' + n / 10) + String.format("%02d", n % 10);
  }

  private static List<String> expected(int from, int to) {
    List<String> rows = new ArrayList<>();
    for (int n = from; n < to; n++) {
      rows.add(row(n));
    }
    return rows;
  }

  private static List<String> rows(Scan scan) throws Exception {
    return Server.rows(table, scan);
  }

  private static List<String> reversed(List<String> rows) {
    List<String> back = new ArrayList<>(rows);
    Collections.reverse(back);
    return back;
  }

  /** Returns `row qualifier=value` of the newest versions that pass. */
  private static List<String> passing(Filter filter) throws Exception {
    return Server.cells(table, new Scan().addFamily(F).setFilter(filter));
  }

  @Test
  public void everyRowComesOnceWhateverTheCaching() throws Exception {
    assertEquals(expected(0, ROWS), rows(new Scan()));
    for (int caching : new int[] {1, 7, ROWS, 100_000}) {
      assertEquals(expected(0, ROWS), rows(new Scan().setCaching(caching).setCacheBlocks(caching > 7)));
    }
    for (Scan.ReadType type : Scan.ReadType.values()) {
      assertEquals(expected(0, ROWS), rows(new Scan().setReadType(type)));
    }
  }

  @Test
  public void boundsAreInOrOut() throws Exception {
    Scan scan = new Scan().withStartRow(b("c05")).withStopRow(b("k03"));
    assertEquals(expected(25, 103), rows(scan));
    assertEquals(expected(26, 104), rows(new Scan().withStartRow(b("c05"), false).withStopRow(b("k03"), true)));
    assertEquals(expected(103, 104), rows(new Scan().withStartRow(b("k03")).withStopRow(b("k03"), true)));
    assertEquals(List.of(), rows(new Scan().withStartRow(b("k03"), false).withStopRow(b("k04"), false)));
    assertEquals(expected(70, 150), rows(new Scan().withStartRow(b("h")).withStopRow(b("p"))));
    assertEquals(expected(250, 260), rows(new Scan().withStartRow(b("z"))));
    assertEquals(List.of(), rows(new Scan().withStartRow(b("zz"))));
    assertEquals(expected(70, 80), rows(new Scan().setStartStopRowForPrefixScan(b("h"))));
  }

  @Test
  public void backwardsIsTheSameBackwards() throws Exception {
    assertEquals(reversed(expected(0, ROWS)), rows(new Scan().setReversed(true)));
    assertEquals(reversed(expected(0, ROWS)), rows(new Scan().setReversed(true).setCaching(3)));
    assertEquals(
        reversed(expected(26, 104)), rows(new Scan().setReversed(true).withStartRow(b("k03")).withStopRow(b("c05"))));
    assertEquals(
        reversed(expected(25, 103)),
        rows(new Scan().setReversed(true).withStartRow(b("k03"), false).withStopRow(b("c05"), true)));
    // From the first row of a region, and from between rows.
    assertEquals(reversed(expected(60, 71)), rows(new Scan().setReversed(true).withStartRow(b("h00")).withStopRow(b("g"))));
    assertEquals(reversed(expected(60, 70)), rows(new Scan().setReversed(true).withStartRow(b("h")).withStopRow(b("g"))));
    assertEquals(reversed(expected(250, 260)), rows(new Scan().setReversed(true).setLimit(10)));
    // Within a row the order stays.
    assertEquals(
        List.of("d05/f:number@2=35.2", "d05/f:parity@2=odd", "d05/g:q@2=g35"),
        Server.cells(table, new Scan().setReversed(true).withStartRow(b("d05")).withStopRow(b("d05"), true)));
  }

  @Test
  public void limitsEndAScan() throws Exception {
    for (int limit : new int[] {1, 9, 75, 155, ROWS, ROWS + 5}) {
      List<String> expected = expected(0, Math.min(limit, ROWS));
      assertEquals(expected, rows(new Scan().setLimit(limit)));
      assertEquals(expected, rows(new Scan().setLimit(limit).setCaching(4)));
      assertEquals(expected, rows(new Scan().setLimit(limit).setMaxResultSize(500)));
    }
    assertEquals(expected(70, 71), rows(new Scan().withStartRow(b("h")).setOneRowLimit()));
  }

  @Test
  public void batchesCutRows() throws Exception {
    List<Integer> sizes = new ArrayList<>();
    List<String> cells = new ArrayList<>();
    try (ResultScanner scanner =
        table.getScanner(new Scan().setBatch(2).readVersions(2).withStartRow(b("g09")).withStopRow(b("h00"), true))) {
      for (Result result : scanner) {
        sizes.add(result.size());
        cells.addAll(Server.cells(result));
      }
    }
    assertEquals(List.of(2, 2, 1, 2, 2, 1), sizes);
    assertEquals(
        Server.cells(table, new Scan().readVersions(2).withStartRow(b("g09")).withStopRow(b("h00"), true)), cells);
    // A limit counts rows, also partial ones.
    assertEquals(9, Server.cells(table, new Scan().setBatch(2).setLimit(3)).size());
  }

  @Test
  public void aMaximalResultSizeCutsAnswersAndNotRows() throws Exception {
    for (long size : new long[] {1, 300, 5_000}) {
      List<String> found = new ArrayList<>();
      try (ResultScanner scanner = table.getScanner(new Scan().setMaxResultSize(size))) {
        for (Result result : scanner) {
          assertEquals(3, result.size());
          assertFalse(result.mayHaveMoreCellsInRow());
          found.add(s(result.getRow()));
        }
      }
      assertEquals(expected(0, ROWS), found);
    }
  }

  @Test
  public void whoAllowsPartsOfRowsGetsThem() throws Exception {
    Table wide = Server.freshTable("wide");
    for (String row : List.of("a", "b")) {
      Put put = new Put(b(row));
      for (int n = 0; n < 200; n++) {
        put.addColumn(F, b(String.format("%03d", n)), 5, new byte[1_000]);
      }
      wide.put(put);
    }
    Scan scan = new Scan().setMaxResultSize(30_000).setAllowPartialResults(true);
    int cells = 0;
    int parts = 0;
    int ends = 0;
    try (ResultScanner scanner = wide.getScanner(scan)) {
      for (Result result : scanner) {
        cells += result.size();
        parts++;
        ends += result.mayHaveMoreCellsInRow() ? 0 : 1;
      }
    }
    assertEquals(400, cells);
    assertTrue("parts: " + parts, parts >= 8);
    assertEquals(2, ends);
    // A client that does not allow partial rows gets whole rows from the same answers.
    try (ResultScanner scanner = wide.getScanner(new Scan().setMaxResultSize(30_000))) {
      assertEquals(200, scanner.next().size());
      assertEquals(200, scanner.next().size());
      assertNull(scanner.next());
    }
    Server.drop(wide);
  }

  @Test
  public void columnsVersionsAndTimesAreChosen() throws Exception {
    Scan one = new Scan().withStartRow(b("k03")).withStopRow(b("k03"), true);
    assertEquals(
        List.of("k03/f:number@2=103.2", "k03/f:number@1=103.1", "k03/f:parity@2=odd", "k03/f:parity@1=odd", "k03/g:q@2=g103"),
        Server.cells(table, new Scan(one).readAllVersions()));
    assertEquals(
        List.of("k03/f:number@1=103.1"),
        Server.cells(table, new Scan(one).addColumn(F, b("number")).setTimeRange(0, 2)));
    assertEquals(List.of("k03/f:parity@2=odd"), Server.cells(table, new Scan(one).addColumn(F, b("parity"))));
    assertEquals(
        List.of("k03/f:number@2=103.2", "k03/f:parity@2=odd"),
        Server.cells(table, new Scan(one).addFamily(F).setColumnFamilyTimeRange(F, 2, 9)));
    assertEquals(ROWS, rows(new Scan().addFamily(G)).size());
  }

  @Test
  public void aScannerSeesNothingThatCameLater() throws Exception {
    Table own = Server.freshTable("mvcc");
    for (String row : List.of("a", "c", "e")) {
      own.put(new Put(b(row)).addColumn(F, Q, 5, b("old")));
    }
    try (ResultScanner scanner = own.getScanner(new Scan().setCaching(1));
        Admin admin = Server.connection().getAdmin()) {
      assertEquals(List.of("a/f:q@5=old"), Server.cells(scanner.next()));
      own.put(new Put(b("b")).addColumn(F, Q, 5, b("new")));
      own.put(new Put(b("e")).addColumn(F, Q, 6, b("new")));
      own.delete(new Delete(b("c")));
      admin.flush(own.getName());
      assertEquals(List.of("c/f:q@5=old"), Server.cells(scanner.next()));
      admin.majorCompact(own.getName());
      assertEquals(List.of("e/f:q@5=old"), Server.cells(scanner.next()));
      assertNull(scanner.next());
    }
    assertEquals(List.of("a", "b", "e"), Server.rows(own, new Scan()));
    Server.drop(own);
  }

  @Test
  public void aScannerIsRenewedAndClosed() throws Exception {
    try (ResultScanner scanner = table.getScanner(new Scan().setCaching(2))) {
      assertEquals("a00", s(scanner.next().getRow()));
      // HBase 3's client renews leases itself, and answers false to callers who ask it to.
      assertEquals(!Server.IS_CLIENT_3, scanner.renewLease());
      assertEquals(!Server.IS_CLIENT_3, scanner.renewLease());
      List<String> rest = new ArrayList<>();
      for (Result result : scanner) {
        rest.add(s(result.getRow()));
      }
      assertEquals(expected(1, ROWS), rest);
    }
    ResultScanner early = table.getScanner(new Scan().setCaching(2));
    assertEquals(3, early.next(3).length);
    early.close();
    early.close();
    // Later scans are not affected.
    assertEquals(expected(0, ROWS), rows(new Scan()));
  }

  @Test
  public void scansTellWhatTheyDid() throws Exception {
    try (ResultScanner scanner =
        table.getScanner(new Scan().setScanMetricsEnabled(true).setFilter(new ValueFilter(CompareOperator.EQUAL, new BinaryComparator(b("g7")))))) {
      assertEquals("a07", s(scanner.next().getRow()));
      assertNull(scanner.next());
      ScanMetrics metrics = scanner.getScanMetrics();
      assertNotNull(metrics);
      assertEquals(3, metrics.countOfRegions.get());
      assertEquals(ROWS, metrics.countOfRowsScanned.get());
      assertEquals(ROWS - 1, metrics.countOfRowsFiltered.get());
    }
  }

  @Test
  public void filtersKeepWhatTheyShould() throws Exception {
    assertEquals(expected(70, 80), rows(new Scan().setFilter(new PrefixFilter(b("h")))));
    // Each region counts for itself.
    List<String> pages = new ArrayList<>(expected(0, 4));
    pages.addAll(expected(70, 74));
    pages.addAll(expected(150, 154));
    assertEquals(pages, rows(new Scan().setFilter(new PageFilter(4))));
    assertEquals(expected(0, 4), rows(new Scan().setFilter(new PageFilter(4)).setLimit(4)));
    assertEquals(List.of("a00/f:number@2=", "a00/f:parity@2=", "a01/f:number@2="), passing(new KeyOnlyFilter()).subList(0, 3));
    List<String> firsts = passing(new FirstKeyOnlyFilter());
    assertEquals(ROWS, firsts.size());
    assertEquals("z09/f:number@2=259.2", firsts.get(ROWS - 1));
    assertEquals(List.of("a00/f:parity@2=even", "a01/f:parity@2=odd"), passing(new ColumnPrefixFilter(b("pa"))).subList(0, 2));
    assertEquals(List.of("k03/f:number@2=103.2"), passing(new ValueFilter(CompareOperator.EQUAL, new BinaryComparator(b("103.2")))));
    assertEquals(
        List.of("a07/f:number@2=7.2", "b07/f:number@2=17.2"),
        passing(new ValueFilter(CompareOperator.EQUAL, new RegexStringComparator("^1?7\\.2$"))));
    assertEquals(130, passing(new ValueFilter(CompareOperator.EQUAL, new SubstringComparator("EVEN"))).size());
    assertEquals(ROWS, passing(new QualifierFilter(CompareOperator.EQUAL, new BinaryComparator(b("parity")))).size());
    assertEquals(expected(0, 5), rows(new Scan().setFilter(new RowFilter(CompareOperator.LESS, new BinaryComparator(b("a05"))))));
    assertEquals(
        expected(70, 80), rows(new Scan().setFilter(new RowFilter(CompareOperator.EQUAL, new BinaryPrefixComparator(b("h"))))));
  }

  @Test
  public void filtersOfAColumnsValueJudgeWholeRows() throws Exception {
    SingleColumnValueFilter odd = new SingleColumnValueFilter(F, b("parity"), CompareOperator.EQUAL, b("odd"));
    assertEquals(130, rows(new Scan().setFilter(odd)).size());
    assertEquals(
        List.of("a01/f:number@2=1.2", "a01/f:parity@2=odd", "a01/g:q@2=g1"),
        Server.cells(table, new Scan().setFilter(odd).setLimit(1)));
    assertEquals(
        List.of("a01/f:number@2=1.2", "a01/g:q@2=g1"),
        Server.cells(
            table,
            new Scan().setLimit(1)
                .setFilter(new SingleColumnValueExcludeFilter(F, b("parity"), CompareOperator.EQUAL, b("odd")))));
    SingleColumnValueFilter absent = new SingleColumnValueFilter(F, b("none"), CompareOperator.EQUAL, b("x"));
    assertEquals(ROWS, rows(new Scan().setFilter(absent)).size());
    absent.setFilterIfMissing(true);
    assertEquals(List.of(), rows(new Scan().setFilter(absent)));
  }

  @Test
  public void listsOfFiltersAreAllOrOne() throws Exception {
    Filter odd = new SingleColumnValueFilter(F, b("parity"), CompareOperator.EQUAL, b("odd"));
    Filter h = new PrefixFilter(b("h"));
    assertEquals(
        List.of("h01", "h03", "h05", "h07", "h09"),
        rows(new Scan().setFilter(new FilterList(FilterList.Operator.MUST_PASS_ALL, h, odd))));
    assertEquals(
        135, rows(new Scan().setFilter(new FilterList(FilterList.Operator.MUST_PASS_ONE, h, odd))).size());
    Filter nested =
        new FilterList(
            FilterList.Operator.MUST_PASS_ONE,
            new FilterList(FilterList.Operator.MUST_PASS_ALL, h, new ColumnPrefixFilter(b("num"))),
            new ValueFilter(CompareOperator.EQUAL, new BinaryComparator(b("g3"))));
    List<String> cells = Server.cells(table, new Scan().setFilter(nested));
    assertEquals(11, cells.size());
    assertEquals("a03/g:q@2=g3", cells.get(0));
    assertEquals("h00/f:number@2=70.2", cells.get(1));
    // A filter that counts rows counts those that the filters before it keep.
    assertEquals(
        List.of("h01", "h03"),
        rows(new Scan().withStartRow(b("h")).withStopRow(b("i")).setFilter(new FilterList(odd, new PageFilter(2)))));
  }
}
