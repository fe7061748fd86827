//! Errors of a master's start. Clients get an [`rpc::Exception`] instead.

use storage::FileName;

/// Why the master could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Storage failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// A file of the root directory is damaged.
    #[error("{name} cannot be read: {cause}")]
    Damaged {
        /// The name of the damaged file.
        name: FileName,
        /// What is wrong with the file.
        cause: Box<proto::Error>,
    },
    /// A later owner of the root directory has written an object of which it is the only writer.
    #[error(
        "another server has taken over the root directory: it has written {name}, and {cause}; this server must not start"
    )]
    OfLaterOwner {
        /// The name of the object.
        name: FileName,
        /// Why this process is not the owner, or why that cannot be found out.
        cause: String,
    },
    /// The root directory was written by a release of HBase or Bellows that this one does not know.
    #[error(
        "{name} says layout version {found}, this release reads 8: start the release that wrote it, or another root"
    )]
    Version {
        /// The file with the version.
        name: FileName,
        /// The version that the file states.
        found: String,
    },
    /// A row of hbase:meta cannot be read.
    #[error("row {row} of {table} cannot be read: {cause}")]
    Catalog {
        /// The name of the catalog table.
        table: &'static str,
        /// The key of the row, in printable form.
        row: String,
        /// What is wrong with the row.
        cause: Box<proto::Error>,
    },
    /// A table has regions in hbase:meta and no descriptor on disk.
    #[error(
        "table {table} is in hbase:meta and has no .tableinfo in {folder}: restore that file or remove the table's rows"
    )]
    NoDescriptor {
        /// The name of the table.
        table: String,
        /// The folder in which the table's descriptor should be.
        folder: FileName,
    },
    /// hbase:namespace exists and cannot be used.
    #[error(
        "table hbase:namespace exists and cannot be opened: {cause}; remove the cause, for instance by restoring the named \
         file from a backup, and start again: all namespaces are still in the table's files"
    )]
    Namespaces {
        /// Why the table cannot be opened.
        cause: String,
    },
    /// A region server refused an order without which the master cannot start.
    #[error("{act}: {cause}")]
    Region {
        /// The order that was refused.
        act: String,
        /// Why the server refused the order.
        cause: Box<rpc::Exception>,
    },
    /// A setting is out of its range.
    #[error("{key} is {value}, expected at least 1")]
    Option {
        /// The key of the setting.
        key: &'static str,
        /// The value of the setting.
        value: usize,
    },
}

/// Returns the exception for a failure of storage: HBase's class for it, which clients retry.
pub(crate) fn of_storage(error: storage::Error) -> rpc::Exception {
    rpc::Exception::io(error.to_string())
}

/// Returns the exception for a name or schema that is not valid.
pub(crate) fn of_proto(error: proto::Error) -> rpc::Exception {
    match error {
        // HBase wraps Java's IllegalArgumentException in an exception that clients do not retry.
        proto::Error::IllegalArgument(words) => {
            rpc::Exception::do_not_retry(format!("{}: {words}", rpc::class::ILLEGAL_ARGUMENT))
        }
        other => rpc::Exception::do_not_retry(other.to_string()),
    }
}

/// Whether the exception is an unchecked one of Java. In HBase an unchecked exception fails the procedure, and a call
/// that waits for the procedure is answered with the procedure's id. Then the client asks for the outcome, and does not
/// retry.
pub(crate) fn is_unchecked(exception: &rpc::Exception) -> bool {
    exception.class.starts_with("java.lang.")
}
