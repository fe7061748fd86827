package org.apache.hadoop.hbase.filter;

import java.lang.reflect.Field;
import org.apache.hadoop.hbase.shaded.protobuf.generated.ComparatorProtos;

/**
 * Filters and comparators that no server can read. They are in HBase's package, because some constructors are visible
 * only there.
 */
public final class Unread {
  private Unread() {}

  /** A filter whose class no server has. */
  public static final class UnknownFilter extends FilterBase {
    @Override
    public byte[] toByteArray() {
      return new byte[0];
    }
  }

  /** A comparator whose class no server has. */
  public static final class UnknownComparator extends ByteArrayComparable {
    public UnknownComparator() {
      super(new byte[0]);
    }

    @Override
    public byte[] toByteArray() {
      return new byte[0];
    }

    @Override
    public int compareTo(byte[] value, int offset, int length) {
      return 0;
    }
  }

  /** A RegexStringComparator with a pattern that the client's own class refuses. */
  public static ByteArrayComparable regex(String pattern, int flags, String charset) {
    RegexStringComparator comparator = new RegexStringComparator("a");
    try {
      Field engine = RegexStringComparator.class.getDeclaredField("engine");
      engine.setAccessible(true);
      engine.set(comparator, new Engine(pattern, flags, charset));
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
    return comparator;
  }

  private record Engine(String pattern, int flags, String charset) implements RegexStringComparator.Engine {
    @Override
    public String getPattern() {
      return pattern;
    }

    @Override
    public int getFlags() {
      return flags;
    }

    @Override
    public String getCharset() {
      return charset;
    }

    @Override
    public void setCharset(String charset) {
      throw new UnsupportedOperationException();
    }

    @Override
    public int compareTo(byte[] value, int offset, int length) {
      return 0;
    }

    @Override
    public byte[] toByteArray() {
      return ComparatorProtos.RegexStringComparator.newBuilder().setPattern(pattern).setPatternFlags(flags)
          .setCharset(charset).setEngine("JAVA").build().toByteArray();
    }
  }
}
