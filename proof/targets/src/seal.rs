//! Corrects the checksums of a mutated input.
//!
//! Without this a reader would reject nearly every changed input at its checksum, and its other checks would not be
//! tested.

use crc_fast::{CrcAlgorithm, checksum};

/// Size of an HFile block's header, in bytes.
const HEADER: usize = 33;

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(word)).ok()
}

/// Corrects the checksums of the blocks of an HFile, up to the first block whose header cannot be right.
///
/// ```text
/// header  magic 8B · length on disk without header 4B · length unpacked 4B · previous 8B · checksum type 1B
///         · bytes per checksum 4B · length on disk with header and without checksums 4B
/// ```
pub(crate) fn hfile(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER) {
        let (Some(length), Some(each), Some(data)) = (word(header, 8), word(header, 25), word(header, 29))
        else {
            return;
        };
        let algorithm = match header[24] {
            1 => Some(CrcAlgorithm::Crc32IsoHdlc),
            2 => Some(CrcAlgorithm::Crc32Iscsi),
            _ => None,
        };
        let end = at + HEADER + length;
        if let Some(algorithm) = algorithm {
            if each == 0 || data > HEADER + length || end > bytes.len() {
                return;
            }
            let (block, sums) = bytes[at..end].split_at_mut(data);
            for (chunk, sum) in block.chunks(each).zip(sums.chunks_exact_mut(4)) {
                sum.copy_from_slice(&(checksum(algorithm, chunk) as u32).to_be_bytes());
            }
        }
        at = end;
    }
}

/// Returns a log file of one batch with this payload; see `docs/formats/wal.md`.
pub(crate) fn wal(payload: &[u8]) -> Vec<u8> {
    let crc = |bytes: &[u8]| (checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32).to_be_bytes();
    let mut file = b"BELLOWAL\0\0\0\x02".to_vec();
    let number = 1u64.to_be_bytes();
    file.extend_from_slice(&1u64.to_be_bytes());
    file.extend_from_slice(&number);
    file.extend_from_slice(&crc(&file));
    let offset = (file.len() as u64).to_be_bytes();
    let length = (payload.len() as u32).to_be_bytes();
    let sum = crc(&[&number[..], &offset, &length, &offset, payload].concat());
    [&file[..], &length, &offset, &sum, payload].concat()
}
