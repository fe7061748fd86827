//! Reads one file of a log, with its batches and its index, and decides what a bad batch means.

use env::{HashMap, WallTime};
use storage::{FileName, FileReader};

use super::TornTail;
use crate::format::{
    BARE_RECORD_LENGTH, BATCH_HEADER_LENGTH, BatchHeader, HEADER_LENGTH, Header, Kind, RECORD_BEGIN, Record,
};
use crate::index::{FileSpan, RegionExtent, SectionIndex, Sequences};
use crate::sums::Sums;
use crate::{Error, Result};

/// A file of the log that was opened, with its header.
pub(super) struct OpenFile<'f> {
    pub(super) name: &'f FileName,
    pub(super) reader: &'f dyn FileReader,
    pub(super) header: Header,
    pub(super) size: u64,
}

/// The content of a log file.
pub(super) struct FileContents {
    pub(super) regions: HashMap<Box<[u8]>, RegionExtent>,
    /// Whether nothing was written after the header, as far as this can be determined.
    pub(super) is_empty: bool,
    /// The offset after the last whole batch.
    pub(super) whole: u64,
    /// Whether the file is complete, with its end record.
    pub(super) ended: bool,
    /// The newest file that is durable to its end, according to this file.
    pub(super) whole_to: Option<u64>,
    /// When the newest record with a nonce was made; `None` if there is none.
    pub(super) newest_nonce: Option<WallTime>,
    pub(super) cut: Option<TornTail>,
}

impl OpenFile<'_> {
    fn number(&self) -> u64 {
        self.header.number
    }

    fn corrupt(&self, offset: u64, what: &'static str, expected: &str, found: String) -> Error {
        let (file, expected) = (self.name.clone(), expected.to_owned());
        Error::Corrupt { file, offset, what, expected, found }
    }

    /// Returns the content according to the file's index, if the index can be trusted: the file has an end record, and
    /// it is durable to its end, according to its last batch or to a later file of its owner (`is_durable`).
    pub(super) fn read_by_index(&self, is_durable: bool) -> Result<Option<FileContents>> {
        let length = BARE_RECORD_LENGTH as u64;
        if !self.header.has_index() || self.size < HEADER_LENGTH as u64 + length {
            return Ok(None);
        }
        let mut bytes = [0; BARE_RECORD_LENGTH];
        self.reader.read_at(self.size - length, &mut bytes)?;
        let Some((Record { kind: Kind::End, sequence, .. }, [])) = Record::read(&bytes) else {
            return Ok(None);
        };
        let last = sequence.0;
        if last < HEADER_LENGTH as u64 || last > self.size - length {
            return Ok(None);
        }
        let mut payload = Vec::new();
        let Some(header) = self.read_batch(last, &mut payload)? else { return Ok(None) };
        let ends_here = last + (BATCH_HEADER_LENGTH + payload.len()) as u64 == self.size;
        if !ends_here || !(is_durable || header.synced == last) {
            return Ok(None);
        }
        let (mut sections, mut at) = (Vec::new(), last);
        loop {
            let Some((Record { kind: Kind::Index, sequence: previous, cells, .. }, _)) =
                Record::read(&payload)
            else {
                return Ok(None);
            };
            let Some(section) = SectionIndex::decode(cells, at) else { return Ok(None) };
            let (from, previous) = (section.from, previous.0);
            sections.push(section);
            if previous == 0 && from == HEADER_LENGTH as u64 {
                break;
            }
            if previous == 0 || previous >= at || self.read_batch(previous, &mut payload)?.is_none() {
                return Ok(None);
            }
            // The sections must cover the file without a gap.
            if previous + (BATCH_HEADER_LENGTH + payload.len()) as u64 != from {
                return Ok(None);
            }
            at = previous;
        }
        let mut index = SectionIndex::default();
        sections.into_iter().rev().for_each(|section| index.append(section));
        Ok(Some(FileContents {
            regions: index.regions,
            is_empty: false,
            whole: self.size,
            ended: true,
            whole_to: index.whole_to,
            newest_nonce: index.newest_nonce,
            cut: None,
        }))
    }

    /// Reads every batch. A torn tail ends the file; any other incomplete batch is an error.
    pub(super) fn scan(&self) -> Result<FileContents> {
        let (size, is_over) = (self.size, self.header.is_over());
        let mut offset = HEADER_LENGTH as u64;
        let mut payload = Vec::new();
        let (mut ended, mut whole_to, mut newest_nonce, mut cut) = (false, None, None, None);
        let mut regions = HashMap::default();
        while offset < size && !ended {
            // The batch is read twice if it seems bad: a single misread must not turn the last batch into a torn tail.
            let is_whole = self.read_batch(offset, &mut payload)?.is_some()
                || self.read_batch(offset, &mut payload)?.is_some();
            if !is_whole {
                let sign = match is_over {
                    true => self
                        .later_batch(offset, offset + 1)?
                        .map(|later| format!("the one at offset {later} says it was durable")),
                    false => self.damage(offset)?,
                };
                if let Some(sign) = sign.filter(|_| !env::planted(28)) {
                    let expected = format!("a whole batch ({sign})");
                    return Err(self.corrupt(offset, "batch checksum", &expected, "other bytes".to_owned()));
                }
                if !(is_over && self.are_zeros(offset)?) {
                    cut = Some(TornTail { file: self.name.clone(), offset, bytes: size - offset });
                }
                break;
            }
            let span = FileSpan { offset, length: (BATCH_HEADER_LENGTH + payload.len()) as u64 };
            for record in self.records(offset, &payload) {
                let record = record?;
                newest_nonce = newest_nonce.max(record.nonce.map(|_| record.time));
                match record.kind {
                    Kind::End => ended = true,
                    Kind::Whole => whole_to = whole_to.max(Some(record.sequence.0)),
                    Kind::Index => {}
                    _ => note(&mut regions, &record, span),
                }
            }
            offset = span.end();
        }
        if ended && offset < size && !is_over {
            let found = format!("{} bytes", size - offset);
            return Err(self.corrupt(offset, "bytes after the end", "nothing", found));
        }
        // In a file in reused space zeros do not show that nothing was written. A whole batch after a bad first one
        // shows that the file was begun.
        let is_empty = match is_over {
            true => offset <= HEADER_LENGTH as u64 && self.later_batch(offset, offset)?.is_none(),
            false => size <= HEADER_LENGTH as u64,
        };
        Ok(FileContents { regions, is_empty, whole: offset, ended, whole_to, newest_nonce, cut })
    }

    /// Returns the records of the batch at `offset`, whose checksum was verified.
    pub(super) fn records<'p>(
        &'p self,
        offset: u64,
        payload: &'p [u8],
    ) -> impl Iterator<Item = Result<Record<'p>>> {
        let mut rest = payload;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let at = offset + (BATCH_HEADER_LENGTH + payload.len() - rest.len()) as u64;
            match Record::read(rest) {
                Some((record, after)) => {
                    rest = after;
                    Some(Ok(record))
                }
                None => {
                    rest = &[];
                    Some(Err(self.corrupt(at, "record", "a whole record", "other bytes".to_owned())))
                }
            }
        })
    }

    /// Reads the batch at `offset` into `payload`. Returns `None` when there is no whole batch.
    pub(super) fn read_batch(&self, offset: u64, payload: &mut Vec<u8>) -> Result<Option<BatchHeader>> {
        let room = self.size - offset;
        if room < BATCH_HEADER_LENGTH as u64 {
            return Ok(None);
        }
        let mut header = [0; BATCH_HEADER_LENGTH];
        self.reader.read_at(offset, &mut header)?;
        let header = BatchHeader::parse(header);
        // A batch holds at least one record, so zeros are no batch.
        if header.length == 0 || u64::from(header.length) > room - BATCH_HEADER_LENGTH as u64 {
            return Ok(None);
        }
        payload.resize(header.length as usize, 0);
        self.reader.read_at(offset + BATCH_HEADER_LENGTH as u64, payload)?;
        Ok(header.fits(self.number(), offset, payload).then_some(header))
    }

    /// Explains why the bad batch at `bad` is damage and not a torn tail; returns `None` if it may be a torn tail.
    ///
    /// A later whole batch whose `synced` is after `bad` proves damage. So does any later whole batch, unless there is
    /// a hole between the two. In a loss of power, sectors that were not written are zeros, while later sectors may
    /// have been written; a killed process leaves no hole.
    fn damage(&self, bad: u64) -> Result<Option<String>> {
        let tail = self.rest(bad)?;
        let sums = Sums::new(&tail);
        let mut whole = None;
        for at in 1..tail.len().saturating_sub(BATCH_HEADER_LENGTH) {
            let Some((header, rest)) = tail[at..].split_first_chunk::<BATCH_HEADER_LENGTH>() else { break };
            let header = BatchHeader::parse(*header);
            let offset = bad + at as u64;
            let begin = at + BATCH_HEADER_LENGTH;
            if header.synced <= offset
                && header.length > 0
                && (header.synced > bad || whole.is_none())
                && let Some(payload) = rest.get(..header.length as usize)
                && Record::read(payload).is_some()
                && header.fits_sum(self.number(), offset, sums.of(begin..begin + payload.len()))
            {
                if header.synced > bad {
                    return Ok(Some(format!("the one at offset {offset} says it was durable")));
                }
                whole = Some(at);
            }
        }
        Ok(whole
            .filter(|&at| !has_hole(&tail[..at], bad))
            .map(|at| format!("there is one at offset {}", bad + at as u64)))
    }

    /// Returns the offset of a whole batch after `bad` whose `synced` is at least `synced`, if there is one. In a file
    /// in the space of an older one, a sector that was not written looks like a damaged one, so only such a batch
    /// proves damage.
    ///
    /// Many bytes may follow the end of such a file, and client data may look like the headers of long batches. So the
    /// record after the header is checked first, and no range is [read for its checksum alone](Sums).
    fn later_batch(&self, bad: u64, synced: u64) -> Result<Option<u64>> {
        let rest = self.rest(bad)?;
        let sums = Sums::new(&rest);
        for at in 1..rest.len().saturating_sub(BATCH_HEADER_LENGTH + RECORD_BEGIN - 1) {
            let Some((header, after)) = rest[at..].split_first_chunk() else { break };
            let header = BatchHeader::parse(*header);
            let (offset, begin) = (bad + at as u64, at + BATCH_HEADER_LENGTH);
            if header.synced >= synced
                && header.synced <= offset
                && after.first_chunk().is_some_and(|record| Record::may_begin_with(record, header.length))
                && header.length as usize <= after.len()
                && header.fits_sum(self.number(), offset, sums.of(begin..begin + header.length as usize))
            {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    /// Returns the bytes of the file from `offset` on.
    fn rest(&self, offset: u64) -> Result<Vec<u8>> {
        let mut rest = vec![0; self.size.saturating_sub(offset) as usize];
        self.reader.read_at(offset, &mut rest)?;
        Ok(rest)
    }

    /// Whether the zeros that follow a write into reused space begin at `offset`.
    fn are_zeros(&self, offset: u64) -> Result<bool> {
        let mut bytes = [0; storage::ZEROS_MIN];
        let bytes = &mut bytes[..storage::ZEROS_MIN.min((self.size - offset) as usize)];
        self.reader.read_at(offset, bytes)?;
        Ok(bytes.iter().all(|&byte| byte == 0))
    }
}

/// Adds a record of the batch `span` to its region.
fn note(regions: &mut HashMap<Box<[u8]>, RegionExtent>, record: &Record<'_>, span: FileSpan) {
    let sequences = Sequences::of(record);
    match regions.get_mut(record.region) {
        // Another record of this region in the same batch was added before, so the batch is in the list already.
        Some(known) if known.spans.last().is_some_and(|last| last.end() == span.end()) => {
            known.sequences.include(sequences);
        }
        Some(known) => known.add(sequences, span),
        None => {
            let spans = vec![span];
            regions.insert(record.region.into(), RegionExtent { sequences, spans });
        }
    }
}

/// Returns the header of a file of `size` bytes; `None` if the header is incomplete or damaged.
pub(super) fn read_header(file: &dyn FileReader, size: u64) -> Result<Option<Header>> {
    if size < HEADER_LENGTH as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_LENGTH];
    file.read_at(0, &mut bytes)?;
    Ok(Header::parse(&bytes))
}

/// Number of bytes of a file that are read at a time, unless a batch is longer.
const WINDOW: usize = 256 << 10;
/// Number of bytes that a disk writes completely or not at all.
const SECTOR: u64 = 512;
/// Minimum length in bytes of a run of zeros in a sector that proves that the sector was not written: no batch begins
/// with so many zeros.
const ZEROS_MIN: usize = 8;

/// Whether a sector, or the part of a sector that is in `bytes`, consists of zeros. A part of less than [`ZEROS_MIN`]
/// bytes does not count. `bytes` begin at `offset` of their file.
fn has_hole(bytes: &[u8], offset: u64) -> bool {
    let first = (SECTOR - offset % SECTOR) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    std::iter::once(head)
        .chain(rest.chunks(SECTOR as usize))
        .any(|part| part.len() >= ZEROS_MIN && part.iter().all(|&byte| byte == 0))
}

/// Reads the whole batches of a span, with few calls to storage. An incomplete batch is an error.
pub(super) struct SpanBatches<'f> {
    pub(super) name: &'f FileName,
    pub(super) reader: &'f dyn FileReader,
    pub(super) number: u64,
    /// The offset of the next batch.
    at: u64,
    end: u64,
    window: Vec<u8>,
    /// The offset of the window in the file.
    window_at: u64,
}

impl<'f> SpanBatches<'f> {
    /// Creates a reader; `buffer` is reused memory of an earlier one.
    pub(super) fn new(
        name: &'f FileName,
        reader: &'f dyn FileReader,
        number: u64,
        span: FileSpan,
        mut buffer: Vec<u8>,
    ) -> SpanBatches<'f> {
        buffer.clear();
        let (at, end) = (span.offset, span.end());
        SpanBatches { name, reader, number, at, end, window: buffer, window_at: at }
    }

    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.window
    }

    /// Returns the next batch: its offset, its header and its records; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, BatchHeader, &[u8])>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let offset = self.at;
        if !self.fill(offset, BATCH_HEADER_LENGTH)? {
            return Err(self.broken(offset, "the end of what is there"));
        }
        let from = (offset - self.window_at) as usize;
        let header = self.window[from..].first_chunk().expect("as many as were asked for");
        let header = BatchHeader::parse(*header);
        let length = BATCH_HEADER_LENGTH + header.length as usize;
        if !self.fill(offset, length)? {
            return Err(self.broken(offset, "the end of what is there"));
        }
        let from = (offset - self.window_at) as usize;
        if !header.fits(self.number, offset, &self.window[from + BATCH_HEADER_LENGTH..from + length]) {
            return Err(self.broken(offset, "other bytes"));
        }
        self.at = offset + length as u64;
        Ok(Some((offset, header, &self.window[from + BATCH_HEADER_LENGTH..from + length])))
    }

    fn broken(&self, offset: u64, found: &str) -> Error {
        Error::Corrupt {
            file: self.name.clone(),
            offset,
            what: "batch checksum",
            expected: "a whole batch, as the index or an earlier look says".to_owned(),
            found: found.to_owned(),
        }
    }

    /// Makes sure that the window has `length` bytes at `offset`. Returns `false` when the span ends before that.
    fn fill(&mut self, offset: u64, length: usize) -> Result<bool> {
        if offset + length as u64 > self.end {
            return Ok(false);
        }
        let window_end = self.window_at + self.window.len() as u64;
        if offset < self.window_at || offset + length as u64 > window_end {
            let read = length.max(WINDOW.min((self.end - offset) as usize));
            self.window.resize(read, 0);
            self.window_at = offset;
            if let Err(error) = self.reader.read_at(offset, &mut self.window) {
                self.window.clear();
                return Err(error.into());
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use cell::SequenceId;
    use env::World;
    use storage::{Files, Memory};

    use super::*;
    use crate::{Level, Log, Options};

    /// A file of which one read returns a wrong bit.
    struct WrongOnce<'f> {
        file: &'f dyn FileReader,
        /// Number of reads before the wrong one.
        left: AtomicU64,
    }

    impl FileReader for WrongOnce<'_> {
        fn size(&self) -> u64 {
            self.file.size()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
            self.file.read_at(offset, buffer)?;
            if self.left.fetch_sub(1, Ordering::Relaxed) == 0
                && let Some(last) = buffer.last_mut()
            {
                *last ^= 0x10;
            }
            Ok(())
        }
    }

    #[test]
    fn a_wrong_bit_of_one_read_ends_no_file() {
        let memory = Memory::new();
        let (files, folder): (Arc<dyn Files>, _) = (Arc::new(memory.clone()), FileName::new("WALs"));
        let (log, _) = Log::open(World::real(), Arc::clone(&files), folder, Options::default()).expect("new");
        for sequence in 1..=3 {
            let record = Record {
                kind: Kind::Edit,
                region: b"r",
                table: b"t",
                sequence: SequenceId(sequence),
                time: env::WallTime(0),
                nonce: None,
                cells: &[],
            };
            let ticket = log.append(&record).expect("alive");
            log.sync_blocking(ticket, Level::Disk).expect("durable");
        }
        let after: Arc<dyn Files> = Arc::new(memory.kill());
        let name = after.list(&FileName::root()).expect("listed").into_iter().map(|entry| entry.name);
        let name = name.into_iter().find(|name| name.last().ends_with(".wal")).expect("one file");
        let file = after.open(&name).expect("there");
        let header = read_header(&*file, file.size()).expect("read").expect("whole");
        // Two reads for each of three batches.
        for reads in 0..6 {
            let reader = WrongOnce { file: &*file, left: AtomicU64::new(reads) };
            let open = OpenFile { name: &name, reader: &reader, header, size: file.size() };
            let found = open.scan().expect("no damage");
            let newest = found.regions[&b"r"[..]].sequences.newest;
            assert_eq!((newest, found.cut.is_some()), (SequenceId(3), false), "read {reads}");
        }
    }
    /// A file in memory that counts the bytes that are read.
    struct Counted {
        bytes: Vec<u8>,
        read: AtomicU64,
    }

    impl FileReader for Counted {
        fn size(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
            self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            buffer.copy_from_slice(&self.bytes[offset as usize..][..buffer.len()]);
            Ok(())
        }
    }

    /// After a file in reused space ends, there are bytes of an older file, which a client may have chosen.
    #[test]
    fn bytes_that_look_like_very_many_long_batches_are_read_only_a_few_times() {
        const SIZE: usize = 200_000;
        let header = Header { version: crate::format::VERSION_OVER, epoch: 1, number: 1 };
        let mut bytes = header.to_bytes().to_vec();
        while bytes.len() < SIZE {
            let length = (SIZE - bytes.len()).saturating_sub(2 * BATCH_HEADER_LENGTH) as u32;
            let batch = BatchHeader { length: length.max(200), synced: HEADER_LENGTH as u64 + 1, sum: 7 };
            bytes.extend_from_slice(&batch.to_bytes());
            bytes.extend_from_slice(&[0, 0, 0, 100, Kind::Edit as u8, 0, 0, 0]);
        }
        let (reader, name) = (Counted { bytes, read: AtomicU64::new(0) }, FileName::new("1.wal"));
        let open = OpenFile { name: &name, reader: &reader, header, size: reader.size() };
        let found = open.scan().expect("no damage");
        assert!(found.is_empty && found.cut.is_some());
        let read = reader.read.load(Ordering::Relaxed);
        assert!(read < 10 * SIZE as u64, "{read} bytes of {SIZE}");
    }
}
