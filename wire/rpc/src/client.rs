//! The client's half: one connection to one service of one server, with any number of calls under way.
//!
//! [`Connection::call`] appends a frame to the connection's output and gives back a future; a task of the connection
//! writes what has gathered, reads answers and wakes who waits. Many callers may share a connection: what they say at
//! the same time goes out in one write. A future that is dropped forgets its call; the server still runs it.
//!
//! A connection that broke stays broken. Whether and where to connect again is for the caller, who learns from
//! [`Error::happened`] what became of the call.

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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::envelope::{ConnectionHeader, RequestHeader, ResponseHeader, delimited};
use crate::output::Output;
use crate::pb::Fields;
use crate::{ClientVersion, Codec, Compressor, Exception, Text, User};

/// An exception as it came from a server.
pub type RemoteException = Exception;

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an exception.
    #[error("{0}")]
    Remote(RemoteException),
    /// No connection came about: the call did not happen.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What the system says.
        reason: String,
    },
    /// The connection ended under way: the call may have happened.
    #[error("connection to {address} lost: {reason}")]
    Lost {
        /// Where to.
        address: SocketAddr,
        /// How it ended.
        reason: String,
    },
    /// The connection had ended before: the call did not happen.
    #[error("connection to {address} is closed: {reason}")]
    Closed {
        /// Where to.
        address: SocketAddr,
        /// How it ended.
        reason: String,
    },
    /// The time is over: the call may have happened.
    #[error("no answer from {address} to {method} within {limit:?}")]
    TimedOut {
        /// Where to.
        address: SocketAddr,
        /// What was called.
        method: Text,
        /// How long it was waited.
        limit: Duration,
    },
    /// The call cannot be sent: it did not happen.
    #[error("call of {method} cannot be sent to {address}: {reason}")]
    NotSent {
        /// Where to.
        address: SocketAddr,
        /// What was called.
        method: Text,
        /// Why.
        reason: String,
    },
    /// The answer is not what it should be: the call may have happened.
    #[error("answer from {address} cannot be read: {reason}")]
    Unreadable {
        /// Where from.
        address: SocketAddr,
        /// What is wrong.
        reason: String,
    },
}

/// What an error says about the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It was not carried out.
    No,
    /// It may have been carried out, or may yet be.
    Maybe,
}

impl Error {
    /// Whether the call was carried out.
    pub fn happened(&self) -> Happened {
        match self {
            // What an exception means is for who knows its class; a server that refused did nothing.
            Error::Remote(_) | Error::Connect { .. } | Error::Closed { .. } | Error::NotSent { .. } => {
                Happened::No
            }
            Error::Lost { .. } | Error::TimedOut { .. } | Error::Unreadable { .. } => Happened::Maybe,
        }
    }
}

/// How to connect, and the limits of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who calls.
    pub user: User,
    /// How cells travel.
    pub codec: Codec,
    /// What cell blocks are compressed with.
    pub compressor: Compressor,
    /// What version the client says it is; it decides about some forms of answers. Default 2.6.
    pub version: Option<ClientVersion>,
    /// Connection attributes.
    pub attributes: Vec<(String, Bytes)>,
    /// How long connecting may take. Default 10 s. Key: `hbase.ipc.client.socket.timeout.connect`.
    pub connect_max: Duration,
    /// After so long without a call the connection closes itself. Default 2 min. Key:
    /// `hbase.ipc.client.connection.minIdleTimeBeforeClose`.
    pub idle_max: Duration,
    /// The longest answer, and the longest cell block after unpacking, in bytes. Default 1 GB. Key:
    /// `bellows.ipc.client.response.size.max`.
    pub response_size_max: usize,
    /// Calls under way. Default 10,000. Key: `bellows.ipc.client.calls.max`.
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

/// One call to make.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The method's name as in the `.proto` file.
    pub method: Text,
    /// The encoded parameter message.
    pub param: Bytes,
    /// The cell block in the connection's codec, not compressed.
    pub cells: Bytes,
    /// How urgent the call is; `None` is normal.
    pub priority: Option<u32>,
    /// How long to wait for the answer; the server is told. `None` waits as long as the connection lives.
    pub timeout: Option<Duration>,
    /// Request attributes.
    pub attributes: Vec<(String, Bytes)>,
}

impl Invocation {
    /// A call of `method` with `param`.
    pub fn of(method: &'static str, param: &impl Message) -> Invocation {
        Invocation {
            method: Text::from_static(method),
            param: param.encode_to_vec().into(),
            ..Invocation::default()
        }
    }

    /// The same with a limit of time.
    pub fn within(self, timeout: Duration) -> Invocation {
        Invocation { timeout: Some(timeout), ..self }
    }

    /// The same with a cell block.
    pub fn with_cells(self, cells: impl Into<Bytes>) -> Invocation {
        Invocation { cells: cells.into(), ..self }
    }

    /// The same with a priority.
    pub fn with_priority(self, priority: u32) -> Invocation {
        Invocation { priority: Some(priority), ..self }
    }
}

/// The good end of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The encoded result message.
    pub message: Bytes,
    /// The cell block, unpacked.
    pub cells: Bytes,
}

type Outcome = Result<Response, Error>;

/// A connection; clones are the same connection. It closes when the last clone is dropped.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    guard: Arc<Guard>,
}

/// What callers and the task of a connection share.
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
    /// How the connection ended; no call goes out any more.
    ended: Option<Error>,
}

impl Shared {
    /// Ends the connection; who waits is told so.
    fn end(&self, error: Error) {
        let (waiting, task) = {
            let mut state = self.state.lock();
            if state.ended.is_none() {
                state.ended = Some(error.clone());
            }
            (std::mem::take(&mut state.waiting), state.task.take())
        };
        for (_, sender) in waiting {
            // Who no longer waits needs no answer.
            let _gone = sender.send(Err(error.clone()));
        }
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Ends the connection when nobody can call over it any more.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        let address = self.0.address;
        self.0.end(Error::Closed { address, reason: "nobody uses it any more".to_owned() });
    }
}

impl Connection {
    /// Connects to `service` at `address`. The task of the connection runs on the calling task's runtime.
    ///
    /// The server says nothing when it accepts the connection; a refusal is the answer to the first call.
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

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().ended.is_some()
    }

    /// Sends a call; the future is its answer. Nothing is sent when the future is never made, everything once it is.
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
        };
        let mut state = self.shared.state.lock();
        if let Some(ended) = &state.ended {
            return Err(match ended {
                // The reason of the end is worth more than the fact.
                Error::Remote(exception) => Error::Remote(exception.clone()),
                ended => Error::Closed { address, reason: ended.to_string() },
            });
        }
        if state.waiting.len() >= self.shared.calls_max {
            let reason =
                format!("{} calls are under way (bellows.ipc.client.calls.max)", self.shared.calls_max);
            return Err(not_sent(reason));
        }
        // Ids go round in the positive numbers of 31 bits, as those of Java clients do.
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

/// The answer of a call, to come.
struct Waiting {
    call_id: u32,
    receiver: oneshot::Receiver<Outcome>,
    shared: Arc<Shared>,
    /// Who waits uses the connection.
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

/// Asks the server at `address` for its cluster's id, by the `Regist` preamble: no service, no user, one answer.
pub async fn cluster_id(address: SocketAddr, limit: Duration) -> Result<String, Error> {
    let asked = async {
        let mut stream = dial(address, limit).await?;
        ask_cluster_id(&mut stream, address).await
    };
    let method = Text::from_static("Regist");
    env::timeout(limit, asked).await.unwrap_or(Err(Error::TimedOut { address, method, limit }))
}

async fn ask_cluster_id(stream: &mut env::Stream, address: SocketAddr) -> Result<String, Error> {
    /// An id is a UUID; nobody needs more than this.
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
    let mut fields = Fields::new(message, 0, message.len());
    while let Some((field, at, value)) = fields.next().map_err(|error| unreadable(error.to_string()))? {
        if field == 1 {
            let (from, to) = value.range(at).map_err(|error| unreadable(error.to_string()))?;
            return Ok(String::from_utf8_lossy(&message[from..to]).into_owned());
        }
    }
    Err(unreadable("there is no cluster id in it".to_owned()))
}

/// Takes one frame from the front of `input`, if it is there whole.
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

/// The call that a frame answers, and how. `Err` is a frame that makes no sense.
fn decode(
    frame: &Bytes,
    compressor: Compressor,
    limit: usize,
) -> Result<(u32, Result<Response, RemoteException>), String> {
    let (from, to) = delimited(frame, 0).map_err(|error| error.to_string())?;
    let header = ResponseHeader::decode(frame, from, to).map_err(|error| error.to_string())?;
    if let Some(exception) = header.exception {
        return Ok((header.call_id, Err(exception)));
    }
    // A method without a result may leave out even the message's length.
    let (from, to) =
        if to == frame.len() { (to, to) } else { delimited(frame, to).map_err(|error| error.to_string())? };
    let cells = header.cells.unwrap_or(0) as usize;
    if cells > frame.len() - to {
        return Err(format!("a cell block of {cells} bytes with {} left", frame.len() - to));
    }
    let cells =
        compressor.decompress(frame.slice(to..to + cells), limit).map_err(|error| error.to_string())?;
    Ok((header.call_id, Ok(Response { message: frame.slice(from..to), cells })))
}
