//! Traffic by client address and user, estimated from samples.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use env::{WallTime, World};
use parking_lot::Mutex;
use regionserver::{CallSample, SAMPLED_ONE_IN};

/// Maximum number of clients in the table. A new client replaces the one that was idle for the longest time.
const CLIENTS_MAX: usize = 256;
/// Half-life of a count, in seconds.
const HALF_LIFE: f64 = 15.0;

/// A count that decays exponentially; its value gives a rate per second.
#[derive(Clone, Copy, Debug, Default)]
struct Fading {
    sum: f64,
    at: f64,
}

impl Fading {
    fn add(&mut self, by: f64, now: f64) {
        self.sum = self.faded(now) + by;
        self.at = now;
    }

    fn faded(&self, now: f64) -> f64 {
        self.sum * (-(now - self.at).max(0.0) / HALF_LIFE).exp2()
    }

    fn per_second(&self, now: f64) -> f64 {
        self.faded(now) * std::f64::consts::LN_2 / HALF_LIFE
    }
}

#[derive(Debug)]
struct Counted {
    version: String,
    reads: Fading,
    writes: Fading,
    full_scans: Fading,
    longest: Duration,
    first: WallTime,
    last: WallTime,
}

/// A client as a page shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientRow {
    pub(crate) address: IpAddr,
    pub(crate) user: String,
    pub(crate) version: String,
    /// Rows read per second, recently.
    pub(crate) reads: f64,
    pub(crate) writes: f64,
    /// Scans of whole tables, per second.
    pub(crate) full_scans: f64,
    /// Duration of the longest sampled call since the client is in the table.
    pub(crate) longest: Duration,
    pub(crate) first: WallTime,
    pub(crate) last: WallTime,
}

/// The traffic of all clients.
#[derive(Debug)]
pub(crate) struct ClientTable {
    world: World,
    clients: Mutex<HashMap<(IpAddr, String), Counted>>,
}

impl ClientTable {
    pub(crate) fn new(world: World) -> ClientTable {
        ClientTable { world, clients: Mutex::default() }
    }

    /// Records a sampled row. The sample is dropped if another thread is recording one at this moment.
    pub(crate) fn add(&self, sample: &CallSample<'_>) {
        let connection = sample.connection;
        let user = connection.user.effective.clone().unwrap_or_else(|| "(nobody)".to_owned());
        let version = || {
            connection
                .version
                .as_ref()
                .map_or_else(|| "says nothing".to_owned(), |version| version.text.clone())
        };
        let client = (connection.remote.ip(), user);
        let rows = f64::from(SAMPLED_ONE_IN) * f64::from(sample.weight);
        self.note(client, version, rows, sample.kind.is_write(), sample.is_full_scan, sample.took);
    }

    fn note(
        &self,
        client: (IpAddr, String),
        version: impl FnOnce() -> String,
        rows: f64,
        is_write: bool,
        is_full_scan: bool,
        took: Duration,
    ) {
        let Some(mut clients) = self.clients.try_lock() else { return };
        let (time, now) = (self.world.now(), self.now());
        if !clients.contains_key(&client) && clients.len() >= CLIENTS_MAX {
            let quiet =
                clients.iter().min_by_key(|(_, counted)| counted.last.0).map(|(client, _)| client.clone());
            quiet.and_then(|quiet| clients.remove(&quiet));
        }
        let counted = clients.entry(client).or_insert_with(|| Counted {
            version: version(),
            reads: Fading::default(),
            writes: Fading::default(),
            full_scans: Fading::default(),
            longest: Duration::ZERO,
            first: time,
            last: time,
        });
        if is_write {
            counted.writes.add(rows, now)
        } else {
            counted.reads.add(rows, now)
        }
        if is_full_scan {
            counted.full_scans.add(rows, now);
        }
        counted.longest = counted.longest.max(took);
        counted.last = time;
    }

    fn now(&self) -> f64 {
        self.world.now().0 as f64 / 1_000.0
    }

    /// Returns all clients, the busiest first.
    pub(crate) fn rows(&self) -> Vec<ClientRow> {
        let now = self.now();
        let mut rows: Vec<ClientRow> = self
            .clients
            .lock()
            .iter()
            .map(|((address, user), counted)| ClientRow {
                address: *address,
                user: user.clone(),
                version: counted.version.clone(),
                reads: counted.reads.per_second(now),
                writes: counted.writes.per_second(now),
                full_scans: counted.full_scans.per_second(now),
                longest: counted.longest,
                first: counted.first,
                last: counted.last,
            })
            .collect();
        rows.sort_by(|a, b| (b.reads + b.writes).total_cmp(&(a.reads + a.writes)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_recent_and_idle_clients_are_removed_first() {
        let world = World::simulated(1, WallTime(1_700_000_000_000));
        let table = ClientTable::new(world.clone());
        let note = |user: &str, full| {
            let client = (IpAddr::from([127, 0, 0, 1]), user.to_owned());
            table.note(client, || "2.6.4".to_owned(), 16.0, false, full, Duration::from_millis(3));
        };
        for _ in 0..1_000 {
            note("reader", false);
            world.advance(Duration::from_millis(160));
        }
        note("scanner", true);
        let rows = table.rows();
        assert_eq!((&rows[0].user[..], &rows[0].version[..]), ("reader", "2.6.4"));
        assert!((rows[0].reads / 100.0 - 1.0).abs() < 0.05, "{}", rows[0].reads);
        assert!(rows[1].full_scans > 0.0);
        world.advance(Duration::from_secs(600));
        assert!(table.rows()[0].reads < 0.001);
        (0..1_000).for_each(|number| note(&number.to_string(), false));
        assert_eq!(table.rows().len(), CLIENTS_MAX);
    }
}
