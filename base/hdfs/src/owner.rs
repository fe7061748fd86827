//! The owner of a folder: the one process whose swaps and deletions take effect.
//!
//! HDFS has no conditional replacement of a file. But the NameNode carries out each rename as one atomic act, which
//! fails if the folder of its source or target does not exist. So a swap writes its new content into a folder that
//! belongs to one owner, and renames it from there over the old file. A process that becomes the owner first deletes
//! the folder of the previous owner, with everything in it:
//!
//! ```text
//! bellows.hdfs/00000007.owner   the name of owner 7
//! bellows.hdfs/00000007/        its folder
//! ```
//!
//! 1. The next owner creates the file `00000008.owner`, which fails if another process has created it, and then the
//!    folder.
//! 2. It checks whether a higher number exists by now. If so, it gives up.
//! 3. It deletes the folders and files of all lower numbers.
//!
//! The highest number is never deleted, so no number is given twice. If two processes do this at once, the one with the
//! lower number gives up in step 2, or its folder is deleted in step 3. If an owner was paused and continues after
//! another process became the owner, its folder is missing. So none of its swaps and deletions takes effect. After each
//! sync, and before it reports success, a writer checks whether the owner's folder exists. So everything that it
//! reported as durable was durable before the next process became the owner.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hdfs_native::{Client, HdfsError, WriteOptions};
use storage::{Error, FileName, Kind, Outcome, Result};

use crate::failure::{is_missing, is_safe_mode, is_sealed, of_hdfs};

/// The folder of the owners' files, which no listing shows.
pub(crate) const FOLDER: &str = "bellows.hdfs";
/// The suffix of the owners' files.
const SUFFIX: &str = ".owner";
/// Number of digits in an owner's number.
const DIGITS: usize = 8;
/// Pause before a NameNode in safe mode is asked again.
const SAFE_MODE_PAUSE: Duration = Duration::from_millis(500);

/// The folder of this owner.
pub(crate) struct Ownership {
    folder: String,
    names: AtomicU64,
}

impl Ownership {
    /// Returns the owner's folder, which exists as long as this process is the owner.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// Returns the path of a new file in the owner's folder.
    pub(crate) fn next_name(&self) -> String {
        format!("{}/{}", self.folder, self.names.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns the numbers of all owners that have a file or a folder.
async fn numbers(client: &Client, folder: &str) -> hdfs_native::Result<Vec<u64>> {
    let listed = client.list_status(&format!("{folder}/{FOLDER}"), false).await?;
    let number = |path: &str| {
        let last = path.rsplit('/').next()?;
        last.strip_suffix(SUFFIX).unwrap_or(last).parse().ok()
    };
    let mut numbers: Vec<u64> = listed.iter().filter_map(|found| number(&found.path)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn folder_of(folder: &str, number: u64) -> String {
    format!("{folder}/{FOLDER}/{number:0DIGITS$}")
}

/// Makes the process `name` the owner of `folder`. Fails with [`Kind::InUse`](storage::Kind::InUse) if another process
/// becomes the owner meanwhile.
pub(crate) async fn take(client: &Client, folder: &str, name: &str) -> Result<Ownership> {
    let failed = |error: HdfsError| of_hdfs(&error, Outcome::MayHaveHappened, &FileName::root(), "open");
    loop {
        match client.mkdirs(&format!("{folder}/{FOLDER}"), 0o755, true).await {
            Err(error) if is_safe_mode(&error) => env::sleep(SAFE_MODE_PAUSE).await,
            made => break made.map_err(failed)?,
        }
    }
    let number = loop {
        let number = numbers(client, folder).await.map_err(failed)?.last().map_or(1, |last| last + 1);
        let file = format!("{}{SUFFIX}", folder_of(folder, number));
        let mut writer = match client.create(&file, WriteOptions::default()).await {
            Err(HdfsError::AlreadyExists(_)) => continue,
            created => created.map_err(failed)?,
        };
        let written = match writer.write_bytes(Bytes::copy_from_slice(name.as_bytes())).await {
            Ok(_) => writer.close().await,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => break number,
            // A process with a higher number has deleted this file by now, and is the owner.
            Err(error) if is_missing(&error) || is_sealed(&error) => {
                return Err(lost(&newest(client, folder).await));
            }
            Err(error) => return Err(failed(error)),
        }
    };
    let own = folder_of(folder, number);
    client.mkdirs(&own, 0o755, true).await.map_err(failed)?;
    let numbers = numbers(client, folder).await.map_err(failed)?;
    if numbers.last().is_some_and(|last| *last > number) {
        let _left = client.delete(&own, true).await;
        return Err(lost(&newest(client, folder).await));
    }
    for before in numbers.into_iter().filter(|before| *before < number) {
        let old = folder_of(folder, before);
        for path in [old.clone(), format!("{old}{SUFFIX}")] {
            match client.delete(&path, true).await {
                Err(error) if !is_missing(&error) => return Err(failed(error)),
                _ => {}
            }
        }
    }
    Ok(Ownership { folder: own, names: AtomicU64::new(0) })
}

/// Returns the error of a process that gives up in favour of the owner `by`.
fn lost(by: &str) -> Error {
    Error::new(Kind::InUse, Outcome::DidNotHappen, &FileName::root(), "open")
        .because(format!("{by} has taken the folder at the same time"))
}

/// Returns the name of the owner with the highest number.
pub(crate) async fn newest(client: &Client, folder: &str) -> String {
    let read = async {
        let number = numbers(client, folder).await.ok()?.pop()?;
        let reader = client.read(&format!("{}{SUFFIX}", folder_of(folder, number))).await.ok()?;
        let name = reader.read_range(0, reader.file_length().min(256)).await.ok()?;
        Some(String::from_utf8_lossy(&name).into_owned()).filter(|name| !name.is_empty())
    };
    read.await.unwrap_or_else(|| "another process".to_owned())
}
