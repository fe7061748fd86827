//! Reads write-ahead log files that a killed server of Apache HBase 2.x has left.
//!
//! ```text
//! file      "PWAL" · WALHeader, delimited · entry, again and again · trailer, if the file was closed
//! entry     WALKey, delimited · following_kv_count cells
//! cell      plain: length 4B · KeyValue with tags        compressed: see [`dictionary`] and [`cells`]
//! trailer   WALTrailer · its size 4B · "LAWP"
//! ```
//!
//! The formats of FSHLog and AsyncFSWAL are the same, and so is that of the files in `recovered.edits`. A file without
//! a trailer may end anywhere. An incomplete last entry was never acknowledged, and [`Reader::torn`] returns its bytes.
//! In a file with a trailer, and before the last entry of any file, incomplete bytes are damage.
//!
//! Encrypted files, codecs of cells other than HBase's own, and values compressed by anything but GZ are refused by
//! name. Source: HBase 2.6 `ProtobufLogWriter`, `AbstractProtobufWALReader`, `WALCellCodec`, `WALKeyImpl`.

mod cells;
mod dictionary;
mod error;
mod reader;
mod source;

#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use reader::{Entry, Reader};
