//! A listener with a maximum number of connections and a time limit for each.
//!
//! The time of a connection starts when it is accepted, and starts again whenever something is written to it. So it
//! measures how long a client takes for a request, or for reading an answer. When it is over, reading and writing
//! fail.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use env::{Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Options;

pub(crate) struct LimitedListener {
    listener: Listener,
    places: Arc<Semaphore>,
    request_max: Duration,
}

impl LimitedListener {
    pub(crate) fn new(listener: Listener, options: Options) -> LimitedListener {
        let places = Arc::new(Semaphore::new(options.connections_max.clamp(1, Semaphore::MAX_PERMITS)));
        LimitedListener { listener, places, request_max: options.request_max }
    }
}

impl axum::serve::Listener for LimitedListener {
    type Io = TimedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TimedConnection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("it is never closed");
        loop {
            match self.listener.accept().await {
                Ok((stream, remote)) => {
                    let over = Box::pin(env::sleep(self.request_max));
                    return (
                        TimedConnection { stream, over, request_max: self.request_max, _place: place },
                        remote,
                    );
                }
                // The client left before it was accepted, or no file descriptor is free. The listener tries again after
                // a pause.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a web client");
                    env::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection and its time limit.
pub(crate) struct TimedConnection {
    stream: Stream,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    request_max: Duration,
    _place: OwnedSemaphorePermit,
}

impl TimedConnection {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.over.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => {
                // After this, every later poll fails, too.
                self.over = Box::pin(std::future::ready(()));
                Err(io::Error::new(io::ErrorKind::TimedOut, "too slow (bellows.web.request.timeout)"))
            }
        }
    }
}

impl AsyncRead for TimedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(_))) {
            self.over = Box::pin(env::sleep(self.request_max));
            self.check(context)?;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
