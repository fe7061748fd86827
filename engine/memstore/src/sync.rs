//! The atomics that the index is made of: the system's, or those of a scheduler that interrupts threads at each of them.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
