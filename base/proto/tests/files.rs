//! Reads files that Apache HBase 2.6.4 wrote (`hbase_files/`), and checks that we write the same bytes.
//!
//! A standalone HBase wrote the files after
//! `create 'ns:t', {NAME=>'f', VERSIONS=>3, COMPRESSION=>'SNAPPY', TTL=>86400},
//! {NAME=>'g', CONFIGURATION=>{'hbase.hstore.blockingStoreFiles'=>'20'}}, SPLITS=>['c','m']`.

use bytes::Bytes;
use proto::descriptor::{Attributes, Compression};
use proto::{RegionInfo, TableDescriptor, catalog, pb, pbuf};

fn table(content: &'static [u8]) -> TableDescriptor {
    let table = TableDescriptor::from_file(&content.into()).expect("HBase wrote it");
    assert_eq!(&table.to_file()[..], content, "the same bytes again");
    table
}

#[test]
fn a_tables_schema_is_read_whole() {
    let table = table(include_bytes!("hbase_files/ns_t.tableinfo"));
    assert_eq!(table.name().as_str(), "ns:t");
    assert_eq!(table.attributes().text("hbase.store.file-tracker.impl"), Some("DEFAULT"));
    let family = table.family(b"f").expect("made with it").options().expect("HBase checked them");
    assert_eq!(
        (family.versions_max, family.ttl_seconds, family.compression),
        (3, 86400, Compression::Snappy)
    );
    assert_eq!(
        table.family(b"g").expect("made with it").configured("hbase.hstore.blockingStoreFiles"),
        Some("20")
    );
}

#[test]
fn a_regions_identity_is_read_and_has_the_name_hbase_gave_it() {
    let content: &[u8] = include_bytes!("hbase_files/b19693bb46313ebaedb0593a698ac90b.regioninfo");
    let region = RegionInfo::from_file(&Bytes::from_static(content)).expect("HBase wrote it");
    assert_eq!(region.to_string(), "ns:t,c,1795232738946.b19693bb46313ebaedb0593a698ac90b.");
    assert_eq!((&region.start_key()[..], &region.end_key()[..]), (&b"c"[..], &b"m"[..]));
    assert_eq!(region.to_file(), content);
    let content: &[u8] = include_bytes!("hbase_files/1588230740.regioninfo");
    assert_eq!(
        RegionInfo::from_file(&Bytes::from_static(content)).expect("HBase wrote it"),
        RegionInfo::meta()
    );
    assert_eq!(RegionInfo::meta().to_file(), content);
}

#[test]
fn the_roots_own_files_are_read() {
    let id: Bytes = Bytes::from_static(include_bytes!("hbase_files/hbase.id"));
    let found: pb::ClusterId = pbuf::decode("hbase.id", &id).expect("HBase wrote it");
    assert_eq!(found.cluster_id.len(), 36);
    assert_eq!(pbuf::encode(&found), id);
    let version: Bytes = Bytes::from_static(include_bytes!("hbase_files/hbase.version"));
    let found: pb::HBaseVersionFileContent = pbuf::decode("hbase.version", &version).expect("HBase wrote it");
    assert_eq!(found.version, "8");
    assert_eq!(pbuf::encode(&found), version);
}

#[test]
fn the_catalogs_schemas_are_hbases() {
    let same = |ours: &Attributes, theirs: &Attributes, of: &str| {
        for (key, value) in ours.iter() {
            assert_eq!(theirs.value(key), Some(value), "{} of {of}", key.escape_ascii());
        }
    };
    for (ours, theirs) in [
        (catalog::meta_descriptor(), table(include_bytes!("hbase_files/meta.tableinfo"))),
        (catalog::namespaces_descriptor(), table(include_bytes!("hbase_files/namespace.tableinfo"))),
    ] {
        assert_eq!(ours.name(), theirs.name());
        same(ours.attributes(), theirs.attributes(), ours.name().as_str());
        assert_eq!(ours.families().len(), theirs.families().len());
        for (our, their) in ours.families().iter().zip(theirs.families()) {
            assert_eq!(our.name(), their.name());
            same(our.attributes(), their.attributes(), &our.name().escape_ascii().to_string());
            // HBase's descriptors have further attributes. Their values must be our defaults.
            assert_eq!(our.options().unwrap(), their.options().unwrap());
        }
    }
}
