//! Reads `hbase:storefile`, the table in which the HBase of Amazon EMR 6.2 to 7.3 keeps the names of store files.
//!
//! ```text
//! row      <encoded region>-<family>-<table>
//! column   included:filepaths        the paths of the store's files, joined by ';'
//! ```
//!
//! Flushes and compactions write their files directly to the store's folder, and the row says which files count. The
//! paths are whole, with scheme and bucket. The root may have been copied since, so only the end of a path is compared:
//! `data/<namespace>/<table>/<region>/<family>/<file>`.
//!
//! HBase lists the folder of a store that has no row, or a row without paths: in the first start with this table, and
//! after a split, a merge or a clone. It always lists the folders of hbase:meta, of the master's own region, and of
//! this table. Its releases name no tracker in descriptors, so a family with the tracker FILE is of a later release,
//! and its list counts. Source: the branch HBASE-24749 of Apache HBase, `HTableStoreFilePathAccessor`,
//! `AbstractStoreFilePathAccessor`, `PersistedStoreEngine`, `PersistedStoreFileManager.loadInitialFiles`.
//!
//! The table may be out of date: it was not flushed before its logs were lost, or HBase no longer uses it. Then files
//! that it does not name have acknowledged writes, so such a root is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use env::World;
use proto::catalog::CatalogRow;
use proto::{EncodedName, FamilyDescriptor, RegionInfo};
use region::{FoundBy, NamedStore, UnnamedFile};
use storage::{FileName, Files};

use crate::Result;
use crate::found::{FoundTable, Keeper};
use crate::losses::Report;
use crate::peek::read_rows;
use crate::replay::{LogFile, recovered};

const FAMILY: &[u8] = b"included";
const QUALIFIER: &[u8] = b"filepaths";

/// Length of a region's encoded name in a row key.
const REGION_BYTES: usize = 32;

const IF_UNUSED: &str = "if HBase no longer keeps its lists there, start it, disable and drop hbase:storefile, and stop it in \
                         order: then all files in the folders count";

/// The names of store files that `hbase:storefile` has.
pub(crate) struct FileTable<'a> {
    /// The paths of each store's files, by row key.
    paths: BTreeMap<Bytes, Bytes>,
    logs: &'a [LogFile],
    /// Whether the newest rows may be in the part of a log that cannot be read yet.
    may_be_old: bool,
}

impl<'a> FileTable<'a> {
    /// Reads the regions of `table` that are in `serving`, with the writes that are only in `logs`. A row that is not
    /// understood is a blocker: its store may have files that do not count.
    pub(crate) fn read(
        files: &Arc<dyn Files>,
        world: &World,
        (table, serving): (&FoundTable, &BTreeSet<EncodedName>),
        (logs, may_be_old): (&'a [LogFile], bool),
        report: &mut Report,
    ) -> Result<FileTable<'a>> {
        let mut found = FileTable { paths: BTreeMap::new(), logs, may_be_old };
        for region in table.regions.iter().filter(|region| serving.contains(region.info.encoded_name())) {
            let recovered = recovered(logs, region.info.encoded_name().as_str().as_bytes(), world)?;
            for row in read_rows(files, world, region, &table.descriptor, recovered)? {
                found.add(row, report);
            }
        }
        report.notes(format!(
            "hbase:storefile names the files of {} stores, and only these files are adopted; Bellows has a list in each \
             store's folder instead, and never writes this table, so it may be disabled and dropped after the adoption",
            found.paths.len()
        ));
        if may_be_old {
            report.notes(
                "hbase:storefile may have newer rows in the logs that were not closed; the adoption closes them, and checks \
                 again which files are named",
            );
        }
        Ok(found)
    }

    fn add(&mut self, row: CatalogRow, report: &mut Report) {
        let is_region =
            |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| EncodedName::parse(name).is_ok());
        let begins_with_region =
            row.key.get(..REGION_BYTES).is_some_and(is_region) && row.key.get(REGION_BYTES) == Some(&b'-');
        let mut columns = row.columns.into_iter();
        let paths = columns.find(|column| column.family == FAMILY && column.qualifier == QUALIFIER);
        match paths.filter(|_| begins_with_region) {
            Some(paths) => _ = self.paths.insert(row.key, paths.value),
            None => report.blocks(format!(
                "row {} of hbase:storefile is not understood, expected <region>-<family>-<table> with the column \
                 included:filepaths: this release of HBase keeps its lists in another way; {IF_UNUSED}",
                row.key.escape_ascii()
            )),
        }
    }

    /// Returns the names of a store's files; `None` if HBase lists the folder of this store. Fails, with a sentence, if a
    /// path is not one of a file in this folder.
    pub(crate) fn names(
        &self,
        region: &RegionInfo,
        family: &[u8],
    ) -> Option<std::result::Result<BTreeSet<String>, String>> {
        let family = String::from_utf8_lossy(family);
        let key = format!("{}-{family}-{}", region.encoded_name().as_str(), region.table());
        let paths = self.paths.get(key.as_bytes()).filter(|paths| !paths.is_empty())?;
        let folder = layout::region_folder(region).join(&family);
        let paths = String::from_utf8_lossy(paths);
        let names = paths.split(';').filter(|path| !path.is_empty()).map(|path| {
            let name = name_in(path, &folder).map(str::to_owned);
            name.ok_or_else(|| {
                format!("row {key} of hbase:storefile names {path}, which is not in {folder}; {IF_UNUSED}")
            })
        });
        Some(names.collect())
    }

    /// Reports the files of a store that do not exist or are not named. Returns `false` if the store is not whole.
    pub(crate) fn report_store(
        &self,
        region: &RegionInfo,
        family: &[u8],
        found: &NamedStore,
        report: &mut Report,
    ) -> bool {
        let shown = format!("family {} of region {region}", family.escape_ascii());
        let table = region.table();
        for file in &found.missing {
            self.report_old(
                format!(
                    "{shown}: hbase:storefile names {file}, which does not exist: put it back from a backup, or start HBase, \
                     run its RefreshHFilesClient for table {table}, flush hbase:storefile, and stop HBase in order; \
                     {IF_UNUSED}"
                ),
                report,
            );
        }
        for UnnamedFile { file, newer } in &found.unnamed {
            let is_in_logs = |log: &LogFile, newest| {
                log.lowest(region.encoded_name().as_str().as_bytes()).is_some_and(|lowest| lowest <= newest)
            };
            match newer.filter(|newest| !self.logs.iter().any(|log| is_in_logs(log, newest.0))) {
                Some(_) if found.missing.is_empty() => self.report_old(
                    format!(
                        "{shown}: {file} has later writes than all files that hbase:storefile names, so that table is out \
                         of date: start HBase, run its RefreshHFilesClient for table {table}, flush hbase:storefile, \
                         and stop HBase in order; {IF_UNUSED}"
                    ),
                    report,
                ),
                _ => report.notes(format!(
                    "{file} is not named by hbase:storefile: it is passed over, as HBase does, and removed later"
                )),
            }
        }
        found.missing.is_empty()
    }

    /// Reports how many stores of `table` are adopted with all files in their folders, because no row names them.
    pub(crate) fn report_listed_folders(
        &self,
        table: &FoundTable,
        serving: &BTreeSet<EncodedName>,
        report: &mut Report,
    ) {
        let is_listed = |family: &FamilyDescriptor| {
            Keeper::HBase.found_by(&table.descriptor, family) == Some(FoundBy::Folder)
        };
        let regions = table.regions.iter().filter(|region| serving.contains(region.info.encoded_name()));
        let stores = regions.flat_map(|region| {
            let with_family = region.stores.iter().zip(table.descriptor.families());
            with_family.filter(move |(store, family)| {
                !store.is_empty() && is_listed(family) && self.names(&region.info, family.name()).is_none()
            })
        });
        let count = stores.count();
        if count > 0 {
            report.notes(format!(
                "hbase:storefile has no names for {count} stores of table {}, as after a split or a clone: all files in \
                 their folders are adopted, which HBase would open, too",
                table.descriptor.name()
            ));
        }
    }

    /// Reports that the table is older than a folder: as a note if its newest rows may not be readable yet.
    fn report_old(&self, what: String, report: &mut Report) {
        if self.may_be_old { report.notes(what) } else { report.blocks(what) }
    }
}

/// Returns the name of the file at `path` if the file is in `folder`, which is a name below the root.
fn name_in<'p>(path: &'p str, folder: &FileName) -> Option<&'p str> {
    let (parent, name) = path.rsplit_once('/')?;
    let root = parent.strip_suffix(folder.as_str())?;
    let is_name = !matches!(name, "" | "." | "..") && !name.contains('\0');
    (is_name && (root.is_empty() || root.ends_with('/'))).then_some(name)
}

#[cfg(test)]
mod tests {
    use proto::catalog::Column;

    use super::*;

    const REGION: &str = "0876440dcc9149798b02560a44f085c7";

    fn table_of(rows: &[(&str, &str, &str)]) -> (FileTable<'static>, Report) {
        let mut table = FileTable { paths: BTreeMap::new(), logs: &[], may_be_old: false };
        let mut report = Report::default();
        for (key, qualifier, value) in rows {
            let column = Column {
                family: FAMILY.into(),
                qualifier: Bytes::copy_from_slice(qualifier.as_bytes()),
                value: Bytes::copy_from_slice(value.as_bytes()),
            };
            table.add(
                CatalogRow { key: Bytes::copy_from_slice(key.as_bytes()), columns: vec![column] },
                &mut report,
            );
        }
        (table, report)
    }

    #[test]
    fn paths_count_by_their_end_wherever_the_root_was() {
        let folder = FileName::new("data/ns/t/r/f");
        for root in ["", "/", "s3://bucket/", "s3://bucket/hbase/", "hdfs://h:8020/data/"] {
            assert_eq!(name_in(&format!("{root}data/ns/t/r/f/0a"), &folder), Some("0a"), "{root}");
        }
        for path in [
            "0a",
            "data/ns/t/r/g/0a",
            "s3://bucket/otherdata/ns/t/r/f/0a",
            "data/ns/t/r/f/",
            "data/ns/t/r/f/..",
            "data/ns/t/r/f/0a/0b",
        ] {
            assert_eq!(name_in(path, &folder), None, "{path}");
        }
    }

    #[test]
    fn a_store_without_paths_has_no_names_and_a_path_elsewhere_is_refused() {
        let region = RegionInfo::new(
            "ns:t-f".parse().expect("a name"),
            Bytes::new(),
            Bytes::new(),
            proto::RegionId(1),
        );
        let region = region.expect("lawful");
        let name = region.encoded_name().as_str();
        let row = |family: &str| format!("{name}-{family}-ns:t-f");
        let path = |family: &str, file: &str| format!("s3://b/data/ns/t-f/{name}/{family}/{file}");
        let two = [path("f-1", "0a"), path("f-1", "0b")].join(";");
        let (table, report) = table_of(&[
            (&row("f-1"), "filepaths", &two),
            (&row("g"), "filepaths", ""),
            (&row("h"), "filepaths", &path("f-1", "0a")),
        ]);
        assert_eq!(report, Report::default());
        let names = |family: &str| table.names(&region, family.as_bytes());
        assert_eq!(names("f-1"), Some(Ok(["0a".to_owned(), "0b".to_owned()].into())));
        assert_eq!((names("g"), names("f")), (None, None));
        let refused = names("h").expect("a row").expect_err("another family's");
        assert!(
            refused.contains(&path("f-1", "0a")) && refused.contains("drop hbase:storefile"),
            "{refused}"
        );
    }

    #[test]
    fn rows_of_another_form_are_refused_by_key() {
        for (key, qualifier) in [
            (format!("ns:t-{REGION}-f"), "filepaths"),
            (format!("{REGION}+f-ns:t"), "filepaths"),
            (format!("{REGION}-f-ns:t"), "files"),
        ] {
            let (_, report) = table_of(&[(&key, qualifier, "s3://b/x")]);
            assert!(report.blockers.len() == 1 && report.blockers[0].contains(&key), "{report}");
        }
    }
}
