//! The read-only ZooKeeper answerer for clients.
