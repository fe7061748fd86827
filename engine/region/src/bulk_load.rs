//! Bulk load: files that a job has written become files of the region's stores, all of them or none.
//!
//! 1. Each file is checked: its family exists, and its rows are in the region. Nothing has changed yet.
//! 2. A file that is in another storage, or that the caller keeps, is copied into the store's folder under a random
//!    name. No list names the copy, but the janitor keeps it.
//! 3. The load chooses a sequence id that no write will have reached when step 4 has ended. The file, or its copy, is linked
//!    to its final name, `<digest>_SeqId_<id>_`. As in HBase the name contains the sequence id, and for readers all cells
//!    of the file have this id. It is 0 for a load whose cells count as older than all others. In an object store or HDFS
//!    a link is a copy of all bytes, so the region takes writes as usual until here.
//! 4. A flush writes all earlier writes to files, and the load takes its sequence id under the same lock; later writes get
//!    greater ones. Replay skips log records that are older than a store's newest file, so no older write may be only in
//!    memory. From now on writes are acknowledged after the load.
//! 5. If there are several stores, the load is recorded in the region's [intent](intent).
//! 6. Each store's list is replaced. From the first list on a crash does not undo the load: the next opening completes
//!    it. The sequence id is completed only after that, so a reader sees the files of all
//!    families or of none.
//! 7. A marker in the log tells followers of the files. The load ends when it is durable there.
//!
//! A crash before step 6 leaves files that no list names, and the janitor deletes them. After a later crash the load is
//! completed when the region is opened.
//!
//! **Repeated calls.** A call may be repeated because its response was lost. The digest in the name is made of the
//! load's token, the region, the family and the file's path. So the repeated call finds its files and does nothing.
//! While the region is open, it remembers the digests of the last 4096 loaded files, because a compaction may have
//! replaced them. A load without a token is not recognized.

mod intent;

use std::sync::Arc;

use bytes::Bytes;
use cache::Cache;
use cell::{SequenceId, string_binary};
use hfile::Reader;
use md5::{Digest, Md5};
use storage::{Capability, FileName, FileReader, Kind};
use wal::StoreChange;

use crate::commit::Commit;
use crate::mvcc::Awaits;
use crate::open_files::PinnedFile;
use crate::recent_loads::RecentLoads;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{FileOpener, StoreFile, StoreFileName};
use crate::tracker::Listed;
use crate::{BulkLoadRefusal, Busy, Error, FlushReason, Result};

pub(crate) use intent::roll_forward;

/// Number of sequence ids that are left to the writes during a load, at least, and for each 64 bytes of its files one more.
/// Copying at 10 MB/s leaves 160,000 a second; the flush after it leaves any number that a region can write.
const SEQUENCES_AHEAD: u64 = 1 << 24;
const BYTES_OF_SEQUENCE: u64 = 64;

/// Size in bytes of a separate cache for the blocks of files that are being checked.
const CHECK_CACHE_BYTES: usize = 1 << 20;

/// A file to be loaded.
pub struct BulkFile {
    /// The family that the file is loaded into.
    pub family: Bytes,
    /// The file's path as the client named it.
    pub path: String,
    /// The file, or the reason why it cannot be opened.
    pub file: storage::Result<Arc<dyn FileReader>>,
    /// The file's name in the region's own storage; `None` if it is elsewhere.
    pub within: Option<FileName>,
}

/// The files that are loaded together.
pub struct BulkLoad {
    /// The files of the load.
    pub files: Vec<BulkFile>,
    /// Whether the loaded cells count as newer than all earlier writes. If not, they count as older than all of them.
    pub assign_sequence: bool,
    /// Whether the bytes are copied even within one storage, because the caller keeps its files.
    pub copy: bool,
    /// Identifies the load in repeated calls; `None` if each call is a load of its own.
    pub token: Option<String>,
}

/// The result of a bulk load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkLoadOutcome {
    /// The files are in the region, durably.
    Loaded {
        /// Number of bytes of the loaded files.
        bytes: u64,
    },
    /// An earlier call has loaded these files.
    LoadedBefore,
    /// Some files, whose paths are given, have rows of other regions, probably because the region was split. Nothing
    /// was loaded.
    DoesNotFit(Vec<String>),
}

/// A file whose bytes are in the region's own storage, and that has no final name yet.
struct Staged<'a> {
    store: &'a Store,
    /// The digest with which the final name begins.
    digest: String,
    /// The file that has the bytes.
    place: FileName,
    /// Whether this load has created that file, and must remove it if the load fails.
    is_copy: bool,
    _pin: Option<PinnedFile>,
}

/// A file under its final name.
struct Arrived<'a> {
    store: &'a Store,
    file: Arc<StoreFile>,
    _pin: PinnedFile,
}

impl Region {
    /// Loads files into the region: all of them or none, also across a crash. Blocks on storage, for as long as it
    /// takes to copy the files that are not in the region's own storage.
    ///
    /// The caller's files stay. After [`BulkLoadOutcome::Loaded`] or [`BulkLoadOutcome::LoadedBefore`] the caller may
    /// delete them.
    pub fn bulk_load(&self, load: &BulkLoad) -> Result<BulkLoadOutcome> {
        let mut recent = self.bulk_loads.lock();
        // Checked after the wait for the lock, because the previous load may have aborted the region.
        self.check_serving()?;
        self.check_owner()?;
        if self.read_only {
            return Err(Error::ReadOnly(string_binary(self.info.name()).to_string()));
        }
        self.log.admits()?;
        if self.is_loaded(load, &recent) {
            return Ok(BulkLoadOutcome::LoadedBefore);
        }
        let misfits = self.check_files(load)?;
        if !misfits.is_empty() {
            return Ok(BulkLoadOutcome::DoesNotFit(misfits));
        }
        let mut staged = Vec::with_capacity(load.files.len());
        let loaded = load
            .files
            .iter()
            .try_for_each(|file| self.stage(load, file).map(|file| staged.push(file)))
            .and_then(|()| self.load_staged(load, &staged, self.sequence_ahead(load)));
        for file in staged.iter().filter(|file| file.is_copy) {
            // If the file cannot be deleted now, the janitor deletes it later, because no list names it.
            let _left = self.files.delete(&file.place);
        }
        let bytes = loaded?;
        staged.into_iter().for_each(|file| recent.add(file.digest));
        Ok(BulkLoadOutcome::Loaded { bytes })
    }

    /// Whether an earlier call of the same load has loaded its files.
    fn is_loaded(&self, load: &BulkLoad, recent: &RecentLoads) -> bool {
        let is_there = |file: &BulkFile| {
            let Some(digest) = self.digest(load, file) else { return false };
            let Ok(store) = self.store(&file.family) else { return false };
            let is_listed = |listed: &Arc<StoreFile>| listed.listed.name.starts_with(&digest);
            recent.contains(&digest) || store.view.load().files.iter().any(is_listed)
        };
        !load.files.is_empty() && load.files.iter().all(is_there)
    }

    /// Returns the digest with which a loaded file's name begins; `None` if each call is a load of its own.
    fn digest(&self, load: &BulkLoad, file: &BulkFile) -> Option<String> {
        let mut md5 = Md5::new();
        for part in [load.token.as_ref()?.as_bytes(), self.info.name(), &file.family, file.path.as_bytes()] {
            md5.update((part.len() as u64).to_be_bytes());
            md5.update(part);
        }
        Some(md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Checks the files, and returns the paths of those that have rows of other regions.
    fn check_files(&self, load: &BulkLoad) -> Result<Vec<String>> {
        let mut misfits = Vec::new();
        let cache = Arc::new(Cache::with_bytes(CHECK_CACHE_BYTES));
        for BulkFile { family, path, file, .. } in &load.files {
            let store = self
                .store_for_puts(family)
                .map_err(|_| BulkLoadRefusal::NoSuchFamily { family: string_binary(family).to_string() })?;
            let file = file.as_ref().map_err(storage::Error::clone)?;
            let caching = Store::caching(&self.info, &store.options());
            let name = name_in_messages(path);
            let reader = Reader::open(Arc::clone(file), name, Arc::clone(&cache), caching)?;
            let (Some(first), Some(last)) = (reader.first_key(), reader.last_key()) else {
                return Err(BulkLoadRefusal::NoCells { path: path.clone() }.into());
            };
            if reader.comparator() != store.comparator {
                let table = self.info.table().clone();
                return Err(BulkLoadRefusal::OtherOrder { path: path.clone(), table }.into());
            }
            if first.family() != family {
                let [family, found] = [&**family, first.family()].map(|name| string_binary(name).to_string());
                return Err(BulkLoadRefusal::OtherFamily { path: path.clone(), family, found }.into());
            }
            if !(self.info.contains_row(first.row()) && self.info.contains_row(last.row())) {
                misfits.push(path.clone());
            }
        }
        Ok(misfits)
    }

    /// Copies a file into the store's folder. Does not copy a file that is in the region's own storage, unless the load
    /// asks for copies.
    fn stage(&self, load: &BulkLoad, file: &BulkFile) -> Result<Staged<'_>> {
        let store = self.store(&file.family)?;
        let random = || format!("{:016x}{:016x}", self.world.random(), self.world.random());
        let digest = self.digest(load, file).unwrap_or_else(random);
        if let (Some(within), false) = (&file.within, load.copy) {
            return Ok(Staged { store, digest, place: within.clone(), is_copy: false, _pin: None });
        }
        let place = store.folder.join(&random());
        let pin = self.pin_new(&place)?;
        let source = file.file.as_ref().map_err(storage::Error::clone)?;
        match storage::copy(&**source, &*self.files, &place) {
            Ok(_) => Ok(Staged { store, digest, place, is_copy: true, _pin: Some(pin) }),
            Err(error) => {
                // A part of the copy may be there. If it cannot be deleted now, the janitor deletes it later.
                let _left = self.files.delete(&place);
                Err(explain_copy(error, &file.path, source.size(), &place).into())
            }
        }
    }

    fn pin_new(&self, place: &FileName) -> Result<PinnedFile> {
        let pin = self.options.open_files.pin(place);
        pin.ok_or_else(|| Busy::FileCondemned { file: place.clone() }.into())
    }

    /// Returns a sequence id that writes will not reach before the files of the load have their final names.
    fn sequence_ahead(&self, load: &BulkLoad) -> SequenceId {
        let bytes: u64 = load.files.iter().flat_map(|file| &file.file).map(|file| file.size()).sum();
        SequenceId(self.write.lock().last_sequence.0 + SEQUENCES_AHEAD + bytes / BYTES_OF_SEQUENCE)
    }

    /// Loads files whose bytes are in the region's storage, with this sequence id, and returns the number of bytes.
    fn load_staged(&self, load: &BulkLoad, staged: &[Staged<'_>], sequence: SequenceId) -> Result<u64> {
        let given = if load.assign_sequence { sequence } else { SequenceId::ZERO };
        let mut arrived = Vec::with_capacity(staged.len());
        let named = staged
            .iter()
            .try_for_each(|file| self.name_finally(file, given, sequence).map(|file| arrived.push(file)))
            // This flush writes most of the memory. So the second one is short, during which no write is acknowledged.
            .and_then(|()| self.flush_stores(&[], FlushReason::Requested));
        let give_up = |error| {
            arrived.iter().for_each(|Arrived { store, file, .. }| store.give_up(file));
            error
        };
        named.map_err(give_up)?;
        // Held until the files are listed, so that no flush lists a file with later writes before them.
        let alone = self.flushing.lock();
        let mut taken = Err(Error::NotServing(string_binary(self.info.name()).to_string()));
        let flushed = self.flush_alone(&alone, &[], FlushReason::Requested, &mut |state| {
            if state.closing {
                return;
            }
            let written = state.last_sequence;
            if written >= sequence {
                taken = Err(Busy::LoadOvertaken { sequence, written }.into());
                return;
            }
            state.last_sequence = sequence;
            self.mvcc.begin(sequence, Awaits::FileLists);
            taken = Ok(());
        });
        if let Err(refused) = taken {
            return Err(give_up(flushed.err().unwrap_or(refused)));
        }
        let loaded = match flushed {
            Ok(_) => self.list(&arrived, sequence, load.assign_sequence),
            Err(error) => Err(give_up(error)),
        };
        if !matches!(loaded, Err(Error::Aborted(_))) {
            self.mvcc.complete(sequence);
        }
        drop(alone);
        if let Some(ticket) = loaded? {
            // If the log fails, the server ends, and followers read the lists when the region is opened again.
            let _failed = self.log.sync_blocking(ticket, wal::Level::Os);
        }
        Ok(arrived.iter().map(|arrived| arrived.file.size()).sum())
    }

    /// Gives a staged file its final name, and opens it. Its cells get the sequence id `given`, and readers see them when
    /// the write `sequence` is complete.
    fn name_finally<'a>(
        &self,
        staged: &Staged<'a>,
        given: SequenceId,
        sequence: SequenceId,
    ) -> Result<Arrived<'a>> {
        // A region that closes during the copies may be opened elsewhere, or its table be dropped.
        self.check_serving()?;
        let store = staged.store;
        let name = StoreFileName::loaded(&staged.digest, given);
        let place = store.folder.join(&name);
        let pin = self.pin_new(&place)?;
        let linked = match self.files.link(&staged.place, &place) {
            Err(error) if error.kind() == Kind::Exists => {
                let source = self.files.open(&staged.place)?;
                let may_be_listed = store.tracker.lock().is_in_doubt();
                if storage::is_copy(&*source, &*self.files, &place)? {
                    // The region may have been opened again, here or by another server, and have loaded and listed the same
                    // file. Or an earlier attempt may have listed it.
                    Ok(())
                } else if may_be_listed {
                    Err(error.because(format!(
                        "an earlier attempt has left a file with other bytes, which the list in {} may name; flush the region \
                         after a write, which ends the doubt, and load the file again",
                        store.folder
                    )))
                } else if self.files.capabilities().has(Capability::SyncPrefix) {
                    // A crash during an earlier attempt may have left an incomplete file with this name. No list of
                    // this region names it, so it is replaced.
                    self.files.delete(&place)?;
                    self.files.link(&staged.place, &place)
                } else {
                    Err(error)
                }
            }
            linked => linked,
        };
        let file = linked.map_err(Error::from).and_then(|()| {
            let opener = FileOpener {
                files: &*self.files,
                cache: &self.cache,
                caching: &Store::caching(&self.info, &store.options()),
                open_files: &self.options.open_files,
            };
            let size = self.files.open(&place)?.size();
            let mut file = StoreFile::open(&opener, &store.folder, Listed { name, size, reference: None })?;
            file.visible_from = sequence;
            Ok(file)
        });
        match file {
            Ok(file) => Ok(Arrived { store, file: Arc::new(file), _pin: pin }),
            Err(error) => {
                store.unlisted.lock().push(place);
                Err(error)
            }
        }
    }

    /// Adds the files to the lists of their stores. Returns the ticket of the marker, from which followers learn of the files.
    fn list(
        &self,
        arrived: &[Arrived<'_>],
        sequence: SequenceId,
        are_newest: bool,
    ) -> Result<Option<wal::Ticket>> {
        let by_store: Vec<(&Store, Vec<Arc<StoreFile>>)> = self
            .stores
            .iter()
            .map(|store| {
                let of_store = arrived.iter().filter(|file| std::ptr::eq(file.store, store));
                (store, of_store.map(|file| Arc::clone(&file.file)).collect::<Vec<_>>())
            })
            .filter(|(_, files)| !files.is_empty())
            .collect();
        let mut changes: Vec<StoreChange> = Vec::with_capacity(by_store.len());
        // While this lock is held, no compaction replaces files. It is held until all files are listed and the intent
        // is forgotten.
        let _whole = self.listing.write();
        let is_noted = by_store.len() > 1 && !env::planted(22);
        if is_noted && let Err(error) = self.write_intent(&by_store, sequence) {
            match error {
                // The intent may be written.
                Error::Aborted(_) => self.keep_for_next_opening(arrived),
                _ => by_store
                    .iter()
                    .for_each(|(store, files)| files.iter().for_each(|file| store.give_up(file))),
            }
            return Err(error);
        }
        for (store, files) in &by_store {
            let commit = Commit {
                remove: &[],
                add: files.clone(),
                are_oldest: !are_newest,
                view: &|view| view.clone(),
                while_closing: true,
                marker: None,
            };
            // If the intent was written, other stores may have their files already. Then an error aborts the region,
            // and the load is completed when the region is opened again.
            let changed = self.commit(store, commit).map_err(|error| match is_noted {
                true => {
                    self.keep_for_next_opening(arrived);
                    self.abort(format!(
                        "bulk load {sequence} is in some families only, and {} failed: {error}; restart the server, \
                         which completes it",
                        store.folder
                    ))
                }
                false => error,
            })?;
            changes.push(changed);
        }
        if is_noted {
            self.forget_intent();
        }
        Ok(self.mark(wal::Kind::BulkLoad, sequence, changes))
    }

    /// Keeps the files of an unfinished load in use as long as the region exists. The next opening completes the load
    /// and needs them, but no list names them yet. A search for unlisted files that began before the abort would
    /// otherwise delete them.
    fn keep_for_next_opening(&self, arrived: &[Arrived<'_>]) {
        self.unfinished_load.lock().extend(arrived.iter().map(|file| Arc::clone(&file.file)));
    }
}

/// Returns a path, as the client wrote it, as a name for messages: without empty parts.
fn name_in_messages(path: &str) -> FileName {
    let parts = path.split(['/', '\0']).filter(|part| !matches!(*part, "" | "." | ".."));
    FileName::new(parts.collect::<Vec<_>>().join("/"))
}

/// Adds to the error of a copy that had no room which file was copied, its size, and what to do.
fn explain_copy(error: storage::Error, path: &str, size: u64, place: &FileName) -> storage::Error {
    if error.kind() != Kind::Full {
        return error;
    }
    storage::Error::new(Kind::Full, error.outcome(), place, "copy a bulk load file to")
        .because(format!("{error}; free {size} bytes for the copy of {path} and load it again"))
}
