import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.hbase.KeepDeletedCells;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.regionserver.BloomType;

/**
 *  Makes tables: {@code (table (family a (versions 3) (ttl 3600) ...) ... (split r3 r6) (heavy) (tags) (operations))}. In a heavy table
 *  every store has a file that is too large for minor compactions, so that these do not take all files. A table with operations is
 *  split, merged, altered and snapshotted by the steps on it; with {@code (operations mob)} its families may be MOB families.
 */
final class Schemas {
  private Schemas() {}

  static Node random(Random random, Options options) {
    Node table = Node.of("table");
    int families = 1 + random.nextInt(3);
    for (int index = 0; index < families; index++) {
      table.add(family("abc".substring(index, index + 1), random, options));
    }
    if (options.tableOperations > 0 && random.nextInt(100) < options.tableOperations) {
      Node operations = Node.of("operations");
      table.list.subList(1, table.size()).forEach(Schemas::withoutFileDependence);
      if (random.nextBoolean()) {
        operations.add("mob");
        table.list.subList(1, table.size()).forEach(family -> mob(family, random));
      }
      table.add(operations);
    } else if (random.nextInt(8) == 0) {
      table.add(Node.of("split", "r2", "r5"));
    } else if (random.nextInt(2) == 0) {
      table.add(Node.of("heavy"));
    }
    if (random.nextInt(3) == 0) {
      table.add(Node.of("tags"));
    }
    return table;
  }

  /**
   *  Removes what makes HBase's answers depend on how cells are divided among files and memory, which each side decides for itself after
   *  a split or merge. With KEEP_DELETED_CELLS a compaction counts deleted versions. With NEW_VERSION_BEHAVIOR a read of a time range
   *  counts newer versions only if the range includes a time of their file or segment.
   */
  private static void withoutFileDependence(Node family) {
    family.list.removeIf(part -> !part.isAtom() && List.of("keep-deleted", "new-version-behavior").contains(part.head()));
  }

  /** Makes every second family one that keeps values from a few bytes on in MOB files. */
  static void mob(Node family, Random random) {
    if (random.nextBoolean()) {
      family.add(Node.of("mob", Draw.of(random, 0, 2, 8, 500)));
    }
  }

  static Node family(String name, Random random, Options options) {
    Node family = Node.of("family", name);
    int versions = new int[] {1, 1, 2, 3, 5, 100}[random.nextInt(6)];
    if (versions != 1) {
      family.add(Node.of("versions", versions));
    }
    if (random.nextInt(4) == 0) {
      family.add(Node.of("ttl", 3600));
      if (versions > 1 && random.nextBoolean()) {
        family.add(Node.of("min-versions", 1 + random.nextInt(Math.min(versions - 1, 8))));
      }
    }
    switch (random.nextInt(6)) {
      case 0 -> family.add(Node.of("keep-deleted", "TRUE"));
      case 1 -> family.add(Node.of("keep-deleted", "TTL"));
      default -> { }
    }
    // With KEEP_DELETED_CELLS HBase's major compactions count markers as versions and drop puts that no marker masks.
    // Of a requested column with MIN_VERSIONS HBase reads one version too many from memory, which changes checks and
    // deletes.
    if (options.newVersionBehavior && !family.has("keep-deleted") && !family.has("min-versions") && random.nextInt(4) == 0) {
      family.add(Node.of("new-version-behavior"));
    }
    if (random.nextInt(2) == 0) {
      family.add(Node.of("block-size", 1024));
    }
    String encoding = options.encodings.get(random.nextInt(options.encodings.size()));
    if (!encoding.equals("NONE")) {
      family.add(Node.of("encoding", encoding));
    }
    String bloom = new String[] {"ROW", "ROW", "NONE", "ROWCOL"}[random.nextInt(4)];
    if (bloom.equals("ROWCOL") && family.has("new-version-behavior")) {
      // HBase loops for ever on a requested column that the Bloom filter excludes from every file.
      bloom = "ROW";
    }
    if (!bloom.equals("ROW")) {
      family.add(Node.of("bloom", bloom));
    }
    String compression = new String[] {"NONE", "NONE", "GZ", "SNAPPY", "LZ4", "ZSTD"}[random.nextInt(6)];
    if (!compression.equals("NONE")) {
      family.add(Node.of("compression", compression));
    }
    return family;
  }

  static boolean isSplit(Node table) {
    return table.has("split");
  }

  /** Returns the split keys of a table for scripts with these prefixes; null for one region. */
  static byte[][] splits(Node table, List<String> prefixes) {
    Node split = table.part("split");
    if (split == null) {
      return null;
    }
    List<byte[]> rows = new ArrayList<>();
    for (String prefix : prefixes) {
      for (int index = 1; index < split.size(); index++) {
        rows.add((prefix + split.text(index)).getBytes(StandardCharsets.ISO_8859_1));
      }
    }
    return rows.toArray(new byte[0][]);
  }

  static List<String> families(Node table) {
    List<String> names = new ArrayList<>();
    for (Node part : table.list) {
      if (!part.isAtom() && part.head().equals("family")) {
        names.add(part.text(1));
      }
    }
    return names;
  }

  static ColumnFamilyDescriptor family(Node node) {
    ColumnFamilyDescriptorBuilder family = ColumnFamilyDescriptorBuilder.newBuilder(node.bytes(1));
    for (Node knob : node.list.subList(2, node.size())) {
      switch (knob.head()) {
        case "versions" -> family.setMaxVersions(knob.number(1));
        case "min-versions" -> family.setMinVersions(knob.number(1));
        case "ttl" -> family.setTimeToLive(knob.number(1));
        case "keep-deleted" -> family.setKeepDeletedCells(KeepDeletedCells.valueOf(knob.text(1)));
        case "new-version-behavior" -> family.setNewVersionBehavior(true);
        case "block-size" -> family.setBlocksize(knob.number(1));
        case "encoding" -> family.setDataBlockEncoding(DataBlockEncoding.valueOf(knob.text(1)));
        case "bloom" -> family.setBloomFilterType(BloomType.valueOf(knob.text(1)));
        case "compression" -> family.setCompressionType(Compression.Algorithm.valueOf(knob.text(1)));
        case "mob" -> family.setMobEnabled(true).setMobThreshold(knob.number(1));
        default -> throw new IllegalArgumentException("unknown part of a family: " + knob);
      }
    }
    return family.build();
  }

  static TableDescriptor descriptor(Node table, TableName name) {
    TableDescriptorBuilder builder = TableDescriptorBuilder.newBuilder(name);
    for (Node part : table.list) {
      if (part.isAtom() || !part.head().equals("family")) {
        continue;
      }
      builder.setColumnFamily(family(part));
    }
    return builder.build();
  }
}
