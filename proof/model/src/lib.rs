//! A model of a region, computed in the slow and obvious way, and the streams of operations on which both are compared.
//!
//! - [`survival`]: which writes may be there after a death: the region over a place that fails in every act.
//! - [`stream`]: acts of a client, an operator and of fate, drawn from a seed or written down; a schema to do them on.
//! - [`reference`](mod@reference): every cell that was ever written, in one ordered list, and the rules of what a reader gets of it.
//! - [`rewrite`]: the rules of what a flush or compaction keeps.
//! - [`subject`]: does a stream on a real region and on the reference, and says where they differ.
//! - [`shrink`]: makes a stream that shows a difference shorter, and prints it as a test.

pub mod chance;
pub mod concurrent;
pub mod in_process;
pub mod linear;
pub mod live;
pub mod reference;
pub mod rewrite;
pub mod shrink;
pub mod stream;
pub mod subject;
pub mod survival;

pub use survival::{Column, Edit, Mismatch, Model, Visible, What};
