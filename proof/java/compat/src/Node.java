import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 *  An element of a script: an atom, or a list of nodes in parentheses.
 *
 *  An atom is a sequence of bytes, kept as a string of one character for each (ISO 8859-1). Delimiters and unprintable bytes are
 *  written {@code \xNN}, and an empty atom is written {@code ""}.
 */
final class Node {
  final String atom;
  final List<Node> list;

  private Node(String atom, List<Node> list) {
    this.atom = atom;
    this.list = list;
  }

  static Node atom(Object value) {
    return new Node(String.valueOf(value), null);
  }

  /** Makes a list of nodes; parts that are not nodes become atoms. */
  static Node of(Object... parts) {
    Node node = new Node(null, new ArrayList<>());
    for (Object part : parts) {
      node.add(part);
    }
    return node;
  }

  Node add(Object part) {
    if (part instanceof Node node) {
      list.add(node);
    } else {
      list.add(atom(part));
    }
    return this;
  }

  Node addAll(List<Node> parts) {
    list.addAll(parts);
    return this;
  }

  boolean isAtom() {
    return atom != null;
  }

  int size() {
    return list.size();
  }

  Node at(int index) {
    return list.get(index);
  }

  /** The first word of a list. */
  String head() {
    return list.get(0).atom;
  }

  String text(int index) {
    Node node = list.get(index);
    if (node.atom == null) {
      throw new IllegalArgumentException("an atom is expected at " + index + " of " + this);
    }
    return node.atom;
  }

  byte[] bytes(int index) {
    return text(index).getBytes(StandardCharsets.ISO_8859_1);
  }

  int number(int index) {
    return Integer.parseInt(text(index));
  }

  /** Returns the first part that is a list with this head, or null. */
  Node part(String head) {
    for (Node node : list) {
      if (!node.isAtom() && node.size() > 0 && head.equals(node.head())) {
        return node;
      }
    }
    return null;
  }

  boolean has(String head) {
    return part(head) != null;
  }

  /** Returns a deep copy. */
  Node copy() {
    if (isAtom()) {
      return this;
    }
    Node copy = of();
    for (Node node : list) {
      copy.list.add(node.copy());
    }
    return copy;
  }

  @Override
  public String toString() {
    StringBuilder out = new StringBuilder();
    write(out);
    return out.toString();
  }

  private void write(StringBuilder out) {
    if (isAtom()) {
      writeAtom(atom, out);
      return;
    }
    out.append('(');
    for (int index = 0; index < list.size(); index++) {
      if (index > 0) {
        out.append(' ');
      }
      list.get(index).write(out);
    }
    out.append(')');
  }

  private static void writeAtom(String atom, StringBuilder out) {
    if (atom.isEmpty()) {
      out.append("\"\"");
      return;
    }
    for (int index = 0; index < atom.length(); index++) {
      char letter = atom.charAt(index);
      if (letter <= ' ' || letter >= 0x7f || "()\"\\".indexOf(letter) >= 0) {
        out.append(String.format("\\x%02x", (int) letter & 0xff));
      } else {
        out.append(letter);
      }
    }
  }

  static Node parse(String text) {
    int[] at = {0};
    Node node = parse(text, at);
    if (!text.substring(at[0]).isBlank()) {
      throw new IllegalArgumentException("more than one node in: " + text);
    }
    return node;
  }

  private static Node parse(String text, int[] at) {
    skipBlanks(text, at);
    if (text.charAt(at[0]) == '(') {
      at[0]++;
      Node node = of();
      skipBlanks(text, at);
      while (text.charAt(at[0]) != ')') {
        node.list.add(parse(text, at));
        skipBlanks(text, at);
      }
      at[0]++;
      return node;
    }
    if (text.startsWith("\"\"", at[0])) {
      at[0] += 2;
      return atom("");
    }
    StringBuilder out = new StringBuilder();
    while (at[0] < text.length() && " ()".indexOf(text.charAt(at[0])) < 0) {
      char letter = text.charAt(at[0]++);
      if (letter == '\\') {
        letter = (char) Integer.parseInt(text.substring(at[0] + 1, at[0] + 3), 16);
        at[0] += 3;
      }
      out.append(letter);
    }
    return atom(out);
  }

  private static void skipBlanks(String text, int[] at) {
    while (at[0] < text.length() && text.charAt(at[0]) == ' ') {
      at[0]++;
    }
    if (at[0] >= text.length()) {
      throw new IllegalArgumentException("it ends too early: " + text);
    }
  }
}
