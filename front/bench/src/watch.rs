//! Detects flushes and compactions of the server by the number of its files.
//!
//! A task reads the load of the table's regions a few times per second. More files mean a flush, fewer a compaction.
//! This works with any server of the protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::Admin;
use env::{Moment, World};
use parking_lot::Mutex;
use proto::TableName;

/// Time between two readings.
const EVERY: Duration = Duration::from_millis(250);

/// A flush or compaction that was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it was detected, since the beginning of the measured time.
    pub at: Duration,
    /// Whether it was a flush or a compaction.
    pub event: Event,
}

/// What a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A memstore was written to a file.
    Flush,
    /// Several files were written as one.
    Compaction,
}

/// The events that were detected so far.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Mutex<Vec<(Moment, Event)>>,
}

impl Watch {
    /// Polls until the task is dropped or the server does not respond.
    pub(crate) async fn look(self: Arc<Watch>, world: World, admin: Admin, table: TableName) {
        let mut before: HashMap<Bytes, u32> = HashMap::new();
        while let Ok(loads) = admin.region_loads(&table).await {
            let now = world.moment();
            for load in loads {
                let files = load.storefiles();
                let event = match before.insert(load.region_specifier.value.clone(), files) {
                    Some(known) if known < files => Event::Flush,
                    Some(known) if known > files => Event::Compaction,
                    _ => continue,
                };
                self.seen.lock().push((now, event));
            }
            env::sleep(EVERY).await;
        }
    }

    /// Returns the events between two moments.
    pub(crate) fn marks(&self, from: Moment, to: Moment) -> Vec<Mark> {
        let seen = self.seen.lock();
        let within = seen.iter().filter(|(at, _)| (from..to).contains(at));
        within.map(|(at, event)| Mark { at: at.since(from), event: *event }).collect()
    }
}
