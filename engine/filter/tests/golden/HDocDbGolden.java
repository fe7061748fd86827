import io.hdocdb.*;
import io.hdocdb.store.*;
import io.hdocdb.util.*;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.util.Bytes;
import org.ojai.FieldPath;
import org.ojai.types.*;

/**
 * Prints COUNT cases from a SEED: filter, cells and whether each is kept, or that the row is an error.
 * Needs the classes of HDocDB 2.0.1 (of its source), org.ojai:ojai:3.0 and the jars of hbase-client on the class path.
 */
public class HDocDbGolden {
  static Random random;
  static String hex(byte[] b) { StringBuilder s = new StringBuilder(); for (byte x : b) s.append(String.format("%02x", x)); return s.length() == 0 ? "-" : s.toString(); }
  static final String[] NAMES = {"a", "b", "c", "two words", "d"};
  static HValue scalar() {
    switch (random.nextInt(16)) {
      case 0: return new HValue(random.nextBoolean());
      case 1: return new HValue(new String[]{"", "x", "xy", "\u00fc", "\ud83d\ude00", "\uffee"}[random.nextInt(6)]);
      case 2: return new HValue((byte) (random.nextInt(5) - 2));
      case 3: return new HValue((short) (random.nextInt(5) - 2));
      case 4: case 5: return new HValue(random.nextInt(5) - 2);
      case 6: return new HValue((long) random.nextInt(5) - 2);
      case 7: return new HValue(new float[]{0f, -0f, 1.5f, Float.NaN, -7f}[random.nextInt(5)]);
      case 8: return new HValue(new double[]{0d, -0d, 1.5, Double.NaN, -7}[random.nextInt(5)]);
      case 9: return new HValue(new BigDecimal(new String[]{"1.0", "1", "-2.50", "0", "12345678901234567890", "1e10"}[random.nextInt(6)]));
      case 10: return new HValue(ODate.fromDaysSinceEpoch(new int[]{0, 17000, -5, Integer.MAX_VALUE, Integer.MIN_VALUE}[random.nextInt(5)]));
      case 11: return new HValue(OTime.fromMillisOfDay(random.nextInt(3)));
      case 12: return new HValue(new OTimestamp(random.nextInt(3)));
      case 13: return new HValue(new OInterval((long) random.nextInt(3)));
      case 14: return new HValue(ByteBuffer.wrap(new byte[]{(byte) random.nextInt(256)}));
      default: return HValue.NULL;
    }
  }
  static HValue value(int depth) {
    int kind = random.nextInt(10);
    if (depth < 3 && kind == 0) { HDocument d = new HDocument(); for (int i = random.nextInt(3); i > 0; i--) d.set(NAMES[random.nextInt(3)], value(depth + 1)); return d; }
    if (depth < 3 && kind <= 2) { HList l = new HList(); int n = random.nextInt(4); HValue same = random.nextBoolean() ? null : value(depth + 1); for (int i = 0; i < n; i++) l.set(i, same == null || random.nextInt(4) == 0 ? value(depth + 1) : same); return l; }
    return scalar();
  }
  static String path(boolean wild) {
    StringBuilder s = new StringBuilder(NAMES[random.nextInt(5)]);
    for (int i = random.nextInt(3); i > 0; i--) {
      int k = random.nextInt(6);
      if (k < 2) s.append("[").append(random.nextInt(3)).append("]");
      else if (k == 2 && wild) s.append("[]");
      else s.append(".").append(NAMES[random.nextInt(3)]);
    }
    return wild && random.nextInt(25) == 0 ? new String[]{"_id", "", "_id.a", "\"a\"", "a\\u0062"}[random.nextInt(5)] : s.toString();
  }
  static final List<HValue> seen = new ArrayList<>();
  static ConditionNode condition(int depth) {
    if (depth < 3 && random.nextInt(3) == 0) {
      ConditionParent p = new ConditionParent(random.nextBoolean() ? ConditionParent.BooleanOp.AND : ConditionParent.BooleanOp.OR);
      for (int i = random.nextInt(4); i > 0; i--) p.add(condition(depth + 1));
      return p;
    }
    FieldPath field = FieldPath.parseFrom(path(true));
    int op = random.nextInt(30);
    if (op < 2) return new ConditionLeaf(field, op == 0 ? ConditionLeaf.CompareOp.TYPE_OF : ConditionLeaf.CompareOp.NOT_TYPE_OF, org.ojai.Value.Type.valueOf((byte) (1 + random.nextInt(17))));
    if (op < 5) { HList l = new HList(); for (int i = 0; i < 3; i++) l.set(i, wanted()); return new ConditionLeaf(field, random.nextBoolean() ? ConditionLeaf.CompareOp.IN : ConditionLeaf.CompareOp.NOT_IN, l); }
    if (op == 5) return new ConditionLeaf(field, ConditionLeaf.CompareOp.valueOf(9 + random.nextInt(4)), scalar());
    if (op == 6) return new ConditionLeaf(field, ConditionLeaf.CompareOp.NONE, HValue.NULL);
    return new ConditionLeaf(field, ConditionLeaf.CompareOp.valueOf(1 + random.nextInt(6)), wanted());
  }
  static HValue wanted() { return !seen.isEmpty() && random.nextInt(3) > 0 ? seen.get(random.nextInt(seen.size())) : value(1); }
  public static void main(String[] args) throws Exception {
    int count = Integer.parseInt(args[0]); long seed = Long.parseLong(args[1]);
    Codec<HValueHolder> codec = new Codec<>();
    for (int n = 0; n < count; n++) {
      random = new Random(seed + n); seen.clear();
      byte[] row = codec.encode(new HValueHolder(random.nextInt(3) == 0 ? scalar() : new HValue("id" + random.nextInt(3))));
      TreeMap<String, byte[]> columns = new TreeMap<>(); Map<String, Long> times = new HashMap<>();
      for (int i = 1 + random.nextInt(7); i > 0; i--) {
        String p = path(false); HValue v = value(0); seen.add(v);
        String column = FieldPath.parseFrom(p).asPathString();
        columns.put(column, codec.encode(new HValueHolder(v))); times.put(column, (long) random.nextInt(4));
      }
      if (random.nextInt(5) > 0) { columns.put("_ts", codec.encode(new HValueHolder(new HValue(new OTimestamp(5L))))); times.put("_ts", 1L); }
      if (random.nextInt(40) == 0) { columns.put("c", new byte[]{1, 2, 3}); times.put("c", 1L); }
      List<Cell> cells = new ArrayList<>();
      for (Map.Entry<String, byte[]> e : columns.entrySet())
        cells.add(new KeyValue(row, Bytes.toBytes("f"), Bytes.toBytes(e.getKey()), times.get(e.getKey()), e.getValue()));
      cells.sort(CellComparator.getInstance());
      String[] paths = new String[random.nextInt(3) == 0 ? 1 + random.nextInt(2) : 0];
      for (int i = 0; i < paths.length; i++) paths[i] = path(true);
      ConditionNode root = condition(0);
      byte[] filter;
      try { filter = new HDocumentFilter(new HQueryCondition(root), paths).toByteArray(); } catch (Exception e) { continue; }
      String said;
      try {
        HDocumentFilter read = (HDocumentFilter) HDocumentFilter.parseFrom(filter);
        List<Cell> left = new ArrayList<>(cells);
        try {
          read.filterRowCells(left);
          StringBuilder s = new StringBuilder();
          for (Cell cell : cells) s.append(left.contains(cell) ? '1' : '0');
          said = s.toString();
        } catch (RuntimeException e) { said = "error"; }
      } catch (Exception e) { said = "refused"; }
      StringBuilder line = new StringBuilder(said).append(' ').append(hex(filter)).append(' ').append(hex(row));
      for (Cell cell : cells) line.append(' ').append(hex(CellUtil.cloneQualifier(cell))).append(':').append(cell.getTimestamp()).append(':').append(hex(CellUtil.cloneValue(cell)));
      System.out.println(line);
    }
    System.err.println("stop prefix: " + hex(new InclusiveStopPrefixFilter(Bytes.toBytes("ab")).toByteArray()));
  }
}
