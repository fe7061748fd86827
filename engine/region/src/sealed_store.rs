//! The store that remains of a deleted family: one file without cells.
//!
//! The log may still have edits of a deleted family. Nobody reads them, until a family of that name is added again and a
//! crash replays the log. So the store keeps a file that records up to which sequence id all its writes are in files.

use std::sync::Arc;

use env::World;
use hfile::{StoreFileInfo, Writer, WriterOptions};
use storage::{FileName, Files};

use crate::options::Access;
use crate::store_file::{Listed, StorePlace};
use crate::tracker::Tracker;
use crate::{Error, Result};

/// Writes the file that keeps edits of a deleted family from being replayed, and its list, if `folder` is that of a store
/// and the log may have edits of its region. The region must be closed, and the store's files deleted. Durable when this
/// returns. After a failure or a crash, delete the files again and repeat the call.
pub fn seal_store(files: &Arc<dyn Files>, log: &wal::Log, world: &World, folder: &FileName) -> Result<()> {
    let Some(place) = StorePlace::of_folder(folder) else { return Ok(()) };
    let Some(max_sequence) = log.newest_edit(place.region.as_bytes()) else { return Ok(()) };
    let name = format!("{:016x}{:016x}", world.random(), world.random());
    let path = folder.join(&name);
    let options = WriterOptions { created: world.now().0, ..WriterOptions::default() };
    let writer = Writer::create(files.create(&path)?, path, options);
    let written = writer.finish(StoreFileInfo { max_sequence, ..StoreFileInfo::default() })?;
    let (mut tracker, listed) = Tracker::open(Arc::clone(files), folder, world.clone(), Access::Owner)?;
    if !listed.is_empty() {
        return Err(Error::Broken(format!("store {folder} was deleted, and its list names files")));
    }
    let list = [Listed { name, size: written.size, reference: None }];
    tracker.claim(log, &list)?;
    tracker.replace(&list)
}
