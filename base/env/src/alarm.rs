//! Timers with microsecond precision.
//!
//! The runtime's own timer counts in milliseconds. A caller that starts operations tens of microseconds apart would
//! need a sleeping thread that wakes it for each operation. An [`Alarm`] is a timer of the operating system, which the
//! runtime awaits like a socket. On systems without such timers, an alarm uses the runtime's timer.

use std::io;
use std::time::Duration;

/// A timer with microsecond precision; see the module documentation.
#[derive(Debug)]
pub struct Alarm(system::Alarm);

impl Alarm {
    /// Creates a timer in the runtime of the calling task.
    pub fn new() -> io::Result<Alarm> {
        system::Alarm::new().map(Alarm)
    }

    /// Waits for `time`. Only one wait may be under way: a second one replaces the time of the first.
    pub async fn wait(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() { Ok(()) } else { self.0.wait(time).await }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    #[derive(Debug)]
    pub(super) struct Alarm(AsyncFd<OwnedFd>);

    impl Alarm {
        #[expect(unsafe_code, reason = "the runtime is told of a descriptor")]
        pub(super) fn new() -> io::Result<Alarm> {
            let timer =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            // SAFETY: the `AsyncFd` owns the descriptor, which was made above, and no code takes it out again.
            let registered = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
            registered.map(Alarm).map_err(io::Error::from)
        }

        pub(super) async fn wait(&self, time: Duration) -> io::Result<()> {
            let once = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: time.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
            };
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
            loop {
                let mut ready = self.0.readable().await?;
                // If the future of an earlier wait was dropped, the timer may still be marked as readable although
                // nothing can be read. So the read may find nothing.
                if let Ok(rung) = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut [0; 8])?)) {
                    // The timer fires once for each setting. So there is nothing more to read.
                    ready.clear_ready();
                    return rung.map(|_| ());
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::time::Duration;

    #[derive(Debug)]
    pub(super) struct Alarm;

    impl Alarm {
        pub(super) fn new() -> io::Result<Alarm> {
            Ok(Alarm)
        }

        pub(super) async fn wait(&self, time: Duration) -> io::Result<()> {
            tokio::time::sleep(time).await;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Runtime, World};

    #[test]
    fn no_wait_ends_too_early_and_one_that_was_given_up_does_not_end_the_next() {
        let runtime = Runtime::start("test", 1).expect("a thread");
        let (sender, receiver) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let (world, alarm) = (World::real(), Alarm::new().expect("a timer"));
            for micros in [1, 0, 70, 300, 20] {
                let (began, time) = (world.moment(), Duration::from_micros(micros));
                alarm.wait(time).await.expect("it rings");
                sender.send(world.moment().since(began) >= time).expect("somebody waits");
                // The future is dropped before it was polled.
                drop(alarm.wait(Duration::from_nanos(1)));
                let given_up = crate::timeout(Duration::ZERO, alarm.wait(Duration::from_nanos(1))).await;
                assert!(given_up.is_none_or(|rung| rung.is_ok()));
            }
        });
        assert!((0..5).all(|_| receiver.recv().expect("no panic")));
    }
}
