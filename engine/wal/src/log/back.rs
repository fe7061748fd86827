//! The files of the log: the one that is written, those that are kept, and what is known of each.

use std::collections::BTreeMap;

use env::HashMap;

use cell::SequenceId;
use storage::{FileName, FileWriter, Files};

use crate::format::{
    BATCH_HEADER_LENGTH, BatchHeader, Header, Kind, NO_NUMBER, Record, VERSION, VERSION_OVER,
};

/// What one write hands to the system.
pub(super) struct Batch {
    /// The batch's header, to be filled in, and its records.
    pub(super) bytes: Vec<u8>,
    /// The newest sequence id of each region in it.
    pub(super) regions: HashMap<Box<[u8]>, SequenceId>,
    /// The stream's position after it.
    pub(super) upto: u64,
    /// How many records.
    pub(super) records: u64,
}

pub(crate) struct Back {
    pub(super) writer: Option<Box<dyn FileWriter>>,
    pub(super) number: u64,
    /// The largest number that a file may have, also one whose making failed.
    pub(super) number_tried: u64,
    pub(super) synced_offset: u64,
    /// Bytes at which the file is full. After a roll that came to nothing it may grow on.
    pub(super) roll_at: u64,
    pub(super) spare: Vec<u8>,
    /// A batch that found no room.
    pub(super) stuck: Option<Batch>,
    /// The file before the current one, while it is made durable.
    pub(super) retiring: Option<u64>,
    pub(super) live: BTreeMap<u64, LogFile>,
    /// Files to come, by number, in the space of some that nobody needs any more. They say so and nothing else.
    pub(super) ready: BTreeMap<u64, Box<dyn FileWriter>>,
    /// Bytes that a file must have for its space to be worth it; [`NEVER`] where no file is written over.
    pub(super) reuse_min: u64,
    /// Files that nobody needs, not yet removed.
    pub(super) unneeded: Vec<Unneeded>,
    pub(super) flushed: HashMap<Box<[u8]>, SequenceId>,
}

/// More bytes than a file has.
pub(super) const NEVER: u64 = u64::MAX;

/// A file that some region may still need.
pub(crate) struct LogFile {
    pub(crate) name: FileName,
    pub(crate) bytes: u64,
    /// The newest sequence id of each region in it.
    pub(crate) regions: HashMap<Box<[u8]>, SequenceId>,
    /// Whether somebody may have it open, to replay it: then it may be removed, and nothing may be written over it.
    pub(crate) is_read: bool,
}

/// A file that goes.
pub(super) struct Unneeded {
    pub(super) name: FileName,
    /// Whether another may begin in its space.
    pub(super) can_be_reused: bool,
}

impl Back {
    /// From now on `writer`, of file `number`, is the current one.
    pub(super) fn begin(&mut self, folder: &FileName, number: u64, writer: Box<dyn FileWriter>) {
        // What became ready while this one was made comes too late.
        let later = self.ready.split_off(&number);
        give_back(&mut std::mem::replace(&mut self.ready, later));
        self.synced_offset = writer.size();
        self.writer = Some(writer);
        self.number = number;
        let file = LogFile {
            name: file_name(folder, number),
            bytes: 0,
            regions: HashMap::default(),
            is_read: false,
        };
        self.live.insert(number, file);
    }

    /// Whether files are written over.
    pub(super) fn reuses(&self) -> bool {
        self.reuse_min != NEVER
    }

    /// From now on none is written over; those that are ready still are.
    pub(super) fn reuse_no_more(&mut self) {
        self.reuse_min = NEVER;
    }

    /// A number for a file that comes after all there are.
    pub(super) fn reserve(&mut self) -> u64 {
        self.number_tried += 1;
        self.number_tried
    }

    /// Takes up a file that is ready to be begun, unless those after it were begun meanwhile, or the log has ended.
    pub(super) fn take_up(&mut self, number: u64, writer: Box<dyn FileWriter>) {
        if self.writer.is_some() && number > self.number {
            self.ready.insert(number, writer);
        } else {
            writer.abandon();
        }
    }

    /// Gives up the closed files that no region needs.
    pub(super) fn forget(&mut self) {
        let Back { live, unneeded, flushed, number, writer, retiring, reuse_min, .. } = self;
        let current = writer.is_some().then_some(*number);
        live.retain(|number, file| {
            let needed = file
                .regions
                .iter()
                .any(|(region, newest)| flushed.get(region).is_none_or(|through| through < newest));
            let keep = Some(*number) == current || Some(*number) == *retiring || needed;
            if !keep {
                let can_be_reused = !file.is_read && file.bytes >= *reuse_min;
                unneeded.push(Unneeded { name: file.name.clone(), can_be_reused });
            }
            keep
        });
    }
}

/// Gives the space of what is ready back to the system. Says whether there was any.
pub(super) fn give_back(ready: &mut BTreeMap<u64, Box<dyn FileWriter>>) -> bool {
    let ready = std::mem::take(ready);
    let any = !ready.is_empty();
    ready.into_values().for_each(|writer| writer.abandon());
    any
}

pub(super) fn empty_batch() -> Vec<u8> {
    vec![0; BATCH_HEADER_LENGTH]
}

/// The name of file `number`: digits enough to sort by name.
pub(crate) fn file_name(folder: &FileName, number: u64) -> FileName {
    folder.join(&format!("{number:020}.wal"))
}

/// Makes file `number`, durable with its header.
pub(super) fn make_file(
    files: &dyn Files,
    folder: &FileName,
    epoch: u64,
    number: u64,
) -> storage::Result<Box<dyn FileWriter>> {
    let writer = files.create(&file_name(folder, number))?;
    begin_file(writer, Header { version: VERSION, epoch, number })
}

/// Writes the header of a file, durable.
pub(super) fn begin_file(
    mut writer: Box<dyn FileWriter>,
    header: Header,
) -> storage::Result<Box<dyn FileWriter>> {
    match writer.write(&header.to_bytes()).and_then(|()| writer.sync()) {
        Ok(()) => Ok(writer),
        Err(error) => {
            writer.abandon();
            Err(error)
        }
    }
}

/// The header of a file that is not needed, and whose space another may begin in.
pub(super) fn void_header(epoch: u64) -> Header {
    Header { version: VERSION_OVER, epoch, number: NO_NUMBER }
}

/// The batch that ends a file, to be written at `offset`.
pub(super) fn end_batch(number: u64, offset: u64, synced: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    own_record(Kind::End, 0).write(&mut payload);
    let mut batch = BatchHeader::of(number, offset, synced, &payload).to_bytes().to_vec();
    batch.extend_from_slice(&payload);
    batch
}

/// A record by which the log speaks of itself.
pub(super) fn own_record(kind: Kind, number: u64) -> Record<'static> {
    Record {
        kind,
        region: b"",
        table: b"",
        sequence: SequenceId(number),
        time: env::WallTime(0),
        nonce: None,
        cells: b"",
    }
}
