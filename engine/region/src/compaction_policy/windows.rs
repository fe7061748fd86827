//! Windows of time whose lengths grow with their age (HBase's `ExponentialCompactionWindowFactory`).
//!
//! ```text
//!  ├──────────────────── 4 w ───────────────────┼── w ──┼── w ──┼── w ──┼── w ──┤ now
//! ```
//!
//! Windows are aligned: window `p` of length `w` is `[p · w, (p + 1) · w)`. Going back in time, the length of windows
//! grows where the number `p` of the current window is a multiple of the number of windows per tier.

use std::cmp::Ordering;

use super::DateTieredOptions;

/// A window of time, in ms since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    length: i64,
    position: i64,
    per_tier: i64,
    /// Windows that begin before this time do not get longer.
    tier_cutoff: i64,
}

impl Window {
    /// Returns the window that contains `now`.
    pub(super) fn incoming(options: &DateTieredOptions, now: i64) -> Window {
        let length = options.base_window_ms.max(1);
        let age_max = options.tier_age_max_ms.unwrap_or(options.age_max_ms);
        Window {
            length,
            position: now / length,
            per_tier: options.windows_per_tier.max(2),
            tier_cutoff: now.checked_sub(age_max).unwrap_or(i64::MIN),
        }
    }

    /// Compares the window with a timestamp: `Equal` if the timestamp is in the window, `Greater` if it is older.
    pub(super) fn compare(&self, timestamp: i64) -> Ordering {
        self.position.cmp(&timestamp.div_euclid(self.length))
    }

    /// Returns the window before this one.
    pub(super) fn earlier(self) -> Window {
        let longer = self.length.saturating_mul(self.per_tier);
        if self.position % self.per_tier > 0 || self.start().saturating_sub(longer) < self.tier_cutoff {
            return Window { position: self.position - 1, ..self };
        }
        Window { length: longer, position: self.position / self.per_tier - 1, ..self }
    }

    /// Returns the first millisecond of the window.
    pub(super) fn start(&self) -> i64 {
        self.length.checked_mul(self.position).unwrap_or(i64::MIN)
    }
}
