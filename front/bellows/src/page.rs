//! Requests a page from the web port of a running server.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Maximum size of a page that is read, in bytes.
const PAGE_SIZE_MAX: u64 = 64 << 20;
/// Maximum time until a page has been read.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no page.
#[derive(Debug)]
pub(crate) enum Error {
    /// The server did not answer, or not in time.
    Io(io::Error),
    /// The answer is an error status, or is not HTTP.
    Status {
        /// The HTTP status code; 0 if the answer is not HTTP.
        code: u16,
        /// The body of the answer, or its first line if it is not HTTP.
        body: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::Status { code: 0, body } => write!(f, "it answered {body:?}, expected HTTP"),
            Error::Status { code, body } => {
                write!(f, "it answered {code}, expected 200: {}", body.lines().next().unwrap_or_default())
            }
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

/// Returns the page at `path` of the web port `web`. Fails after [`PATIENCE`], and with [`Error::Status`] for an answer
/// that is not status 200.
pub(crate) async fn get(web: SocketAddr, path: &str) -> Result<String, Error> {
    let answer = env::timeout(PATIENCE, fetch(web, path)).await;
    let answer = answer.unwrap_or_else(|| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", PATIENCE.as_secs())))
    })?;
    let first = answer.lines().next().unwrap_or_default();
    let code = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse::<u16>().ok());
    match (code, answer.split_once("\r\n\r\n")) {
        (Some(200), Some((_, body))) => Ok(body.to_owned()),
        (Some(code), Some((_, body))) => Err(Error::Status { code, body: body.to_owned() }),
        _ => Err(Error::Status { code: 0, body: first.to_owned() }),
    }
}

/// Returns the whole answer, or its first [`PAGE_SIZE_MAX`] bytes. HTTP 1.0 has no chunks, and the server closes the
/// connection after the answer.
async fn fetch(web: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = env::dial(web).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {web}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(PAGE_SIZE_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_no_page_is_quoted_in_the_error() {
        let listener = env::listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let web = listener.local_addr().expect("bound");
        let answering = tokio::task::LocalSet::new();
        answering.spawn_local(async move {
            for answer in [
                "HTTP/1.1 200 OK\r\nA: b\r\n\r\npage",
                "HTTP/1.1 503 No\r\n\r\nit starts\n",
                "SSH-2.0\r\n\r\n",
            ] {
                let (mut stream, _) = listener.accept().await.expect("a caller");
                // The request must be read to its end. If a socket is closed with unread bytes, the client may not get
                // the answer.
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    stream.read_buf(&mut asked).await.expect("a request");
                }
                stream.write_all(answer.as_bytes()).await.expect("answered");
            }
        });
        answering
            .run_until(async {
                assert_eq!(get(web, "/cache").await.expect("an answer"), "page");
                let error = get(web, "/cache").await.expect_err("none");
                assert_eq!(error.to_string(), "it answered 503, expected 200: it starts");
                let error = get(web, "/cache").await.expect_err("none");
                assert_eq!(error.to_string(), "it answered \"SSH-2.0\", expected HTTP");
                assert!(matches!(get(web, "/cache").await, Err(Error::Io(_))), "nobody listens");
            })
            .await;
    }
}
