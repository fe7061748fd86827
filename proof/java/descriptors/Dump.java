import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.Enumeration;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

import org.apache.hadoop.hbase.shaded.protobuf.generated.HBaseProtos;
import org.apache.hbase.thirdparty.com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import org.apache.hbase.thirdparty.com.google.protobuf.Descriptors.FileDescriptor;

/**
 * Writes the descriptors of every schema inside HBase's jars to one file, as one FileDescriptorSet.
 *
 * Two sets, one after the other, are the bytes of one set that holds both; so the shaded and the older library of
 * protobuf can each write its own part.
 */
public final class Dump {
  private static final String SHADED = "org/apache/hadoop/hbase/shaded/protobuf/generated/";

  public static void main(String[] args) throws Exception {
    FileDescriptorSet.Builder shaded = FileDescriptorSet.newBuilder();
    String jar = HBaseProtos.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    try (JarFile file = new JarFile(jar)) {
      for (Enumeration<JarEntry> entries = file.entries(); entries.hasMoreElements();) {
        String name = entries.nextElement().getName();
        if (!name.startsWith(SHADED) || !name.endsWith(".class") || name.contains("$")) {
          continue;
        }
        Class<?> outer = Class.forName(name.substring(0, name.length() - ".class".length()).replace('/', '.'));
        try {
          Object descriptor = outer.getMethod("getDescriptor").invoke(null);
          if (descriptor instanceof FileDescriptor) {
            shaded.addFile(((FileDescriptor) descriptor).toProto());
          }
        } catch (NoSuchMethodException notAnOuterClass) {
          continue;
        }
      }
    }
    com.google.protobuf.DescriptorProtos.FileDescriptorSet older =
      com.google.protobuf.DescriptorProtos.FileDescriptorSet.newBuilder()
        .addFile(org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.getDescriptor().toProto())
        .addFile(org.apache.hadoop.hbase.protobuf.generated.AggregateProtos.getDescriptor().toProto())
        .build();
    try (OutputStream out = new FileOutputStream(args[0])) {
      shaded.build().writeTo(out);
      older.writeTo(out);
    }
  }
}
