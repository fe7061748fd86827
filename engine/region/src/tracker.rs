//! The store's file list: which files the store has, as HBase's FILE tracker keeps it.
//!
//! ```text
//! .filelist/f1.<ms> or f2.<ms>:  length 4B · StoreFileList{timestamp, store_file[], version 1} · CRC32 4B
//! store_file:                    name, size, and the content of the reference file of this name
//! ```
//!
//! The two names alternate; of the complete lists the one with the largest timestamp counts. A new list is written
//! beside the old one and made durable before the old one is deleted, so a crash leaves one of them. A list with an
//! unknown version is refused and not overwritten. Source: HBase 2.6 `StoreFileListFile`.
//!
//! **Doubt.** Writing a list can fail although it happened. The tracker then reads the list and writes it once more. If
//! that fails too, it is unknown which list the next opening finds, and the store is [in doubt](Tracker::is_in_doubt).
//! Then no file that either list may name is deleted, and no list is written until the folder can be read again. The
//! next list has a later timestamp than both and ends the doubt.

use std::sync::Arc;

use env::World;
use prost::Message;
use proto::pb;
use storage::{FileName, Files, Kind, Outcome, swap_confirmed};

use crate::options::Access;
pub(crate) use crate::store_file::Listed;
use crate::{Error, Result};

const FOLDER: &str = ".filelist";
const SIZE_MAX: usize = 16 << 20;
const VERSION: u64 = 1;

fn entries(name: &FileName, list: pb::StoreFileList) -> Result<Vec<Listed>> {
    let entries = list.store_file.into_iter().map(Listed::try_from);
    entries.collect::<std::result::Result<_, _>>().map_err(|found| Error::Corrupt {
        file: name.to_string(),
        what: "reference in the file list",
        expected: "a split key and a range".to_owned(),
        found,
    })
}

/// Whether a folder holds a store's lists.
pub(crate) fn is_list_folder(folder: &FileName) -> bool {
    folder.last() == FOLDER
}

/// The files in all complete lists of a store, the newest and older ones.
pub(crate) fn all_listed(files: &dyn Files, store: &FileName) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    for (name, list) in read_lists(files, &store.join(FOLDER))?.whole {
        all.extend(entries(&name, list)?);
    }
    Ok(all)
}

/// The lists in a folder.
struct Lists {
    whole: Vec<(FileName, pb::StoreFileList)>,
    /// The largest number in the name of a list, complete or not; later names must exceed it.
    number_max: u64,
}

/// The number in the name of a list; `None` for the name of any other file.
fn list_number(name: &str) -> Option<u64> {
    name.strip_prefix("f1.").or_else(|| name.strip_prefix("f2."))?.parse().ok()
}

/// How often lists are read again because one was deleted while they were read.
const READINGS_MAX: usize = 100;

/// Reads the lists in a folder. A list that is too short was cut off by a crash, and is ignored if another is complete.
///
/// The listing of the folder must show what was written before it, as local disks, HDFS and S3 promise.
fn read_lists(files: &dyn Files, folder: &FileName) -> Result<Lists> {
    for _ in 1..READINGS_MAX {
        if let Some(lists) = try_read_lists(files, folder)? {
            return Ok(lists);
        }
    }
    let error = storage::Error::new(Kind::NotFound, Outcome::DidNotHappen, folder, "read the lists in");
    Err(error.because("each list was deleted before it was read: the listing is not up to date").into())
}

/// Reads the lists once. `None` if one is gone: its owner has written another, which the listing may not have had.
fn try_read_lists(files: &dyn Files, folder: &FileName) -> Result<Option<Lists>> {
    let (mut whole, mut torn, mut number_max) = (Vec::new(), None, 0);
    for entry in files.list(folder)? {
        // Like HBase, ignore any other file: it says nothing of the store's files.
        let Some(number) = list_number(entry.name.last()) else { continue };
        number_max = number_max.max(number);
        match read_list(files, &entry.name) {
            Ok(list) => whole.push((entry.name, list)),
            Err(error @ Error::Corrupt { what: "length", .. }) => torn = Some(error),
            Err(Error::Storage(error)) if error.kind() == Kind::NotFound => return Ok(None),
            // A list that cannot be read, or is damaged, may be the newest.
            Err(error) => return Err(error),
        }
    }
    match torn {
        Some(error) if whole.is_empty() => Err(error),
        _ => Ok(Some(Lists { whole, number_max })),
    }
}

/// The file list of one store.
pub(crate) struct Tracker {
    files: Arc<dyn Files>,
    folder: FileName,
    world: World,
    /// The file of the current list, and its timestamp.
    current: Option<(FileName, u64)>,
    /// The largest timestamp that any list may have, including failed writes; the next must be greater.
    attempted: u64,
    /// A list whose writing failed and may have happened; `None` once a later list is written.
    doubt: Option<FileName>,
}

impl Tracker {
    /// Reads the list of the store in folder `store`.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        store: &FileName,
        world: World,
        access: Access,
    ) -> Result<(Tracker, Vec<Listed>)> {
        let folder = store.join(FOLDER);
        let Lists { whole, number_max } = read_lists(&*files, &folder)?;
        let newest = whole.into_iter().max_by_key(|(_, list)| list.timestamp);
        let current = newest.as_ref().map(|(name, list)| (name.clone(), list.timestamp));
        if let (Some((name, _)), Access::Owner) = (&current, access) {
            // Its writer may have died before the list was durable. From now on files that it does not name are
            // deleted.
            files.sync(name)?;
        }
        let listed = newest.map_or_else(|| Ok(Vec::new()), |(name, list)| entries(&name, list))?;
        let attempted = current.as_ref().map_or(0, |(_, timestamp)| *timestamp).max(number_max);
        Ok((Tracker { files, folder, world, current, attempted, doubt: None }, listed))
    }

    /// Deletes lists older than the current one, left by a crash or a failed deletion. Returns their number.
    pub(crate) fn remove_stale(&self) -> Result<usize> {
        let Some((current, timestamp)) = self.current.as_ref().filter(|_| !self.is_in_doubt()) else {
            return Ok(0);
        };
        let mut removed = 0;
        for entry in self.files.list(&self.folder)? {
            let is_stale = match read_list(&*self.files, &entry.name) {
                _ if entry.name == *current => false,
                Ok(list) => list.timestamp < *timestamp,
                Err(Error::Corrupt { what: "length", .. }) => true,
                Err(_) => false,
            };
            if is_stale {
                self.files.delete(&entry.name)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Whether it is unknown which list the next opening finds. Then no file of the store may be deleted.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Replaces the list. Durable when this returns.
    ///
    /// Fails with [`Error::InDoubt`] when the replacement may have happened, and again until the folder can be read.
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
                .map(|listed| pb::StoreFileEntry {
                    name: listed.name.clone(),
                    size: listed.size,
                    reference: listed.reference.as_ref().map(pb::Reference::from),
                })
                .collect(),
            version: Some(VERSION),
        }
        .encode_to_vec();
        let mut bytes = (message.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(&crc32(&message).to_be_bytes());
        // The swap is atomic: a store's first list has no older list to fall back to.
        if let Err(cause) = swap_confirmed(&*self.files, &name, None, &bytes) {
            if cause.outcome() == Outcome::DidNotHappen {
                return Err(cause.into());
            }
            self.doubt = Some(name.clone());
            return Err(Error::InDoubt { list: name, cause });
        }
        self.doubt = None;
        if let Some((old, _)) = self.current.replace((name, timestamp)) {
            // The old list is obsolete by its timestamp; the region's next cleaning deletes it.
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
        return Err(corrupt(
            "length",
            "the length in its header".to_owned(),
            format!("{} bytes", bytes.len()),
        ));
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

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::WallTime;
    use env::sync::Mutex;
    use storage::Memory;
    use storage::memory::Fault;

    fn listed(name: &str) -> Listed {
        Listed { name: name.to_owned(), size: 7, reference: None }
    }

    #[test]
    fn the_newest_complete_list_counts_and_a_torn_one_does_not() {
        let memory = Memory::new();
        let (files, store): (Arc<dyn Files>, _) = (Arc::new(memory.clone()), FileName::new("data/ns/t/r/f"));
        let world = World::simulated(1, WallTime(100));
        let open = || Tracker::open(Arc::clone(&files), &store, world.clone(), Access::Owner);
        let (mut tracker, empty) = open().expect("new");
        assert!(empty.is_empty());
        tracker.replace(&[listed("a")]).expect("written");
        tracker.replace(&[listed("a"), listed("b")]).expect("written");
        let (tracker, list) = open().expect("again");
        assert_eq!(list, [listed("a"), listed("b")]);
        let name = tracker.current.clone().expect("there").0;
        assert_eq!(name.as_str(), "data/ns/t/r/f/.filelist/f2.101");
        // Power fails while the next list is written.
        let whole = files.read(&name, 1000).expect("there");
        let mut torn = files.create(&store.join(".filelist/f1.102")).expect("new");
        torn.write(&whole[..whole.len() - 1]).expect("written");
        torn.finish().expect("durable");
        let (mut tracker, whole) = open().expect("the whole one counts");
        assert_eq!(whole, list);
        tracker.replace(&[]).expect("written");
        assert_eq!(open().expect("again").1, []);
        // A damaged list is an error if it is the only one.
        memory.damage(&tracker.current.clone().expect("there").0, |bytes| bytes[5] ^= 1);
        assert!(matches!(open(), Err(Error::Corrupt { what: "checksum", .. })));
    }

    /// Files whose owner replaces the list after each listing, up to a number of times.
    struct Overtaken {
        memory: Memory,
        owner: Mutex<(Tracker, usize)>,
    }

    impl Files for Overtaken {
        fn capabilities(&self) -> storage::Capabilities {
            self.memory.capabilities()
        }

        fn create(&self, name: &FileName) -> storage::Result<Box<dyn storage::FileWriter>> {
            self.memory.create(name)
        }

        fn open(&self, name: &FileName) -> storage::Result<Arc<dyn storage::FileReader>> {
            self.memory.open(name)
        }

        fn list(&self, folder: &FileName) -> storage::Result<Vec<storage::Entry>> {
            let found = self.memory.list(folder)?;
            let mut owner = self.owner.lock();
            let (tracker, left) = &mut *owner;
            if *left > 0 {
                *left -= 1;
                tracker.replace(&[listed(&format!("left-{left}"))]).expect("written");
            }
            Ok(found)
        }

        fn delete(&self, name: &FileName) -> storage::Result<()> {
            self.memory.delete(name)
        }

        fn load(&self, name: &FileName, bytes_max: usize) -> storage::Result<storage::Object> {
            self.memory.load(name, bytes_max)
        }

        fn swap(
            &self,
            name: &FileName,
            expected: Option<&storage::Version>,
            new: &[u8],
        ) -> storage::Result<storage::Version> {
            self.memory.swap(name, expected, new)
        }

        fn settle(
            &self,
            name: &FileName,
            expected: Option<&storage::Version>,
            new: &[u8],
        ) -> storage::Result<storage::Settled> {
            self.memory.settle(name, expected, new)
        }

        fn place(&self) -> String {
            self.memory.place()
        }
    }

    #[test]
    fn a_list_that_is_replaced_while_it_is_read_is_read_again() {
        let memory = Memory::new();
        let store = FileName::new("data/ns/t/r/f");
        let world = World::simulated(1, WallTime(100));
        let (mut tracker, _) =
            Tracker::open(Arc::new(memory.clone()), &store, world, Access::Owner).expect("new");
        tracker.replace(&[listed("first")]).expect("written");
        let files = Overtaken { memory, owner: Mutex::new((tracker, 3)) };
        let names = || all_listed(&files, &store).map(|all| all.into_iter().map(|one| one.name).collect());
        let found: Vec<String> = names().expect("read in the end");
        assert_eq!(found, ["left-0"], "never taken for an empty store");
        files.owner.lock().1 = usize::MAX;
        let error = names().expect_err("overtaken each time");
        assert!(error.to_string().contains("not up to date"), "{error}");
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
        let (mut tracker, _) =
            Tracker::open(Arc::clone(&files), &store, world.clone(), Access::Owner).expect("new");
        tracker.replace(&[listed("a")]).expect("written");
        fail(&memory, false);
        tracker.replace(&[listed("b")]).expect("it is read again and written once more");
        assert!(!tracker.is_in_doubt());
        let (_, list) = Tracker::open(Arc::clone(&files), &store, world, Access::Owner).expect("again");
        assert_eq!(list, [listed("b")]);
    }

    #[test]
    fn the_next_list_ends_the_doubt() {
        let memory = Memory::new();
        let store = FileName::new("data/ns/t/r/f");
        // The clock stands still, then is set back before the second attempt.
        let world = |now| World::simulated(1, WallTime(now));
        let (mut tracker, _) =
            Tracker::open(Arc::new(memory.clone()), &store, world(100), Access::Owner).expect("new");
        tracker.replace(&[listed("a")]).expect("written");
        fail(&memory, true);
        assert!(matches!(tracker.replace(&[listed("b")]), Err(Error::InDoubt { .. })));
        assert!(tracker.is_in_doubt());
        assert!(tracker.replace(&[listed("c")]).is_err(), "nothing can be written");
        assert!(tracker.is_in_doubt());
        // The storage works again.
        let files: Arc<dyn Files> = Arc::new(memory.kill());
        let (_, list) =
            Tracker::open(Arc::new(memory.copy()), &store, world(50), Access::Owner).expect("a copy");
        assert_eq!(list, [listed("b")], "what a restart would find");
        tracker.files = Arc::clone(&files);
        tracker.world = world(50);
        tracker.replace(&[listed("a"), listed("c")]).expect("written");
        assert!(!tracker.is_in_doubt());
        let (_, list) = Tracker::open(files, &store, world(50), Access::Owner).expect("again");
        assert_eq!(list, [listed("a"), listed("c")]);
    }
}
