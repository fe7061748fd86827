//! Opens what belongs to an Apache HBase, for an adoption: at first for reading only, and as its owner later. Until then
//! nothing is written, apart from the lock file in a folder of this machine.

use std::sync::Arc;

use conf::Conf;
use door::LogEnds;
use hdfs::Hdfs;
use objectstore::Bucket;
use storage::Files;

use super::Root;
use crate::data_dir;
use crate::failure::Failure;

/// The root folder of an HBase, or the place of its logs.
pub(crate) struct HBasePlace {
    pub(crate) files: Arc<dyn Files>,
    root: Root,
    medium: Medium,
}

enum Medium {
    /// A folder of this machine, which is locked.
    Folder,
    Bucket(Arc<Bucket>),
    Hdfs(Hdfs),
}

impl Root {
    /// Opens the root folder of an HBase. Fails if it was adopted already. With `for_reading` a folder may be on a read-only
    /// file system.
    pub(crate) fn open_of_hbase(&self, conf: &Conf, for_reading: bool) -> Result<HBasePlace, Failure> {
        if let Root::Folder(folder) = self {
            let files = Arc::new(data_dir::open_of_hbase(folder, for_reading)?);
            return Ok(HBasePlace { files, root: self.clone(), medium: Medium::Folder });
        }
        let place = self.open_logs_of_hbase(conf)?;
        place.check_is_not_adopted()?;
        Ok(place)
    }

    /// Opens the place in which an HBase has its logs.
    pub(crate) fn open_logs_of_hbase(&self, conf: &Conf) -> Result<HBasePlace, Failure> {
        let (files, medium): (Arc<dyn Files>, Medium) = match self {
            Root::Folder(_) => (self.open_for_log(conf, None, |_| Ok(()))?.files, Medium::Folder),
            Root::Bucket { .. } => {
                let bucket = self.bucket(conf, None)?;
                (Arc::clone(&bucket) as Arc<dyn Files>, Medium::Bucket(bucket))
            }
            Root::Hdfs { url, folder } => {
                let hdfs = self.hdfs(conf, url, folder)?;
                let base = hdfs.base().clone();
                (Arc::new(hdfs), Medium::Hdfs(base))
            }
        };
        Ok(HBasePlace { files, root: self.clone(), medium })
    }
}

impl HBasePlace {
    /// Makes this process the owner, so that it may write. The store of a bucket is checked as by a start.
    pub(crate) fn take(&self, conf: &Conf) -> Result<(), Failure> {
        match &self.medium {
            Medium::Folder => Ok(()),
            Medium::Bucket(bucket) => bucket.probe().map_err(|error| self.root.unreachable(conf, &error)),
            Medium::Hdfs(hdfs) => hdfs.take().map_err(|error| self.root.not_served(&error)),
        }
    }

    /// Fails if the root folder has become a data directory of Bellows.
    pub(crate) fn check_is_not_adopted(&self) -> Result<(), Failure> {
        match data_dir::is_of_bellows(&*self.files, &self.root)? {
            true => Err(data_dir::already_adopted(&self.root)),
            false => Ok(()),
        }
    }

    /// Returns whether a log file can be read to its end that HBase has left open.
    pub(crate) fn log_ends(&self) -> LogEnds {
        match self.medium {
            Medium::Folder | Medium::Bucket(_) => LogEnds::Shown,
            Medium::Hdfs(_) => LogEnds::Hidden,
        }
    }
}
