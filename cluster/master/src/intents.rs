//! Intents: changes of tables, written durably before their first step and removed after their last step.
//!
//! One small object has all intents, so no folder is listed to find them. A start carries out every intent that it
//! finds ([`crate::startup`]). Each change can be repeated from its first step, which removes everything that an
//! earlier attempt has left. Therefore an intent is removed *before* the table can be used, never after.
//!
//! Each write of the object has another number. So if a store carries out a swap late, the swap does not find the
//! content that it expects. Each master begins at a random number greater than the last one, so the number in the
//! object shows which master wrote it. If another process wrote the object, that process has taken over the files, and
//! this master reports that the server must end.
//!
//! In storage that several processes reach, a master also writes the object when it opens it. After that, an earlier
//! master that hung and goes on cannot add an intent, which the next start would carry out.
//!
//! The object is a sequence of delimited messages. The first is `NameBytesPair{"written", number of the write 8B}`. The
//! intents follow:
//!
//! ```text
//! creation               NameBytesPair{"create"}  TableSchema  LongMsg count  RegionInfo…
//! copy of a snapshot     NameBytesPair{"clone" | "restore", snapshot}  TableSchema  LongMsg count  RegionInfo…
//! deletion               NameBytesPair{"delete"}  TableName
//! deletion of families   NameBytesPair{"delete-families"}  TableSchema  LongMsg count  NameBytesPair{"", family}…
//! region to truncate     NameBytesPair{"truncate-region"}  TableSchema  RegionInfo
//! split or merge         NameBytesPair{"replace", step}  LongMsg count  RegionInfo of each parent
//!                                                        LongMsg count  RegionInfo of each child
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use cell::string_binary;
use env::sync::Mutex;
use env::{FirstFailure, World};
use prost::Message;
use proto::{RegionInfo, TableDescriptor, TableName, pb};
use storage::{Capability, Files, Kind, Outcome, Version, swap_confirmed};

use crate::Error;
use crate::clones::{CopyKind, SnapshotCopy};
use crate::replace::{Replacement, Step};

/// A change of a table that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// Creates the table. If a table of this name exists, the creation is a truncation, which replaces that table.
    Create {
        /// The schema of the table.
        table: Arc<TableDescriptor>,
        /// The regions of the table.
        regions: Vec<RegionInfo>,
    },
    /// Deletes the table.
    Delete {
        /// The name of the table.
        table: TableName,
    },
    /// Deletes families with their files.
    DeleteFamilies {
        /// The table's schema without these families.
        table: Arc<TableDescriptor>,
        /// The families.
        families: Vec<Bytes>,
    },
    /// Removes all rows of a region.
    TruncateRegion {
        /// The table's schema.
        table: Arc<TableDescriptor>,
        /// The region.
        region: RegionInfo,
    },
    /// Makes a table from a snapshot.
    Copy(SnapshotCopy),
    /// Replaces regions by others, in a split or a merge. It includes the current step.
    Replace(Replacement),
}

/// Identifies an intent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntentKey {
    table: TableName,
    /// The name of the first region that changes; `None` when the whole table changes.
    region: Option<Bytes>,
}

impl IntentKey {
    /// Returns the key for a change of a whole table.
    pub fn of_table(table: &TableName) -> IntentKey {
        IntentKey { table: table.clone(), region: None }
    }
}

impl Intent {
    /// Returns the key of the intent. If the intent changes a whole table, the key is the table's; otherwise it is that
    /// of the first region that changes.
    pub fn key(&self) -> IntentKey {
        let region = self.regions().and_then(|regions| regions.first()).map(|region| region.name().clone());
        IntentKey { table: self.table().clone(), region }
    }

    /// Returns the regions that change; `None` when the whole table changes.
    pub fn regions(&self) -> Option<&[RegionInfo]> {
        match self {
            Intent::TruncateRegion { region, .. } => Some(std::slice::from_ref(region)),
            Intent::Replace(replacement) => Some(&replacement.parents),
            Intent::Create { .. }
            | Intent::Delete { .. }
            | Intent::DeleteFamilies { .. }
            | Intent::Copy(_) => None,
        }
    }

    /// Returns the table that the intent changes.
    pub fn table(&self) -> &TableName {
        match self {
            Intent::Create { table, .. }
            | Intent::DeleteFamilies { table, .. }
            | Intent::TruncateRegion { table, .. } => table.name(),
            Intent::Delete { table } => table,
            Intent::Copy(copy) => copy.table.name(),
            Intent::Replace(replacement) => replacement.table(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let put = |out: &mut Vec<u8>, message: pb::NameBytesPair| {
            message.encode_length_delimited(out).expect("a growing buffer takes any message");
        };
        let schema = |out: &mut Vec<u8>, table: &TableDescriptor| {
            pb::TableSchema::from(table)
                .encode_length_delimited(out)
                .expect("a growing buffer takes any message");
        };
        match self {
            Intent::Create { table, regions } => {
                put(out, pb::NameBytesPair { name: "create".into(), value: None });
                schema(out, table);
                count(out, regions.len());
                for region in regions {
                    let message = pb::RegionInfo::from(region);
                    message.encode_length_delimited(out).expect("a growing buffer takes any message");
                }
            }
            Intent::Copy(SnapshotCopy { snapshot, kind, table, regions }) => {
                let name = match kind {
                    CopyKind::Clone => "clone",
                    CopyKind::Restoration => "restore",
                };
                put(out, pb::NameBytesPair { name: name.into(), value: Some(snapshot.clone().into()) });
                schema(out, table);
                count(out, regions.len());
                for region in regions {
                    let message = pb::RegionInfo::from(region);
                    message.encode_length_delimited(out).expect("a growing buffer takes any message");
                }
            }
            Intent::Delete { table } => {
                put(out, pb::NameBytesPair { name: "delete".into(), value: None });
                let message = pb::TableName::from(table);
                message.encode_length_delimited(out).expect("a growing buffer takes any message");
            }
            Intent::DeleteFamilies { table, families } => {
                put(out, pb::NameBytesPair { name: "delete-families".into(), value: None });
                schema(out, table);
                count(out, families.len());
                for family in families {
                    put(out, pb::NameBytesPair { name: String::new(), value: Some(family.clone()) });
                }
            }
            Intent::TruncateRegion { table, region } => {
                put(out, pb::NameBytesPair { name: "truncate-region".into(), value: None });
                schema(out, table);
                let message = pb::RegionInfo::from(region);
                message.encode_length_delimited(out).expect("a growing buffer takes any message");
            }
            Intent::Replace(Replacement { parents, children, step }) => {
                let (_, step) =
                    Step::NAMES.iter().find(|(known, _)| known == step).expect("every step has a name");
                put(out, pb::NameBytesPair { name: "replace".into(), value: Some((*step).into()) });
                for regions in [parents, children] {
                    count(out, regions.len());
                    for region in regions {
                        let message = pb::RegionInfo::from(region);
                        message.encode_length_delimited(out).expect("a growing buffer takes any message");
                    }
                }
            }
        }
    }

    fn decode(bytes: &mut Bytes) -> Result<Intent, proto::Error> {
        let kind: pb::NameBytesPair = next(bytes)?;
        match kind.name.as_str() {
            "create" => {
                let table = Arc::new(TableDescriptor::try_from(next::<pb::TableSchema>(bytes)?)?);
                Ok(Intent::Create { table, regions: regions(bytes)? })
            }
            "clone" | "restore" => {
                let value = kind.value.unwrap_or_default();
                let snapshot =
                    String::from_utf8(value.to_vec()).map_err(|error| proto::Error::Malformed {
                        what: "unfinished copy of a snapshot",
                        found: error.to_string(),
                    })?;
                let table = Arc::new(TableDescriptor::try_from(next::<pb::TableSchema>(bytes)?)?);
                let is_clone = kind.name == "clone";
                let kind = if is_clone { CopyKind::Clone } else { CopyKind::Restoration };
                Ok(Intent::Copy(SnapshotCopy { snapshot, kind, table, regions: regions(bytes)? }))
            }
            "delete" => Ok(Intent::Delete { table: TableName::try_from(&next::<pb::TableName>(bytes)?)? }),
            "delete-families" => {
                let table = Arc::new(TableDescriptor::try_from(next::<pb::TableSchema>(bytes)?)?);
                let count = next::<pb::LongMsg>(bytes)?.long_msg;
                let families =
                    (0..count).map(|_| Ok(next::<pb::NameBytesPair>(bytes)?.value.unwrap_or_default()));
                Ok(Intent::DeleteFamilies { table, families: families.collect::<Result<_, proto::Error>>()? })
            }
            "truncate-region" => {
                let table = Arc::new(TableDescriptor::try_from(next::<pb::TableSchema>(bytes)?)?);
                let region = RegionInfo::try_from(&next::<pb::RegionInfo>(bytes)?)?;
                Ok(Intent::TruncateRegion { table, region })
            }
            "replace" => {
                let named = kind.value.unwrap_or_default();
                let step = Step::NAMES.iter().find(|(_, name)| name.as_bytes() == named);
                let (step, _) = step.ok_or_else(|| proto::Error::Malformed {
                    what: "unfinished split or merge",
                    found: format!("in the unknown step {:?}", string_binary(&named).to_string()),
                })?;
                let (parents, children) = (regions(bytes)?, regions(bytes)?);
                if parents.is_empty() {
                    return Err(proto::Error::Malformed {
                        what: "unfinished split or merge",
                        found: "without a parent".to_owned(),
                    });
                }
                Ok(Intent::Replace(Replacement { parents, children, step: *step }))
            }
            other => Err(proto::Error::Malformed {
                what: "unfinished change",
                found: format!("of the unknown kind {other:?}"),
            }),
        }
    }
}

fn count(out: &mut Vec<u8>, count: usize) {
    let message = pb::LongMsg { long_msg: i64::try_from(count).expect("fewer than 2^63 things") };
    message.encode_length_delimited(out).expect("a growing buffer takes any message");
}

fn regions(bytes: &mut Bytes) -> Result<Vec<RegionInfo>, proto::Error> {
    let count = next::<pb::LongMsg>(bytes)?.long_msg;
    (0..count).map(|_| RegionInfo::try_from(&next::<pb::RegionInfo>(bytes)?)).collect()
}

/// The name of the message that has the number of a write.
const WRITTEN: &str = "written";

fn encode_number(out: &mut Vec<u8>, number: u64) {
    let value = Some(Bytes::copy_from_slice(&number.to_be_bytes()));
    let message = pb::NameBytesPair { name: WRITTEN.into(), value };
    message.encode_length_delimited(out).expect("a growing buffer takes any message");
}

/// Removes the number of the write from `bytes`, and returns it. Returns 0 for an object of an earlier version of this
/// program, which wrote no number.
fn decode_number(bytes: &mut Bytes) -> Result<u64, proto::Error> {
    let mut rest = bytes.clone();
    if !rest.has_remaining() {
        return Ok(0);
    }
    let message: pb::NameBytesPair = next(&mut rest)?;
    if message.name != WRITTEN {
        return Ok(0);
    }
    *bytes = rest;
    let number = message.value.as_deref().and_then(|value| value.try_into().ok()).map(u64::from_be_bytes);
    number.ok_or_else(|| proto::Error::Malformed {
        what: "unfinished change",
        found: "whose number of writings has not 8 bytes".to_owned(),
    })
}

fn next<M: Message + Default>(bytes: &mut Bytes) -> Result<M, proto::Error> {
    M::decode_length_delimited(bytes)
        .map_err(|cause| proto::Error::Decode { what: "unfinished change", cause })
}

/// Returns the content of the object with these intents, as its write number `written`.
fn encode_object(by_key: &BTreeMap<IntentKey, Intent>, written: u64) -> Vec<u8> {
    let mut content = Vec::new();
    encode_number(&mut content, written);
    by_key.values().for_each(|intent| intent.encode(&mut content));
    content
}

/// Maximum size of the object in bytes: enough for a table of 100,000 regions.
const SIZE_MAX: usize = 64 << 20;

/// The unfinished changes under a root directory.
pub struct Intents {
    files: Arc<dyn Files>,
    state: Mutex<State>,
    /// The number of the last write when this master opened the object.
    found: u64,
    /// The number that precedes this master's first write.
    first: u64,
    /// Where this master reports that another process has written the object.
    replaced: Arc<FirstFailure>,
}

#[derive(Default)]
struct State {
    by_key: BTreeMap<IntentKey, Intent>,
    /// The version of the object that was last read or written; `None` while the object does not exist.
    version: Option<Version>,
    /// Whether a write of the object failed but may have happened. Then the object must be read before the next change.
    is_in_doubt: bool,
    /// The number of the last write of the object.
    written: u64,
}

impl State {
    fn read(files: &dyn Files) -> Result<State, Error> {
        let name = layout::unfinished();
        let (content, version) = match files.load(&name, SIZE_MAX) {
            Ok(object) => (object.content, Some(object.version)),
            Err(error) if error.kind() == Kind::NotFound => (Vec::new(), None),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Bytes::from(content);
        let mut by_key = BTreeMap::new();
        let damaged = |cause| Error::Damaged { name: name.clone(), cause: Box::new(cause) };
        let written = decode_number(&mut bytes).map_err(damaged)?;
        while bytes.has_remaining() {
            let intent = Intent::decode(&mut bytes).map_err(damaged)?;
            by_key.insert(intent.key(), intent);
        }
        Ok(State { by_key, version, is_in_doubt: false, written })
    }
}

impl Intents {
    /// Reads the intents that an earlier run of the master has left, and prevents earlier masters from writing others.
    /// If another process writes the object later, this is recorded in `replaced`.
    pub fn open(files: Arc<dyn Files>, world: &World, replaced: Arc<FirstFailure>) -> Result<Intents, Error> {
        let is_shared = !files.capabilities().has(Capability::OneProcess) && !env::planted(36);
        loop {
            let mut state = State::read(&*files)?;
            let found = state.written;
            let first = found + (world.random() >> 32);
            state.written = first;
            if is_shared {
                // An earlier master may have read the same version of the object. A write with a greater number makes
                // its next write fail.
                state.written += 1;
                let content = encode_object(&state.by_key, state.written);
                match swap_confirmed(&*files, &layout::unfinished(), state.version.as_ref(), &content) {
                    Ok(version) => state.version = Some(version),
                    Err(error) if error.kind() == Kind::Conflict => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            return Ok(Intents { files, found, first, state: Mutex::new(state), replaced });
        }
    }

    /// Reads the intents under a root directory whose master does not run.
    pub fn left_in(files: &dyn Files) -> Result<Vec<Intent>, Error> {
        Ok(State::read(files)?.by_key.into_values().collect())
    }

    /// Returns all intents.
    pub fn all(&self) -> Vec<Intent> {
        self.state.lock().by_key.values().cloned().collect()
    }

    /// Returns the intents of a table: one intent of the whole table, or intents of some of its regions.
    pub fn of(&self, table: &TableName) -> Vec<Intent> {
        let state = self.state.lock();
        state.by_key.values().filter(|intent| intent.table() == table).cloned().collect()
    }

    /// Writes an intent, and replaces the intent with the same key. A change of a whole table also replaces the intents
    /// of the table's regions. Durable when this returns.
    pub fn begin(&self, intent: Intent) -> storage::Result<()> {
        self.change(|by_key| {
            if intent.regions().is_none() {
                by_key.retain(|key, _| key.table != *intent.table());
            }
            by_key.insert(intent.key(), intent.clone());
        })
    }

    /// Removes the intent with this key. Durable when this returns.
    pub fn end(&self, key: &IntentKey) -> storage::Result<()> {
        self.change(|by_key| {
            by_key.remove(key);
        })
    }

    fn change(&self, act: impl Fn(&mut BTreeMap<IntentKey, Intent>)) -> storage::Result<()> {
        let mut state = self.state.lock();
        loop {
            if state.is_in_doubt {
                self.read_again(&mut state)?;
            }
            // The object belongs to the other process, so this master no longer changes it.
            if self.replaced.has_happened() {
                let (name, outcome) = (layout::unfinished(), Outcome::DidNotHappen);
                return Err(storage::Error::new(Kind::Conflict, outcome, &name, "write")
                    .because("another process has taken over"));
            }
            let mut by_key = state.by_key.clone();
            act(&mut by_key);
            // The number also grows if the write fails, because the store may carry out the write later.
            state.written += 1;
            let written = state.written;
            let content = encode_object(&by_key, written);
            match swap_confirmed(&*self.files, &layout::unfinished(), state.version.as_ref(), &content) {
                Ok(version) => {
                    *state = State { by_key, version: Some(version), is_in_doubt: false, written };
                    return Ok(());
                }
                // The content is not the expected one. Either the store has carried out an earlier write of this master
                // late, or another process wrote the object.
                Err(error) if error.kind() == Kind::Conflict => state.is_in_doubt = true,
                Err(error) => {
                    state.is_in_doubt = error.outcome() == Outcome::MayHaveHappened;
                    return Err(error);
                }
            }
        }
    }

    /// Reads the object after a failed write, and finds out whether this master is still its only writer.
    fn read_again(&self, state: &mut State) -> storage::Result<()> {
        let found = State::read(&*self.files).map_err(|error| match error {
            Error::Storage(error) => error,
            error => storage::Error::new(Kind::Failed, Outcome::DidNotHappen, &layout::unfinished(), "read")
                .because(error.to_string()),
        })?;
        let is_own = (self.first..=state.written).contains(&found.written);
        if !is_own && found.written != self.found {
            let name = layout::unfinished();
            self.replaced.record(|| {
                format!(
                    "another process writes {name}: it has taken over the files of this server, which must end. Start \
                     only one server in a root directory"
                )
            });
        }
        let written = state.written.max(found.written);
        *state = State { written, ..found };
        Ok(())
    }
}

impl std::fmt::Debug for Intents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intents").field("tables", &self.state.lock().by_key.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;
    use proto::{FamilyDescriptor, RegionId};
    use storage::Memory;
    use storage::memory::Fault;

    fn fail(memory: &Memory, last: bool) {
        let (act, outcome) = (memory.acts() + 1, Outcome::MayHaveHappened);
        memory.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last }));
    }

    fn open(memory: &Memory, seed: u64) -> Intents {
        let world = World::simulated(seed, WallTime(1));
        Intents::open(Arc::new(memory.clone()), &world, Arc::default()).unwrap()
    }

    /// A process that was stopped and continues detects that another process has its files, whichever of the two writes
    /// first.
    #[test]
    fn a_master_that_was_replaced_says_so() {
        let memory = Memory::new();
        let delete = |name: &str| Intent::Delete { table: name.parse().unwrap() };
        for old_writes_before in [false, true] {
            let old = open(&memory, 1);
            if old_writes_before {
                old.begin(delete("a")).unwrap();
            }
            let new = open(&memory, 2);
            new.begin(delete("b")).unwrap();
            let error = old.begin(delete("c")).unwrap_err();
            assert_eq!(error.kind(), Kind::Conflict);
            assert!(old.replaced.has_happened(), "{old_writes_before}");
            new.end(&delete("b").key()).expect("the other one goes on");
            assert!(!new.replaced.has_happened(), "{old_writes_before}");
        }
    }

    #[test]
    fn a_master_that_goes_on_after_another_has_started_adds_no_intent() {
        let delete = |name: &str| Intent::Delete { table: name.parse().unwrap() };
        let memory = Memory::with(storage::Capabilities::NONE);
        let old = open(&memory, 1);
        old.begin(delete("a")).unwrap();
        let new = open(&memory, 2);
        for table in ["b", "c"] {
            assert_eq!(old.begin(delete(table)).unwrap_err().kind(), Kind::Conflict);
            assert!(old.replaced.has_happened());
        }
        assert_eq!(old.end(&delete("a").key()).unwrap_err().kind(), Kind::Conflict);
        assert_eq!(State::read(&memory).unwrap().by_key.into_values().collect::<Vec<_>>(), [delete("a")]);
        new.end(&delete("a").key()).expect("it is the only writer");
        assert!(!new.replaced.has_happened());
    }

    /// A store may carry out a write after this master has read the object again. The master must recognise it as its
    /// own.
    #[test]
    fn a_late_write_of_its_own_does_not_end_a_master() {
        let memory = Memory::new();
        let delete = |name: &str| Intent::Delete { table: name.parse().unwrap() };
        let intents = open(&memory, 1);
        intents.begin(delete("a")).unwrap();
        let before = intents.state.lock().version.clone();
        // This write stands for the late one: it has a number of this master, but a version that this master has not
        // seen.
        intents.begin(delete("b")).unwrap();
        intents.state.lock().version = before;
        intents.begin(delete("c")).expect("the object is read and written once more");
        assert!(!intents.replaced.has_happened());
        assert_eq!(open(&memory, 2).all(), [delete("a"), delete("b"), delete("c")]);
    }

    #[test]
    fn a_write_that_happened_and_reported_failure_is_found_out() {
        let memory = Memory::new();
        let delete = |name: &str| Intent::Delete { table: name.parse().unwrap() };
        let open = |memory: &Memory| open(memory, 1);
        let intents = open(&memory);
        intents.begin(delete("a")).unwrap();
        fail(&memory, false);
        intents.begin(delete("b")).expect("it is read again and written once more");
        assert_eq!(open(&memory).all(), [delete("a"), delete("b")]);
        fail(&memory, false);
        intents.end(&delete("a").key()).expect("it is read again and written once more");
        intents.end(&delete("b").key()).expect("what was kept is known");
        assert_eq!(open(&memory).all(), []);
        // All operations fail, so the object cannot even be read.
        fail(&memory, true);
        assert_eq!(intents.begin(delete("c")).unwrap_err().outcome(), Outcome::MayHaveHappened);
        assert_eq!(open(&memory.kill()).all(), [delete("c")]);
    }

    #[test]
    fn a_change_in_doubt_is_read_before_the_next() {
        let memory = Memory::new();
        let delete = |name: &str| Intent::Delete { table: name.parse().unwrap() };
        let intents = open(&memory, 1);
        intents.begin(delete("a")).unwrap();
        // Makes the state as it is after a failure whose outcome is unknown.
        let written = intents.state.lock().version.replace(Version::new(*b"other"));
        intents.state.lock().is_in_doubt = true;
        intents.begin(delete("b")).expect("the object was read first");
        assert_eq!(intents.all(), [delete("a"), delete("b")]);
        assert_ne!(intents.state.lock().version, written);
    }

    #[test]
    fn no_two_writings_are_equal() {
        let memory = Memory::new();
        let delete = || Intent::Delete { table: "a".parse().unwrap() };
        let content = || memory.read(&layout::unfinished(), SIZE_MAX).unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let intents = open(&memory, 1);
            intents.begin(delete()).unwrap();
            seen.push(content());
            intents.end(&delete().key()).unwrap();
            seen.push(content());
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn an_object_without_a_number_is_read() {
        let (memory, mut content) = (Memory::new(), Vec::new());
        let delete = Intent::Delete { table: "a".parse().unwrap() };
        delete.encode(&mut content);
        memory.swap(&layout::unfinished(), None, &content).unwrap();
        assert_eq!(open(&memory, 1).all(), [delete]);
    }

    #[test]
    fn every_kind_comes_back() {
        let name: TableName = "ns:t".parse().unwrap();
        let mut table = TableDescriptor::new(name.clone());
        table.set_family(FamilyDescriptor::new("f").unwrap());
        let table = Arc::new(table);
        let region = RegionInfo::new(name.clone(), "a".into(), "b".into(), RegionId(4)).unwrap();
        let intents = [
            Intent::Create { table: Arc::clone(&table), regions: vec![region.clone(), region.clone()] },
            Intent::Copy(SnapshotCopy {
                snapshot: "s".into(),
                kind: CopyKind::Restoration,
                table: Arc::clone(&table),
                regions: vec![region.clone()],
            }),
            Intent::Delete { table: name },
            Intent::TruncateRegion { table: Arc::clone(&table), region: region.clone() },
            Intent::DeleteFamilies { table, families: vec!["g".into(), "h".into()] },
            Intent::Replace(Replacement {
                parents: vec![region.clone()],
                children: vec![region.clone(), region.clone()],
                step: Step::Record,
            }),
        ];
        let mut out = Vec::new();
        intents.iter().for_each(|intent| intent.encode(&mut out));
        let mut bytes = Bytes::from(out.clone());
        for intent in &intents {
            assert_eq!(Intent::decode(&mut bytes).unwrap(), *intent);
        }
        assert!(bytes.is_empty());
        for cut in 1..out.len() {
            let mut bytes = Bytes::from(out[..cut].to_vec());
            while !bytes.is_empty() && Intent::decode(&mut bytes).is_ok() {}
        }
        let mut absurd = Vec::new();
        pb::NameBytesPair { name: "create".into(), value: None }
            .encode_length_delimited(&mut absurd)
            .unwrap();
        pb::TableSchema { table_name: Some((&TableName::meta()).into()), ..Default::default() }
            .encode_length_delimited(&mut absurd)
            .unwrap();
        pb::LongMsg { long_msg: i64::MAX }.encode_length_delimited(&mut absurd).unwrap();
        assert!(Intent::decode(&mut absurd.into()).is_err());
    }
}
