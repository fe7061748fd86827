//! The services, driven by real messages against regions in a place in memory.

mod admin;
mod background;
mod bench;
mod cache_faults;
mod get_and_mutate;
mod local;
mod multi;
mod scan;
mod stored;
