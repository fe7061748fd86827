import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hadoop.hbase.io.hfile.HFileInfo;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.regionserver.StoreEngine;
import org.apache.hadoop.hbase.regionserver.StripeStoreConfig;
import org.apache.hadoop.hbase.regionserver.StripeStoreEngine;
import org.apache.hadoop.hbase.regionserver.StripeStoreFileManager;
import org.apache.hadoop.hbase.util.BloomFilterUtil;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Reads files that a server flushed and compacted with HBase's own tool and classes: `HFiles BOOTSTRAP DATA-FOLDER`.
 *
 * One table has a family for each compression, encoding and bloom. Two flushes and a major compaction of it make three
 * files in each; what they must hold is known cell by cell. One more family has stripes, which each file must name.
 */
public final class HFiles {
  private static final TableName TABLE = TableName.valueOf("hfiles");
  private static final int ROWS = 450;
  private static final byte[] STRIPES = Bytes.toBytes("stripes");
  private static final String[] STRIPE_ROWS = {"a", "m", "t"};
  private static final long PATIENCE_NANOS = 60_000_000_000L;

  private final Connection connection;
  private final Admin admin;
  private final Path store;
  private final Configuration local;

  private HFiles(Connection connection, Path data) throws Exception {
    this.connection = connection;
    this.admin = connection.getAdmin();
    this.local = HBaseConfiguration.create();
    local.set("hbase.rootdir", data.toUri().toString());
    create();
    try (Stream<Path> regions = Files.list(data.resolve("data/default/" + TABLE))) {
      store = regions.filter(path -> path.getFileName().toString().length() == 32).findFirst().orElseThrow();
    }
  }

  public static void main(String[] args) throws Exception {
    Configuration conf = HBaseConfiguration.create();
    conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.RpcConnectionRegistry");
    conf.set("hbase.client.bootstrap.servers", args[0]);
    Path data = Path.of(args[1]).toAbsolutePath();
    try (Connection connection = ConnectionFactory.createConnection(conf)) {
      new HFiles(connection, data).run();
    }
  }

  /** A family's name lists its options. */
  private static List<ColumnFamilyDescriptor> families() {
    List<ColumnFamilyDescriptor> families = new ArrayList<>();
    for (Compression.Algorithm compression :
        List.of(
            Compression.Algorithm.NONE, Compression.Algorithm.GZ, Compression.Algorithm.SNAPPY,
            Compression.Algorithm.LZ4, Compression.Algorithm.ZSTD)) {
      for (DataBlockEncoding encoding : DataBlockEncoding.values()) {
        for (BloomType bloom : List.of(BloomType.NONE, BloomType.ROW, BloomType.ROWCOL)) {
          families.add(
              ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes(compression + "-" + encoding + "-" + bloom))
                  .setCompressionType(compression).setDataBlockEncoding(encoding).setBloomFilterType(bloom)
                  .setBlocksize(2048).setMaxVersions(2).build());
        }
      }
    }
    families.add(
        ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes("prefixes")).setBlocksize(2048).setMaxVersions(2)
            .setBloomFilterType(BloomType.ROWPREFIX_FIXED_LENGTH)
            .setConfiguration(BloomFilterUtil.PREFIX_LENGTH_KEY, String.valueOf(FileCheck.PREFIX)).build());
    // Enough blocks of one cell that the index needs levels, and a family whose cells are all dropped.
    families.add(
        ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes("deep")).setBlocksize(1024).setMaxVersions(2).build());
    families.add(ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes("gone")).build());
    families.add(
        ColumnFamilyDescriptorBuilder.newBuilder(STRIPES)
            .setConfiguration(StoreEngine.STORE_ENGINE_CLASS_KEY, StripeStoreEngine.class.getName())
            .setConfiguration(StripeStoreConfig.INITIAL_STRIPE_COUNT_KEY, String.valueOf(STRIPE_ROWS.length)).build());
    return families;
  }

  private void create() throws Exception {
    admin.createTable(TableDescriptorBuilder.newBuilder(TABLE).setColumnFamilies(families()).build());
  }

  private static String row(int number) {
    return String.format("row-%06d", number);
  }

  /** Makes a value that compresses and is unique. */
  private static String value(String family, int row, String what) {
    return (what + " of " + family + " ").repeat(family.equals("deep") ? 110 : 3) + row * 7919;
  }

  private static String cell(int row, String family, String rest, String value) {
    return row(row) + "/" + family + ":" + rest + " " + value;
  }

  /** The first flush: each row has a, every second one b, every hundredth a cell with a time to live, which is a tag. */
  private static List<String> first(String family, int rows, List<Row> acts) {
    byte[] name = Bytes.toBytes(family);
    List<String> cells = new ArrayList<>();
    for (int row = 0; row < rows; row++) {
      byte[] key = Bytes.toBytes(row(row));
      String a = value(family, row, "a");
      Put put = new Put(key).addColumn(name, Bytes.toBytes("a"), 10, Bytes.toBytes(a));
      cells.add(cell(row, family, "a/10/Put", a));
      if (row % 2 == 0) {
        put.addColumn(name, Bytes.toBytes("b"), 20, Bytes.toBytes("b"));
        cells.add(cell(row, family, "b/20/Put", "b"));
      }
      acts.add(put);
      if (row % 100 == 0) {
        acts.add(new Put(key).addColumn(name, Bytes.toBytes("t"), Long.MAX_VALUE - 1, new byte[0]).setTTL(86_400_000));
        cells.add(cell(row, family, "t/" + (Long.MAX_VALUE - 1) + "/Put", "") + " tagged");
      }
    }
    return cells;
  }

  /** The second flush: newer versions of a for the later rows; every tenth row loses b, every fiftieth the family. */
  private static List<String> second(String family, int rows, List<Row> acts) {
    byte[] name = Bytes.toBytes(family);
    List<String> cells = new ArrayList<>();
    for (int row = rows / 3; row < rows; row++) {
      byte[] key = Bytes.toBytes(row(row));
      if (row % 50 == 0) {
        acts.add(new Delete(key).addFamily(name, 25));
        cells.add(cell(row, family, "/25/DeleteFamily", ""));
      }
      String a = value(family, row, "newer a");
      acts.add(new Put(key).addColumn(name, Bytes.toBytes("a"), 30, Bytes.toBytes(a)));
      cells.add(cell(row, family, "a/30/Put", a));
      if (row % 10 == 0) {
        acts.add(new Delete(key).addColumns(name, Bytes.toBytes("b"), 21));
        cells.add(cell(row, family, "b/21/DeleteColumn", ""));
      }
    }
    return cells;
  }

  /** The cells that a major compaction of the two flushes keeps. */
  private static List<String> compacted(String family, int rows) {
    List<String> cells = new ArrayList<>();
    for (int row = 0; row < rows; row++) {
      boolean later = row >= rows / 3;
      boolean familyGone = later && row % 50 == 0;
      if (later) {
        cells.add(cell(row, family, "a/30/Put", value(family, row, "newer a")));
      }
      if (!familyGone) {
        cells.add(cell(row, family, "a/10/Put", value(family, row, "a")));
      }
      if (row % 2 == 0 && !(later && row % 10 == 0)) {
        cells.add(cell(row, family, "b/20/Put", "b"));
      }
      if (row % 100 == 0) {
        cells.add(cell(row, family, "t/" + (Long.MAX_VALUE - 1) + "/Put", "") + " tagged");
      }
    }
    return cells;
  }

  private static int rows(String family) {
    return family.equals("deep") ? 4_200 : ROWS;
  }

  private interface Round {
    List<String> of(String family, int rows, List<Row> acts);
  }

  private static List<String> names() {
    return families().stream().map(ColumnFamilyDescriptor::getNameAsString)
        .filter(name -> !name.equals("gone") && !name.equals("stripes")).collect(Collectors.toList());
  }

  private void write(Round round) throws Exception {
    try (Table table = connection.getTable(TABLE)) {
      for (String family : names()) {
        List<Row> acts = new ArrayList<>();
        round.of(family, rows(family), acts);
        table.batch(acts, new Object[acts.size()]);
      }
    }
  }

  /** Returns the files of a family, oldest first. */
  private List<Path> files(String family) throws Exception {
    try (Stream<Path> files = Files.list(store.resolve(family))) {
      return files.filter(path -> path.getFileName().toString().matches("[0-9a-f]{32}"))
          .sorted(Comparator.comparingLong(path -> path.toFile().lastModified())).collect(Collectors.toList());
    }
  }

  private void run() throws Exception {
    byte[] gone = Bytes.toBytes("gone");
    write(HFiles::first);
    try (Table table = connection.getTable(TABLE)) {
      table.put(new Put(Bytes.toBytes("row")).addColumn(gone, gone, 5, gone));
      for (String row : STRIPE_ROWS) {
        table.put(new Put(Bytes.toBytes(row)).addColumn(STRIPES, STRIPES, 5, STRIPES));
      }
      admin.flush(TABLE);
      verifyStripes();
      // The content of one file need not be searched in two.
      for (String family : names()) {
        List<Path> files = files(family);
        same(1, files.size(), family + " has files");
        verify(family, files.get(0), first(family, rows(family), new ArrayList<>()), false);
      }
      List<Path> before = new ArrayList<>();
      for (String family : names()) {
        before.addAll(files(family));
      }
      write(HFiles::second);
      table.delete(new Delete(Bytes.toBytes("row")).addFamily(gone));
      admin.flush(TABLE);
      for (String family : names()) {
        List<Path> files = files(family);
        files.removeAll(before);
        same(1, files.size(), family + " has new files");
        verify(family, files.get(0), second(family, rows(family), new ArrayList<>()), false);
      }
    }
    admin.majorCompact(TABLE);
    long end = System.nanoTime() + PATIENCE_NANOS;
    List<String> all = new ArrayList<>(names());
    all.add("gone");
    for (String family : all) {
      while (files(family).size() != 1) {
        if (System.nanoTime() > end) {
          throw new AssertionError(family + " is not compacted: " + files(family));
        }
        // Each check is a call, so the loop needs no pause.
        admin.getCompactionState(TABLE);
      }
    }
    for (String family : names()) {
      verify(family, files(family).get(0), compacted(family, rows(family)), true);
    }
    FileCheck empty = new FileCheck(local, files("gone").get(0), true);
    empty.fact("entryCount", 0);
    empty.check(empty.cells.isEmpty(), "cells that are gone");
    System.out.println("HBase's reader finds every cell in " + (3 * names().size()) + " files, and none in the empty one");
  }

  /** Each row is a stripe of its own, and HBase's reader finds the stripes in what the files say. */
  private void verifyStripes() throws Exception {
    List<String> said = new ArrayList<>();
    FileSystem files = FileSystem.getLocal(local);
    for (Path path : files("stripes")) {
      org.apache.hadoop.fs.Path file = new org.apache.hadoop.fs.Path(path.toUri());
      try (HFile.Reader reader = HFile.createReader(files, file, CacheConfig.DISABLED, true, local)) {
        same(1L, reader.getEntries(), path + " has cells");
        HFileInfo info = reader.getHFileInfo();
        said.add(
            Bytes.toString(info.get(StripeStoreFileManager.STRIPE_START_KEY)) + ".."
                + Bytes.toString(info.get(StripeStoreFileManager.STRIPE_END_KEY)));
      }
    }
    Collections.sort(said);
    same(List.of("..m", "m..t", "t.."), said, "stripes");
  }

  private static void same(Object expected, Object found, String what) {
    if (!expected.equals(found)) {
      throw new AssertionError(what + ": " + found + ", expected " + expected);
    }
  }

  private void verify(String family, Path path, List<String> expected, boolean major) throws Exception {
    FileCheck file = new FileCheck(local, path, false);
    for (int at = 0; at < Math.min(expected.size(), file.cells.size()); at++) {
      file.check(
          expected.get(at).equals(file.cells.get(at)),
          "cell " + at + " is " + file.cells.get(at) + ", expected " + expected.get(at));
    }
    file.check(expected.size() == file.cells.size(), file.cells.size() + " cells, expected " + expected.size());
    file.fact("entryCount", expected.size());
    file.fact("majorVersion", 3);
    file.fact("MAJOR_COMPACTION_KEY", major);
    file.fact("DELETE_FAMILY_COUNT", expected.stream().filter(cell -> cell.contains("/DeleteFamily ")).count());
    ColumnFamilyDescriptor asked =
        families().stream().filter(one -> one.getNameAsString().equals(family)).findFirst().orElseThrow();
    file.fact("compression", asked.getCompressionType().getName());
    if (asked.getDataBlockEncoding() != DataBlockEncoding.NONE) {
      file.fact("DATA_BLOCK_ENCODING", asked.getDataBlockEncoding());
    }
    if (family.equals("deep") && expected.size() > 4_000) {
      file.fact("numDataIndexLevels", 2);
    }
    file.blooms(asked.getBloomFilterType());
    same(0L, FileCheck.wrongChecksums(local, path), path + ": wrong checksums");
    // Checksums cover the compressed bytes, whatever the compression. Hadoop's decompressors come from a pool, and one
    // that has read a wrong byte fails on the next file, too.
    if (asked.getCompressionType() == Compression.Algorithm.NONE) {
      Path copy = store.getParent().resolve("wrong-byte");
      file.aWrongByteIsFound(copy);
      Files.delete(copy);
    }
  }
}
