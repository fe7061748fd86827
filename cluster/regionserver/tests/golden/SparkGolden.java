import java.util.*;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.spark.*;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Prints COUNT cases from a SEED: whether SparkSQLPushDownFilter keeps a row, the filter, the row and its cells.
 * Needs org.apache.hbase.connectors.spark:hbase-spark:1.0.0, Scala 2.11, protobuf-java 2.5.0 and the jars of hbase-server.
 */
public class SparkGolden {
  static Random random;
  static int values;
  static final List<byte[]> query = new ArrayList<>();
  static String hex(byte[] b) { StringBuilder s = new StringBuilder(); for (byte x : b) s.append(String.format("%02x", x)); return s.length() == 0 ? "-" : s.toString(); }
  static byte[] plain(int kind) {
    switch (kind) {
      case 1: return Bytes.toBytes((short) (random.nextInt(5) - 2));
      case 2: return Bytes.toBytes(random.nextInt(5) - 2);
      case 3: return Bytes.toBytes((long) random.nextInt(5) - 2);
      case 4: return Bytes.toBytes(new float[]{0f, -0f, 1.5f, Float.NaN, -7f}[random.nextInt(5)]);
      case 5: return Bytes.toBytes(new double[]{0d, -0d, 1.5, Double.NaN, -7}[random.nextInt(5)]);
      default: return Bytes.toBytes(new String[]{"", "x", "xy", "z", "row", "\u00fc"}[random.nextInt(6)]);
    }
  }
  static final String[] NAMES = {"KEY", "A", "B", "C"};
  static int[] kinds = new int[4];
  static String expression(int depth) {
    if (depth < 4 && random.nextInt(2) == 0) return "( " + expression(depth + 1) + (random.nextBoolean() ? " AND " : " OR ") + expression(depth + 1) + " )";
    int column = random.nextInt(4);
    String name = NAMES[column];
    switch (random.nextInt(10)) {
      case 0: return name + " isNull";
      case 1: return name + " isNotNull";
      case 2:
      case 3:
      case 4: query.add(plain(column == 0 ? 6 : kinds[column])); return name + " == " + (query.size() - 1);
      case 5: query.add(plain(column == 0 ? 6 : kinds[column])); return name + " != " + (query.size() - 1);
      default:
        int kind = column == 0 ? 6 : kinds[column];
        query.add(Bytes.add(new byte[]{(byte) kind}, plain(kind)));
        return name + new String[]{" < ", " <= ", " > ", " >= "}[random.nextInt(4)] + (query.size() - 1);
    }
  }
  public static void main(String[] args) throws Exception {
    for (int n = 0; n < Integer.parseInt(args[0]); n++) {
      random = new Random(Long.parseLong(args[1]) + n); query.clear();
      // No longs (3): version 1.0.0 compares their upper halves alone, which was mended later.
      for (int i = 0; i < 4; i++) kinds[i] = new int[]{1, 2, 4, 5, 6}[random.nextInt(5)];
      String text = expression(0);
      HashMap<ByteArrayComparable, HashMap<ByteArrayComparable, String>> map = new HashMap<>();
      String[][] columns = {{"", "key", "KEY"}, {"f", "a", "A"}, {"f", "b", "B"}, {"g", "a", "C"}};
      for (String[] c : columns) map.computeIfAbsent(comparable(c[0]), k -> new HashMap<>()).put(comparable(c[1]), c[2]);
      DynamicLogicExpression built = DynamicLogicExpressionBuilder.build(text, null);
      SparkSQLPushDownFilter written = new SparkSQLPushDownFilter(built, query.toArray(new byte[0][]), map, "org.apache.hadoop.hbase.spark.datasources.NaiveEncoder");
      byte[] filter = written.toByteArray();
      SparkSQLPushDownFilter read = SparkSQLPushDownFilter.parseFrom(filter);
      byte[] row = Bytes.toBytes(new String[]{"row", "x", "xyz"}[random.nextInt(3)]);
      List<Cell> cells = new ArrayList<>();
      for (int i = 1; i < 4; i++) if (random.nextInt(4) > 0) cells.add(new KeyValue(row, Bytes.toBytes(columns[i][0]), Bytes.toBytes(columns[i][1]), 1L, plain(kinds[i])));
      cells.add(new KeyValue(row, Bytes.toBytes("g"), Bytes.toBytes("other"), 1L, Bytes.toBytes("v")));
      for (Cell cell : cells) read.filterCell(cell);
      StringBuilder line = new StringBuilder(read.filterRow() ? "dropped" : "kept").append(' ').append(hex(filter)).append(' ').append(hex(row));
      for (Cell cell : cells) line.append(' ').append(hex(CellUtil.cloneFamily(cell))).append(':').append(hex(CellUtil.cloneQualifier(cell))).append(':').append(hex(CellUtil.cloneValue(cell)));
      System.out.println(line);
    }
  }
  static ByteArrayComparable comparable(String text) { byte[] b = Bytes.toBytes(text); return new ByteArrayComparable(b, 0, b.length); }
}
