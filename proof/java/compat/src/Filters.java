import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.filter.*;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.Pair;

/** Makes filters and comparators from nodes. */
final class Filters {
  private Filters() {}

  static Filter filter(Node node, Place place) {
    return switch (node.head()) {
      case "row" -> new RowFilter(operator(node.text(1)), comparator(node.at(2), place, true));
      case "family" -> new FamilyFilter(operator(node.text(1)), comparator(node.at(2), place, false));
      case "qualifier" -> new QualifierFilter(operator(node.text(1)), comparator(node.at(2), place, false));
      case "value" -> new ValueFilter(operator(node.text(1)), comparator(node.at(2), place, false));
      case "dependent" -> node.size() > 4
          ? new DependentColumnFilter(node.bytes(1), node.bytes(2), flag(node, 3), operator(node.text(4)),
              comparator(node.at(5), place, false))
          : new DependentColumnFilter(node.bytes(1), node.bytes(2), flag(node, 3));
      case "single" -> {
        SingleColumnValueFilter filter = new SingleColumnValueFilter(node.bytes(1), node.bytes(2),
            operator(node.text(3)), comparator(node.at(4), place, false));
        filter.setFilterIfMissing(node.has("if-missing"));
        filter.setLatestVersionOnly(!node.has("all-versions"));
        yield filter;
      }
      case "single-exclude" -> {
        SingleColumnValueExcludeFilter filter = new SingleColumnValueExcludeFilter(node.bytes(1), node.bytes(2),
            operator(node.text(3)), comparator(node.at(4), place, false));
        filter.setFilterIfMissing(node.has("if-missing"));
        filter.setLatestVersionOnly(!node.has("all-versions"));
        yield filter;
      }
      case "column-value" -> new ColumnValueFilter(node.bytes(1), node.bytes(2), operator(node.text(3)),
          comparator(node.at(4), place, false));
      case "prefix" -> new PrefixFilter(place.row(node.text(1)));
      case "column-prefix" -> new ColumnPrefixFilter(node.bytes(1));
      case "column-prefixes" -> {
        byte[][] prefixes = new byte[node.size() - 1][];
        for (int index = 1; index < node.size(); index++) {
          prefixes[index - 1] = node.bytes(index);
        }
        yield new MultipleColumnPrefixFilter(prefixes);
      }
      case "column-range" -> {
        Node min = node.part("min");
        Node max = node.part("max");
        yield new ColumnRangeFilter(min == null ? null : min.bytes(1), min == null || flag(min, 2),
            max == null ? null : max.bytes(1), max == null || flag(max, 2));
      }
      case "pagination" -> new ColumnPaginationFilter(node.number(1), node.number(2));
      case "pagination-from" -> new ColumnPaginationFilter(node.number(1), node.bytes(2));
      case "column-count" -> new ColumnCountGetFilter(node.number(1));
      case "key-only" -> new KeyOnlyFilter(node.size() > 1 && flag(node, 1));
      case "first-key" -> new FirstKeyOnlyFilter();
      case "first-matching" -> firstMatching(node);
      case "page" -> new PageFilter(node.number(1));
      case "stop" -> new InclusiveStopFilter(place.row(node.text(1)));
      case "while" -> new WhileMatchFilter(filter(node.at(1), place));
      case "skip" -> new SkipFilter(filter(node.at(1), place));
      case "random" -> new RandomRowFilter(Float.parseFloat(node.text(1)));
      case "fuzzy" -> fuzzy(node, place);
      case "ranges" -> ranges(node, place);
      case "timestamps" -> {
        List<Long> stamps = new ArrayList<>();
        for (int index = 2; index < node.size(); index++) {
          stamps.add(place.timestamp(node.text(index)));
        }
        yield new TimestampsFilter(stamps, flag(node, 1));
      }
      case "unknown" -> new Unread.UnknownFilter();
      case "and" -> new FilterList(FilterList.Operator.MUST_PASS_ALL, inner(node, place));
      case "or" -> new FilterList(FilterList.Operator.MUST_PASS_ONE, inner(node, place));
      default -> throw new IllegalArgumentException("unknown filter: " + node);
    };
  }

  @SuppressWarnings("deprecation")
  private static Filter firstMatching(Node node) {
    java.util.Set<byte[]> qualifiers = new java.util.TreeSet<>(Bytes.BYTES_COMPARATOR);
    for (int index = 1; index < node.size(); index++) {
      qualifiers.add(node.bytes(index));
    }
    return new FirstKeyValueMatchingQualifiersFilter(qualifiers);
  }

  private static List<Filter> inner(Node node, Place place) {
    List<Filter> filters = new ArrayList<>();
    for (int index = 1; index < node.size(); index++) {
      filters.add(filter(node.at(index), place));
    }
    return filters;
  }

  /** {@code (fuzzy (r?1 010) ...)}: a 1 matches any byte. */
  private static Filter fuzzy(Node node, Place place) {
    List<Pair<byte[], byte[]>> keys = new ArrayList<>();
    for (int index = 1; index < node.size(); index++) {
      Node key = node.at(index);
      byte[] row = place.row(key.text(0));
      byte[] mask = new byte[row.length];
      String any = key.text(1);
      for (int at = 0; at < any.length(); at++) {
        mask[place.prefix().length() + at] = (byte) (any.charAt(at) - '0');
      }
      keys.add(new Pair<>(row, mask));
    }
    return new FuzzyRowFilter(keys);
  }

  /** {@code (ranges (r1 true r3 false) ...)}. */
  private static Filter ranges(Node node, Place place) {
    List<MultiRowRangeFilter.RowRange> ranges = new ArrayList<>();
    for (int index = 1; index < node.size(); index++) {
      Node range = node.at(index);
      ranges.add(new MultiRowRangeFilter.RowRange(place.row(range.text(0)), flag(range, 1),
          place.row(range.text(2)), flag(range, 3)));
    }
    return new MultiRowRangeFilter(ranges);
  }

  static CompareOperator operator(String text) {
    return switch (text) {
      case "<" -> CompareOperator.LESS;
      case "<=" -> CompareOperator.LESS_OR_EQUAL;
      case "==" -> CompareOperator.EQUAL;
      case "!=" -> CompareOperator.NOT_EQUAL;
      case ">=" -> CompareOperator.GREATER_OR_EQUAL;
      case ">" -> CompareOperator.GREATER;
      case "no-op" -> CompareOperator.NO_OP;
      default -> throw new IllegalArgumentException("unknown operator: " + text);
    };
  }

  static boolean flag(Node node, int index) {
    return Boolean.parseBoolean(node.text(index));
  }

  /** Makes a comparator; one of rows compares with the prefix before its value. */
  static ByteArrayComparable comparator(Node node, Place place, boolean row) {
    if (node.isAtom()) {
      return new NullComparator();
    }
    byte[] value = node.size() > 1 ? row ? place.row(node.text(1)) : node.bytes(1) : null;
    return switch (node.head()) {
      case "binary" -> new BinaryComparator(value);
      case "binary-prefix" -> new BinaryPrefixComparator(value);
      case "component" -> new BinaryComponentComparator(node.bytes(1),
          node.number(2) + (row ? place.prefix().length() : 0));
      case "long" -> new LongComparator(Long.parseLong(node.text(1)));
      case "decimal" -> new BigDecimalComparator(new BigDecimal(node.text(1)));
      case "bit" -> new BitComparator(value, BitComparator.BitwiseOp.valueOf(node.text(2)));
      case "regex" -> node.size() > 2
          ? new RegexStringComparator(node.text(1), node.number(2))
          : new RegexStringComparator(node.text(1));
      case "substring" -> new SubstringComparator(node.text(1));
      case "unread-regex" -> Unread.regex(node.text(1), node.number(2), node.text(3));
      case "unknown" -> new Unread.UnknownComparator();
      default -> throw new IllegalArgumentException("unknown comparator: " + node);
    };
  }
}
