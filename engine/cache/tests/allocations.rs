//! Tests that a lookup that finds its block in memory allocates nothing, and that a lookup that copies a block from a
//! device allocates no memory for the block's bytes.

use std::convert::Infallible;
use std::sync::Arc;

use cache::{Ask, Block, BlockKind, Bucket, BucketOptions, Cache, Caching};
use env::World;
use storage::LocalDevice;

#[global_allocator]
static COUNTING: micro::Counting = micro::Counting;

fn block(kind: BlockKind) -> Block {
    Block {
        kind,
        bytes: vec![7; 16 << 10].into(),
        offsets: (0..200).collect(),
        heads: [].into(),
        shared: 0,
        row_starts: [1; 7].into(),
        disk_length: 9,
        previous: None,
        packed: false,
    }
}

fn allocations_of_hits(cache: &Arc<Cache>) -> u64 {
    let file = cache.open_file("data/default/t/r/f/1", 1 << 30, Caching::default());
    let look = |offset: u64, keep: bool| {
        let ask = Ask { keep, memory_only: false };
        let found =
            file.block::<Infallible>(offset << 14, BlockKind::Data, ask, || Ok(block(BlockKind::Data)));
        let Ok(Some(found)) = found else { unreachable!("the caller may wait") };
        found.bytes.len()
    };
    (0..100).for_each(|offset| assert_eq!(look(offset, true), 16 << 10));
    // Only blocks that the writers have written can be read from a device.
    cache.bucket().iter().for_each(|bucket| bucket.settle());
    (0..100).for_each(|offset| assert_eq!(look(offset, true), 16 << 10));
    let (allocations, bytes) =
        micro::allocations_of(|| (0..10_000).map(|at| look(at % 100, at % 2 == 0)).sum::<usize>());
    assert_eq!(bytes, 10_000 * (16 << 10));
    assert_eq!(cache.counts().lookups.misses(), 100);
    allocations
}

#[test]
fn a_lookup_that_hits_memory_allocates_nothing() {
    assert_eq!(allocations_of_hits(&Arc::new(Cache::with_bytes(64 << 20))), 0);
    let bucket = Bucket::offheap(64 << 20, &BucketOptions::default());
    assert_eq!(allocations_of_hits(&Arc::new(Cache::with_bytes(1 << 20).with_bucket(bucket))), 0);
}

#[test]
fn a_lookup_that_hits_a_mapped_file_allocates_the_block_and_the_owner_of_its_bytes() {
    let path = std::env::temp_dir().join(format!("bellows-allocations-{}", std::process::id()));
    let device = LocalDevice::open_mapped(&path, 64 << 20, World::real()).expect("opened");
    let bucket = Bucket::on(vec![Arc::new(device)], &BucketOptions::default(), World::real());
    assert_eq!(allocations_of_hits(&Arc::new(Cache::with_bytes(0).with_bucket(bucket))), 2 * 10_000);
    #[expect(clippy::disallowed_methods, reason = "a real file is the point")]
    std::fs::remove_file(path).expect("removed");
}
