//! Metrics of the block cache: under HBase's names, and by table, kind and tier under names of our own.

use cache::{BlockKind, BucketCounts, Cache, Lookups, Tier};
use telemetry::Exposition;

/// Returns HBase's name of a kind of block.
fn name_of(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Data => "data",
        BlockKind::Index => "leaf_index",
        BlockKind::Bloom => "bloom_chunk",
    }
}

fn share(part: u64, rest: u64) -> f64 {
    if part + rest == 0 { 0.0 } else { part as f64 / (part + rest) as f64 }
}

pub(crate) fn show(cache: &Cache, out: &mut Exposition) {
    let (counts, bytes_max) = (cache.counts(), cache.bytes_max() as u64);
    let lookups = counts.lookups;
    for (name, help, value) in [
        ("hit_count", "Blocks found in the cache.", lookups.hits()),
        ("miss_count", "Blocks not found in the cache.", lookups.misses()),
        ("eviction_count", "Blocks dropped to make room.", counts.evicted),
    ] {
        out.counter(&format!("hbase_regionserver_block_cache_{name}"), help, &[], value);
    }
    for kind in BlockKind::ALL {
        let name = name_of(kind);
        for (outcome, help, value) in [
            ("hit", "Blocks of the kind found in the cache.", lookups.hits_of(kind)),
            ("miss", "Blocks of the kind not found in the cache.", lookups.misses_of(kind)),
        ] {
            out.counter(&format!("hbase_regionserver_block_cache_{name}_{outcome}_count"), help, &[], value);
        }
    }
    let express = share(lookups.caching_hits(), lookups.caching_misses());
    for (name, help, value) in [
        ("count", "Blocks in memory.", counts.blocks as f64),
        ("size", "Bytes of blocks in memory.", counts.bytes as f64),
        ("size_limit", "Bytes that blocks in memory may take.", bytes_max as f64),
        ("free_size", "Bytes left for blocks in memory.", bytes_max.saturating_sub(counts.bytes) as f64),
        (
            "count_hit_percent",
            "Of a hundred lookups, how many hit.",
            100.0 * share(lookups.hits(), lookups.misses()),
        ),
        ("express_hit_percent", "The same, of requests that want blocks kept.", 100.0 * express),
    ] {
        out.gauge(&format!("hbase_regionserver_block_cache_{name}"), help, &[], value);
    }
    let (hits, misses) = (lookups.hits_in(Tier::Memory), lookups.misses() + lookups.hits_in(Tier::Bucket));
    for (name, help, value) in [
        ("hit_count", "Blocks found in memory.", hits),
        ("miss_count", "Blocks not found in memory.", misses),
        ("eviction_count", "Blocks dropped from memory to make room.", counts.evicted),
    ] {
        out.counter(&format!("hbase_regionserver_l1_cache_{name}"), help, &[], value);
    }
    for (name, help, value) in [
        ("count", "Blocks in memory.", counts.blocks as f64),
        ("size", "Bytes of blocks in memory.", counts.bytes as f64),
        ("free_size", "Bytes left for blocks in memory.", bytes_max.saturating_sub(counts.bytes) as f64),
        ("hit_ratio", "The share of lookups that hit in memory.", share(hits, misses)),
        ("miss_ratio", "The share of lookups that did not.", share(misses, hits)),
    ] {
        out.gauge(&format!("hbase_regionserver_l1_cache_{name}"), help, &[], value);
    }
    if let Some(bucket) = cache.bucket() {
        show_bucket(&bucket.counts(), &lookups, out);
    }
    let help = "Blocks that were not taken into memory, because those there are used more.";
    out.counter("bellows_block_cache_refused_total", help, &[], counts.refused);
    for (place, kind) in BlockKind::ALL.into_iter().enumerate() {
        let labels = [("kind", name_of(kind))];
        out.gauge("bellows_block_cache_blocks", "Blocks in memory.", &labels, counts.blocks_of[place] as f64);
    }
    for table in cache.tables() {
        show_table(&table.table, &table.lookups, out);
    }
}

/// Writes the metrics of the second tier.
fn show_bucket(counts: &BucketCounts, lookups: &Lookups, out: &mut Exposition) {
    let (hits, misses) = (lookups.hits_in(Tier::Bucket), lookups.misses());
    for (name, help, value) in [
        ("hit_count", "Blocks found in the bucket cache.", hits),
        ("miss_count", "Blocks found in no tier.", misses),
        ("eviction_count", "Blocks dropped from the bucket cache to make room.", counts.evicted),
    ] {
        out.counter(&format!("hbase_regionserver_l2_cache_{name}"), help, &[], value);
    }
    for (name, help, value) in [
        ("count", "Blocks in the bucket cache.", counts.blocks as f64),
        ("size", "Bytes of the bucket cache in use.", counts.bytes as f64),
        (
            "free_size",
            "Bytes left in the bucket cache.",
            counts.bytes_max.saturating_sub(counts.bytes) as f64,
        ),
        ("hit_ratio", "The share of lookups that hit, of those that missed memory.", share(hits, misses)),
        ("miss_ratio", "The share of those that did not.", share(misses, hits)),
    ] {
        out.gauge(&format!("hbase_regionserver_l2_cache_{name}"), help, &[], value);
    }
    for (name, help, value) in [
        ("refused", "Blocks not taken, because those there are used more.", counts.refused),
        ("dropped", "Blocks not taken, because too many waited or no slot was free.", counts.dropped),
        ("corrupt", "Blocks that the device returned with other bytes than were written.", counts.corrupt),
        ("stale", "Blocks kept over a restart whose bytes were not those that were written.", counts.stale),
        ("failed", "Reads and writes of the device that failed.", counts.failed),
    ] {
        out.counter(&format!("bellows_bucket_cache_{name}_total"), help, &[], value);
    }
    let help = "Bytes of memory that tell where the cells of blocks lie on the bucket cache's device.";
    out.gauge("bellows_bucket_cache_head_bytes", help, &[], counts.head_bytes as f64);
    let disabled = if counts.disabled { 1.0 } else { 0.0 };
    let help = "1 when the bucket cache is disabled, because its devices failed.";
    out.gauge("bellows_bucket_cache_disabled", help, &[], disabled);
    let read_only = if counts.read_only { 1.0 } else { 0.0 };
    let help = "1 when the bucket cache is read-only, because writes to its devices failed.";
    out.gauge("bellows_bucket_cache_read_only", help, &[], read_only);
    for device in &counts.devices {
        let labels = [("device", &device.place[..])];
        let help = "Reads and writes of a device of the bucket cache that failed.";
        out.counter("bellows_bucket_cache_device_failed_total", help, &labels, device.failed);
        let disabled = if device.disabled { 1.0 } else { 0.0 };
        let help = "1 when a device of the bucket cache is disabled, because it failed.";
        out.gauge("bellows_bucket_cache_device_disabled", help, &labels, disabled);
        let read_only = if device.read_only { 1.0 } else { 0.0 };
        let help = "1 when a device of the bucket cache is read-only, because writes to it failed.";
        out.gauge("bellows_bucket_cache_device_read_only", help, &labels, read_only);
    }
    for slots in counts.slots.iter().filter(|slots| slots.buckets > 0 || slots.evicted > 0) {
        let size = slots.size.to_string();
        let labels = [("size", &size[..])];
        for (name, help, value) in [
            ("buckets", "Buckets cut into slots of a size.", slots.buckets),
            ("slots", "Slots of a size.", slots.slots),
            ("used_slots", "Slots of a size that hold a block.", slots.used),
            ("block_bytes", "Bytes of blocks in slots of a size.", slots.bytes),
        ] {
            out.gauge(&format!("bellows_bucket_cache_{name}"), help, &labels, value as f64);
        }
        let help = "Blocks that went from slots of a size to make room.";
        out.counter("bellows_bucket_cache_evicted_total", help, &labels, slots.evicted);
    }
}

/// Writes the lookups of one table's blocks.
fn show_table(table: &str, lookups: &Lookups, out: &mut Exposition) {
    for kind in BlockKind::ALL {
        for (outcome, value) in [
            ("memory", lookups.hits_of_in(kind, Tier::Memory)),
            ("bucket", lookups.hits_of_in(kind, Tier::Bucket)),
            ("miss", lookups.misses_of(kind)),
        ] {
            let labels = [("table", table), ("kind", name_of(kind)), ("outcome", outcome)];
            let help = "Lookups for blocks, by table, kind, and where they were found.";
            out.counter("bellows_block_cache_lookups_total", help, &labels, value);
        }
    }
}
