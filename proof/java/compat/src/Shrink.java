import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Shortens a stream that differs, as long as it still differs. */
final class Shrink {
  /** Number of streams tried on one table before the next one is made. */
  private static final int TRIALS_PER_TABLE = 40;

  private final Runner runner;
  private final long deadline;
  private Node table;
  private List<Node> steps;
  private Runner.Ground ground;
  private boolean differed;
  /** The answers of both sides when it last differed. */
  private List<String> last = List.of("# it does not differ every time");

  Shrink(Runner runner, Script script, long millis) {
    this.runner = runner;
    this.table = script.table;
    this.steps = script.steps;
    this.deadline = System.currentTimeMillis() + millis;
  }

  /** Returns the shortest script found; the original one if it does not differ again. */
  Script shrink() throws IOException {
    try {
      if (differs(steps)) {
        cut();
        for (boolean shorter = true; shorter && hasTime();) {
          shorter = simplifySteps() | simplifyTable();
          shorter |= removeSteps(1);
        }
      }
      Script script = new Script(table, steps);
      script.why.addAll(last);
      return script;
    } finally {
      if (ground != null) {
        ground.close();
      }
    }
  }

  /** Whether it differed when it was played again. */
  boolean differed() {
    return differed;
  }

  private boolean hasTime() {
    return System.currentTimeMillis() < deadline;
  }

  private boolean differs(List<Node> trial) throws IOException {
    if (ground == null || ground.isUsed()) {
      if (ground != null) {
        ground.close();
      }
      // Operations on tables change what the next trial finds.
      ground = runner.new Ground(table, table.has("operations") ? 1 : table.has("split") ? 4 : TRIALS_PER_TABLE);
    }
    List<List<String>> answers = ground.play(trial);
    int at = Runner.difference(answers);
    if (at < 0) {
      return false;
    }
    differed = true;
    last = Show.difference(answers.get(0).get(at), answers.get(1).get(at));
    // Steps after the first difference are not needed.
    steps = new ArrayList<>(trial.subList(0, at + 1));
    return true;
  }

  private void cut() throws IOException {
    for (int size = steps.size() / 2; size >= 1; size /= 2) {
      removeSteps(size);
    }
  }

  private boolean removeSteps(int size) throws IOException {
    boolean shorter = false;
    for (int end = steps.size() - 1; end > 0 && hasTime(); end -= size) {
      int begin = Math.max(0, end - size);
      if (end >= steps.size()) {
        continue;
      }
      List<Node> trial = new ArrayList<>(steps.subList(0, begin));
      trial.addAll(steps.subList(end, steps.size()));
      shorter |= differs(trial);
    }
    return shorter;
  }

  /** Removes parts of steps; both sides refuse an invalid step alike. */
  private boolean simplifySteps() throws IOException {
    boolean shorter = false;
    for (int index = steps.size() - 1; index >= 0; index--) {
      for (int part = 0; index < steps.size() && hasTime(); part++) {
        Node simpler = steps.get(index).copy();
        if (!removePart(simpler, new int[] {part})) {
          break;
        }
        List<Node> trial = new ArrayList<>(steps);
        trial.set(index, simpler);
        if (differs(trial)) {
          shorter = true;
          part--;
        }
      }
    }
    return shorter;
  }

  private boolean simplifyTable() throws IOException {
    boolean shorter = false;
    for (int part = 0; hasTime(); part++) {
      Node simpler = table.copy();
      if (!removePart(simpler, new int[] {part})) {
        break;
      }
      Node whole = table;
      boolean still = false;
      try {
        remake(simpler);
        still = differs(steps);
      } catch (IOException | IllegalArgumentException refused) {
        // It is not a valid table any more.
        ground = null;
      }
      if (still) {
        shorter = true;
        part--;
      } else {
        remake(whole);
      }
    }
    return shorter;
  }

  private void remake(Node simpler) throws IOException {
    if (ground != null) {
      ground.close();
      ground = null;
    }
    table = simpler;
  }

  /** Removes the part with this number, counted depth first; an inner list of filters may replace the outer one. */
  private static boolean removePart(Node node, int[] number) {
    for (int index = 1; index < node.size(); index++) {
      Node part = node.at(index);
      if (part.isAtom()) {
        continue;
      }
      if (number[0]-- == 0) {
        node.list.remove(index);
        return true;
      }
      // A nested filter, or an operation of a batch, may suffice alone.
      if (part.size() > 1 && !part.isAtom() && hoistable(part)) {
        for (int inner = 1; inner < part.size(); inner++) {
          if (!part.at(inner).isAtom() && number[0]-- == 0) {
            node.list.set(index, part.at(inner));
            return true;
          }
        }
      }
      if (removePart(part, number)) {
        return true;
      }
    }
    return false;
  }

  private static boolean hoistable(Node part) {
    return part.size() > 0 && part.at(0).isAtom() && switch (part.head()) {
      case "and", "or", "while", "skip", "row", "check" -> true;
      default -> false;
    };
  }
}
