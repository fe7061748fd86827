//! Reads files that Bellows flushed and compacted with HBase's own tool and classes.

use super::{compile, java, succeed};
use crate::Outcome;
use crate::server::{Server, fresh_folder};

/// Writes to a server of its own, and reads the server's files directly.
pub(crate) fn suite() -> Outcome {
    let class_path = compile("gateway")?;
    crate::server::build()?;
    let folder = fresh_folder("hfile")?;
    let server = Server::start_in(&folder, &[])?;
    let folder = folder.display().to_string();
    // A wrong byte, which is a part of this test, is only a warning for HBase. Warnings are not logged.
    let properties = [("proof.log", "ERROR")];
    succeed("the reading of files", java(&class_path, &properties, &["HFiles", &server.rpc, &folder]))?;
    server.stop()
}
