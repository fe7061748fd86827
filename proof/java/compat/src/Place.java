import java.nio.charset.StandardCharsets;
import org.apache.hadoop.hbase.TableName;

/**
 * Where a script is played: its table, what is put before each of its row keys, and the moment that it calls now.
 *
 * The prefix, of one length always, lets many scripts use one table, one after the other, without seeing each other: a
 * scan from the first row to the last becomes one over the prefix.
 */
record Place(TableName table, String prefix, long now) {
  /** Server times are those from {@code now} on, for this long. Scripts name none of these. */
  static final long SERVER_TIME_SPAN = 3_600_000L;

  /** The prefix with this number. */
  static String prefix(int number) {
    return String.format("%05d.", number);
  }

  byte[] row(String row) {
    return (prefix + row).getBytes(StandardCharsets.ISO_8859_1);
  }

  /** The bytes of a row of the table, as the script names it. */
  String name(byte[] row) {
    String text = new String(row, StandardCharsets.ISO_8859_1);
    return text.startsWith(prefix) ? text.substring(prefix.length()) : "!" + text;
  }

  /** Every row of the script is before this one. */
  byte[] end() {
    byte[] end = row("");
    end[end.length - 1]++;
    return end;
  }

  /** A timestamp as scripts write it: a number, or {@code now+N} or {@code now-N} in milliseconds. */
  long timestamp(String text) {
    if (!text.startsWith("now")) {
      return Long.parseLong(text);
    }
    return text.length() == 3 ? now : now + Long.parseLong(text.substring(text.charAt(3) == '+' ? 4 : 3));
  }

  /** The other way: what is a server's time is only called so. */
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
