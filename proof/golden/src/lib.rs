//! Files that Apache HBase wrote, the cells that HBase's own readers find in them, and tests that read them with this
//! project's readers.
//!
//! `hfiles/` has the files, for each a text with its cells as HBase printed them, and the Java program that made both;
//! its README describes the format of the texts.
