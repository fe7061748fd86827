import java.util.Arrays;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.Result;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 *  Runs tests and prints each failure, without frames of the test framework, and each test that took long. `Teller CLASS [TEXT]`
 *  runs the tests of a class whose name contains TEXT. The exit code is 0 if all passed.
 */
public final class Teller extends RunListener {
  private final String name;
  private final long longMillis;
  private long started;

  private Teller(String name, long longMillis) {
    this.name = name;
    this.longMillis = longMillis;
  }

  public static void main(String[] args) throws Exception {
    boolean well = run(args[0], args.length > 1 ? args[1] : "", Class.forName(args[0]));
    System.exit(well ? 0 : 1);
  }

  /**
   * Returns whether at least one test has a name that contains `text`, and all of those passed. With a text, prints each
   * time.
   */
  static boolean run(String name, String text, Class<?>... classes) {
    JUnitCore core = new JUnitCore();
    core.addListener(new Teller(name, text.isEmpty() ? 3_000 : 0));
    Result result = core.run(Request.classes(classes).filterWith(containing(text)));
    if (result.getRunCount() == 0) {
      System.out.println("no test is called " + text);
    }
    System.out.printf(
        "%s: %d tests, %d failed, %d ms%n", name, result.getRunCount(), result.getFailureCount(), result.getRunTime());
    return result.getRunCount() > 0 && result.wasSuccessful();
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

  @Override
  public void testStarted(Description description) {
    started = System.nanoTime();
  }

  @Override
  public void testFailure(Failure failure) {
    System.out.println("FAILED " + name + " " + failure.getDescription().getDisplayName());
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
      System.out.println(name + " " + description.getDisplayName() + " took " + millis + " ms");
    }
  }
}
