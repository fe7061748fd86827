import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Counts with the stock client: {@code Rows TABLE} prints "rows N cells M" of all its rows, {@code Rows TABLE FAMILY
 * QUALIFIER} prints "rows N sum S" of the counters in one column.
 */
public final class Rows {
  private Rows() {}

  /** Arguments: the table, or the table and a column of counters. */
  public static void main(String[] args) throws Exception {
    long rows = 0;
    long cells = 0;
    long sum = 0;
    boolean counters = args.length == 3;
    Scan scan = new Scan().setCaching(1000);
    if (counters) {
      scan.addColumn(Bytes.toBytes(args[1]), Bytes.toBytes(args[2]));
    } else {
      scan.setFilter(new KeyOnlyFilter());
    }
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Table table = connection.getTable(TableName.valueOf(args[0]));
        ResultScanner found = table.getScanner(scan)) {
      for (Result row : found) {
        rows++;
        cells += row.size();
        if (counters) {
          sum += Bytes.toLong(row.value());
        }
      }
    }
    System.out.println("rows " + rows + (counters ? " sum " + sum : " cells " + cells));
  }
}
