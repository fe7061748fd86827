//! The recipe for graphs: adjacency lists in the rows of vertices, and an edge table with an index. See
//! `recipes/graph.md`.
//!
//! The example is JanusGraph's Graph of the Gods.

use std::collections::BTreeSet;

use client::{Get, Put, Row, Scan, Table};

use crate::session::{Done, Session, check, family, say, text};

const VERTICES: [(&str, &str, Option<u32>); 12] = [
    ("saturn", "titan", Some(10_000)),
    ("jupiter", "god", Some(5_000)),
    ("neptune", "god", Some(4_500)),
    ("pluto", "god", Some(4_000)),
    ("hercules", "demigod", Some(30)),
    ("alcmene", "human", Some(45)),
    ("nemean", "monster", None),
    ("hydra", "monster", None),
    ("cerberus", "monster", None),
    ("sky", "location", None),
    ("sea", "location", None),
    ("tartarus", "location", None),
];

/// The edges: from, label, to, and the number by which edges of one label are sorted, such as the time of a battle.
const EDGES: [(&str, &str, &str, u32); 17] = [
    ("jupiter", "father", "saturn", 0),
    ("jupiter", "lives", "sky", 0),
    ("jupiter", "brother", "neptune", 0),
    ("jupiter", "brother", "pluto", 0),
    ("neptune", "lives", "sea", 0),
    ("neptune", "brother", "jupiter", 0),
    ("neptune", "brother", "pluto", 0),
    ("hercules", "father", "jupiter", 0),
    ("hercules", "mother", "alcmene", 0),
    ("hercules", "battled", "nemean", 1),
    ("hercules", "battled", "hydra", 2),
    ("hercules", "battled", "cerberus", 12),
    ("pluto", "brother", "jupiter", 0),
    ("pluto", "brother", "neptune", 0),
    ("pluto", "lives", "tartarus", 0),
    ("pluto", "pet", "cerberus", 0),
    ("cerberus", "lives", "tartarus", 0),
];

struct Graph {
    /// The table of vertices, one row for each. Family `p` has the vertex's properties, `o` an outgoing edge in each
    /// column (`label|sort|vertex`), and `i` an incoming edge in each column. All edges of a vertex are one read, which
    /// suits vertices of at most some ten thousand edges.
    vertices: Table,
    /// The table of edges, one row for each: `from|label|sort|to`, with the edge's properties. The number of edges is
    /// unlimited, but two scans are needed instead of one get.
    edges: Table,
    /// The index of edges for the other direction: rows `to|label|sort|from`, which have only keys.
    arriving: Table,
}

fn edge_key(here: &str, label: &str, sort: u32, there: &str) -> String {
    format!("{here}|{label}|{sort:08}|{there}")
}

/// Returns the vertex at the far end of an edge, which is last in both kinds of keys.
fn far_end(key: &[u8]) -> String {
    text(key).rsplit('|').next().unwrap_or_default().to_owned()
}

impl Graph {
    /// Adds an edge everywhere. There is no transaction over rows, and none is needed: every write may be repeated, and
    /// the edge is written before its index. A repair scans `edges` and writes what the index lacks.
    async fn add(&self, (from, label, to, sort): (&str, &str, &str, u32)) -> Done {
        let there = edge_key("", label, sort, to)[1..].to_owned();
        let back = edge_key("", label, sort, from)[1..].to_owned();
        self.vertices
            .put_all([
                Put::row(from.to_owned()).set("o", there, ""),
                Put::row(to.to_owned()).set("i", back, ""),
            ])
            .await?;
        let edge = Put::row(edge_key(from, label, sort, to)).set("e", "sort", sort.to_string());
        self.edges.put(edge).await?;
        Ok(self.arriving.put(Put::row(edge_key(to, label, sort, from)).set("e", "", "")).await?)
    }

    /// Returns the neighbours of a vertex by one label from its adjacency list, which is one row.
    async fn adjacent(&self, vertex: &str, family: &'static str, label: &str) -> Done<Vec<String>> {
        let filter = client::Filter::column_prefix(format!("{label}|"));
        let row = self.vertices.get(Get::row(vertex.to_owned()).family(family).filter(filter)).await?;
        Ok(row.cells().iter().map(|cell| far_end(cell.qualifier())).collect())
    }

    /// Returns the neighbours of a vertex by one label from an edge table: the keys from `low` to `high`.
    async fn scanned(
        &self,
        table: &Table,
        vertex: &str,
        label: &str,
        low: u32,
        high: u32,
    ) -> Done<Vec<String>> {
        let scan = Scan::new().from(edge_key(vertex, label, low, "")).to(edge_key(vertex, label, high, ""));
        Ok(table.scan(scan).collect().await?.iter().map(|row| far_end(row.key())).collect())
    }

    /// Returns the other vertices that can be reached from `vertex` over at most `steps` edges of any label. Reads each
    /// level with one batch of gets.
    async fn within(&self, vertex: &str, steps: u32) -> Done<BTreeSet<String>> {
        let (mut known, mut level) = (BTreeSet::from([vertex.to_owned()]), vec![vertex.to_owned()]);
        for _ in 0..steps {
            let rows =
                self.vertices.get_all(level.into_iter().map(|name| Get::row(name).family("o"))).await?;
            let ends =
                |row: &Row| row.cells().iter().map(|cell| far_end(cell.qualifier())).collect::<Vec<_>>();
            level = rows.iter().flat_map(ends).filter(|name| known.insert(name.clone())).collect();
        }
        known.remove(vertex);
        Ok(known)
    }
}

pub(crate) async fn run(session: &Session) -> Done {
    let vertices = [family("p")?, family("o")?, family("i")?];
    let keys = || family("e").map(|family| family.with("DATA_BLOCK_ENCODING", "FAST_DIFF"));
    let graph = Graph {
        vertices: session.fresh_table("recipe_vertices", vertices, &[]).await?,
        edges: session.fresh_table("recipe_edges", [keys()?], &[]).await?,
        arriving: session.fresh_table("recipe_edges_in", [keys()?], &[]).await?,
    };
    for (name, kind, age) in VERTICES {
        let put = Put::row(name).set("p", "type", kind);
        graph.vertices.put(age.iter().fold(put, |put, age| put.set("p", "age", age.to_string()))).await?;
    }
    for edge in EDGES {
        graph.add(edge).await?;
    }
    // A repeated write changes nothing.
    graph.add(EDGES[0]).await?;
    say(&format!("{} vertices, {} edges", VERTICES.len(), EDGES.len()));

    let father = graph.adjacent("hercules", "o", "father").await?;
    let grandfather = graph.adjacent(&father[0], "o", "father").await?;
    say(&format!("the grandfather of hercules is {}", grandfather.join(" ")));
    check!(grandfather == ["saturn"], "father of jupiter");

    // A range of the sort key: battles after the first one.
    let battled = graph.scanned(&graph.edges, "hercules", "battled", 2, u32::MAX).await?;
    say(&format!("after the first battle hercules fought {}", battled.join(", then ")));
    check!(battled == ["hydra", "cerberus"], "in the order of time");

    let enemies = graph.scanned(&graph.arriving, "cerberus", "battled", 0, u32::MAX).await?;
    let owners = graph.adjacent("cerberus", "i", "pet").await?;
    say(&format!("cerberus was fought by {}, and is the pet of {}", enemies.join(" "), owners.join(" ")));
    check!(enemies == ["hercules"] && owners == ["pluto"], "the other direction");

    // Two steps, joined by the program.
    let mut homes = Vec::new();
    for brother in graph.adjacent("pluto", "o", "brother").await? {
        homes.push(format!("{brother} in {}", graph.adjacent(&brother, "o", "lives").await?.join(" ")));
    }
    say(&format!("the brothers of pluto live: {}", homes.join(", ")));
    check!(homes == ["jupiter in sky", "neptune in sea"], "each at home");

    let near = graph.within("hercules", 2).await?;
    say(&format!("within two steps of hercules: {}", near.iter().cloned().collect::<Vec<_>>().join(" ")));
    check!(near.len() == 10 && !near.contains("sea"), "sea is a step further");

    // Both designs hold the same edges in both directions.
    for (name, ..) in VERTICES {
        for label in ["father", "mother", "lives", "brother", "battled", "pet"] {
            let (out, back) =
                (graph.adjacent(name, "o", label).await?, graph.adjacent(name, "i", label).await?);
            check!(
                out == graph.scanned(&graph.edges, name, label, 0, u32::MAX).await?
                    && back == graph.scanned(&graph.arriving, name, label, 0, u32::MAX).await?,
                "{name} {label}: {out:?} {back:?}"
            );
        }
    }
    say("adjacency lists and edge tables agree");
    Ok(())
}
