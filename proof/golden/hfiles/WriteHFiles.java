import java.io.BufferedWriter;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.ArrayBackedTag;
import org.apache.hadoop.hbase.CellComparator;
import org.apache.hadoop.hbase.CellComparatorImpl;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.ExtendedCell;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.MetaCellComparator;
import org.apache.hadoop.hbase.PrivateCellUtil;
import org.apache.hadoop.hbase.Tag;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hadoop.hbase.io.hfile.FixedFileTrailer;
import org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hadoop.hbase.io.hfile.HFileContext;
import org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;
import org.apache.hadoop.hbase.io.hfile.HFileScanner;
import org.apache.hadoop.hbase.nio.ByteBuff;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.regionserver.StoreFileWriter;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.ChecksumType;
import org.apache.hadoop.io.BytesWritable;

/**
 * Writes the HFiles of this folder with Apache HBase's own store-file writer, and beside each one a text of what HBase's
 * own reader finds in it. The files are the same at every run: cells and times come from fixed seeds.
 *
 * <p>Argument: the folder to write into. README.md says what the lines of a text mean.
 */
public final class WriteHFiles {
  private static final long BORN = 1_700_000_000_000L;

  private final File folder;
  private final Configuration conf = HBaseConfiguration.create();
  private final FileSystem files;

  private WriteHFiles(File folder) throws Exception {
    this.folder = folder;
    conf.set("fs.defaultFS", "file:///");
    files = FileSystem.getLocal(conf).getRaw();
  }

  /** The options of one file. */
  private static final class Recipe {
    Compression.Algorithm compression = Compression.Algorithm.NONE;
    DataBlockEncoding encoding = DataBlockEncoding.NONE;
    ChecksumType checksum = ChecksumType.CRC32C;
    BloomType bloom = BloomType.ROW;
    CellComparator comparator = CellComparatorImpl.COMPARATOR;
    boolean mvcc = true;
    boolean tags = false;
    boolean compressTags = false;
    boolean major = false;
    int blockBytes = 1024;
    int indexChunkBytes = 128 * 1024;
    int bloomChunkBytes = 128 * 1024;
  }

  public static void main(String[] args) throws Exception {
    WriteHFiles w = new WriteHFiles(new File(args[0]));
    for (Compression.Algorithm compression :
        List.of(
            Compression.Algorithm.NONE,
            Compression.Algorithm.GZ,
            Compression.Algorithm.SNAPPY,
            Compression.Algorithm.LZ4,
            Compression.Algorithm.ZSTD)) {
      for (DataBlockEncoding encoding : List.of(DataBlockEncoding.NONE, DataBlockEncoding.ROW_INDEX_V1)) {
        for (boolean tags : new boolean[] {false, true}) {
          Recipe r = new Recipe();
          r.compression = compression;
          r.encoding = encoding;
          r.tags = tags;
          String name = compression.getName() + "-" + (encoding == DataBlockEncoding.NONE ? "plain" : "rowindex");
          w.write(name + (tags ? "-tags" : ""), r, table(40, 4, tags, true, 7));
        }
      }
    }
    Recipe r = new Recipe();
    r.mvcc = false;
    w.write("without-mvcc", r, table(40, 4, false, false, 8));
    r = new Recipe();
    w.write("mvcc-all-zero", r, table(40, 4, false, false, 9));
    r = new Recipe();
    r.mvcc = false;
    r.tags = true;
    w.write("tags-without-mvcc", r, table(40, 4, true, false, 10));
    r = new Recipe();
    r.encoding = DataBlockEncoding.ROW_INDEX_V1;
    r.mvcc = false;
    w.write("rowindex-without-mvcc", r, table(40, 4, false, false, 11));

    r = new Recipe();
    r.indexChunkBytes = 256;
    r.blockBytes = 256;
    r.bloomChunkBytes = 64;
    w.write("deep-index-row-bloom", r, table(150, 2, false, true, 12));
    r.bloom = BloomType.ROWCOL;
    w.write("deep-index-rowcol-bloom", r, table(150, 2, false, true, 13));
    r.compression = Compression.Algorithm.GZ;
    w.write("deep-index-gz", r, table(150, 2, false, true, 14));

    for (ChecksumType type : ChecksumType.values()) {
      r = new Recipe();
      r.checksum = type;
      w.write("checksum-" + type.getName().toLowerCase(), r, table(20, 3, false, true, 15));
    }
    r = new Recipe();
    r.bloom = BloomType.NONE;
    w.write("no-bloom", r, table(20, 3, false, true, 16));
    r = new Recipe();
    r.blockBytes = 64 * 1024;
    w.write("one-block", r, table(20, 3, false, true, 17));
    r = new Recipe();
    w.write("deletes", r, deletes());
    r = new Recipe();
    r.bloom = BloomType.ROWCOL;
    r.major = true;
    w.write("deletes-rowcol-major", r, deletes());
    r = new Recipe();
    w.write("empty", r, new ArrayList<>());
    r = new Recipe();
    w.write("large-cell", r, largeCell());
    r = new Recipe();
    r.comparator = MetaCellComparator.META_COMPARATOR;
    r.bloom = BloomType.NONE;
    r.encoding = DataBlockEncoding.ROW_INDEX_V1;
    w.write("meta-comparator", r, catalog());
    for (DataBlockEncoding encoding :
        List.of(DataBlockEncoding.PREFIX, DataBlockEncoding.DIFF, DataBlockEncoding.FAST_DIFF)) {
      for (boolean tags : new boolean[] {false, true}) {
        r = new Recipe();
        r.encoding = encoding;
        r.tags = tags;
        r.compressTags = tags;
        String name = "encoding-" + encoding.name().toLowerCase().replace('_', '-') + (tags ? "-tags" : "");
        w.write(name, r, table(40, 4, tags, true, 18));
      }
    }
    w.writeWithMetaBlocks(
        "meta-blocks", table(10, 2, false, true, 19), Map.of("pear", Bytes.toBytes("a meta block")));
  }

  /** Rows of several columns and versions; values repeat enough to be worth compressing. */
  private static List<KeyValue> table(int rows, int columns, boolean tags, boolean mvcc, long seed) {
    Random random = new Random(seed);
    List<KeyValue> cells = new ArrayList<>();
    for (int row = 0; row < rows; row++) {
      byte[] key = Bytes.toBytes(String.format("row-%05d", row * 3));
      for (int column = 0; column < columns; column++) {
        int versions = 1 + random.nextInt(2);
        for (int version = 0; version < versions; version++) {
          byte[] value = Bytes.toBytes("value ".repeat(random.nextInt(6)) + random.nextInt(1000));
          List<Tag> list = new ArrayList<>();
          if (tags && random.nextInt(3) > 0) {
            list.add(new ArrayBackedTag((byte) 8, Bytes.toBytes(86_400_000L * (1 + random.nextInt(3)))));
            if (random.nextBoolean()) {
              list.add(new ArrayBackedTag((byte) 70, Bytes.toBytes("mark" + random.nextInt(4))));
            }
          }
          KeyValue cell =
              new KeyValue(
                  key,
                  Bytes.toBytes("f"),
                  column == 0 ? new byte[0] : Bytes.toBytes("column" + column),
                  BORN - version * 1000L - random.nextInt(1000),
                  KeyValue.Type.Put,
                  value,
                  list);
          cell.setSequenceId(mvcc ? 1 + random.nextInt(100_000) : 0);
          cells.add(cell);
        }
      }
    }
    return cells;
  }

  /** Every kind of delete marker beside the puts that it masks, and rows with markers only. */
  private static List<KeyValue> deletes() {
    List<KeyValue> cells = new ArrayList<>();
    byte[] family = Bytes.toBytes("f");
    long sequence = 10;
    for (int row = 0; row < 30; row++) {
      byte[] key = Bytes.toBytes(String.format("row-%05d", row));
      byte[] column = Bytes.toBytes("q");
      switch (row % 5) {
        case 0:
          cells.add(new KeyValue(key, family, null, BORN, KeyValue.Type.DeleteFamily));
          break;
        case 1:
          cells.add(new KeyValue(key, family, null, BORN, KeyValue.Type.DeleteFamilyVersion));
          break;
        case 2:
          cells.add(new KeyValue(key, family, column, BORN, KeyValue.Type.DeleteColumn));
          break;
        case 3:
          cells.add(new KeyValue(key, family, column, BORN, KeyValue.Type.Delete));
          break;
        default:
      }
      if (row % 2 == 0) {
        cells.add(new KeyValue(key, family, column, BORN, KeyValue.Type.Put, Bytes.toBytes("hidden")));
        cells.add(new KeyValue(key, family, column, BORN - 5, KeyValue.Type.Put, Bytes.toBytes("older")));
      }
    }
    for (KeyValue cell : cells) {
      cell.setSequenceId(sequence++);
    }
    return cells;
  }

  /** A cell many times the size of a block, between small ones. */
  private static List<KeyValue> largeCell() {
    List<KeyValue> cells = new ArrayList<>();
    byte[] large = new byte[12_000];
    new Random(20).nextBytes(large);
    for (int row = 0; row < 5; row++) {
      byte[] value = row == 2 ? large : Bytes.toBytes("small");
      KeyValue cell =
          new KeyValue(Bytes.toBytes("row-" + row), Bytes.toBytes("f"), Bytes.toBytes("q"), BORN, value);
      cell.setSequenceId(row + 1);
      cells.add(cell);
    }
    return cells;
  }

  /** Rows whose order is that of hbase:meta: table, then start key, then region id. */
  private static List<KeyValue> catalog() {
    List<KeyValue> cells = new ArrayList<>();
    List<String> rows = new ArrayList<>();
    for (String table : List.of("a", "a-b", "a.b", "ab", "ns:t")) {
      rows.add(table);
      for (String start : List.of("", "!", "a,b", "m", "z")) {
        rows.add(table + "," + start + ",1700000000000." + "0123456789abcdef".repeat(2) + ".");
        rows.add(table + "," + start + ",1700000000001." + "fedcba9876543210".repeat(2) + ".");
      }
    }
    for (String row : rows) {
      boolean state = !row.contains(",");
      cells.add(
          new KeyValue(
              Bytes.toBytes(row),
              Bytes.toBytes(state ? "table" : "info"),
              Bytes.toBytes(state ? "state" : "server"),
              BORN,
              Bytes.toBytes(state ? "\b\0" : "localhost:16020")));
    }
    cells.sort(MetaCellComparator.META_COMPARATOR);
    long sequence = 1;
    for (KeyValue cell : cells) {
      cell.setSequenceId(sequence++);
    }
    return cells;
  }

  private void write(String name, Recipe recipe, List<KeyValue> cells) throws Exception {
    conf.setInt("hfile.index.block.max.size", recipe.indexChunkBytes);
    conf.setInt("hfile.index.block.min.entries", 2);
    conf.setInt("io.storefile.bloom.block.size", recipe.bloomChunkBytes);
    cells.sort(recipe.comparator);
    HFileContext context =
        new HFileContextBuilder()
            .withBlockSize(recipe.blockBytes)
            .withCompression(recipe.compression)
            .withDataBlockEncoding(recipe.encoding)
            .withChecksumType(recipe.checksum)
            .withBytesPerCheckSum(16 * 1024)
            .withIncludesMvcc(recipe.mvcc)
            .withIncludesTags(recipe.tags)
            .withCompressTags(recipe.compressTags)
            .withCellComparator(recipe.comparator)
            .withCreateTime(BORN)
            .build();
    Path path = new Path(new File(folder, name + ".hfile").toURI());
    files.delete(path, false);
    StoreFileWriter writer =
        new StoreFileWriter.Builder(conf, new CacheConfig(conf), files)
            .withFilePath(path)
            .withFileContext(context)
            .withBloomType(recipe.bloom)
            .withMaxKeyCount(Math.max(cells.size(), 1))
            .build();
    for (KeyValue cell : cells) {
      writer.append(cell);
    }
    writer.appendMetadata(4711, recipe.major);
    writer.close();
    describe(path, new File(folder, name + ".txt"), Collections.emptyMap());
  }

  /** Store files have no meta blocks today, so this one is a bare HFile. */
  private void writeWithMetaBlocks(String name, List<KeyValue> cells, Map<String, byte[]> blocks) throws Exception {
    Path path = new Path(new File(folder, name + ".hfile").toURI());
    files.delete(path, false);
    HFileContext context =
        new HFileContextBuilder().withBlockSize(1024).withIncludesMvcc(true).withCreateTime(BORN).build();
    try (HFile.Writer writer =
        HFile.getWriterFactoryNoCache(conf).withPath(files, path).withFileContext(context).create()) {
      for (KeyValue cell : cells) {
        writer.append(cell);
      }
      for (Map.Entry<String, byte[]> block : blocks.entrySet()) {
        writer.appendMetaBlock(block.getKey(), new BytesWritable(block.getValue()));
      }
    }
    describe(path, new File(folder, name + ".txt"), blocks);
  }

  /** Writes the text of what HBase's reader finds. */
  private void describe(Path path, File text, Map<String, byte[]> metaBlocks) throws Exception {
    try (HFile.Reader reader = HFile.createReader(files, path, CacheConfig.DISABLED, true, conf);
        BufferedWriter out = Files.newBufferedWriter(text.toPath(), StandardCharsets.UTF_8)) {
      FixedFileTrailer trailer = reader.getTrailer();
      out.write("trailer version " + trailer.getMajorVersion() + "." + trailer.getMinorVersion() + "\n");
      out.write("trailer entry_count " + trailer.getEntryCount() + "\n");
      out.write("trailer data_index_count " + trailer.getDataIndexCount() + "\n");
      out.write("trailer data_index_levels " + trailer.getNumDataIndexLevels() + "\n");
      out.write("trailer meta_index_count " + trailer.getMetaIndexCount() + "\n");
      out.write("trailer total_uncompressed_bytes " + trailer.getTotalUncompressedBytes() + "\n");
      out.write("trailer first_data_block_offset " + trailer.getFirstDataBlockOffset() + "\n");
      out.write("trailer last_data_block_offset " + trailer.getLastDataBlockOffset() + "\n");
      out.write("trailer load_on_open_offset " + trailer.getLoadOnOpenDataOffset() + "\n");
      out.write("trailer file_info_offset " + trailer.getFileInfoOffset() + "\n");
      out.write("trailer compression " + trailer.getCompressionCodec().getName() + "\n");
      for (Map.Entry<byte[], byte[]> entry : reader.getHFileInfo().entrySet()) {
        out.write("info " + Bytes.toString(entry.getKey()) + " " + hex(entry.getValue()) + "\n");
      }
      for (String block : metaBlocks.keySet()) {
        ByteBuff found = reader.getMetaBlock(block, false).getBufferWithoutHeader();
        byte[] bytes = new byte[found.remaining()];
        found.get(bytes);
        out.write("meta " + block + " " + hex(bytes) + "\n");
      }
      HFileScanner scanner = reader.getScanner(conf, false, false);
      boolean more = scanner.seekTo();
      while (more) {
        ExtendedCell cell = (ExtendedCell) scanner.getCell();
        out.write("cell");
        for (byte[] part :
            new byte[][] {
              CellUtil.cloneRow(cell),
              CellUtil.cloneFamily(cell),
              CellUtil.cloneQualifier(cell)
            }) {
          out.write(" " + hex(part));
        }
        out.write(" " + cell.getTimestamp() + " " + (cell.getTypeByte() & 0xff) + " " + cell.getSequenceId());
        out.write(" " + hex(CellUtil.cloneValue(cell)));
        out.write(" " + hex(PrivateCellUtil.cloneTags(cell)) + "\n");
        more = scanner.next();
      }
    }
  }

  /** Formats bytes as hex digits, and no bytes as a dash, so that each field has a word. */
  private static String hex(byte[] bytes) {
    return bytes.length == 0 ? "-" : Bytes.toHex(bytes);
  }
}
