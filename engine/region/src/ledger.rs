//! Write amplification of each table, in bytes.
//!
//! A byte that a client writes usually goes to the log once, to a file when memory is flushed, and to another file with
//! every compaction that takes this file. A table's write amplification is its file bytes per client byte. It may be
//! below one, because cells can be dropped before they reach a file. The account of a table stays when its regions
//! close.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::sync::Mutex;
use proto::TableName;

/// The bytes written for one table.
#[derive(Debug, Default)]
pub struct Account {
    user: AtomicU64,
    log: AtomicU64,
    flushed: AtomicU64,
    compacted: AtomicU64,
}

/// The bytes written for a table up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Bytes of cells that clients wrote, in KeyValue layout.
    pub user: u64,
    /// Bytes of the log records with these cells.
    pub log: u64,
    /// Bytes of the store files that flushes wrote, without MOB files.
    pub flushed: u64,
    /// Bytes of the store files that compactions wrote, without MOB files.
    pub compacted: u64,
}

impl Balance {
    /// Returns the number of file bytes for each byte that clients wrote; `None` before anything was written.
    pub fn amplification(&self) -> Option<f64> {
        (self.user > 0).then(|| (self.flushed + self.compacted) as f64 / self.user as f64)
    }
}

impl Account {
    pub(crate) fn wrote(&self, user: u64, log: u64) {
        self.user.fetch_add(user, Ordering::Relaxed);
        self.log.fetch_add(log, Ordering::Relaxed);
    }

    pub(crate) fn flushed(&self, bytes: u64) {
        self.flushed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn compacted(&self, bytes: u64) {
        self.compacted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the current totals.
    pub fn balance(&self) -> Balance {
        Balance {
            user: self.user.load(Ordering::Relaxed),
            log: self.log.load(Ordering::Relaxed),
            flushed: self.flushed.load(Ordering::Relaxed),
            compacted: self.compacted.load(Ordering::Relaxed),
        }
    }
}

/// The accounts of all tables since the server started. All clones of a server's options share one.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<TableName, Arc<Account>>>);

impl Ledger {
    /// Returns the account of a table, which is created empty on first use.
    pub(crate) fn of(&self, table: &TableName) -> Arc<Account> {
        Arc::clone(self.0.lock().entry(table.clone()).or_default())
    }

    /// Returns the totals of all tables.
    pub fn balances(&self) -> Vec<(TableName, Balance)> {
        self.0.lock().iter().map(|(table, account)| (table.clone(), account.balance())).collect()
    }
}
