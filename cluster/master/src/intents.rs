//! Intents: changes of tables, written durably before their first step and removed after their last step.
//!
//! One small object has all intents, so no folder is listed to find them. A start carries out every intent that it
//! finds ([`crate::startup`]). Each change can be repeated from its first step, which removes everything that an
//! earlier attempt has left. Therefore an intent is removed *before* the table can be used, never after.
//!
//! The master is the object's only writer ([`OwnedObject`]).
//!
//! The object is a sequence of delimited messages. The first is `NameBytesPair{"written", number of the write 8B}`. The
//! second is `NameBytesPair{"descriptor", number 8B}`: the greatest number that the master has reserved for the file of a
//! [descriptor](crate::descriptors). It is left out if there are no intents, or on storage that only one process reaches.
//! The intents follow:
//!
//! ```text
//! change of a schema     NameBytesPair{"alter"}  TableSchema
//! creation               NameBytesPair{"create"}  TableSchema  LongMsg count  RegionInfo…
//! copy of a snapshot     NameBytesPair{kind, snapshot}  TableSchema  LongMsg count  RegionInfo…
//!                        kind: "clone", "restore", "restore-undo" once its folders are deleted again, or
//!                        "restore-record" once hbase:meta may have changed
//! deletion               NameBytesPair{"delete"}  TableName
//! deletion of families   NameBytesPair{"delete-families"}  TableSchema  LongMsg count  NameBytesPair{"", family}…
//! region to truncate     NameBytesPair{"truncate-region"}  TableSchema  RegionInfo
//! split or merge         NameBytesPair{"replace", step}  LongMsg count  RegionInfo of each parent
//!                                                        LongMsg count  RegionInfo of each child
//! deletion of a snapshot NameBytesPair{"delete-snapshot", snapshot}
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use cell::string_binary;
use env::World;
use prost::Message;
use proto::{RegionInfo, TableDescriptor, TableName, pb};
use storage::{Capability, Files};

use crate::Error;
use crate::clones::{CopyKind, RestorationStep, SnapshotCopy};
use crate::owned_object::{self, Content, OwnedObject, Ownership, decode_number, encode_number};
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
    /// Changes the schema of the table, without deleting a family.
    Alter {
        /// The new schema.
        table: Arc<TableDescriptor>,
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

    /// Returns the table that changes.
    pub fn table(&self) -> &TableName {
        &self.table
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
            Intent::Alter { .. }
            | Intent::Create { .. }
            | Intent::Delete { .. }
            | Intent::DeleteFamilies { .. }
            | Intent::Copy(_) => None,
        }
    }

    /// Returns the table that the intent changes.
    pub fn table(&self) -> &TableName {
        match self {
            Intent::Alter { table }
            | Intent::Create { table, .. }
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
                    CopyKind::Restoration(RestorationStep::Fill) => "restore",
                    CopyKind::Restoration(RestorationStep::Undo) => "restore-undo",
                    CopyKind::Restoration(RestorationStep::Record) => "restore-record",
                };
                put(out, pb::NameBytesPair { name: name.into(), value: Some(snapshot.clone().into()) });
                schema(out, table);
                count(out, regions.len());
                for region in regions {
                    let message = pb::RegionInfo::from(region);
                    message.encode_length_delimited(out).expect("a growing buffer takes any message");
                }
            }
            Intent::Alter { table } => {
                put(out, pb::NameBytesPair { name: "alter".into(), value: None });
                schema(out, table);
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
            "clone" | "restore" | "restore-undo" | "restore-record" => {
                let value = kind.value.unwrap_or_default();
                let snapshot =
                    String::from_utf8(value.to_vec()).map_err(|error| proto::Error::Malformed {
                        what: "unfinished copy of a snapshot",
                        found: error.to_string(),
                    })?;
                let table = Arc::new(TableDescriptor::try_from(next::<pb::TableSchema>(bytes)?)?);
                let kind = match kind.name.as_str() {
                    "clone" => CopyKind::Clone,
                    "restore" => CopyKind::Restoration(RestorationStep::Fill),
                    "restore-undo" => CopyKind::Restoration(RestorationStep::Undo),
                    _ => CopyKind::Restoration(RestorationStep::Record),
                };
                Ok(Intent::Copy(SnapshotCopy { snapshot, kind, table, regions: regions(bytes)? }))
            }
            "alter" => {
                let table = Arc::new(TableDescriptor::try_from(next::<pb::TableSchema>(bytes)?)?);
                Ok(Intent::Alter { table })
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

/// What is decoded, for errors.
const WHAT: &str = "unfinished change";
/// The name of the message that has the number of a write.
const WRITTEN: &str = "written";
/// The name of the message that has the greatest reserved number of a descriptor.
const DESCRIPTOR: &str = "descriptor";
/// The name of the message that has the name of a snapshot whose deletion has begun.
const DELETE_SNAPSHOT: &str = "delete-snapshot";

fn next<M: Message + Default>(bytes: &mut Bytes) -> Result<M, proto::Error> {
    M::decode_length_delimited(bytes).map_err(|cause| proto::Error::Decode { what: WHAT, cause })
}

/// The content of the object.
#[derive(Clone, Debug, Default)]
struct Unfinished {
    /// The intents, by what they change.
    by_key: BTreeMap<IntentKey, Intent>,
    /// The greatest reserved number of a descriptor, or 0.
    descriptor: u64,
    /// The snapshots whose deletion has begun.
    deleted_snapshots: BTreeSet<String>,
}

impl Content for Unfinished {
    /// Enough for a table of 100,000 regions.
    const SIZE_MAX: usize = 64 << 20;
    const ONLY_READ_BUG: Option<u32> = Some(36);

    fn encode(&self, written: u64) -> Vec<u8> {
        let mut content = Vec::new();
        encode_number(&mut content, WRITTEN, written);
        if self.descriptor > 0 && !self.by_key.is_empty() {
            encode_number(&mut content, DESCRIPTOR, self.descriptor);
        }
        self.by_key.values().for_each(|intent| intent.encode(&mut content));
        for snapshot in &self.deleted_snapshots {
            let message =
                pb::NameBytesPair { name: DELETE_SNAPSHOT.into(), value: Some(snapshot.clone().into()) };
            message.encode_length_delimited(&mut content).expect("a growing buffer takes any message");
        }
        content
    }

    fn decode(bytes: &[u8]) -> Result<(Unfinished, u64), proto::Error> {
        let (mut bytes, mut by_key) = (Bytes::copy_from_slice(bytes), BTreeMap::new());
        let written = decode_number(&mut bytes, WRITTEN, WHAT)?;
        let descriptor = decode_number(&mut bytes, DESCRIPTOR, WHAT)?;
        let mut deleted_snapshots = BTreeSet::new();
        while bytes.has_remaining() {
            let mut rest = bytes.clone();
            let kind: pb::NameBytesPair = next(&mut rest)?;
            if kind.name == DELETE_SNAPSHOT {
                deleted_snapshots
                    .insert(String::from_utf8_lossy(&kind.value.unwrap_or_default()).into_owned());
                bytes = rest;
                continue;
            }
            let intent = Intent::decode(&mut bytes)?;
            by_key.insert(intent.key(), intent);
        }
        Ok((Unfinished { by_key, descriptor, deleted_snapshots }, written))
    }
}

/// The intents under a root directory.
pub struct Intents {
    object: OwnedObject<Unfinished>,
    /// Whether other processes reach the storage.
    is_shared: bool,
}

impl Intents {
    /// Maximum size of the object, in bytes.
    pub(crate) const SIZE_MAX: usize = Unfinished::SIZE_MAX;

    /// Reads the intents that an earlier run of the master has left, and prevents earlier masters from writing others.
    /// If another process writes the object later, this is recorded in `ownership`.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        world: &World,
        ownership: Arc<Ownership>,
    ) -> Result<Intents, Error> {
        let is_shared = !files.capabilities().has(Capability::OneProcess);
        let object = OwnedObject::open(files, layout::unfinished(), world, ownership)?;
        Ok(Intents { object, is_shared })
    }

    /// Reads the intents under a root directory whose master does not run.
    pub fn left_in(files: &dyn Files) -> Result<Vec<Intent>, Error> {
        Ok(owned_object::read::<Unfinished>(files, &layout::unfinished())?.by_key.into_values().collect())
    }

    /// Reads the names of the snapshots whose deletion has begun, under a root directory whose master does not run.
    pub fn deletions_left_in(files: &dyn Files) -> Result<BTreeSet<String>, Error> {
        Ok(owned_object::read::<Unfinished>(files, &layout::unfinished())?.deleted_snapshots)
    }

    /// Fails with [`storage::Kind::Conflict`] if another process has taken over the object.
    pub(crate) fn check_owner(&self) -> storage::Result<()> {
        self.object.check_owner()
    }

    /// Returns all intents.
    pub fn all(&self) -> Vec<Intent> {
        self.object.look(|content| content.by_key.values().cloned().collect())
    }

    /// Returns the intents of a table: the intent of the whole table first, then those of its regions.
    pub fn of(&self, table: &TableName) -> Vec<Intent> {
        let is_of = |intent: &&Intent| intent.table() == table;
        self.object.look(|content| content.by_key.values().filter(is_of).cloned().collect())
    }

    /// Writes an intent, and replaces the intent with the same key. A change of a whole table other than
    /// [`Intent::Alter`] also replaces the intents of the table's regions. Durable when this returns. If this fails, the intent
    /// may be stored all the same: [`crate::doubt`] says what the caller has to do then.
    pub fn begin(&self, intent: Intent) -> storage::Result<()> {
        let includes_regions = intent.regions().is_none() && !matches!(intent, Intent::Alter { .. });
        self.object.change(|content| {
            if includes_regions {
                content.by_key.retain(|key, _| key.table != *intent.table());
            }
            content.by_key.insert(intent.key(), intent.clone());
        })
    }

    /// Reserves a number for the file of a descriptor, and returns it. It is at least `number_min`, and in storage that
    /// several processes reach greater than every number that was reserved before. Durable when this returns, if there
    /// is an intent.
    ///
    /// Fails with [`Kind::Conflict`](storage::Kind::Conflict) if another process has taken over the intents.
    pub(crate) fn reserve_descriptor(&self, number_min: u64) -> storage::Result<u64> {
        if !self.is_shared {
            return Ok(number_min);
        }
        self.object.change(|content| {
            content.descriptor = number_min.max(content.descriptor + 1);
            content.descriptor
        })
    }

    /// Records that the deletion of a snapshot has begun. From then on the snapshot does not exist. Durable when this returns.
    ///
    /// Fails with [`Kind::Conflict`](storage::Kind::Conflict) if another process has taken over the intents.
    pub(crate) fn begin_snapshot_deletion(&self, snapshot: &str) -> storage::Result<()> {
        self.object.change(|content| {
            content.deleted_snapshots.insert(snapshot.to_owned());
        })
    }

    /// Records that nothing is left of a snapshot whose deletion had begun. Durable when this returns.
    pub(crate) fn end_snapshot_deletion(&self, snapshot: &str) -> storage::Result<()> {
        self.object.change(|content| {
            content.deleted_snapshots.remove(snapshot);
        })
    }

    /// Returns the names of the snapshots whose deletion has begun and has not ended.
    pub(crate) fn deleted_snapshots(&self) -> storage::Result<BTreeSet<String>> {
        self.object.look_confirmed(|content| content.deleted_snapshots.clone())
    }

    /// Removes the intent with this key. Durable when this returns.
    pub fn end(&self, key: &IntentKey) -> storage::Result<()> {
        self.object.change(|content| {
            content.by_key.remove(key);
        })
    }
}

impl std::fmt::Debug for Intents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys = self.object.look(|content| content.by_key.keys().cloned().collect::<Vec<_>>());
        f.debug_tuple("Intents").field(&keys).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;
    use proto::{FamilyDescriptor, RegionId};
    use storage::Memory;

    fn open(memory: &Memory, seed: u64) -> Intents {
        let world = World::simulated(seed, WallTime(1));
        Intents::open(Arc::new(memory.clone()), &world, Arc::default()).unwrap()
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
        let copy = |kind| {
            let (table, regions) = (Arc::clone(&table), vec![region.clone()]);
            Intent::Copy(SnapshotCopy { snapshot: "s".into(), kind, table, regions })
        };
        let intents = [
            Intent::Create { table: Arc::clone(&table), regions: vec![region.clone(), region.clone()] },
            copy(CopyKind::Clone),
            copy(CopyKind::Restoration(RestorationStep::Fill)),
            copy(CopyKind::Restoration(RestorationStep::Undo)),
            copy(CopyKind::Restoration(RestorationStep::Record)),
            Intent::Alter { table: Arc::clone(&table) },
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
