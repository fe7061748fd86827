import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.hbase.TableName;

/** Plays scripts on both sides at once and compares the answers. */
final class Runner {
  private static final AtomicInteger TABLES = new AtomicInteger();
  private static final long STARTED = System.nanoTime();

  private final List<Side> sides;
  private final ExecutorService threads;

  /** {@code threads} must have a thread for each side and runner. */
  Runner(List<Side> sides, ExecutorService threads) {
    this.sides = sides;
    this.threads = threads;
  }

  static TableName freshName() {
    return TableName.valueOf("diff-" + Long.toString(STARTED, 36) + "-" + TABLES.incrementAndGet());
  }

  private interface Act<T> {
    T on(Side side) throws Exception;
  }

  /** Runs it on both sides at once and returns both results. */
  private <T> List<T> onBoth(Act<T> act) throws IOException {
    List<Future<T>> running = new ArrayList<>();
    for (Side side : sides) {
      Callable<T> call = () -> act.on(side);
      running.add(threads.submit(call));
    }
    List<T> results = new ArrayList<>();
    IOException failure = null;
    for (int index = 0; index < sides.size(); index++) {
      try {
        results.add(running.get(index).get());
      } catch (ExecutionException error) {
        failure = new IOException(sides.get(index).name + ": " + error.getCause(), error.getCause());
      } catch (InterruptedException error) {
        throw new IOException(error);
      }
    }
    if (failure != null) {
      throw failure;
    }
    return results;
  }

  /** Makes a table on both sides, for scripts with that many prefixes. */
  final class Ground implements AutoCloseable {
    final Node table;
    private final TableName name = freshName();
    private final int size;
    private int used;

    Ground(Node table, int size) throws IOException {
      this.table = table;
      this.size = size;
      List<String> prefixes = new ArrayList<>();
      for (int index = 0; index < size; index++) {
        prefixes.add(Place.prefix(index));
      }
      onBoth(side -> {
        side.create(table, name, prefixes);
        return null;
      });
    }

    boolean isUsed() {
      return used == size;
    }

    /** The answers of each side. */
    List<List<String>> play(List<Node> steps) throws IOException {
      Place place = new Place(name, Place.prefix(used++), System.currentTimeMillis());
      return onBoth(side -> Player.play(side, table, place, steps));
    }

    @Override
    public void close() throws IOException {
      onBoth(side -> {
        side.drop(name);
        return null;
      });
    }
  }

  /** Returns the first step with different answers; -1 when there is none. */
  static int difference(List<List<String>> answers) {
    for (int index = 0; index < answers.get(0).size(); index++) {
      if (!answers.get(0).get(index).equals(answers.get(1).get(index))) {
        return index;
      }
    }
    return -1;
  }

  /** Returns the number of operations of a step; each operation of a batch counts. */
  static int operations(Node step) {
    return switch (step.head()) {
      case "batch", "gets", "checks" -> step.size() - 1;
      case "flush", "major", "close", "renew" -> 0;
      default -> 1;
    };
  }

  static Random random(long seed, long... path) {
    // Without the first step, table 5 of seed 12 would be table 4 of seed 13, whose exclusive or is the same.
    long mixed = mix(seed);
    for (long part : path) {
      mixed = mix(mixed ^ part);
    }
    return new Random(mixed);
  }

  private static long mix(long bits) {
    long mixed = bits * 0x9E3779B97F4A7C15L;
    return mixed ^ mixed >>> 29;
  }
}
