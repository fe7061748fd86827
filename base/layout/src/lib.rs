//! Where files and folders lie below the root directory. The folders are HBase's; the master's own small objects lie in
//! `bellows/`. The one file that more than one crate writes, a region's `.regioninfo`, is written here.
//!
//! ```text
//! hbase.version                                    PBUF HBaseVersionFileContent
//! hbase.id                                         PBUF ClusterId
//! data/<namespace>/<table>/.tabledesc/.tableinfo.<10 digits>.<length>
//! data/<namespace>/<table>/<region>/.regioninfo    PBUF delimited RegionInfo
//! data/<namespace>/<table>/<region>/<family>/…     the region's own
//! data/<namespace>/<table>/<region>/.bulkload      the last bulk load of several families; says whether it is unfinished
//! staging/…                                        paths that identify bulk loads; the server writes no file there
//! bellows/procedures                               ids, nonces and outcomes of procedures that clients submitted
//! bellows/switches                                 the master's switches
//! bellows/unfinished                               changes of tables that are not finished
//! .hbase-snapshot/…                                snapshots
//! mobdir/data/<namespace>/<table>/<MOB region>/<family>/…    MOB files of all regions of the table
//! ```

mod region_content;
mod snapshots;

use proto::{EncodedName, RegionId, RegionInfo, TableName};
use storage::{FileName, Files, Kind, swap_confirmed};

pub use region_content::RegionContent;
pub use snapshots::{
    SnapshotObjects, TOMBSTONE_BYTES, deleted_snapshot, is_of_old_snapshot, is_of_taken_snapshot,
    is_tombstone, running_snapshot, running_snapshots, snapshot, snapshot_info, snapshot_manifest,
    snapshot_objects, snapshots, taken_snapshot, tombstones,
};

/// The name of the file in a region's folder that says which region it is.
const REGION_INFO: &str = ".regioninfo";
/// Maximum size of a `.regioninfo` that is read, in bytes: two keys of 32 KB and names.
const REGION_INFO_BYTES_MAX: usize = 128 << 10;

/// Returns the folder of a namespace.
pub fn namespace(name: &str) -> FileName {
    FileName::new("data").join(name)
}

/// Returns the folder of a table.
pub fn table(name: &TableName) -> FileName {
    namespace(name.namespace()).join(name.qualifier())
}

/// Returns the account to which the cost of requests for a file is counted. That is the name of the table for files
/// below `data/`, in the archive too, and for MOB files. For other files it is `(log)`, `(snapshots)` or `(others)`; no
/// table has a name with parentheses.
pub fn account_of(name: &FileName) -> String {
    let parts: Vec<&str> = name.as_str().split('/').collect();
    match parts[..] {
        ["data", namespace, table, ..] | ["archive" | "mobdir", "data", namespace, table, ..] => {
            match namespace {
                "default" => table.to_owned(),
                _ => format!("{namespace}:{table}"),
            }
        }
        ["WALs", ..] => "(log)".to_owned(),
        [".hbase-snapshot", ..] => "(snapshots)".to_owned(),
        _ => "(others)".to_owned(),
    }
}

/// Returns the folder of a table's descriptors.
pub fn descriptors(name: &TableName) -> FileName {
    table(name).join(".tabledesc")
}

/// Returns the folder of a region, by its table and encoded name.
pub fn region(name: &TableName, region: &EncodedName) -> FileName {
    table(name).join(region.as_str())
}

/// Returns the `.regioninfo` file of a region, which says to which region its folder belongs.
pub fn region_info(name: &TableName, encoded: &EncodedName) -> FileName {
    region(name, encoded).join(REGION_INFO)
}

/// Returns the folder of a region.
pub fn region_folder(info: &RegionInfo) -> FileName {
    region(info.table(), info.encoded_name())
}

/// Makes sure that the region folder `folder` has a `.regioninfo` that says `info`. If the file is missing, damaged or
/// of another region, it is written anew: a crash may have cut it short when it was first written. Durable when this
/// returns. May fail if another process creates the file at the same time.
pub fn keep_region_info(files: &dyn Files, folder: &FileName, info: &RegionInfo) -> storage::Result<()> {
    let name = folder.join(REGION_INFO);
    match files.read(&name, REGION_INFO_BYTES_MAX) {
        Ok(content) => match RegionInfo::from_file(&content.into()) {
            Ok(found) if found == *info => return Ok(()),
            _ => files.delete(&name)?,
        },
        Err(error) if error.kind() == Kind::TooLarge => files.delete(&name)?,
        Err(error) if error.kind() == Kind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Written whole or not at all, and only if no other process has created the file meanwhile.
    swap_confirmed(files, &name, None, &info.to_file()).map(drop)
}

/// The start key of the pseudo-region to which a table's MOB files belong in HBase. No server opens this region.
pub const MOB_REGION_START: &[u8] = b".mob";

/// Returns the pseudo-region to which a table's MOB files belong in HBase.
pub fn mob_region_info(name: &TableName) -> RegionInfo {
    let region = RegionInfo::new(name.clone(), MOB_REGION_START.into(), "".into(), RegionId(0));
    region.expect("a first row and no last one")
}

/// Returns the encoded name of the pseudo-region to which a table's MOB files belong in HBase.
pub fn mob_region(name: &TableName) -> EncodedName {
    mob_region_info(name).encoded_name().clone()
}

/// Returns the object that has the master's records of procedures.
pub fn procedures() -> FileName {
    FileName::new("bellows/procedures")
}

/// Returns the object that holds the master's switches.
pub fn switches() -> FileName {
    FileName::new("bellows/switches")
}

/// Returns the object that lists the master's unfinished changes of tables.
pub fn unfinished() -> FileName {
    FileName::new("bellows/unfinished")
}

/// Returns the folder below which each bulk load has a path. The server writes no file there.
pub fn staging() -> FileName {
    FileName::new("staging")
}

/// Returns the file that holds HBase's layout version.
pub fn version() -> FileName {
    FileName::new("hbase.version")
}

/// Returns the file that holds the cluster's id.
pub fn cluster_id() -> FileName {
    FileName::new("hbase.id")
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::Memory;

    fn info() -> RegionInfo {
        let table = "ns:t".parse().expect("a table's name");
        RegionInfo::new(table, "a".into(), "m".into(), RegionId(7)).expect("a region")
    }

    #[test]
    fn a_region_lies_below_its_namespace_and_table() {
        let info = info();
        let folder = format!("data/ns/t/{}", info.encoded_name());
        assert_eq!(region_folder(&info).as_str(), folder);
        let file = region_info(info.table(), info.encoded_name());
        assert_eq!(file.as_str(), format!("{folder}/.regioninfo"));
        assert_eq!(descriptors(info.table()).as_str(), "data/ns/t/.tabledesc");
    }

    #[test]
    fn a_region_info_that_was_written_despite_an_error_is_there_after_a_crash() {
        let info = info();
        let folder = region_folder(&info);
        let file = region_info(info.table(), info.encoded_name());
        let is_whole = |place: &Memory| {
            let content = place.read(&file, REGION_INFO_BYTES_MAX);
            content.is_ok_and(|content| RegionInfo::from_file(&content.into()).as_ref() == Ok(&info))
        };
        let new = |_: &Memory| {};
        let torn = |place: &Memory| drop(place.swap(&file, None, b"torn").expect("the disk works"));
        for (prepare, overcome) in [(&new as &dyn Fn(&Memory), 1), (&torn, 1)] {
            let kept = |place: &Memory| keep_region_info(place, &folder, &info).is_ok();
            let found = storage::at_every_false_alarm(prepare, kept, |next, succeeded| {
                assert!(!succeeded || is_whole(next), "it was reported as durable");
                keep_region_info(next, &folder, &info).expect("a start writes it");
                assert!(is_whole(next));
            });
            assert_eq!(found, overcome, "what reports failure is read again");
        }
    }

    #[test]
    fn a_region_info_that_is_missing_cut_short_or_of_another_region_is_written_anew() {
        let (files, info) = (Memory::new(), info());
        let folder = region_folder(&info);
        let file = region_info(info.table(), info.encoded_name());
        let read = || {
            let content = files.read(&file, REGION_INFO_BYTES_MAX).expect("it is there");
            RegionInfo::from_file(&content.into()).expect("it is whole")
        };
        keep_region_info(&files, &folder, &info).expect("written");
        assert_eq!(read(), info);
        let acts = files.acts();
        keep_region_info(&files, &folder, &info).expect("kept");
        assert_eq!(files.acts(), acts, "a good file is left alone");

        files.damage(&file, |bytes| bytes.truncate(3));
        keep_region_info(&files, &folder, &info).expect("written anew");
        assert_eq!(read(), info);
        let other =
            RegionInfo::new(info.table().clone(), "m".into(), "".into(), RegionId(8)).expect("a region");
        keep_region_info(&files, &folder, &other).expect("written anew");
        assert_eq!(read(), other);
    }

    #[test]
    fn a_region_info_survives_the_loss_of_power_once_it_is_kept() {
        for seed in 0..8 {
            let (files, info) = (Memory::new(), info());
            keep_region_info(&files, &region_folder(&info), &info).expect("written");
            let files = files.crash(seed);
            let acts = files.acts();
            keep_region_info(&files, &region_folder(&info), &info).expect("kept");
            assert_eq!(files.acts(), acts, "seed {seed}");
        }
    }

    #[test]
    fn a_file_belongs_to_its_table_the_log_or_others() {
        for (name, account) in [
            ("data/default/t/0123/f/abc", "t"),
            ("archive/data/ns/t/0123/f/abc", "ns:t"),
            ("mobdir/data/default/t/0123/f/abc", "t"),
            ("mobdir/data/ns/t/0123/f/abc", "ns:t"),
            ("data/hbase/meta/1588230740/info/abc", "hbase:meta"),
            ("WALs/00001/3", "(log)"),
            (".hbase-snapshot/s/.snapshotinfo", "(snapshots)"),
            ("hbase.id", "(others)"),
            ("data", "(others)"),
        ] {
            assert_eq!(account_of(&FileName::new(name)), account, "{name}");
        }
    }
}
