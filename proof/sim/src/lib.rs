//! A whole cluster in one thread, decided by a seed.
//!
//! The real engine, RPC, registry, master and native client run on simulated machines: threads are coroutines, time
//! jumps to the next event, and one source of random numbers decides the order of everything. Workloads run while
//! faults happen. Their judges report lost acknowledged writes and impossible reads. The same seed gives the same
//! transcript.
//!
//! It needs a build with debug assertions: release builds of the server do not contain the simulation.

#[cfg(debug_assertions)]
pub mod disk;
#[cfg(debug_assertions)]
mod events;
#[cfg(debug_assertions)]
pub mod faults;
#[cfg(debug_assertions)]
pub mod network;
#[cfg(debug_assertions)]
pub mod options;
pub mod planted;
#[cfg(debug_assertions)]
pub mod preset;
#[cfg(debug_assertions)]
pub mod random;
#[cfg(debug_assertions)]
pub mod replica;
#[cfg(debug_assertions)]
pub mod run;
#[cfg(debug_assertions)]
pub mod scheduler;
#[cfg(debug_assertions)]
pub mod server;
pub mod states;
#[cfg(debug_assertions)]
pub mod store;
#[cfg(debug_assertions)]
pub mod target;
#[cfg(debug_assertions)]
pub mod transcript;
#[cfg(debug_assertions)]
pub mod workload;

#[cfg(debug_assertions)]
pub use options::Options;
#[cfg(debug_assertions)]
pub use run::{Report, run};
#[cfg(debug_assertions)]
pub use transcript::Transcript;
