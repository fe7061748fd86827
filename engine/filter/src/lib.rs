//! HBase's filters and comparators over borrowed cells.
