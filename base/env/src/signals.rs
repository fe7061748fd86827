//! Signals that ask the process to end.

use std::future::Future;
use std::io;

/// Listens for SIGTERM and SIGINT (ctrl-c). The returned future waits for the first of them and returns its name.
/// Must be called inside a runtime. From the call on, neither signal ends the process by itself.
#[cfg(unix)]
pub fn told_to_stop() -> io::Result<impl Future<Output = &'static str> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// Listens for ctrl-c; the returned future waits for it.
#[cfg(windows)]
pub fn told_to_stop() -> io::Result<impl Future<Output = &'static str> + Send> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
        "ctrl-c"
    })
}
