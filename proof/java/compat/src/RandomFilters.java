import java.util.List;
import java.util.Random;

/** Draws filters and comparators. */
final class FilterChance {
  private final Random chance;
  private final List<String> families;

  FilterChance(Random chance, List<String> families) {
    this.chance = chance;
    this.families = families;
  }

  /** A filter in which others lie at most so deep. */
  Node draw(int depth) {
    if (depth > 0 && chance.nextInt(3) == 0) {
      switch (chance.nextInt(8)) {
        case 0:
          return Node.of("while", draw(depth - 1));
        case 1:
          Node inner = draw(depth - 1);
          // SkipFilter tells the inner filter of no row, and HBase's MultiRowRangeFilter breaks on cells of rows unheard of.
          return inner.toString().contains("(ranges ") ? inner : Node.of("skip", inner);
        default:
          Node list = Node.of(chance.nextBoolean() ? "and" : "or");
          for (int count = chance.nextInt(30) == 0 ? 0 : 1 + chance.nextInt(3); count > 0; count--) {
            list.add(draw(depth - 1));
          }
          return list;
      }
    }
    return single();
  }

  private Node single() {
    switch (chance.nextInt(25)) {
      case 0:
        return Node.of("row", operator(), comparator(row()));
      case 1:
        return Node.of("family", operator(),
            chance.nextInt(4) == 0 ? Node.of("component", family(), 0) : comparator(family()));
      case 2:
        return Node.of("qualifier", operator(), comparator(qualifier()));
      case 3:
      case 4:
        return Node.of("value", operator(), comparator(value()));
      case 5: {
        Node filter = Node.of("dependent", family(), qualifier(), chance.nextBoolean());
        return chance.nextBoolean() ? filter : filter.add(operator()).add(comparator(value()));
      }
      case 6:
      case 7:
        return singleColumn("single");
      case 8:
        return singleColumn("single-exclude");
      case 9:
        return singleColumn("column-value");
      case 10:
        return Node.of("prefix", Draw.of(chance, "", "r", "r1", "s", "\u00ff"));
      case 11:
        return Node.of("column-prefix", Draw.of(chance, "", "d", "e", "db", "f"));
      case 12: {
        Node filter = Node.of("column-prefixes");
        for (int count = 1 + chance.nextInt(3); count > 0; count--) {
          filter.add(qualifier());
        }
        return filter;
      }
      case 13: {
        Node filter = Node.of("column-range");
        if (chance.nextInt(4) > 0) {
          filter.add(Node.of("min", qualifier(), chance.nextBoolean()));
        }
        if (chance.nextInt(4) > 0) {
          filter.add(Node.of("max", qualifier(), chance.nextBoolean()));
        }
        return filter;
      }
      case 14:
        return Node.of("pagination", 1 + chance.nextInt(3), chance.nextInt(3));
      case 15:
        return Node.of("pagination-from", 1 + chance.nextInt(3), qualifier());
      case 16:
        return Node.of("column-count", 1 + chance.nextInt(3));
      case 17:
        return chance.nextBoolean() ? Node.of("key-only") : Node.of("key-only", chance.nextBoolean());
      case 18:
        return Node.of("first-key");
      case 19: {
        Node filter = Node.of("first-matching");
        for (int count = 1 + chance.nextInt(2); count > 0; count--) {
          filter.add(qualifier());
        }
        return filter;
      }
      case 20:
        return Node.of("page", chance.nextInt(8) == 0 ? 0 : 1 + chance.nextInt(3));
      case 21:
        return Node.of("stop", row());
      case 22: {
        Node filter = Node.of("fuzzy");
        for (int count = 1 + chance.nextInt(2); count > 0; count--) {
          String row = Draw.of(chance, "r1", "r3", "r1\u0000", "s1", "xx");
          StringBuilder mask = new StringBuilder();
          for (int at = 0; at < row.length(); at++) {
            mask.append(chance.nextInt(2));
          }
          filter.add(Node.of(row, mask));
        }
        return filter;
      }
      case 23: {
        Node filter = Node.of("ranges");
        for (int count = 1 + chance.nextInt(3); count > 0; count--) {
          String one = row();
          String other = row();
          boolean ordered = one.compareTo(other) <= 0;
          boolean inclusive = one.equals(other);
          filter.add(Node.of(ordered ? one : other, inclusive || chance.nextBoolean(), ordered ? other : one,
              inclusive || chance.nextBoolean()));
        }
        return filter;
      }
      default: {
        Node filter = Node.of("timestamps", chance.nextBoolean());
        for (int count = 1 + chance.nextInt(3); count > 0; count--) {
          filter.add(Draw.of(chance, "1", "2", "3", "5", "7", "now-500000", "now+100000000"));
        }
        return filter;
      }
    }
  }

  private Node singleColumn(String head) {
    Node filter = switch (chance.nextInt(6)) {
      case 0 -> Node.of(head, family(), Steps.NUMBER, operator(), Node.of("long", Draw.of(chance, "5", "-2", "0")));
      case 1 -> Node.of(head, family(), Steps.DECIMAL, comparison(), Node.of("decimal", Draw.of(chance, "2.5", "5", "-2.50")));
      default -> Node.of(head, family(), qualifier(), operator(), comparator(value()));
    };
    if (!head.equals("column-value") && chance.nextBoolean()) {
      filter.add(Node.of("if-missing"));
    }
    if (!head.equals("column-value") && chance.nextInt(3) == 0) {
      filter.add(Node.of("all-versions"));
    }
    return filter;
  }

  private String family() {
    return families.get(chance.nextInt(families.size()));
  }

  private String row() {
    return Draw.one(chance, Steps.ROWS);
  }

  private String qualifier() {
    return Draw.one(chance, Steps.QUALIFIERS);
  }

  private String value() {
    return Draw.one(chance, Steps.VALUES);
  }

  private String operator() {
    return chance.nextInt(40) == 0 ? "no-op" : comparison();
  }

  private String comparison() {
    return Draw.of(chance, "<", "<=", "==", "==", "!=", ">=", ">");
  }

  private Object comparator(String value) {
    switch (chance.nextInt(8)) {
      case 0:
        return Node.of("binary-prefix", value);
      case 1:
        return Node.of("bit", value.isEmpty() ? "a" : value, Draw.of(chance, "AND", "OR", "XOR"));
      case 2:
        return Node.of("regex", Draw.of(chance, "a", "^a", "b$", ".b", "(?i)B", "(a|v)[0-9]?", "(.)\\1", "r(?=1)", "^$",
            "[^a-c]", "a*+b", "\\d", "(?<!a)b", "^r[1-4]"));
      case 3:
        return Node.of("substring", Draw.of(chance, "A", "b", "1", "R1", ""));
      case 4:
        return chance.nextInt(4) == 0 ? "null" : Node.of("binary", value);
      default:
        return Node.of("binary", value);
    }
  }

  /**
   * Whether a filter may go to the next column: then it depends on the blocks of a file whether HBase meets the older markers
   * of the whole family, which stand in the column without a name.
   */
  static boolean leavesColumns(String filter) {
    return List.of("pagination", "column-", "timestamps", "first-", "dependent", "qualifier").stream()
        .anyMatch(head -> filter.contains("(" + head));
  }

  /** Whether the client refuses to cut rows into batches with this filter. */
  static boolean judgesRows(Node filter) {
    return switch (filter.head()) {
      case "and", "or", "while" -> filter.list.stream().skip(1).anyMatch(FilterChance::judgesRows);
      case "skip", "single", "single-exclude", "page", "dependent", "column-value", "fuzzy" -> true;
      default -> false;
    };
  }
}
