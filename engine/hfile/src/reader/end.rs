//! A file whose last bytes are in memory.

use std::sync::Arc;

use bytes::Bytes;
use storage::FileReader;

/// Reads the end of a file from memory, and the rest from storage. Used while the file is opened.
pub(super) struct KnownEnd {
    file: Arc<dyn FileReader>,
    end: Bytes,
    /// Offset of `end` in the file.
    from: u64,
}

impl KnownEnd {
    pub(super) fn new(file: Arc<dyn FileReader>, end: Bytes) -> KnownEnd {
        let from = file.size().saturating_sub(end.len() as u64);
        KnownEnd { file, end, from }
    }
}

impl FileReader for KnownEnd {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
        let known = offset.checked_sub(self.from).and_then(|at| {
            let at = usize::try_from(at).ok()?;
            self.end.get(at..at.checked_add(buffer.len())?)
        });
        match known {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => self.file.read_at(offset, buffer),
        }
    }
}
