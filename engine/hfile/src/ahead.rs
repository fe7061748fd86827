//! Read-ahead of a scan.
//!
//! A reader of consecutive blocks benefits from one large read instead of many small ones, on disk and in system calls;
//! a reader that jumps needs single blocks. So a cursor begins with single blocks, and
//!
//! 1. after missing several consecutive blocks it reads a window and takes the following blocks from it;
//! 2. it doubles the window while windows are used to their end, and begins again with single blocks when it jumps out
//!    of a window, or finds blocks in the cache that it has read for nothing;
//! 3. with Scan's `readType` `PREAD` it never reads ahead, and with `STREAM` from the first block on.

use std::ops::Range;

/// Consecutive missed blocks before a window is read, with the default read type.
const MISSES_BEFORE: u32 = 2;
/// Size of the first window in bytes; blocks larger than it are read one by one.
const WINDOW_FIRST: usize = 128 << 10;

/// How a file is read: Scan's `readType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadType {
    /// Block by block, with read-ahead where it pays.
    #[default]
    Default,
    /// Block by block.
    Pread,
    /// With read-ahead from the start.
    Stream,
}

/// The bytes read ahead of a cursor.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    bytes: Vec<u8>,
    /// Offset of `bytes` in the file.
    from: u64,
    window: usize,
    /// Offset of the block after the last missed one, and the number of consecutive misses.
    expected: u64,
    misses: u32,
}

impl ReadAhead {
    /// The bytes from `at` to the end of the window; `None` if they are not in it.
    pub(crate) fn at(&self, at: u64) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.from)?).ok()?;
        self.bytes.get(start..).filter(|rest| !rest.is_empty())
    }

    /// Number of bytes to read at `at` after a block was missed there; `None` for the block alone.
    pub(crate) fn window(&mut self, at: u64, read_type: ReadType, window_max: usize) -> Option<usize> {
        let in_a_row = if at == self.expected { self.misses } else { 0 };
        // The missed block may begin at the end of the window.
        let was_used = (self.from..=self.from + self.bytes.len() as u64).contains(&at);
        self.misses = in_a_row.saturating_add(1);
        let wanted = match read_type {
            ReadType::Pread => false,
            ReadType::Stream => true,
            ReadType::Default => in_a_row >= MISSES_BEFORE,
        };
        if !wanted || window_max == 0 {
            (self.window, self.bytes) = (0, Vec::new());
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

    /// Number of bytes to await at `at` after a block was missed there. The window doubles with each consecutive miss.
    /// The reader keeps the bytes, not this.
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

    /// A buffer for the bytes at `at`.
    pub(crate) fn refill(&mut self, at: u64, length: usize) -> &mut [u8] {
        self.from = at;
        self.bytes.resize(length, 0);
        &mut self.bytes
    }

    /// Drops the buffer after a failed read.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// Records that the missed block at `place` was read.
    pub(crate) fn note(&mut self, place: Range<u64>) {
        self.expected = place.end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 64 << 10;

    /// The bytes read for each of these blocks; 0 for a block in the window.
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
}
