import java.io.IOException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.BufferedMutator;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Rows that are written through one server, changed through another, and checked cell by cell through any:
 * {@code Door write|change|check|check-changed HOST:PORT ROWS}. A table of 20 regions has a family for each encoding; two of them
 * have MOB files, one has stripes, and two name a store file tracker. The change names other trackers for three.
 */
final class Door {
  private static final TableName TABLE = TableName.valueOf("door");
  /** A table that was cloned from the snapshot of the first half. */
  private static final TableName COPY = TableName.valueOf("door-copy");
  private static final String SNAPSHOT = "door-half";
  private static final int REGIONS = 20;
  private static final DataBlockEncoding[] ENCODINGS = {
    DataBlockEncoding.NONE, DataBlockEncoding.PREFIX, DataBlockEncoding.DIFF, DataBlockEncoding.FAST_DIFF,
    DataBlockEncoding.ROW_INDEX_V1,
  };
  private static final Compression.Algorithm[] CODECS = {
    Compression.Algorithm.NONE, Compression.Algorithm.GZ, Compression.Algorithm.SNAPPY, Compression.Algorithm.ZSTD,
    Compression.Algorithm.LZ4,
  };
  private static final BloomType[] BLOOMS = {BloomType.ROW, BloomType.ROWCOL, BloomType.NONE, BloomType.ROW, BloomType.ROWCOL};
  /** Families whose values above the threshold are in MOB files. */
  private static final boolean[] MOB = {false, true, false, false, true};
  private static final int MOB_THRESHOLD = 40;
  /** The family whose files are in stripes, and their number at first. */
  private static final int STRIPED = 2;
  private static final int STRIPES = 3;
  /** The store file trackers that families name at first, and those that the change gives them; others have the site's. */
  private static final String[] TRACKERS = {null, "FILE", null, null, "DEFAULT"};
  private static final String[] CHANGED_TRACKERS = {"FILE", null, "DEFAULT", null, "FILE"};
  private static final byte[] QUALIFIER = Bytes.toBytes("q");

  private final Connection connection;
  private final Admin admin;
  private final int rows;

  private Door(Connection connection, Admin admin, int rows) {
    this.connection = connection;
    this.admin = admin;
    this.rows = rows;
  }

  public static void main(String[] words) throws Exception {
    Configuration conf = HBaseConfiguration.create();
    conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.RpcConnectionRegistry");
    conf.set("hbase.client.bootstrap.servers", words[1]);
    try (Connection connection = ConnectionFactory.createConnection(conf);
        Admin admin = connection.getAdmin()) {
      Door door = new Door(connection, admin, Integer.parseInt(words[2]));
      switch (words[0]) {
        case "write" -> door.write();
        case "change" -> door.change();
        case "check" -> door.check(TABLE, door.rows, false);
        case "check-changed" -> {
          door.check(TABLE, door.rows, true);
          door.check(COPY, door.rows / 2, false);
        }
        default -> throw new IllegalArgumentException(words[0]);
      }
    }
  }

  private static byte[] row(int number) {
    return Bytes.toBytes(String.format("%08d", number));
  }

  private static byte[] family(int index) {
    return Bytes.toBytes(ENCODINGS[index].name().toLowerCase());
  }

  private static byte[] value(int number, int family, int generation) {
    return Bytes.toBytes((number + "/" + family + "/" + generation + " ").repeat(1 + number % 9));
  }

  private static boolean isRewritten(int number) {
    return number % 3 == 0;
  }

  private static boolean isDeleted(int number) {
    return number % 7 == 0;
  }

  private static Put put(int number, int generation) {
    Put put = new Put(row(number));
    for (int family = 0; family < ENCODINGS.length; family++) {
      put.addColumn(family(family), QUALIFIER, value(number, family, generation));
    }
    return put;
  }

  private void write() throws IOException {
    TableDescriptorBuilder table = TableDescriptorBuilder.newBuilder(TABLE);
    for (int family = 0; family < ENCODINGS.length; family++) {
      ColumnFamilyDescriptorBuilder of =
          ColumnFamilyDescriptorBuilder.newBuilder(family(family))
              .setDataBlockEncoding(ENCODINGS[family])
              .setCompressionType(CODECS[family])
              .setBloomFilterType(BLOOMS[family])
              .setMobEnabled(MOB[family])
              .setMobThreshold(MOB_THRESHOLD);
      if (family == STRIPED) {
        of.setConfiguration("hbase.hstore.engine.class", "org.apache.hadoop.hbase.regionserver.StripeStoreEngine")
            .setConfiguration("hbase.store.stripe.initialStripeCount", String.valueOf(STRIPES))
            .setConfiguration("hbase.store.stripe.compaction.minFiles", "2");
      }
      if (TRACKERS[family] != null) {
        of.setConfiguration("hbase.store.file-tracker.impl", TRACKERS[family]);
      }
      table.setColumnFamily(of.build());
    }
    byte[][] splits = new byte[REGIONS - 1][];
    for (int region = 1; region < REGIONS; region++) {
      splits[region - 1] = row((int) ((long) rows * region / REGIONS));
    }
    admin.createTable(table.build(), splits);
    putAll(0, rows / 2);
    admin.flush(TABLE);
    admin.snapshot(SNAPSHOT, TABLE);
    putAll(rows / 2, rows);
  }

  private void putAll(int from, int to) throws IOException {
    try (BufferedMutator mutator = connection.getBufferedMutator(TABLE)) {
      for (int number = from; number < to; number++) {
        mutator.mutate(put(number, 0));
      }
    }
  }

  private void change() throws Exception {
    try (BufferedMutator mutator = connection.getBufferedMutator(TABLE)) {
      for (int number = 0; number < rows; number++) {
        if (isDeleted(number)) {
          mutator.mutate(new Delete(row(number)));
        } else if (isRewritten(number)) {
          mutator.mutate(put(number, 1));
        }
      }
    }
    admin.cloneSnapshot(SNAPSHOT, COPY);
    for (int family = 0; family < ENCODINGS.length; family++) {
      if (CHANGED_TRACKERS[family] != null) {
        admin.modifyColumnFamilyStoreFileTracker(TABLE, family(family), CHANGED_TRACKERS[family]);
      }
    }
    RegionInfo first = admin.getRegions(TABLE).get(0);
    admin.splitRegionAsync(first.getRegionName(), row(rows / REGIONS / 2)).get();
    List<RegionInfo> regions = admin.getRegions(TABLE);
    if (regions.size() != REGIONS + 1) {
      throw new AssertionError(regions.size() + " regions after a split of one of " + REGIONS);
    }
  }

  private void check(TableName name, int count, boolean isChanged) throws IOException {
    int number = 0;
    int found = 0;
    // Otherwise HBase reads and decompresses a block of a MOB file again for each value in it.
    Scan scan = new Scan().setCaching(1000).setAttribute("hbase.mob.cache.blocks", Bytes.toBytes(true));
    try (Table table = connection.getTable(name); ResultScanner scanner = table.getScanner(scan)) {
      for (Result result : scanner) {
        while (isChanged && isDeleted(number)) {
          number++;
        }
        check(name, number, result, isChanged && isRewritten(number) ? 1 : 0);
        number++;
        found++;
      }
    }
    while (isChanged && isDeleted(number)) {
      number++;
    }
    if (number != count) {
      throw new AssertionError(name + ": rows end at " + number + ", expected " + count);
    }
    System.out.println(name + ": " + found + " rows are as they should be");
  }

  private static void check(TableName name, int number, Result result, int generation) {
    if (!Bytes.equals(result.getRow(), row(number)) || result.size() != ENCODINGS.length) {
      throw new AssertionError(name + ": expected row " + number + ", found " + result);
    }
    for (int family = 0; family < ENCODINGS.length; family++) {
      byte[] value = result.getValue(family(family), QUALIFIER);
      if (!Bytes.equals(value, value(number, family, generation))) {
        throw new AssertionError(
            name + ": row " + number + ", family " + ENCODINGS[family] + ": " + Bytes.toStringBinary(value));
      }
    }
  }
}
