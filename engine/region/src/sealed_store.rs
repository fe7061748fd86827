//! The store that remains of a deleted family: one file without cells.
//!
//! The log may still have edits of a deleted family. Nobody reads them, until a family of that name is added again and a
//! crash replays the log. So the store keeps a file that records up to which sequence id all its writes are in files.
//!
//! In storage that other processes reach, the store keeps at least a list: an earlier owner that was suspended while it
//! deleted the same family may go on, and write the list of a store that is gone. A family that is added again would find
//! it. Of two lists the one of the later owner counts, even if it names no files.

use std::sync::Arc;

use cell::SequenceId;
use env::World;
use hfile::{StoreFileInfo, Writer, WriterOptions};
use storage::{Capability, FileName, Files};

use crate::options::Access;
use crate::store_file::{Listed, StorePlace};
use crate::tracker::Tracker;
use crate::{Error, Result};

/// Writes the file that keeps edits of a deleted family from being replayed, if `folder` is that of a store and the log may
/// have edits of its region, and the list of the store. The region must be closed, and the store's files deleted. Durable when
/// this returns. After a failure or a crash, delete the files again and repeat the call.
pub fn seal_store(files: &Arc<dyn Files>, log: &wal::Log, world: &World, folder: &FileName) -> Result<()> {
    let Some(place) = StorePlace::of_folder(folder) else { return Ok(()) };
    let is_shared = !files.capabilities().has(Capability::OneProcess);
    let list = match log.newest_edit(place.region.as_bytes()) {
        Some(max_sequence) => vec![write_floor(files, world, folder, max_sequence)?],
        None if is_shared => Vec::new(),
        None => return Ok(()),
    };
    let (mut tracker, listed) = Tracker::open(Arc::clone(files), folder, world.clone(), Access::Owner)?;
    // In shared storage it is the list of an earlier owner, which is replaced, or of a later one, and then this fails.
    if !listed.is_empty() && !is_shared {
        return Err(Error::Broken(format!("store {folder} was deleted, and its list names files")));
    }
    tracker.write_for(log)?;
    tracker.replace(&list)
}

/// Writes a file without cells, which says that all writes up to `max_sequence` are in files.
fn write_floor(
    files: &Arc<dyn Files>,
    world: &World,
    folder: &FileName,
    max_sequence: SequenceId,
) -> Result<Listed> {
    let name = format!("{:016x}{:016x}", world.random(), world.random());
    let path = folder.join(&name);
    let options = WriterOptions { created: world.now().0, ..WriterOptions::default() };
    let writer = Writer::create(files.create(&path)?, path, options);
    let written = writer.finish(StoreFileInfo { max_sequence, ..StoreFileInfo::default() })?;
    Ok(Listed { name, size: written.size, reference: None })
}

#[cfg(test)]
mod tests {
    use env::WallTime;
    use storage::{Capabilities, Memory};

    use super::*;

    /// A server was suspended before it wrote the list of a family that it deleted, and goes on after another one has deleted
    /// the family.
    #[test]
    fn a_server_that_was_replaced_leaves_no_list_that_counts() {
        let shared = Capabilities::ALL.without(Capability::OneProcess);
        let files: Arc<dyn Files> = Arc::new(Memory::with(shared));
        let world = World::simulated(1, WallTime(1_000_000));
        let log = || {
            let (files, folder) = (Arc::clone(&files), FileName::new("WALs"));
            wal::Log::open(world.clone(), files, folder, wal::Options::default()).expect("a log").0
        };
        let folder = FileName::new("data/default/t/0123456789abcdef0123456789abcdef/f");
        let open = || Tracker::open(Arc::clone(&files), &folder, world.clone(), Access::Owner).expect("open");
        let first = log();
        let (mut suspended, _) = open();
        seal_store(&files, &log(), &world, &folder).expect("sealed");
        // A list is named after the time.
        world.advance(std::time::Duration::from_secs(1));
        let gone = Listed { name: "0123".to_owned(), size: 7, reference: None };
        suspended.claim(&first, &[gone]).expect("it does not know of the other list");
        assert_eq!(open().1, [], "what a family that is added again finds");
        let needed = crate::tracker::all_listed(&*files, &folder).expect("read");
        assert_eq!(needed, [], "its file is gone, so nobody may look for it");
    }
}
