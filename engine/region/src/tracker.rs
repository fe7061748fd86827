//! The store's file list: which files the store has, as HBase's FILE tracker keeps it.
//!
//! ```text
//! .filelist/f1.<ms> or f2.<ms>:  length 4B · StoreFileList{timestamp, store_file[]{name, size}, version 1} · CRC32 4B
//! ```
//!
//! The two names are written in turn; of those that are whole the one with the larger timestamp counts. A new list is
//! written beside the old one and made durable before the old one is removed, so a crash leaves the one or the other.
//! A list of a version that is not known is refused, not overwritten. Source: HBase 2.6 `StoreFileListFile`.
//!
//! **Doubt.** Writing a list can fail and have happened all the same. The tracker then reads the list again and writes it
//! once more. When that fails, too, nobody knows which list the next opening would find, so the store is
//! [in doubt](Tracker::is_in_doubt): no file that either list may name is deleted, and no list is written until
//! the place can be read again. The next list that is written has a later timestamp than both and ends the doubt.

use std::sync::Arc;

use env::World;
use prost::Message;
use proto::pb;
use storage::{FileName, Files, Kind, Outcome, swap_confirmed};

use crate::{Error, Result};

const FOLDER: &str = ".filelist";
const SIZE_MAX: usize = 16 << 20;
const VERSION: u64 = 1;

/// A file of the store, as the list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// The list of one store.
pub(crate) struct Tracker {
    files: Arc<dyn Files>,
    folder: FileName,
    world: World,
    /// The file that holds the list now, and its timestamp.
    current: Option<(FileName, u64)>,
    /// The largest timestamp that a list may have, also one whose writing failed: the next must outdo it.
    attempted: u64,
    /// A list whose writing failed and may have happened, until a later list is written.
    doubt: Option<FileName>,
}

impl Tracker {
    /// Reads the list of the store in `store`.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        store: &FileName,
        world: World,
    ) -> Result<(Tracker, Vec<Listed>)> {
        let folder = store.join(FOLDER);
        let mut newest: Option<(FileName, pb::StoreFileList)> = None;
        let (mut broken, mut seen) = (None, Vec::new());
        for entry in files.list(&folder)? {
            match read_list(&*files, &entry.name) {
                Ok(list) => {
                    if newest.as_ref().is_none_or(|(_, known)| known.timestamp < list.timestamp) {
                        newest = Some((entry.name.clone(), list));
                    }
                }
                Err(error @ Error::Corrupt { what: "version", .. }) => return Err(error),
                Err(error @ Error::Corrupt { .. }) => broken = Some(error),
                // A list that cannot be read at the moment may be the newest.
                Err(error) => return Err(error),
            }
            seen.push(entry.name);
        }
        // A list that is not whole is one whose writing a crash ended, if a whole one stands beside it.
        if let (None, Some(error)) = (&newest, broken) {
            return Err(error);
        }
        let current = newest.as_ref().map(|(name, list)| (name.clone(), list.timestamp));
        if let Some((name, _)) = &current {
            // Whoever wrote it may have died before it was durable, and the list before it is removed now.
            files.sync(name)?;
        }
        for stale in seen.iter().filter(|name| newest.as_ref().is_none_or(|(newest, _)| *name != newest)) {
            files.delete(stale)?;
        }
        let listed = newest.map(|(_, list)| list.store_file).unwrap_or_default();
        let listed = listed.into_iter().map(|entry| Listed { name: entry.name, size: entry.size }).collect();
        let attempted = current.as_ref().map_or(0, |(_, timestamp)| *timestamp);
        Ok((Tracker { files, folder, world, current, attempted, doubt: None }, listed))
    }

    /// Whether nobody knows which list the next opening would find. Then no file of the store may be deleted.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Puts `list` in the place of the old one. Durable when this returns.
    ///
    /// Fails with [`Error::InDoubt`] when it may have happened, and from then on for as long as the place cannot be read.
    pub(crate) fn replace(&mut self, list: &[Listed]) -> Result<()> {
        if let Some(list) = &self.doubt {
            match self.files.read(list, SIZE_MAX) {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(cause) => return Err(Error::InDoubt { list: list.clone(), cause }),
            }
        }
        let now = u64::try_from(self.world.now().0).unwrap_or(0);
        let timestamp = now.max(self.attempted + 1);
        self.attempted = timestamp;
        let first = self.current.as_ref().is_none_or(|(name, _)| name.last().starts_with("f2"));
        let name = self.folder.join(&format!("{}.{timestamp}", if first { "f1" } else { "f2" }));
        let message = pb::StoreFileList {
            timestamp,
            store_file: list
                .iter()
                .map(|listed| pb::StoreFileEntry { name: listed.name.clone(), size: listed.size })
                .collect(),
            version: Some(VERSION),
        }
        .encode_to_vec();
        let mut bytes = (message.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(&crc32(&message).to_be_bytes());
        // Whole or not at all: a store's first list has no older one beside it that would count.
        if let Err(cause) = swap_confirmed(&*self.files, &name, None, &bytes) {
            if cause.outcome() == Outcome::DidNotHappen {
                return Err(cause.into());
            }
            self.doubt = Some(name.clone());
            return Err(Error::InDoubt { list: name, cause });
        }
        self.doubt = None;
        if let Some((old, _)) = self.current.replace((name, timestamp)) {
            // An old list that stays is outdone by its timestamp, and removed when the store is opened.
            let _stays = self.files.delete(&old);
        }
        Ok(())
    }
}

fn read_list(files: &dyn Files, name: &FileName) -> Result<pb::StoreFileList> {
    let corrupt = |what, expected: String, found: String| Error::Corrupt {
        file: name.to_string(),
        what,
        expected,
        found,
    };
    let bytes = match files.read(name, SIZE_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == Kind::TooLarge => {
            return Err(corrupt("size", format!("at most {SIZE_MAX}"), error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let whole = bytes.split_first_chunk::<4>().and_then(|(length, rest)| {
        let (message, sum) = rest.split_last_chunk::<4>()?;
        (message.len() == u32::from_be_bytes(*length) as usize).then_some((message, u32::from_be_bytes(*sum)))
    });
    let Some((message, sum)) = whole else {
        return Err(corrupt("length", "that of the list".to_owned(), format!("{} bytes", bytes.len())));
    };
    if crc32(message) != sum {
        return Err(corrupt("checksum", format!("{sum:08x}"), format!("{:08x}", crc32(message))));
    }
    let list = pb::StoreFileList::decode(message)
        .map_err(|error| corrupt("list", "a message".to_owned(), error.to_string()))?;
    match list.version() {
        VERSION => Ok(list),
        other => Err(corrupt("version", VERSION.to_string(), other.to_string())),
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;
    use storage::Memory;
    use storage::memory::Fault;

    fn listed(name: &str) -> Listed {
        Listed { name: name.to_owned(), size: 7 }
    }

    #[test]
    fn the_newest_whole_list_counts_and_a_torn_one_does_not() {
        let memory = Memory::new();
        let (files, store): (Arc<dyn Files>, _) = (Arc::new(memory.clone()), FileName::new("data/ns/t/r/f"));
        let world = World::simulated(1, WallTime(100));
        let open = || Tracker::open(Arc::clone(&files), &store, world.clone());
        let (mut tracker, empty) = open().expect("new");
        assert!(empty.is_empty());
        tracker.replace(&[listed("a")]).expect("written");
        tracker.replace(&[listed("a"), listed("b")]).expect("written");
        let (mut tracker, list) = open().expect("again");
        assert_eq!(list, [listed("a"), listed("b")]);
        let name = tracker.current.clone().expect("there").0;
        assert_eq!(name.as_str(), "data/ns/t/r/f/.filelist/f2.101");
        // The next list was being written when the power went.
        let whole = files.read(&name, 1000).expect("there");
        let mut torn = files.create(&store.join(".filelist/f1.102")).expect("new");
        torn.write(&whole[..whole.len() - 1]).expect("written");
        torn.finish().expect("durable");
        assert_eq!(open().expect("the whole one counts").1, list);
        tracker.replace(&[]).expect("written");
        assert_eq!(open().expect("again").1, []);
        // The only list there is must be whole.
        memory.damage(&tracker.current.clone().expect("there").0, |bytes| bytes[5] ^= 1);
        assert!(matches!(open(), Err(Error::Corrupt { what: "checksum", .. })));
    }

    fn fail(memory: &Memory, last: bool) {
        let (act, outcome) = (memory.acts() + 1, Outcome::MayHaveHappened);
        memory.set_fault(Some(Fault { act, kind: Kind::Failed, outcome, last }));
    }

    #[test]
    fn a_list_that_was_written_and_reported_failure_counts() {
        let memory = Memory::new();
        let (files, store): (Arc<dyn Files>, _) = (Arc::new(memory.clone()), FileName::new("data/ns/t/r/f"));
        let world = World::simulated(1, WallTime(100));
        let (mut tracker, _) = Tracker::open(Arc::clone(&files), &store, world.clone()).expect("new");
        tracker.replace(&[listed("a")]).expect("written");
        fail(&memory, false);
        tracker.replace(&[listed("b")]).expect("it is read again and written once more");
        assert!(!tracker.is_in_doubt());
        let (_, list) = Tracker::open(Arc::clone(&files), &store, world).expect("again");
        assert_eq!(list, [listed("b")]);
    }

    #[test]
    fn a_list_in_doubt_is_outdone_by_the_next() {
        let memory = Memory::new();
        let store = FileName::new("data/ns/t/r/f");
        // The clock stands still, and is set back before the second attempt.
        let world = |now| World::simulated(1, WallTime(now));
        let (mut tracker, _) = Tracker::open(Arc::new(memory.clone()), &store, world(100)).expect("new");
        tracker.replace(&[listed("a")]).expect("written");
        fail(&memory, true);
        assert!(matches!(tracker.replace(&[listed("b")]), Err(Error::InDoubt { .. })));
        assert!(tracker.is_in_doubt());
        assert!(tracker.replace(&[listed("c")]).is_err(), "nothing can be written");
        assert!(tracker.is_in_doubt());
        // The place is back.
        let files: Arc<dyn Files> = Arc::new(memory.kill());
        let (_, list) = Tracker::open(Arc::new(memory.copy()), &store, world(50)).expect("a copy");
        assert_eq!(list, [listed("b")], "what a restart would find");
        tracker.files = Arc::clone(&files);
        tracker.world = world(50);
        tracker.replace(&[listed("a"), listed("c")]).expect("written");
        assert!(!tracker.is_in_doubt());
        let (_, list) = Tracker::open(files, &store, world(50)).expect("again");
        assert_eq!(list, [listed("a"), listed("c")]);
    }
}
