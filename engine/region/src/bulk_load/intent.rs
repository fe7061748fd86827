//! The intent of a bulk load into several families: what makes it all or nothing.
//!
//! ```text
//! <region>/.bulkload:  BulkLoadDescriptor · CRC32 4B       empty: no load is unfinished
//! ```
//!
//! The object is written after the files have their final names, and before the first list names one. From then on the load
//! is rolled forward: an opening of the region adds each file to its list, unless the list has it. No compaction replaces
//! files before the load has ended. At the end the object is emptied, then deleted, because a deleted object may be there
//! again after a loss of power.

use std::sync::Arc;

use cell::SequenceId;
use prost::Message;
use proto::pb;
use storage::{FileName, Files, Kind, swap_confirmed};

use crate::opening::Opening;
use crate::options::Access;
use crate::region::Region;
use crate::store::Store;
use crate::store_file::{StoreFile, StoreFileName};
use crate::tracker::{Listed, Tracker, crc32};
use crate::{Error, Result};

const NAME: &str = ".bulkload";
const SIZE_MAX: usize = 16 << 20;

impl Region {
    fn intent(&self) -> FileName {
        let folder = self.stores.first().and_then(|store| store.folder.parent());
        folder.unwrap_or_else(FileName::root).join(NAME)
    }

    /// Records that these stores get these files. If it cannot be told whether that happened, the region is aborted: its
    /// next opening finds out.
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
        let mut bytes = descriptor.encode_to_vec();
        bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
        swap_over(&*self.files, &self.intent(), &bytes).map_err(|error| match error.outcome() {
            storage::Outcome::DidNotHappen => Error::from(error),
            storage::Outcome::MayHaveHappened => self.abort(format!(
                "cannot tell whether bulk load {sequence} was noted in {}: {error}; restart the server, which finds out",
                self.intent()
            )),
        })
    }

    /// Records that the load is in all its stores.
    pub(super) fn forget_intent(&self) {
        // If that fails the next opening finds every file in its list, unless a compaction has replaced it. So the region
        // must not go on.
        if let Err(error) = forget(&*self.files, &self.intent()) {
            let _aborted = self.abort(format!(
                "bulk load is done, and {} cannot be emptied: {error}; restart the server, which does it",
                self.intent()
            ));
        }
    }
}

fn forget(files: &dyn Files, intent: &FileName) -> storage::Result<()> {
    swap_over(files, intent, b"")?;
    // An empty object does no harm.
    let _stays = files.delete(intent);
    Ok(())
}

/// Writes an object, whatever it was before. The region's owner is its only writer.
fn swap_over(files: &dyn Files, name: &FileName, content: &[u8]) -> storage::Result<()> {
    let before = match files.load(name, SIZE_MAX) {
        Ok(object) => Some(object.version),
        Err(error) if error.kind() == Kind::NotFound => None,
        Err(error) => return Err(error),
    };
    swap_confirmed(files, name, before.as_ref(), content).map(drop)
}

/// Completes the bulk load that a crash of the region's last owner has cut short, if there is one.
pub(crate) fn roll_forward(opening: &Opening) -> Result<()> {
    let Opening { files, folder, world, .. } = opening;
    let intent = folder.join(NAME);
    let bytes = match files.read(&intent, SIZE_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == Kind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if bytes.is_empty() {
        return Ok(());
    }
    for store in read(&intent, &bytes)?.stores {
        let folder = Region::store_folder(folder, &store.family_name);
        let (mut tracker, mut list) =
            Tracker::open(Arc::clone(files), &folder, world.clone(), Access::Owner)?;
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
    forget(&**files, &intent).map_err(Error::from)
}

fn read(intent: &FileName, bytes: &[u8]) -> Result<pb::BulkLoadDescriptor> {
    let corrupt = |what, expected: String, found: String| Error::Corrupt {
        file: intent.to_string(),
        what,
        expected,
        found,
    };
    let Some((message, sum)) = bytes.split_last_chunk::<4>() else {
        return Err(corrupt("length", "at least 4 bytes".to_owned(), bytes.len().to_string()));
    };
    let (expected, found) = (u32::from_be_bytes(*sum), crc32(message));
    if expected != found {
        return Err(corrupt("checksum", format!("{expected:08x}"), format!("{found:08x}")));
    }
    pb::BulkLoadDescriptor::decode(message)
        .map_err(|error| corrupt("bulk load", "a message".to_owned(), error.to_string()))
}
