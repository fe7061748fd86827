//! The headers of the protocol: of a connection, of a request, and of a response.
//!
//! ```text
//!  request    total 4B · length varint · RequestHeader  · length varint · parameter · cell block
//!  response   total 4B · length varint · ResponseHeader · length varint · result    · cell block
//! ```
//!
//! `total` counts the bytes after it. A response with an exception has no result. Field numbers are those of HBase's
//! `RPC.proto`; a test compares them with the messages of the `proto` crate.

use std::ops::Range;

use bytes::Bytes;
use proto::wire::{Fields, Malformed, put_bytes, put_number, put_varint, varint, varint_length};

use crate::{ClientVersion, Exception, Text, TraceParent, User};

/// The call id of a frame that answers no call, because the connection itself failed.
pub(crate) const NO_CALL: u32 = u32::MAX;

/// The most frequent methods. Their names are static texts, which need no reference to the frame.
const METHODS: [&str; 4] = ["Get", "Mutate", "Multi", "Scan"];

fn text(bytes: &Bytes, range: Range<usize>) -> Result<Text, Malformed> {
    Text::parse(bytes.slice(range.clone()))
        .ok_or(Malformed { offset: range.start, what: "text is not UTF-8" })
}

fn owned(bytes: &Bytes, range: Range<usize>) -> Result<String, Malformed> {
    match std::str::from_utf8(&bytes[range.clone()]) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Malformed { offset: range.start, what: "text is not UTF-8" }),
    }
}

/// Decodes an attribute (`NameBytesPair`). The value is copied, since an attribute is kept for longer than the frame.
fn attribute(bytes: &Bytes, range: Range<usize>) -> Result<(String, Bytes), Malformed> {
    let mut pair = (String::new(), Bytes::new());
    let mut fields = Fields::new(bytes, range);
    while let Some((field, at, value)) = fields.next()? {
        match field {
            1 => pair.0 = owned(bytes, value.range(at)?)?,
            2 => pair.1 = Bytes::copy_from_slice(&bytes[value.range(at)?]),
            _ => {}
        }
    }
    Ok(pair)
}

/// Maximum number of attributes in a header. An attribute takes many times the memory of its bytes for as long as the
/// connection lives.
const ATTRIBUTES_MAX: usize = 1_000;

fn add_attribute(
    attributes: &mut Vec<(String, Bytes)>,
    bytes: &Bytes,
    range: Range<usize>,
) -> Result<(), Malformed> {
    if attributes.len() == ATTRIBUTES_MAX {
        return Err(Malformed { offset: range.start, what: "more than 1000 attributes" });
    }
    attributes.push(attribute(bytes, range)?);
    Ok(())
}

fn put_attribute(out: &mut Vec<u8>, field: u32, (name, value): &(String, Bytes)) {
    let mut pair = Vec::with_capacity(name.len() + value.len() + 8);
    put_bytes(&mut pair, 1, name.as_bytes());
    put_bytes(&mut pair, 2, value);
    put_bytes(out, field, &pair);
}

/// The header of a connection (`ConnectionHeader`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionHeader {
    pub(crate) user: User,
    pub(crate) service: Option<String>,
    pub(crate) codec: String,
    pub(crate) compressor: Option<String>,
    pub(crate) version: Option<ClientVersion>,
    pub(crate) cipher: Option<String>,
    pub(crate) attributes: Vec<(String, Bytes)>,
}

impl ConnectionHeader {
    pub(crate) fn decode(bytes: &Bytes) -> Result<ConnectionHeader, Malformed> {
        let mut header = ConnectionHeader::default();
        let mut fields = Fields::of(bytes);
        while let Some((field, at, value)) = fields.next()? {
            match field {
                1 => {
                    let mut fields = Fields::new(bytes, value.range(at)?);
                    while let Some((field, at, value)) = fields.next()? {
                        match field {
                            1 => header.user.effective = Some(owned(bytes, value.range(at)?)?),
                            2 => header.user.real = Some(owned(bytes, value.range(at)?)?),
                            _ => {}
                        }
                    }
                }
                2 => header.service = Some(owned(bytes, value.range(at)?)?),
                3 => header.codec = owned(bytes, value.range(at)?)?,
                4 => header.compressor = Some(owned(bytes, value.range(at)?)?),
                5 => header.version = Some(decode_version(bytes, value.range(at)?)?),
                6 => header.cipher = Some(owned(bytes, value.range(at)?)?),
                7 => add_attribute(&mut header.attributes, bytes, value.range(at)?)?,
                _ => {}
            }
        }
        Ok(header)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(effective) = &self.user.effective {
            let mut user = Vec::new();
            put_bytes(&mut user, 1, effective.as_bytes());
            if let Some(real) = &self.user.real {
                put_bytes(&mut user, 2, real.as_bytes());
            }
            put_bytes(out, 1, &user);
        }
        if let Some(service) = &self.service {
            put_bytes(out, 2, service.as_bytes());
        }
        if !self.codec.is_empty() {
            put_bytes(out, 3, self.codec.as_bytes());
        }
        if let Some(compressor) = &self.compressor {
            put_bytes(out, 4, compressor.as_bytes());
        }
        if let Some(version) = &self.version {
            let mut info = Vec::new();
            put_bytes(&mut info, 1, version.text.as_bytes());
            // These fields (url, revision, user, date and checksum) are required in the message, although nobody reads
            // them.
            for field in 2..=6 {
                put_bytes(&mut info, field, b"");
            }
            put_number(&mut info, 7, u64::from(version.major));
            put_number(&mut info, 8, u64::from(version.minor));
            put_bytes(out, 5, &info);
        }
        if let Some(cipher) = &self.cipher {
            put_bytes(out, 6, cipher.as_bytes());
        }
        for pair in &self.attributes {
            put_attribute(out, 7, pair);
        }
    }
}

/// Decodes the version of a client. Clients before 1.2 state only the text, from which HBase then takes the numbers.
fn decode_version(bytes: &Bytes, range: Range<usize>) -> Result<ClientVersion, Malformed> {
    let (mut text, mut major, mut minor) = (String::new(), None, None);
    let mut fields = Fields::new(bytes, range);
    while let Some((field, at, value)) = fields.next()? {
        match field {
            1 => text = owned(bytes, value.range(at)?)?,
            7 => major = Some(value.number(at)? as u32),
            8 => minor = Some(value.number(at)? as u32),
            _ => {}
        }
    }
    let mut parts = text.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let (first, second) = (parts.next().flatten(), parts.next().flatten());
    Ok(ClientVersion { major: major.or(first).unwrap_or(0), minor: minor.or(second).unwrap_or(0), text })
}

/// The header of a request (`RequestHeader`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    pub(crate) call_id: u32,
    pub(crate) method: Text,
    pub(crate) has_param: bool,
    /// Length of the cell block, if one follows.
    pub(crate) cells: Option<u32>,
    pub(crate) priority: Option<u32>,
    /// How long the client waits, in milliseconds.
    pub(crate) timeout: Option<u32>,
    pub(crate) attributes: Vec<(String, Bytes)>,
    /// The client's span. This crate's client sends none.
    pub(crate) traceparent: Option<Box<TraceParent>>,
}

impl RequestHeader {
    /// Decodes the header at `range` of the frame.
    pub(crate) fn decode(frame: &Bytes, range: Range<usize>) -> Result<RequestHeader, Malformed> {
        let mut header = RequestHeader::default();
        let mut fields = Fields::new(frame, range);
        while let Some((field, at, value)) = fields.next()? {
            match field {
                1 => header.call_id = value.number(at)? as u32,
                2 => header.traceparent = TraceParent::decode(frame, value.range(at)?)?,
                3 => {
                    let range = value.range(at)?;
                    let known = METHODS.iter().find(|known| known.as_bytes() == &frame[range.clone()]);
                    header.method =
                        known.map_or_else(|| text(frame, range), |known| Ok(Text::from_static(known)))?;
                }
                4 => header.has_param = value.number(at)? != 0,
                5 => header.cells = Some(cell_block_length(frame, value.range(at)?)?),
                6 => header.priority = Some(value.number(at)? as u32),
                7 => header.timeout = Some(value.number(at)? as u32),
                8 => add_attribute(&mut header.attributes, frame, value.range(at)?)?,
                _ => {}
            }
        }
        Ok(header)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, 1, u64::from(self.call_id));
        put_bytes(out, 3, self.method.as_bytes());
        put_number(out, 4, u64::from(self.has_param));
        if let Some(length) = self.cells {
            put_cell_block_meta(out, 5, length);
        }
        if let Some(priority) = self.priority {
            put_number(out, 6, u64::from(priority));
        }
        if let Some(timeout) = self.timeout {
            put_number(out, 7, u64::from(timeout));
        }
        for pair in &self.attributes {
            put_attribute(out, 8, pair);
        }
    }
}

fn cell_block_length(frame: &Bytes, range: Range<usize>) -> Result<u32, Malformed> {
    let mut length = 0;
    let mut fields = Fields::new(frame, range);
    while let Some((field, at, value)) = fields.next()? {
        if field == 1 {
            length = value.number(at)? as u32;
        }
    }
    Ok(length)
}

/// Encodes a `CellBlockMeta`, whose only field is the length of the cell block.
fn put_cell_block_meta(out: &mut Vec<u8>, field: u32, length: u32) {
    let length = u64::from(length);
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, 1 + varint_length(length) as u64);
    put_number(out, 1, length);
}

/// Returns the name of the method in the request header at `range` of the frame, without decoding the rest.
#[inline]
pub(crate) fn method_of(frame: &[u8], range: Range<usize>) -> Option<&[u8]> {
    let mut fields = Fields::new(frame, range);
    loop {
        if let (3, at, value) = fields.next().ok()?? {
            return Some(&frame[value.range(at).ok()?]);
        }
    }
}

/// Returns the range of the length-prefixed message at `at` of the frame.
pub(crate) fn delimited(frame: &[u8], at: usize) -> Result<Range<usize>, Malformed> {
    let Some((length, taken)) = varint(&frame[at..], at)? else {
        return Err(Malformed { offset: at, what: "length of a message cut short" });
    };
    let from = at + taken;
    if length > (frame.len() - from) as u64 {
        return Err(Malformed { offset: at, what: "message reaches beyond the frame" });
    }
    Ok(from..from + length as usize)
}

/// A length-prefixed message in the frame of a request.
pub(crate) struct RequestPart {
    pub(crate) range: Range<usize>,
    /// Whether the stated length is larger than the rest of the frame. The message then ends with the frame.
    pub(crate) overruns: bool,
}

/// Finds the length-prefixed message at `at` in a request's frame. Reads its length as HBase does: only the low 32 bits
/// of the varint count, and a length that exceeds the frame stands for the rest of the frame. Some clients need this:
/// one of them encodes every length of 128 bytes or more too large.
pub(crate) fn request_part(frame: &[u8], at: usize) -> Result<RequestPart, Malformed> {
    let Some((length, taken)) = varint(&frame[at..], at)? else {
        return Err(Malformed { offset: at, what: "length of a message cut short" });
    };
    let Ok(length) = usize::try_from(length as u32 as i32) else {
        return Err(Malformed { offset: at, what: "length of a message is negative" });
    };
    let from = at + taken;
    let left = frame.len() - from;
    Ok(RequestPart { range: from..from + length.min(left), overruns: length > left })
}

/// The header of a response (`ResponseHeader`), as a client decodes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseHeader {
    pub(crate) call_id: u32,
    pub(crate) exception: Option<Exception>,
    pub(crate) cells: Option<u32>,
}

impl ResponseHeader {
    pub(crate) fn decode(frame: &Bytes, range: Range<usize>) -> Result<ResponseHeader, Malformed> {
        let mut header = ResponseHeader::default();
        let mut fields = Fields::new(frame, range);
        while let Some((field, at, value)) = fields.next()? {
            match field {
                1 => header.call_id = value.number(at)? as u32,
                2 => header.exception = Some(decode_exception(frame, value.range(at)?)?),
                3 => header.cells = Some(cell_block_length(frame, value.range(at)?)?),
                _ => {}
            }
        }
        Ok(header)
    }
}

fn decode_exception(frame: &Bytes, range: Range<usize>) -> Result<Exception, Malformed> {
    let (mut class, mut stack, mut host, mut port) = (String::new(), String::new(), None, None);
    let (mut do_not_retry, mut server_overloaded) = (false, false);
    let mut fields = Fields::new(frame, range);
    while let Some((field, at, value)) = fields.next()? {
        match field {
            1 => class = owned(frame, value.range(at)?)?,
            2 => stack = owned(frame, value.range(at)?)?,
            3 => host = Some(owned(frame, value.range(at)?)?),
            4 => port = Some(value.number(at)? as u16),
            5 => do_not_retry = value.number(at)? != 0,
            6 => server_overloaded = value.number(at)? != 0,
            _ => {}
        }
    }
    let message = match stack.strip_prefix(&class).and_then(|rest| rest.strip_prefix(": ")) {
        Some(message) => message.to_owned(),
        None => stack,
    };
    Ok(Exception { class: class.into(), message, do_not_retry, server_overloaded, moved_to: host.zip(port) })
}

/// Encodes the header of a response.
pub(crate) fn encode_response_header(
    call_id: u32,
    exception: Option<&Exception>,
    cells: Option<u32>,
    out: &mut Vec<u8>,
) {
    put_number(out, 1, u64::from(call_id));
    if let Some(exception) = exception {
        let mut body = Vec::with_capacity(128);
        put_bytes(&mut body, 1, exception.class.as_bytes());
        put_bytes(&mut body, 2, exception.text().as_bytes());
        if let Some((host, port)) = &exception.moved_to {
            put_bytes(&mut body, 3, host.as_bytes());
            put_number(&mut body, 4, u64::from(*port));
        }
        put_number(&mut body, 5, u64::from(exception.do_not_retry));
        if exception.server_overloaded {
            put_number(&mut body, 6, 1);
        }
        put_bytes(out, 2, &body);
    }
    if let Some(length) = cells {
        put_cell_block_meta(out, 3, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;
    use prost::Message;
    use proto::pb;

    fn pairs() -> Vec<(String, Bytes)> {
        vec![("one".to_owned(), Bytes::from_static(b"1")), (String::new(), Bytes::new())]
    }

    fn pb_pairs() -> Vec<pb::NameBytesPair> {
        pairs().into_iter().map(|(name, value)| pb::NameBytesPair { name, value: Some(value) }).collect()
    }

    #[test]
    fn a_request_header_is_the_message_that_the_schema_describes() {
        let ours = RequestHeader {
            call_id: 77,
            method: Text::from("Multi"),
            has_param: true,
            cells: Some(1 << 20),
            priority: Some(300),
            timeout: Some(60_000),
            attributes: pairs(),
            traceparent: None,
        };
        let theirs = pb::RequestHeader {
            call_id: Some(77),
            trace_info: None,
            method_name: Some("Multi".to_owned()),
            request_param: Some(true),
            cell_block_meta: Some(pb::CellBlockMeta { length: Some(1 << 20) }),
            priority: Some(300),
            timeout: Some(60_000),
            attribute: pb_pairs(),
        };
        let mut encoded = Vec::new();
        ours.encode(&mut encoded);
        assert_eq!(pb::RequestHeader::decode(&encoded[..]), Ok(theirs.clone()));
        // A client without an OpenTelemetry SDK sends an empty message.
        let mut trace = pb::RpctInfo::default();
        let decoded = |trace: &pb::RpctInfo| {
            let traced = pb::RequestHeader { trace_info: Some(trace.clone()), ..theirs.clone() };
            let encoded = Bytes::from(traced.encode_to_vec());
            RequestHeader::decode(&encoded, 0..encoded.len())
        };
        assert_eq!(decoded(&trace), Ok(ours.clone()));
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        trace.headers.insert("tracestate".to_owned(), "vendor=1".to_owned());
        trace.headers.insert(crate::TRACEPARENT.to_owned(), text.to_owned());
        let traceparent = TraceParent::parse(text.as_bytes()).map(Box::new);
        assert!(traceparent.is_some());
        assert_eq!(decoded(&trace), Ok(RequestHeader { traceparent, ..ours.clone() }));
        trace.headers.insert(crate::TRACEPARENT.to_owned(), "00-no".to_owned());
        assert_eq!(decoded(&trace), Ok(ours), "an invalid one is ignored");
    }

    #[test]
    fn a_header_has_only_so_many_attributes() {
        let pair = || ("k".to_owned(), Bytes::from_static(b"v"));
        for (count, accepted) in [(ATTRIBUTES_MAX, true), (ATTRIBUTES_MAX + 1, false)] {
            let attributes: Vec<_> = std::iter::repeat_with(pair).take(count).collect();
            let mut encoded = Vec::new();
            ConnectionHeader { attributes: attributes.clone(), ..ConnectionHeader::default() }
                .encode(&mut encoded);
            assert_eq!(ConnectionHeader::decode(&encoded.into()).is_ok(), accepted, "{count}");
            let mut encoded = Vec::new();
            RequestHeader { attributes, ..RequestHeader::default() }.encode(&mut encoded);
            let encoded = Bytes::from(encoded);
            assert_eq!(RequestHeader::decode(&encoded, 0..encoded.len()).is_ok(), accepted, "{count}");
        }
    }

    #[test]
    fn a_connection_header_is_the_message_that_the_schema_describes() {
        let ours = ConnectionHeader {
            user: User { effective: Some("alice".to_owned()), real: Some("bob".to_owned()) },
            service: Some("ClientService".to_owned()),
            codec: "codec".to_owned(),
            compressor: Some("compressor".to_owned()),
            version: Some(ClientVersion { text: "2.6.4".to_owned(), major: 2, minor: 6 }),
            cipher: Some("AES".to_owned()),
            attributes: pairs(),
        };
        let mut encoded = Vec::new();
        ours.encode(&mut encoded);
        let theirs = pb::ConnectionHeader::decode(&encoded[..]).expect("a message");
        assert_eq!(theirs.user_info.as_ref().map(|user| user.effective_user.as_str()), Some("alice"));
        assert_eq!(theirs.user_info.as_ref().and_then(|user| user.real_user.as_deref()), Some("bob"));
        assert_eq!(theirs.service_name.as_deref(), Some("ClientService"));
        assert_eq!(theirs.attribute, pb_pairs());
        assert_eq!(ConnectionHeader::decode(&theirs.encode_to_vec().into()), Ok(ours));
        let old = pb::VersionInfo { version: "1.4.13-cdh".to_owned(), ..pb::VersionInfo::default() };
        let old = pb::ConnectionHeader { version_info: Some(old), ..pb::ConnectionHeader::default() };
        let old = ConnectionHeader::decode(&old.encode_to_vec().into()).expect("a message").version;
        assert_eq!(
            old.map(|version| (version.major, version.minor)),
            Some((1, 4)),
            "numbers out of the text"
        );
    }

    #[test]
    fn a_response_header_is_the_message_that_the_schema_describes() {
        let exception = Exception::region_moved("host", 16020, 5, 6);
        let mut encoded = Vec::new();
        encode_response_header(NO_CALL, Some(&exception), Some(9), &mut encoded);
        let theirs = pb::ResponseHeader::decode(&encoded[..]).expect("a message");
        assert_eq!(theirs.call_id.map(|id| id as i32), Some(-1), "what Java reads");
        let told = theirs.exception.expect("an exception");
        assert_eq!(told.exception_class_name.as_deref(), Some(&*exception.class));
        assert_eq!(told.stack_trace, Some(exception.text()));
        assert_eq!((told.hostname.as_deref(), told.port), (Some("host"), Some(16020)));
        assert_eq!((told.do_not_retry, told.server_overloaded), (Some(false), None));
        let encoded = Bytes::from(encoded);
        let read = ResponseHeader::decode(&encoded, 0..encoded.len());
        assert_eq!(read, Ok(ResponseHeader { call_id: NO_CALL, exception: Some(exception), cells: Some(9) }));
    }
}
