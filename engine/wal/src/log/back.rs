//! The files of a log: the current one, the kept ones and the spares, and the state of each.

use std::collections::BTreeMap;
use std::time::Duration;

use cell::SequenceId;
use env::{HashMap, Moment, WallTime, World};
use storage::{FileName, FileWriter, Files};

use crate::format::{
    BATCH_HEADER_LENGTH, BatchHeader, HEADER_LENGTH, Header, Kind, NO_NUMBER, Record, VERSION, VERSION_OVER,
};
use crate::holder::HeldFrom;
use crate::index::{FileSpan, RegionExtent, SectionIndex, Sequences, index_record};
use crate::options::NonceKeeping;

/// The bytes of one write to a file.
pub(super) struct Batch {
    /// Room for the batch's header, followed by the records.
    pub(super) bytes: Vec<u8>,
    /// The sequence ids of each region in the batch.
    pub(super) regions: HashMap<Box<[u8]>, Sequences>,
    /// When the newest record with a nonce was made; `None` if there is none.
    pub(super) newest_nonce: Option<WallTime>,
    /// The position in the stream of records that the log has reached when the batch is written.
    pub(super) upto: u64,
    /// Number of records in the batch.
    pub(super) records: u64,
}

pub(crate) struct Back {
    pub(super) writer: Option<Box<dyn FileWriter>>,
    pub(super) number: u64,
    /// The largest file number that was used, even if creating the file failed.
    pub(super) number_tried: u64,
    pub(super) synced_offset: u64,
    /// The part of the current file that no index record covers yet.
    pub(super) section: OpenSection,
    /// The newest file that is known to be durable to its end.
    pub(super) whole_to: Option<u64>,
    /// Size in bytes at which the file is full. After a failed roll it is increased.
    pub(super) roll_at: u64,
    /// Number of parts at which the file is full. After a failed roll it is increased.
    pub(super) roll_at_parts: usize,
    pub(super) spare: Vec<u8>,
    /// The batch that did not fit on the full disk.
    pub(super) stuck: Option<Batch>,
    /// The number of the previous file while it is being synced.
    pub(super) retiring: Option<u64>,
    pub(super) live: BTreeMap<u64, LogFile>,
    /// Spares by number: files that nobody needs, whose space will be reused. Each has a void header.
    pub(super) spares: BTreeMap<u64, Box<dyn FileWriter>>,
    /// Minimum size in bytes of a file whose space is reused; [`NEVER`] if no space is reused.
    pub(super) reuse_min: u64,
    /// Files that are no longer needed and not yet removed.
    pub(super) unneeded: Vec<Unneeded>,
    pub(super) flushed: HashMap<Box<[u8]>, SequenceId>,
    /// The lowest file that each holder needs, by the holder's name.
    pub(crate) held_from: HeldFrom,
    /// How long a file is kept after it became unneeded.
    pub(super) keep_unneeded: Duration,
    /// The files that are kept for the nonces in them.
    pub(super) nonce_keeping: NonceKeeping,
}

/// A size in bytes that no file reaches.
pub(super) const NEVER: u64 = u64::MAX;

/// The part of the current file that no index record covers yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSection {
    /// The offset at which the section begins: after the header, or after the last index batch.
    pub(super) from: u64,
    /// The offset of the previous index batch.
    pub(super) previous: Option<u64>,
}

impl OpenSection {
    pub(super) const FIRST: OpenSection = OpenSection { from: HEADER_LENGTH as u64, previous: None };
}

/// A file that a holder may still need.
pub(crate) struct LogFile {
    pub(crate) name: FileName,
    pub(crate) bytes: u64,
    /// Number of [parts](storage::FileWriter::parts) of the file. 0 while it is the current one.
    pub(crate) parts: usize,
    /// The regions with records in the file.
    regions: HashMap<Box<[u8]>, RegionInFile>,
    /// Whether a reader may have the file open for replay. If so, the file may be removed, but its space must not be
    /// reused.
    pub(crate) is_read: bool,
    /// When the newest record with a nonce was made; `None` if there is none.
    pub(crate) newest_nonce: Option<WallTime>,
    /// When the file became unneeded; `None` while it is needed.
    unneeded_since: Option<Moment>,
}

/// A region's records in a file.
#[derive(Default)]
struct RegionInFile {
    /// The newest sequence id of the region's edits in the file. 0 if there are only markers, for which no file is
    /// kept.
    newest: SequenceId,
    /// The records in the section that no index record covers yet.
    section: RegionExtent,
}

impl LogFile {
    fn new(name: FileName) -> LogFile {
        LogFile::found(name, 0, false)
    }

    /// Creates the entry of a file that an earlier owner left.
    pub(crate) fn found(name: FileName, bytes: u64, is_read: bool) -> LogFile {
        LogFile {
            name,
            bytes,
            parts: 0,
            regions: HashMap::default(),
            is_read,
            newest_nonce: None,
            unneeded_since: None,
        }
    }

    /// Records that this file, which an earlier owner wrote, has edits of a region.
    pub(crate) fn note_found(&mut self, region: &[u8], sequences: Sequences) {
        let in_file = self.regions.entry(region.into()).or_default();
        in_file.newest = in_file.newest.max(sequences.newest);
    }

    /// Records that the batch `batch` has records of a region.
    pub(super) fn note_written(&mut self, region: Box<[u8]>, sequences: Sequences, batch: FileSpan) {
        let in_file = self.regions.entry(region).or_default();
        in_file.newest = in_file.newest.max(sequences.newest);
        in_file.section.add(sequences, batch);
    }

    /// Returns the regions with edits in the file that are not flushed yet.
    pub(super) fn unflushed<'a>(
        &'a self,
        flushed: &'a HashMap<Box<[u8]>, SequenceId>,
    ) -> impl Iterator<Item = &'a [u8]> {
        let is_needed = |region: &[u8], in_file: &RegionInFile| {
            in_file.newest > flushed.get(region).copied().unwrap_or_default()
        };
        self.regions.iter().filter(move |(region, it)| is_needed(region, it)).map(|(region, _)| &**region)
    }

    /// Returns the newest sequence id of a region's edits in the file; `None` if it has no record of the region.
    pub(super) fn newest_of(&self, region: &[u8]) -> Option<SequenceId> {
        self.regions.get(region).map(|in_file| in_file.newest)
    }

    /// Returns the cells of the index record for the section that begins at `from`.
    pub(super) fn section_index(&self, whole_to: Option<u64>, from: u64) -> Vec<u8> {
        let regions = self.regions.iter().map(|(region, in_file)| (&**region, &in_file.section));
        SectionIndex::encode(whole_to, from, regions, self.newest_nonce)
    }

    /// Begins a new section: an index record covers the old one.
    pub(super) fn end_section(&mut self) {
        self.regions.values_mut().for_each(|in_file| in_file.section = RegionExtent::default());
    }
}

/// A file that is to be removed.
pub(super) struct Unneeded {
    pub(super) name: FileName,
    /// Whether the space of the file may be reused.
    pub(super) can_be_reused: bool,
}

impl Back {
    /// Makes `writer`, of file `number`, the current one.
    pub(super) fn begin(&mut self, folder: &FileName, number: u64, writer: Box<dyn FileWriter>) {
        // Spares with smaller numbers are removed: they became ready after a file with a greater number was begun, and
        // files must be used in the order of their numbers.
        let later = self.spares.split_off(&number);
        remove_spares(&mut std::mem::replace(&mut self.spares, later));
        self.synced_offset = writer.size();
        self.section = OpenSection::FIRST;
        self.writer = Some(writer);
        self.number = number;
        self.live.insert(number, LogFile::new(file_name(folder, number)));
    }

    /// Whether space is reused.
    pub(super) fn reuses(&self) -> bool {
        self.reuse_min != NEVER
    }

    /// Stops the reuse of space. Existing spares are still used.
    pub(super) fn stop_reuse(&mut self) {
        self.reuse_min = NEVER;
    }

    /// Reserves the next file number. No number is used twice, even if its file could not be created.
    pub(super) fn reserve(&mut self) -> u64 {
        self.number_tried += 1;
        self.number_tried
    }

    /// Adds a spare. If the log has ended, or a file with a greater number was begun meanwhile, removes the spare
    /// instead.
    pub(super) fn add_spare(&mut self, number: u64, writer: Box<dyn FileWriter>) {
        if self.writer.is_some() && number > self.number {
            self.spares.insert(number, writer);
        } else {
            writer.abandon();
        }
    }

    /// Returns the numbers of the ended files that are kept for the nonces in them, from the newest one on, as many as the
    /// limits allow.
    fn kept_for_nonces(&self, now: WallTime) -> Vec<u64> {
        let NonceKeeping { age, bytes_max, parts_max } = self.nonce_keeping;
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let is_young = |time: WallTime| now.0.saturating_sub(time.0) < age;
        let (mut bytes, mut parts) = (0, 0);
        let with_nonces = self.live.iter().rev().filter(|(_, file)| file.newest_nonce.is_some_and(is_young));
        with_nonces
            .take_while(|(_, file)| {
                bytes += file.bytes;
                parts += file.parts;
                bytes <= bytes_max && parts <= parts_max
            })
            .map(|(number, _)| *number)
            .collect()
    }

    /// Moves files to `unneeded` that neither a region nor a named holder needs, that were kept for the grace period, and
    /// whose nonces are [not kept](NonceKeeping).
    pub(super) fn find_unneeded(&mut self, world: &World) {
        let now = world.moment();
        let kept_for_nonces = self.kept_for_nonces(world.now());
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
            if kept_for_nonces.contains(number) {
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

/// Removes spare files. Returns whether there were any.
pub(super) fn remove_spares(spares: &mut BTreeMap<u64, Box<dyn FileWriter>>) -> bool {
    let spares = std::mem::take(spares);
    let any = !spares.is_empty();
    spares.into_values().for_each(|writer| writer.abandon());
    any
}

pub(super) fn empty_batch() -> Vec<u8> {
    vec![0; BATCH_HEADER_LENGTH]
}

/// Returns the name of file `number`. The number is padded with zeros, so that names sort like numbers.
pub(crate) fn file_name(folder: &FileName, number: u64) -> FileName {
    folder.join(&format!("{number:020}.wal"))
}

/// Creates file `number` with its header, durably.
pub(super) fn make_file(
    files: &dyn Files,
    folder: &FileName,
    epoch: u64,
    number: u64,
) -> storage::Result<Box<dyn FileWriter>> {
    let writer = files.create_reserved(&file_name(folder, number))?;
    begin_file(writer, Header { version: VERSION, epoch, number })
}

/// Writes the header of a file, durably.
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

/// Returns the header of a spare file.
pub(super) fn void_header(epoch: u64) -> Header {
    Header { version: VERSION_OVER, epoch, number: NO_NUMBER }
}

/// Returns a batch with the index of a section and, if `ends`, the record that ends the file. The batch must be written
/// at `offset`.
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

/// Creates a record of the log itself, which belongs to no region.
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
