//! The master's services: the catalog, tables, namespaces, and the procedures that change them.

pub mod procedure;
pub mod switches;
