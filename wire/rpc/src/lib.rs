//! HBase's RPC: a sans-I/O core and thin drivers for server and client.
//!
//! A server is a set of [`Services`], each answering [`Call`]s by name with an [`Answer`]. What a service may count on:
//!
//! * The frame was read whole, its limits were kept, the cell block behind the parameter is already decompressed.
//! * A call is made in the task that read its frame. An [`Answer::Now`] goes out with all other answers of the same
//!   read; an [`Answer::Later`] is driven by the same task while further frames are served.
//! * A panic inside a service costs that one call.
//!
//! What this crate does not know: the messages of the services. It knows the envelope only.

mod answers;
mod call;
pub mod client;
mod codec;
mod coming;
mod counters;
mod envelope;
mod exception;
mod flight;
mod options;
mod output;
mod pb;
pub mod server;
mod service;
mod session;

pub use answers::{Answers, Share};
pub use call::{Answer, Call, ClientVersion, ConnectionInfo, Reply, Text, User};
pub use codec::{Codec, Compressor, Error as CompressionError};
pub use coming::Coming;
pub use counters::Snapshot;
pub use exception::{Exception, class};
pub use options::Options;
pub use output::Output;
pub use server::{Bound, Server};
pub use service::{Service, Services};
pub use session::{Ending, Limits, Request, Session, Step};
