//! What a service is given, and what it gives back.

use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Moment;
use prost::Message;

use crate::{Answers, Codec, Compressor, Exception, Share, class};

/// A piece of a frame that was checked to be UTF-8. Shares the frame's memory.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Text(Bytes);

impl Text {
    /// Takes `bytes` if they are UTF-8.
    pub fn parse(bytes: Bytes) -> Option<Text> {
        std::str::from_utf8(&bytes).is_ok().then_some(Text(bytes))
    }

    /// A text that lives as long as the program.
    pub const fn from_static(text: &'static str) -> Text {
        Text(Bytes::from_static(text.as_bytes()))
    }

    /// The text.
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

/// Who is at the other end, as the connection header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// In whose name the calls are made.
    pub effective: Option<String>,
    /// Who makes them, if somebody acts for the effective user.
    pub real: Option<String>,
}

/// The version that a client states. Some answers depend on it; clients that state none get the oldest form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientVersion {
    /// The whole version, such as `2.6.4-hadoop3`.
    pub text: String,
    /// The first number of it.
    pub major: u32,
    /// The second number of it.
    pub minor: u32,
}

/// What is true for every call of one connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Who calls.
    pub user: User,
    /// The service that the connection is for, such as `ClientService`.
    pub service: String,
    /// How cells travel beside messages; [`Codec::None`] puts them inside the messages.
    pub codec: Codec,
    /// What cell blocks are compressed with. Services do not see compressed bytes.
    pub compressor: Compressor,
    /// What the client says it is; gohbase and others say nothing.
    pub version: Option<ClientVersion>,
    /// The other end of the socket.
    pub remote: SocketAddr,
    /// Connection attributes, as the client gave them.
    pub attributes: Vec<(String, Bytes)>,
    /// What answers take together: an answer that grows has a share of it.
    pub answers: Answers,
}

impl ConnectionInfo {
    /// Whether the client is known to be at least of version `major.minor`.
    pub fn client_is_at_least(&self, major: u32, minor: u32) -> bool {
        self.version.as_ref().is_some_and(|version| (version.major, version.minor) >= (major, minor))
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method's name as in the `.proto` file; case matters.
    pub method: Text,
    /// The encoded parameter message.
    pub param: Bytes,
    /// The cell block in the connection's codec, decompressed; empty when there is none.
    pub cells: Bytes,
    /// The connection that it came on.
    pub connection: Arc<ConnectionInfo>,
    /// The client's wish, from 0 (normal) by 100 (admin) and 200 (high) to 300 (meta).
    pub priority: Option<u32>,
    /// How long the client waits, at least 20 ms; `None` when it does not say.
    pub timeout: Option<Duration>,
    /// When the client has given up.
    pub deadline: Option<Moment>,
    /// When the request's last byte was read.
    pub received: Moment,
    /// Length of the request in bytes, as received.
    pub size: usize,
    /// Request attributes, as the client gave them.
    pub attributes: Vec<(String, Bytes)>,
}

impl Call {
    /// Decodes the parameter; the error is what HBase answers to bytes that are not the message.
    pub fn decode<M: Message + Default>(&self) -> Result<M, Exception> {
        M::decode(self.param.clone()).map_err(|error| self.unreadable(&error))
    }

    /// What a parameter is answered with that is not the message.
    pub fn unreadable(&self, error: &prost::DecodeError) -> Exception {
        let (method, client) = (&self.method, self.connection.remote);
        Exception::new(
            class::DO_NOT_RETRY_IO,
            format!("unable to read the parameter of {method} from {client}: {error}"),
        )
    }
}

/// The good end of a call.
#[derive(Debug, Default)]
pub struct Reply {
    /// The encoded result message.
    pub message: Bytes,
    /// The cell block in the connection's codec, not compressed; empty when there is none.
    pub cells: Bytes,
    /// What the reply counts for among all answers, if it was counted while it grew: it goes on to count until the
    /// connection has it.
    pub share: Option<Share>,
}

impl Reply {
    /// A reply of `message` alone.
    pub fn of(message: &impl Message) -> Reply {
        Reply { message: message.encode_to_vec().into(), ..Reply::default() }
    }

    /// A reply of `message` and the cells that go with it.
    pub fn with_cells(message: &impl Message, cells: impl Into<Bytes>) -> Reply {
        Reply { message: message.encode_to_vec().into(), cells: cells.into(), share: None }
    }

    /// The same, from now on counted among `answers` by `share`: it may wait for its connection's thread.
    pub fn counted_by(mut self, mut share: Share) -> Reply {
        share.set((self.message.len() + self.cells.len()) as u64);
        self.share = Some(share);
        self
    }
}

/// How a service answers.
pub enum Answer {
    /// At once.
    Now(Result<Reply, Exception>),
    /// When something that the call waits for has happened. Other calls of the connection go on meanwhile.
    Later(Pin<Box<dyn Future<Output = Result<Reply, Exception>> + Send>>),
}

impl Answer {
    /// An answer that waits for `future`.
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
