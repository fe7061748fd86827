//! Encodings of cells in cell blocks, and compression of cell blocks.
//!
//! The compressors are Hadoop's. gzip is one plain stream. Snappy and LZ4 use blocks:
//!
//! ```text
//!  raw length 4B · ( chunk length 4B · chunk )+      repeated; the chunks of a block unpack to its raw length
//! ```
//!
//! Memory for the output is limited by the caller's maximum, and by the maximum to which the received bytes can
//! decompress. A length that the sender claims allocates nothing.

use std::io::{self, Read, Write};

use bytes::Bytes;

/// The encoding of cells in a cell block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// No cell blocks: cells are protobuf messages.
    #[default]
    None,
    /// `KeyValueCodec`: length and KeyValue, without tags.
    KeyValue,
    /// `KeyValueCodecWithTags`: length and KeyValue, with tags.
    KeyValueWithTags,
}

impl Codec {
    /// Returns the codec with this Java class; `None` for an unknown class.
    pub fn of_class(class: &str) -> Option<Codec> {
        match class {
            "" => Some(Codec::None),
            "org.apache.hadoop.hbase.codec.KeyValueCodec" => Some(Codec::KeyValue),
            "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags" => Some(Codec::KeyValueWithTags),
            _ => None,
        }
    }

    /// Returns the Java class of the codec; empty for [`Codec::None`].
    pub fn class(self) -> &'static str {
        match self {
            Codec::None => "",
            Codec::KeyValue => "org.apache.hadoop.hbase.codec.KeyValueCodec",
            Codec::KeyValueWithTags => "org.apache.hadoop.hbase.codec.KeyValueCodecWithTags",
        }
    }
}

/// The compression of whole cell blocks, by one of Hadoop's codecs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compressor {
    /// Cell blocks are not compressed.
    #[default]
    None,
    /// One gzip stream.
    Gzip,
    /// Snappy in Hadoop's blocks.
    Snappy,
    /// LZ4 in Hadoop's blocks.
    Lz4,
}

/// Why compressed bytes are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not a valid stream.
    #[error("cell block is not {compressor:?}: {what}")]
    Malformed {
        /// The expected compression.
        compressor: Compressor,
        /// What is wrong.
        what: String,
    },
    /// The decompressed block would exceed the limit.
    #[error("cell block unpacks to more than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Uncompressed size of a block that is written, in bytes: less than the 256 KB buffers of Hadoop's decompressors.
const BLOCK_LENGTH: usize = 128 << 10;

/// Maximum factor by which Snappy data can expand: a copy of 64 bytes takes three bytes. Rounded up for short inputs.
const SNAPPY_RATIO: usize = 22;

/// Maximum factor by which LZ4 data can expand.
const LZ4_RATIO: usize = 255;

impl Compressor {
    /// Returns the compressor with this Java class: one of Hadoop's, or of HBase's that write the same bytes. `None`
    /// for an unknown class.
    pub fn of_class(class: &str) -> Option<Compressor> {
        match class {
            "" => Some(Compressor::None),
            "org.apache.hadoop.io.compress.GzipCodec"
            | "org.apache.hadoop.hbase.io.compress.ReusableStreamGzipCodec" => Some(Compressor::Gzip),
            "org.apache.hadoop.io.compress.SnappyCodec"
            | "org.apache.hadoop.hbase.io.compress.xerial.SnappyCodec"
            | "org.apache.hadoop.hbase.io.compress.aircompressor.SnappyCodec" => Some(Compressor::Snappy),
            "org.apache.hadoop.io.compress.Lz4Codec"
            | "org.apache.hadoop.hbase.io.compress.lz4.Lz4Codec"
            | "org.apache.hadoop.hbase.io.compress.aircompressor.Lz4Codec" => Some(Compressor::Lz4),
            _ => None,
        }
    }

    /// Returns Hadoop's class of the compressor; empty for [`Compressor::None`].
    pub fn class(self) -> &'static str {
        match self {
            Compressor::None => "",
            Compressor::Gzip => "org.apache.hadoop.io.compress.GzipCodec",
            Compressor::Snappy => "org.apache.hadoop.io.compress.SnappyCodec",
            Compressor::Lz4 => "org.apache.hadoop.io.compress.Lz4Codec",
        }
    }

    /// Compresses a cell block.
    pub fn compress(self, raw: Bytes) -> Bytes {
        if raw.is_empty() {
            return raw;
        }
        match self {
            Compressor::None => raw,
            Compressor::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                let packed = encoder.write_all(&raw).and_then(|()| encoder.finish());
                packed.expect("a Vec takes every write").into()
            }
            Compressor::Snappy => {
                let mut encoder = snap::raw::Encoder::new();
                blocks(&raw, |block| encoder.compress_vec(block).expect("blocks are far below 4 GB"))
            }
            Compressor::Lz4 => blocks(&raw, lz4_flex::block::compress),
        }
    }

    /// Decompresses a cell block that the other side sent. Fails if it is malformed or would have more than `limit`
    /// bytes. [`Compressor::None`] returns the block as it is, whatever its length.
    pub fn decompress(self, packed: Bytes, limit: usize) -> Result<Bytes, Error> {
        if packed.is_empty() {
            return Ok(packed);
        }
        match self {
            Compressor::None => Ok(packed),
            Compressor::Gzip => {
                let mut raw = Vec::new();
                let mut decoder = flate2::bufread::MultiGzDecoder::new(&packed[..]).take(limit as u64 + 1);
                decoder
                    .read_to_end(&mut raw)
                    .map_err(|error: io::Error| self.malformed(error.to_string()))?;
                if raw.len() > limit { Err(Error::TooLong { limit }) } else { Ok(raw.into()) }
            }
            Compressor::Snappy => {
                let mut decoder = snap::raw::Decoder::new();
                self.unblock(&packed, limit, |chunk, room| {
                    let length = snap::raw::decompress_len(chunk).map_err(|error| error.to_string())?;
                    if length > room || length > chunk.len() * SNAPPY_RATIO + 64 {
                        return Err(format!("a chunk of {} bytes claims to hold {length}", chunk.len()));
                    }
                    decoder.decompress_vec(chunk).map_err(|error| error.to_string())
                })
            }
            Compressor::Lz4 => self.unblock(&packed, limit, |chunk, room| {
                let mut raw = vec![0; room.min(chunk.len().saturating_mul(LZ4_RATIO) + 64)];
                let length =
                    lz4_flex::block::decompress_into(chunk, &mut raw).map_err(|error| error.to_string())?;
                raw.truncate(length);
                Ok(raw)
            }),
        }
    }

    fn malformed(self, what: String) -> Error {
        Error::Malformed { compressor: self, what }
    }

    /// Decompresses the chunks of all blocks: `unpack` receives a chunk and the maximum size of its output.
    fn unblock(
        self,
        packed: &[u8],
        limit: usize,
        mut unpack: impl FnMut(&[u8], usize) -> Result<Vec<u8>, String>,
    ) -> Result<Bytes, Error> {
        let mut raw: Vec<u8> = Vec::new();
        let mut rest = packed;
        let number = |rest: &mut &[u8]| -> Result<usize, Error> {
            let Some((number, after)) = rest.split_first_chunk::<4>() else {
                return Err(self.malformed(format!("{} bytes where a length is expected", rest.len())));
            };
            *rest = after;
            Ok(u32::from_be_bytes(*number) as usize)
        };
        while !rest.is_empty() {
            let length = number(&mut rest)?;
            if length > limit - raw.len() {
                return Err(Error::TooLong { limit });
            }
            let end = raw.len() + length;
            while raw.len() < end {
                let chunk = number(&mut rest)?;
                if chunk == 0 || chunk > rest.len() {
                    return Err(self.malformed(format!("chunk of {chunk} bytes with {} left", rest.len())));
                }
                let (bytes, after) = rest.split_at(chunk);
                rest = after;
                let unpacked = unpack(bytes, end - raw.len()).map_err(|what| self.malformed(what))?;
                if unpacked.is_empty() {
                    return Err(self.malformed("a chunk that holds nothing".to_owned()));
                }
                raw.extend_from_slice(&unpacked);
            }
        }
        Ok(raw.into())
    }
}

fn blocks(raw: &[u8], mut pack: impl FnMut(&[u8]) -> Vec<u8>) -> Bytes {
    let mut out = Vec::with_capacity(raw.len() / 2 + 64);
    for block in raw.chunks(BLOCK_LENGTH) {
        let packed = pack(block);
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        out.extend_from_slice(&packed);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compressor; 4] = [Compressor::None, Compressor::Gzip, Compressor::Snappy, Compressor::Lz4];

    fn samples() -> Vec<Bytes> {
        let mut noise = Vec::new();
        let mut word = 1u64;
        for _ in 0..50_000 {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            noise.push((word >> 33) as u8);
        }
        vec![Bytes::new(), Bytes::from_static(b"x"), vec![b'a'; 700_000].into(), noise.into()]
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        for compressor in ALL {
            assert_eq!(Compressor::of_class(compressor.class()), Some(compressor));
            for raw in samples() {
                let packed = compressor.compress(raw.clone());
                let unpacked = compressor.decompress(packed, raw.len()).expect("own bytes");
                assert!(unpacked == raw, "{compressor:?} of {} bytes", raw.len());
            }
        }
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        for compressor in &ALL[1..] {
            let packed = compressor.compress(vec![0; 300_000].into());
            assert!(
                matches!(compressor.decompress(packed, 299_999), Err(Error::TooLong { limit: 299_999 })),
                "{compressor:?}"
            );
        }
    }

    #[test]
    fn truncated_and_changed_streams_cause_no_panic() {
        for compressor in &ALL[1..] {
            let packed =
                compressor.compress((0..3_000u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>().into());
            for cut in 1..packed.len().min(400) {
                assert!(
                    compressor.decompress(packed.slice(..cut), 1 << 20).is_err(),
                    "{compressor:?} at {cut}"
                );
            }
            for at in 0..packed.len() {
                let mut bent = packed.to_vec();
                bent[at] ^= 0x55;
                let _either = compressor.decompress(bent.into(), 1 << 20);
            }
        }
    }

    #[test]
    fn a_claimed_length_alone_allocates_nothing() {
        // A Snappy chunk that claims to decompress to 4 GB, in a block that claims as much as the limit permits.
        let mut packed = (1u32 << 30).to_be_bytes().to_vec();
        packed.extend_from_slice(&6u32.to_be_bytes());
        packed.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0]);
        let error = Compressor::Snappy.decompress(packed.into(), 1 << 30).expect_err("refused");
        assert!(error.to_string().contains("claims to hold"), "{error}");
    }
}
