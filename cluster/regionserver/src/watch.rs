//! Watching calls: how long each took, and which were slow or had large answers.
//!
//! The time of a call is counted from when its last byte was read to when its answer is handed over. HBase's warnings
//! `(responseTooSlow)` and `(responseTooLarge)` are told with the same words, so that what looks for them finds them.

use std::sync::Arc;
use std::time::Duration;

use env::Moment;
use rpc::{Answer, Call, ConnectionInfo, Exception, Reply, Text};
use telemetry::{Exposition, Histogram};

use crate::RegionServer;
use crate::counters::count;

/// Times of calls, by method.
#[derive(Debug, Default)]
pub(crate) struct Times {
    get: Histogram,
    mutate: Histogram,
    multi: Histogram,
    scan: Histogram,
    other: Histogram,
    pub(crate) flush: Histogram,
    pub(crate) compaction: Histogram,
}

impl Times {
    fn of(&self, method: &str) -> &Histogram {
        match method {
            "Get" => &self.get,
            "Mutate" => &self.mutate,
            "Multi" => &self.multi,
            "Scan" => &self.scan,
            _ => &self.other,
        }
    }

    pub(crate) fn show(&self, out: &mut Exposition) {
        let help = "Times from a request's last byte to its answer, by method.";
        for (method, times) in [
            ("Get", &self.get),
            ("Mutate", &self.mutate),
            ("Multi", &self.multi),
            ("Scan", &self.scan),
            ("other", &self.other),
        ] {
            out.times("hbase_regionserver_call_seconds", help, &[("method", method)], times);
        }
        out.times("hbase_regionserver_flush_seconds", "Times of flushes.", &[], &self.flush);
        out.times("hbase_regionserver_compaction_seconds", "Times of compactions.", &[], &self.compaction);
    }
}

/// One call that is being answered.
struct Watched {
    server: Arc<RegionServer>,
    connection: Arc<ConnectionInfo>,
    method: Text,
    received: Moment,
    request_size: usize,
}

/// Lets `answer` through, and notes what it took if it is there. One that comes later is made by [`later`], which does the
/// same then.
pub(crate) fn watch(server: &Arc<RegionServer>, call: &Call, answer: Answer) -> Answer {
    if let Answer::Now(outcome) = &answer {
        let took = server.foundation().world.moment().since(call.received);
        server.times.of(&call.method).record_time(took);
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
        watched.server.times.of(&watched.method).record_time(took);
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
