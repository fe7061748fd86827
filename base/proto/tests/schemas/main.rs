//! Tests of the schemas in `proto/`.

mod compiled;
mod generated;
