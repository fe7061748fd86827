//! Reads that wait for storage without blocking a thread.
//!
//! A read first tries to find everything in memory. If it misses a block that can be awaited, its task awaits the block
//! and repeats the read. Awaited blocks stay in memory until the read ends, so each repetition gets further. A scan
//! releases most of them after each row. If the read needs anything else (the local disk, a row lock, processor time),
//! it moves to the blocking thread pool. Before it moves because of a large MOB value, it waits until the server has
//! memory for the value and the answer ([`rpc::LargeBudget`]).

use hfile::ArrivedBlock;
use region::{Error, ReadMode};
use rpc::Share;

/// Maximum number of bytes of blocks that one read holds. A read that needs more moves to the blocking thread pool.
const ARRIVED_BYTES_MAX: usize = 64 << 20;

/// Maximum number of blocks that a scan holds from row to row.
const KEPT_BLOCKS_MAX: usize = 32;
/// Maximum size of the blocks that a scan holds from row to row, in bytes.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// The blocks that a read has awaited.
#[derive(Debug, Default)]
pub(crate) struct AwaitedBlocks {
    blocks: Vec<ArrivedBlock>,
    bytes: usize,
}

impl AwaitedBlocks {
    /// Waits until the read that failed with `error` can be repeated in memory. Returns `None` if it must be repeated
    /// on the blocking thread pool.
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

    /// Releases blocks after a row. Keeps the blocks that were read last, because the next row begins there: at most
    /// [`KEPT_BLOCKS_MAX`] blocks and [`KEPT_BYTES_MAX`] bytes, but two blocks whatever their size.
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

/// Repeats `read`, which failed in memory with `error`: in memory after each block that arrives, or on the blocking
/// thread pool if it must block there. Returns the first success, or the first error for which a repetition does not
/// help. `share` is the answer's share of the memory budget of all answers. `read` must fail with [`Error::MobValue`]
/// for a cell of more bytes than its second argument; `None` means no limit.
pub(crate) async fn repeat<T: Send + 'static>(
    mut error: Error,
    share: &mut Share,
    mut read: impl FnMut(ReadMode, Option<u64>) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let mut arrived = AwaitedBlocks::default();
    loop {
        let mob_bytes = error.mob_bytes();
        if arrived.wait(error).await?.is_none() {
            share.admit_large(mob_bytes).await;
            break;
        }
        match read(ReadMode::MemoryOnly, share.large_from()) {
            Err(again) => error = again,
            outcome => return outcome,
        }
    }
    let large_from = share.large_from();
    let (outcome, mut read) = env::blocking(move || (read(ReadMode::Any, large_from), read)).await;
    match outcome {
        // A value is longer than was allowed, and its length is known only now.
        Err(Error::MobValue { bytes }) => {
            share.admit_large(bytes).await;
            env::blocking(move || read(ReadMode::Any, None)).await
        }
        outcome => outcome,
    }
}
