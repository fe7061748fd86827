//! The bytes of a part of a growing file.
//!
//! ```text
//! magic 8B "BLWPART1" · kind 4B · number 4B · nonce of the writer 8B · offset in the file 8B
//! · length of the payload 8B · crc32c 4B of the 40 bytes before and the payload · 4B zero · payload
//! ```
//!
//! All numbers are big-endian. No two writers write the same bytes: a writer chooses a random nonce when it creates its
//! file.

use crate::{Error, FileName, Kind, Outcome, Result};

const MAGIC: &[u8; 8] = b"BLWPART1";
/// Size of a part's header, in bytes.
pub(super) const HEADER_LENGTH: usize = 48;
/// Number of header bytes that the checksum covers.
const SUMMED: usize = 40;
/// Suffix of the names of parts.
const SUFFIX: &str = ".part";
/// Number of digits of a part's number in its name.
const DIGITS: usize = 8;

/// Whether a growing file continues after a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    /// More may follow.
    Data,
    /// The writer has finished the file with this part.
    End,
    /// Another process has sealed the file: no later part counts.
    Seal,
}

impl PartKind {
    const ALL: [PartKind; 3] = [PartKind::Data, PartKind::End, PartKind::Seal];

    fn code(self) -> u32 {
        1 + self as u32
    }
}

/// A part of a growing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<P = ()> {
    /// Whether the file continues after this part.
    pub(super) kind: PartKind,
    /// The number of the part in the file, from 0.
    pub(super) number: u32,
    /// A random number of the writer. Two writers of one name have different nonces.
    pub(super) nonce: u64,
    /// Offset of the part's payload in the file.
    pub(super) offset: u64,
    /// The bytes of the file in this part; empty where only the header is needed.
    pub(super) payload: P,
}

impl Part<&[u8]> {
    /// Returns the bytes of the object that stores the part.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_LENGTH + self.payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.kind.code().to_be_bytes());
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.nonce.to_be_bytes());
        bytes.extend_from_slice(&self.offset.to_be_bytes());
        bytes.extend_from_slice(&(self.payload.len() as u64).to_be_bytes());
        let sum = checksum(&bytes, self.payload);
        bytes.extend_from_slice(&sum.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

impl Part {
    /// Parses the content of an object. Fails if it is damaged or is not a part.
    pub(super) fn parse(name: &FileName, bytes: &[u8]) -> Result<Part> {
        let damaged = |what: &str| {
            Error::new(Kind::Failed, Outcome::DidNotHappen, name, "read").because(format!(
                "it is damaged: {what}; restore it from the store's versions if it has them, or from a backup"
            ))
        };
        let Some((header, payload)) = bytes.split_at_checked(HEADER_LENGTH) else {
            return Err(damaged(&format!("{} bytes, expected a whole header", bytes.len())));
        };
        let long = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let int = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if &header[..8] != MAGIC {
            return Err(damaged("it does not begin with the magic of a part"));
        }
        if int(SUMMED) != checksum(&header[..SUMMED], payload) || long(32) != payload.len() as u64 {
            return Err(damaged("checksum mismatch"));
        }
        let kind = PartKind::ALL.into_iter().find(|kind| kind.code() == int(8));
        let kind = kind.ok_or_else(|| damaged("a newer version wrote it"))?;
        if number(name.last()) != Some(int(12)) {
            return Err(damaged(&format!("it is part {}, expected the number in its name", int(12))));
        }
        Ok(Part { kind, number: int(12), nonce: long(16), offset: long(24), payload: () })
    }
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    digest.update(payload);
    digest.finalize() as u32
}

/// Returns the name of a part of `file`.
pub(super) fn name(file: &FileName, number: u32) -> FileName {
    file.join(&format!("{number:0DIGITS$}{SUFFIX}"))
}

/// Returns the number in the name of a part; `None` for any other name.
pub(super) fn number(last: &str) -> Option<u32> {
    let digits = last.strip_suffix(SUFFIX)?;
    digits.parse().ok().filter(|_| digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the payload size of an object of `size` bytes.
pub(super) fn payload_size(size: u64) -> u64 {
    size.saturating_sub(HEADER_LENGTH as u64)
}
