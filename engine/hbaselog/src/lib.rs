//! Reads write-ahead log files that a killed server of Apache HBase 2.x has left.
//!
//! ```text
//! file      "PWAL" · WALHeader, delimited · entry, again and again · trailer, if the file was closed
//! entry     WALKey, delimited · following_kv_count cells
//! cell      plain: length 4B · KeyValue with tags        compressed: see [`dictionary`] and [`cells`]
//! trailer   WALTrailer · its size 4B · "LAWP"
//! ```
//!
//! FSHLog and AsyncFSWAL write the same format, which files in `recovered.edits` have, too. A file without a trailer
//! may end anywhere. An incomplete last entry was never acknowledged; [`Reader::torn`] returns the number of its bytes.
//! In a file with a trailer, and before the last entry of any file, incomplete bytes are damage.
//!
//! The reader refuses encrypted files, codecs of cells other than HBase's own, and values compressed by anything but
//! GZ, with an error that names them. Source: HBase 2.6 `ProtobufLogWriter`, `AbstractProtobufWALReader`,
//! `WALCellCodec`, `WALKeyImpl`.

mod cells;
mod dictionary;
mod error;
mod reader;
mod source;

#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use reader::{Entry, Reader};
