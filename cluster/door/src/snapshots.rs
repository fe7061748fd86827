//! Finds snapshots of a root that cannot be used after an adoption.
//!
//! A snapshot of HBase 0.98 and earlier has *format 0*: its folder has a folder for each region, in which empty files stand for
//! the region's store files. HBase 2.x still reads this format. Here a snapshot is read by its `data.manifest` alone, and while
//! a snapshot has none, all files of its table are kept.

use prost::Message;
use proto::pb;
use storage::{FileName, Files, Kind};

use crate::Result;
use crate::losses::Report;

/// Maximum size of a `.snapshotinfo` that is read, in bytes.
const INFO_MAX: usize = 1 << 20;
/// Maximum size of a manifest in bytes, as for the server that uses it.
const MANIFEST_MAX: usize = 512 << 20;

/// Reports the snapshots that cannot be read. A damaged one is a blocker, because the server would delete no file of any table.
pub(crate) fn check(files: &dyn Files, report: &mut Report) -> Result<()> {
    let objects = layout::snapshot_objects(files)?;
    let mut names: Vec<&str> = objects.complete.iter().map(String::as_str).collect();
    names.extend(objects.without_manifest.iter().filter_map(|info| folder_of(info)));
    names.sort_unstable();
    names.dedup();
    for name in names {
        let folder = layout::snapshot(name);
        let remedy = format!("delete the snapshot in HBase, or move the folder {folder} out of the root");
        let info = match read::<pb::SnapshotDescription>(files, &layout::snapshot_info(name), INFO_MAX)? {
            Ok(info) => info,
            Err(found) => {
                report.blocks(format!("snapshot {name} cannot be read: its .snapshotinfo {found}: {remedy}"));
                continue;
            }
        };
        let Err(found) =
            read::<pb::SnapshotDataManifest>(files, &layout::snapshot_manifest(name), MANIFEST_MAX)?
        else {
            continue;
        };
        let table = info.table();
        let objects = files.list(&folder)?;
        let is_old =
            objects.iter().any(|entry| entry.name.below(&folder).is_some_and(layout::is_of_old_snapshot));
        match found {
            Unreadable::Missing if is_old => report.leaves(format!(
                "snapshot {name} of table {table} has format {}, without a data.manifest: it can neither be cloned nor restored, and \
                 until it is deleted no file of table {table} is; to keep its rows, clone it in HBase, and take a snapshot of the clone",
                info.version()
            )),
            found => report.blocks(format!(
                "snapshot {name} of table {table} cannot be read: its data.manifest {found}: {remedy}"
            )),
        }
    }
    Ok(())
}

/// Returns the name of a snapshot by its `.snapshotinfo`.
fn folder_of(info: &FileName) -> Option<&str> {
    info.below(&layout::snapshots())?.split('/').next()
}

/// Why an object of a snapshot cannot be used.
enum Unreadable {
    Missing,
    Damaged(prost::DecodeError),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::Missing => f.write_str("is missing"),
            Unreadable::Damaged(cause) => write!(f, "is damaged ({cause})"),
        }
    }
}

fn read<M: Message + Default>(
    files: &dyn Files,
    name: &FileName,
    bytes_max: usize,
) -> Result<std::result::Result<M, Unreadable>> {
    match files.read(name, bytes_max) {
        Ok(content) => Ok(M::decode(&content[..]).map_err(Unreadable::Damaged)),
        Err(error) if error.kind() == Kind::NotFound => Ok(Err(Unreadable::Missing)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::{Capabilities, Memory};

    fn put(files: &Memory, name: &FileName, content: &[u8]) {
        files.swap(name, None, content).expect("the disk works");
    }

    #[test]
    fn snapshots_that_cannot_be_read_are_reported() {
        for capabilities in [Capabilities::ALL, Capabilities::NONE] {
            let files = Memory::with(capabilities);
            for (name, version) in [("good", 2), ("old", 0), ("bare", 2), ("torn", 2)] {
                let info = pb::SnapshotDescription {
                    name: name.into(),
                    table: Some("ns:t".into()),
                    version: Some(version),
                    ..Default::default()
                };
                put(&files, &layout::snapshot_info(name), &info.encode_to_vec());
            }
            let whole = pb::SnapshotDataManifest::default().encode_to_vec();
            put(&files, &layout::snapshot_manifest("good"), &whole);
            put(&files, &layout::snapshot_manifest("torn"), b"\xff\xff");
            put(&files, &layout::snapshot("old").join(".tabledesc/.tableinfo.0000000001"), b"x");
            put(&files, &layout::snapshot_info("odd"), b"\xff\xff");
            put(&files, &layout::snapshot_manifest("odd"), &whole);
            let mut report = Report::default();
            check(&files, &mut report).expect("read");
            let begin = |lines: &[String]| {
                lines.iter().map(|line| line[..line.len().min(64)].to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(
                begin(&report.blockers),
                [
                    "snapshot bare of table ns:t cannot be read: its data.manifest is",
                    "snapshot odd cannot be read: its .snapshotinfo is damaged (faile",
                    "snapshot torn of table ns:t cannot be read: its data.manifest is",
                ]
            );
            assert!(report.blockers[0].contains(
                "is missing: delete the snapshot in HBase, or move the folder .hbase-snapshot/bare"
            ));
            assert_eq!(
                begin(&report.left_behind),
                ["snapshot old of table ns:t has format 0, without a data.manifest"]
            );
            assert!(report.notes.is_empty());
        }
    }
}
