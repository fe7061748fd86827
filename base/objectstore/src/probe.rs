//! Checks that a store keeps the promises on which the safety of data depends, and that its clock and this machine's
//! agree. The check uses objects of its own.

use bytes::Bytes;
use storage::{Error, FileName, Files, Kind, Outcome, Result, Version};

use crate::Bucket;
use crate::swap::{NOT_IMPLEMENTED, Repeat};

impl Bucket {
    /// Checks conditional puts, ranges and listings, and compares the clocks. Fails when the store cannot be reached or
    /// breaks a promise, and at once when it refuses a request for good, because the bucket or the key is wrong. Fails,
    /// too, if this machine's clock differs so much from the store's that the store refuses requests; logs a warning if
    /// the difference is smaller, but large. Fails within seconds if there are [no keys](Bucket::check_keys).
    ///
    /// If a store ignores a condition, two servers could both believe that they have committed. If a listing misses what
    /// was just written, a server could overlook a file list, a link or a snapshot. The check takes about ten requests,
    /// and leaves no objects unless a deletion fails.
    pub fn probe(&self) -> Result<()> {
        self.check_keys()?;
        let folder = FileName::new(format!("bellows.probe.{:016x}", env::World::real().random()));
        let name = folder.join("object");
        // If the store did not answer for that long, the deletion must not wait for it once more.
        let give_up = self.deadline();
        let outcome = self.try_conditions(&folder, &name);
        let removed = match outcome {
            Ok(()) => self.delete(&name),
            Err(_) => self.ending_at(give_up).delete(&name),
        };
        // A wrong clock may be the cause of the other errors.
        self.shared.clock.check().map_err(|why| {
            Error::new(Kind::Failed, Outcome::DidNotHappen, &folder, "probe the store with").because(why)
        })?;
        outcome.and(removed)?;
        self.try_listing(&folder, &[])
    }

    fn try_conditions(&self, folder: &FileName, name: &FileName) -> Result<()> {
        let broken = |what: &str| broken(name, what);
        let first = self.try_swap(name, None, b"first")?;
        match self.try_swap(name, None, b"second") {
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => return broken("it ignores If-None-Match: an object was created twice"),
        }
        let other = Version::new(*b"\"00000000000000000000000000000000\"");
        match self.try_swap(name, Some(&other), b"third") {
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return broken("it ignores If-Match: an object was replaced that was not the expected one");
            }
        }
        self.try_swap(name, Some(&first), b"0123456789")?;
        if self.load(name, 100)?.content != b"0123456789" {
            return broken("it returned an old object after it was replaced");
        }
        self.try_listing(folder, std::slice::from_ref(name))?;
        self.try_range(name, broken)
    }

    /// Like [`swap`](Files::swap), but fails at once if the store says that it will never do this.
    fn try_swap(&self, name: &FileName, expected: Option<&Version>, new: &'static [u8]) -> Result<Version> {
        let (bucket, file, path) = (self.clone(), name.clone(), self.path(name, "swap")?);
        let (expected, new) = (expected.cloned(), Bytes::from_static(new));
        let repeat = Repeat::UnlessPermanent;
        let swapped = self.wait(name, async move {
            bucket.swap_object(&file, &path, expected.as_ref(), new, false, repeat).await
        });
        match swapped {
            Err(error) if error.to_string().contains(NOT_IMPLEMENTED) => broken(
                name,
                &format!("it has no conditional writes (If-None-Match and If-Match of a PUT): {error}"),
            ),
            swapped => swapped,
        }
    }

    fn try_range(&self, name: &FileName, broken: impl Fn(&str) -> Result<()>) -> Result<()> {
        let (bucket, path) = (self.clone(), self.path(name, "read")?);
        let found = self.wait(name, async move {
            let get = || object_store::ObjectStoreExt::get_range(&*bucket.shared.once, &path, 3..7);
            bucket.repeated(bucket.deadline(), get).await
        });
        match found {
            Ok(bytes) if &bytes[..] == b"3456" => Ok(()),
            Ok(_) => broken("it returned other bytes than those of the range that was asked for"),
            Err(error) => broken(&format!("it cannot read a range: {error}")),
        }
    }

    /// Compares a listing of `folder` with the names that it must contain after the writes and deletions before it.
    fn try_listing(&self, folder: &FileName, expected: &[FileName]) -> Result<()> {
        let listed: Vec<FileName> = self.list(folder)?.into_iter().map(|entry| entry.name).collect();
        if listed == expected {
            return Ok(());
        }
        broken(
            folder,
            if expected.is_empty() {
                "its listing shows an object that was deleted before"
            } else {
                "its listing misses an object that was written before"
            },
        )
    }
}

/// Returns the error of a store that breaks a promise; `what` says which one.
fn broken<T>(name: &FileName, what: &str) -> Result<T> {
    Err(Error::new(Kind::Failed, Outcome::DidNotHappen, name, "probe the store with").because(format!(
        "{what}; use a store with conditional writes and listings that are up to date: Amazon S3, Azure Blob storage, MinIO, Ceph or versitygw of 2025 or newer"
    )))
}
