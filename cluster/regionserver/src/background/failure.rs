//! Reports failures of background work to the operator, with the remedy.

use std::time::Duration;

use region::Region;

use crate::RegionServer;

/// Runs `work` and turns a panic into an error, which is counted, logged and retried.
pub(super) fn attempt<T>(work: impl FnOnce() -> Result<T, region::Error>) -> Result<T, region::Error> {
    env::caught(work).unwrap_or_else(|words| Err(region::Error::Broken(words)))
}

/// Logs the failure with region, cause and remedy, and the time until the next attempt.
pub(super) fn log_failure(what: &str, region: &Region, error: &region::Error, wait: Duration) {
    let (info, remedy) = (region.info(), remedy(error));
    tracing::error!(region = %info, table = %info.table(), %error, remedy,
        again_in_ms = wait.as_millis() as u64, "{what} failed; nothing is lost, it is tried again");
}

fn remedy(error: &region::Error) -> &'static str {
    let of_storage = |error: &storage::Error| match error.kind() {
        storage::Kind::Full => "free some space on the disk of the data directory",
        storage::Kind::ReadOnly => "make the data directory writable",
        storage::Kind::NotFound | storage::Kind::TooShort => "restore the named file from a copy",
        _ => "check the disk of the data directory, or the store if it is in one",
    };
    match error {
        region::Error::Storage(error) | region::Error::InDoubt { cause: error, .. } => of_storage(error),
        region::Error::Log(wal::Error::Full { .. }) => "free some space on the disk of the data directory",
        region::Error::Log(_) | region::Error::Aborted(_) => {
            "check the disk of the log, or the store if it is in one, then start the server again"
        }
        region::Error::Fenced { .. } => "end this server: another one serves its data",
        region::Error::Corrupt { .. } | region::Error::File(_) => "restore the named file from a copy",
        region::Error::Broken(_) => "report it with the panic's location from the log",
        _ => "none, unless it repeats",
    }
}

impl RegionServer {
    /// If a flush or compaction found the disk full, deletes the log's spare files, so that the next attempt finds
    /// space. The log itself does not run out of space while it has spare files.
    pub(super) fn give_way(&self, error: &region::Error) {
        if matches!(error, region::Error::Storage(error) if error.kind() == storage::Kind::Full) {
            self.foundation().log.remove_spares();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_like_any_other() {
        assert_eq!(attempt(|| Ok(3)).expect("done"), 3);
        let locked = || region::Busy::RowLocked { row: "row".to_owned(), waited_ms: 1 };
        let too_busy = attempt::<()>(|| Err(locked().into()));
        assert!(matches!(too_busy, Err(region::Error::TooBusy(_))));
        let broken = attempt(|| Ok([1, 2][std::hint::black_box(2)])).expect_err("out of range");
        assert!(
            broken.to_string().contains("invariant") && broken.to_string().contains("index is 2"),
            "{broken}"
        );
        assert!(remedy(&broken).contains("report"));
    }
}
