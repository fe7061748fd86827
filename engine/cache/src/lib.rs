//! The block cache.
