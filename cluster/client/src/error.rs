//! Errors of the client, and how each is retried.

use std::time::Duration;

use proto::TableName;
use rpc::client::Happened;
use rpc::{Exception, class};

/// Why an operation of the client failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A server answered with an exception.
    #[error("{0}")]
    Remote(Exception),
    /// A call failed on its connection.
    #[error(transparent)]
    Call(rpc::client::Error),
    /// The cluster could not be located.
    #[error("the cluster is not found: {0}")]
    Registry(String),
    /// hbase:meta has no region for the table.
    #[error("table {0} is not found")]
    TableNotFound(TableName),
    /// The table is disabled.
    #[error("table {0} is disabled")]
    TableNotEnabled(TableName),
    /// No server serves the region at present.
    #[error("region {0} is on no server")]
    RegionOffline(String),
    /// A name or value is not valid.
    #[error("{0}")]
    Invalid(String),
    /// An answer could not be decoded.
    #[error("unreadable answer to {method}: {reason}")]
    Unreadable {
        /// The operation that was requested.
        method: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
    /// All attempts, or the whole time of the operation, are used up; or the last error is final, but an earlier attempt
    /// may have been applied.
    #[error("given up after {tries} tries in {elapsed:?}: {last}")]
    GivenUp {
        /// Number of attempts.
        tries: u32,
        /// The time that the attempts took.
        elapsed: Duration,
        /// The error of the last attempt.
        last: Box<Error>,
    },
    /// Some actions of a batch failed.
    #[error("{} of {total} actions failed, the first of them, number {}: {}", failed.len(), failed[0].0, failed[0].1)]
    Batch {
        /// Number of actions in the batch.
        total: usize,
        /// The index of each failed action, and its error.
        failed: Vec<(usize, Error)>,
    },
    /// A procedure of the master failed.
    #[error("procedure {id} failed: {exception}")]
    Procedure {
        /// The id of the procedure.
        id: u64,
        /// The procedure's exception.
        exception: Exception,
    },
}

/// How long to wait before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// No pause.
    None,
    /// A pause that grows with each attempt.
    Backoff,
    /// A growing pause in units of [`Options::pause_overloaded`].
    Overloaded,
    /// The pause that the server stated.
    Exactly(Duration),
}

/// How the caller should react to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The caller gives up: the error is final.
    GiveUp,
    /// The caller retries on the same server.
    Wait(Pause),
    /// The caller looks the region up again, then retries.
    Relocate(Pause),
    /// The caller removes every location on that server from its cache, then retries.
    ForgetServer(Pause),
}

impl From<rpc::client::Error> for Error {
    fn from(error: rpc::client::Error) -> Error {
        match error {
            rpc::client::Error::Remote(exception) => Error::Remote(exception),
            error => Error::Call(error),
        }
    }
}

impl From<proto::Error> for Error {
    fn from(error: proto::Error) -> Error {
        Error::Invalid(error.to_string())
    }
}

impl Error {
    /// Decides how an error is retried; no other code does. The exception classes and the reactions to them are those
    /// of HBase's client.
    pub fn advice(&self) -> Advice {
        match self {
            Error::Remote(exception) => advice_of(exception),
            Error::Call(error) => match error {
                rpc::client::Error::NotSent { .. } => Advice::Wait(Pause::Backoff),
                rpc::client::Error::TimedOut { .. } => Advice::Relocate(Pause::Backoff),
                _ => Advice::ForgetServer(Pause::Backoff),
            },
            Error::Registry(_) | Error::RegionOffline(_) => Advice::Relocate(Pause::Backoff),
            Error::TableNotFound(_)
            | Error::TableNotEnabled(_)
            | Error::Invalid(_)
            | Error::Unreadable { .. }
            | Error::GivenUp { .. }
            | Error::Batch { .. }
            | Error::Procedure { .. } => Advice::GiveUp,
        }
    }

    /// Returns the Java class of the exception that caused this error; `None` for other errors.
    pub fn class(&self) -> Option<&str> {
        match self {
            Error::Remote(exception) | Error::Procedure { exception, .. } => Some(&exception.class),
            Error::GivenUp { last, .. } => last.class(),
            Error::TableNotFound(_) => Some(class::TABLE_NOT_FOUND),
            Error::TableNotEnabled(_) => Some(class::TABLE_NOT_ENABLED),
            _ => None,
        }
    }

    /// Whether an operation on a disabled table fails with this error, among others.
    pub(crate) fn may_mean_disabled(&self) -> bool {
        match self {
            Error::Remote(exception) => {
                matches!(&*exception.class, class::NOT_SERVING_REGION | class::REGION_OFFLINE)
            }
            Error::RegionOffline(_) => true,
            _ => false,
        }
    }

    /// Whether the operation may have been applied despite the error.
    pub fn happened(&self) -> Happened {
        match self {
            Error::Call(error) => error.happened(),
            Error::Remote(exception) => happened_of(exception),
            // An earlier attempt may have been applied, although the last one was not.
            Error::GivenUp { .. }
            | Error::Batch { .. }
            | Error::Unreadable { .. }
            | Error::Procedure { .. } => Happened::Maybe,
            Error::Registry(_)
            | Error::TableNotFound(_)
            | Error::TableNotEnabled(_)
            | Error::RegionOffline(_)
            | Error::Invalid(_) => Happened::No,
        }
    }
}

/// Whether a call that a server answered with this exception may have been applied. A class counts as [`Happened::No`]
/// only if servers throw it before they change anything. Others are thrown during a change, too: an `IOException` when
/// the sync of the log fails or times out, a `RegionServerAbortedException` when the server fails or another one takes
/// over its log before the change is durable.
fn happened_of(exception: &Exception) -> Happened {
    match &*exception.class {
        class::NOT_SERVING_REGION
        | class::REGION_MOVED
        | class::REGION_OPENING
        | class::REGION_OFFLINE
        | class::UNKNOWN_REGION
        | class::WRONG_REGION
        | class::REGION_TOO_BUSY
        | class::CALL_QUEUE_TOO_BIG
        | class::CALL_DROPPED
        | class::RETRY_IMMEDIATELY
        | class::MULTI_ACTION_RESULT_TOO_LARGE
        | class::RPC_THROTTLING
        | class::REQUEST_TOO_BIG
        | class::PLEASE_HOLD
        | class::SERVER_NOT_RUNNING_YET
        | class::MASTER_NOT_RUNNING
        | class::NO_SUCH_COLUMN_FAMILY
        | class::TABLE_NOT_FOUND
        | class::TABLE_EXISTS
        | class::TABLE_NOT_ENABLED
        | class::TABLE_NOT_DISABLED
        | class::NAMESPACE_EXISTS
        | class::NAMESPACE_NOT_FOUND
        | class::INVALID_FAMILY_OPERATION
        | class::ACCESS_DENIED
        | class::FAILED_SANITY_CHECK
        | class::UNKNOWN_PROTOCOL
        | class::UNSUPPORTED_OPERATION
        | class::DO_NOT_RETRY_IO => Happened::No,
        _ => Happened::Maybe,
    }
}

fn advice_of(exception: &Exception) -> Advice {
    match &*exception.class {
        class::NOT_SERVING_REGION | class::REGION_MOVED | class::REGION_OFFLINE | class::WRONG_REGION => {
            Advice::Relocate(Pause::Backoff)
        }
        class::REGION_OPENING | class::REGION_TOO_BUSY => Advice::Wait(Pause::Backoff),
        class::CALL_QUEUE_TOO_BIG | class::CALL_DROPPED => Advice::Wait(Pause::Overloaded),
        class::RETRY_IMMEDIATELY | class::MULTI_ACTION_RESULT_TOO_LARGE => Advice::Wait(Pause::None),
        class::RPC_THROTTLING => {
            Advice::Wait(throttled(&exception.message).map_or(Pause::Backoff, Pause::Exactly))
        }
        // The server has lost a scanner. The scans of callers open another one; here it is that of a lookup, which is
        // repeated as a whole.
        class::UNKNOWN_SCANNER | class::SCANNER_RESET | class::OUT_OF_ORDER_SCANNER_NEXT | class::LEASE => {
            Advice::Relocate(Pause::Backoff)
        }
        // The server is no longer the active master, or has not become it yet.
        class::MASTER_STOPPED
        | class::MASTER_NOT_RUNNING
        | class::PLEASE_HOLD
        | class::SERVER_NOT_RUNNING_YET => Advice::Relocate(Pause::Backoff),
        class::REGION_SERVER_STOPPED | class::REGION_SERVER_ABORTED => Advice::ForgetServer(Pause::Backoff),
        _ if exception.do_not_retry => Advice::GiveUp,
        _ if exception.server_overloaded => Advice::Wait(Pause::Overloaded),
        _ => Advice::Relocate(Pause::Backoff),
    }
}

/// Parses the wait in the text of a throttling exception: `… - wait 1mins, 2sec, 3ms`. Returns `None` for other text.
fn throttled(message: &str) -> Option<Duration> {
    let (_, text) = message.split_once("wait ")?;
    let text = text.split_once('\n').map_or(text, |(line, _)| line);
    let mut total = Duration::ZERO;
    for part in text.split(',').map(str::trim) {
        let digits = part.find(|character: char| !character.is_ascii_digit())?;
        let number: u64 = part[..digits].parse().ok()?;
        total += match part[digits..].trim() {
            "ms" => Duration::from_millis(number),
            "sec" => Duration::from_secs(number),
            "mins" => Duration::from_secs(number.checked_mul(60)?),
            "hrs" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_treatment_that_hbase_gives_them() {
        let advice = |class: &'static str| Error::Remote(Exception::new(class, "m")).advice();
        assert_eq!(advice(class::NOT_SERVING_REGION), Advice::Relocate(Pause::Backoff));
        assert_eq!(advice(class::REGION_TOO_BUSY), Advice::Wait(Pause::Backoff));
        assert_eq!(advice(class::CALL_QUEUE_TOO_BIG), Advice::Wait(Pause::Overloaded));
        assert_eq!(advice(class::RETRY_IMMEDIATELY), Advice::Wait(Pause::None));
        assert_eq!(advice(class::REGION_SERVER_STOPPED), Advice::ForgetServer(Pause::Backoff));
        assert_eq!(advice(class::NO_SUCH_COLUMN_FAMILY), Advice::GiveUp);
        assert_eq!(advice(class::MASTER_STOPPED), Advice::Relocate(Pause::Backoff), "although it says never");
        assert_eq!(advice("some.Other"), Advice::Relocate(Pause::Backoff));
    }

    #[test]
    fn a_refusal_did_not_happen_and_a_failure_may_have() {
        let happened = |class: &'static str| Error::Remote(Exception::new(class, "m")).happened();
        for refusal in [class::NOT_SERVING_REGION, class::REGION_TOO_BUSY, class::DO_NOT_RETRY_IO] {
            assert_eq!(happened(refusal), Happened::No, "{refusal}");
        }
        for failure in [
            class::IO,
            class::REGION_SERVER_ABORTED,
            class::REGION_SERVER_STOPPED,
            class::PROCEDURE_ABORTED,
            "org.apache.hadoop.hbase.ipc.CallTimeoutException",
            "org.apache.hadoop.hbase.exceptions.TimeoutIOException",
        ] {
            assert_eq!(happened(failure), Happened::Maybe, "{failure}");
        }
    }

    #[test]
    fn a_throttled_client_waits_as_long_as_it_is_told() {
        let told = |text| Error::Remote(Exception::new(class::RPC_THROTTLING, text)).advice();
        assert_eq!(
            told("number of requests exceeded - wait 1mins, 2sec, 3ms"),
            Advice::Wait(Pause::Exactly(Duration::from_millis(62_003)))
        );
        assert_eq!(
            told("write size limit exceeded - wait 500ms"),
            Advice::Wait(Pause::Exactly(Duration::from_millis(500)))
        );
        assert_eq!(told("wait a bit"), Advice::Wait(Pause::Backoff));
    }
}
