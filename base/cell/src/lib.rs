//! Cells and keys in HBase's KeyValue layout, their order, and cell blocks.
