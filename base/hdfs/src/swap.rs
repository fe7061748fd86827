//! Swaps of small objects: the new content is written to a second file, which the [owner](crate::owner) renames over
//! the old one.
//!
//! A process runs one swap at a time, so no other thread replaces the object between the comparison and the rename.
//! Another process can do so only after it has taken the folder, and then the rename fails. If the answer to a rename
//! is lost, the rename may take place late. So the second file is remembered, and is deleted before the object is
//! swapped again. Without a source the rename fails.

use bytes::Bytes;
use hdfs_native::HdfsError;
use storage::{Error, FileName, Kind, Outcome, Result, Settled, Version};

use crate::Hdfs;
use crate::failure::{is_missing, is_refusal, is_sealed, of_hdfs};

/// Maximum number of times that an object is read again because it was replaced meanwhile.
const READINGS_MAX: usize = 3;

impl Hdfs {
    /// Returns the content of a small object. Fails with [`Kind::NotFound`] if there is no such object, and with
    /// [`Kind::TooLarge`] if it has more than `bytes_max` bytes.
    pub(crate) async fn content(&self, name: &FileName, bytes_max: usize) -> Result<Vec<u8>> {
        let path = self.path(name);
        let failed = |error: &HdfsError| of_hdfs(error, Outcome::DidNotHappen, name, "read");
        let mut readings = 0;
        loop {
            let reader = self.0.client.read(&path).await.map_err(|error| failed(&error))?;
            let length = reader.file_length();
            if length > bytes_max {
                return Err(Error::new(Kind::TooLarge, Outcome::DidNotHappen, name, "read")
                    .because(format!("{length} bytes, at most {bytes_max} expected")));
            }
            readings += 1;
            match reader.read_range(0, length).await {
                Ok(content) => return Ok(content.to_vec()),
                Err(error) if readings == READINGS_MAX => return Err(failed(&error)),
                // If another swap has replaced the file meanwhile, its blocks are deleted soon, and reading them fails.
                // The new file is read then.
                Err(_) => {}
            }
        }
    }

    async fn current(&self, name: &FileName) -> Result<Option<Vec<u8>>> {
        match self.content(name, usize::MAX).await {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn swap_object(
        &self,
        name: &FileName,
        expected: Option<&Version>,
        new: &[u8],
    ) -> Result<Version> {
        let mut unsettled = self.0.swapping.lock();
        let (hdfs, file, aside) = (self.clone(), name.clone(), self.own(name, "swap")?.next_name());
        let (before, content) = (expected.cloned(), Bytes::copy_from_slice(new));
        let (late, second) = (unsettled.get(name).cloned(), aside.clone());
        let swapped = self.wait(name, "swap", async move {
            if let Some(late) = &late {
                hdfs.forget(&file, late).await?;
            }
            if hdfs.current(&file).await?.as_deref() != before.as_ref().map(Version::as_bytes) {
                return Err(Error::new(Kind::Conflict, Outcome::DidNotHappen, &file, "swap"));
            }
            hdfs.write_aside(&file, &second, content).await?;
            hdfs.rename_over(&file, &second, before.is_some()).await
        });
        match swapped.and_then(|swapped| swapped) {
            Err(error) => {
                if error.outcome() == Outcome::MayHaveHappened {
                    unsettled.insert(name.clone(), aside);
                }
                Err(error)
            }
            Ok(()) => {
                unsettled.remove(name);
                Ok(Version::new(new))
            }
        }
    }

    /// Writes the second file of a swap, and makes it durable.
    async fn write_aside(&self, name: &FileName, aside: &str, content: Bytes) -> Result<()> {
        let options = self.write_options().create_parent(false);
        let written = async {
            let mut writer = self.0.client.create(aside, options).await?;
            writer.write_bytes(content).await?;
            writer.hsync().await?;
            writer.close().await
        };
        let Err(error) = written.await else { return Ok(()) };
        if (is_missing(&error) || is_sealed(&error)) && !self.is_owned().await.unwrap_or(true) {
            return Err(self.fenced(name, "swap").await);
        }
        // If the second file remains, nobody reads it, and it is deleted with the owner's folder.
        let _left = self.0.client.delete(aside, false).await;
        Err(of_hdfs(&error, Outcome::DidNotHappen, name, "swap"))
    }

    async fn rename_over(&self, name: &FileName, aside: &str, replaces: bool) -> Result<()> {
        let path = self.path(name);
        let folder = name.parent().map(|folder| self.path(&folder));
        loop {
            let error = match self.0.client.rename(aside, &path, replaces).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let failed = |outcome| of_hdfs(&error, outcome, name, "swap");
            if is_missing(&error) {
                let there = self.is_owned().await;
                if !there.map_err(|_| failed(Outcome::DidNotHappen))? {
                    return Err(self.fenced(name, "swap").await);
                }
                // The object's folder is missing, or was removed as empty meanwhile.
                if let Some(folder) = &folder {
                    let made = self.0.client.mkdirs(folder, 0o755, true).await;
                    made.map_err(|error| of_hdfs(&error, Outcome::DidNotHappen, name, "swap"))?;
                    continue;
                }
            }
            if !is_refusal(&error) {
                return Err(failed(Outcome::MayHaveHappened));
            }
            let _left = self.0.client.delete(aside, false).await;
            return match error {
                HdfsError::AlreadyExists(_) => {
                    Err(Error::new(Kind::Conflict, Outcome::DidNotHappen, name, "swap"))
                }
                _ => Err(failed(Outcome::DidNotHappen)),
            };
        }
    }

    /// Deletes the second file of a swap that may have happened: from then on the swap cannot take place any more.
    async fn forget(&self, name: &FileName, aside: &str) -> Result<()> {
        match self.0.client.delete(aside, false).await {
            Err(error) if !is_missing(&error) => Err(of_hdfs(&error, Outcome::DidNotHappen, name, "settle")),
            _ => Ok(()),
        }
    }

    pub(crate) fn settle_object(
        &self,
        name: &FileName,
        expected: Option<&Version>,
        new: &[u8],
    ) -> Result<Settled> {
        let mut unsettled = self.0.swapping.lock();
        let marker = self.own(name, "settle")?.next_name();
        let (hdfs, file, late) = (self.clone(), name.clone(), unsettled.get(name).cloned());
        let (before, after) = (expected.cloned(), new.to_vec());
        let settled = self.wait(name, "settle", async move {
            if let Some(late) = &late {
                hdfs.forget(&file, late).await?;
            }
            // The NameNode may show a change that is not yet in its journal. So a folder is created and deleted: once
            // these later changes are answered, every change that is shown is in the journal, too.
            let client = &hdfs.0.client;
            let journaled = match client.mkdirs(&marker, 0o755, false).await {
                Ok(()) => client.delete(&marker, false).await.map(drop),
                Err(error) => Err(error),
            };
            match journaled {
                Ok(()) => {}
                Err(error) if is_missing(&error) => return Err(hdfs.fenced(&file, "settle").await),
                Err(error) => return Err(of_hdfs(&error, Outcome::MayHaveHappened, &file, "settle")),
            }
            let current = hdfs.current(&file).await?;
            Ok(settled(current.as_deref(), before.as_ref(), &after))
        })??;
        unsettled.remove(name);
        Ok(settled)
    }
}

/// Returns the outcome of a swap, by comparing the `current` content with the old and the new one.
fn settled(current: Option<&[u8]>, expected: Option<&Version>, new: &[u8]) -> Settled {
    if current == Some(new) {
        Settled::Happened(Version::new(new))
    } else if current == expected.map(Version::as_bytes) {
        Settled::DidNotHappen
    } else {
        Settled::Replaced
    }
}
