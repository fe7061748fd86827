//! Estimates, from the price list, what the object store will cost in a day. The server prints the estimate at its
//! start.

use std::fmt;
use std::time::Duration;

use objectstore::Prices;

/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Approximate number of requests that the check of the store sends at the start, one after the other.
const PROBED: f64 = 14.0;

/// The requests that an idle server makes by itself, and how fast its store is.
pub(crate) struct IdleServer {
    /// How often the server checks whether it still owns the log or the root: one GET each time.
    pub(crate) owner_period: Duration,
    /// How often the server searches for garbage: one LIST for each store and one for the archive.
    pub(crate) search_period: Duration,
    /// Number of stores; `None` if their files are not in the object store.
    pub(crate) stores: Option<usize>,
    /// How often the server writes the history of its web pages, if its files are in the object store: one GET and one PUT
    /// each time.
    pub(crate) history_period: Duration,
    /// How long the check of the store took at the start.
    pub(crate) probe: Duration,
    /// Whether the log is in the object store.
    pub(crate) has_log: bool,
    /// Whether the log is elsewhere, and the server checks whether it still owns the root in the object store.
    pub(crate) checks_root: bool,
    /// The time between two syncs of the log that its budget permits; `None` without a budget.
    pub(crate) sync_period_min: Option<Duration>,
}

/// Returns the time between two PUT requests that cost `budget` in a day; `None` if the budget is 0, which means any
/// price, or if requests cost nothing.
pub(crate) fn put_period(prices: &Prices, budget: f64) -> Option<Duration> {
    let seconds = DAY * prices.put / 1_000.0 / budget;
    (budget > 0.0 && prices.put > 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// The estimated cost of a day.
#[derive(Debug)]
pub(crate) enum Estimate {
    /// The cost of a server that accepts writes.
    Primary {
        /// The cost while nobody writes.
        idle: f64,
        /// The cost of the log while clients write without a pause; `None` if the log is not in the store.
        busy: Option<f64>,
        request: Duration,
    },
    /// The cost of a read replica while the primary is idle, and while it is not. Reads that no cache answers cost
    /// more.
    Replica { idle: f64, busy: f64 },
}

impl Estimate {
    pub(crate) fn of(prices: &Prices, idle: &IdleServer) -> Estimate {
        let each = |period: Duration| if period.is_zero() { 0.0 } else { DAY / period.as_secs_f64() };
        let looks = if idle.has_log || idle.checks_root { each(idle.owner_period) } else { 0.0 };
        let lists = idle.stores.map_or(0.0, |stores| each(idle.search_period) * (stores + 1) as f64);
        let histories = idle.stores.map_or(0.0, |_| each(idle.history_period));
        let request = idle.probe.div_f64(PROBED).max(Duration::from_millis(1));
        let period = wal::sync_interval(request).max(idle.sync_period_min.unwrap_or_default());
        let busy = idle.has_log.then(|| each(period) * prices.put / 1_000.0);
        let requests = (looks + histories) * prices.get + histories * prices.put + lists * prices.list;
        Estimate::Primary { idle: requests / 1_000.0, busy, request }
    }

    /// Returns the cost of a replica that reads the log with two GET requests each time: once every `idle` while
    /// nothing new comes, with a third request every 20th time, and once every `poll` while something does. It also looks for
    /// another place of the log and for changed descriptors.
    pub(crate) fn of_replica(prices: &Prices, idle: Duration, poll: Duration) -> Estimate {
        let looks = |pause: Duration| DAY / pause.as_secs_f64().max(0.001) * prices.get / 1_000.0;
        let further = looks(regionserver::PLACE_PERIOD) + looks(replica::REREAD);
        Estimate::Replica { idle: 2.05 * looks(idle) + further, busy: 2.0 * looks(poll) + further }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Estimate::Primary { idle, busy, request } => {
                write!(f, "the store costs about ${idle:.4} on a day without writes")?;
                match busy {
                    Some(busy) => write!(
                        f,
                        ", and up to ${busy:.2} for the log on a day of writes without a pause, at {} ms a request",
                        request.as_millis()
                    ),
                    None => Ok(()),
                }
            }
            Estimate::Replica { idle, busy } => write!(
                f,
                "to follow the log costs about ${idle:.4} on a day without writes, and up to ${busy:.2} on others"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMAZON: Prices = Prices { put: 0.005, get: 0.0004, list: 0.005, delete: 0.0, received: 0.0 };

    fn idle() -> IdleServer {
        IdleServer {
            owner_period: Duration::from_secs(10),
            search_period: Duration::from_secs(86_400),
            stores: Some(99),
            history_period: Duration::from_secs(600),
            probe: Duration::from_millis(700),
            has_log: true,
            checks_root: false,
            sync_period_min: None,
        }
    }

    #[test]
    fn an_idle_day_is_cheap_and_a_busy_day_is_estimated() {
        let text = Estimate::of(&AMAZON, &idle()).to_string();
        // An idle day has 8,640 GET and 100 LIST requests, and 144 GET and 144 PUT for the history. A busy one has 6,912,000
        // PUT: in the time that one takes, four are sent.
        assert_eq!(
            text,
            "the store costs about $0.0047 on a day without writes, and up to $34.56 for the log on a day of writes without a \
             pause, at 50 ms a request"
        );
        let without_log = Estimate::of(&AMAZON, &IdleServer { has_log: false, ..idle() }).to_string();
        assert_eq!(without_log, "the store costs about $0.0013 on a day without writes");
        let on_disk = IdleServer { has_log: false, checks_root: true, ..idle() };
        assert_eq!(
            Estimate::of(&AMAZON, &on_disk).to_string(),
            "the store costs about $0.0047 on a day without writes"
        );
        let log_alone = Estimate::of(&AMAZON, &IdleServer { stores: None, ..idle() }).to_string();
        assert!(log_alone.starts_with("the store costs about $0.0035 on a day"), "{log_alone}");
    }

    #[test]
    fn a_budget_bounds_the_estimate_of_a_busy_day() {
        let period = put_period(&AMAZON, 5.0);
        assert_eq!(period, Some(Duration::from_micros(86_400)));
        let text = Estimate::of(&AMAZON, &IdleServer { sync_period_min: period, ..idle() }).to_string();
        assert!(text.contains("up to $5.00 for the log on a day of writes without a pause"), "{text}");
        assert_eq!(put_period(&AMAZON, 0.0), None, "no budget");
        assert_eq!(put_period(&Prices::NONE, 5.0), None, "requests cost nothing");
        assert!(put_period(&AMAZON, f64::MIN_POSITIVE) > Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_replica_pays_for_its_polls() {
        let estimate = Estimate::of_replica(&AMAZON, Duration::from_secs(1), Duration::from_millis(100));
        let text = estimate.to_string();
        assert_eq!(
            text,
            "to follow the log costs about $0.0732 on a day without writes, and up to $0.69 on others"
        );
    }
}
