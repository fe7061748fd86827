import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.PrivateCellUtil;
import org.apache.hadoop.hbase.Tag;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.RetriesExhaustedException;
import org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException;
import org.apache.hadoop.ipc.RemoteException;

/**
 *  Shows answers as text that is equal for equal answers: server times, row prefixes, and names of tables, regions and hosts are
 *  left out or replaced by a fixed name.
 */
final class Show {
  private static final Pattern ENCODED_REGION = Pattern.compile("[0-9a-f]{32}");
  private static final Pattern TABLE_SHOWN = Pattern.compile(" in table '?TABLE.*| in table '?diff-.*");
  private static final Pattern TIME = Pattern.compile("\\b1[0-9]{12}\\b");
  private static final Pattern HOST = Pattern.compile("(localhost|127\\.0\\.0\\.1)[:,][0-9]+(,TIME)?");
  /** A Java object with its address, which HBase prints instead of a region. */
  private static final Pattern OBJECT = Pattern.compile(" in region [a-zA-Z.]+HRegion\\$.*");
  private static final Pattern NUMBERED_SCANNER = Pattern.compile("'-?[0-9]{6,}'");

  private Show() {}

  static String result(Result result, Place place) {
    if (result == null) {
      return "null";
    }
    if (result.isCursor()) {
      return "cursor " + Node.atom(place.name(result.getCursor().getRow()));
    }
    if (result.getExists() != null) {
      return result.getExists() ? "exists" : "absent";
    }
    if (result.isEmpty()) {
      return "empty";
    }
    StringBuilder out = new StringBuilder();
    out.append(Node.atom(place.name(result.getRow())));
    for (Cell cell : result.rawCells()) {
      out.append(' ');
      out.append(text(CellUtil.cloneFamily(cell))).append(':');
      byte[] qualifier = CellUtil.cloneQualifier(cell);
      out.append(qualifier.length == 0 ? "" : text(qualifier));
      out.append('@').append(place.timestamp(cell.getTimestamp()));
      if (cell.getType() != Cell.Type.Put) {
        out.append('/').append(cell.getType());
      }
      byte[] value = CellUtil.cloneValue(cell);
      if (value.length > 64) {
        out.append(" [").append(value.length).append(" bytes, ").append(java.util.Arrays.hashCode(value)).append(']');
      } else if (value.length > 0) {
        out.append('=').append(text(value));
      }
      PrivateCellUtil.tagsIterator(cell).forEachRemaining(tag ->
          out.append('{').append(tag.getType()).append(' ').append(text(Tag.cloneValue(tag))).append('}'));
    }
    if (result.mayHaveMoreCellsInRow()) {
      out.append(" ...");
    }
    return out.toString();
  }

  static String text(byte[] bytes) {
    return Node.atom(new String(bytes, StandardCharsets.ISO_8859_1)).toString();
  }

  /** Returns the first part of each answer that differs. */
  static List<String> difference(String hbase, String bellows) {
    String[] ours = bellows.split(" \\| ");
    String[] theirs = hbase.split(" \\| ");
    int at = 0;
    while (at < ours.length - 1 && at < theirs.length - 1 && ours[at].equals(theirs[at])) {
      at++;
    }
    return List.of("# hbase   [" + at + " of " + theirs.length + "]: " + theirs[at],
        "# bellows [" + at + " of " + ours.length + "]: " + ours[at]);
  }

  /** Returns the class of an error and the first line of its message. */
  static String error(Throwable error, Place place) {
    if (error instanceof RetriesExhaustedWithDetailsException many) {
      StringBuilder out = new StringBuilder("many");
      for (int index = 0; index < many.getNumExceptions(); index++) {
        out.append(" [").append(error(many.getCause(index), place)).append(']');
      }
      return out.toString();
    }
    if (error instanceof RemoteException remote) {
      return error.getClass().getSimpleName().equals("RemoteException") || remote.unwrapRemoteException() == error
          ? remote.getClassName() + ": " + message(remote.getMessage(), place)
          : error(remote.unwrapRemoteException(), place);
    }
    if (error instanceof RetriesExhaustedException && error.getCause() != null) {
      return "retried " + error(error.getCause(), place);
    }
    return error.getClass().getName() + ": " + message(error.getMessage(), place);
  }

  private static String message(String message, Place place) {
    if (message == null) {
      return "";
    }
    int end = message.indexOf('\n');
    String line = end < 0 ? message : message.substring(0, end);
    // HBase prints the whole table there.
    line = TABLE_SHOWN.matcher(line).replaceAll("");
    line = line.replace(place.table().getNameAsString(), "TABLE");
    if (!place.prefix().isEmpty()) {
      line = line.replace(place.prefix(), "");
    }
    line = ENCODED_REGION.matcher(line).replaceAll("REGION");
    line = TIME.matcher(line).replaceAll("TIME");
    line = HOST.matcher(line).replaceAll("HOST");
    line = OBJECT.matcher(line).replaceAll("");
    line = NUMBERED_SCANNER.matcher(line).replaceAll("SCANNER");
    return line.trim();
  }
}
