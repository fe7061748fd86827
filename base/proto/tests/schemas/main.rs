//! What must hold of the schemas in `proto/`.

mod compiled;
mod generated;
