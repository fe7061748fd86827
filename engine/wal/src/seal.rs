//! Ends a log whose owner may still be writing it, so that nobody can add records, and reads what it contains.

use std::sync::Arc;

use env::World;
use storage::{FileName, Files, Kind};

use crate::Result;
use crate::owner::Claim;
use crate::reader::{FolderContents, LogReader, read_folder};

/// A sealed log: it has every record that was ever acknowledged, and no record can be added.
#[derive(Debug)]
pub struct SealedLog {
    /// A reader of the log's records.
    pub reader: LogReader,
    /// The epoch of the seal. It is larger than that of every earlier owner; the next owner of the log has a larger
    /// one.
    pub epoch: u64,
}

/// Seals the log in `folder`, and reads it. The next write, sync or roll of its owner fails with
/// [`Error::Fenced`](crate::Error::Fenced), which names `by`. The reader finds every record that the owner has
/// acknowledged.
///
/// Sealing a log without an owner, or a sealed one, is no error. [`Log::open`](crate::Log::open) seals, too.
pub fn seal(world: &World, files: &Arc<dyn Files>, folder: &FileName, by: &str) -> Result<SealedLog> {
    let Sealed { mut claim, found } = seal_for_owner(world, files, folder, by)?;
    claim.raise_epoch(found.epoch_max + 1)?;
    Ok(SealedLog { reader: found.reader, epoch: claim.owner.epoch })
}

/// A sealed log, and the right to write it.
pub(crate) struct Sealed {
    pub(crate) claim: Claim,
    pub(crate) found: FolderContents,
}

/// Makes the caller the owner of the log in `folder`, ends every log file, and lists the files. When it returns, the
/// previous owner can write no record, and all records that the reader returns are durable.
pub(crate) fn seal_for_owner(
    world: &World,
    files: &Arc<dyn Files>,
    folder: &FileName,
    by: &str,
) -> Result<Sealed> {
    let claim = Claim::take(world, files, folder, by)?;
    let found = read_folder(files, folder, claim.noted)?;
    // The previous owner may have been killed before its last sync. The records since are then only in the page cache,
    // and a loss of power would destroy them after regions have replayed and used them. So these files are synced now.
    for name in &found.unsynced {
        match files.sync(name) {
            // The file was listed and is gone: the previous owner has deleted it because nobody needs it, or has
            // created it after it lost the log, and therefore never wrote to it.
            Err(error) if error.kind() == Kind::NotFound => {}
            // The next start must not read what this sync could not write.
            synced => synced.inspect_err(|_| files.forget(name))?,
        }
    }
    Ok(Sealed { claim, found })
}
