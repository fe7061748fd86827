import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;

/**
 * Draws the steps of a stream.
 *
 * Rows, columns, timestamps and values come from a few each, so that operations meet. What depends on the clock of one
 * server alone is not drawn: within one call a row is written at the server's time once at most (two writes may or may
 * not get the same millisecond), and nothing expires while the stream runs.
 */
final class Steps {
  /** None is shorter than the prefixes that filters ask for: of shorter rows HBase's PrefixFilter reads what lies behind. */
  static final List<String> ROWS =
      List.of("a0", "q\u00ff", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r1\u0000", "r1\u00ff", "s1", "\u00ff\u00ff");
  /**
   * The column without a name is not among them: whether HBase meets its older versions, and the markers of the whole
   * family among them, depends on how cells lie in blocks.
   */
  static final List<String> QUALIFIERS = List.of("A", "a", "b", "c", "d", "da", "db", "d\u00ff", "e", "\u0001");
  /** A column whose values are numbers of eight bytes: what compares numbers fails on others. */
  static final String NUMBER = "n";
  static final List<String> NUMBERS = List.of("\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0005",
      "\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00fe", "\u007f\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff");
  /** And one of decimals. */
  static final String DECIMAL = "m";
  static final List<String> DECIMALS = List.of("\u0000\u0000\u0000\u0001\u0019", "\u0000\u0000\u0000\u0000\u0005",
      "\u0000\u0000\u0000\u0002\u00ff\u0006", "\u00ff\u00ff\u00ff\u00ff\u0001", "\u0000\u0000\u0000\u0000\u0000");
  static final List<String> VALUES = List.of("", "a", "b", "c", "ab", "abc", "B", "aa", "v1", "v2", "x\u0000y", "\u00ff",
      "\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0005", "\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00fe",
      "\u007f\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff\u00ff", "\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000",
      "\u0000\u0000\u0000\u0001\u0019", "\u0000\u0000\u0000\u0000\u0005");
  /** From the distant past to the distant future; those around now are minutes away from it. */
  private static final List<String> TIMES = List.of("0", "1", "2", "3", "4", "5", "5", "6", "7", "now-7200000", "now-4000000",
      "now-3000000", "now-600000", "now-500000", "now-500000", "now-400000", "now+100000000", "now+100000001");
  /** Where a family expires, what is of now is what counts. */
  private static final List<String> LATE = TIMES.subList(9, TIMES.size());

  private final Random chance;
  private final List<String> families;
  private final boolean expires;
  private final boolean tags;
  private final boolean newVersions;
  private final boolean blooms;
  /** HBase reads files as streams after four blocks, of which a small one is as large as a large value. */
  private final boolean smallBlocks;
  private final FilterChance filters;
  private final Set<String> open = new HashSet<>();
  private int scanners;

  Steps(Random chance, Node table) {
    this.chance = chance;
    this.families = Schemas.families(table);
    this.expires = table.toString().contains("(ttl ");
    this.newVersions = table.toString().contains("(new-version-behavior)");
    this.tags = table.has("tags");
    this.blooms = table.toString().contains("(bloom ROWCOL)");
    this.smallBlocks = table.toString().contains("(block-size ");
    this.filters = new FilterChance(chance, families);
  }

  List<Node> draw(int count) {
    List<Node> steps = new ArrayList<>();
    for (int index = 0; index < 6; index++) {
      steps.add(Node.of("batch").addAll(writes(8)));
    }
    while (steps.size() < count) {
      steps.add(step());
    }
    return steps;
  }

  private Node step() {
    int draw = chance.nextInt(1000);
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
        // HBase writes what open scanners can still see into the new file, where it can be seen again when a newer version
        // is deleted. So none is open.
        String name = open.iterator().next();
        open.remove(name);
        return Node.of("close", name);
      }
      return Node.of(draw < 985 ? "flush" : "major");
    } else {
      return bad();
    }
  }

  private String family() {
    return families.get(chance.nextInt(families.size()));
  }

  private String row() {
    return Draw.one(chance, chance.nextInt(3) == 0 ? ROWS : ROWS.subList(2, 7));
  }

  private String qualifier() {
    return Draw.one(chance, QUALIFIERS);
  }

  private String time() {
    return Draw.one(chance, expires && chance.nextInt(3) > 0 ? LATE : TIMES);
  }

  /** A value, most often one that increments take. */
  private String value() {
    return Draw.one(chance, VALUES);
  }

  private Node putOf(String row, boolean serverTime) {
    Node put = Node.of("put", row);
    for (int cells = 1 + chance.nextInt(4); cells > 0; cells--) {
      Node cell = switch (chance.nextInt(16)) {
        case 0 -> Node.of("cell", family(), NUMBER, Draw.one(chance, NUMBERS));
        case 1 -> Node.of("cell", family(), DECIMAL, Draw.one(chance, DECIMALS));
        default -> Node.of("cell", family(), qualifier(), value());
      };
      if (!serverTime || chance.nextInt(3) > 0) {
        cell.add(time());
      }
      while (tags && chance.nextInt(4) == 0) {
        cell.add(Node.of("tag", 65 + chance.nextInt(3), Draw.of(chance, "", "x", "yy", "\u0000\u0007")));
      }
      put.add(cell);
    }
    if (chance.nextInt(25) == 0) {
      put.add(Node.of("cell", family(), qualifier(), Node.of("zeros", 1 + chance.nextInt(3000)), time()));
    }
    mutationKnobs(put);
    return put;
  }

  /** A cell's time to live is over long since, or far from over. */
  private void mutationKnobs(Node mutation) {
    if (chance.nextInt(20) == 0) {
      mutation.add(Node.of("ttl", Draw.of(chance, "4500000", "200000000")));
    }
    if (chance.nextInt(30) == 0) {
      mutation.add(Node.of("attribute", Draw.of(chance, "_acl", "VISIBILITY", "color"), Draw.of(chance, "", "x")));
    }
    if (chance.nextInt(30) == 0) {
      mutation.add(Node.of("durability", Draw.of(chance, "SKIP_WAL", "ASYNC_WAL", "SYNC_WAL", "FSYNC_WAL")));
    }
  }

  private Node deleteOf(String row, boolean serverTime) {
    Node delete = Node.of("delete", row);
    if (chance.nextInt(8) == 0) {
      if (!serverTime || chance.nextInt(3) > 0) {
        delete.add(Node.of("at", time()));
      }
      return delete;
    }
    for (int parts = 1 + chance.nextInt(2); parts > 0; parts--) {
      boolean at = !serverTime || chance.nextInt(4) > 0;
      int kind = chance.nextInt(10);
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
    for (int parts = 1 + chance.nextInt(2); parts > 0; parts--) {
      String column = chance.nextInt(3) == 0 ? NUMBER : qualifier();
      increment.add(Node.of("add", family(), column, Draw.of(chance, "0", "1", "-3", "9223372036854775807")));
    }
    readModifyWriteKnobs(increment);
    return increment;
  }

  private Node appendOf(String row) {
    Node append = Node.of("append", row);
    for (int parts = 1 + chance.nextInt(2); parts > 0; parts--) {
      append.add(Node.of("add", family(), qualifier(), value()));
    }
    readModifyWriteKnobs(append);
    return append;
  }

  private void readModifyWriteKnobs(Node node) {
    if (chance.nextInt(6) == 0) {
      node.add(Node.of("silent"));
    }
    if (chance.nextInt(8) == 0) {
      node.add(range("range"));
    }
    mutationKnobs(node);
  }

  /** What throws an unchecked exception: of several actions HBase fails all with it, and forgets writes among them. */
  private static boolean failsWhole(Node node) {
    return node.toString().contains("(single") && node.toString().contains(" no-op ");
  }

  private Node rowOf(String row, boolean serverTime) {
    Node mutations = Node.of("row", row);
    // One moment is given to all puts and deletes of them, another one to what is added to: the server's time is for one kind.
    boolean adds = serverTime && chance.nextInt(4) == 0;
    for (int parts = 1 + chance.nextInt(4); parts > 0; parts--) {
      int kind = chance.nextInt(10);
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
    int kind = chance.nextInt(10);
    if (kind < 5) {
      check.add(Node.of("value", family(), qualifier(), operator(), value()));
    } else if (kind < 8) {
      check.add(Node.of("absent", family(), qualifier()));
    } else {
      Node filter = filters.draw(2);
      check.add(Node.of("filter",
          filter.toString().contains("(fuzzy ") || failsWhole(filter) ? Node.of("prefix", "r") : filter));
    }
    if (chance.nextInt(5) == 0) {
      check.add(range("range"));
    }
    check.add(changeOf(row, serverTime, false));
    return check;
  }

  private Node changeOf(String row, boolean serverTime, boolean checks) {
    int kind = chance.nextInt(100);
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

  /** {@code stamped} are the rows that have been written at the server's time in this call; null is for a call of its own. */
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

  /** Many operations in one call; what one row gets comes in order. */
  private Node mixed() {
    Set<String> stamped = new HashSet<>();
    Node batch = Node.of("batch");
    for (int index = 2 + chance.nextInt(14); index > 0; index--) {
      batch.add(chance.nextInt(5) < 2 ? get(false) : change(stamped));
    }
    return batch;
  }

  private Node checks() {
    Set<String> stamped = new HashSet<>();
    Node checks = Node.of("checks");
    for (int index = 1 + chance.nextInt(5); index > 0; index--) {
      String row = row();
      checks.add(checkOf(row, stamped.add(row)));
    }
    return checks.size() == 2 ? checks.at(1) : checks;
  }

  private Node gets() {
    Node gets = Node.of("gets");
    for (int index = 3 + chance.nextInt(12); index > 0; index--) {
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
    if (alone && chance.nextInt(3) == 0) {
      get.add(Node.of("exists"));
    } else if (chance.nextInt(20) == 0) {
      get.add(Node.of("existence-only"));
    }
    return get;
  }

  /** What gets and scans have in common. */
  private void readKnobs(Node read) {
    switch (chance.nextInt(8)) {
      case 0, 1 -> read.add(Node.of("family", family()));
      case 2 -> {
        read.add(Node.of("family", family()));
        columns(read);
      }
      case 3, 4 -> columns(read);
      default -> { }
    }
    if (chance.nextInt(2) == 0) {
      read.add(Node.of("versions", Draw.of(chance, "1", "2", "3", "100", "2147483647")));
    }
    if (chance.nextInt(5) == 0) {
      read.add(range("range"));
    }
    if (chance.nextInt(16) == 0) {
      Node range = range("family-range");
      range.list.add(1, Node.atom(family()));
      read.add(range);
    }
    if (chance.nextInt(10) == 0) {
      read.add(Node.of("store-limit", Draw.of(chance, "0", "1", "2", "3")));
    }
    if (chance.nextInt(12) == 0) {
      read.add(Node.of("store-offset", Draw.of(chance, "1", "2", "3")));
    }
    // Whether a filter's way out of a wanted column leads out of it depends there on whether the column lies in a file.
    if (chance.nextInt(5) < 2 && !(newVersions && read.has("column"))) {
      Node filter = filters.draw(3);
      // Among others that must all pass HBase's FuzzyRowFilter may be asked for a place before it has seen a cell, which
      // is an error about a null.
      if (!filter.toString().contains("(and ") || !filter.toString().contains("(fuzzy ")) {
        read.add(Node.of("filter", filter));
      }
    }
    if (chance.nextInt(30) == 0) {
      read.add(Node.of("attribute", Draw.of(chance, "_authorizations_", "VISIBILITY", "color"), Draw.of(chance, "", "x")));
    }
    if (chance.nextInt(20) == 0) {
      read.add(Node.of("no-cache"));
    }
    if (chance.nextInt(10) == 0) {
      read.add(Node.of("on-demand", chance.nextBoolean()));
    }
    if (!read.head().equals("open") && chance.nextInt(20) == 0) {
      // A scanner that lives on sees of later writes what it has not read ahead of, which is HBase's own affair.
      read.add(Node.of("uncommitted"));
    }
  }

  private void columns(Node read) {
    // Columns of several families, with blooms of columns, HBase may give in the wrong order.
    String only = blooms ? family() : null;
    for (int index = 1 + chance.nextInt(4); index > 0; index--) {
      read.add(Node.of("column", only == null ? family() : only, qualifier()));
    }
  }

  private Node range(String head) {
    while (true) {
      String from = chance.nextInt(4) == 0 ? "0" : time();
      String until = chance.nextInt(4) == 0 ? "9223372036854775807" : time();
      Place place = new Place(null, "", 1_000_000_000_000L);
      if (place.timestamp(from) <= place.timestamp(until)) {
        return Node.of(head, from, until);
      }
    }
  }

  private String operator() {
    return Draw.of(chance, "<", "<=", "==", "==", "!=", ">=", ">");
  }

  private Node scan(Node scan, boolean slow) {
    boolean reversed = chance.nextInt(4) == 0;
    if (reversed) {
      scan.add(Node.of("reversed"));
    }
    if (chance.nextInt(5) == 0) {
      String row = Draw.one(chance, ROWS);
      scan.add(Node.of("start", row, true)).add(Node.of("stop", row, true));
    } else {
      if (chance.nextInt(3) == 0) {
        scan.add(Node.of("start", Draw.one(chance, ROWS), chance.nextInt(3) > 0));
      }
      if (chance.nextInt(3) == 0) {
        scan.add(Node.of("stop", Draw.one(chance, ROWS), chance.nextInt(3) == 0));
      }
    }
    readKnobs(scan);
    if (failsWhole(scan)) {
      // HBase forgets to close such a scanner, and keeps for it what is deleted meanwhile.
      scan.list.remove(scan.part("filter"));
    }
    if (reversed && scan.toString().contains("(fuzzy ")) {
      // HBase never comes back from some of these.
      scan.list.remove(scan.part("filter"));
    }
    if (scan.has("column") && (scan.toString().contains("(prefix ") || scan.toString().contains("(while "))) {
      // A search for columns puts the start row before the first cell, as if there were such a row: HBase's PrefixFilter
      // reads behind its end, and what ends at the first row that does not pass ends there.
      scan.list.remove(scan.part("filter"));
    }
    boolean whole = !scan.has("filter") || !FilterChance.judgesRows(scan.part("filter").at(1));
    if (whole && chance.nextInt(5) == 0) {
      scan.add(Node.of("batch", 1 + chance.nextInt(4)));
    }
    if (slow || chance.nextInt(3) == 0) {
      scan.add(Node.of("caching", 1 + chance.nextInt(4)));
    }
    if (chance.nextInt(6) == 0) {
      scan.add(Node.of("limit", 1 + chance.nextInt(4)));
    }
    if (chance.nextInt(30) == 0) {
      scan.add(Node.of("one-row"));
    }
    // How large a cell is counted differs between cells of memory and of files in HBase itself. So where it shows that
    // an answer was cut, it is cut after each cell; it shows in a scanner that lives on, too: whether the next region was
    // begun before or after a write.
    switch (chance.nextInt(16)) {
      case 0 -> scan.add(Node.of("max-size", 1)).add(Node.of("partials"));
      case 1 -> scan.add(Node.of("max-size", 1)).add(Node.of("cursor"));
      case 2 -> scan.add(Node.of("max-size", slow || scan.has("batch") ? "1" : Draw.of(chance, "1", "100", "300", "1000", "3000")));
      case 3 -> scan.add(Node.of("partials"));
      default -> { }
    }
    if (chance.nextInt(12) == 0 && !(scan.has("filter") && FilterChance.leavesColumns(scan.part("filter").toString()))) {
      scan.add(Node.of("raw"));
    }
    // HBase also cuts an answer where it begins to read a file as a stream; that is its own affair.
    boolean shows = scan.has("partials") || scan.has("batch") || scan.has("cursor");
    if (shows) {
      // HBase forgets the families that a filter does not need when an answer is cut behind those that it does.
      scan.list.removeIf(part -> !part.isAtom() && part.head().equals("on-demand"));
      scan.add(Node.of("on-demand", false));
      // Whether memory that has nothing of the time range is looked into shows in what a cut part says of the rest.
      scan.list.removeIf(part -> !part.isAtom() && part.head().endsWith("range"));
      if (scan.toString().contains("(column-count ")) {
        // Nor is it settled which limit such a filter's own comes before.
        scan.list.remove(scan.part("filter"));
      }
      // Nor whether HBase takes a column that it only looks for in a file for one more cell of the row.
      scan.list.removeIf(part -> !part.isAtom() && part.head().equals("column"));
    }
    // And there its filter does not begin anew with the next row.
    if (shows || smallBlocks && scan.has("filter") || chance.nextInt(6) == 0) {
      scan.add(Node.of(chance.nextBoolean() ? "pread" : "stream"));
    }
    if (!slow && chance.nextInt(20) == 0) {
      scan.add(Node.of("take", 1 + chance.nextInt(4)));
    } else if (!slow && chance.nextInt(4) == 0 && !expires && !scan.has("column") && !scan.has("max-size")
        && !scan.toString().contains("range ")) {
      // Of what HBase only looks for, columns and times, it counts a row that is not there, or not one that is; one that it
      // reads again as a stream it counts twice, and one that a size has cut by whether something is left of it.
      scan.add(Node.of("metrics"));
      if (!scan.has("pread") && !scan.has("stream")) {
        scan.add(Node.of("pread"));
      }
    }
    return scan;
  }

  /** Scanners that live while other things happen. */
  private Node scanner() {
    if (open.isEmpty() || open.size() < 3 && chance.nextInt(4) == 0) {
      String name = "s" + scanners++ % 3;
      open.add(name);
      return scan(Node.of("open", name), true);
    }
    String name = Draw.one(chance, List.copyOf(new java.util.TreeSet<>(open)));
    switch (chance.nextInt(10)) {
      case 0:
        open.remove(name);
        return Node.of("close", name);
      case 1:
        return Node.of("renew", name, "quietly");
      default:
        return Node.of("next", name, 1 + chance.nextInt(4));
    }
  }

  /** What is to be refused. */
  private Node bad() {
    String row = row();
    return switch (chance.nextInt(9)) {
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
