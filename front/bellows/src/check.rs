//! Refuses values that are of their key's kind but cannot work.
//!
//! [`conf`] checks each value alone, and each crate checks its own options. The remaining checks are here. They run
//! before the server opens a port or writes a file, and name the key, the value and what is expected.

use std::net::IpAddr;

use conf::key::Text;
use conf::{Conf, Key, keys};
use proto::descriptor::tracker::TrackerKind;

use crate::failure::Failure;

/// Minimum flush size in bytes: one data block of a store file, because smaller files are mostly trailer and index.
/// With 0 a region would refuse every write as too busy. HBase accepts any value here and refuses tables below 1 MB;
/// load tests need many small flushes.
const FLUSH_SIZE_MIN: u64 = 64 << 10;
/// Maximum fraction of memory for memstores and block cache together, as in HBase.
const SHARES_MAX: f64 = 0.8;
/// Tolerance for sums such as 0.1 and 0.7, which are not exact.
const SHARE_ERROR: f64 = 1e-9;

/// Fails with the first value that cannot work.
pub(crate) fn check(conf: &Conf) -> Result<(), Failure> {
    check_memory(conf)?;
    let key = &keys::rpc::MAX_REQUEST_SIZE;
    if conf.value(key)? == 0 {
        return refused(key.name(), 0, "at least 1 byte: no request could be read");
    }
    let key = &keys::store::FILE_TRACKER;
    let tracker = conf.value(key)?;
    if !matches!(TrackerKind::parse(&tracker), Some(TrackerKind::Default | TrackerKind::File)) {
        let expected = "DEFAULT or FILE: the store file tracker that new tables name";
        return refused(key.name(), format!("{tracker:?}"), expected);
    }
    let key = &keys::cluster::ZOOKEEPER_PARENT;
    let parent = conf.value(key)?;
    // The paths of the nodes are made by appending to the parent. That is not possible if the parent is the root.
    if parent == "/" || !registry::is_path(&parent) {
        let expected =
            "an absolute path below the root, without a slash at its end or empty parts, as /hbase";
        return refused(key.name(), format!("{parent:?}"), expected);
    }
    Ok(())
}

fn check_memory(conf: &Conf) -> Result<(), Failure> {
    let key = &keys::region::MEMSTORE_FLUSH_SIZE;
    let size = conf.value(key)?;
    if size < FLUSH_SIZE_MIN {
        let expected = format!("at least {FLUSH_SIZE_MIN} bytes, a block of a store file");
        return refused(key.name(), size, &expected);
    }
    let key = &keys::region::MEMSTORE_BLOCK_MULTIPLIER;
    if conf.value(key)? == 0 {
        return refused(key.name(), 0, "at least 1: every write would be refused");
    }
    let (memstores, blocks) = (&keys::regionserver::GLOBAL_MEMSTORE_SHARE, &keys::cache::SHARE);
    let (memstores_share, blocks_share) = (conf.value(memstores)?, conf.value(blocks)?);
    if memstores_share <= 0.0 || memstores_share >= 1.0 {
        return refused(memstores.name(), memstores_share, "a share above 0 and below 1");
    }
    if blocks_share >= 1.0 {
        return refused(blocks.name(), blocks_share, "a share from 0 on and below 1");
    }
    if memstores_share + blocks_share > SHARES_MAX + SHARE_ERROR {
        return Err(Failure::new(format!(
            "{} is {memstores_share} and {} is {blocks_share}, expected at most {SHARES_MAX} together: the rest is for \
             everything else",
            memstores.name(),
            blocks.name()
        )));
    }
    Ok(())
}

/// Checks a host name for clients. In a server's name it precedes a comma and a port.
pub(crate) fn check_host(key: &Key<Text>, host: &str) -> Result<(), Failure> {
    let is_name = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    if is_name(host) || host.parse::<IpAddr>().is_ok() {
        return Ok(());
    }
    let expected = "one host name or IP address, without a port, blanks or commas";
    refused(key.name(), format!("{host:?}"), expected)
}

fn refused(name: &str, found: impl std::fmt::Display, expected: &str) -> Result<(), Failure> {
    Err(Failure::new(format!("{name} is {found}, expected {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(said: &[(&str, &str)]) -> Conf {
        said.iter().fold(Conf::new(), |conf, (key, value)| {
            conf.with_definition(&format!("{key}={value}")).expect("a name and a value")
        })
    }

    fn line(said: &[(&str, &str)]) -> String {
        check(&with(said)).expect_err(&format!("{said:?}")).to_string()
    }

    #[test]
    fn a_parent_that_is_no_znode_is_refused() {
        let key = "zookeeper.znode.parent";
        for bad in ["hbase", "", "/hbase/", "//x", "/", "/a//b", "/../a"] {
            let line = line(&[(key, bad)]);
            assert!(line.starts_with(&format!("{key} is {bad:?}, expected an absolute path")), "{line}");
        }
        for good in ["/hbase", "/hbase-unsecure", "/clusters/one"] {
            check(&with(&[(key, good)])).expect(good);
        }
    }

    #[test]
    fn a_file_tracker_that_no_new_table_can_name_is_refused() {
        let key = "hbase.store.file-tracker.impl";
        for bad in ["MIGRATION", "org.example.Tracker", ""] {
            let line = line(&[(key, bad)]);
            assert!(line.starts_with(&format!("{key} is {bad:?}, expected DEFAULT or FILE")), "{line}");
        }
        for good in ["FILE", "file", "DEFAULT", &TrackerKind::Default.class_name()] {
            check(&with(&[(key, good)])).expect(good);
        }
    }

    #[test]
    fn sizes_that_would_refuse_every_request_are_refused() {
        let key = "hbase.hregion.memstore.flush.size";
        for bad in ["0", "1", "65535"] {
            let line = line(&[(key, bad)]);
            assert!(line.starts_with(&format!("{key} is {bad}, expected at least 65536 bytes")), "{line}");
        }
        check(&with(&[(key, "65536")])).expect("the least");
        for key in ["hbase.ipc.max.request.size", "hbase.hregion.memstore.block.multiplier"] {
            let line = line(&[(key, "0")]);
            assert!(line.starts_with(&format!("{key} is 0, expected at least 1")), "{line}");
            check(&with(&[(key, "1")])).expect("the least");
        }
    }

    #[test]
    fn fractions_of_memory_are_valid_and_leave_a_rest() {
        let (memstores, blocks) = ("hbase.regionserver.global.memstore.size", "hfile.block.cache.size");
        for (key, bad) in [(memstores, "0"), (memstores, "1"), (memstores, "7"), (blocks, "1"), (blocks, "5")]
        {
            let line = line(&[(key, bad)]);
            assert!(line.starts_with(&format!("{key} is {bad}, expected a share")), "{line}");
        }
        let line = line(&[(memstores, "0.5"), (blocks, "0.4")]);
        assert!(line.starts_with(&format!("{memstores} is 0.5 and {blocks} is 0.4")), "{line}");
        for (of_memstores, of_blocks) in [("0.4", "0.4"), ("0.1", "0.7"), ("0.2", "0.6"), ("0.8", "0")] {
            check(&with(&[(memstores, of_memstores), (blocks, of_blocks)])).expect("0.8 together");
        }
    }

    #[test]
    fn a_host_that_nobody_could_read_out_of_a_servers_name_is_refused() {
        for bad in ["a,b", "a b", "a:16020", "a/b", "[::1]", ""] {
            let line = check_host(&keys::regionserver::HOSTNAME, bad).expect_err(bad).to_string();
            assert!(line.starts_with(&format!("hbase.regionserver.hostname is {bad:?}, expected")), "{line}");
        }
        for good in ["localhost", "rs-1.example.org", "node_7", "192.0.2.1", "2001:db8::1"] {
            check_host(&keys::regionserver::HOSTNAME, good).expect(good);
        }
    }
}
