//! What the server does besides answering: flushes and compactions, seen in the number of its files.
//!
//! A task asks for the load of the table's regions a few times a second. A region whose files have become more has
//! flushed, one whose files have become fewer has compacted. Any server that speaks the protocol can be asked so.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::Admin;
use env::{Moment, World};
use parking_lot::Mutex;
use proto::TableName;

/// Between two questions.
const EVERY: Duration = Duration::from_millis(250);

/// Something that a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it was seen, from the begin of the measured time.
    pub at: Duration,
    /// What it was.
    pub event: Event,
}

/// What a server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A memstore became a file.
    Flush,
    /// Several files became one.
    Compaction,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: Mutex<Vec<(Moment, Event)>>,
}

impl Watch {
    /// Looks until the task is ended by dropping it, or until the server gives no answer.
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

    /// What happened between two moments.
    pub(crate) fn marks(&self, from: Moment, to: Moment) -> Vec<Mark> {
        let seen = self.seen.lock();
        let within = seen.iter().filter(|(at, _)| (from..to).contains(at));
        within.map(|(at, event)| Mark { at: at.since(from), event: *event }).collect()
    }
}
