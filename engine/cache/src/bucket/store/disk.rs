//! One device of the bucket cache: its requests, its health and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use storage::Device;

use crate::bucket::DeviceCounts;
use crate::bucket::health::Health;

/// One device of the bucket cache.
pub(super) struct Disk {
    pub(super) device: Arc<dyn Device>,
    pub(super) reads: Health,
    pub(super) writes: Health,
    /// Whether the device receives no more blocks. Changed only under the lock of the index; so is the flag for a
    /// device that is not used at all any more.
    pub(super) read_only: AtomicBool,
    pub(super) disabled: AtomicBool,
    failed: AtomicU64,
}

impl Disk {
    pub(super) fn new(device: Arc<dyn Device>, tolerated: Duration) -> Disk {
        Disk {
            device,
            reads: Health::new(tolerated),
            writes: Health::new(tolerated),
            read_only: AtomicBool::new(false),
            disabled: AtomicBool::new(false),
            failed: AtomicU64::new(0),
        }
    }

    pub(super) fn is_disabled(&self) -> bool {
        self.disabled.load(Ordering::Relaxed)
    }

    /// Whether the device receives blocks.
    pub(super) fn takes(&self) -> bool {
        !self.read_only.load(Ordering::Relaxed) && !self.is_disabled()
    }

    /// Counts a failed read or write.
    pub(super) fn note_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn counts(&self) -> DeviceCounts {
        DeviceCounts {
            place: self.device.place(),
            failed: self.failed(),
            disabled: self.is_disabled(),
            read_only: self.read_only.load(Ordering::Relaxed) && !self.is_disabled(),
        }
    }
}
