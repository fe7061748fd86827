import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.tinkerpop.gremlin.process.traversal.P;
import org.apache.tinkerpop.gremlin.process.traversal.Order;
import org.apache.tinkerpop.gremlin.process.traversal.dsl.graph.GraphTraversalSource;
import org.apache.tinkerpop.gremlin.process.traversal.dsl.graph.__;
import org.apache.tinkerpop.gremlin.structure.Vertex;
import org.janusgraph.core.JanusGraph;
import org.janusgraph.core.JanusGraphFactory;
import org.janusgraph.core.schema.JanusGraphManagement;
import org.janusgraph.core.schema.SchemaStatus;
import org.janusgraph.example.GraphOfTheGodsFactory;
import org.janusgraph.graphdb.database.management.ManagementSystem;

/**
 * Loads JanusGraph's Graph of the Gods into a cluster and prints what some traversals find: {@code QUORUM PORT TABLE [SETTING=VALUE]...}.
 *
 * <p>The graph is closed and opened again between writing and reading, so every answer comes from the cluster.
 */
public final class Gods {
  private final String[] words;

  private Gods(String[] words) {
    this.words = words;
  }

  private JanusGraph open() {
    JanusGraphFactory.Builder builder =
        JanusGraphFactory.build()
            .set("storage.backend", "hbase")
            .set("storage.hostname", words[0])
            .set("storage.port", Integer.parseInt(words[1]))
            .set("storage.hbase.table", words[2]);
    for (String setting : List.of(words).subList(3, words.length)) {
      String[] pair = setting.split("=", 2);
      builder.set(pair[0], pair[1]);
    }
    return builder.open();
  }

  private static void tell(String what, Object answer) {
    System.out.println(what + ": " + answer);
  }

  private void load() throws Exception {
    JanusGraph graph = open();
    GraphOfTheGodsFactory.loadWithoutMixedIndex(graph, true);
    // One vertex with many edges makes a row with many columns, which is read in slices.
    Vertex hub = graph.addVertex("name", "hub", "age", 1);
    for (int number = 0; number < 2_000; number++) {
      hub.addEdge("lives", graph.addVertex("name", "leaf-" + number, "age", number), "reason", "leaf " + number);
    }
    graph.tx().commit();
    graph.close();
  }

  private void read() {
    JanusGraph graph = open();
    GraphTraversalSource g = graph.traversal();
    tell("hercules is found by name", g.V().has("name", "hercules").values("age").next());
    tell("saturn's grandchild", g.V().has("name", "saturn").in("father").in("father").values("name").next());
    tell("hercules's parents", new TreeSet<>(g.V().has("name", "hercules").out("father", "mother").values("name").toSet()));
    tell("their kinds", new TreeSet<>(g.V().has("name", "hercules").out("father", "mother").label().toSet()));
    tell(
        "monsters he fought after the first time",
        new TreeSet<>(g.V().has("name", "hercules").outE("battled").has("time", P.gt(1)).inV().values("name").toSet()));
    tell(
        "battles in order",
        g.V().has("name", "hercules").outE("battled").order().by("time", Order.asc).inV().values("name").toList());
    tell(
        "who lives with pluto",
        new TreeSet<>(g.V().has("name", "pluto").out("lives").in("lives").values("name").toSet()));
    tell("pluto's brothers' homes", homes(g));
    tell("vertices by label", new TreeMap<>(g.V().groupCount().by(__.label()).next()));
    tell("edges of the hub", g.V().has("name", "hub").out("lives").count().next());
    tell("oldest leaf of the hub", g.V().has("name", "hub").out("lives").values("age").max().next());
    graph.close();
  }

  private static Map<String, String> homes(GraphTraversalSource g) {
    Map<String, String> homes = new TreeMap<>();
    g.V().has("name", "pluto").out("brother").as("god").out("lives").as("place").select("god", "place").by("name")
        .forEachRemaining(pair -> homes.put((String) pair.get("god"), (String) pair.get("place")));
    return homes;
  }

  /** Changes and deletes in several transactions, with the index of names kept true. */
  private void change() {
    JanusGraph graph = open();
    GraphTraversalSource g = graph.traversal();
    for (int round = 0; round < 20; round++) {
      g.V().has("name", "hercules").property("age", 30 + round).iterate();
      g.tx().commit();
    }
    g.V().has("name", P.within("leaf-7", "leaf-8", "leaf-9")).drop().iterate();
    g.V().has("name", "nemean").property("name", "nemean lion").iterate();
    g.tx().commit();
    graph.close();
    graph = open();
    g = graph.traversal();
    tell("hercules's age after 20 changes", g.V().has("name", "hercules").values("age").next());
    tell("edges of the hub after three leaves have gone", g.V().has("name", "hub").out("lives").count().next());
    tell("the old name is no longer in the index", g.V().has("name", "nemean").hasNext());
    tell("the new name is", g.V().has("name", "nemean lion").in("battled").values("name").next());
    graph.close();
  }

  /** A new composite index over what is stored already, built by a scan of the whole table. */
  private void reindex() throws Exception {
    JanusGraph graph = open();
    JanusGraphManagement management = graph.openManagement();
    management.buildIndex("byAge", Vertex.class).addKey(management.getPropertyKey("age")).buildCompositeIndex();
    management.commit();
    ManagementSystem.awaitGraphIndexStatus(graph, "byAge").status(SchemaStatus.REGISTERED, SchemaStatus.ENABLED).call();
    management = graph.openManagement();
    management.updateIndex(management.getGraphIndex("byAge"), org.janusgraph.core.schema.SchemaAction.REINDEX).get();
    management.commit();
    ManagementSystem.awaitGraphIndexStatus(graph, "byAge").status(SchemaStatus.ENABLED).call();
    tell("vertices of age 1999 by the new index", graph.traversal().V().has("age", 1_999).values("name").toList());
    graph.close();
  }

  public static void main(String[] words) throws Exception {
    Gods gods = new Gods(words);
    gods.load();
    gods.read();
    gods.change();
    gods.reindex();
    JanusGraph graph = gods.open();
    JanusGraphFactory.drop(graph);
    tell("dropped", true);
  }
}
