//! The files of the log: the one that is written, those that are kept, and what is known of each.

use std::collections::BTreeMap;
use std::time::Duration;

use cell::SequenceId;
use env::{HashMap, Moment};
use storage::{FileName, FileWriter, Files};

use crate::format::{
    BATCH_HEADER_LENGTH, BatchHeader, HEADER_LENGTH, Header, Kind, NO_NUMBER, Record, VERSION, VERSION_OVER,
};
use crate::holder::HeldFrom;
use crate::index::{FileSpan, RegionExtent, SectionIndex, Sequences, index_record};

/// What one write hands to the system.
pub(super) struct Batch {
    /// The batch's header, to be filled in, and its records.
    pub(super) bytes: Vec<u8>,
    /// The sequence ids of each region in it.
    pub(super) regions: HashMap<Box<[u8]>, Sequences>,
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
    /// The part of the current file that no index record covers yet.
    pub(super) section: OpenSection,
    /// The newest file that is known to be durable to its end.
    pub(super) whole_to: Option<u64>,
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
    /// By name of a holder, the lowest file that it needs.
    pub(crate) held_from: HeldFrom,
    /// How long a file stays that nobody needs any more.
    pub(super) keep_unneeded: Duration,
}

/// More bytes than a file has.
pub(super) const NEVER: u64 = u64::MAX;

/// The part of the current file that no index record covers yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSection {
    /// Where it begins: after the header, or after the last index batch.
    pub(super) from: u64,
    /// The offset of the index batch before it.
    pub(super) previous: Option<u64>,
}

impl OpenSection {
    pub(super) const FIRST: OpenSection = OpenSection { from: HEADER_LENGTH as u64, previous: None };
}

/// A file that some holder may still need.
pub(crate) struct LogFile {
    pub(crate) name: FileName,
    pub(crate) bytes: u64,
    /// What it has of each region.
    regions: HashMap<Box<[u8]>, RegionInFile>,
    /// Whether somebody may have it open, to replay it: then it may be removed, and nothing may be written over it.
    pub(crate) is_read: bool,
    /// Since when nobody needs it.
    unneeded_since: Option<Moment>,
}

/// What a file has of a region.
#[derive(Default)]
struct RegionInFile {
    /// The newest sequence id of its edits; 0 when there are only markers, for which no file is kept.
    newest: SequenceId,
    /// What lies in the section that no index record covers yet.
    section: RegionExtent,
}

impl LogFile {
    fn new(name: FileName) -> LogFile {
        LogFile::found(name, 0, false)
    }

    /// A file that an earlier owner left.
    pub(crate) fn found(name: FileName, bytes: u64, is_read: bool) -> LogFile {
        LogFile { name, bytes, regions: HashMap::default(), is_read, unneeded_since: None }
    }

    /// An earlier owner left edits of a region in it.
    pub(crate) fn note_found(&mut self, region: &[u8], sequences: Sequences) {
        let in_file = self.regions.entry(region.into()).or_default();
        in_file.newest = in_file.newest.max(sequences.newest);
    }

    /// Records of a region were written as part of the batch `batch`.
    pub(super) fn note_written(&mut self, region: Box<[u8]>, sequences: Sequences, batch: FileSpan) {
        let in_file = self.regions.entry(region).or_default();
        in_file.newest = in_file.newest.max(sequences.newest);
        in_file.section.add(sequences, batch);
    }

    /// The regions with edits that are not among those `flushed`.
    pub(super) fn unflushed<'a>(
        &'a self,
        flushed: &'a HashMap<Box<[u8]>, SequenceId>,
    ) -> impl Iterator<Item = &'a [u8]> {
        let is_needed = |region: &[u8], in_file: &RegionInFile| {
            in_file.newest > flushed.get(region).copied().unwrap_or_default()
        };
        self.regions.iter().filter(move |(region, it)| is_needed(region, it)).map(|(region, _)| &**region)
    }

    /// The cells of the index record of the section that begins at `from`.
    pub(super) fn section_index(&self, whole_to: Option<u64>, from: u64) -> Vec<u8> {
        let regions = self.regions.iter().map(|(region, in_file)| (&**region, &in_file.section));
        SectionIndex::encode(whole_to, from, regions)
    }

    /// An index record covers the section now.
    pub(super) fn end_section(&mut self) {
        self.regions.values_mut().for_each(|in_file| in_file.section = RegionExtent::default());
    }
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
        self.section = OpenSection::FIRST;
        self.writer = Some(writer);
        self.number = number;
        self.live.insert(number, LogFile::new(file_name(folder, number)));
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

    /// Gives up the closed files that nobody needs: no region, no named holder, and for as long as they are to be kept.
    pub(super) fn forget(&mut self, now: Moment) {
        let Back { live, unneeded, flushed, number, writer, retiring, reuse_min, .. } = self;
        let current = writer.is_some().then_some(*number);
        let held_from = self.held_from.values().min().copied().unwrap_or(u64::MAX);
        let keep_unneeded = self.keep_unneeded;
        live.retain(|number, file| {
            let is_written = Some(*number) == current || Some(*number) == *retiring;
            if is_written || *number >= held_from || file.unflushed(flushed).next().is_some() {
                file.unneeded_since = None;
                return true;
            }
            if now.since(*file.unneeded_since.get_or_insert(now)) < keep_unneeded {
                return true;
            }
            let can_be_reused = !file.is_read && file.bytes >= *reuse_min;
            unneeded.push(Unneeded { name: file.name.clone(), can_be_reused });
            false
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

/// A batch that holds the index of a section and, with `ends`, the record that ends the file; to be written at `offset`.
pub(super) fn index_batch(
    number: u64,
    offset: u64,
    synced: u64,
    index: &[u8],
    previous: Option<u64>,
    ends: bool,
) -> Vec<u8> {
    let mut payload = Vec::new();
    index_record(previous, index).write(&mut payload);
    if ends {
        own_record(Kind::End, offset).write(&mut payload);
    }
    let mut batch = BatchHeader::of(number, offset, synced, &payload).to_bytes().to_vec();
    batch.extend_from_slice(&payload);
    batch
}

/// A record by which the log speaks of itself.
pub(super) fn own_record(kind: Kind, value: u64) -> Record<'static> {
    Record {
        kind,
        region: b"",
        table: b"",
        sequence: SequenceId(value),
        time: env::WallTime(0),
        nonce: None,
        cells: b"",
    }
}
