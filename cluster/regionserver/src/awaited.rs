//! Reads that wait for storage without holding a thread.
//!
//! A read begins in memory. When it misses a block that can be awaited, its task awaits the block and repeats the read; the
//! blocks that have arrived stay at hand until the read has ended, so each repetition gets further. Whatever else it has to
//! wait for (the local disk, a row's lock, a processor) it waits for on the blocking thread pool.

use hfile::ArrivedBlock;
use region::{Error, ReadMode};

/// Bytes of blocks that one read keeps at hand. A read that needs more goes on where it may block.
const ARRIVED_BYTES_MAX: usize = 64 << 20;

/// How many blocks a scan keeps from row to row, and how many bytes of them.
const KEPT_BLOCKS_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The blocks that a read has awaited.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    blocks: Vec<ArrivedBlock>,
    bytes: usize,
}

impl Arrived {
    /// Waits until the read that failed with `error` can be repeated in memory; `None` when it must be repeated where it may
    /// block.
    pub(crate) async fn wait(&mut self, error: Error) -> Result<Option<()>, Error> {
        match error {
            Error::Missing(block) if self.bytes + block.length() <= ARRIVED_BYTES_MAX => {
                let arrived = block.await?;
                self.bytes += arrived.length();
                self.blocks.push(arrived);
                Ok(Some(()))
            }
            error if error.would_block() => Ok(None),
            error => Err(error),
        }
    }

    /// A row was read. The next one begins in blocks that were read last, one or two of each file; the others go.
    pub(crate) fn row_ended(&mut self) {
        let mut spent = self.blocks.len().saturating_sub(KEPT_BLOCKS_MAX);
        let spent_bytes: usize = self.blocks[..spent].iter().map(ArrivedBlock::length).sum();
        self.bytes -= spent_bytes;
        while self.bytes > KEPT_BYTES_MAX && spent + 2 < self.blocks.len() {
            self.bytes -= self.blocks[spent].length();
            spent += 1;
        }
        self.blocks.drain(..spent);
    }
}

/// Repeats `read`, which failed in memory with `error`, until it succeeds.
pub(crate) async fn repeat<T: Send + 'static>(
    mut error: Error,
    mut read: impl FnMut(ReadMode) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let mut arrived = Arrived::default();
    while arrived.wait(error).await?.is_some() {
        match read(ReadMode::MemoryOnly) {
            Err(again) => error = again,
            outcome => return outcome,
        }
    }
    env::blocking(move || read(ReadMode::Any)).await
}
