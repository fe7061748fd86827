//! The native HBase client.
