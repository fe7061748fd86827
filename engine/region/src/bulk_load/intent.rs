//! The intent of a bulk load into several families: the stored [note](crate::bulk_load_note) because of which all
//! families get their files, or none.
//!
//! 1. The object is written after the files have their final names, and before the first list names one of them.
//! 2. The lists are written. No compaction replaces files before the load has ended.
//! 3. At the end of the load the object is written without a load.
//!
//! **Opening.** An opening finds the load of an owner that died. If a list has one of its files, the load had begun, and
//! each file is added to its list, unless the list has it. If no list has one, nobody was told that the load succeeded,
//! and it is dropped. So each family has its files, or none has. A file that is in no list was not acknowledged either:
//! an acknowledged load is in all its lists until the object no longer has it. If such a file was lost, an error is
//! logged, and the region is opened without it.
//!
//! **Two owners.** In storage that several machines reach, the previous owner may still run. It can write the object and
//! change lists until the new owner has claimed all lists, and the object alone after that.
//!
//! * The new owner reads the object after it has claimed the lists. So it finds every load of which a list has a file.
//! * An owner replaces only the version that it has read at its opening, or has written itself. So the previous owner
//!   cannot write a load any more once the new owner has written the object.
//! * If the new owner finds another version than it knows, the previous owner has written a load that never was in a
//!   list. After a check that it still owns the log, and so the region, the new owner replaces this load. If it never
//!   writes the object, the next opening drops the load, because no list has a file of it.
//!
//! This costs no request: the opening of a region reads the object once, as before, and does not write it. The
//! alternative is to write the object at each opening, one request more for each region.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cell::SequenceId;
use env::sync::RwLockReadGuard;
use prost::Message;
use proto::pb;
use storage::{Capability, FileName, Kind};

use crate::bulk_load_note::{KnownNote, NAME};
use crate::opening::Opening;
use crate::options::Access;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{StoreFile, StoreFileName};
use crate::tracker::{Listed, Tracker};
use crate::{Error, Result};

impl Region {
    fn intent(&self) -> FileName {
        let folder = self.stores.first().and_then(|store| store.folder.parent());
        folder.unwrap_or_else(FileName::root).join(NAME)
    }

    /// Records that these stores get these files. If it is unknown whether the write happened, the region is aborted,
    /// and the next opening finds out. The region is also aborted if the object already has another load, which is not
    /// in all its stores yet.
    pub(super) fn write_intent(
        &self,
        files: &[(&Store, Vec<Arc<StoreFile>>)],
        sequence: SequenceId,
    ) -> Result<()> {
        let table = self.info.table();
        let name = |file: &Arc<StoreFile>| file.listed.name.clone();
        let stores = files.iter().map(|(store, files)| pb::StoreDescriptor {
            family_name: store.family.clone(),
            store_home_dir: String::from_utf8_lossy(&store.family).into_owned(),
            store_file: files.iter().map(name).collect(),
            store_file_size_bytes: Some(files.iter().map(|file| file.listed.size).sum()),
        });
        let descriptor = pb::BulkLoadDescriptor {
            table_name: pb::TableName {
                namespace: table.namespace().as_bytes().to_vec().into(),
                qualifier: table.qualifier().as_bytes().to_vec().into(),
            },
            encoded_region_name: self.info.encoded_name().as_str().as_bytes().to_vec().into(),
            stores: stores.collect(),
            bulkload_seq_num: sequence.0 as i64,
            cluster_ids: Vec::new(),
            replicate: None,
        };
        self.replace_note(&descriptor.encode_to_vec()).map_err(|error| match error {
            Error::Storage(error) if error.outcome() == storage::Outcome::MayHaveHappened => {
                self.abort(format!(
                    "cannot tell whether bulk load {sequence} was noted in {}: {error}; restart the server, which \
                     finds out",
                    self.intent()
                ))
            }
            error => error,
        })
    }

    /// Replaces the content of the object. If it has changed since this opening last read or wrote it, first checks that
    /// this server still owns the log.
    fn replace_note(&self, descriptor: &[u8]) -> Result<()> {
        let (files, intent) = (&*self.files, self.intent());
        let mut known = self.bulk_load_note.lock();
        match known.replace(files, &intent, descriptor) {
            Err(error) if error.kind() == Kind::Conflict => {}
            written => return Ok(written?),
        }
        let (found, load) = KnownNote::read(files, &intent)?;
        let is_own_left = self.is_note_left.load(Ordering::Acquire);
        // Where no other process can be, the load is one that this process has not completed.
        if load.is_some() && !is_own_left && files.capabilities().has(Capability::OneProcess) {
            return Err(self.abort(format!(
                "{intent} notes a bulk load that was not completed; restart the server, which completes it"
            )));
        }
        // This order matters: if the log is still owned after the object was read, no later owner has written that version.
        self.log.check_owner()?;
        *known = found;
        Ok(known.replace(files, &intent, descriptor)?)
    }

    /// Records that the load is in all its stores. If that fails, for instance on a full disk, the region continues,
    /// and tries again later. Until an attempt succeeds no file is replaced, so the next opening finds every file of
    /// the load in its list.
    pub(super) fn forget_intent(&self) {
        let is_left = self.replace_note(b"").is_err();
        self.is_note_left.store(is_left, Ordering::Release);
    }

    /// Waits until no bulk load runs, and prevents another one from beginning while the guard is held. A caller that
    /// replaces files must hold the guard.
    ///
    /// If the end of the last load could not be recorded, this records it first. Fails if that fails.
    pub(crate) fn without_load(&self) -> Result<RwLockReadGuard<'_, ()>> {
        loop {
            let guard = self.listing.read();
            if !self.is_note_left.load(Ordering::Acquire) {
                return Ok(guard);
            }
            drop(guard);
            let _alone = self.listing.write();
            // The flag is read again under the lock, because another thread may have recorded the end, or begun another
            // load.
            if self.is_note_left.load(Ordering::Acquire) {
                self.replace_note(b"")?;
                self.is_note_left.store(false, Ordering::Release);
            }
        }
    }
}

/// Completes the bulk load that the end of the region's last owner has interrupted, if there is one and a list has a file
/// of it. The caller has claimed all lists. Returns the note, and whether lists were changed.
pub(crate) fn roll_forward(opening: &Opening) -> Result<(KnownNote, bool)> {
    let Opening { files, folder, log, world, info, .. } = opening;
    let intent = folder.join(NAME);
    let (mut known, load) = KnownNote::read(&**files, &intent)?;
    let Some(load) = load else { return Ok((known, false)) };
    let mut stores = Vec::with_capacity(load.stores.len());
    for store in load.stores {
        let folder = Region::store_folder(folder, &store.family_name);
        let (mut tracker, list) = Tracker::open(Arc::clone(files), &folder, world.clone(), Access::Owner)?;
        tracker.write_for(log)?;
        stores.push((folder, tracker, list, store.store_file));
    }
    let is_listed = |list: &[Listed], name: &String| list.iter().any(|listed| listed.name == *name);
    let has_begun = stores.iter().any(|(_, _, list, names)| names.iter().any(|name| is_listed(list, name)));
    if !has_begun {
        tracing::info!(region = %info, sequence = load.bulkload_seq_num,
            "a bulk load that was interrupted before it began is dropped; its client was told of no success");
        known.replace(&**files, &intent, b"")?;
        return Ok((known, false));
    }
    let mut are_changed = false;
    for (folder, mut tracker, mut list, names) in stores {
        let before = list.len();
        for name in names {
            if is_listed(&list, &name) {
                continue;
            }
            let place = folder.join(&name);
            let size = match files.open(&place) {
                Ok(file) => file.size(),
                Err(error) if error.kind() == Kind::NotFound => {
                    tracing::error!(region = %info, file = %place, sequence = load.bulkload_seq_num,
                        "a file of an interrupted bulk load is missing, and the region is opened without it; the load was \
                         not acknowledged: load all its files again");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let listed = Listed { name, size, reference: None };
            let is_oldest = StoreFileName::parse(&listed.name)
                .is_ok_and(|name| name.loaded_as() == Some(SequenceId::ZERO));
            list.insert(if is_oldest { 0 } else { list.len() }, listed);
        }
        if list.len() > before {
            tracker.replace(&list)?;
            are_changed = true;
        }
    }
    known.replace(&**files, &intent, b"")?;
    Ok((known, are_changed))
}
