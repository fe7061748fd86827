//! What an error of HDFS means for the caller.

use hdfs_native::HdfsError;
use storage::{Error, FileName, Kind, Outcome};

/// Returns the class of the NameNode's exception, without its package, and its message; `None` for any other error.
fn exception(error: &HdfsError) -> Option<(&str, &str)> {
    match error {
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            Some((class.rsplit('.').next().unwrap_or(class), message))
        }
        _ => None,
    }
}

/// Whether a file, or the folder above it, is not there.
pub(crate) fn is_missing(error: &HdfsError) -> bool {
    matches!(error, HdfsError::FileNotFound(_))
        || exception(error).is_some_and(|(class, _)| class == "FileNotFoundException")
}

/// Whether the error is the NameNode's refusal of the request.
pub(crate) fn is_refusal(error: &HdfsError) -> bool {
    matches!(error, HdfsError::RPCError(..) | HdfsError::FileNotFound(_) | HdfsError::AlreadyExists(_))
}

/// Whether the recovery of a file's lease is under way.
pub(crate) fn is_being_recovered(error: &HdfsError) -> bool {
    exception(error).is_some_and(|(class, _)| class == "RecoveryInProgressException")
}

/// Whether the NameNode refuses changes because it has just started (safe mode).
pub(crate) fn is_safe_mode(error: &HdfsError) -> bool {
    exception(error)
        .is_some_and(|(class, message)| class == "SafeModeException" || message.contains("SafeModeException"))
}

/// Whether another process has ended the file that the caller writes.
pub(crate) fn is_sealed(error: &HdfsError) -> bool {
    exception(error).is_some_and(|(class, message)| {
        class == "LeaseExpiredException" || message.contains("but not UNDER_CONSTRUCTION")
    })
}

/// Classifies an error of HDFS. `outcome` is what is known about the operation if the error itself does not say.
pub(crate) fn of_hdfs(source: &HdfsError, outcome: Outcome, name: &FileName, act: &'static str) -> Error {
    let class = exception(source).map_or("", |(class, _)| class);
    let (kind, outcome) = match source {
        _ if is_missing(source) => (Kind::NotFound, Outcome::DidNotHappen),
        HdfsError::AlreadyExists(_) => (Kind::Exists, Outcome::DidNotHappen),
        _ if class == "AccessControlException" => (Kind::ReadOnly, Outcome::DidNotHappen),
        _ if is_sealed(source) => (Kind::Sealed, outcome),
        _ if class.contains("QuotaExceeded") => (Kind::Full, outcome),
        _ => (Kind::Failed, outcome),
    };
    // A message of Java has a stack trace after its first line.
    let text = source.to_string();
    let first = text.lines().next().unwrap_or_default();
    let remedy = if is_safe_mode(source) { "; wait until the NameNode leaves safe mode" } else { "" };
    Error::new(kind, outcome, name, act).because(format!("{first}{remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_told_apart_by_class() {
        let of = |class: &str, message: &str| {
            let error = HdfsError::RPCError(class.to_owned(), message.to_owned());
            of_hdfs(&error, Outcome::MayHaveHappened, &FileName::new("f"), "write")
        };
        for (class, kind) in [
            ("java.io.FileNotFoundException", Kind::NotFound),
            ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", Kind::Full),
            ("org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", Kind::Sealed),
            ("org.apache.hadoop.security.AccessControlException", Kind::ReadOnly),
            ("java.io.IOException", Kind::Failed),
        ] {
            let error = of(class, "why\n\tat a.b.C.d(C.java:7)");
            assert_eq!(error.kind(), kind, "{class}");
            assert!(!error.to_string().contains("C.java"), "{error}");
        }
        let waits = of("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "no").to_string();
        assert!(waits.contains("leaves safe mode"), "{waits}");
    }
}
