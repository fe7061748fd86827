//! Conditional puts whose lost replies are resolved.
//!
//! | reply | meaning | next |
//! |---|---|---|
//! | 200 | it happened | done |
//! | 412, 409 | refused; after a lost reply perhaps by our own first request | read the object and compare |
//! | 403, 401 | it will not happen | fail |
//! | 5xx, timeout, reset | it may have happened | send the same bytes again |

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions, UpdateVersion};
use std::time::Duration;
use storage::{Error, FileName, Kind, Outcome, Result, Version};

use crate::meter::RequestKind;
use crate::{Bucket, of_store, version_of};

/// The first pause before a repetition; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

impl Bucket {
    /// Writes `new` if the object still has the version `expected`. `is_in_doubt` says that an earlier request with the
    /// same bytes may have happened.
    pub(crate) async fn swap_object(
        &self,
        name: &FileName,
        path: &Path,
        expected: Option<&Version>,
        new: Bytes,
        mut is_in_doubt: bool,
    ) -> Result<Version> {
        let mode = match expected {
            None => PutMode::Create,
            Some(version) => PutMode::Update(UpdateVersion {
                e_tag: Some(String::from_utf8_lossy(version.as_bytes()).into_owned()),
                version: None,
            }),
        };
        let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
        loop {
            self.0.meter.requested(name, RequestKind::Put, new.len());
            let options = PutOptions { mode: mode.clone(), ..PutOptions::default() };
            let error = match self.0.once.put_opts(path, new.clone().into(), options).await {
                Ok(put) => return version_of(put.e_tag, name),
                Err(error) => error,
            };
            use object_store::Error as Store;
            match &error {
                Store::AlreadyExists { .. } | Store::Precondition { .. } | Store::NotFound { .. } => {
                    match self.get(name, path, usize::MAX).await {
                        Ok(found) if is_in_doubt && found.content == new => return Ok(found.version),
                        // Refused although nothing has changed: the store had not settled another request.
                        Ok(found) if Some(&found.version) == expected => {}
                        Ok(_) => return Err(conflict(name, is_in_doubt)),
                        Err(error) if error.kind() == Kind::NotFound => match expected {
                            None => {}
                            Some(_) => return Err(conflict(name, is_in_doubt)),
                        },
                        Err(_) => is_in_doubt = true,
                    }
                }
                Store::PermissionDenied { .. } | Store::Unauthenticated { .. } if !is_in_doubt => {
                    return Err(of_store(&error, Outcome::DidNotHappen, name, "swap"));
                }
                _ => is_in_doubt = true,
            }
            if waited >= self.0.options.settle_time {
                let outcome = if is_in_doubt { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
                return Err(Error::new(Kind::Failed, outcome, name, "swap").because(error.to_string()));
            }
            env::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

fn conflict(name: &FileName, is_in_doubt: bool) -> Error {
    let outcome = if is_in_doubt { Outcome::MayHaveHappened } else { Outcome::DidNotHappen };
    Error::new(Kind::Conflict, outcome, name, "swap")
}
