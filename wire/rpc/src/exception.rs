//! Exceptions: what a client is told when a call fails.
//!
//! A Java client makes an object of the named class from the text, and decides by the class whether to try again, look
//! the region up again or give up. The text begins with the class, as a Java stack trace would:
//! `org.apache.hadoop.hbase.NotServingRegionException: <message>`.

use std::borrow::Cow;

/// Full names of the classes that clients know, as they travel.
pub mod class {
    macro_rules! classes {
        ($($(#[$doc:meta])* $name:ident = $path:literal $retry:ident;)*) => {
            $($(#[$doc])* pub const $name: &str = $path;)*

            /// Every class here, and whether it tells the client not to try again.
            pub(super) const ALL: &[(&str, bool)] = &[$(($path, $retry)),*];
        };
    }

    // The flag behind the name: does the class descend from DoNotRetryIOException?
    classes! {
        /// Something failed that may work the next time.
        IO = "java.io.IOException" false;
        /// The base of all that shall not be tried again.
        DO_NOT_RETRY_IO = "org.apache.hadoop.hbase.DoNotRetryIOException" true;
        /// The region is not (or no longer) here: look it up again.
        NOT_SERVING_REGION = "org.apache.hadoop.hbase.NotServingRegionException" false;
        /// The region went to a known server.
        REGION_MOVED = "org.apache.hadoop.hbase.exceptions.RegionMovedException" false;
        /// The region opens here: wait.
        REGION_OPENING = "org.apache.hadoop.hbase.exceptions.RegionOpeningException" false;
        /// The region takes no more for the moment: wait.
        REGION_TOO_BUSY = "org.apache.hadoop.hbase.RegionTooBusyException" false;
        /// A row that does not lie in the region.
        WRONG_REGION = "org.apache.hadoop.hbase.regionserver.WrongRegionException" false;
        /// Too many calls wait in this server.
        CALL_QUEUE_TOO_BIG = "org.apache.hadoop.hbase.CallQueueTooBigException" false;
        /// The call was thrown away because it waited too long.
        CALL_DROPPED = "org.apache.hadoop.hbase.CallDroppedException" false;
        /// Try the rest of a batch at once.
        RETRY_IMMEDIATELY = "org.apache.hadoop.hbase.RetryImmediatelyException" false;
        /// The answers of a batch grew too big; try the rest at once.
        MULTI_ACTION_RESULT_TOO_LARGE = "org.apache.hadoop.hbase.MultiActionResultTooLarge" false;
        /// A quota; the text says how long to wait.
        RPC_THROTTLING = "org.apache.hadoop.hbase.quotas.RpcThrottlingException" false;
        /// The frame is longer than the server takes.
        REQUEST_TOO_BIG = "org.apache.hadoop.hbase.exceptions.RequestTooBigException" true;
        /// The master is not ready.
        PLEASE_HOLD = "org.apache.hadoop.hbase.PleaseHoldException" false;
        /// The server is not ready.
        SERVER_NOT_RUNNING_YET = "org.apache.hadoop.hbase.ipc.ServerNotRunningYetException" false;
        /// This is not the active master.
        MASTER_NOT_RUNNING = "org.apache.hadoop.hbase.MasterNotRunningException" false;
        /// The master goes down.
        MASTER_STOPPED = "org.apache.hadoop.hbase.exceptions.MasterStoppedException" true;
        /// The region server goes down.
        REGION_SERVER_STOPPED = "org.apache.hadoop.hbase.regionserver.RegionServerStoppedException" false;
        /// The region server dies.
        REGION_SERVER_ABORTED = "org.apache.hadoop.hbase.regionserver.RegionServerAbortedException" false;
        /// No scanner has this id.
        UNKNOWN_SCANNER = "org.apache.hadoop.hbase.UnknownScannerException" true;
        /// The scanner cannot go on where it was: open a new one.
        SCANNER_RESET = "org.apache.hadoop.hbase.exceptions.ScannerResetException" true;
        /// A call of a scanner came twice or was lost.
        OUT_OF_ORDER_SCANNER_NEXT = "org.apache.hadoop.hbase.exceptions.OutOfOrderScannerNextException" true;
        /// A lease that is over.
        LEASE = "org.apache.hadoop.hbase.regionserver.LeaseException" true;
        /// A family that the table does not have.
        NO_SUCH_COLUMN_FAMILY = "org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException" true;
        /// No such table.
        TABLE_NOT_FOUND = "org.apache.hadoop.hbase.TableNotFoundException" true;
        /// The table is there already.
        TABLE_EXISTS = "org.apache.hadoop.hbase.TableExistsException" true;
        /// The table is not enabled.
        TABLE_NOT_ENABLED = "org.apache.hadoop.hbase.TableNotEnabledException" true;
        /// The table is not disabled.
        TABLE_NOT_DISABLED = "org.apache.hadoop.hbase.TableNotDisabledException" true;
        /// The namespace is there already.
        NAMESPACE_EXISTS = "org.apache.hadoop.hbase.NamespaceExistException" true;
        /// No such namespace.
        NAMESPACE_NOT_FOUND = "org.apache.hadoop.hbase.NamespaceNotFoundException" true;
        /// A change of families that cannot be.
        INVALID_FAMILY_OPERATION = "org.apache.hadoop.hbase.InvalidFamilyOperationException" true;
        /// The user may not do that.
        ACCESS_DENIED = "org.apache.hadoop.hbase.security.AccessDeniedException" true;
        /// A request that contradicts a rule for sane data.
        FAILED_SANITY_CHECK = "org.apache.hadoop.hbase.exceptions.FailedSanityCheckException" true;
        /// No such endpoint, or a call that is no longer answered.
        UNKNOWN_PROTOCOL = "org.apache.hadoop.hbase.exceptions.UnknownProtocolException" true;
        /// No such region.
        UNKNOWN_REGION = "org.apache.hadoop.hbase.UnknownRegionException" true;
        /// The region is offline.
        REGION_OFFLINE = "org.apache.hadoop.hbase.client.RegionOfflineException" false;
        /// Regions that cannot be merged.
        MERGE_REGION = "org.apache.hadoop.hbase.exceptions.MergeRegionException" true;
        /// Somebody else changes the table.
        CONCURRENT_TABLE_MODIFICATION = "org.apache.hadoop.hbase.ConcurrentTableModificationException" true;
        /// A rule about namespaces, groups and the like.
        CONSTRAINT = "org.apache.hadoop.hbase.constraint.ConstraintException" true;
        /// A coprocessor failed.
        COPROCESSOR = "org.apache.hadoop.hbase.coprocessor.CoprocessorException" true;
        /// A row that is too big to be read at once.
        ROW_TOO_BIG = "org.apache.hadoop.hbase.client.RowTooBigException" true;
        /// A call that Java would refuse by `IllegalArgumentException`.
        ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException" false;
        /// A feature that is not there.
        UNSUPPORTED_OPERATION = "java.lang.UnsupportedOperationException" false;
        /// The connection ends with this.
        FATAL_CONNECTION = "org.apache.hadoop.hbase.ipc.FatalConnectionException" true;
        /// A preamble of another version.
        WRONG_VERSION = "org.apache.hadoop.hbase.ipc.WrongVersionException" true;
        /// A way to authenticate that is not known.
        BAD_AUTH = "org.apache.hadoop.hbase.ipc.BadAuthException" true;
        /// No such service.
        UNKNOWN_SERVICE = "org.apache.hadoop.hbase.ipc.UnknownServiceException" true;
        /// A connection header without a service.
        EMPTY_SERVICE_NAME = "org.apache.hadoop.hbase.ipc.EmptyServiceNameException" true;
        /// A cell codec that is not known.
        UNSUPPORTED_CELL_CODEC = "org.apache.hadoop.hbase.ipc.UnsupportedCellCodecException" true;
        /// A compressor that is not known.
        UNSUPPORTED_COMPRESSION_CODEC = "org.apache.hadoop.hbase.ipc.UnsupportedCompressionCodecException" true;
        /// An encryption that is not offered.
        UNSUPPORTED_CRYPTO = "org.apache.hadoop.hbase.ipc.UnsupportedCryptoException" true;
        /// The client asks for a principal, and there is none.
        SECURITY_NOT_ENABLED = "org.apache.hadoop.hbase.ipc.SecurityNotEnabledException" true;
    }
}

/// The bad end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The full name of a Java class with a constructor that takes the text.
    pub class: Cow<'static, str>,
    /// What happened, without the class.
    pub message: String,
    /// The client must not try again.
    pub do_not_retry: bool,
    /// The client shall wait longer than usual before it tries again.
    pub server_overloaded: bool,
    /// Where the region went: host and port.
    pub moved_to: Option<(String, u16)>,
}

impl Exception {
    /// An exception of `class`, with the retry meaning that the class has; a class that is not in [`class`] may be
    /// tried again.
    pub fn new(class: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Exception {
        let class = class.into();
        let do_not_retry = class::ALL.iter().any(|(name, never)| *name == class && *never);
        let server_overloaded = class == class::CALL_QUEUE_TOO_BIG || class == class::CALL_DROPPED;
        Exception { class, message: message.into(), do_not_retry, server_overloaded, moved_to: None }
    }

    /// Something failed that may work the next time. gohbase gives such an error to the application, so nothing routine
    /// is told this way.
    pub fn io(message: impl Into<String>) -> Exception {
        Exception::new(class::IO, message)
    }

    /// Something that fails however often it is tried.
    pub fn do_not_retry(message: impl Into<String>) -> Exception {
        Exception::new(class::DO_NOT_RETRY_IO, message)
    }

    /// The region is not here.
    pub fn not_serving_region(message: impl Into<String>) -> Exception {
        Exception::new(class::NOT_SERVING_REGION, message)
    }

    /// The region went elsewhere. The message is one that clients take apart.
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

    /// The region takes no more for the moment.
    pub fn region_too_busy(message: impl Into<String>) -> Exception {
        Exception::new(class::REGION_TOO_BUSY, message)
    }

    /// The server has no such method. Clients look for the name of the Java class in the text to learn that a server is
    /// older than they are, and then take another way.
    pub fn unknown_method(service: &str, method: &str) -> Exception {
        Exception::do_not_retry(format!("{}: {service} has no method {method}", class::UNSUPPORTED_OPERATION))
    }

    /// The text as it travels: class and message, as a Java stack trace begins.
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
