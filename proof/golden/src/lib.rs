//! Files that Apache HBase wrote, the cells that HBase's own readers find in them, and tests that read them with this
//! project's readers.
//!
//! `hfiles/` holds the files, the texts and the Java program that made both; its README explains the texts.
