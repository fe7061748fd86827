import java.nio.charset.StandardCharsets;
import org.apache.hadoop.hbase.TableName;

/**
 *  The place of a script: its table, the prefix of its row keys, and the time that it calls now.
 *
 *  All prefixes have one length. They let many scripts use one table, one after the other, without seeing each other's rows: a
 *  scan over all rows becomes a scan over the prefix.
 */
record Place(TableName table, String prefix, long now) {
  /** Timestamps from {@code now} on, for this long, are server times. Scripts name none of them. */
  static final long SERVER_TIME_SPAN = 3_600_000L;

  /** Returns the prefix with this number. */
  static String prefix(int number) {
    return String.format("%05d.", number);
  }

  byte[] row(String row) {
    return (prefix + row).getBytes(StandardCharsets.ISO_8859_1);
  }

  /** Returns the row key in the table for a row of the script. */
  String name(byte[] row) {
    String text = new String(row, StandardCharsets.ISO_8859_1);
    return text.startsWith(prefix) ? text.substring(prefix.length()) : "!" + text;
  }

  /** Returns a row key after all rows of the script. */
  byte[] end() {
    byte[] end = row("");
    end[end.length - 1]++;
    return end;
  }

  /** Reads a timestamp of a script: a number, or {@code now+N} or {@code now-N} in milliseconds. */
  long timestamp(String text) {
    if (!text.startsWith("now")) {
      return Long.parseLong(text);
    }
    return text.length() == 3 ? now : now + Long.parseLong(text.substring(text.charAt(3) == '+' ? 4 : 3));
  }

  /** Writes a timestamp as scripts do; a server time becomes a fixed word. */
  String timestamp(long timestamp) {
    long since = timestamp - now;
    if (Math.abs(since) > 1_000L * SERVER_TIME_SPAN) {
      return Long.toString(timestamp);
    }
    if (since >= 0 && since < SERVER_TIME_SPAN) {
      return "server";
    }
    return since < 0 ? "now" + since : "now+" + since;
  }
}
