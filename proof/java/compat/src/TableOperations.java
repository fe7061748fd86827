import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.*;

/**
 *  Splits, merges, alters, truncates and snapshots one table, and waits until the work that follows is done, so that both sides have
 *  the same regions and files afterwards. The table has no open scanners meanwhile.
 */
final class TableOperations {
  private static final long WAIT_SECONDS = 60;
  private static final long READY_NANOS = TimeUnit.SECONDS.toNanos(5);
  private static final long WAIT_NANOS = TimeUnit.SECONDS.toNanos(WAIT_SECONDS);

  private final Side side;
  private final Admin admin;
  /** The snapshots of each table. */
  private final Map<TableName, List<String>> snapshots = new HashMap<>();

  TableOperations(Side side, Admin admin) {
    this.side = side;
    this.admin = admin;
  }

  /** Carries out an operation on a table with this schema, and returns what can be seen of it. */
  String play(Node step, Node schema, Place place) throws IOException {
    TableName table = place.table();
    side.flush(schema, table);
    boolean isReplacement = step.head().equals("split") || step.head().equals("merge");
    if (isReplacement) {
      // Afterwards each side compacts references when it wants. With KEEP_DELETED_CELLS a compaction of several files changes what is
      // read, so both sides do that now.
      side.compact(schema, table);
    }
    switch (step.head()) {
      case "split" -> {
        byte[] row = place.row(step.text(1));
        whenReady(() -> admin.splitRegionAsync(at(table, row).getRegionName(), row));
      }
      case "merge" -> merge(table, place.row(step.text(1)));
      case "alter" -> admin.modifyColumnFamily(table, Schemas.family(step.at(1)));
      case "truncate" -> {
        admin.disableTable(table);
        admin.truncateTable(table, Filters.flag(step, 1));
      }
      case "snapshot" -> {
        admin.snapshot(snapshot(place, step), table);
        snapshots.computeIfAbsent(table, unknown -> new ArrayList<>()).add(snapshot(place, step));
      }
      case "clone" -> {
        return ofClone(step, schema, place);
      }
      case "restore" -> {
        admin.disableTable(table);
        try {
          admin.restoreSnapshot(snapshot(place, step), false);
        } finally {
          admin.enableTable(table);
        }
      }
      default -> throw new IllegalArgumentException("no operation of tables: " + step);
    }
    side.forgetRegions(table);
    StringBuilder seen = new StringBuilder("regions").append(regions(place));
    if (isReplacement) {
      // Files that lie within one region become links on one side and references on the other, which only compactions of references
      // show. So both sides compact them, after a look through them.
      for (boolean reversed : new boolean[] {false, true}) {
        read(schema, place, table, Player.all(place, reversed), seen);
      }
      side.compact(schema, table);
    }
    side.settle(schema, table);
    return seen.toString();
  }

  /** Deletes the snapshots of a table. */
  void clean(TableName table) throws IOException {
    List<String> names = snapshots.remove(table);
    for (String name : names == null ? List.<String>of() : names) {
      admin.deleteSnapshot(name);
    }
  }

  static boolean knows(String head) {
    return switch (head) {
      case "split", "merge", "alter", "truncate", "snapshot", "clone", "restore" -> true;
      default -> false;
    };
  }

  private static String snapshot(Place place, Node step) {
    return place.table().getNameAsString() + "-" + place.prefix() + step.text(1);
  }

  /** Merges the region of a row with the next region. */
  private void merge(TableName table, byte[] row) throws IOException {
    RegionInfo first = at(table, row);
    if (first.getEndKey().length == 0) {
      return;
    }
    RegionInfo second = at(table, first.getEndKey());
    byte[][] both = {first.getEncodedNameAsBytes(), second.getEncodedNameAsBytes()};
    whenReady(() -> admin.mergeRegionsAsync(both, false));
    side.forgetRegions(table);
    // The merged region cannot be merged again before its parents are collected, which takes until their files are compacted.
    RegionInfo merged = at(table, row);
    side.awaitNoReferences(table);
    long deadline = System.nanoTime() + WAIT_NANOS;
    while (namesParents(merged)) {
      if (System.nanoTime() > deadline) {
        throw new IOException("the parents of " + merged + " are not collected");
      }
      admin.runCatalogJanitor();
      pause();
    }
  }

  private boolean namesParents(RegionInfo region) throws IOException {
    try (Table meta = side.catalog()) {
      for (Cell cell : meta.get(new Get(region.getRegionName()).addFamily(HConstants.CATALOG_FAMILY)).rawCells()) {
        if (new String(CellUtil.cloneQualifier(cell)).startsWith("merge")) {
          return true;
        }
      }
    }
    return false;
  }

  /** Returns all cells of the script in a clone of the snapshot. */
  private String ofClone(Node step, Node schema, Place place) throws IOException {
    TableName clone = Runner.freshName();
    admin.cloneSnapshot(snapshot(place, step), clone);
    StringBuilder cells = new StringBuilder("clone");
    try {
      read(schema, place, clone, Player.all(place, false).setRaw(true).readAllVersions(), cells);
    } finally {
      side.drop(clone);
    }
    return cells.toString();
  }

  private void read(Node schema, Place place, TableName name, Scan scan, StringBuilder seen) throws IOException {
    try (Table table = side.table(schema, name); ResultScanner scanner = table.getScanner(scan)) {
      for (Result row : scanner) {
        seen.append(" | ").append(Show.result(row, place));
      }
    }
  }

  private RegionInfo at(TableName table, byte[] row) throws IOException {
    for (HRegionLocation location : side.regions(table)) {
      if (location.getRegion().containsRow(row)) {
        return location.getRegion();
      }
    }
    throw new IOException("no region has the row");
  }

  /** Returns the first row keys of the regions, in order. */
  private String regions(Place place) throws IOException {
    StringBuilder keys = new StringBuilder();
    List<HRegionLocation> locations = new ArrayList<>(side.regions(place.table()));
    locations.sort(Comparator.comparing(HRegionLocation::getRegion, RegionInfo.COMPARATOR));
    for (HRegionLocation location : locations) {
      keys.append(' ').append(Node.atom(place.name(location.getRegion().getStartKey())));
    }
    return keys.toString();
  }

  private interface Begin {
    Future<?> begin() throws IOException;
  }

  /**
   *  Runs a split or merge. It is begun again while a region counts as one with references, which in HBase lasts until a chore has
   *  archived compacted files.
   */
  private static void whenReady(Begin procedure) throws IOException {
    long deadline = System.nanoTime() + READY_NANOS;
    while (true) {
      try {
        end(procedure.begin());
        return;
      } catch (IOException refusal) {
        String text = String.valueOf(refusal.getMessage()).toLowerCase(Locale.ROOT);
        if (!text.contains("not splittable") && !text.contains("not mergeable") || System.nanoTime() > deadline) {
          throw refusal;
        }
        pause();
      }
    }
  }

  private static void end(Future<?> procedure) throws IOException {
    try {
      procedure.get(WAIT_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException failure) {
      throw failure.getCause() instanceof IOException error ? error : new IOException(failure.getCause());
    } catch (InterruptedException | TimeoutException failure) {
      throw new IOException(failure);
    }
  }

  static void pause() {
    java.util.concurrent.locks.LockSupport.parkNanos(5_000_000);
  }
}
