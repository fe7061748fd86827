//! The parts that readers of growing files keep in memory.
//!
//! A replay reads each part many times: once for each region with records in it. So a reader keeps the parts that it has
//! read. A log may be larger than the memory of the machine that recovers it, so all readers of a log together keep at
//! most a given number of bytes. If there are more, the parts that were read first are dropped. A reader requests such a
//! part again when it needs it.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use env::sync::Mutex;

/// The content of the parts of one file that are kept, by their numbers, with their headers.
type Parts = Mutex<Vec<Option<Arc<[u8]>>>>;

/// The memory that the parts of all readers may take.
pub(super) struct PartMemory {
    bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bytes: u64,
    /// The parts that are kept, in the order in which they were read.
    order: VecDeque<Place>,
}

/// Where a part is kept.
struct Place {
    parts: Weak<Parts>,
    index: usize,
    bytes: u64,
}

impl PartMemory {
    /// Permits `bytes_max` bytes, and one part in any case.
    pub(super) fn new(bytes_max: u64) -> PartMemory {
        PartMemory { bytes_max, state: Mutex::default() }
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Counts a part, and drops those that were read first while there are too many bytes.
    fn add(&self, place: Place) {
        let mut dropped = Vec::new();
        {
            let mut state = self.state.lock();
            state.bytes += place.bytes;
            state.order.push_back(place);
            while state.bytes > self.bytes_max && state.order.len() > 1 {
                let first = state.order.pop_front().expect("there are two");
                state.bytes -= first.bytes;
                dropped.push(first);
            }
        }
        // The lock is released, because a reader that keeps a part has locked its parts before.
        for Place { parts, index, .. } in dropped {
            if let Some(parts) = parts.upgrade() {
                parts.lock()[index] = None;
            }
        }
    }

    /// Counts the parts of a reader no more.
    fn remove(&self, parts: &Arc<Parts>) {
        let mut state = self.state.lock();
        let State { bytes, order } = &mut *state;
        order.retain(|place| {
            let is_other = !std::ptr::eq(place.parts.as_ptr(), Arc::as_ptr(parts));
            if !is_other {
                *bytes -= place.bytes;
            }
            is_other
        });
    }
}

/// The parts that one reader keeps.
pub(super) struct KeptParts {
    memory: Arc<PartMemory>,
    parts: Arc<Parts>,
}

impl KeptParts {
    /// Keeps none of `count` parts yet.
    pub(super) fn new(memory: Arc<PartMemory>, count: usize) -> KeptParts {
        KeptParts { memory, parts: Arc::new(Mutex::new(vec![None; count])) }
    }

    /// Returns a part; `None` if it is not kept.
    pub(super) fn get(&self, index: usize) -> Option<Arc<[u8]>> {
        self.parts.lock()[index].clone()
    }

    /// Keeps a part that was read.
    pub(super) fn insert(&self, index: usize, part: Arc<[u8]>) {
        let bytes = part.len() as u64;
        if self.parts.lock()[index].replace(part).is_none() {
            self.memory.add(Place { parts: Arc::downgrade(&self.parts), index, bytes });
        }
    }
}

impl Drop for KeptParts {
    fn drop(&mut self) {
        self.memory.remove(&self.parts);
    }
}
