//! Elements of the HFile format: block headers, checksums, numbers.
//!
//! ```text
//! block   magic 8B · size on disk without header 4B · size unpacked without header 4B · offset of the previous block
//!         of the kind 8B · checksum type 1B · bytes per checksum 4B · size on disk with header, without checksums 4B
//!         · payload · one checksum 4B for each `bytes per checksum` of header and payload
//! ```
//!
//! All integers are big endian. Source: HBase 2.6 `HFileBlock`, `BlockType`, `ChecksumUtil`.

/// Length of a block's header, in bytes.
pub const HEADER_LENGTH: usize = 33;
/// Length of the trailer of a version 3 file, in bytes.
pub const TRAILER_LENGTH: usize = 4096;
/// Number of bytes that one checksum covers in files that this crate writes.
pub const BYTES_PER_CHECKSUM: u32 = 16 << 10;
/// Version 3 with minor version 3, which has checksums and a protobuf trailer.
pub(crate) const VERSION: u32 = 3 << 24 | 3;

/// The type of a block, encoded as its magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockType {
    /// A block of cells.
    Data,
    /// A block of encoded cells.
    EncodedData,
    /// A block of the lowest level of the index.
    LeafIndex,
    /// A chunk of a Bloom filter.
    BloomChunk,
    /// A meta block, which has a name.
    Meta,
    /// A block of a middle level of the index.
    IntermediateIndex,
    /// The block of the highest level of the index.
    RootIndex,
    /// The file info.
    FileInfo,
    /// The index of the chunks of the file's Bloom filter.
    GeneralBloomMeta,
    /// The index of the chunks of the Bloom filter of rows with family delete markers.
    DeleteFamilyBloomMeta,
}

impl BlockType {
    const ALL: [(BlockType, &[u8; 8]); 10] = [
        (BlockType::Data, b"DATABLK*"),
        (BlockType::EncodedData, b"DATABLKE"),
        (BlockType::LeafIndex, b"IDXLEAF2"),
        (BlockType::BloomChunk, b"BLMFBLK2"),
        (BlockType::Meta, b"METABLKc"),
        (BlockType::IntermediateIndex, b"IDXINTE2"),
        (BlockType::RootIndex, b"IDXROOT2"),
        (BlockType::FileInfo, b"FILEINF2"),
        (BlockType::GeneralBloomMeta, b"BLMFMET2"),
        (BlockType::DeleteFamilyBloomMeta, b"DFBLMET2"),
    ];

    pub(crate) fn magic(self) -> &'static [u8; 8] {
        Self::ALL.iter().find(|(kind, _)| *kind == self).expect("every kind has a magic").1
    }

    fn of_magic(magic: &[u8]) -> Option<BlockType> {
        Self::ALL.iter().find(|(_, known)| known[..] == *magic).map(|(kind, _)| *kind)
    }
}

/// The encoding of cells in a data block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Cells are stored in full, one after the other.
    #[default]
    None,
    /// Like [`Encoding::None`], followed by the offset of each row.
    RowIndexV1,
    /// Each key is stored without the prefix shared with the previous key.
    Prefix,
    /// Like [`Encoding::Prefix`], but lengths, type and timestamp are omitted where they repeat, or shortened where
    /// they differ little.
    Diff,
    /// Like [`Encoding::Diff`], with the last bytes of timestamps in place of differences, and repeated values omitted.
    FastDiff,
}

impl Encoding {
    /// Whether a key is stored as the difference from the previous key.
    pub(crate) fn shares_key_bytes(self) -> bool {
        matches!(self, Encoding::Prefix | Encoding::Diff | Encoding::FastDiff)
    }

    /// Returns HBase's name of the encoding.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::None => "NONE",
            Encoding::RowIndexV1 => "ROW_INDEX_V1",
            Encoding::Prefix => "PREFIX",
            Encoding::Diff => "DIFF",
            Encoding::FastDiff => "FAST_DIFF",
        }
    }

    /// Returns the id that precedes every block in this encoding; `None` for [`Encoding::None`], which has no id.
    pub(crate) fn id(self) -> Option<u16> {
        match self {
            Encoding::None => None,
            Encoding::Prefix => Some(2),
            Encoding::Diff => Some(3),
            Encoding::FastDiff => Some(4),
            Encoding::RowIndexV1 => Some(7),
        }
    }

    /// Returns the encoding with this name, if there is one.
    pub fn of_name(name: &str) -> Option<Encoding> {
        use Encoding::{Diff, FastDiff, None, Prefix, RowIndexV1};
        [None, RowIndexV1, Prefix, Diff, FastDiff].into_iter().find(|encoding| encoding.name() == name)
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) kind: BlockType,
    pub(crate) disk_size: u32,
    pub(crate) unpacked_size: u32,
    pub(crate) previous: i64,
    pub(crate) checksum: u8,
    pub(crate) bytes_per_checksum: u32,
    pub(crate) data_size: u32,
}

pub(crate) const CHECKSUM_NONE: u8 = 0;
pub(crate) const CHECKSUM_CRC32: u8 = 1;
pub(crate) const CHECKSUM_CRC32C: u8 = 2;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl BlockHeader {
    /// Returns the size of the whole block in the file, in bytes.
    pub(crate) fn disk_length(&self) -> u64 {
        u64::from(self.disk_size) + HEADER_LENGTH as u64
    }

    pub(crate) fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(self.kind.magic());
        out[8..12].copy_from_slice(&self.disk_size.to_be_bytes());
        out[12..16].copy_from_slice(&self.unpacked_size.to_be_bytes());
        out[16..24].copy_from_slice(&self.previous.to_be_bytes());
        out[24] = self.checksum;
        out[25..29].copy_from_slice(&self.bytes_per_checksum.to_be_bytes());
        out[29..33].copy_from_slice(&self.data_size.to_be_bytes());
    }

    /// Parses a block's header. The sizes are validated against each other, not against the file.
    pub(crate) fn parse(bytes: &[u8; HEADER_LENGTH]) -> Result<BlockHeader, (&'static str, String, String)> {
        let kind = BlockType::of_magic(&bytes[..8]).ok_or_else(|| {
            ("block magic", "a known one".to_owned(), bytes[..8].escape_ascii().to_string())
        })?;
        let previous = (i64::from(u32_at(bytes, 16)) << 32) | i64::from(u32_at(bytes, 20));
        let header = BlockHeader {
            kind,
            disk_size: u32_at(bytes, 8),
            unpacked_size: u32_at(bytes, 12),
            previous,
            checksum: bytes[24],
            bytes_per_checksum: u32_at(bytes, 25),
            data_size: u32_at(bytes, 29),
        };
        let payload_and_sums = u64::from(header.disk_size) + HEADER_LENGTH as u64;
        if (header.data_size as usize) < HEADER_LENGTH || u64::from(header.data_size) > payload_and_sums {
            let expected = format!("between {HEADER_LENGTH} and {payload_and_sums}");
            return Err(("block data size", expected, header.data_size.to_string()));
        }
        let chunks = match header.checksum {
            CHECKSUM_NONE if header.bytes_per_checksum == 0 => 0,
            // HBase leaves room for checksums even if the type is none.
            CHECKSUM_NONE | CHECKSUM_CRC32 | CHECKSUM_CRC32C if header.bytes_per_checksum > 0 => {
                u64::from(header.data_size).div_ceil(u64::from(header.bytes_per_checksum))
            }
            _ => {
                let found = format!("type {} every {} bytes", header.checksum, header.bytes_per_checksum);
                return Err(("block checksum kind", "CRC32, CRC32C or none".to_owned(), found));
            }
        };
        if u64::from(header.data_size) + 4 * chunks != payload_and_sums {
            let expected = (u64::from(header.data_size) + 4 * chunks).to_string();
            return Err(("block size on disk", expected, payload_and_sums.to_string()));
        }
        Ok(header)
    }

    /// Verifies the checksums of a whole block with its header. `Err` contains the offset of the damaged chunk, the
    /// stored checksum and the computed one.
    pub(crate) fn verify(&self, block: &[u8]) -> Result<(), (usize, u32, u32)> {
        if self.checksum == CHECKSUM_NONE {
            return Ok(());
        }
        let (data, sums) = block.split_at(self.data_size as usize);
        for (index, (chunk, sum)) in
            data.chunks(self.bytes_per_checksum as usize).zip(sums.chunks_exact(4)).enumerate()
        {
            let (expected, found) = (u32_at(sum, 0), checksum(self.checksum, chunk));
            if expected != found {
                return Err((index * self.bytes_per_checksum as usize, expected, found));
            }
        }
        Ok(())
    }
}

pub(crate) fn checksum(kind: u8, bytes: &[u8]) -> u32 {
    let algorithm = match kind {
        CHECKSUM_CRC32 => crc_fast::CrcAlgorithm::Crc32IsoHdlc,
        _ => crc_fast::CrcAlgorithm::Crc32Iscsi,
    };
    crc_fast::checksum(algorithm, bytes) as u32
}

/// Appends a number in Hadoop's variable-length encoding (`WritableUtils.writeVLong`).
pub fn write_vlong(out: &mut Vec<u8>, value: i64) {
    if (-112..=127).contains(&value) {
        out.push(value as u8);
        return;
    }
    let (tag, magnitude) = if value < 0 { (-120i8, !value as u64) } else { (-112i8, value as u64) };
    let length = 8 - magnitude.leading_zeros() as usize / 8;
    out.push((tag - length as i8) as u8);
    out.extend_from_slice(&magnitude.to_be_bytes()[8 - length..]);
}

/// Decodes the number at the start of `bytes`; returns it with its length, or `None` when `bytes` end too early.
#[inline]
pub fn read_vlong(bytes: &[u8]) -> Option<(i64, usize)> {
    let first = *bytes.first()? as i8;
    if first >= -112 {
        return Some((i64::from(first), 1));
    }
    let (negative, length) = if first < -120 {
        (true, (-120 - i32::from(first)) as usize)
    } else {
        (false, (-112 - i32::from(first)) as usize)
    };
    let magnitude = match bytes[1..].first_chunk::<8>() {
        // One word contains all bytes of the number, and some bytes after it.
        Some(word) => u64::from_be_bytes(*word) >> (64 - 8 * length),
        None => bytes.get(1..=length)?.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    Some((if negative { !magnitude as i64 } else { magnitude as i64 }, 1 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length_are_those_of_hadoop() {
        // As `WritableUtils.writeVLong` encodes them.
        let known: [(i64, &[u8]); 8] = [
            (0, &[0]),
            (127, &[127]),
            (-112, &[0x90]),
            (128, &[0x8f, 0x80]),
            (-113, &[0x87, 0x70]),
            (300, &[0x8e, 0x01, 0x2c]),
            (i64::MAX, &[0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (i64::MIN, &[0x80, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ];
        for (value, bytes) in known {
            let mut written = Vec::new();
            write_vlong(&mut written, value);
            assert_eq!(written, bytes, "{value}");
            assert_eq!(read_vlong(bytes), Some((value, bytes.len())));
            assert_eq!(read_vlong(&bytes[..bytes.len() - 1]), None, "{value} cut");
        }
    }

    #[test]
    fn numbers_of_every_length_are_read_whatever_bytes_follow() {
        for bits in 0..64 {
            for value in [1 << bits, !(1 << bits), i64::MAX >> bits, i64::MIN >> bits] {
                let mut written = Vec::new();
                write_vlong(&mut written, value);
                let length = written.len();
                for _ in 0..10 {
                    assert_eq!(read_vlong(&written), Some((value, length)), "{written:?}");
                    written.push(0xa5);
                }
            }
        }
    }
}
