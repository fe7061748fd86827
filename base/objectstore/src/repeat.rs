//! Repeats reads whose reply broke.
//!
//! The library repeats a request whose reply did not begin, and reads the rest of an object's content again. It does not
//! repeat a request if the connection breaks within a listing, or within the reply that reports an error, such as that of
//! an object that does not exist.

use std::error::Error as _;
use std::future::Future;

use env::World;
use object_store::client::{HttpError, HttpErrorKind};

use crate::Bucket;
use crate::swap::{PAUSE_MAX, PAUSE_MIN};

impl Bucket {
    /// Sends a request that changes nothing, and sends it again while the connection breaks within the reply. Sends
    /// nothing again after [`Options::settle_time`](crate::Options::settle_time). Returns every other error at once.
    pub(crate) async fn repeated<T, F>(&self, mut request: impl FnMut() -> F) -> object_store::Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let world = World::real();
        let (began, mut pause) = (world.moment(), PAUSE_MIN);
        loop {
            let error = match request().await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if !is_broken_reply(&error) || world.moment().since(began) >= self.0.options.settle_time {
                return Err(error);
            }
            if pause >= PAUSE_MAX {
                tracing::warn!(%error, "replies of the object store break; the read is sent again");
            }
            env::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Returns whether the connection broke while the request was sent or its reply was received. If the store could not be
/// reached at all, the library has tried often enough.
fn is_broken_reply(error: &object_store::Error) -> bool {
    if !matches!(error, object_store::Error::Generic { .. }) {
        return false;
    }
    let mut cause = error.source();
    while let Some(this) = cause {
        if let Some(error) = this.downcast_ref::<HttpError>() {
            return error.kind() != HttpErrorKind::Connect;
        }
        cause = this.source();
    }
    false
}
