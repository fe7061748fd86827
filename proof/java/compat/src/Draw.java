import java.util.List;
import java.util.Random;

/** Draws one of several. */
final class Draw {
  private Draw() {}

  @SafeVarargs
  static <T> T of(Random chance, T... choices) {
    return choices[chance.nextInt(choices.length)];
  }

  static <T> T one(Random chance, List<T> choices) {
    return choices.get(chance.nextInt(choices.size()));
  }
}
