//! Compression of block payloads in Hadoop's and HBase's framing.
//!
//! GZ is a gzip member. Snappy, LZ4 and ZSTD (as HBase's own codec writes it) are groups of `raw length 4B ·
//! (compressed length 4B · compressed bytes)+`. Hadoop's native ZSTD codec writes a bare frame, which is recognized by
//! its magic. A group is smaller than the buffers of Hadoop's decompressors, which have 256 KB.

use std::io::{self, Read, Write};

use lz4_flex::block::DecompressError;

/// The compression codec of a file, with HBase's names and numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are not compressed.
    #[default]
    None,
    /// Gzip.
    Gz,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// Uncompressed size of one group, in bytes.
const GROUP: usize = 128 << 10;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Maximum number of bytes to which LZ4 expands one byte; the format's limit is 255.
const LZ4_EXPANSION_MAX: usize = 256;
/// Maximum number of bytes to which Snappy expands one byte. The format's limit is 64 bytes for 3.
const SNAPPY_EXPANSION_MAX: usize = 22;
/// Number of bytes that are allocated for unpacked bytes because a file claims them, or four times the packed bytes, if these
/// are more. A buffer for more grows with the bytes that were unpacked.
const BELIEVED: usize = 1 << 20;

impl Compression {
    const ALL: [(Compression, &str, u32); 5] = [
        (Compression::None, "NONE", 2),
        (Compression::Gz, "GZ", 1),
        (Compression::Snappy, "SNAPPY", 3),
        (Compression::Lz4, "LZ4", 4),
        (Compression::Zstd, "ZSTD", 6),
    ];

    /// Returns HBase's name of the codec.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(codec, ..)| *codec == self).expect("every codec has a name").1
    }

    /// Returns the codec with this name, if it is supported.
    pub fn of_name(name: &str) -> Option<Compression> {
        Self::ALL.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(name)).map(|(codec, ..)| *codec)
    }

    pub(crate) fn code(self) -> u32 {
        Self::ALL.iter().find(|(codec, ..)| *codec == self).expect("every codec has a number").2
    }

    pub(crate) fn of_code(code: u32) -> Option<Compression> {
        Self::ALL.iter().find(|(.., known)| *known == code).map(|(codec, ..)| *codec)
    }

    /// Appends `raw` to `out`, compressed.
    pub(crate) fn pack(self, raw: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Compression::None => out.extend_from_slice(raw),
            Compression::Gz => {
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                encoder.write_all(raw)?;
                encoder.finish()?;
            }
            Compression::Snappy => {
                let mut encoder = snap::raw::Encoder::new();
                groups(raw, out, |group| encoder.compress_vec(group).map_err(io::Error::other))?;
            }
            Compression::Lz4 => groups(raw, out, |group| Ok(lz4_flex::block::compress(group)))?,
            Compression::Zstd => groups(raw, out, |group| zstd::bulk::compress(group, 3))?,
        }
        Ok(())
    }

    /// Decompresses exactly `size` bytes into a buffer without spare capacity. The buffer grows with the bytes that
    /// were actually decompressed, because `size` comes from the file and may be wrong.
    pub(crate) fn unpack(self, packed: &[u8], size: usize) -> io::Result<Vec<u8>> {
        let mut raw = match self {
            Compression::None => packed.to_vec(),
            Compression::Gz => bounded(flate2::read::GzDecoder::new(packed), packed.len(), size)?,
            Compression::Zstd if packed.starts_with(&ZSTD_MAGIC) => {
                bounded(zstd::Decoder::new(packed)?, packed.len(), size)?
            }
            Compression::Snappy | Compression::Lz4 | Compression::Zstd => self.ungroup(packed, size)?,
        };
        if raw.len() != size {
            return Err(io::Error::other(format!("{size} bytes expected, {} unpacked", raw.len())));
        }
        // If the buffer already has the exact size, this does nothing.
        raw.shrink_to_fit();
        Ok(raw)
    }

    fn ungroup(self, mut packed: &[u8], size: usize) -> io::Result<Vec<u8>> {
        let short = || io::Error::other("the packed bytes end in the middle");
        let next = |packed: &mut &[u8]| -> io::Result<usize> {
            let (length, rest) = packed.split_first_chunk::<4>().ok_or_else(short)?;
            *packed = rest;
            Ok(u32::from_be_bytes(*length) as usize)
        };
        let mut raw = Vec::new();
        while raw.len() < size {
            let end = raw.len().checked_add(next(&mut packed)?).filter(|end| *end <= size);
            let end = end.ok_or_else(|| io::Error::other("a group unpacks beyond its block"))?;
            while raw.len() < end {
                let length = next(&mut packed)?;
                let (chunk, rest) = packed.split_at_checked(length).ok_or_else(short)?;
                packed = rest;
                let room = end - raw.len();
                let unpacked = match self {
                    Compression::Snappy => {
                        let length = snap::raw::decompress_len(chunk).map_err(io::Error::other)?;
                        if length > room.min(chunk.len().saturating_mul(SNAPPY_EXPANSION_MAX)) {
                            return Err(io::Error::other("a snappy chunk claims more than it can hold"));
                        }
                        snap::raw::Decoder::new().decompress_vec(chunk).map_err(io::Error::other)?
                    }
                    Compression::Lz4 => unpack_lz4(chunk, room).map_err(io::Error::other)?,
                    _ => bounded(zstd::Decoder::new(chunk)?, length, room)?,
                };
                if unpacked.is_empty() || unpacked.len() > end - raw.len() {
                    return Err(io::Error::other("a chunk unpacks to another length than its group says"));
                }
                raw.extend_from_slice(&unpacked);
            }
        }
        // An empty group, which HBase's LZ4 codec writes for an empty block.
        while let Some(rest) = packed.strip_prefix(&[0; 4]) {
            packed = rest;
        }
        if !packed.is_empty() {
            return Err(io::Error::other(format!("{} bytes after the last group", packed.len())));
        }
        Ok(raw)
    }
}

fn groups(
    raw: &[u8],
    out: &mut Vec<u8>,
    mut pack: impl FnMut(&[u8]) -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    for group in raw.chunks(GROUP) {
        let packed = pack(group)?;
        out.extend_from_slice(&(group.len() as u32).to_be_bytes());
        out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(())
}

/// Returns how much memory is reserved for `size` bytes that `packed` compressed bytes are said to have.
fn reserved(packed: usize, size: usize) -> usize {
    size.min(packed.saturating_mul(4).max(BELIEVED))
}

/// Reads at most `size + 1` bytes from `source`; the last one shows whether the source has more bytes than expected. The
/// source reads `packed` compressed bytes.
fn bounded(source: impl Read, packed: usize, size: usize) -> io::Result<Vec<u8>> {
    let mut raw = Vec::with_capacity(reserved(packed, size));
    source.take(size as u64 + 1).read_to_end(&mut raw)?;
    Ok(raw)
}

/// Decompresses `chunk` to at most `room` bytes. LZ4 does not record the unpacked size, and unpacks into a buffer whose size
/// is fixed. So if the buffer is too small, this begins again with one of four times the size.
fn unpack_lz4(chunk: &[u8], room: usize) -> Result<Vec<u8>, DecompressError> {
    let room = room.min(chunk.len().saturating_mul(LZ4_EXPANSION_MAX));
    let mut size = reserved(chunk.len(), room);
    loop {
        match lz4_flex::block::decompress(chunk, size) {
            Err(DecompressError::OutputTooSmall { .. }) if size < room => {
                size = room.min(size.saturating_mul(4));
            }
            unpacked => return unpacked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codec_gives_back_what_it_was_given() {
        let raw: Vec<u8> = (0..400_000u32).flat_map(|n| (n / 7 % 251).to_le_bytes()).take(300_001).collect();
        for (codec, ..) in Compression::ALL {
            for size in [0, 1, 100, GROUP, GROUP + 1, raw.len()] {
                let mut packed = Vec::new();
                codec.pack(&raw[..size], &mut packed).expect("packed");
                let unpacked = codec.unpack(&packed, size).expect("unpacked");
                assert_eq!(unpacked, &raw[..size], "{codec:?} {size}");
                assert_eq!(unpacked.capacity(), size, "{codec:?}: no more is held than is counted");
                if size > 0 && codec != Compression::None {
                    assert!(codec.unpack(&packed, size - 1).is_err(), "{codec:?} gives more than was asked");
                    assert!(codec.unpack(&packed[..packed.len() - 1], size).is_err(), "{codec:?} cut");
                }
            }
        }
    }

    #[test]
    fn a_group_of_nothing_is_an_empty_block() {
        assert_eq!(Compression::Lz4.unpack(&[0; 4], 0).expect("unpacked"), b"");
        assert!(Compression::Lz4.unpack(&[0, 0, 0, 0, 7], 0).is_err(), "more behind it");
    }

    /// A file may claim any size. Memory is allocated for bytes that were unpacked.
    #[test]
    fn a_claim_of_four_gigabytes_allocates_little() {
        let (claim, few) = (u32::MAX as usize, vec![7; 100]);
        let packed = 16 << 20;
        let gz = bounded(&few[..], packed, claim).expect("read");
        assert_eq!(gz, few);
        assert!(gz.capacity() <= 4 * packed, "{} bytes are reserved", gz.capacity());
        // A chunk of 16 MB that unpacks to about as much, and not to 256 times as much.
        let raw: Vec<u8> =
            (0..packed as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        let unpacked = unpack_lz4(&lz4_flex::block::compress(&raw), claim).expect("unpacked");
        assert!(unpacked == raw && unpacked.capacity() <= 5 * packed, "{} bytes", unpacked.capacity());
        // Zeros are expanded most, in steps.
        let zeros = vec![0; 9 << 20];
        assert!(unpack_lz4(&lz4_flex::block::compress(&zeros), claim).expect("unpacked") == zeros);
        // A Snappy chunk says its size itself.
        let mut chunk = vec![0xff, 0xff, 0xff, 0xff, 0x0f];
        chunk.resize(1 << 20, 0);
        let mut packed = (claim as u32).to_be_bytes().to_vec();
        packed.extend_from_slice(&(chunk.len() as u32).to_be_bytes());
        packed.extend_from_slice(&chunk);
        let refused = Compression::Snappy.unpack(&packed, claim).expect_err("it has less").to_string();
        assert!(refused.contains("claims more than it can hold"), "{refused}");
    }
}
