//! HBase's protobuf messages, written for this project.
