import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;

/**
 *  Draws the random steps of a stream.
 *
 *  Rows, columns, timestamps and values come from small sets, so that operations concern the same cells. Nothing drawn depends on the
 *  clock of one server: a call writes a row at most once at the server's time, because two writes may or may not get the same
 *  millisecond, and nothing expires while the stream runs.
 */
final class Steps {
  /** No row is shorter than the prefixes of filters, because HBase's PrefixFilter reads beyond the end of a shorter row. */
  static final List<String> ROWS =
      List.of("a0", "q\u00ff", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r1\u0000", "r1\u00ff", "s1", "\u00ff\u00ff");
  /**
   *  Without the column with the empty name: the layout of blocks decides whether HBase reads its older versions and the markers of
   *  the whole family among them.
   */
  static final List<String> QUALIFIERS = List.of("A", "a", "b", "c", "d", "da", "db", "d\u00ff", "e", "\u0001");
  /** A column whose values are numbers of eight bytes, because comparators of numbers fail on other values. */
  static final String NUMBER = "n";
  static final List<String> NUMBERS = List.of("\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0005",
      "\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00fe", "\u007f\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff");
  /** A column of decimals. */
  static final String DECIMAL = "m";
  static final List<String> DECIMALS = List.of("\u0000\u0000\u0000\u0001\u0019", "\u0000\u0000\u0000\u0000\u0005",
      "\u0000\u0000\u0000\u0002\u00ff\u0006", "\u00ff\u00ff\u00ff\u00ff\u0001", "\u0000\u0000\u0000\u0000\u0000");
  static final List<String> VALUES = List.of("", "a", "b", "c", "ab", "abc", "B", "aa", "v1", "v2", "x\u0000y", "\u00ff",
      "\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0005", "\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00fe",
      "\u007f\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff", "\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000",
      "\u0000\u0000\u0000\u0001\u0019", "\u0000\u0000\u0000\u0000\u0005");
  /** Timestamps from the distant past to the distant future; those around now are minutes away from it. */
  private static final List<String> TIMES = List.of("0", "1", "2", "3", "4", "5", "5", "6", "7", "now-7200000", "now-4000000",
      "now-3000000", "now-600000", "now-500000", "now-500000", "now-400000", "now+100000000", "now+100000001");
  /** Timestamps near now, for families with a time to live. */
  private static final List<String> LATE = TIMES.subList(9, TIMES.size());

  private final Random random;
  private final List<String> families;
  private final boolean expires;
  private final boolean tags;
  private final boolean newVersions;
  private final boolean blooms;
  /** HBase reads a file as a stream after four blocks; a small block has the size of a large value. */
  private final boolean smallBlocks;
  /** The table, if steps may split, merge, alter and snapshot it. */
  private final Node operated;
  private final Options options;
  private final List<String> snapshots = new ArrayList<>();
  private final Set<String> mobFamilies = new HashSet<>();
  private final RandomFilters filters;
  private final Set<String> open = new HashSet<>();
  private int scanners;

  Steps(Random random, Node table, Options options) {
    this.options = options;
    this.operated = table.has("operations") ? table : null;
    table.list.stream().filter(Steps::isFamily).filter(family -> family.has("mob")).forEach(family -> mobFamilies.add(family.text(1)));
    this.random = random;
    this.families = Schemas.families(table);
    this.expires = operated != null || table.toString().contains("(ttl ");
    this.newVersions = table.toString().contains("(new-version-behavior)");
    this.tags = table.has("tags");
    this.blooms = operated != null || table.toString().contains("(bloom ROWCOL)");
    this.smallBlocks = operated != null || table.toString().contains("(block-size ");
    this.filters = new RandomFilters(random, families);
  }

  List<Node> draw(int count) {
    List<Node> steps = new ArrayList<>();
    for (int index = 0; index < 6; index++) {
      steps.add(Node.of("batch").addAll(writes(8)));
    }
    while (steps.size() < count) {
      if (operated != null && random.nextInt(40) == 0) {
        // A reopened region forgets its scanners. HBase reopens for every alter, Bellows only for some.
        new TreeSet<>(open).forEach(name -> steps.add(Node.of("close", name)));
        open.clear();
        steps.add(tableOperation());
      } else {
        steps.add(step());
      }
    }
    return steps;
  }

  private Node step() {
    int draw = random.nextInt(1000);
    if (draw < 330) {
      return mixed();
    } else if (draw < 400) {
      return change(null);
    } else if (draw < 480) {
      return checks();
    } else if (draw < 560) {
      return gets();
    } else if (draw < 590) {
      return get(true);
    } else if (draw < 860) {
      return scan(Node.of("scan"), false);
    } else if (draw < 950) {
      return scanner();
    } else if (draw < 993) {
      if (!open.isEmpty()) {
        // HBase keeps in the new file what open scanners can still see, which becomes visible again when a newer
        // version is deleted. So all scanners are closed first.
        String name = open.iterator().next();
        open.remove(name);
        return Node.of("close", name);
      }
      return Node.of(draw < 985 ? "flush" : "major");
    } else {
      return bad();
    }
  }

  private Node tableOperation() {
    switch (random.nextInt(10)) {
      case 0, 1:
        return Node.of("split", Draw.one(random, ROWS));
      case 2:
        return Node.of("merge", Draw.one(random, ROWS));
      case 3, 4:
        return Node.of("alter", altered());
      case 5:
        return random.nextInt(4) == 0 ? Node.of("truncate", random.nextBoolean()) : Node.of("merge", Draw.one(random, ROWS));
      case 6, 7:
        if (!snapshots.isEmpty()) {
          return Node.of("clone", Draw.one(random, snapshots));
        }
        break;
      case 8:
        if (!snapshots.isEmpty()) {
          return Node.of("restore", Draw.one(random, snapshots));
        }
        break;
      default:
        break;
    }
    String name = "s" + snapshots.size();
    snapshots.add(name);
    return Node.of("snapshot", name);
  }

  /**
   *  Draws a new schema of a family. It has the same rules for deleted cells as at the table's creation, and stays a MOB family,
   *  because HBase returns the names of MOB files as values when a family is one no longer.
   */
  private Node altered() {
    Node before = Draw.one(random, operated.list.stream().filter(Steps::isFamily).toList());
    Node after;
    do {
      after = Schemas.family(before.text(1), random, options);
      if (hasMob()) {
        Schemas.mob(after, random);
      }
    } while (mobFamilies.contains(before.text(1)) && !after.has("mob") || !same(before, after, "new-version-behavior") || !same(before, after, "keep-deleted"));
    if (after.has("mob")) {
      mobFamilies.add(after.text(1));
    }
    return after;
  }

  private static boolean isFamily(Node part) {
    return !part.isAtom() && part.head().equals("family");
  }

  private static boolean same(Node one, Node other, String part) {
    return String.valueOf(one.part(part)).equals(String.valueOf(other.part(part)));
  }

  private String family() {
    return families.get(random.nextInt(families.size()));
  }

  private String row() {
    return Draw.one(random, random.nextInt(3) == 0 ? ROWS : ROWS.subList(2, 7));
  }

  private String qualifier() {
    return Draw.one(random, QUALIFIERS);
  }

  private String time() {
    return Draw.one(random, expires && random.nextInt(3) > 0 ? LATE : TIMES);
  }

  /** Draws a value, mostly a number for increments. */
  private String value() {
    return Draw.one(random, VALUES);
  }

  private Node putOf(String row, boolean serverTime) {
    Node put = Node.of("put", row);
    for (int cells = 1 + random.nextInt(4); cells > 0; cells--) {
      Node cell = switch (random.nextInt(16)) {
        case 0 -> Node.of("cell", family(), NUMBER, Draw.one(random, NUMBERS));
        case 1 -> Node.of("cell", family(), DECIMAL, Draw.one(random, DECIMALS));
        default -> Node.of("cell", family(), qualifier(), value());
      };
      if (!serverTime || random.nextInt(3) > 0) {
        cell.add(time());
      }
      while (tags && random.nextInt(4) == 0) {
        cell.add(Node.of("tag", 65 + random.nextInt(3), Draw.of(random, "", "x", "yy", "\u0000\u0007")));
      }
      put.add(cell);
    }
    if (random.nextInt(25) == 0) {
      put.add(Node.of("cell", family(), qualifier(), Node.of("zeros", 1 + random.nextInt(3000)), time()));
    }
    mutationKnobs(put);
    return put;
  }

  /** Draws a time to live that ended long ago or ends much later. */
  private void mutationKnobs(Node mutation) {
    if (random.nextInt(20) == 0) {
      mutation.add(Node.of("ttl", Draw.of(random, "4500000", "200000000")));
    }
    if (random.nextInt(30) == 0) {
      mutation.add(Node.of("attribute", Draw.of(random, "_acl", "VISIBILITY", "color"), Draw.of(random, "", "x")));
    }
    if (random.nextInt(30) == 0) {
      mutation.add(Node.of("durability", Draw.of(random, "SKIP_WAL", "ASYNC_WAL", "SYNC_WAL", "FSYNC_WAL")));
    }
  }

  private Node deleteOf(String row, boolean serverTime) {
    Node delete = Node.of("delete", row);
    if (random.nextInt(8) == 0) {
      if (!serverTime || random.nextInt(3) > 0) {
        delete.add(Node.of("at", time()));
      }
      return delete;
    }
    for (int parts = 1 + random.nextInt(2); parts > 0; parts--) {
      boolean at = !serverTime || random.nextInt(4) > 0;
      int kind = random.nextInt(10);
      Node part;
      if (kind < 2) {
        part = Node.of("family", family());
      } else if (kind < 4) {
        part = Node.of("family-version", family());
        at = true;
      } else if (kind < 7) {
        part = Node.of("columns", family(), qualifier());
      } else {
        part = Node.of("column", family(), qualifier());
      }
      delete.add(at ? part.add(time()) : part);
    }
    return delete;
  }

  private Node incrementOf(String row) {
    Node increment = Node.of("increment", row);
    for (int parts = 1 + random.nextInt(2); parts > 0; parts--) {
      String column = random.nextInt(3) == 0 ? NUMBER : qualifier();
      increment.add(Node.of("add", family(), column, Draw.of(random, "0", "1", "-3", "9223372036854775807")));
    }
    readModifyWriteKnobs(increment);
    return increment;
  }

  private Node appendOf(String row) {
    Node append = Node.of("append", row);
    for (int parts = 1 + random.nextInt(2); parts > 0; parts--) {
      append.add(Node.of("add", family(), qualifier(), value()));
    }
    readModifyWriteKnobs(append);
    return append;
  }

  private void readModifyWriteKnobs(Node node) {
    if (random.nextInt(6) == 0) {
      node.add(Node.of("silent"));
    }
    if (random.nextInt(8) == 0) {
      node.add(range("range"));
    }
    mutationKnobs(node);
  }

  /** Whether it throws an unchecked exception: HBase then fails all actions of a batch and loses writes among them. */
  private static boolean failsWhole(Node node) {
    return node.toString().contains("(single") && node.toString().contains(" no-op ");
  }

  /** Whether it judges values. In a MOB family filters get the names of MOB files instead, which are random. */
  private boolean seesNames(Node filter) {
    return hasMob() && RandomFilters.judgesValues(filter.toString());
  }

  private boolean hasMob() {
    return operated != null && operated.part("operations").size() > 1;
  }

  private Node rowOf(String row, boolean serverTime) {
    Node mutations = Node.of("row", row);
    // HBase gives all puts and deletes of a mutation one timestamp and increments and appends another: only one kind
    // uses the server's time.
    boolean adds = serverTime && random.nextInt(4) == 0;
    for (int parts = 1 + random.nextInt(4); parts > 0; parts--) {
      int kind = random.nextInt(10);
      if (kind < 5) {
        mutations.add(putOf(row, serverTime && !adds));
      } else if (kind < 8 || !adds) {
        mutations.add(deleteOf(row, false));
      } else if (kind < 9) {
        mutations.add(incrementOf(row));
      } else {
        mutations.add(appendOf(row));
      }
    }
    return mutations;
  }

  private Node checkOf(String row, boolean serverTime) {
    Node check = Node.of("check", row);
    int kind = random.nextInt(10);
    if (kind < 5) {
      check.add(Node.of("value", family(), qualifier(), operator(), value()));
    } else if (kind < 8) {
      check.add(Node.of("absent", family(), qualifier()));
    } else {
      Node filter = filters.draw(2);
      boolean simpler = filter.toString().contains("(fuzzy ") || failsWhole(filter) || seesNames(filter);
      check.add(Node.of("filter", simpler ? Node.of("prefix", "r") : filter));
    }
    if (random.nextInt(5) == 0) {
      check.add(range("range"));
    }
    check.add(changeOf(row, serverTime, false));
    return check;
  }

  private Node changeOf(String row, boolean serverTime, boolean checks) {
    int kind = random.nextInt(100);
    if (kind < 55) {
      return putOf(row, serverTime);
    } else if (kind < 78) {
      return deleteOf(row, serverTime);
    } else if (kind < 84 && serverTime) {
      return incrementOf(row);
    } else if (kind < 90 && serverTime) {
      return appendOf(row);
    } else if (kind < 96 || !checks) {
      return rowOf(row, serverTime);
    }
    return checkOf(row, serverTime);
  }

  /** {@code stamped} are the rows that this call has written at the server's time; null for a call of its own. */
  private Node change(Set<String> stamped) {
    String row = row();
    return changeOf(row, stamped == null || stamped.add(row), true);
  }

  private List<Node> writes(int count) {
    Set<String> stamped = new HashSet<>();
    List<Node> writes = new ArrayList<>();
    for (int index = 0; index < count; index++) {
      writes.add(putOf(row(), false));
    }
    writes.add(change(stamped));
    return writes;
  }

  /** Draws many operations of one call; those of a row are in order. */
  private Node mixed() {
    Set<String> stamped = new HashSet<>();
    Node batch = Node.of("batch");
    for (int index = 2 + random.nextInt(14); index > 0; index--) {
      batch.add(random.nextInt(5) < 2 ? get(false) : change(stamped));
    }
    return batch;
  }

  private Node checks() {
    Set<String> stamped = new HashSet<>();
    Node checks = Node.of("checks");
    for (int index = 1 + random.nextInt(5); index > 0; index--) {
      String row = row();
      checks.add(checkOf(row, stamped.add(row)));
    }
    return checks.size() == 2 ? checks.at(1) : checks;
  }

  private Node gets() {
    Node gets = Node.of("gets");
    for (int index = 3 + random.nextInt(12); index > 0; index--) {
      gets.add(get(false));
    }
    return gets;
  }

  private Node get(boolean alone) {
    Node get = Node.of("get", row());
    readKnobs(get);
    if (!alone && failsWhole(get)) {
      get.list.remove(get.part("filter"));
    }
    if (alone && random.nextInt(3) == 0) {
      get.add(Node.of("exists"));
    } else if (random.nextInt(20) == 0) {
      get.add(Node.of("existence-only"));
    }
    return get;
  }

  /** Draws the part that gets and scans have in common. */
  private void readKnobs(Node read) {
    switch (random.nextInt(8)) {
      case 0, 1 -> read.add(Node.of("family", family()));
      case 2 -> {
        read.add(Node.of("family", family()));
        columns(read);
      }
      case 3, 4 -> columns(read);
      default -> { }
    }
    if (random.nextInt(2) == 0) {
      read.add(Node.of("versions", Draw.of(random, "1", "2", "3", "100", "2147483647")));
    }
    if (random.nextInt(5) == 0) {
      read.add(range("range"));
    }
    if (random.nextInt(16) == 0) {
      Node range = range("family-range");
      range.list.add(1, Node.atom(family()));
      read.add(range);
    }
    if (random.nextInt(10) == 0) {
      read.add(Node.of("store-limit", Draw.of(random, "0", "1", "2", "3")));
    }
    if (random.nextInt(12) == 0) {
      read.add(Node.of("store-offset", Draw.of(random, "1", "2", "3")));
    }
    // In HBase, whether a filter's seek leaves a requested column depends on whether the column is in a file.
    if (random.nextInt(5) < 2 && !(newVersions && read.has("column"))) {
      Node filter = filters.draw(3);
      // In a list with MUST_PASS_ALL HBase may ask FuzzyRowFilter for a hint before it has seen a cell, which is a
      // NullPointerException.
      boolean asksFirst = filter.toString().contains("(and ") && filter.toString().contains("(fuzzy ");
      if (!asksFirst && !seesNames(filter)) {
        read.add(Node.of("filter", filter));
      }
    }
    if (random.nextInt(30) == 0) {
      read.add(Node.of("attribute", Draw.of(random, "_authorizations_", "VISIBILITY", "color"), Draw.of(random, "", "x")));
    }
    if (random.nextInt(20) == 0) {
      read.add(Node.of("no-cache"));
    }
    if (random.nextInt(10) == 0) {
      read.add(Node.of("on-demand", random.nextBoolean()));
    }
    if (!read.head().equals("open") && random.nextInt(20) == 0) {
      // Whether an open scanner sees later writes depends on what HBase has read ahead.
      read.add(Node.of("uncommitted"));
    }
  }

  private void columns(Node read) {
    // HBase may return columns of several families with ROWCOL Bloom filters in the wrong order.
    String only = blooms ? family() : null;
    for (int index = 1 + random.nextInt(4); index > 0; index--) {
      read.add(Node.of("column", only == null ? family() : only, qualifier()));
    }
  }

  private Node range(String head) {
    while (true) {
      String from = random.nextInt(4) == 0 ? "0" : time();
      String until = random.nextInt(4) == 0 ? "9223372036854775807" : time();
      Place place = new Place(null, "", 1_000_000_000_000L);
      if (place.timestamp(from) <= place.timestamp(until)) {
        return Node.of(head, from, until);
      }
    }
  }

  private String operator() {
    return Draw.of(random, "<", "<=", "==", "==", "!=", ">=", ">");
  }

  private Node scan(Node scan, boolean slow) {
    boolean reversed = random.nextInt(4) == 0;
    if (reversed) {
      scan.add(Node.of("reversed"));
    }
    if (random.nextInt(5) == 0) {
      String row = Draw.one(random, ROWS);
      scan.add(Node.of("start", row, true)).add(Node.of("stop", row, true));
    } else {
      if (random.nextInt(3) == 0) {
        scan.add(Node.of("start", Draw.one(random, ROWS), random.nextInt(3) > 0));
      }
      if (random.nextInt(3) == 0) {
        scan.add(Node.of("stop", Draw.one(random, ROWS), random.nextInt(3) == 0));
      }
    }
    readKnobs(scan);
    if (failsWhole(scan)) {
      // HBase does not close such a scanner, and keeps deleted cells for it.
      scan.list.remove(scan.part("filter"));
    }
    if (reversed && scan.toString().contains("(fuzzy ")) {
      // HBase never answers some of these.
      scan.list.remove(scan.part("filter"));
    }
    if (scan.has("column") && (scan.toString().contains("(prefix ") || scan.toString().contains("(while "))) {
      // A search for columns presents the start row as if it existed: HBase's PrefixFilter reads beyond its end, and
      // filters that end at the first refused row end there.
      scan.list.remove(scan.part("filter"));
    }
    boolean whole = !scan.has("filter") || !RandomFilters.judgesRows(scan.part("filter").at(1));
    if (whole && random.nextInt(5) == 0) {
      scan.add(Node.of("batch", 1 + random.nextInt(4)));
    }
    if (slow || random.nextInt(3) == 0) {
      scan.add(Node.of("caching", 1 + random.nextInt(4)));
    }
    if (random.nextInt(6) == 0) {
      scan.add(Node.of("limit", 1 + random.nextInt(4)));
    }
    if (random.nextInt(30) == 0) {
      scan.add(Node.of("one-row"));
    }
    // The size of a cell differs between memory and files in HBase itself. So where a cut is visible, answers are cut
    // after each cell. A cut is also visible in an open scanner: it decides whether the next region was begun before or
    // after a write.
    switch (random.nextInt(16)) {
      case 0 -> scan.add(Node.of("max-size", 1)).add(Node.of("partials"));
      case 1 -> scan.add(Node.of("max-size", 1)).add(Node.of("cursor"));
      case 2 -> scan.add(Node.of("max-size", slow || scan.has("batch") ? "1" : Draw.of(random, "1", "100", "300", "1000", "3000")));
      case 3 -> scan.add(Node.of("partials"));
      default -> { }
    }
    if (random.nextInt(12) == 0 && !(scan.has("filter") && RandomFilters.leavesColumns(scan.part("filter").toString()))) {
      scan.add(Node.of("raw"));
    }
    // HBase also cuts an answer where it begins to read a file as a stream, which is not compared.
    boolean shows = scan.has("partials") || scan.has("batch") || scan.has("cursor");
    if (shows) {
      // HBase does not return the families loaded on demand when an answer is cut after the essential ones.
      scan.list.removeIf(part -> !part.isAtom() && part.head().equals("on-demand"));
      scan.add(Node.of("on-demand", false));
      // Whether HBase reads memory without cells of the time range is visible in whether a partial row says that more
      // follows.
      scan.list.removeIf(part -> !part.isAtom() && part.head().endsWith("range"));
      if (scan.toString().contains("(column-count ")) {
        // The order of such a filter's own limit and the other limits is not defined either.
        scan.list.remove(scan.part("filter"));
      }
      // Nor whether HBase counts a column that it only searches in a file as one more cell of the row.
      scan.list.removeIf(part -> !part.isAtom() && part.head().equals("column"));
    }
    // There its filter is not reset for the next row either.
    if (shows || smallBlocks && scan.has("filter") || random.nextInt(6) == 0) {
      scan.add(Node.of(random.nextBoolean() ? "pread" : "stream"));
    }
    if (!slow && random.nextInt(20) == 0) {
      scan.add(Node.of("take", 1 + random.nextInt(4)));
    } else if (!slow && random.nextInt(4) == 0 && !expires && !scan.has("column") && !scan.has("max-size")
        && !scan.toString().contains("range ")) {
      // With columns or time ranges HBase's scan metrics count absent rows, or miss present ones. A row that is read
      // again as a stream counts twice, and one cut by a size limit counts depending on whether cells are left.
      scan.add(Node.of("metrics"));
      if (!scan.has("pread") && !scan.has("stream")) {
        scan.add(Node.of("pread"));
      }
    }
    return scan;
  }

  /** Draws scanners that stay open across other steps. */
  private Node scanner() {
    if (open.isEmpty() || open.size() < 3 && random.nextInt(4) == 0) {
      String name = "s" + scanners++ % 3;
      open.add(name);
      return scan(Node.of("open", name), true);
    }
    String name = Draw.one(random, List.copyOf(new java.util.TreeSet<>(open)));
    switch (random.nextInt(10)) {
      case 0:
        open.remove(name);
        return Node.of("close", name);
      case 1:
        return Node.of("renew", name, "quietly");
      default:
        return Node.of("next", name, 1 + random.nextInt(4));
    }
  }

  /** Draws requests that must be refused. */
  private Node bad() {
    String row = row();
    return switch (random.nextInt(9)) {
      case 0 -> Node.of("put", row, Node.of("cell", "nowhere", qualifier(), value(), time()));
      case 1 -> Node.of("get", row, Node.of("family", "nowhere"));
      case 2 -> Node.of("delete", row, Node.of("family", "nowhere"));
      case 3 -> Node.of("scan", Node.of("column", "nowhere", "a"));
      case 4 -> Node.of("increment", row, Node.of("add", "nowhere", "a", "1"));
      case 5 -> Node.of("append", row, Node.of("add", "nowhere", "a", "1"));
      case 6 -> Node.of("batch", putOf(row, false), Node.of("put", row(), Node.of("cell", "nowhere", "a", "b", "5")),
          Node.of("get", row(), Node.of("family", "nowhere")), Node.of("get", row),
          Node.of("increment", row(), Node.of("add", "nowhere", "a", "1")));
      case 7 -> Node.of("check", row, Node.of("value", "nowhere", "a", "==", "b"), putOf(row, true));
      default -> Node.of("row", row, putOf(row, false), Node.of("put", row, Node.of("cell", "nowhere", "a", "b", "5")));
    };
  }
}
