import java.util.Arrays;
import java.util.stream.Stream;

/**
 * Runs the tests in every way of connecting: `Suite WAY[,WAY...] [TEXT]`. A way is `zk` or `rpc` (the registry), alone or
 *  with `-protobuf` (no cell blocks), `-gzip` (compressed cell blocks) or `-tags` (the codec with tags). With TEXT only tests
 *  whose name contains it run, and the time of each is printed. The exit code is 0 if all passed.
 */
public final class Suite {
  /** Tests that depend on the encoding of cells. */
  private static final Class<?>[] CELLS = {TableTest.class, ScanTest.class};

  /** All tests; those not in CELLS run once for each registry. */
  private static final Class<?>[] ALL = {
    TableTest.class,
    ScanTest.class,
    HeartbeatTest.class,
    AdminTest.class,
    AsyncTest.class,
    BoundaryTest.class,
    HbckTest.class,
    SnapshotTest.class,
    TrackerTest.class,
    ErrorTest.class
  };

  /** Tests of calls that neither the registry nor the encoding changes; they run in the first way only. */
  private static final Class<?>[] ONCE = {EveryCallTest.class};

  public static void main(String[] args) throws Exception {
    boolean well = true;
    String[] ways = args[0].split(",");
    for (String way : ways) {
      Server.connect(way);
      Stream<Class<?>> tests = Arrays.stream(way.contains("-") ? CELLS : ALL);
      if (way.equals(ways[0])) {
        tests = Stream.concat(tests, Arrays.stream(ONCE));
      }
      well &= Teller.run(way, args.length > 1 ? args[1] : "", tests.toArray(Class<?>[]::new));
      Server.close();
    }
    System.exit(well ? 0 : 1);
  }
}
