//! The protocol of the server side of a connection, without the socket.
//!
//! ```text
//!  preamble ──► connection header ──► requests …                    HBas 0 0x50
//!     │ ▲  └──► one SASL message, discarded ──► header …            HBas 0 0x51/0x52: "go on without SASL"
//!     │ └─ "Securi": answered, then the preamble again
//!     └──► "Regist": the cluster's id, and the end
//! ```
//!
//! [`Session::next`] consumes bytes and returns one [`Step`] at a time: that a request can be served, that bytes are
//! missing, or that the connection ends. The session appends the answers of the protocol itself to the output, and the
//! caller answers the requests. The caller's buffer grows with the received bytes. A length that a client claims is
//! compared with the limits and never allocated.
//!
//! Errors are handled as in HBase. A frame that is too long is answered with its call id, and then the connection ends.
//! An error in a request leaves the connection open. An error in the preamble or the connection header is reported in a
//! frame that answers no call, and ends the connection.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use proto::wire::{Malformed, varint};

use crate::envelope::{ConnectionHeader, RequestHeader, RequestPart, request_part};
use crate::output::Output;
use crate::{
    Answers, Codec, Compressor, ConnectionInfo, Exception, Service, Services, Text, TraceParent, class,
};

/// The only version that a preamble may state.
const VERSION: u8 = 0;
const AUTH_SIMPLE: u8 = 80;
const AUTH_KERBEROS: u8 = 81;
const AUTH_DIGEST: u8 = 82;
/// What this server, which has no SASL, sends to a client that begins SASL, in place of the length of a token. The
/// client then continues with simple authentication.
const SWITCH_TO_SIMPLE_AUTH: i32 = -88;
const PREAMBLE_LENGTH: usize = 6;
/// Maximum length of a request header, in bytes, for which the session waits in a frame that it refuses anyway.
const REFUSED_HEADER_LENGTH_MAX: u64 = 64 << 10;

/// Maximum length of a frame that the name of its method keeps in memory, in bytes. The method's name in a longer frame
/// is copied.
const METHOD_SHARED_MAX: usize = 1 << 20;

/// Limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of a request frame, in bytes.
    pub request_size_max: usize,
    /// Maximum size of a connection header or SASL message, in bytes.
    pub header_size_max: usize,
    /// Maximum size of a cell block after decompression, in bytes.
    pub cells_size_max: usize,
    /// Minimum for the time-out of a client's call. It replaces a smaller time-out that the client states.
    pub timeout_min: Duration,
}

/// A request that is ready to be served.
#[derive(Debug)]
pub struct Request {
    /// The id that the answer must carry.
    pub call_id: u32,
    /// The method's name.
    pub method: Text,
    /// The encoded parameter.
    pub param: Bytes,
    /// The decompressed cell block.
    pub cells: Bytes,
    /// The priority requested by the client.
    pub priority: Option<u32>,
    /// How long the client waits.
    pub timeout: Option<Duration>,
    /// Request attributes.
    pub attributes: Vec<(String, Bytes)>,
    /// The client's span, if it traces the call.
    pub traceparent: Option<Box<TraceParent>>,
    /// Length of the frame, in bytes.
    pub size: usize,
    /// Bytes of memory that the request holds: the frame, and the decompressed cell block.
    pub held: usize,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Sends pending output, then closes.
    Close,
    /// Sends pending output, while at most this many bytes are read and discarded. Otherwise a client that writes its
    /// whole request before it reads would lose the answer.
    Drain(u64),
}

/// What the caller must do next.
#[derive(Debug)]
pub enum Step {
    /// Approximately this many more bytes are needed for the next step.
    Starved(usize),
    /// The connection header was accepted.
    Opened,
    /// A request is ready to be served.
    Request(Request),
    /// The session is over.
    Ended(Ending),
}

enum State {
    Preamble,
    /// The SASL message of a client that was told to continue without SASL; `Some` once its length is known.
    Skip(Option<usize>),
    Header,
    Open,
    /// A frame of this length, to be refused once its call id is known.
    TooBig(u64),
    Ended(Ending),
}

/// The server side of one connection.
pub struct Session {
    state: State,
    limits: Limits,
    services: Services,
    answers: Answers,
    remote: SocketAddr,
    open: Option<(Arc<ConnectionInfo>, Arc<dyn Service>)>,
}

impl Session {
    /// Creates the session of a new connection; `answers` is the memory budget of its answers.
    pub fn new(services: Services, limits: Limits, answers: Answers, remote: SocketAddr) -> Session {
        Session { state: State::Preamble, limits, services, answers, remote, open: None }
    }

    /// Returns the connection's properties and its service; `None` until the connection header was read.
    pub fn opened(&self) -> Option<&(Arc<ConnectionInfo>, Arc<dyn Service>)> {
        self.open.as_ref()
    }

    /// Consumes the bytes of the next step from `input`, and appends the protocol's answers to `output`.
    pub fn next(&mut self, input: &mut BytesMut, output: &mut Output) -> Step {
        loop {
            let step = match self.state {
                State::Preamble => self.preamble(input, output),
                State::Skip(left) => self.skip(left, input),
                State::Header => self.header(input, output),
                State::Open => self.request(input, output),
                State::TooBig(length) => self.too_big(length, input, output),
                State::Ended(ending) => Some(Step::Ended(ending)),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// Reports to the client why the connection ends.
    fn fail(&mut self, exception: &Exception, output: &mut Output) -> Option<Step> {
        output.put_fatal(exception);
        self.end(Ending::Drain(self.limits.header_size_max as u64))
    }

    fn end(&mut self, ending: Ending) -> Option<Step> {
        self.state = State::Ended(ending);
        None
    }

    fn preamble(&mut self, input: &mut BytesMut, output: &mut Output) -> Option<Step> {
        // Four bytes that differ from the magic are enough to refuse. A client of another protocol may never send more.
        let Some(magic) = input.first_chunk::<4>() else {
            return Some(Step::Starved(PREAMBLE_LENGTH - input.len()));
        };
        if ![b"HBas", b"Regi", b"Secu"].contains(&magic) {
            return self.not_ours(*magic, output);
        }
        if input.len() < PREAMBLE_LENGTH {
            return Some(Step::Starved(PREAMBLE_LENGTH - input.len()));
        }
        let preamble = input.split_to(PREAMBLE_LENGTH);
        match &preamble[..] {
            b"Regist" => {
                if let Some(id) = self.services.cluster_id() {
                    let mut message = Vec::new();
                    proto::wire::put_bytes(&mut message, 1, id.as_bytes());
                    let reply = crate::Reply { message: message.into(), ..Default::default() };
                    output.put_reply(crate::envelope::NO_CALL, reply).expect("an id fits into a frame");
                    return self.end(Ending::Close);
                }
                let message = "this server does not know its cluster's id yet; serverVersion=0";
                self.fail(&Exception::new(class::FATAL_CONNECTION, message), output)
            }
            b"Securi" => {
                let exception = Exception::new(class::SECURITY_NOT_ENABLED, "security is not enabled");
                output.put_fatal(&exception);
                None
            }
            [b'H', b'B', b'a', b's', version, auth] => self.version_and_auth(*version, *auth, output),
            other => self.not_ours([other[0], other[1], other[2], other[3]], output),
        }
    }

    fn not_ours(&mut self, magic: [u8; 4], output: &mut Output) -> Option<Step> {
        let message =
            format!("Expected HEADER=HBas but received HEADER={} from {}", magic.escape_ascii(), self.remote);
        self.fail(&Exception::new(class::FATAL_CONNECTION, message), output)
    }

    fn version_and_auth(&mut self, version: u8, auth: u8, output: &mut Output) -> Option<Step> {
        let name = match auth {
            AUTH_SIMPLE => "SIMPLE",
            AUTH_KERBEROS => "KERBEROS",
            AUTH_DIGEST => "DIGEST",
            _ => "unknown",
        };
        let message = format!(
            "serverVersion={VERSION}, clientVersion={version}, authMethod={}, authName={name} from {}",
            auth as i8, self.remote
        );
        if version != VERSION {
            return self.fail(&Exception::new(class::WRONG_VERSION, message), output);
        }
        match auth {
            AUTH_SIMPLE => self.state = State::Header,
            AUTH_KERBEROS | AUTH_DIGEST => {
                output.put(&0i32.to_be_bytes());
                output.put(&SWITCH_TO_SIMPLE_AUTH.to_be_bytes());
                self.state = State::Skip(None);
            }
            _ => return self.fail(&Exception::new(class::BAD_AUTH, message), output),
        }
        None
    }

    /// Discards the SASL message of the client as it arrives.
    fn skip(&mut self, left: Option<usize>, input: &mut BytesMut) -> Option<Step> {
        let left = match left {
            Some(left) => left,
            None => {
                if input.len() < 4 {
                    return Some(Step::Starved(4 - input.len()));
                }
                let length = input.get_u32() as usize;
                if length > self.limits.header_size_max {
                    return self.end(Ending::Close);
                }
                length
            }
        };
        let taken = left.min(input.len());
        input.advance(taken);
        if taken == left {
            self.state = State::Header;
            return None;
        }
        self.state = State::Skip(Some(left - taken));
        Some(Step::Starved(left - taken))
    }

    fn header(&mut self, input: &mut BytesMut, output: &mut Output) -> Option<Step> {
        if input.len() < 4 {
            return Some(Step::Starved(4 - input.len()));
        }
        let length = u32::from_be_bytes([input[0], input[1], input[2], input[3]]) as usize;
        if length > self.limits.header_size_max {
            let message = format!(
                "connection header of {length} bytes from {}, more than {}",
                self.remote, self.limits.header_size_max
            );
            return self.fail(&Exception::new(class::FATAL_CONNECTION, message), output);
        }
        if input.len() < 4 + length {
            return Some(Step::Starved(4 + length - input.len()));
        }
        input.advance(4);
        let bytes = input.split_to(length).freeze();
        let accepted = match ConnectionHeader::decode(&bytes) {
            Ok(header) => self.accept(header),
            Err(error) => Err(Exception::new(
                class::FATAL_CONNECTION,
                format!("connection header from {}: {error}", self.remote),
            )),
        };
        match accepted {
            Ok(open) => {
                self.open = Some(open);
                self.state = State::Open;
                Some(Step::Opened)
            }
            Err(exception) => self.fail(&exception, output),
        }
    }

    fn accept(&self, header: ConnectionHeader) -> Result<(Arc<ConnectionInfo>, Arc<dyn Service>), Exception> {
        let service = match header.service {
            Some(service) if !service.is_empty() => service,
            _ => {
                return Err(Exception::new(
                    class::EMPTY_SERVICE_NAME,
                    "the connection header names no service",
                ));
            }
        };
        let Some(found) = self.services.find(&service) else {
            return Err(Exception::new(class::UNKNOWN_SERVICE, service));
        };
        let Some(codec) = Codec::of_class(&header.codec) else {
            return Err(Exception::new(class::UNSUPPORTED_CELL_CODEC, header.codec));
        };
        // HBase reads the compressor only if there is a codec.
        let compressor = match header.compressor {
            Some(name) if codec != Codec::None => match Compressor::of_class(&name) {
                Some(compressor) => compressor,
                None => return Err(Exception::new(class::UNSUPPORTED_COMPRESSION_CODEC, name)),
            },
            _ => Compressor::None,
        };
        // `header.cipher` requests encryption together with SASL's privacy. Like HBase, the server ignores it on a
        // plain connection. The client gets no answer to it, and continues in clear text.
        let info = ConnectionInfo {
            user: header.user,
            service,
            codec,
            compressor,
            version: header.version,
            remote: self.remote,
            attributes: header.attributes,
            answers: self.answers.clone(),
        };
        Ok((Arc::new(info), Arc::clone(found)))
    }

    fn request(&mut self, input: &mut BytesMut, output: &mut Output) -> Option<Step> {
        let Some(length) = input.first_chunk::<4>() else {
            return Some(Step::Starved(4 - input.len()));
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.limits.request_size_max {
            input.advance(4);
            self.state = State::TooBig(length as u64);
            return None;
        }
        if input.len() < 4 + length {
            return Some(Step::Starved(4 + length - input.len()));
        }
        input.advance(4);
        let frame = input.split_to(length).freeze();
        let header = request_part(&frame, 0).and_then(|part| {
            let at = part.range.end;
            Ok((RequestHeader::decode(&frame, part.range)?, at))
        });
        let (header, at) = match header {
            Ok(header) => header,
            Err(error) => {
                let message = format!("request header from {}: {error}", self.remote);
                return self.fail(&Exception::new(class::FATAL_CONNECTION, message), output);
            }
        };
        let call_id = header.call_id;
        match self.unwrap(frame, header, at) {
            Ok(request) => Some(Step::Request(request)),
            Err(exception) => {
                output.put_exception(call_id, &exception);
                None
            }
        }
    }

    /// Splits the frame of a request after its header, which ends at `at`.
    fn unwrap(&self, mut frame: Bytes, header: RequestHeader, at: usize) -> Result<Request, Exception> {
        let (info, _) = self.open.as_ref().expect("requests come after the header");
        if !header.has_param {
            return Err(Exception::do_not_retry(format!(
                "Invalid request header: call_id: {} method_name: \"{}\", should have param set in it",
                header.call_id, header.method
            )));
        }
        let unreadable = |error: Malformed| {
            Exception::do_not_retry(format!(
                "unable to read call parameter from client {}; {error}",
                self.remote
            ))
        };
        let RequestPart { range: Range { start: from, end: to }, overruns } =
            request_part(&frame, at).map_err(unreadable)?;
        let size = frame.len();
        let mut held = size;
        let cells = match header.cells {
            None => Bytes::new(),
            Some(length) => {
                let length = length as usize;
                // If the parameter extends to the end of the frame, there is no room for a cell block.
                if overruns || length > frame.len() - to {
                    return Err(unreadable(Malformed {
                        offset: to,
                        what: "cell block reaches beyond the frame",
                    }));
                }
                if info.codec == Codec::None && length > 0 {
                    return Err(Exception::do_not_retry(format!(
                        "a cell block from {}, whose connection header names no codec",
                        self.remote
                    )));
                }
                let cells = info
                    .compressor
                    .decompress(frame.slice(to..to + length), self.limits.cells_size_max)
                    .map_err(|error| Exception::do_not_retry(format!("from {}: {error}", self.remote)))?;
                held += if info.compressor == Compressor::None { 0 } else { cells.len() };
                cells
            }
        };
        let timeout = header
            .timeout
            .filter(|timeout| *timeout > 0)
            .map(|timeout| Duration::from_millis(u64::from(timeout)).max(self.limits.timeout_min));
        // The frame itself is cut to the parameter. A slice of the frame would need another reference count.
        frame.truncate(to);
        frame.advance(from);
        // The name of the method is copied: it is kept for longer than the parameter, and a slice would keep the whole
        // frame in memory.
        let method =
            if size > METHOD_SHARED_MAX { Text::from(header.method.as_str()) } else { header.method };
        Ok(Request {
            call_id: header.call_id,
            method,
            param: frame,
            cells,
            priority: header.priority,
            timeout,
            attributes: header.attributes,
            traceparent: header.traceparent,
            size,
            held,
        })
    }

    /// Refuses a frame that is too large, and ends the session. Waits for the frame's header first, so that the refusal
    /// has the call's id; if the header cannot be read, the refusal has none.
    fn too_big(&mut self, length: u64, input: &mut BytesMut, output: &mut Output) -> Option<Step> {
        let call_id = match varint(input, 0) {
            Ok(None) => return Some(Step::Starved(1)),
            Ok(Some((header, taken))) if header <= REFUSED_HEADER_LENGTH_MAX => {
                let end = taken + header as usize;
                if input.len() < end {
                    return Some(Step::Starved(end - input.len()));
                }
                let bytes = Bytes::copy_from_slice(&input[..end]);
                RequestHeader::decode(&bytes, taken..end).map(|header| header.call_id).ok()
            }
            Ok(Some(_)) | Err(_) => None,
        };
        let message = format!(
            "RPC data length of {length} received from {} is greater than max allowed {}. Set \
             \"hbase.ipc.max.request.size\" on server to override this limit (not recommended)",
            self.remote, self.limits.request_size_max
        );
        let (info, _) = self.open.as_ref().expect("requests come after the header");
        let exception = if info.client_is_at_least(1, 3) {
            Exception::new(class::REQUEST_TOO_BIG, message)
        } else {
            Exception::do_not_retry(message)
        };
        output.put_exception(call_id.unwrap_or(crate::envelope::NO_CALL), &exception);
        self.end(Ending::Drain(length))
    }
}

#[cfg(test)]
mod tests;
