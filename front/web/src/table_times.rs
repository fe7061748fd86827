//! Durations of calls by table, from samples.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use telemetry::{Histogram, Spread};

/// Maximum number of tables; further ones are not recorded.
const TABLES_MAX: usize = 256;

/// The call times of one table.
#[derive(Debug, Default)]
struct Times {
    reads: Histogram,
    writes: Histogram,
}

/// Times of calls by table.
#[derive(Debug, Default)]
pub(crate) struct TableTimes(ArcSwap<HashMap<Box<[u8]>, Arc<Times>>>);

impl TableTimes {
    /// Records a sampled call.
    pub(crate) fn record(&self, table: &[u8], is_write: bool, took: std::time::Duration) {
        let tables = self.0.load();
        let times = match tables.get(table) {
            Some(times) => Arc::clone(times),
            None if tables.len() >= TABLES_MAX => return,
            None => {
                let times = Arc::new(Times::default());
                self.0.rcu(|tables| {
                    let mut tables = HashMap::clone(tables);
                    tables.entry(table.into()).or_insert_with(|| Arc::clone(&times));
                    tables
                });
                times
            }
        };
        if is_write { times.writes.record_time(took) } else { times.reads.record_time(took) }
    }

    /// Returns the times of reads and writes of each table since the start.
    pub(crate) fn spreads(&self) -> HashMap<String, (Spread, Spread)> {
        let tables = self.0.load();
        tables
            .iter()
            .map(|(table, times)| {
                let name = table.escape_ascii().to_string();
                (name, (times.reads.spread(), times.writes.spread()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reads_and_writes_of_tables_are_told_apart() {
        let times = TableTimes::default();
        for _ in 0..3 {
            times.record(b"t", false, Duration::from_millis(1));
        }
        times.record(b"ns:u", true, Duration::from_millis(1));
        let spreads = times.spreads();
        assert_eq!((spreads["t"].0.count(), spreads["t"].1.count()), (3, 0));
        assert_eq!(spreads["ns:u"].1.count(), 1);
        (0..1_000).for_each(|number: u32| times.record(&number.to_le_bytes(), true, Duration::ZERO));
        assert_eq!(times.spreads().len(), TABLES_MAX);
    }
}
