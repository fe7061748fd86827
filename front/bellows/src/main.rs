//! The `bellows` binary: wiring only.

fn main() {}
