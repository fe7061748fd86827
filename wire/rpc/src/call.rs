//! Calls that a client makes, and answers that a service gives.

use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Moment;
use prost::Message;

use crate::{Answers, Codec, Compressor, Exception, LargePermit, Share, TraceParent, class};

/// A part of a frame that is valid UTF-8. It shares the frame's memory.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Text(Bytes);

impl Text {
    /// Wraps `bytes`; returns `None` if they are not valid UTF-8.
    pub fn parse(bytes: Bytes) -> Option<Text> {
        std::str::from_utf8(&bytes).is_ok().then_some(Text(bytes))
    }

    /// Wraps a static text.
    pub const fn from_static(text: &'static str) -> Text {
        Text(Bytes::from_static(text.as_bytes()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("checked when made")
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Bytes::from(text))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The user that the connection header names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user on whose behalf calls are made.
    pub effective: Option<String>,
    /// The user who makes the calls, if this is not the effective one.
    pub real: Option<String>,
}

/// The version that a client states. Some answers depend on it. A client that states none gets the oldest form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientVersion {
    /// The full version, such as `2.6.4-hadoop3`.
    pub text: String,
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

/// What all calls of one connection have in common.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The calling user.
    pub user: User,
    /// The service that the connection calls, such as `ClientService`.
    pub service: String,
    /// The encoding of cells in cell blocks; with [`Codec::None`] cells are in the protobuf messages.
    pub codec: Codec,
    /// The compression of cell blocks. Services see only uncompressed bytes.
    pub compressor: Compressor,
    /// The client's version; gohbase and others state none.
    pub version: Option<ClientVersion>,
    /// The client's address.
    pub remote: SocketAddr,
    /// Connection attributes from the client.
    pub attributes: Vec<(String, Bytes)>,
    /// The memory budget of answers: each growing answer has a share of it. It also has the budget of large requests
    /// and answers.
    pub answers: Answers,
}

impl ConnectionInfo {
    /// Whether the client states version `major.minor` or a later one.
    pub fn client_is_at_least(&self, major: u32, minor: u32) -> bool {
        self.version.as_ref().is_some_and(|version| (version.major, version.minor) >= (major, minor))
    }
}

/// A request that a service answers.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method's name as in the `.proto` file; case-sensitive.
    pub method: Text,
    /// The encoded parameter message.
    pub param: Bytes,
    /// The cell block in the connection's codec, decompressed; empty when there is none.
    pub cells: Bytes,
    /// The connection that received the request.
    pub connection: Arc<ConnectionInfo>,
    /// The priority requested by the client, from 0 (normal) through 100 (admin) and 200 (high) to 300 (meta).
    pub priority: Option<u32>,
    /// How long the client waits, at least 20 ms; `None` when the client does not say.
    pub timeout: Option<Duration>,
    /// When the client stops waiting; `None` when the client does not say.
    pub deadline: Option<Moment>,
    /// When the request's last byte was read.
    pub received: Moment,
    /// Length of the request in bytes, as received.
    pub size: usize,
    /// Request attributes from the client.
    pub attributes: Vec<(String, Bytes)>,
    /// The client's span, if it traces the call.
    pub traceparent: Option<Box<TraceParent>>,
    /// The permit of a large request; `None` for a small one. The connection keeps it until the call is answered; the
    /// service may keep a clone for longer, and must not wait for another permit.
    pub permit: Option<LargePermit>,
}

impl Call {
    /// Decodes the parameter. Malformed bytes give the same exception as in HBase.
    pub fn decode<M: Message + Default>(&self) -> Result<M, Exception> {
        M::decode(self.param.clone()).map_err(|error| self.unreadable(&error))
    }

    /// Returns the exception for a parameter that cannot be decoded.
    pub fn unreadable(&self, error: &prost::DecodeError) -> Exception {
        let (method, client) = (&self.method, self.connection.remote);
        Exception::new(
            class::DO_NOT_RETRY_IO,
            format!("unable to read the parameter of {method} from {client}: {error}"),
        )
    }
}

/// The successful result of a call.
#[derive(Debug, Default)]
pub struct Reply {
    /// The encoded result message.
    pub message: Bytes,
    /// The cell block in the connection's codec, uncompressed; empty when there is none.
    pub cells: Bytes,
    /// The share of the answers' budget that counted the reply while it grew, if any. It moves to the connection.
    pub share: Option<Share>,
}

impl Reply {
    /// Creates a reply without cells.
    pub fn of(message: &impl Message) -> Reply {
        Reply { message: message.encode_to_vec().into(), ..Reply::default() }
    }

    /// Creates a reply with cells.
    pub fn with_cells(message: &impl Message, cells: impl Into<Bytes>) -> Reply {
        Reply { message: message.encode_to_vec().into(), cells: cells.into(), share: None }
    }

    /// Counts the reply's bytes by `share` until it is sent, because it may have to wait for its connection's thread.
    pub fn counted_by(mut self, mut share: Share) -> Reply {
        share.set((self.message.len() + self.cells.len()) as u64);
        self.share = Some(share);
        self
    }
}

/// A service's answer to a call.
pub enum Answer {
    /// The answer is here already.
    Now(Result<Reply, Exception>),
    /// The answer comes when the future ends. Other calls of the connection are served meanwhile.
    Later(Pin<Box<dyn Future<Output = Result<Reply, Exception>> + Send>>),
}

impl Answer {
    /// Creates an answer that waits for `future`.
    pub fn later(future: impl Future<Output = Result<Reply, Exception>> + Send + 'static) -> Answer {
        Answer::Later(Box::pin(future))
    }
}

impl From<Result<Reply, Exception>> for Answer {
    fn from(result: Result<Reply, Exception>) -> Answer {
        Answer::Now(result)
    }
}

impl From<Exception> for Answer {
    fn from(exception: Exception) -> Answer {
        Answer::Now(Err(exception))
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Answer::Now(result) => f.debug_tuple("Now").field(result).finish(),
            Answer::Later(_) => f.write_str("Later"),
        }
    }
}
