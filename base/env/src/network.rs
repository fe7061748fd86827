//! TCP sockets.

use std::io;
use std::net::SocketAddr;

/// A connected socket.
pub type Stream = tokio::net::TcpStream;

/// A listening socket.
pub type Listener = tokio::net::TcpListener;

/// Listens at `address`; port 0 asks the system for a free one. Must be called inside a runtime.
///
/// The address can be taken again at once after this process ends (`SO_REUSEADDR`). Accepted sockets notice in the end
/// when the other machine is gone (`SO_KEEPALIVE`, which they take over from the listening one).
pub fn listen(address: SocketAddr) -> io::Result<Listener> {
    let socket =
        if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

/// Connects to `address` and sends small frames at once (`TCP_NODELAY`).
pub async fn dial(address: SocketAddr) -> io::Result<Stream> {
    let stream = Stream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
