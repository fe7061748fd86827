import static org.junit.Assert.assertEquals;

import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.AsyncAdmin;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.junit.AfterClass;
import org.junit.BeforeClass;
import org.junit.Test;

/**
 * Calls every method of {@link Admin} and {@link AsyncAdmin} that reflection finds, and compares the kind of its result, or
 * the class of its exception, with what Apache HBase 2.6.4 answered. A method without a recipe in {@link Calls} fails the test.
 *
 * <p>The answers of HBase are in `proof/java/client/every-call.txt`, which says how they are recorded. Each run writes its own
 * answers to `target/java/every-call.CLIENT.txt`.
 */
public class EveryCallTest extends Words {
  /** Time limit of a call, in s, above the limits that the client has itself. */
  private static final int CALL_SECONDS = 30;

  /** Time limit of the client for an operation, in ms. */
  private static final int OPERATION_MS = 20_000;

  private static final Path ANSWERS = Path.of("proof/java/client/every-call.txt");

  /** Exceptions that only have another as their cause. HBase 2 and 3 have ServiceException in different packages. */
  private static final Set<String> WRAPPERS =
      Set.of(
          "CompletionException", "ExecutionException", "InvocationTargetException", "RetriesExhaustedException",
          "ServiceException");

  private static Connection connection;
  private static AsyncConnection asyncConnection;
  private static ExecutorService callers;

  @BeforeClass
  public static void connect() throws Exception {
    Configuration conf = Server.configuration();
    conf.setInt("hbase.client.retries.number", 2);
    conf.setInt("hbase.client.pause", 20);
    conf.setInt("hbase.rpc.timeout", OPERATION_MS);
    conf.setInt("hbase.client.operation.timeout", OPERATION_MS);
    conf.setInt("hbase.client.meta.operation.timeout", OPERATION_MS);
    conf.setInt("hbase.client.sync.wait.timeout.msec", OPERATION_MS);
    connection = ConnectionFactory.createConnection(conf);
    asyncConnection = ConnectionFactory.createAsyncConnection(conf).get(OPERATION_MS, TimeUnit.MILLISECONDS);
    // A call without an answer must not keep the process alive.
    callers =
        Executors.newCachedThreadPool(
            work -> {
              Thread thread = new Thread(work, "caller");
              thread.setDaemon(true);
              return thread;
            });
  }

  @AfterClass
  public static void disconnect() throws Exception {
    callers.shutdownNow();
    asyncConnection.close();
    connection.close();
  }

  /** Returns the methods of an interface by signature; those that leave the scratch cluster changed are last. */
  private static List<Map.Entry<String, Method>> methods(Class<?> type) {
    Map<String, Method> found = new TreeMap<>();
    for (Method method : type.getMethods()) {
      String types =
          Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName).collect(Collectors.joining(","));
      Method twice = found.put(method.getName() + "(" + types + ")", method);
      assertEquals("two methods of one signature", null, twice);
    }
    List<Map.Entry<String, Method>> list = new ArrayList<>(found.entrySet());
    list.sort(Comparator.comparing(method -> Calls.LAST.contains(method.getKey())));
    return list;
  }

  /** Returns what a call came to: the kind of its result, or the class of its exception. */
  private static String outcome(Object target, Method method, Object[] arguments) {
    Future<String> call =
        callers.submit(
            () -> {
              Object result = method.invoke(target, arguments);
              if (result instanceof Future) {
                result = ((Future<?>) result).get(CALL_SECONDS, TimeUnit.SECONDS);
              }
              if (method.getName().equals("coprocessorService") && target instanceof Admin) {
                result = Endpoint.call(result);
              }
              return kind(result);
            });
    try {
      return call.get(CALL_SECONDS + 5, TimeUnit.SECONDS);
    } catch (TimeoutException late) {
      call.cancel(true);
      return "no answer in " + CALL_SECONDS + " s";
    } catch (Exception thrown) {
      Throwable cause = thrown;
      while (WRAPPERS.contains(cause.getClass().getSimpleName()) && cause.getCause() != null) {
        cause = cause.getCause();
      }
      return cause instanceof TimeoutException ? "no answer in " + CALL_SECONDS + " s" : cause.getClass().getSimpleName();
    }
  }

  /** Returns the kind of a result. It does not depend on the cluster's tables, times and addresses. */
  private static String kind(Object result) throws Exception {
    if (result == null) {
      return "nothing";
    } else if (result instanceof Boolean) {
      return result.toString();
    } else if (result instanceof Number) {
      return "a number";
    } else if (result instanceof String) {
      return ((String) result).isEmpty() ? "an empty text" : "a text";
    } else if (result instanceof byte[]) {
      return "bytes";
    } else if (result instanceof boolean[]) {
      return Arrays.toString((boolean[]) result);
    } else if (result instanceof Object[]) {
      return kind(Arrays.asList((Object[]) result));
    } else if (result instanceof Collection) {
      Collection<?> all = (Collection<?>) result;
      return all.isEmpty() ? "[]" : "[" + kind(all.iterator().next()) + "]";
    } else if (result instanceof Map) {
      Map<?, ?> all = (Map<?, ?>) result;
      return all.isEmpty() ? "{}" : "{" + kind(all.keySet().iterator().next()) + ": " + kind(all.values().iterator().next()) + "}";
    } else if (result instanceof Optional) {
      return ((Optional<?>) result).isPresent() ? "Optional of " + kind(((Optional<?>) result).get()) : "Optional of nothing";
    }
    if (result instanceof AutoCloseable && !(result instanceof Connection)) {
      ((AutoCloseable) result).close();
    }
    // An enum's constants may have classes of their own.
    return result instanceof Enum ? ((Enum<?>) result).getDeclaringClass().getSimpleName() : result.getClass().getSimpleName();
  }

  /** Reads HBase's answers for the present client: those of every client, and those that differ with HBase 3's client. */
  private static Map<String, Set<String>> expected() throws Exception {
    Map<String, Set<String>> expected = new TreeMap<>();
    for (String line : Files.readAllLines(ANSWERS)) {
      if (line.isBlank() || line.startsWith("#")) {
        continue;
      }
      String[] parts = line.split(" = ", 2);
      if (parts[0].startsWith("client3: ")) {
        if (Server.IS_CLIENT_3) {
          expected.put(parts[0].substring("client3: ".length()), new HashSet<>(Set.of(parts[1])));
        }
      } else if (parts[0].startsWith("Bellows: ")) {
        expected.get(parts[0].substring("Bellows: ".length())).add(parts[1]);
      } else {
        expected.put(parts[0], new HashSet<>(Set.of(parts[1])));
      }
    }
    return expected;
  }

  @Test
  public void everyMethodIsCalledOrListedWithAReason() {
    List<String> forgotten = new ArrayList<>();
    for (Class<?> type : List.of(Admin.class, AsyncAdmin.class)) {
      for (Map.Entry<String, Method> method : methods(type)) {
        boolean isCalled = Calls.RECIPES.containsKey(method.getKey());
        if (isCalled == Calls.LEFT_OUT.containsKey(method.getKey())) {
          forgotten.add(type.getSimpleName() + "." + method.getKey());
        }
      }
    }
    assertEquals("methods that are neither called nor listed, or both", List.of(), forgotten);
  }

  @Test
  public void everyCallIsAnsweredAsByHBase() throws Exception {
    Map<String, Set<String>> expected = expected();
    List<String> answers = new ArrayList<>();
    List<String> differences = new ArrayList<>();
    Path answersOf = Path.of("target/java/every-call." + (Server.IS_CLIENT_3 ? "client3" : "client") + ".txt");
    Scratch scratch = new Scratch();
    for (Class<?> type : List.of(Admin.class, AsyncAdmin.class)) {
      for (Map.Entry<String, Method> method : methods(type)) {
        Calls.Recipe recipe = Calls.RECIPES.get(method.getKey());
        if (recipe == null) {
          continue;
        }
        // Some methods close or abort the object itself.
        Object target = type == Admin.class ? connection.getAdmin() : asyncConnection.getAdmin();
        String name = type.getSimpleName() + "." + method.getKey();
        String outcome = outcome(target, method.getValue(), recipe.arguments(scratch));
        scratch.clean();
        answers.add(name + " = " + outcome);
        // The file is complete up to the present call, so it shows which call does not end.
        Files.write(answersOf, answers);
        Set<String> known = expected.getOrDefault(name, Set.of());
        if (!known.contains(outcome)) {
          differences.add(name);
          System.out.println(name + " = " + outcome + ", expected " + String.join(" or ", known));
        }
      }
    }
    scratch.end();
    assertEquals("calls that are answered differently", List.of(), differences);
  }
}
