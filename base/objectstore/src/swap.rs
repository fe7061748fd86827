//! Conditional puts whose lost replies are resolved.
//!
//! | reply | meaning | next |
//! |---|---|---|
//! | 200 | it happened | done |
//! | 412, 409 | refused; perhaps because the store had our own request already | read the object and compare |
//! | 403, 401 | it will not happen | fail |
//! | 5xx, timeout, reset | it may have happened | send the same bytes again |
//!
//! The store may have had a request although no reply was lost: a proxy or the network may deliver a request twice, and
//! the reply to the second delivery may come first. So the object is compared after every refusal. A swap compares the
//! bytes. A file also has a random number in its metadata, because another writer's file may have the same bytes.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attribute, Attributes, ObjectStore, PutMode, PutOptions, UpdateVersion};
use std::borrow::Cow;
use std::time::Duration;
use storage::{Error, FileName, Kind, Outcome, Result, Version};

use crate::meter::RequestKind;
use crate::{Bucket, of_store, version_of};

/// The first pause before a repetition; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The metadata of a file's object that has the random number of its writer, as 16 hexadecimal digits.
pub(crate) const NONCE: Attribute = Attribute::Metadata(Cow::Borrowed("bellows-nonce"));

impl Bucket {
    /// Writes `new` if the object still has the version `expected`, or, with `None`, if there is no object. Returns the
    /// new version. Succeeds also if the store refuses that and the object has the bytes `new`. `is_in_doubt` says that an
    /// earlier request with the same bytes may have happened.
    pub(crate) async fn swap_object(
        &self,
        name: &FileName,
        path: &Path,
        expected: Option<&Version>,
        new: Bytes,
        is_in_doubt: bool,
    ) -> Result<Version> {
        self.put_object(name, path, expected, new, is_in_doubt, None).await
    }

    /// Creates the object of a file. If the store refuses that, and no reply was lost, succeeds only if the object has
    /// the random number `nonce` of this writer.
    pub(crate) async fn create_object(
        &self,
        name: &FileName,
        path: &Path,
        content: Bytes,
        nonce: u64,
    ) -> Result<Version> {
        self.put_object(name, path, None, content, false, Some(format!("{nonce:016x}"))).await
    }

    async fn put_object(
        &self,
        name: &FileName,
        path: &Path,
        expected: Option<&Version>,
        new: Bytes,
        mut is_in_doubt: bool,
        nonce: Option<String>,
    ) -> Result<Version> {
        let mode = match expected {
            None => PutMode::Create,
            Some(version) => PutMode::Update(UpdateVersion {
                e_tag: Some(String::from_utf8_lossy(version.as_bytes()).into_owned()),
                version: None,
            }),
        };
        let mut attributes = Attributes::new();
        if let Some(nonce) = &nonce {
            attributes.insert(NONCE, nonce.clone().into());
        }
        let (mut waited, mut pause) = (Duration::ZERO, PAUSE_MIN);
        loop {
            self.0.meter.requested(name, RequestKind::Put, new.len());
            let options =
                PutOptions { mode: mode.clone(), attributes: attributes.clone(), ..PutOptions::default() };
            let error = match self.0.once.put_opts(path, new.clone().into(), options).await {
                Ok(put) => return version_of(put.e_tag, name),
                Err(error) => error,
            };
            use object_store::Error as Store;
            match &error {
                Store::AlreadyExists { .. } | Store::Precondition { .. } | Store::NotFound { .. } => {
                    match self.get(name, path, usize::MAX).await {
                        Ok((found, marked))
                            if found.content == new
                                && (is_in_doubt || nonce.is_none() || marked == nonce) =>
                        {
                            return Ok(found.version);
                        }
                        // Refused although nothing has changed: the store had not settled another request.
                        Ok((found, _)) if Some(&found.version) == expected => {}
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
