//! The tree of znodes.
//!
//! Every change has a number, as in ZooKeeper (`zxid`). A node records the zxids of its creation, of the last change of
//! its data, and of the last change of its children. So a watch only needs a zxid with which these are compared; see
//! [`crate::session`].

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use env::World;
use env::sync::Mutex;
use tokio::sync::watch;

/// A node's metadata (ZooKeeper's `Stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The zxid that created the node.
    pub created: i64,
    /// The zxid of the last change of the node's data.
    pub modified: i64,
    /// Time of the node's creation, in ms since 1970.
    pub created_at: i64,
    /// Time of the last change of the node's data, in ms since 1970.
    pub modified_at: i64,
    /// Number of changes of the node's data.
    pub version: i32,
    /// Number of changes of the node's children.
    pub children_version: i32,
    /// Length of the node's data, in bytes.
    pub length: i32,
    /// Number of the node's children.
    pub children: i32,
    /// The zxid of the last change of the node's children.
    pub children_modified: i64,
}

#[derive(Debug, Default)]
struct Node {
    data: Bytes,
    stat: Stat,
}

#[derive(Debug)]
struct Nodes {
    by_path: BTreeMap<String, Node>,
    last: i64,
}

/// A small tree of paths and data, with live updates.
#[derive(Debug)]
pub struct Tree {
    world: World,
    nodes: Mutex<Nodes>,
    changed: watch::Sender<i64>,
}

impl Tree {
    /// Creates a tree that has only its root.
    pub fn new(world: World) -> Tree {
        let by_path = BTreeMap::from([("/".to_owned(), Node::default())]);
        Tree { world, nodes: Mutex::new(Nodes { by_path, last: 0 }), changed: watch::Sender::new(0) }
    }

    /// Sets the data of `path`, and creates the node and its parents where needed.
    ///
    /// # Panics
    /// When `path` is not a valid ZooKeeper path: absolute, without empty parts.
    pub fn set(&self, path: &str, data: impl Into<Bytes>) {
        assert!(is_path(path), "{path:?} is no path");
        let now = self.world.now().0;
        let mut nodes = self.nodes.lock();
        nodes.last += 1;
        let last = nodes.last;
        for (at, _) in path.match_indices('/').skip(1) {
            nodes.create(&path[..at], last, now);
        }
        nodes.create(path, last, now);
        let node = nodes.by_path.get_mut(path).expect("created just now");
        if node.stat.created != last {
            node.stat.version += 1;
        }
        node.data = data.into();
        node.stat.length = node.data.len() as i32;
        (node.stat.modified, node.stat.modified_at) = (last, now);
        drop(nodes);
        self.changed.send_replace(last);
    }

    /// Removes `path` and all nodes below it. Returns whether it did: `false` if there is no such node, and for the
    /// root, which stays.
    pub fn remove(&self, path: &str) -> bool {
        let mut nodes = self.nodes.lock();
        if path == "/" || nodes.by_path.remove(path).is_none() {
            return false;
        }
        let below = format!("{path}/");
        nodes.by_path.retain(|other, _| !other.starts_with(&below));
        nodes.last += 1;
        let last = nodes.last;
        nodes.touch_children(parent(path), last, -1);
        drop(nodes);
        self.changed.send_replace(last);
        true
    }

    /// Returns the data and metadata of `path`; `None` if there is no such node.
    pub fn read(&self, path: &str) -> Option<(Bytes, Stat)> {
        self.nodes.lock().by_path.get(path).map(|node| (node.data.clone(), node.stat))
    }

    /// Returns the metadata of `path`; `None` if there is no such node.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.nodes.lock().by_path.get(path).map(|node| node.stat)
    }

    /// Returns the names of the children of `path`, sorted, and its metadata; `None` if there is no such node.
    pub fn children(&self, path: &str) -> Option<(Vec<String>, Stat)> {
        let nodes = self.nodes.lock();
        let stat = nodes.by_path.get(path)?.stat;
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let names = nodes.below(&prefix).filter(|name| !name.contains('/')).map(str::to_owned).collect();
        Some((names, stat))
    }

    /// Returns the number of nodes below `path`, at any depth; `None` if there is no such node.
    pub fn descendants(&self, path: &str) -> Option<usize> {
        let nodes = self.nodes.lock();
        nodes.by_path.get(path)?;
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        Some(nodes.below(&prefix).count())
    }

    /// Returns the zxid of the last change.
    pub fn last_change(&self) -> i64 {
        self.nodes.lock().last
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.lock().by_path.len()
    }

    /// Whether the tree has only its root.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }

    /// Returns a receiver that is notified of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<i64> {
        self.changed.subscribe()
    }
}

impl Nodes {
    fn create(&mut self, path: &str, change: i64, now: i64) {
        if self.by_path.contains_key(path) {
            return;
        }
        let stat = Stat {
            created: change,
            modified: change,
            children_modified: change,
            created_at: now,
            modified_at: now,
            ..Stat::default()
        };
        self.by_path.insert(path.to_owned(), Node { data: Bytes::new(), stat });
        self.touch_children(parent(path), change, 1);
    }

    fn touch_children(&mut self, path: &str, change: i64, by: i32) {
        let node = self.by_path.get_mut(path).expect("a node's parent is there");
        node.stat.children += by;
        node.stat.children_version += 1;
        node.stat.children_modified = change;
    }

    /// Returns the part after `prefix`, which ends in a slash, of each path that begins with it.
    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.by_path
            .range::<str, _>((Bound::Excluded(prefix), Bound::Unbounded))
            .map_while(move |(path, _)| path.strip_prefix(prefix))
    }
}

/// Whether ZooKeeper accepts `path`: absolute, without empty parts, `.`, `..`, NUL characters or a trailing slash.
pub fn is_path(path: &str) -> bool {
    path == "/"
        || path.strip_prefix('/').is_some_and(|rest| {
            rest.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
                && !rest.contains('\0')
        })
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;

    #[test]
    fn nodes_come_with_their_parents_and_go_with_their_children() {
        let tree = Tree::new(World::simulated(1, WallTime(5)));
        tree.set("/hbase/rs/a,1,2", "one");
        tree.set("/hbase/rs/b,1,2", "two");
        tree.set("/hbase/rs-other", "");
        tree.set("/hbase/rs/a,1,2", "longer");
        let (names, stat) = tree.children("/hbase/rs").expect("there");
        assert_eq!(names, ["a,1,2", "b,1,2"]);
        assert_eq!(
            (stat.children, stat.children_version, stat.created, stat.children_modified),
            (2, 2, 1, 2)
        );
        let (data, stat) = tree.read("/hbase/rs/a,1,2").expect("there");
        assert_eq!((&data[..], stat.version, stat.modified, stat.length), (&b"longer"[..], 1, 4, 6));
        assert_eq!(stat.modified_at, 5);
        assert_eq!(tree.children("/").expect("there").0, ["hbase"]);
        assert_eq!(tree.descendants("/hbase"), Some(4));
        assert!(tree.remove("/hbase/rs") && !tree.remove("/hbase/rs"));
        assert_eq!(tree.children("/hbase").expect("there").0, ["rs-other"]);
        assert_eq!((tree.read("/hbase/rs/b,1,2"), tree.last_change()), (None, 5));
        assert!(!tree.remove("/"), "the root stays");
    }

    #[test]
    fn valid_and_invalid_paths_are_told_apart() {
        for good in ["/", "/a", "/a/b c"] {
            assert!(is_path(good), "{good}");
        }
        for bad in ["", "a", "/a/", "//a", "/a//b", "/a/../b", "/./a", "/a\0"] {
            assert!(!is_path(bad), "{bad:?}");
        }
    }
}
