//! HTTP/1.1 messages as S3 clients and stores send them, without an HTTP library.
//!
//! A message is read whole. A chunked body is joined, and the message then has a `Content-Length` instead.

use std::io::{BufRead, Error, ErrorKind, Read, Result};

/// Maximum number of bytes of a header line.
const LINE_MAX: u64 = 64 << 10;

/// A request or a reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    /// The first line, without its end.
    start: String,
    /// The lines of the header, without their ends.
    fields: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Reads a request; returns `None` if the peer has closed the connection.
    pub(crate) fn request(from: &mut impl BufRead) -> Result<Option<Message>> {
        Message::read(from, |_| true)
    }

    /// Reads the reply to a request with this method.
    pub(crate) fn reply(from: &mut impl BufRead, method: &str) -> Result<Message> {
        let has_body = |start: &str| {
            let status = start.split(' ').nth(1).unwrap_or_default();
            method != "HEAD" && status != "204" && status != "304"
        };
        Message::read(from, has_body)?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    /// Creates the reply with which S3 reports an error.
    pub(crate) fn error(status: &str, code: &str, method: &str) -> Message {
        let body = match method {
            "HEAD" => String::new(),
            _ => format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code>\
                 <Message>An injected fault.</Message></Error>"
            ),
        };
        Message::refusal(status, "application/xml", body)
    }

    /// Creates the reply of a proxy that has no route to the store.
    pub(crate) fn no_route(method: &str) -> Message {
        let body = if method == "HEAD" { "" } else { "404 page not found\n" };
        Message::refusal("404 Not Found", "text/plain", body.to_owned())
    }

    fn refusal(status: &str, content_type: &str, body: String) -> Message {
        let start = format!("HTTP/1.1 {status}");
        let mut reply =
            Message { start, fields: vec![format!("Content-Type: {content_type}")], body: Vec::new() };
        reply.set_body(body.into_bytes());
        reply
    }

    fn read(from: &mut impl BufRead, has_body: impl Fn(&str) -> bool) -> Result<Option<Message>> {
        let Some(start) = line(from)? else { return Ok(None) };
        let mut fields = Vec::new();
        loop {
            match line(from)? {
                None => return Err(ErrorKind::UnexpectedEof.into()),
                Some(field) if field.is_empty() => break,
                Some(field) => fields.push(field),
            }
        }
        let mut message = Message { start, fields, body: Vec::new() };
        if !has_body(&message.start) {
            return Ok(Some(message));
        }
        if message.field("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            message.fields.retain(|field| !is_named(field, "transfer-encoding"));
            let body = chunks(from)?;
            message.set_body(body);
        } else if let Some(length) = message.field("content-length") {
            let length: usize = length.parse().map_err(|_| Error::other("a length that is no number"))?;
            message.body = vec![0; length];
            from.read_exact(&mut message.body)?;
        }
        Ok(Some(message))
    }

    /// Returns the value of a header field; the name is in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|field| is_named(field, name))?;
        Some(field.split_once(':')?.1.trim())
    }

    /// Replaces the body, and the field with its length.
    pub(crate) fn set_body(&mut self, body: Vec<u8>) {
        self.fields.retain(|field| !is_named(field, "content-length"));
        self.fields.push(format!("Content-Length: {}", body.len()));
        self.body = body;
    }

    /// Returns the method of a request.
    pub(crate) fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// Returns path and query of a request.
    pub(crate) fn target(&self) -> (&str, &str) {
        let target = self.start.split(' ').nth(1).unwrap_or_default();
        target.split_once('?').unwrap_or((target, ""))
    }

    /// Returns the status of a reply; 0 if it has none.
    pub(crate) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// Returns the bytes to send.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.body.len() + 1_024);
        for line in std::iter::once(&self.start).chain(&self.fields) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

fn is_named(field: &str, name: &str) -> bool {
    field.split(':').next().is_some_and(|this| this.eq_ignore_ascii_case(name))
}

/// Reads a line without its end; returns `None` at the end of the input.
fn line(from: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    from.take(LINE_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(Error::other)
}

/// Reads a chunked body.
fn chunks(from: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(from)?.ok_or(ErrorKind::UnexpectedEof)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(Error::other)?;
        let end = body.len();
        body.resize(end + size, 0);
        from.read_exact(&mut body[end..])?;
        // The line end behind a chunk; behind the last one, trailers and an empty line.
        while let Some(rest) = line(from)? {
            if rest.is_empty() {
                break;
            }
        }
        if size == 0 {
            return Ok(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_sent_as_it_was_read() {
        let bytes = b"PUT /b/k?x=1 HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\nContent-Length: 3\r\n\r\nabc";
        let two = [&bytes[..], bytes].concat();
        let mut from = &two[..];
        for _ in 0..2 {
            let request = Message::request(&mut from).unwrap().unwrap();
            assert_eq!(request.bytes(), bytes);
            assert_eq!((request.method(), request.target()), ("PUT", ("/b/k", "x=1")));
            assert_eq!(request.field("if-none-match"), Some("*"));
        }
        assert_eq!(Message::request(&mut from).unwrap(), None);
        assert!(Message::request(&mut &bytes[..bytes.len() - 1]).is_err(), "the body is cut");
        assert!(Message::request(&mut &bytes[..30]).is_err(), "the header is cut");
    }

    #[test]
    fn a_chunked_reply_gets_a_length() {
        let bytes =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\nrest";
        let mut from = &bytes[..];
        let reply = Message::reply(&mut from, "GET").unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (200, &b"abcde"[..]));
        assert_eq!((reply.field("transfer-encoding"), reply.field("content-length")), (None, Some("5")));
        assert_eq!(from, b"rest");
    }

    #[test]
    fn the_reply_to_a_head_has_a_length_and_no_body() {
        let mut from = &b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"[..];
        let reply = Message::reply(&mut from, "HEAD").unwrap();
        assert_eq!((reply.field("content-length"), reply.body.len()), (Some("7"), 0));
        let error = Message::error("503 Slow Down", "SlowDown", "HEAD");
        assert_eq!((error.status(), error.body.len()), (503, 0));
    }
}
