//! A small read-only ZooKeeper client: enough to locate an HBase cluster.
//!
//! It sends one request at a time, sets no watches, and its session ends with the connection. Every call has a
//! deadline. After an error the connection must not be used again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::jute::{Malformed, Reader, Writer};
use crate::session::{code, op};

/// Maximum size of a frame that the client reads, in bytes; ZooKeeper's own default.
const FRAME_MAX: usize = 0xf_ffff;
/// The session time-out that the client requests, in ms.
const SESSION_MS: i32 = 30_000;

/// Why a call of the client failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection could not be opened, broke or timed out, the server opened no session, or its answer could not be
    /// read.
    #[error("ZooKeeper at {address}: {reason}")]
    Connection {
        /// The server's address.
        address: SocketAddr,
        /// What failed.
        reason: String,
    },
    /// ZooKeeper refused the request.
    #[error("ZooKeeper at {address} answers error {code} to a read of {path}")]
    Refused {
        /// The server's address.
        address: SocketAddr,
        /// The path that was requested.
        path: String,
        /// ZooKeeper's error code.
        code: i32,
    },
}

/// A session with one ZooKeeper server.
#[derive(Debug)]
pub struct Client {
    stream: env::Stream,
    address: SocketAddr,
    limit: Duration,
    input: BytesMut,
    next: i32,
}

impl Client {
    /// Opens a session. `limit` bounds this call and each later one.
    pub async fn connect(address: SocketAddr, limit: Duration) -> Result<Client, Error> {
        let failed = |reason: String| Error::Connection { address, reason };
        let dialled = env::timeout(limit, env::dial(address)).await;
        let stream = dialled
            .ok_or_else(|| failed(format!("no connection within {limit:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        let mut client = Client { stream, address, limit, input: BytesMut::new(), next: 0 };
        let mut hello = Writer::frame();
        hello.int(0).long(0).int(SESSION_MS).long(0).bytes(&[0; 16]).bool(false);
        let answer = client.exchange(hello.finish()).await?;
        let mut answer = Reader::new(&answer);
        let opened = answer.int().and_then(|_| Ok((answer.int()?, answer.long()?)));
        match opened {
            Ok((timeout, _)) if timeout > 0 => Ok(client),
            Ok(_) => Err(failed("it opens no session".to_owned())),
            Err(error) => Err(client.unreadable(error)),
        }
    }

    /// Returns the data of `path`; `None` when the node does not exist.
    pub async fn data(&mut self, path: &str) -> Result<Option<Bytes>, Error> {
        self.read(op::GET_DATA, path, |body| body.bytes().map(Bytes::copy_from_slice)).await
    }

    /// Returns the names of the children of `path`; `None` when the node does not exist.
    pub async fn children(&mut self, path: &str) -> Result<Option<Vec<String>>, Error> {
        self.read(op::GET_CHILDREN, path, |body| {
            Ok(body.texts()?.into_iter().map(str::to_owned).collect::<Vec<_>>())
        })
        .await
    }

    /// Whether a node exists at `path`.
    pub async fn exists(&mut self, path: &str) -> Result<bool, Error> {
        Ok(self.read(op::EXISTS, path, |_| Ok(())).await?.is_some())
    }

    /// Returns the data of every child of `path` whose name begins with `prefix`, by the child's name; none if `path`
    /// does not exist.
    pub async fn data_of_children(
        &mut self,
        path: &str,
        prefix: &str,
    ) -> Result<BTreeMap<String, Bytes>, Error> {
        let mut all = BTreeMap::new();
        for name in self.children(path).await?.unwrap_or_default() {
            if name.starts_with(prefix)
                && let Some(data) = self.data(&format!("{}/{name}", path.trim_end_matches('/'))).await?
            {
                all.insert(name, data);
            }
        }
        Ok(all)
    }

    /// Closes the session.
    pub async fn close(mut self) -> Result<(), Error> {
        let mut request = Writer::frame();
        request.int(self.next).int(op::CLOSE_SESSION);
        self.exchange(request.finish()).await.map(|_| ())
    }

    async fn read<T>(
        &mut self,
        operation: i32,
        path: &str,
        body: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Error> {
        let mut request = Writer::frame();
        request.int(self.next).int(operation).text(path).bool(false);
        let asked = self.next;
        self.next = self.next.wrapping_add(1) & i32::MAX;
        let answer = self.exchange(request.finish()).await?;
        let mut reply = Reader::new(&answer);
        let header = reply.int().and_then(|xid| Ok((xid, reply.long()?, reply.int()?)));
        match header {
            Ok((xid, _, 0)) if xid == asked => {
                body(&mut reply).map(Some).map_err(|error| self.unreadable(error))
            }
            Ok((xid, _, code::NO_NODE)) if xid == asked => Ok(None),
            Ok((xid, _, code)) if xid == asked => {
                Err(Error::Refused { address: self.address, path: path.to_owned(), code })
            }
            Ok(_) => Err(self.unreadable(Malformed("the answer is to something else"))),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    fn unreadable(&self, error: Malformed) -> Error {
        Error::Connection { address: self.address, reason: error.to_string() }
    }

    async fn exchange(&mut self, frame: Vec<u8>) -> Result<Bytes, Error> {
        let (address, limit) = (self.address, self.limit);
        let failed = |reason: String| Error::Connection { address, reason };
        let exchanged = env::timeout(limit, async {
            self.stream.write_all(&frame).await.map_err(|error| error.to_string())?;
            loop {
                if let Some(length) = self.input.first_chunk::<4>() {
                    let length = u32::from_be_bytes(*length) as usize;
                    if length > FRAME_MAX {
                        return Err(format!("a frame of {length} bytes, more than {FRAME_MAX}"));
                    }
                    if self.input.len() >= 4 + length {
                        self.input.advance(4);
                        return Ok(self.input.split_to(length).freeze());
                    }
                }
                match self.stream.read_buf(&mut self.input).await {
                    Ok(0) => return Err("it closed the connection".to_owned()),
                    Ok(_) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
        })
        .await;
        exchanged.unwrap_or_else(|| Err(format!("no answer within {limit:?}"))).map_err(failed)
    }
}
