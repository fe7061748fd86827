//! Requests of web pages, without an HTTP library.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Returns the answer to a GET.
pub(crate) fn page(at: &str, path: &str) -> Result<String, String> {
    ask(at, path, &format!("GET {path} HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n"))
}

/// Submits an action on the page of `table`, as a user does.
pub(crate) fn act(at: &str, table: &str, action: &str) -> Result<(), String> {
    let form = page(at, &format!("/table/{table}"))?;
    let token = form.split_once("name=\"token\" value=\"").and_then(|(_, rest)| rest.split('"').next());
    let token = token.ok_or_else(|| format!("the page of {table} has no form"))?;
    let (path, body) = (format!("/table/{table}/{action}"), format!("token={token}&confirm={table}"));
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {at}\r\nOrigin: http://{at}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    ask(at, &path, &request).map(drop)
}

fn ask(at: &str, path: &str, request: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("http://{at}{path}: {error}");
    let mut stream = TcpStream::connect(at).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(format!("http://{at}{path}: {}", answer.lines().next().unwrap_or("no answer"))),
    }
}
