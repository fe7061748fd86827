//! A file system for tests. A test makes it lose unsynced data, tear the last write, fill up or fail, and chooses its
//! [capabilities](Capability).
//!
//! Every file has two lengths: what was written, and what is durable. A [crash](Memory::crash) returns the storage as
//! the next process would find it. The seed decides that
//!
//! 1. a name that was never synced is absent or present;
//! 2. a deleted name is present again, unless its folder was synced since;
//! 3. bytes past the durable length are cut anywhere, read as zeros from anywhere on (the length reached the disk, the
//!    blocks did not), or have a hole of zeros (blocks are written in any order). In reused space the bytes of the old
//!    file are there instead of zeros, and nothing is cut;
//! 4. an object whose swap was reported as *may have happened*, and was not settled or synced since, has its old
//!    content or the new. (Where files appear only when they are durable, such a swap has happened.)
//!
//! Calls that change something are counted, so that a test can fail each one in turn.
//!
//! Reads can be [delayed](Memory::delay_reads): then they take time and can be awaited, as on an object store.

mod delayed_reads;
mod file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use env::sync::Mutex;

use crate::{
    AwaitedRead, Capabilities, Capability, Entry, Error, FileName, FileReader, FileWriter, Files, Kind,
    Object, Outcome, ReserveState, Result, Settled, Version,
};

use delayed_reads::DelayedReads;
use file::{File, numbers, tear};

pub use delayed_reads::{ReadCounts, ReadDelay};

/// Storage in memory, for tests. Clones share it.
#[derive(Clone)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    capabilities: Capabilities,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

#[derive(Default)]
struct State {
    files: BTreeMap<FileName, File>,
    /// Durable files whose names were deleted from folders that were not synced since.
    deleted: BTreeMap<FileName, File>,
    /// For each object whose last swap may have happened: the content that a crash may bring back; `None` if that is no
    /// object.
    unsettled: BTreeMap<FileName, Option<File>>,
    acts: u64,
    fault: Option<Fault>,
    bytes_max: Option<u64>,
    /// The size of the reserve in bytes, and whether it is spent; `None` without one.
    reserve: Option<(u64, bool)>,
    dead: bool,
    delayed: Option<Arc<DelayedReads>>,
    /// Number of reads of open files.
    reads: Arc<AtomicU64>,
}

/// An injected failure.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Which change fails, counted from 1 over all creates, writes, syncs, cuts, finishes, seals, swaps, settles and
    /// deletes.
    pub act: u64,
    /// The kind of the error that the call reports.
    pub kind: Kind,
    /// Whether the change happens in spite of the reported failure.
    pub outcome: Outcome,
    /// Whether every later call fails, too, as for a process that was killed during this call.
    pub last: bool,
}

impl Fault {
    /// Returns the fault of a change that happens but reports failure; later calls succeed.
    pub fn false_alarm(act: u64) -> Fault {
        Fault { act, kind: Kind::Failed, outcome: Outcome::MayHaveHappened, last: false }
    }
}

impl Memory {
    /// Creates empty storage with all capabilities.
    pub fn new() -> Memory {
        Memory::with(Capabilities::ALL)
    }

    /// Creates empty storage with these capabilities.
    pub fn with(capabilities: Capabilities) -> Memory {
        Memory { state: Arc::default(), capabilities }
    }

    /// Returns a storage of the same size with other files.
    fn with_files(&self, files: BTreeMap<FileName, File>, state: &State) -> Memory {
        let state = State { files, bytes_max: state.bytes_max, reserve: state.reserve, ..State::default() };
        Memory { state: Arc::new(Mutex::new(state)), capabilities: self.capabilities }
    }

    fn check(&self, needed: Capability, name: &FileName, act: &'static str) -> Result<()> {
        if self.capabilities.has(needed) { Ok(()) } else { Err(Error::unsupported(name, act, needed)) }
    }

    fn create_as(&self, name: &FileName, is_reserved: bool) -> Result<Box<dyn FileWriter>> {
        let mut state = self.state.lock();
        let failure = state.act(name, "create")?;
        let (bytes, sealed) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicBool>::default());
        let published = self.capabilities.has(Capability::SyncPrefix);
        // Such storage checks the name only when the file is finished, like an object store.
        if published {
            if state.files.contains_key(name) {
                return Err(Error::new(Kind::Exists, Outcome::DidNotHappen, name, "create"));
            }
            let file = File {
                bytes: Arc::clone(&bytes),
                durable: 0,
                lost: false,
                named: false,
                sealed: Arc::clone(&sealed),
                under: Vec::new(),
            };
            state.files.insert(name.clone(), file);
        }
        drop(state);
        done(failure)?;
        Ok(Box::new(Writer {
            place: self.clone(),
            name: name.clone(),
            bytes,
            size: 0,
            old: 0,
            published,
            sealed,
            is_reserved,
        }))
    }

    /// Returns the number of changes so far: creates, writes, syncs, cuts, finishes, seals, swaps, settles and deletes.
    pub fn acts(&self) -> u64 {
        self.state.lock().acts
    }

    /// Injects one failure, or removes the injected one.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state.lock().fault = fault;
    }

    /// Delays the reads of files that are opened from now on: they take `delay`, can be awaited, and at most
    /// `at_once_max` run at once.
    pub fn delay_reads(&self, delay: ReadDelay, at_once_max: usize) {
        self.state.lock().delayed = Some(Arc::new(DelayedReads::new(delay, at_once_max)));
    }

    /// Completes `count` more awaited reads of [`ReadDelay::UntilCompleted`].
    pub fn complete_reads(&self, count: usize) {
        if let Some(delayed) = &self.state.lock().delayed {
            delayed.complete(count);
        }
    }

    /// Returns the counts of awaited reads since [`delay_reads`](Memory::delay_reads) was called.
    pub fn read_counts(&self) -> ReadCounts {
        let none = ReadCounts { begun: 0, running: 0, running_most: 0 };
        self.state.lock().delayed.as_ref().map_or(none, |delayed| delayed.counts())
    }

    /// Returns the number of reads of open files so far, blocking and awaited.
    pub fn reads(&self) -> u64 {
        self.state.lock().reads.load(Ordering::Relaxed)
    }

    /// Returns the total size of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes()
    }

    /// Limits the total size of all files, in bytes; a write beyond the limit fails as on a full disk. `None` removes
    /// the limit.
    pub fn set_bytes_max(&self, bytes_max: Option<u64>) {
        self.state.lock().bytes_max = bytes_max;
    }

    /// Keeps a reserve of `bytes` from now on, which counts as used until it is spent.
    pub fn set_reserve(&self, bytes: u64) {
        self.state.lock().reserve = Some((bytes, false));
    }

    /// Returns the storage after a loss of power: durable bytes survive, and `seed` decides about the others. Every
    /// further call on the old storage fails.
    pub fn crash(&self, seed: u64) -> Memory {
        let mut state = self.state.lock();
        state.dead = true;
        let mut next = numbers(seed);
        let mut files = BTreeMap::new();
        for (name, file) in &state.deleted {
            if next().is_multiple_of(2) {
                files.insert(name.clone(), File::durable(file.bytes.lock().clone()));
            }
        }
        for (name, file) in &state.files {
            if !file.named && next().is_multiple_of(2) {
                continue;
            }
            let mut bytes = file.bytes.lock().clone();
            if let Some(kept) = tear(&mut bytes, file.durable, &file.under, &mut next) {
                bytes.truncate(kept);
            }
            files.insert(name.clone(), File::durable(bytes));
        }
        for (name, before) in &state.unsettled {
            if next().is_multiple_of(2) {
                match before {
                    Some(before) => files.insert(name.clone(), before.clone()),
                    None => files.remove(name),
                };
            }
        }
        self.with_files(files, &state)
    }

    /// Returns the storage after the process was killed: the system keeps every written byte; without
    /// [`Capability::WriteThrough`] only the synced ones.
    pub fn kill(&self) -> Memory {
        let copy = self.copy();
        if !self.capabilities.has(Capability::WriteThrough) {
            for file in copy.state.lock().files.values_mut() {
                file.bytes.lock().truncate(file.durable);
            }
        }
        self.state.lock().dead = true;
        copy
    }

    /// Returns a copy of the storage as it is now, with what a later crash may bring back; afterwards each changes
    /// independently.
    pub fn copy(&self) -> Memory {
        let state = self.state.lock();
        let copy = |file: &File| {
            let bytes = file.bytes.lock().clone();
            let sealed = Arc::new(AtomicBool::new(file.sealed.load(Ordering::SeqCst)));
            File { bytes: Arc::new(Mutex::new(bytes)), sealed, ..file.clone() }
        };
        let copies = |files: &BTreeMap<FileName, File>| {
            files.iter().map(|(name, file)| (name.clone(), copy(file))).collect()
        };
        let unsettled = &state.unsettled;
        let copied = State {
            files: copies(&state.files),
            deleted: copies(&state.deleted),
            unsettled: unsettled
                .iter()
                .map(|(name, before)| (name.clone(), before.as_ref().map(copy)))
                .collect(),
            bytes_max: state.bytes_max,
            reserve: state.reserve,
            ..State::default()
        };
        Memory { state: Arc::new(Mutex::new(copied)), capabilities: self.capabilities }
    }

    /// Does to the bytes of a file that are not durable what Linux may do when a sync fails: it calls them clean. Readers see
    /// them until a crash or a [`forget`](Files::forget), and later syncs report success without making them durable. Does
    /// nothing if there is no such file.
    pub fn lose_unsynced(&self, name: &FileName) {
        if let Some(file) = self.state.lock().files.get_mut(name) {
            file.lose();
        }
    }

    /// Changes a file's bytes without a call, as a failing device does.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn damage(&self, name: &FileName, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        let file = state.files.get_mut(name).expect("the file to damage is there");
        change(&mut file.bytes.lock());
        file.sync();
    }
}

impl State {
    /// Counts a change, and returns the injected failure if this change must fail. `Ok(Some(…))` is a failure to report
    /// after the change has happened.
    fn act(&mut self, name: &FileName, act: &'static str) -> Result<Option<Error>> {
        if self.dead {
            return Err(
                Error::new(Kind::Failed, Outcome::DidNotHappen, name, act).because("the place is gone")
            );
        }
        self.acts += 1;
        match self.fault {
            Some(fault) if fault.act == self.acts => {
                self.dead = fault.last;
                let error = Error::new(fault.kind, fault.outcome, name, act).because("an injected fault");
                if fault.outcome == Outcome::MayHaveHappened { Ok(Some(error)) } else { Err(error) }
            }
            _ => Ok(None),
        }
    }

    /// Loses the bytes of a file whose sync has failed. If the process was killed instead, the system still has them and
    /// writes them.
    fn lose_if_failed(&mut self, name: &FileName, synced: Result<Option<Error>>) -> Result<Option<Error>> {
        if synced.is_err()
            && !self.dead
            && let Some(file) = self.files.get_mut(name)
        {
            file.lose();
        }
        synced
    }

    fn remove(&mut self, name: &FileName) {
        if let Some(file) = self.files.remove(name)
            && file.named
        {
            self.deleted.insert(name.clone(), file);
        }
    }

    fn content(&self, name: &FileName) -> Option<Vec<u8>> {
        self.files.get(name).map(|file| file.bytes.lock().clone())
    }

    /// Syncs the folder of `name`: deletions and swaps in it survive a crash.
    fn sync_folder_of(&mut self, name: &FileName) {
        let Some(folder) = name.parent() else { return };
        let is_elsewhere = |other: &FileName| other.below(&folder).is_none_or(|rest| rest.contains('/'));
        self.deleted.retain(|deleted, _| is_elsewhere(deleted));
        self.unsettled.retain(|swapped, _| is_elsewhere(swapped));
    }

    fn has_room(&self, more: usize) -> bool {
        let reserved = self.reserve.filter(|(_, is_spent)| !is_spent).map_or(0, |(bytes, _)| bytes);
        self.bytes_max.is_none_or(|limit| self.bytes() + reserved + more as u64 <= limit)
    }

    fn reserve_state(&self) -> ReserveState {
        match self.reserve {
            None => ReserveState::None,
            Some((_, false)) => ReserveState::Kept,
            Some((_, true)) => ReserveState::Spent,
        }
    }

    /// Spends the reserve. Returns whether there was one.
    fn spend_reserve(&mut self) -> bool {
        let is_kept = self.reserve_state() == ReserveState::Kept;
        self.reserve = self.reserve.map(|(bytes, _)| (bytes, true));
        is_kept
    }

    /// Returns the total size of all files, in bytes.
    fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes.lock().len() as u64).sum()
    }

    /// Whether the content of `name` is `expected`; `None` if there is no such file.
    fn is_content(&self, name: &FileName, expected: Option<&[u8]>) -> bool {
        match (self.files.get(name), expected) {
            (Some(file), Some(expected)) => *file.bytes.lock() == expected,
            (None, None) => true,
            _ => false,
        }
    }

    /// Returns the files below `folder`.
    fn below(&self, folder: &FileName) -> impl Iterator<Item = (&FileName, &File)> {
        // Names with the folder's name as a prefix are neighbours, and those below it are among them.
        let from = self.files.range(folder..);
        from.take_while(|(name, _)| name.as_str().starts_with(folder.as_str()))
            .filter(|(name, _)| name.below(folder).is_some())
    }
}

fn done(failure: Option<Error>) -> Result<()> {
    failure.map_or(Ok(()), Err)
}

impl Files for Memory {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn create(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.create_as(name, false)
    }

    fn create_reserved(&self, name: &FileName) -> Result<Box<dyn FileWriter>> {
        self.create_as(name, true)
    }

    fn reuse_space(
        &self,
        name: &FileName,
        given_up: &FileName,
        marker: &[u8],
    ) -> Result<Box<dyn FileWriter>> {
        self.check(Capability::ReuseSpace, name, "create")?;
        let mut state = self.state.lock();
        let failure = state.act(given_up, "mark")?;
        let file = state
            .files
            .get(given_up)
            .ok_or_else(|| Error::new(Kind::NotFound, Outcome::DidNotHappen, given_up, "create"))?;
        let bytes = Arc::clone(&file.bytes);
        bytes.lock()[..marker.len()].copy_from_slice(marker);
        done(failure)?;
        let failure = state.act(name, "create")?;
        if state.files.contains_key(name) {
            return Err(Error::new(Kind::Exists, Outcome::DidNotHappen, name, "create"));
        }
        let under = bytes.lock().clone();
        let (size, sealed) = (under.len(), Arc::<AtomicBool>::default());
        state.files.remove(given_up);
        state.files.insert(
            name.clone(),
            File {
                bytes: Arc::clone(&bytes),
                durable: 0,
                lost: false,
                named: true,
                sealed: Arc::clone(&sealed),
                under,
            },
        );
        state.sync_folder_of(name);
        drop(state);
        done(failure)?;
        Ok(Box::new(Writer {
            place: self.clone(),
            name: name.clone(),
            bytes,
            size: 0,
            old: size,
            published: true,
            sealed,
            is_reserved: true,
        }))
    }

    fn open(&self, name: &FileName) -> Result<Arc<dyn FileReader>> {
        let state = self.state.lock();
        let file = state
            .files
            .get(name)
            .ok_or_else(|| Error::new(Kind::NotFound, Outcome::DidNotHappen, name, "open"))?;
        let size = file.bytes.lock().len() as u64;
        let deletable = (!self.capabilities.has(Capability::ReadAfterDelete)).then(|| self.clone());
        Ok(Arc::new(Reader {
            bytes: Arc::clone(&file.bytes),
            name: name.clone(),
            size,
            deletable,
            delayed: state.delayed.clone(),
            reads: Arc::clone(&state.reads),
        }))
    }

    fn sync(&self, name: &FileName) -> Result<()> {
        if !self.capabilities.has(Capability::SyncPrefix) {
            return Ok(());
        }
        let mut state = self.state.lock();
        let failure = state.act(name, "sync");
        let failure = state.lose_if_failed(name, failure)?;
        let file = state
            .files
            .get_mut(name)
            .ok_or_else(|| Error::new(Kind::NotFound, Outcome::DidNotHappen, name, "sync"))?;
        file.sync();
        file.named = true;
        state.sync_folder_of(name);
        done(failure)
    }

    fn forget(&self, name: &FileName) {
        if let Some(file) = self.state.lock().files.get_mut(name) {
            file.forget();
        }
    }

    fn seal(&self, name: &FileName) -> Result<()> {
        self.check(Capability::SyncPrefix, name, "seal")?;
        let mut state = self.state.lock();
        let failure = state.act(name, "seal")?;
        let file = state.files.get_mut(name);
        let file = file.ok_or_else(|| Error::new(Kind::NotFound, Outcome::DidNotHappen, name, "seal"))?;
        file.sealed.store(true, Ordering::SeqCst);
        done(failure)
    }

    fn list(&self, folder: &FileName) -> Result<Vec<Entry>> {
        let state = self.state.lock();
        Ok(state
            .below(folder)
            .map(|(name, file)| Entry { name: name.clone(), size: file.bytes.lock().len() as u64 })
            .collect())
    }

    fn delete(&self, name: &FileName) -> Result<()> {
        let mut state = self.state.lock();
        let failure = state.act(name, "delete")?;
        state.remove(name);
        done(failure)
    }

    fn load(&self, name: &FileName, bytes_max: usize) -> Result<Object> {
        let content = self
            .state
            .lock()
            .content(name)
            .ok_or_else(|| Error::new(Kind::NotFound, Outcome::DidNotHappen, name, "read"))?;
        if content.len() > bytes_max {
            return Err(Error::new(Kind::TooLarge, Outcome::DidNotHappen, name, "read")
                .because(format!("{} bytes, at most {bytes_max} expected", content.len())));
        }
        let version = Version::new(content.as_slice());
        Ok(Object { content, version })
    }

    fn swap(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Version> {
        let mut state = self.state.lock();
        let failure = state.act(name, "swap")?;
        if !state.is_content(name, expected.map(Version::as_bytes)) {
            return Err(Error::new(Kind::Conflict, Outcome::DidNotHappen, name, "swap"));
        }
        let has_room = state.has_room(new.len()) || state.spend_reserve() && state.has_room(new.len());
        if !has_room {
            return Err(Error::new(Kind::Full, Outcome::DidNotHappen, name, "swap"));
        }
        let before = state.files.insert(name.clone(), File::durable(new.to_vec()));
        if failure.is_some() && self.capabilities.has(Capability::SyncPrefix) {
            state.unsettled.entry(name.clone()).or_insert(before);
        } else {
            state.sync_folder_of(name);
        }
        done(failure)?;
        Ok(Version::new(new))
    }

    fn settle(&self, name: &FileName, expected: Option<&Version>, new: &[u8]) -> Result<Settled> {
        let mut state = self.state.lock();
        done(state.act(name, "settle")?)?;
        state.sync_folder_of(name);
        Ok(Settled::of(state.content(name).as_deref(), expected, new))
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn bytes_free(&self) -> Result<u64> {
        self.check(Capability::FreeSpace, &FileName::root(), "measure the space of")?;
        let state = self.state.lock();
        Ok(state.bytes_max.map_or(u64::MAX, |limit| limit.saturating_sub(state.bytes())))
    }

    fn keep_reserve(&self) -> Result<ReserveState> {
        let mut state = self.state.lock();
        if let Some((bytes, true)) = state.reserve
            && state.has_room(2 * bytes as usize)
        {
            state.reserve = Some((bytes, false));
        }
        Ok(state.reserve_state())
    }

    fn spend_reserve(&self) -> bool {
        self.state.lock().spend_reserve()
    }

    fn reserve_state(&self) -> ReserveState {
        self.state.lock().reserve_state()
    }
}

struct Writer {
    place: Memory,
    name: FileName,
    bytes: Arc<Mutex<Vec<u8>>>,
    size: usize,
    /// Size of the old file whose space is reused, in bytes.
    old: usize,
    /// Whether readers see the file before it is finished.
    published: bool,
    sealed: Arc<AtomicBool>,
    /// Whether the file may use a spent reserve.
    is_reserved: bool,
}

impl Writer {
    /// Fails when the file was sealed. The caller holds the lock of the state.
    fn check_seal(&self, act: &'static str) -> Result<()> {
        match self.sealed.load(Ordering::SeqCst) {
            true => Err(Error::new(Kind::Sealed, Outcome::DidNotHappen, &self.name, act)),
            false => Ok(()),
        }
    }

    fn make_durable(&self, act: &'static str) -> Result<()> {
        let mut state = self.place.state.lock();
        self.check_seal(act)?;
        let failure = state.act(&self.name, act);
        let failure = state.lose_if_failed(&self.name, failure)?;
        if act == "finish" {
            self.bytes.lock().truncate(self.size);
            if !self.published {
                if state.files.contains_key(&self.name) {
                    return Err(Error::new(Kind::Exists, Outcome::DidNotHappen, &self.name, act));
                }
                let file = File {
                    bytes: Arc::clone(&self.bytes),
                    durable: 0,
                    lost: false,
                    named: false,
                    sealed: Arc::clone(&self.sealed),
                    under: Vec::new(),
                };
                state.files.insert(self.name.clone(), file);
            }
        }
        // If the file was deleted while it was written, there is nothing to make durable.
        if let Some(file) = state.files.get_mut(&self.name)
            && Arc::ptr_eq(&file.bytes, &self.bytes)
        {
            file.sync_to(self.size);
            if act == "finish" {
                file.under.clear();
            }
            if !std::mem::replace(&mut file.named, true) {
                state.sync_folder_of(&self.name);
            }
        }
        done(failure)
    }
}

/// Writes `bytes` after the first `size`, and zeros after them where old bytes until `old` would follow. Returns the
/// new size.
fn put(file: &Mutex<Vec<u8>>, size: usize, old: usize, bytes: &[u8]) -> usize {
    let mut all = file.lock();
    let end = size + bytes.len();
    if all.len() < end {
        all.resize(end, 0);
    }
    all[size..end].copy_from_slice(bytes);
    if end < old {
        let to = (crate::zeros_to(end as u64) as usize).min(old);
        all[end..to].fill(0);
    }
    end
}

impl FileWriter for Writer {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.place.state.lock();
        self.check_seal("write")?;
        let failure = state.act(&self.name, "write")?;
        if let Some((reserve, true)) = state.reserve
            && !self.is_reserved
            && !state.has_room(bytes.len() + reserve as usize / 2)
        {
            return Err(crate::reserve::is_spent(&self.name));
        }
        // Overwriting old bytes needs no space.
        let over = self.old.saturating_sub(self.size);
        let unseen = if self.published { 0 } else { self.size };
        let has_room = |part: usize| state.has_room(unseen + part.saturating_sub(over));
        if !has_room(bytes.len()) {
            // As on a full disk, as many bytes are written as fit.
            let fits = (0..bytes.len()).rev().find(|&part| has_room(part)).unwrap_or(0);
            self.size = put(&self.bytes, self.size, self.old, &bytes[..fits]);
            return Err(Error::new(Kind::Full, Outcome::MayHaveHappened, &self.name, "write"));
        }
        self.size = put(&self.bytes, self.size, self.old, bytes);
        drop(state);
        done(failure)
    }

    fn cut(&mut self, size: u64) -> Result<()> {
        self.place.check(Capability::Cut, &self.name, "cut")?;
        let mut state = self.place.state.lock();
        self.check_seal("cut")?;
        let failure = state.act(&self.name, "cut")?;
        let size = size as usize;
        self.bytes.lock().truncate(size);
        (self.size, self.old) = (size, 0);
        if let Some(file) = state.files.get_mut(&self.name)
            && Arc::ptr_eq(&file.bytes, &self.bytes)
        {
            file.lost &= size > file.durable;
            file.durable = file.durable.min(size);
            file.under.truncate(size);
        }
        drop(state);
        done(failure)
    }

    fn sync(&mut self) -> Result<()> {
        self.place.check(Capability::SyncPrefix, &self.name, "sync")?;
        self.make_durable("sync")
    }

    fn size(&self) -> u64 {
        self.size as u64
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        self.make_durable("finish")?;
        Ok(self.size())
    }

    fn abandon(self: Box<Self>) {
        let mut state = self.place.state.lock();
        if self.published && !state.dead {
            state.remove(&self.name);
        }
    }
}

#[derive(Clone)]
struct Reader {
    bytes: Arc<Mutex<Vec<u8>>>,
    name: FileName,
    size: u64,
    /// The storage that is asked whether the file still exists before each read; `None` if deleted files can be read.
    deletable: Option<Memory>,
    delayed: Option<Arc<DelayedReads>>,
    reads: Arc<AtomicU64>,
}

impl FileReader for Reader {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = &self.deletable {
            let state = place.state.lock();
            if state.files.get(&self.name).is_none_or(|file| !Arc::ptr_eq(&file.bytes, &self.bytes)) {
                return Err(Error::new(Kind::NotFound, Outcome::DidNotHappen, &self.name, "read"));
            }
        }
        let bytes = self.bytes.lock();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        match from.checked_add(buffer.len()).and_then(|to| bytes.get(from..to)) {
            Some(found) => {
                buffer.copy_from_slice(found);
                Ok(())
            }
            None => Err(Error::new(Kind::TooShort, Outcome::DidNotHappen, &self.name, "read").because(
                format!("{} bytes at offset {offset} expected, the file has {}", buffer.len(), bytes.len()),
            )),
        }
    }

    fn read_awaited(&self, offset: u64, length: usize) -> Option<AwaitedRead> {
        let (delayed, reader) = (Arc::clone(self.delayed.as_ref()?), self.clone());
        Some(Box::pin(async move {
            delayed.read().await;
            let mut bytes = vec![0; length];
            reader.read_at(offset, &mut bytes)?;
            Ok(Bytes::from(bytes))
        }))
    }
}
