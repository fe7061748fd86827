//! The region server's services.
