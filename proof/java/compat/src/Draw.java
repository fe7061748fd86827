import java.util.List;
import java.util.Random;

/** Draws random elements. */
final class Draw {
  private Draw() {}

  @SafeVarargs
  static <T> T of(Random random, T... choices) {
    return choices[random.nextInt(choices.length)];
  }

  static <T> T one(Random random, List<T> choices) {
    return choices.get(random.nextInt(choices.size()));
  }
}
