//! The declarations, by the part of the server that they concern. Names, units and defaults are those of HBase 2.6's
//! `hbase-default.xml` and of the constants in its code; a key of our own begins with `bellows.`.

use crate::Declared;

/// Declares keys; their doc comments are also the meanings that people are shown.
macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $constant:ident: $kind:ident = $name:literal, $default:literal;)*) => {
        $(
            $(#[doc = $doc])+
            pub static $constant: crate::Key<crate::key::$kind> =
                crate::Key::new($name, $default, concat!($($doc),+));
        )*

        /// Every key of this part.
        pub(crate) static ALL: &[&dyn crate::Declared] = &[$(&$constant),*];
    };
}

pub mod cache;
pub mod cluster;
pub mod master;
pub mod region;
pub mod regionserver;
pub mod rpc;
pub mod store;

/// Every key there is.
pub fn all() -> impl Iterator<Item = &'static dyn Declared> {
    [cache::ALL, cluster::ALL, master::ALL, regionserver::ALL, rpc::ALL, region::ALL, store::ALL]
        .into_iter()
        .flatten()
        .copied()
}
