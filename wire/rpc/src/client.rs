//! The client side: one connection to one service of one server, with any number of concurrent calls.
//!
//! [`Connection::call`] appends a frame to the connection's output and returns a future. The connection's task writes
//! all frames that were appended, reads answers and wakes their callers. If several callers share a connection, their
//! concurrent calls are sent with one write. Dropping the future abandons the call, but the server still runs it.
//!
//! A broken connection stays broken. The caller decides whether and where to reconnect, and learns from
//! [`Error::happened`] whether the call may have been applied.

mod task;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use env::HashMap;
use env::sync::Mutex;
use prost::Message;
use proto::wire::Fields;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::envelope::{ConnectionHeader, RequestHeader, ResponseHeader, delimited};
use crate::output::Output;
use crate::{ClientVersion, Codec, Compressor, Exception, Text, User};

/// An exception received from a server.
pub type RemoteException = Exception;

/// Why a call of the client has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an exception.
    #[error("{0}")]
    Remote(RemoteException),
    /// The connection could not be opened: the call did not happen.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The server's address.
        address: SocketAddr,
        /// The system's error.
        reason: String,
    },
    /// The connection was lost during the call, which may have happened.
    #[error("connection to {address} lost: {reason}")]
    Lost {
        /// The server's address.
        address: SocketAddr,
        /// How the connection ended.
        reason: String,
    },
    /// The connection was closed before the call, which did not happen.
    #[error("connection to {address} is closed: {reason}")]
    Closed {
        /// The server's address.
        address: SocketAddr,
        /// How the connection ended.
        reason: String,
    },
    /// The time limit has passed: the call may have happened.
    #[error("no answer from {address} to {method} within {limit:?}")]
    TimedOut {
        /// The server's address.
        address: SocketAddr,
        /// The name of the called method.
        method: Text,
        /// The time limit of the call.
        limit: Duration,
    },
    /// The call cannot be sent: it did not happen.
    #[error("call of {method} cannot be sent to {address}: {reason}")]
    NotSent {
        /// The server's address.
        address: SocketAddr,
        /// The name of the called method.
        method: Text,
        /// Why the call cannot be sent.
        reason: String,
    },
    /// The answer cannot be decoded: the call may have happened.
    #[error("answer from {address} cannot be read: {reason}")]
    Unreadable {
        /// The server's address.
        address: SocketAddr,
        /// What is wrong with the answer.
        reason: String,
    },
}

/// Whether a failed call was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The call was not applied.
    No,
    /// The call may have been applied, or may still be.
    Maybe,
}

impl Error {
    /// Returns whether the failed call was applied. An exception of the server counts as [`Happened::No`], although some
    /// classes leave it open; this crate does not interpret classes.
    pub fn happened(&self) -> Happened {
        match self {
            // A server that refuses a call has done nothing. The caller interprets other exceptions by their class.
            Error::Remote(_) | Error::Connect { .. } | Error::Closed { .. } | Error::NotSent { .. } => {
                Happened::No
            }
            Error::Lost { .. } | Error::TimedOut { .. } | Error::Unreadable { .. } => Happened::Maybe,
        }
    }
}

/// Settings and limits of a client's connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// The user on whose behalf the calls are made.
    pub user: User,
    /// The encoding of cells in cell blocks.
    pub codec: Codec,
    /// The compression of cell blocks.
    pub compressor: Compressor,
    /// The version that the client states, on which some forms of answers depend. Default 2.6.
    pub version: Option<ClientVersion>,
    /// Attributes of the connection, which the server receives.
    pub attributes: Vec<(String, Bytes)>,
    /// Time limit for connecting. Default 10 s. Key: `hbase.ipc.client.socket.timeout.connect`.
    pub connect_max: Duration,
    /// Time without a call after which the connection closes itself. Default 2 min. Key:
    /// `hbase.ipc.client.connection.minIdleTimeBeforeClose`.
    pub idle_max: Duration,
    /// Maximum size of an answer, and of a cell block after decompression, in bytes. Default 1 GB. Key:
    /// `bellows.ipc.client.response.size.max`.
    pub response_size_max: usize,
    /// Maximum number of concurrent calls. Default 10,000. Key: `bellows.ipc.client.calls.max`.
    pub calls_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            user: User { effective: Some("bellows".to_owned()), real: None },
            codec: Codec::KeyValue,
            compressor: Compressor::None,
            version: Some(ClientVersion { text: "2.6.4".to_owned(), major: 2, minor: 6 }),
            attributes: Vec::new(),
            connect_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(120),
            response_size_max: 1 << 30,
            calls_max: 10_000,
        }
    }
}

/// A call to be made.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The method's name as in the `.proto` file.
    pub method: Text,
    /// The encoded parameter message.
    pub param: Bytes,
    /// The cell block in the connection's codec, uncompressed.
    pub cells: Bytes,
    /// The priority of the call; `None` is normal.
    pub priority: Option<u32>,
    /// Time limit for the answer, which is also sent to the server. `None` waits as long as the connection lives.
    pub timeout: Option<Duration>,
    /// Attributes of the request, which the server receives.
    pub attributes: Vec<(String, Bytes)>,
}

impl Invocation {
    /// Creates a call of `method` with `param`.
    pub fn of(method: &'static str, param: &impl Message) -> Invocation {
        Invocation {
            method: Text::from_static(method),
            param: param.encode_to_vec().into(),
            ..Invocation::default()
        }
    }

    /// Returns the call with a time limit.
    pub fn within(self, timeout: Duration) -> Invocation {
        Invocation { timeout: Some(timeout), ..self }
    }

    /// Returns the call with a cell block.
    pub fn with_cells(self, cells: impl Into<Bytes>) -> Invocation {
        Invocation { cells: cells.into(), ..self }
    }

    /// Returns the call with a priority.
    pub fn with_priority(self, priority: u32) -> Invocation {
        Invocation { priority: Some(priority), ..self }
    }
}

/// The successful result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The encoded result message.
    pub message: Bytes,
    /// The decompressed cell block.
    pub cells: Bytes,
}

type Outcome = Result<Response, Error>;

/// A connection to one service of one server. Clones share it; it closes when the last clone and the last waiting call
/// are dropped, or when it is idle for [`Options::idle_max`].
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    guard: Arc<Guard>,
}

/// State shared by callers and the connection's task.
struct Shared {
    address: SocketAddr,
    compressor: Compressor,
    calls_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_call: u32,
    waiting: HashMap<u32, oneshot::Sender<Outcome>>,
    output: Output,
    task: Option<Waker>,
    /// The error that ended the connection; set as soon as the connection accepts no more calls.
    ended: Option<Error>,
}

impl Shared {
    /// Ends the connection, and reports the error to all waiting calls.
    fn end(&self, error: Error) {
        let (waiting, task) = {
            let mut state = self.state.lock();
            if state.ended.is_none() {
                state.ended = Some(error.clone());
            }
            (std::mem::take(&mut state.waiting), state.task.take())
        };
        for (_, sender) in waiting {
            // The send fails if the caller has given up, and then nobody needs the error.
            let _gone = sender.send(Err(error.clone()));
        }
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Ends the connection when the last clone of it is dropped.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        let address = self.0.address;
        self.0.end(Error::Closed { address, reason: "nobody uses it any more".to_owned() });
    }
}

impl Connection {
    /// Connects to `service` at `address`. The connection's task runs on the current runtime.
    ///
    /// The server sends nothing when it accepts the connection; a refusal arrives as the answer to the first call.
    pub async fn open(address: SocketAddr, service: &str, options: &Options) -> Result<Connection, Error> {
        let stream = dial(address, options.connect_max).await?;
        let mut hello = b"HBas\x00\x50".to_vec();
        let mut header = Vec::new();
        ConnectionHeader {
            user: options.user.clone(),
            service: Some(service.to_owned()),
            codec: options.codec.class().to_owned(),
            compressor: (options.compressor != Compressor::None)
                .then(|| options.compressor.class().to_owned()),
            version: options.version.clone(),
            cipher: None,
            attributes: options.attributes.clone(),
        }
        .encode(&mut header);
        hello.extend_from_slice(&(header.len() as u32).to_be_bytes());
        hello.extend_from_slice(&header);
        let shared = Arc::new(Shared {
            address,
            compressor: options.compressor,
            calls_max: options.calls_max,
            state: Mutex::default(),
        });
        shared.state.lock().output.put(&hello);
        env::spawn(task::run(stream, Arc::clone(&shared), options.clone()));
        Ok(Connection { guard: Arc::new(Guard(Arc::clone(&shared))), shared })
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().ended.is_some()
    }

    /// Sends a call and returns the future of its answer. The call is sent even if the future is never polled.
    pub fn call(
        &self,
        invocation: Invocation,
    ) -> impl Future<Output = Result<Response, Error>> + Send + use<> {
        let (address, method, limit) = (self.shared.address, invocation.method.clone(), invocation.timeout);
        let sent = self.send(invocation);
        async move {
            let answer = sent?;
            match limit {
                None => answer.await,
                Some(limit) => env::timeout(limit, answer).await.unwrap_or(Err(Error::TimedOut {
                    address,
                    method,
                    limit,
                })),
            }
        }
    }

    fn send(&self, invocation: Invocation) -> Result<Waiting, Error> {
        let address = self.shared.address;
        let not_sent = |reason: String| Error::NotSent { address, method: invocation.method.clone(), reason };
        let cells = self.shared.compressor.compress(invocation.cells.clone());
        let size = invocation.param.len() + cells.len();
        if size > i32::MAX as usize - (1 << 16) {
            return Err(not_sent(format!("it has {size} bytes, more than a frame holds")));
        }
        let mut header = RequestHeader {
            call_id: 0,
            method: invocation.method.clone(),
            has_param: true,
            cells: (!cells.is_empty()).then_some(cells.len() as u32),
            priority: invocation.priority,
            timeout: invocation
                .timeout
                .map(|limit| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).max(1)),
            attributes: invocation.attributes,
            traceparent: None,
        };
        let mut state = self.shared.state.lock();
        if let Some(ended) = &state.ended {
            return Err(match ended {
                // The server's exception is returned, because it says more than that the connection has ended.
                Error::Remote(exception) => Error::Remote(exception.clone()),
                ended => Error::Closed { address, reason: ended.to_string() },
            });
        }
        if state.waiting.len() >= self.shared.calls_max {
            let reason =
                format!("{} calls are under way (bellows.ipc.client.calls.max)", self.shared.calls_max);
            return Err(not_sent(reason));
        }
        // Ids cycle through the positive 31-bit numbers, as with Java clients.
        while state.waiting.contains_key(&state.next_call) {
            state.next_call = (state.next_call + 1) & 0x7fff_ffff;
        }
        header.call_id = state.next_call;
        state.next_call = (state.next_call + 1) & 0x7fff_ffff;
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(header.call_id, sender);
        state.output.put_request(&header, &invocation.param, cells);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Ok(Waiting {
            call_id: header.call_id,
            receiver,
            shared: Arc::clone(&self.shared),
            _guard: Arc::clone(&self.guard),
            over: false,
        })
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

/// The future that returns the answer of a call.
struct Waiting {
    call_id: u32,
    receiver: oneshot::Receiver<Outcome>,
    shared: Arc<Shared>,
    /// Keeps the connection open while the caller waits.
    _guard: Arc<Guard>,
    over: bool,
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let address = self.shared.address;
        Pin::new(&mut self.receiver).poll(context).map(|outcome| {
            self.over = true;
            outcome.unwrap_or_else(|_| Err(Error::Lost { address, reason: "its task ended".to_owned() }))
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.over {
            self.shared.state.lock().waiting.remove(&self.call_id);
        }
    }
}

async fn dial(address: SocketAddr, limit: Duration) -> Result<env::Stream, Error> {
    match env::timeout(limit, env::dial(address)).await {
        Some(Ok(stream)) => Ok(stream),
        Some(Err(error)) => Err(Error::Connect { address, reason: error.to_string() }),
        None => Err(Error::Connect { address, reason: format!("no answer within {limit:?}") }),
    }
}

/// Requests the cluster id from the server at `address`, by the preamble `Regist`, for which no service or user is
/// needed.
pub async fn cluster_id(address: SocketAddr, limit: Duration) -> Result<String, Error> {
    let asked = async {
        let mut stream = dial(address, limit).await?;
        ask_cluster_id(&mut stream, address).await
    };
    let method = Text::from_static("Regist");
    env::timeout(limit, asked).await.unwrap_or(Err(Error::TimedOut { address, method, limit }))
}

async fn ask_cluster_id(stream: &mut env::Stream, address: SocketAddr) -> Result<String, Error> {
    /// Maximum length of the answer to `Regist`, in bytes. The cluster id is a UUID.
    const ANSWER_MAX: usize = 64 << 10;
    let lost = |reason: String| Error::Lost { address, reason };
    let unreadable = |reason: String| Error::Unreadable { address, reason };
    stream.write_all(b"Regist").await.map_err(|error| lost(error.to_string()))?;
    let mut input = BytesMut::new();
    let frame = loop {
        if let Some(frame) = take_frame(&mut input, ANSWER_MAX).map_err(unreadable)? {
            break frame;
        }
        match stream.read_buf(&mut input).await {
            Ok(0) => return Err(lost("it ended before the answer".to_owned())),
            Ok(_) => {}
            Err(error) => return Err(lost(error.to_string())),
        }
    };
    let (_, outcome) = decode(&frame, Compressor::None, ANSWER_MAX).map_err(unreadable)?;
    let response = outcome.map_err(Error::Remote)?;
    let message = &response.message;
    let mut fields = Fields::of(message);
    while let Some((field, at, value)) = fields.next().map_err(|error| unreadable(error.to_string()))? {
        if field == 1 {
            let range = value.range(at).map_err(|error| unreadable(error.to_string()))?;
            return Ok(String::from_utf8_lossy(&message[range]).into_owned());
        }
    }
    Err(unreadable("there is no cluster id in it".to_owned()))
}

/// Takes one frame from the front of `input`; returns `None` until it is complete.
fn take_frame(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, String> {
    let Some(length) = input.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > limit {
        return Err(format!("a frame of {length} bytes, more than {limit}"));
    }
    if input.len() < 4 + length {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length).freeze()))
}

/// Decodes a frame to the id of its call and the result of the call. Fails for a malformed frame.
fn decode(
    frame: &Bytes,
    compressor: Compressor,
    limit: usize,
) -> Result<(u32, Result<Response, RemoteException>), String> {
    let header = delimited(frame, 0).map_err(|error| error.to_string())?;
    let to = header.end;
    let header = ResponseHeader::decode(frame, header).map_err(|error| error.to_string())?;
    if let Some(exception) = header.exception {
        return Ok((header.call_id, Err(exception)));
    }
    // A method without a result may omit even the message's length.
    let message =
        if to == frame.len() { to..to } else { delimited(frame, to).map_err(|error| error.to_string())? };
    let to = message.end;
    let cells = header.cells.unwrap_or(0) as usize;
    if cells > frame.len() - to {
        return Err(format!("a cell block of {cells} bytes with {} left", frame.len() - to));
    }
    let cells =
        compressor.decompress(frame.slice(to..to + cells), limit).map_err(|error| error.to_string())?;
    Ok((header.call_id, Ok(Response { message: frame.slice(message), cells })))
}
