import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 *  A table and the steps of a script on it. In a file each step is a line, and the answer of Apache HBase is on the next line, after
 *  {@code "  = "}. Lines that begin with {@code #} say what the script shows.
 */
final class Script {
  final List<String> why = new ArrayList<>();
  final Node table;
  final List<Node> steps;
  /** HBase's answer to each step; null when it was not recorded. */
  List<String> answers;

  Script(Node table, List<Node> steps) {
    this.table = table;
    this.steps = steps;
  }

  static Script read(Path file) throws IOException {
    Node table = null;
    List<Node> steps = new ArrayList<>();
    List<String> answers = new ArrayList<>();
    List<String> why = new ArrayList<>();
    for (String line : Files.readAllLines(file, StandardCharsets.UTF_8)) {
      if (line.startsWith("  = ")) {
        answers.add(line.substring(4));
      } else if (line.startsWith("#")) {
        why.add(line);
      } else if (!line.isBlank()) {
        Node node = Node.parse(line);
        if (table == null) {
          table = node;
        } else {
          steps.add(node);
        }
      }
    }
    if (table == null) {
      throw new IOException(file + ": a script begins with its table");
    }
    Script script = new Script(table, steps);
    script.why.addAll(why);
    if (!answers.isEmpty()) {
      if (answers.size() != steps.size()) {
        throw new IOException(file + ": " + steps.size() + " steps, but " + answers.size() + " answers");
      }
      script.answers = answers;
    }
    return script;
  }

  void write(Path file) throws IOException {
    StringBuilder out = new StringBuilder();
    for (String line : why) {
      out.append(line).append('\n');
    }
    out.append(table).append('\n');
    for (int index = 0; index < steps.size(); index++) {
      out.append(steps.get(index)).append('\n');
      if (answers != null) {
        out.append("  = ").append(answers.get(index)).append('\n');
      }
    }
    Files.createDirectories(file.toAbsolutePath().getParent());
    Files.writeString(file, out, StandardCharsets.UTF_8);
  }
}
