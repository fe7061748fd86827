//! HBase's configuration keys, each declared once.
