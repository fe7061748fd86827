//! Alters the schema of an open region's table.
//!
//! Most attributes of a schema affect only how new files are written and what readers may see: encoding, compression,
//! Bloom filter, block size, versions, time to live, compaction. A region applies changes of these while it is open.
//! Running readers continue with the schema with which they began, and compactions rewrite older files in the new form.
//!
//! All other attributes affect state that is created when a region is opened: added or removed families, memory,
//! caches, durability. After such a change the region must be opened again. The same is true after a change of a key
//! that begins with `hbase.`, `bellows.` or `coprocessor$`, unless `TUNED` lists it.
//!
//! A family that is about to be deleted takes no puts from the moment when the deletion begins, because its rows are
//! deleted even if that takes long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use proto::descriptor::{
    Attributes, BloomType, Compression, DataBlockEncoding, FamilyOptions, KeepDeletedCells, TableOptions,
};
use proto::{FamilyDescriptor, TableDescriptor};

use crate::matcher::ScanInfo;
use crate::region::Region;
use crate::view::View;
use crate::{RegionOptions, Result};

/// Prefixes of the keys in CONFIGURATION that [`Region::tune`] applies. The keys of the store file tracker are among
/// them because a change of them needs no reopening: every store has a file list, whichever tracker is named.
const TUNED: [&str; 9] = [
    "hbase.hstore.compaction",
    "hbase.hstore.defaultengine.compactionpolicy",
    "hbase.hstore.engine.class",
    "hbase.hstore.blockingStoreFiles",
    "hbase.hstore.time.to.purge.deletes",
    "hbase.hregion.majorcompaction",
    "hbase.regionserver.thread.compaction.throttle",
    "hbase.store.delete.expired.storefile",
    "hbase.store.file-tracker.",
];

impl Region {
    /// Applies a new schema of the region's table, with the options that follow from it. Returns `false` if the region
    /// must be opened again instead; then nothing has changed.
    pub fn alter(&self, table: &Arc<TableDescriptor>, options: &RegionOptions) -> Result<bool> {
        self.check_serving()?;
        if needs_reopening(&self.table(), table) {
            return Ok(false);
        }
        for store in &self.stores {
            let Some(Ok(family)) = table.family(&store.family).map(FamilyDescriptor::options) else {
                return Ok(false);
            };
            let (scan_info, family) = (ScanInfo::of(&family), Arc::new(family));
            store.change_view(|view| View { scan_info, options: Arc::clone(&family), ..view.clone() });
        }
        self.tune(options);
        self.table.store(Arc::clone(table));
        Ok(true)
    }

    /// From now on, refuses puts, increments and appends to `families`, and accepts them for all others. Deletes are
    /// accepted, because the delete of a row names all families. Writes that have begun are completed. The region accepts puts to
    /// all of its families when it is opened again.
    pub fn refuse_puts(&self, families: &[Bytes]) {
        for store in &self.stores {
            store.refuses_puts.store(families.contains(&store.family), Ordering::Relaxed);
        }
    }
}

/// Whether a change of a schema takes effect only when a region is opened again.
fn needs_reopening(old: &TableDescriptor, new: &TableDescriptor) -> bool {
    let pairs = || old.families().iter().zip(new.families());
    old.families().len() != new.families().len()
        || pairs().any(|(old, new)| old.name() != new.name() || is_reshaped(old, new))
        || match (old.options(), new.options()) {
            (Ok(old), Ok(new)) => lasting_of_table(old) != lasting_of_table(new),
            _ => true,
        }
        || keys(old.attributes(), &[]).is_changed(&keys(new.attributes(), &[]))
}

fn is_reshaped(old: &FamilyDescriptor, new: &FamilyDescriptor) -> bool {
    let of_keys = |family: &FamilyDescriptor| keys(family.attributes(), family.configuration());
    of_keys(old).is_changed(&of_keys(new))
        || match (old.options(), new.options()) {
            (Ok(old), Ok(new)) => lasting_of_family(old) != lasting_of_family(new),
            _ => true,
        }
}

/// Returns the family's options, in which those that an open region can change are replaced by fixed values.
fn lasting_of_family(options: FamilyOptions) -> FamilyOptions {
    FamilyOptions {
        versions_max: 1,
        versions_min: 0,
        ttl_seconds: 1,
        keep_deleted_cells: KeepDeletedCells::False,
        block_bytes: 0,
        compression: Compression::default(),
        compression_minor: Compression::default(),
        compression_major: Compression::default(),
        data_block_encoding: DataBlockEncoding::default(),
        bloom: BloomType::default(),
        bloom_prefix: None,
        replication_scope: 0,
        compress_tags: true,
        dfs_replication: 0,
        is_mob: false,
        mob_threshold: 0,
        ..options
    }
}

fn lasting_of_table(options: TableOptions) -> TableOptions {
    TableOptions {
        max_file_bytes: None,
        compaction_enabled: true,
        split_enabled: true,
        merge_enabled: true,
        priority: 0,
        ..options
    }
}

/// The configuration keys and classes that a table or family sets.
struct Keys(BTreeMap<String, String>);

fn keys(attributes: &Attributes, configuration: &[(String, String)]) -> Keys {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let set = attributes.iter().map(|(key, value)| (text(key), text(value)));
    let all = set.chain(configuration.iter().cloned());
    let is_key = |key: &str| {
        let key = key.to_ascii_lowercase();
        ["hbase.", "bellows.", "coprocessor$"].iter().any(|begin| key.starts_with(begin))
    };
    Keys(all.filter(|(key, _)| is_key(key)).collect())
}

impl Keys {
    /// Whether a key differs that is read only when a region is opened.
    fn is_changed(&self, other: &Keys) -> bool {
        let is_lasting = |key: &String| !TUNED.iter().any(|begin| key.starts_with(begin));
        let keys = self.0.keys().chain(other.0.keys());
        keys.filter(|key| is_lasting(key)).any(|key| self.0.get(key) != other.0.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(family: FamilyDescriptor) -> TableDescriptor {
        let mut table = TableDescriptor::new("t".parse().expect("a name"));
        table.set_family(family);
        table
    }

    fn family() -> FamilyDescriptor {
        FamilyDescriptor::new("f").expect("a name")
    }

    #[test]
    fn attributes_of_files_and_reads_change_without_reopening() {
        for (key, value) in [
            ("VERSIONS", "3"),
            ("MIN_VERSIONS", "1"),
            ("TTL", "60"),
            ("KEEP_DELETED_CELLS", "TRUE"),
            ("COMPRESSION", "GZ"),
            ("COMPRESSION_COMPACT_MAJOR", "GZ"),
            ("DATA_BLOCK_ENCODING", "DIFF"),
            ("BLOOMFILTER", "ROWCOL"),
            ("BLOCKSIZE", "1024"),
            ("REPLICATION_SCOPE", "1"),
            ("hbase.hstore.compaction.min", "7"),
            ("hbase.store.file-tracker.impl", "DEFAULT"),
            ("note", "of a user"),
        ] {
            assert!(!needs_reopening(&table(family()), &table(family().with(key, value))), "{key}");
        }
        for (key, value) in [
            ("MAX_FILESIZE", "2097152"),
            ("COMPACTION_ENABLED", "false"),
            ("hbase.hregion.majorcompaction", "0"),
        ] {
            let mut new = table(family());
            new.attributes_mut().set(key.into(), value.into());
            assert!(!needs_reopening(&table(family()), &new), "{key}");
        }
    }

    #[test]
    fn attributes_that_take_effect_at_the_opening_need_a_reopening() {
        for (key, value) in [
            ("IN_MEMORY", "true"),
            ("BLOCKCACHE", "false"),
            ("IN_MEMORY_COMPACTION", "EAGER"),
            ("NEW_VERSION_BEHAVIOR", "true"),
            ("hbase.store.unknown", "FILE"),
            ("hbase.hregion.compacting.memstore.type", "EAGER"),
            ("VERSIONS", "many"),
        ] {
            assert!(needs_reopening(&table(family()), &table(family().with(key, value))), "{key}");
        }
        for (key, value) in [
            ("READONLY", "true"),
            ("MEMSTORE_FLUSHSIZE", "2097152"),
            ("DURABILITY", "SKIP_WAL"),
            ("coprocessor$1", "|org.example.C|1|"),
            ("hbase.rowlock.wait.duration", "5"),
        ] {
            let mut new = table(family());
            new.attributes_mut().set(key.into(), value.into());
            assert!(needs_reopening(&table(family()), &new), "{key}");
        }
        let mut two = table(family());
        two.set_family(FamilyDescriptor::new("g").expect("a name"));
        assert!(needs_reopening(&table(family()), &two) && needs_reopening(&two, &table(family())));
    }
}
