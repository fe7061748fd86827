//! Exceptions: what a client receives when a call fails.
//!
//! A Java client creates an object of the named class from the text, and decides by the class whether to retry, look
//! the region up again, or give up. The text begins with the class, like a Java stack trace:
//! `org.apache.hadoop.hbase.NotServingRegionException: <message>`.

use std::borrow::Cow;

/// Full names of the classes that clients know, as sent to them.
pub mod class {
    macro_rules! classes {
        ($($(#[$doc:meta])* $name:ident = $path:literal $retry:ident;)*) => {
            $($(#[$doc])* pub const $name: &str = $path;)*

            /// All classes of this module. The flag says whether the client must not retry.
            pub(super) const ALL: &[(&str, bool)] = &[$(($path, $retry)),*];
        };
    }

    // The flag after the name: whether the class extends DoNotRetryIOException.
    classes! {
        /// A failure that may not recur.
        IO = "java.io.IOException" false;
        /// A failure of HBase that may not recur.
        HBASE_IO = "org.apache.hadoop.hbase.HBaseIOException" false;
        /// A file that the caller names does not exist.
        FILE_NOT_FOUND = "java.io.FileNotFoundException" false;
        /// The base class of exceptions that must not be retried.
        DO_NOT_RETRY_IO = "org.apache.hadoop.hbase.DoNotRetryIOException" true;
        /// The region is not on this server, or no longer: the client must look it up again.
        NOT_SERVING_REGION = "org.apache.hadoop.hbase.NotServingRegionException" false;
        /// The region moved to another server, which the exception names.
        REGION_MOVED = "org.apache.hadoop.hbase.exceptions.RegionMovedException" false;
        /// The region is being opened on this server: the client must wait.
        REGION_OPENING = "org.apache.hadoop.hbase.exceptions.RegionOpeningException" false;
        /// The region accepts no more writes for the moment: the client must wait.
        REGION_TOO_BUSY = "org.apache.hadoop.hbase.RegionTooBusyException" false;
        /// The row of the request is outside the region.
        WRONG_REGION = "org.apache.hadoop.hbase.regionserver.WrongRegionException" false;
        /// Too many calls are queued in this server.
        CALL_QUEUE_TOO_BIG = "org.apache.hadoop.hbase.CallQueueTooBigException" false;
        /// The call was dropped because it waited too long.
        CALL_DROPPED = "org.apache.hadoop.hbase.CallDroppedException" false;
        /// The rest of a batch was not done: the client must retry it immediately.
        RETRY_IMMEDIATELY = "org.apache.hadoop.hbase.RetryImmediatelyException" false;
        /// The results of a batch became too large: the client must retry the remaining actions immediately.
        MULTI_ACTION_RESULT_TOO_LARGE = "org.apache.hadoop.hbase.MultiActionResultTooLarge" false;
        /// A quota is exceeded; the text states how long to wait.
        RPC_THROTTLING = "org.apache.hadoop.hbase.quotas.RpcThrottlingException" false;
        /// The frame is longer than the server accepts.
        REQUEST_TOO_BIG = "org.apache.hadoop.hbase.exceptions.RequestTooBigException" true;
        /// The master is not ready.
        PLEASE_HOLD = "org.apache.hadoop.hbase.PleaseHoldException" false;
        /// The server is not ready.
        SERVER_NOT_RUNNING_YET = "org.apache.hadoop.hbase.ipc.ServerNotRunningYetException" false;
        /// This is not the active master.
        MASTER_NOT_RUNNING = "org.apache.hadoop.hbase.MasterNotRunningException" false;
        /// The master is stopping.
        MASTER_STOPPED = "org.apache.hadoop.hbase.exceptions.MasterStoppedException" true;
        /// The region server is stopping.
        REGION_SERVER_STOPPED = "org.apache.hadoop.hbase.regionserver.RegionServerStoppedException" false;
        /// The region server is aborting.
        REGION_SERVER_ABORTED = "org.apache.hadoop.hbase.regionserver.RegionServerAbortedException" false;
        /// No scanner has this id.
        UNKNOWN_SCANNER = "org.apache.hadoop.hbase.UnknownScannerException" true;
        /// The scanner cannot continue: the client must open a new one.
        SCANNER_RESET = "org.apache.hadoop.hbase.exceptions.ScannerResetException" true;
        /// A call of a scanner was repeated or lost.
        OUT_OF_ORDER_SCANNER_NEXT = "org.apache.hadoop.hbase.exceptions.OutOfOrderScannerNextException" true;
        /// The lease of the scanner has expired.
        LEASE = "org.apache.hadoop.hbase.regionserver.LeaseException" true;
        /// The table does not have the family.
        NO_SUCH_COLUMN_FAMILY = "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException" true;
        /// The table does not exist.
        TABLE_NOT_FOUND = "org.apache.hadoop.hbase.TableNotFoundException" true;
        /// The table exists already.
        TABLE_EXISTS = "org.apache.hadoop.hbase.TableExistsException" true;
        /// The table is not enabled.
        TABLE_NOT_ENABLED = "org.apache.hadoop.hbase.TableNotEnabledException" true;
        /// The table is not disabled.
        TABLE_NOT_DISABLED = "org.apache.hadoop.hbase.TableNotDisabledException" true;
        /// The namespace exists already.
        NAMESPACE_EXISTS = "org.apache.hadoop.hbase.NamespaceExistException" true;
        /// The namespace does not exist.
        NAMESPACE_NOT_FOUND = "org.apache.hadoop.hbase.NamespaceNotFoundException" true;
        /// The change of column families is invalid.
        INVALID_FAMILY_OPERATION = "org.apache.hadoop.hbase.InvalidFamilyOperationException" true;
        /// The user lacks the permission.
        ACCESS_DENIED = "org.apache.hadoop.hbase.security.AccessDeniedException" true;
        /// The request violates a sanity check.
        FAILED_SANITY_CHECK = "org.apache.hadoop.hbase.exceptions.FailedSanityCheckException" true;
        /// The endpoint does not exist, or the call is no longer supported.
        UNKNOWN_PROTOCOL = "org.apache.hadoop.hbase.exceptions.UnknownProtocolException" true;
        /// The region does not exist.
        UNKNOWN_REGION = "org.apache.hadoop.hbase.UnknownRegionException" true;
        /// The region is offline.
        REGION_OFFLINE = "org.apache.hadoop.hbase.client.RegionOfflineException" false;
        /// The regions cannot be merged.
        MERGE_REGION = "org.apache.hadoop.hbase.exceptions.MergeRegionException" true;
        /// The table is being changed by another procedure.
        CONCURRENT_TABLE_MODIFICATION = "org.apache.hadoop.hbase.ConcurrentTableModificationException" true;
        /// A constraint of namespaces, groups and the like is violated.
        CONSTRAINT = "org.apache.hadoop.hbase.constraint.ConstraintException" true;
        /// A snapshot of this name exists already.
        SNAPSHOT_EXISTS = "org.apache.hadoop.hbase.snapshot.SnapshotExistsException" true;
        /// No snapshot has this name.
        SNAPSHOT_DOES_NOT_EXIST = "org.apache.hadoop.hbase.snapshot.SnapshotDoesNotExistException" true;
        /// A snapshot of this name is neither complete nor being taken.
        UNKNOWN_SNAPSHOT = "org.apache.hadoop.hbase.snapshot.UnknownSnapshotException" true;
        /// A procedure was aborted.
        PROCEDURE_ABORTED = "org.apache.hadoop.hbase.procedure2.ProcedureAbortedException" false;
        /// A snapshot could not be taken.
        SNAPSHOT_CREATION = "org.apache.hadoop.hbase.snapshot.SnapshotCreationException" true;
        /// A snapshot could not be restored or cloned.
        RESTORE_SNAPSHOT = "org.apache.hadoop.hbase.snapshot.RestoreSnapshotException" true;
        /// The files of a snapshot are damaged or missing.
        CORRUPTED_SNAPSHOT = "org.apache.hadoop.hbase.snapshot.CorruptedSnapshotException" true;
        /// The snapshot's time to live is over.
        SNAPSHOT_TTL_EXPIRED = "org.apache.hadoop.hbase.snapshot.SnapshotTTLExpiredException" true;
        /// Another failure about a snapshot.
        SNAPSHOT = "org.apache.hadoop.hbase.snapshot.HBaseSnapshotException" true;
        /// A coprocessor failed.
        COPROCESSOR = "org.apache.hadoop.hbase.coprocessor.CoprocessorException" true;
        /// The row is too large to be read at once.
        ROW_TOO_BIG = "org.apache.hadoop.hbase.client.RowTooBigException" true;
        /// The call is one that Java refuses by `IllegalArgumentException`.
        ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException" false;
        /// The feature is not supported.
        UNSUPPORTED_OPERATION = "java.lang.UnsupportedOperationException" false;
        /// The connection is closed because of an error.
        FATAL_CONNECTION = "org.apache.hadoop.hbase.ipc.FatalConnectionException" true;
        /// The preamble of the connection has a version that the server does not know.
        WRONG_VERSION = "org.apache.hadoop.hbase.ipc.WrongVersionException" true;
        /// The authentication method of the connection is unknown.
        BAD_AUTH = "org.apache.hadoop.hbase.ipc.BadAuthException" true;
        /// The service that the connection names does not exist.
        UNKNOWN_SERVICE = "org.apache.hadoop.hbase.ipc.UnknownServiceException" true;
        /// The connection header names no service.
        EMPTY_SERVICE_NAME = "org.apache.hadoop.hbase.ipc.EmptyServiceNameException" true;
        /// The cell codec of the connection is unknown.
        UNSUPPORTED_CELL_CODEC = "org.apache.hadoop.hbase.ipc.UnsupportedCellCodecException" true;
        /// The compressor of the connection is unknown.
        UNSUPPORTED_COMPRESSION_CODEC = "org.apache.hadoop.hbase.ipc.UnsupportedCompressionCodecException" true;
        /// The encryption that the connection requests is not supported.
        UNSUPPORTED_CRYPTO = "org.apache.hadoop.hbase.ipc.UnsupportedCryptoException" true;
        /// The client asks for the server's principal, and there is none without security.
        SECURITY_NOT_ENABLED = "org.apache.hadoop.hbase.ipc.SecurityNotEnabledException" true;
    }
}

/// The failure of a call, as a client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The full name of a Java class whose constructor takes the text.
    pub class: Cow<'static, str>,
    /// The message, without the class.
    pub message: String,
    /// Whether the client must not retry.
    pub do_not_retry: bool,
    /// Whether the client should wait longer than usual before a retry.
    pub server_overloaded: bool,
    /// The host and port to which the region moved.
    pub moved_to: Option<(String, u16)>,
}

impl Exception {
    /// Creates an exception of `class`. The list in [`class`] says whether the client may retry; for a class that is
    /// not in the list, it may.
    pub fn new(class: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Exception {
        let class = class.into();
        let do_not_retry = class::ALL.iter().any(|(name, never)| *name == class && *never);
        let server_overloaded = class == class::CALL_QUEUE_TOO_BIG || class == class::CALL_DROPPED;
        Exception { class, message: message.into(), do_not_retry, server_overloaded, moved_to: None }
    }

    /// Creates an exception for a failure that may not recur. The client gohbase passes it on to the application, so
    /// routine conditions must not use it.
    pub fn io(message: impl Into<String>) -> Exception {
        Exception::new(class::IO, message)
    }

    /// Creates an exception for a failure that every retry would repeat.
    pub fn do_not_retry(message: impl Into<String>) -> Exception {
        Exception::new(class::DO_NOT_RETRY_IO, message)
    }

    /// Creates the exception for a region that is not on this server.
    pub fn not_serving_region(message: impl Into<String>) -> Exception {
        Exception::new(class::NOT_SERVING_REGION, message)
    }

    /// Creates the exception for a region that moved. Clients parse its message.
    pub fn region_moved(host: &str, port: u16, start_code: i64, sequence: u64) -> Exception {
        Exception {
            moved_to: Some((host.to_owned(), port)),
            ..Exception::new(
                class::REGION_MOVED,
                format!(
                    "Region moved to: hostname={host} port={port} startCode={start_code}. \
                     As of locationSeqNum={sequence}."
                ),
            )
        }
    }

    /// Creates the exception for a region that accepts no more writes for the moment.
    pub fn region_too_busy(message: impl Into<String>) -> Exception {
        Exception::new(class::REGION_TOO_BUSY, message)
    }

    /// Creates the exception for an unknown method. Clients search the text for the Java class. It tells them that the
    /// server is older than they are, and they then use another call.
    pub fn unknown_method(service: &str, method: &str) -> Exception {
        Exception::do_not_retry(format!("{}: {service} has no method {method}", class::UNSUPPORTED_OPERATION))
    }

    /// Returns the text as sent: class and message, like the start of a Java stack trace.
    pub fn text(&self) -> String {
        format!("{}: {}", self.class, self.message)
    }
}

impl std::fmt::Display for Exception {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.class, self.message)
    }
}

impl std::error::Error for Exception {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_decides_about_retries() {
        assert!(Exception::new(class::TABLE_NOT_FOUND, "t").do_not_retry);
        assert!(!Exception::not_serving_region("r").do_not_retry);
        assert!(!Exception::new("some.Other", "r").do_not_retry);
        assert!(Exception::new(class::CALL_QUEUE_TOO_BIG, "").server_overloaded);
    }

    #[test]
    fn region_moved_reads_as_java_takes_it_apart() {
        let moved = Exception::region_moved("h", 16020, 17, 5);
        assert_eq!(
            moved.message,
            "Region moved to: hostname=h port=16020 startCode=17. As of locationSeqNum=5."
        );
        assert_eq!(moved.moved_to, Some(("h".to_owned(), 16020)));
        assert!(
            moved.text().starts_with("org.apache.hadoop.hbase.exceptions.RegionMovedException: Region moved")
        );
    }
}
