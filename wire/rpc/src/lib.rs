//! HBase's RPC: a sans-I/O core and thin drivers for server and client.
