//! What all tasks share: the judge, the counts, and what the test does to the server at the moment.

use env::sync::Mutex;
use env::{WallTime, World};
use rpc::class;
use tokio::sync::watch;

use crate::activity::{Activity, AdminOperation};
use crate::availability::Availability;
use crate::expected::Expected;
use crate::tally::Tally;

/// A switch that counts how often it was set, so that its users notice if it was on for a while between two looks.
#[derive(Default)]
pub(crate) struct Toggle(Mutex<ToggleState>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ToggleState {
    is_on: bool,
    /// Number of calls of [`Toggle::set`].
    changes: u64,
}

impl Toggle {
    pub(crate) fn set(&self, is_on: bool) {
        let mut state = self.0.lock();
        *state = ToggleState { is_on, changes: state.changes + 1 };
    }

    pub(crate) fn now(&self) -> ToggleState {
        *self.0.lock()
    }

    /// Returns whether the switch was off in the state `before`, and was not set since then.
    pub(crate) fn stayed_off_since(&self, before: ToggleState) -> bool {
        !before.is_on && self.now() == before
    }
}

/// The state that all tasks share.
pub(crate) struct Shared {
    pub(crate) world: World,
    pub(crate) expected: Expected,
    pub(crate) tally: Tally,
    pub(crate) activity: Activity,
    pub(crate) availability: Availability,
    /// Whether operations of clients may fail: while a disk is full or broken.
    pub(crate) may_fail: Toggle,
    /// Whether the server is being killed, stopped, paused or recovered, or its disk is full or broken. Then
    /// administrators may fail, and no time of an operation is recorded.
    pub(crate) disturbed: Toggle,
    /// Whether writers may begin new operations.
    pub(crate) gate: watch::Sender<bool>,
    /// Whether the administrators end their work.
    pub(crate) is_ending: watch::Sender<bool>,
}

/// The state in which an operation began.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) moment: env::Moment,
    may_fail: ToggleState,
    disturbed: ToggleState,
}

impl Shared {
    pub(crate) fn new(expected: Expected) -> Shared {
        let world = World::real();
        Shared {
            expected,
            tally: Tally::default(),
            activity: Activity::new(world.clone()),
            availability: Availability::new(world.moment()),
            world,
            may_fail: Toggle::default(),
            disturbed: Toggle::default(),
            gate: watch::channel(true).0,
            is_ending: watch::channel(false).0,
        }
    }

    pub(crate) fn start(&self) -> Start {
        Start { moment: self.world.moment(), may_fail: self.may_fail.now(), disturbed: self.disturbed.now() }
    }

    /// Returns whether nothing was done to the server since `start`.
    pub(crate) fn is_undisturbed_since(&self, start: Start) -> bool {
        self.disturbed.stayed_off_since(start.disturbed)
    }

    /// Records the failure of an operation; complains if the operation had to succeed.
    pub(crate) fn failed(&self, start: Start, what: &str, error: &client::Error) {
        self.tally.count("failed");
        if self.may_fail.stayed_off_since(start.may_fail) {
            self.expected.complain(format!("{what} failed although nothing was broken: {error}"));
        }
    }

    /// Records the time of an operation, from its first attempt until now, unless the server was disturbed.
    pub(crate) fn measured(&self, start: Start, what: &'static str, row: &[u8]) {
        if self.is_undisturbed_since(start) {
            let now = self.world.moment();
            let doing =
                || format!("{} at {}", self.activity.between(start.moment, now), clock(self.world.now()));
            self.availability.record(start.moment, now, what, row, doing);
        }
    }

    /// Runs an operation of an administrator, and counts it. Complains if it fails although nothing was done to the
    /// server, unless the server may refuse it.
    pub(crate) async fn administrate<T>(
        &self,
        operation: AdminOperation,
        work: impl Future<Output = Result<T, client::Error>>,
    ) -> Result<T, client::Error> {
        let start = self.start();
        let number = self.activity.begin(operation);
        let outcome = work.await;
        self.activity.end(number);
        match &outcome {
            Ok(_) => self.tally.count(operation.name()),
            Err(error) if !self.is_undisturbed_since(start) => {
                self.tally.count("administration failed in a fault");
                self.activity.note_failure(operation, error);
            }
            Err(error) if operation.may_be_refused() && is_refusal(error) => {
                self.tally.count("refused to an administrator");
                self.activity.note_failure(operation, error);
            }
            Err(error) => self
                .expected
                .complain(format!("{} failed although nothing was broken: {error}", operation.name())),
        }
        outcome
    }
}

/// Returns whether a server has refused the operation for one of the reasons for which HBase refuses it, too: the region
/// is closed, is opening, was split or merged, or refers to files of its parents. A procedure that does not end in time
/// is not refused.
fn is_refusal(error: &client::Error) -> bool {
    let of_server = |exception: &rpc::Exception| {
        let classes = [class::NOT_SERVING_REGION, class::REGION_OPENING, class::UNKNOWN_REGION];
        let words = ["NOT mergeable", "NOT splittable", "Region not splittable"];
        classes.contains(&&*exception.class) || words.iter().any(|words| exception.message.contains(words))
    };
    match error {
        client::Error::GivenUp { last, .. } => {
            matches!(&**last, client::Error::Remote(last) if of_server(last))
        }
        client::Error::Remote(exception) | client::Error::Procedure { exception, .. } => of_server(exception),
        _ => false,
    }
}

/// Returns the time of day in UTC, as the server's log has it.
fn clock(now: WallTime) -> String {
    let (ms, seconds) = (now.0 % 1_000, now.0 / 1_000);
    format!("{:02}:{:02}:{:02}.{ms:03} UTC", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_the_time_of_day() {
        assert_eq!(clock(WallTime(1_700_000_000_042)), "22:13:20.042 UTC");
    }

    #[test]
    fn a_switch_that_was_on_meanwhile_did_not_stay_off() {
        let toggle = Toggle::default();
        let before = toggle.now();
        assert!(toggle.stayed_off_since(before));
        toggle.set(true);
        let during = toggle.now();
        toggle.set(false);
        assert!(!toggle.stayed_off_since(before));
        assert!(!toggle.stayed_off_since(during));
        assert!(toggle.stayed_off_since(toggle.now()));
    }
}
