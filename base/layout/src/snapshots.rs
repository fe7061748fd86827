//! The folders of snapshots.
//!
//! ```text
//! .hbase-snapshot/<name>/.snapshotinfo         SnapshotDescription; without this object there is no snapshot
//! .hbase-snapshot/<name>/data.manifest         SnapshotDataManifest; written before, deleted after
//! .hbase-snapshot/<name>/.deleted              exists for a moment while a snapshot is deleted
//! .hbase-snapshot/.tmp/<name>.<number>/.snapshotinfo
//!                                              SnapshotDescription of a snapshot that is being taken
//! .hbase-snapshot/.tmp/<name>/…                a snapshot that HBase is taking or exporting to here
//! ```
//!
//! In storage that several processes reach, `.snapshotinfo` and `data.manifest` are never deleted, because a DELETE has no
//! condition: one that arrives late would delete the objects of a later snapshot of that name. A deletion replaces each by a
//! [tombstone](is_tombstone), on the condition that nobody has replaced it since, and so does the next snapshot of that name.
//!
//! HBase builds a snapshot in `.tmp` and renames the folder. Object stores cannot rename, so `.snapshotinfo` is written
//! last: HBase's readers ignore a folder without it. Each object appears whole or not at all.
//!
//! An adopted root may have snapshots of HBase without a `data.manifest`: those of format 0, whose folder has one more folder
//! for each region. Nothing here reads them, and no file that they may name is deleted.

use storage::{Capability, FileName, Files};

/// Returns the folder of all snapshots.
pub fn snapshots() -> FileName {
    FileName::new(".hbase-snapshot")
}

/// Returns the folder of snapshots that are being taken.
fn running() -> FileName {
    snapshots().join(".tmp")
}

/// Returns the folder of a snapshot.
pub fn snapshot(name: &str) -> FileName {
    snapshots().join(name)
}

/// Returns the object `.snapshotinfo`, with which a snapshot exists.
pub fn snapshot_info(name: &str) -> FileName {
    snapshot(name).join(".snapshotinfo")
}

/// Returns the object `data.manifest`, which lists a snapshot's files.
pub fn snapshot_manifest(name: &str) -> FileName {
    snapshot(name).join("data.manifest")
}

/// Returns the object `.deleted`, whose writing makes the deletion of `.snapshotinfo` durable.
pub fn deleted_snapshot(name: &str) -> FileName {
    snapshot(name).join(".deleted")
}

/// Returns the folder of all snapshots that are being taken.
pub fn running_snapshots() -> FileName {
    running()
}

/// Returns the object that says that a snapshot is being taken, in the folder `name` of [`running_snapshots`].
pub fn running_snapshot(name: &str) -> FileName {
    running().join(name).join(".snapshotinfo")
}

/// Number of digits after the name of a snapshot that a master takes.
const MAKING_DIGITS: usize = 16;

/// Returns the object that says that a master takes the snapshot `name`. No other snapshot has the same `making`.
pub fn taken_snapshot(name: &str, making: u64) -> FileName {
    running_snapshot(&format!("{name}.{making:0MAKING_DIGITS$x}"))
}

/// Whether `object` is one of [`taken_snapshot`]. ExportSnapshot has a folder beside those, named as the snapshot.
pub fn is_of_taken_snapshot(object: &FileName) -> bool {
    let folder = object.parent().filter(|_| object.last() == ".snapshotinfo");
    folder.is_some_and(|folder| {
        folder.last().rsplit_once('.').is_some_and(|(_, making)| {
            making.len() == MAKING_DIGITS && making.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    })
}

/// Size in bytes of a tombstone. Its bytes are random, so no two tombstones are the same version of an object.
pub const TOMBSTONE_BYTES: usize = 8;

/// Whether an object of this size in place of a `.snapshotinfo` or a `data.manifest` says that the snapshot was deleted. Both
/// messages are larger: they have at least a name and a table, and a time or a schema.
pub fn is_tombstone(size: u64) -> bool {
    size == TOMBSTONE_BYTES as u64
}

/// Returns the names of all tombstones. No server runs.
pub fn tombstones(files: &dyn Files) -> storage::Result<Vec<FileName>> {
    let entries = files.list(&snapshots())?.into_iter();
    let is_one = |name: &FileName, size| {
        matches!(name.last(), ".snapshotinfo" | "data.manifest") && is_tombstone(size)
    };
    Ok(entries.filter(|entry| is_one(&entry.name, entry.size)).map(|entry| entry.name).collect())
}

/// The objects of all snapshots, as found by a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SnapshotObjects {
    /// The `.snapshotinfo` objects of snapshots that are being taken.
    pub running: Vec<FileName>,
    /// The names of complete snapshots.
    pub complete: Vec<String>,
    /// Every `data.manifest`, including those of snapshots that are incomplete or being taken.
    pub manifests: Vec<FileName>,
    /// The `.snapshotinfo` objects of snapshots without a `data.manifest`. These snapshots may need any file of their tables.
    pub without_manifest: Vec<FileName>,
    /// The names of snapshot folders without a `.snapshotinfo`: left by a crash, or of snapshots that are being taken. In storage
    /// that several processes reach, also those with nothing but that object: its process may have been replaced before it wrote
    /// the `.snapshotinfo`, and its successor has deleted the manifest.
    pub incomplete: Vec<String>,
}

/// Whether an object in the folder of a snapshot, by its name below the folder, is one that only HBase writes. So the snapshot
/// without a manifest was complete in HBase.
pub fn is_of_old_snapshot(below: &str) -> bool {
    !matches!(below, ".snapshotinfo" | "data.manifest" | ".deleted")
}

/// Lists the objects of snapshots.
///
/// A snapshot that is completed meanwhile is seen as being taken, as complete, or as both, but never as neither.
pub fn snapshot_objects(files: &dyn Files) -> storage::Result<SnapshotObjects> {
    let mut found = SnapshotObjects::default();
    for entry in files.list(&running())? {
        match entry.name.last() {
            ".snapshotinfo" => found.running.push(entry.name),
            "data.manifest" => found.manifests.push(entry.name),
            _ => {}
        }
    }
    // Whether a folder has a `.snapshotinfo`, a manifest, and objects that only HBase writes.
    let mut folders = std::collections::BTreeMap::<String, (bool, bool, bool)>::new();
    let is_alone = files.capabilities().has(Capability::OneProcess);
    for entry in files.list(&snapshots())? {
        let Some((folder, rest)) = entry.name.below(&snapshots()).and_then(|below| below.split_once('/'))
        else {
            continue;
        };
        let may_be_tombstone = matches!(rest, ".snapshotinfo" | "data.manifest");
        if folder.starts_with('.') || (may_be_tombstone && is_tombstone(entry.size)) {
            continue;
        }
        let (has_info, has_manifest, is_old) = folders.entry(folder.to_owned()).or_default();
        *has_info |= rest == ".snapshotinfo";
        *has_manifest |= rest == "data.manifest";
        *is_old |= is_of_old_snapshot(rest);
        if rest == "data.manifest" {
            found.manifests.push(entry.name);
        }
    }
    for (name, (has_info, has_manifest, is_old)) in folders {
        if has_info && !has_manifest {
            found.without_manifest.push(snapshot_info(&name));
        }
        if has_info && (has_manifest || is_old || is_alone) {
            found.complete.push(name);
        } else {
            found.incomplete.push(name);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Memory;

    #[test]
    fn a_tombstone_is_no_snapshot() {
        let files = Memory::with(storage::Capabilities::NONE);
        for name in [snapshot_info("gone"), snapshot_manifest("gone"), snapshot_info("half")] {
            files.swap(&name, None, b"12345678").expect("the disk works");
        }
        files.swap(&snapshot_manifest("half"), None, b"x").expect("the disk works");
        let found = snapshot_objects(&files).expect("listed");
        assert_eq!((found.complete.len(), found.without_manifest.len()), (0, 0));
        assert_eq!(
            (found.incomplete, found.manifests),
            (vec!["half".to_owned()], vec![snapshot_manifest("half")])
        );
        let ended = [snapshot_info("gone"), snapshot_manifest("gone"), snapshot_info("half")];
        assert_eq!(tombstones(&files).expect("listed"), ended);
    }

    #[test]
    fn a_folder_without_its_info_is_incomplete() {
        let files = Memory::new();
        for name in [
            snapshot_info("whole"),
            snapshot_manifest("whole"),
            snapshot_manifest("half"),
            deleted_snapshot("gone"),
            running_snapshot("soon"),
        ] {
            files.swap(&name, None, b"x").expect("the disk works");
        }
        let found = snapshot_objects(&files).expect("listed");
        assert_eq!(found.complete, ["whole"]);
        assert_eq!(found.incomplete, ["gone", "half"]);
        assert_eq!(found.running, [running_snapshot("soon")]);
        assert_eq!(found.manifests, [snapshot_manifest("half"), snapshot_manifest("whole")]);
        for (capabilities, complete) in [(storage::Capabilities::ALL, 1), (storage::Capabilities::NONE, 0)] {
            let files = Memory::with(capabilities);
            files.swap(&snapshot_info("late"), None, b"x").expect("the disk works");
            let found = snapshot_objects(&files).expect("listed");
            assert_eq!((found.complete.len(), found.incomplete.len()), (complete, 1 - complete));
            assert_eq!(found.without_manifest, [snapshot_info("late")]);
            let region_file = snapshot("late").join("d41d8cd98f00b204e9800998ecf8427e/f/abc");
            files.swap(&region_file, None, b"").expect("the disk works");
            let found = snapshot_objects(&files).expect("listed");
            assert_eq!(found.complete, ["late"], "a snapshot of format 0");
            assert_eq!(found.without_manifest, [snapshot_info("late")]);
        }
    }
}
