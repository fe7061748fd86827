import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import com.stumbleupon.async.Deferred;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.hbase.async.AppendRequest;
import org.hbase.async.AtomicIncrementRequest;
import org.hbase.async.BinaryComparator;
import org.hbase.async.BinaryPrefixComparator;
import org.hbase.async.BitComparator;
import org.hbase.async.Bytes;
import org.hbase.async.ColumnPaginationFilter;
import org.hbase.async.ColumnPrefixFilter;
import org.hbase.async.ColumnRangeFilter;
import org.hbase.async.CompareFilter.CompareOp;
import org.hbase.async.Config;
import org.hbase.async.DeleteRequest;
import org.hbase.async.DependentColumnFilter;
import org.hbase.async.FamilyFilter;
import org.hbase.async.FilterList;
import org.hbase.async.FirstKeyOnlyFilter;
import org.hbase.async.FuzzyRowFilter;
import org.hbase.async.GetRequest;
import org.hbase.async.GetResultOrException;
import org.hbase.async.HBaseClient;
import org.hbase.async.KeyOnlyFilter;
import org.hbase.async.KeyRegexpFilter;
import org.hbase.async.KeyValue;
import org.hbase.async.MultiColumnAtomicIncrementRequest;
import org.hbase.async.MultipleColumnPrefixFilter;
import org.hbase.async.NoSuchColumnFamilyException;
import org.hbase.async.NonRecoverableException;
import org.hbase.async.PutRequest;
import org.hbase.async.QualifierFilter;
import org.hbase.async.RegexStringComparator;
import org.hbase.async.RegionLocation;
import org.hbase.async.RemoteException;
import org.hbase.async.RowFilter;
import org.hbase.async.ScanFilter;
import org.hbase.async.Scanner;
import org.hbase.async.SubstringComparator;
import org.hbase.async.TimestampsFilter;
import org.hbase.async.ValueFilter;
import org.junit.AfterClass;
import org.junit.BeforeClass;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TestName;

/**
 *  Tests with asynchbase, which has its own ZooKeeper client, lookup in hbase:meta, messages and cells, and sends no version in its
 *  connection header. The table has the families f (5 versions) and g (1 version), and is split at h and p.
 */
public class AsynchbaseTest {
  private static final long PATIENCE = 30_000;
  private static final byte[] TABLE = b(System.getProperty("proof.table"));
  private static final byte[] F = b("f");
  private static final byte[] G = b("g");
  private static final byte[] Q = b("q");

  private static HBaseClient client;

  @Rule public final TestName test = new TestName();

  private interface Act {
    void run() throws Exception;
  }

  @BeforeClass
  public static void connect() throws Exception {
    client = client();
  }

  private static HBaseClient client() {
    Config config = new Config();
    config.overrideConfig("hbase.zookeeper.quorum", System.getProperty("proof.quorum"));
    // Maximum time that asynchbase buffers puts and increments.
    config.overrideConfig("hbase.rpcs.buffered_flush_interval", "10");
    return new HBaseClient(config);
  }

  @AfterClass
  public static void disconnect() throws Exception {
    client.shutdown().join(PATIENCE);
  }

  private static byte[] b(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String s(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private static <T> T done(Deferred<T> deferred) throws Exception {
    return deferred.join(PATIENCE);
  }

  private static <T extends Exception> T refused(Class<T> expected, Act act) throws Exception {
    try {
      act.run();
    } catch (Exception thrown) {
      for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
        if (expected.isInstance(cause)) {
          return expected.cast(cause);
        }
      }
      throw new AssertionError("expected " + expected.getName(), thrown);
    }
    throw new AssertionError("expected " + expected.getName() + ", but it was done");
  }

  /** Returns a row that no other test uses; its first letter chooses the region. */
  private byte[] row(String prefix) {
    return b(prefix + test.getMethodName());
  }

  private byte[] row() {
    return row("");
  }

  private static void put(byte[] row, String qualifier, long timestamp, String value) throws Exception {
    done(client.put(new PutRequest(TABLE, row, F, b(qualifier), b(value), timestamp)));
  }

  private static List<String> texts(List<KeyValue> cells) {
    List<String> texts = new ArrayList<>();
    for (KeyValue cell : cells) {
      String at = cell.timestamp() < 1_000_000 ? "@" + cell.timestamp() : "";
      texts.add(s(cell.family()) + ":" + s(cell.qualifier()) + at + "=" + s(cell.value()));
    }
    return texts;
  }

  private static List<String> all(byte[] row) throws Exception {
    return texts(done(client.get(new GetRequest(TABLE, row).maxVersions(Integer.MAX_VALUE))));
  }

  /** Returns a scanner over the rows that this test wrote with `prefix`. */
  private Scanner scanner(String prefix) {
    Scanner scanner = client.newScanner(TABLE);
    scanner.setStartKey(row(prefix));
    scanner.setStopKey(b(s(row(prefix)) + "~"));
    return scanner;
  }

  private static List<List<KeyValue>> rows(Scanner scanner) throws Exception {
    List<List<KeyValue>> rows = new ArrayList<>();
    for (ArrayList<ArrayList<KeyValue>> some = done(scanner.nextRows());
        some != null;
        some = done(scanner.nextRows())) {
      rows.addAll(some);
    }
    return rows;
  }

  /** Writes the rows a, b, c, d of this test, each with the columns ab, ac and b1 in versions 1 and 2. */
  private void fourRows() throws Exception {
    List<Deferred<Object>> puts = new ArrayList<>();
    for (String row : List.of("a", "b", "c", "d")) {
      for (String qualifier : List.of("ab", "ac", "b1")) {
        for (long version = 1; version <= 2; version++) {
          byte[] value = b(row + qualifier + version);
          puts.add(client.put(new PutRequest(TABLE, b(s(row()) + row), F, b(qualifier), value, version)));
        }
      }
    }
    done(Deferred.group(puts));
  }

  /** Returns the newest versions of the four rows that pass a filter, as `row qualifier value`. */
  private List<String> passing(ScanFilter filter) throws Exception {
    Scanner scanner = scanner("");
    scanner.setFilter(filter);
    return texts(scanner);
  }

  private List<String> texts(Scanner scanner) throws Exception {
    List<String> texts = new ArrayList<>();
    for (List<KeyValue> row : rows(scanner)) {
      for (KeyValue cell : row) {
        texts.add(
            s(cell.key()).substring(row().length) + " " + s(cell.qualifier()) + " " + s(cell.value()));
      }
    }
    return texts;
  }

  @Test
  public void tablesAndFamiliesAreFound() throws Exception {
    done(client.ensureTableExists(TABLE));
    done(client.ensureTableFamilyExists(TABLE, F));
    refused(
        NoSuchColumnFamilyException.class, () -> done(client.ensureTableFamilyExists(TABLE, b("nosuch"))));
    refused(NonRecoverableException.class, () -> done(client.ensureTableExists("no-such-table")));
  }

  @Test
  public void theRegionsAreLocated() throws Exception {
    List<String> starts = new ArrayList<>();
    for (RegionLocation location : done(client.locateRegions(TABLE))) {
      assertArrayEquals(TABLE, location.getTable());
      assertTrue(location.getPort() > 0);
      starts.add(s(location.startKey()) + ".." + s(location.stopKey()));
    }
    assertEquals(List.of("..h", "h..p", "p.."), starts);
  }

  @Test
  public void metaCanBeReadAhead() throws Exception {
    HBaseClient other = client();
    done(other.prefetchMeta(TABLE));
    long lookups = other.stats().contendedMetaLookups() + other.stats().uncontendedMetaLookups();
    assertTrue(done(other.get(new GetRequest(TABLE, row("zz")))).isEmpty());
    assertEquals(lookups, other.stats().contendedMetaLookups() + other.stats().uncontendedMetaLookups());
    done(other.shutdown());
  }

  @Test
  public void aPutIsReadBackFromEveryRegion() throws Exception {
    for (String region : List.of("a", "h", "z")) {
      put(row(region), "q", 7, "in " + region);
    }
    for (String region : List.of("a", "h", "z")) {
      ArrayList<KeyValue> cells = done(client.get(new GetRequest(TABLE, row(region), F, Q)));
      assertEquals(List.of("f:q@7=in " + region), texts(cells));
      assertArrayEquals(row(region), cells.get(0).key());
    }
    assertTrue(done(client.get(new GetRequest(TABLE, row("none")))).isEmpty());
  }

  @Test
  public void aPutOfSeveralColumnsIsOneRow() throws Exception {
    byte[][] qualifiers = {b("a"), b("b"), b("")};
    byte[][] values = {b("1"), b("2"), b("")};
    done(client.put(new PutRequest(TABLE, row(), F, qualifiers, values, 9)));
    assertEquals(List.of("f:@9=", "f:a@9=1", "f:b@9=2"), all(row()));
  }

  @Test
  public void putsThatWaitForCompanyGoInOneCall() throws Exception {
    List<Deferred<Object>> puts = new ArrayList<>();
    for (int n = 0; n < 3_000; n++) {
      byte[] key = row("" + (char) ('a' + n % 26) + String.format("%04d", n));
      puts.add(client.put(new PutRequest(TABLE, key, F, Q, Bytes.fromInt(n))));
    }
    done(Deferred.group(puts));
    for (int n = 0; n < 3_000; n += 271) {
      byte[] key = row("" + (char) ('a' + n % 26) + String.format("%04d", n));
      assertEquals(n, Bytes.getInt(done(client.get(new GetRequest(TABLE, key, F, Q))).get(0).value()));
    }
    assertTrue(client.stats().numBatchedRpcSent() > 0);
  }

  @Test
  public void aPutThatMayNotWaitIsDone() throws Exception {
    PutRequest put = new PutRequest(TABLE, row(), F, Q, b("v"), 5);
    put.setBufferable(false);
    done(client.put(put));
    PutRequest loose = new PutRequest(TABLE, row(), F, b("r"), b("w"), 5);
    loose.setDurable(false);
    done(client.put(loose));
    assertEquals(List.of("f:q@5=v", "f:r@5=w"), all(row()));
  }

  @Test
  public void aGetChoosesFamiliesColumnsVersionsAndTimes() throws Exception {
    for (long version = 1; version <= 4; version++) {
      put(row(), "q", version * 10, "v" + version);
    }
    put(row(), "r", 15, "r");
    done(client.put(new PutRequest(TABLE, row(), G, Q, b("g"), 15)));
    assertEquals(
        List.of("f:q@40=v4", "f:q@30=v3", "f:q@20=v2", "f:q@10=v1", "f:r@15=r", "g:q@15=g"), all(row()));
    assertEquals(
        List.of("f:q@40=v4", "f:q@30=v3"), texts(done(client.get(new GetRequest(TABLE, row(), F, Q).maxVersions(2)))));
    assertEquals(List.of("g:q@15=g"), texts(done(client.get(new GetRequest(TABLE, row(), G)))));
    assertEquals(
        List.of("f:q@40=v4", "f:r@15=r"),
        texts(done(client.get(new GetRequest(TABLE, row()).family(F).qualifiers(new byte[][] {Q, b("r")})))));
    GetRequest ranged = new GetRequest(TABLE, row()).family(F).maxVersions(9).setTimeRange(11, 31);
    assertEquals(List.of("f:q@30=v3", "f:q@20=v2", "f:r@15=r"), texts(done(client.get(ranged))));
    GetRequest filtered = new GetRequest(TABLE, row()).setFilter(new ColumnPrefixFilter("r"));
    assertEquals(List.of("f:r@15=r"), texts(done(client.get(filtered))));
  }

  @Test
  public void severalGetsGoInOneCall() throws Exception {
    put(row("a"), "q", 5, "one");
    put(row("z"), "q", 5, "two");
    List<GetResultOrException> results =
        done(
            client.get(
                List.of(
                    new GetRequest(TABLE, row("z"), F, Q),
                    new GetRequest(TABLE, row("m"), F, Q),
                    new GetRequest(TABLE, row("a"), F, Q),
                    new GetRequest(TABLE, row("a"), b("nosuch"), Q))));
    assertEquals(List.of("f:q@5=two"), texts(results.get(0).getCells()));
    assertTrue(results.get(1).getCells().isEmpty());
    assertEquals(List.of("f:q@5=one"), texts(results.get(2).getCells()));
    assertNotNull(results.get(3).getException());
  }

  @Test
  public void eachKindOfDeleteHidesWhatItShould() throws Exception {
    for (String suffix : List.of("row", "family", "column", "old", "version")) {
      for (long version = 1; version <= 3; version++) {
        put(row(suffix), "q", version, "v" + version);
        put(row(suffix), "r", version, "r" + version);
      }
      done(client.put(new PutRequest(TABLE, row(suffix), G, Q, b("g"), 2)));
    }
    done(client.delete(new DeleteRequest(TABLE, row("row"))));
    assertEquals(List.of(), all(row("row")));
    done(client.delete(new DeleteRequest(TABLE, row("family"), F)));
    assertEquals(List.of("g:q@2=g"), all(row("family")));
    done(client.delete(new DeleteRequest(TABLE, row("column"), F, Q)));
    assertEquals(List.of("f:r@3=r3", "f:r@2=r2", "f:r@1=r1", "g:q@2=g"), all(row("column")));
    done(client.delete(new DeleteRequest(TABLE, row("old"), F, Q, 2)));
    assertEquals(List.of("f:q@3=v3", "f:r@3=r3", "f:r@2=r2", "f:r@1=r1", "g:q@2=g"), all(row("old")));
    DeleteRequest version = new DeleteRequest(TABLE, row("version"), F, Q, 2);
    version.setDeleteAtTimestampOnly(true);
    done(client.delete(version));
    assertEquals(
        List.of("f:q@3=v3", "f:q@1=v1", "f:r@3=r3", "f:r@2=r2", "f:r@1=r1", "g:q@2=g"), all(row("version")));
  }

  @Test
  public void countersCount() throws Exception {
    AtomicIncrementRequest five = new AtomicIncrementRequest(TABLE, row(), F, Q, 5);
    assertEquals(5L, (long) done(client.atomicIncrement(five)));
    assertEquals(3L, (long) done(client.atomicIncrement(new AtomicIncrementRequest(TABLE, row(), F, Q, -2))));
    List<Deferred<Long>> many = new ArrayList<>();
    for (int n = 0; n < 100; n++) {
      many.add(client.atomicIncrement(new AtomicIncrementRequest(TABLE, row(), F, Q)));
    }
    // Each increment returned a different number.
    assertEquals(100, new TreeSet<>(done(Deferred.group(many))).size());
    assertEquals(103, Bytes.getLong(done(client.get(new GetRequest(TABLE, row(), F, Q))).get(0).value()));
    List<Deferred<Long>> buffered = new ArrayList<>();
    for (int n = 0; n < 100; n++) {
      buffered.add(client.bufferAtomicIncrement(new AtomicIncrementRequest(TABLE, row(), F, b("r"), 2)));
    }
    done(Deferred.group(buffered));
    assertEquals(200, Bytes.getLong(done(client.get(new GetRequest(TABLE, row(), F, b("r")))).get(0).value()));
  }

  @Test
  public void severalCountersOfARowGoTogether() throws Exception {
    byte[][] qualifiers = {b("a"), b("b")};
    Map<byte[], Long> counts =
        done(
            client.atomicIncrement(
                new MultiColumnAtomicIncrementRequest(TABLE, row(), F, qualifiers, new long[] {3, 4})));
    // The keys of that map are compared by identity.
    List<String> texts = new ArrayList<>();
    counts.forEach((qualifier, count) -> texts.add(s(qualifier) + "=" + count));
    Collections.sort(texts);
    assertEquals(List.of("a=3", "b=4"), texts);
  }

  @Test
  public void appendsGrow() throws Exception {
    done(client.append(new AppendRequest(TABLE, row(), F, Q, b("ab"))));
    AppendRequest more = new AppendRequest(TABLE, row(), F, Q, b("cd"));
    more.returnResult(true);
    KeyValue answered = (KeyValue) done(client.append(more));
    assertEquals("abcd", s(answered.value()));
    assertEquals("abcd", s(done(client.get(new GetRequest(TABLE, row(), F, Q))).get(0).value()));
  }

  @Test
  public void compareAndSetComparesFirst() throws Exception {
    PutRequest first = new PutRequest(TABLE, row(), F, Q, b("first"));
    assertTrue(done(client.atomicCreate(first)));
    assertFalse(done(client.atomicCreate(first)));
    assertFalse(done(client.compareAndSet(new PutRequest(TABLE, row(), F, Q, b("second")), b("other"))));
    assertTrue(done(client.compareAndSet(new PutRequest(TABLE, row(), F, Q, b("second")), b("first"))));
    assertFalse(done(client.compareAndSet(new PutRequest(TABLE, row(), F, Q, b("third")), HBaseClient.EMPTY_ARRAY)));
    assertEquals("second", s(done(client.get(new GetRequest(TABLE, row(), F, Q))).get(0).value()));
  }

  @Test
  public void aScanCrossesRegions() throws Exception {
    List<Deferred<Object>> puts = new ArrayList<>();
    List<String> expected = new ArrayList<>();
    for (char first = 'a'; first <= 'z'; first++) {
      for (int n = 0; n < 20; n++) {
        String key = first + String.format("%02d", n) + s(row());
        puts.add(client.put(new PutRequest(TABLE, b(key), G, Q, b(key), 5)));
        expected.add(key);
      }
    }
    done(Deferred.group(puts));
    Scanner scanner = client.newScanner(TABLE);
    scanner.setFamily(G);
    scanner.setMaxNumRows(7);
    scanner.setKeyRegexp("^...\\Q" + s(row()) + "\\E$");
    List<String> found = new ArrayList<>();
    for (List<KeyValue> row : rows(scanner)) {
      assertEquals(1, row.size());
      found.add(s(row.get(0).value()));
    }
    assertEquals(expected, found);
  }

  @Test
  public void aScanHasLimitsVersionsAndTimes() throws Exception {
    fourRows();
    Scanner scanner = scanner("");
    scanner.setFamily(F);
    scanner.setQualifier("ab");
    scanner.setMaxVersions(2);
    scanner.setMaxNumRows(3);
    ArrayList<ArrayList<KeyValue>> three = done(scanner.nextRows());
    assertEquals(3, three.size());
    assertEquals(List.of("f:ab@2=aab2", "f:ab@1=aab1"), texts(three.get(0)));
    assertEquals(1, done(scanner.nextRows()).size());
    assertNull(done(scanner.nextRows()));

    scanner = scanner("");
    scanner.setQualifiers(new byte[][] {b("ab"), b("b1")});
    scanner.setFamily(F);
    scanner.setTimeRange(0, 2);
    assertEquals(List.of("f:ab@1=aab1", "f:b1@1=ab11"), texts(rows(scanner).get(0)));

    // A row of six cells in batches of four.
    scanner = scanner("");
    scanner.setMaxVersions(2);
    scanner.setMaxNumKeyValues(4);
    List<Integer> sizes = new ArrayList<>();
    for (List<KeyValue> piece : rows(scanner)) {
      sizes.add(piece.size());
    }
    assertEquals(List.of(4, 2, 4, 2, 4, 2, 4, 2), sizes);
  }

  @Test
  public void aScanGoesBackwards() throws Exception {
    fourRows();
    Scanner scanner = client.newScanner(TABLE);
    scanner.setReversed(true);
    scanner.setStartKey(b(s(row()) + "d"));
    scanner.setStopKey(b(s(row()) + "a"));
    List<String> found = new ArrayList<>();
    for (List<KeyValue> row : rows(scanner)) {
      found.add(s(row.get(0).value()));
    }
    assertEquals(List.of("dab2", "cab2", "bab2"), found);
  }

  @Test
  public void aScannerClosedEarlyIsClosed() throws Exception {
    fourRows();
    Scanner scanner = scanner("");
    assertEquals(1, done(scanner.nextRows(1)).size());
    done(scanner.close());
    // A new scanner starts at the beginning.
    assertEquals(4, rows(scanner("")).size());
  }

  @Test
  public void everyFilterKeepsWhatItShould() throws Exception {
    fourRows();
    String prefix = s(row());
    assertEquals(
        List.of("a ab aab2", "b ab bab2", "c ab cab2", "d ab dab2"), passing(new FirstKeyOnlyFilter()));
    assertEquals(List.of("a ab ", "a ac ", "a b1 "), passing(new KeyOnlyFilter()).subList(0, 3));
    assertEquals(
        List.of("a ab aab2", "a ac aac2", "b ab bab2", "b ac bac2"),
        passing(new ColumnPrefixFilter("a")).subList(0, 4));
    assertEquals(
        List.of("a ac aac2", "a b1 ab12"),
        passing(new MultipleColumnPrefixFilter(new String[] {"ac", "b"})).subList(0, 2));
    assertEquals(List.of("a ac aac2"), passing(new ColumnRangeFilter("ac", true, "b1", false)).subList(0, 1));
    assertEquals(4, passing(new ColumnRangeFilter("ac", true, "b1", false)).size());
    assertEquals(
        List.of("a ac aac2", "b ac bac2", "c ac cac2", "d ac dac2"), passing(new ColumnPaginationFilter(1, 1)));
    assertEquals(4, passing(new ColumnPaginationFilter(1, "b")).size());
    assertEquals(
        List.of("c ab cab2", "c ac cac2", "c b1 cb12"), passing(new KeyRegexpFilter("c$")));
    assertEquals(
        List.of("b ab bab2", "b ac bac2", "b b1 bb12"),
        passing(new RowFilter(CompareOp.EQUAL, new BinaryComparator(b(prefix + "b")))));
    assertEquals(
        6, passing(new RowFilter(CompareOp.GREATER, new BinaryComparator(b(prefix + "b")))).size());
    assertEquals(
        4, passing(new QualifierFilter(CompareOp.EQUAL, new BinaryPrefixComparator(b("b")))).size());
    assertEquals(0, passing(new FamilyFilter(CompareOp.NOT_EQUAL, new BinaryComparator(F))).size());
    assertEquals(
        List.of("d b1 db12"), passing(new ValueFilter(CompareOp.EQUAL, new RegexStringComparator("^d.1[2-9]$"))));
    assertEquals(
        List.of("a ac aac2"), passing(new ValueFilter(CompareOp.EQUAL, new SubstringComparator("AAC2"))));
    // "ab", "ac" and "b1" have the bit 0b10 in their second byte, or have not.
    BitComparator bit = new BitComparator(new byte[] {0, 2}, BitComparator.BitwiseOp.AND);
    assertEquals(List.of("a ab aab2", "a ac aac2"), passing(new QualifierFilter(CompareOp.EQUAL, bit)).subList(0, 2));
    assertEquals(8, passing(new QualifierFilter(CompareOp.EQUAL, bit)).size());
    assertEquals(12, passing(new TimestampsFilter(1L)).size());
    // The filter judges whole rows, so the scan must not return partial ones.
    refused(RemoteException.class, () -> passing(new DependentColumnFilter(F, b("ab"))));
    Scanner whole = scanner("");
    whole.setMaxNumKeyValues(-1);
    whole.setFilter(new DependentColumnFilter(F, b("ab"), true));
    assertEquals(List.of("a ac aac2", "a b1 ab12"), texts(whole).subList(0, 2));
    byte[] key = b(prefix + "?");
    byte[] mask = new byte[key.length];
    mask[0] = 1;
    mask[key.length - 1] = 1;
    assertEquals(12, passing(new FuzzyRowFilter(new FuzzyRowFilter.FuzzyFilterPair(key, mask))).size());
    ScanFilter first = new FirstKeyOnlyFilter();
    ScanFilter second = new ColumnPrefixFilter("b");
    assertEquals(0, passing(new FilterList(List.of(first, second))).size());
    assertEquals(8, passing(new FilterList(List.of(first, second), FilterList.Operator.MUST_PASS_ONE)).size());
  }

  @Test
  public void rowsOfAnyBytesAreFoundByTheirPattern() throws Exception {
    // A pattern of quoted bytes, one character each, as programs with binary rows use it.
    byte[] prefix = row();
    List<byte[]> rows = new ArrayList<>();
    for (byte[] end : List.of(new byte[] {0, -1, '\\', 'E'}, new byte[] {0, -2, '.', 'x'}, new byte[] {1, -1, -128, 'E'})) {
      byte[] row = Arrays.copyOf(prefix, prefix.length + end.length);
      System.arraycopy(end, 0, row, prefix.length, end.length);
      rows.add(row);
      done(client.put(new PutRequest(TABLE, row, F, Q, b("row " + rows.size()), 5)));
    }
    String quoted = "(?s)^.{" + prefix.length + "}.\\Q\u00ff\\E.+E$";
    Scanner scanner = client.newScanner(TABLE);
    scanner.setStartKey(prefix);
    scanner.setStopKey(b(s(prefix) + "~"));
    scanner.setKeyRegexp(quoted, StandardCharsets.ISO_8859_1);
    List<String> found = new ArrayList<>();
    for (List<KeyValue> row : rows(scanner)) {
      found.add(s(row.get(0).value()));
    }
    assertEquals(List.of("row 1", "row 3"), found);
  }

  @Test
  public void anUnknownFamilyOrTableIsAnError() throws Exception {
    refused(
        NoSuchColumnFamilyException.class,
        () -> done(client.put(new PutRequest(TABLE, row(), b("nosuch"), Q, b("v")))));
    refused(
        NoSuchColumnFamilyException.class, () -> done(client.get(new GetRequest(TABLE, row(), b("nosuch")))));
    refused(NonRecoverableException.class, () -> done(client.get(new GetRequest("no-such-table", row()))));
    // The connection still works.
    put(row(), "q", 5, "v");
    assertEquals(List.of("f:q@5=v"), all(row()));
  }

  @Test
  public void aLargeValueIsKeptWhole() throws Exception {
    byte[] value = new byte[3_000_000];
    for (int n = 0; n < value.length; n++) {
      value[n] = (byte) (n * 31 + n / 997);
    }
    done(client.put(new PutRequest(TABLE, row(), F, Q, value)));
    assertArrayEquals(value, done(client.get(new GetRequest(TABLE, row(), F, Q))).get(0).value());
  }
}
