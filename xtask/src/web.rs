//! Asking a web page, without a client's crate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What a server answers to a GET.
pub(crate) fn page(at: &str, path: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("http://{at}{path}: {error}");
    let mut stream = TcpStream::connect(at).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(failed)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n").map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(format!("http://{at}{path}: {}", answer.lines().next().unwrap_or("no answer"))),
    }
}
