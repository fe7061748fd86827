//! The order of the processes that own the files of a cluster one after the other.

use rpc::Exception;

/// The time in which a process is the only one that may change the files of a cluster.
pub trait Tenure: Send + Sync {
    /// Returns the number of this tenure, which is larger than that of every earlier one. It begins anew if the log is
    /// begun anew in another place.
    fn epoch(&self) -> u64;

    /// Fails if another process owns the files now, or if the storage cannot tell.
    fn confirm(&self) -> Result<(), Exception>;
}
