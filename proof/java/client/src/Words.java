/** The words that every test uses. */
abstract class Words {
  static final byte[] F = Server.F;
  static final byte[] G = Server.G;
  static final byte[] Q = Server.Q;

  static byte[] b(String text) {
    return Server.b(text);
  }

  static String s(byte[] bytes) {
    return Server.s(bytes);
  }
}
