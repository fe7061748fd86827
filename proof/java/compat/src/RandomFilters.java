import java.util.List;
import java.util.Random;
import java.util.regex.Pattern;

/** Draws random filters and comparators. */
final class RandomFilters {
  private final Random random;
  private final List<String> families;

  RandomFilters(Random random, List<String> families) {
    this.random = random;
    this.families = families;
  }

  /** Draws a filter that nests others at most {@code depth} levels deep. */
  Node draw(int depth) {
    if (depth > 0 && random.nextInt(3) == 0) {
      switch (random.nextInt(8)) {
        case 0:
          return Node.of("while", draw(depth - 1));
        case 1:
          Node inner = draw(depth - 1);
          // SkipFilter does not pass row keys to the inner filter, and HBase's MultiRowRangeFilter fails on cells of
          // rows whose key it has not seen.
          return inner.toString().contains("(ranges ") ? inner : Node.of("skip", inner);
        default:
          Node list = Node.of(random.nextBoolean() ? "and" : "or");
          for (int count = random.nextInt(30) == 0 ? 0 : 1 + random.nextInt(3); count > 0; count--) {
            list.add(draw(depth - 1));
          }
          return list;
      }
    }
    return single();
  }

  private Node single() {
    switch (random.nextInt(25)) {
      case 0:
        return Node.of("row", operator(), comparator(row()));
      case 1:
        return Node.of("family", operator(),
            random.nextInt(4) == 0 ? Node.of("component", family(), 0) : comparator(family()));
      case 2:
        return Node.of("qualifier", operator(), comparator(qualifier()));
      case 3:
      case 4:
        return Node.of("value", operator(), comparator(value()));
      case 5: {
        Node filter = Node.of("dependent", family(), qualifier(), random.nextBoolean());
        return random.nextBoolean() ? filter : filter.add(operator()).add(comparator(value()));
      }
      case 6:
      case 7:
        return singleColumn("single");
      case 8:
        return singleColumn("single-exclude");
      case 9:
        return singleColumn("column-value");
      case 10:
        return Node.of("prefix", Draw.of(random, "", "r", "r1", "s", "\u00ff"));
      case 11:
        return Node.of("column-prefix", Draw.of(random, "", "d", "e", "db", "f"));
      case 12: {
        Node filter = Node.of("column-prefixes");
        for (int count = 1 + random.nextInt(3); count > 0; count--) {
          filter.add(qualifier());
        }
        return filter;
      }
      case 13: {
        Node filter = Node.of("column-range");
        if (random.nextInt(4) > 0) {
          filter.add(Node.of("min", qualifier(), random.nextBoolean()));
        }
        if (random.nextInt(4) > 0) {
          filter.add(Node.of("max", qualifier(), random.nextBoolean()));
        }
        return filter;
      }
      case 14:
        return Node.of("pagination", 1 + random.nextInt(3), random.nextInt(3));
      case 15:
        return Node.of("pagination-from", 1 + random.nextInt(3), qualifier());
      case 16:
        return Node.of("column-count", 1 + random.nextInt(3));
      case 17:
        return random.nextBoolean() ? Node.of("key-only") : Node.of("key-only", random.nextBoolean());
      case 18:
        return Node.of("first-key");
      case 19: {
        Node filter = Node.of("first-matching");
        for (int count = 1 + random.nextInt(2); count > 0; count--) {
          filter.add(qualifier());
        }
        return filter;
      }
      case 20:
        return Node.of("page", random.nextInt(8) == 0 ? 0 : 1 + random.nextInt(3));
      case 21:
        return Node.of("stop", row());
      case 22: {
        Node filter = Node.of("fuzzy");
        for (int count = 1 + random.nextInt(2); count > 0; count--) {
          String row = Draw.of(random, "r1", "r3", "r1\u0000", "s1", "xx");
          StringBuilder mask = new StringBuilder();
          for (int at = 0; at < row.length(); at++) {
            mask.append(random.nextInt(2));
          }
          filter.add(Node.of(row, mask));
        }
        return filter;
      }
      case 23: {
        Node filter = Node.of("ranges");
        for (int count = 1 + random.nextInt(3); count > 0; count--) {
          String one = row();
          String other = row();
          boolean ordered = one.compareTo(other) <= 0;
          boolean inclusive = one.equals(other);
          filter.add(Node.of(ordered ? one : other, inclusive || random.nextBoolean(), ordered ? other : one,
              inclusive || random.nextBoolean()));
        }
        return filter;
      }
      default: {
        Node filter = Node.of("timestamps", random.nextBoolean());
        for (int count = 1 + random.nextInt(3); count > 0; count--) {
          filter.add(Draw.of(random, "1", "2", "3", "5", "7", "now-500000", "now+100000000"));
        }
        return filter;
      }
    }
  }

  private Node singleColumn(String head) {
    Node filter = switch (random.nextInt(6)) {
      case 0 -> Node.of(head, family(), Steps.NUMBER, operator(), Node.of("long", Draw.of(random, "5", "-2", "0")));
      case 1 -> Node.of(head, family(), Steps.DECIMAL, comparison(), Node.of("decimal", Draw.of(random, "2.5", "5", "-2.50")));
      default -> Node.of(head, family(), qualifier(), operator(), comparator(value()));
    };
    if (!head.equals("column-value") && random.nextBoolean()) {
      filter.add(Node.of("if-missing"));
    }
    if (!head.equals("column-value") && random.nextInt(3) == 0) {
      filter.add(Node.of("all-versions"));
    }
    return filter;
  }

  private String family() {
    return families.get(random.nextInt(families.size()));
  }

  private String row() {
    return Draw.one(random, Steps.ROWS);
  }

  private String qualifier() {
    return Draw.one(random, Steps.QUALIFIERS);
  }

  private String value() {
    return Draw.one(random, Steps.VALUES);
  }

  private String operator() {
    return random.nextInt(40) == 0 ? "no-op" : comparison();
  }

  private String comparison() {
    return Draw.of(random, "<", "<=", "==", "==", "!=", ">=", ">");
  }

  private Object comparator(String value) {
    switch (random.nextInt(8)) {
      case 0:
        return Node.of("binary-prefix", value);
      case 1:
        return Node.of("bit", value.isEmpty() ? "a" : value, Draw.of(random, "AND", "OR", "XOR"));
      case 2:
        return Node.of("regex", Draw.of(random, "a", "^a", "b$", ".b", "(?i)B", "(a|v)[0-9]?", "(.)\\1", "r(?=1)", "^$",
            "[^a-c]", "a*+b", "\\d", "(?<!a)b", "^r[1-4]"));
      case 3:
        return Node.of("substring", Draw.of(random, "A", "b", "1", "R1", ""));
      case 4:
        return random.nextInt(4) == 0 ? "null" : Node.of("binary", value);
      default:
        return Node.of("binary", value);
    }
  }

  /**
   *  Whether a filter may seek to the next column: then the blocks of a file decide whether HBase reads the older markers of the
   *  whole family, which sort into the column with the empty name.
   */
  static boolean leavesColumns(String filter) {
    return List.of("pagination", "column-", "timestamps", "first-", "dependent", "qualifier").stream()
        .anyMatch(head -> filter.contains("(" + head));
  }

  /** Whether the client refuses batches with this filter. */
  static boolean judgesValues(String filter) {
    return Pattern.compile("[(](value|single|single-exclude|column-value|dependent) ").matcher(filter).find();
  }

  static boolean judgesRows(Node filter) {
    return switch (filter.head()) {
      case "and", "or", "while" -> filter.list.stream().skip(1).anyMatch(RandomFilters::judgesRows);
      case "skip", "single", "single-exclude", "page", "dependent", "column-value", "fuzzy" -> true;
      default -> false;
    };
  }
}
