import java.util.Arrays;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/**
 * Creates a table for clients that cannot: `Tables NAME FAMILY=VERSIONS[,...] [SPLIT...]`. Deletes an existing one
 * first.
 */
public final class Tables {
  private Tables() {}

  public static void main(String[] args) throws Exception {
    TableName name = TableName.valueOf(args[0]);
    TableDescriptorBuilder table = TableDescriptorBuilder.newBuilder(name);
    for (String family : args[1].split(",")) {
      String[] words = family.split("=");
      table.setColumnFamily(
          ColumnFamilyDescriptorBuilder.newBuilder(Server.b(words[0])).setMaxVersions(Integer.parseInt(words[1])).build());
    }
    byte[][] splits = Arrays.stream(args).skip(2).map(Server::b).toArray(byte[][]::new);
    try (Connection connection = ConnectionFactory.createConnection(Server.configuration("rpc"));
        Admin admin = connection.getAdmin()) {
      if (admin.tableExists(name)) {
        admin.disableTable(name);
        admin.deleteTable(name);
      }
      admin.createTable(table.build(), splits.length == 0 ? null : splits);
    }
  }
}
