//! Decodes the cells of an entry to the form of a cell block: `length 4B · KeyValue with tags`.
//!
//! ```text
//! compressed   length of key · of value · of tags (7 bits a byte) · row · family · qualifier, dictionary words
//!              · timestamp 8B · type 1B · value · tags
//! value        plain, or: length (7 bits a byte) · that many bytes of one deflate stream of the whole file
//! tags         plain, or a dictionary word for each tag, without its length
//! ```

use flate2::{Decompress, FlushDecompress, Status};
use proto::pb;

use crate::dictionary::Dictionary;
use crate::source::{Source, Stop, wrong};

/// Maximum size of a cell, in bytes.
const CELL_MAX: usize = 1 << 30;
const WORDS_MANY: u16 = 32767;
const WORDS_FEW: u16 = 127;
/// The number by which HBase names the GZ compression.
pub(crate) const GZ: u32 = 1;

/// The state of a reader of compressed cells, kept from entry to entry.
pub(crate) struct Dictionaries {
    pub(crate) regions: Dictionary,
    pub(crate) tables: Dictionary,
    pub(crate) families: Dictionary,
    rows: Dictionary,
    qualifiers: Dictionary,
    /// The dictionary of tags; `None` if tags are plain.
    tags: Option<Dictionary>,
    /// The stream of values; `None` if values are plain.
    values: Option<Values>,
}

impl Dictionaries {
    pub(crate) fn of_header(header: &pb::WalHeader) -> Dictionaries {
        Dictionaries {
            regions: Dictionary::new(WORDS_MANY),
            tables: Dictionary::new(WORDS_MANY),
            families: Dictionary::new(WORDS_FEW),
            rows: Dictionary::new(WORDS_MANY),
            qualifiers: Dictionary::new(WORDS_FEW),
            tags: header.has_tag_compression().then(|| Dictionary::new(WORDS_MANY)),
            values: header.has_value_compression().then(Values::default),
        }
    }

    /// Appends the next cell to `out`.
    pub(crate) fn read_cell(&mut self, source: &mut Source, out: &mut Vec<u8>) -> Result<(), Stop> {
        let key = source.length("length of a key", CELL_MAX)?;
        let value = source.length("length of a value", CELL_MAX)?;
        let tags = source.length("length of tags", 0xffff)?;
        let whole = 8 + key + value + if tags > 0 { 2 + tags } else { 0 };
        let begin = out.len();
        for number in [whole, key, value] {
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        let key_begin = out.len();
        out.extend_from_slice(&[0, 0]);
        let row = self.rows.read(source, out)?;
        let length = u16::try_from(row).map_err(|_| wrong("row", "at most 65535 bytes", row))?;
        out[key_begin..key_begin + 2].copy_from_slice(&length.to_be_bytes());
        let family_at = out.len();
        out.push(0);
        let family = self.families.read(source, out)?;
        out[family_at] = u8::try_from(family).map_err(|_| wrong("family", "at most 255 bytes", family))?;
        self.qualifiers.read(source, out)?;
        out.extend_from_slice(source.take(9)?);
        let found = out.len() - key_begin;
        if found != key {
            return Err(wrong("length of a key", key, found));
        }
        match &mut self.values {
            Some(values) => values.read(source, value, out)?,
            None => out.extend_from_slice(source.take(value)?),
        }
        if tags > 0 {
            out.extend_from_slice(&(tags as u16).to_be_bytes());
            match &mut self.tags {
                None => out.extend_from_slice(source.take(tags)?),
                Some(words) => {
                    let end = out.len() + tags;
                    while out.len() < end {
                        let at = out.len();
                        out.extend_from_slice(&[0, 0]);
                        let tag = words.read(source, out)?;
                        out[at..at + 2].copy_from_slice(&(tag as u16).to_be_bytes());
                    }
                }
            }
        }
        let found = out.len() - begin - 4;
        if found == whole { Ok(()) } else { Err(wrong("length of a cell", whole, found)) }
    }
}

/// Appends the next plain cell to `out`.
pub(crate) fn read_plain(source: &mut Source, out: &mut Vec<u8>) -> Result<(), Stop> {
    let length = source.take(4)?;
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
    if length as usize > CELL_MAX {
        return Err(wrong("length of a cell", format!("at most {CELL_MAX}"), length));
    }
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(source.take(length as usize)?);
    Ok(())
}

/// The stream of compressed values: one gzip member, flushed after each value.
#[derive(Default)]
struct Values {
    /// The state of decompression; `None` before the first value, which begins with the member's header.
    stream: Option<Decompress>,
}

impl Values {
    /// Appends the next value, of `length` bytes, to `out`.
    fn read(&mut self, source: &mut Source, length: usize, out: &mut Vec<u8>) -> Result<(), Stop> {
        let packed = source.length("length of a compressed value", CELL_MAX)?;
        let mut input = source.take(packed)?;
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                // A gzip header without optional fields, as HBase writes it.
                let header = input.get(..10).filter(|header| header[..4] == [0x1f, 0x8b, 8, 0]);
                header
                    .ok_or_else(|| wrong("compressed value", "the header of a gzip member", "other bytes"))?;
                input = &input[10..];
                none.insert(Decompress::new(false))
            }
        };
        let begin = out.len();
        out.resize(begin + length, 0);
        let mut done = 0;
        loop {
            let (in_before, out_before) = (stream.total_in(), stream.total_out());
            // There is room for one byte more than the value has. That byte shows whether the stream has too many.
            // While there is room, the decoder also reads the flush marker at the end of the input.
            let mut spare = [0];
            let room = if done < length { &mut out[begin + done..] } else { &mut spare[..] };
            let status = stream
                .decompress(input, room, FlushDecompress::Sync)
                .map_err(|error| wrong("compressed value", "a deflate stream", error))?;
            let (took, gave) =
                ((stream.total_in() - in_before) as usize, (stream.total_out() - out_before) as usize);
            input = &input[took..];
            done += gave;
            if done > length || status == Status::StreamEnd && done < length {
                return Err(wrong("compressed value", format!("{length} bytes"), done));
            }
            if input.is_empty() && done == length {
                return Ok(());
            }
            if took == 0 && gave == 0 {
                return if done == length { Ok(()) } else { Err(wrong("compressed value", length, done)) };
            }
        }
    }
}
