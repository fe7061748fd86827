//! The trace to which a client's call belongs: `traceparent` of W3C Trace Context, in the request header's `RPCTInfo`.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use proto::wire::{Fields, Malformed};

/// The name of the header, which HBase's client sends when an OpenTelemetry SDK runs in its process.
pub const TRACEPARENT: &str = "traceparent";

/// Length of the text form in version 00, in bytes.
const TEXT_LENGTH: usize = 55;

/// The trace of a call, and the client's span in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
}

impl TraceParent {
    /// Parses `VERSION-TRACE-SPAN-FLAGS`, in lower-case hexadecimal digits. Returns `None` for a text that W3C Trace
    /// Context calls invalid, and the call then has no trace. A later version than 00 may have more fields, which are
    /// ignored.
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let (known, rest) = text.split_at_checked(TEXT_LENGTH)?;
        let (mut version, mut trace, mut span, mut flags) = ([0; 1], [0; 16], [0; 8], [0; 1]);
        let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let digits = unhex(&known[..2], &mut version)
            && unhex(&known[3..35], &mut trace)
            && unhex(&known[36..52], &mut span)
            && unhex(&known[53..], &mut flags);
        let ends = match version[0] {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest[0] == b'-',
        };
        let is_valid = dashes && digits && ends && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(TraceParent { trace, span, flags: flags[0] })
    }

    /// Returns the id of the trace: 32 hexadecimal digits, as tracing systems show it.
    pub fn trace_id(&self) -> String {
        self.trace.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the id of the client's span: 16 hexadecimal digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.span))
    }

    /// Whether the client records this trace, so that servers should record their spans, too.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }

    /// Decodes the `RPCTInfo` of a request header. Its other fields, of HTrace in HBase 1 and 2.0, are ignored.
    pub(crate) fn decode(frame: &Bytes, range: Range<usize>) -> Result<Option<Box<TraceParent>>, Malformed> {
        let mut found = None;
        let mut fields = Fields::new(frame, range);
        while let Some((field, at, value)) = fields.next()? {
            if field != 3 {
                continue;
            }
            let (mut name, mut content): (&[u8], &[u8]) = (&[], &[]);
            let mut pair = Fields::new(frame, value.range(at)?);
            while let Some((field, at, value)) = pair.next()? {
                match field {
                    1 => name = &frame[value.range(at)?],
                    2 => content = &frame[value.range(at)?],
                    _ => {}
                }
            }
            if name == TRACEPARENT.as_bytes() {
                found = TraceParent::parse(content).map(Box::new);
            }
        }
        Ok(found)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id(), self.span_id(), self.flags)
    }
}

/// Reads lower-case hexadecimal digits, two for each byte of `bytes`. Returns whether all are such digits.
fn unhex(digits: &[u8], bytes: &mut [u8]) -> bool {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    digits.chunks_exact(2).zip(bytes).all(|(pair, byte)| match (value(pair[0]), value(pair[1])) {
        (Some(high), Some(low)) => {
            *byte = high << 4 | low;
            true
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_text_is_read_and_written_again() {
        let parent = TraceParent::parse(TEXT.as_bytes()).expect("valid");
        assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.to_string(), TEXT);
        let later = TraceParent::parse(TEXT.replacen("00", "cc", 1).as_bytes());
        assert_eq!(later, Some(parent.clone()), "a later version is read as version 00");
        let longer = format!("cc{}-what-comes", &TEXT[2..]);
        assert_eq!(TraceParent::parse(longer.as_bytes()), Some(parent));
    }

    #[test]
    fn ids_and_the_sampled_flag_are_those_of_the_text() {
        let parent = TraceParent::parse(TEXT.as_bytes()).expect("valid");
        assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.span_id(), "00f067aa0ba902b7");
        let flagged = |flags: &str| TraceParent::parse(format!("{}{flags}", &TEXT[..53]).as_bytes());
        let sampled = ["00", "01", "02", "03"].map(|flags| flagged(flags).expect("valid").is_sampled());
        assert_eq!(sampled, [false, true, false, true]);
    }

    #[test]
    fn invalid_texts_are_ignored() {
        let zero_trace = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let zero_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let upper = TEXT.replace("4bf9", "4BF9");
        let longer = format!("{TEXT}-more");
        let forbidden = TEXT.replacen("00", "ff", 1);
        let joined = format!("cc{}x", &TEXT[2..]);
        let slashes = TEXT.replace('-', "/");
        for text in ["", &TEXT[..54], zero_trace, zero_span, &upper, &longer, &forbidden, &joined, &slashes] {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text}");
        }
    }
}
