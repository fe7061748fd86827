//! Reads the bytes of a file from front to back, up to the end of its entries.

use std::sync::Arc;

use storage::FileReader;

/// Number of bytes that are read from the file at once: 1 MB.
const PART: usize = 1 << 20;

/// Why bytes cannot be read or decoded.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The file ends before the wanted bytes.
    End,
    /// The bytes are invalid: the name of the part, what was expected, what was found.
    Wrong(&'static str, String, String),
    /// Storage failed.
    Storage(storage::Error),
}

impl From<storage::Error> for Stop {
    fn from(error: storage::Error) -> Stop {
        Stop::Storage(error)
    }
}

pub(crate) fn wrong(what: &'static str, expected: impl ToString, found: impl ToString) -> Stop {
    Stop::Wrong(what, expected.to_string(), found.to_string())
}

/// A file, read from front to back.
pub(crate) struct Source {
    file: Arc<dyn FileReader>,
    /// The offset in the file at which the entries end.
    end: u64,
    /// Bytes of the file from `offset - taken` on.
    buffer: Vec<u8>,
    taken: usize,
    /// The offset in the file of the next byte.
    offset: u64,
}

impl Source {
    pub(crate) fn new(file: Arc<dyn FileReader>, end: u64) -> Source {
        Source { file, end, buffer: Vec::new(), taken: 0, offset: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of bytes that are left before the end of the entries.
    pub(crate) fn left(&self) -> u64 {
        self.end - self.offset
    }

    /// Returns the next `count` bytes without consuming them.
    fn peek(&mut self, count: usize) -> Result<&[u8], Stop> {
        if count as u64 > self.left() {
            return Err(Stop::End);
        }
        let has = self.buffer.len() - self.taken;
        if has < count {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let more = (count - has).max(PART).min((self.left() - has as u64) as usize);
            self.buffer.resize(has + more, 0);
            self.file.read_at(self.offset + has as u64, &mut self.buffer[has..])?;
        }
        Ok(&self.buffer[self.taken..self.taken + count])
    }

    /// Consumes the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&[u8], Stop> {
        self.peek(count)?;
        let at = self.taken;
        self.taken += count;
        self.offset += count as u64;
        Ok(&self.buffer[at..at + count])
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Stop> {
        Ok(self.take(1)?[0])
    }

    /// Reads a varint of seven bits a byte, the lowest first, of at most 32 bits.
    pub(crate) fn number(&mut self) -> Result<u32, Stop> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| wrong("number", "32 bits", number));
            }
        }
        Err(wrong("number", "at most 5 bytes", "more"))
    }

    /// Reads a length of at most `max` bytes.
    pub(crate) fn length(&mut self, what: &'static str, max: usize) -> Result<usize, Stop> {
        let length = self.number()? as usize;
        if length > max { Err(wrong(what, format!("at most {max} bytes"), length)) } else { Ok(length) }
    }

    /// Whether all remaining bytes are zero, as after a loss of power.
    pub(crate) fn only_zeros(&mut self) -> Result<bool, Stop> {
        while self.left() > 0 {
            let count = self.left().min(PART as u64) as usize;
            if self.take(count)?.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
