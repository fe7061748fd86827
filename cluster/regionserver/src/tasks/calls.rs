//! The calls that wait for the log, the disk or each other.
//!
//! Nearly every write waits for the log, and then adds its call to this list and removes it again. Each thread has a
//! shard of the list. The shard's lock is contended only while the list is read, and by calls that end on another
//! thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use cell::string_binary;
use env::sync::Mutex;
use env::{Moment, WallTime};
use rpc::{ConnectionInfo, Text, TraceParent};
use smallvec::SmallVec;

use super::{Task, TaskCall, TaskState};
use crate::call_sample::CallKind;

/// Number of shards. If there are more threads, they share shards.
const SHARDS: usize = 16;

/// A waiting call.
#[derive(Clone, Debug)]
pub(crate) struct RunningCall {
    pub(crate) connection: Arc<ConnectionInfo>,
    pub(crate) method: Text,
    pub(crate) kind: CallKind,
    pub(crate) received: Moment,
    pub(crate) request_bytes: usize,
    pub(crate) subject: Subject,
    pub(crate) attributes: Vec<(String, Bytes)>,
    pub(crate) traceparent: Option<Box<TraceParent>>,
}

/// The region that a call is about, or its parameter. A write keeps no part of its frame, because that memory is reused
/// while the write waits.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// The name of the region.
    Region(SmallVec<[u8; 64]>),
    /// The encoded parameter of the call.
    Param(Bytes),
}

impl RunningCall {
    /// Returns the call as a task, at the times `now` and `moment`.
    pub(super) fn into_task(self, now: WallTime, moment: Moment) -> Task {
        let waited = i64::try_from(moment.since(self.received).as_millis()).unwrap_or(i64::MAX);
        let started = WallTime(now.0.saturating_sub(waited));
        let region = match &self.subject {
            Subject::Region(name) => &name[..],
            Subject::Param(param) => crate::call_sample::region_of(self.kind, param).unwrap_or_default(),
        };
        let region = string_binary(region).to_string();
        let (method, client) = (self.method.to_string(), self.connection.remote);
        let call = TaskCall {
            region,
            client,
            request_bytes: self.request_bytes as u64,
            is_operation: self.kind != CallKind::Other,
            method,
        };
        Task {
            description: format!("RPC call on connection {}", call.client),
            status: format!("Servicing call from {}: {}", call.client, call.method),
            state: TaskState::Running,
            started,
            changed: started,
            call: Some(call),
        }
    }
}

#[derive(Debug, Default)]
struct Shard {
    calls: Vec<Option<RunningCall>>,
    free: Vec<usize>,
}

/// The waiting calls of a server.
#[derive(Debug, Default)]
pub(crate) struct RunningCalls {
    shards: [Mutex<Shard>; SHARDS],
}

/// The position of a call in the list.
#[derive(Debug)]
pub(crate) struct CallSlot {
    shard: usize,
    index: usize,
}

impl RunningCalls {
    /// Lists a call until [`RunningCalls::end`] removes it.
    pub(crate) fn begin(&self, call: RunningCall) -> CallSlot {
        let shard = shard_of_thread();
        let mut calls = self.shards[shard].lock();
        let index = match calls.free.pop() {
            Some(index) => {
                calls.calls[index] = Some(call);
                index
            }
            None => {
                calls.calls.push(Some(call));
                calls.calls.len() - 1
            }
        };
        CallSlot { shard, index }
    }

    /// Removes a call.
    pub(crate) fn end(&self, slot: &CallSlot) -> RunningCall {
        let mut calls = self.shards[slot.shard].lock();
        let call = calls.calls[slot.index].take().expect("a call is taken out once, by who has its slot");
        calls.free.push(slot.index);
        call
    }

    pub(super) fn snapshot(&self) -> Vec<RunningCall> {
        let calls = |shard: &Mutex<Shard>| shard.lock().calls.iter().flatten().cloned().collect::<Vec<_>>();
        self.shards.iter().flat_map(calls).collect()
    }
}

fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|shard| *shard)
}
