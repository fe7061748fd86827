//! The world outside: clocks, chance, threads, sockets.
