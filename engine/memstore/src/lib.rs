//! The in-memory store of a column family.
