import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 *  Runs the same operations on two servers and compares the answers.
 *
 * <pre>
 * Main run HBASE BELLOWS SEED MILLIS WORKERS OPTIONS FOLDER   random streams; those that differ go to FOLDER, shortened
 * Main replay BELLOWS FILE...                           scripts against the answers that are recorded in them
 * Main compare HBASE BELLOWS FILE...                    scripts on both sides
 * Main shrink HBASE BELLOWS MILLIS FILE...              makes scripts that differ as short as they can be in that time each
 * Main record HBASE FILE...                             writes what this side answers into the scripts
 * </pre>
 *
 * A server is {@code rpc:HOST:PORT} or {@code zk:HOST:PORT}; a FILE may be a folder of them.
 */
final class Main {
  private Main() {}

  public static void main(String[] args) throws Exception {
    boolean passed = switch (args[0]) {
      case "run" -> run(args);
      case "replay" -> replay(args);
      case "compare" -> compare(args);
      case "shrink" -> shrink(args);
      case "record" -> record(args);
      default -> throw new IllegalArgumentException("unknown command: " + args[0]);
    };
    System.out.flush();
    // Client threads that wait for a lost server must not delay the end.
    Runtime.getRuntime().halt(passed ? 0 : 1);
  }

  private static boolean run(String[] args) throws Exception {
    long seed = Long.parseLong(args[3]);
    long deadline = System.currentTimeMillis() + Long.parseLong(args[4]);
    int workers = Integer.parseInt(args[5]);
    Options options = Options.parse(args[6]);
    Path folder = Path.of(args[7]);
    ExecutorService threads = Executors.newCachedThreadPool();
    AtomicLong operations = new AtomicLong();
    AtomicLong tables = new AtomicLong(options.from);
    Found found = new Found();
    AtomicInteger failures = new AtomicInteger();
    long began = System.currentTimeMillis();
    List<Thread> running = new ArrayList<>();
    for (int worker = 0; worker < workers; worker++) {
      List<Side> sides = List.of(new Side("hbase", args[1]), new Side("bellows", args[2]));
      Runner runner = new Runner(sides, threads);
      Thread thread = new Thread(() -> {
        try {
          while (System.currentTimeMillis() < deadline && failures.get() == 0) {
            long table = tables.getAndIncrement();
            long compared = oneTable(runner, seed, table, options, folder, found, deadline);
            operations.addAndGet(compared);
          }
        } catch (IOException | RuntimeException failure) {
          failures.incrementAndGet();
          failure.printStackTrace(System.out);
        }
      });
      thread.start();
      running.add(thread);
    }
    for (Thread thread : running) {
      do {
        thread.join(30_000);
        long millis = System.currentTimeMillis() - began;
        System.out.printf("%d s: %d operations of %d tables compared, %d a second, %s%n", millis / 1000, operations.get(),
            tables.get() - options.from, operations.get() * 1000 / millis, found);
      } while (thread.isAlive());
    }
    System.out.printf("seed %d: %d operations compared, %s%n", seed, operations.get(), found);
    return found.differences.get() == 0 && found.once.get() == 0 && failures.get() == 0;
  }

  /** Number of streams that differ. */
  private static final class Found {
    final AtomicInteger differences = new AtomicInteger();
    /** Number of streams that did not differ when they were played again on tables of their own. */
    final AtomicInteger once = new AtomicInteger();
    /** Number of streams that ended because only one side compacted: later answers cannot be compared. */
    final AtomicInteger files = new AtomicInteger();

    /**
     *  Exceptions of HBase 2.6.4 when it no longer has a file that it names. They come seconds after a split, of files of the parent
     *  that a snapshot or a daughter needs.
     */
    static final Pattern FILE_LOST = Pattern.compile("CorruptedSnapshotException|FileNotFoundException: File .* does not exist");
    /** Number of streams that ended because HBase had lost a file. */
    final AtomicInteger lost = new AtomicInteger();

    @Override
    public String toString() {
      return differences + " streams differ, " + once + " more did once, " + files + " ended with other files, in " + lost
          + " HBase lost one";
    }
  }

  private static long oneTable(Runner runner, long seed, long number, Options options, Path folder,
      Found found, long deadline) throws IOException {
    Node table = Schemas.random(Runner.random(seed, number), options);
    // A split table has regions for each of its streams. A table with operations has one stream: a second one would find the schema
    // and the files that the first has left, and its script alone would not show what it showed there.
    int streams = table.has("operations") ? 1 : table.has("split") ? 4 : options.streams;
    long compared = 0;
    List<Script> different = new ArrayList<>();
    try (Runner.Ground ground = runner.new Ground(table, streams)) {
      for (int stream = 0; stream < streams && System.currentTimeMillis() < deadline; stream++) {
        Random random = Runner.random(seed, number, stream + 1);
        List<Node> steps = new Steps(random, table, options).draw(options.steps);
        List<List<String>> answers = ground.play(steps);
        int at = Runner.difference(answers);
        List<Node> same = at < 0 ? steps : steps.subList(0, at);
        compared += same.stream().mapToInt(Runner::operations).sum();
        if (at >= 0 && answers.stream().allMatch(side -> side.get(at).startsWith("files "))) {
          System.out.printf("seed %d table %d stream %d: %s on one side, %s on the other%n", seed, number, stream,
              answers.get(0).get(at), answers.get(1).get(at));
          found.files.incrementAndGet();
          break;
        }
        if (at >= 0 && Found.FILE_LOST.matcher(answers.get(0).get(at)).find()) {
          System.out.printf("seed %d table %d stream %d: at step %d HBase has lost a file: %s%n", seed, number, stream, at,
              answers.get(0).get(at));
          found.lost.incrementAndGet();
          break;
        }
        if (at >= 0) {
          System.out.printf("seed %d table %d stream %d differs at step %d: %s%n%s%n", seed, number, stream, at,
              steps.get(at), String.join("\n", Show.difference(answers.get(0).get(at), answers.get(1).get(at))));
          Script script = new Script(table, new ArrayList<>(steps.subList(0, at + 1)));
          script.why.add("# seed " + seed + ", table " + number + ", stream " + stream);
          different.add(script);
          if (different.size() >= 1) {
            break;
          }
        }
      }
    }
    for (Script script : different) {
      Path file = folder.resolve("seed-" + seed + "-" + number + ".script");
      // Shortening may fail, or end with another difference.
      script.write(folder.resolve("seed-" + seed + "-" + number + ".whole"));
      Shrink shrink = new Shrink(runner, script, 60_000);
      Script shorter = shrink.shrink();
      (shrink.differed() ? found.differences : found.once).incrementAndGet();
      shorter.why.addAll(script.why);
      shorter.write(file);
      System.out.println(file + ":\n" + Files.readString(file));
    }
    return compared;
  }

  private static List<Path> files(String[] args, int from) throws IOException {
    List<Path> files = new ArrayList<>();
    for (int index = from; index < args.length; index++) {
      Path path = Path.of(args[index]);
      if (Files.isDirectory(path)) {
        try (Stream<Path> within = Files.walk(path)) {
          within.filter(file -> file.toString().endsWith(".script")).sorted().forEach(files::add);
        }
      } else {
        files.add(path);
      }
    }
    if (files.isEmpty()) {
      throw new IllegalArgumentException("no scripts are named");
    }
    return files;
  }

  private static List<String> play(Side side, Script script) throws IOException {
    Place place = new Place(Runner.freshName(), Place.prefix(0), System.currentTimeMillis());
    side.create(script.table, place.table(), List.of(place.prefix()));
    try {
      return Player.play(side, script.table, place, script.steps);
    } finally {
      side.drop(place.table());
    }
  }

  private static boolean replay(String[] args) throws Exception {
    int operations = 0;
    int failed = 0;
    try (Side side = new Side("server", args[1])) {
      List<Path> files = files(args, 2);
      for (Path file : files) {
        Script script = Script.read(file);
        if (script.answers == null) {
          System.out.println(file + ": there are no answers in it; record them");
          failed++;
          continue;
        }
        List<String> answers = play(side, script);
        operations += script.steps.stream().mapToInt(Runner::operations).sum();
        failed += tell(file, script, List.of(script.answers, answers)) ? 1 : 0;
      }
      System.out.printf("%d scripts, %d operations compared, %d scripts differ%n", files.size(), operations, failed);
    }
    return failed == 0;
  }

  /** Whether the answers differ. */
  private static boolean tell(Path file, Script script, List<List<String>> answers) {
    int at = Runner.difference(answers);
    if (at >= 0) {
      System.out.printf("%s differs at step %d: %s%n  hbase:   %s%n  bellows: %s%n", file, at, script.steps.get(at),
          answers.get(0).get(at), answers.get(1).get(at));
    }
    return at >= 0;
  }

  private static boolean compare(String[] args) throws Exception {
    int failed = 0;
    try (Side hbase = new Side("hbase", args[1]); Side bellows = new Side("bellows", args[2])) {
      for (Path file : files(args, 3)) {
        Script script = Script.read(file);
        failed += tell(file, script, List.of(play(hbase, script), play(bellows, script))) ? 1 : 0;
      }
      System.out.println(failed + " scripts differ");
    }
    return failed == 0;
  }

  private static boolean shrink(String[] args) throws Exception {
    List<Side> sides = List.of(new Side("hbase", args[1]), new Side("bellows", args[2]));
    Runner runner = new Runner(sides, Executors.newCachedThreadPool());
    for (Path file : files(args, 4)) {
      Script shorter = new Shrink(runner, Script.read(file), Long.parseLong(args[3])).shrink();
      shorter.write(file);
      System.out.println(file + ":\n" + Files.readString(file));
    }
    return true;
  }

  private static boolean record(String[] args) throws Exception {
    try (Side side = new Side("hbase", args[1])) {
      for (Path file : files(args, 2)) {
        Script script = Script.read(file);
        script.answers = play(side, script);
        script.write(file);
      }
    }
    return true;
  }
}
