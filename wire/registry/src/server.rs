//! The ZooKeeper listener and its connections, on a thread of their own.
//!
//! A client connects with session id zero or with the id of its previous session. A session outlives its connection by
//! its time-out, so that the client can resume it. A session has no znodes, since clients cannot create any. Instead of
//! a connect request a client may send one of ZooKeeper's four-letter words.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use env::sync::Mutex;
use env::{HashMap, Listener, Moment, Runtime, Stream, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use crate::session::{Connect, NextStep, Session};
use crate::tree::Tree;

/// The limits of the ZooKeeper server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum frame length, in bytes. Default 1 MB less one. Key: `jute.maxbuffer`.
    pub frame_size_max: usize,
    /// Maximum number of open connections. Default 3000. Key: `bellows.zookeeper.connections.max`.
    pub connections_max: usize,
    /// Maximum number of sessions that are open or can be resumed. Default 10,000. Key:
    /// `bellows.zookeeper.sessions.max`.
    pub sessions_max: usize,
    /// Maximum number of watches of one connection; further ones are dropped. Default 1000. Key:
    /// `bellows.zookeeper.watches.max`.
    pub watches_max: usize,
    /// Minimum session time-out. Default 4 s. Key: `hbase.zookeeper.property.minSessionTimeout`.
    pub session_min: Duration,
    /// Maximum session time-out. Default 90 s, which HBase requests. Key: `hbase.zookeeper.property.maxSessionTimeout`.
    pub session_max: Duration,
    /// How long a client may take to send its connect request, and to read an answer. Default 10 s. Key:
    /// `bellows.zookeeper.socket.timeout`.
    pub socket_max: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            frame_size_max: 0xf_ffff,
            connections_max: 3_000,
            sessions_max: 10_000,
            watches_max: 1_000,
            session_min: Duration::from_secs(4),
            session_max: Duration::from_secs(90),
            socket_max: Duration::from_secs(10),
        }
    }
}

/// Why the ZooKeeper server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot listen at its address.
    #[error(
        "cannot listen at {address} for ZooKeeper clients: {source}; choose another port or end the process that has it"
    )]
    Listen {
        /// The address at which the server should listen.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The server's thread cannot be started.
    #[error("cannot start the thread for ZooKeeper clients: {0}")]
    Thread(io::Error),
}

/// Counters of the ZooKeeper server since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Number of connections that are open now.
    pub connections_open: u64,
    /// Number of connections that were refused because too many were open.
    pub connections_refused: u64,
    /// Number of requests received.
    pub requests: u64,
    /// Number of replies and events sent.
    pub replies: u64,
}

#[derive(Debug, Default)]
struct Counters {
    open: AtomicU64,
    refused: AtomicU64,
    requests: AtomicU64,
    replies: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    world: World,
    options: Options,
    tree: Arc<Tree>,
    sessions: Mutex<HashMap<i64, ResumableSession>>,
    counters: Counters,
    stopping: watch::Sender<bool>,
}

/// A session that a client may resume.
#[derive(Debug)]
struct ResumableSession {
    password: [u8; 16],
    timeout: Duration,
    seen: Moment,
    /// Number of connections that use the session. It is two after a client has reconnected, until the server notices
    /// that the old socket is dead.
    connections: u32,
}

/// A ZooKeeper server that has its address but does not serve yet.
#[derive(Debug)]
pub struct Bound {
    world: World,
    options: Options,
    runtime: Runtime,
    listener: Listener,
    address: SocketAddr,
}

/// A running ZooKeeper server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    /// Binds `address`; port 0 picks a free port.
    pub fn bind(world: World, options: Options, address: SocketAddr) -> Result<Bound, Error> {
        let runtime = Runtime::start("zookeeper", 1).map_err(Error::Thread)?;
        let entered = runtime.handle().enter();
        let taken = env::listen(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        drop(entered);
        let (local, listener) = taken.map_err(|source| Error::Listen { address, source })?;
        Ok(Bound { world, options, runtime, listener, address: local })
    }

    /// Returns the bound address, with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's counters.
    pub fn counters(&self) -> Snapshot {
        let counters = &self.shared.counters;
        Snapshot {
            connections_open: counters.open.load(Ordering::Relaxed),
            connections_refused: counters.refused.load(Ordering::Relaxed),
            requests: counters.requests.load(Ordering::Relaxed),
            replies: counters.replies.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.send_replace(true);
    }
}

impl Bound {
    /// Returns the bound address, with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to serve `tree`.
    pub fn serve(self, tree: Arc<Tree>) -> Server {
        let shared = Arc::new(Shared {
            world: self.world,
            options: self.options,
            tree,
            sessions: Mutex::default(),
            counters: Counters::default(),
            stopping: watch::Sender::new(false),
        });
        self.runtime.spawn(accept(self.listener, Arc::clone(&shared)));
        Server { shared, address: self.address, _runtime: self.runtime }
    }
}

async fn accept(listener: Listener, shared: Arc<Shared>) {
    let mut stopping = shared.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            biased;
            // The sender is owned by `shared`, so this wait does not fail.
            _stopped = stopping.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a ZooKeeper client");
                env::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if shared.counters.open.load(Ordering::Relaxed) >= shared.options.connections_max as u64 {
            shared.counters.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%remote, "ZooKeeper client refused; raise bellows.zookeeper.connections.max");
            continue;
        }
        shared.counters.open.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        env::spawn(async move {
            let mut connection =
                Connection { stream, remote, shared: Arc::clone(&shared), input: BytesMut::new() };
            if let Err(error) = connection.run().await {
                tracing::debug!(%remote, %error, "ZooKeeper client gone");
            }
            shared.counters.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

struct Connection {
    stream: Stream,
    remote: SocketAddr,
    shared: Arc<Shared>,
    input: BytesMut,
}

fn refused(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let hello = match env::timeout(self.shared.options.socket_max, self.hello()).await {
            Some(hello) => hello?,
            None => return Err(refused("no hello came")),
        };
        let Some(connect) = hello else {
            return Ok(());
        };
        let Some((id, timeout)) = self.open(&connect) else {
            // The session is unknown or has expired. The answer tells the client to open a new one.
            return self.send(&Connect::reply(0, 0, &[0; 16])).await;
        };
        let password = self.shared.sessions.lock().get(&id).map(|known| known.password);
        let password = password.expect("open sessions are known");
        self.send(&Connect::reply(timeout.as_millis() as i32, id, &password)).await?;
        let ended = self.requests(timeout).await;
        let mut sessions = self.shared.sessions.lock();
        if matches!(ended, Ok(NextStep::Close)) {
            sessions.remove(&id);
        } else if let Some(known) = sessions.get_mut(&id) {
            known.connections -= 1;
            known.seen = self.shared.world.moment();
        }
        ended.map(|_| ())
    }

    /// Reads the client's connect request. If the client sends a four-letter word instead, answers it and returns
    /// `None`. Also returns `None` if the client disconnects.
    async fn hello(&mut self) -> io::Result<Option<Connect>> {
        while self.input.len() < 4 {
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
        let word = [self.input[0], self.input[1], self.input[2], self.input[3]];
        if word.iter().all(u8::is_ascii_lowercase) {
            let answer = self.word(std::str::from_utf8(&word).expect("ascii"));
            self.stream.write_all(answer.as_bytes()).await?;
            self.stream.shutdown().await?;
            return Ok(None);
        }
        let Some(frame) = self.frame().await? else {
            return Ok(None);
        };
        Connect::read(&frame).map(Some).map_err(|error| refused(error.to_string()))
    }

    /// Reads the next frame; returns `None` at the end of the stream. Cancel-safe: dropping the future loses nothing.
    async fn frame(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(length) = self.input.first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if length > self.shared.options.frame_size_max {
                    return Err(refused(format!(
                        "a frame of {length} bytes, more than {} (jute.maxbuffer)",
                        self.shared.options.frame_size_max
                    )));
                }
                if self.input.len() >= 4 + length {
                    self.input.advance(4);
                    return Ok(Some(self.input.split_to(length).freeze()));
                }
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match env::timeout(self.shared.options.socket_max, self.stream.write_all(bytes)).await {
            Some(written) => written,
            None => Err(refused("it leaves answers unread")),
        }
    }

    /// Finds or creates the session that the client asks for. Returns `None` if its session is unknown or has expired,
    /// if the password is wrong, or if there are too many sessions and all of them have a connection.
    fn open(&self, connect: &Connect) -> Option<(i64, Duration)> {
        let Shared { world, options, sessions, .. } = &*self.shared;
        let now = world.moment();
        let asked = Duration::from_millis(u64::try_from(connect.timeout_ms).unwrap_or(0));
        let timeout = asked.clamp(options.session_min, options.session_max);
        let mut sessions = sessions.lock();
        sessions.retain(|_, known| known.connections > 0 || now.since(known.seen) < known.timeout);
        if connect.session != 0 {
            let known = sessions.get_mut(&connect.session)?;
            if known.password != connect.password {
                return None;
            }
            known.connections += 1;
            known.timeout = timeout;
            return Some((connect.session, timeout));
        }
        if sessions.len() >= options.sessions_max {
            // There are too many sessions: the one whose client has left first is dropped, because that client is the
            // least likely to return.
            let oldest = sessions
                .iter()
                .filter(|(_, known)| known.connections == 0)
                .min_by_key(|(_, known)| known.seen);
            let oldest = oldest.map(|(id, _)| *id)?;
            sessions.remove(&oldest);
        }
        let id = loop {
            let id = (world.random() >> 1) as i64;
            if id != 0 && !sessions.contains_key(&id) {
                break id;
            }
        };
        let mut password = [0; 16];
        password[..8].copy_from_slice(&world.random().to_be_bytes());
        password[8..].copy_from_slice(&world.random().to_be_bytes());
        sessions.insert(id, ResumableSession { password, timeout, seen: now, connections: 1 });
        Some((id, timeout))
    }

    /// Answers requests until the client disconnects, closes the session, or sends nothing for longer than its
    /// time-out, or until the server stops.
    async fn requests(&mut self, timeout: Duration) -> io::Result<NextStep> {
        let shared = Arc::clone(&self.shared);
        let mut changes = shared.tree.changes();
        let mut stopping = shared.stopping.subscribe();
        let mut session = Session::new(self.remote.ip(), shared.options.watches_max);
        let mut silence = Box::pin(env::sleep(timeout));
        loop {
            let mut out = Vec::new();
            let mut after = NextStep::GoOn;
            tokio::select! {
                biased;
                _stopped = stopping.wait_for(|stop| *stop) => return Ok(NextStep::GoOn),
                changed = changes.changed() => {
                    changed.map_err(|_| refused("the tree is gone"))?;
                    session.events(&shared.tree, &mut out);
                }
                frame = self.frame() => {
                    let Some(frame) = frame? else {
                        return Ok(NextStep::GoOn);
                    };
                    shared.counters.requests.fetch_add(1, Ordering::Relaxed);
                    after = session
                        .answer(&shared.tree, &frame, &mut out)
                        .map_err(|error| refused(error.to_string()))?;
                    silence = Box::pin(env::sleep(timeout));
                }
                () = &mut silence => return Err(refused(format!("silent for {timeout:?}"))),
            }
            if !out.is_empty() {
                shared.counters.replies.fetch_add(1, Ordering::Relaxed);
                self.send(&out).await?;
            }
            if after == NextStep::Close {
                self.stream.shutdown().await?;
                return Ok(NextStep::Close);
            }
        }
    }

    fn word(&self, word: &str) -> String {
        let Shared { tree, counters, .. } = &*self.shared;
        let open = counters.open.load(Ordering::Relaxed);
        let summary = || {
            format!(
                "Received: {}\nSent: {}\nConnections: {open}\nOutstanding: 0\nZxid: {:#x}\nMode: standalone\n\
                 Node count: {}\n",
                counters.requests.load(Ordering::Relaxed),
                counters.replies.load(Ordering::Relaxed),
                tree.last_change(),
                tree.len()
            )
        };
        let version = concat!("Zookeeper version: 3.8-readonly (bellows ", env!("CARGO_PKG_VERSION"), ")\n");
        match word {
            "ruok" => "imok".to_owned(),
            // The answer is not "ro": clients that accept a read-only server would keep looking for a writable one.
            "isro" => "rw".to_owned(),
            "srvr" => format!("{version}{}", summary()),
            "stat" => format!("{version}Clients:\n /{}\n\n{}", self.remote, summary()),
            other => format!("{other} is not executed because it is not in the whitelist.\n"),
        }
    }
}
