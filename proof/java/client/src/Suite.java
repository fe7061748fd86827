import java.util.Arrays;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.Result;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs every test in every way of connecting: `Suite WAY[,WAY...] [TEXT]`. A way is `zk` or `rpc` (the registry), alone or
 * with `-protobuf` (no cell blocks), `-gzip` (compressed cell blocks) or `-tags` (the codec with tags). With TEXT only tests
 * whose name contains it run, and each one says how long it took. The exit code says whether all went well.
 */
public final class Suite {
  private static final Class<?>[] TESTS = {TableTest.class};

  public static void main(String[] args) throws Exception {
    String text = args.length > 1 ? args[1] : "";
    int failed = 0;
    for (String way : args[0].split(",")) {
      Server.connect(way);
      JUnitCore core = new JUnitCore();
      core.addListener(new Teller(way, text.isEmpty() ? 3_000 : 0));
      Result result = core.run(Request.classes(TESTS).filterWith(containing(text)));
      Server.close();
      failed += result.getFailureCount();
      if (result.getRunCount() == 0) {
        failed++;
        System.out.println("no test is called " + text);
      }
      System.out.printf(
          "%s: %d tests, %d failed, %d ms%n", way, result.getRunCount(), result.getFailureCount(), result.getRunTime());
    }
    System.exit(failed == 0 ? 0 : 1);
  }

  private static Filter containing(String text) {
    return new Filter() {
      @Override
      public boolean shouldRun(Description description) {
        return description.isTest()
            ? description.getDisplayName().contains(text)
            : description.getChildren().stream().anyMatch(this::shouldRun);
      }

      @Override
      public String describe() {
        return "containing " + text;
      }
    };
  }

  /** Tells of each failure whole, and of each test that took long. */
  private static final class Teller extends RunListener {
    private final String way;
    private final long longMillis;
    private long started;

    Teller(String way, long longMillis) {
      this.way = way;
      this.longMillis = longMillis;
    }

    @Override
    public void testStarted(Description description) {
      started = System.nanoTime();
    }

    @Override
    public void testFailure(Failure failure) {
      System.out.println("FAILED " + way + " " + failure.getDescription().getDisplayName());
      for (Throwable cause = failure.getException(); cause != null; cause = cause.getCause()) {
        String text = String.valueOf(cause);
        System.out.println("    " + text.substring(0, Math.min(text.length(), 600)));
        Arrays.stream(cause.getStackTrace())
            .filter(frame -> frame.getModuleName() == null && !frame.getClassName().contains("."))
            .limit(4)
            .forEach(frame -> System.out.println("        at " + frame));
      }
    }

    @Override
    public void testFinished(Description description) {
      long millis = (System.nanoTime() - started) / 1_000_000;
      if (millis >= longMillis) {
        System.out.println(way + " " + description.getDisplayName() + " took " + millis + " ms");
      }
    }
  }
}
