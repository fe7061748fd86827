//! Snapshots of a table are taken, deleted, cloned and restored while the table is written to. Until it is deleted, a
//! snapshot has all rows that were acknowledged before it was requested, whatever happens to the table, its files and
//! its regions.
//!
//! One client does all of this, so it knows the rows that a table must have, and those that it may have because their
//! puts were not acknowledged. Another one only puts rows into the original, so also while a snapshot of it is taken or
//! it is restored. Its rows are in a snapshot if they were acknowledged before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use client::{Admin, Cluster, Put, Row, Scan};
use parking_lot::Mutex;
use proto::{TableDescriptor, TableName};

use super::{
    Complaint, DELETIONS_MAX, Job, Scene, Verdict, Workload, enable, remove, remove_interrupted, splits,
    stir, table,
};
use crate::random::Random;

const TABLE: &str = "original";
const CLONE: &str = "cloned";
/// The rows of the client that only puts have greater numbers.
const WRITTEN_FROM: u64 = 1 << 32;
/// Maximum number of snapshots at a time.
const SNAPSHOTS_MAX: usize = 4;

/// Maximum time for which a clone stays disabled, in ms.
const DISABLED_MS_MAX: u64 = 20_000;

/// Maximum number of failed clones of a snapshot before one must succeed.
const CLONES_MAX: u32 = 3;

/// The rows of a table, by number.
#[derive(Clone, Debug, Default)]
struct Content {
    must: BTreeSet<u64>,
    may: BTreeSet<u64>,
}

impl Content {
    fn check(&self, what: &str, found: &[Row]) -> Result<(), String> {
        let mut numbers = BTreeSet::new();
        for row in found {
            let key = row.key().escape_ascii();
            match (row.number("f", "q"), row.number("g", "q")) {
                (Some(one), Some(other)) if one == other => {
                    numbers.insert(one as u64);
                }
                both => return Err(format!("row {key} of {what} is not whole: {both:?}")),
            }
        }
        if let Some(lost) = self.must.iter().find(|number| !numbers.contains(number)) {
            return Err(format!(
                "row {lost} of {what} was acknowledged and is missing; {} rows found",
                found.len()
            ));
        }
        match numbers.iter().find(|number| !self.must.contains(number) && !self.may.contains(number)) {
            Some(wrong) => Err(format!("{what} has row {wrong}, which was not put there")),
            None => Ok(()),
        }
    }
}

/// The expected state of a table.
#[derive(Clone, Debug)]
enum ExpectedState {
    Absent,
    Present(Content),
    /// The table was disabled, and enabling it has not succeeded yet. It must be possible, and then the table has this
    /// content.
    Disabled(Content),
    /// The state is unknown, because a change has failed.
    Unknown,
}

struct State {
    original: ExpectedState,
    clone: ExpectedState,
    /// Complete snapshots by name.
    snapshots: BTreeMap<String, Content>,
    /// Snapshots whose creation or deletion failed: they may exist.
    doubtful: BTreeSet<String>,
    /// Rows of the original whose puts were never acknowledged, or not while it was [`ExpectedState::Present`] all the
    /// time: they may appear late.
    late: BTreeSet<u64>,
    /// Number of changes of `original` from one kind of state to another.
    changes: u64,
}

impl State {
    fn change_original(&mut self, to: ExpectedState) {
        self.changes += 1;
        self.original = to;
    }

    /// Returns which rows the original must have now, and which it may have.
    fn content(&self) -> Option<Content> {
        match &self.original {
            ExpectedState::Present(content) | ExpectedState::Disabled(content) => {
                let may = content.may.union(&self.late).copied().collect();
                Some(Content { must: content.must.clone(), may })
            }
            ExpectedState::Absent | ExpectedState::Unknown => None,
        }
    }
}

/// The workload; see the module documentation.
pub(super) struct Snapshots {
    table: TableDescriptor,
    splits: Vec<Bytes>,
    state: Mutex<State>,
    seed: u64,
    judged: AtomicU64,
}

fn name(of: &str) -> TableName {
    of.parse().expect("a name")
}

impl Snapshots {
    pub(super) fn new(random: &mut Random) -> Snapshots {
        let state = State {
            original: ExpectedState::Absent,
            clone: ExpectedState::Absent,
            snapshots: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            late: BTreeSet::new(),
            changes: 0,
        };
        Snapshots {
            table: table(TABLE, &["f", "g"], random),
            splits: splits(random),
            state: Mutex::new(state),
            seed: random.bits(),
            judged: AtomicU64::new(0),
        }
    }

    async fn client(self: Arc<Self>, scene: Scene) {
        let cluster = scene.client(Duration::from_secs(20));
        let admin = cluster.admin();
        let mut random = Random::new(self.seed);
        let mut next = 0;
        while !scene.is_over() {
            scene.pause(&mut random, 600).await;
            let begun = scene.begin_read();
            let original = self.state.lock().original.clone();
            let done = match original {
                // The client never disables the original. If its state is unknown, the client deletes it.
                ExpectedState::Unknown | ExpectedState::Disabled(_) => {
                    if remove(&scene, &admin, &name(TABLE)).await {
                        self.state.lock().change_original(ExpectedState::Absent);
                    }
                    Ok(())
                }
                ExpectedState::Absent => {
                    self.state.lock().change_original(ExpectedState::Unknown);
                    if admin.create_table(&self.table, &self.splits).await.is_ok() {
                        self.state.lock().change_original(ExpectedState::Present(Content::default()));
                    }
                    Ok(())
                }
                ExpectedState::Present(_) => match random.below(14) {
                    0..=6 => {
                        next += 1;
                        self.put(&cluster, next, &mut random).await;
                        Ok(())
                    }
                    7 => self.read_original(&cluster).await,
                    8 | 9 => {
                        next += 1;
                        self.take(&admin, format!("s{next}")).await;
                        Ok(())
                    }
                    10 => {
                        self.restore(&admin, &mut random).await;
                        Ok(())
                    }
                    11 => {
                        self.alter(&admin, &mut random).await;
                        Ok(())
                    }
                    _ => {
                        next += 1;
                        self.act_on_clone(&scene, &cluster, next, &mut random).await
                    }
                },
            };
            if let Err(words) = done
                && !scene.may_be_stale(begun)
            {
                scene.fail(format!("snapshots: {words}"));
            }
        }
    }

    /// Puts a row into the original, which must be present.
    async fn put(&self, cluster: &Cluster, number: u64, random: &mut Random) {
        let changes = {
            let mut state = self.state.lock();
            state.late.insert(number);
            state.changes
        };
        if put(cluster, TABLE, number, random).await {
            let mut state = self.state.lock();
            if state.changes == changes
                && let ExpectedState::Present(content) = &mut state.original
            {
                content.must.insert(number);
                state.late.remove(&number);
            }
        }
    }

    /// Puts rows into the original while the other client acts on it.
    async fn writer(self: Arc<Self>, scene: Scene) {
        // Puts are not repeated: an earlier attempt could arrive after the table was restored.
        let cluster = scene.client(Duration::ZERO);
        let mut random = Random::new(!self.seed);
        let mut number = WRITTEN_FROM;
        while !scene.is_over() {
            scene.pause(&mut random, 600).await;
            if matches!(self.state.lock().original, ExpectedState::Present(_)) {
                number += 1;
                self.put(&cluster, number, &mut random).await;
            }
        }
    }

    async fn read_original(&self, cluster: &Cluster) -> Result<(), String> {
        let Some(before) = self.state.lock().content() else { return Ok(()) };
        let Ok(found) = cluster.table(TABLE).expect("a name").scan(Scan::new()).collect().await else {
            return Ok(());
        };
        self.with_later(before).check(TABLE, &found)
    }

    /// Adds the rows that came into the original since `before` to those that it may have had meanwhile.
    fn with_later(&self, mut before: Content) -> Content {
        if let Some(now) = self.state.lock().content() {
            before.may.extend(now.may.into_iter().chain(now.must));
        }
        before
    }

    /// Takes a snapshot, or deletes one if there are many.
    async fn take(&self, admin: &Admin, new: String) {
        let oldest = {
            let mut state = self.state.lock();
            let is_full = state.snapshots.len() >= SNAPSHOTS_MAX;
            let doubtful = state.doubtful.pop_first();
            doubtful.or_else(|| is_full.then(|| state.snapshots.pop_first()).flatten().map(|(name, _)| name))
        };
        if let Some(oldest) = oldest {
            self.state.lock().doubtful.insert(oldest.clone());
            // If the snapshot does not exist, either it was never created, or an attempt without an answer has deleted
            // it.
            let Ok(there) = admin.snapshots().await else { return };
            let is_there = there.iter().any(|snapshot| snapshot.name == oldest);
            if !is_there || admin.delete_snapshot(&oldest).await.is_ok() {
                env::sometimes("snapshots: a snapshot was deleted");
                self.state.lock().doubtful.remove(&oldest);
            }
            return;
        }
        self.state.lock().doubtful.insert(new.clone());
        let Some(before) = self.state.lock().content() else { return };
        if admin.snapshot(&new, &name(TABLE)).await.is_ok() {
            env::sometimes("snapshots: a snapshot was taken");
            let content = self.with_later(before.clone());
            if content.may.len() > before.may.len() {
                env::sometimes("snapshots: a row was written while a snapshot was taken");
            }
            let mut state = self.state.lock();
            state.doubtful.remove(&new);
            state.snapshots.insert(new, content);
        }
    }

    fn choose(&self, random: &mut Random) -> Option<(String, Content)> {
        let state = self.state.lock();
        let at = random.below(state.snapshots.len() as u64) as usize;
        state.snapshots.iter().nth(at).map(|(name, content)| (name.clone(), content.clone()))
    }

    async fn restore(&self, admin: &Admin, random: &mut Random) {
        let Some((snapshot, content)) = self.choose(random) else { return };
        self.state.lock().change_original(ExpectedState::Unknown);
        if admin.disable_table(&name(TABLE)).await.is_ok()
            && admin.restore_snapshot(&snapshot, &name(TABLE)).await.is_ok()
            && admin.enable_table(&name(TABLE)).await.is_ok()
        {
            env::sometimes("snapshots: a table was restored");
            self.state.lock().change_original(ExpectedState::Present(content));
        }
    }

    /// Alters options of a family that do not change its content.
    async fn alter(&self, admin: &Admin, random: &mut Random) {
        let family = self.table.family(random.choose(&[b"f", b"g"])).expect("a family of the table").clone();
        let family = family
            .with("BLOCKSIZE", random.spread(1 << 10, 16 << 10))
            .with(
                "DATA_BLOCK_ENCODING",
                random.choose(&["NONE", "PREFIX", "DIFF", "FAST_DIFF", "ROW_INDEX_V1"]),
            )
            .with("BLOOMFILTER", random.choose(&["NONE", "ROW", "ROWCOL"]))
            .with("VERSIONS", random.choose(&[1, 3]))
            .with("IS_MOB", random.one_in(3))
            .with("MOB_THRESHOLD", random.below(32));
        if admin.modify_family(&name(TABLE), &family).await.is_ok() {
            env::sometimes("snapshots: a family was altered");
        }
    }

    async fn act_on_clone(
        &self,
        scene: &Scene,
        cluster: &Cluster,
        number: u64,
        random: &mut Random,
    ) -> Result<(), String> {
        let admin = cluster.admin();
        let clone = self.state.lock().clone.clone();
        match clone {
            ExpectedState::Unknown => {
                if remove(scene, &admin, &name(CLONE)).await {
                    self.state.lock().clone = ExpectedState::Absent;
                }
            }
            ExpectedState::Absent => {
                let Some((snapshot, content)) = self.choose(random) else { return Ok(()) };
                self.state.lock().clone = ExpectedState::Unknown;
                if admin.clone_snapshot(&snapshot, &name(CLONE)).await.is_ok() {
                    env::sometimes("snapshots: a snapshot was cloned");
                    self.state.lock().clone = ExpectedState::Present(content);
                }
            }
            ExpectedState::Disabled(content) => {
                if enable(scene, &admin, &name(CLONE)).await {
                    env::sometimes("snapshots: a clone was disabled and enabled");
                    self.state.lock().clone = ExpectedState::Present(content);
                }
            }
            ExpectedState::Present(mut content) => match random.below(6) {
                0 => {
                    self.state.lock().clone = ExpectedState::Unknown;
                    if remove(scene, &admin, &name(CLONE)).await {
                        self.state.lock().clone = ExpectedState::Absent;
                    }
                }
                1 | 2 => return read_clone(cluster, &content).await,
                3 => {
                    self.state.lock().clone = ExpectedState::Unknown;
                    if admin.disable_table(&name(CLONE)).await.is_ok() {
                        self.state.lock().clone = ExpectedState::Disabled(content);
                        // The files of a disabled table are not in use. So only their holders keep the janitor from
                        // deleting them.
                        env::sleep(Duration::from_millis(random.below(DISABLED_MS_MAX))).await;
                    }
                }
                _ => {
                    content.may.insert(number);
                    self.state.lock().clone = ExpectedState::Present(content.clone());
                    if put(cluster, CLONE, number, random).await {
                        content.must.insert(number);
                        self.state.lock().clone = ExpectedState::Present(content);
                    }
                }
            },
        }
        Ok(())
    }

    /// Deletes the clone and all snapshots.
    async fn remove_all(&self, scene: &Scene, admin: &Admin) -> Result<(), Complaint> {
        remove_interrupted(scene, admin, &name(CLONE)).await?;
        self.state.lock().clone = ExpectedState::Absent;
        let snapshots: Vec<String> = {
            let mut state = self.state.lock();
            let known = std::mem::take(&mut state.snapshots).into_keys();
            known.chain(std::mem::take(&mut state.doubtful)).collect()
        };
        for snapshot in snapshots {
            delete_in_time(admin, &snapshot).await?;
        }
        Ok(())
    }

    /// Reads a snapshot through a clone.
    async fn judge_snapshot(
        &self,
        cluster: &Cluster,
        snapshot: &str,
        content: &Content,
    ) -> Result<(), Complaint> {
        let unreadable = |error: client::Error| {
            Complaint::Unreadable(format!("snapshots: {snapshot} cannot be read by a clone: {error}"))
        };
        let admin = cluster.admin();
        // A file may move to the archive while it is cloned, and a deleted file in a store cannot be read. Then the
        // clone fails as a whole, and the next attempt finds the file.
        let mut tries = 0;
        let clone = loop {
            let clone = format!("judged{}", self.judged.fetch_add(1, Ordering::AcqRel));
            match admin.clone_snapshot(snapshot, &name(&clone)).await {
                Ok(()) => break clone,
                Err(error) if tries == CLONES_MAX => return Err(unreadable(error)),
                Err(_) => tries += 1,
            }
            env::sleep(Duration::from_secs(5)).await;
        };
        let found = cluster.table(&clone).expect("a name").scan(Scan::new()).collect().await;
        let what = format!("the clone of snapshot {snapshot}");
        content.check(&what, &found.map_err(unreadable)?).map_err(|words| format!("snapshots: {words}"))?;
        admin.disable_table(&name(&clone)).await.map_err(unreadable)?;
        admin.delete_table(&name(&clone)).await.map_err(unreadable)
    }
}

async fn put(cluster: &Cluster, table: &str, number: u64, random: &mut Random) -> bool {
    let key = format!("{}{number}", random.choose(&["1", "6", "b", "k", "v"]));
    let value = number.to_be_bytes().to_vec();
    let put = Put::row(key).set("f", "q", value.clone()).set("g", "q", value);
    cluster.table(table).expect("a name").put(put).await.is_ok()
}

async fn read_clone(cluster: &Cluster, content: &Content) -> Result<(), String> {
    match cluster.table(CLONE).expect("a name").scan(Scan::new()).collect().await {
        Ok(found) => content.check(CLONE, &found),
        Err(_) => Ok(()),
    }
}

/// Deletes a snapshot that may exist. An interrupted change may need it until the server has finished that change.
async fn delete_in_time(admin: &Admin, snapshot: &str) -> Result<(), Complaint> {
    let mut tries = 0;
    loop {
        let deleted = match admin.snapshots().await {
            Ok(there) if there.iter().all(|one| one.name != snapshot) => return Ok(()),
            Ok(_) => admin.delete_snapshot(snapshot).await,
            Err(error) => Err(error),
        };
        match deleted {
            Ok(()) => return Ok(()),
            Err(error) if tries == DELETIONS_MAX => {
                let words = format!("snapshots: {snapshot} cannot be deleted: {error}");
                return Err(Complaint::Unreadable(words));
            }
            Err(_) => tries += 1,
        }
        env::sleep(Duration::from_secs(5)).await;
    }
}

impl Workload for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn tables(&self) -> Vec<(TableDescriptor, Vec<Bytes>)> {
        Vec::new()
    }

    fn clients(self: Arc<Self>, scene: &Scene) -> Vec<Job<()>> {
        let stirred = |of: &str| stir(scene, scene.client(Duration::ZERO).table(of).expect("a name"));
        let client = Arc::clone(&self).client(scene.clone());
        let writer = Arc::clone(&self).writer(scene.clone());
        vec![Box::pin(client), Box::pin(writer), stirred(TABLE), stirred(CLONE)]
    }

    fn judge(self: Arc<Self>, scene: Scene) -> Verdict {
        Box::pin(async move {
            let cluster = scene.client(Duration::from_secs(120));
            let (tables, snapshots) = {
                let state = self.state.lock();
                let original = state.content().map_or(ExpectedState::Unknown, ExpectedState::Present);
                let tables = [(TABLE, original), (CLONE, state.clone.clone())];
                (tables, state.snapshots.clone())
            };
            for (table, known) in tables {
                if let ExpectedState::Disabled(_) = known {
                    // If enabling fails, reading the table fails, too, and is reported.
                    let _either = cluster.admin().enable_table(&name(table)).await;
                }
                if let ExpectedState::Present(content) | ExpectedState::Disabled(content) = known {
                    let found = cluster.table(table).expect("a name").scan(Scan::new()).collect().await;
                    let found = found.map_err(|error| {
                        Complaint::Unreadable(format!("snapshots: {table} cannot be read: {error}"))
                    })?;
                    content.check(table, &found).map_err(|words| format!("snapshots: {words}"))?;
                }
            }
            for (snapshot, content) in &snapshots {
                self.judge_snapshot(&cluster, snapshot, content).await?;
                env::sometimes("snapshots: a snapshot was judged at the end");
            }
            // A clone whose outcome is unknown must not keep its snapshot from being deleted for ever.
            if matches!(self.state.lock().clone, ExpectedState::Unknown) {
                self.remove_all(&scene, &cluster.admin()).await?;
                env::sometimes("snapshots: all were deleted after a clone without an outcome");
            }
            if self.state.lock().content().is_none() {
                remove_interrupted(&scene, &cluster.admin(), &name(TABLE)).await?;
                env::sometimes("snapshots: the original was deleted after a change without an outcome");
            }
            Ok(())
        })
    }
}
