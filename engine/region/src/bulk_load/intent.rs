//! The intent of a bulk load into several families: the stored note because of which all families get their files, or
//! none.
//!
//! ```text
//! <region>/.bulkload:  00 · number 8B · BulkLoadDescriptor · CRC32 4B       no descriptor: no load is unfinished
//! ```
//!
//! The object is written after the files have their final names, and before the first list names one of them. From then
//! on a crash does not undo the load: when the region is opened, each file is added to its list, unless the list has
//! it. No compaction replaces files before the load has ended. At its end the object is written without a load.
//!
//! Integers are big-endian. Each write of the object increments the number, and the object is never deleted, so no
//! version of it occurs twice. The reason: an object store may carry out a conditional put seconds after it reported
//! failure. If the version that this put expects occurred again, or if the object were missing, the put would bring
//! back a load that has long ended. Earlier versions of this program wrote neither the zero nor the number, and emptied
//! the object.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cell::SequenceId;
use env::sync::RwLockReadGuard;
use prost::Message;
use proto::pb;
use storage::{FileName, Files, Kind, Version, swap_confirmed};

use crate::opening::Opening;
use crate::options::Access;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{StoreFile, StoreFileName};
use crate::tracker::{Listed, Tracker, crc32};
use crate::{Error, Result};

/// The name of the object, in a region's folder.
pub const NAME: &str = ".bulkload";
const SIZE_MAX: usize = 16 << 20;

/// The first byte of a numbered object; no protobuf message begins with it.
const NUMBERED: u8 = 0;

/// The content of the object.
struct Note {
    number: u64,
    /// The load that may not be in all its stores yet; `None` if there is none.
    load: Option<pb::BulkLoadDescriptor>,
}

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
        let (before, note) = noted(&*self.files, &self.intent())?;
        if note.load.is_some() && !self.is_note_left.load(Ordering::Acquire) {
            return Err(self.abort(format!(
                "{} notes a bulk load that was not completed; restart the server, which completes it",
                self.intent()
            )));
        }
        let bytes = encode(note.number + 1, &descriptor.encode_to_vec());
        let written = swap_confirmed(&*self.files, &self.intent(), before.as_ref(), &bytes);
        written.map(drop).map_err(|error| match error.outcome() {
            storage::Outcome::DidNotHappen => Error::from(error),
            storage::Outcome::MayHaveHappened => self.abort(format!(
                "cannot tell whether bulk load {sequence} was noted in {}: {error}; restart the server, which finds out",
                self.intent()
            )),
        })
    }

    /// Records that the load is in all its stores. If that fails, for instance on a full disk, the region continues,
    /// and tries again later. Until an attempt succeeds no file is replaced, so the next opening finds every file of
    /// the load in its list.
    pub(super) fn forget_intent(&self) {
        let is_left = forget(&*self.files, &self.intent()).is_err();
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
                forget(&*self.files, &self.intent())?;
                self.is_note_left.store(false, Ordering::Release);
            }
        }
    }
}

/// Returns the version and content of the object; no version and an empty note if there is none.
fn noted(files: &dyn Files, intent: &FileName) -> Result<(Option<Version>, Note)> {
    match files.load(intent, SIZE_MAX) {
        Ok(object) => Ok((Some(object.version), decode(intent, &object.content)?)),
        Err(error) if error.kind() == Kind::NotFound => Ok((None, Note { number: 0, load: None })),
        Err(error) => Err(error.into()),
    }
}

/// Whether the object `intent` records a bulk load that is not in all its families.
pub fn is_unfinished(files: &dyn Files, intent: &FileName) -> Result<bool> {
    Ok(noted(files, intent)?.1.load.is_some())
}

/// Records that no load is unfinished. The region's owner is the object's only writer.
fn forget(files: &dyn Files, intent: &FileName) -> Result<()> {
    let (before, note) = noted(files, intent)?;
    swap_confirmed(files, intent, before.as_ref(), &encode(note.number + 1, b""))?;
    Ok(())
}

/// Completes the bulk load that a crash of the region's last owner has interrupted, if there is one.
pub(crate) fn roll_forward(opening: &Opening) -> Result<()> {
    let Opening { files, folder, log, world, .. } = opening;
    let intent = folder.join(NAME);
    let Some(load) = noted(&**files, &intent)?.1.load else { return Ok(()) };
    for store in load.stores {
        let folder = Region::store_folder(folder, &store.family_name);
        let (mut tracker, mut list) =
            Tracker::open(Arc::clone(files), &folder, world.clone(), Access::Owner)?;
        tracker.write_for(log)?;
        let before = list.len();
        for name in store.store_file {
            if !list.iter().any(|listed| listed.name == name) {
                let size = files.open(&folder.join(&name))?.size();
                let listed = Listed { name, size, reference: None };
                let is_oldest = StoreFileName::parse(&listed.name)
                    .is_ok_and(|name| name.loaded_as() == Some(SequenceId::ZERO));
                list.insert(if is_oldest { 0 } else { list.len() }, listed);
            }
        }
        if list.len() > before {
            tracker.replace(&list)?;
        }
    }
    forget(&**files, &intent)
}

fn encode(number: u64, descriptor: &[u8]) -> Vec<u8> {
    let mut bytes = vec![NUMBERED];
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(descriptor);
    bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
    bytes
}

fn decode(intent: &FileName, bytes: &[u8]) -> Result<Note> {
    let corrupt = |what, expected: &str, found: String| Error::Corrupt {
        file: intent.to_string(),
        what,
        expected: expected.to_owned(),
        found,
    };
    if bytes.is_empty() {
        return Ok(Note { number: 0, load: None });
    }
    let Some((message, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(corrupt("length", "at least 4 bytes", bytes.len().to_string()));
    };
    let (expected, found) = (u32::from_be_bytes(*sum), crc32(message));
    if expected != found {
        return Err(corrupt("checksum", &format!("{expected:08x}"), format!("{found:08x}")));
    }
    let (number, descriptor) = match message.split_first() {
        Some((&NUMBERED, rest)) => match rest.split_first_chunk::<8>() {
            Some((number, descriptor)) => (u64::from_be_bytes(*number), descriptor),
            None => return Err(corrupt("length", "a number of 8 bytes", rest.len().to_string())),
        },
        Some(_) => (0, message),
        None => return Err(corrupt("length", "at least 5 bytes", bytes.len().to_string())),
    };
    if descriptor.is_empty() {
        return Ok(Note { number, load: None });
    }
    let load = pb::BulkLoadDescriptor::decode(descriptor)
        .map_err(|error| corrupt("bulk load", "a message", error.to_string()))?;
    Ok(Note { number, load: Some(load) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> pb::BulkLoadDescriptor {
        let name = pb::TableName { namespace: "default".into(), qualifier: "t".into() };
        pb::BulkLoadDescriptor {
            table_name: name,
            encoded_region_name: "r".into(),
            bulkload_seq_num: 7,
            ..Default::default()
        }
    }

    #[test]
    fn an_intent_is_read_with_its_number_and_its_load() {
        let intent = FileName::new(NAME);
        let note = decode(&intent, &encode(3, &load().encode_to_vec())).expect("whole");
        assert_eq!((note.number, note.load), (3, Some(load())));
        let note = decode(&intent, &encode(4, b"")).expect("whole");
        assert_eq!((note.number, note.load), (4, None));
        for length in 1..encode(4, b"").len() {
            assert!(decode(&intent, &encode(4, b"")[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn intents_without_a_number_are_read() {
        let intent = FileName::new(NAME);
        let mut old = load().encode_to_vec();
        old.extend_from_slice(&crc32(&old).to_be_bytes());
        let note = decode(&intent, &old).expect("whole");
        assert_eq!((note.number, note.load), (0, Some(load())));
        let note = decode(&intent, b"").expect("whole");
        assert_eq!((note.number, note.load), (0, None));
    }

    /// Each write of the object differs from all earlier ones. So a conditional put that an object store carries out
    /// late finds another version than it expects, and fails.
    #[test]
    fn no_two_writes_of_an_intent_are_equal() {
        let (files, intent) = (storage::Memory::new(), FileName::new(NAME));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            forget(&files, &intent).expect("written");
            let (version, _) = noted(&files, &intent).expect("read");
            assert!(version.is_some(), "an object that is gone can be made again");
            assert!(
                seen.insert(files.load(&intent, SIZE_MAX).expect("there").content),
                "the same bytes twice"
            );
        }
    }
}
