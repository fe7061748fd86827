//! The word to end, from whoever runs the process.

use std::io;

/// Waits for SIGTERM or SIGINT (ctrl-c). Must be called inside a runtime; from the first call on, neither signal ends
/// the process by itself.
#[cfg(unix)]
pub async fn told_to_stop() -> io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}

/// Waits for ctrl-c.
#[cfg(not(unix))]
pub async fn told_to_stop() -> io::Result<&'static str> {
    tokio::signal::ctrl_c().await.map(|()| "ctrl-c")
}
