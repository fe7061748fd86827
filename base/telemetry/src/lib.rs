//! Counters and events.
