//! The declarations, grouped by the part of the server that they configure.
//!
//! Names and units are those of HBase 2.6 (`hbase-default.xml` and the constants in its code), and so are most
//! defaults. Keys that HBase does not have begin with `bellows.`.

use crate::Declared;

/// Declares keys. `bellows keys` and the configuration reference show their doc comments.
macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $constant:ident: $kind:ident = $name:literal, $default:literal;)*) => {
        $(
            $(#[doc = $doc])+
            pub static $constant: crate::Key<crate::key::$kind> =
                crate::Key::new($name, $default, concat!($($doc),+));
        )*

        /// All keys of this part of the server.
        pub(crate) static ALL: &[&dyn crate::Declared] = &[$(&$constant),*];
    };
}

pub mod cache;
pub mod cluster;
pub mod master;
pub mod normalizer;
pub mod region;
pub mod regionserver;
pub mod rpc;
pub mod split;
pub mod store;

/// The keys of one part of the server.
#[derive(Clone, Copy)]
pub struct Part {
    /// The heading of this part in the configuration reference.
    pub title: &'static str,
    /// The keys, in order of declaration.
    pub keys: &'static [&'static dyn Declared],
}

/// All parts, in the order of the configuration reference.
pub static PARTS: [Part; 9] = [
    Part { title: "Cluster and registry", keys: cluster::ALL },
    Part { title: "Master", keys: master::ALL },
    Part { title: "Normalizer", keys: normalizer::ALL },
    Part { title: "Region server", keys: regionserver::ALL },
    Part { title: "Requests and connections", keys: rpc::ALL },
    Part { title: "Writes, memstore and log", keys: region::ALL },
    Part { title: "Store files and compaction", keys: store::ALL },
    Part { title: "Splits", keys: split::ALL },
    Part { title: "Block cache", keys: cache::ALL },
];

/// All declared keys.
pub fn all() -> impl Iterator<Item = &'static dyn Declared> {
    PARTS.iter().flat_map(|part| part.keys).copied()
}
