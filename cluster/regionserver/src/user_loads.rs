//! Requests by user and client, for the cluster's status: HBase's hbtop and `bellows top` show them.
//!
//! The requests are counted from sampled calls, so each number is an estimate.

use std::net::IpAddr;

use env::HashMap;
use env::sync::Mutex;
use proto::pb;

use crate::call_sample::{CallKind, CallObserver, CallSample, SAMPLED_ONE_IN};

/// Maximum number of pairs of user and client that are counted separately. All further pairs are counted together, as
/// `(others)` without an address.
const PAIRS_MAX: usize = 1_024;
const OTHERS: &str = "(others)";
const NOBODY: &str = "(nobody)";

/// Numbers of reads and writes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    reads: u64,
    writes: u64,
}

/// Numbers of requests by user and client address.
#[derive(Debug, Default)]
pub(crate) struct UserLoads {
    counts: Mutex<HashMap<String, HashMap<Option<IpAddr>, Count>>>,
}

impl UserLoads {
    fn add(&self, user: &str, client: IpAddr, rows: u64, is_write: bool) {
        // If another thread has the lock, the sample is not counted, so that no call waits here.
        let Some(mut counts) = self.counts.try_lock() else { return };
        let is_known = counts.get(user).is_some_and(|clients| clients.contains_key(&Some(client)));
        let is_full = !is_known && counts.values().map(HashMap::len).sum::<usize>() >= PAIRS_MAX;
        let (user, client) = if is_full { (OTHERS, None) } else { (user, Some(client)) };
        let clients = match counts.get_mut(user) {
            Some(clients) => clients,
            None => counts.entry(user.to_owned()).or_default(),
        };
        let count = clients.entry(client).or_default();
        if is_write {
            count.writes += rows;
        } else {
            count.reads += rows;
        }
    }

    /// Returns the counts in the form of the cluster's status.
    pub(crate) fn to_message(&self) -> Vec<pb::UserLoad> {
        let counts = self.counts.lock();
        let mut loads: Vec<pb::UserLoad> = counts
            .iter()
            .map(|(user, clients)| pb::UserLoad {
                user_name: user.clone(),
                client_metrics: clients
                    .iter()
                    .map(|(client, count)| pb::ClientMetrics {
                        host_name: client.map_or_else(|| OTHERS.to_owned(), |client| client.to_string()),
                        read_requests_count: Some(count.reads),
                        write_requests_count: Some(count.writes),
                        filtered_requests_count: Some(0),
                    })
                    .collect(),
            })
            .collect();
        loads.sort_by(|a, b| a.user_name.cmp(&b.user_name));
        loads
    }
}

impl CallObserver for UserLoads {
    fn sampled(&self, sample: &CallSample<'_>) {
        if sample.kind == CallKind::Other {
            return;
        }
        let user = sample.connection.user.effective.as_deref().unwrap_or(NOBODY);
        let rows = u64::from(SAMPLED_ONE_IN) * u64::from(sample.weight);
        self.add(user, sample.connection.remote.ip(), rows, sample.kind.is_write());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn reads_and_writes_are_counted_by_user_and_client() {
        let loads = UserLoads::default();
        for (user, number, is_write) in
            [("a", 1, true), ("a", 1, false), ("a", 2, true), ("b", 1, true), ("a", 1, true)]
        {
            loads.add(user, client(number), 16, is_write);
        }
        let message = loads.to_message();
        assert_eq!([&message[0].user_name[..], &message[1].user_name[..]], ["a", "b"]);
        let of_first =
            message[0].client_metrics.iter().find(|client| client.host_name == "0.0.0.1").expect("counted");
        assert_eq!((of_first.read_requests_count, of_first.write_requests_count), (Some(16), Some(32)));
        assert_eq!((message[0].client_metrics.len(), message[1].client_metrics.len()), (2, 1));
    }

    #[test]
    fn those_that_come_late_are_counted_together() {
        let loads = UserLoads::default();
        (0..2_000).for_each(|number| loads.add("a", client(number), 1, true));
        loads.add("a", client(5), 1, true);
        let message = loads.to_message();
        let rows = |load: &pb::UserLoad| {
            load.client_metrics.iter().filter_map(|client| client.write_requests_count).sum::<u64>()
        };
        assert_eq!((message[0].user_name.as_str(), rows(&message[0])), (OTHERS, 2_000 - PAIRS_MAX as u64));
        assert_eq!((message[1].client_metrics.len(), rows(&message[1])), (PAIRS_MAX, PAIRS_MAX as u64 + 1));
    }
}
