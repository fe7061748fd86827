/**
 * Runs every test in every way of connecting: `Suite WAY[,WAY...] [TEXT]`. A way is `zk` or `rpc` (the registry), alone or
 * with `-protobuf` (no cell blocks), `-gzip` (compressed cell blocks) or `-tags` (the codec with tags). With TEXT only tests
 * whose name contains it run, and each one says how long it took. The exit code says whether all went well.
 */
public final class Suite {
  private static final Class<?>[] TESTS = {TableTest.class};

  public static void main(String[] args) throws Exception {
    boolean well = true;
    for (String way : args[0].split(",")) {
      Server.connect(way);
      well &= Teller.run(way, args.length > 1 ? args[1] : "", TESTS);
      Server.close();
    }
    System.exit(well ? 0 : 1);
  }
}
