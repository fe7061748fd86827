//! TCP sockets.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(debug_assertions)]
use crate::simulation;

/// A connected TCP socket.
#[derive(Debug)]
pub struct Stream(Connected);

#[derive(Debug)]
enum Connected {
    System(tokio::net::TcpStream),
    #[cfg(debug_assertions)]
    Simulated(Box<dyn simulation::Socket>),
}

/// A connected socket that is moved from one runtime to another.
#[derive(Debug)]
pub struct Detached(Moving);

#[derive(Debug)]
enum Moving {
    System(std::net::TcpStream),
    #[cfg(debug_assertions)]
    Simulated(Stream),
}

/// A listening TCP socket.
#[derive(Debug)]
pub struct Listener(Listening);

#[derive(Debug)]
enum Listening {
    System(tokio::net::TcpListener),
    #[cfg(debug_assertions)]
    Simulated(Box<dyn simulation::Acceptor>),
}

/// Listens at `address`; for port 0 the system chooses a free one. Must be called inside a runtime.
///
/// Another process can take the address as soon as this one ends (`SO_REUSEADDR`). Accepted sockets detect after a
/// while that the other machine is gone (`SO_KEEPALIVE`, inherited from the listening socket).
pub fn listen(address: SocketAddr) -> io::Result<Listener> {
    #[cfg(debug_assertions)]
    if let Some(taken) = simulation::with(|director| director.listen(address)) {
        return taken.map(|acceptor| Listener(Listening::Simulated(acceptor)));
    }
    let socket =
        if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(1024).map(|listener| Listener(Listening::System(listener)))
}

/// Connects to `address`. Small frames are sent at once (`TCP_NODELAY`). Waits as long as the system does; a caller
/// that needs a shorter limit uses [`timeout`](crate::timeout).
pub async fn dial(address: SocketAddr) -> io::Result<Stream> {
    #[cfg(debug_assertions)]
    if let Some(dialled) = simulation::with(|director| director.dial(address)) {
        return dialled.await.map(|socket| Stream(Connected::Simulated(socket)));
    }
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Stream(Connected::System(stream)))
}

/// Returns the addresses of `host`, given as `name:port`. Fails if the name is unknown.
pub async fn resolve(host: &str) -> io::Result<Vec<SocketAddr>> {
    #[cfg(debug_assertions)]
    if simulation::is_active() {
        // Simulated machines have no host names, so only addresses are accepted.
        let address = host.parse().map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        return Ok(vec![address]);
    }
    Ok(tokio::net::lookup_host(host).await?.collect())
}

impl Listener {
    /// Returns the address where the socket listens, with the real port if 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Listening::System(listener) => listener.local_addr(),
            #[cfg(debug_assertions)]
            Listening::Simulated(acceptor) => Ok(acceptor.local()),
        }
    }

    /// Waits for the next connection. Dropping the future loses none.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match &self.0 {
            Listening::System(listener) => {
                let (stream, remote) = listener.accept().await?;
                Ok((Stream(Connected::System(stream)), remote))
            }
            #[cfg(debug_assertions)]
            Listening::Simulated(acceptor) => {
                let (socket, remote) = std::future::poll_fn(|context| acceptor.poll_accept(context)).await?;
                Ok((Stream(Connected::Simulated(socket)), remote))
            }
        }
    }
}

impl Stream {
    /// Returns the address of the other end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Connected::System(stream) => stream.peer_addr(),
            #[cfg(debug_assertions)]
            Connected::Simulated(socket) => Ok(socket.peer()),
        }
    }

    /// Returns the address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Connected::System(stream) => stream.local_addr(),
            #[cfg(debug_assertions)]
            Connected::Simulated(socket) => Ok(socket.local()),
        }
    }

    /// Sets whether the socket sends small frames at once (`TCP_NODELAY`).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        match &self.0 {
            Connected::System(stream) => stream.set_nodelay(nodelay),
            #[cfg(debug_assertions)]
            Connected::Simulated(_) => Ok(()),
        }
    }

    /// Takes the socket out of its runtime.
    pub fn detach(self) -> io::Result<Detached> {
        match self.0 {
            Connected::System(stream) => stream.into_std().map(|stream| Detached(Moving::System(stream))),
            #[cfg(debug_assertions)]
            Connected::Simulated(_) => Ok(Detached(Moving::Simulated(self))),
        }
    }

    /// Returns the system's socket, for code that is never simulated.
    ///
    /// # Panics
    /// In a simulation.
    pub fn into_system(self) -> tokio::net::TcpStream {
        match self.0 {
            Connected::System(stream) => stream,
            #[cfg(debug_assertions)]
            Connected::Simulated(_) => panic!("a simulated socket is none of the system's"),
        }
    }
}

impl Detached {
    /// Adds the socket to the runtime of the calling task.
    pub fn attach(self) -> io::Result<Stream> {
        match self.0 {
            Moving::System(stream) => {
                tokio::net::TcpStream::from_std(stream).map(|stream| Stream(Connected::System(stream)))
            }
            #[cfg(debug_assertions)]
            Moving::Simulated(stream) => Ok(stream),
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Connected::System(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(debug_assertions)]
            Connected::Simulated(socket) => Pin::new(socket).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Connected::System(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(debug_assertions)]
            Connected::Simulated(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Connected::System(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            #[cfg(debug_assertions)]
            Connected::Simulated(socket) => Pin::new(socket).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Connected::System(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(debug_assertions)]
            Connected::Simulated(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Connected::System(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(debug_assertions)]
            Connected::Simulated(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}
