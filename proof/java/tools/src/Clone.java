import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/** Clones a snapshot with the stock client: {@code Clone SNAPSHOT TABLE}. */
public final class Clone {
  private Clone() {}

  /** Arguments: the snapshot, and the new table. */
  public static void main(String[] args) throws Exception {
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = connection.getAdmin()) {
      admin.cloneSnapshot(args[0], TableName.valueOf(args[1]));
    }
  }
}
