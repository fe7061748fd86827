//! Tests of the services with real messages, against regions in memory.

mod admin;
mod aggregate;
mod background;
pub(crate) mod bench;
mod bulk_load;
mod cache_faults;
mod call_span;
mod compactions;
mod examples;
mod get_and_mutate;
mod local;
mod multi;
mod replica;
mod scan;
mod stored;
