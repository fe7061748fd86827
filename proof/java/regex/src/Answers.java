import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 *  Matches random patterns and texts with {@code java.util.regex} as RegexStringComparator does: the bytes are decoded by a charset,
 *  and the pattern is searched in the text.
 *
 * <pre>
 * Answers SEED PATTERNS TEXTS
 * </pre>
 *
 *  Prints a line for each pattern, its parts separated by blanks: flags, charset, the pattern (hexadecimal UTF-8). Then follow either
 *  {@code !}, the position of the error and its message (hexadecimal), or for each text its bytes (hexadecimal), {@code :} and 0 or 1.
 */
final class Answers {
  private static final HexFormat HEX = HexFormat.of();
  private static final String[] CHARSETS = {"UTF-8", "UTF-8", "UTF-8", "ISO-8859-1", "ISO-8859-1", "US-ASCII", "UTF-16",
      "UTF-16LE", "UTF-16BE"};
  /** Number of steps after which a match is given up. */
  private static final int STEPS_MAX = 200_000;

  private final Random chance;
  private int groups;
  private int names;

  private Answers(Random chance) {
    this.chance = chance;
  }

  public static void main(String[] args) {
    long seed = Long.parseLong(args[0]);
    int patterns = Integer.parseInt(args[1]);
    int texts = Integer.parseInt(args[2]);
    Answers answers = new Answers(new Random(seed));
    PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.US_ASCII);
    for (int index = 0; index < patterns; index++) {
      answers.one(out, texts);
    }
    out.flush();
  }

  private void one(PrintStream out, int texts) {
    groups = 0;
    names = 0;
    int flags = flags();
    String charset = pick(CHARSETS);
    String source = drawn(flags);
    out.print(flags + " " + charset + " " + HEX.formatHex(source.getBytes(StandardCharsets.UTF_8)));
    Pattern pattern;
    try {
      pattern = Pattern.compile(source, flags);
    } catch (PatternSyntaxException wrong) {
      out.println(" ! " + wrong.getIndex() + " " + HEX.formatHex(wrong.getDescription().getBytes(StandardCharsets.UTF_8)));
      return;
    } catch (RuntimeException own) {
      // A bug in Java, such as an index outside an array.
      out.println(" ? " + own.getClass().getName());
      return;
    }
    for (int index = 0; index < texts; index++) {
      byte[] bytes = text(charset);
      Matcher matcher = pattern.matcher(new Counted(new String(bytes, Charset.forName(charset))));
      String answer;
      try {
        answer = matcher.find() ? "1" : "0";
      } catch (TooMany | StackOverflowError error) {
        continue;
      } catch (RuntimeException own) {
        continue;
      }
      out.print(" " + HEX.formatHex(bytes) + ":" + answer);
    }
    out.println();
  }

  /** Some invalid patterns are kept. */
  private String drawn(int flags) {
    while (true) {
      groups = 0;
      names = 0;
      String source = once(12) ? noise() : pattern(3);
      try {
        Pattern.compile(source, flags);
        return source;
      } catch (RuntimeException wrong) {
        if (once(6)) {
          return source;
        }
      }
    }
  }

  private static final class TooMany extends RuntimeException {
    private static final long serialVersionUID = 1;

    TooMany() {
      super(null, null, false, false);
    }
  }

  /** A text whose matching ends after a number of steps. */
  private static final class Counted implements CharSequence {
    private final String text;
    private int steps;

    Counted(String text) {
      this.text = text;
    }

    @Override
    public char charAt(int index) {
      if (++steps > STEPS_MAX) {
        throw new TooMany();
      }
      return text.charAt(index);
    }

    @Override
    public int length() {
      return text.length();
    }

    @Override
    public CharSequence subSequence(int begin, int end) {
      return text.subSequence(begin, end);
    }

    @Override
    public String toString() {
      return text;
    }
  }

  @SafeVarargs
  private <T> T pick(T... choices) {
    return choices[chance.nextInt(choices.length)];
  }

  private boolean once(int times) {
    return chance.nextInt(times) == 0;
  }

  private int flags() {
    int flags = 0;
    if (once(3)) {
      flags |= Pattern.DOTALL;
    }
    if (once(4)) {
      flags |= Pattern.CASE_INSENSITIVE;
    }
    if (once(6)) {
      flags |= Pattern.UNICODE_CASE;
    }
    if (once(6)) {
      flags |= Pattern.MULTILINE;
    }
    if (once(8)) {
      flags |= Pattern.UNIX_LINES;
    }
    if (once(12)) {
      flags |= Pattern.COMMENTS;
    }
    if (once(10)) {
      flags |= Pattern.UNICODE_CHARACTER_CLASS;
    }
    if (once(40)) {
      flags |= Pattern.LITERAL;
    }
    return flags;
  }

  private static final String[] LETTERS = {"a", "a", "a", "b", "b", "c", "A", "B", "k", "s", "i", "0", "1", "_", "-", " ",
      "\n", "\r", "\t", "\u000b", "\u0085", "\u2028", "\u00e9", "\u00c9", "\u00ff", "\u0178", "\u00b5", "\u03bc", "\u017f",
      "\u212a", "\u0130", "\u0131", "\u00df", "\u1e9e", "\u0301", "\u03b1", "\u0391", "\u4e2d", "\ud83d\ude00", "\ud801\udc00",
      "\ud801\udc28", "\u00a0", "\u01c5", "\u01c4", "\u0660", "\u200d", "\ufffd", "&", "#", "/", ",", "\u0000", "~", "\u1100",
      "\uac00", "\u11a8", "\ud83c\udde6", "\ud83c\udde7", "\u0e33"};
  private static final String[] PLAIN = {"a", "a", "a", "b", "b", "c", "ab", "A", "B", "\n", "1", "ba", "aa", "\u00e9"};

  private String letter() {
    return once(3) ? pick(LETTERS) : pick(PLAIN);
  }

  private byte[] text(String charset) {
    if (once(10)) {
      // Bytes that the charset would not produce.
      byte[] bytes = new byte[chance.nextInt(7)];
      for (int at = 0; at < bytes.length; at++) {
        bytes[at] = pick((byte) 'a', (byte) 'b', (byte) 0x80, (byte) 0xbf, (byte) 0xc2, (byte) 0xc0, (byte) 0xe2, (byte) 0x80,
            (byte) 0xa8, (byte) 0xed, (byte) 0xa0, (byte) 0xf0, (byte) 0x9f, (byte) 0x98, (byte) 0xf4, (byte) 0x90,
            (byte) 0xff, (byte) 0xe0, (byte) 0xf8, (byte) 0xd8, (byte) 0xdc, (byte) 0xfe, (byte) 0, (byte) chance.nextInt(256));
      }
      return bytes;
    }
    StringBuilder out = new StringBuilder();
    for (int length = chance.nextInt(once(4) ? 14 : 6); length > 0; length--) {
      out.append(letter());
    }
    return out.toString().getBytes(Charset.forName(charset));
  }

  /** Draws random bytes. */
  private String noise() {
    StringBuilder out = new StringBuilder();
    for (int length = 1 + chance.nextInt(8); length > 0; length--) {
      out.append(pick("(", ")", "[", "]", "{", "}", "*", "+", "?", "|", "\\", "^", "$", ".", "-", "&", "&&", "a", "b", "0", "1",
          "2", ",", ":", "=", "!", "<", ">", "(?", "\\Q", "\\E", "\\", "p", "P", "{L}", "x", "#", "\n", " ", "k<", "i", "u", "N",
          "\\k<n>", "\\c", "\\0", "\\x", "\\u00e9", "[^", "[a-", "\\b", "(?<n>", "(?<=", "(?<!", "\u00e9"));
    }
    return out.toString();
  }

  private String pattern(int depth) {
    StringBuilder out = new StringBuilder();
    for (int branches = once(4) ? 2 + chance.nextInt(2) : 1; branches > 0; branches--) {
      if (!once(12)) {
        for (int parts = 1 + chance.nextInt(3); parts > 0; parts--) {
          out.append(part(depth));
        }
      }
      if (branches > 1) {
        out.append('|');
      }
    }
    return out.toString();
  }

  private String part(int depth) {
    String part = switch (chance.nextInt(22)) {
      case 0, 1, 2, 3 -> quoted(letter());
      case 4 -> ".";
      case 5, 6 -> set(2);
      case 7 -> pick("\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\h", "\\H", "\\v", "\\V", "\\R", "\\X");
      case 8 -> place();
      case 9 -> property();
      case 10 -> escape();
      case 11 -> groups > 0 || once(8) ? reference() : quoted(letter());
      case 12 -> "\\Q" + pick("a", "a*", "[", "(b", "1", "\\", " ", "#a", "") + pick("\\E", "\\E", "\\E", "");
      case 13 -> pick("(?i)", "(?s)", "(?m)", "(?d)", "(?u)", "(?x)", "(?U)", "(?iu)", "(?-i)", "(?-s)", "(?i-s)", "(?-U)",
          "(?-u)", "(?-x)", "(?-dm)");
      default -> depth > 0 ? group(depth) : quoted(letter());
    };
    return once(2) && !part.isEmpty() ? part + quantifier() : part;
  }

  private String quoted(String letter) {
    return "[](){}*+?|^$.\\".contains(letter) ? "\\" + letter : letter;
  }

  private String place() {
    return pick("^", "$", "^", "$", "\\A", "\\z", "\\Z", "\\b", "\\B", "\\b", "\\G");
  }

  private String reference() {
    return names > 0 && once(3) ? "\\k<n" + (1 + chance.nextInt(names)) + ">" : "\\" + (1 + chance.nextInt(Math.max(1, groups)));
  }

  private String escape() {
    return pick("\\t", "\\n", "\\r", "\\f", "\\a", "\\e", "\\cJ", "\\ca", "\\c!", "\\x61", "\\x{61}", "\\x{1F600}", "\\u0061",
        "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\060", "\\0141", "\\07", "\\0377", "\\0400", "\\-", "\\ ", "\\#", "\\_", "\\\u00e9",
        "\\x{110000}", "\\xg", "\\u12", "\\08", "\\y", "\\N{no such}");
  }

  private String property() {
    return (once(4) ? "\\P" : "\\p") + pick("L", "{L}", "{Lu}", "{Ll}", "{Lt}", "{IsL}", "{IsLu}", "{M}", "{Mn}", "{N}", "{Nd}", "{P}",
        "{S}", "{Z}", "{C}", "{Cc}", "{Cn}", "{Cs}", "{LC}", "{LD}", "{L1}", "{all}", "{ASCII}", "{Alnum}", "{Alpha}", "{Blank}",
        "{Cntrl}", "{Digit}", "{Graph}", "{Lower}", "{Print}", "{Punct}", "{Space}", "{Upper}", "{XDigit}", "{javaLowerCase}",
        "{javaUpperCase}", "{javaTitleCase}", "{javaAlphabetic}", "{javaIdeographic}", "{javaDigit}", "{javaDefined}",
        "{javaLetter}", "{javaLetterOrDigit}", "{javaJavaIdentifierStart}", "{javaJavaIdentifierPart}",
        "{javaUnicodeIdentifierStart}", "{javaUnicodeIdentifierPart}", "{javaIdentifierIgnorable}", "{javaSpaceChar}",
        "{javaWhitespace}", "{javaISOControl}", "{javaMirrored}", "{IsAlphabetic}", "{IsLetter}", "{IsIdeographic}",
        "{IsLowercase}", "{IsUppercase}", "{IsTitlecase}", "{IsPunctuation}", "{IsControl}", "{IsWhite_Space}", "{IsWhiteSpace}",
        "{IsDigit}", "{IsHex_Digit}", "{IsJoin_Control}", "{IsNoncharacter_Code_Point}", "{IsAssigned}", "{IsWord}", "{IsAlnum}",
        "{IsGraph}", "{IsPrint}", "{IsBlank}", "{isalphabetic}", "{IsGreek}", "{IsLatin}", "{IsLatn}", "{IsCommon}", "{IsHan}",
        "{script=Greek}", "{sc=latn}", "{InGreek}", "{InBasicLatin}", "{InBASIC_LATIN}", "{In Basic Latin}", "{InLatin-1Supplement}",
        "{blk=Hangul Syllables}", "{block=Emoticons}", "{gc=Lu}", "{general_category=Nd}", "{GC=L}", "{Foo}", "{IsFoo}", "{InFoo}",
        "{x=y}", "{}", "{L", "a", "{a}");
  }

  private String set(int depth) {
    StringBuilder out = new StringBuilder(once(4) ? "[^" : "[");
    for (int parts = 1 + chance.nextInt(3); parts > 0; parts--) {
      switch (chance.nextInt(14)) {
        case 0, 1, 2, 3 -> out.append(setLetter());
        case 4, 5, 6 -> out.append(pick("a-c", "a-z", "A-Z", "0-9", "b-k", "\u00e0-\u00ff", "\\x00-\\x7f", "a-\\x{1ffff}", "\u0391-\u03c9",
            "\\t-\\r", "Z-a", "\\v-~", "a-", "-a", "c-a", "&-a", "\u0100-\u024f", "i-s"));
        case 7 -> out.append(pick("\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\h", "\\v", "\\H", "\\V", "\\R", "\\b", "\\1", "\\X"));
        case 8 -> out.append(property());
        case 9 -> out.append(escape());
        case 10, 11 -> out.append("&&").append(once(2) ? setLetter() + setLetter() : depth > 0 ? set(depth - 1) : "^a");
        default -> out.append(depth > 0 ? set(depth - 1) : "b");
      }
    }
    return out.append(once(20) ? "" : "]").toString();
  }

  private String setLetter() {
    String letter = letter();
    return "[]^-&\\".contains(letter) && !once(3) ? "\\" + letter : letter;
  }

  private String group(int depth) {
    switch (chance.nextInt(16)) {
      case 0, 1, 2, 3, 4:
        groups++;
        return "(" + pattern(depth - 1) + ")";
      case 5, 6, 7:
        return "(?:" + pattern(depth - 1) + ")";
      case 8:
        return "(?>" + pattern(depth - 1) + ")";
      case 9:
        return pick("(?=", "(?!") + pattern(depth - 1) + ")";
      case 10, 11:
        return pick("(?<=", "(?<!") + pattern(depth - 1) + ")";
      case 12:
        groups++;
        return "(?<n" + ++names + ">" + pattern(depth - 1) + ")";
      case 13:
        return pick("(?i:", "(?s-i:", "(?x:", "(?m:", "(?d:", "(?U:", "(?u:", "(?-u:") + pattern(depth - 1) + ")";
      default:
        groups++;
        // A repeated group with a back-reference, where engines are most often wrong.
        return "(" + pattern(depth - 1) + ")" + quantifier() + (once(2) ? reference() : "");
    }
  }

  private String quantifier() {
    return pick("*", "+", "?", "{2}", "{0,2}", "{1,}", "{1,3}", "{2,}", "{0}", "{3}", "{,2}", "{2,1}", "*", "+", "?")
        + pick("", "", "", "?", "+");
  }
}
