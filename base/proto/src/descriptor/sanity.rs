//! The checks of a schema before a table is created or changed, with HBase's messages.

use super::{BloomType, Compression, FamilyDescriptor, TableDescriptor};
use crate::Error;
use cell::string_binary;

/// The configured limits that a schema is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `hbase.table.sanity.checks`: whether invalid schemas are refused. A table can override it. Default true.
    pub enabled: bool,
    /// `hbase.hregion.max.filesize.limit`: minimum of MAX_FILESIZE, in bytes. Default 2 MiB.
    pub file_bytes_min: u64,
    /// `hbase.hregion.memstore.flush.size.limit`: minimum of MEMSTORE_FLUSHSIZE, in bytes. Default 1 MiB.
    pub flush_bytes_min: u64,
    /// `hbase.hstore.blockingStoreFiles`: number of store files above which flushes wait. Default 16.
    pub blocking_files: u64,
    /// Java classes of coprocessors that are built in.
    pub coprocessors: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            enabled: true,
            file_bytes_min: 2 * 1024 * 1024,
            flush_bytes_min: 1024 * 1024,
            blocking_files: 16,
            coprocessors: vec![
                "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint".into(),
                "org.apache.hadoop.hbase.coprocessor.AggregateImplementation".into(),
                "org.apache.hadoop.hbase.coprocessor.example.BulkDeleteEndpoint".into(),
                "org.apache.hadoop.hbase.coprocessor.example.RefreshHFilesEndpoint".into(),
                "org.apache.hadoop.hbase.coprocessor.example.RowCountEndpoint".into(),
            ],
        }
    }
}

/// Checks a schema; the error says why it is refused. Even if the checks are switched off, a schema must be usable:
/// each attribute needs a value of its type, and the compression needs a codec.
pub fn check(table: &TableDescriptor, limits: &Limits) -> Result<(), Error> {
    let on = match table.attributes().text("hbase.table.sanity.checks") {
        Some(word) => word.eq_ignore_ascii_case("true"),
        None => limits.enabled,
    };
    must(table).and_then(|()| if on { should(table, limits) } else { Ok(()) }).map_err(|words| {
        Error::Sanity(format!(
            "{words} Set hbase.table.sanity.checks to false at conf or table descriptor if you want to bypass sanity \
             checks"
        ))
    })
}

/// Maximum length of a directory name on all common file systems including HDFS, in bytes.
pub const FOLDER_NAME_MAX: usize = 255;

/// Makes the checks that cannot be switched off, since no region of the table could be opened otherwise.
fn must(table: &TableDescriptor) -> Result<(), String> {
    table.options().map_err(|error| error.to_string())?;
    let length = table.name().qualifier().len();
    if length > FOLDER_NAME_MAX {
        return Err(format!(
            "The table's name has {length} bytes, file systems take at most {FOLDER_NAME_MAX}."
        ));
    }
    for family in table.families() {
        let options = family.options().map_err(|error| error.to_string())?;
        if let Some(cipher) = family.attributes().text("ENCRYPTION").filter(|cipher| !cipher.is_empty()) {
            return Err(format!(
                "Cipher {cipher} of family {} failed test: files are not encrypted here, leave ENCRYPTION out.",
                string_binary(family.name())
            ));
        }
        for codec in [options.compression, options.compression_minor, options.compression_major] {
            if let Some(class) = absent_codec(codec) {
                return Err(format!("java.lang.RuntimeException: java.lang.ClassNotFoundException: {class}"));
            }
        }
        if options.versions_max < 1 {
            return Err("Maximum versions must be positive".into());
        }
    }
    if table.families().is_empty() {
        return Err("Table should have at least one column family.".into());
    }
    Ok(())
}

/// Returns the Java class that HBase would report as missing for a compression without a codec; `None` if there is a
/// codec.
fn absent_codec(codec: Compression) -> Option<&'static str> {
    match codec {
        Compression::Lzo => Some("com.hadoop.compression.lzo.LzoCodec"),
        Compression::Bzip2 => Some("org.apache.hadoop.io.compress.BZip2Codec"),
        Compression::Lzma => Some("org.apache.hadoop.hbase.io.compress.xz.LzmaCodec"),
        Compression::Brotli => Some("org.apache.hadoop.hbase.io.compress.brotli.BrotliCodec"),
        Compression::None | Compression::Gz | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            None
        }
    }
}

fn should(table: &TableDescriptor, limits: &Limits) -> Result<(), String> {
    let options = table.options().map_err(|error| error.to_string())?;
    if let Some(bytes) = options.max_file_bytes.filter(|bytes| *bytes < limits.file_bytes_min) {
        return Err(format!(
            "MAX_FILESIZE for table descriptor or \"hbase.hregion.max.filesize\" ({bytes}) is too small, which might \
             cause over splitting into unmanageable number of regions."
        ));
    }
    if let Some(bytes) = options.flush_bytes.filter(|bytes| *bytes < limits.flush_bytes_min) {
        return Err(format!(
            "MEMSTORE_FLUSHSIZE for table descriptor or \"hbase.hregion.memstore.flush.size\" ({bytes}) is too small, \
             which might cause very frequent flushing."
        ));
    }
    if options.region_replication < 1 {
        return Err("Table region replication should be at least one.".into());
    }
    if options.read_only && table.name().is_meta() {
        return Err("Meta table can't be set as read only.".into());
    }
    check_classes(table, limits)?;
    check_fifo(table, limits)?;
    table.families().iter().try_for_each(check_family)
}

/// Checks the classes that a schema names. Bellows runs no Java, so only the classes of built-in coprocessors are
/// accepted.
fn check_classes(table: &TableDescriptor, limits: &Limits) -> Result<(), String> {
    const POLICIES: [&str; 6] = [
        "SteppingSplitPolicy",
        "IncreasingToUpperBoundRegionSplitPolicy",
        "ConstantSizeRegionSplitPolicy",
        "KeyPrefixRegionSplitPolicy",
        "DelimitedKeyPrefixRegionSplitPolicy",
        "DisabledRegionSplitPolicy",
    ];
    let policy = table.attributes().text("SPLIT_POLICY");
    if let Some(class) = policy
        && !class
            .strip_prefix("org.apache.hadoop.hbase.regionserver.")
            .is_some_and(|name| POLICIES.contains(&name))
    {
        return Err(format!(
            "Unable to load configured region split policy '{class}' for table '{}'",
            table.name()
        ));
    }
    for (key, value) in table.attributes().iter() {
        if !key.to_ascii_lowercase().starts_with(b"coprocessor$") {
            continue;
        }
        let text = String::from_utf8_lossy(value);
        let class = text.split('|').nth(1).unwrap_or_default().trim();
        if !limits.coprocessors.iter().any(|known| known == class) {
            return Err(format!("Class {class} cannot be loaded"));
        }
    }
    Ok(())
}

/// Checks the schema of a table with FIFO compaction. This policy deletes a file only when all its cells have expired,
/// so there may be many files.
fn check_fifo(table: &TableDescriptor, limits: &Limits) -> Result<(), String> {
    const POLICY: &str = "hbase.hstore.defaultengine.compactionpolicy.class";
    const FIFO: &str = "org.apache.hadoop.hbase.regionserver.compactions.FIFOCompactionPolicy";
    const BLOCKING: &str = "hbase.hstore.blockingStoreFiles";
    for family in table.families() {
        let said = |key| family.configured(key).or_else(|| table.attributes().text(key));
        if said(POLICY) != Some(FIFO) {
            continue;
        }
        let options = family.options().map_err(|error| error.to_string())?;
        if options.ttl_ms().is_none() {
            return Err("Default TTL is not supported for FIFO compaction".into());
        }
        if options.versions_min > 0 {
            return Err("MIN_VERSION > 0 is not supported for FIFO compaction".into());
        }
        let files = said(BLOCKING).and_then(|text| text.parse().ok()).unwrap_or(limits.blocking_files);
        if files < 1000 {
            return Err(format!(
                "Blocking file count '{BLOCKING}' {files} is below recommended minimum of 1000 for column family {}",
                string_binary(family.name())
            ));
        }
    }
    Ok(())
}

fn check_family(family: &FamilyDescriptor) -> Result<(), String> {
    let options = family.options().map_err(|error| error.to_string())?;
    let name = string_binary(family.name());
    if !matches!(options.replication_scope, 0 | 1) {
        return Err(format!(
            "Replication scope for column family {name} is {} which is invalid.",
            options.replication_scope
        ));
    }
    if options.bloom == BloomType::RowPrefixFixedLength {
        let length = options.bloom_prefix.map(usize::from);
        if !length.is_some_and(|length| (1..=cell::ROW_LENGTH_MAX).contains(&length)) {
            return Err("Failed to get bloom filter param".into());
        }
    }
    if options.ttl_seconds <= 0 {
        return Err(format!("TTL for column family {name} must be positive."));
    }
    if !(1024..=16 * 1024 * 1024).contains(&options.block_bytes) {
        return Err(format!("Block size for column family {name}  must be between 1K and 16MB."));
    }
    if options.versions_min > options.versions_max {
        return Err(format!("Min versions for column family {name} must be less than the Max versions."));
    }
    if options.dfs_replication < 0 {
        return Err(format!("HFile Replication for column family {name}  must be greater than zero."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(family: FamilyDescriptor) -> TableDescriptor {
        let mut table = TableDescriptor::new("t".parse().unwrap());
        table.set_family(family);
        table
    }

    fn family() -> FamilyDescriptor {
        FamilyDescriptor::new("f").unwrap()
    }

    fn refusal(table: &TableDescriptor) -> String {
        check(table, &Limits::default()).unwrap_err().to_string()
    }

    #[test]
    fn an_ordinary_table_passes() {
        check(&table(family()), &Limits::default()).unwrap();
    }

    #[test]
    fn each_bad_value_is_refused_in_hbases_words() {
        let begins = |family: FamilyDescriptor, words: &str| {
            let found = refusal(&table(family));
            assert!(found.starts_with(words), "{found}");
            assert!(found.contains(" Set hbase.table.sanity.checks to false"), "{found}");
        };
        begins(family().with("TTL", 0), "TTL for column family f must be positive.");
        begins(family().with("BLOCKSIZE", 1023), "Block size for column family f  must be");
        begins(family().with("MIN_VERSIONS", 2), "Min versions for column family f must be less");
        begins(family().with("REPLICATION_SCOPE", 2), "Replication scope for column family f is 2");
        begins(
            family().with("COMPRESSION", "LZO"),
            "java.lang.RuntimeException: java.lang.ClassNotFoundException: com.hadoop.compression.lzo.LzoCodec",
        );
        begins(family().with("DFS_REPLICATION", -1), "HFile Replication for column family f");
        begins(family().with("BLOOMFILTER", "ROWPREFIX_FIXED_LENGTH"), "Failed to get bloom filter param");
        begins(family().with("VERSIONS", "x"), "VERSIONS of family f is x");
        assert!(
            refusal(&TableDescriptor::new("t".parse().unwrap()))
                .starts_with("Table should have at least one")
        );
    }

    #[test]
    fn tables_are_checked_too() {
        let with = |key: &'static str, value: &'static str| {
            let mut table = table(family());
            table.attributes_mut().set(key.into(), value.into());
            table
        };
        assert!(refusal(&with("MAX_FILESIZE", "1024")).starts_with("MAX_FILESIZE for table descriptor"));
        assert!(refusal(&with("MEMSTORE_FLUSHSIZE", "1024")).starts_with("MEMSTORE_FLUSHSIZE for table"));
        assert!(refusal(&with("REGION_REPLICATION", "0")).starts_with("Table region replication"));
        assert!(
            refusal(&with("SPLIT_POLICY", "com.example.P"))
                .starts_with("Unable to load configured region split")
        );
        assert!(
            refusal(&with("coprocessor$1", "|com.example.C|1|")).starts_with("Class com.example.C cannot be")
        );
        let known = with("coprocessor$1", "|org.apache.hadoop.hbase.coprocessor.AggregateImplementation|1|");
        check(&known, &Limits::default()).unwrap();
    }

    #[test]
    fn fifo_compaction_needs_a_ttl_and_room_for_files() {
        let with = |family: FamilyDescriptor, files: &'static str| {
            let mut table = table(family);
            let class = "org.apache.hadoop.hbase.regionserver.compactions.FIFOCompactionPolicy";
            for (key, value) in [
                ("hbase.hstore.defaultengine.compactionpolicy.class", class),
                ("hbase.hstore.blockingStoreFiles", files),
            ] {
                table.attributes_mut().set(key.into(), value.into());
            }
            table
        };
        let begins = |table: &TableDescriptor, words: &str| {
            let found = refusal(table);
            assert!(found.starts_with(words), "{found}");
        };
        begins(&with(family(), "1000"), "Default TTL is not supported for FIFO compaction");
        let expiring = || family().with("TTL", 60);
        begins(&with(expiring().with("MIN_VERSIONS", 1), "1000"), "MIN_VERSION > 0 is not supported");
        let few = "Blocking file count 'hbase.hstore.blockingStoreFiles' 999 is below recommended minimum of 1000 for \
                   column family f";
        begins(&with(expiring(), "999"), few);
        check(&with(expiring(), "1000"), &Limits::default()).unwrap();
    }

    #[test]
    fn a_table_can_ask_to_be_let_through_but_not_to_be_unservable() {
        let mut odd = table(family().with("TTL", 0));
        odd.attributes_mut().set("hbase.table.sanity.checks".into(), "false".into());
        check(&odd, &Limits::default()).unwrap();
        odd.set_family(family().with("COMPRESSION", "LZO"));
        assert!(check(&odd, &Limits::default()).is_err());
    }
}
