//! The server: listeners, threads, and connections that stay on one thread.
//!
//! One thread accepts connections, and passes each to the thread that has the fewest. All other work for a connection
//! runs on that thread, see [`connection`]. A server starts in two steps, [`Server::bind`] and then [`Bound::serve`],
//! because a caller that registers the server somewhere must first know its port.

mod connection;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::{Listener, Priority, Runtime, Stream, World};
use tokio::sync::watch;

use crate::counters::{Gauges, Shard, Snapshot, count};
use crate::{Answers, LargeBudget, Options, Services};
use connection::Connection;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot listen at an address.
    #[error("cannot listen at {address}: {source}; choose another port or end the process that has it")]
    Listen {
        /// The address at which the server should listen.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start an rpc thread: {0}")]
    Thread(io::Error),
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
}

/// State shared by all threads of a server.
struct Shared {
    world: World,
    options: Options,
    services: Services,
    gauges: Gauges,
    answers: Answers,
    stopping: watch::Sender<bool>,
}

impl Shared {
    fn snapshot<'a>(&self, shards: impl Iterator<Item = &'a Shard>) -> Snapshot {
        let large = self.answers.large();
        Snapshot {
            answers_size: self.answers.taken(),
            large_size: large.taken(),
            large_waiting: large.waiting() as u64,
            ..self.gauges.snapshot(shards)
        }
    }
}

/// A serving thread.
struct ServingThread {
    runtime: Runtime,
    shard: Arc<Shard>,
    connections: Arc<AtomicU64>,
}

/// A server that has its addresses but does not serve yet.
#[derive(Debug)]
pub struct Bound {
    world: World,
    options: Options,
    runtimes: Vec<Runtime>,
    listeners: Vec<Listener>,
    addresses: Vec<SocketAddr>,
}

/// A running server. Dropping it closes all connections at once; [`Server::stop`] ends it in order.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<ServingThread>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Binds the addresses; port 0 picks a free port.
    pub fn bind(world: World, options: Options, addresses: &[SocketAddr]) -> Result<Bound, Error> {
        options.check().map_err(Error::Options)?;
        let mut runtimes = Vec::with_capacity(options.threads);
        for index in 0..options.threads {
            let name = format!("rpc-{index}");
            let runtime = Runtime::start_as(&name, Priority::Serving, options.blocking_threads_max);
            runtimes.push(runtime.map_err(Error::Thread)?);
        }
        let (mut listeners, mut bound) = (Vec::new(), Vec::new());
        let entered = runtimes[0].handle().enter();
        for &address in addresses {
            let taken = env::listen(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
            let (local, listener) = taken.map_err(|source| Error::Listen { address, source })?;
            bound.push(local);
            listeners.push(listener);
        }
        drop(entered);
        Ok(Bound { world, options, runtimes, listeners, addresses: bound })
    }

    /// Returns the bound addresses in the order given, with their actual ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the counters of the server.
    pub fn counters(&self) -> Snapshot {
        self.shared.snapshot(self.threads.iter().map(|thread| &*thread.shard))
    }

    /// Returns a function that returns the counters of the server, even after the server was stopped.
    pub fn counting(&self) -> impl Fn() -> Snapshot + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        let shards: Vec<_> = self.threads.iter().map(|thread| Arc::clone(&thread.shard)).collect();
        move || shared.snapshot(shards.iter().map(|shard| &**shard))
    }

    /// Returns the runtime of this server, for tasks that run beside its connections.
    pub fn handle(&self) -> &env::Handle {
        self.threads[0].runtime.handle()
    }

    /// Stops the server in order: it accepts and reads nothing more, waits at most [`Options::stop_max`] until all
    /// current calls are answered and sent, and closes the connections. Returns whether all connections had ended by
    /// then. Blocks the calling thread, which must not be one of this server's.
    pub fn stop(self) -> bool {
        self.shared.stopping.send_replace(true);
        let shared = Arc::clone(&self.shared);
        // Each connection has a receiver of this channel until it ends. So the send side shows when all have ended.
        let ended = self.threads[0].runtime.spawn(async move {
            env::timeout(shared.options.stop_max, shared.stopping.closed()).await.is_some()
        });
        env::block_on(ended).unwrap_or(false)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.send_replace(true);
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Bound {
    /// Returns the bound addresses in the order given, with their actual ports.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Starts to serve.
    pub fn serve(self, services: Services) -> Server {
        let shared = Arc::new(Shared {
            world: self.world,
            answers: Answers::with_large(
                self.options.answers_size_max as u64,
                LargeBudget::reclaiming(
                    self.options.large_size_min as u64,
                    self.options.large_size_max as u64,
                    services.reclaim(),
                ),
            ),
            options: self.options,
            services,
            gauges: Gauges::default(),
            stopping: watch::Sender::new(false),
        });
        let threads: Vec<ServingThread> = self
            .runtimes
            .into_iter()
            .map(|runtime| ServingThread { runtime, shard: Arc::default(), connections: Arc::default() })
            .collect();
        for listener in self.listeners {
            let handles = threads
                .iter()
                .map(|thread| Handle {
                    runtime: thread.runtime.handle().clone(),
                    shard: Arc::clone(&thread.shard),
                    connections: Arc::clone(&thread.connections),
                })
                .collect();
            threads[0].runtime.spawn(accept(listener, Arc::clone(&shared), handles));
        }
        Server { shared, threads, addresses: self.addresses }
    }
}

/// A serving thread, as the task that accepts connections sees it. This task runs on one of the runtimes, so it must
/// not own them.
struct Handle {
    runtime: env::Handle,
    shard: Arc<Shard>,
    connections: Arc<AtomicU64>,
}

async fn accept(listener: Listener, shared: Arc<Shared>, threads: Vec<Handle>) {
    let mut stopping = shared.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            biased;
            // The sender is owned by `shared`, so this wait does not fail.
            _stopped = stopping.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => admit(stream, remote, &shared, &threads),
            // Either the client has left, or no file descriptor is free. Neither ends the server, so the loop continues
            // after a pause.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                env::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn admit(stream: Stream, remote: SocketAddr, shared: &Arc<Shared>, threads: &[Handle]) {
    let thread = threads
        .iter()
        .min_by_key(|thread| thread.connections.load(Ordering::Relaxed))
        .expect("a server has a thread");
    if shared.gauges.connections_open.load(Ordering::Relaxed) >= shared.options.connections_max as u64 {
        count(&thread.shard.connections_refused, 1);
        tracing::warn!(
            %remote,
            "connection refused: {} are open; raise bellows.ipc.server.connections.max",
            shared.options.connections_max
        );
        return;
    }
    count(&thread.shard.connections_accepted, 1);
    let open = Open::new(Arc::clone(shared), Arc::clone(&thread.connections));
    // A socket belongs to the runtime that accepted it. It is detached so that it can move to another runtime.
    let moved = stream.set_nodelay(true).and_then(|()| stream.detach());
    let shard = Arc::clone(&thread.shard);
    thread.runtime.spawn(async move {
        let connection = moved
            .and_then(env::Detached::attach)
            .map(|stream| Connection::new(stream, remote, Arc::clone(&open.shared), shard));
        match connection {
            Ok(connection) => connection.run().await,
            Err(error) => tracing::debug!(%remote, %error, "connection lost while it was accepted"),
        }
        drop(open);
    });
}

/// Counts a connection as open until it is dropped.
struct Open {
    shared: Arc<Shared>,
    thread: Arc<AtomicU64>,
}

impl Open {
    fn new(shared: Arc<Shared>, thread: Arc<AtomicU64>) -> Open {
        shared.gauges.connections_open.fetch_add(1, Ordering::Relaxed);
        thread.fetch_add(1, Ordering::Relaxed);
        Open { shared, thread }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.gauges.connections_open.fetch_sub(1, Ordering::Relaxed);
        self.thread.fetch_sub(1, Ordering::Relaxed);
    }
}
