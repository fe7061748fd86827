//! The master's services: catalog, tables, namespaces, procedures.
