//! Whether the machine's clock follows a time source.

use std::time::Duration;

/// What the system reports about its wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// Whether a program (chrony, ntpd, systemd-timesyncd, the host of a virtual machine) keeps the clock synchronized.
    pub is_synchronized: bool,
    /// The largest error of the clock, as estimated by that program.
    pub error_max: Duration,
}

/// Returns what the system reports about its wall clock. Fails if the system does not answer, as in some sandboxes.
#[cfg(target_os = "linux")]
pub fn clock_state() -> std::io::Result<ClockState> {
    // SAFETY: `timex` is plain numbers, for which zeros are valid; without modes the call only fills it in.
    #[expect(unsafe_code, reason = "rustix has no adjtimex, and nothing else tells")]
    let (answer, clock) = unsafe {
        let mut clock: libc::timex = std::mem::zeroed();
        let answer = libc::adjtimex(&raw mut clock);
        (answer, clock)
    };
    if answer < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(ClockState {
        is_synchronized: answer != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0,
        error_max: Duration::from_micros(u64::try_from(clock.maxerror).unwrap_or(0)),
    })
}

/// Always fails: only Linux reports the state of its clock.
#[cfg(not(target_os = "linux"))]
pub fn clock_state() -> std::io::Result<ClockState> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn reading_the_clocks_state_changes_nothing_and_gives_a_state_or_a_reason() {
        let before = std::time::SystemTime::now();
        match clock_state() {
            // For a clock that nothing synchronizes, the kernel reports an error of at most 16 s.
            Ok(state) => assert!(state.error_max <= Duration::from_secs(16 * 60), "{state:?}"),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
        assert!(before.elapsed().expect("the clock goes on") < Duration::from_secs(10));
    }
}
