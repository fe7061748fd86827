//! The locks of procedures, with the rules of HBase's `MasterProcedureScheduler`.
//!
//! A procedure locks namespaces, tables and regions, each shared or exclusively. It takes all of its locks at once, or
//! waits until all are free. So it never waits while it holds a lock, and there is no deadlock.
//!
//! | procedure | namespace | table | regions |
//! |---|---|---|---|
//! | creates, deletes, enables, disables, truncates, alters, clones or restores a table | shared | exclusive | |
//! | splits, merges, moves, assigns, unassigns or truncates regions | shared | shared | exclusive, also of new ones |
//! | truncates a region after a recovery snapshot | shared | exclusive | |
//! | takes a snapshot of a table | shared | shared | shared, all |
//! | flushes a table | shared | shared | |
//! | changes a namespace | exclusive | hbase:namespace shared | |
//!
//! Locks are granted in the order of arrival. A request waits for every earlier request with which it conflicts, even
//! if that request is itself waiting. So an alter cannot wait forever because splits keep arriving.
//!
//! HBase 2.6 refuses to split regions of a table while a snapshot of the table is taken. Here a split waits for the
//! snapshot.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use proto::{EncodedName, RegionInfo, TableName};

use super::ProcedureId;

/// A thing that can be locked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A namespace.
    Namespace(String),
    /// A table.
    Table(TableName),
    /// A region.
    Region(EncodedName),
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Held by any number of procedures, while none holds the lock exclusively.
    Shared,
    /// Held by a single procedure.
    Exclusive,
}

/// The locks of one procedure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockSet(BTreeMap<Resource, Mode>);

impl LockSet {
    /// Returns an empty set, for work on things that no procedure locks.
    pub fn none() -> LockSet {
        LockSet(BTreeMap::new())
    }

    /// Returns the locks for changing a whole table.
    pub fn table(table: &TableName) -> LockSet {
        LockSet::table_in(table, Mode::Exclusive)
    }

    /// Returns the locks for work that can run beside any work except a change of the whole table.
    pub fn table_shared(table: &TableName) -> LockSet {
        LockSet::table_in(table, Mode::Shared)
    }

    /// Returns the locks for changing these regions of a table.
    pub fn regions<'a>(table: &TableName, regions: impl IntoIterator<Item = &'a RegionInfo>) -> LockSet {
        let mut locks = LockSet::table_shared(table);
        let regions = regions.into_iter().map(|region| Resource::Region(region.encoded_name().clone()));
        locks.0.extend(regions.map(|region| (region, Mode::Exclusive)));
        locks
    }

    /// Returns the locks for a snapshot of a table with these regions. Snapshots of a table may be taken at the same
    /// time.
    pub fn snapshot<'a>(table: &TableName, regions: impl IntoIterator<Item = &'a RegionInfo>) -> LockSet {
        let mut locks = LockSet::table_shared(table);
        let regions = regions.into_iter().map(|region| Resource::Region(region.encoded_name().clone()));
        locks.0.extend(regions.map(|region| (region, Mode::Shared)));
        locks
    }

    /// Whether the set has the locks of all these regions.
    pub fn has_regions<'a>(&self, regions: impl IntoIterator<Item = &'a RegionInfo>) -> bool {
        let mut names = regions.into_iter().map(|region| region.encoded_name().clone());
        names.all(|name| self.0.contains_key(&Resource::Region(name)))
    }

    /// Returns the locks for changing a namespace, which is a row of hbase:namespace.
    pub fn namespace(name: &str) -> LockSet {
        let row = (Resource::Table(TableName::namespaces()), Mode::Shared);
        LockSet(BTreeMap::from([(Resource::Namespace(name.to_owned()), Mode::Exclusive), row]))
    }

    fn table_in(table: &TableName, mode: Mode) -> LockSet {
        let namespace = (Resource::Namespace(table.namespace().to_owned()), Mode::Shared);
        LockSet(BTreeMap::from([namespace, (Resource::Table(table.clone()), mode)]))
    }

    /// Whether the set has this lock exclusively.
    pub fn excludes(&self, resource: &Resource) -> bool {
        self.0.get(resource) == Some(&Mode::Exclusive)
    }
}

/// The holders of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holders {
    /// These procedures share the lock.
    Shared(BTreeSet<ProcedureId>),
    /// This procedure holds the lock exclusively.
    Exclusive(ProcedureId),
}

/// A lock that is held or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStatus {
    /// What is locked.
    pub resource: Resource,
    /// The holders. `None` if the lock is reserved: an earlier request in the queue needs it and waits for another
    /// lock.
    pub holders: Option<Holders>,
    /// The procedures that wait for the lock, in the order of arrival, each with the mode that it requests.
    pub waiting: Vec<(ProcedureId, Mode)>,
}

/// All locks, and the procedures that wait for locks. A pure state machine.
#[derive(Debug, Default)]
pub struct Locks {
    held: BTreeMap<Resource, Holders>,
    holders: BTreeMap<ProcedureId, LockSet>,
    queue: VecDeque<(ProcedureId, LockSet)>,
}

impl Locks {
    /// Queues a request for these locks, after all requests that already wait.
    pub fn request(&mut self, id: ProcedureId, locks: LockSet) {
        self.queue.push_back((id, locks));
    }

    /// Grants the locks of the first request in the queue that conflicts neither with a holder nor with an earlier
    /// request. Returns its procedure; `None` if no request can be granted. `may_run` returns whether a procedure may
    /// run now; if not, it keeps its place.
    pub fn grant(&mut self, may_run: impl Fn(ProcedureId) -> bool) -> Option<ProcedureId> {
        // The locks that earlier requests in the queue wait for.
        let mut wanted = BTreeMap::new();
        let mut found = None;
        for (index, (id, locks)) in self.queue.iter().enumerate() {
            let mut all = locks.0.iter();
            if may_run(*id) && all.all(|(resource, mode)| self.is_free(resource, *mode, &wanted)) {
                found = Some(index);
                break;
            }
            want(&mut wanted, locks);
        }
        let (id, locks) = self.queue.remove(found?)?;
        for (resource, mode) in &locks.0 {
            match (mode, self.held.get_mut(resource)) {
                (Mode::Shared, Some(Holders::Shared(ids))) => drop(ids.insert(id)),
                (Mode::Shared, _) => {
                    self.held.insert(resource.clone(), Holders::Shared(BTreeSet::from([id])));
                }
                (Mode::Exclusive, _) => drop(self.held.insert(resource.clone(), Holders::Exclusive(id))),
            }
        }
        self.holders.insert(id, locks);
        Some(id)
    }

    /// Gives a procedure the locks of regions that it creates. No other procedure knows these regions yet, so none
    /// holds their locks or waits for them.
    pub fn add_new<'a>(&mut self, id: ProcedureId, regions: impl IntoIterator<Item = &'a RegionInfo>) {
        for region in regions {
            let region = Resource::Region(region.encoded_name().clone());
            assert!(!self.is_busy(&region), "{region:?} is new, and its lock is known");
            self.held.insert(region.clone(), Holders::Exclusive(id));
            self.holders.entry(id).or_default().0.insert(region, Mode::Exclusive);
        }
    }

    /// Releases all locks of a procedure, or removes its request from the queue.
    pub fn release(&mut self, id: ProcedureId) {
        self.queue.retain(|(waiting, _)| *waiting != id);
        for resource in self.holders.remove(&id).unwrap_or_default().0.into_keys() {
            if let Some(Holders::Shared(ids)) = self.held.get_mut(&resource) {
                ids.remove(&id);
                if !ids.is_empty() {
                    continue;
                }
            }
            self.held.remove(&resource);
        }
    }

    /// Returns the locks that a procedure holds; `None` while it holds none.
    pub fn held_by(&self, id: ProcedureId) -> Option<&LockSet> {
        self.holders.get(&id)
    }

    /// Returns the procedure that holds this lock exclusively.
    pub fn owner(&self, resource: &Resource) -> Option<ProcedureId> {
        match self.held.get(resource) {
            Some(Holders::Exclusive(id)) => Some(*id),
            Some(Holders::Shared(_)) | None => None,
        }
    }

    /// Whether any procedure holds this lock or waits for it.
    pub fn is_busy(&self, resource: &Resource) -> bool {
        self.held.contains_key(resource) || self.queue.iter().any(|(_, locks)| locks.0.contains_key(resource))
    }

    /// Returns the number of waiting procedures.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns every lock that is held or waited for: namespaces, then tables, then regions, each sorted by name. A
    /// waiting procedure is listed at each lock that is not free for it.
    pub fn status(&self) -> Vec<LockStatus> {
        let mut all: BTreeMap<&Resource, Vec<(ProcedureId, Mode)>> =
            self.held.keys().map(|resource| (resource, Vec::new())).collect();
        let mut wanted: BTreeMap<&Resource, Mode> = BTreeMap::new();
        for (id, locks) in &self.queue {
            for (resource, mode) in &locks.0 {
                if !self.is_free(resource, *mode, &wanted) {
                    all.entry(resource).or_default().push((*id, *mode));
                }
            }
            want(&mut wanted, locks);
        }
        let status = |(resource, waiting): (&Resource, _)| LockStatus {
            resource: resource.clone(),
            holders: self.held.get(resource).cloned(),
            waiting,
        };
        all.into_iter().map(status).collect()
    }

    /// Whether a lock is free: neither a holder nor an earlier request in the queue conflicts. `wanted` has the locks
    /// of the earlier requests.
    fn is_free(&self, resource: &Resource, mode: Mode, wanted: &BTreeMap<&Resource, Mode>) -> bool {
        wanted.get(resource).is_none_or(|earlier| are_both_shared(*earlier, mode))
            && self.held.get(resource).is_none_or(|holders| holders.admit(mode))
    }
}

/// Adds the locks of a queued request to `wanted`, which later requests must respect.
fn want<'a>(wanted: &mut BTreeMap<&'a Resource, Mode>, locks: &'a LockSet) {
    for (resource, mode) in &locks.0 {
        let all = wanted.entry(resource).or_insert(*mode);
        if *mode == Mode::Exclusive {
            *all = Mode::Exclusive;
        }
    }
}

impl Holders {
    fn admit(&self, mode: Mode) -> bool {
        matches!(self, Holders::Shared(_)) && mode == Mode::Shared
    }
}

fn are_both_shared(one: Mode, other: Mode) -> bool {
    one == Mode::Shared && other == Mode::Shared
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Namespace(name) => f.write_str(name),
            Resource::Table(name) => write!(f, "{name}"),
            Resource::Region(name) => write!(f, "{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::RegionId;

    fn table(name: &str) -> TableName {
        name.parse().unwrap()
    }

    fn region(start: &'static str, end: &'static str) -> RegionInfo {
        RegionInfo::new(table("t"), start.into(), end.into(), RegionId(7)).unwrap()
    }

    fn id(number: u64) -> ProcedureId {
        ProcedureId(number)
    }

    /// Requests `sets`, numbered from 1, and returns which requests are granted at once.
    fn granted(sets: impl IntoIterator<Item = LockSet>) -> (Locks, Vec<u64>) {
        let mut locks = Locks::default();
        (1..).zip(sets).for_each(|(number, set)| locks.request(id(number), set));
        let granted = grant_all(&mut locks);
        (locks, granted)
    }

    fn grant_all(locks: &mut Locks) -> Vec<u64> {
        std::iter::from_fn(|| locks.grant(|_| true)).map(|id| id.0).collect()
    }

    #[test]
    fn splits_of_different_regions_run_together_and_an_alter_runs_alone() {
        let (low, high) = (region("", "m"), region("m", ""));
        let split = |region: &RegionInfo| LockSet::regions(&table("t"), [region]);
        let (mut locks, first) =
            granted([split(&low), split(&high), split(&low), LockSet::table(&table("t")), split(&high)]);
        assert_eq!(first, [1, 2], "the third waits for its region, the last for the alter before it");
        locks.release(id(1));
        assert_eq!(grant_all(&mut locks), [3]);
        locks.release(id(2));
        assert_eq!(grant_all(&mut locks), [0; 0], "the alter waits for the third");
        locks.release(id(3));
        assert_eq!(grant_all(&mut locks), [4]);
        locks.release(id(4));
        assert_eq!(grant_all(&mut locks), [5]);
        locks.release(id(5));
        assert_eq!(locks.status(), []);
    }

    #[test]
    fn snapshots_of_a_table_are_taken_together_and_splits_and_alters_wait() {
        let (low, high) = (region("", "m"), region("m", ""));
        let snapshot = || LockSet::snapshot(&table("t"), [&low, &high]);
        assert!(snapshot().has_regions([&high]) && !LockSet::table(&table("t")).has_regions([&high]));
        let (mut locks, first) = granted([
            snapshot(),
            snapshot(),
            LockSet::regions(&table("t"), [&low]),
            LockSet::table_shared(&table("t")),
            LockSet::table(&table("t")),
        ]);
        assert_eq!(first, [1, 2, 4], "a flush does not wait either");
        locks.release(id(1));
        assert_eq!(grant_all(&mut locks), [0; 0]);
        locks.release(id(2));
        assert_eq!(grant_all(&mut locks), [3]);
        locks.release(id(3));
        locks.release(id(4));
        assert_eq!(grant_all(&mut locks), [5]);
    }

    #[test]
    fn a_namespace_waits_for_its_tables_and_they_for_it() {
        let (mut locks, first) = granted([
            LockSet::table(&table("ns:a")),
            LockSet::namespace("ns"),
            LockSet::table(&table("ns:b")),
            LockSet::table(&table("other")),
        ]);
        assert_eq!(first, [1, 4]);
        locks.release(id(1));
        assert_eq!(grant_all(&mut locks), [2]);
        locks.release(id(2));
        assert_eq!(grant_all(&mut locks), [3]);
    }

    #[test]
    fn a_waiting_procedure_keeps_its_position_until_it_gives_up() {
        let (mut locks, _) = granted([]);
        locks.request(id(1), LockSet::table(&table("t")));
        locks.request(id(2), LockSet::table_shared(&table("t")));
        assert_eq!(locks.grant(|wanted| wanted != id(1)), None, "the first is still the first");
        assert_eq!(locks.waiting(), 2);
        locks.release(id(1));
        assert_eq!(locks.grant(|_| true), Some(id(2)));
        assert_eq!(locks.held_by(id(2)), Some(&LockSet::table_shared(&table("t"))));
        assert!(!locks.held_by(id(2)).unwrap().excludes(&Resource::Table(table("t"))));
    }

    #[test]
    fn the_status_names_who_holds_and_who_waits() {
        let (locks, _) = granted([
            LockSet::table_shared(&table("t")),
            LockSet::table_shared(&table("t")),
            LockSet::table(&table("t")),
        ]);
        let [namespace, of_table] = &locks.status()[..] else { panic!("two locks: {:?}", locks.status()) };
        assert_eq!(namespace.resource, Resource::Namespace("default".into()));
        assert_eq!(namespace.waiting, [], "the third could have it");
        assert_eq!(of_table.resource.to_string(), "t");
        assert_eq!(of_table.holders, Some(Holders::Shared(BTreeSet::from([id(1), id(2)]))));
        assert_eq!(of_table.waiting, [(id(3), Mode::Exclusive)]);
        assert!(locks.is_busy(&Resource::Table(table("t"))) && !locks.is_busy(&Resource::Table(table("u"))));
    }
}
