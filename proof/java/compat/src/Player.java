import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import org.apache.hadoop.hbase.ArrayBackedTag;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellBuilderFactory;
import org.apache.hadoop.hbase.CellBuilderType;
import org.apache.hadoop.hbase.ExtendedCellBuilderFactory;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.Tag;
import org.apache.hadoop.hbase.TagUtil;
import org.apache.hadoop.hbase.client.*;

/** Plays the steps of a script on one side and returns the answer of each. */
final class Player implements AutoCloseable {
  private final Side side;
  private final Node schema;
  private final Place place;
  private final Table table;
  private final Map<String, ResultScanner> scanners = new HashMap<>();
  /** The last millisecond in which the server may have set a timestamp. */
  private long lastServerTime;

  Player(Side side, Node schema, Place place) throws IOException {
    this.side = side;
    this.schema = schema;
    this.place = place;
    this.table = side.table(schema, place.table());
  }

  static List<String> play(Side side, Node schema, Place place, List<Node> steps) throws IOException {
    try (Player player = new Player(side, schema, place)) {
      List<String> answers = new ArrayList<>(steps.size());
      for (Node step : steps) {
        answers.add(player.step(step));
      }
      return answers;
    }
  }

  String step(Node step) {
    boolean stamped = changes(step);
    if (stamped) {
      // Two writes with the same millisecond on one side may have different ones on the other.
      while (System.currentTimeMillis() <= lastServerTime) {
        Thread.onSpinWait();
      }
    }
    try {
      return answer(step);
    } catch (Exception error) {
      return "! " + Show.error(error, place);
    } finally {
      if (stamped) {
        lastServerTime = System.currentTimeMillis();
      }
    }
  }

  private static boolean changes(Node step) {
    return switch (step.head()) {
      case "get", "scan", "open", "next", "close", "flush", "major" -> false;
      default -> true;
    };
  }

  private String answer(Node step) throws IOException, InterruptedException {
    switch (step.head()) {
      case "put":
        table.put(put(step));
        return "ok";
      case "delete":
        table.delete(delete(step));
        return "ok";
      case "increment":
        return Show.result(table.increment(increment(step)), place);
      case "append":
        return Show.result(table.append(append(step)), place);
      case "row":
        return Show.result(table.mutateRow(rowMutations(step)), place);
      case "check":
        return checked(table.checkAndMutate(check(step)));
      case "checks": {
        List<CheckAndMutate> checks = new ArrayList<>();
        for (int index = 1; index < step.size(); index++) {
          checks.add(check(step.at(index)));
        }
        return table.checkAndMutate(checks).stream().map(this::checked).collect(Collectors.joining(" | "));
      }
      case "get":
        return step.has("exists") ? String.valueOf(table.exists(get(step))) : Show.result(table.get(get(step)), place);
      case "gets": {
        List<Get> gets = new ArrayList<>();
        for (int index = 1; index < step.size(); index++) {
          gets.add(get(step.at(index)));
        }
        StringBuilder out = new StringBuilder();
        for (Result result : table.get(gets)) {
          out.append(out.isEmpty() ? "" : " | ").append(Show.result(result, place));
        }
        return out.toString();
      }
      case "batch":
        return batch(step);
      case "scan":
        return scan(step);
      case "open":
        closeScanner(step.text(1));
        scanners.put(step.text(1), table.getScanner(query(step)));
        return "ok";
      case "next": {
        ResultScanner scanner = scanners.get(step.text(1));
        if (scanner == null) {
          return "no scanner";
        }
        return take(scanner, step.number(2));
      }
      case "renew": {
        ResultScanner scanner = scanners.get(step.text(1));
        // An exhausted scanner answers yes or no, depending on whether it has noticed its end: with a second word the
        // answer is left out.
        if (scanner == null) {
          return "no scanner";
        }
        boolean renewed = scanner.renewLease();
        return step.size() > 2 ? "ok" : String.valueOf(renewed);
      }
      case "close":
        closeScanner(step.text(1));
        return "ok";
      case "flush":
        return side.flush(schema, place.table());
      case "major":
        return side.compact(schema, place.table());
      default:
        if (TableOperations.knows(step.head())) {
          return side.operations.play(step, schema, place);
        }
        throw new IllegalArgumentException("unknown step: " + step);
    }
  }

  private void closeScanner(String name) {
    ResultScanner scanner = scanners.remove(name);
    if (scanner != null) {
      scanner.close();
    }
  }

  private String checked(CheckAndMutateResult result) {
    return result.isSuccess() + (result.getResult() == null ? "" : " " + Show.result(result.getResult(), place));
  }

  private String batch(Node step) throws IOException, InterruptedException {
    List<Row> actions = new ArrayList<>();
    for (int index = 1; index < step.size(); index++) {
      actions.add(action(step.at(index)));
    }
    Object[] results = new Object[actions.size()];
    String thrown = "";
    try {
      table.batch(actions, results);
    } catch (RetriesExhaustedWithDetailsException error) {
      thrown = "! ";
    }
    StringBuilder out = new StringBuilder(thrown);
    for (Object result : results) {
      out.append(out.length() <= thrown.length() ? "" : " | ");
      if (result instanceof Result cells) {
        out.append(Show.result(cells, place));
      } else if (result instanceof CheckAndMutateResult check) {
        out.append(checked(check));
      } else if (result instanceof Throwable error) {
        out.append(Show.error(error, place));
      } else {
        out.append(Objects.toString(result));
      }
    }
    return out.toString();
  }

  private Row action(Node node) throws IOException {
    return switch (node.head()) {
      case "put" -> put(node);
      case "delete" -> delete(node);
      case "increment" -> increment(node);
      case "append" -> append(node);
      case "get" -> get(node);
      case "row" -> rowMutations(node);
      case "check" -> check(node);
      default -> throw new IllegalArgumentException("no action: " + node);
    };
  }

  /** {@code (put r1 (cell a q v 5) (cell a q v) (cell a q v 5 (tag 65 x)) ... (ttl 1000))}. */
  private Put put(Node node) throws IOException {
    Put put = new Put(place.row(node.text(1)));
    for (Node part : parts(node, 2)) {
      switch (part.head()) {
        case "cell" -> {
          boolean timed = part.size() > 4 && part.at(4).isAtom();
          long timestamp = timed ? place.timestamp(part.text(4)) : HConstants.LATEST_TIMESTAMP;
          List<Tag> tags = new ArrayList<>();
          for (Node tag : parts(part, 4)) {
            tags.add(new ArrayBackedTag((byte) tag.number(1), tag.bytes(2)));
          }
          put.add(ExtendedCellBuilderFactory.create(CellBuilderType.SHALLOW_COPY).setRow(put.getRow())
              .setFamily(part.bytes(1)).setQualifier(part.bytes(2)).setTimestamp(timestamp).setType(Cell.Type.Put)
              .setValue(value(part, 3)).setTags(TagUtil.fromList(tags)).build());
        }
        case "negative" -> {
          Cell cell = CellBuilderFactory.create(CellBuilderType.SHALLOW_COPY).setRow(put.getRow()).setFamily(part.bytes(1))
              .setQualifier(part.bytes(2)).setTimestamp(1).setType(Cell.Type.Put).setValue(value(part, 3)).build();
          force(cell.getClass(), cell, "timestamp", Long.parseLong(part.text(4)));
          put.add(cell);
        }
        case "of-row" -> put.getFamilyCellMap().computeIfAbsent(part.bytes(2), family -> new ArrayList<>())
            .add(CellBuilderFactory.create(CellBuilderType.SHALLOW_COPY).setRow(place.row(part.text(1)))
                .setFamily(part.bytes(2)).setQualifier(part.bytes(3)).setTimestamp(5).setType(Cell.Type.Put)
                .setValue(value(part, 4)).build());
        default -> common(put, part);
      }
    }
    return put;
  }

  /** Reads a value; {@code (zeros 1000)} has 1,000 zero bytes. */
  private static byte[] value(Node node, int index) {
    Node value = node.at(index);
    return value.isAtom() ? node.bytes(index) : new byte[value.number(1)];
  }

  /**
   * {@code (delete r1 (family a 5) (family-version a 5) (columns a q 5) (column a q 5) (at 5))}; timestamps are
   * optional.
   */
  private Delete delete(Node node) {
    byte[] row = place.row(node.text(1));
    Node at = node.part("at");
    Delete delete = at == null ? new Delete(row) : new Delete(row, place.timestamp(at.text(1)));
    for (Node part : parts(node, 2)) {
      switch (part.head()) {
        case "at" -> { }
        case "family" -> {
          if (part.size() > 2) {
            delete.addFamily(part.bytes(1), place.timestamp(part.text(2)));
          } else {
            delete.addFamily(part.bytes(1));
          }
        }
        case "family-version" -> delete.addFamilyVersion(part.bytes(1), place.timestamp(part.text(2)));
        case "columns" -> {
          if (part.size() > 3) {
            delete.addColumns(part.bytes(1), part.bytes(2), place.timestamp(part.text(3)));
          } else {
            delete.addColumns(part.bytes(1), part.bytes(2));
          }
        }
        case "column" -> {
          if (part.size() > 3) {
            delete.addColumn(part.bytes(1), part.bytes(2), place.timestamp(part.text(3)));
          } else {
            delete.addColumn(part.bytes(1), part.bytes(2));
          }
        }
        default -> common(delete, part);
      }
    }
    return delete;
  }

  private void common(Mutation mutation, Node part) {
    switch (part.head()) {
      case "ttl" -> mutation.setTTL(Long.parseLong(part.text(1)));
      case "durability" -> mutation.setDurability(Durability.valueOf(part.text(1)));
      case "attribute" -> mutation.setAttribute(part.text(1), part.bytes(2));
      case "bare-row" -> force(Mutation.class, mutation, "row", new byte[part.number(1)]);
      default -> throw new IllegalArgumentException("unknown part of a mutation: " + part);
    }
  }

  /** Sets a field to a value that the client itself refuses, so that the server gets it. */
  private static void force(Class<?> owner, Object object, String field, Object value) {
    try {
      var found = owner.getDeclaredField(field);
      found.setAccessible(true);
      found.set(object, value);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private Increment increment(Node node) throws IOException {
    Increment increment = new Increment(place.row(node.text(1)));
    for (Node part : parts(node, 2)) {
      switch (part.head()) {
        case "add" -> increment.addColumn(part.bytes(1), part.bytes(2), Long.parseLong(part.text(3)));
        case "silent" -> increment.setReturnResults(false);
        case "range" -> increment.setTimeRange(place.timestamp(part.text(1)), place.timestamp(part.text(2)));
        default -> common(increment, part);
      }
    }
    return increment;
  }

  private Append append(Node node) throws IOException {
    Append append = new Append(place.row(node.text(1)));
    for (Node part : parts(node, 2)) {
      switch (part.head()) {
        case "add" -> append.addColumn(part.bytes(1), part.bytes(2), value(part, 3));
        case "silent" -> append.setReturnResults(false);
        case "range" -> append.setTimeRange(place.timestamp(part.text(1)), place.timestamp(part.text(2)));
        default -> common(append, part);
      }
    }
    return append;
  }

  private RowMutations rowMutations(Node node) throws IOException {
    RowMutations mutations = new RowMutations(place.row(node.text(1)));
    for (Node part : parts(node, 2)) {
      mutations.add((Mutation) action(part));
    }
    return mutations;
  }

  /** {@code (check r1 (value a q == v) | (absent a q) | (filter F), (range 1 5), then a mutation)}. */
  private CheckAndMutate check(Node node) throws IOException {
    CheckAndMutate.Builder check = CheckAndMutate.newBuilder(place.row(node.text(1)));
    Row action = null;
    for (Node part : parts(node, 2)) {
      switch (part.head()) {
        case "value" -> check.ifMatches(part.bytes(1), part.bytes(2), Filters.operator(part.text(3)), part.bytes(4));
        case "absent" -> check.ifNotExists(part.bytes(1), part.bytes(2));
        case "filter" -> check.ifMatches(Filters.filter(part.at(1), place));
        case "range" -> check.timeRange(
            org.apache.hadoop.hbase.io.TimeRange.between(place.timestamp(part.text(1)), place.timestamp(part.text(2))));
        default -> action = action(part);
      }
    }
    if (action instanceof Put put) {
      return check.build(put);
    } else if (action instanceof Delete delete) {
      return check.build(delete);
    } else if (action instanceof Increment increment) {
      return check.build(increment);
    } else if (action instanceof Append append) {
      return check.build(append);
    }
    return check.build((RowMutations) action);
  }

  private Get get(Node node) throws IOException {
    Get get = new Get(place.row(node.text(1)));
    for (Node part : parts(node, 2)) {
      switch (part.head()) {
        case "family" -> get.addFamily(part.bytes(1));
        case "column" -> get.addColumn(part.bytes(1), part.bytes(2));
        case "versions" -> get.readVersions(part.number(1));
        case "range" -> get.setTimeRange(place.timestamp(part.text(1)), place.timestamp(part.text(2)));
        case "family-range" -> get.setColumnFamilyTimeRange(part.bytes(1), place.timestamp(part.text(2)),
            place.timestamp(part.text(3)));
        case "store-limit" -> get.setMaxResultsPerColumnFamily(part.number(1));
        case "store-offset" -> get.setRowOffsetPerColumnFamily(part.number(1));
        case "filter" -> get.setFilter(Filters.filter(part.at(1), place));
        case "exists" -> { }
        case "existence-only" -> get.setCheckExistenceOnly(true);
        case "bare-row" -> force(Get.class, get, "row", new byte[part.number(1)]);
        case "attribute" -> get.setAttribute(part.text(1), part.bytes(2));
        case "no-cache" -> get.setCacheBlocks(false);
        case "on-demand" -> get.setLoadColumnFamiliesOnDemand(Filters.flag(part, 1));
        case "uncommitted" -> get.setIsolationLevel(IsolationLevel.READ_UNCOMMITTED);
        default -> throw new IllegalArgumentException("unknown part of a get: " + part);
      }
    }
    return get;
  }

  private String scan(Node step) throws IOException {
    Scan scan = query(step);
    Node take = step.part("take");
    try (ResultScanner scanner = table.getScanner(scan)) {
      String out = take(scanner, take == null ? Integer.MAX_VALUE : take.number(1));
      if (scan.isScanMetricsEnabled()) {
        var metrics = scanner.getScanMetrics();
        out += " / " + metrics.countOfRowsScanned.get() + " scanned, " + metrics.countOfRowsFiltered.get() + " filtered";
      }
      return out;
    }
  }

  private String take(ResultScanner scanner, int count) throws IOException {
    StringBuilder out = new StringBuilder();
    for (int taken = 0; taken < count; taken++) {
      Result result = scanner.next();
      if (result == null) {
        return out.isEmpty() ? "nothing" : out.toString();
      }
      out.append(out.isEmpty() ? "" : " | ").append(Show.result(result, place));
    }
    return out + " | ..";
  }

  /** Returns a scan of all rows of the script. */
  static Scan all(Place place, boolean reversed) {
    Scan scan = new Scan().setReversed(reversed);
    return reversed ? scan.withStartRow(place.end(), false).withStopRow(place.row(""), true)
        : scan.withStartRow(place.row(""), true).withStopRow(place.end(), false);
  }

  private Scan query(Node node) throws IOException {
    Scan scan = all(place, node.has("reversed"));
    for (Node part : parts(node, 1)) {
      switch (part.head()) {
        case "start" -> scan.withStartRow(place.row(part.text(1)), Filters.flag(part, 2));
        case "stop" -> scan.withStopRow(place.row(part.text(1)), Filters.flag(part, 2));
        case "reversed" -> { }
        case "family" -> scan.addFamily(part.bytes(1));
        case "column" -> scan.addColumn(part.bytes(1), part.bytes(2));
        case "versions" -> scan.readVersions(part.number(1));
        case "range" -> scan.setTimeRange(place.timestamp(part.text(1)), place.timestamp(part.text(2)));
        case "family-range" -> scan.setColumnFamilyTimeRange(part.bytes(1), place.timestamp(part.text(2)),
            place.timestamp(part.text(3)));
        case "store-limit" -> scan.setMaxResultsPerColumnFamily(part.number(1));
        case "store-offset" -> scan.setRowOffsetPerColumnFamily(part.number(1));
        case "batch" -> scan.setBatch(part.number(1));
        case "caching" -> scan.setCaching(part.number(1));
        case "limit" -> scan.setLimit(part.number(1));
        case "one-row" -> scan.setOneRowLimit();
        case "max-size" -> scan.setMaxResultSize(part.number(1));
        case "partials" -> scan.setAllowPartialResults(true);
        case "cursor" -> scan.setNeedCursorResult(true);
        case "raw" -> scan.setRaw(true);
        case "uncommitted" -> scan.setIsolationLevel(IsolationLevel.READ_UNCOMMITTED);
        case "attribute" -> scan.setAttribute(part.text(1), part.bytes(2));
        case "no-cache" -> scan.setCacheBlocks(false);
        case "pread" -> scan.setReadType(Scan.ReadType.PREAD);
        case "stream" -> scan.setReadType(Scan.ReadType.STREAM);
        case "on-demand" -> scan.setLoadColumnFamiliesOnDemand(Filters.flag(part, 1));
        case "metrics" -> scan.setScanMetricsEnabled(true);
        case "bare-start" -> force(Scan.class, scan, "startRow", new byte[part.number(1)]);
        case "filter" -> scan.setFilter(Filters.filter(part.at(1), place));
        case "take" -> { }
        default -> throw new IllegalArgumentException("unknown part of a scan: " + part);
      }
    }
    return scan;
  }

  private static List<Node> parts(Node node, int from) {
    return node.list.subList(from, node.size()).stream().filter(part -> !part.isAtom()).toList();
  }

  @Override
  public void close() throws IOException {
    scanners.values().forEach(ResultScanner::close);
    table.close();
  }
}
