//! Builds raw protobuf and frames, which can be wrong in any way, and reads the server's replies.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Maximum time of any reply.
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub(super) const PREAMBLE: &[u8] = b"HBas\x00\x50";
pub(super) const KEY_VALUE_CODEC: &str = "org.apache.hadoop.hbase.codec.KeyValueCodec";
pub(super) const GZIP: &str = "org.apache.hadoop.io.compress.GzipCodec";
pub(super) const SNAPPY: &str = "org.apache.hadoop.io.compress.SnappyCodec";
pub(super) const LZ4: &str = "org.apache.hadoop.io.compress.Lz4Codec";

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// An encoded protobuf message.
#[derive(Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    pub(super) fn number(mut self, field: u64, value: u64) -> Message {
        varint(&mut self.0, field << 3);
        varint(&mut self.0, value);
        self
    }

    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Message {
        varint(&mut self.0, field << 3 | 2);
        varint(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Returns the message with a length prefix, as messages have in a frame.
    pub(super) fn delimited(self) -> Vec<u8> {
        let mut out = Vec::new();
        varint(&mut out, self.0.len() as u64);
        out.extend_from_slice(&self.0);
        out
    }
}

/// Returns a length of four bytes, and `body`.
pub(super) fn framed(body: &[u8]) -> Vec<u8> {
    let mut out = (body.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(body);
    out
}

/// Returns a connection header in a frame.
pub(super) fn header(service: &str, codec: &str, compressor: &str) -> Vec<u8> {
    let user = Message::default().bytes(1, b"hostile");
    let version = Message::default()
        .bytes(1, b"2.6.4")
        .bytes(2, b"")
        .bytes(3, b"")
        .bytes(4, b"")
        .bytes(5, b"")
        .bytes(6, b"")
        .number(7, 2)
        .number(8, 6);
    let mut message = Message::default().bytes(1, &user.0).bytes(2, service.as_bytes());
    if !codec.is_empty() {
        message = message.bytes(3, codec.as_bytes());
    }
    if !compressor.is_empty() {
        message = message.bytes(4, compressor.as_bytes());
    }
    framed(&message.bytes(5, &version.0).0)
}

/// Returns a request header.
pub(super) fn request_header(call_id: u64, method: &str, cells: Option<u64>) -> Message {
    let message = Message::default().number(1, call_id).bytes(3, method.as_bytes()).number(4, 1);
    match cells {
        Some(length) => message.bytes(5, &Message::default().number(1, length).0),
        None => message,
    }
}

/// Returns a whole request in a frame.
pub(super) fn request(call_id: u64, method: &str, param: &[u8], cells: &[u8]) -> Vec<u8> {
    let length = (!cells.is_empty()).then_some(cells.len() as u64);
    let mut body = request_header(call_id, method, length).delimited();
    varint(&mut body, param.len() as u64);
    body.extend_from_slice(param);
    body.extend_from_slice(cells);
    framed(&body)
}

/// Returns a `GetRequest` on hbase:meta, with a filter if one is given.
pub(super) fn get(filter: Option<&[u8]>) -> Vec<u8> {
    let region = Message::default().number(1, 1).bytes(2, b"hbase:meta,,1");
    let mut get = Message::default().bytes(1, b"row");
    if let Some(filter) = filter {
        get = get.bytes(4, filter);
    }
    Message::default().bytes(1, &region.0).bytes(2, &get.0).0
}

/// Returns a `Filter` or `Comparator`: a class of HBase's and its bytes.
pub(super) fn named(package: &str, class: &str, bytes: &[u8]) -> Vec<u8> {
    let name = format!("org.apache.hadoop.hbase.{package}.{class}");
    Message::default().bytes(1, name.as_bytes()).bytes(2, bytes).0
}

/// A reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The server closed the connection.
    Closed,
    /// The call with this id succeeded.
    Good(i32),
    /// The call with this id failed with this class and message; id -1 stands for the connection itself.
    Bad(i32, String, String),
}

/// A connection to the server.
pub(super) struct Peer(pub(super) TcpStream);

impl Peer {
    pub(super) fn connect(address: &str) -> Result<Peer, String> {
        let failed = |error| format!("cannot connect to {address}: {error}");
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
        stream.set_write_timeout(Some(ANSWER_MAX)).map_err(failed)?;
        Ok(Peer(stream))
    }

    /// Opens a connection whose header the server has accepted.
    pub(super) fn open(address: &str, service: &str, compressor: &str) -> Result<Peer, String> {
        let mut peer = Peer::connect(address)?;
        peer.tell(PREAMBLE);
        peer.tell(&header(service, KEY_VALUE_CODEC, compressor));
        Ok(peer)
    }

    /// Sends `bytes` and returns whether all of them could be sent. The server may close the connection at any time.
    pub(super) fn tell(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Closes the sending side of the connection.
    pub(super) fn finish(&mut self) {
        // If the server has closed the connection already, this fails, which is as it should be.
        let _gone = self.0.shutdown(Shutdown::Write);
    }

    /// Reads all bytes until the server closes the connection; fails if it does not close it.
    pub(super) fn rest(&mut self) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        match self.0.read_to_end(&mut all) {
            Ok(_) => Ok(all),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                Ok(all)
            }
            Err(error) => Err(format!("the server neither answers nor hangs up: {error}")),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, String> {
        match self.0.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(format!("the server neither answers nor hangs up: {error}")),
        }
    }

    /// Reads the next frame of HBase's RPC.
    pub(super) fn answer(&mut self) -> Result<Answer, String> {
        let mut length = [0; 4];
        if !self.fill(&mut length)? {
            return Ok(Answer::Closed);
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > 64 << 20 {
            return Err(format!("the server answers with a frame of {length} bytes"));
        }
        let mut frame = vec![0; length];
        if !self.fill(&mut frame)? {
            return Ok(Answer::Closed);
        }
        let whole = || -> Option<Answer> {
            let mut rest = &frame[..];
            let header = take(&mut rest)?;
            let call_id = number_of(header, 1).map_or(-1, |id| id as i32);
            Some(match bytes_of(header, 2) {
                None => Answer::Good(call_id),
                Some(exception) => {
                    let text =
                        |field| bytes_of(exception, field).map(|text| String::from_utf8_lossy(text).into());
                    Answer::Bad(call_id, text(1).unwrap_or_default(), text(2).unwrap_or_default())
                }
            })
        };
        whole().ok_or_else(|| format!("the server's frame cannot be read: {}", frame.escape_ascii()))
    }
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in 0..10 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// Returns the fields of a protobuf message: the field's number, the value of a varint (0 for a byte string), the bytes
/// of a byte string (empty for a varint). Ends at the first field of another wire type, or at a truncated one.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    std::iter::from_fn(move || {
        let key = take_varint(&mut rest)?;
        match key & 7 {
            0 => Some((key >> 3, take_varint(&mut rest)?, &rest[..0])),
            2 => Some((key >> 3, 0, take(&mut rest)?)),
            _ => None,
        }
    })
}

fn number_of(message: &[u8], field: u64) -> Option<u64> {
    fields(message).find(|(number, ..)| *number == field).map(|(_, value, _)| value)
}

fn bytes_of(message: &[u8], field: u64) -> Option<&[u8]> {
    fields(message).find(|(number, ..)| *number == field).map(|(.., bytes)| bytes)
}
