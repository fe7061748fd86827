//! Reads a log file of HBase entry by entry.

use std::sync::Arc;

use bytes::Bytes;
use cell::{CellBlock, SequenceId};
use env::WallTime;
use prost::Message;
use proto::pb;
use storage::{FileName, FileReader};

use crate::cells::{Dictionaries, GZ, read_plain};
use crate::source::{Source, Stop, wrong};
use crate::{Error, Result};

const MAGIC: &[u8; 4] = b"PWAL";
const MAGIC_AT_END: &[u8; 4] = b"LAWP";
/// Maximum length of a header, key or trailer, in bytes.
const MESSAGE_MAX: usize = 64 << 20;
/// Maximum size of the cells of an entry, in bytes: 1 GB. Needed because a few dictionary numbers can decode to many
/// bytes.
const ENTRY_MAX: usize = 1 << 30;
/// The column family of markers. Markers record events of a region, and are no data.
const MARKERS: &[u8] = b"METAFAMILY";

/// One atomic write to one region.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The region's encoded name.
    pub region: Vec<u8>,
    /// The table's name.
    pub table: Vec<u8>,
    /// The sequence id of the write.
    pub sequence: SequenceId,
    /// When the write was made.
    pub time: WallTime,
    /// The nonce group and the nonce of the client, if it gave any.
    pub nonce: Option<(u64, u64)>,
    /// The cells of the write, without markers of flushes and other events; may be empty.
    pub cells: CellBlock,
}

/// A log file of HBase, read from front to back.
pub struct Reader {
    name: FileName,
    source: Source,
    /// The dictionaries of compressed cells; `None` for a file that is not compressed.
    dictionaries: Option<Dictionaries>,
    /// Whether the file was closed cleanly, so that every entry is complete.
    closed: bool,
    /// Number of bytes of an incomplete entry at the end of the file.
    torn: u64,
    ended: bool,
}

impl Reader {
    /// Opens a file. A file that ends inside its header has no entries, because HBase acknowledges nothing before the
    /// header is complete.
    pub fn open(file: Arc<dyn FileReader>, name: FileName) -> Result<Reader> {
        let size = file.size();
        let end = entries_end(&*file, size)?;
        let source = Source::new(file, end.unwrap_or(size));
        let mut reader =
            Reader { name, source, dictionaries: None, closed: end.is_some(), torn: 0, ended: false };
        match reader.read_header() {
            Ok(header) => reader.accept(&header)?,
            Err(stop) => reader.stop(0, stop)?,
        }
        Ok(reader)
    }

    /// Returns the file's name.
    pub fn name(&self) -> &FileName {
        &self.name
    }

    /// Returns the number of bytes of an incomplete entry at the end of the file, which was never acknowledged. The
    /// number is final after [`next_entry`](Reader::next_entry) has returned `None`.
    pub fn torn(&self) -> u64 {
        self.torn
    }

    /// Whether the writer closed the file in order, so that nothing can follow.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the next entry; `None` at the end, and if the last entry is incomplete.
    pub fn next_entry(&mut self) -> Result<Option<Entry>> {
        if self.ended || self.source.left() == 0 {
            return Ok(None);
        }
        let offset = self.source.offset();
        match self.read_entry() {
            Ok(entry) => Ok(Some(entry)),
            Err(stop) => self.stop(offset, stop).map(|()| None),
        }
    }

    fn read_header(&mut self) -> std::result::Result<pb::WalHeader, Stop> {
        let magic = self.source.take(MAGIC.len())?;
        if magic != MAGIC {
            return Err(wrong("magic", "PWAL", magic.escape_ascii()));
        }
        self.read_message("header")
    }

    fn accept(&mut self, header: &pb::WalHeader) -> Result<()> {
        let unsupported = |what: String| Error::Unsupported { file: self.name.clone(), what };
        let writer = header.writer_cls_name().rsplit('.').next().unwrap_or_default();
        if header.encryption_key.is_some() || writer.starts_with("Secure") {
            return Err(Error::Encrypted(self.name.clone()));
        }
        let codec = header.cell_codec_cls_name();
        if !codec.is_empty() && codec != "org.apache.hadoop.hbase.regionserver.wal.WALCellCodec" {
            return Err(unsupported(format!("cells in the form of {codec}")));
        }
        if header.has_value_compression() && header.value_compression_algorithm() != GZ {
            let number = header.value_compression_algorithm();
            return Err(unsupported(format!("values compressed by algorithm {number}, and not by GZ")));
        }
        self.dictionaries = header.has_compression().then(|| Dictionaries::of_header(header));
        Ok(())
    }

    fn read_message<M: Message + Default>(&mut self, what: &'static str) -> std::result::Result<M, Stop> {
        let length = self.source.length(what, MESSAGE_MAX)?;
        let bytes = self.source.take(length)?;
        M::decode(bytes).map_err(|error| wrong(what, "a message", error))
    }

    fn read_entry(&mut self) -> std::result::Result<Entry, Stop> {
        let key: pb::WalKey = self.read_message("key of an entry")?;
        if key.encoded_region_name.is_empty() || key.table_name.is_empty() {
            return Err(wrong("key of an entry", "the names of a region and its table", "none"));
        }
        let (mut region, mut table) = (key.encoded_region_name.to_vec(), key.table_name.to_vec());
        if let Some(dictionaries) = &mut self.dictionaries {
            region = dictionaries.regions.read_field(&region)?;
            table = dictionaries.tables.read_field(&table)?;
            for scope in &key.scopes {
                dictionaries.families.read_field(&scope.family)?;
            }
        }
        let mut cells = Vec::new();
        for _ in 0..key.following_kv_count() {
            if cells.len() > ENTRY_MAX {
                return Err(wrong("entry", format!("at most {ENTRY_MAX} bytes of cells"), cells.len()));
            }
            match &mut self.dictionaries {
                Some(dictionaries) => dictionaries.read_cell(&mut self.source, &mut cells)?,
                None => read_plain(&mut self.source, &mut cells)?,
            }
        }
        let parse = |cells: Vec<u8>| {
            CellBlock::parse(Bytes::from(cells)).map_err(|error| wrong("cells", "whole cells", error))
        };
        let mut cells = parse(cells)?;
        if cells.cells().any(|cell| cell.family() == MARKERS) {
            let mut kept = Vec::new();
            for cell in cells.cells().filter(|cell| cell.family() != MARKERS) {
                cell::block::write_with_tags(&mut kept, cell);
            }
            cells = parse(kept)?;
        }
        let nonce = key.nonce.filter(|nonce| *nonce != 0);
        Ok(Entry {
            region,
            table,
            sequence: SequenceId(key.log_sequence_number),
            time: WallTime(key.write_time as i64),
            nonce: nonce.map(|nonce| (key.nonce_group.unwrap_or(0), nonce)),
            cells,
        })
    }

    /// Ends the file at the entry at `offset`, which cannot be read. Fails if that entry is damaged, and not merely
    /// incomplete.
    fn stop(&mut self, offset: u64, stop: Stop) -> Result<()> {
        let at_end = self.source.offset() + self.source.left();
        let (what, expected, found) = match stop {
            Stop::Storage(error) => return Err(error.into()),
            Stop::End => ("entry", "a whole entry".to_owned(), format!("{} bytes", at_end - offset)),
            Stop::Wrong(what, expected, found) => {
                // After a loss of power, a file may have its full length but zeros in place of its last bytes.
                match self.source.only_zeros() {
                    Ok(true) => {}
                    Err(Stop::Storage(error)) => return Err(error.into()),
                    _ => {
                        let file = self.name.clone();
                        return Err(Error::Corrupt { file, offset, what, expected, found });
                    }
                }
                (what, expected, found)
            }
        };
        if self.closed {
            return Err(Error::Corrupt { file: self.name.clone(), offset, what, expected, found });
        }
        (self.torn, self.ended) = (at_end - offset, true);
        Ok(())
    }
}

/// Returns the offset at which the entries of a cleanly closed file end; `None` for any other file.
fn entries_end(file: &dyn FileReader, size: u64) -> Result<Option<u64>> {
    let Some(at) = size.checked_sub(8) else { return Ok(None) };
    let mut end = [0; 8];
    file.read_at(at, &mut end)?;
    let length = u32::from_be_bytes([end[0], end[1], end[2], end[3]]);
    let begin = at.checked_sub(u64::from(length)).filter(|_| &end[4..] == MAGIC_AT_END);
    Ok(begin.filter(|begin| *begin >= MAGIC.len() as u64))
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("name", &self.name).finish_non_exhaustive()
    }
}
