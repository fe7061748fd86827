import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.function.Function;
import org.apache.hadoop.hbase.client.ServiceCaller;

/**
 * A coprocessor's service that no server has: HBase's AccessControlService. HBase 2's client wants stubs of protobuf 2.5, HBase
 * 3's client those of its shaded protobuf, so all calls are by reflection.
 */
final class Endpoint {
  private static final String SERVICE = "protobuf.generated.AccessControlProtos$AccessControlService";

  private Endpoint() {}

  private static Class<?> service() throws ClassNotFoundException {
    return Class.forName("org.apache.hadoop.hbase." + (Server.IS_CLIENT_3 ? "shaded." : "") + SERVICE);
  }

  private static Method method(Object of, String name) {
    return method(of.getClass(), name);
  }

  private static Method method(Class<?> of, String name) {
    Method found = Arrays.stream(of.getMethods()).filter(one -> one.getName().equals(name)).findFirst().orElseThrow();
    found.setAccessible(true);
    return found;
  }

  private static Object request(Method call) throws Exception {
    Class<?> message = call.getParameterTypes()[1];
    return message.getMethod("getDefaultInstance").invoke(null);
  }

  /** Calls a method of the service through a channel of the blocking `Admin`. */
  static Object call(Object channel) throws Exception {
    Object stub = method(service(), "newBlockingStub").invoke(null, channel);
    Method call = method(stub, "checkPermissions");
    return call.invoke(stub, null, request(call));
  }

  /** Returns the function that makes a stub, as `AsyncAdmin` wants it. */
  static Function<Object, Object> stub() {
    return channel -> {
      try {
        return method(service(), "newStub").invoke(null, channel);
      } catch (ReflectiveOperationException failure) {
        throw new AssertionError(failure);
      }
    };
  }

  /** Returns the caller of a method of the stub, as `AsyncAdmin` wants it. */
  static Object caller() {
    return Proxy.newProxyInstance(
        Endpoint.class.getClassLoader(),
        new Class<?>[] {ServiceCaller.class},
        (proxy, method, arguments) -> {
          Object stub = arguments[0];
          Method call = method(stub, "checkPermissions");
          return call.invoke(stub, arguments[1], request(call), arguments[2]);
        });
  }
}
