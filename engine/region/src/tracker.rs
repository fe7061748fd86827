//! The store's file list: which files the store has, as HBase's FILE tracker keeps it.
//!
//! ```text
//! .filelist/f1.<ms> or f2.<ms>:  length 4B · StoreFileList{timestamp, store_file[], version 1} · CRC32 4B
//! store_file:                    name, size, and the content of the reference file of this name
//! ```
//!
//! HBase alternates between the two names; of the complete lists the one with the largest timestamp counts. Here that
//! list keeps its name, and each change replaces its content, if that is still the content that was read. So if two
//! servers both believe that they own the store, only one of them can change it, and the other one [is
//! fenced](Error::Fenced). A list with an unknown version is refused and not overwritten. Source: HBase 2.6
//! `StoreFileListFile`.
//!
//! **Owners.** In storage that other machines reach, a process that opens a store first [claims](Tracker::claim) its
//! list: it writes the same list with its own name as owner, and with the epoch of its log. From then on the previous
//! owner cannot change the list. A server that was suspended may read a list only after another one has claimed it, and
//! then expects the right content. It finds a greater epoch there, and asks its log whether it still is the owner. It may
//! also have found no list, and create one beside that of the new owner; of the two, the one with the greater epoch
//! counts. A log that was begun anew in another place has a small epoch; its lists have the epoch that they had before.
//!
//! **Doubt.** A write of a list can fail and yet have happened. The tracker then reads the list and writes it once
//! more. If that fails too, it is unknown whether the next opening finds the old or the new list, and the store is [in
//! doubt](Tracker::is_in_doubt). Then no file that one of the two may name is deleted, and no list is written until the
//! list can be read again. The next successful write ends the doubt: if the doubtful write is carried out later, it
//! finds other content than it expects, and fails.

use std::sync::Arc;

use env::World;
use prost::Message;
use proto::pb;
use storage::{Capability, FileName, Files, Kind, Object, Outcome, Version, swap_confirmed};
use wal::ListState;

use crate::options::Access;
pub(crate) use crate::store_file::Listed;
use crate::store_file::StoreFile;
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

/// Whether a folder is the one in which a store's lists are.
pub(crate) fn is_list_folder(folder: &FileName) -> bool {
    folder.last() == FOLDER
}

/// Returns the files in all complete lists of a store that may count, the newest and older ones. A list of an earlier owner
/// never counts beside one of a later owner, and may name files that the later owner has deleted.
pub(crate) fn all_listed(files: &dyn Files, store: &FileName) -> Result<Vec<Listed>> {
    let whole = read_lists(files, &store.join(FOLDER))?.whole;
    let epoch = whole.iter().map(|found| found.list.epoch()).max().unwrap_or_default();
    let mut all = Vec::new();
    for FoundList { name, list, .. } in whole.into_iter().filter(|found| found.list.epoch() == epoch) {
        all.extend(entries(&name, list)?);
    }
    Ok(all)
}

/// The file lists in a store's folder.
struct Lists {
    whole: Vec<FoundList>,
    /// The largest number in the name of a list, complete or not; later names must exceed it.
    number_max: u64,
}

/// What decides which of two lists counts: the epoch of its owner, and its timestamp.
fn order_of(list: &pb::StoreFileList) -> (u64, u64) {
    (list.epoch(), list.timestamp)
}

/// A complete file list, as it was read.
struct FoundList {
    name: FileName,
    list: pb::StoreFileList,
    version: Version,
}

/// Returns the number in the name of a list; `None` for the name of any other file.
fn list_number(name: &str) -> Option<u64> {
    name.strip_prefix("f1.").or_else(|| name.strip_prefix("f2."))?.parse().ok()
}

/// Maximum number of times that lists are read again because one was deleted meanwhile.
const READINGS_MAX: usize = 100;

/// Reads the lists in a folder. A list that is too short was cut off by a crash; it is ignored if another one is
/// complete.
///
/// A listing of the folder must have everything that was written before it, as local disks, HDFS and S3 promise.
fn read_lists(files: &dyn Files, folder: &FileName) -> Result<Lists> {
    for _ in 1..READINGS_MAX {
        if let Some(lists) = try_read_lists(files, folder)? {
            return Ok(lists);
        }
    }
    let error = storage::Error::new(Kind::NotFound, Outcome::DidNotHappen, folder, "read the lists in");
    Err(error.because("each list was deleted before it was read: the listing is not up to date").into())
}

/// Reads the lists once. Returns `None` if a list was deleted between the listing and its reading: the owner has then
/// written a newer list, which the listing may have missed.
fn try_read_lists(files: &dyn Files, folder: &FileName) -> Result<Option<Lists>> {
    let (mut whole, mut torn, mut number_max) = (Vec::new(), None, 0);
    for entry in files.list(folder)? {
        // Like HBase, ignores other files in the folder, because they do not describe the files of the store.
        let Some(number) = list_number(entry.name.last()) else { continue };
        number_max = number_max.max(number);
        match read_list(files, &entry.name) {
            Ok((list, version)) => whole.push(FoundList { name: entry.name, list, version }),
            Err(error @ Error::Corrupt { what: "length", .. }) => torn = Some(error),
            Err(Error::Storage(error)) if error.kind() == Kind::NotFound => return Ok(None),
            // A list that cannot be read may be the newest one, so it must not be ignored.
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
    /// The name of the log's owner, for people.
    owner: String,
    /// The epoch of the lists that are written; 0 if no other process reaches the storage.
    epoch: u64,
    /// A number that distinguishes this opening of the store from others.
    opening: u64,
    /// Number of lists that this opening has written or tried to write.
    commits: u64,
    current: Option<Register>,
    /// The timestamp of the list that was read, written or followed last; `None` while there is no list.
    stamp: Option<u64>,
    /// The largest timestamp that any list may have, including failed writes; the next must be greater.
    attempted: u64,
    /// The list whose write failed but may have happened; `None` when a later list was written.
    doubt: Option<FileName>,
}

/// The list that counts, as it was last read or written.
struct Register {
    name: FileName,
    /// The list's [order](order_of).
    order: (u64, u64),
    version: Version,
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
        let timestamp_max = whole.iter().map(|found| found.list.timestamp).max().unwrap_or_default();
        let newest = whole.into_iter().max_by_key(|found| order_of(&found.list));
        if let (Some(newest), Access::Owner) = (&newest, access) {
            // The process that wrote the list may have died before the list was durable. It is synced, because files
            // that it does not name are deleted from now on.
            files.sync(&newest.name)?;
        }
        let (mut stamp, mut epoch) = (None, 0);
        let (current, listed) = match newest {
            None => (None, Vec::new()),
            Some(FoundList { name, list, version }) => {
                let order = order_of(&list);
                (epoch, stamp) = (order.0, Some(order.1));
                let listed = entries(&name, list)?;
                (Some(Register { name, order, version }), listed)
            }
        };
        let attempted = timestamp_max.max(number_max);
        let opening = world.random();
        let tracker = Tracker {
            files,
            folder,
            world,
            owner: String::new(),
            epoch,
            opening,
            commits: 0,
            current,
            stamp,
            attempted,
            doubt: None,
        };
        Ok((tracker, listed))
    }

    /// Writes the following lists for the owner of `log`. Fails if the list is that of a later owner. A list that exists
    /// is not [claimed](Tracker::claim).
    pub(crate) fn write_for(&mut self, log: &wal::Log) -> Result<()> {
        log.owner().clone_into(&mut self.owner);
        if self.is_alone() {
            return Ok(());
        }
        if self.epoch > log.epoch() {
            log.check_owner()?;
        }
        self.epoch = self.epoch.max(log.epoch());
        Ok(())
    }

    /// Takes over the list, which names `listed`, for the owner of `log`. When this returns, every change by a previous
    /// owner fails. On storage that no other process can reach, writes nothing.
    pub(crate) fn claim(&mut self, log: &wal::Log, listed: &[Listed]) -> Result<()> {
        self.write_for(log)?;
        if self.is_alone() { Ok(()) } else { self.replace(listed) }
    }

    /// Whether no other process can reach the storage.
    fn is_alone(&self) -> bool {
        self.files.capabilities().has(Capability::OneProcess)
    }

    /// Returns the state of the list, for a store with these `files`; `None` if there is no list.
    pub(crate) fn state(&self, files: &[Arc<StoreFile>]) -> Option<ListState> {
        let timestamp = self.stamp?;
        let digest = ListState::digest(files.iter().map(|file| &*file.listed.name));
        Some(ListState { timestamp, digest })
    }

    /// Records the state of a list that the store's owner, another process, has written and whose files this process
    /// has opened.
    pub(crate) fn follow(&mut self, state: ListState) {
        self.stamp = Some(state.timestamp);
    }

    /// Deletes lists that are older than the current one or incomplete, which a crash or a failed deletion has left.
    /// Returns their number. Deletes none if there is no current list, or while it is in doubt.
    pub(crate) fn remove_stale(&self) -> Result<usize> {
        let Some(Register { name: current, order, .. }) =
            self.current.as_ref().filter(|_| !self.is_in_doubt())
        else {
            return Ok(0);
        };
        let mut removed = 0;
        for entry in self.files.list(&self.folder)? {
            let is_stale = match read_list(&*self.files, &entry.name) {
                _ if entry.name == *current => false,
                Ok((list, _)) => order_of(&list) < *order,
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

    /// Whether it is unknown which list the next opening finds. If so, no file of the store may be deleted.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Replaces the list by `list`. Durable when this returns.
    ///
    /// Fails with [`Error::InDoubt`] when the replacement may have happened; so does every later call until the list
    /// can be read. Fails with [`Error::Fenced`] when another owner has replaced the list.
    pub(crate) fn replace(&mut self, list: &[Listed]) -> Result<()> {
        if let Some(list) = self.doubt.clone() {
            self.look_again(&list).map_err(|error| match error {
                Error::Storage(cause) => Error::InDoubt { list, cause },
                error => error,
            })?;
        }
        for _ in 0..ATTEMPTS_MAX {
            if self.try_replace(list)? {
                return Ok(());
            }
        }
        Err(Error::Broken(format!("the file list in {} changes each time it was read", self.folder)))
    }

    /// Replaces the list. Returns `false` if the stored content is another one than was last read, but was written by
    /// this owner.
    fn try_replace(&mut self, list: &[Listed]) -> Result<bool> {
        let now = u64::try_from(self.world.now().0).unwrap_or(0);
        let timestamp = now.max(self.attempted + 1);
        self.attempted = timestamp;
        self.commits += 1;
        let name = match &self.current {
            Some(current) => current.name.clone(),
            None => self.folder.join(&format!("f1.{timestamp}")),
        };
        let bytes = self.encode(timestamp, list);
        let expected = self.current.as_ref().map(|current| &current.version);
        let cause = match swap_confirmed(&*self.files, &name, expected, &bytes) {
            Ok(version) => {
                self.doubt = None;
                self.current = Some(Register { name, order: (self.epoch, timestamp), version });
                self.stamp = Some(timestamp);
                return Ok(true);
            }
            Err(cause) => cause,
        };
        if cause.kind() == Kind::Conflict {
            self.doubt.get_or_insert_with(|| name.clone());
            return match self.look_again(&name) {
                Ok(()) => Ok(false),
                Err(Error::Storage(cause)) => Err(Error::InDoubt { list: name, cause }),
                Err(error) => Err(error),
            };
        }
        if cause.outcome() == Outcome::DidNotHappen {
            return Err(cause.into());
        }
        self.doubt = Some(name.clone());
        Err(Error::InDoubt { list: name, cause })
    }

    /// Reads the list again. Fails with [`Error::Fenced`] if the content was neither read nor written by this owner.
    fn look_again(&mut self, name: &FileName) -> Result<()> {
        let found = match read_list(&*self.files, name) {
            Ok((list, version)) => Some((list, version)),
            Err(Error::Storage(error)) if error.kind() == Kind::NotFound => None,
            Err(error) => return Err(error),
        };
        let known = self.current.as_ref().map(|current| &current.version);
        match found {
            None if known.is_none() => Ok(()),
            None => Err(Error::Fenced { list: name.clone(), by: "somebody who deleted it".to_owned() }),
            Some((_, version)) if Some(&version) == known => Ok(()),
            Some((list, version)) if list.opening == Some(self.opening) => {
                self.current = Some(Register { name: name.clone(), order: order_of(&list), version });
                Ok(())
            }
            Some((list, _)) => {
                let by = list.owner.filter(|owner| !owner.is_empty());
                Err(Error::Fenced {
                    list: name.clone(),
                    by: by.unwrap_or_else(|| "another server".to_owned()),
                })
            }
        }
    }

    fn encode(&self, timestamp: u64, list: &[Listed]) -> Vec<u8> {
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
            owner: Some(self.owner.clone()).filter(|owner| !owner.is_empty()),
            opening: Some(self.opening),
            commit: Some(self.commits),
            epoch: Some(self.epoch).filter(|epoch| *epoch > 0),
        }
        .encode_to_vec();
        let mut bytes = (message.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(&crc32(&message).to_be_bytes());
        bytes
    }
}

/// Maximum number of times that a list is written again because an earlier write by this owner was reported as failed
/// but had happened.
const ATTEMPTS_MAX: usize = 10;

fn read_list(files: &dyn Files, name: &FileName) -> Result<(pb::StoreFileList, Version)> {
    let corrupt = |what, expected: String, found: String| Error::Corrupt {
        file: name.to_string(),
        what,
        expected,
        found,
    };
    let Object { content: bytes, version } = match files.load(name, SIZE_MAX) {
        Ok(object) => object,
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
        VERSION => Ok((list, version)),
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
        let name = tracker.current.as_ref().expect("there").name.clone();
        assert_eq!(name.as_str(), "data/ns/t/r/f/.filelist/f1.100", "it keeps its name");
        // A loss of power interrupts the writing of the next list.
        let whole = files.read(&name, 1000).expect("there");
        let mut torn = files.create(&store.join(".filelist/f2.102")).expect("new");
        torn.write(&whole[..whole.len() - 1]).expect("written");
        torn.finish().expect("durable");
        let (mut tracker, whole) = open().expect("the whole one counts");
        assert_eq!(whole, list);
        tracker.replace(&[]).expect("written");
        assert_eq!(open().expect("again").1, []);
        // If the only list is damaged, that is an error.
        memory.damage(&tracker.current.as_ref().expect("there").name, |bytes| bytes[5] ^= 1);
        assert!(matches!(open(), Err(Error::Corrupt { what: "checksum", .. })));
    }

    /// Files of an owner that alternates between two list names, as HBase does, and writes a new list after each of a
    /// number of listings.
    struct Overtaken {
        memory: Memory,
        left: Mutex<usize>,
    }

    impl storage::Overlay for Overtaken {
        fn below(&self) -> &dyn Files {
            &self.memory
        }

        fn list(&self, folder: &FileName) -> storage::Result<Vec<storage::Entry>> {
            let found = self.memory.list(folder)?;
            let mut left = self.left.lock();
            if let (1.., [old]) = (*left, &found[..]) {
                *left -= 1;
                let content = self.memory.read(&old.name, SIZE_MAX)?;
                self.memory.swap(&folder.join(&format!("f2.{}", 1_000_000 - *left)), None, &content)?;
                self.memory.delete(&old.name)?;
            }
            Ok(found)
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
        let files = Overtaken { memory, left: Mutex::new(3) };
        let names = || all_listed(&files, &store).map(|all| all.into_iter().map(|one| one.name).collect());
        let found: Vec<String> = names().expect("read in the end");
        assert_eq!(found, ["first"], "never taken for an empty store");
        *files.left.lock() = 500_000;
        let error = names().expect_err("overtaken each time");
        assert!(error.to_string().contains("not up to date"), "{error}");
    }

    #[test]
    fn of_two_owners_the_later_one_changes_the_list_and_the_earlier_ones_error_names_it() {
        let memory = shared();
        let (files, store): (Arc<dyn Files>, _) = (Arc::new(memory.clone()), FileName::new("data/ns/t/r/f"));
        let world = World::simulated(1, WallTime(100));
        let open = |owner: &str| {
            let log = log_of(&files, owner);
            let (mut tracker, list) =
                Tracker::open(Arc::clone(&files), &store, world.clone(), Access::Owner).expect("there");
            tracker.claim(&log, &list).expect("free");
            (tracker, list)
        };
        let (mut first, _) = open("old:16020");
        first.replace(&[listed("a")]).expect("its own");
        let (mut second, list) = open("new:16020");
        assert_eq!(list, [listed("a")]);
        for attempt in ["at once", "again"] {
            let error = first.replace(&[listed("a"), listed("lost")]).expect_err("taken");
            let told = error.to_string();
            assert!(matches!(error, Error::Fenced { .. }) && told.contains("new:16020"), "{attempt}: {told}");
        }
        assert!(first.is_in_doubt(), "it deletes nothing any more");
        second.replace(&[listed("b")]).expect("its own");
        // The next opening finds the second owner's list.
        let (_, list) = open("newer:16020");
        assert_eq!(list, [listed("b")]);
    }

    /// Storage that several processes reach, and in which a log can be.
    fn shared() -> Memory {
        Memory::with(storage::Capabilities::ALL.without(Capability::OneProcess))
    }

    fn log_of(files: &Arc<dyn Files>, owner: &str) -> wal::Log {
        let options = wal::Options { owner: owner.to_owned(), ..wal::Options::default() };
        wal::Log::open(World::real(), Arc::clone(files), FileName::new("WALs"), options).expect("readable").0
    }

    /// A server was suspended before it read the list that a later owner of the log has claimed.
    #[test]
    fn a_list_of_a_later_owner_is_neither_claimed_nor_replaced() {
        let memory = shared();
        let (files, store): (Arc<dyn Files>, _) = (Arc::new(memory.clone()), FileName::new("data/ns/t/r/f"));
        let open = |now| {
            let world = World::simulated(1, WallTime(now));
            Tracker::open(Arc::clone(&files), &store, world, Access::Owner).expect("there")
        };
        let late = log_of(&files, "old:16020");
        let (mut before, _) = open(200);
        let owner = log_of(&files, "new:16020");
        let (mut tracker, list) = open(100);
        tracker.claim(&owner, &list).expect("free");
        tracker.replace(&[listed("a")]).expect("its own");
        for act in
            [Tracker::claim, |tracker: &mut Tracker, log: &wal::Log, _: &[Listed]| tracker.write_for(log)]
        {
            let (mut tracker, list) = open(300);
            let error = act(&mut tracker, &late, &list).expect_err("taken");
            assert!(error.to_string().contains("new:16020"), "{error}");
        }
        // It had found no list, and creates one with a later time beside that of the owner.
        before.claim(&late, &[]).expect("a name that no list has");
        let (mut tracker, list) = open(400);
        assert_eq!(list, [listed("a")], "the owner's list counts");
        tracker.claim(&owner, &list).expect("its own");
        assert_eq!(tracker.remove_stale().expect("deleted"), 1);
        // A log in another place begins with a small epoch.
        let elsewhere: Arc<dyn Files> = Arc::new(shared());
        let moved = log_of(&elsewhere, "new:16020");
        let (mut tracker, list) = open(500);
        tracker.claim(&moved, &list).expect("it is the only owner");
        assert_eq!(open(600).1, [listed("a")]);
    }

    #[test]
    fn a_write_that_takes_effect_late_is_recognised_by_its_writer() {
        let memory = Memory::with(storage::Capabilities::NONE);
        let (files, store): (Arc<dyn Files>, _) = (Arc::new(memory.clone()), FileName::new("data/ns/t/r/f"));
        let world = World::simulated(1, WallTime(100));
        let (mut tracker, _) =
            Tracker::open(Arc::clone(&files), &store, world.clone(), Access::Owner).expect("new");
        tracker.replace(&[listed("a")]).expect("written");
        // A write whose reply was lost, which the storage carries out only later.
        let Register { name, version, .. } = tracker.current.as_ref().expect("there");
        let (name, version) = (name.clone(), version.clone());
        let late = tracker.encode(101, &[listed("late")]);
        tracker.doubt = Some(name.clone());
        files.swap(&name, Some(&version), &late).expect("as it expects");
        tracker.replace(&[listed("b")]).expect("over its own late one");
        assert!(!tracker.is_in_doubt());
        let (_, list) = Tracker::open(files, &store, world, Access::Owner).expect("again");
        assert_eq!(list, [listed("b")]);
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
    fn the_next_list_replaces_one_of_unknown_outcome() {
        let memory = Memory::new();
        let store = FileName::new("data/ns/t/r/f");
        // First the clock does not move between two lists; then it is set back.
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
