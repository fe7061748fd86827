//! Writes a server's log to standard error, and its latest lines to the web pages.

use std::sync::Arc;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, reload};
use web::{LevelSwitch, LogRing};

/// Starts the log at level `INFO`, and returns the switch for its level.
pub(crate) fn start(ring: &Arc<LogRing>) -> LevelSwitch {
    let (filter, handle) = reload::Layer::new(LevelFilter::INFO);
    let ring = Arc::clone(ring);
    // The server continues if nobody reads its log, so errors of writing are ignored.
    let lines = fmt::layer()
        .with_writer(move || ring.tee(std::io::stderr()))
        .with_ansi(false)
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    let reader = handle.clone();
    LevelSwitch {
        level: Box::new(move || {
            let level = reader.clone_current().unwrap_or(LevelFilter::OFF);
            level.to_string().to_uppercase()
        }),
        set: Box::new(move |wanted| {
            let level = level(wanted)?;
            handle.reload(level).map_err(|error| format!("the level stays as it is: {error}"))
        }),
    }
}

fn level(wanted: &str) -> Result<LevelFilter, String> {
    match wanted.to_uppercase().as_str() {
        "ERROR" => Ok(LevelFilter::ERROR),
        "WARN" => Ok(LevelFilter::WARN),
        "INFO" => Ok(LevelFilter::INFO),
        "DEBUG" => Ok(LevelFilter::DEBUG),
        "TRACE" | "ALL" => Ok(LevelFilter::TRACE),
        "OFF" => Ok(LevelFilter::OFF),
        _ => Err(format!("level is {wanted:?}, expected ERROR, WARN, INFO, DEBUG, TRACE or OFF")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_hbases_names() {
        assert_eq!(level("debug"), Ok(LevelFilter::DEBUG));
        assert!(level("LOUD").expect_err("no level").contains("expected ERROR"));
    }
}
