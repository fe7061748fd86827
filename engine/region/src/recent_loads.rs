//! The bulk loads that a region remembers, so that a repeated call is recognised.

use std::collections::VecDeque;

/// Maximum number of loaded files that a region remembers.
const REMEMBERED_MAX: usize = 4_096;

/// The digests with which the names of recently loaded files begin, oldest first. Locked during a load.
#[derive(Debug, Default)]
pub(crate) struct RecentLoads(VecDeque<String>);

impl RecentLoads {
    pub(crate) fn add(&mut self, name: String) {
        if self.0.len() == REMEMBERED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(name);
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|loaded| loaded == name)
    }
}
