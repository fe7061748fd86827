//! HFile v3: reader and writer.
