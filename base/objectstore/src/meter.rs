//! What a bucket costs: requests by kind, bytes and money, in total and for each account.
//!
//! An account is the thing to which a file belongs: a table, the log, or others. The code that opens the bucket chooses
//! the account of each file ([`Options::account_of`](crate::Options::account_of)). Requests are counted where they
//! are sent, in [`connector`](crate::connector), also those that the library repeats.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::sync::Mutex;
use storage::FileName;
use telemetry::{Exposition, Source};

/// Maximum number of accounts. Requests of all further accounts are counted under [`OTHERS`].
const ACCOUNTS_MAX: usize = 1_000;
/// The account for the requests of all accounts after the first `ACCOUNTS_MAX`.
pub const OTHERS: &str = "(others)";
/// Bytes in what providers call a gigabyte.
const GIGABYTE: f64 = (1_u64 << 30) as f64;

/// A function that returns the account to which the requests for a file are counted.
pub type AccountOf = fn(&FileName) -> String;

/// A kind of request, as providers bill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Writes a whole object.
    Put,
    /// Reads an object or a part of it.
    Get,
    /// Lists names.
    List,
    /// Deletes an object.
    Delete,
    /// One of the requests of a multipart upload.
    Multipart,
}

impl RequestKind {
    const ALL: [RequestKind; 5] =
        [RequestKind::Put, RequestKind::Get, RequestKind::List, RequestKind::Delete, RequestKind::Multipart];

    const fn name(self) -> &'static str {
        match self {
            RequestKind::Put => "put",
            RequestKind::Get => "get",
            RequestKind::List => "list",
            RequestKind::Delete => "delete",
            RequestKind::Multipart => "multipart",
        }
    }
}

/// What a provider charges, in dollars or any other currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Price of 1,000 PUT and multipart requests.
    pub put: f64,
    /// Price of 1,000 GET requests.
    pub get: f64,
    /// Price of 1,000 LIST requests.
    pub list: f64,
    /// Price of 1,000 DELETE requests.
    pub delete: f64,
    /// Price of 2^30 bytes that leave the store.
    pub received: f64,
}

impl Prices {
    /// The prices of a store that charges nothing.
    pub const NONE: Prices = Prices { put: 0.0, get: 0.0, list: 0.0, delete: 0.0, received: 0.0 };

    /// Returns the price of one request.
    const fn request(&self, kind: RequestKind) -> f64 {
        let thousand = match kind {
            RequestKind::Put | RequestKind::Multipart => self.put,
            RequestKind::Get => self.get,
            RequestKind::List => self.list,
            RequestKind::Delete => self.delete,
        };
        thousand / 1_000.0
    }
}

/// Counts of requests, and of the bytes of their bodies.
#[derive(Debug, Default)]
pub struct RequestCounts {
    requests: [AtomicU64; RequestKind::ALL.len()],
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    /// Number of the GET requests that were the second ones of their reads.
    hedged: AtomicU64,
}

impl RequestCounts {
    /// Returns the numbers of PUT, GET, LIST, DELETE and multipart requests so far.
    pub fn all(&self) -> [u64; 5] {
        self.requests.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the price of all requests and received bytes so far.
    fn cost(&self, prices: &Prices) -> f64 {
        let requests = RequestKind::ALL.iter().zip(self.all());
        let of_requests: f64 = requests.map(|(kind, count)| prices.request(*kind) * count as f64).sum();
        of_requests + prices.received * self.received_bytes.load(Ordering::Relaxed) as f64 / GIGABYTE
    }
}

/// Counts the requests of a bucket, or of several.
#[derive(Debug)]
pub struct Meter {
    account_of: AccountOf,
    prices: Prices,
    total: Arc<RequestCounts>,
    accounts: Mutex<BTreeMap<String, Arc<RequestCounts>>>,
}

impl Meter {
    pub(crate) fn new(account_of: AccountOf, prices: Prices) -> Meter {
        Meter { account_of, prices, total: Arc::default(), accounts: Mutex::default() }
    }

    pub(crate) fn total(&self) -> &RequestCounts {
        &self.total
    }

    /// Returns the account to which the requests for the file `name` are counted.
    pub(crate) fn account(&self, name: &FileName) -> Account {
        let total = Arc::clone(&self.total);
        let account = (self.account_of)(name);
        let mut accounts = self.accounts.lock();
        if let Some(known) = accounts.get(&account) {
            return Account { total, own: Arc::clone(known) };
        }
        let account = if accounts.len() < ACCOUNTS_MAX { account } else { OTHERS.to_owned() };
        Account { total, own: Arc::clone(accounts.entry(account).or_default()) }
    }
}

impl Source for Meter {
    fn show(&self, out: &mut Exposition) {
        let help = "Requests to the object store, with repeated ones.";
        for (kind, requests) in RequestKind::ALL.iter().zip(self.total.all()) {
            out.counter("bellows_store_requests_total", help, &[("kind", kind.name())], requests);
        }
        let help = "Reads that were sent a second time, because the object store did not answer in time.";
        out.counter("bellows_store_hedged_total", help, &[], self.total.hedged.load(Ordering::Relaxed));
        let help = "Bytes sent to and received from the object store.";
        for (way, bytes) in ways(&self.total) {
            out.counter("bellows_store_bytes_total", help, &[("way", way)], bytes);
        }
        let accounts = self.accounts.lock().clone();
        for (account, counts) in &accounts {
            let help = "Requests to the object store for a table, the log, or other things.";
            for (kind, requests) in RequestKind::ALL.iter().zip(counts.all()) {
                let labels = [("account", &account[..]), ("kind", kind.name())];
                out.counter("bellows_store_account_requests_total", help, &labels, requests);
            }
            let help = "Bytes to and from the object store for a table, the log, or other things.";
            for (way, bytes) in ways(counts) {
                out.counter(
                    "bellows_store_account_bytes_total",
                    help,
                    &[("account", account), ("way", way)],
                    bytes,
                );
            }
        }
        let help = "Price of the requests since the start, by the price list of the configuration.";
        for (account, counts) in &accounts {
            out.gauge("bellows_store_cost", help, &[("account", account)], counts.cost(&self.prices));
        }
    }
}

/// Counts the requests of one account, and adds them to the total.
pub(crate) struct Account {
    total: Arc<RequestCounts>,
    own: Arc<RequestCounts>,
}

impl Account {
    /// Counts a request that sends `sent_bytes` bytes.
    pub(crate) fn requested(&self, kind: RequestKind, sent_bytes: usize) {
        for counts in [&self.total, &self.own] {
            counts.requests[kind as usize].fetch_add(1, Ordering::Relaxed);
            counts.sent_bytes.fetch_add(sent_bytes as u64, Ordering::Relaxed);
        }
    }

    /// Counts the second request of a read.
    pub(crate) fn hedged(&self) {
        self.requested(RequestKind::Get, 0);
        self.total.hedged.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts `bytes` bytes that the store returned.
    pub(crate) fn received(&self, bytes: usize) {
        for counts in [&self.total, &self.own] {
            counts.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

fn ways(counts: &RequestCounts) -> [(&'static str, u64); 2] {
    let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    [("sent", bytes(&counts.sent_bytes)), ("received", bytes(&counts.received_bytes))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { put: 5.0, get: 0.4, list: 5.0, delete: 0.0, received: 0.09 };

    fn first_folder(name: &FileName) -> String {
        name.as_str().split('/').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn an_account_has_its_requests_its_bytes_and_their_price() {
        let meter = Meter::new(first_folder, PRICES);
        let account = |name: &str| meter.account(&FileName::new(name));
        let (table, log) = (account("t/a"), account("log/1"));
        for _ in 0..2_000 {
            log.requested(RequestKind::Put, 10);
        }
        table.requested(RequestKind::Get, 0);
        table.received(1 << 30);
        table.requested(RequestKind::Delete, 0);
        table.requested(RequestKind::Multipart, 5);
        let mut out = Exposition::default();
        meter.show(&mut out);
        assert_eq!(meter.total().all(), [2_000, 1, 0, 1, 1]);
        assert_eq!(out.sum("bellows_store_account_requests_total", Some(("account", "log"))), 2_000.0);
        assert_eq!(out.sum("bellows_store_account_bytes_total", Some(("account", "log"))), 20_000.0);
        let cost = |account: &str| out.sum("bellows_store_cost", Some(("account", account)));
        assert!((cost("log") - 10.0).abs() < 1e-9, "{}", cost("log"));
        assert!((cost("t") - (0.0004 + 0.09 + 0.005)).abs() < 1e-9, "{}", cost("t"));
    }

    #[test]
    fn accounts_are_limited_and_nothing_is_lost() {
        let meter = Meter::new(first_folder, PRICES);
        for number in 0..ACCOUNTS_MAX + 5 {
            meter.account(&FileName::new(format!("t{number}/a"))).requested(RequestKind::Put, 0);
        }
        let mut out = Exposition::default();
        meter.show(&mut out);
        assert_eq!(out.sum("bellows_store_account_requests_total", Some(("account", OTHERS))), 5.0);
        assert_eq!(out.sum("bellows_store_account_requests_total", None), (ACCOUNTS_MAX + 5) as f64);
    }
}
