import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.IntPredicate;
import java.util.function.IntUnaryOperator;

/**
 *  Writes Java's character data as the Rust tables of {@code base/javaregex/src/tables.rs}: the general
 * category, scripts, blocks, a few properties, cases and grapheme classes of every code point, as runs.
 */
final class Tables {
  private static final int HANGUL_SYLLABLE = 13;
  private static final int END = Character.MAX_CODE_POINT + 1;

  private Tables() {}

  public static void main(String[] args) throws Exception {
    System.out.println("//! What Java " + Runtime.version().feature() + " knows of characters, written by");
    System.out.println("//! `proof/java/regex/src/Tables.java` (`cargo xtask regex --tables`).");
    System.out.println();
    runs("CATEGORY", "Runs of code points of one general category: its first code point, and the category's number in `Character`.",
        Character::getType);
    set("ALPHABETIC", Character::isAlphabetic);
    set("IDEOGRAPHIC", Character::isIdeographic);
    set("LOWERCASE", Character::isLowerCase);
    set("UPPERCASE", Character::isUpperCase);
    set("MIRRORED", Character::isMirrored);
    set("IDENTIFIER_START", Character::isUnicodeIdentifierStart);
    set("IDENTIFIER_PART", Character::isUnicodeIdentifierPart);
    mapping("TO_UPPER", Character::toUpperCase);
    mapping("TO_LOWER", Character::toLowerCase);
    Method grapheme = Class.forName("java.util.regex.Grapheme").getDeclaredMethod("getType", int.class);
    grapheme.setAccessible(true);
    runs("GRAPHEME", "The first code points of runs with one class of grapheme cluster breaks, as `Grapheme` names them.",
        // Every 28th Hangul syllable has another class, which the reader of the table computes.
        point -> point >= 0xac00 && point <= 0xd7a3 ? HANGUL_SYLLABLE : (int) call(grapheme, point));
    Method pictograph = Class.forName("java.util.regex.EmojiData").getDeclaredMethod("isExtendedPictographic", int.class);
    pictograph.setAccessible(true);
    set("PICTOGRAPHS", point -> (boolean) call(pictograph, point));
    scripts();
    blocks();
  }

  private static Object call(Method method, int point) {
    try {
      return method.invoke(null, point);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void rows(List<String> entries) {
    StringBuilder line = new StringBuilder("   ");
    for (String entry : entries) {
      if (line.length() + entry.length() + 2 > 118) {
        System.out.println(line);
        line = new StringBuilder("   ");
      }
      line.append(' ').append(entry).append(',');
    }
    System.out.println(line);
    System.out.println("];");
    System.out.println();
  }

  private static void open(String name, String doc, String type) {
    System.out.println("/// " + doc);
    System.out.println("#[rustfmt::skip]");
    System.out.println("pub(super) const " + name + ": &[" + type + "] = &[");
  }

  private static void runs(String name, String doc, IntUnaryOperator kind) {
    List<String> entries = new ArrayList<>();
    int last = -1;
    for (int point = 0; point < END; point++) {
      int now = kind.applyAsInt(point);
      if (now != last) {
        entries.add("(" + point + ", " + now + ")");
        last = now;
      }
    }
    open(name, doc, "(u32, u8)");
    rows(entries);
  }

  private static void set(String name, IntPredicate has) {
    List<String> entries = new ArrayList<>();
    for (int point = 0; point < END; point++) {
      if (has.test(point)) {
        int first = point;
        while (point + 1 < END && has.test(point + 1)) {
          point++;
        }
        entries.add("(" + first + ", " + point + ")");
      }
    }
    open(name, "First and last code point of each run with the property that the constant names.", "(u32, u32)");
    rows(entries);
  }

  /** A run of code points, each one or two after the previous one, that are mapped by the same distance. */
  private static void mapping(String name, IntUnaryOperator to) {
    List<String> entries = new ArrayList<>();
    for (int point = 0; point < END; point++) {
      int distance = to.applyAsInt(point) - point;
      if (distance == 0) {
        continue;
      }
      int last = point;
      int step = 1;
      if (to.applyAsInt(point + 1) == point + 1 && to.applyAsInt(point + 2) == point + 2 + distance) {
        step = 2;
      }
      while (last + step < END && to.applyAsInt(last + step) == last + step + distance
          && (step == 1 || to.applyAsInt(last + 1) == last + 1)) {
        last += step;
      }
      entries.add("(" + point + ", " + last + ", " + step + ", " + distance + ")");
      point = last;
    }
    open(name, "Runs of code points with another case: first and last code point, step, and distance to the other case.", "(u32, u32, u32, i32)");
    rows(entries);
  }

  private static void scripts() throws Exception {
    Field field = Character.UnicodeScript.class.getDeclaredField("aliases");
    field.setAccessible(true);
    Map<String, List<String>> names = new TreeMap<>();
    for (Character.UnicodeScript script : Character.UnicodeScript.values()) {
      names.computeIfAbsent(script.name(), key -> new ArrayList<>()).add(script.name());
    }
    for (Map.Entry<?, ?> alias : ((Map<?, ?>) field.get(null)).entrySet()) {
      names.get(((Character.UnicodeScript) alias.getValue()).name()).add((String) alias.getKey());
    }
    List<String> entries = new ArrayList<>();
    for (Character.UnicodeScript script : Character.UnicodeScript.values()) {
      for (String name : new TreeSet<>(names.get(script.name()))) {
        entries.add("(\"" + name + "\", " + script.ordinal() + ")");
      }
    }
    open("SCRIPT_NAMES", "The names of scripts in upper case, and their numbers.", "(&str, u8)");
    rows(entries);
    runs("SCRIPT", "The first code points of runs of one script.", point -> Character.UnicodeScript.of(point).ordinal());
  }

  private static void blocks() throws Exception {
    Field field = Character.UnicodeBlock.class.getDeclaredField("map");
    field.setAccessible(true);
    Map<Character.UnicodeBlock, TreeSet<String>> names = new java.util.HashMap<>();
    for (Map.Entry<?, ?> known : ((Map<?, ?>) field.get(null)).entrySet()) {
      names.computeIfAbsent((Character.UnicodeBlock) known.getValue(), key -> new TreeSet<>()).add((String) known.getKey());
    }
    List<String> entries = new ArrayList<>();
    for (int point = 0; point < END; point++) {
      Character.UnicodeBlock block = Character.UnicodeBlock.of(point);
      int first = point;
      while (point + 1 < END && Character.UnicodeBlock.of(point + 1) == block) {
        point++;
      }
      if (block != null) {
        entries.add("(" + first + ", " + point + ", \"" + String.join("|", names.remove(block)) + "\")");
      }
    }
    // Java still knows the names of blocks without code points.
    names.forEach((block, known) -> entries.add("(1, 0, \"" + String.join("|", known) + "\")"));
    open("BLOCKS", "First and last code point of each block, and its names in upper case.", "(u32, u32, &str)");
    rows(entries);
  }
}
