import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellBuilderFactory;
import org.apache.hadoop.hbase.CellBuilderType;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.PrivateCellUtil;
import org.apache.hadoop.hbase.fs.HFileSystem;
import org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hadoop.hbase.io.hfile.CompoundBloomFilter;
import org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hadoop.hbase.io.hfile.HFilePrettyPrinter;
import org.apache.hadoop.hbase.io.hfile.HFileScanner;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.regionserver.HStoreFile;
import org.apache.hadoop.hbase.util.BloomFilter;
import org.apache.hadoop.hbase.util.BloomFilterFactory;
import org.apache.hadoop.hbase.util.Bytes;

/** Checks one HFile with HBase's own classes. */
final class FileCheck {
  private static final Pattern CELL = Pattern.compile("K: (.+)/vlen=(\\d+)/seqid=\\d+ V: (.*?)( T\\[\\d.*)?");
  private static final Pattern NAMED = Pattern.compile("([A-Za-z_]+)(?:=| = )(.*?),?");

  private final Configuration configuration;
  private final Path file;
  private final boolean empty;

  /** `row/family:qualifier/timestamp/type value`, in the file's order; `tagged` is added to those with tags. */
  final List<String> cells = new ArrayList<>();

  /** The tool's output about the file: reader, trailer, file info. */
  final Map<String, String> facts = new TreeMap<>();

  private String output = "";

  /** For an `empty` file the tool prints no block headers and no middle key. */
  FileCheck(Configuration configuration, Path file, boolean empty) throws Exception {
    this.configuration = configuration;
    this.file = file;
    this.empty = empty;
    read();
  }

  /** Runs HFilePrettyPrinter with all its checks; any complaint is a failure. */
  private void read() throws Exception {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    HFilePrettyPrinter printer = new HFilePrettyPrinter(new Configuration(configuration));
    printer.setPrintStreams(new PrintStream(out, true), new PrintStream(err, true));
    List<String> words = new ArrayList<>(List.of("-m", "-v", "-b", "-s", "-k", "-a", "-p", "-f", file.toString()));
    if (!empty) {
      words.add(0, "-h");
    }
    int code = printer.run(words.toArray(String[]::new));
    output = out.toString(StandardCharsets.UTF_8);
    check(code == 0, "the tool ends with " + code);
    check(err.size() == 0, "the tool complains: " + err);
    check(output.contains("Unable to retrieve") == empty, "a middle key is found, or is not");
    for (String line : output.split("\n")) {
      Matcher cell = CELL.matcher(line);
      Matcher named = NAMED.matcher(line.trim());
      if (cell.matches()) {
        cells.add(cell.group(1) + " " + cell.group(3) + (cell.group(4) == null ? "" : " tagged"));
      } else if (line.startsWith("K: ")) {
        check(false, "an unknown cell: " + line);
      } else if (named.matches()) {
        facts.putIfAbsent(named.group(1), named.group(2));
      }
    }
    check(output.contains("Scanned kv count -> " + cells.size()), "the tool's count is not " + cells.size());
    check(output.contains("Block Headers:\n") != empty, "block headers are there, or are not");
  }

  void check(boolean well, String what) {
    if (!well) {
      throw new AssertionError(file + ": " + what + (output.length() < 4_000 ? "\n" + output : ""));
    }
  }

  void fact(String name, Object expected) {
    check(String.valueOf(expected).equals(facts.get(name)), name + " is " + facts.get(name) + ", expected " + expected);
  }

  /** Verifies the checksums of blocks with HBase's reader; returns the number of wrong ones. */
  static long wrongChecksums(Configuration configuration, Path file) throws IOException {
    HFile.getAndResetChecksumFailuresCount();
    FileSystem verifying = new HFileSystem(configuration, true);
    try (HFile.Reader reader =
        HFile.createReader(
            verifying, new org.apache.hadoop.fs.Path(file.toUri()), CacheConfig.DISABLED, true, configuration)) {
      HFileScanner scanner = reader.getScanner(configuration, false, true, false);
      if (scanner.seekTo()) {
        while (scanner.next()) {
          // Each block is read on the way.
        }
      }
    }
    return HFile.getAndResetChecksumFailuresCount();
  }

  /** Checks that a wrong byte is detected, so that a clean result means something. */
  void aWrongByteIsFound(Path copy) throws IOException {
    byte[] bytes = Files.readAllBytes(file);
    bytes[100] ^= 1;
    Files.write(copy, bytes);
    long wrong;
    try {
      wrong = wrongChecksums(configuration, copy);
    } catch (IOException | RuntimeException unreadable) {
      wrong = HFile.getAndResetChecksumFailuresCount();
    }
    check(wrong > 0, "a wrong byte is not found");
  }

  /** Length of the prefix that a Bloom filter of prefixes has, in bytes. */
  static final int PREFIX = 8;

  /** Checks that the Bloom filter admits every cell's row, prefix, or row and column, and few absent ones. */
  void blooms(BloomType type) throws IOException {
    FileSystem local = FileSystem.getLocal(configuration);
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(file.toUri());
    try (HFile.Reader reader = HFile.createReader(local, path, CacheConfig.DISABLED, true, configuration)) {
      if (type == BloomType.NONE) {
        check(reader.getGeneralBloomFilterMetadata() == null, "a bloom that was not asked for");
        return;
      }
      check(type.name().equals(facts.get("BLOOM_FILTER_TYPE")), "the bloom is " + facts.get("BLOOM_FILTER_TYPE"));
      if (type == BloomType.ROWPREFIX_FIXED_LENGTH) {
        byte[] length = reader.getHFileInfo().get(HStoreFile.BLOOM_FILTER_PARAM_KEY);
        check(length != null && Bytes.toInt(length) == PREFIX, "the length of prefixes is not " + PREFIX);
      }
      BloomFilter bloom = BloomFilterFactory.createFromMeta(reader.getGeneralBloomFilterMetadata(), reader);
      int wrong = 0;
      int count = 0;
      HFileScanner scanner = reader.getScanner(configuration, false, true, false);
      for (boolean more = scanner.seekTo(); more; more = scanner.next()) {
        Cell cell = scanner.getCell();
        boolean family = cell.getType() == Cell.Type.DeleteFamily;
        check(family && type == BloomType.ROWCOL || contains(bloom, cell, type), "the bloom misses " + cell);
        byte[] own = CellUtil.cloneRow(cell);
        // A filter of prefixes admits an absent row with the same prefix.
        byte[] row =
            type == BloomType.ROWPREFIX_FIXED_LENGTH
                ? Bytes.toBytes(String.format("s%07d", count))
                : Bytes.add(own, new byte[] {'?'});
        byte[] column = CellUtil.cloneQualifier(cell);
        Cell absent = PrivateCellUtil.createFirstOnRowCol(
            CellBuilderFactory.create(CellBuilderType.SHALLOW_COPY)
                .setRow(row).setFamily(CellUtil.cloneFamily(cell)).setQualifier(column).setTimestamp(1)
                .setType(Cell.Type.Put).setValue(new byte[0]).build());
        wrong += contains(bloom, absent, type) ? 1 : 0;
        count++;
      }
      // Bloom filters are built for one false positive in a hundred.
      check(wrong * 20 <= count, "the bloom is wrong for " + wrong + " of " + count);
    }
  }

  private static boolean contains(BloomFilter bloom, Cell cell, BloomType type) {
    CompoundBloomFilter compound = (CompoundBloomFilter) bloom;
    if (type == BloomType.ROWPREFIX_FIXED_LENGTH) {
      return compound.contains(
          cell.getRowArray(), cell.getRowOffset(), Math.min(PREFIX, cell.getRowLength()), null);
    }
    return type == BloomType.ROW
        ? compound.contains(cell.getRowArray(), cell.getRowOffset(), cell.getRowLength(), null)
        : compound.contains(cell, null, type);
  }
}
