//! Shows a dashboard of a running server in a terminal. The server renders it as text at a path of its web port; the command
//! fetches it again and again.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::args::Watch;
use crate::failure::Failure;
use crate::output;

/// Most bytes of a dashboard that are read.
const PAGE_SIZE_MAX: u64 = 1 << 20;
/// Clears the screen and moves to its upper left corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Fetches the dashboard at `path` again and again and passes it to `show`, until that fails because its reader has gone.
pub(crate) fn watch(
    options: &Watch,
    path: &str,
    mut show: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        loop {
            let picture = fetch(options.web, path).await.map_err(|error| {
                Failure::new(format!(
                    "--web {}: {error}; is the server up, and is this its web port?",
                    options.web
                ))
            })?;
            let clear = if options.once { "" } else { CLEAR };
            let shown = show(&format!("{clear}{picture}"));
            if shown.is_err() || options.once {
                return output::unless_closed(shown);
            }
            env::sleep(Duration::from_secs_f64(options.every)).await;
        }
    })
}

async fn fetch(web: std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = env::dial(web).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: bellows\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(PAGE_SIZE_MAX).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.split_once("\r\n\r\n") {
        Some((head, picture)) if head.starts_with("HTTP/1.1 200") => Ok(picture.to_owned()),
        _ => {
            let status = answer.lines().next().unwrap_or("nothing").to_owned();
            Err(std::io::Error::other(format!("it answered {status:?}, expected a dashboard")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_picture_is_said_with_where_it_came_from() {
        let listener = env::listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let web = listener.local_addr().expect("bound");
        let answering = tokio::task::LocalSet::new();
        answering.spawn_local(async move {
            for answer in ["HTTP/1.1 200 OK\r\nA: b\r\n\r\npicture", "HTTP/1.1 404 Not Found\r\n\r\n"] {
                let (mut stream, _) = listener.accept().await.expect("a caller");
                // All of it: a socket closed with something unread takes the answer back.
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    stream.read_buf(&mut asked).await.expect("a request");
                }
                stream.write_all(answer.as_bytes()).await.expect("answered");
            }
        });
        answering
            .run_until(async {
                assert_eq!(fetch(web, "/cache").await.expect("a picture"), "picture");
                assert!(fetch(web, "/cache").await.expect_err("none").to_string().contains("404"));
            })
            .await;
    }
}
