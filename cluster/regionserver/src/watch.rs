//! Watching calls: how long each took, and which were slow or had large answers.
//!
//! The time of a call is counted from when its last byte was read to when its answer is handed over. HBase's warnings
//! `(responseTooSlow)` and `(responseTooLarge)` are told with the same words, so that what looks for them finds them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Moment;
use rpc::{Answer, Call, ConnectionInfo, Exception, Reply, Text};
use telemetry::{Exposition, Histogram};

use crate::RegionServer;
use crate::call_sample::{self, CallKind, CallTimes, is_sampled};
use crate::counters::count;

/// A call of a single row that takes longer is slow for HBase's `slowGetCount` and its like.
const SLOW_ROW: Duration = Duration::from_secs(1);

/// Times of calls, flushes and compactions.
#[derive(Debug, Default)]
pub(crate) struct Times {
    calls: CallTimes,
    pub(crate) flush: Histogram,
    pub(crate) compaction: Histogram,
}

impl Times {
    pub(crate) fn show(&self, out: &mut Exposition) {
        self.calls.show(out);
        out.times("hbase_regionserver_flush_seconds", "Times of flushes.", &[], &self.flush);
        out.times("hbase_regionserver_compaction_seconds", "Times of compactions.", &[], &self.compaction);
    }
}

/// One call that is being answered.
struct Watched {
    server: Arc<RegionServer>,
    connection: Arc<ConnectionInfo>,
    method: Text,
    kind: CallKind,
    /// The parameter of a call that is sampled.
    sampled: Option<Bytes>,
    received: Moment,
    request_size: usize,
}

/// Lets `answer` through, and notes what it took if it is there. One that comes later is made by [`later`], which does the
/// same then.
pub(crate) fn watch(server: &Arc<RegionServer>, call: &Call, answer: Answer) -> Answer {
    if let Answer::Now(outcome) = &answer {
        let took = server.foundation().world.moment().since(call.received);
        let kind = CallKind::of(&call.method, &call.param);
        server.note_call(kind, took);
        if is_sampled() {
            server.show_sample(kind, &call.param, took);
        }
        if server.is_remarkable(took, outcome) {
            Watched::of(server, call).remark(took, outcome);
        }
    }
    answer
}

/// An answer that waits for `outcome`, and notes what it took when it is there.
pub(crate) fn later(
    server: &Arc<RegionServer>,
    call: &Call,
    outcome: impl Future<Output = Result<Reply, Exception>> + Send + 'static,
) -> Answer {
    let watched = Watched::of(server, call);
    Answer::later(async move {
        let outcome = outcome.await;
        let took = watched.server.foundation().world.moment().since(watched.received);
        watched.server.note_call(watched.kind, took);
        if let Some(param) = &watched.sampled {
            watched.server.show_sample(watched.kind, param, took);
        }
        if watched.server.is_remarkable(took, &outcome) {
            watched.remark(took, &outcome);
        }
        outcome
    })
}

fn answer_size(outcome: &Result<Reply, Exception>) -> u64 {
    outcome.as_ref().map_or(0, |reply| (reply.message.len() + reply.cells.len()) as u64)
}

impl RegionServer {
    fn note_call(&self, kind: CallKind, took: Duration) {
        self.times.calls.record(kind, took);
        if took > SLOW_ROW {
            let counters = self.counters();
            match kind {
                CallKind::Get => count(&counters.slow_gets),
                CallKind::Put => count(&counters.slow_puts),
                CallKind::Delete => count(&counters.slow_deletes),
                CallKind::Increment => count(&counters.slow_increments),
                CallKind::Append => count(&counters.slow_appends),
                CallKind::Scan | CallKind::Multi | CallKind::CheckAndMutate | CallKind::Other => {}
            }
        }
    }

    fn show_sample(&self, kind: CallKind, param: &[u8], took: Duration) {
        if let Some(observer) = self.observer.get() {
            call_sample::show(&**observer, kind, param, took);
        }
    }

    fn is_remarkable(&self, took: Duration, outcome: &Result<Reply, Exception>) -> bool {
        let options = self.options();
        options.warn_time.is_some_and(|limit| took > limit)
            || options.warn_bytes.is_some_and(|limit| answer_size(outcome) > limit)
    }
}

impl Watched {
    fn of(server: &Arc<RegionServer>, call: &Call) -> Watched {
        Watched {
            server: Arc::clone(server),
            connection: Arc::clone(&call.connection),
            method: call.method.clone(),
            kind: CallKind::of(&call.method, &call.param),
            sampled: is_sampled().then(|| call.param.clone()),
            received: call.received,
            request_size: call.size,
        }
    }

    fn remark(&self, took: Duration, outcome: &Result<Reply, Exception>) {
        let (options, counters) = (self.server.options(), self.server.counters());
        let size = answer_size(outcome);
        let (method, client) = (self.method.as_str(), self.connection.remote);
        let (ms, request) = (took.as_millis() as u64, self.request_size);
        if options.warn_time.is_some_and(|limit| took > limit) {
            count(&counters.slow_calls);
            tracing::warn!(method, %client, ms, request_bytes = request, answer_bytes = size, "(responseTooSlow)");
        }
        if options.warn_bytes.is_some_and(|limit| size > limit) {
            count(&counters.large_answers);
            tracing::warn!(method, %client, ms, request_bytes = request, answer_bytes = size, "(responseTooLarge)");
        }
    }
}
