//! A linked list of random keys: each client writes nodes that point to its last acknowledged one. A scan sees every
//! node that was acknowledged before it began once, in order, and whole. In the end all acknowledged nodes are there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Put, Row, Scan};
use parking_lot::Mutex;
use proto::TableDescriptor;

use super::{Complaint, Job, Scene, Verdict, Workload, splits, stir, table};
use crate::random::Random;

const TABLE: &str = "list";

/// The expected state of a node.
#[derive(Clone)]
struct Node {
    before: String,
    load: Vec<u8>,
    is_acknowledged: bool,
}

/// The workload; see the module documentation.
pub(super) struct List {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    clients: u64,
    load_max: u64,
    nodes: Mutex<BTreeMap<String, Node>>,
}

impl List {
    pub(super) fn new(random: &mut Random) -> List {
        List {
            table: table(TABLE, &["n", "w"], random),
            splits: splits(random),
            clients: 1 + random.below(4),
            load_max: random.spread(16, 8 << 10),
            nodes: Mutex::default(),
        }
    }

    async fn writer(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(30)).table(TABLE).expect("a name");
        let mut random = scene.random();
        let mut last = String::new();
        while !scene.is_over() {
            let batch = if random.one_in(4) { 1 + random.below(20) } else { 1 };
            let mut puts = Vec::new();
            let mut keys = Vec::new();
            for _ in 0..batch {
                let key =
                    format!("{}{:012x}", random.choose(&["a", "h", "p", "x", "1", "5"]), random.bits() >> 16);
                let load: Vec<u8> = (0..random.below(self.load_max)).map(|at| (at % 251) as u8).collect();
                let node = Node { before: last.clone(), load: load.clone(), is_acknowledged: false };
                self.nodes.lock().insert(key.clone(), node);
                puts.push(Put::row(key.clone()).set("n", "before", last.clone()).set("w", "load", load));
                keys.push(key);
            }
            let written = match puts.pop() {
                Some(put) if batch == 1 => table.put(put).await,
                Some(put) => {
                    puts.push(put);
                    table.put_all(puts).await
                }
                None => Ok(()),
            };
            if written.is_ok() {
                let mut nodes = self.nodes.lock();
                for key in &keys {
                    nodes.get_mut(key).expect("it was just put there").is_acknowledged = true;
                }
                last = keys.pop().expect("one at least");
            }
            scene.pause(&mut random, 300).await;
        }
    }

    async fn scanner(self: Arc<Self>, scene: Scene) {
        let table = scene.client(Duration::from_secs(20)).table(TABLE).expect("a name");
        let mut random = scene.random();
        while !scene.is_over() {
            let (expected, read) = (self.acknowledged(), scene.begin_read());
            let mut scan = Scan::new().caching(1 + random.below(20) as u32);
            if random.one_in(3) {
                scan = scan.size_max(random.spread(100, 100_000));
            }
            let reversed = random.one_in(4);
            if reversed {
                scan = scan.reversed();
            }
            if let Ok(mut rows) = table.scan(scan).collect().await {
                env::sometimes("list: a scan beside writers came to its end");
                if reversed {
                    rows.reverse();
                }
                let expected = if scene.may_be_stale(read) { &[][..] } else { &expected };
                if let Err(words) = self.check(&rows, expected) {
                    scene.fail(format!("list: a scan while everything changes: {words}"));
                }
            }
            // A longer list takes longer to read, so it is read less often.
            scene.pause(&mut random, 3_000 + 30 * expected.len() as u64).await;
        }
    }

    fn acknowledged(&self) -> Vec<String> {
        let nodes = self.nodes.lock();
        nodes.iter().filter(|(_, node)| node.is_acknowledged).map(|(key, _)| key.clone()).collect()
    }

    /// Checks that rows are in order, known and whole, and that all expected ones are among them.
    fn check(&self, rows: &[Row], expected: &[String]) -> Result<(), String> {
        let nodes = self.nodes.lock();
        let mut found: Vec<&[u8]> = Vec::with_capacity(rows.len());
        for row in rows {
            let key = String::from_utf8_lossy(row.key()).into_owned();
            if found.last().is_some_and(|last| *last >= row.key()) {
                return Err(format!("row {key} comes after {}", found.last().expect("one").escape_ascii()));
            }
            found.push(row.key());
            let node = nodes.get(&key).ok_or_else(|| format!("row {key} was never written"))?;
            if row.value("n", "before") != Some(node.before.as_bytes()) {
                return Err(format!(
                    "row {key} points to {:?}, not to {:?}",
                    row.value("n", "before").map(|value| value.escape_ascii().to_string()),
                    node.before
                ));
            }
            if row.value("w", "load") != Some(&node.load[..]) {
                let length = row.value("w", "load").map(<[u8]>::len);
                return Err(format!(
                    "row {key} has a load of {length:?} bytes, not its own of {}",
                    node.load.len()
                ));
            }
        }
        match expected.iter().find(|key| found.binary_search(&key.as_bytes()).is_err()) {
            Some(missing) => {
                Err(format!("row {missing} is missing, which was acknowledged; {} rows found", found.len()))
            }
            None => Ok(()),
        }
    }
}

impl Workload for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        vec![(self.table.clone(), self.splits.clone())]
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let mut all: Vec<Job<()>> =
            (0..self.clients).map(|_| Box::pin(Arc::clone(&self).writer(scene.clone())) as Job<()>).collect();
        all.push(Box::pin(Arc::clone(&self).scanner(scene.clone())));
        all.push(stir(scene, scene.client(Duration::ZERO).table(TABLE).expect("a name")));
        all
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let table = scene.client(Duration::from_secs(120)).table(TABLE).expect("a name");
            let rows = table.scan(Scan::new()).collect().await;
            let rows =
                rows.map_err(|error| Complaint::Unreadable(format!("list: it cannot be read: {error}")))?;
            let expected = self.acknowledged();
            if expected.len() > 100 {
                env::sometimes("list: more than 100 nodes");
            }
            self.check(&rows, &expected).map_err(|words| Complaint::Wrong(format!("list: {words}")))
        })
    }
}
