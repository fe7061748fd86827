//! Hash maps whose iteration order is the same in each run of a simulation, whatever its seed.
//!
//! The standard library seeds each map from the operating system, so that clients cannot choose keys that collide. The
//! maps of this module are seeded in the same way. Inside a simulation they all share one constant, because a run must be
//! repeatable.

#[cfg(not(debug_assertions))]
pub use std::hash::RandomState as HashState;

#[cfg(debug_assertions)]
pub use simulated::HashState;

/// The standard library's map with [`HashState`]. Create one with `default()`.
pub type HashMap<K, V, S = HashState> = std::collections::HashMap<K, V, S>;

/// The standard library's set with [`HashState`]. Create one with `default()`.
pub type HashSet<T, S = HashState> = std::collections::HashSet<T, S>;

/// Returns a seed for a hash function of the caller's own. Nobody outside the process can know it.
pub fn hash_seed() -> u64 {
    use std::hash::BuildHasher;
    HashState::default().hash_one(0x5eed)
}

#[cfg(debug_assertions)]
mod simulated {
    use std::hash::{BuildHasher, DefaultHasher, RandomState};

    /// The seed of one hash map.
    #[derive(Clone, Debug)]
    pub enum HashState {
        /// A seed from the operating system.
        System(RandomState),
        /// The seed that all maps of a simulation share.
        Simulated,
    }

    impl Default for HashState {
        fn default() -> HashState {
            match crate::simulation::is_active() {
                true => HashState::Simulated,
                false => HashState::System(RandomState::new()),
            }
        }
    }

    impl BuildHasher for HashState {
        type Hasher = DefaultHasher;

        fn build_hasher(&self) -> DefaultHasher {
            match self {
                HashState::System(state) => state.build_hasher(),
                HashState::Simulated => DefaultHasher::new(),
            }
        }
    }
}
