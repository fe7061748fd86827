//! Repeats requests that change nothing, and deletions.
//!
//! The monotonic clock limits how long a call repeats its requests, because a request that hangs counts, too. All these
//! requests use the client that repeats nothing by itself; otherwise two limits would add up, and one of them would not
//! know the time of the last request.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use env::Moment;
use object_store::client::HttpError;

use crate::{Bucket, is_of_intermediary, with_causes};

/// The first pause before a repetition; it doubles up to [`PAUSE_MAX`].
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(20);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Before the status of a reply, in the library's message.
pub(crate) const STATUS: &str = "status code: ";

impl Bucket {
    /// Returns when a call that begins now sends its last request.
    pub(crate) fn deadline(&self) -> Moment {
        self.deadline.unwrap_or_else(|| self.shared.world.moment().plus(self.shared.options.settle_time))
    }

    /// Returns the time until `deadline`; zero if that is over.
    pub(crate) fn time_left(&self, deadline: Moment) -> Duration {
        deadline.since(self.shared.world.moment())
    }

    /// Waits for `request` until `deadline`. Returns `None` if it has not ended then; it is cancelled, but the store may
    /// have received it. After the deadline it is not begun.
    pub(crate) async fn until<T>(&self, deadline: Moment, request: impl Future<Output = T>) -> Option<T> {
        match self.time_left(deadline) {
            Duration::ZERO => None,
            left => env::timeout(left, request).await,
        }
    }

    /// Sends a request that does no harm if it is sent again, and repeats it while it fails in a way that may pass. Ends
    /// at `deadline`, also if the last request hangs, and returns the last error of the store. Returns every other error
    /// at once, unless the keys of the bucket have changed since the request was signed.
    pub(crate) async fn repeated<T, F>(
        &self,
        deadline: Moment,
        mut request: impl FnMut() -> F,
    ) -> object_store::Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let (mut pause, mut last) = (PAUSE_MIN, None);
        loop {
            let key_changes = self.key_changes();
            let Some(reply) = self.until(deadline, request()).await else { return Err(no_reply(last)) };
            let error = match reply {
                Err(error) if self.has_new_keys(key_changes, &error) => {
                    last = Some(error);
                    continue;
                }
                Err(error) if is_transient(&error) => error,
                reply => return reply,
            };
            if pause >= self.time_left(deadline) {
                return Err(error);
            }
            if pause >= PAUSE_MAX {
                let error = with_causes(&error);
                tracing::warn!(error, "the object store does not answer a request; it is sent again");
            }
            last = Some(error);
            env::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Returns the error of a request without a reply: the store's last error, if there is one.
pub(crate) fn no_reply(last: Option<object_store::Error>) -> object_store::Error {
    last.unwrap_or_else(|| object_store::Error::Generic {
        store: "object store",
        source: "the store did not reply within bellows.s3.settle.time".into(),
    })
}

/// Returns whether the same request may succeed later: the store could not be reached, the connection broke within the
/// reply, no reply came in time, the store is overloaded or has an error of its own, or a proxy has no route to the store.
pub(crate) fn is_transient(error: &object_store::Error) -> bool {
    /// Before the status of one deletion of several in a request to Azure.
    const STATUS_IN_BATCH: &str = "(code: ";
    if !matches!(error, object_store::Error::Generic { .. }) {
        return is_of_intermediary(error);
    }
    let mut cause = error.source();
    while let Some(this) = cause {
        if this.is::<HttpError>() {
            return true;
        }
        cause = this.source();
    }
    let text = error.to_string();
    match text.split_once(STATUS).or_else(|| text.split_once(STATUS_IN_BATCH)) {
        Some((_, status)) => ["5", "408", "429"].iter().any(|begin| status.starts_with(begin)),
        // Some requests report an error after the status 200.
        None => text.contains("Server returned error response"),
    }
}
