//! Counts of operations by kind.

use std::collections::BTreeMap;

use env::sync::Mutex;

/// Counts by kind.
#[derive(Default)]
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    pub(crate) fn count(&self, kind: &'static str) {
        *self.0.lock().entry(kind).or_default() += 1;
    }

    /// Returns `KIND=COUNT` for each kind, separated by commas.
    pub(crate) fn line(&self) -> String {
        let parts: Vec<String> =
            self.0.lock().iter().map(|(kind, count)| format!("{kind}={count}")).collect();
        parts.join(",")
    }
}
