//! Whether a store keeps the promises that data rests on, tried with an object of the probe's own.

use storage::{Error, FileName, Files, Kind, Outcome, Result, Version};

use crate::Bucket;

impl Bucket {
    /// Tries conditional puts and ranges. Fails when the store cannot be reached, or ignores a condition: two servers could then
    /// both believe that they have committed. Takes about eight requests, and leaves nothing.
    pub fn probe(&self) -> Result<()> {
        let name = FileName::new(format!("bellows.probe.{:016x}", env::World::real().random()));
        let outcome = self.try_conditions(&name);
        let removed = self.delete(&name);
        outcome.and(removed)
    }

    fn try_conditions(&self, name: &FileName) -> Result<()> {
        let broken = |what: &str| {
            Err(Error::new(Kind::Failed, Outcome::DidNotHappen, name, "probe the store with").because(format!(
                "{what}; use a store with conditional writes: Amazon S3, MinIO, Ceph or versitygw of 2025 or newer"
            )))
        };
        let first = self.swap(name, None, b"first")?;
        match self.swap(name, None, b"second") {
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => return broken("it ignores If-None-Match: an object was created twice"),
        }
        match self.swap(name, Some(&Version::new(*b"\"00000000000000000000000000000000\"")), b"third") {
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
            Ok(_) => {
                return broken("it ignores If-Match: an object was replaced that was not the expected one");
            }
        }
        self.swap(name, Some(&first), b"0123456789")?;
        if self.load(name, 100)?.content != b"0123456789" {
            return broken("it returned an old object after it was replaced");
        }
        self.try_range(name, broken)
    }

    fn try_range(&self, name: &FileName, broken: impl Fn(&str) -> Result<()>) -> Result<()> {
        let (bucket, path) = (self.clone(), self.path(name, "read")?);
        let found = self
            .wait(async move { object_store::ObjectStoreExt::get_range(&bucket.0.store, &path, 3..7).await });
        match found {
            Ok(bytes) if &bytes[..] == b"3456" => Ok(()),
            Ok(_) => broken("it returned other bytes than those of the range that was asked for"),
            Err(error) => broken(&format!("it cannot read a range: {error}")),
        }
    }
}
