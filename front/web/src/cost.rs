//! What the object store costs: how much the requests of each account have cost in each of the last hours.
//!
//! The metric `bellows_store_cost` of the crate `objectstore` counts since the start of the process. With every
//! measurement the console reads it, and records by how much it grew in each full hour of the clock.

use std::collections::{BTreeMap, VecDeque};

use telemetry::Exposition;

/// Number of hours that are kept.
pub(crate) const HOURS: usize = 24;
const HOUR_MS: i64 = 3_600_000;

/// The cost of each account, by name, in the currency of the price list.
pub(crate) type Costs = BTreeMap<String, f64>;

/// The costs of the last hours.
#[derive(Debug, Default)]
pub(crate) struct CostHours {
    /// The current hour, in hours since 1970, and the costs at its beginning.
    running: Option<(i64, Costs)>,
    /// The costs of each earlier hour, newest first.
    past: VecDeque<Costs>,
}

impl CostHours {
    /// Records what has been spent since the start, at `time` in ms since 1970.
    pub(crate) fn note(&mut self, time: i64, metrics: &Exposition) {
        let (hour, spent) = (time.div_euclid(HOUR_MS), spent(metrics));
        let Some((running, at_begin)) = &mut self.running else {
            // Requests before the first measurement belong to the start of the server.
            self.running = Some((hour, Costs::new()));
            return;
        };
        if hour <= *running {
            return;
        }
        self.past.push_front(difference(&spent, at_begin));
        let skipped = usize::try_from(hour - *running - 1).unwrap_or(HOURS).min(HOURS);
        (0..skipped).for_each(|_| self.past.push_front(Costs::new()));
        self.past.truncate(HOURS);
        self.running = Some((hour, spent));
    }

    /// Returns what the current hour has cost so far.
    pub(crate) fn running(&self, metrics: &Exposition) -> Costs {
        self.running.as_ref().map(|(_, begin)| difference(&spent(metrics), begin)).unwrap_or_default()
    }

    /// Returns the costs of the earlier hours, newest first.
    pub(crate) fn past(&self) -> impl Iterator<Item = &Costs> {
        self.past.iter()
    }
}

/// Returns what each account has cost since the start.
pub(crate) fn spent(metrics: &Exposition) -> Costs {
    let account =
        |sample: &telemetry::Sample| Some((sample.label("account")?.to_owned(), sample.value.as_f64()));
    metrics.samples("bellows_store_cost").iter().filter_map(account).collect()
}

fn difference(now: &Costs, then: &Costs) -> Costs {
    now.iter()
        .map(|(account, cost)| (account.clone(), (cost - then.get(account).unwrap_or(&0.0)).max(0.0)))
        .collect()
}

/// Formats an amount of money: two digits after the point, and four for less than 10 cents.
pub(crate) fn money(amount: f64) -> String {
    match amount {
        0.0 => "$0".to_owned(),
        small if small < 0.000_05 => "< $0.0001".to_owned(),
        small if small < 0.1 => format!("${small:.4}"),
        amount => format!("${amount:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(costs: &[(&str, f64)]) -> Exposition {
        let mut out = Exposition::default();
        costs
            .iter()
            .for_each(|(account, cost)| out.gauge("bellows_store_cost", "", &[("account", account)], *cost));
        out
    }

    #[test]
    fn each_hour_has_what_it_added() {
        let mut hours = CostHours::default();
        hours.note(0, &metrics(&[("t", 1.0)]));
        hours.note(HOUR_MS / 2, &metrics(&[("t", 2.0)]));
        assert_eq!(hours.running(&metrics(&[("t", 2.0)])), Costs::from([("t".to_owned(), 2.0)]));
        hours.note(HOUR_MS, &metrics(&[("t", 3.0)]));
        hours.note(HOUR_MS + 1, &metrics(&[("t", 3.5), ("u", 1.0)]));
        let now = metrics(&[("t", 4.0), ("u", 1.0)]);
        assert_eq!(hours.running(&now), Costs::from([("t".to_owned(), 1.0), ("u".to_owned(), 1.0)]));
        // As if the machine had been suspended for three hours.
        hours.note(5 * HOUR_MS, &now);
        let past: Vec<f64> = hours.past().map(|costs| costs.values().sum()).collect();
        assert_eq!(past, [0.0, 0.0, 0.0, 2.0, 3.0]);
        for hour in 6..40 {
            hours.note(hour * HOUR_MS, &now);
        }
        assert_eq!(hours.past().count(), HOURS);
    }

    #[test]
    fn small_amounts_have_more_digits() {
        let texts = [0.0, 0.000_01, 0.001_23, 0.05, 1.234].map(money);
        assert_eq!(texts, ["$0", "< $0.0001", "$0.0012", "$0.0500", "$1.23"]);
    }
}
