//! What a fault strikes.

/// What a run must have so that a kind of fault has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A server.
    Server,
    /// A disk with the log, and perhaps with the other files.
    Disk,
    /// An object store with all files except perhaps the log.
    Store,
    /// An object store with all files and the log.
    LogInStore,
    /// A log that no lock keeps other processes away from, so that another server can take it over: in an object store
    /// or on HDFS.
    Shared,
    /// A read replica, and so an object store with all files and the log.
    Replica,
}
