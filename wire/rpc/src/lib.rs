//! HBase's RPC: the protocol as code without I/O, and thin drivers that connect it to sockets, for server and client.
//!
//! A server is a set of [`Services`], each of which answers [`Call`]s by name with an [`Answer`]. A service may rely on
//! the following:
//!
//! * The frame was read completely, its limits were enforced, and the cell block after the parameter is decompressed.
//! * A call runs in the task that read its frame. An [`Answer::Now`] is sent with all other answers to the frames of
//!   the same read. An [`Answer::Later`] is polled by the same task while further frames are served.
//! * A panic inside a service fails only the call that it was serving.
//!
//! This crate knows only the headers around the messages of services, and not the messages.

mod answers;
mod call;
pub mod client;
mod codec;
mod counters;
mod envelope;
mod exception;
mod flight;
mod large;
mod options;
mod output;
pub mod server;
mod service;
mod session;
mod trace;
mod upcoming;

pub use answers::{Answers, Share};
pub use call::{Answer, Call, ClientVersion, ConnectionInfo, Reply, Text, User};
pub use codec::{Codec, Compressor, Error as CompressionError};
pub use counters::Snapshot;
pub use exception::{Exception, class};
pub use large::{LargeBudget, LargePermit, LargeWait, Reclaim};
pub use options::Options;
pub use output::Output;
pub use server::{Bound, Server};
pub use service::{Service, Services};
pub use session::{Ending, Limits, Request, Session, Step};
pub use trace::{TRACEPARENT, TraceParent};
pub use upcoming::UpcomingRequests;
