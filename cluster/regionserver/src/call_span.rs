//! Spans of calls whose client records a trace.
//!
//! The client sends `traceparent` with the call. If the server has a [`SpanObserver`], the observer receives a span of
//! each such call when the call is answered. Calls without a trace cost nothing here.

use std::net::SocketAddr;
use std::time::Duration;

use env::WallTime;
use rpc::TraceParent;

/// The span of a traced call: the server's part of it.
#[derive(Clone, Debug)]
pub struct CallSpan {
    /// The trace, and the client's span in it.
    pub parent: TraceParent,
    /// The protobuf service, such as `ClientService`.
    pub service: String,
    /// The name of the method.
    pub method: String,
    /// The name of the region, escaped; of a batch, that of its first region. Empty if the call names no region.
    pub region: String,
    /// The client's address.
    pub client: SocketAddr,
    /// The client's user.
    pub user: String,
    /// When the last byte of the request was read.
    pub started: WallTime,
    /// Time from `started` until the connection got the answer.
    pub took: Duration,
    /// Size of the request in bytes.
    pub request_bytes: u64,
    /// Size of the answer in bytes.
    pub response_bytes: u64,
    /// The exception with which the call was answered: its class and its message.
    pub failure: Option<(String, String)>,
}

/// Receives the spans of calls, on the thread that has answered the call. An observer must not block.
pub trait SpanObserver: Send + Sync {
    /// Receives the span of a call that was just answered.
    fn ended(&self, span: CallSpan);
}
