//! The limits of the log.

use std::time::Duration;

/// Default of [`Options::parts_max`].
const PARTS_MAX: usize = 2_000;

/// Default of [`Options::keep_nonces`]. HBase's clients repeat a call for some two minutes, with their default settings.
const KEEP_NONCES: Duration = Duration::from_secs(300);

/// Maximum size in bytes of the files that are kept only for nonces. A start reads them within a second.
const KEEP_NONCES_BYTES: u64 = 128 << 20;

/// Limits of the log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The owner's name, for people: in errors and in `OWNER`.
    pub owner: String,
    /// Size of a file in bytes after which it is ended and another one is begun. In HBase this is
    /// `hbase.regionserver.hlog.blocksize` times `hbase.regionserver.logroll.multiplier`, by default 128 MB × 0.5.
    pub file_bytes_max: u64,
    /// Maximum number of bytes that wait in the buffer. An append beyond this limit first writes the buffer to the
    /// file. The buffer exceeds the limit for a single larger record, and while the disk is full.
    pub buffer_bytes_max: usize,
    /// Maximum size of one record, in bytes.
    pub record_bytes_max: usize,
    /// Number of files at which regions are asked to flush, even if they have little in memory
    /// (`hbase.regionserver.maxlogs`).
    pub files_max: usize,
    /// Number of files below which no region is asked to flush. Between this number and `files_max`, regions are asked
    /// when the log has more than twice the bytes of all memstores.
    pub files_min: usize,
    /// Maximum number of parts of all files that a region needs, if the storage keeps a file as
    /// [parts](storage::FileWriter::parts) (`bellows.wal.store.parts.max`). A file is ended at half of this number, and
    /// regions are asked to flush so that the ended files have no more than the other half. 0: no limit.
    pub parts_max: usize,
    /// Number of bytes between two index records in a file.
    pub index_every: u64,
    /// How long a record for which nobody waits may stay in the buffer (`hbase.regionserver.optionallogflushinterval`).
    pub idle_write: Duration,
    /// Pause after which a write that found the disk full is repeated (`bellows.wal.full.retry`).
    pub full_retry: Duration,
    /// Duration of a sync above which a warning is logged (`hbase.regionserver.wal.slowsync.ms`).
    pub slow_sync: Duration,
    /// How long a file is kept after no holder needs it any more (`hbase.master.logcleaner.ttl`).
    pub keep_unneeded: Duration,
    /// How long a file is kept for the nonces in it although all its writes are in store files. A process that starts
    /// learns from it which calls were applied. The files that are kept only for this have at most 128 MB, and a quarter of
    /// the parts at which a file is ended.
    pub keep_nonces: Duration,
    /// Whether new files reuse the space of files that nobody needs any more (`bellows.wal.reuse`). Spare files count
    /// against `files_max`.
    pub reuse: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            owner: "bellows".to_owned(),
            file_bytes_max: 64 << 20,
            buffer_bytes_max: 16 << 20,
            record_bytes_max: 1 << 30,
            files_max: 32,
            files_min: 32,
            parts_max: PARTS_MAX,
            index_every: 4 << 20,
            idle_write: Duration::from_secs(1),
            full_retry: Duration::from_secs(1),
            slow_sync: Duration::from_millis(100),
            keep_unneeded: Duration::ZERO,
            keep_nonces: KEEP_NONCES,
            reuse: true,
        }
    }
}

impl Options {
    /// Returns the number of parts at which a file is ended.
    pub(crate) fn file_parts_max(&self) -> usize {
        match self.parts_max {
            0 => usize::MAX,
            limit => limit.div_ceil(2),
        }
    }

    pub(crate) fn nonce_keeping(&self) -> NonceKeeping {
        NonceKeeping {
            age: self.keep_nonces,
            bytes_max: KEEP_NONCES_BYTES,
            parts_max: self.file_parts_max() / 4,
        }
    }
}

/// Says which files are kept although all their writes are in store files: those with nonces so young that a client may
/// still repeat the call. The next process learns the nonces from them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonceKeeping {
    /// Age at which a nonce needs no file any more.
    pub(crate) age: Duration,
    /// Maximum size in bytes of the files that are kept only for nonces.
    pub(crate) bytes_max: u64,
    /// Maximum number of [parts](storage::FileWriter::parts) of these files.
    pub(crate) parts_max: usize,
}
