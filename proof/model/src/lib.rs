//! A simple model of a region, and the streams of operations on which model and region are compared.
//!
//! - [`survival`]: which writes may be there after a crash, over a storage that fails in each of its operations.
//! - [`stream`]: operations of clients and operators, and faults, generated from a seed or written by hand, with a
//!   schema.
//! - [`reference`](mod@reference): every cell that was ever written, in one ordered list, and the rules by which
//!   readers see them.
//! - [`rewrite`]: which cells a flush or compaction keeps.
//! - [`subject`]: applies a stream to a real region and to the reference, and reports the first difference.
//! - [`shrink`]: shortens a stream that shows a difference, and prints it as a test.

pub mod concurrent;
pub mod in_process;
pub mod linear;
pub mod live;
pub mod random;
pub mod reference;
pub mod rewrite;
pub mod shrink;
pub mod stream;
pub mod subject;
pub mod survival;

pub use survival::{Column, Edit, Mismatch, Model, Visible, What};
