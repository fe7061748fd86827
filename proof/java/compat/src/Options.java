import java.util.List;

/** Options of the generator. */
final class Options {
  /** Whether families may have NEW_VERSION_BEHAVIOR. */
  boolean newVersionBehavior = true;
  /** The block encodings to draw from. */
  List<String> encodings = List.of("NONE", "ROW_INDEX_V1", "PREFIX", "DIFF", "FAST_DIFF");
  /** Number of steps of a stream. */
  int steps = 120;
  /** Number of streams of a table. */
  int streams = 24;
  /** Percentage of tables that are split, merged, altered and snapshotted. */
  int tableOperations = 25;
  /** Number of the first table. */
  long from = 0;

  /**
   * {@code old-version-behavior}, {@code encodings=A/B}, {@code steps=N}, {@code streams=N}, {@code from=N},
   * {@code table-operations=PERCENT}, separated by commas.
   */
  static Options parse(String text) {
    Options options = new Options();
    for (String word : text.isEmpty() ? new String[0] : text.split(",")) {
      String[] parts = word.split("=", 2);
      switch (parts[0]) {
        case "old-version-behavior" -> options.newVersionBehavior = false;
        case "encodings" -> options.encodings = List.of(parts[1].split("/"));
        case "steps" -> options.steps = Integer.parseInt(parts[1]);
        case "streams" -> options.streams = Integer.parseInt(parts[1]);
        case "table-operations" -> options.tableOperations = Integer.parseInt(parts[1]);
        case "from" -> options.from = Long.parseLong(parts[1]);
        default -> throw new IllegalArgumentException("unknown option: " + word);
      }
    }
    return options;
  }
}
