//! Measures the duration of each call, and records calls that were slow or had large answers.
//!
//! A call lasts from the arrival of its last byte until the connection gets the response. Slow calls and large
//! responses are logged with HBase's words `(responseTooSlow)` and `(responseTooLarge)`, for which tools search.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cell::string_binary;
use env::WallTime;
use rpc::{Answer, Call, ConnectionInfo, Exception, Reply, TraceParent};
use smallvec::SmallVec;
use telemetry::{Exposition, Histogram};

use crate::RegionServer;
use crate::call_sample::{self, CallKind, CallObserver, CallSample, CallTimes, is_sampled, region_of};
use crate::call_span::CallSpan;
use crate::counters::count;
use crate::slow_calls::{self, SlowCallFacts};
use crate::tasks::{CallSlot, RunningCall, Subject};
use crate::user_loads::UserLoads;

/// Duration above which a call of a single row counts in HBase's `slowGetCount` and similar counters.
const SLOW_ROW: Duration = Duration::from_secs(1);

/// Maximum number of bytes of a region's name in a span.
const REGION_MAX: usize = 1_024;

/// Length of a request in bytes above which a call that is answered later is not sampled.
const SAMPLED_MAX: usize = 1 << 20;

/// Durations of calls, flushes and compactions.
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

/// A call whose response comes later. It is listed as waiting until then, or until its client has left.
struct Watched {
    server: Arc<RegionServer>,
    slot: Option<CallSlot>,
    /// The parameter of the call, if the call is sampled.
    sampled: Option<Bytes>,
}

/// Returns `answer`, and records the call's duration if the answer is complete. For a later response, [`later`] records
/// it.
pub(crate) fn watch(server: &Arc<RegionServer>, call: &Call, answer: Answer) -> Answer {
    if let Answer::Now(outcome) = &answer {
        let took = server.foundation().world.moment().since(call.received);
        let kind = CallKind::of(&call.method, &call.param);
        server.note_call(kind, took);
        if is_sampled() {
            server.show_sample(&call.connection, kind, &call.param, took);
        }
        if server.is_remarkable(kind, took, outcome) {
            server.remark(&running(call, kind, Subject::Param(call.param.clone())), took, outcome);
        }
        if server.is_traced(call.traceparent.as_deref()) {
            let call = running(call, kind, Subject::Param(call.param.clone()));
            server.end_span(&call, took, outcome);
        }
    }
    answer
}

/// Returns a response that waits for `outcome`, and that records the call's duration when it is complete.
pub(crate) fn later(
    server: &Arc<RegionServer>,
    call: &Call,
    outcome: impl Future<Output = Result<Reply, Exception>> + Send + 'static,
) -> Answer {
    let mut watched = Watched::of(server, call);
    Answer::later(async move {
        let outcome = outcome.await;
        let Some(call) = watched.end() else { return outcome };
        let server = &watched.server;
        let took = server.foundation().world.moment().since(call.received);
        server.note_call(call.kind, took);
        if let Some(param) = &watched.sampled {
            server.show_sample(&call.connection, call.kind, param, took);
        }
        if server.is_remarkable(call.kind, took, &outcome) {
            server.remark(&call, took, &outcome);
        }
        if server.is_traced(call.traceparent.as_deref()) {
            server.end_span(&call, took, &outcome);
        }
        outcome
    })
}

fn running(call: &Call, kind: CallKind, subject: Subject) -> RunningCall {
    RunningCall {
        connection: Arc::clone(&call.connection),
        method: call.method.clone(),
        kind,
        received: call.received,
        request_bytes: call.size,
        subject,
        attributes: call.attributes.clone(),
        traceparent: call.traceparent.clone(),
    }
}

impl Watched {
    fn of(server: &Arc<RegionServer>, call: &Call) -> Watched {
        let kind = CallKind::of(&call.method, &call.param);
        let subject = match kind.is_write() {
            true => Subject::Region(SmallVec::from_slice(region_of(kind, &call.param).unwrap_or_default())),
            false => Subject::Param(call.param.clone()),
        };
        Watched {
            server: Arc::clone(server),
            slot: Some(server.running_calls.begin(running(call, kind, subject))),
            // A large parameter would stay in memory until the response is sent, so such a call is not sampled.
            sampled: (is_sampled() && call.size <= SAMPLED_MAX).then(|| call.param.clone()),
        }
    }

    /// Removes the call from the list of waiting calls and returns it; `None` if it was removed before.
    fn end(&mut self) -> Option<RunningCall> {
        self.slot.take().map(|slot| self.server.running_calls.end(&slot))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
    }
}

fn answer_size(outcome: &Result<Reply, Exception>) -> u64 {
    outcome.as_ref().map_or(0, |reply| (reply.message.len() + reply.cells.len()) as u64)
}

/// The observers of a call: the server's own, and the one that [`RegionServer::observe_calls`] has set.
struct Observers<'a> {
    user_loads: &'a UserLoads,
    other: Option<&'a dyn CallObserver>,
}

impl CallObserver for Observers<'_> {
    fn sampled(&self, sample: &CallSample<'_>) {
        self.user_loads.sampled(sample);
        if let Some(other) = self.other {
            other.sampled(sample);
        }
    }
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

    fn show_sample(&self, connection: &ConnectionInfo, kind: CallKind, param: &[u8], took: Duration) {
        let observers = Observers {
            user_loads: &self.user_loads,
            other: self.observer.get().map(|observer| &**observer),
        };
        call_sample::show(&observers, connection, kind, param, took);
    }

    /// Whether a call with this `parent` needs a span.
    fn is_traced(&self, parent: Option<&TraceParent>) -> bool {
        parent.is_some_and(TraceParent::is_sampled) && self.span_observer.get().is_some()
    }

    /// Sends the span of a call that was answered just now.
    fn end_span(&self, call: &RunningCall, took: Duration, outcome: &Result<Reply, Exception>) {
        let (Some(observer), Some(parent)) = (self.span_observer.get(), &call.traceparent) else { return };
        let region = match &call.subject {
            Subject::Region(name) => &name[..],
            Subject::Param(param) => region_of(call.kind, param).unwrap_or_default(),
        };
        let took_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        let failure = outcome.as_ref().err();
        observer.ended(CallSpan {
            parent: TraceParent::clone(parent),
            service: call.connection.service.clone(),
            method: call.method.to_string(),
            region: string_binary(&region[..region.len().min(REGION_MAX)]).to_string(),
            client: call.connection.remote,
            user: call.connection.user.effective.clone().unwrap_or_default(),
            started: WallTime(self.foundation().world.now().0.saturating_sub(took_ms)),
            took,
            request_bytes: call.request_bytes as u64,
            response_bytes: answer_size(outcome),
            failure: failure.map(|exception| (exception.class.to_string(), exception.message.clone())),
        });
    }

    fn is_remarkable(&self, kind: CallKind, took: Duration, outcome: &Result<Reply, Exception>) -> bool {
        let options = self.options();
        options.is_slow(kind, took) || options.is_large(kind, answer_size(outcome))
    }

    /// Logs the call if it was slow or its response was large, and records it for `get_slowlog_responses`.
    fn remark(&self, call: &RunningCall, took: Duration, outcome: &Result<Reply, Exception>) {
        let (options, counters) = (self.options(), self.counters());
        let answer_bytes = answer_size(outcome);
        let (is_slow, is_large) =
            (options.is_slow(call.kind, took), options.is_large(call.kind, answer_bytes));
        let (method, client) = (call.method.as_str(), call.connection.remote);
        let (ms, request_bytes) = (took.as_millis() as u64, call.request_bytes);
        let trace = call.traceparent.as_ref().map(|parent| tracing::field::display(parent.trace_id()));
        if is_slow {
            count(&counters.slow_calls);
            tracing::warn!(method, %client, ms, request_bytes, answer_bytes, trace, "(responseTooSlow)");
        }
        if is_large {
            count(&counters.large_answers);
            tracing::warn!(method, %client, ms, request_bytes, answer_bytes, trace, "(responseTooLarge)");
        }
        if options.slow_calls_max > 0 {
            let now = self.foundation().world.now();
            let remarkable = SlowCallFacts { is_slow, is_large, took, answer_bytes, now };
            self.slow_calls.note(options.slow_calls_max, slow_calls::entry(call, remarkable));
        }
    }
}
