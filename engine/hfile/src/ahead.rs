//! Read-ahead of a scan.
//!
//! A reader of consecutive blocks benefits from one large read instead of many small ones, on disk and in system calls.
//! A reader that jumps needs single blocks. So a cursor begins with single blocks, and then follows these rules:
//!
//! 1. After missing several consecutive blocks in the cache, it reads a window of bytes, and takes the following blocks
//!    from the window.
//! 2. It doubles the window while it uses windows to their end. It halves the window, or returns to single blocks, when
//!    it jumps out of a window or finds blocks in the cache that it has read in vain.
//! 3. With Scan's `readType` `PREAD` it does not read ahead; with `STREAM` it reads ahead from the first block on. A
//!    maximum window of 0 bytes (`bellows.hfile.read.ahead.max`) turns read-ahead off for every read type.
//!
//! From slow storage, the bytes after a window are [requested early](FileReader::read_early), so that a compaction
//! merges one window while the next one is being read.

use std::fmt;
use std::ops::Range;

use storage::{EarlyRead, FileReader};

/// Number of consecutive missed blocks after which a window is read, with the default read type.
const MISSES_BEFORE: u32 = 2;
/// Size of the first window in bytes; larger blocks are read one by one.
const WINDOW_FIRST: usize = 128 << 10;

/// How a file is read: Scan's `readType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadType {
    /// Begins block by block, and reads ahead after several consecutive blocks.
    #[default]
    Default,
    /// Reads block by block.
    Pread,
    /// Reads ahead from the first block on.
    Stream,
}

/// The bytes that a cursor has read ahead, and the state by which it decides how much to read.
#[derive(Default)]
pub(crate) struct ReadAhead {
    bytes: Vec<u8>,
    /// The read of the bytes after the window, if it was requested early.
    early: Option<EarlyRead>,
    /// Offset of `bytes` in the file.
    from: u64,
    window: usize,
    /// Offset of the block after the last missed one.
    expected: u64,
    /// Number of consecutive misses before `expected`.
    misses: u32,
}

impl ReadAhead {
    /// Returns the bytes from `at` to the end of the window; `None` if `at` is not in the window.
    pub(crate) fn at(&self, at: u64) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.from)?).ok()?;
        self.bytes.get(start..).filter(|rest| !rest.is_empty())
    }

    /// Returns the number of bytes to read at `at` after a block was missed there; `None` to read the block alone.
    pub(crate) fn window(&mut self, at: u64, read_type: ReadType, window_max: usize) -> Option<usize> {
        let in_a_row = if at == self.expected { self.misses } else { 0 };
        // The window also counts as used if the missed block begins exactly at its end.
        let was_used = (self.from..=self.from + self.bytes.len() as u64).contains(&at);
        self.misses = in_a_row.saturating_add(1);
        let wanted = match read_type {
            ReadType::Pread => false,
            ReadType::Stream => true,
            ReadType::Default => in_a_row >= MISSES_BEFORE,
        };
        if !wanted || window_max == 0 {
            (self.window, self.bytes, self.early) = (0, Vec::new(), None);
            return None;
        }
        self.window = match self.window {
            0 => WINDOW_FIRST,
            window if was_used && in_a_row > 0 => window.saturating_mul(2),
            window => (window / 2).max(WINDOW_FIRST),
        };
        self.window = self.window.min(window_max);
        Some(self.window)
    }

    /// Returns the number of bytes to await at `at` after a block was missed there; 0 for the block alone. The number
    /// doubles with each consecutive miss. The bytes are kept by the reader, not by this window.
    pub(crate) fn window_awaited(&mut self, at: u64, read_type: ReadType, window_max: usize) -> usize {
        let in_a_row = if at == self.expected { self.misses } else { 0 };
        self.misses = in_a_row.saturating_add(1);
        let first = match read_type {
            ReadType::Pread => return 0,
            ReadType::Stream => 0,
            ReadType::Default => MISSES_BEFORE,
        };
        match in_a_row.checked_sub(first) {
            Some(doublings) => WINDOW_FIRST.saturating_mul(1 << doublings.min(16)).min(window_max),
            None => 0,
        }
    }

    /// Takes the bytes that were requested early, and appends them to the bytes of the window from `at` on. Returns
    /// `false` if there are none, if `at` is not in or right after the window, or if the read failed; the early read is
    /// then dropped.
    pub(crate) fn take_early(&mut self, at: u64) -> bool {
        let Some(early) = self.early.take() else { return false };
        let Some(used) = at.checked_sub(self.from).filter(|used| *used <= self.bytes.len() as u64) else {
            return false;
        };
        let Ok(bytes) = early() else { return false };
        self.bytes.drain(..used as usize);
        self.bytes.extend_from_slice(&bytes);
        self.from = at;
        true
    }

    /// Requests the window after this one early; the read ends at `end` at the latest.
    pub(crate) fn begin_early(&mut self, file: &dyn FileReader, end: u64) {
        let next = self.from + self.bytes.len() as u64;
        let length = (self.window as u64).min(end.saturating_sub(next));
        self.early = if length == 0 { None } else { file.read_early(next, length as usize) };
    }

    /// Makes the window begin at `at` with `length` bytes. Returns the buffer, into which the caller reads them.
    pub(crate) fn refill(&mut self, at: u64, length: usize) -> &mut [u8] {
        self.early = None;
        self.from = at;
        self.bytes.resize(length, 0);
        &mut self.bytes
    }

    /// Empties the window, because the read that should have filled it has failed.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// Records that the missed block in the range `place` of the file was read. If the next miss is at the end of this
    /// range, it counts as consecutive.
    pub(crate) fn note(&mut self, place: Range<u64>) {
        self.expected = place.end;
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead")
            .field("from", &self.from)
            .field("length", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 64 << 10;

    /// Returns, for each of these blocks, the number of bytes that its read takes; 0 for a block that is in the window.
    fn reads(read_type: ReadType, blocks: &[u64]) -> Vec<usize> {
        let mut ahead = ReadAhead::default();
        let read = |&block: &u64| {
            let at = block * BLOCK;
            let read = match ahead.at(at) {
                Some(rest) if rest.len() >= BLOCK as usize => 0,
                _ => match ahead.window(at, read_type, 512 << 10) {
                    Some(window) => ahead.refill(at, window).len(),
                    None => BLOCK as usize,
                },
            };
            ahead.note(at..at + BLOCK);
            read >> 10
        };
        blocks.iter().map(read).collect()
    }

    #[test]
    fn read_ahead_grows_for_sequential_reads_only() {
        let walk: Vec<u64> = (0..20).collect();
        let expected = [64, 64, 128, 0, 256, 0, 0, 0, 512, 0, 0, 0, 0, 0, 0, 0, 512, 0, 0, 0];
        assert_eq!(reads(ReadType::Default, &walk), expected);
        assert_eq!(reads(ReadType::Pread, &walk), [64; 20]);
        assert_eq!(reads(ReadType::Stream, &walk)[..6], [128, 0, 256, 0, 0, 0]);
        let jumps: Vec<u64> = (0..20).map(|at| at * 7 % 20 * 3).collect();
        assert_eq!(reads(ReadType::Default, &jumps), [64; 20]);
    }

    #[test]
    fn unused_read_ahead_shrinks_the_window() {
        let walk = [0, 1, 2, 3, 4, 5, 6, 7, 8];
        let gap = [9, 30, 31, 32, 33];
        let read = reads(ReadType::Default, &[&walk[..], &gap[..]].concat());
        assert_eq!(read, [64, 64, 128, 0, 256, 0, 0, 0, 512, 0, 64, 64, 128, 0]);
        assert_eq!(reads(ReadType::Stream, &[0, 1, 2, 3, 4, 5, 40, 41])[6..], [128, 0]);
    }

    /// A file of numbered bytes that supports early reads, and counts its reads of each kind.
    #[derive(Default)]
    struct Slow {
        begun: std::sync::Mutex<Vec<(u64, usize)>>,
        fails: bool,
    }

    const SIZE: u64 = 1 << 20;

    fn content(range: Range<u64>) -> Vec<u8> {
        range.map(|at| (at / 1_000) as u8).collect()
    }

    impl FileReader for Slow {
        fn size(&self) -> u64 {
            SIZE
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> storage::Result<()> {
            buffer.copy_from_slice(&content(offset..offset + buffer.len() as u64));
            Ok(())
        }

        fn read_early(&self, offset: u64, length: usize) -> Option<EarlyRead> {
            self.begun.lock().expect("no panic").push((offset, length));
            let bytes = match self.fails {
                false => Ok(content(offset..offset + length as u64).into()),
                true => Err(storage::Error::new(
                    storage::Kind::Failed,
                    storage::Outcome::DidNotHappen,
                    &storage::FileName::root(),
                    "read",
                )),
            };
            Some(Box::new(move || bytes))
        }
    }

    #[test]
    fn the_next_window_is_read_early_and_continues_a_block_that_was_cut() {
        let file = Slow::default();
        let mut ahead = ReadAhead::default();
        let window = ahead.window(0, ReadType::Stream, 256 << 10).expect("a window");
        file.read_at(0, ahead.refill(0, window)).expect("read");
        ahead.begin_early(&file, SIZE);
        // The window ends with a part of a block. So the next read begins at the start of that block.
        let at = window as u64 - 1_000;
        ahead.note(at - 1_000..at);
        let window = ahead.window(at, ReadType::Stream, 256 << 10).expect("a window");
        assert!(ahead.take_early(at));
        assert_eq!(ahead.at(at), Some(&content(at..at + 1_000 + WINDOW_FIRST as u64)[..]));
        ahead.begin_early(&file, SIZE);
        let first = WINDOW_FIRST as u64;
        assert_eq!(*file.begun.lock().expect("no panic"), [(first, WINDOW_FIRST), (2 * first, window)]);
        assert!(!ahead.take_early(10 * first), "a reader that jumps gives the read up");
        assert!(!ahead.take_early(2 * first), "it was given up");
    }

    #[test]
    fn an_early_read_ends_at_the_last_block_and_its_failure_is_ignored() {
        let file = Slow { fails: true, ..Slow::default() };
        let mut ahead = ReadAhead::default();
        let window = ahead.window(0, ReadType::Stream, 128 << 10).expect("a window");
        file.read_at(0, ahead.refill(0, window)).expect("read");
        ahead.begin_early(&file, window as u64);
        assert_eq!(file.begun.lock().expect("no panic").len(), 0, "nothing is after the last block");
        ahead.begin_early(&file, window as u64 + 500);
        assert_eq!(*file.begun.lock().expect("no panic"), [(window as u64, 500)]);
        assert!(!ahead.take_early(window as u64), "the caller reads again, and learns what failed");
    }
}
