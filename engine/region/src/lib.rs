//! One region on one machine: reads, writes, flush, compaction, recovery.
